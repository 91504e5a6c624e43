"""What `wavetree` may ask after its single columns, told before any of it is answered."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from heterofedsyn.hub.methods.attempts import Mode
from heterofedsyn.hub.methods.base import Later, Setting
from heterofedsyn.hub.methods.beside_label import (
    MOST_LOOKED_AT,
    SCORED_GROUPS,
    cells_measured,
    most_integers,
)
from heterofedsyn.hub.methods.choosing import most_extras
from heterofedsyn.marginals.statistics import kind_of
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.schema import Clique

if TYPE_CHECKING:
    from heterofedsyn.hub.methods.wavetree import WaveTree


def later_rounds(
    method: WaveTree,
    setting: Setting,
    modes: Sequence[Mode],
    for_pairs: Budget,
    rows: float | None = None,
) -> tuple[Later, ...]:
    """The rounds after the 1-ways in one of these modes.

    Args:
        rows: how many there are at most.
    """
    _, rest = method.first_and_rest(setting)
    rounds: list[Later] = []
    open_ = method.open_pairs(setting)
    if open_.scored and any(mode.scored for mode in modes):
        groups = max(method.groups_of_scores(setting, mode, rows) for mode in modes if mode.scored)
        cells = open_.most_cells(open_.scored, groups)
        most = max(mode.split(rest)[1] for mode in modes)
        numbers = sum(_numbers(setting, open_.scored))
        rounds.append(
            Later("scores", ("grouped",), len(cells), sum(cells), most, columns=2, numbers=numbers)
        )
    pairs = max(_most_pairs(method, setting, mode) for mode in modes)
    scarce = [mode for mode in modes if mode.worth(_fewest_pairs(method, setting, mode)) < 1]
    if pairs or scarce:
        integers = max(_most_integers(method, setting, mode, rows) for mode in modes)
        numbers = _largest(_numbers(setting, open_.every), pairs)
        shares = max(_shares(method, setting, mode) for mode in modes)
        round_ = Later("pairs", ("grouped",), pairs, integers, for_pairs, numbers=numbers)
        round_ = replace(round_, columns=2, shares=shares)
        for mode in scarce:
            round_ = _and_again(round_, method, setting, mode, rows)
        rounds.append(round_)
        for mode in modes:
            if mode.triples:
                rounds += _together(method, setting, mode, (pairs, integers, numbers), rows)
    return tuple(rounds)


def _together(
    method: WaveTree, setting: Setting, mode: Mode, pairs: tuple[int, int, int], rows: float | None
) -> tuple[Later, ...]:
    """A look at three columns, and then tables of three, and again what was measured before.

    Args:
        pairs: how many there are at most, integers of their tables and numbers of their groups.
    """
    _, rest = method.first_and_rest(setting)
    look, tables = mode.split_beyond(rest)
    schema, beside = setting.schema, method.open_pairs(setting).beside_label
    many, edges = min(MOST_LOOKED_AT, len(beside)), len(setting.domain) - 2
    scored = most_integers(schema, beside, math.inf, SCORED_GROUPS)
    cells = math.inf if rows is None else cells_measured(rows, setting.noise_of(tables))
    measured = most_integers(schema, beside, cells, method.finest)
    numbers = _numbers(setting, [(schema.label or "", *pair) for pair in beside])
    return (
        Later(
            "triple-scores",
            ("grouped",),
            many,
            _largest(scored, many),
            look,
            columns=3,
            numbers=_largest(numbers, many),
        ),
        _and_again(
            Later(
                "triples",
                ("grouped",),
                edges + pairs[0],
                _largest(measured, edges) + pairs[1],
                tables,
                numbers=_largest(numbers, edges) + pairs[2],
            ),
            method,
            setting,
            mode,
            rows,
        ),
    )


def _and_again(
    round_: Later, method: WaveTree, setting: Setting, mode: Mode, rows: float | None
) -> Later:
    """A round in which single columns may be measured again."""
    _, rest = method.first_and_rest(setting)
    ones = [statistic for statistic, _ in method.one_way_parts(setting, rest, mode, rows)]
    return replace(
        round_,
        kinds=tuple(sorted({*round_.kinds, *map(kind_of, ones)})),
        releases=(round_.releases or 0) + len(ones),
        integers=(round_.integers or 0) + sum(own.integers(setting.domain) for own in ones),
        columns=None,
    )


def _fewest_pairs(method: WaveTree, setting: Setting, mode: Mode) -> int:
    """Those that are measured whatever the scores say."""
    pairs = method.open_pairs(setting)
    return len(mode.forced) if mode.independent else len(pairs.every) - len(pairs.scored)


def _most_pairs(method: WaveTree, setting: Setting, mode: Mode) -> int:
    """All pairs with the label, a spanning tree of the rest and the most extras."""
    pairs = method.open_pairs(setting)
    certain = _fewest_pairs(method, setting, mode)
    if not mode.scored:
        return certain
    tree = max(0, len({name for pair in pairs.scored for name in pair}) - 1)
    return min(len(pairs.every), certain + tree + most_extras(setting.domain))


def _shares(method: WaveTree, setting: Setting, mode: Mode) -> float:
    """How many times the least of a pair all pairs get that a mode may choose."""
    pairs = method.open_pairs(setting)
    chosen = mode.forced
    if mode.scored:
        chosen = pairs.every
    elif not mode.independent:
        chosen = tuple(pair for pair in pairs.every if pair not in pairs.scored)
    shares = sorted(method.share_of(setting.schema, pair) for pair in chosen)
    return sum(shares[-_most_pairs(method, setting, mode) :]) / shares[0] if shares else 0.0


def _most_integers(method: WaveTree, setting: Setting, mode: Mode, rows: float | None) -> int:
    """In the tables of all pairs that a mode may choose: the more of them, the coarser each."""
    pairs, largest = method.open_pairs(setting), 0
    most = _most_pairs(method, setting, mode)
    few = 1
    while few <= most:
        many = min(most, few + few // 8)
        groups = float(method.finest)
        if rows is not None:
            groups = min(groups, mode.resolution_of(few, rows))
        cells = pairs.most_cells(pairs.every, groups)
        largest = max(largest, _largest(cells, many))
        few = many + 1
    return largest


def _numbers(setting: Setting, cliques: Sequence[Clique]) -> list[int]:
    """How many group numbers tell the grid of each of these tables."""
    return [sum(map(setting.domain.size, clique)) for clique in cliques]


def _largest(integers: Sequence[int], many: int) -> int:
    """The sum of so many of them."""
    return sum(sorted(integers, reverse=True)[:many])
