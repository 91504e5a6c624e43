"""How rows fit a schema, counted for their owner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from heterofedsyn.schema.columns import Reading

if TYPE_CHECKING:
    from heterofedsyn.schema.schema import Schema

Mask = NDArray[np.bool_]

MOST_PLACES = 5
"""Rows that are remembered of each reason."""

MISSING = "missing"
BROKEN = "broken"
BELOW, ABOVE = "below its range", "above its range"


@dataclass(frozen=True, eq=False, kw_only=True)
class Fit:
    """How the rows of a source fit a schema; for the data's owner only, never for a message.

    Attributes:
        rows_read: rows that the source had.
        rows_dropped: rows that do not fit the schema.
        misfits: for each column, how many rows do not fit because of it, by reason; a row may count
            in several.
        rules: how many rows break each rule, by its number; of those all of whose cells fit.
        clamped: for each column, how many numbers lie below and above its range.
        values: for each column with a range, how many numbers there are, inside of it or not.
        places: the numbers of the first rows, from 1, that do not fit or are clamped, by column, or
            number of a rule, and reason.
        rows_over: rows that fit but exceed what one unit may contribute.
    """

    rows_read: int
    rows_dropped: int = 0
    misfits: dict[str, dict[str, int]] = field(default_factory=dict)
    rules: dict[int, int] = field(default_factory=dict)
    clamped: dict[str, tuple[int, int]] = field(default_factory=dict)
    values: dict[str, int] = field(default_factory=dict)
    places: dict[tuple[str | int, str], list[int]] = field(default_factory=dict)
    rows_over: int = 0

    def describe(self) -> str | None:
        """One line on the rows left out, or None when all were kept.

        >>> Fit(rows_read=3, rows_dropped=1, misfits={"age": {"missing": 1}}).describe()
        '1 row does not fit and is left out (age: 1 missing)'
        """
        said = []
        if self.rows_dropped:
            one = self.rows_dropped == 1
            words = "row does not fit and is" if one else "rows do not fit and are"
            said.append(f"{self.rows_dropped:,} {words} left out ({self.reasons})")
        if self.rows_over:
            words = "row is" if self.rows_over == 1 else "rows are"
            said.append(f"{self.rows_over:,} {words} left out as more than one unit may contribute")
        return "; ".join(said) or None

    def plus(self, other: Fit) -> Fit:
        """This and the rows of another part of the same table, whose places are its own."""
        misfits = {name: Counter(why) for name, why in self.misfits.items()}
        for name, why in other.misfits.items():
            misfits.setdefault(name, Counter()).update(why)
        clamped = dict(self.clamped)
        for name, (below, above) in other.clamped.items():
            before = clamped.get(name, (0, 0))
            clamped[name] = (before[0] + below, before[1] + above)
        return Fit(
            rows_read=self.rows_read + other.rows_read,
            rows_dropped=self.rows_dropped + other.rows_dropped,
            misfits={name: dict(why) for name, why in misfits.items()},
            rules=dict(Counter(self.rules) + Counter(other.rules)),
            clamped=clamped,
            values=dict(Counter(self.values) + Counter(other.values)),
            rows_over=self.rows_over + other.rows_over,
        )

    @property
    def reasons(self) -> str:
        """Why rows do not fit, in one line."""
        columns = [
            f"{name}: {', '.join(f'{many:,} {reason}' for reason, many in why.items())}"
            for name, why in self.misfits.items()
        ]
        rules = [f"breaks rule {number}: {many:,}" for number, many in self.rules.items()]
        return "; ".join([*columns, *rules])


class FitCount:
    """Counts of rows as they are read; what is counted has no part in what is kept."""

    def __init__(self) -> None:
        self.rows_over = 0
        self._rows_read = self._rows_dropped = 0
        self._misfits: dict[str, Counter[str]] = {}
        self._rules: Counter[int] = Counter()
        self._clamped: dict[str, tuple[int, int]] = {}
        self._values: Counter[str] = Counter()
        self._places: dict[tuple[str | int, str], list[int]] = {}

    @property
    def fit(self) -> Fit:
        """All that was counted, without what never happened."""
        misfits = {
            name: {reason: many for reason, many in why.items() if many}
            for name, why in self._misfits.items()
        }
        return Fit(
            rows_read=self._rows_read,
            rows_dropped=self._rows_dropped,
            misfits={name: why for name, why in misfits.items() if why},
            rules={number: many for number, many in sorted(self._rules.items()) if many},
            clamped={name: both for name, both in self._clamped.items() if any(both)},
            values=dict(self._values),
            places={why: rows for why, rows in self._places.items() if rows},
            rows_over=self.rows_over,
        )

    def add(
        self,
        schema: Schema,
        readings: Mapping[str, Reading],
        fits: Mask,
        broken: Mapping[int, Mask],
        unit: str | None = None,
        known: Mask | None = None,
    ) -> None:
        """One batch more.

        Args:
            fits: the rows that are kept.
            broken: for every rule the rows that break it.
            known: whether the unit of each row is known.
        """
        for name, reading in readings.items():
            wrong = ~reading.fits
            self._note(name, MISSING, wrong & reading.missing)
            self._note(name, schema.column(name).misread, wrong & ~reading.missing)
            if reading.below is not None and reading.above is not None:
                self._values[name] += int(np.count_nonzero(reading.fits & ~reading.missing))
                below, above = self._clamped.get(name, (0, 0))
                self._clamped[name] = (
                    below + self._place(name, BELOW, reading.below),
                    above + self._place(name, ABOVE, reading.above),
                )
        if unit is not None and known is not None:
            reading_fits = readings[unit].fits if unit in readings else True
            self._note(unit, "no unit", ~known & reading_fits)
        for number, mask in broken.items():
            self._rules[number] += self._place(number, BROKEN, mask)
        self._rows_read += fits.size
        self._rows_dropped += fits.size - int(np.count_nonzero(fits))

    def _note(self, column: str, reason: str, mask: Mask) -> None:
        self._misfits.setdefault(column, Counter())[reason] += self._place(column, reason, mask)

    def _place(self, what: str | int, reason: str, mask: Mask) -> int:
        """Remember where the first rows are, and tell how many there are."""
        # Also where there are none, so that the work is the same whatever the rows hold.
        rows = self._rows_read + 1 + np.flatnonzero(mask)[:MOST_PLACES]
        places = self._places.setdefault((what, reason), [])
        places += rows[: MOST_PLACES - len(places)].tolist()
        return int(np.count_nonzero(mask))
