"""Bugs of agents: consent, counts, refusals and the socket."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import structs

from planted import places as at
from planted.bugs import Planting, coupling, ledger
from planted.planting import instead_of, leave_out, put, wrap

# CONSENT


def consented(name: str, case: str) -> Callable[[Planting], Planting]:
    """The ledger layer must notice that this case of consent is answered."""
    return ledger(name, rf"consent: {case}: answered", "^consent")


@consented("the cap in a steward's consent is ignored", "more than a steward agreed to")
@instead_of(at.consent.Consent.cap)
def _(true: Any, own: Any) -> Any:
    return at.Budget(1e9)


@consented("the steward's cap for a study is ignored", "consent above the cap for a study")
@instead_of(at.SiteSettings.study_cap)
def _(true: Any, settings: Any) -> Any:
    return settings.cap


@ledger(
    "the cap for a study is compared in epsilon, whatever delta",
    r"consent above the cap for a study, at another delta: (answered|over the cap)",
    "^consent$",
)
@instead_of(at.consent.check_study)
def _(true: Any, settings: at.SiteSettings, study: Any) -> None:
    if study.plan.epsilon <= settings.study_epsilon:
        settings = replace(settings, epsilon=100.0, study_epsilon=100.0)
    true(settings, study)


@consented("a study whose consent was withdrawn is answered", "consent withdrawn")
@instead_of(at.consent.check_not_withdrawn)
def _(true: Any, *how: Any) -> Any:
    return None


@ledger(
    "a withdrawal needs a restart",
    r"consent was withdrawn: the next query is answered",
    "while an agent serves",
)
def _() -> None:
    kept: dict[Any, Any] = {}

    def once(true: Any, settings: at.SiteSettings, fingerprint: str, *how: Any) -> Any:
        key = true.__name__, settings.folder, fingerprint
        if key not in kept:
            kept[key] = true(settings, fingerprint, *how)
        return kept[key]

    wrap(at.consent.approved, once)
    wrap(at.consent.check_not_withdrawn, once)


@ledger(
    "a site takes part in sums with keys that nobody confirmed and no cap for answers seen alone",
    r"consent: consent under secure aggregation: (answered|malformed|unavailable)",
    "^consent",
)
@instead_of(at.roster.check_trust)
def _(true: Any, settings: Any, study: Any) -> Any:
    return None


@consented("a study is answered after the site's schema changed", "consent for another schema")
@instead_of(at.consent.check_schema)
def _(true: Any, settings: Any, study: Any) -> Any:
    return None


def any_unit(when: Callable[[str | None, str | None], bool]) -> Planting:
    """A site answers studies of other units, where this holds of its own and theirs."""

    def check(true: Any, settings: at.SiteSettings, study: Any) -> None:
        if when(settings.unit, study.plan.unit):
            settings = replace(settings, unit=study.plan.unit)
        true(settings, study)

    def planting() -> None:
        wrap(at.consent.check_study, check)
        wrap(at.Books.settle, lambda true, books, unit: None)

    return planting


@consented("a study need not protect the site's unit", "consent without the site's unit")
@any_unit
def _(own: Any, theirs: Any) -> Any:
    return True


@ledger(
    "a site of persons answers for another unit",
    r"consent for another unit than the site's: answered",
    "^consent$",
)
@any_unit
def _(own: Any, theirs: Any) -> Any:
    return own is not None and theirs is not None


@ledger(
    "a site of records answers a study of persons",
    r"persons with . rows at a site of records: answered",
    "site of records",
)
@any_unit
def _(own: Any, theirs: Any) -> Any:
    return own is None


@ledger(
    "a site of records approves a study of persons",
    r"a study of persons at a site of records was approved",
    "site of records",
)
def _() -> None:
    leave_out(at.consent.approve, at.consent.check_study)


@ledger("consent records the cap of the site", r"consent has rho", "steward saw")
@instead_of(at.consent.approve)
def _(true: Any, settings: at.SiteSettings, study: Any, **more: Any) -> Any:
    given = structs.replace(true(settings, study, **more), rho=settings.study_cap.rho)
    file = settings.studies / study.fingerprint / at.consent.CONSENT
    file.write_bytes(msgspec.json.encode(given))
    return given


_EXPIRED = "expired study"


@ledger("an expired study is answered", r"a study that ends after .*: answered", _EXPIRED)
def _() -> None:
    leave_out(at.consent.approved, at.About.check_open)


@ledger("an expired study is approved", r"an expired study was approved", _EXPIRED)
def _() -> None:
    leave_out(at.consent.approve, at.About.check_open)


@ledger("a study's last day ends where the site is", r"a study that ends after .*", _EXPIRED)
@instead_of(at.About.check_open)
def _(true: Any, about: at.About, now: datetime) -> None:
    true(about, now.replace(tzinfo=UTC))


@ledger("consent outlives a repair", r"consent outlived a repair", "on disk")
@instead_of(at.consent.approved)
def _(true: Any, settings: at.SiteSettings, fingerprint: str, account: Any, now: Any) -> Any:
    _, given = at.consent.recorded(settings, fingerprint)
    return true(settings, fingerprint, replace(account, repaired=given.repaired), now)


# COUNTS


def counts_kept_by(key: Callable[[Any, Any], Any]) -> Planting:
    """An agent keeps counts by less of a study's schema, unit and L than they depend on."""

    @instead_of(at.Agent._read)
    def planting(true: Any, own: Any, schema: Any, held: Any, **more: Any) -> Any:
        kept = vars(own).setdefault("_planted", {})
        if key(schema, held.unit) not in kept:
            kept[key(schema, held.unit)] = true(own, schema, held, **more)
        return kept[key(schema, held.unit)]

    return planting


_OTHERS = r"agent: studies of other rows a person: .*counted wrongly"


@coupling("an agent takes the counts of another study: of another L", _OTHERS, "other rows")
@counts_kept_by
def _(schema: Any, unit: Any) -> Any:
    return schema.fingerprint, unit


@coupling(
    "an agent takes the counts of another study: of another unit and L", _OTHERS, "other rows"
)
@counts_kept_by
def _(schema: Any, unit: Any) -> Any:
    return schema.fingerprint


def unavailable(when: Callable[[Any, float], bool]) -> Planting:
    """An agent refuses where this holds of its counts and of the seconds that they took."""

    @instead_of(at.Agent._counts)
    def planting(true: Any, own: at.Agent, study: Any) -> Any:
        start = time.monotonic()
        found = true(own, study)
        if when(found, time.monotonic() - start):
            raise at.Refused(at.Reason.UNAVAILABLE, "planted")
        return found

    return planting


@coupling(
    "an agent with few rows is unavailable",
    r"agent: a line alone: .*refused as unavailable",
    "a line alone",
)
@unavailable
def _(counts: Any, seconds: Any) -> Any:
    return counts.rows < 3


@coupling(
    "an agent with more than 250,000 rows is unavailable",
    r"a query of .* rows is refused as unavailable",
    "many sizes",
)
@unavailable
def _(counts: Any, seconds: Any) -> Any:
    return counts.rows > 250_000


@coupling(
    "an agent that counts for more than 20 seconds is unavailable",
    r"a clock that jumps: a query of .* is refused as unavailable",
    "clock",
)
@unavailable
def _(counts: Any, seconds: Any) -> Any:
    return seconds > 20


@coupling(
    "a query of an empty table is malformed",
    r"agent: a line alone: .*refused as malformed",
    "a line alone",
)
@instead_of(at.Desk.answer)
def _(true: Any, desk: at.Desk, *how: Any) -> Any:
    def counts() -> Any:
        found = desk.counts()
        if found.rows == 0:
            raise at.ProtocolError("there are no rows")
        return found

    return true(replace(desk, counts=counts), *how)


# THE SOCKET


def socket(name: str, words: str) -> Callable[[Planting], Planting]:
    """The coupling layer must notice this of the socket."""
    return coupling(name, rf"agent: its socket: {words}", "socket")


@socket("a hub hears the text of a refusal", "a malformed query: a hub hears more")
def _() -> None:
    said: list[str] = [""]

    def init(true: Any, own: at.Refused, reason: at.Reason, text: str) -> None:
        said[0] = text
        true(own, reason, text)

    def reply(true: Any, own: at.Service, connection: Any, reason: Any, answer: bytes) -> None:
        true(own, connection, reason, answer if reason is None else said[0].encode())

    wrap(at.Refused.__init__, init)
    wrap(at.Service._reply, reply)


@socket("the log quotes a record", "a value of a record is in the log")
@instead_of(at.words_of)
def _(true: Any, error: Exception) -> str:
    known = isinstance(error, at.HeterofedsynError | OSError)
    return f"{true(error)}{'' if known else f': {error}'}"


@socket("a stranger at the socket is answered", "a stranger was answered")
@instead_of(at.Service.__init__)
def _(true: Any, own: at.Service, *how: Any, **more: Any) -> None:
    true(own, *how, **more)
    put(own, "_askers", range(2**32))


@socket("the socket is open to all", "agent is open to all")
def _() -> None:
    put(at.server, "SOCKET_MODE", 0o666)


@socket("the socket's folder is open to all", "socket is open to all")
def _() -> None:
    put(at.server, "FOLDER_MODE", 0o755)
