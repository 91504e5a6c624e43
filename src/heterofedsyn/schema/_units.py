"""Who a row belongs to: numbers for people, and which few rows of each count."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from heterofedsyn._arrays import Codes, Integers
from heterofedsyn._words import NO_TEXT
from heterofedsyn.errors import DataError
from heterofedsyn.schema import _parsing

_TRAILING_ZEROS = r"^(-?[0-9]+\.[0-9]*[1-9])0+$"
_WORTH_SORTING = 2**18
_MOST_WAITING = 2**24
_SORTINGS = 4
"""How often rows are sorted while they arrive, at most, if there are no more than declared."""

_STEP, _FIRST, _SECOND = (
    np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


def identify(array: pa.Array, name: str) -> tuple[pa.DictionaryArray, _parsing.Mask]:
    """The identity of each row's unit as text, and whether it is known.

    The number 17, the text "17" and 17.0 are one unit, whichever file they come from; so are 1.5
    and "1.50", and texts that differ in blanks around them or in how an accent is put together.
    """
    if not isinstance(array, pa.DictionaryArray):
        array = _parsing.plain(array)
        if not _parsing.has_words(array.type):
            array = _unsuitable(array, name)
        array = array.dictionary_encode()
    values = _parsing.plain(array.dictionary)
    if not _parsing.has_words(values.type):
        values = _unsuitable(values, name)
    texts = _parsing.only_text(_parsing.words(values).cast(pa.large_string()))
    texts = pc.utf8_trim_whitespace(texts)
    texts = pc.utf8_normalize(_parsing.integer_form(texts), form="NFC")
    texts = pc.replace_substring_regex(texts, pattern=_TRAILING_ZEROS, replacement=r"\1")
    texts = pc.fill_null(texts, "")
    texts = pc.if_else(pc.match_substring(texts, NO_TEXT), "", texts)
    places = array.indices.cast(pa.int64()).fill_null(len(texts)).to_numpy()
    known = np.append(~_parsing.is_empty(texts), False)[places]
    # Several entries may spell one unit ("17" and "17.0"); each unit keeps one entry.
    units = texts.unique()
    entry = np.append(pc.index_in(texts, units).to_numpy(), -1)[places]
    return pa.DictionaryArray.from_arrays(pa.array(entry, pa.int64(), mask=~known), units), known


class People:
    """The units seen so far, and of the rows of each the few that count.

    These are the smallest by a hash of the unit and the row's own codes, then by the codes: the
    order in which rows arrive, their batches and the rows of others have no part in it.
    """

    def __init__(self, most: int, none: Codes, size: int | None = None) -> None:
        """Nobody yet.

        Args:
            most: rows of one unit that count.
            none: codes of no rows, of the shape and type of all others.
            size: how many rows there are at most, rounded up, if that is declared: how often they
                are sorted follows it, since whoever waits for them sees how long that takes.
        """
        self._most = most
        self._number: dict[str, int] = {}
        self._salts: Integers = np.zeros(0, np.int64)
        self._rows = [_Rows(self._salts, self._salts, none)]
        self._waiting = self._sorted = 0
        self._room = min(_MOST_WAITING, max(_WORTH_SORTING, (size or 0) // _SORTINGS))
        self._sortings = (size or 0) // self._room

    def admit(self, codes: Codes, identities: pa.DictionaryArray) -> None:
        """Takes in rows that fit, with the unit of each."""
        entries = identities.dictionary.to_pylist()
        before = len(self._number)
        known = [self._number.setdefault(text, len(self._number)) for text in entries]
        fresh = [text for text, number in zip(entries, known, strict=True) if number >= before]
        self._salts = np.append(self._salts, salts(fresh))
        numbers = np.array(known, np.int64)[identities.indices.to_numpy()]
        rows = _Rows(numbers, ranks(codes, self._salts[numbers]), codes)
        while many := min(len(rows.numbers), self._room - self._waiting):
            self._rows.append(rows.part(slice(many)))
            rows = rows.part(slice(many, None))
            self._waiting += many
            if self._waiting == self._room:
                self._settle()

    def kept(self) -> tuple[Integers, Codes]:
        """The unit's number and the codes of every row that counts, after all were taken in.

        Rows are sorted as often as if there were as many as declared.
        """
        self._settle()
        while self._sorted <= self._sortings:
            self._settle()
        (rows,) = self._rows
        return rows.numbers, rows.codes

    def _settle(self) -> None:
        rows = _Rows(*(np.concatenate(part, axis=-1) for part in zip(*self._rows, strict=True)))
        # The codes break ties; they are sorted also if there are none, which must not show.
        order = np.lexsort((*rows.codes, rows.ranks, rows.numbers))
        numbers = rows.numbers[order]
        place = np.arange(len(order)) - np.searchsorted(numbers, numbers)
        chosen = order[place < self._most]
        self._rows = [_Rows(rows.numbers[chosen], rows.ranks[chosen], rows.codes[:, chosen])]
        self._waiting = 0
        self._sorted += 1
        if self._sorted > self._sortings:
            # More than was declared, or nothing was: memory grows with what is kept, and rows are
            # sorted anew only when there are as many again.
            self._room = max(self._room, len(chosen))


class _Rows(NamedTuple):
    """Rows by the numbers of their units, with the rank and the codes of each."""

    numbers: Integers
    ranks: Integers
    codes: Codes

    def part(self, some: slice) -> _Rows:
        """Some of the rows."""
        return _Rows(self.numbers[some], self.ranks[some], self.codes[:, some])


def salts(units: Sequence[str]) -> Integers:
    """A number for each unit that follows from its identity alone."""
    digests = (hashlib.blake2b(unit.encode(), digest_size=8).digest() for unit in units)
    return np.frombuffer(b"".join(digests), "<i8").astype(np.int64)


def ranks(codes: Codes, salts: Integers) -> Integers:
    """A hash of each row's unit and codes (the finalizer of splitmix64), in any order of rows."""
    state = salts.view(np.uint64).copy()
    for column in codes:
        state += column.astype(np.uint64) + _STEP
        state ^= state >> np.uint64(30)
        state *= _FIRST
        state ^= state >> np.uint64(27)
        state *= _SECOND
        state ^= state >> np.uint64(31)
    return state.view(np.int64)


def _unsuitable(array: pa.Array, name: str) -> pa.Array:
    if pa.types.is_null(array.type):
        return array.cast(pa.string())
    raise DataError(
        f"column {name!r} of type {array.type} cannot tell units apart; use text or numbers"
    )
