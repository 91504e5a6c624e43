"""`heterofedsyn audit`: whether the installed software keeps its promises of privacy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heterofedsyn.cli._show import say_json
from heterofedsyn.errors import UsageError


def audit(
    thorough: Annotated[bool, typer.Option("--thorough", help="Ten times the work.")] = False,
    layer: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="coupling, noise, game, ledger, sums; all if none."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Varies tables, canaries, coins and histories.")] = 0,
    study: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A study file: audit its epsilon, delta, schema and method, on invented rows, "
            "instead of the built-in studies.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdicts as JSON.")] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write them as one HTML page.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the page if it exists.")
    ] = False,
) -> None:
    """Check that this software keeps its promises of privacy.

    Takes some 170 CPU seconds, reads no data of yours, and prints a verdict for each layer; the
    exit code is 1 if one fails.
    """
    from heterofedsyn.audit import THOROUGH, USUAL
    from heterofedsyn.audit import audit as look
    from heterofedsyn.cli import _audit
    from heterofedsyn.cli._show import note
    from heterofedsyn.protocol import Study

    if seed < 0:
        raise UsageError(f"seed ({seed}) must be at least 0")
    if html is not None:
        _audit.check_page(html, overwrite=overwrite)
    own = None if study is None else Study.load(study)
    verdict = look(THOROUGH if thorough else USUAL, seed, layer or [], note, study=own)
    if html is not None:
        _audit.write(html, verdict)
        note(f"page in {html}")
    if as_json:
        say_json(verdict.as_dict())
    else:
        _audit.show(verdict)
    if not verdict.passed:
        raise typer.Exit(1)
