"""Telling dependence from noise in a table; MATH section 5.6."""

from __future__ import annotations

import math

import numpy as np

from heterofedsyn._arrays import Floats
from heterofedsyn.synthesis.zeros import TINY


def shrink(table: Floats, sigma: float, fixed: int = 1) -> Floats:
    """Singular values shrunk to what is best under normal noise (Gavish and Donoho, Frobenius).

    Args:
        fixed: by how many its rows, and its columns, are fewer in truth: one where sums are known.
    """
    p, q = sorted(size - fixed for size in table.shape)
    if p == 0:
        return np.zeros_like(table)
    left, singular, right = np.linalg.svd(table, full_matrices=False)
    beta = p / q
    scale = sigma * math.sqrt(q)
    u = singular / scale
    above = u > 1 + math.sqrt(beta)
    inner = np.maximum((u**2 - beta - 1) ** 2 - 4 * beta, 0)
    kept = np.where(above, scale * np.sqrt(inner) / np.maximum(u, TINY), 0.0)
    result: Floats = (left * kept) @ right
    return result
