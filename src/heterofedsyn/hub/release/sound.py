"""Whether the records of a release can be true: of themselves, of each other and of the model.

Digests notice damage, not intent. A release may come from anywhere, so whoever reads one relies on
what is checked here: known names, figures that exist, texts and lists of a bearable length.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Sized

import msgspec

from heterofedsyn.errors import HeterofedsynError, ReleaseError
from heterofedsyn.hub.methods.base import Model
from heterofedsyn.hub.release.paid_noise import CLOSE, check_charges, check_noise, same
from heterofedsyn.hub.release.run_record import RunRecord
from heterofedsyn.hub.release.statement import Contributed, PrivacyStatement, SiteAccount
from heterofedsyn.privacy.trust import SecureAggregation
from heterofedsyn.protocol import Plan
from heterofedsyn.protocol.plan import NEIGHBOURS, Aggregation
from heterofedsyn.protocol.terms import hears_sums
from heterofedsyn.schema import Domain, Schema
from heterofedsyn.schema.atoms import comes_from

LARGEST = 1e18
"""No count of anything comes near."""

MOST_LETTERS = 10_000
"""Of one text."""

MOST_ENTRIES = 100_000
"""Of one list."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
"""The category Cc of Unicode."""


def check_statement(statement: PrivacyStatement, domain: Domain) -> None:
    """Refuse a statement whose guarantee, charges or names cannot be.

    Raises:
        ReleaseError: naming the first thing that is wrong.
    """
    _texts("a text", (statement.neighbours, statement.conversion, statement.trust))
    if statement.neighbours != NEIGHBOURS:
        raise ReleaseError(f"neighbours must be {NEIGHBOURS!r}, as in every study")
    _length("unit", statement.unit, MOST_LETTERS)
    _figure("epsilon", statement.epsilon, above=0.0)
    _figure("delta", statement.delta, above=0.0, below=1.0)
    _figure("rho", statement.rho, above=0.0)
    _figure("rho_alone", statement.rho_alone, above=0.0)
    _sites("sites", [account.site for account in statement.sites])
    known = frozenset(domain.names)
    for account in statement.sites:
        _check_account(account, statement.rho, known)
    if not isinstance(statement.sums, msgspec.UnsetType):
        _check_sums(statement.sums, statement.sites)


def check_run(run: RunRecord, statement: PrivacyStatement, schema: Schema) -> Plan:
    """Refuse a record that cannot belong to this statement and this schema; else the study's plan.

    Raises:
        ReleaseError: naming the first thing that is wrong.
    """
    _length("settings", run.settings, MOST_ENTRIES)
    _length("remarks", run.remarks, MOST_ENTRIES)
    _length("pairs", run.pairs, MOST_ENTRIES)
    values = (value for value in run.settings.values() if isinstance(value, str))
    words = (run.version, run.method, run.study, run.schema, *run.remarks, *run.settings, *values)
    _texts("a text", words)
    for value in run.settings.values():
        if not isinstance(value, str):
            _figure("a setting", value, least=-LARGEST)
    _sites("sites", run.sites)
    if run.sites != tuple(account.site for account in statement.sites):
        raise ReleaseError("sites are not those of privacy.json")
    _figure("noisy_total", run.noisy_total, least=1)
    plan = _check_terms(run, statement, schema)
    _check_missed(run, statement)
    _check_pairs(run, schema.domain)
    _check_differences(run, schema.domain)
    check_charges(statement, run, plan, schema.domain)
    return plan


def plan_of(run: RunRecord, statement: PrivacyStatement, schema: Schema) -> Plan:
    """The plan of a study as its records tell it: all of it but keys of sites.

    Raises:
        ReleaseError: if no study has such terms.
    """
    try:
        return Plan(
            schema=schema.fingerprint,
            epsilon=statement.epsilon,
            delta=statement.delta,
            conversion=statement.conversion,
            trust=statement.trust,
            sites=run.sites,
            unit=statement.unit_column,
            rows_per_unit=statement.rows_per_unit,
            method=run.method,
            settings=run.settings,
            seed=run.seed,
            aggregation=_aggregation(statement),
            about=run.about,
            columns=run.columns,
        )
    except HeterofedsynError as error:
        raise ReleaseError(f"no study has such terms: {error}") from None


def check_model(run: RunRecord, statement: PrivacyStatement, plan: Plan, model: Model) -> None:
    """Refuse a record of another model: other pairs, records, settings, or other noise.

    Raises:
        ReleaseError: saying which of them it is.
    """
    measured = {pair for targets in model.targets for pair in targets.pairs}
    if {pair.attributes for pair in run.pairs if pair.measured} != measured:
        raise ReleaseError("pairs are not those that the model measured")
    wanted = max(1.0, model.total)  # so many rows are drawn
    if not abs(run.noisy_total - wanted) <= 1 + CLOSE * wanted:
        raise ReleaseError("noisy_total is not what the model tells")
    own = {
        **dataclasses.asdict(model.targets[0].rebuild),
        **dataclasses.asdict(model.synthesizer),
        "synthesizer": model.synthesizer.name,
    }
    if any(run.settings.get(name, value) != value for name, value in own.items()):
        raise ReleaseError("settings are not those of the model")
    check_noise(model, statement, run, plan)


def _check_account(account: SiteAccount, budget: float, known: frozenset[str]) -> None:
    _figure("a site's rho", account.rho, least=0.0)
    if account.rho > budget * (1 + CLOSE):
        raise ReleaseError("a site was charged more than the budget")
    _length("charges", account.charges, MOST_ENTRIES)
    for charge in account.charges:
        _texts("a label", (charge.label,))
        _figure("rho of a charge", charge.rho, least=0.0)
        _length("parts", charge.parts, MOST_ENTRIES)
        for part in charge.parts:
            _texts("a kind", (part.kind,))
            if not known.issuperset(part.attributes):
                raise ReleaseError("a charge names a column that the schema does not have")
            _figure("sensitivity", part.sensitivity, above=0.0)
            _figure("sigma", part.sigma, above=0.0)
            _figure("integers", part.integers, least=0)
            _figure("rho of a part", part.rho, least=0.0)


def _check_terms(run: RunRecord, statement: PrivacyStatement, schema: Schema) -> Plan:
    """What both records say of the study must be terms that a study can have, and its name."""
    if run.schema and not comes_from(schema, run.schema):
        raise ReleaseError("schema is not the fingerprint of the model's")
    plan = plan_of(run, statement, schema)
    if not same(statement.rho, plan.budget.rho):
        raise ReleaseError("rho of privacy.json does not belong to its epsilon and delta")
    if not same(statement.rho_alone, plan.budget_alone.rho):
        raise ReleaseError("rho_alone of privacy.json does not belong to its rho")
    if any(
        len(part.attributes) > plan.together
        for account in statement.sites
        for charge in account.charges
        for part in charge.parts
    ):
        raise ReleaseError("a charge is for counts of more columns than the study allowed")
    # A roster of keys is part of the name, and no release tells it.
    if run.study != plan.fingerprint and not hears_sums(plan):
        raise ReleaseError("study is not the fingerprint of what the records tell of it")
    return plan


def _aggregation(statement: PrivacyStatement) -> Aggregation | msgspec.UnsetType:
    """How answers were hidden in sums; a plan refuses it under trust that hides none."""
    colluding, quorum, sums = statement.colluding, statement.quorum, statement.sums
    if (
        isinstance(colluding, msgspec.UnsetType)
        or isinstance(quorum, msgspec.UnsetType)
        or isinstance(sums, msgspec.UnsetType)
    ):
        if statement.trust == SecureAggregation.name or not colluding == quorum == sums:
            raise ReleaseError("privacy.json does not say who may collude, or who is in its sums")
        return msgspec.UNSET
    if any(len(each.sites) < quorum for each in sums):
        raise ReleaseError("a sum is over fewer sites than the quorum")
    return Aggregation(colluding, quorum)


def _check_sums(sums: tuple[Contributed, ...], accounts: tuple[SiteAccount, ...]) -> None:
    """Every query is answered by one sum, and whoever was asked was charged for it."""
    labels = tuple(each.label for each in sums)
    names = [account.site for account in accounts]
    for account in accounts:
        if tuple(charge.label for charge in account.charges) != labels:
            raise ReleaseError("sums are not those of the queries that sites were charged for")
    for each in sums:
        if each.sites != tuple(name for name in names if name in {*each.sites}):
            raise ReleaseError("a sum does not name sites of the study, in their order")


def _check_missed(run: RunRecord, statement: PrivacyStatement) -> None:
    """Who missed a round, and which rounds were scaled, must be rounds and sites of the study."""
    missed = () if isinstance(run.missed, msgspec.UnsetType) else run.missed
    scaled = () if isinstance(run.scaled, msgspec.UnsetType) else run.scaled
    _length("missed", missed, MOST_ENTRIES)
    _length("scaled", scaled, MOST_ENTRIES)
    _texts("a text", (text for each in missed for text in (each.label, each.reason)))
    _texts("a label", (each.label for each in scaled))
    if not {each.site for each in missed} <= {*run.sites}:
        raise ReleaseError("missed names a site that the study does not have")
    for each in scaled:
        _figure("a factor", each.factor, above=0.0)
    if isinstance(statement.sums, msgspec.UnsetType):
        return
    outside = [
        (site, number, each.label)
        for number, each in enumerate(statement.sums, start=1)
        for site in run.sites
        if site not in each.sites
    ]
    if outside != [(each.site, each.round, each.label) for each in missed]:
        raise ReleaseError("missed does not name the sites outside of the sums of privacy.json")


def _check_pairs(run: RunRecord, domain: Domain) -> None:
    known = {*domain.pairs()}
    pairs = [pair.attributes for pair in run.pairs]
    if not known.issuperset(pairs):
        raise ReleaseError("pairs name something that is no pair of the schema's columns")
    if len({*pairs}) != len(pairs):
        raise ReleaseError("pairs name a pair twice")
    for pair in run.pairs:
        if pair.score is not None:
            _figure("a score", pair.score, least=-LARGEST)


def _check_differences(run: RunRecord, domain: Domain) -> None:
    if not run.differences:
        return
    named = [summary.site for summary in run.differences]
    gone = {missed.site for missed in run.missed or ()}
    if named != [site for site in run.sites if site in named or site not in gone]:
        raise ReleaseError("differences are not those of the sites, in their order")
    first = tuple(attribute.name for attribute in run.differences[0].attributes)
    if first != tuple(name for name in domain.names if name in {*first}):
        raise ReleaseError("differences do not name the schema's columns in their order")
    for summary in run.differences:
        _figure("total of a site", summary.total, least=1)
        _figure("total_error", summary.total_error, least=0.0)
        if tuple(attribute.name for attribute in summary.attributes) != first:
            raise ReleaseError("differences name other columns at another site")
        for attribute in summary.attributes:
            _figure("a distance", attribute.distance, least=0.0)
            _figure("a noise", attribute.noise, least=0.0)


def _sites(what: str, names: Iterable[str]) -> None:
    sites = [*names]
    _length(what, sites, MOST_ENTRIES)
    _texts("a site's name", sites)
    if not sites or len({*sites}) != len(sites):
        raise ReleaseError(f"{what} must name at least one site, and none twice")


def _figure(
    what: str,
    value: float,
    *,
    least: float = -math.inf,
    above: float = -math.inf,
    below: float = LARGEST,
) -> None:
    # Written so that NaN, which compares as false, is refused.
    if not (value >= least and value > above and value < below):
        raise ReleaseError(f"{what} is impossible")


def _length(what: str, entries: Sized, most: int) -> None:
    if len(entries) > most:
        raise ReleaseError(f"{what} has {len(entries):,} entries, more than {most:,}")


def _texts(what: str, texts: Iterable[str]) -> None:
    for text in texts:
        _length(what, text, MOST_LETTERS)
        if _CONTROL.search(text):
            raise ReleaseError(f"{what} holds control characters")
