"""What a table has spent, and the refusal to spend more."""

from __future__ import annotations

from dataclasses import dataclass, replace

from heterofedsyn.errors import BudgetExceeded
from heterofedsyn.privacy.budget import Budget, together


@dataclass(frozen=True)
class Charge:
    """One booked release."""

    label: str
    budget: Budget


@dataclass(frozen=True)
class Ledger:
    """The charges against one table and the cap they may never exceed.

    >>> ledger = Ledger("icu", Budget(0.05)).charge("one-way", Budget(0.02))
    >>> ledger.spent.rho
    0.02
    """

    table: str
    cap: Budget
    charges: tuple[Charge, ...] = ()

    @property
    def spent(self) -> Budget:
        """Everything charged so far, rounded up."""
        return together(charge.budget for charge in self.charges)

    def charge(self, label: str, budget: Budget) -> Ledger:
        """The ledger with one more charge.

        Raises:
            BudgetExceeded: if the charge does not fit; nothing is booked then.
        """
        if together([*(past.budget for past in self.charges), budget]) > self.cap:
            left = self.cap.rho - self.spent.rho
            raise BudgetExceeded(
                f"query {label!r} costs rho={budget.rho:.6g} but only rho={left:.6g} of "
                f"{self.cap.rho:.6g} is left for table {self.table!r}; ask for fewer releases or "
                "a smaller share"
            )
        return replace(self, charges=(*self.charges, Charge(label, budget)))
