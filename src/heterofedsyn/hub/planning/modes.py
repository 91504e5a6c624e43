"""From where on a method attempts more, if it has modes: its own rule, asked again and again."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist

from heterofedsyn.hub.methods.base import Method, Setting
from heterofedsyn.privacy.budget import Budget

ATTEMPTED = {
    "star": "pairs with the label",
    "full": "pairs of all kinds",
    "triples": "pairs together with the label",
}
"""What a mode measures beyond the one that attempts less."""

MOST_PLANNED = 10**12
"""Rows that a plan can be made for."""

MOST_EPSILON = 100.0


@dataclass(frozen=True)
class Threshold:
    """From where on at least a mode is chosen, all else being equal; None if never.

    Attributes:
        groups: per attribute that would stand out of the noise if it were chosen.
        needed: from how many groups on it is.
    """

    mode: str
    groups: float
    needed: float
    epsilon: float | None
    rows: int | None


def chances(method: Method, setting: Setting, rows: int, sigma: float) -> dict[str, float]:
    """How likely each mode is, since a noisy number of rows decides; none without modes."""
    noisy = NormalDist(rows, max(sigma, 1e-9))
    likely: dict[str, float] = {}
    beyond = 0.0  # the chance of what was told already, and of anything more ambitious
    for name in method.mode_names:
        least = _least_rows(method, setting, name)
        chance = 0.0 if least is None else 1 - noisy.cdf(least) if least > 1 else 1.0
        likely[name] = max(0.0, chance - beyond)
        beyond = max(beyond, chance)
    return likely


def thresholds(
    method: Method, setting: Setting, rows: int, delta: float, conversion: str
) -> tuple[Threshold, ...]:
    """From where on each mode but the least is chosen, the least ambitious first."""
    told = []
    modes = method.modes(setting)
    for name in reversed(method.mode_names[:-1]):
        if name not in modes:
            continue
        least, needed = _least_rows(method, setting, name), modes[name].needed
        # Groups grow with the root of the number of rows; MATH section 5.0.
        groups = 0.0 if least is None else needed * math.sqrt(rows / least)
        epsilon = _least_epsilon(method, setting, name, rows, delta, conversion)
        told.append(Threshold(name, groups, needed, epsilon, least))
    return tuple(told)


def _reached(method: Method, setting: Setting, name: str, rows: float) -> bool:
    """Whether at least this mode is chosen."""
    mode = method.mode(setting, rows)
    names = method.mode_names
    return mode is not None and names.index(mode.name) <= names.index(name)


def _least_rows(method: Method, setting: Setting, name: str) -> int | None:
    """The number of rows from which at least this mode is chosen."""
    low, high = 0, MOST_PLANNED
    if not _reached(method, setting, name, high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _reached(method, setting, name, middle) else (middle, high)
    return high


def _least_epsilon(
    method: Method, setting: Setting, name: str, rows: int, delta: float, conversion: str
) -> float | None:
    """The epsilon from which at least this mode is chosen."""
    low, high = 1e-12, 100.0
    if not _reached(method, replace(setting, budget=Budget(high)), name, rows):
        return None
    while high / low > 1 + 1e-6:
        middle = math.sqrt(low * high)
        there = _reached(method, replace(setting, budget=Budget(middle)), name, rows)
        low, high = (low, middle) if there else (middle, high)
    epsilon = Budget(high).epsilon(delta, conversion)
    return epsilon if epsilon <= MOST_EPSILON else None
