"""Who a row belongs to: numbers for people, and the first rows of each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from heterofedsyn._arrays import Integers
from heterofedsyn.errors import DataError
from heterofedsyn.schema import _reading

_ID = pa.dictionary(pa.int64(), pa.large_string())


def identify(array: pa.Array, name: str) -> tuple[pa.DictionaryArray, _reading.Mask]:
    """The identity of each row's unit as text, and whether it is known.

    The number 17, the text "17" and 17.0 are one unit, whichever file they come from.
    """
    if not isinstance(array, pa.DictionaryArray):
        array = _reading.plain(array)
        if not _reading.has_words(array.type):
            array = _unsuitable(array, name)
        array = array.dictionary_encode()
    values = _reading.plain(array.dictionary)
    if not _reading.has_words(values.type):
        values = _unsuitable(values, name)
    texts = _reading.integer_form(_reading.words(values)).cast(pa.large_string())
    texts = pc.fill_null(texts, "")
    places = array.indices.cast(pa.int64()).fill_null(len(texts)).to_numpy()
    known = np.append(~_reading.is_empty(texts), False)[places]
    # Several entries may spell one unit ("17" and "17.0"); each unit keeps one entry.
    units = texts.unique()
    entry = np.append(pc.index_in(texts, units).to_numpy(), -1)[places]
    return pa.DictionaryArray.from_arrays(pa.array(entry, pa.int64(), mask=~known), units), known


def number(identities: Sequence[pa.DictionaryArray]) -> Integers:
    """The units of all rows numbered from 0, equal for rows of the same unit."""
    chunks = pa.chunked_array(list(identities), _ID).unify_dictionaries().chunks
    indices = [np.empty(0, np.int64), *(chunk.indices.to_numpy() for chunk in chunks)]
    _, numbers = np.unique(np.concatenate(indices), return_inverse=True)
    return numbers.astype(np.int64, copy=False)


def first_rows(numbers: Integers, most: int) -> Integers:
    """The places of the first rows of every unit, in order."""
    order = np.argsort(numbers, kind="stable")
    starts = np.searchsorted(numbers[order], numbers[order])
    return np.sort(order[np.arange(len(order)) - starts < most])


def _unsuitable(array: pa.Array, name: str) -> pa.Array:
    if pa.types.is_null(array.type):
        return array.cast(pa.string())
    raise DataError(
        f"column {name!r} of type {array.type} cannot tell units apart; use text or numbers"
    )
