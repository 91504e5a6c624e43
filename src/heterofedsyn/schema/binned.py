"""Columns with a public range: whole and real numbers, dates and moments, in equal bins."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from heterofedsyn._arrays import Integers, arrow_of
from heterofedsyn.errors import SchemaError
from heterofedsyn.schema import _checks
from heterofedsyn.schema._bins import IntegerBins, RealBins
from heterofedsyn.schema._checks import MOST_CODES
from heterofedsyn.schema.columns import Column, Mask, Reading

if TYPE_CHECKING:
    import pyarrow as pa

    from heterofedsyn.schema._parsing import Cells


@dataclass(frozen=True)
class BinnedColumn(Column):
    """A column whose range is cut into bins.

    It counts in a unit of its own: integers, tenths (with one decimal), days, seconds, or numbers
    as they are. Rules compare in this unit.

    Attributes:
        cuts: where rules end a bin, in this unit; the schema fills them in.
    """

    min: Any
    max: Any
    bins: int | None = None
    atoms: tuple[Any, ...] = ()
    cuts: tuple[Any, ...] = field(
        default=(), kw_only=True, repr=False, metadata={"from_rules": True}
    )

    @cached_property
    def grid(self) -> IntegerBins | RealBins:
        """The codes of the range."""
        low, high, *atoms = (self._count(value) for value in (self.min, self.max, *self.atoms))
        assert self.bins is not None
        cuts = np.array(self.cuts, np.int64)
        return IntegerBins(low, high, self.bins, np.array(atoms, np.int64), cuts)

    @abstractmethod
    def settled(self, value: object, what: str) -> Any:
        """A public value in the one form that it has.

        Raises:
            SchemaError: if it is of another type; `what` is what the message calls it.
        """

    @abstractmethod
    def number(self, value: object, what: str) -> int | float:
        """A public value in the unit of the column.

        Raises:
            SchemaError: if it is of another type; `what` is what the message calls it.
        """

    @abstractmethod
    def numbers(self, array: pa.Array) -> Cells:
        """The cells of an array in the unit of the column, not clamped."""

    @abstractmethod
    def written(self, numbers: NDArray[Any], missing: Mask) -> pa.Array:
        """Numbers in the unit of the column as values, with null where they are missing."""

    @property
    def _known(self) -> int:
        return self.grid.layout.size

    def _read(self, array: pa.Array) -> Reading:
        cells = self.numbers(array)
        below, above = cells.values < self.grid.low, cells.values > self.grid.high
        settled = self._settled(self.grid.encode(cells.values), cells)
        known = cells.read & ~cells.missing
        return Reading(
            settled.codes,
            settled.fits,
            settled.missing,
            np.clip(cells.values, self.grid.low, self.grid.high),
            below & known,
            above & known,
        )

    def _write(self, codes: Integers, missing: Mask, rng: np.random.Generator) -> pa.Array:
        return self.written(self.grid.decode(codes, rng), missing)

    def _settle_range(self, check: Callable[[object, str], Any]) -> None:
        low, high = check(self.min, self._at("min")), check(self.max, self._at("max"))
        listed = _checks.listed(self.atoms, self._at("atoms"))
        atoms = [check(atom, self._at("every atom")) for atom in listed]
        self._set(min=low, max=high, atoms=_checks.atoms(self.name, low, high, atoms))

    def _settle_bins(self, of_what: str) -> None:
        """The bins of a column that counts in whole numbers."""
        most = self._count(self.max) - self._count(self.min) + 1
        self._set(bins=_checks.bins(self.name, self.bins, most, of_what))
        assert isinstance(self.grid, IntegerBins)
        _checks.room(self.name, self.grid, self.atoms)

    def _count(self, value: object) -> int:
        """A settled value in the unit of a column that counts in whole numbers."""
        return int(self.number(value, self.name))


@dataclass(frozen=True)
class IntegerColumn(BinnedColumn):
    """Whole numbers of an inclusive public range, in equal bins.

    >>> IntegerColumn("age", 17, 90).size
    74
    """

    min: int
    max: int
    bins: int | None = None
    atoms: tuple[int, ...] = ()

    kind: ClassVar[str] = "integer"
    misread: ClassVar[str] = "not a whole number"

    def settled(self, value: object, what: str) -> int:
        """A whole number."""
        return _checks.whole(value, what)

    def number(self, value: object, what: str) -> int:
        """The integer itself."""
        return self.settled(value, what)

    def numbers(self, array: pa.Array) -> Cells:
        """Whole numbers."""
        from heterofedsyn.schema import _parsing

        return _parsing.whole_numbers(array)

    def written(self, numbers: NDArray[Any], missing: Mask) -> pa.Array:
        """Whole numbers."""
        return arrow_of(numbers.astype(np.int64, copy=False), missing)

    def _settle(self) -> None:
        self._settle_range(_checks.whole)
        self._settle_bins("integers")


@dataclass(frozen=True)
class NumberColumn(BinnedColumn):
    """Real numbers of an inclusive public range, in equal bins.

    >>> NumberColumn("price", 0, 10, bins=20, atoms=(0,)).size
    21

    Attributes:
        decimals: how many places after the point values have; others are rounded to so many.
    """

    min: float
    max: float
    bins: int | None = None
    atoms: tuple[float, ...] = ()
    decimals: int | None = None

    kind: ClassVar[str] = "number"
    misread: ClassVar[str] = "not a number"

    @cached_property
    def grid(self) -> IntegerBins | RealBins:
        """The codes of the range."""
        if self.decimals is not None:
            return super().grid
        assert self.bins is not None
        atoms, cuts = np.array(self.atoms, np.float64), np.array(self.cuts, np.float64)
        return RealBins(self.min, self.max, self.bins, atoms, cuts)

    @property
    def scale(self) -> int:
        """Units of the column in 1."""
        return int(10 ** (self.decimals or 0))

    def settled(self, value: object, what: str) -> float:
        """A finite number."""
        return _checks.real(value, what)

    def number(self, value: object, what: str) -> int | float:
        """The number itself, or how many units of the last decimal it has."""
        number = self.settled(value, what)
        if self.decimals is None:
            return number
        if abs(number) > 2**52:
            raise SchemaError(f"{what} ({number}) is no value of it: too large for decimals")
        scaled = round(number * self.scale)
        if scaled / self.scale != number:
            raise SchemaError(f"{what} ({number}) has more than {self.decimals} decimals; round it")
        return scaled

    def numbers(self, array: pa.Array) -> Cells:
        """Real numbers, or units of the last decimal."""
        from heterofedsyn.schema import _parsing

        cells = _parsing.numbers(array)
        if self.decimals is None:
            return cells
        with np.errstate(over="ignore"):
            return cells.replace(_parsing.to_int64(np.rint(cells.values * self.scale)))

    def written(self, numbers: NDArray[Any], missing: Mask) -> pa.Array:
        """Real numbers."""
        values = numbers if self.decimals is None else numbers / self.scale
        return arrow_of(values.astype(np.float64, copy=False), missing)

    def _settle(self) -> None:
        self._settle_range(_checks.real)
        if not math.isfinite(self.max - self.min):
            raise SchemaError(f"{self._at('the range')} is too wide for floating point; narrow it")
        if self.decimals is not None:
            self._settle_decimals(self.decimals)
            return
        most = MOST_CODES if self.max > self.min else 1
        self._set(bins=_checks.bins(self.name, self.bins, most, "codes"))
        assert isinstance(self.grid, RealBins)
        if np.isnan(self.grid.inside).any():
            raise SchemaError(
                f"column {self.name!r} has a bin with no number in it besides atoms; use fewer "
                "bins or atoms, a wider range, or no atom where a rule ends"
            )

    def _settle_decimals(self, decimals: object) -> None:
        if decimals not in range(10) or not isinstance(decimals, int) or decimals is True:
            raise SchemaError(f"{self._at('decimals')} must be a whole number in 0..9")
        if max(abs(self.min), abs(self.max)) * self.scale > 2**52:
            raise SchemaError(f"{self._at('decimals')} are too many for this range; use fewer")
        self._settle_range(self._with_decimals)
        self._settle_bins("numbers")

    def _with_decimals(self, value: object, what: str) -> float:
        return self.number(value, what) / self.scale


@dataclass(frozen=True)
class DatetimeColumn(BinnedColumn):
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
    misread: ClassVar[str] = "not a time"

    def settled(self, value: object, what: str) -> datetime:
        """A moment to the second."""
        return _checks.moment(value, what)

    def number(self, value: object, what: str) -> int:
        """Seconds since 1970."""
        return _second(self.settled(value, what))

    def numbers(self, array: pa.Array) -> Cells:
        """Seconds since 1970."""
        from heterofedsyn.schema import _parsing

        return _parsing.seconds(array)

    def written(self, numbers: NDArray[Any], missing: Mask) -> pa.Array:
        """Moments."""
        import pyarrow as pa

        return arrow_of(numbers.astype(np.int64, copy=False), missing).cast(pa.timestamp("s"))

    def _settle(self) -> None:
        self._settle_range(_checks.moment)
        self._settle_bins("seconds")


@dataclass(frozen=True)
class DateColumn(BinnedColumn):
    """Days of an inclusive public range, in equal bins; a time of day is cut off.

    >>> DateColumn("born", "1930-01-01", "2025-12-31", bins=96).min
    datetime.date(1930, 1, 1)
    """

    min: date
    max: date
    bins: int | None = None
    atoms: tuple[date, ...] = ()

    kind: ClassVar[str] = "date"
    misread: ClassVar[str] = "not a date"

    def settled(self, value: object, what: str) -> date:
        """A day."""
        return _checks.day(value, what)

    def number(self, value: object, what: str) -> int:
        """Days since 1970."""
        return _day(self.settled(value, what))

    def numbers(self, array: pa.Array) -> Cells:
        """Days since 1970."""
        from heterofedsyn.schema import _parsing

        return _parsing.days(array)

    def written(self, numbers: NDArray[Any], missing: Mask) -> pa.Array:
        """Days."""
        import pyarrow as pa

        return arrow_of(numbers.astype(np.int32), missing).cast(pa.date32())

    def _settle(self) -> None:
        self._settle_range(_checks.day)
        self._settle_bins("days")


def _second(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1)) // _checks.SECOND


def _day(day: date) -> int:
    return (day - date(1970, 1, 1)).days
