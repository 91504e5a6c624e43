"""Consent: an agent answers what its steward agreed to, as long as that holds, and nothing else."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from functools import partial
from itertools import repeat

import msgspec

from heterofedsyn.audit.findings import Broken, Check, require
from heterofedsyn.audit.fixtures import (
    SITE,
    UNIT,
    WHEN,
    Serving,
    SiteOnDisk,
    plain_schema,
    plan_of,
    query_of,
    serving,
    temporary_folder,
)
from heterofedsyn.audit.patches import patched
from heterofedsyn.errors import NotApproved
from heterofedsyn.marginals import Flat
from heterofedsyn.privacy.noise import SecureNoise
from heterofedsyn.privacy.trust import SecureAggregation
from heterofedsyn.protocol import Part, Plan, Study, encode
from heterofedsyn.protocol.about import About
from heterofedsyn.protocol.refusal import Reason
from heterofedsyn.site import consent
from heterofedsyn.site.settings import STUDY, SiteSettings

_SCHEMA = plain_schema(3, 2)
_ROWS = b"person,a0,a1\n1,v0,v0\n2,v1,v1\n3,v2,v1\n"

_Change = Callable[[SiteSettings, Plan], SiteSettings]
"""What happens to a site after it approved a plan."""


def checks(seed: int) -> Iterator[Check]:
    """Every way in which consent may be missing, or may have gone."""
    yield "consent", partial(_consent, seed)
    yield "consent is to what the steward saw", partial(_seen, seed)
    yield "an expired study", partial(_expired, seed)
    yield "a site of records answers no study of persons", partial(_records, seed)
    for what, changes in (("consent", _CONSENTS), ("a lowered cap", _LOWERED)):
        yield f"while an agent serves: {what}", partial(_at_once, changes, seed)


def _consent(seed: int) -> str:
    plan = plan_of(_SCHEMA, seed, epsilon=1.0)
    hidden = plan_of(_SCHEMA, seed, SITE, "oak", "fir", epsilon=1.0, trust=SecureAggregation.name)
    # The same epsilon at a larger delta is a larger budget; rho alone can be compared.
    dearer = msgspec.structs.replace(plan, delta=1e-3)
    refused: dict[str, tuple[Plan, _Change]] = {
        "withdrawn": (plan, _withdraw),
        "never given": (plan, _unapproved),
        "of a study that changed": (plan, _change_study),
        "copied from another study": (plan, _copy),
        "for another schema": (plan, _change_schema),
        "above the cap for a study": (plan, partial(_reset, study_epsilon=0.5)),
        "above the cap for a study, at another delta": (dearer, partial(_reset, delta=plan.delta)),
        "at another site": (plan, partial(_reset, name="oak")),
        "under secure aggregation": (hidden, _reset),
    }
    require(_reply(plan, _reset, (0.5,)) == "answered", "what was approved is refused")
    for what, (agreed, change) in refused.items():
        reply = _reply(agreed, change, (0.9,))
        require(reply == Reason.NOT_APPROVED, f"consent {what}: {reply}")
    others = {
        "without the site's unit": plan,
        "for another unit than the site's": msgspec.structs.replace(plan, unit="a0"),
    }
    persons = msgspec.structs.replace(plan, unit=UNIT)
    for what, agreed in others.items():
        reply = _reply(persons, _reset, (0.9,), asked=agreed)
        require(reply == Reason.NOT_APPROVED, f"consent {what}: {reply}")
    # On disk as well: an agent keeps to the stricter of what it began with and what it reads.
    dear = _reply(plan, partial(_rewrite, study_epsilon=2.0), (0.9, 0.9))
    require(dear == Reason.OVER_THE_CAP, f"more than a steward agreed to: {dear}")
    _check_approvals(
        {
            "another schema": (plan, _change_schema),
            "more than the cap for a study": (plan, partial(_reset, study_epsilon=0.5)),
            "more than the cap for a study, at another delta": (dearer, _reset),
            "another site": (plan, partial(_reset, name="oak")),
            "secure aggregation": (hidden, _reset),
        },
        plan,
    )
    _check_approvals({f"consent {what}": (p, _reset) for what, p in others.items()}, persons)
    many = len(refused) + len(others) + 1
    return f"{many} queries without it refused, for nothing"


def _reply(
    plan: Plan, change: _Change, shares: tuple[float, ...], *, asked: Plan | None = None
) -> str:
    """What a hub hears from a site that approved this plan before it was changed.

    Args:
        plan: its site protects what this plan protects, from its first day on.
        asked: the plan of the query, if it is another one that was approved too.
    """
    asked = asked or plan
    parts = tuple(Part(Flat(("a0",)), share) for share in shares)
    with temporary_folder() as place:
        # Whatever refuses a plan at its approval has looked away.
        with patched(consent, check_study=lambda *given, **terms: None):
            plans = [plan] if asked == plan else [plan, asked]
            made = SiteOnDisk.make(place, _SCHEMA, _ROWS, *plans)
        with SiteOnDisk(change(made.settings, plan)).serving(SecureNoise()) as agent:
            reply = agent.reply(encode(query_of(asked, parts=parts)))
            paid = agent.spent.rho
    require(reply == "answered" or paid == 0, "a query without consent was charged")
    return reply


def _check_approvals(refused: dict[str, tuple[Plan, _Change]], plan: Plan) -> None:
    """What an agent never answers is not approved either."""
    for what, (proposed, change) in refused.items():
        with temporary_folder() as place:
            made = SiteOnDisk.make(place, _SCHEMA, _ROWS, plan)
            site = SiteOnDisk(change(made.settings, plan))
            try:
                site.approve(proposed, _SCHEMA)
            except NotApproved:
                continue
        raise Broken(f"a study of {what} was approved")


def _seen(seed: int) -> str:
    """Consent has the figures of the study, not those that the site would have allowed."""
    plan = plan_of(_SCHEMA, seed, epsilon=1.0)
    with temporary_folder() as place:
        made = SiteOnDisk.make(place, _SCHEMA, _ROWS, plan)
        # Since then the steward allows more to a study, and approves another one.
        site = SiteOnDisk(replace(made.settings, study_epsilon=3.0, epsilon=6.0))
        other = msgspec.structs.replace(plan, seed=plan.seed + 1)
        site.approve(other, _SCHEMA)
        for agreed in (plan, other):
            kept = consent.read_consent(
                site.settings.studies / agreed.fingerprint / consent.CONSENT
            )
            for name, wanted in {
                "rho": agreed.budget.rho,
                "epsilon": agreed.epsilon,
                "delta": agreed.delta,
                "conversion": agreed.conversion,
                "study": agreed.fingerprint,
                "schema": _SCHEMA.fingerprint,
            }.items():
                stated = getattr(kept, name)
                require(stated == wanted, f"consent has {name} {stated}, the study has {wanted}")
            with site.serving(SecureNoise()) as agent:
                replies = [_asked(agent, agreed, number, 0.9) for number in range(2)]
            require(
                replies == ["answered", Reason.OVER_THE_CAP],
                f"a study of which 0.9 was spent is {replies[1]} once more",
            )
    return "2 studies, 4 queries"


def _expired(seed: int) -> str:
    """A study is answered until its last day ends, wherever clocks are set; then no more."""
    plan = plan_of(_SCHEMA, seed, epsilon=1.0, about=About(expires=f"{WHEN:%Y-%m-%d}"))
    midnight = datetime(WHEN.year, WHEN.month, WHEN.day, tzinfo=UTC) + timedelta(days=1)
    moment = timedelta(microseconds=1)
    times = {WHEN: "answered", midnight - moment: "answered"}
    times |= dict.fromkeys([midnight, midnight + timedelta(days=400)], Reason.NOT_APPROVED)
    with temporary_folder() as place:
        site = SiteOnDisk.make(place, _SCHEMA, _ROWS, plan)
        for number, (now, wanted) in enumerate(times.items()):
            for zone in (UTC, timezone(timedelta(hours=14)), timezone(timedelta(hours=-12))):
                local = now.astimezone(zone)
                with site.serving(SecureNoise(), clock=repeat(local).__next__) as agent:
                    before = agent.spent
                    reply = _asked(agent, plan, number, 0.1)
                    require(reply == wanted, f"a study that ends after {WHEN:%d}: {reply} {local}")
                    paid = wanted == "answered" or agent.spent == before
                    require(paid, "an expired study was charged")
        other = msgspec.structs.replace(plan, seed=plan.seed + 1)
        study = Study(plan=other, schema=_SCHEMA.settings, quorum=1)
        try:
            consent.approve(site.settings, study, who="an auditor", now=midnight)
        except NotApproved:
            return f"{len(times)} times in 3 zones, and an approval"
    raise Broken("an expired study was approved")


def _records(seed: int) -> str:
    """Whoever protects records by its ledger must not answer as if it protected persons.

    With one row a person, removing a record of somebody who has others brings another one in: two
    records change for the price of one.
    """
    plan = plan_of(_SCHEMA, seed, epsilon=1.0)
    for most in (1, 3):
        persons = msgspec.structs.replace(plan, unit=UNIT, rows_per_unit=most)
        reply = _reply(plan, _reset, (0.9,), asked=persons)
        require(
            reply == Reason.NOT_APPROVED,
            f"a study of persons with {most} rows at a site of records: {reply}",
        )
        _check_approvals({"persons at a site of records": (persons, _reset)}, plan)
    return "2 studies, approval and query"


def _at_once(changes: dict[str, _Change], seed: int) -> str:
    """An agent that serves hears of whatever only makes its site stricter; no restart is needed."""
    plan = plan_of(_SCHEMA, seed, epsilon=1.0)
    for what, change in changes.items():
        with serving(_SCHEMA, _ROWS, plan, noise=SecureNoise()) as agent:
            require(_asked(agent, plan, 0, 0.3) == "answered", "what was approved is refused")
            before = agent.spent
            change(agent.settings, plan)
            reply = _asked(agent, plan, 1, 0.3)
            require(
                reply in (Reason.NOT_APPROVED, Reason.OVER_THE_CAP),
                f"{what}: the next query is {reply}",
            )
            require(agent.spent == before, f"{what}: the next query was charged")
    return f"{len(changes)} changes count at the next query"


def _asked(agent: Serving, plan: Plan, number: int, share: float) -> str:
    """What a hub hears."""
    return agent.reply(encode(query_of(plan, Flat(("a0",)), share=share, number=number)))


def _reset(settings: SiteSettings, plan: Plan, **changes: object) -> SiteSettings:
    return replace(settings, **changes)  # type: ignore[arg-type]


def _rewrite(settings: SiteSettings, plan: Plan, **changes: object) -> SiteSettings:
    """Other settings in the file of the site, as its steward would write them."""
    return SiteOnDisk(settings).changed(**changes).settings


def _withdraw(settings: SiteSettings, plan: Plan) -> SiteSettings:
    consent.withdraw(settings, plan.fingerprint, who="an auditor", now=WHEN)
    return settings


def _unapproved(settings: SiteSettings, plan: Plan) -> SiteSettings:
    (settings.studies / plan.fingerprint).rename(settings.studies / "elsewhere")
    return settings


def _copy(settings: SiteSettings, plan: Plan) -> SiteSettings:
    """The folder of another study under this one's name."""
    other = plan_of(_SCHEMA, plan.seed + 1, epsilon=1.0)
    SiteOnDisk(settings).approve(other, _SCHEMA)
    shutil.rmtree(settings.studies / plan.fingerprint)
    (settings.studies / other.fingerprint).rename(settings.studies / plan.fingerprint)
    return settings


def _change_study(settings: SiteSettings, plan: Plan) -> SiteSettings:
    """Another plan in the file than the steward read."""
    other = msgspec.structs.replace(plan, epsilon=plan.epsilon / 2)
    path = settings.studies / plan.fingerprint / STUDY
    path.unlink()
    Study(plan=other, schema=_SCHEMA.settings, quorum=1).save(path)
    return settings


def _change_schema(settings: SiteSettings, plan: Plan) -> SiteSettings:
    settings.schema.unlink()
    plain_schema(3, 3).save(settings.schema)
    return settings


_CONSENTS: dict[str, _Change] = {
    "consent was withdrawn": _withdraw,
    "the study is gone": _unapproved,
    "the study changed": _change_study,
    "the schema changed": _change_schema,
}
_LOWERED: dict[str, _Change] = {
    "the cap for a study was lowered": partial(_rewrite, study_epsilon=0.2),
    "the cap of the table was lowered": partial(_rewrite, study_epsilon=0.2, epsilon=0.2),
}
