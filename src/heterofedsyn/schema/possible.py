"""A search for a row that breaks no rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

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


Step: TypeAlias = tuple[int, Iterator[int], dict[int, Mask]]
"""A column, its codes that were not tried yet, and the codes that were possible before it."""


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
        self._nevers: dict[int, list[Forbidden]] = {}
        self._orders: dict[int, list[Before]] = {}
        for never in nevers:
            for place in never.masks:
                self._nevers.setdefault(place, []).append(never)
        for order in orders:
            for place in (*order.places, *(middle for middle, _ in order.middles)):
                self._orders.setdefault(place, []).append(order)
        self._places = sorted({*self._nevers, *self._orders})
        self._sizes, self._weights, self._rng = sizes, weights or {}, rng
        self._tries, self._most = 0, tries

    def run(self) -> dict[int, int]:
        """A code for each place; with a stack of its own, as there may be many columns.

        Raises:
            NoRow: if there is none.
            TooHard: if none was found.
        """
        free = {place: np.ones(self._sizes[place], np.bool_) for place in self._places}
        for place, laws in self._nevers.items():
            for law in laws:
                if len(law.masks) == 1:
                    free[place] = free[place] & ~law.masks[place]
        chosen: dict[int, int] = {}
        steps: list[Step] = []
        while len(chosen) < len(self._places):
            left = (place for place in self._places if place not in chosen)
            place = min(left, key=lambda own: int(np.count_nonzero(free[own])))
            steps.append((place, iter(self._candidates(place, free[place])), free))
            free = self._choose(steps, chosen)
        return chosen

    def _choose(self, steps: list[Step], chosen: dict[int, int]) -> dict[int, Mask]:
        """Takes the next code of the last step, or of one before it, and says what it leaves."""
        while steps:
            place, codes, free = steps[-1]
            for code in codes:
                self._tries += 1
                if self._tries > self._most:
                    raise TooHard
                chosen[place] = int(code)
                narrowed = self._narrowed(chosen, free, place)
                if narrowed is not None:
                    return narrowed
            chosen.pop(place, None)
            steps.pop()
        raise NoRow

    def _candidates(self, place: int, free: Mask) -> Integers:
        codes = np.flatnonzero(free)
        if self._rng is not None and place in self._weights:
            weights = np.maximum(self._weights[place][codes], 1e-12)
            codes = codes[np.argsort(-(np.log(weights) + self._rng.gumbel(size=codes.size)))]
        if place in self._orders:
            return codes
        # Codes that every rule treats alike fail alike.
        masks = [law.masks[place][codes] for law in self._nevers[place]]
        return codes[np.sort(np.unique(alike(masks), return_index=True)[1])]

    def _narrowed(
        self, chosen: dict[int, int], free: dict[int, Mask], place: int
    ) -> dict[int, Mask] | None:
        """What is left for the other columns; None if that is nothing for one of them."""
        free = dict(free)
        struck: list[tuple[int, Mask]] = []
        for law in self._nevers.get(place, ()):
            if not all(law.masks[own][chosen[own]] for own in law.masks if own in chosen):
                continue
            open_places = [own for own in law.masks if own not in chosen]
            if not open_places:
                return None
            if len(open_places) == 1:
                struck.append((open_places[0], law.masks[open_places[0]]))
        for order in self._orders.get(place, ()):
            one, other = order.places
            if order.middles:
                if _is_broken(order, chosen):
                    return None
            elif one == place and other not in chosen:
                struck.append((other, order.last < order.first[chosen[one]]))
            elif other == place and one not in chosen:
                struck.append((one, order.first > order.last[chosen[other]]))
        for own, mask in struck:
            free[own] = free[own] & ~mask
            if not free[own].any():
                return None
        return free


def alike(masks: Sequence[Mask]) -> Integers:
    """For every code a number; codes with the same are in the same masks."""
    packed = np.packbits(np.stack(masks), axis=0)
    return np.unique(packed, axis=1, return_inverse=True)[1].ravel()


def _is_broken(order: Before, chosen: Mapping[int, int]) -> bool:
    """Whether what follows by columns in the middle is broken, once all of them are known."""
    needed = *order.places, *(middle for middle, _ in order.middles)
    if not all(place in chosen for place in needed):
        return False
    return bool(order.broken({place: np.array([chosen[place]]) for place in needed})[0])
