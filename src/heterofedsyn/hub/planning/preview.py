"""What one site would be asked in a study, from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from heterofedsyn._words import size
from heterofedsyn.errors import PrivacyRefusal
from heterofedsyn.hub.methods import make_method
from heterofedsyn.hub.methods.base import Later, Setting
from heterofedsyn.hub.planning.lengths import Weight
from heterofedsyn.hub.planning.reach import ColumnReach, least_noise, reach_of
from heterofedsyn.hub.replies import Ask, make_query
from heterofedsyn.marginals.counts import PAIRS, TRIPLES
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.protocol import Query
from heterofedsyn.protocol.limits import check_query
from heterofedsyn.protocol.plan import Plan
from heterofedsyn.protocol.study import Study
from heterofedsyn.protocol.terms import price_of, stated_terms


@dataclass(frozen=True)
class ForeseenRound:
    """A round, or several that are chosen from noisy answers.

    Attributes:
        fixed: known to the last integer; else all figures are the most there can be, and None
            where only the site's own limits hold.
        bytes: of the site's answers, and of what hides and opens them.
        parts: every release, if fixed, with the noise that protects for sure.
    """

    label: str
    fixed: bool
    kinds: tuple[str, ...]
    rounds: int | None
    releases: int | None
    integers: int | None
    rho: float
    bytes: int | None
    parts: tuple[Terms, ...] = ()


@dataclass(frozen=True)
class Preview:
    """All that may leave one site.

    Attributes:
        rho: of the whole study, at most; less than the rounds together, of which not all can
            cost the most.
        rho_alone: of the same answers if more sites collude than may: each by itself.
        once: bytes that leave before anything is asked.
        columns: the most that is asked about each of them.
        least_noise: of every count, in records, whatever the hub asks within the budget.
        together: how many columns a count may be of.
    """

    site: str
    study: str
    method: str
    rounds: tuple[ForeseenRound, ...]
    rho: float
    rho_alone: float
    once: int = 0
    columns: tuple[ColumnReach, ...] = ()
    least_noise: float = 0.0
    together: int = PAIRS

    @property
    def integers(self) -> int | None:
        """The most integers that leave."""
        return _sum(round_.integers for round_ in self.rounds)

    @property
    def bytes(self) -> int | None:
        """The most bytes that leave."""
        return _sum([self.once, *(round_.bytes for round_ in self.rounds)])


def preview(study: Study, site: str) -> Preview:
    """What a study would ask of one site.

    Raises:
        PrivacyRefusal: if its method needs all rows in one place.
        ProtocolError: if a site would refuse what it asks, whatever the price.
    """
    plan, schema = study.plan, study.encoding
    method = make_method(plan.method, plan.settings)
    if method.pools:
        raise PrivacyRefusal(
            f"method {plan.method!r} needs all rows in one place, which no federation gives it; "
            "it can be simulated only"
        )
    weight = Weight.of_plan(plan, site)
    ahead = [part for part in method.ahead(Setting.of(schema, plan)) if part.to in (None, site)]
    asked = [make_query(part, plan, 0) if isinstance(part, Ask) else part for part in ahead]
    for part in asked:  # all of them before a sketch is drawn to price one
        if isinstance(part, Query):
            check_query(part, schema.domain)
    rounds = tuple(
        _fixed(part, study, weight) if isinstance(part, Query) else _later(part, weight)
        for part in asked
    )
    return Preview(
        site=site,
        study=study.fingerprint,
        method=plan.method,
        rounds=rounds,
        rho=plan.budget.rho,
        rho_alone=plan.budget_alone.rho,
        once=weight.once,
        columns=reach_of(
            schema,
            plan,
            [part for round_ in rounds for part in round_.parts],
            [part for part in asked if isinstance(part, Later)],
        ),
        least_noise=least_noise(plan),
        together=plan.together,
    )


COLUMN_HEAD = ["column, and how it is told", "noise alone", "together with", "noise then"]
"""What stands above `column_lines`."""

ROUND_HEAD = ["round", "kinds", "releases", "integers", "rho", "sent"]
"""What stands above `round_lines`."""


def column_lines(shown: Preview) -> list[list[str]]:
    """The most that is asked about each column, for people."""
    others = sum(column.values > 0 for column in shown.columns) - 1
    return [
        [
            f"{column.name}: {column.told_as}",
            "" if column.alone is None else column.alone.words,
            _partners(column, others, shown.together),
            "" if column.together is None else column.together.words,
        ]
        for column in shown.columns
    ]


def most_words(shown: Preview) -> str:
    """What holds of every column, whatever the hub asks within the budget."""
    most = "or of two columns together; never of three,"
    if shown.together == TRIPLES:
        most = (
            "of two columns together, or, since the study's plan says so, of up to three columns "
            "together; never of four,"
        )
    return (
        "all that can leave are noisy counts, or sums of such: of all rows, of the values of one "
        f"column, {most} and never a row. Noise is the standard deviation on every count, in "
        "records; whatever the hub asks within the budget, it is at least "
        f"{int(10 * shown.least_noise) / 10:,.1f}, and the more is asked the larger"
    )


def release_head(plan: Plan) -> list[str]:
    """What stands above `release_lines`."""
    sigmas = ["sigma added here", "sigma that protects"] if _summed(plan) else ["sigma"]
    return ["release", "kind", "integers", *sigmas, "rho"]


def release_lines(shown: Preview, plan: Plan) -> list[list[str]]:
    """Every release that is fixed in advance, for people."""
    return [
        [
            f"{round_.label}: {' x '.join(part.attributes) or 'rows'}",
            part.kind,
            f"{part.integers:,}",
            *([f"{own_sigma(part.sigma, plan):,.1f}"] if _summed(plan) else []),
            f"{part.sigma:,.1f}",
            f"{part.rho:.3g}",
        ]
        for round_ in shown.rounds
        for part in round_.parts
    ]


def round_lines(shown: Preview) -> list[list[str]]:
    """Every round and all of them together: name, kinds, releases, integers, rho, bytes sent."""
    sent = "any" if shown.bytes is None else size(shown.bytes)
    return [
        *(_round_line(round_) for round_ in shown.rounds),
        ["together (at most)", "", "", _most(shown.integers), f"{shown.rho:.3g}", sent],
    ]


def own_sigma(sigma: float, plan: Plan) -> float:
    """The noise that one site adds, where so much protects for sure."""
    return sigma / math.sqrt(plan.trust_model.alone_factor)


def _fixed(query: Query, study: Study, weight: Weight) -> ForeseenRound:
    domain = study.encoding.domain
    parts = tuple(stated_terms(part, domain, study.plan) for part in query.parts)
    return ForeseenRound(
        label=query.label,
        fixed=True,
        kinds=tuple(sorted({part.kind for part in parts})),
        rounds=1,
        releases=len(parts),
        integers=sum(part.integers for part in parts),
        rho=price_of(parts).rho,
        bytes=weight.of([part.integers for part in parts]),
        parts=parts,
    )


def _later(later: Later, weight: Weight) -> ForeseenRound:
    return ForeseenRound(
        label=later.label,
        fixed=False,
        kinds=later.kinds,
        rounds=later.rounds,
        releases=later.releases,
        integers=later.integers,
        rho=later.cost.rho,
        bytes=weight.most(later.rounds, later.releases, later.integers),
    )


def _sum(figures: Iterable[int | None]) -> int | None:
    found = list(figures)
    return None if None in found else sum(figure for figure in found if figure is not None)


def _summed(plan: Plan) -> bool:
    return plan.trust_model.alone_factor != 1


def _partners(column: ColumnReach, others: int, together: int) -> str:
    many = len(column.partners)
    if many <= 3:
        words = ", ".join(column.partners)
    else:
        words = f"any of {many:,} others" if many == others else f"{many:,} of {others:,} others"
    return f"{words}, up to two at once" if together == TRIPLES and many > 1 else words


def _round_line(round_: ForeseenRound) -> list[str]:
    return [
        round_.label if round_.fixed else f"{round_.label} (at most)",
        ", ".join(round_.kinds) or "any",
        _most(round_.releases),
        _most(round_.integers),
        f"{round_.rho:.3g}",
        "any" if round_.bytes is None else size(round_.bytes),
    ]


def _most(figure: int | None) -> str:
    return "any" if figure is None else f"{figure:,}"
