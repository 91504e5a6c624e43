"""A study made of what its coordinator says: the file that stewards approve."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from msgspec import UNSET, UnsetType

from heterofedsyn._defaults import MOST_ROWS, PATIENCE
from heterofedsyn._registry import Value
from heterofedsyn.errors import UsageError
from heterofedsyn.hub.methods import make_method
from heterofedsyn.hub.methods.base import settings_of, with_columns
from heterofedsyn.hub.planning.cost import check_feasible
from heterofedsyn.privacy.budget import Conversion, check_usual_delta
from heterofedsyn.privacy.trust import Local, SecureAggregation
from heterofedsyn.protocol import Plan, Study
from heterofedsyn.protocol.about import About
from heterofedsyn.protocol.plan import Aggregation, Hiding
from heterofedsyn.schema import Schema


@dataclass(frozen=True)
class Roster:
    """The names of sites, and their public keys where these are needed."""

    sites: tuple[str, ...]
    keys: dict[str, str]


def new_study(
    public: Schema,
    roster: Roster,
    *,
    epsilon: float,
    delta: float,
    now: datetime,
    conversion: str = Conversion.TIGHT.value,
    trust: str = Local.name,
    colluding: int | None = None,
    quorum: int | None = None,
    method: str = "wavetree",
    settings: Mapping[str, Value] | None = None,
    unit: str | None = None,
    rows_per_unit: int = 1,
    about: About | None = None,
    patience: float = PATIENCE,
    most_rows: int = MOST_ROWS,
    allow_large_delta: bool = False,
) -> Study:
    """A study with public randomness of its own.

    Args:
        quorum: sites that must answer every round, or be in every sum; all of them unless given.

    Raises:
        UsageError: if it could not be run in a federation, or its last day is past.
        PrivacyRefusal: if the trust model or the budget would not allow it.
    """
    said = about or About()
    if (last := said.last_day) is not None and last < now.astimezone(UTC).date():
        raise UsageError(f"expires ({last}) is past, in UTC; give today or a day to come")
    chosen = make_method(method, settings or {})
    if chosen.pools:
        raise UsageError(f"method {method!r} needs all rows in one place; it can only be simulated")
    plan = Plan(
        schema=public.fingerprint,
        encoding=chosen.encoding(public).fingerprint,
        epsilon=epsilon,
        delta=delta,
        conversion=conversion,
        trust=trust,
        sites=roster.sites,
        unit=unit,
        rows_per_unit=rows_per_unit,
        method=chosen.name,
        settings=settings_of(chosen),
        seed=secrets.randbits(62),
        aggregation=_aggregation(roster.keys, trust, colluding, quorum),
        about=said,
    )
    encoding = chosen.encoding(public)
    plan = with_columns(plan, chosen, encoding)
    check_usual_delta(delta, allow_large=allow_large_delta)
    check_feasible(encoding, plan, chosen)
    return Study(
        plan=plan,
        schema=public.settings,
        quorum=len(roster.sites) if quorum is None else quorum,
        patience=patience,
        most_rows=most_rows,
    )


def read_roster(sites: Sequence[str], trust: str, read_key: Callable[[str], str]) -> Roster:
    """Sites that are given as NAME, or as NAME=KEY.

    Args:
        read_key: makes a public key of the text after the sign.

    Raises:
        UsageError: if a key is missing, or is given where nobody signs.
    """
    told = [(name, equals, key) for name, equals, key in (site.partition("=") for site in sites)]
    names = tuple(name for name, _, _ in told)
    if trust != SecureAggregation.name:
        for name, equals, _ in told:
            if equals and trust == Local.name:
                raise UsageError(
                    f"site {name}=KEY: under trust {trust!r} nobody needs a key; give the name "
                    f"alone, or use trust {SecureAggregation.name!r}"
                )
        return Roster(names, {})
    for name, _, key in told:
        if not key:
            raise UsageError(
                f"site {name} needs its public key under trust {trust!r}: give {name}=KEY, as the "
                "site's steward sent it"
            )
    return Roster(names, {name: read_key(key) for name, _, key in told})


def _aggregation(
    keys: dict[str, str], trust: str, colluding: int | None, quorum: int | None
) -> Aggregation | UnsetType:
    """How answers are hidden in sums, where they are."""
    if keys:
        return Hiding(trust, colluding, quorum).terms(len(keys), keys)
    if colluding is not None:
        raise UsageError(
            f"colluding means nothing under trust {trust!r}, where everyone may see every answer; "
            "leave it out"
        )
    return UNSET


def promised(study: Study) -> str:
    """Of a study that hides answers in sums: what is promised, and what is left of it."""
    from heterofedsyn._words import count
    from heterofedsyn.hub.sums import trust_of

    plan = study.plan
    alone = plan.budget_alone.epsilon(plan.delta, plan.conversion)
    return (
        f"epsilon {plan.epsilon:g} though {count(trust_of(plan).colluding, 'site')} may collude "
        f"with the hub, {alone:.3g} if more do"
    )
