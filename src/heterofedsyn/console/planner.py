"""Works out in the background what to expect of a study, budget after budget; nothing is read."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from threading import Condition, Thread

from heterofedsyn.console.noticing import Recent
from heterofedsyn.errors import HeterofedsynError
from heterofedsyn.hub import make_method
from heterofedsyn.hub.planning.forecast import EPSILONS, Outlook, glance
from heterofedsyn.protocol import Plan
from heterofedsyn.schema import Schema
from heterofedsyn.simulate.drafting import draft_plan

MOST_KEPT = 64
"""Setups whose figures are remembered."""

_UNFORESEEN = (
    "this cannot be worked out ({}); try another budget or fewer sites, or see what "
    "`heterofedsyn plan` says with the same values"
)


@dataclass(frozen=True)
class Setup:
    """A study as it is planned, but for its budget: public facts alone."""

    schema: Schema = field(compare=False)
    fingerprint: str
    rows: int
    sites: int
    trust: str
    colluding: int | None
    quorum: int | None
    delta: float
    method: str

    def plan(self, epsilon: float) -> Plan:
        """The plan with this budget.

        Raises:
            HeterofedsynError: if there is none.
        """
        return draft_plan(
            self.schema,
            make_method(self.method),
            epsilon=epsilon,
            delta=self.delta,
            sites=self.sites,
            trust=self.trust,
            colluding=self.colluding,
            quorum=self.quorum,
        )

    def under(self, trust: str) -> Setup:
        """The same under another trust model, as that usually is."""
        return replace(self, trust=trust, colluding=None, quorum=None)


@dataclass
class Expected:
    """What is known so far of one setup, or why nothing is, by epsilon."""

    outlooks: dict[float, Outlook] = field(default_factory=dict)
    problems: dict[float, str] = field(default_factory=dict)

    def missing(self, first: float) -> list[float]:
        """Budgets that nobody looked at, this one first."""
        order = sorted(EPSILONS, key=lambda epsilon: (epsilon != first, _apart(epsilon, first)))
        return [each for each in order if each not in {**self.outlooks, **self.problems}]

    def copy(self) -> Expected:
        """The same as it is now."""
        return Expected(dict(self.outlooks), dict(self.problems))


class Planner:
    """Looks at what was asked for last, in a thread that ends when nothing is left to do.

    Attributes:
        turn: grows whenever something new is known.
    """

    def __init__(self) -> None:
        self.turn = 0
        self._known = Recent[Setup, Expected](MOST_KEPT)
        self._wanted: tuple[Setup, float] | None = None
        self._changed = Condition()
        self._works = False

    def look(self, setup: Setup, epsilon: float) -> Expected:
        """What is known of a setup by now; what is not is worked out, this budget first."""
        with self._changed:
            expected = self._known.get(setup, Expected)
            self._wanted = setup, epsilon
            if expected.missing(epsilon) and not self._works:
                self._works = True
                Thread(target=self._work, daemon=True).start()
            return expected.copy()

    def known(self, setup: Setup) -> Expected:
        """What is known of a setup by now; nothing is worked out for it."""
        with self._changed:
            return (self._known.find(setup) or Expected()).copy()

    def wait(self, seconds: float) -> bool:
        """Whether all that was asked for is known within so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._works, seconds)

    def _work(self) -> None:
        while (todo := self._next()) is not None:
            setup, epsilon = todo
            try:
                plan = setup.plan(epsilon)
                outlook = glance(setup.schema, plan, make_method(setup.method), setup.rows)
                self._keep(setup, epsilon, outlook)
            except HeterofedsynError as error:
                self._keep(setup, epsilon, str(error))
            except Exception as error:  # a page must say so instead of waiting for ever
                self._keep(setup, epsilon, _UNFORESEEN.format(type(error).__name__))

    def _next(self) -> tuple[Setup, float] | None:
        with self._changed:
            if self._wanted is not None:
                setup, epsilon = self._wanted
                left = self._known.get(setup, Expected).missing(epsilon)
                if left:
                    return setup, left[0]
            self._works = False
            self._changed.notify_all()
            return None

    def _keep(self, setup: Setup, epsilon: float, found: Outlook | str) -> None:
        with self._changed:
            expected = self._known.get(setup, Expected)
            if isinstance(found, str):
                expected.problems[epsilon] = found
            else:
                expected.outlooks[epsilon] = found
            self.turn += 1


def _apart(one: float, other: float) -> float:
    return abs(math.log(one / other))
