"""Noisy values, which never travel without the variance of their noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heterofedsyn._arrays import Floats, frozen


@dataclass(frozen=True, eq=False)
class Noisy:
    """Values with independent noise of one variance on each.

    >>> total = Noisy(np.array([3.0, 5.0]), 2.0) + Noisy(np.array([1.0, 1.0]), 2.0)
    >>> total.values.tolist(), total.variance
    ([4.0, 6.0], 4.0)
    """

    values: Floats
    variance: float

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        object.__setattr__(self, "values", frozen(values))

    def __add__(self, other: Noisy) -> Noisy:
        if self.values.shape != other.values.shape:
            raise ValueError(f"shapes {self.values.shape} and {other.values.shape} differ")
        return Noisy(self.values + other.values, self.variance + other.variance)

    def scaled(self, factor: float) -> Noisy:
        """The values times a constant, the variance times its square."""
        return Noisy(self.values * factor, self.variance * factor**2)

    def shaped(self, shape: tuple[int, ...]) -> Noisy:
        """The same values as a table of another shape."""
        return Noisy(self.values.reshape(shape), self.variance)

    def combine(self, other: Noisy) -> Noisy:
        """The mean of two measurements of the same thing, weighted by inverse variance."""
        weight = other.variance / (self.variance + other.variance)
        return Noisy(weight * self.values + (1 - weight) * other.values, weight * self.variance)
