"""Stages that several methods share; each is a conversation that `yield from` continues."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import TypeVar

from heterofedsyn.errors import UsageError
from heterofedsyn.hub.methods.base import Later, Setting
from heterofedsyn.hub.methods.scores import Glimpse
from heterofedsyn.hub.replies import Ask, Round
from heterofedsyn.marginals.sketch import SketchKind
from heterofedsyn.marginals.statistics import Flat, Sketched, Statistic
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.protocol.limits import MOST_INTEGERS
from heterofedsyn.schema import Clique, Domain
from heterofedsyn.synthesis import Consistency, Targets

Result = TypeVar("Result")


def one_ways(setting: Setting, budget: Budget) -> Generator[Ask, Round, Targets]:
    """All 1-ways, flat, in equal shares."""
    singles = [Flat(single) for single in setting.domain.singles()]
    round_ = yield Ask.evenly("one-way", singles, budget)
    return Targets(setting.schema, round_.measurements(), Consistency())


def once_more(
    before: Sequence[tuple[Statistic, Budget]], budget: Budget
) -> tuple[tuple[Statistic, Budget], ...]:
    """The same again for this budget, in proportion to what it cost before."""
    again = budget.split(*(price.rho for _, price in before))
    return tuple(zip((statistic for statistic, _ in before), again, strict=True))


def fitting(domain: Domain, pairs: Sequence[Clique]) -> list[Clique]:
    """Of these pairs, best first, those that one answer has room for; the rest is not asked."""
    room, fit = MOST_INTEGERS, []
    for pair in pairs:
        if domain.cells(pair) <= room:
            room -= domain.cells(pair)
            fit.append(pair)
    return fit


def measured(
    label: str, targets: Targets, pairs: Sequence[Clique], budgets: Sequence[Budget]
) -> Generator[Ask, Round, Targets]:
    """The targets and these pairs, flat, each at its own price."""
    round_ = yield Ask(label, tuple(zip([Flat(pair) for pair in pairs], budgets, strict=True)))
    return targets.with_measured(round_.measurements())


def later_pairs(
    label: str, domain: Domain, most: int, cost: Budget, rounds: int | None = 1
) -> Later:
    """So many pairs at most, flat, whichever they will be."""
    sizes = sorted((domain.cells(pair) for pair in domain.pairs()), reverse=True)
    return Later(label, ("flat",), most, sum(sizes[:most]), cost, rounds, columns=2)


def glimpses(
    setting: Setting,
    targets: Targets,
    budget: Budget,
    width: int | None,
    kind: SketchKind,
    pairs: Sequence[Clique] | None = None,
) -> Generator[Ask, Round, dict[Clique, Glimpse]]:
    """Every pair through a sketch; unsketched if it is no longer than one, or without a width.

    Args:
        pairs: all of them unless given.
    """
    domain = setting.domain
    statistics = [
        Flat(pair)
        if width is None or domain.cells(pair) <= width
        else Sketched(pair, width, setting.seed, kind)
        for pair in (domain.pairs() if pairs is None else pairs)
    ]
    round_ = yield Ask.evenly("dependence", statistics, budget)
    return {
        statistic.attributes: Glimpse.of(statistic, noisy, domain, targets.total)
        for statistic, noisy in zip(statistics, round_.totals(), strict=True)
    }


def addressed(
    conversation: Generator[Ask, Round, Result], to: str
) -> Generator[Ask, Round, Result | None]:
    """The same conversation with one site alone; None if it does not answer to the end."""
    try:
        ask = next(conversation)
        while True:
            round_ = yield replace(ask, to=to)
            if not round_.answers:
                return None
            ask = conversation.send(round_)
    except StopIteration as stop:
        result: Result = stop.value
        return result


def check_between(name: str, value: float, least: float, most: float) -> None:
    """Refuse a setting outside its range, or that is no number."""
    if not least <= value <= most:
        raise UsageError(f"{name} ({value:g}) must be in {least:g}..{most:g}")


def check_share(name: str, share: float, *, most: float) -> None:
    """Refuse a setting that is no share of a whole."""
    if not 0 < share <= most:
        raise UsageError(f"{name} ({share:g}) must be above 0 and at most {most:g}")
