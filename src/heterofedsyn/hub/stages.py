"""Stages that several methods share; each is a conversation that `yield from` continues."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import TypeVar

from heterofedsyn.errors import UsageError
from heterofedsyn.hub.method import Setting
from heterofedsyn.hub.rounds import Ask, Round
from heterofedsyn.hub.scores import Glimpse
from heterofedsyn.marginals.sketch import SketchKind
from heterofedsyn.marginals.statistics import Flat, Sketched
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.schema import Clique
from heterofedsyn.synthesis import Consistency, Targets

Result = TypeVar("Result")


def one_ways(setting: Setting, budget: Budget) -> Generator[Ask, Round, Targets]:
    """All 1-ways, flat, in equal shares."""
    statistics = [Flat(single) for single in setting.domain.singles()]
    round_ = yield Ask.evenly("one-way", statistics, budget)
    return Targets(setting.schema, round_.measurements(), Consistency())


def measured(
    label: str, targets: Targets, pairs: Sequence[Clique], budgets: Sequence[Budget]
) -> Generator[Ask, Round, Targets]:
    """The targets and these pairs, flat, each at its own price."""
    statistics = [Flat(pair) for pair in pairs]
    round_ = yield Ask(label, tuple(zip(statistics, budgets, strict=True)))
    return targets.with_measured(round_.measurements())


def glimpses(
    setting: Setting, targets: Targets, budget: Budget, width: int | None, kind: SketchKind
) -> Generator[Ask, Round, dict[Clique, Glimpse]]:
    """Every pair through a sketch; unsketched if it is no longer than one, or without a width."""
    domain = setting.domain
    statistics: list[Flat | Sketched] = [
        Flat(pair)
        if width is None or domain.cells(pair) <= width
        else Sketched(pair, width, setting.seed, kind)
        for pair in domain.pairs()
    ]
    round_ = yield Ask.evenly("dependence", statistics, budget)
    return {
        statistic.attributes: Glimpse.of(statistic, noisy, domain, targets.total)
        for statistic, noisy in zip(statistics, round_.totals(), strict=True)
    }


def addressed(
    conversation: Generator[Ask, Round, Result], to: str
) -> Generator[Ask, Round, Result]:
    """The same conversation with one site alone."""
    try:
        ask = next(conversation)
        while True:
            round_ = yield replace(ask, to=to)
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
