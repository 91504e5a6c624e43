"""`heterofedsyn bench`: figures measured on this machine."""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, Annotated

import typer

from heterofedsyn.cli._options import check_file
from heterofedsyn.cli._show import say, say_json
from heterofedsyn.cli.audit import audit
from heterofedsyn.cli.peers import peers
from heterofedsyn.errors import UsageError

if TYPE_CHECKING:
    from heterofedsyn.bench.speed import Figure

app = typer.Typer(help="Measure this software on this machine.", no_args_is_help=True)


app.command("audit", hidden=True)(audit)  # where it was before it had a name of its own


@app.callback()
def group() -> None:
    """Measure this software on this machine."""


@app.command()
def speed(
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Time the kernels beside their peers, all in one run.

    On the adult table if it is in the folder HETEROFEDSYN_DATA, or in ../shared/data; else on a
    random table of its shape.
    """
    from heterofedsyn.bench.speed import measure
    from heterofedsyn.cli._show import note

    _show("Speed on this machine", measure(note), as_json=as_json)


@app.command()
def scale(
    rows: Annotated[int, typer.Option(help="Rows of the largest tables.")] = 10_000_000,
    postgresql: Annotated[
        str | None,
        typer.Option(
            metavar="LOCATION", help="The mixed table in PostgreSQL, read beside its own driver."
        ),
    ] = None,
    spark: Annotated[
        bool,
        typer.Option(
            "--spark", help="Only a cluster of Spark with two workers, started and ended here."
        ),
    ] = False,
    table: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Only write the mixed table there (.csv, .parquet)."),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the file of --table if it exists.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Time large tables from files to synthetic rows, all in one run.

    Ten million rows take some minutes and four gigabytes of disk for temporary files.
    """
    from heterofedsyn._files import file_written_whole
    from heterofedsyn.bench.mixed_table import write_mixed
    from heterofedsyn.bench.scale import measure
    from heterofedsyn.cli._show import note
    from heterofedsyn.sources import open_source

    if rows < 10_000:
        raise UsageError(f"--rows ({rows}) must be at least 10,000; less says nothing")
    if table is not None:
        check_file(table, ".csv", ".parquet", overwrite=overwrite, option="--table")
        with file_written_whole(table) as partial:
            write_mixed(partial, rows, kind=table.suffix)
        say(f"{rows:,} rows in {table}")
        return
    if spark:
        if postgresql is not None:
            raise UsageError("--spark measures a cluster alone; leave out --postgresql")
        from heterofedsyn.bench import spark_scale

        _show("Spark on this machine", spark_scale.measure(note, rows), as_json=as_json)
        return
    if postgresql is not None:
        open_source(postgresql)  # refuse now what would fail minutes later
    _show("Scale on this machine", measure(note, rows, postgresql), as_json=as_json)


@app.command()
def timing(
    quick: Annotated[
        bool, typer.Option("--quick", help="Two sizes and few queries: does it run at all?")
    ] = False,
    tick: Annotated[
        float, typer.Option(help="Seconds of a tick; a site's own are longer, and hide more.")
    ] = 0.1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Measure what a hub learns from when answers arrive.

    Real agents whose tables differ in one row are asked the same in turn, around every size at
    which their work might change, without ticks and with them: some ten minutes. An area of 0.5
    tells nothing.
    """
    from heterofedsyn.audit.timing import measure
    from heterofedsyn.cli._show import note, show_table

    if not 0 < tick <= 1:
        raise UsageError(f"--tick ({tick:g}) must be above 0 and at most 1")
    tables = measure(note, tick=tick, queries=8 if quick else 200, quick=quick)
    if as_json:
        say_json([table.as_dict() for table in tables])
        return
    for table in tables:
        show_table(
            "Which table took longer, " + (f"tick {table.tick:g} s" if table.tick else "no ticks"),
            ["tables", "area", "from", "to", "0.5 within"],
            [
                [
                    t.game,
                    f"{t.auc:.3f}",
                    f"{t.low:.3f}",
                    f"{t.high:.3f}",
                    "yes" if t.nothing else "NO",
                ]
                for t in table.told
            ],
        )
        say(table.describe())


@app.command()
def paper(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="overall, participants, distribution, allocation, projection, bound, pca, "
            "label-distribution, cost; all of them unless named.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("paper-results"),
    quick: Annotated[
        bool, typer.Option("--quick", help="A smaller version in under 5 minutes on two cores.")
    ] = False,
    repetitions: Annotated[
        int | None, typer.Option(help="Draws of noise per setting; 5 unless given, 2 if quick.")
    ] = None,
    ml_repetitions: Annotated[
        int | None, typer.Option(help="The same for machine learning; 3 unless given, 1 if quick.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes; one per core unless given.")] = None,
    seed: Annotated[int, typer.Option(help="Repetition r has noise seed 1000 SEED + r.")] = 0,
    render_only: Annotated[
        bool, typer.Option("--render-only", help="Only write text and figures anew.")
    ] = False,
) -> None:
    """Run the paper's experiments with honest noise.

    Running again with the same --out continues. The tables are looked for in the folder
    HETEROFEDSYN_DATA, or in ../shared/data; `heterofedsyn bench data` fetches them.
    """
    from heterofedsyn.bench.paper.command import render, reproduce
    from heterofedsyn.cli._show import note

    if render_only:
        page = render(out, note)
    else:
        page = reproduce(
            names or [],
            out=out,
            quick=quick,
            repetitions=repetitions,
            ml_repetitions=ml_repetitions,
            jobs=jobs,
            seed=seed,
            note=note,
        )
    say(f"results in {page}")


@app.command()
def rules(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="adult, shoppers, insurance, obesity, abalone, hospitals, codes; all of them "
            "unless named.",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Draws of noise of each.")] = 10,
    method: Annotated[str, typer.Option(metavar="NAME", help="How to synthesize.")] = "wavetree",
    epsilon: Annotated[float, typer.Option(help="Privacy budget of every record.")] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Compare releases with the rules of a table and without.

    Five sites, trust local. The tables are looked for in the folder HETEROFEDSYN_DATA, or in
    ../shared/data; hospitals and codes (5,000 of them in 20 chapters) are invented.
    """
    from dataclasses import asdict

    from heterofedsyn.bench import many_codes, with_rules
    from heterofedsyn.cli._show import note, show_table
    from heterofedsyn.errors import did_you_mean

    known = [*with_rules.RULES, with_rules.HOSPITALS, "codes"]
    chosen = names or known
    for name in chosen:
        if name not in known:
            raise UsageError(f"there is no table {name!r}; {did_you_mean(name, known)}")
    if seeds < 1:
        raise UsageError(f"--seeds ({seeds}) must be at least 1")
    tables = [name for name in chosen if name != "codes"]
    found: list[with_rules.Compared] = []
    if tables:
        found += with_rules.compare(tables, method=method, epsilon=epsilon, seeds=seeds, note=note)
    worth = [*many_codes.compare(seeds, note)] if "codes" in chosen else []
    if as_json:
        told = [{**asdict(each), "change": each.change, "error": each.error} for each in found]
        say_json({"rules": told, "codes": [asdict(each) for each in worth]})
        return
    if found:
        show_table(
            f"2-way total variation, mean of {seeds}, without rules and with them",
            ["table", "without", "with", "change", "of tied pairs", "rows that broke one"],
            [
                [
                    each.table,
                    f"{mean(each.without):.4f}",
                    f"{mean(each.ruled):.4f}",
                    f"{each.change:+.1%} ± {each.error:.1%}",
                    f"{each.tied[0]:.3f} to {each.tied[1]:.3f}",
                    f"{each.broken:.1%}",
                ]
                for each in found
            ],
        )
    if worth:
        show_table(
            "Total variation of 5,000 codes, without their chapters known and with them",
            ["rows", "of", "without", "with"],
            [[f"{e.rows:,}", e.what, f"{e.without:.4f}", f"{e.known:.4f}"] for e in worth],
        )


@app.command()
def coverage(
    tables: Annotated[
        str,
        typer.Option(
            metavar="NAME,NAME", help="hospitals, adult, shoppers, insurance, obesity, abalone."
        ),
    ] = "hospitals,adult,shoppers,insurance,obesity,abalone",
    trust: Annotated[
        str, typer.Option(metavar="NAME,NAME", help="local, secure-aggregation, or both.")
    ] = "local,secure-aggregation",
    seeds: Annotated[int, typer.Option(help="Draws of noise of each.")] = 20,
    questions: Annotated[int, typer.Option(help="Random questions to each release.")] = 200,
    replicates: Annotated[int, typer.Option(help="Tables that intervals come from.")] = 20,
    method: Annotated[str, typer.Option(metavar="NAME", help="How to synthesize.")] = "wavetree",
    epsilon: Annotated[float, typer.Option(help="Privacy budget of every record.")] = 1.0,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keeps what was seen; running again goes on from there."),
    ] = None,
    kinds: Annotated[bool, typer.Option("--kinds", help="Each kind of question too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Count how many intervals of `heterofedsyn ask` hold the truth.

    Five sites. The tables are looked for in the folder HETEROFEDSYN_DATA, or in ../shared/data;
    hospitals are invented, 20,000 patients. The factor is that by which all intervals could be
    made wider or narrower so that 95 % of them hold the truth.
    """
    from dataclasses import asdict

    from heterofedsyn.bench.coverage import TABLES, TRUSTS, measure
    from heterofedsyn.cli._show import note, show_table
    from heterofedsyn.errors import did_you_mean

    for given, known in ((tables, TABLES), (trust, TRUSTS)):
        for name in given.split(","):
            if name not in known:
                raise UsageError(f"there is no {name!r}; {did_you_mean(name, known)}")
    for option, number in (("--seeds", seeds), ("--questions", questions)):
        if number < 1:
            raise UsageError(f"{option} ({number}) must be at least 1")
    found = [
        each
        for each in measure(
            tables.split(","),
            trust.split(","),
            seeds=seeds,
            questions=questions,
            replicates=replicates,
            method=method,
            epsilon=epsilon,
            out=out,
            note=note,
        )
        if kinds or each.kind == "all"
    ]
    if as_json:
        say_json([asdict(each) for each in found])
        return
    show_table(
        f"Intervals of 95 % that hold the truth, {seeds} x {questions} questions",
        ["table", "trust", "basis", "kind", "cells", "hold", "factor", "no interval"],
        [
            [
                *(each.table, each.trust, each.basis, each.kind, f"{each.cells:,}"),
                *(f"{each.covered:.1%}", f"{each.factor:.2f}", f"{each.without:,}"),
            ]
            for each in found
        ],
    )


app.command()(peers)


@app.command()
def data(
    out: Annotated[Path, typer.Option(help="Folder for the tables.")] = Path("heterofedsyn-data"),
) -> None:
    """Fetch the public tables that the benchmarks run on."""
    from heterofedsyn.bench.download import download
    from heterofedsyn.cli._show import note

    download(out, note)
    say(f"tables in {out}; set HETEROFEDSYN_DATA to it")


def _show(title: str, figures: list[Figure], *, as_json: bool) -> None:
    from heterofedsyn.cli._show import show_table

    if as_json:
        say_json({figure.name: figure.as_dict() for figure in figures})
        return
    show_table(
        title,
        ["work", "measured", "beside it", "ratio"],
        [[f.name, f.shown, f.peer, f"{f.ratio:.2f}" if f.ratio else ""] for f in figures],
    )
