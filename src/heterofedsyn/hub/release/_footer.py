"""The footer of a Parquet file, read by ourselves: libraries may end the process over a forged one.

It is a struct of Thrift's compact protocol; fields are known by their numbers (parquet.thrift).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from io import BufferedReader
from os import SEEK_END
from typing import Any

_MAGIC = b"PAR1"
_MOST_BYTES = 2**28
_DEEPEST = 16


class NoFooter(ValueError):
    """Bytes that are no footer."""


@dataclass(frozen=True)
class Chunk:
    """One column of one group of rows."""

    encodings: frozenset[int]
    codec: int
    values: int
    unfolded: int
    """Bytes, once unpacked."""
    elsewhere: bool
    """Whether it lies in another file."""


@dataclass(frozen=True)
class Footer:
    """What a file says that it holds: its rows, and for every group its rows and columns."""

    rows: int
    groups: tuple[tuple[int, tuple[Chunk, ...]], ...]


def read_footer(file: BufferedReader) -> Footer:
    """The footer of an open file, which is at its beginning again afterwards.

    Raises:
        NoFooter: if there is none.
    """
    size = file.seek(0, SEEK_END)
    if size < 12:
        raise NoFooter
    file.seek(size - 8)
    length, magic = struct.unpack("<I4s", file.read(8))
    if magic != _MAGIC or length > min(size - 12, _MOST_BYTES):
        raise NoFooter
    file.seek(size - 8 - length)
    data = file.read(length)
    file.seek(0)
    try:
        fields = _Compact(data).struct(0)
        groups = tuple((group[3], tuple(map(_chunk, group[1]))) for group in fields[4])
        footer = Footer(fields[3], groups)
    except (IndexError, KeyError, TypeError, AttributeError, struct.error):
        raise NoFooter from None
    numbers = [footer.rows, *(rows for rows, _ in groups)]
    if not all(isinstance(number, int) and number >= 0 for number in numbers):
        raise NoFooter
    return footer


def _chunk(fields: dict[int, Any]) -> Chunk:
    facts = fields[3]
    chunk = Chunk(frozenset(facts[2]), facts[4], facts[5], facts[6], 1 in fields)
    if not all(isinstance(fact, int) for fact in (chunk.codec, chunk.values, chunk.unfolded)):
        raise NoFooter
    return chunk


class _Compact:
    """A reader of Thrift's compact protocol: structs as dictionaries by the numbers of fields."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def struct(self, depth: int) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._whole()
            kind = head & 15
            fields[number] = kind == 1 if kind in (1, 2) else self._value(kind, depth + 1)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _DEEPEST:
            raise NoFooter
        match kind:
            case 1 | 2 | 3:
                return self._byte()
            case 4 | 5 | 6:
                return self._whole()
            case 7:
                return self._bytes(8)
            case 8:
                return self._bytes(self._varint())
            case 9 | 10:
                return self._list(depth)
            case 12:
                return self.struct(depth)
        raise NoFooter  # footers have no maps

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        many = self._varint() if head >> 4 == 15 else head >> 4
        if many > len(self._data) - self._at:
            raise NoFooter
        return [self._value(head & 15, depth + 1) for _ in range(many)]

    def _byte(self) -> int:
        self._at += 1
        return self._data[self._at - 1]

    def _bytes(self, many: int) -> bytes:
        if many > len(self._data) - self._at:
            raise NoFooter
        self._at += many
        return self._data[self._at - many : self._at]

    def _varint(self) -> int:
        number = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            number |= (byte & 127) << shift
            if byte < 128:
                return number
        raise NoFooter

    def _whole(self) -> int:
        zigzag = self._varint()
        return (zigzag >> 1) ^ -(zigzag & 1)
