"""Bugs of prices: sigma, sensitivity and budgets, what is charged, and what caps let through."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from msgspec import structs

from planted import places as at
from planted.bugs import Planting, coupling, game, ledger, noise
from planted.planting import changed, instead_of, put


@coupling("sigma halved where it is computed", r"costs rho")
@instead_of(at.sigma_for)
def _(true: Any, *how: Any) -> Any:
    return 0.5 * true(*how)


@noise("a variance rounded downwards", r"costs more than the rho|OpenDP prices", "rounded up")
def _() -> None:
    put(at.budget, "_SLACK", -1e-15)


@coupling(
    "an epsilon rounded to the nearest float", r"was promised|is said to mean", "rho keeps epsilon"
)
@instead_of(at.budget._outwards)
def _(true: Any, *terms: Any) -> Any:
    return float(sum(terms))


@coupling("a split that adds up to more than the whole", r"add up to more", "splits")
@instead_of(at.Budget.split)
def _(true: Any, whole: at.Budget, *weights: float) -> tuple[at.Budget, ...]:
    exact = [Fraction(weight) for weight in weights]
    unit = Fraction(whole.rho) / sum(exact)
    return tuple(at.Budget(float(weight * unit)) for weight in exact)


def sketches(kind: at.SketchKind) -> Callable[[Callable[..., float]], Planting]:
    """The sensitivity of sketches of a kind is taken as something else."""

    def plant(taken: Callable[..., float]) -> Planting:
        @instead_of(at.Sketch.lengths)
        def planting(true: Any, *how: Any) -> tuple[float, int]:
            sensitivity, l1 = true(*how)
            return (taken(*how) if how[-1] is kind else sensitivity), l1

        return planting

    return plant


@coupling("sensitivity of sign sketches taken as 1", r"sketched .* costs rho")
@game(
    "sensitivity of sign sketches taken as 1, seen by the attacker",
    r"sketch of signs",
    "sketch of signs, seeded",
)
@sketches(at.SketchKind.SIGNS)
def _(*how: Any) -> Any:
    return 1.0


@coupling("sensitivity of gaussian sketches taken as 1", r"sketched .* costs rho", "gaussian")
@sketches(at.SketchKind.GAUSSIAN)
def _(*how: Any) -> Any:
    return 1 / at.Sketch.draw(*how).scale


@coupling(
    "the longest row of a sketch is sought among the first 4,096",
    r"a large table: .*sketched .*costs rho",
    "large table",
)
@sketches(at.SketchKind.GAUSSIAN)
def _(*how: Any) -> float:
    first = at.Sketch.draw(*how).matrix[:4096].astype(np.int64)
    return math.nextafter(math.sqrt((first**2).sum(axis=1).max()), math.inf)


@coupling("L rows per person counted as one", r"3 rows a person.* costs rho", "3 rows")
@instead_of(at.terms_of)
def _(true: Any, part: Any, domain: Any, plan: Any, *how: Any) -> Any:
    return true(part, domain, changed(plan, rows_per_unit=1), *how)


@coupling(
    "secure aggregation with shares of 0.25 and no slack",
    r"shares of sigma .* cost rho",
    "sums of shares",
)
@instead_of(at.SecureAggregation.site_sigma)
def _(true: Any, own: at.SecureAggregation, sensitivity: float, budget: at.Budget, *_: Any) -> Any:
    sigma = at.sigma_for(sensitivity, budget) / math.sqrt(own.alone_factor)
    if sigma < 0.25:
        raise own._refusal(sigma)
    return sigma


@coupling(
    "the noise of all sites is counted on where one may collude",
    r"shares of sigma .* cost rho",
    "sums of shares",
)
@instead_of(at.SecureAggregation.site_sigma)
def _(true: Any, own: at.SecureAggregation, *how: Any) -> Any:
    return true(own, *how) * math.sqrt(own.honest / own.sites)


@coupling(
    "the noise of all sites is counted on where one may collude, in a whole study",
    r"secure-aggregation.* costs rho",
    "secure-aggregation",
)
@instead_of(at.SecureAggregation.site_sigma)
def _(true: Any, own: at.SecureAggregation, *how: Any) -> Any:
    return true(own, *how) * math.sqrt(own.honest / own.sites)


@noise(
    "the slack of a sum is reckoned with the length of a move, not with all of it",
    r"costs more than the rho",
    "rounded up",
)
@instead_of(at.SecureAggregation.slack)
def _(true: Any, own: Any, sigma: float, sensitivity: float, integers: int, *_: Any) -> Any:
    return true(own, sigma, sensitivity, integers, sensitivity)


@game(
    "the noise of all sites is counted on where one tells the hub its part",
    r"sum over sites, OpenDP",
    "sum over sites",
)
@instead_of(at.SecureAggregation.site_sigma)
def _(true: Any, own: at.SecureAggregation, *how: Any) -> Any:
    return true(own, *how) * math.sqrt(own.honest / own.sites)


def costs(how: Callable[[at.Price, list[Any], at.Desk], at.Budget]) -> Planting:
    """Sites charge for a query what this makes of its price and its parts."""

    @instead_of(at.Desk.answer)
    def planting(true: Any, desk: at.Desk, query: at.Query, store: at.Store) -> Any:
        def at_another(book: Callable[[at.Price], None]) -> Callable[[at.Price], None]:
            return lambda price: book(replace(price, cost=how(price, list(query.parts), desk)))

        ask, book = at_another(store.afford), at_another(store.charge)
        return true(desk, query, changed(store, afford=ask, charge=book))

    return planting


def _of(desk: at.Desk, parts: Any) -> list[at.Budget]:
    return [desk.plan.budget.part(part.share) for part in parts]


@coupling("three columns together cost nothing", r"charged was|nothing was charged")
@costs
def _(price: at.Price, parts: list[Any], desk: at.Desk) -> at.Budget:
    few = [part for part in parts if len(part.statistic.attributes) < 3]
    return at.together(_of(desk, few)) if few else at.Budget(1e-300)


@coupling(
    "what was asked before costs nothing in later rounds", r"all rounds.*charged was", "all rounds"
)
def _() -> None:
    first: dict[tuple[str, Any], str] = {}

    @costs
    def planting(price: at.Price, parts: list[Any], desk: at.Desk) -> at.Budget:
        new = [
            part
            for part in parts
            if first.setdefault((desk.plan.fingerprint, part.statistic), price.query) == price.query
        ]
        return at.together(_of(desk, new)) if new else at.Budget(1e-300)

    planting()


@coupling(
    "L rows of a person cost one in three columns",
    r"people over files.*grouped of a0-a1-a2: sigma",
    "people over files",
)
@instead_of(at.terms_at)
def _(true: Any, statistic: Any, cost: Any, domain: Any, plan: Any, *how: Any) -> Any:
    if len(statistic.attributes) == 3:
        plan = structs.replace(plan, rows_per_unit=1)
    return true(statistic, cost, domain, plan, *how)


@coupling("a budget spent twice: several releases for the price of one", r"charged was")
@costs
def _(price: Any, parts: Any, desk: Any) -> Any:
    return max(_of(desk, parts))


@coupling(
    "equal parts of a query cost once", r"every kind, every record: releases cost", "every kind"
)
@costs
def _(price: Any, parts: Any, desk: Any) -> Any:
    return at.together(_of(desk, dict.fromkeys(parts)))


@ledger(
    "small queries are answered for nothing",
    r"an answer left for a price that was not booked",
    "any size",
)
@costs
def _(price: Any, parts: Any, desk: Any) -> Any:
    return at.Budget(0.0) if price.cost.rho < 1e-11 else price.cost


@ledger(
    "a budget spent twice: past charges do not count",
    r"does not fit was answered|more than its budget",
)
@game("a budget spent twice, seen by the attacker", r"game")
@instead_of(at.Ledger.charge)
def _(true: Any, ledger: at.Ledger, *how: Any) -> at.Ledger:
    alone = true(replace(ledger, charges=(), before=Fraction(0)), *how)
    return replace(ledger, charges=(*ledger.charges, *alone.charges))


@ledger("a cap has a tolerance of 1e-6", r"of the cap was spent above it", "last bit")
@instead_of(at.Ledger.charge)
def _(true: Any, ledger: at.Ledger, *how: Any) -> Any:
    wider = replace(ledger, cap=at.Budget(ledger.cap.rho * (1 + 1e-6)))
    return replace(true(wider, *how), cap=ledger.cap)


@ledger(
    "charges below 1e-9 of the cap are forgotten in memory",
    r"in memory: a price is booked as another",
    "any size",
)
@instead_of(at.Ledger.charge)
def _(true: Any, ledger: at.Ledger, label: str, budget: at.Budget) -> Any:
    return ledger if budget.rho < 1e-9 * ledger.cap.rho else true(ledger, label, budget)


@ledger(
    "the cap of a table is that of a larger delta", r"the cap of a table is epsilon", "keep epsilon"
)
@instead_of(at.SiteSettings.cap)
def _(true: Any, settings: at.SiteSettings) -> at.Budget:
    return at.Budget.of(epsilon=settings.epsilon, delta=settings.delta**0.5)


@ledger("two threads ask a site in memory at once", r"two threads: two answers left", "two threads")
@instead_of(at.Site.__init__)
def _(true: Any, site: at.Site, *how: Any, **more: Any) -> None:
    true(site, *how, **more)
    put(site, "_turn", nullcontext())
