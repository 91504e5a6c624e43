"""A search for a row that breaks no rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from heterofedsyn._arrays import Floats, Integers

if TYPE_CHECKING:
    from heterofedsyn.schema.laws import Before, Forbidden

Mask = NDArray[np.bool_]

MOST_TRIES = 4_000
"""Choices after which rules count as too tangled; sensible ones need one for each column."""

FEW_TRIES = 400
"""The same where there is another way."""


class NoRow(Exception):
    """There is no such row."""


class TooHard(NoRow):
    """None could be found, though there may be one."""


class Search:
    """Codes for the columns that rules speak of, one column at a time, stepping back at dead ends.

    What a choice rules out is struck from the other columns at once, so that most dead ends are
    seen before they are entered.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        nevers: Sequence[Forbidden],
        orders: Sequence[Before],
        tries: int = MOST_TRIES,
        weights: Mapping[int, Floats] | None = None,
        rng: np.random.Generator | None = None,
    ) -> None:
        """A search that has tried nothing; with weights likely codes are tried first, at random."""
        places = {place for law in nevers for place in law.masks}
        self._places = sorted(places | {place for law in orders for place in law.places})
        self._nevers, self._orders = nevers, orders
        self._sizes, self._weights, self._rng = sizes, weights or {}, rng
        self._about: dict[int, list[Forbidden]] = {place: [] for place in self._places}
        for law in nevers:
            for place in law.masks:
                self._about[place].append(law)
        self._ordered = {place for law in orders for place in law.places}
        self._tries, self._most = 0, tries
        self._classes: dict[int, Integers] = {}

    def run(self) -> dict[int, int]:
        """A code for each place.

        Raises:
            NoRow: if there is none.
        """
        free = {place: np.ones(self._sizes[place], np.bool_) for place in self._places}
        for law in self._nevers:
            if len(law.masks) == 1:
                for place, mask in law.masks.items():
                    free[place] = free[place] & ~mask
        try:
            found = self._extend({}, free)
        except RecursionError:
            raise TooHard from None
        if found is None:
            raise NoRow
        return found

    def _extend(self, chosen: dict[int, int], free: dict[int, Mask]) -> dict[int, int] | None:
        left = [place for place in self._places if place not in chosen]
        if not left:
            return None if self._follows(chosen) else chosen
        place = min(left, key=lambda own: int(np.count_nonzero(free[own])))
        for code in self._candidates(place, free[place]):
            self._tries += 1
            if self._tries > self._most:
                raise TooHard
            now = {**chosen, place: int(code)}
            narrowed = self._narrowed(now, free, place)
            if narrowed is not None:
                found = self._extend(now, narrowed)
                if found is not None:
                    return found
        return None

    def _follows(self, chosen: dict[int, int]) -> bool:
        """Whether what follows by a third column is broken."""
        row = {place: np.array([code]) for place, code in chosen.items()}
        return any(law.middles and law.broken(row)[0] for law in self._orders)

    def _candidates(self, place: int, free: Mask) -> Integers:
        codes = np.flatnonzero(free)
        if self._rng is not None and place in self._weights:
            weights = np.maximum(self._weights[place][codes], 1e-12)
            codes = codes[np.argsort(-(np.log(weights) + self._rng.gumbel(size=codes.size)))]
        if place in self._ordered:
            return codes
        # Codes that every rule treats alike fail alike.
        if place not in self._classes:
            masks = np.stack([law.masks[place] for law in self._about[place]])
            self._classes[place] = np.unique(masks, axis=1, return_inverse=True)[1].ravel()
        first: Integers = np.unique(self._classes[place][codes], return_index=True)[1]
        return codes[np.sort(first)]

    def _narrowed(
        self, chosen: dict[int, int], free: dict[int, Mask], place: int
    ) -> dict[int, Mask] | None:
        """What is left for the other columns; None if that is nothing for one of them."""
        free = dict(free)
        for law in self._about[place]:
            if not all(law.masks[own][chosen[own]] for own in law.masks if own in chosen):
                continue
            open_places = [own for own in law.masks if own not in chosen]
            if not open_places:
                return None
            if len(open_places) == 1:
                free[open_places[0]] = free[open_places[0]] & ~law.masks[open_places[0]]
        for order in self._orders:
            if order.middles:
                continue
            one, other = order.places
            if one == place and other not in chosen:
                free[other] = free[other] & (order.last >= order.first[chosen[one]])
            elif other == place and one not in chosen:
                free[one] = free[one] & (order.first <= order.last[chosen[other]])
        if all(free[own].any() for own in self._places if own not in chosen):
            return free
        return None
