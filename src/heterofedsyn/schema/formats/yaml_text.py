"""The part of YAML that files of settings use: mappings, lists, scalars, in blocks or in brackets.

Strict: what has another meaning to another reader (anchors, tags, octal numbers, dates without
quotes, keys given twice) is refused with its line. Words mean what they mean to PyYAML: `yes` is
true.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from heterofedsyn.errors import SchemaError

_DEEPEST = 20
_BLANK = re.compile(r"(?:[ ]*(?:#[^\n]*)?\r?(?:\n|\Z))+")
_END = re.compile(r"[ \t]*(?:(?<=[ \t])#[^\n]*)?\r?(?:\n|\Z)")
_PLAIN = re.compile(
    r"(?:[^ \t\r\n:#]|:(?=[^ \t\r\n])|(?<=[^ \t\r\n])#|[ \t]+(?=[^ \t\r\n#:]|:[^ \t\r\n]))+"
)
_PLAIN_IN_FLOW = re.compile(
    r"(?:[^ \t\r\n:#,\[\]{}]|:(?=[^ \t\r\n,\[\]{}])|(?<=[^ \t\r\n])#"
    r"|[ \t]+(?=[^ \t\r\n#:,\[\]{}]))+"
)
_DOUBLE = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_SINGLE = re.compile(r"'((?:[^']|'')*+)'", re.DOTALL)
_ESCAPE = re.compile(
    r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|\r?\n[ \t]*|.)", re.DOTALL
)
_ESCAPES = {
    **{"0": "\0", "a": "\a", "b": "\b", "t": "\t", "n": "\n", "v": "\v", "f": "\f", "r": "\r"},
    **{"e": "\x1b", " ": " ", '"': '"', "/": "/", "\\": "\\", "_": "\xa0", "N": "\x85"},
    **{"L": "\u2028", "P": "\u2029"},
}
_FOLD = re.compile(r"[ \t]*\r?\n((?:[ \t]*\r?\n)*)[ \t]*")
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_REAL = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+][0-9]+)?")
_ODD = re.compile(
    r"[-+]?(?:0[0-9_]+|0[xb][0-9a-fA-F_]+|[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?"
    r"|[0-9][0-9]*_[0-9_]*|\.(?i:inf|nan))|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt ].*)?|=|<<"
)
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **{form: True for w in ("true", "yes", "on") for form in (w, w.title(), w.upper())},
    **{form: False for w in ("false", "no", "off") for form in (w, w.title(), w.upper())},
}


def from_yaml(text: str) -> Any:
    """What a YAML text says.

    >>> from_yaml("age: {min: 0}\\nward:\\n- a\\n- 'no'")
    {'age': {'min': 0}, 'ward': ['a', 'no']}

    Raises:
        SchemaError: naming the line that is not understood.
    """
    return _Reader(text.removeprefix("\ufeff")).read()


def to_yaml(values: Mapping[str, Any]) -> str:
    """A mapping of mappings of scalars and lists as YAML; text is in quotes.

    >>> print(to_yaml({"ward": {"values": ["a", "no"]}}), end="")
    "ward":
      values:
      - "a"
      - "no"
    """
    lines = []
    for name, said in values.items():
        lines.append(f"{_scalar(name)}:")
        for key, value in said.items():
            if isinstance(value, list):
                lines += [f"  {key}:", *(f"  - {_scalar(item)}" for item in value)]
            else:
                lines.append(f"  {key}: {_scalar(value)}")
    return "".join(f"{line}\n" for line in lines)


def _scalar(value: object) -> str:
    if isinstance(value, float):
        text = repr(value)
        return text if "." in text else text.replace("e", ".0e")
    if not isinstance(value, str):
        return json.dumps(value)
    text = json.dumps(value, ensure_ascii=False)
    return re.sub(
        r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]", lambda m: f"\\u{ord(m[0]):04x}", text
    )


class _Reader:
    """A text and how far it is read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def read(self) -> Any:
        if re.match(r"---[ \t]*\r?\n", self._text):
            self._at = self._text.index("\n") + 1
        self._skip()
        value = self._block(-1, 0)
        self._skip()
        if self._at < len(self._text):
            self._fail("this is not part of what is above")
        return value

    def _fail(self, why: str) -> None:
        line = self._text.count("\n", 0, self._at) + 1
        raise SchemaError(f"line {line}: {why}")

    @property
    def _column(self) -> int:
        return self._at - self._text.rfind("\n", 0, self._at) - 1

    def _next(self, many: int = 1) -> str:
        return self._text[self._at : self._at + many]

    def _skip(self) -> None:
        """On to the next thing of a following line."""
        if self._column == 0 and (blank := _BLANK.match(self._text, self._at)):
            self._at = blank.end()
        while self._next() == " ":
            self._at += 1
        if self._next() == "\t":
            self._fail("a tab in front of a line; use spaces")

    def _end_line(self) -> None:
        end = _END.match(self._text, self._at)
        if end is None:
            self._fail("this cannot be read; put the text in quotes")
            return
        self._at = end.end()

    def _check_form(self) -> None:
        if re.match(r"[&*!|>%@`]|\?(?:\s|\Z)", self._next(2)):
            self._fail("this form of YAML is not read; write plain names and values, or quotes")

    def _is_item(self) -> bool:
        return re.match(r"-(?:[ \t]|\r?\n|\Z)", self._text[self._at : self._at + 3]) is not None

    def _block(self, above: int, depth: int) -> Any:
        """A list, a mapping or a scalar that begins here, further right than `above`."""
        if depth > _DEEPEST:
            self._fail("this is nested too deeply")
        if self._at >= len(self._text):
            return None
        if self._is_item():
            return self._items(self._column, depth)
        start = self._at
        if self._next() not in ("[", "{"):
            key = self._key()
            if key is not None:
                self._at = start
                return self._mapping(self._column, depth)
            self._at = start
        return self._value(above, depth)

    def _items(self, column: int, depth: int) -> list[Any]:
        items = []
        while self._at < len(self._text) and self._column == column and self._is_item():
            self._at += 1
            items.append(self._node(column, depth, compact=True))
            self._skip()
        return items

    def _mapping(self, column: int, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._at < len(self._text) and self._column == column and not self._is_item():
            key = self._key()
            if key is None:
                self._fail("a line here must be a name and a colon")
            if key in found:
                self._fail(f"the name {key!r} is given twice")
            found[str(key)] = self._node(column, depth, compact=False)
            self._skip()
        if self._at < len(self._text) and self._column > column:
            self._fail("this line is indented more than those above")
        return found

    def _key(self) -> str | None:
        """A name with its colon, or nothing if there is none here."""
        self._check_form()
        if self._next() in ('"', "'"):
            text = self._quoted()
        else:
            plain = _PLAIN.match(self._text, self._at)
            if plain is None:
                return None
            text = plain.group()
            self._at = plain.end()
        if not re.match(r":(?=[ \t\r\n]|\Z)", self._text[self._at : self._at + 2]):
            return None
        self._at += 1
        return text

    def _node(self, column: int, depth: int, *, compact: bool) -> Any:
        """What stands after a dash or a colon, on the same line or below."""
        while self._next() in (" ", "\t") and self._next():
            self._at += 1
        if not re.match(r"(?:#|\r?\n|\Z)", self._text[self._at : self._at + 2]):
            if compact:
                return self._block(column, depth + 1)
            return self._value(column, depth + 1)
        self._at = self._text.find("\n", self._at) + 1 or len(self._text)
        self._skip()
        below = self._column
        if self._at < len(self._text) and below > column:
            return self._block(column, depth + 1)
        if not compact and below == column and self._is_item():
            return self._items(below, depth + 1)
        return None

    def _value(self, above: int, depth: int) -> Any:
        """A scalar or a flow collection, and the end of its line."""
        first = self._next()
        if first in ("[", "{"):
            value = self._flow(depth)
            self._end_line()
            return value
        if first in ('"', "'"):
            value = self._quoted()
            self._end_line()
            return value
        self._check_form()
        parts = [self._plain(_PLAIN)]
        self._end_line()
        while self._continues(above):
            parts.append(self._plain(_PLAIN))
            self._end_line()
        return _resolved(" ".join(parts), self) if len(parts) == 1 else " ".join(parts)

    def _continues(self, above: int) -> bool:
        """Whether the next line goes on with a plain text."""
        line = re.compile(r"[ ]*").match(self._text, self._at)
        there = self._text[line.end() : line.end() + 1] if line else ""
        if line is None or there in ("", "\n", "\r", "#") or line.end() - self._at <= above:
            return False
        self._at = line.end()
        return True

    def _plain(self, form: re.Pattern[str]) -> str:
        match = form.match(self._text, self._at)
        if match is None:
            self._fail("a value is missing or has a letter that must be in quotes")
            return ""
        self._at = match.end()
        return match.group()

    def _quoted(self) -> str:
        double = self._next() == '"'
        match = (_DOUBLE if double else _SINGLE).match(self._text, self._at)
        if match is None:
            self._fail("a quote is not closed")
            return ""
        text = match[1]
        if not double:
            text = _FOLD.sub(_folded, text).replace("''", "'")
        else:
            # Folded where a line ends, but not where a backslash says that it does not.
            pieces = re.split(r"(\\(?:\r?\n[ \t]*|.))", text, flags=re.DOTALL)
            text = "".join(p if p[:1] == "\\" else _FOLD.sub(_folded, p) for p in pieces)
            text = _ESCAPE.sub(self._unescaped, text)
        self._at = match.end()
        return text

    def _unescaped(self, match: re.Match[str]) -> str:
        code = match[1]
        if code[0] in "\r\n":
            return ""
        if code[0] in "xuU":
            if len(code) == 1 or int(code[1:], 16) > 0x10FFFF:
                self._fail("a quoted text has an escape that stands for no letter")
            return chr(int(code[1:], 16))
        if code not in _ESCAPES:
            self._fail(f"a quoted text has the unknown escape {code!r} after a backslash")
        return _ESCAPES[code]

    def _flow(self, depth: int) -> Any:
        """A list or mapping in brackets."""
        if depth > _DEEPEST:
            self._fail("this is nested too deeply")
        opened = self._next()
        closed = "]" if opened == "[" else "}"
        self._at += 1
        items: list[Any] = []
        pairs: dict[str, Any] = {}
        while True:
            self._gap()
            if self._next() == closed:
                self._at += 1
                return items if opened == "[" else pairs
            value = self._flow_value(depth)
            self._gap()
            if opened == "{":
                if self._next() != ":" or not isinstance(value, str) or value in pairs:
                    self._fail("a mapping in braces needs names, each once and with a colon")
                self._at += 1
                self._gap()
                pairs[value] = None if self._next() in (",", closed) else self._flow_value(depth)
                self._gap()
            else:
                items.append(value)
            if self._next() == ",":
                self._at += 1
            elif self._next() != closed:
                self._fail(f"a comma or {closed} is missing")

    def _flow_value(self, depth: int) -> Any:
        if self._next() in ("[", "{"):
            return self._flow(depth + 1)
        if self._next() in ('"', "'"):
            return self._quoted()
        self._check_form()
        parts = [self._plain(_PLAIN_IN_FLOW)]
        while on := re.compile(r"[ \t]*\r?\n[ \t]*(?=[^ \t\r\n#:,\[\]{}])").match(
            self._text, self._at
        ):
            self._at = on.end()
            parts.append(self._plain(_PLAIN_IN_FLOW))
        return _resolved(parts[0], self) if len(parts) == 1 else " ".join(parts)

    def _gap(self) -> None:
        gap = re.compile(r"(?:[ \t\r\n]|(?<=[ \t\r\n])#[^\n]*)*").match(self._text, self._at)
        self._at = gap.end() if gap else self._at

    def refuse(self, text: str) -> None:
        """A word that readers of YAML do not agree on."""
        self._fail(f"{text[:40]!r} means different things to different readers; put it in quotes")


def _folded(match: re.Match[str]) -> str:
    return "\n" * match[1].count("\n") or " "


def _resolved(text: str, reader: _Reader) -> Any:
    """The value that a plain word stands for."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text) if len(text) < 1_000 else reader.refuse(text)
    if _REAL.fullmatch(text):
        return float(text)
    if _ODD.fullmatch(text):
        reader.refuse(text)
    return text
