"""`heterofedsyn federation ...`: what the hub of several organisations does."""

from __future__ import annotations

import typer

from heterofedsyn.cli.federation import admit, harden, new, renew, trial

app = typer.Typer(help="Set up a federation, and say who is in it.", no_args_is_help=True)
app.command("try")(trial.try_federation)
app.command("new")(new.new)
app.command("admit")(admit.admit)
app.command("remove")(admit.remove)
app.command("renew")(renew.renew)
app.command("harden")(harden.harden)
