"""`heterofedsyn study ...`: what the coordinator of a federation does."""

from __future__ import annotations

import typer

from heterofedsyn.cli.study import new, run

app = typer.Typer(help="Run a study over a federation of sites.", no_args_is_help=True)
app.command()(new.new)
app.command()(run.package)
app.command()(run.run)
app.command()(run.status)
