"""Lines of a CSV file, each read by itself: a quote that one leaves open takes no other with it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MOST_LINE_BYTES = 2 << 20
"""A longer line cannot be read; a parser must find the end of any line in its next block."""

_BOM = b"\xef\xbb\xbf"
_ENDS = b"\n\r"

_LONG = "is too long to be read; shorten it, or look for line breaks that are missing"
_OPEN = (
    "has a quote that is not closed, or an odd number of quotes; close it, or write csv-multiline: "
    "before the path if cells hold line breaks"
)


class Lines:
    """Takes the lines out of a stream of bytes that cannot be read by themselves.

    Such a line has an odd number of quotes, ends inside of them, or is too long. Whether a line can
    be read depends on that line alone.
    """

    def __init__(self, delimiter: str = ",", quote: str = '"') -> None:
        """Nothing is known of the stream.

        Args:
            quote: nothing if quotes mean nothing.
        """
        self._marks = _Marks.of(delimiter.encode(), quote.encode())
        self.unreadable = 0
        """How many lines were taken out."""
        self.trouble = ""
        """Which line was the first of them, and why, without its words."""
        self.header_is_bad = False
        self._held = b""
        self._begun = self._skipping = self._after_return = False
        self._lines = self._blank = 0

    def __call__(self, block: bytes) -> bytes:
        """The whole lines that can be read, as far as the stream is known; b"" is its end."""
        data = self._held + block
        if not self._begun:
            if block and len(data) < len(_BOM):
                self._held = data
                return b""
            data = data.removeprefix(_BOM)
            self._begun = True
        if self._skipping:
            data = self._after_the_long_one(data)
        end = len(data) if not block else _last_end(data, 0, len(data)) + 1
        whole, self._held = data[:end], data[end:]
        kept = self._kept(whole)
        if len(self._held) > MOST_LINE_BYTES:
            self._take_out(_LONG)
            self._held, self._skipping = b"", True
        return kept

    def _after_the_long_one(self, data: bytes) -> bytes:
        """What follows a line that is too long to be held."""
        end = re.search(rb"[\r\n]", data)
        self._skipping = end is None
        if end is None:
            return b""
        self._count(data[end.start() : end.end()])
        return data[end.end() :]

    def _kept(self, whole: bytes) -> bytes:
        # Every line is looked at, quotes or not: whether there are any must not show in the time.
        kept, place = [], 0
        for begin, end in self._marks.unreadable(whole):
            self._count(whole[place:begin])
            self._take_out(_LONG if end - begin > MOST_LINE_BYTES else _OPEN)
            self._count(whole[begin:end])
            kept.append(whole[place:begin])
            place = end
        self._count(whole[place:])
        return b"".join([*kept, whole[place:]])

    def _take_out(self, why: str) -> None:
        if not self.unreadable:
            self.trouble = f"line {self._lines + 1} {why}"
            self.header_is_bad = self._lines == self._blank
        self.unreadable += 1

    def _count(self, text: bytes) -> None:
        """Counts lines, and the empty ones before the first that is not."""
        if not text:
            return
        ends = text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")
        if self._after_return and text.startswith(b"\n"):
            ends -= 1
        if self._blank == self._lines and not text.strip(_ENDS):
            self._blank += ends
        self._lines += ends
        self._after_return = text.endswith(b"\r")


def _last_end(data: bytes, begin: int, end: int) -> int:
    return max(data.rfind(b"\n", begin, end), data.rfind(b"\r", begin, end))


@dataclass(frozen=True, eq=False)
class _Marks:
    """What opens and closes cells.

    Attributes:
        quote: as a number; below all bytes if there is none.
        closed: a line whose quotes are closed, as pyarrow reads it: a quote means something at the
            beginning of a cell, and there alone.
        may_open: what may stand before a quote that opens: in a line, another quote is the one
            before it.
    """

    quote: int
    closed: re.Pattern[bytes]
    may_open: NDArray[np.bool_]

    @classmethod
    def of(cls, delimiter: bytes, quote: bytes) -> _Marks:
        may_open = np.zeros(256, np.bool_)
        may_open[list(delimiter + quote + _ENDS)] = True
        d, q = re.escape(delimiter), re.escape(quote or b'"')
        closed = b"(?:(?>%b(?:[^%b]|%b%b)*+%b|(?!%b))[^%b]*+(?:%b|$))*+" % (q, q, q, q, q, q, d, d)
        return cls(quote[0] if quote else -1, re.compile(closed, re.DOTALL), may_open)

    def unreadable(self, whole: bytes) -> list[tuple[int, int]]:
        """Where lines begin and end, with their line breaks, that cannot be read by themselves."""
        letters = np.frombuffer(whole, np.uint8)
        ends = np.flatnonzero((letters == _ENDS[0]) | (letters == _ENDS[1])) + 1
        if not len(ends) or ends[-1] < len(whole):
            ends = np.append(ends, len(whole))
        begins = np.append(0, ends[:-1])
        bad = ends - begins > MOST_LINE_BYTES
        quotes = np.flatnonzero(letters == self.quote)
        many = np.diff(np.searchsorted(quotes, ends), prepend=0)
        bad |= many % 2 == 1
        # Each second quote of a line, the first included, opens a cell or follows the one before.
        lines = np.repeat(np.arange(len(ends)), many)
        number = np.arange(len(quotes)) - (np.cumsum(many) - many)[lines]
        opens = (quotes == begins[lines]) | self.may_open[letters[quotes - 1]]
        odd_ones = np.unique(lines[(number % 2 == 0) & ~opens])
        for line in odd_ones[~bad[odd_ones]].tolist():
            text = whole[begins[line] : ends[line]].rstrip(_ENDS)
            bad[line] = self.closed.fullmatch(text) is None
        return list(zip(begins[bad].tolist(), ends[bad].tolist(), strict=True))
