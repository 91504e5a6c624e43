"""What a table has spent, and the refusal to spend more."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from heterofedsyn.errors import BudgetExceeded
from heterofedsyn.privacy.budget import Budget, together


@dataclass(frozen=True)
class Charge:
    """One booked release."""

    label: str
    budget: Budget


@dataclass(frozen=True)
class Ledger:
    """The charges against one table (or one study's part of it) and the cap they never exceed.

    Attributes:
        before: the sum of charges that are not listed, not rounded.

    >>> ledger = Ledger("icu", Budget(0.05)).charge("one-way", Budget(0.02))
    >>> ledger.spent.rho
    0.02
    """

    table: str
    cap: Budget
    charges: tuple[Charge, ...] = ()
    holder: str = "table"
    before: Fraction = Fraction(0)

    @property
    def spent(self) -> Budget:
        """Everything charged so far, rounded up."""
        return together((charge.budget for charge in self.charges), self.before)

    def charge(self, label: str, budget: Budget) -> Ledger:
        """The ledger with one more charge.

        Raises:
            BudgetExceeded: if the charge does not fit; nothing is booked then.
        """
        after = together([*(past.budget for past in self.charges), budget], self.before)
        if after > self.cap:
            left = max(0.0, self.cap.rho - self.spent.rho)
            raise BudgetExceeded(
                f"query {label!r} costs rho={budget.rho:.6g} but only rho={left:.6g} of "
                f"{self.cap.rho:.6g} is left for {self.holder} {self.table!r}; ask for "
                "fewer releases or a smaller share"
            )
        return replace(self, charges=(*self.charges, Charge(label, budget)))


def shortfall(target: Budget, booked: Iterable[Budget]) -> Budget:
    """The least that must be booked besides so that all of it together reaches the target.

    >>> shortfall(Budget(0.5), [Budget(0.125)]), shortfall(Budget(0.5), [Budget(0.75)])
    (Budget(rho=0.375), Budget(rho=0.0))
    """
    exact = Fraction(target.rho) - sum((Fraction(part.rho) for part in booked), Fraction(0))
    nearest = float(max(Fraction(0), exact))
    return Budget(nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf))
