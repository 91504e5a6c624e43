"""What a budget means as the chance of an attacker to guess right; MATH section 1."""

from __future__ import annotations

import math


def most_right(rho: float) -> float:
    """The best chance to guess, from all that a rho-zCDP mechanism gave, which of two worlds is so.

    Both worlds are as likely before, such as a record in the data and the same data without it. The
    best guess is right with a chance of (1 + TV) / 2. Since rho bounds the divergence of Kullback
    and Leibler, TV is at most sqrt(rho / 2) (Pinsker) and sqrt(1 - e^-rho) (Bretagnolle, Huber).

    >>> round(most_right(0.01497), 4), most_right(0.0), most_right(1e9)
    (0.5433, 0.5, 1.0)
    """
    return 0.5 + 0.5 * min(math.sqrt(rho / 2), math.sqrt(-math.expm1(-rho)))


def likely_right(rho: float) -> float:
    """The same if the noise were exactly Gaussian: worlds mu = sqrt(2 rho) apart, so Phi(mu / 2).

    The noise is discrete, so this is an approximation and no bound.

    >>> round(likely_right(0.01497), 4)
    0.5345
    """
    return math.erfc(-math.sqrt(rho / 2) / math.sqrt(2)) / 2


def odds(chance: float) -> float:
    """Right guesses for each wrong one.

    >>> odds(0.75)
    3.0
    """
    return math.inf if chance >= 1 else chance / (1 - chance)


def in_hundred(chance: float) -> str:
    """A chance in percent, never below the truth.

    >>> in_hundred(0.5), in_hundred(0.543256), in_hundred(1.0)
    ('50.00 %', '54.33 %', '100.00 %')
    """
    return f"{math.ceil(round(1e4 * chance, 6)) / 100:.2f} %"
