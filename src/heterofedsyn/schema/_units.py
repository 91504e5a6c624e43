"""Who a row belongs to: numbers for people, and the first rows of each."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from heterofedsyn._arrays import Integers
from heterofedsyn.errors import DataError
from heterofedsyn.schema import _reading

_TRAILING_ZEROS = r"^(-?[0-9]+\.[0-9]*[1-9])0+$"


def identify(array: pa.Array, name: str) -> tuple[pa.DictionaryArray, _reading.Mask]:
    """The identity of each row's unit as text, and whether it is known.

    The number 17, the text "17" and 17.0 are one unit, whichever file they come from; so are 1.5
    and "1.50", and texts that differ in blanks around them or in how an accent is put together.
    """
    if not isinstance(array, pa.DictionaryArray):
        array = _reading.plain(array)
        if not _reading.has_words(array.type):
            array = _unsuitable(array, name)
        array = array.dictionary_encode()
    values = _reading.plain(array.dictionary)
    if not _reading.has_words(values.type):
        values = _unsuitable(values, name)
    texts = _reading.only_text(_reading.words(values).cast(pa.large_string()))
    texts = pc.utf8_trim_whitespace(texts)
    texts = pc.utf8_normalize(_reading.integer_form(texts), form="NFC")
    texts = pc.replace_substring_regex(texts, pattern=_TRAILING_ZEROS, replacement=r"\1")
    texts = pc.fill_null(texts, "")
    places = array.indices.cast(pa.int64()).fill_null(len(texts)).to_numpy()
    known = np.append(~_reading.is_empty(texts), False)[places]
    # Several entries may spell one unit ("17" and "17.0"); each unit keeps one entry.
    units = texts.unique()
    entry = np.append(pc.index_in(texts, units).to_numpy(), -1)[places]
    return pa.DictionaryArray.from_arrays(pa.array(entry, pa.int64(), mask=~known), units), known


class People:
    """The units seen so far: a number for each, and how many of its rows were taken."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._number: dict[str, int] = {}
        self._taken: Integers = np.zeros(0, np.int64)

    def admit(self, identities: pa.DictionaryArray) -> tuple[Integers, _reading.Mask]:
        """The number of each row's unit, and whether the row is among the first of its unit."""
        entries = identities.dictionary.to_pylist()
        known = [self._number.setdefault(text, len(self._number)) for text in entries]
        numbers = np.array(known, np.int64)[identities.indices.to_numpy()]
        grown = np.zeros(len(self._number), np.int64)
        grown[: len(self._taken)] = self._taken
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        earlier = np.empty(len(numbers), np.int64)
        earlier[order] = np.arange(len(order)) - np.searchsorted(ordered, ordered)
        kept = grown[numbers] + earlier < self._most
        self._taken = grown + np.bincount(numbers[kept], minlength=len(grown))
        return numbers, kept


def _unsuitable(array: pa.Array, name: str) -> pa.Array:
    if pa.types.is_null(array.type):
        return array.cast(pa.string())
    raise DataError(
        f"column {name!r} of type {array.type} cannot tell units apart; use text or numbers"
    )
