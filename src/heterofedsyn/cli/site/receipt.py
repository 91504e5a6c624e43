"""`heterofedsyn site receipt` and `verify`: a signed record of what a study got."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from heterofedsyn._words import count
from heterofedsyn.cli._options import Json, OverwriteFile, check_file
from heterofedsyn.cli._show import protected, say, say_json
from heterofedsyn.cli.site._shared import HERE, Folder, StudyName


def receipt(
    study: StudyName,
    folder: Folder = HERE,
    out: Annotated[
        Path | None, typer.Option(help="The receipt; a file of the site's folder unless given.")
    ] = None,
    overwrite: OverwriteFile = False,
) -> None:
    """Sign a record of what a study got.

    It says under which guarantee and by whose consent.
    """
    from heterofedsyn.protocol.plan import unit_column
    from heterofedsyn.site.owner import find_study, own_settings
    from heterofedsyn.site.receipt import make_receipt
    from heterofedsyn.site.receipt_words import hidden_lines

    settings = own_settings(folder)
    signed, usual = make_receipt(settings, find_study(settings, study), now=datetime.now(UTC))
    target = usual if out is None else out
    check_file(target, overwrite=overwrite or out is None)
    signed.save(target)
    made = signed.receipt
    say(f"receipt in {target}")
    say(
        f"{count(len(made.releases), 'answer')}, rho {made.spent_rho:.4g} of {made.rho:.4g}, "
        f"epsilon {made.spent_epsilon:.4g} at delta {made.delta:g} for every "
        f"{protected(unit_column(made.unit))}"
    )
    for line in hidden_lines(made):
        say(line)


def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A receipt.")],
    key: Annotated[
        str | None,
        typer.Option(help="The site's public key, or a file of it; else only that the file has."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a receipt: its signature and its figures."""
    from heterofedsyn.site.receipt import SignedReceipt
    from heterofedsyn.site.receipt_words import verified_json, verified_lines
    from heterofedsyn.site.signing import read_public_key

    signed = SignedReceipt.load(file)
    signed.check(None if key is None else read_public_key(key))
    if as_json:
        say_json(verified_json(signed, key_known=key is not None))
        return
    for line in verified_lines(signed, key_known=key is not None):
        say(line)
