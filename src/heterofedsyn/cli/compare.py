"""`heterofedsyn compare`: methods beside each other on public or invented rows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heterofedsyn.cli._options import Delta, Json, SchemaFile
from heterofedsyn.errors import UsageError


def compare(
    schema: SchemaFile,
    data: Annotated[
        list[str],
        typer.Option(
            metavar="LOCATION", help="PUBLIC or invented rows, to be split; repeat to pool."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for the results; continued if it is there.")],
    methods: Annotated[
        str, typer.Option(metavar="NAMES", help="Methods, with commas between them.")
    ] = "wavetree,fedprivsyn,independent",
    epsilons: Annotated[
        str, typer.Option(metavar="NUMBERS", help="Privacy budgets, with commas between them.")
    ] = "0.5,1,5",
    seeds: Annotated[int, typer.Option(help="Draws of noise of each.")] = 5,
    sites: Annotated[int, typer.Option(help="How many sites --data is split into.")] = 5,
    split: Annotated[
        str,
        typer.Option(metavar="WAY", help="How it is split: uniform, sizes, label or dirichlet."),
    ] = "uniform",
    delta: Delta = 1e-9,
    test: Annotated[
        list[str] | None,
        typer.Option(metavar="LOCATION", help="PUBLIC rows for tests of --ml; repeat to pool."),
    ] = None,
    ml: Annotated[
        bool,
        typer.Option("--ml", help="Also what models learn; needs --test and the extra eval."),
    ] = False,
    seed: Annotated[int, typer.Option(help="Repetition r has noise seed 1000 SEED + r.")] = 0,
    jobs: Annotated[int | None, typer.Option(help="Processes; one per core unless given.")] = None,
    public: Annotated[
        bool, typer.Option("--public", help="Declares that no row is private.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Remove an earlier comparison in --out first.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Compare methods on PUBLIC or invented rows.

    Never on private ones: it prints how far each synthetic table is from the rows themselves, and
    its noise comes from seeds. Every method runs with every epsilon and seed; running again with
    the same --out continues, also with more methods, epsilons or seeds. In --out are results.json,
    a chart and a page.
    """
    from heterofedsyn._arrays import cores
    from heterofedsyn.bench.compare.asked import (
        Comparison,
        check_public,
        read_epsilons,
        read_methods,
    )
    from heterofedsyn.bench.compare.running import compare as run
    from heterofedsyn.bench.compare.scoreboard import CHART, NOTICE, PAGE
    from heterofedsyn.bench.compare.trial import Trial
    from heterofedsyn.cli._show import note, say, say_json, show_table
    from heterofedsyn.drawing import can_draw
    from heterofedsyn.sources import name_of

    check_public(public, [name_of(location) for location in (*data, *(test or ()))])
    if jobs is not None and not 1 <= jobs <= 1_000:
        raise UsageError(f"--jobs ({jobs}) must be in 1..1000")
    asked = Comparison(
        Trial(str(schema), tuple(data), tuple(test or ()), delta),
        read_methods(methods),
        read_epsilons(epsilons),
        seeds,
        sites,
        split,
        seed,
        ml,
    )
    board = run(asked, out, overwrite=overwrite, jobs=cores() if jobs is None else jobs, note=note)
    if as_json:
        say_json(board.as_dict())
    else:
        show_table(board.dealt_title, board.dealt_head, board.dealt_rows)
        show_table(board.title, board.head, board.rows)
        if board.verdict:
            say(board.verdict)
    note(NOTICE)
    drawn = f"{out / PAGE} and {out / CHART}" if can_draw() else f"{out / PAGE}, without a chart"
    note(f"results in {drawn}")
