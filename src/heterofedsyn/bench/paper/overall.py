"""The section on `overall`: every method, table and epsilon beside the paper's figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from heterofedsyn.bench.paper.experiments import EPSILONS, TABLES
from heterofedsyn.bench.paper.material import Page, markdown
from heterofedsyn.bench.paper.published import COUNTERPARTS, MEASURES, Measure, overall
from heterofedsyn.bench.resumable.cells import REAL, Cell
from heterofedsyn.hub import METHODS
from heterofedsyn.privacy.trust import SecureAggregation

SECURE = SecureAggregation.name


def overall_section(page: Page) -> list[str]:
    """The lines of the page on the main experiment."""
    cells = page.experiment("overall").cells
    tables = [table for table in TABLES if any(cell.table == table for cell in cells)]
    lines = ["## overall", "", "q = 0.1, that is 80 % of the budget for pairs; k = 10.", ""]
    lines += _on_trust(cells)
    lines += page.picture("overall", "Ratio of measured to published figures, by method")
    lines += _summary(page, cells)
    for measure in MEASURES:
        lines += [f"### {measure.title}: paper / measured / ratio", ""]
        for table in tables:
            higher = measure.higher_is_better(table)
            lines += [
                f"**{table}**, {'higher' if higher else 'lower'} is better: a ratio "
                f"{'above' if higher else 'below'} 1 is better than the paper. Repetitions: "
                f"{_repetitions(page, table, measure)}.",
                "",
                *_cells_table(page, measure, table),
                "",
            ]
    lines += ["### Total variation over pairs of columns (the paper has none)", ""]
    lines += _plain_table(page, tables, "tvd.two_way")
    regression = [table for table in tables if table in ("abalone", "insurance")]
    if regression:
        lines += ["### RMSE of the label itself (the paper has none)", ""]
        lines += _plain_table(page, regression, "ml.average")
    return lines


def _on_trust(cells: Iterable[Cell]) -> list[str]:
    """What the rows under secure aggregation assume, if there are any."""
    numbers = sorted({cell.sites for cell in cells if cell.trust == SECURE})
    lines = []
    for hidden in map(SecureAggregation, numbers):
        lines += [
            f"Under {SECURE} {hidden.colluding} of {hidden.sites} sites may collude and "
            f"{hidden.quorum} are in every sum: its noise has {hidden.variance_factor:g} times the "
            f"variance that one place would need, and {hidden.sites} times under local.",
            "",
        ]
    return lines


def _rows() -> list[tuple[str, str]]:
    """Method and trust of the rows of `overall`: the paper's first, in its order."""
    others = [method for method in METHODS if method not in COUNTERPARTS]
    own = [(method, "local") for method in (*COUNTERPARTS, *reversed(others))]
    return [*own, ("wavetree", SECURE), (REAL, "local")]


def _name(method: str, trust: str) -> str:
    if method == REAL:
        return "real rows, drawn again"
    return f"`{method}`" if trust == "local" else f"`{method}`, {trust}"


def _repetitions(page: Page, table: str, measure: Measure) -> str:
    cells = [cell for cell in page.experiment("overall").cells if cell.table == table]
    return page.lookup.repetitions(cells, measure.metric_of(table))


def _cell(page: Page, table: str, row: tuple[str, str], epsilon: float) -> Cell | None:
    """The cell of `overall`, or None if this run has no such cell."""
    cell = Cell(table, row[0], epsilon, trust=row[1])
    return cell if cell in page.experiment("overall").cells else None


def _cells_table(page: Page, measure: Measure, table: str) -> list[str]:
    epsilons = [e for e in EPSILONS if _cell(page, table, _rows()[0], e)]
    head = ["method"]
    for epsilon in epsilons:
        head += [f"ε = {epsilon:g}: paper", "measured", "ratio"]
    body = []
    for row in _rows():
        line = [_name(*row)]
        for epsilon in epsilons:
            cell = _cell(page, table, row, epsilon)
            printed = overall(measure, row[0], table, epsilon)
            mark = "" if row[0] in COUNTERPARTS else "*"
            ratio = cell and _ratio(page, measure, cell)
            line += [
                f"{mark}{printed:g}{mark}",
                page.lookup.shown(cell, measure.metric_of(table)) if cell else "–",
                f"{ratio:.2f}" if ratio else "–",
            ]
        body.append(line)
    return markdown(head, body)


def _ratio(page: Page, measure: Measure, cell: Cell) -> float | None:
    mean = page.lookup.mean(cell, measure.metric_of(cell.table))
    if mean is None:
        return None
    return mean.value / overall(measure, cell.method, cell.table, cell.epsilon)


def _plain_table(page: Page, tables: Sequence[str], metric: str) -> list[str]:
    """A metric by method, table and epsilon."""
    columns = [(t, e) for t in tables for e in EPSILONS if _cell(page, t, _rows()[0], e)]
    head = ["method", *(f"{table}, ε = {epsilon:g}" for table, epsilon in columns)]
    body = []
    for row in _rows():
        cells = [_cell(page, table, row, epsilon) for table, epsilon in columns]
        shown = [page.lookup.shown(cell, metric) if cell else "–" for cell in cells]
        body.append([_name(*row), *shown])
    return [*markdown(head, body), ""]


def _summary(page: Page, cells: Sequence[Cell]) -> list[str]:
    """How far every method is from the paper, in one table and a few sentences."""
    head = ["method", "beside"]
    for measure in MEASURES:
        head += [f"{measure.title.lower()}: ratio", "better in"]
    body = []
    for row in _rows():
        own = [cell for cell in cells if (cell.method, cell.trust) == row]
        line = [_name(*row), COUNTERPARTS.get(row[0], "*best federated*")]
        for measure in MEASURES:
            line += _standing(page, measure, own)
        body.append(line)
    return [
        "Geometric means of measured / paper over tables and epsilons, taken so that below 1 is "
        "better (F1 is turned over: paper / measured), and in how many cells we are better.",
        "",
        *markdown(head, body),
        "",
        *_findings(page, cells),
    ]


def _standing(page: Page, measure: Measure, cells: Iterable[Cell]) -> list[str]:
    ratios = [ratio for cell in cells if (ratio := _badness(page, measure, cell))]
    if not ratios:
        return ["–", "–"]
    mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
    return [f"{mean:.2f}", f"{sum(ratio < 1 for ratio in ratios)} of {len(ratios)}"]


def _badness(page: Page, measure: Measure, cell: Cell) -> float | None:
    """The ratio to the paper, turned so that below 1 is better."""
    ratio = _ratio(page, measure, cell)
    return 1 / ratio if ratio and measure.higher_is_better(cell.table) else ratio


def _findings(page: Page, cells: Sequence[Cell]) -> list[str]:
    """In words, how far the honest forms of the paper's own methods are from it."""
    lines = []
    for method in ("fedprivsyn", "adafedprivsyn"):
        own = [cell for cell in cells if cell.method == method]
        words = []
        for measure in MEASURES:
            pairs = [(r, cell) for cell in own if (r := _badness(page, measure, cell))]
            if not pairs:
                continue
            worst = max(pairs, key=lambda pair: pair[0])
            best = min(pairs, key=lambda pair: pair[0])
            words.append(
                f"{measure.title.lower()} between {best[0]:.2f} ({best[1].table}, ε = "
                f"{best[1].epsilon:g}) and {worst[0]:.2f} ({worst[1].table}, ε = "
                f"{worst[1].epsilon:g}) of the paper's"
            )
        if words:
            lines += [f"- Honest `{method}`: {'; '.join(words)}."]
    return [*lines, ""] if lines else []
