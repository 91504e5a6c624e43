"""The tree of dependences as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from heterofedsyn import drawing
from heterofedsyn._words import count
from heterofedsyn.hub.release import Release
from heterofedsyn.report.blocks import Picture, Table
from heterofedsyn.schema import Clique
from heterofedsyn.synthesis import Tree
from heterofedsyn.synthesis.forest import spanning_forest
from heterofedsyn.synthesis.tree import steps

MOST_NODES = 80
"""Attributes drawn in a tree."""


_Branch = tuple[str, str | None, bool]
"""A column, the one it hangs from, and whether it is drawn given the label."""


@dataclass(frozen=True)
class _Node:
    """One line of the tree: how deep it stands, and how strongly it hangs on what is above."""

    name: str
    depth: int
    parent: str | None
    given_label: bool


def tree_picture(release: Release, kept: Mapping[Clique, float]) -> Picture:
    """What hangs from what: the sampling tree of the model, or the strongest pairs as one."""
    domain, label = release.schema.domain, release.schema.label
    samples_tree = isinstance(release.model.synthesizer, Tree) and len(release.model.targets) == 1
    if samples_tree:
        branches = [
            (s.name, s.parent, s.given_label) for s in steps(release.model.targets[0].estimates)
        ]
    else:
        branches = _forest(domain.names, kept, label)
    nodes = _in_order(branches, label)
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


def _forest(names: Sequence[str], kept: Mapping[Clique, float], label: str | None) -> list[_Branch]:
    """A maximum spanning forest of all measured pairs, from the label outwards."""
    beside: dict[str, list[str]] = {name: [] for name in names}
    for first, second in spanning_forest(kept):
        beside[first].append(second)
        beside[second].append(first)
    branches: dict[str, _Branch] = {}
    for root in sorted(names, key=lambda name: (name != label, -len(beside[name]))):
        waiting: list[tuple[str, str | None]] = [(root, None)]
        while waiting:
            name, parent = waiting.pop(0)
            if name not in branches:
                branches[name] = (name, parent, False)
                waiting += [(other, name) for other in beside[name]]
    return list(branches.values())


def _in_order(branches: Sequence[_Branch], label: str | None) -> list[_Node]:
    """Every branch below what it hangs from; what hangs from nothing last."""
    children: dict[str | None, list[_Branch]] = {}
    for step in branches:
        children.setdefault(step[1], []).append(step)
    nodes: list[_Node] = []

    def walk(step: _Branch, depth: int) -> None:
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
