"""`heterofedsyn site ...`: what the steward of one organisation's rows does."""

from __future__ import annotations

import typer

from heterofedsyn.cli.site import (
    consent,
    doctor,
    evaluate,
    flower,
    init,
    join,
    kit,
    ledger,
    peer,
    receipt,
    serve,
)

app = typer.Typer(help="Own a table: decide what may leave it, and answer.", no_args_is_help=True)
app.add_typer(ledger.app, name="ledger")
app.add_typer(peer.app, name="peer")
app.command()(join.join)
app.command()(kit.kit)
app.command()(flower.flower)
app.command()(flower.relay)
app.command()(doctor.doctor)
app.command()(init.init)
app.command()(consent.preview)
app.command()(consent.approve)
app.command()(consent.withdraw)
app.command()(consent.close)
app.command()(serve.serve)
app.command()(receipt.receipt)
app.command()(receipt.verify)
app.command()(evaluate.evaluate)
