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
    return 0.5 + 0.5 * min(_pinsker(rho), _bretagnolle_huber(rho))


def formula_of(rho: float) -> str:
    """The formula that gives `most_right`: the smaller of two bounds.

    >>> formula_of(1.0), formula_of(2.0)
    ('1/2 + sqrt(rho / 2) / 2', '1/2 + sqrt(1 - e^-rho) / 2')
    """
    small = _pinsker(rho) <= _bretagnolle_huber(rho)
    return "1/2 + sqrt(rho / 2) / 2" if small else "1/2 + sqrt(1 - e^-rho) / 2"


def _pinsker(rho: float) -> float:
    return math.sqrt(rho / 2)


def _bretagnolle_huber(rho: float) -> float:
    return math.sqrt(-math.expm1(-rho))


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


def odds_text(chance: float) -> str:
    """The same in words, never below the truth.

    >>> odds_text(0.543256), odds_text(1.0)
    ('1.19 to 1', 'without limit')
    """
    exact = odds(chance)
    if exact > 1e6:
        return "without limit"
    return f"{math.ceil(round(100 * exact, 6)) / 100:,.2f} to 1"


def in_thousand(chance: float) -> str:
    """How many guesses of a thousand are right with that chance, never below the truth.

    >>> in_thousand(0.543256)
    'at most 544 times in 1,000, where a coin is right 500 times'
    """
    right = math.ceil(round(1000 * chance, 6))
    return f"at most {right:,} times in 1,000, where a coin is right 500 times"


def guess_words(rho: float, unit: str) -> str:
    """What an attacker can do at best, in words.

    >>> guess_words(0.01497, "record")[-68:]
    'is right at most 544 times in 1,000, where a coin is right 500 times'
    """
    return (
        "somebody who sees everything that leaves, knows all other rows, and guesses whether those "
        f"of one {unit} are among them, is right {in_thousand(most_right(rho))}"
    )


def in_hundred(chance: float) -> str:
    """A chance in percent, never below the truth.

    >>> in_hundred(0.5), in_hundred(0.543256), in_hundred(1.0)
    ('50.00 %', '54.33 %', '100.00 %')
    """
    return f"{math.ceil(round(1e4 * chance, 6)) / 100:.2f} %"
