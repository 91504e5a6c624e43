"""The sections of the page on every experiment but `overall`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from heterofedsyn.bench.paper.experiments import RANDOM
from heterofedsyn.bench.paper.material import Page, markdown
from heterofedsyn.bench.paper.published import MEASURES, bound_rows
from heterofedsyn.bench.resumable.cells import Cell


def _three(page: Page, name: str, what: str, label: dict[Cell, str]) -> list[str]:
    """A table of query error, fidelity error and machine learning over the cells of a figure."""
    metrics = {m.title.lower(): m for m in MEASURES}
    head = ["method", what, *metrics, "total variation", "pairs measured"]
    body = []
    for cell, value in label.items():
        shown = [page.lookup.shown(cell, m.metric_of(cell.table)) for m in metrics.values()]
        more = [page.lookup.shown(cell, metric) for metric in ("tvd.two_way", "pairs")]
        body.append([f"`{cell.method}`", value, *shown, *more])
    repetitions = ", ".join(
        f"{title} {page.lookup.repetitions(label, m.metric_of(next(iter(label)).table))}"
        for title, m in metrics.items()
    )
    return [
        *page.picture(name, f"The {name} experiment"),
        f"Repetitions: {repetitions}.",
        "",
        *markdown(head, body),
        "",
    ]


def _participants(page: Page) -> list[str]:
    cells = _by_method(page.experiment("participants").cells)
    return [
        "## participants",
        "",
        f"{cells[0].table}, epsilon 5, 40 % of the budget for pairs. The paper shows curves and no "
        "figures: errors grow with c, and more slowly for adafedprivsyn. Each site's noise adds to "
        "the sum, so the variance grows with c.",
        "",
        *_three(page, "participants", "c", {cell: str(cell.sites) for cell in cells}),
    ]


def _distribution(page: Page) -> list[str]:
    cells = _by_method(page.experiment("distribution").cells)
    return [
        "## distribution",
        "",
        f"{cells[0].table}, epsilon 5, 40 % of the budget for pairs. Rows dealt uniformly, in "
        "proportion 1 : 2 : 3 : 4 : 5 (sizes), or by sorted label, so that most sites know one "
        "label only. The paper finds no difference, and so do we, for a simple reason: counts add "
        "up, so that the sum over sites does not depend on who holds which row. With equal seeds "
        "the noise is equal too, and so are all figures, to the last digit.",
        "",
        *_three(page, "distribution", "split", {cell: cell.split for cell in cells}),
    ]


def _allocation(page: Page) -> list[str]:
    cells = _by_method(page.experiment("allocation").cells)
    labels = {
        cell: f"{1 - 2 * float(dict(cell.settings).get('q', 0.1)):.0%}, ε = {cell.epsilon:g}"
        for cell in cells
    }
    return [
        "## allocation",
        "",
        f"{cells[0].table}; 40, 60 or 80 % of the budget for pairs (q = 0.3, 0.2, 0.1). The paper "
        "says that 80 % is clearly better at epsilon 0.2, and that it matters little above.",
        "",
        *_three(page, "allocation", "for pairs", labels),
    ]


def _projection(page: Page) -> list[str]:
    cells = page.experiment("projection").cells
    labels = {}
    for cell in cells:
        settings = dict(cell.settings)
        whole = cell.method == "fedprivsyn-noprojection"
        kind = settings.get("sketch", "signs")
        labels[cell] = "whole pairs" if whole else f"k = {settings.get('k', 10)}, {kind}"
    return [
        "## projection",
        "",
        f"{cells[0].table}, epsilon 5, 40 % of the budget for pairs. Sketches of k integers by "
        "random signs (ours) or Gaussian entries (the paper's), and no sketch at all, which only "
        "fedprivsyn offers. The paper sees fluctuations without a trend and prefers k = 10.",
        "",
        *_three(page, "projection", "sketch", labels),
    ]


def _bound(page: Page) -> list[str]:
    cells = page.experiment("bound").cells
    head = ["table", "ε", "bound"]
    for what in ("query error", "fidelity error"):
        head += [f"{what}: paper", "measured", "ratio"]
    head += ["pairs: paper", "measured"]
    body = []
    for row in bound_rows():
        share = {"1/4": 1 / 4, "1/3": 1 / 3, "1/2": 1 / 2}[row.bound]
        cell = Cell.of(row.table, "adafedprivsyn", float(row.epsilon), q=0.3, bound=share)
        if cell not in cells:
            continue
        line = [row.table, f"{row.epsilon:g}", row.bound]
        for measure, printed in (
            (MEASURES[0], row.query_error),
            (MEASURES[1], row.fidelity_error),
        ):
            mean = page.lookup.mean(cell, measure.metric)
            ratio = f"{mean.value / printed:.2f}" if mean else "–"
            line += [f"{printed:g}", page.lookup.shown(cell, measure.metric), ratio]
        pairs = page.lookup.mean(cell, "pairs")
        chosen = f"{pairs.value:.1f} / {row.most}" if pairs else "–"
        body.append([*line, f"{row.selected} / {row.most}", chosen])
    return [
        "## bound",
        "",
        "adafedprivsyn, 40 % of the budget for pairs; at most 1/4, 1/3 or 1/2 of all pairs may be "
        "chosen. Repetitions: "
        f"{page.lookup.repetitions(cells, 'query.test.2_way')} (fidelity "
        f"{page.lookup.repetitions(cells, 'fidelity.num_num')}). What the bound leaves unspent "
        "measures the chosen pairs again, so a large bound costs less here than in the paper.",
        "",
        *markdown(head, body),
        "",
    ]


def _pca(page: Page) -> list[str]:
    return [
        "## pca",
        "",
        "insurance, 2 sites, epsilon 5, 40 % of the budget for pairs: all columns, standardised, "
        "in the plane of the real table's first two principal components; one draw of noise.",
        "",
        *page.picture("pca", "Real and synthetic rows of insurance in two dimensions"),
        *_plain_scores(page, "pca"),
    ]


def _label(page: Page) -> list[str]:
    return [
        "## label-distribution",
        "",
        "The label of insurance (charges) in the same studies.",
        "",
        *page.picture("label-distribution", "The label of insurance, real and synthetic"),
    ]


def _plain_scores(page: Page, name: str) -> list[str]:
    metrics = {
        "query error": "query.test.2_way",
        "fidelity error": "fidelity.num_num",
        "total variation": "tvd.two_way",
    }
    cells = page.experiment(name).cells
    body = [
        [f"`{cell.method}`", *(page.lookup.shown(cell, metric) for metric in metrics.values())]
        for cell in cells
    ]
    return [*markdown(["method", *metrics], body), ""]


def _cost(page: Page) -> list[str]:
    cells = page.experiment("cost").cells
    real = [cell for cell in cells if not cell.table.startswith(RANDOM)]
    random = [cell for cell in cells if cell.table.startswith(RANDOM)]
    metrics = {
        "bytes from a site": "cost.bytes_up",
        "of them for choosing pairs": "cost.bytes_up_scoring",
        "bytes to a site": "cost.bytes_down",
        "rounds": "cost.rounds",
    }
    body = [
        [c.table, f"`{c.method}`", *(page.lookup.shown(c, metric) for metric in metrics.values())]
        for c in real
    ]
    times = {
        "site, CPU s": "cost.site_seconds",
        "hub, CPU s": "cost.hub_seconds",
        "drawing rows, CPU s": "cost.sample_seconds",
    }
    seconds = [
        [
            f"`{c.method}`",
            c.table.removeprefix(RANDOM),
            *(page.lookup.shown(c, metric) for metric in times.values()),
        ]
        for c in _by_method(random)
    ]
    return [
        "## cost",
        "",
        "The paper's claims: a site sends O(2 d² k² + d k) integers, k far below the cells of a "
        "pair; the hub needs O(d⁴) to score pairs, O(d²) to choose, and more when it synthesizes "
        "in between. Measured at epsilon 1 with 5 sites; bytes are those of whole messages.",
        "",
        *page.picture("cost", "Bytes per site by table, and hub seconds by number of columns"),
        *markdown(["table", "method", *metrics], body),
        "",
        *_saved(page, real),
        "Seconds on random tables of d columns with 20 values each, 10,000 rows:",
        "",
        *markdown(["method", "d", *times], seconds),
        "",
        *_growth(page, random),
    ]


def _saved(page: Page, cells: Iterable[Cell]) -> list[str]:
    """What the projection saves, per table."""
    words = []
    for table in dict.fromkeys(cell.table for cell in cells):
        sketched, whole = (
            page.lookup.mean(Cell.of(table, method, 1.0), "cost.bytes_up_scoring")
            for method in ("fedprivsyn", "fedprivsyn-noprojection")
        )
        if sketched and whole:
            words.append(f"{table} {whole.value / sketched.value:.0f}")
    if not words:
        return []
    return [f"Projection divides the bytes for choosing pairs by: {', '.join(words)}.", ""]


def _growth(page: Page, cells: Sequence[Cell]) -> list[str]:
    """The power of d that hub seconds grow with, between the two largest tables."""
    words = []
    for method in dict.fromkeys(cell.method for cell in cells):
        own = [cell for cell in cells if cell.method == method][-2:]
        means = [page.lookup.mean(cell, "cost.hub_seconds") for cell in own]
        if len(means) == 2 and means[0] and means[1]:
            many = [int(cell.table.removeprefix(RANDOM)) for cell in own]
            power = math.log(means[1].value / means[0].value) / math.log(many[1] / many[0])
            words.append(f"`{method}` {power:.1f}")
    if not words:
        return []
    return [
        f"Between the two largest, hub seconds grow with d to the power of: {', '.join(words)}. "
        "Scoring itself is one small product per pair, d² of them; the paper's O(d⁴) is an upper "
        "bound.",
        "",
    ]


def _by_method(cells: Iterable[Cell]) -> list[Cell]:
    """Cells of one method together, else as they stand."""
    order = {cell.method: place for place, cell in reversed([*enumerate(cells)])}
    return sorted(cells, key=lambda cell: order[cell.method])


SECTIONS: dict[str, Callable[[Page], list[str]]] = {
    "participants": _participants,
    "distribution": _distribution,
    "allocation": _allocation,
    "projection": _projection,
    "bound": _bound,
    "pca": _pca,
    "label-distribution": _label,
    "cost": _cost,
}
"""By the name of the experiment, in the order of the page."""
