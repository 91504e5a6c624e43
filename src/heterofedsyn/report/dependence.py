"""Which columns depend on each other: scores, measured pairs, and a tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heterofedsyn.hub.release import Release
from heterofedsyn.report.blocks import Block, Halves, Picture, Section, Table, Text
from heterofedsyn.report.heat import MOST_LINES, both, limited, shown_names, square_map
from heterofedsyn.report.tree_picture import tree_picture
from heterofedsyn.schema import Clique


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
            "Measured pairs keep their dependence in the synthetic rows, and other pairs hardly "
            "more than what follows from them."
        ),
        *_maps(release, scores, kept, measured),
    ]
    if measured:
        blocks.append(tree_picture(release, kept))
    return Section("dependence", "Which columns depend on each other", tuple(blocks))


def strengths(release: Release) -> dict[Clique, float]:
    """How far from independence each measured pair is in the model; a mean over populations."""
    kept: dict[Clique, float] = {}
    whole = sum(targets.estimates.total for targets in release.model.targets)
    for targets in release.model.targets:
        estimates = targets.estimates
        for pair in targets.pairs:
            weight = estimates.residuals.get(pair, 0.0) * estimates.total / whole
            kept[pair] = kept.get(pair, 0.0) + weight
    return {pair: kept[pair] for pair in release.schema.domain.pairs() if pair in kept}


def _maps(
    release: Release,
    scores: Mapping[Clique, float],
    kept: Mapping[Clique, float],
    measured: Sequence[Clique],
) -> list[Block]:
    """What was seen at first, and what the model kept: two maps with the same columns."""
    names = release.schema.domain.names
    shown = shown_names(names, {**kept, **scores})
    about = limited(names, shown, "strongest pairs")
    unit = "distance from independence"
    pictures: list[Picture] = []
    if scores:
        caption = (
            "A first look, from a coarse grid or a sketch of each pair's table. A dot: the pair "
            f"was measured then. Empty cells: not scored.{about}"
        )
        title = "Before: scores of pairs"
        svg = square_map("fig-scores", title, shown, scores, unit, measured, "measured")
        numbers = _listed("Pairs by score", scores, measured)
        pictures.append(Picture("fig-scores", title, svg, caption, numbers))
    if kept:
        caption = (
            "What the rows are drawn from, on the grid on which each pair was measured; 0 means "
            f"that nothing stood out of the noise. Empty cells: not measured.{about}"
        )
        title = "After: dependence kept"
        svg = square_map("fig-dependence", title, shown, kept, unit)
        numbers = _listed("Pairs by dependence kept", kept, measured)
        pictures.append(Picture("fig-dependence", title, svg, caption, numbers))
    how = Text(
        "Both maps show how far a pair is from independence: the Euclidean norm of the differences "
        "between the frequencies in its table and those of independent columns. Each has a "
        "scale of its own, because the grids differ: compare which pairs stand out, not how dark "
        "they are." + ("" if scores else " This method published no scores of pairs.")
    )
    if len(pictures) == 2:
        return [how, Halves((pictures[0], pictures[1]))]
    return [how, *pictures]


def _listed(what: str, values: Mapping[Clique, float], measured: Sequence[Clique]) -> Table:
    """The pairs with the largest figures."""
    ranked = sorted(values, key=lambda pair: (-values[pair], pair))
    inside = {*measured}
    rows = tuple(
        (both(pair), f"{values[pair]:.4f}", "yes" if pair in inside else "no")
        for pair in ranked[:MOST_LINES]
    )
    more = len(ranked) - len(rows)
    caption = f"{what}{f' ({more:,} more are in run.json)' if more > 0 else ''}"
    return Table(caption, ("pair", "distance", "measured"), rows)
