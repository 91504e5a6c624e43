"""`bench paper` from its options to a folder of results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from heterofedsyn._arrays import cores
from heterofedsyn._files import check_no_link
from heterofedsyn.bench.benchmark_tables import data_folder, need_data
from heterofedsyn.bench.paper.experiments import chosen
from heterofedsyn.bench.paper.render import write_page
from heterofedsyn.bench.paper.runner import Request, run
from heterofedsyn.bench.resumable.carrying import Note
from heterofedsyn.bench.resumable.results import Identity, read_identity
from heterofedsyn.errors import HeterofedsynError, UsageError
from heterofedsyn.evaluation.extra import need

REPETITIONS = 5
QUICK_REPETITIONS = 2
ML_REPETITIONS = 3


def reproduce(
    names: Sequence[str],
    *,
    out: Path,
    quick: bool,
    repetitions: int | None,
    ml_repetitions: int | None,
    jobs: int | None,
    seed: int,
    note: Note,
) -> Path:
    """Run what is not done yet, and write the page and its figures; returns the page.

    Raises:
        DataError: if the tables are not at hand.
        UsageError: if the folder belongs to another run, or is a link.
    """
    check_no_link(out)
    _check("repetitions", repetitions, 1_000)
    _check("ml-repetitions", ml_repetitions, 1_000)
    _check("jobs", jobs, 1_000)
    if not 0 <= seed < 10**12:
        raise UsageError(f"--seed ({seed}) must be in 0..10^12 - 1")
    usual, usual_ml = (QUICK_REPETITIONS, 1) if quick else (REPETITIONS, ML_REPETITIONS)
    request = Request(
        experiments=tuple(chosen(names, quick=quick)),
        folder=out,
        data=need_data().resolve(),
        identity=Identity(seed=seed, quick=quick),
        repetitions=usual if repetitions is None else repetitions,
        ml_repetitions=usual_ml if ml_repetitions is None else ml_repetitions,
        jobs=cores() if jobs is None else jobs,
    )
    for package in ("ot", "sklearn", "xgboost"):
        need(package, "the paper's measures")
    ended = run(request, note)
    page = write_page(out, request.identity, request.data)
    if ended.failures:
        raise HeterofedsynError(
            f"{len(ended.failures)} of {ended.items} items failed, the rest is kept; run again to "
            "try them once more"
        )
    return page


def render(out: Path, note: Note) -> Path:
    """Write the page and its figures anew from what a folder holds; returns the page."""
    check_no_link(out)
    folder = data_folder()
    if folder is None:
        note("note: without the paper's tables the figures that show rows stay as they are")
    return write_page(out, read_identity(out, Identity), folder.resolve() if folder else None)


def _check(name: str, value: int | None, most: int) -> None:
    if value is not None and not 1 <= value <= most:
        raise UsageError(f"--{name} ({value}) must be in 1..{most}")
