"""The kinds of columns: how public ranges and lists of values become codes, and codes values."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from heterofedsyn._arrays import Integers
from heterofedsyn.errors import SchemaError, did_you_mean
from heterofedsyn.schema import _checks
from heterofedsyn.schema._bins import IntegerBins, Layout, RealBins
from heterofedsyn.schema._checks import MOST_CODES

if TYPE_CHECKING:
    import pyarrow as pa

    from heterofedsyn.schema._parsing import Cells

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Column(ABC):
    """One attribute of a public schema; the null code, if there is one, is the last."""

    name: str
    nullable: bool = field(default=False, kw_only=True)

    kind: ClassVar[str]

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
        import pyarrow as pa

        from heterofedsyn.schema import _parsing

        if isinstance(array, pa.DictionaryArray):
            return self._encode_dictionary(array)
        cells = self._read(_parsing.plain(array))
        fits = cells.read & ~cells.missing
        codes = np.where(fits, cells.values, 0)
        if self.nullable:
            codes[cells.missing] = self._known
            fits |= cells.missing
        return codes, fits

    def decode(self, codes: NDArray[Any], rng: np.random.Generator) -> pa.Array:
        """For each code one of its values, all equally likely."""
        missing = codes == self._known
        return self._write(np.where(missing, 0, codes).astype(np.int64), missing, rng)

    def _encode_dictionary(self, array: pa.DictionaryArray) -> tuple[Integers, Mask]:
        from heterofedsyn.schema import _parsing

        words = _parsing.plain(array.dictionary)
        places = array.indices.cast("int64").fill_null(len(words)).to_numpy()
        if len(words) > len(array):  # each word in use once: a long one may be in every row
            used, places = np.unique(places, return_inverse=True)
            words = words.take(used[used < len(words)])
        codes, fits = self.encode(words)
        null = self._known if self.nullable else 0
        return np.append(codes, null)[places], np.append(fits, self.nullable)[places]

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
    def _read(self, array: pa.Array) -> Cells:
        """The codes of an array without dictionary."""

    @abstractmethod
    def _write(self, codes: Integers, missing: Mask, rng: np.random.Generator) -> pa.Array:
        """The values of codes, with null where they are missing."""


class _Binned(Column):
    """A column whose range is cut into bins."""

    @property
    @abstractmethod
    def _layout(self) -> Layout:
        """The order of codes."""

    @property
    def _known(self) -> int:
        return self._layout.size


@dataclass(frozen=True)
class IntegerColumn(_Binned):
    """Whole numbers of an inclusive public range, in equal bins.

    >>> IntegerColumn("age", 17, 90).size
    74
    """

    min: int
    max: int
    bins: int | None = None
    atoms: tuple[int, ...] = ()

    kind: ClassVar[str] = "integer"

    @cached_property
    def _grid(self) -> IntegerBins:
        assert self.bins is not None
        return IntegerBins(self.min, self.max, self.bins, np.array(self.atoms, np.int64))

    @property
    def _layout(self) -> Layout:
        return self._grid.layout

    def _settle(self) -> None:
        low = _checks.whole(self.min, self._at("min"))
        high = _checks.whole(self.max, self._at("max"))
        listed = _checks.listed(self.atoms, self._at("atoms"))
        atoms = [_checks.whole(atom, self._at("every atom")) for atom in listed]
        self._set(min=low, max=high, atoms=_checks.atoms(self.name, low, high, atoms))
        self._set(bins=_checks.bins(self.name, self.bins, high - low + 1, "integers"))
        _checks.room(self.name, self._grid, self.atoms)

    def _read(self, array: pa.Array) -> Cells:
        from heterofedsyn.schema import _parsing

        cells = _parsing.whole_numbers(array)
        return cells.replace(self._grid.encode(cells.values))

    def _write(self, codes: Integers, missing: Mask, rng: np.random.Generator) -> pa.Array:
        import pyarrow as pa

        return pa.array(self._grid.decode(codes, rng), pa.int64(), mask=missing)


@dataclass(frozen=True)
class NumberColumn(_Binned):
    """Real numbers of an inclusive public range, in equal bins.

    >>> NumberColumn("price", 0, 10, bins=20, atoms=(0,)).size
    21
    """

    min: float
    max: float
    bins: int | None = None
    atoms: tuple[float, ...] = ()

    kind: ClassVar[str] = "number"

    @cached_property
    def _grid(self) -> RealBins:
        assert self.bins is not None
        return RealBins(self.min, self.max, self.bins, np.array(self.atoms, np.float64))

    @property
    def _layout(self) -> Layout:
        return self._grid.layout

    def _settle(self) -> None:
        low = _checks.real(self.min, self._at("min"))
        high = _checks.real(self.max, self._at("max"))
        listed = _checks.listed(self.atoms, self._at("atoms"))
        atoms = [_checks.real(atom, self._at("every atom")) for atom in listed]
        self._set(min=low, max=high, atoms=_checks.atoms(self.name, low, high, atoms))
        if not math.isfinite(high - low):
            raise SchemaError(f"{self._at('the range')} is too wide for floating point; narrow it")
        most = MOST_CODES if high > low else 1
        self._set(bins=_checks.bins(self.name, self.bins, most, "codes"))
        if np.isnan(self._grid.inside).any():
            raise SchemaError(
                f"column {self.name!r} has a bin with no number in it besides atoms; "
                "use fewer bins or atoms, or a wider range"
            )

    def _read(self, array: pa.Array) -> Cells:
        from heterofedsyn.schema import _parsing

        cells = _parsing.numbers(array)
        return cells.replace(self._grid.encode(cells.values))

    def _write(self, codes: Integers, missing: Mask, rng: np.random.Generator) -> pa.Array:
        import pyarrow as pa

        return pa.array(self._grid.decode(codes, rng), pa.float64(), mask=missing)


@dataclass(frozen=True)
class DatetimeColumn(_Binned):
    """Moments of an inclusive public range, to the second and in UTC, in equal bins.

    Dates are midnights, text is ISO 8601, and a moment without a zone is taken as it is.

    >>> DatetimeColumn("seen", "2025-01-01", "2025-12-31", bins=365).min
    datetime.datetime(2025, 1, 1, 0, 0)
    """

    min: datetime
    max: datetime
    bins: int | None = None
    atoms: tuple[datetime, ...] = ()

    kind: ClassVar[str] = "datetime"

    @cached_property
    def _grid(self) -> IntegerBins:
        assert self.bins is not None
        low, high, *atoms = (_second(moment) for moment in (self.min, self.max, *self.atoms))
        return IntegerBins(low, high, self.bins, np.array(atoms, np.int64))

    @property
    def _layout(self) -> Layout:
        return self._grid.layout

    def _settle(self) -> None:
        low = _checks.moment(self.min, self._at("min"))
        high = _checks.moment(self.max, self._at("max"))
        listed = _checks.listed(self.atoms, self._at("atoms"))
        atoms = [_checks.moment(atom, self._at("every atom")) for atom in listed]
        self._set(min=low, max=high, atoms=_checks.atoms(self.name, low, high, atoms))
        seconds = _second(high) - _second(low) + 1
        self._set(bins=_checks.bins(self.name, self.bins, seconds, "seconds"))
        _checks.room(self.name, self._grid, self.atoms)

    def _read(self, array: pa.Array) -> Cells:
        from heterofedsyn.schema import _parsing

        cells = _parsing.seconds(array)
        return cells.replace(self._grid.encode(cells.values))

    def _write(self, codes: Integers, missing: Mask, rng: np.random.Generator) -> pa.Array:
        import pyarrow as pa

        seconds = pa.array(self._grid.decode(codes, rng), pa.int64(), mask=missing)
        return seconds.cast(pa.timestamp("s"))


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

    def encode(self, array: pa.Array) -> tuple[Integers, Mask]:
        """The code of every row, and whether the row fits; the code of one that does not is 0."""
        from heterofedsyn.schema import _parsing

        array = _parsing.plain(array)
        if _parsing.has_words(array.type) and not _parsing.is_text(array.type):
            # Far fewer values than rows, as a rule: turn each into text once.
            array = array.dictionary_encode()
            array = type(array).from_arrays(array.indices, _parsing.words(array.dictionary))
        return super().encode(array)

    @property
    def _known(self) -> int:
        return len(self.values)

    @cached_property
    def _by_form(self) -> dict[str, int]:
        """The code of each number form; of two values with the same form the first wins."""
        import pyarrow as pa

        from heterofedsyn.schema import _parsing

        codes: dict[str, int] = {}
        for code, form in enumerate(_parsing.number_form(pa.array(self.values)).to_pylist()):
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

    def _read(self, array: pa.Array) -> Cells:
        import pyarrow as pa

        from heterofedsyn.schema import _parsing

        if not _parsing.is_text(array.type):
            return _parsing.nothing(array)
        codes = _parsing.positions(array, self.values)
        missing = (codes < 0) & _parsing.is_empty(array)
        # Also if there are none: whether a row is written in another way must not show in the time.
        rest = np.flatnonzero((codes < 0) & ~missing)
        forms = _parsing.number_form(array.take(pa.array(rest)))
        unknown = -1 if self.other is None else self.values.index(self.other)
        by_form = np.array([*self._by_form.values(), unknown])
        by_spelling = by_form[_parsing.positions(forms, tuple(self._by_form))]
        codes[rest] = np.where(_parsing.no_values(forms), -1, by_spelling)
        return _parsing.Cells(codes, missing, codes >= 0)

    def _write(self, codes: Integers, missing: Mask, rng: np.random.Generator) -> pa.Array:
        import pyarrow as pa

        return pa.array(self.values, pa.string()).take(pa.array(codes, mask=missing))


@dataclass(frozen=True)
class BooleanColumn(Column):
    """True or false; false is code 0."""

    kind: ClassVar[str] = "boolean"

    @property
    def ordered(self) -> bool:
        """Two values need no order."""
        return False

    @property
    def _known(self) -> int:
        return 2

    def _settle(self) -> None:
        pass

    def _read(self, array: pa.Array) -> Cells:
        from heterofedsyn.schema import _parsing

        return _parsing.booleans(array)

    def _write(self, codes: Integers, missing: Mask, rng: np.random.Generator) -> pa.Array:
        import pyarrow as pa

        return pa.array(codes == 1, pa.bool_(), mask=missing)


def _second(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1)) // _checks.SECOND
