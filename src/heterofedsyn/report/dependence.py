"""Which columns depend on each other: scores, measured pairs, and a tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from heterofedsyn.hub.release import Release
from heterofedsyn.report.blocks import Block, Picture, Section, Table, Text
from heterofedsyn.report.heat import MOST_LINES, both, heat_map, limited, named, shown_names
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
            "Only measured pairs keep their dependence in the synthetic rows, and other pairs only "
            "what follows from them."
        ),
        _scores_picture(release, scores, kept, measured),
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
    strongest = named(ranked_kept[0][0]) if ranked_kept else "none"
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
