"""What a report is made of: sections of text, facts, tables and pictures, without any layout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    kind: ClassVar[str] = "text"

    words: str


@dataclass(frozen=True)
class Warn:
    """A paragraph that must not be overlooked."""

    kind: ClassVar[str] = "warn"

    words: str


@dataclass(frozen=True)
class Facts:
    """Short answers to short questions."""

    kind: ClassVar[str] = "facts"

    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Table:
    """Rows of cells; the first columns are text, the others figures."""

    kind: ClassVar[str] = "table"

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1
    longest: int = 80
    """Letters of a cell that are shown."""


@dataclass(frozen=True)
class Folded:
    """A table that is shown to whoever asks for it."""

    kind: ClassVar[str] = "folded"

    table: Table


@dataclass(frozen=True)
class Heading:
    """The title of what follows within a chapter."""

    kind: ClassVar[str] = "heading"

    words: str


@dataclass(frozen=True)
class Picture:
    """A drawing, how to read it, and the numbers behind it."""

    kind: ClassVar[str] = "picture"

    name: str
    title: str
    svg: str
    caption: str
    numbers: Table


@dataclass(frozen=True)
class Gallery:
    """Small pictures side by side."""

    kind: ClassVar[str] = "gallery"

    pictures: tuple[Picture, ...]


@dataclass(frozen=True)
class Halves:
    """Two pictures, or two tables, that stand beside each other where there is room."""

    kind: ClassVar[str] = "halves"

    parts: tuple[Picture, Picture] | tuple[Table, Table]


@dataclass(frozen=True)
class Points:
    """What there is to say, each under a word or two."""

    kind: ClassVar[str] = "points"

    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Marked:
    """Things that got the same mark, each with its reason.

    Attributes:
        tone: good, rough or poor: how it is coloured; the mark itself says it in words.
    """

    kind: ClassVar[str] = "marked"

    tone: str
    mark: str
    items: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Glossary:
    """Words and what they mean; other text of the page links to them.

    Attributes:
        items: the id of a word, the word, and its meaning.
    """

    kind: ClassVar[str] = "glossary"

    items: tuple[tuple[str, str, str], ...]


Block: TypeAlias = (
    Text
    | Warn
    | Facts
    | Table
    | Folded
    | Heading
    | Picture
    | Gallery
    | Halves
    | Points
    | Marked
    | Glossary
)


@dataclass(frozen=True)
class Section:
    """A chapter; a private one says so wherever it is shown."""

    name: str
    title: str
    blocks: tuple[Block, ...]
    private: bool = False
