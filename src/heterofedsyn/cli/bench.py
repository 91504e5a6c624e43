"""`heterofedsyn bench`: figures measured on this machine."""

from __future__ import annotations

import json
from typing import Annotated

import typer

app = typer.Typer(help="Measure this software on this machine.", no_args_is_help=True)


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
    from heterofedsyn.cli._show import note, show_table

    figures = measure(note)
    if as_json:
        print(json.dumps({figure.name: figure.as_dict() for figure in figures}, indent=1))
        return
    show_table(
        "Speed on this machine",
        ["work", "measured", "beside it", "ratio"],
        [[f.name, f.shown, f.peer, f"{f.ratio:.2f}" if f.ratio else ""] for f in figures],
    )
