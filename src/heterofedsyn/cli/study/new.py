"""`heterofedsyn study new`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from heterofedsyn._defaults import MOST_ROWS, PATIENCE
from heterofedsyn.cli._options import (
    AllowLargeDelta,
    Colluding,
    Contact,
    ConversionName,
    Delta,
    Epsilon,
    EthicsApproval,
    Expires,
    Measure,
    OverwriteFile,
    Purpose,
    SchemaFile,
    Settings,
    Title,
    TrustModel,
    check_file,
    read_settings,
)
from heterofedsyn.cli._show import note, say
from heterofedsyn.errors import UsageError


def new(
    schema: SchemaFile,
    site: Annotated[
        list[str],
        typer.Option(
            metavar="NAME[=KEY]",
            help="A site, as the federation names it; once per site. For secure-aggregation with "
            "its public key, or the file of it.",
        ),
    ],
    epsilon: Epsilon,
    delta: Delta,
    out: Annotated[Path, typer.Option(help="The study (TOML), to be sent to every steward.")],
    trust: TrustModel = "local",
    colluding: Colluding = None,
    quorum: Annotated[
        int | None,
        typer.Option(
            help="Sites that must answer every round, or be in every sum; all of them unless given."
        ),
    ] = None,
    patience: Annotated[
        float,
        typer.Option(
            help="Seconds a round may take at a site, its ticks and the turns of other studies "
            "included, beyond what its noise needs."
        ),
    ] = PATIENCE,
    most_rows: Annotated[
        int,
        typer.Option(help="Rows that any site has at most; who tells of more is left out."),
    ] = MOST_ROWS,
    method: Annotated[
        str, typer.Option(metavar="NAME", help="How to synthesize; see `simulate --help`.")
    ] = "wavetree",
    setting: Settings = None,
    measure: Measure = None,
    conversion: ConversionName = "tight",
    unit: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="Column that identifies a person, at every site."),
    ] = None,
    max_rows_per_unit: Annotated[
        int | None,
        typer.Option(help="Rows of one person that count; needs --unit, 1 unless given."),
    ] = None,
    title: Title = "",
    purpose: Purpose = "",
    contact: Contact = "",
    ethics_approval: EthicsApproval = "",
    expires: Expires = "",
    allow_large_delta: AllowLargeDelta = False,
    overwrite: OverwriteFile = False,
) -> None:
    """Write a study, the file that stewards approve.

    Every steward gets the same file and approves it by its fingerprint.
    """
    from heterofedsyn._words import aloud, count
    from heterofedsyn.hub.planning.new_study import new_study, promised, read_roster
    from heterofedsyn.protocol.about import About
    from heterofedsyn.schema import Schema
    from heterofedsyn.site.signing import read_public_key

    if max_rows_per_unit is not None and unit is None:
        raise UsageError("--max-rows-per-unit needs --unit, the column that identifies a person")
    check_file(out, overwrite=overwrite)
    study = new_study(
        Schema.load(schema),
        read_roster(site, trust, read_public_key),
        epsilon=epsilon,
        delta=delta,
        now=datetime.now(UTC),
        conversion=conversion,
        trust=trust,
        colluding=colluding,
        quorum=quorum,
        method=method,
        settings=read_settings(setting, measure),
        unit=unit,
        rows_per_unit=1 if max_rows_per_unit is None else max_rows_per_unit,
        about=About(title, purpose, contact, ethics_approval, expires),
        patience=patience,
        most_rows=most_rows,
        allow_large_delta=allow_large_delta,
    )
    study.save(out)
    keys = study.plan.roster
    needed = "must be in every sum" if keys else "must answer every round"
    many = f"{study.quorum} of {count(len(study.plan.sites), 'site')} {needed}"
    note(f"study in {out}; {many}; send it to every steward")
    if keys:
        note(f"promised: {promised(study)}; every steward confirms the keys of all other sites")
    note(f"let every steward compare: {aloud(study.fingerprint)}")
    say(study.fingerprint)
