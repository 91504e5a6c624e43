"""`heterofedsyn bench peers`: central methods of others beside ours, on public or invented rows."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from heterofedsyn.cli._options import Delta, Json
from heterofedsyn.errors import UsageError


def peers(
    schema: Annotated[Path | None, typer.Option(help="The public schema (TOML) of --data.")] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="LOCATION", help="PUBLIC or invented rows; repeat to pool."),
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(metavar="LOCATION", help="PUBLIC rows for tests of --ml; repeat to pool."),
    ] = None,
    family: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Instead of --data an invented table: binary, small-categories, "
            "small-categories-label, few-wide, collinear, comb, mixed, mixed-regression, "
            "many-codes, path, label-interaction.",
        ),
    ] = None,
    rows: Annotated[int | None, typer.Option(help="Of an invented table.")] = None,
    columns: Annotated[int | None, typer.Option(help="Of an invented table, 5 to 100.")] = None,
    table_seed: Annotated[int, typer.Option(help="Of an invented table.")] = 0,
    methods: Annotated[
        str,
        typer.Option(metavar="NAMES", help="mst, aim, and methods of ours, with commas."),
    ] = "wavetree,independent,mst,aim",
    trust: Annotated[
        str,
        typer.Option(metavar="NAMES", help="For methods of ours: local, secure-aggregation."),
    ] = "local,secure-aggregation",
    epsilons: Annotated[
        str, typer.Option(metavar="NUMBERS", help="Privacy budgets, with commas between them.")
    ] = "1",
    delta: Delta = 1e-9,
    seeds: Annotated[int, typer.Option(help="Draws of noise of each.")] = 3,
    seed: Annotated[int, typer.Option(help="Repetition r has noise seed 1000 SEED + r.")] = 0,
    bins: Annotated[
        int | None,
        typer.Option(help="Most bins of a column for mst and aim; the schema's unless given."),
    ] = None,
    megabytes: Annotated[float, typer.Option(help="Of aim's largest model.")] = 80.0,
    rounds: Annotated[
        int, typer.Option(help="Of aim for each column; fewer begin with less noise.")
    ] = 16,
    ml: Annotated[
        bool, typer.Option("--ml", help="Also what models learn; needs the extra eval.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keeps the figures; running again goes on from there."),
    ] = None,
    jobs: Annotated[int, typer.Option(help="Processes.")] = 1,
    public: Annotated[
        bool, typer.Option("--public", help="Declares that no row of --data is private.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Compare our methods with MST and AIM on PUBLIC or invented rows.

    These two need all rows in one place. Same rows, same rho; needs the extra pgm. Never on private
    rows: it prints how far synthetic tables are from the rows themselves, its noise comes from
    seeds, and no table is kept.
    """
    import tempfile

    from heterofedsyn.bench.compare.asked import check_public, read_epsilons, read_methods
    from heterofedsyn.bench.compare.trial import Trial
    from heterofedsyn.bench.peers.aim import Aim
    from heterofedsyn.bench.peers.contest import NOTICE, Contest, compete
    from heterofedsyn.bench.peers.match import InventedRows, Match, Material
    from heterofedsyn.cli._show import note, say_json, show_table
    from heterofedsyn.sources import name_of

    material: Material
    if family is not None:
        if data or schema or test:
            raise UsageError("--family invents its rows; leave out --data, --schema and --test")
        material = InventedRows(family, rows, columns, table_seed)
    elif data and schema is not None:
        if rows is not None or columns is not None:
            raise UsageError("--rows and --columns are for --family")
        check_public(public, [name_of(location) for location in (*data, *(test or ()))])
        material = Trial(str(schema), tuple(data), tuple(test or ()), delta)
    else:
        raise UsageError("name rows with --data and --schema, or a table to invent with --family")
    if not 1 <= jobs <= 1_000:
        raise UsageError(f"--jobs ({jobs}) must be in 1..1000")
    contest = Contest(
        Match(material, delta, bins, aim=Aim(megabytes=megabytes, rounds=rounds)),
        read_methods(methods),
        read_methods(trust, "--trust"),
        read_epsilons(epsilons),
        seeds,
        seed,
        ml,
    )
    with ExitStack() as stack:
        folder = out or Path(stack.enter_context(tempfile.TemporaryDirectory())) / "peers"
        outcome = compete(contest, folder, jobs=jobs, note=note)
    if as_json:
        say_json(outcome.as_dict())
    else:
        show_table(outcome.title, [*outcome.head], [[*row] for row in outcome.rows])
    note(NOTICE)
