"""A stranger's words in Markdown and YAML: they stay words, whatever they look like."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from heterofedsyn.errors import plain

TODO = "TODO"
"""Marks what a person must write."""

_TAME = re.compile(r"[^`|\\<>&$]+")
_PROSE = re.compile(r"[^\W\d_](?:[^\W_]|[ ,.()-])*")


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


def prose(text: str) -> str:
    """Words of a stranger as they are if nothing in them can be taken for anything else.

    >>> prose("Length of stay, 2024"), prose("a <b>")
    ('Length of stay, 2024', '<code>a&#32;&#60;b&#62;</code>')
    """
    return text if _PROSE.fullmatch(text) else code(text)


def single(text: str) -> str:
    """Words in a sentence of plain text.

    >>> single("length of stay")
    "'length of stay'"
    """
    return f"'{plain(text)}'"


@dataclass(frozen=True)
class Todo:
    """What only a person knows and has to write.

    Attributes:
        words: what to write.
        said: what is known of it, which stands before.
        value: stands there until then, with the words as a remark beside it.
        optional: whether the whole line is a remark.
    """

    words: str
    said: str = ""
    value: str | None = None
    optional: bool = False

    @property
    def marked(self) -> str:
        """The words after the mark that people search for."""
        return f"{self.said} {TODO}: {self.words}".strip()


def todos(values: Any) -> int:
    """How much there is to be written in a tree of mappings, lists and tuples.

    >>> todos({"name": "TODO", "use": [Todo("what for")]})
    1
    """
    if isinstance(values, Mapping):
        return sum(map(todos, values.values()))
    if isinstance(values, list | tuple):
        return sum(map(todos, values))
    return isinstance(values, Todo)


def yaml_lines(values: Mapping[str, Any], indent: int = 0) -> list[str]:
    """A mapping as YAML that every reader takes alike: texts are quoted, or blocks of lines.

    Keys are ours; a value is a mapping, a list of texts, a tuple of lines, a text or a number, and
    instead of a text there may be something to be written.
    """
    lines, margin = [], " " * indent
    for key, value in values.items():
        if isinstance(value, Mapping):
            lines += [f"{margin}{key}:", *yaml_lines(value, indent + 2)]
        elif isinstance(value, Todo) and value.optional:
            lines.append(f"{margin}# {key}: {plain(value.marked)}")
        elif isinstance(value, list):
            lines += [f"{margin}{key}:", *(f"{margin}  - {_scalar(each)}" for each in value)]
        elif isinstance(value, tuple):
            # The 2 says where lines begin, so that one may begin with a blank.
            lines.append(f"{margin}{key}: |2-")
            lines += [f"{margin}  {plain(_text(line))}" for line in value]
        else:
            lines.append(f"{margin}{key}: {_scalar(value)}")
    return lines


def _text(value: str | Todo) -> str:
    return value.marked if isinstance(value, Todo) else value


def _scalar(value: Any) -> str:
    if isinstance(value, Todo) and value.value is not None:
        return f"{_scalar(value.value)}  # {plain(value.marked)}"
    if isinstance(value, str | Todo):
        return json.dumps(plain(_text(value)), ensure_ascii=False)
    text = repr(value)
    mantissa, e, power = text.partition("e")
    # Readers of YAML 1.1 take 1e-09 for a text.
    return f"{mantissa}.0e{power}" if e and "." not in mantissa else text
