"""The page of a folder of results: what was run, the paper's figures beside ours, and why."""

from __future__ import annotations

from pathlib import Path

from heterofedsyn._files import file_written_whole
from heterofedsyn.bench.paper.experiments import experiments
from heterofedsyn.bench.paper.figures import write_figures
from heterofedsyn.bench.paper.material import Page
from heterofedsyn.bench.paper.overall import overall_section
from heterofedsyn.bench.paper.published import citation
from heterofedsyn.bench.paper.sections import SECTIONS
from heterofedsyn.bench.resumable.lookup import Lookup
from heterofedsyn.bench.resumable.results import Identity
from heterofedsyn.drawing import can_draw
from heterofedsyn.errors import UsageError

PAGE = "README.md"


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
    for name, section in {"overall": overall_section, **SECTIONS}.items():
        if page.present(name):
            lines += section(page)
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
