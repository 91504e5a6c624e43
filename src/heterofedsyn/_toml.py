"""TOML text of plain values, as people would write it.

Reading is the standard library's. Writing is ours: a schema's text is part of every release, whose
bytes stay as they are, and tomli-w would give each of a column's values a line of its own.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import date
from typing import Any

_WIDTH = 100
_MOST_PARTS = 50
_PART = r"""(?:"(?:[^"\\\n]|\\.)*+"?+|'[^'\n]*+'?+|[\w-]++)"""
_NAME = re.compile(rf"{_PART}(?:[ \t]*+\.[ \t]*+{_PART})*+")
_LONG_NAME = re.compile(rf"{_PART}(?:[ \t]*+\.[ \t]*+{_PART}){{{_MOST_PARTS},}}+")
_NO_NAME = re.compile(
    r"""(?:"{3}(?:[^"\\]|\\.|"{1,2}(?!"))*+"{0,5}+|'{3}(?:[^']|'{1,2}(?!'))*+'{0,5}+"""
    r"""|\#[^\n]*+|[^\w"'\#-]++)++""",
    re.DOTALL,
)


class NotToml(ValueError):
    """A text that is no TOML, or none that anybody would write; says where and why in one line."""


def from_toml(text: str) -> dict[str, Any]:
    """What a TOML text says, in time and memory that grow with its length alone.

    Raises:
        NotToml: if it says nothing.
    """
    _check_names(text)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise NotToml(str(error)) from None
    except RecursionError:
        raise NotToml("it is nested too deeply") from None
    except ValueError:
        raise NotToml("a number in it is too long, or a date is none") from None


def _check_names(text: str) -> None:
    """Refuse a dotted name on which the parser would spend the square of its parts in time."""
    place = 0
    while place < len(text):
        if match := _NO_NAME.match(text, place):
            place = match.end()
        elif match := _NAME.match(text, place):
            if match.end() - place > 2 * _MOST_PARTS and _LONG_NAME.match(text, place):
                line = text.count("\n", 0, place) + 1
                raise NotToml(f"line {line} holds a name of more than {_MOST_PARTS} parts")
            place = match.end()


class Inline(dict[str, Any]):
    """A mapping that is written in one line."""


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
    return isinstance(value, Mapping) and not isinstance(value, Inline)


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
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(k)} = {_literal(v)}' for k, v in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_literal, value))}]"
    return value.isoformat() if isinstance(value, date) else repr(value)
