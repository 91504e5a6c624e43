"""`heterofedsyn schema ...`: make the public schema, and hold rows against it."""

from __future__ import annotations

import typer

from heterofedsyn.cli.schema import check, draft

app = typer.Typer(help="Draft and check the public schema.", no_args_is_help=True)
app.command()(draft.draft)
app.command()(check.check)
app.command()(check.fingerprint)
