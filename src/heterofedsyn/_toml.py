"""TOML text of plain values, as people would write it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

_WIDTH = 100


def to_toml(values: Mapping[str, Any]) -> str:
    """A mapping as TOML: plain values first, then tables, then lists of tables; None is left out.

    >>> print(to_toml({"label": "age", "columns": [{"name": "age", "bins": 3}]}))
    label = "age"
    <BLANKLINE>
    [[columns]]
    name = "age"
    bins = 3
    """
    return "\n".join(_blocks("", "", values))


def _blocks(head: str, path: str, values: Mapping[str, Any]) -> Iterator[str]:
    tables = {key: value for key, value in values.items() if _is_table(value)}
    lines = [_line(k, v) for k, v in values.items() if k not in tables and v is not None]
    if lines or head:
        yield head + "".join(lines)
    for key, value in tables.items():
        name = f"{path}{_key(key)}"
        if isinstance(value, Mapping):
            yield from _blocks(f"[{name}]\n", f"{name}.", value)
        else:
            for entry in value:
                yield from _blocks(f"[[{name}]]\n", f"{name}.", entry)


def _is_table(value: object) -> bool:
    if isinstance(value, list | tuple):
        return bool(value) and isinstance(value[0], Mapping)
    return isinstance(value, Mapping)


def _line(key: str, value: object) -> str:
    if not isinstance(value, list | tuple):
        return f"{_key(key)} = {_literal(value)}\n"
    items = [_literal(item) for item in value]
    line = f"{_key(key)} = [{', '.join(items)}]\n"
    if len(line) <= _WIDTH:
        return line
    return f"{_key(key)} = [\n" + "".join(f"  {item},\n" for item in items) + "]\n"


def _key(key: str) -> str:
    bare = key.isascii() and key.replace("_", "a").replace("-", "a").isalnum()
    return key if bare else _literal(key)


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # JSON escapes what TOML must have escaped, except DEL.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return value.isoformat() if isinstance(value, datetime) else repr(value)
