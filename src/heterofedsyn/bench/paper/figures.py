"""The paper's figures, drawn from the results; those that show rows are made anew from seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heterofedsyn._arrays import Floats
from heterofedsyn._files import file_written_whole
from heterofedsyn.bench.paper.experiments import RANDOM, Experiment
from heterofedsyn.bench.paper.published import COUNTERPARTS, MEASURES, Measure, overall
from heterofedsyn.bench.paper.work import private_files, schema_of, synthesize
from heterofedsyn.bench.resumable.cells import Cell
from heterofedsyn.bench.resumable.lookup import Lookup
from heterofedsyn.drawing import INK, LINE, SERIES, SOFT, figure, svg
from heterofedsyn.evaluation import read_real, read_synthetic
from heterofedsyn.evaluation.rows import Rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

COLOURS = {
    "fedprivsyn": SERIES[0],
    "adafedprivsyn": SERIES[1],
    "wavetree": SERIES[2],
    "privsyn": SERIES[3],
    "fedprivsyn-noprojection": SERIES[4],
}
WIDE = 860


def write_figures(
    folder: Path, lookup: Lookup, known: Mapping[str, Experiment], data: Path | None
) -> None:
    """Draw every experiment of which there are results.

    Args:
        data: the public tables; without them the figures that show rows are not drawn anew.
    """
    folder.mkdir(exist_ok=True)
    drawings: dict[str, Callable[[Lookup, Sequence[Cell]], Figure]] = {
        "overall": _overall,
        "participants": _participants,
        "distribution": _distribution,
        "allocation": _allocation,
        "projection": _projection,
        "cost": _cost,
    }
    there = {measured.cell for measured in lookup.figures}
    for name, draw in drawings.items():
        cells = known[name].cells
        if any(cell.key in there for cell in cells):
            words = f"The experiment {name}: {known[name].about}"
            _write(folder / f"{name}.svg", svg(draw(lookup, cells), name, words).encode())
    pictures = known["pca"].cells
    if data is not None and any(cell.key in there for cell in pictures):
        seed = lookup.seeds[0]
        real, made = _rows(pictures, data, seed)
        words = "The label of insurance, real and synthetic"
        drawn = _labels(real, made)
        _write(folder / "label-distribution.svg", svg(drawn, "label", words).encode())
        _write(folder / "pca.png", _png(_pca(real, made)))


def _write(path: Path, content: bytes) -> None:
    with file_written_whole(path) as partial:
        partial.write_bytes(content)


def _png(drawn: Figure) -> bytes:
    """Points as pixels: no coordinates of real rows go into a file."""
    import io

    buffer = io.BytesIO()
    drawn.savefig(buffer, format="png", dpi=100, metadata={"Software": None})
    return buffer.getvalue()


def _overall(lookup: Lookup, cells: Sequence[Cell]) -> Figure:
    """Every cell of the main table as a dot: measured over published, below 1 is better."""
    others = list(dict.fromkeys(c.method for c in cells if c.method not in COUNTERPARTS))
    rows = [*((m, "local") for m in (*COUNTERPARTS, *reversed(others)))]
    rows.append(("wavetree", "secure-aggregation"))
    with figure(WIDE, 330) as drawn:
        panels = drawn.subplots(1, 3, sharey=True)
        for axes, measure in zip(panels, MEASURES, strict=True):
            for place, row in enumerate(rows):
                own = [cell for cell in cells if (cell.method, cell.trust) == row]
                ratios = [r for cell in own if (r := _worse(lookup, measure, cell))]
                colour = COLOURS.get(row[0], SOFT)
                axes.plot(
                    ratios,
                    _spread(place, len(ratios)),
                    linestyle="",
                    marker="o",
                    markersize=4,
                    color=colour,
                    alpha=0.75,
                )
            axes.axvline(1, color=INK, linewidth=0.8)
            axes.set_title(measure.title)
            axes.set_xlabel("times the paper's (left is better)")
            axes.grid(axis="x")
            if axes.lines[1:]:
                axes.set_xscale("log")
                _plain_log(axes.xaxis, *axes.get_xlim())
        names = [m if trust == "local" else "wavetree, secure" for m, trust in rows]
        panels[0].set_yticks(range(len(rows)), names)
        panels[0].set_ylim(len(rows) - 0.4, -0.6)
    return drawn


def _spread(place: int, many: int) -> Floats:
    """Dots of one row a little apart."""
    return place + np.linspace(-0.25, 0.25, many) if many > 1 else np.full(many, float(place))


def _worse(lookup: Lookup, measure: Measure, cell: Cell) -> float | None:
    mean = lookup.mean(cell, measure.metric_of(cell.table))
    if mean is None or not mean.value:
        return None
    ratio = mean.value / overall(measure, cell.method, cell.table, cell.epsilon)
    return 1 / ratio if measure.higher_is_better(cell.table) else ratio


def _plain_log(axis: Axis, low: float, high: float) -> None:
    """0.5 instead of 5 times 10 to the -1, and not more of them than fit."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    powers = [10.0**power for power in range(-6, 7)]
    choices = ((1, 1.1, 1.2, 1.5, 2, 3, 4, 5, 6, 7, 8, 9), (1, 2, 5), (1, 3), (1,))
    for steps in choices:
        shown = [round(step * power, 9) for power in powers for step in steps]
        shown = [value for value in shown if low <= value <= high]
        if len(shown) <= 6:
            break
    axis.set_major_locator(FixedLocator(shown))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


Series = tuple[str, Mapping[str, Any], Sequence[Cell]]
"""A line of a figure: its name, its looks, and its cells from left to right."""


def _lines(
    lookup: Lookup,
    series: Sequence[Series],
    across: Callable[[Cell], float],
    label: str,
    ticks: Mapping[float, str],
) -> Figure:
    """Three panels, one per measure of the paper, with a line per series."""
    with figure(WIDE, 300) as drawn:
        panels = drawn.subplots(1, 3)
        for axes, measure in zip(panels, MEASURES, strict=True):
            for name, looks, cells in series:
                means = [(across(c), lookup.mean(c, measure.metric_of(c.table))) for c in cells]
                known = [(place, mean) for place, mean in means if mean]
                axes.errorbar(
                    [place for place, _ in known],
                    [mean.value for _, mean in known],
                    [mean.deviation or 0.0 for _, mean in known],
                    label=name,
                    markersize=4,
                    capsize=2,
                    elinewidth=0.8,
                    **looks,
                )
            axes.set_title(_title(measure, series))
            axes.set_xlabel(label)
            axes.set_xticks([*ticks], [*ticks.values()])
            axes.margins(x=0.08)
            axes.grid(axis="y")
            if measure.name != "ml":
                axes.set_ylim(bottom=0)
        _legend(drawn, panels[0])
    return drawn


def _title(measure: Measure, series: Sequence[Series]) -> str:
    table = series[0][2][0].table
    if measure.name != "ml":
        return f"{measure.title}, {table}"
    return f"F1, {table}" if measure.higher_is_better(table) else f"RMSE of ranks, {table}"


def _legend(drawn: Figure, axes: Axes) -> None:
    """Below all panels, so that it hides nothing."""
    handles, names = axes.get_legend_handles_labels()
    drawn.legend(handles, names, loc="outside lower center", ncols=4 if len(names) == 4 else 3)


def _looks(method: str, **more: Any) -> dict[str, Any]:
    return {"color": COLOURS[method], "marker": "o", **more}


def _methods(cells: Sequence[Cell]) -> Iterator[tuple[str, list[Cell]]]:
    for method in dict.fromkeys(cell.method for cell in cells):
        yield method, [cell for cell in cells if cell.method == method]


def _participants(lookup: Lookup, cells: Sequence[Cell]) -> Figure:
    series = [(method, _looks(method), own) for method, own in _methods(cells)]
    ticks = {float(cell.sites): str(cell.sites) for cell in cells}
    return _lines(lookup, series, lambda cell: cell.sites, "number of sites c", ticks)


def _distribution(lookup: Lookup, cells: Sequence[Cell]) -> Figure:
    splits = list(dict.fromkeys(cell.split for cell in cells))
    series = [(method, _looks(method, linestyle="none"), own) for method, own in _methods(cells)]
    shift = {method: (place - 1) * 0.12 for place, (method, _) in enumerate(_methods(cells))}
    return _lines(
        lookup,
        series,
        lambda cell: splits.index(cell.split) + shift[cell.method],
        "how rows are spread over sites",
        {float(place): split for place, split in enumerate(splits)},
    )


def _allocation(lookup: Lookup, cells: Sequence[Cell]) -> Figure:
    def share(cell: Cell) -> float:
        return round(100 * (1 - 2 * float(dict(cell.settings).get("q", 0.1))))

    series: list[Series] = []
    styles = {"fedprivsyn": "-", "adafedprivsyn": "--"}
    for method, own in _methods(cells):
        for place, epsilon in enumerate(sorted({cell.epsilon for cell in own})):
            looks = {"color": SERIES[place], "marker": "o", "linestyle": styles[method]}
            line = [cell for cell in own if cell.epsilon == epsilon]
            series.append((f"{method}, ε = {epsilon:g}", looks, line))
    ticks = {value: f"{value:g} %" for value in (40.0, 60.0, 80.0)}
    return _lines(lookup, series, share, "share of the budget for pairs", ticks)


def _projection(lookup: Lookup, cells: Sequence[Cell]) -> Figure:
    sketched = [cell for cell in cells if cell.method in ("fedprivsyn", "adafedprivsyn")]
    whole = [cell for cell in cells if cell not in sketched]

    def width(cell: Cell) -> float:
        return float(dict(cell.settings).get("k", 10))

    widths = sorted({width(cell) for cell in sketched})
    series: list[Series] = []
    for method, own in _methods(sketched):
        for kind, style in (("signs", "-"), ("gaussian", "--")):
            line = [cell for cell in own if dict(cell.settings).get("sketch", "signs") == kind]
            series.append((f"{method}, {kind}", _looks(method, linestyle=style), line))
    past = widths[-1] + 5
    series += [(f"{m} (none)", _looks(m, linestyle="none"), own) for m, own in _methods(whole)]
    ticks = {value: f"{value:g}" for value in widths} | {past: "none"}
    return _lines(
        lookup,
        series,
        lambda cell: past if cell in whole else width(cell),
        "integers in a sketch, k",
        ticks,
    )


def _cost(lookup: Lookup, cells: Sequence[Cell]) -> Figure:
    real = [cell for cell in cells if not cell.table.startswith(RANDOM)]
    tables = list(dict.fromkeys(cell.table for cell in real))
    with figure(WIDE, 320) as drawn:
        left, right = drawn.subplots(1, 2)
        for number, (method, own) in enumerate(_methods(real)):
            means = [(tables.index(c.table), lookup.mean(c, "cost.bytes_up")) for c in own]
            left.bar(
                [place + (number - 1.5) * 0.2 for place, mean in means if mean],
                [mean.value / 1e3 for _, mean in means if mean],
                0.18,
                color=COLOURS[method],
                label=method,
            )
        left.set_xticks(range(len(tables)), tables)
        left.set_yscale("log")
        _plain_log(left.yaxis, *left.get_ylim())
        left.set_title("Sent by a site, kB")
        left.grid(axis="y")
        for method, own in _methods([cell for cell in cells if cell not in real]):
            points = [
                (int(c.table.removeprefix(RANDOM)), lookup.mean(c, "cost.hub_seconds")) for c in own
            ]
            right.plot(
                [columns for columns, mean in points if mean],
                [mean.value for _, mean in points if mean],
                marker="o",
                markersize=4,
                color=COLOURS[method],
            )
        columns = sorted({int(c.table.removeprefix(RANDOM)) for c in cells if c not in real})
        right.set_xscale("log")
        right.set_yscale("log")
        right.set_xticks(columns, [str(many) for many in columns])
        right.minorticks_off()
        _plain_log(right.yaxis, *right.get_ylim())
        right.set_title("Hub, CPU seconds")
        right.set_xlabel("columns d, of 20 values each")
        right.grid(axis="y")
        _legend(drawn, left)
    return drawn


def _rows(cells: Sequence[Cell], data: Path, seed: int) -> tuple[Rows, dict[str, Rows]]:
    """The real rows, and the synthetic ones of every method."""
    import warnings

    from heterofedsyn.errors import SimulatedNoiseWarning

    schema = schema_of(data, cells[0].table)
    made = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimulatedNoiseWarning)
        for cell in cells:
            made[cell.method] = read_synthetic(schema, synthesize(cell, data, seed)[0])
    return read_real(schema, private_files(data, cells[0].table)), made


def _labels(real: Rows, made: Mapping[str, Rows]) -> Figure:
    """The label's distribution, real and synthetic, a panel per method."""
    place = real.schema.domain.names.index(str(real.schema.label))
    truth = real.values[place]
    edges = np.linspace(truth.min(), truth.max(), 31)
    with figure(WIDE, 230) as drawn:
        panels = drawn.subplots(1, len(made), sharey=True)
        for axes, (method, rows) in zip(panels, made.items(), strict=True):
            for values, colour, name in (
                (truth, SOFT, "real"),
                (rows.values[place], COLOURS[method], "synthetic"),
            ):
                shares = np.histogram(values, edges)[0] / len(values)
                axes.stairs(shares, edges / 1e3, color=colour, label=name, linewidth=1.6)
            axes.set_title(method)
            axes.set_xlabel("charges, thousands")
            axes.set_xlim(0, 65)
            axes.legend(loc="upper right")
            axes.grid(axis="y")
        panels[0].set_ylabel("share of rows")
    return drawn


def _pca(real: Rows, made: Mapping[str, Rows]) -> Figure:
    """Rows in the plane of the real table's first two principal components."""
    truth = _standard(real, real)
    axes_of = np.linalg.svd(truth, full_matrices=False)[2][:2].T
    with figure(WIDE, 250) as drawn:
        panels = drawn.subplots(1, len(made), sharex=True, sharey=True)
        for axes, (method, rows) in zip(panels, made.items(), strict=True):
            for points, colour, name in (
                (truth @ axes_of, SERIES[0], "real"),
                (_standard(rows, real) @ axes_of, SERIES[1], "synthetic"),
            ):
                axes.scatter(
                    points[:, 0], points[:, 1], s=3, color=colour, alpha=0.4, label=name, lw=0
                )
            axes.set_title(method)
            axes.set_xlabel("first component")
            axes.grid(color=LINE)
        panels[0].set_ylabel("second component")
        handles, names = panels[0].get_legend_handles_labels()
        drawn.legend(
            handles, names, loc="outside lower center", ncols=2, markerscale=4, frameon=False
        )
    return drawn


def _standard(rows: Rows, real: Rows) -> Floats:
    """All columns as numbers, categories by their code, in units of the real table's spread."""
    truth = real.values
    centred = rows.values - truth.mean(axis=1, keepdims=True)
    return np.asarray((centred / truth.std(axis=1, keepdims=True)).T)
