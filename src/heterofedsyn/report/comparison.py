"""The internal form's sections: synthetic rows beside private ones."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heterofedsyn import drawing
from heterofedsyn._arrays import Floats, Integers, stream
from heterofedsyn._words import count, sentence
from heterofedsyn.evaluation import (
    KIND_WORDS,
    MEASURES,
    QUICK,
    Evaluator,
    Rows,
    Scores,
    read_synthetic,
)
from heterofedsyn.evaluation.binning import is_numeric
from heterofedsyn.hub.release import Release
from heterofedsyn.hub.release.synthetic import released_table
from heterofedsyn.report.attributes import attribute_picture
from heterofedsyn.report.blocks import Block, Gallery, Picture, Section, Table, Text
from heterofedsyn.report.heat import MOST_LINES, both, cells, limited, shown_names, square_map
from heterofedsyn.schema import Column
from heterofedsyn.schema._bins import RealBins
from heterofedsyn.schema.binned import BinnedColumn
from heterofedsyn.schema.labels import unit_of

if TYPE_CHECKING:
    import pyarrow as pa

MOST_DRAWN = 12
"""Attributes drawn beside the real ones: those that are furthest off."""

MOST_ROWS = 20_000
"""Rows of each table that principal components are drawn from."""

_CELLS = 28
"""Squares a side in a picture of principal components."""

_WAYS = {"1_way": "one condition", "2_way": "two conditions", "3_way": "three conditions"}
_NEEDED = ("ot", "sklearn", "xgboost", "threadpoolctl")
"""Libraries that some measures import."""


def private_sections(
    release: Release, folder: Path, real: Sequence[object], test: object
) -> tuple[Section, ...]:
    """Everything that needs private rows."""
    table = released_table(release, folder)
    evaluator = Evaluator(release.schema, list(real), test)
    measures = MEASURES if _all_installed() else QUICK
    scores = evaluator.score(table, measures)
    assert scores.tvd is not None
    assert scores.tvd_20 is not None
    without_ml = tuple(name for name in measures if name != "ml")
    others = (evaluator.floor(without_ml), evaluator.score(_shuffled(table), without_ml))
    made = read_synthetic(release.schema, table)
    return (
        _attributes(release, evaluator.real, scores.tvd_20.attributes),
        _pairs(release, scores.tvd_20.pairs),
        _metrics(scores, *others, complete=measures == MEASURES),
        _components(evaluator.real, made),
    )


def _all_installed() -> bool:
    return all(importlib.util.find_spec(name) for name in _NEEDED)


def _shuffled(table: pa.Table) -> pa.Table:
    """Every column in an order of its own: nothing is left of any dependence."""
    import pyarrow as pa

    rng = stream(0, "shuffled")
    columns = {
        name: table.column(name).take(pa.array(rng.permutation(table.num_rows)))
        for name in table.column_names
    }
    return pa.table(columns)


def _attributes(release: Release, real: Rows, distances: dict[str, float]) -> Section:
    names = release.schema.domain.names
    total = sum(targets.estimates.total for targets in release.model.targets)
    worst = sorted(names, key=lambda name: -distances[name])[:MOST_DRAWN]
    pictures = []
    for place, name in enumerate(worst):
        codes = _codes(release.schema.column(name), real)
        counts = np.bincount(codes, minlength=release.schema.domain.size(name)).astype(np.float64)
        pictures.append(attribute_picture(release, name, place, total, counts))
    rows = tuple(
        (name, f"{distances[name]:.4f}") for name in sorted(names, key=lambda n: -distances[n])
    )
    mean = float(np.mean(list(distances.values())))
    blocks: tuple[Block, ...] = (
        Text(
            f"The mean total variation distance of single columns is {mean:.4f} (0 is equal, 1 is "
            "disjoint; at most 20 equal bins a column). Bars and bands are as above; "
            f"diamonds are the real rows. The {len(worst)} columns that are furthest off are drawn."
        ),
        Gallery(tuple(pictures)),
        Table("Distance of every column", ("column", "total variation"), rows),
    )
    return Section("real-attributes", "Single columns beside the real ones", blocks, private=True)


def _codes(column: Column, real: Rows) -> Integers:
    """The codes of a release, whose bins rules may have cut."""
    place = real.schema.domain.index(column.name)
    if not isinstance(column, BinnedColumn) or not column.cuts:
        return np.asarray(real.fine.codes[place], np.int64)
    values = real.values[place]
    missing = np.isnan(values)
    numbers = np.where(missing, 0.0, values) / unit_of(column)
    grid = column.grid
    if isinstance(grid, RealBins):
        return np.where(missing, column.size - 1, grid.encode(numbers))
    return np.where(missing, column.size - 1, grid.encode(np.rint(numbers).astype(np.int64)))


def _pairs(release: Release, distances: dict[tuple[str, ...], float]) -> Section:
    title = "Two columns at a time beside the real ones"
    if not distances:
        return Section("real-pairs", title, (Text("There is one column only."),), private=True)
    names = release.schema.domain.names
    shown = shown_names(names, distances)
    figure = "Two-way error"
    svg = square_map("fig-real-pairs", figure, shown, distances, "total variation distance")
    measured = {pair.attributes for pair in release.run.pairs if pair.measured}
    ranked = sorted(distances, key=lambda pair: (-distances[pair], pair))
    rows = tuple(
        (both(pair), "yes" if pair in measured else "no", f"{distances[pair]:.4f}")
        for pair in ranked[:MOST_LINES]
    )
    numbers = Table(
        "Pairs, the worst first", ("pair", "measured", "total variation"), rows, words=2
    )
    caption = (
        "Total variation distance between the real and the synthetic table of each pair of "
        "columns, on at most 20 equal bins a column. 0 is equal, 1 is disjoint."
        + limited(names, shown, "largest errors")
    )

    def mean(pairs: list[tuple[str, ...]]) -> str:
        return f"{np.mean([distances[pair] for pair in pairs]):.4f}" if pairs else "none"

    lead = Text(
        f"The mean over all {count(len(distances), 'pair')} is {mean(list(distances))}; over "
        f"measured pairs {mean([p for p in distances if p in measured])}, over the others "
        f"{mean([p for p in distances if p not in measured])}."
    )
    picture = Picture("fig-real-pairs", figure, svg, caption, numbers)
    return Section("real-pairs", title, (lead, picture), private=True)


@dataclass(frozen=True)
class _Figure:
    """One figure beside that of real rows and of no dependence; None where there is none."""

    group: str
    name: str
    synthetic: float | None
    best: float | None
    worst: float | None


def _metrics(scores: Scores, floor: Scores, shuffled: Scores, *, complete: bool) -> Section:
    own, best, worst = (s.to_dict() for s in (scores, floor, shuffled))
    figures = [*_errors(own, best, worst), *_learning(own)]
    lead = Text(
        "Query error: how far answers to random range queries are off, as a share of the rows, "
        "against the rows that the study saw and against test rows. Fidelity: how far mass must be "
        "moved to turn the synthetic table of a pair into the real one. Machine learning: models "
        "trained on the synthetic rows and tested on real ones they did not see."
    )
    blocks: list[Block] = [lead]
    if not complete:
        blocks.append(
            Text(
                "Some measures are left out: they need the extra eval "
                "(pip install 'heterofedsyn[eval]')."
            )
        )
    blocks += [Text(sentence(remark)) for remark in scores.remarks]
    title = "The paper's three metrics"
    rows = tuple(
        (f.group, f.name, *(_plain(v) for v in (f.synthetic, f.best, f.worst))) for f in figures
    )
    head = ("metric", "kind", "synthetic", "real rows", "without dependence or learning")
    caption = (
        "Dots are the synthetic table. Rings are real rows in its place: for errors, real rows "
        "drawn again with replacement, which a synthetic table may beat because its rows need not "
        "be drawn; for machine learning, models trained on the real rows. Crosses "
        "are what can be had without any dependence: for errors, the synthetic table with every "
        "column shuffled; for machine learning, a constant guess."
    )
    numbers = Table("Scores by metric", head, rows, words=2)
    picture = Picture(
        "fig-metrics", "Scores and their limits", _draw_metrics(figures), caption, numbers
    )
    return Section("metrics", title, (*blocks, picture), private=True)


def _errors(own: Any, best: Any, worst: Any) -> list[_Figure]:
    figures = []
    for against, said in (("train", "seen rows"), ("test", "test rows")):
        for key, words in _WAYS.items():
            if key in own["query"].get(against, {}):
                figures.append(
                    _Figure(
                        "query error",
                        f"{words}, {said}",
                        *(s["query"][against][key] for s in (own, best, worst)),
                    )
                )
    for key, words in KIND_WORDS.items():
        if own["fidelity"].get(key) is not None:
            values = (s["fidelity"][key] for s in (own, best, worst))
            figures.append(_Figure("fidelity", words, *values))
    return figures


def _learning(own: Any) -> list[_Figure]:
    if "ml" not in own:
        return []
    learnt = own["ml"]
    metric = learnt["metric"]
    figures = [
        _Figure(
            f"machine learning ({metric.replace('_', ' ')})",
            model.replace("_", " "),
            *(each[metric][key] for key in ("synthetic", "ceiling", "trivial")),
        )
        for model, each in learnt["models"].items()
    ]
    whole = (learnt[key] for key in ("average", "ceiling", "trivial"))
    return [*figures, _Figure(figures[0].group, "average", *whole)]


def _draw_metrics(figures: Sequence[_Figure]) -> str:
    groups = list(dict.fromkeys(figure.group for figure in figures))
    members = {group: [f for f in figures if f.group == group] for group in groups}
    height = sum(62 + 24 * len(each) for each in members.values()) + 50
    with drawing.figure(640, height) as canvas:
        panels = canvas.subplots(
            len(groups), 1, squeeze=False, height_ratios=[len(members[g]) + 1 for g in groups]
        )[:, 0]
        for axes, group in zip(panels, groups, strict=True):
            for row, each in enumerate(members[group]):
                known = [v for v in (each.synthetic, each.best, each.worst) if v is not None]
                axes.plot(
                    [min(known), max(known)], [row, row], color=drawing.LINE, linewidth=3, zorder=1
                )
                for value, marker, colour, face, words in (
                    (each.worst, "X", drawing.SERIES[1], drawing.SERIES[1], "no dependence"),
                    (each.best, "o", drawing.SERIES[2], drawing.PAPER, "real rows"),
                    (each.synthetic, "o", drawing.SERIES[0], drawing.SERIES[0], "synthetic"),
                ):
                    if value is not None:
                        axes.plot(
                            [value],
                            [row],
                            marker=marker,
                            label=words,
                            color=face,
                            markeredgecolor=colour,
                            markeredgewidth=1.6,
                            markersize=8,
                            linestyle="none",
                        )
            axes.set_yticks(range(len(members[group])), [each.name for each in members[group]])
            axes.set_ylim(len(members[group]) - 0.4, -0.6)
            low, high = axes.get_xlim()
            room = 0.06 * (high - low)
            # Scores of models lie close together, far from 0.
            axes.set_xlim(low - room if group.startswith("machine") else 0, high + room)
            axes.grid(axis="x")
            axes.tick_params(axis="y", length=0)
            axes.set_title(group)
        handles, labels = panels[0].get_legend_handles_labels()
        canvas.legend(handles[2::-1], labels[2::-1], loc="outside upper left", ncols=3)
        said = "; ".join(f"{f.group}, {f.name}: {_plain(f.synthetic)}" for f in figures)
        return drawing.svg(canvas, "fig-metrics", "Scores and their limits", said)


def _components(real: Rows, made: Rows) -> Section:
    title = "Principal components"
    features, both = _features(real, made)
    centre, spread = features.mean(axis=0), features.std(axis=0)
    spread[spread == 0] = 1.0
    _, singular, axes = np.linalg.svd((features - centre) / spread, full_matrices=False)
    if axes.shape[0] < 2:
        return Section("components", title, (Text("There are too few columns."),), private=True)
    parts = singular**2 / (singular**2).sum()
    plane = axes[:2]
    # The sign of a component means nothing; this one is the same everywhere.
    plane = plane * np.sign(plane[[0, 1], np.abs(plane).argmax(axis=1)])[:, None]
    points = [((each - centre) / spread) @ plane.T for each in (features, both)]
    low, high = (
        np.quantile(np.concatenate(points), q, axis=0) + way
        for q, way in ((0.002, -0.3), (0.998, 0.3))
    )
    grids = [
        np.histogram2d(each[:, 0], each[:, 1], _CELLS, ((low[0], high[0]), (low[1], high[1])))[0]
        / len(each)
        for each in points
    ]
    svg = _draw_components(grids)
    apart = 0.5 * float(np.abs(grids[0] - grids[1]).sum())
    numbers = Table(
        "Mean and standard deviation along the components",
        ("table", "first, mean", "first, deviation", "second, mean", "second, deviation"),
        tuple(
            (name, *(f"{v:.3f}" for k in (0, 1) for v in (each[:, k].mean(), each[:, k].std())))
            for name, each in zip(("real", "synthetic"), points, strict=True)
        ),
    )
    caption = (
        "Rows of both tables along the two directions in which the real rows vary most "
        f"({100 * parts[0]:.0f} % and {100 * parts[1]:.0f} % of their variance; numbers are "
        "standardised, categories one column a value). The stronger the colour, the "
        "denser, on a square-root scale. "
        f"The two pictures are {apart:.3f} apart in total variation over their squares."
    )
    picture = Picture("fig-components", "Real and synthetic rows", svg, caption, numbers)
    return Section("components", title, (picture,), private=True)


def _features(real: Rows, made: Rows) -> tuple[Floats, Floats]:
    """Both tables as numbers: ranges as they are, a column for each category, missing the mean."""
    rng = stream(0, "components")
    both = []
    means: dict[int, float] = {}
    for rows in (real, made):
        some = np.sort(rng.permutation(rows.number)[:MOST_ROWS])
        columns = []
        for place, column in enumerate(rows.schema.columns):
            values = rows.values[place, some]
            if is_numeric(column):
                known = values[~np.isnan(values)]
                centre = means.setdefault(place, float(known.mean()) if known.size else 0.0)
                columns.append(np.where(np.isnan(values), centre, values)[:, None])
            else:
                many = min(20, column.size - column.nullable)
                columns.append((values[:, None] == np.arange(many)).astype(np.float64))
        both.append(np.concatenate(columns, axis=1))
    return both[0], both[1]


def _draw_components(grids: Sequence[Floats]) -> str:
    side = 270
    most = max(float(grid.max()) for grid in grids)
    with drawing.figure(2 * side + 40, side + 44) as canvas:
        panels = canvas.subplots(1, 2)
        for axes, grid, name in zip(panels, grids, ("real", "synthetic"), strict=True):
            shares = np.sqrt(grid.T / most)
            cells(axes, np.where(shares > 0, shares, np.inf), gap=0.0)
            axes.set_xlim(0, _CELLS)
            axes.set_ylim(0, _CELLS)
            axes.set_xticks([])
            axes.set_yticks([])
            axes.set_title(name)
            axes.set_xlabel("first component")
        panels[0].set_ylabel("second component")
        return drawing.svg(
            canvas,
            "fig-components",
            "Real and synthetic rows along two principal components",
            "Two density pictures side by side, real rows on the left and synthetic on the right.",
        )


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
