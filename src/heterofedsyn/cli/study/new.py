"""`heterofedsyn study new`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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

if TYPE_CHECKING:
    from msgspec import UnsetType

    from heterofedsyn.protocol import Plan
    from heterofedsyn.protocol.plan import Aggregation


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
    ] = 60.0,
    most_rows: Annotated[
        int,
        typer.Option(help="Rows that any site has at most; who tells of more is left out."),
    ] = 10_000_000,
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
    import secrets

    from heterofedsyn._words import aloud, count
    from heterofedsyn.hub import make_method
    from heterofedsyn.hub.methods.base import settings_of
    from heterofedsyn.hub.planning.cost import check_feasible
    from heterofedsyn.privacy.budget import check_usual_delta
    from heterofedsyn.protocol import Plan, Study
    from heterofedsyn.protocol.about import About
    from heterofedsyn.schema import Schema

    if max_rows_per_unit is not None and unit is None:
        raise UsageError("--max-rows-per-unit needs --unit, the column that identifies a person")
    about = About(title, purpose, contact, ethics_approval, expires)
    if (last := about.last_day) is not None and last < datetime.now(UTC).date():
        raise UsageError(f"--expires {expires} is past, in UTC; give today or a day to come")
    check_file(out, overwrite=overwrite)
    chosen = make_method(method, read_settings(setting, measure))
    if chosen.pools:
        raise UsageError(f"method {method!r} needs all rows in one place; it can only be simulated")
    public = Schema.load(schema)
    names, keys = _roster(site, trust)
    plan = Plan(
        schema=public.fingerprint,
        encoding=chosen.encoding(public).fingerprint,
        epsilon=epsilon,
        delta=delta,
        conversion=conversion,
        trust=trust,
        sites=names,
        unit=unit,
        rows_per_unit=1 if max_rows_per_unit is None else max_rows_per_unit,
        method=chosen.name,
        settings=settings_of(chosen),
        seed=secrets.randbits(62),
        aggregation=_aggregation(keys, trust, colluding, quorum),
        about=about,
    )
    check_usual_delta(delta, allow_large=allow_large_delta)
    check_feasible(chosen.encoding(public), plan, chosen)
    study = Study(
        plan=plan,
        schema=public.settings,
        quorum=len(names) if quorum is None else quorum,
        patience=patience,
        most_rows=most_rows,
    )
    study.save(out)
    needed = "must be in every sum" if keys else "must answer every round"
    many = f"{study.quorum} of {count(len(names), 'site')} {needed}"
    note(f"study in {out}; {many}; send it to every steward")
    if keys:
        note(f"promised: {_promise(plan)}; every steward confirms the keys of all other sites")
    note(f"let every steward compare: {aloud(study.fingerprint)}")
    say(study.fingerprint)


def _roster(sites: list[str], trust: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """The names of sites, and their public keys where these are needed.

    Raises:
        UsageError: if a key is missing, or is given where nobody signs.
    """
    from heterofedsyn.privacy.trust import Local, SecureAggregation
    from heterofedsyn.site.signing import read_public_key

    told = [(name, equals, key) for name, equals, key in (site.partition("=") for site in sites)]
    names = tuple(name for name, _, _ in told)
    if trust != SecureAggregation.name:
        for name, equals, _ in told:
            if equals and trust == Local.name:
                raise UsageError(
                    f"--site {name}=KEY: under trust {trust!r} nobody needs a key; give the name "
                    f"alone, or add --trust {SecureAggregation.name}"
                )
        return names, {}
    for name, _, key in told:
        if not key:
            raise UsageError(
                f"--site {name} needs the site's public key under trust {trust!r}: give "
                f"{name}=KEY or {name}=FILE, as the site's steward sent it"
            )
    return names, {name: read_public_key(key) for name, _, key in told}


def _aggregation(
    keys: dict[str, str], trust: str, colluding: int | None, quorum: int | None
) -> Aggregation | UnsetType:
    """How answers are hidden in sums, where they are."""
    from msgspec import UNSET

    from heterofedsyn.protocol.plan import Hiding

    if keys:
        return Hiding(trust, colluding, quorum).terms(len(keys), keys)
    if colluding is not None:
        raise UsageError(
            f"--colluding means nothing under trust {trust!r}, where everyone may see every "
            "answer; leave it out"
        )
    return UNSET


def _promise(plan: Plan) -> str:
    """What is promised against whom, and what is left of it if more collude."""
    from heterofedsyn._words import count
    from heterofedsyn.hub.sums import trust_of

    trust = trust_of(plan)
    alone = plan.budget_alone.epsilon(plan.delta, plan.conversion)
    return (
        f"epsilon {plan.epsilon:g} though {count(trust.colluding, 'site')} may collude with the "
        f"hub, {alone:.3g} if more do"
    )
