"""`heterofedsyn schema ...`: make the public schema, and hold rows against it."""

from __future__ import annotations

import typer

from heterofedsyn.cli.schema import check, draft, formats, new

app = typer.Typer(help="Make and check the public schema.", no_args_is_help=True)
app.command()(draft.draft)
app.command()(new.new)
app.command("import")(formats.import_)
app.command()(formats.export)
app.command()(check.check)
app.command()(check.fingerprint)
