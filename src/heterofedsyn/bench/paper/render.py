"""The page of a folder of results: what was run, the paper's figures beside ours, and why."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from heterofedsyn._files import file_written_whole
from heterofedsyn.bench.paper.experiments import (
    EPSILONS,
    RANDOM,
    REAL,
    TABLES,
    Cell,
    Experiment,
    experiments,
)
from heterofedsyn.bench.paper.figures import write_figures
from heterofedsyn.bench.paper.lookup import Lookup
from heterofedsyn.bench.paper.published import (
    COUNTERPARTS,
    MEASURES,
    Measure,
    bound_rows,
    citation,
    overall,
)
from heterofedsyn.bench.paper.results import Identity
from heterofedsyn.drawing import can_draw
from heterofedsyn.errors import UsageError
from heterofedsyn.hub import METHODS

PAGE = "README.md"

SECURE = "secure-aggregation"


@dataclass(frozen=True)
class Page:
    """What a page is made from."""

    lookup: Lookup
    identity: Identity
    figures: frozenset[str]

    def experiment(self, name: str) -> Experiment:
        """An experiment of this run."""
        return experiments(quick=self.identity.quick)[name]

    def present(self, name: str) -> bool:
        """Whether anything was measured for an experiment."""
        cells = {cell.key for cell in self.experiment(name).cells}
        return any(figure.cell in cells for figure in self.lookup.figures)

    def picture(self, name: str, words: str) -> list[str]:
        """A figure, if it was drawn."""
        found = [file for file in sorted(self.figures) if Path(file).stem == name]
        return [line for file in found for line in (f"![{words}](figures/{file})", "")]


def write_page(folder: Path, identity: Identity, data: Path | None) -> Path:
    """Write the page and its figures from the results of a folder; the same results, same bytes.

    Args:
        data: the public tables; without them figures that show rows stay as they are.
    """
    lookup = Lookup.read(folder)
    if not lookup.figures:
        raise UsageError(f"there are no results in {folder} yet; run without --render-only first")
    if can_draw():
        write_figures(folder / "figures", lookup, experiments(quick=identity.quick), data)
    drawn = (folder / "figures").glob("*.[sp][vn]g")
    page = Page(lookup, identity, frozenset(path.name for path in drawn))
    with file_written_whole(folder / PAGE) as partial:
        partial.write_text("\n".join(_lines(page)) + "\n", "utf-8")
    return folder / PAGE


def _lines(page: Page) -> list[str]:
    lines = _head(page)
    parts = {
        "overall": _overall,
        "participants": _participants,
        "distribution": _distribution,
        "allocation": _allocation,
        "projection": _projection,
        "bound": _bound,
        "pca": _pca,
        "label-distribution": _label,
        "cost": _cost,
    }
    for name, part in parts.items():
        if page.present(name):
            lines += part(page)
    return lines


def _head(page: Page) -> list[str]:
    lookup = page.lookup
    cells = page.experiment("overall").cells
    counts = {
        "total variation, queries and histograms": "tvd.two_way",
        "exact transport (fidelity)": "fidelity.num_num",
        "machine learning": "ml.average",
    }
    lines = [
        "# The paper's experiments with honest noise",
        "",
        f"The paper: {citation()}",
        "",
        f"Made by `{_command(page.identity)}`, version {', '.join(lookup.versions)}; noise seeds "
        f"{', '.join(map(str, lookup.seeds))}: one per repetition, the same for all methods. "
        "Every repetition draws its own split of the rows, noise and synthetic rows. All figures "
        "are in [results.csv](results.csv), one line each; running the command again continues "
        "there.",
        "",
        "| measured in `overall` | repetitions |",
        "| --- | --- |",
    ]
    lines += [f"| {name} | {lookup.repetitions(cells, m)} |" for name, m in counts.items()]
    lines += [""]
    if page.identity.quick:
        lines += [QUICK, ""]
    return [*lines, *SETTING.splitlines(), ""]


def _command(identity: Identity) -> str:
    seed = f" --seed {identity.seed}" if identity.seed else ""
    return f"heterofedsyn bench paper{' --quick' if identity.quick else ''}{seed}"


QUICK = (
    "**This is the quick version.** `overall` has two tables of five (insurance with epsilon 1 and "
    "5, adult with epsilon 1), the other experiments run on insurance (bound: on obesity) with "
    "fewer values of their parameter, and there are two repetitions where the full version has "
    "five. The noise is as honest, the means are rougher."
)

SETTING = """\
Unless an experiment says otherwise: 5 sites, rows dealt uniformly, trust `local` (every site's
answer is protected on its own), delta 1e-10, the paper's conversion of epsilon to rho. A table is
given to the synthesizer without its test rows. As many synthetic rows are drawn as the noisy total
says, since the exact number is private. Means are followed by the standard deviation over
repetitions. A `–` was not measured; a refusal is shown with its reason in one word.

- *Query error*: mean absolute error of 1,000 range queries on two columns, against test rows.
- *Fidelity error*: exact Wasserstein distance of pairs of numeric columns, between 1,000 synthetic
  rows and 1,000 of train and validation (of a smaller table the mean of three cuts of four fifths).
- *Machine learning*: random forest, MLP and XGBoost trained on synthetic rows and judged on test
  rows, their mean; weighted F1 for adult, obesity and shoppers (higher is better). For abalone and
  insurance the paper's program replaces labels by their ranks within each table before it takes the
  RMSE (lower is better), and writes one value a bin, so that here too the labels of one synthetic
  bin are one. That figure rewards few different labels: real rows of insurance score 461, far
  worse than noise. The honest RMSE stands in a table of its own.

## Why the figures differ from the paper's

The methods of the paper are run here as its text describes them, with every site adding its own
noise. Its program does something else, in both directions:

- **It draws noise once, with epsilon / c.** The program reads the pooled table and adds central
  noise calibrated to epsilon / c. Since rho grows with the square of epsilon, that is about
  rho / c² for the sum, where c sites that each add noise for rho give a sum that is as noisy as
  central noise for rho / c. With c = 5 the program's noise has about five times the variance it
  need have. This alone makes honest figures better, though nothing is protected at a site by
  noise that is added after pooling.
- **It splits epsilon, not rho.** A stage with a share q of epsilon has about q² of rho: with
  q = 0.1 the three stages use 1 %, 1 % and 64 % of the budget, and a third of it is lost. The
  single columns and the sketches, which decide what is measured, suffer most.
- **It clips at zero.** Negative noisy counts become 0 and positive ones stay, which adds mass: at
  epsilon 1 its tables of insurance sum to 80 instead of 1. Here counts are made consistent and
  non-negative with their total kept (norm-sub), and rows start from the single columns.
- **It fits bins on private rows.** Ranges and bins of numbers come from the data, outside of the
  guarantee, and fit them better than public ones. Here they come from the public schema.
- **It knows the number of rows.** Frequencies are divided by exact sizes. Here the total is noisy.
- **Its sketches are Gaussian.** Their largest row decides the noise, whose sigma is 1.6 to 1.9
  times that of signs at k = 10. Signs are the default here; `projection` below has both.
- **Its scores are corrected otherwise.** The variance that the paper takes off InDif2 is that of
  frequencies weighted by sizes (sum n_i² / n²); summed counts have c / n². Here the square is
  unbiased, and cut at 0 before the root is taken.

Where the paper's figure is the better one, it is mostly at epsilon 0.2 on a small table, of which
little but noise is left (in the full run the tables of `fedprivsyn` on abalone are 0.9 from the
truth in total variation), or a rank of insurance, which hardly depends on the table at all (real
rows score 131 once their labels are binned).

`privsyn` pools all rows and adds noise once, here as there: it is no federated method. `wavetree`,
`independent` and `local-merge` are not in the paper; they stand beside the best federated figure of
the paper, shown in *italics*. What each method does is described in `docs/methods.md`. *Real rows,
drawn again* are as many real rows drawn with replacement, without noise: what chance alone does to
a table of this size, and to a cut of 1,000 rows of it."""


def _overall(page: Page) -> list[str]:
    cells = page.experiment("overall").cells
    tables = [table for table in TABLES if any(cell.table == table for cell in cells)]
    lines = ["## overall", "", "q = 0.1, that is 80 % of the budget for pairs; k = 10.", ""]
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
    return _markdown(head, body)


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
    return [*_markdown(head, body), ""]


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
        *_markdown(head, body),
        "",
        *_findings(page, cells),
    ]


def _standing(page: Page, measure: Measure, cells: Iterable[Cell]) -> list[str]:
    found = [_badness(page, measure, cell) for cell in cells]
    ratios = [ratio for ratio in found if ratio]
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
        *_markdown(head, body),
        "",
    ]


def _by_method(cells: Iterable[Cell]) -> list[Cell]:
    """Cells of one method together, else as they stand."""
    order = {cell.method: place for place, cell in reversed([*enumerate(cells)])}
    return sorted(cells, key=lambda cell: order[cell.method])


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
        *_markdown(head, body),
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
    return [*_markdown(["method", *metrics], body), ""]


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
        *_markdown(["table", "method", *metrics], body),
        "",
        *_saved(page, real),
        "Seconds on random tables of d columns with 20 values each, 10,000 rows:",
        "",
        *_markdown(["method", "d", *times], seconds),
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
        found = [page.lookup.mean(cell, "cost.hub_seconds") for cell in own]
        if len(found) == 2 and found[0] and found[1]:
            many = [int(cell.table.removeprefix(RANDOM)) for cell in own]
            power = math.log(found[1].value / found[0].value) / math.log(many[1] / many[0])
            words.append(f"`{method}` {power:.1f}")
    if not words:
        return []
    return [
        f"Between the two largest, hub seconds grow with d to the power of: {', '.join(words)}. "
        "Scoring itself is one small product per pair, d² of them; the paper's O(d⁴) is an upper "
        "bound.",
        "",
    ]


def _markdown(head: Sequence[str], body: Iterable[Sequence[str]]) -> list[str]:
    """A table in Markdown."""
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *body)]
