"""Numbers that people write for no value: -9, 99, 999."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_USUAL = (9, 77, 88, 97, 98, 99, 777, 888, 997, 998, 999, 8888, 9997, 9998, 9999, 99999, 999999)
CODES = np.array(sorted((*_USUAL, *(-code for code in (*_USUAL, 1, 7, 8)))))

_FEWEST = 2
_PILE = 5
"""Times as many rows as a value has on average."""

_PILE_ROWS = 20


@dataclass(frozen=True)
class Tails:
    """Numbers of a column: how many are each of the codes, and the range of the others."""

    counts: tuple[int, ...] = (0,) * len(CODES)
    others: int = 0
    low: float = math.inf
    high: float = -math.inf

    @classmethod
    def of(cls, values: NDArray[Any]) -> Tails:
        """Those of some rows."""
        places = np.minimum(np.searchsorted(CODES, values), len(CODES) - 1)
        coded = CODES[places] == values
        counts = tuple(np.bincount(places[coded], minlength=len(CODES)).tolist())
        rest = values[~coded]
        if not len(rest):
            return cls(counts)
        return cls(counts, len(rest), rest.min().item(), rest.max().item())

    def merge(self, other: Tails) -> Tails:
        """Both."""
        return Tails(
            tuple(one + two for one, two in zip(self.counts, other.counts, strict=True)),
            self.others + other.others,
            min(self.low, other.low),
            max(self.high, other.high),
        )

    @property
    def suspects(self) -> tuple[int, ...]:
        """The codes that are not like other numbers: of another sign, far away, or a pile.

        >>> Tails.of(np.array([0, 3, 10, 7, -9, -9, 99, 99])).suspects
        (-9, 99)
        >>> Tails.of(np.arange(-20, 120)).suspects
        ()
        """
        span = self.high - self.low
        if not self.others or span <= 1:
            return ()
        usual = self.others / (span + 1)
        found = []
        for code, many in zip(CODES.tolist(), self.counts, strict=True):
            gap = max(self.low - code, code - self.high)
            far = gap >= span or (code < 0 <= self.low)
            pile = many >= _PILE_ROWS and many > _PILE * usual
            if many >= _FEWEST and gap > 0 and (far or (pile and code > self.high)):
                found.append(code)
        return tuple(found)
