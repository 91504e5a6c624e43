"""A stranger's words in Markdown and YAML: they stay words, whatever they look like."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from heterofedsyn.errors import plain

_TAME = re.compile(r"[^`|\\<>&$]+")


def code(text: str) -> str:
    """Words that no reader of Markdown takes for anything else, in a table or out of one.

    >>> code("length_of_stay"), code("a|b")
    ('`length_of_stay`', '<code>a&#124;b</code>')
    """
    shown = plain(text)
    if _TAME.fullmatch(shown) and shown == shown.strip():
        return f"`{shown}`"
    escaped = "".join(
        letter if letter.isalnum() and letter.isascii() else f"&#{ord(letter)};" for letter in shown
    )
    return f"<code>{escaped}</code>"


def single(text: str) -> str:
    """Words in a sentence of plain text.

    >>> single("length of stay")
    "'length of stay'"
    """
    return f"'{plain(text)}'"


class Noted(str):
    """A value with a remark beside it for whoever edits the file."""

    remark: str

    def __new__(cls, value: str, remark: str) -> Noted:
        noted = super().__new__(cls, value)
        noted.remark = remark
        return noted


class Unsaid(str):
    """Stands for a value that only a person knows: a remark, and no value."""


def yaml_lines(values: Mapping[str, Any], indent: int = 0) -> list[str]:
    """A mapping as YAML that every reader takes alike: texts are quoted, or blocks of lines.

    Keys are ours; a value is a mapping, a list of texts, a tuple of lines, a text or a number.
    """
    lines, margin = [], " " * indent
    for key, value in values.items():
        if isinstance(value, Mapping):
            lines += [f"{margin}{key}:", *yaml_lines(value, indent + 2)]
        elif isinstance(value, Unsaid):
            lines.append(f"{margin}# {key}: {plain(value)}")
        elif isinstance(value, list):
            lines += [f"{margin}{key}:", *(f"{margin}  - {_scalar(each)}" for each in value)]
        elif isinstance(value, tuple):
            # The 2 says where lines begin, so that one may begin with a blank.
            lines.append(f"{margin}{key}: |2-")
            lines += [f"{margin}  {plain(line)}" for line in value]
        else:
            lines.append(f"{margin}{key}: {_scalar(value)}")
    return lines


def _scalar(value: Any) -> str:
    if isinstance(value, Noted):
        return f"{json.dumps(plain(value), ensure_ascii=False)}  # {plain(value.remark)}"
    if isinstance(value, str):
        return json.dumps(plain(value), ensure_ascii=False)
    text = repr(value)
    mantissa, e, power = text.partition("e")
    # Readers of YAML 1.1 take 1e-09 for a text.
    return f"{mantissa}.0e{power}" if e and "." not in mantissa else text
