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
from heterofedsyn.marginals.statistics import Flat, Sketched
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.protocol.limits import MOST_INTEGERS
from heterofedsyn.schema import Clique, Domain
from heterofedsyn.synthesis import Consistency, Targets

Result = TypeVar("Result")


def ask_one_ways(setting: Setting, budget: Budget) -> Ask:
    """The question for all 1-ways, flat, in equal shares."""
    return Ask.evenly("one-way", [Flat(single) for single in setting.domain.singles()], budget)


def one_ways(setting: Setting, budget: Budget) -> Generator[Ask, Round, Targets]:
    """All 1-ways, flat, in equal shares."""
    round_ = yield ask_one_ways(setting, budget)
    return Targets(setting.schema, round_.measurements(), Consistency())


def ask_pairs(label: str, pairs: Sequence[Clique], budgets: Sequence[Budget]) -> Ask:
    """The question for these pairs, flat, each at its own price."""
    return Ask(label, tuple(zip([Flat(pair) for pair in pairs], budgets, strict=True)))


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
    round_ = yield ask_pairs(label, pairs, budgets)
    return targets.with_measured(round_.measurements())


def later_pairs(
    label: str, domain: Domain, most: int, cost: Budget, rounds: int | None = 1
) -> Later:
    """So many pairs at most, flat, whichever they will be."""
    sizes = sorted((domain.cells(pair) for pair in domain.pairs()), reverse=True)
    return Later(label, ("flat",), most, sum(sizes[:most]), cost, rounds)


def ask_glimpses(setting: Setting, budget: Budget, width: int | None, kind: SketchKind) -> Ask:
    """The question for every pair through a sketch, if that is shorter; whole without a width."""
    return Ask.evenly("dependence", _sketched(setting, width, kind), budget)


def _sketched(setting: Setting, width: int | None, kind: SketchKind) -> list[Flat | Sketched]:
    domain = setting.domain
    return [
        Flat(pair)
        if width is None or domain.cells(pair) <= width
        else Sketched(pair, width, setting.seed, kind)
        for pair in domain.pairs()
    ]


def glimpses(
    setting: Setting, targets: Targets, budget: Budget, width: int | None, kind: SketchKind
) -> Generator[Ask, Round, dict[Clique, Glimpse]]:
    """Every pair through a sketch; unsketched if it is no longer than one, or without a width."""
    round_ = yield ask_glimpses(setting, budget, width, kind)
    return {
        statistic.attributes: Glimpse.of(statistic, noisy, setting.domain, targets.total)
        for statistic, noisy in zip(_sketched(setting, width, kind), round_.totals(), strict=True)
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
