"""Which columns depend on each other: scores, measured pairs, and a tree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from heterofedsyn import drawing
from heterofedsyn._arrays import Floats
from heterofedsyn._words import count
from heterofedsyn.errors import UsageError
from heterofedsyn.hub.release import Release
from heterofedsyn.report.blocks import Block, Picture, Section, Table, Text
from heterofedsyn.report.heat import MOST_NAMES, heat_map
from heterofedsyn.schema import Clique
from heterofedsyn.synthesis import Tree
from heterofedsyn.synthesis.forest import spanning_forest
from heterofedsyn.synthesis.tree import steps

MOST_LINES = 120
"""Pairs listed under a picture."""

MOST_NODES = 80
"""Attributes drawn in a tree."""


def dependence_section(release: Release) -> Section:
    """Scores and strengths of pairs, and the tree."""
    kept = strengths(release)
    pairs = release.run.pairs
    if not pairs:
        return Section(
            "dependence",
            "Which columns depend on each other",
            (Text("No pair of columns was measured: the synthetic columns are independent."),),
        )
    measured = [pair.attributes for pair in pairs if pair.measured]
    scores = {p.attributes: p.score for p in pairs if p.score is not None}
    every = len(release.schema.domain.pairs())
    blocks: list[Block] = [
        Text(
            f"Of {every:,} pairs of columns {len(scores):,} were scored and {len(measured):,} "
            "measured. A score is a first noisy look at how far a pair is from independence, from "
            "a small part of the budget; a pair is measured if its score, or the method, says so. "
            "Only measured pairs keep their dependence in the synthetic rows, and other pairs only "
            "what follows from them."
        ),
        _scores_picture(release, scores, kept, measured),
    ]
    if measured:
        blocks.append(_tree_picture(release, kept))
    return Section("dependence", "Which columns depend on each other", tuple(blocks))


def strengths(release: Release) -> dict[Clique, float]:
    """How far from independence each measured pair is in the model; a mean over populations."""
    found: dict[Clique, float] = {}
    whole = sum(targets.estimates.total for targets in release.model.targets)
    for targets in release.model.targets:
        estimates = targets.estimates
        for pair in targets.pairs:
            weight = estimates.residuals.get(pair, 0.0) * estimates.total / whole
            found[pair] = found.get(pair, 0.0) + weight
    return {pair: found[pair] for pair in release.schema.domain.pairs() if pair in found}


def shown_names(names: Sequence[str], weights: Mapping[Clique, float]) -> list[str]:
    """The attributes that fit beside a heat map: those in the strongest pairs, in schema order."""
    if len(names) <= MOST_NAMES:
        return list(names)
    best = dict.fromkeys(names, 0.0)
    for pair, weight in weights.items():
        for name in pair:
            best[name] = max(best[name], weight)
    chosen = set(sorted(names, key=lambda name: -best[name])[:MOST_NAMES])
    return [name for name in names if name in chosen]


def limited(names: Sequence[str], shown: Sequence[str], what: str) -> str:
    """A sentence on what was left out, if anything was."""
    if len(shown) == len(names):
        return ""
    return f" Of {len(names)} columns the {len(shown)} with the {what} are shown."


def _scores_picture(
    release: Release,
    scores: Mapping[Clique, float],
    kept: Mapping[Clique, float],
    measured: Sequence[Clique],
) -> Picture:
    names = release.schema.domain.names
    shown = shown_names(names, {**kept, **scores})
    place = {name: i for i, name in enumerate(shown)}
    values = np.full((len(shown), len(shown)), np.nan)
    marks = []
    most_score = max(scores.values(), default=0.0)
    most_kept = max(kept.values(), default=0.0)
    for (first, second), score in scores.items():
        if first in place and second in place:
            values[place[second], place[first]] = score / most_score if most_score else 0.0
    for (first, second), weight in kept.items():
        if first in place and second in place:
            values[place[first], place[second]] = weight / most_kept if most_kept else 0.0
    np.fill_diagonal(values, np.inf)
    for first, second in measured:
        if first in place and second in place:
            marks.append((place[second], place[first]))
    head = ("pair", "score", "measured", "dependence kept")
    ranked = sorted(
        {*scores, *kept}, key=lambda pair: (-(kept.get(pair, 0.0)), -(scores.get(pair, 0.0)), pair)
    )
    rows = tuple(
        (
            both(pair),
            f"{scores[pair]:.4f}" if pair in scores else "",
            "yes" if pair in kept else "no",
            f"{kept[pair]:.4f}" if pair in kept else "",
        )
        for pair in ranked[:MOST_LINES]
    )
    more = len(ranked) - len(rows)
    title = "Dependence of pairs"
    ranked_kept = sorted(kept.items(), key=lambda item: -item[1])
    strongest = _named(ranked_kept[0][0]) if ranked_kept else "none"
    svg = heat_map(
        "fig-dependence",
        title,
        f"Heat map of {len(shown)} by {len(shown)} columns; {len(measured)} pairs are measured. "
        f"The strongest dependence kept is that of {strongest}.",
        shown,
        shown,
        values,
        "share of the strongest, in each half",
        marks,
        "measured",
    )
    below = (
        f"Below the diagonal: scores, up to {most_score:.3g}, with a dot where the pair was "
        "measured."
        if scores
        else "Below the diagonal: a dot where the pair was measured; this method published no "
        "scores of pairs."
    )
    caption = (
        f"{below} Above it: the dependence that the model kept, up to {most_kept:.3g}; 0 means "
        "that nothing stood out of the noise. Both are Euclidean norms: of the differences between "
        "the frequencies in a pair's table and those of independent columns. But scores are taken "
        "from a coarse grid or a sketch of the table, the dependence kept from the grid that was "
        "measured, so one is not to be compared with the other. Empty cells: not scored, or not "
        "measured."
        f"{limited(names, shown, 'strongest pairs')}"
    )
    what = f"Pairs, the strongest first{f' ({more:,} more are in run.json)' if more > 0 else ''}"
    return Picture("fig-dependence", title, svg, caption, Table(what, head, rows))


@dataclass(frozen=True)
class _Node:
    """One line of the tree: how deep it stands, and how strongly it hangs on what is above."""

    name: str
    depth: int
    parent: str | None
    given_label: bool


def _tree_picture(release: Release, kept: Mapping[Clique, float]) -> Picture:
    domain, label = release.schema.domain, release.schema.label
    samples_tree = isinstance(release.model.synthesizer, Tree) and len(release.model.targets) == 1
    if samples_tree:
        found = [
            (s.name, s.parent, s.given_label) for s in steps(release.model.targets[0].estimates)
        ]
    else:
        found = _forest(domain.names, kept, label)
    nodes = _in_order(found, label)
    cut = nodes[:MOST_NODES]

    def strength(first: str, second: str | None) -> float:
        return kept.get(domain.clique(first, second), 0.0) if second else 0.0

    up = [strength(node.name, node.parent) for node in cut]
    to_label = [strength(node.name, label) if node.given_label else 0.0 for node in cut]
    svg = _draw_tree(cut, up, to_label, label)
    rows = tuple(
        (
            node.name,
            node.parent or "",
            f"{a:.4f}" if node.parent else "",
            f"{b:.4f}" if node.given_label else "",
        )
        for node, a, b in zip(cut, up, to_label, strict=True)
    )
    head = ("column", "drawn after", "dependence on it", "dependence on the label")
    if samples_tree:
        caption = (
            "Rows are drawn from top to bottom, each column given the one it hangs from"
            + (f" and, where the dot is filled, given the label {label}" if label else "")
            + ". Columns at the far left hang from nothing else."
        )
        left = len(release.model.targets[0].estimates.residuals) - sum(
            bool(n.parent) + n.given_label for n in nodes
        )
        if left > 0:
            caption += f" Measured pairs that are fitted afterwards: {left:,}."
    else:
        caption = (
            "The strongest measured pairs that close no circle. The synthesizer of this method "
            "fits all measured pairs in turn and follows no tree; this one is drawn to be read."
        )
    caption += " Bars show how strong each dependence is in the model."
    if len(cut) < len(nodes):
        caption += f" The first {len(cut)} of {len(nodes)} columns are drawn."
    title = "Tree of dependences"
    return Picture("fig-tree", title, svg, caption, Table(title, head, rows, words=2))


def _forest(
    names: Sequence[str], kept: Mapping[Clique, float], label: str | None
) -> list[tuple[str, str | None, bool]]:
    """A maximum spanning forest of all measured pairs, from the label outwards."""
    beside: dict[str, list[str]] = {name: [] for name in names}
    for first, second in spanning_forest(kept):
        beside[first].append(second)
        beside[second].append(first)
    found: dict[str, tuple[str, str | None, bool]] = {}
    for root in sorted(names, key=lambda name: (name != label, -len(beside[name]))):
        waiting: list[tuple[str, str | None]] = [(root, None)]
        while waiting:
            name, parent = waiting.pop(0)
            if name not in found:
                found[name] = (name, parent, False)
                waiting += [(other, name) for other in beside[name]]
    return list(found.values())


def _in_order(found: Sequence[tuple[str, str | None, bool]], label: str | None) -> list[_Node]:
    """Every branch below what it hangs from; what hangs from nothing last."""
    children: dict[str | None, list[tuple[str, str | None, bool]]] = {}
    for step in found:
        children.setdefault(step[1], []).append(step)
    nodes: list[_Node] = []

    def walk(step: tuple[str, str | None, bool], depth: int) -> None:
        name, parent, given = step
        nodes.append(_Node(name, depth, parent, given))
        for child in children.get(name, []):
            walk(child, depth + 1)

    roots = children.get(None, [])
    alone = [r for r in roots if r[0] != label and r[0] not in children]
    for root in [*(r for r in roots if r not in alone), *alone]:
        walk(root, 0)
    return nodes


def _draw_tree(
    nodes: Sequence[_Node], up: Sequence[float], to_label: Sequence[float], label: str | None
) -> str:
    """An indented tree on the left, strengths as bars on the right."""
    step, indent = 22, 20
    deepest = max(node.depth for node in nodes)
    longest = max(len(drawing.short(node.name, 24)) for node in nodes)
    labelled = any(node.given_label for node in nodes)
    tree = 24 + indent * min(deepest, 12) + 8.0 * longest
    bars = 120 if labelled else 160
    width = tree + (2 if labelled else 1) * (bars + 24)
    height = 34 + step * len(nodes)
    per = indent if deepest <= 12 else indent * 12 / deepest
    with drawing.figure(width, height) as figure:
        figure.set_layout_engine("none")
        body = step * len(nodes) / height
        axes = figure.add_axes((0, 0.004, tree / width, body))
        axes.set_xlim(0, tree)
        axes.set_ylim(len(nodes), 0)
        axes.set_axis_off()
        at = {node.name: (14 + per * node.depth, row + 0.5) for row, node in enumerate(nodes)}
        for node in nodes:
            x, y = at[node.name]
            if node.parent is not None:
                above, top = at[node.parent]
                axes.plot(
                    [above, above, x], [top, y, y], color=drawing.SOFT, linewidth=1.2, zorder=1
                )
        for node in nodes:
            x, y = at[node.name]
            filled = node.given_label or node.name == label
            axes.plot(
                [x],
                [y],
                marker="s" if node.name == label else "o",
                markersize=8,
                color=drawing.SERIES[0] if filled else drawing.PAPER,
                markeredgecolor=drawing.SERIES[0],
                markeredgewidth=1.4,
                zorder=2,
            )
            weight = "bold" if node.name == label else "normal"
            axes.text(x + 9, y, drawing.short(node.name, 24), va="center", fontweight=weight)
        columns = [("with parent", up, drawing.SERIES[0])]
        if labelled:
            columns.append(("with label", to_label, drawing.SERIES[2]))
        most = max([*up, *to_label, 1e-9])
        for place, (title, lengths, colour) in enumerate(columns):
            start = tree + 12 + place * (bars + 24)
            panel = figure.add_axes((start / width, 0.004, bars / width, body))
            panel.barh(np.arange(len(nodes)) + 0.5, lengths, height=0.5, color=colour)
            panel.set_xlim(0, most)
            panel.set_ylim(len(nodes), 0)
            panel.set_xticks([])
            panel.set_yticks([])
            drawing.bare(panel)
            panel.spines["left"].set_visible(True)
            panel.text(0, -0.35, title, ha="left", va="bottom", color=drawing.SOFT)
        roots = sum(node.depth == 0 for node in nodes)
        return drawing.svg(
            figure,
            "fig-tree",
            "Tree of dependences",
            f"A tree of {len(nodes)} columns with {count(roots, 'root')}, at most {deepest} deep; "
            "the table below lists every branch.",
        )


def pair_noise_section(release: Release) -> Section:
    """What noise alone would do to each measured pair."""
    domain = release.schema.domain
    expected: dict[Clique, float] = {}
    for pair in (p.attributes for p in release.run.pairs if p.measured):
        error = expected_noise(release, pair)
        if error is not None:
            expected[pair] = error
    title = "Two columns at a time: what the noise can do"
    if not expected:
        return Section(
            "pair-noise", title, (Text("No pair of columns was measured for all rows at once."),)
        )
    shown = shown_names(domain.names, expected)
    svg = square_map(
        "fig-pair-noise",
        "Expected noise of measured pairs",
        shown,
        expected,
        "expected total variation from noise",
    )
    mean = float(np.mean(list(expected.values())))
    ranked = sorted(expected, key=lambda pair: (-expected[pair], pair))
    rows = tuple(
        (
            both(pair),
            f"{release.accuracy(pair).standard_error.size:,}",
            f"{float(release.accuracy(pair).standard_error.mean()):,.1f}",
            f"{expected[pair]:.4f}",
        )
        for pair in ranked[:MOST_LINES]
    )
    head = ("pair", "cells", "standard error of a cell, in rows", "expected total variation")
    caption = (
        "Each cell is half the sum, over the cells of the pair's table as it was measured, of the "
        "mean absolute noise (0.80 standard errors) as a share of the rows: the total variation "
        "distance from the truth that noise alone would cause if the noisy tables were used as "
        "they came. The model shrinks and fits them, so its own error is usually smaller. What "
        "is lost by grouping values, or by not measuring a pair, is not in this figure. Empty "
        f"cells: not measured.{limited(domain.names, shown, 'largest figures')}"
    )
    numbers = Table("Expected noise, the largest first", head, rows)
    lead = Text(
        f"The mean expected noise over {count(len(expected), 'pair')} is {mean:.3f}, on a scale "
        "where 0 is equal and 1 is disjoint. It is known exactly, without any private row, because "
        "the noise is."
        + (
            " Sites were asked separately; only pairs that all of them measured are shown."
            if len(release.model.targets) > 1
            else ""
        )
    )
    return Section(
        "pair-noise",
        title,
        (
            lead,
            Picture("fig-pair-noise", "Expected noise of measured pairs", svg, caption, numbers),
        ),
    )


def expected_noise(release: Release, pair: Clique) -> float | None:
    """Half the expected absolute noise over a pair's cells, as a share; None where unknown."""
    try:
        fraction = release.accuracy(pair).fraction
    except UsageError:  # populations that measured other pairs, or other grids
        return None
    return 0.5 * math.sqrt(2 / math.pi) * float(fraction.sum())


def both(pair: Clique) -> str:
    """A pair in a table."""
    return " – ".join(drawing.short(name, 36) for name in pair)


def _named(pair: Clique) -> str:
    return " and ".join(drawing.short(name, 60) for name in pair)


def square_map(
    name: str, title: str, shown: Sequence[str], values: Mapping[Clique, float], unit: str
) -> str:
    """A symmetric heat map of figures of pairs."""
    place = {name: i for i, name in enumerate(shown)}
    table: Floats = np.full((len(shown), len(shown)), np.nan)
    for (first, second), value in values.items():
        if first in place and second in place:
            table[place[first], place[second]] = table[place[second], place[first]] = value
    np.fill_diagonal(table, np.inf)
    worst = max(values, key=lambda pair: values[pair])
    said = (
        f"Heat map of {count(len(values), 'pair')} among {len(shown)} columns; the largest is "
        f"{_named(worst)} with {values[worst]:.3f}."
    )
    return heat_map(name, title, said, shown, shown, table, unit)
