"""The steward's studies: the inbox, what one study may have, and the decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from starlette.exceptions import HTTPException
from starlette.responses import Response

from heterofedsyn._words import aloud, sentence
from heterofedsyn.console.hidden_groups import GROUPS
from heterofedsyn.console.inbox import Waiting, key_of
from heterofedsyn.console.pages import Do, Form, Show, Visit, download
from heterofedsyn.console.steward_lists import Lists
from heterofedsyn.console.steward_prospect import sections_of
from heterofedsyn.console.steward_site import Decided, OwnSite
from heterofedsyn.errors import HeterofedsynError, UsageError
from heterofedsyn.protocol.study import Study
from heterofedsyn.protocol.terms import hears_sums
from heterofedsyn.report.study_summary import study_summary
from heterofedsyn.site.consent import check_approvable, check_schema, check_study
from heterofedsyn.site.deciding import decide, end
from heterofedsyn.site.ledger.entries import Account

PAGE = 50
"""Studies on one page."""

HIDDEN = "········"
"""Instead of a group that the page asks for."""


def views(site: OwnSite) -> Mapping[str, Show]:
    """The pages about studies."""
    return {
        "studies": lambda visit: _studies(visit, site),
        "studies/waiting/{key}": lambda visit: _waiting(visit, site),
        "studies/decided/{key}": lambda visit: _decided(visit, site),
        "studies/waiting/{key}/sheet": lambda visit: _waiting_sheet(visit, site),
        "studies/decided/{key}/sheet": lambda visit: _sheet(visit, site),
    }


def actions(site: OwnSite) -> Mapping[str, Do]:
    """What is decided on them."""
    return {
        "studies/drop": lambda visit, form: _drop(visit, form, site),
        "studies/remove": lambda visit, form: _remove(visit, form, site),
        "studies/check": lambda visit, form: _check(visit, form, site),
        "studies/approve": lambda visit, form: _approve(visit, form, site),
        "studies/withdraw": lambda visit, form: _end(visit, form, site),
    }


def _studies(visit: Visit, site: OwnSite) -> Response:
    """What waits, and what was decided."""
    lists = Lists(site, site.account())
    waiting, decided = site.inbox.waiting(), site.fingerprints()
    pages = max(1, -(-max(len(waiting), len(decided)) // PAGE))
    page = visit.number(pages)
    part = slice((page - 1) * PAGE, page * PAGE)
    return visit.page(
        "steward_studies.html",
        "Studies",
        waiting=[lists.waiting(one) for one in waiting[part]],
        decided=[lists.decided(each) for each in decided[part]],
        many_waiting=len(waiting),
        tally=lists.tally(waiting),
        many_decided=len(decided),
        page=page,
        pages=pages,
        inbox=site.inbox.folder,
    )


def _waiting(visit: Visit, site: OwnSite) -> Response:
    """One study of the inbox, with what it would mean and the form to approve it."""
    one = _find(visit.part("key"), site)
    try:
        study = site.inbox.study(one)
    except HeterofedsynError as error:
        return visit.page("steward_unread.html", "Not a study", one=one, words=str(error))
    if study.fingerprint in site.fingerprints():
        return visit.go(f"studies/decided/{key_of(study.fingerprint)}")
    settings, account = site.settings(), site.account()
    sections = sections_of(site, settings, study, account)
    refusal = ""
    try:
        check_approvable(settings, study, account, datetime.now(UTC))
        site.foreseen(study)
        site.hidden.check_open(study.fingerprint)
    except HeterofedsynError as error:
        refusal = str(error)
    asked = site.hidden.of(study.fingerprint)
    return visit.page(
        "steward_study.html",
        study.plan.said_about.shown_title,
        key=one.key,
        study=study,
        sections=sections,
        check=site.row_check,
        groups=_groups(study.fingerprint, asked),
        asked=asked,
        approvable=not refusal,
        refusal=refusal,
        decided=None,
    )


def _decided(visit: Visit, site: OwnSite) -> Response:
    """One study that consent was given to."""
    found, account = _find_decided(visit.part("key"), site)
    asked: tuple[int, ...] = ()
    refusal = ""
    if not found.good:
        asked = site.hidden.of(found.study.fingerprint)
        try:
            check_approvable(site.settings(), found.study, account, datetime.now(UTC))
            site.hidden.check_open(found.study.fingerprint)
        except HeterofedsynError as error:
            refusal = str(error)
    return visit.page(
        "steward_study.html",
        found.study.plan.said_about.shown_title,
        key=found.key,
        study=found.study,
        sections=sections_of(site, site.settings(), found.study, account),
        check=site.row_check,
        groups=_groups(found.study.fingerprint, asked),
        asked=asked,
        approvable=not found.good and not refusal,
        refusal=refusal,
        decided=found,
        final=hears_sums(found.study.plan),
        charged=any(one.study == found.study.fingerprint for one in account.charges),
    )


def _waiting_sheet(visit: Visit, site: OwnSite) -> Response:
    """The sheet before a decision, without what the steward must hear from the coordinator."""
    one = _find(visit.part("key"), site)
    study, account, refusal = site.inbox.study(one), site.account(), None
    try:
        check_approvable(site.settings(), study, account, datetime.now(UTC))
    except HeterofedsynError as error:
        refusal = str(error)
    asked = site.hidden.of(study.fingerprint)
    return _printed(site, study, account, refusal, asked, f"study-{one.key[:8]}")


def _sheet(visit: Visit, site: OwnSite) -> Response:
    """The sheet of a study that was decided on, for the steward's file."""
    found, account = _find_decided(visit.part("key"), site)
    refusal = None if found.good else found.words
    asked = () if found.good else site.hidden.of(found.study.fingerprint)
    return _printed(site, found.study, account, refusal, asked, f"study-{found.key[:8]}")


def _printed(
    site: OwnSite,
    study: Study,
    account: Account,
    refusal: str | None,
    hidden: Sequence[int],
    name: str,
) -> Response:
    """One sheet about a study, to print; nothing in it comes from rows."""
    text = study_summary(
        site.foreseen(study),
        study,
        site.settings(),
        account,
        now=datetime.now(UTC),
        refusal=refusal,
        fingerprint=" ".join(letters for _, letters in _groups(study.fingerprint, hidden)),
    )
    return download(text.encode(), f"{name}.html", "text/html")


def _drop(visit: Visit, form: Form, site: OwnSite) -> Response:
    """A file that was dropped becomes a study of the inbox."""
    upload = form.uploads.get("study")
    key = site.inbox.add(b"" if upload is None else upload.data)
    return visit.go(f"studies/waiting/{key}")


def _remove(visit: Visit, form: Form, site: OwnSite) -> Response:
    """A study that is not wanted leaves the inbox."""
    site.inbox.remove(_find(form.text("key"), site))
    visit.say("The file is out of the inbox; nothing was approved.")
    return visit.go("studies")


def _check(visit: Visit, form: Form, site: OwnSite) -> Response:
    """The site's rows are held against the study's schema."""
    study, settings = _meant(form, site), site.settings()
    check_schema(settings, study)
    about = f"the schema of {study.plan.said_about.shown_title}"
    site.row_check.start(settings, study.encoding, about, study.plan)
    visit.say("A check of the rows was started; what it finds stands on this page.")
    return visit.go(form.text("back"))


def _approve(visit: Visit, form: Form, site: OwnSite) -> Response:
    """Consent, if the steward heard the fingerprint from somebody else than this page."""
    study, settings = _meant(form, site), site.settings()
    fingerprint = study.fingerprint
    site.hidden.check(fingerprint, [form.text(f"group-{number}") for number in range(GROUPS)])
    check_study(settings, study)
    site.foreseen(study)
    with site.turn:
        decision = decide(settings, study, who=_who(form), now=datetime.now(UTC))
    then = "now" if site.listens() else "once it runs"
    answered = "" if decision.before else f"; the agent answers it {then}"
    visit.say(sentence(f"{decision.words()}{answered}"))
    return visit.go(f"studies/decided/{key_of(fingerprint)}")


def _end(visit: Visit, form: Form, site: OwnSite) -> Response:
    """Consent is taken back, or the study is ended for good."""
    found, _ = _find_decided(form.text("key"), site)
    if form.text("sure") != "yes":
        raise UsageError("nothing was changed: tick the box to say that it is meant")
    who, now, final = _who(form), datetime.now(UTC), form.text("how") == "close"
    fingerprint, title = found.study.fingerprint, found.study.plan.said_about.shown_title
    with site.turn:
        words = end(site.settings(), fingerprint, f"'{title}'", who=who, now=now, final=final)
    visit.say(sentence(words))
    return visit.go(f"studies/decided/{found.key}")


def _who(form: Form) -> str:
    """Who decides; the user that the agent runs as is nobody who could."""
    who = form.text("who")
    if not who:
        raise UsageError("nothing was changed: say who decides; the receipt will name them")
    return who


def _meant(form: Form, site: OwnSite) -> Study:
    """The study of a form: one of the inbox, or one that was decided on before."""
    key = form.text("key")
    if form.text("where") == "decided":
        return _find_decided(key, site)[0].study
    return site.inbox.study(_find(key, site))


def _find(key: str, site: OwnSite) -> Waiting:
    one = site.inbox.find(key)
    if one is None:
        raise HTTPException(404)
    return one


def _find_decided(key: str, site: OwnSite) -> tuple[Decided, Account]:
    fingerprint = site.find_decided(key)
    if fingerprint is None:
        raise HTTPException(404)
    account = site.account()
    return site.decided(fingerprint, account), account


def _groups(fingerprint: str, hidden: Sequence[int]) -> list[tuple[int, str]]:
    """The groups of a fingerprint as they are shown."""
    parts = aloud(fingerprint).split()
    return [(i + 1, HIDDEN if i in hidden else part) for i, part in enumerate(parts)]
