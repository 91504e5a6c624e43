"""Heat maps in ten steps of colour, light enough for sixty columns; pairs of columns in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from heterofedsyn import drawing
from heterofedsyn._arrays import Floats
from heterofedsyn._words import count
from heterofedsyn.schema import Clique

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LINES = 120
"""Pairs listed under a picture."""

MOST_NAMES = 40
"""Names beside a heat map; more could not be read."""

HALF = 540.0
"""Width of a heat map, in pixels, unless it has too many columns for that."""

_LETTER = 0.64
"""Width of a letter, on the generous side, as a share of its size."""


def heat_map(
    name: str,
    title: str,
    description: str,
    rows: Sequence[str],
    columns: Sequence[str],
    values: Floats,
    unit: str,
    marks: Sequence[tuple[int, int]] = (),
    mark_meaning: str = "",
) -> str:
    """A drawing of a table of shares; NaN is a cell about which nothing is known, and
    infinity one that does not exist.

    Args:
        unit: what the colours say, shown beside the scale.
        marks: places (row, column) that get a dot.
    """
    down = [drawing.short(text, 22) for text in rows]
    across = [drawing.short(text, 22) for text in columns]
    letters = max(len(text) for text in down)
    wide = (HALF - 22 - _LETTER * drawing.TEXT * letters) / max(1, len(columns))
    wide = min(90.0, max(14.0, wide))
    cell = min(30.0, wide)
    size = min(float(drawing.TEXT), 0.74 * cell)
    left = 14 + _LETTER * size * letters
    below = 14 + _LETTER * size * max(len(text) for text in across)
    above = 66.0  # with or without marks, so that maps beside each other are level
    inner_width, inner_height = wide * len(columns), cell * len(rows)
    width = max(left + inner_width + 8, left + 300)
    height = above + inner_height + below
    finite = values[np.isfinite(values)]
    most = float(finite.max()) if finite.size and finite.max() > 0 else 1.0
    with drawing.figure(width, height) as figure:
        figure.set_layout_engine("none")
        axes = figure.add_axes(
            (left / width, below / height, inner_width / width, inner_height / height)
        )
        cells(axes, values / most)
        axes.set_xlim(0, len(columns))
        axes.set_ylim(len(rows), 0)
        axes.set_xticks(np.arange(len(columns)) + 0.5, across, rotation=90, fontsize=size)
        axes.set_yticks(np.arange(len(rows)) + 0.5, down, fontsize=size)
        drawing.bare(axes)
        if marks:
            axes.plot(
                [column + 0.5 for _, column in marks],
                [row + 0.5 for row, _ in marks],
                linestyle="none",
                marker="o",
                markersize=min(6.0, cell / 3.4),
                color=drawing.SERIES[1],
                markeredgecolor=drawing.PAPER,
                markeredgewidth=0.8,
            )
        _scale(
            figure.add_axes((left / width, 1 - 30 / height, 150 / width, 10 / height)), most, unit
        )
        if marks:
            key = figure.add_axes((left / width, 1 - 56 / height, 150 / width, 10 / height))
            key.plot([0.04], [0.5], "o", color=drawing.SERIES[1], markersize=6)
            key.text(0.09, 0.5, mark_meaning, va="center")
            key.set_xlim(0, 1)
            key.set_ylim(0, 1)
            key.set_axis_off()
        return drawing.svg(figure, name, title, description)


def cells(axes: Axes, shares: Floats, gap: float = 0.03) -> None:
    """Squares coloured by shares of the most, those of one colour as one path."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    places: dict[str, list[tuple[int, int]]] = {}
    for row, column in np.ndindex(*shares.shape):
        share = float(shares[row, column])
        if np.isinf(share):
            continue
        colour = "none" if np.isnan(share) else drawing.shade(share)
        places.setdefault(colour, []).append((row, column))
    for colour, squares in places.items():
        points: list[tuple[float, float]] = []
        for row, column in squares:
            a, b, c, d = column + gap, row + gap, column + 1 - gap, row + 1 - gap
            points += [(a, b), (c, b), (c, d), (a, d), (a, b)]
        frame: dict[str, Any] = {"edgecolor": "none"}
        if colour == "none":
            frame = {"edgecolor": drawing.LINE, "linewidth": 0.6}
        codes = [Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY] * len(squares)
        axes.add_patch(PathPatch(Path(points, codes), facecolor=colour, **frame))


def _scale(axes: Axes, most: float, unit: str) -> None:
    """The ten colours from 0 to the most, and what they say."""
    steps = (np.arange(len(drawing.RAMP)) + 0.5) / len(drawing.RAMP)
    cells(axes, steps[None, :])
    axes.set_xlim(0, len(drawing.RAMP))
    axes.set_ylim(1, 0)
    axes.set_axis_off()
    axes.text(-0.3, 0.5, "0", ha="right", va="center")
    axes.text(len(drawing.RAMP) + 0.3, 0.5, f"{most:.3g}", ha="left", va="center")
    axes.text(0, -0.5, unit, ha="left", va="bottom")


def square_map(
    name: str,
    title: str,
    shown: Sequence[str],
    values: Mapping[Clique, float],
    unit: str,
    marked: Sequence[Clique] = (),
    mark_meaning: str = "",
) -> str:
    """A symmetric heat map of figures of pairs, with a dot on each of those that are marked."""
    place = {name: i for i, name in enumerate(shown)}
    table: Floats = np.full((len(shown), len(shown)), np.nan)
    for (first, second), value in values.items():
        if first in place and second in place:
            table[place[first], place[second]] = table[place[second], place[first]] = value
    np.fill_diagonal(table, np.inf)
    worst = max(values, key=lambda pair: values[pair])
    said = (
        f"Heat map of {count(len(values), 'pair')} among {len(shown)} columns; the largest is "
        f"{named(worst)} with {values[worst]:.3f}."
    )
    dots = [
        (place[one], place[other])
        for pair in marked
        if pair[0] in place and pair[1] in place
        for one, other in (pair, pair[::-1])
    ]
    return heat_map(name, title, said, shown, shown, table, unit, dots, mark_meaning)


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


def both(pair: Clique) -> str:
    """A pair in a table."""
    return " – ".join(drawing.short(name, 36) for name in pair)


def named(pair: Clique) -> str:
    """A pair in a sentence."""
    return " and ".join(drawing.short(name, 60) for name in pair)
