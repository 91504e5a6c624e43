"""Consent: an agent answers what its steward agreed to, as long as that holds, and nothing else."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import mock

import msgspec

from heterofedsyn.bench.audit.disk import WHEN, SiteOnDisk
from heterofedsyn.bench.audit.exhibit import SITE, plain_schema, plan_of
from heterofedsyn.bench.audit.findings import Broken, Check, Finding, require
from heterofedsyn.bench.audit.subject import UNIT
from heterofedsyn.marginals import Flat
from heterofedsyn.privacy.noise import SecureNoise
from heterofedsyn.privacy.trust import SecureAggregation
from heterofedsyn.protocol import Part, Plan, Query, Study, encode
from heterofedsyn.site import consent
from heterofedsyn.site.agent import Reason, Refused
from heterofedsyn.site.settings import SiteSettings

_SCHEMA = plain_schema(3, 2)
_ROWS = b"person,a0,a1\n1,v0,v0\n2,v1,v1\n3,v2,v1\n"

_Change = Callable[[SiteSettings, Plan], SiteSettings]
"""What happens to a site after it approved a plan."""


def checks(seed: int) -> Iterator[Check]:
    """Every way in which consent may be missing, or may have gone."""
    yield "consent", partial(_consent, seed)


def _consent(seed: int) -> Iterator[Finding]:
    plan = plan_of(_SCHEMA, seed, epsilon=1.0)
    hidden = msgspec.structs.replace(
        plan_of(_SCHEMA, seed, SITE, "oak", epsilon=1.0), trust=SecureAggregation.name
    )
    refused: dict[str, tuple[Plan, _Change]] = {
        "withdrawn": (plan, _withdraw),
        "never given": (plan, _unapproved),
        "of a study that changed": (plan, _change_study),
        "copied from another study": (plan, _copy),
        "for another schema": (plan, _change_schema),
        "above the cap for a study": (plan, partial(_reset, study_epsilon=0.5)),
        "without the site's unit": (plan, partial(_reset, unit=UNIT)),
        "at another site": (plan, partial(_reset, name="oak")),
        "under secure aggregation": (hidden, _reset),
    }
    require(_reply(plan, _reset, (0.5,)) == "answered", "what was approved is refused")
    for what, (agreed, change) in refused.items():
        reply = _reply(agreed, change, (0.9,))
        require(reply == Reason.NOT_APPROVED, f"consent {what}: {reply}")
    dear = _reply(plan, partial(_reset, study_epsilon=2.0), (0.9, 0.9))
    require(dear == Reason.OVER_THE_CAP, f"more than a steward agreed to: {dear}")
    _check_approvals(plan, hidden)
    yield Finding("consent", True, f"{len(refused) + 1} queries without it refused, for nothing")


def _reply(plan: Plan, change: _Change, shares: tuple[float, ...]) -> str:
    """What a hub hears from a site that approved this plan before it was changed."""
    parts = tuple(Part(Flat(("a0",)), share) for share in shares)
    query = Query(study=plan.fingerprint, number=0, label="q", parts=parts)
    with tempfile.TemporaryDirectory(prefix="heterofedsyn-audit-") as place:
        # Whatever refuses a plan at its approval has looked away.
        with mock.patch.object(consent, "check_study"):
            made = SiteOnDisk.make(Path(place), SITE, _SCHEMA, plan, _ROWS)
        site = SiteOnDisk(change(made.settings, plan))
        with site.serving(SecureNoise()) as agent:
            try:
                agent.answer(encode(query))
            except Refused as refused:
                require(agent.spent.rho == 0, "a query without consent was charged")
                return refused.reason
    return "answered"


def _check_approvals(plan: Plan, hidden: Plan) -> None:
    """What an agent never answers is not approved either."""
    refused: dict[str, tuple[Plan, _Change]] = {
        "another schema": (plan, _change_schema),
        "more than the cap for a study": (plan, partial(_reset, study_epsilon=0.5)),
        "another unit": (plan, partial(_reset, unit=UNIT)),
        "another site": (plan, partial(_reset, name="oak")),
        "secure aggregation": (hidden, _reset),
    }
    for what, (proposed, change) in refused.items():
        with tempfile.TemporaryDirectory(prefix="heterofedsyn-audit-") as place:
            made = SiteOnDisk.make(Path(place), SITE, _SCHEMA, plan, _ROWS)
            site = SiteOnDisk(change(made.settings, plan))
            try:
                site.approve(proposed, _SCHEMA)
            except consent.NotApproved:
                continue
        raise Broken(f"a study of {what} was approved")


def _reset(settings: SiteSettings, plan: Plan, **changes: object) -> SiteSettings:
    return replace(settings, **changes)  # type: ignore[arg-type]


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
    path = settings.studies / plan.fingerprint / consent.STUDY
    path.unlink()
    Study(plan=other, schema=_SCHEMA.settings, quorum=1).save(path)
    return settings


def _change_schema(settings: SiteSettings, plan: Plan) -> SiteSettings:
    settings.schema.unlink()
    plain_schema(3, 3).save(settings.schema)
    return settings
