"""Dealing allocated codes to rows."""

from __future__ import annotations

from numba import njit

from heterofedsyn._arrays import Codes, Integers


@njit(cache=True, nogil=True)
def deal(order: Integers, strata: Codes, values: Codes, places: Integers, out: Codes) -> None:
    """Give the rows, one after the other in this order, the next value of their stratum.

    Args:
        values: those of the first stratum, then those of the second, and so on.
        places: where the values of each stratum begin; changed.
    """
    for row in order:
        stratum = strata[row]
        out[row] = values[places[stratum]]
        places[stratum] += 1
