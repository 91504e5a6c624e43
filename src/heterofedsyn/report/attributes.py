"""Each attribute's released distribution with its noise band."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from heterofedsyn import drawing
from heterofedsyn._arrays import Floats
from heterofedsyn._words import count, percent
from heterofedsyn.evaluation.binning import Numeric
from heterofedsyn.hub.release import Release
from heterofedsyn.report.bars import Display, bars_of, describe, total_of
from heterofedsyn.report.blocks import Block, Gallery, Picture, Section, Table, Text
from heterofedsyn.schema import DateColumn, DatetimeColumn, IntegerColumn
from heterofedsyn.schema.labels import is_whole, moment_of, number_of, unit_of, value_text
from heterofedsyn.synthesis.grid import grouped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_DRAWN = 60
"""Attributes that are drawn; the others have a line in a table."""

_WIDTH, _HEIGHT = 330, 196


def attribute_section(release: Release) -> Section:
    """Every attribute, from the model alone."""
    names = release.schema.domain.names
    label = release.schema.label
    order = sorted(names, key=lambda name: name != label)
    drawn = order[:MOST_DRAWN]
    total = total_of(release)
    blocks: list[Block] = [
        Text(
            "Each picture is one column as the model knows it: the share of rows per bar, in the "
            "units of the schema. A dark line is the noise band, two standard errors up and down: "
            "what a bar would carry if its noisy counts were taken as they came. The bars are "
            "already smoothed with that noise in mind, so most are closer to the truth than their "
            "band. Where the band is as long as the bar, the bar says little. Missing values stand "
            "apart, in grey. Where bars differ in width, heights are scaled so that areas compare; "
            "the numbers below each picture are the shares themselves."
        ),
        Text(
            "In Python, release.accuracy('column') gives the standard error of every value of a "
            "column, and release.accuracy(('one', 'other')) that of a measured pair."
        ),
        Gallery(tuple(attribute_picture(release, n, i, total) for i, n in enumerate(drawn))),
    ]
    if len(drawn) < len(order):
        rest = order[MOST_DRAWN:]
        blocks.append(Text(f"The first {len(drawn)} of {len(order)} columns are drawn."))
        rows = tuple(_line(release, name) for name in rest)
        head = ("column", "most frequent", "share", "± 2 standard errors")
        blocks.append(Table("Columns that are not drawn", head, rows, words=2))
    return Section("attributes", "One column at a time", tuple(blocks))


def attribute_picture(
    release: Release, name: str, place: int, total: float, real: Floats | None = None
) -> Picture:
    """One attribute's bars; with real counts per value, those as dots."""
    column = release.schema.column(name)
    bars = bars_of(release, name)
    display, shown, errors = bars.display, bars.shares, 2 * bars.errors
    truth = None if real is None else grouped(real, display.groups) / max(1.0, real.sum())
    kind = "real" if real is not None else "attribute"
    figure_name = f"fig-{kind}-{place}"
    title = f"Distribution of {drawing.short(name, 40)}" + (
        " beside the real rows" if real is not None else ""
    )
    best = int(np.argmax(shown))
    said = (
        f"{count(len(display.labels), 'bar')}; the highest is "
        f"{drawing.short(display.labels[best], 60)} with "
        f"{percent(float(shown[best]))} of the rows, give or take {percent(float(errors[best]))}."
    )
    height = 50 + 20 * len(display.labels) if display.edges is None else _HEIGHT
    with drawing.figure(_WIDTH, height) as figure:
        axes = figure.add_subplot()
        if display.edges is None:
            _draw_categories(axes, display, shown, errors, truth)
        else:
            assert isinstance(column, Numeric)
            _draw_stretches(axes, column, display, shown, errors, truth)
        axes.tick_params(length=0, pad=4)
        svg = drawing.svg(figure, figure_name, title, said)
    head = ["value", "rows", "share", "± 2 standard errors"]
    lines = [
        [
            drawing.short(text, 40),
            f"{share * total:,.0f}",
            percent(float(share)),
            percent(float(error)),
        ]
        for text, share, error in zip(display.labels, shown, errors, strict=True)
    ]
    if truth is not None:
        head.append("real share")
        lines = [[*line, percent(float(t))] for line, t in zip(lines, truth, strict=True)]
    numbers = Table(title, tuple(head), tuple(tuple(line) for line in lines))
    typical = float(np.median(errors))
    caption = f"{describe(column)}; band ± {percent(typical)} of all rows on a typical bar"
    if display.edges is not None and np.ptp(np.diff(display.edges)) > 1e-6 * np.ptp(display.edges):
        caption += "; bars differ in width: compare areas"
    if display.single:
        assert isinstance(column, Numeric)
        lowest = value_text(column, number_of(column.min))
        caption += f"; the bar at the far left: exactly {lowest}, counted by itself"
    return Picture(figure_name, name, svg, caption, numbers)


def _line(release: Release, name: str) -> tuple[str, ...]:
    bars = bars_of(release, name)
    best = int(np.argmax(bars.shares))
    return (
        name,
        bars.display.labels[best],
        percent(float(bars.shares[best])),
        percent(2 * float(bars.errors[best])),
    )


def _draw_categories(
    axes: Axes, display: Display, shown: Floats, errors: Floats, truth: Floats | None
) -> None:
    places = np.arange(shown.size)
    fills = [drawing.RAMP[2]] * shown.size
    if display.missing:
        fills[-1] = drawing.LINE
    axes.barh(
        places, 100 * shown, height=0.7, color=fills, edgecolor=drawing.SERIES[0], linewidth=1
    )
    low = np.minimum(errors, shown)
    axes.errorbar(
        100 * shown,
        places,
        xerr=100 * np.stack([low, errors]),
        fmt="none",
        ecolor=drawing.INK,
        elinewidth=1.8,
    )
    if truth is not None:
        axes.plot(100 * truth, places, "D", color=drawing.SERIES[1], markersize=5)
    axes.set_yticks(places, [drawing.short(text, 20) for text in display.labels])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(shown.size - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.set_xlabel("% of rows")
    axes.locator_params(axis="x", nbins=5)
    axes.grid(axis="x")


def _draw_stretches(
    axes: Axes,
    column: Numeric,
    display: Display,
    shown: Floats,
    errors: Floats,
    truth: Floats | None,
) -> None:
    """Bars on the scale of the column, with single and missing values on either side."""
    assert display.edges is not None
    edges = display.edges - (unit_of(column) / 2 if _counts(column) else 0.0)
    widths = np.diff(edges)
    usual = float(np.median(widths))
    # A narrower stretch is drawn as high as if it were as wide as the others.
    scale = np.ones(shown.size)
    scale[display.ranged] = usual / widths
    centres = np.zeros(shown.size)
    centres[display.ranged] = (edges[:-1] + edges[1:]) / 2
    bars = np.full(shown.size, usual)
    bars[display.ranged] = widths
    apart = max(usual, (edges[-1] - edges[0]) / 16)
    ticks: list[tuple[float, str]] = []
    fills = [drawing.RAMP[2]] * shown.size
    if display.single:
        centres[0], bars[0] = edges[0] - apart, apart * 0.8
        ticks.append((centres[0], f"={compact(number_of(column.min))}"))
    if display.missing:
        centres[-1], bars[-1] = edges[-1] + 1.3 * apart, apart * 0.8
        fills[-1] = drawing.LINE
        ticks.append((centres[-1], "missing"))
    heights, spread = 100 * shown * scale, 100 * errors * scale
    axes.bar(centres, heights, width=bars, color=fills, edgecolor=drawing.SERIES[0], linewidth=1)
    axes.errorbar(
        centres,
        heights,
        yerr=np.stack([np.minimum(spread, heights), spread]),
        fmt="none",
        ecolor=drawing.INK,
        elinewidth=1.8,
    )
    if truth is not None:
        axes.plot(centres, 100 * truth * scale, "D", color=drawing.SERIES[1], markersize=4)
    room = 0.8 * apart
    usable = _ticks(column, float(edges[0]), float(edges[-1]))
    if display.single and isinstance(column, DatetimeColumn | DateColumn):
        ticks = ticks[1:]
    if display.single:
        usable = [tick for tick in usable if tick[0] > centres[0] + 2.2 * apart]
    if display.missing:
        usable = [tick for tick in usable if tick[0] < centres[-1] - 3.2 * apart]
    ticks += usable
    axes.set_xticks([at for at, _ in ticks], [text for _, text in ticks])
    if isinstance(column, DatetimeColumn | DateColumn) and usable:
        labels = axes.get_xticklabels()
        for at, text in zip(ticks, labels, strict=True):
            place = usable.index(at) if at in usable else -1
            text.set_horizontalalignment(
                "left" if place == 0 else "right" if place == 2 else "center"
            )
    axes.set_xlim(
        float((centres - bars / 2).min()) - room / 2, float((centres + bars / 2).max()) + room / 2
    )
    axes.set_ylim(bottom=0)
    axes.locator_params(axis="y", nbins=5)
    axes.set_ylabel("% of rows")
    axes.grid(axis="y")


def _counts(column: Numeric) -> bool:
    """Whether a bar of one value stands around it, not after it."""
    return is_whole(column) and not isinstance(column, DatetimeColumn | DateColumn)


def _ticks(column: Numeric, low: float, high: float) -> list[tuple[float, str]]:
    """Round values inside a range, with their texts."""
    from matplotlib.ticker import MaxNLocator

    if isinstance(column, DatetimeColumn | DateColumn):
        days = (column.max - column.min).days
        form = "%Y" if days > 3_000 else "%Y-%m" if days > 120 else "%m-%d" if days > 3 else "%H:%M"
        places = [low + part * (high - low) for part in (0.0, 0.5, 1.0)]
        return [(at, moment_of(column, at).strftime(form)) for at in places]
    whole = isinstance(column, IntegerColumn)
    rounded = MaxNLocator(nbins=5, integer=whole).tick_values(low, high)
    return [(float(at), compact(float(at))) for at in rounded if low <= at <= high]


def compact(value: float) -> str:
    """A number in few letters.

    >>> [compact(number) for number in (0.25, 1500.0, 24_000.0, 3.5e6)]
    ['0.25', '1,500', '24k', '3.5M']
    """
    size = abs(value)
    if size >= 1e15:
        return f"{value:.2g}"
    for letter, unit in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if size >= unit and (unit > 1e3 or size >= 1e4):
            return f"{value / unit:.4g}{letter}"
    return f"{value:,.4g}" if size < 1e3 else f"{value:,.0f}"
