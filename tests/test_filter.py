"""A ledger is a privacy filter: prices may be chosen from answers, and the cap still holds.

Prices that a hub chooses as it goes need the theorem on privacy filters (docs/privacy.md, "Filter")
rather than that on sums fixed beforehand. Here: a ledger meets its conditions, and whoever plays
against it learns no more than the cap allows.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent_support import FreshNoise, approved_study, ask, books_of, make_site
from heterofedsyn._arrays import Floats
from heterofedsyn.errors import BudgetExceeded, PrivacyRefusal
from heterofedsyn.marginals import Flat, Statistic, Total
from heterofedsyn.privacy.budget import Budget, sigma_for
from heterofedsyn.privacy.ledger import Ledger
from heterofedsyn.privacy.noise import SimulatedNoise
from heterofedsyn.protocol import Answer, Part, Query, decode, encode
from heterofedsyn.protocol.refusal import Refused
from heterofedsyn.schema import EncodedTable
from heterofedsyn.site import Site
from heterofedsyn.site.agent import Agent
from heterofedsyn.site.ledger.books import Books
from support import NoNoise, categories, dependent_table, make_plan

pytestmark = pytest.mark.thorough

greed = st.lists(
    st.sampled_from(["rest", "one too many", "rest in sum", "half", "twice", "least"])
    | st.floats(1e-6, 0.6),
    max_size=25,
)
"""What somebody asks for who knows the cap and all that is spent to the last digit."""


def wanted(step: str | float, cap: Budget, spent: Fraction) -> Budget:
    """The price of the next query, chosen from everything that is known by then."""
    rest = max(Fraction(0), Fraction(cap.rho) - spent)
    near = float(rest)
    if isinstance(step, float):
        return Budget(step * cap.rho)
    return Budget(
        {
            "rest": near if Fraction(near) <= rest else math.nextafter(near, 0),
            "one too many": math.nextafter(near, math.inf),
            "rest in sum": max(0.0, cap.rho - float(spent)),
            "half": near / 2,
            "twice": near * 2 + cap.rho / 2**53,
            "least": 5e-324,
        }[step]
    )


@given(st.floats(1e-12, 10).map(Budget), greed)
def test_a_ledger_stops_before_any_sequence_of_prices_exceeds_its_cap(
    cap: Budget, steps: list[str | float]
) -> None:
    ledger, spent = Ledger("icu", cap), Fraction(0)
    for step in steps:
        price = wanted(step, cap, spent)
        fits = spent + Fraction(price.rho) <= Fraction(cap.rho)
        before = ledger
        try:
            ledger = ledger.charge("q", price)
        except BudgetExceeded:
            assert not fits, "what fits is answered, also after others were refused"
            assert ledger is before, "a refused query leaves no trace"
        else:
            assert fits, "no sum of prices is ever above the cap"
            spent += Fraction(price.rho)
        assert Fraction(ledger.spent.rho) >= spent


@given(greed, st.lists(st.booleans(), min_size=25, max_size=25))
@settings(max_examples=15)
def test_the_books_of_a_site_stop_before_prices_exceed_either_cap(
    steps: list[str | float], firsts: list[bool]
) -> None:
    caps = {"cap": Budget(0.7), "study_cap": Budget(0.5)}
    spent = {"first": Fraction(0), "second": Fraction(0)}
    with tempfile.TemporaryDirectory() as place:
        folder, anchor = Path(place) / "site", Path(place) / "anchor"
        Books.create(folder, anchor)
        for number, step in enumerate(steps):
            study = "first" if firsts[number] else "second"
            whole = sum(spent.values(), Fraction(0))
            # Against the nearer of the caps, or the one that is not the nearer.
            near = Fraction(caps["cap"].rho) - whole < Fraction(caps["study_cap"].rho)
            price = (
                wanted(step, caps["cap"], whole)
                if near
                else wanted(step, caps["study_cap"], spent[study])
            )
            fits = max(
                whole + Fraction(price.rho) - Fraction(caps["cap"].rho),
                spent[study] + Fraction(price.rho) - Fraction(caps["study_cap"].rho),
            )
            before = (folder / "ledger").read_bytes(), anchor.read_bytes()
            with Books.open(folder, anchor) as books:  # as if restarted at every query
                try:
                    books.charge(
                        study,
                        f"{number:064x}",
                        "q",
                        price,
                        cap=caps["cap"],
                        study_cap=caps["study_cap"],
                    )
                except BudgetExceeded:
                    assert fits > 0
                    assert ((folder / "ledger").read_bytes(), anchor.read_bytes()) == before
                else:
                    assert fits <= 0
                    spent[study] += Fraction(price.rho)
                for name, amount in spent.items():
                    assert Fraction(books.spent_on(name).rho) >= amount


def tables_of(rows: int) -> list[EncodedTable]:
    """A table, one with a row more, one of other rows, and an empty one."""
    domain = categories(3, 4, 2).domain
    table = dependent_table(domain, rows + 1)
    others = np.stack([np.zeros(5, dtype=np.int64) for _ in domain.sizes])
    return [
        EncodedTable.from_codes(domain, table.codes[:, :rows]),
        table,
        EncodedTable.from_codes(domain, others),
        EncodedTable.from_codes(domain, others[:, :0]),
    ]


@given(st.lists(st.floats(0.01, 0.8), min_size=1, max_size=12))
def test_no_price_and_no_refusal_of_a_site_depends_on_its_rows(shares: list[float]) -> None:
    plan = make_plan(categories(3, 4, 2))
    sites = [Site("one", rows, plan, NoNoise()) for rows in tables_of(40)]
    for number, share in enumerate(shares):
        parts = (Part(Flat(("a0", "a1")), share),)
        message = encode(Query(study=plan.fingerprint, number=number, label="q", parts=parts))
        heard = set()
        for site in sites:
            try:
                answer = decode(site.answer(message), Answer)
                heard.add(str([(p.sensitivity, p.sigma, p.rho) for p in answer.parts]))
            except PrivacyRefusal as refused:
                heard.add(str(refused))
        assert len(heard) == 1
        assert len({site.ledger.charges for site in sites}) == 1


def test_no_price_and_no_refusal_of_an_agent_depends_on_its_rows(tmp_path: Path) -> None:
    shares = [0.5, 0.6, 0.3, 0.25, 0.1, 1e-13, 0.15, 0.05]
    stories = []
    for rows in (0, 1, 20, 21):
        site = make_site(tmp_path / str(rows), rows=rows)
        study = approved_study(site)
        story: list[str] = []
        with books_of(site) as books:
            agent = Agent(site, books, noise=FreshNoise(), log=lambda line: None)
            for share in shares:
                try:
                    agent.answer(ask(study, Flat(("a0", "a1")), share=share))
                    story.append("answered")
                except Refused as refused:
                    # The steward's words name the site's folder.
                    story.append(
                        f"{refused.reason} {refused}".replace(str(tmp_path / str(rows)), "")
                    )
            story += [f"{c.query} {c.label} {c.rho} {c.integers}" for c in books.account.charges]
        stories.append(story)
    assert stories[0].count("answered") == 4, "and what fits after refusals"
    assert all(story == stories[0] for story in stories)


# PLAYING AGAINST IT

Strategy = Callable[[Sequence[int], Budget], float]
"""Which share of the cap to ask for: from what is left, and which of 3 ranges answers were in."""

STRATEGIES: dict[str, Strategy] = {
    "as much as is left": lambda seen, left: left.rho,
    "dear after large answers": lambda seen, left: 0.4 if [*seen, 0][-1] == 2 else 0.05,
    "all in when it looks decided": lambda seen, left: 1.0 if sum(seen) in (0, 6) else 0.1,
    "more and more": lambda seen, left: 0.05 * 2 ** len(seen),
    "half of what is left, or all of it": lambda seen, left: left.rho * (1.0 if 2 in seen else 0.5),
    "refused every other time": lambda seen, left: 1.5 if len(seen) % 2 == 0 else 0.3,
}


@dataclass(frozen=True)
class Game:
    """Somebody asks for one count of 0 or 1 with discrete Gaussian noise, again and again.

    Their next price follows from all answers by a strategy; the ledger alone stops them. The Renyi
    divergence of everything they see is worked out exactly, over all answers there are.
    """

    strategy: Strategy
    order: float
    turns: int = 6

    def divergence(self, ledger: Ledger) -> float:
        """Of the order, between the two tables, over the order: at most rho for rho-zCDP."""
        return math.log(self._moment(ledger, ())) / (self.order - 1) / self.order

    def _moment(self, ledger: Ledger, seen: tuple[int, ...]) -> float:
        """The mean, if the count is 1, of the likelihood ratio to the power order - 1."""
        if len(seen) == self.turns:
            return 1.0
        left = ledger.cap.rho - ledger.spent.rho
        price = Budget(self.strategy(seen, Budget(left / ledger.cap.rho)) * ledger.cap.rho)
        try:
            ledger = ledger.charge("q", price)
        except BudgetExceeded:
            # They hear of the refusal and go on, with another question.
            return self._moment(ledger, (*seen, 1))
        if price.rho < 1e-9:
            return 1.0
        return math.fsum(
            float(part) * self._moment(ledger, (*seen, i))
            for i, part in enumerate(moments(sigma_for(1.0, price), self.order))
        )


def moments(sigma: float, order: float) -> Floats:
    """Sums of P^order Q^(1 - order) over low, middle and high answers; P about 1, Q about 0."""
    reach = math.ceil((order + 20) * max(1.0, sigma) ** 2) + 20
    y = np.arange(-reach, reach + 1, dtype=np.float64)
    whole = float(np.exp(-(y**2) / (2 * sigma**2)).sum())
    exponents = -(order * (y - 1) ** 2 + (1 - order) * y**2) / (2 * sigma**2)
    parts = np.exp(exponents) / whole
    where = np.where(y < 0.5 - sigma / 2, 0, np.where(y > 0.5 + sigma / 2, 2, 1))
    found: Floats = np.bincount(where, parts, 3).astype(np.float64)
    return found


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("order", [1.1, 2.0, 5.0, 20.0])
def test_whoever_chooses_prices_from_answers_learns_at_most_the_cap(
    strategy: str, order: float
) -> None:
    for cap in (0.02, 0.3):
        found = Game(STRATEGIES[strategy], order).divergence(Ledger("icu", Budget(cap)))
        assert 0 < found <= cap * (1 + 1e-9)
        if strategy == "as much as is left":
            assert found == pytest.approx(cap, rel=1e-3), "and the cap is attained"


class NoFilter(Ledger):
    """It refuses nothing: that the cap is kept on average is left to those who ask."""

    def charge(self, label: str, budget: Budget) -> Ledger:
        return self


def test_a_cap_on_the_mean_price_is_not_enough() -> None:
    # Twice the cap after a large answer, which is less than half of them, and else nothing more.
    def strategy(seen: Sequence[int], left: Budget) -> float:
        return 0.01 if not seen else (1.98 if seen == (2,) else 0.0)

    cap = Budget(0.3)
    found = Game(strategy, order=20.0, turns=2).divergence(NoFilter("icu", cap))
    assert found > 1.5 * cap.rho
    assert Game(strategy, order=20.0, turns=2).divergence(Ledger("icu", cap)) <= cap.rho


@given(st.integers(0, 2**32), st.floats(0.1, 10))
@settings(max_examples=30)
def test_queries_whose_prices_follow_from_answers_move_at_most_what_a_site_may_spend(
    seed: int, epsilon: float
) -> None:
    plan = make_plan(categories(3, 4, 2), epsilon=epsilon)
    small, large, *_ = tables_of(40)
    site = Site("one", small, plan, SimulatedNoise(seed, "one"))
    kinds: list[Statistic] = [Total(), Flat(("a0",)), Flat(("a0", "a1")), Flat(("a1", "a2"))]
    answered: list[bytes] = []
    share, turn = 0.1, 0
    for number in range(40):
        parts = (Part(kinds[turn % len(kinds)], share),)
        message = encode(Query(study=plan.fingerprint, number=number, label="q", parts=parts))
        try:
            values = decode(site.answer(message), Answer).parts[0].values
        except PrivacyRefusal:
            share /= 2  # a smaller one may still fit
            continue
        answered.append(message)
        turn = abs(int(values.sum()))
        share = 0.01 + 0.4 * (turn % 101) / 101
    pair = [Site("one", rows, plan, NoNoise()) for rows in (small, large)]
    lost = Fraction(0)
    for message in answered:
        one, other = (decode(each.answer(message), Answer).parts[0] for each in pair)
        assert (one.sigma, one.rho) == (other.sigma, other.rho)
        squared = int(((one.values - other.values) ** 2).sum())
        lost += Fraction(squared) / (2 * Fraction(one.sigma) ** 2)
    assert lost <= Fraction(site.ledger.spent.rho) <= Fraction(plan.budget.rho)
    assert site.ledger.spent.rho > 0.5 * plan.budget.rho, "most of it was asked for"
