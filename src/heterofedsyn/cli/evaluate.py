"""`heterofedsyn evaluate`: how good a synthetic table is, against real rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heterofedsyn._words import PRIVATE_ROWS
from heterofedsyn.cli._options import SchemaFile
from heterofedsyn.cli._show import say_json

if TYPE_CHECKING:
    from heterofedsyn.evaluation import Learning, Scores


def evaluate(
    schema: SchemaFile,
    real: Annotated[
        list[str],
        typer.Option(
            metavar="LOCATION",
            help="Rows it was made from: a file, or a database's query; repeat to pool.",
        ),
    ],
    synthetic: Annotated[str, typer.Option(metavar="LOCATION", help="The synthetic table.")],
    test: Annotated[
        list[str] | None,
        typer.Option(metavar="LOCATION", help="Real rows it was not made from; repeat to pool."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MEASURE",
            help="tvd, query, histogram, num_num, cat_num, cat_cat, ml; repeat; all unless given.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of queries, cuts and models.")] = 0,
    transport_rows: Annotated[
        int, typer.Option(help="Rows of a large table that exact transport compares.")
    ] = 2_000,
    no_cache: Annotated[
        bool,
        typer.Option("--no-cache", help="Do not keep what models learn from the real rows."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
) -> None:
    """Score a synthetic table against real rows.

    The scores are computed from private rows and have no guarantee: do not publish them.
    """
    from heterofedsyn.cli._show import note, show_table
    from heterofedsyn.evaluation import MEASURES, Evaluator, cache_folder
    from heterofedsyn.schema import Schema

    evaluator = Evaluator(
        Schema.load(schema),
        real,
        test or None,
        seed=seed,
        transport_rows=transport_rows,
        cache=None if no_cache else cache_folder(),
    )
    measures = only or MEASURES
    scores = evaluator.score(_rows(synthetic), measures)
    floor = evaluator.floor([name for name in measures if name != "ml"])
    for remark in scores.remarks:
        note(f"remark: {remark}")
    if as_json:
        lowest = {name: score for name, score in floor.to_dict().items() if name != "remarks"}
        say_json({"notice": PRIVATE_ROWS, **scores.to_dict(), "floor": lowest})
        return
    distances = [
        [name, f"{mean:.4f}", f"{least:.4f}"]
        for (name, mean), (_, least) in zip(_distances(scores), _distances(floor), strict=True)
    ]
    if distances:
        show_table(
            "Distance from the real table (0 is equal; floor: real rows drawn anew)",
            ["mean over", "synthetic", "floor"],
            distances,
        )
    if scores.ml:
        show_table(
            "Machine learning, tested on test rows",
            ["model", "figure", "synthetic", "real (ceiling)", "constant guess"],
            _models(scores.ml),
        )
    note(PRIVATE_ROWS)


def _rows(location: str) -> object:
    """The synthetic rows at a location; of a release, its own file and no link to another."""
    from heterofedsyn._files import open_inside
    from heterofedsyn.errors import ReleaseError
    from heterofedsyn.hub.release import PARTS, TABLES, load
    from heterofedsyn.hub.release.synthetic import MOST_BYTES, ROWS, released_table

    path = Path(location)
    folder = path if path.is_dir() else path.parent
    if not (path.is_dir() or path.name in TABLES) or not all(
        (folder / name).exists() for name in PARTS
    ):
        return location
    if path.is_dir() or path.name == ROWS:
        return released_table(load(folder), folder)
    try:
        open_inside(folder, path.name, MOST_BYTES).close()
    except OSError as error:
        raise ReleaseError(f"{path}: {error.strerror or 'cannot be read'}") from None
    return location


def _distances(scores: Scores) -> list[tuple[str, float]]:
    """The distances that were computed, in words."""
    from heterofedsyn._words import count
    from heterofedsyn.evaluation import KIND_WORDS

    distances: list[tuple[str, float | None]] = []
    if scores.tvd and scores.tvd_20:
        for where, tvd in (("the schema's grid", scores.tvd), ("20 bins", scores.tvd_20)):
            distances.append((f"total variation, one column, {where}", tvd.one_way))
            distances.append((f"total variation, two columns, {where}", tvd.two_way))
    for name, errors in (("real", scores.train), ("test", scores.test)):
        for ways, error in enumerate(errors or (), start=1):
            distances.append((f"range queries, {count(ways, 'condition')}, {name} rows", error))
    distances += [
        (f"transport, {words}", scores.fidelity.get(kind)) for kind, words in KIND_WORDS.items()
    ]
    return [(name, distance) for name, distance in distances if distance is not None]


def _models(ml: Learning) -> list[list[str]]:
    """A line for every model and figure, then their means."""
    learnt = ml.to_dict()
    lines = [
        (model.replace("_", " "), metric, by["synthetic"], by["ceiling"], by["trivial"])
        for model, figures in learnt["models"].items()
        for metric, by in figures.items()
    ]
    first, second = ml.task.metrics
    for metric, by in ((first, learnt), (second, learnt[second])):
        lines.append(("mean", metric, by["average"], by["ceiling"], by["trivial"]))
    return [[model, metric, *map(_shown, figures)] for model, metric, *figures in lines]


def _shown(figure: float | None) -> str:
    return "-" if figure is None else f"{figure:.4g}" if abs(figure) < 1_000 else f"{figure:,.0f}"
