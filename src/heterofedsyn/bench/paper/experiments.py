"""What the paper tried, as lists of cells: one setting of a study each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from heterofedsyn.bench.resumable.cells import COST, ML, REAL, SCORES, TRANSPORT, Cell
from heterofedsyn.errors import UsageError, did_you_mean
from heterofedsyn.hub import METHODS

TABLES = ("adult", "abalone", "obesity", "insurance", "shoppers")
EPSILONS = (0.2, 1.0, 5.0)
DELTA = 1e-10
CONVERSION = "paper"
"""Delta and conversion of all experiments that do not vary them."""

PAPERS = ("fedprivsyn", "adafedprivsyn")
"""The paper's own methods."""

PAIRS_40 = 0.3
"""The share q that leaves 40 % of the budget for pairs."""


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper: its cells, and the kinds of work they need."""

    name: str
    about: str
    cells: tuple[Cell, ...]
    kinds: tuple[str, ...] = (SCORES, ML, TRANSPORT)


def _overall(tables: Iterable[str], epsilons: Iterable[float]) -> tuple[Cell, ...]:
    """Every method, wavetree where only sums over sites are seen, and real rows as the floor."""
    rows = [(method, "local") for method in METHODS] + [("wavetree", "secure-aggregation")]
    return tuple(
        cell
        for table in tables
        for epsilon in epsilons
        for cell in (
            *(Cell.of(table, method, epsilon, trust=trust) for method, trust in rows),
            Cell(table, REAL, epsilon),
        )
    )


def _beside(table: str, **terms: object) -> list[Cell]:
    """The paper's methods with 40 % for pairs, and wavetree, which shares its budget otherwise."""
    cells = [Cell.of(table, method, 5.0, q=PAIRS_40, **terms) for method in PAPERS]
    return [*cells, Cell.of(table, "wavetree", 5.0, **terms)]


def _participants(table: str, sites: Iterable[int]) -> tuple[Cell, ...]:
    return tuple(cell for many in sites for cell in _beside(table, sites=many))


def _distribution(table: str) -> tuple[Cell, ...]:
    return tuple(
        cell for kind in ("uniform", "sizes", "label") for cell in _beside(table, split=kind)
    )


def _allocation(table: str, epsilons: Iterable[float]) -> tuple[Cell, ...]:
    return tuple(
        Cell.of(table, method, epsilon, q=q)
        for method in PAPERS
        for epsilon in epsilons
        for q in (PAIRS_40, 0.2, 0.1)
    )


def _projection(table: str, widths: Iterable[int]) -> tuple[Cell, ...]:
    sketched = [
        Cell.of(table, method, 5.0, q=PAIRS_40, k=k, sketch=sketch)
        for method in PAPERS
        for sketch in ("signs", "gaussian")
        for k in widths
    ]
    return (*sketched, Cell.of(table, "fedprivsyn-noprojection", 5.0, q=PAIRS_40))


def _bound(tables: Iterable[str]) -> tuple[Cell, ...]:
    return tuple(
        Cell.of(table, "adafedprivsyn", epsilon, q=PAIRS_40, bound=bound)
        for table in tables
        for epsilon in (5.0, 1.0)
        for bound in (1 / 4, 1 / 3, 1 / 2)
    )


def _pictures() -> tuple[Cell, ...]:
    """The cells of both pictures of insurance; privsyn has its own shares."""
    return (Cell.of("insurance", "privsyn", 5.0, sites=2), *_beside("insurance", sites=2))


def _cost(tables: Iterable[str], columns: Iterable[int]) -> tuple[Cell, ...]:
    """Bytes on real tables, and seconds on random ones of more and more columns."""
    methods = ("fedprivsyn", "fedprivsyn-noprojection", "adafedprivsyn", "wavetree")
    names = [*tables, *(f"{RANDOM}{many}" for many in columns)]
    return tuple(Cell.of(name, method, 1.0) for name in names for method in methods)


RANDOM = "random-"
"""A cost cell's table of this name and a number is a random one of so many columns."""


def experiments(*, quick: bool) -> dict[str, Experiment]:
    """All experiments by name, in the order of their importance."""
    small = ("insurance",)
    every = (
        Experiment(
            "overall",
            "5 tables, 3 epsilons, all methods",
            _overall(small, (1.0, 5.0)) + _overall(("adult",), (1.0,))
            if quick
            else _overall(TABLES, EPSILONS),
        ),
        Experiment(
            "participants",
            "number of sites",
            _participants("insurance", (5, 25))
            if quick
            else _participants("adult", range(5, 26, 5)),
        ),
        Experiment(
            "distribution",
            "how rows are spread over sites",
            _distribution("insurance" if quick else "adult"),
        ),
        Experiment(
            "allocation",
            "share of the budget for pairs",
            _allocation("insurance", (1.0,)) if quick else _allocation("adult", EPSILONS),
        ),
        Experiment(
            "projection",
            "width and kind of the sketches",
            _projection("insurance", (10, 30)) if quick else _projection("adult", range(5, 31, 5)),
        ),
        Experiment(
            "bound",
            "most pairs adafedprivsyn may choose",
            _bound(("obesity",) if quick else ("adult", "obesity")),
            (SCORES, TRANSPORT),
        ),
        Experiment("pca", "rows in two dimensions", _pictures(), (SCORES, TRANSPORT)),
        Experiment("label-distribution", "the label alone", _pictures(), (SCORES, TRANSPORT)),
        Experiment(
            "cost",
            "bytes per site, and seconds by the number of columns",
            _cost(small if quick else TABLES, (5, 10, 20) if quick else (5, 10, 20, 40, 60)),
            (COST,),
        ),
    )
    return {experiment.name: experiment for experiment in every}


def chosen(names: Iterable[str], *, quick: bool) -> list[Experiment]:
    """The experiments of these names, all of them if none is named.

    Raises:
        UsageError: naming what is known.
    """
    known = experiments(quick=quick)
    for name in names:
        if name not in known:
            raise UsageError(f"the paper has no experiment {name!r}; {did_you_mean(name, known)}")
    return [known[name] for name in dict.fromkeys(names)] or list(known.values())
