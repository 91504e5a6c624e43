"""What a column is: how values become codes, and codes values; categories, booleans and keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from heterofedsyn._arrays import Integers, arrow_of, arrow_text, numpy_of
from heterofedsyn.errors import SchemaError, did_you_mean
from heterofedsyn.schema import _checks
from heterofedsyn.schema._checks import MOST_CODES

if TYPE_CHECKING:
    import pyarrow as pa

    from heterofedsyn.schema._parsing import Cells

Mask = NDArray[np.bool_]

KEY_DIGITS = 9
"""Of an invented identifier with a prefix; more only where there are more rows."""


@dataclass(frozen=True, eq=False)
class Reading:
    """The cells of one column, each read by itself.

    Attributes:
        codes: of every cell; 0 for one that does not fit.
        fits: whether the schema knows the cell.
        missing: whether it is empty, whether or not that fits.
        numbers: of a column with a range, clamped to it, in whatever unit it counts.
        below, above: whether the cell was clamped, and on which side.
    """

    codes: Integers
    fits: Mask
    missing: Mask
    numbers: NDArray[Any] | None = None
    below: Mask | None = None
    above: Mask | None = None

    def take(self, places: Integers) -> Reading:
        """The cells at these places."""
        optional = (self.numbers, self.below, self.above)
        return Reading(
            self.codes[places],
            self.fits[places],
            self.missing[places],
            *(None if part is None else part[places] for part in optional),
        )


@dataclass(frozen=True)
class Column(ABC):
    """One attribute of a public schema; the null code, if there is one, is the last."""

    name: str
    nullable: bool = field(default=False, kw_only=True)

    kind: ClassVar[str]
    misread: ClassVar[str] = "unknown value"
    """What is wrong with a cell that is not empty and does not fit."""

    def __post_init__(self) -> None:
        if not self.name:
            raise SchemaError("a column has an empty name; give every column a name")
        _checks.text(self.name, "a column: its name")
        _checks.flag(self.nullable, self._at("nullable"))
        self._settle()
        if self.size > MOST_CODES:
            raise SchemaError(
                f"column {self.name!r} has {self.size:,} codes, more than {MOST_CODES:,}; "
                "use fewer bins, atoms or values"
            )

    @property
    def size(self) -> int:
        """How many codes the column has."""
        return self._known + self.nullable

    @property
    def ordered(self) -> bool:
        """Whether neighbouring codes are neighbouring values."""
        return True

    def encode(self, array: pa.Array) -> tuple[Integers, Mask]:
        """The code of every row, and whether the row fits; the code of one that does not is 0."""
        reading = self.read(array)
        return reading.codes, reading.fits

    def read(self, array: pa.Array) -> Reading:
        """Every cell, with all that is known about it."""
        import pyarrow as pa

        from heterofedsyn.schema import _parsing

        if isinstance(array, pa.DictionaryArray):
            return self._read_dictionary(array)
        return self._read(_parsing.plain(array))

    def decode(self, codes: NDArray[Any], rng: np.random.Generator) -> pa.Array:
        """For each code one of its values, all equally likely."""
        missing = codes == self._known
        return self._write(np.where(missing, 0, codes).astype(np.int64), missing, rng)

    def _read_dictionary(self, array: pa.DictionaryArray) -> Reading:
        import pyarrow as pa

        from heterofedsyn.schema import _parsing

        words = _parsing.plain(array.dictionary)
        places = numpy_of(_parsing.filled(array.indices.cast("int64"), len(words)))
        if len(words) > len(array):  # each word in use once: a long one may be in every row
            used, places = np.unique(places, return_inverse=True)
            words = words.take(arrow_of(used[used < len(words)]))
        none = pa.nulls(1, words.type)
        return self.read(pa.concat_arrays([words, none])).take(places)

    def _settled(self, codes: Integers, cells: Cells) -> Reading:
        """Cells that were read, with codes where they fit."""
        fits = cells.read & ~cells.missing
        codes = np.where(fits, codes, 0)
        if self.nullable:
            codes[cells.missing] = self._known
            fits |= cells.missing
        return Reading(codes, fits, cells.missing)

    def _at(self, key: str) -> str:
        """How an error names one entry of the column."""
        return f"column {self.name!r}: {key}"

    def _set(self, **values: object) -> None:
        """Puts what was given into its settled form, while the value is being made."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    @abstractmethod
    def _known(self) -> int:
        """How many codes stand for something else than null."""

    @abstractmethod
    def _settle(self) -> None:
        """Fills in defaults and refuses a column that contradicts itself."""

    @abstractmethod
    def _read(self, array: pa.Array) -> Reading:
        """The cells of an array without dictionary."""

    @abstractmethod
    def _write(self, codes: Integers, missing: Mask, rng: np.random.Generator) -> pa.Array:
        """The values of codes, with null where they are missing."""


@dataclass(frozen=True)
class CategoricalColumn(Column):
    """Text from a public list; a value matches its text, or the same number spelt otherwise.

    >>> CategoricalColumn("ward", ("a", "b", "?"), other="?").size
    3
    """

    values: tuple[str, ...]
    ordered: bool = False
    other: str | None = None

    kind: ClassVar[str] = "categorical"

    def read(self, array: pa.Array) -> Reading:
        """Every cell, with all that is known about it."""
        from heterofedsyn.schema import _parsing

        array = _parsing.plain(array)
        if _parsing.has_words(array.type) and not _parsing.is_text(array.type):
            # Far fewer values than rows, as a rule: turn each into text once.
            array = array.dictionary_encode()
            array = type(array).from_arrays(array.indices, _parsing.words(array.dictionary))
        return super().read(array)

    @property
    def _known(self) -> int:
        return len(self.values)

    @cached_property
    def code_of(self) -> dict[str, int]:
        """The code of each value."""
        return {value: code for code, value in enumerate(self.values)}

    @cached_property
    def _by_form(self) -> dict[str, int]:
        """The code of each number form; of two values with the same form the first wins."""

        from heterofedsyn.schema import _parsing

        codes: dict[str, int] = {}
        for code, form in enumerate(_parsing.number_form(arrow_text(self.values)).to_pylist()):
            codes.setdefault(form, code)
        return codes

    def _settle(self) -> None:
        listed = _checks.listed(self.values, self._at("values"))
        values = tuple(_checks.word(value, self._at("every value")) for value in listed)
        if not values:
            raise SchemaError(f"column {self.name!r} lists no values; list at least one")
        _checks.no_repeats(values, self._at("value"))
        _checks.flag(self.ordered, self._at("ordered"))
        self._set(values=values)
        if self.other is not None:
            other = _checks.word(self.other, self._at("other"))
            if other not in values:
                hint = did_you_mean(other, values)
                raise SchemaError(f"{self._at('other')} must be one of the values; {hint}")
            self._set(other=other)

    def _read(self, array: pa.Array) -> Reading:
        from heterofedsyn.schema import _parsing

        if not _parsing.is_text(array.type):
            nothing = _parsing.nothing(array)
            return self._settled(nothing.values, nothing)
        codes = _parsing.positions(array, self.values)
        missing = (codes < 0) & _parsing.is_empty(array)
        # Also if there are none: whether a row is written in another way must not show in the time.
        rest = np.flatnonzero((codes < 0) & ~missing)
        forms = _parsing.number_form(array.take(arrow_of(rest)))
        unknown = -1 if self.other is None else self.code_of[self.other]
        by_form = np.array([*self._by_form.values(), unknown])
        by_spelling = by_form[_parsing.positions(forms, tuple(self._by_form))]
        codes[rest] = np.where(_parsing.no_values(forms), -1, by_spelling)
        return self._settled(codes, _parsing.Cells(codes, missing, codes >= 0))

    def _write(self, codes: Integers, missing: Mask, rng: np.random.Generator) -> pa.Array:
        return arrow_text(self.values).take(arrow_of(codes, missing))


@dataclass(frozen=True)
class BooleanColumn(Column):
    """True or false; false is code 0."""

    kind: ClassVar[str] = "boolean"
    misread: ClassVar[str] = "not true or false"

    @property
    def ordered(self) -> bool:
        """Two values need no order."""
        return False

    @property
    def _known(self) -> int:
        return 2

    def _settle(self) -> None:
        pass

    def _read(self, array: pa.Array) -> Reading:
        from heterofedsyn.schema import _parsing

        cells = _parsing.booleans(array)
        return self._settled(cells.values, cells)

    def _write(self, codes: Integers, missing: Mask, rng: np.random.Generator) -> pa.Array:
        return arrow_of(codes == 1, missing)


@dataclass(frozen=True)
class KeyColumn(Column):
    """Identifiers: never read and never measured; invented ones come back, each once in a table.

    Attributes:
        prefix: makes them text, such as P000000001; without one they are the numbers from 1.
    """

    prefix: str | None = None

    kind: ClassVar[str] = "key"

    @property
    def _known(self) -> int:
        return 0

    def invent(self, first: int, many: int) -> pa.Array:
        """So many identifiers, from the one with this number on."""
        import pyarrow as pa
        import pyarrow.compute as pc

        numbers = arrow_of(np.arange(first, first + many, dtype=np.int64))
        if self.prefix is None:
            return numbers
        digits = pc.utf8_lpad(numbers.cast(pa.string()), KEY_DIGITS, "0")
        return pc.binary_join_element_wise(self.prefix, digits, "")

    def _settle(self) -> None:
        if self.prefix is not None:
            self._set(prefix=_checks.text(self.prefix, self._at("prefix")))
        if self.nullable:
            raise SchemaError(f"{self._at('nullable')} does not go with type key; leave it out")

    def _read(self, array: pa.Array) -> Reading:
        raise AssertionError("a key is never read")

    def _write(self, codes: Integers, missing: Mask, rng: np.random.Generator) -> pa.Array:
        raise AssertionError("a key has no codes")
