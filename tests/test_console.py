"""The console: nothing for those without its address, and no way around consent for those with."""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from console_support import Caller, entered, heard, running, stranger
from heterofedsyn._words import percent
from heterofedsyn.cli.app import run
from heterofedsyn.console import guard, serving, sessions
from heterofedsyn.console.guard import NOTHING
from heterofedsyn.console.inbox import key_of
from heterofedsyn.console.sessions import Sessions
from heterofedsyn.console.steward import steward
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.protocol.about import About
from heterofedsyn.protocol.study import Study
from heterofedsyn.site.consent import recorded
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.listening import agent_listens
from heterofedsyn.site.peers import Peers
from heterofedsyn.site.selfcheck import keep_checked, read_checked
from heterofedsyn.site.settings import SiteSettings
from hidden_support import hidden_study, make_sites
from site_support import NOW, WHO, approved_study, make_site, make_study

pytestmark = pytest.mark.thorough

PAGES = ("", "studies", "ledger", "receipts", "rows")


@pytest.fixture
def settings(tmp_path: Path) -> SiteSettings:
    return make_site(tmp_path)


@pytest.fixture
def opened(settings: SiteSettings) -> Iterator[tuple[str, list[str]]]:
    with running(steward(settings)) as (_, address, logged):
        yield address, logged


@pytest.fixture
def caller(opened: tuple[str, list[str]]) -> Caller:
    found = entered(opened[0])
    found.logged = opened[1]
    return found


def put(settings: SiteSettings, study: Study, name: str = "study.toml") -> str:
    """A study in the watched folder; what its page is called."""
    folder = settings.folder / "inbox"
    folder.mkdir(mode=0o700, exist_ok=True)
    study.save(folder / name)
    return f"studies/waiting/{key_of(name)}"


def approve(caller: Caller, study: Study, page: str, **other: str) -> str:
    """What the console says to a steward who heard the fingerprint."""
    shown = caller.ask(page)
    form = {**shown.fields(), **heard(study, shown), "who": WHO, **other}
    reply = caller.ask("studies/approve", form)
    assert reply.status == 303, reply.text
    return caller.ask(reply.place).text


def charge(settings: SiteSettings, study: Study, cost: Budget, label: str = "all") -> None:
    """A charge for a query of the study that nobody answered."""
    cap, own = settings.cap, settings.study_cap
    with Books.open(settings.folder, settings.anchor) as books:
        books.charge(study.fingerprint, "0" * 64, label, cost, cap=cap, study_cap=own)


def consents(settings: SiteSettings) -> list[str]:
    return [path.parent.name for path in settings.studies.glob("*/consent.json")]


# Who is let in


def test_without_the_token_every_address_looks_alike(
    opened: tuple[str, list[str]], settings: SiteSettings
) -> None:
    somebody = stranger(opened[0])
    approved_study(settings)
    replies = [
        somebody.ask(path)
        for path in (*PAGES, "static/console.css", "events", "none", "enter", "enter?token=x")
    ]
    replies += [somebody.ask(path) for path in ("/", "/favicon.ico", "/studies")]
    replies += [somebody.ask(f"enter?{'token=x&' * 9}")]
    replies += [somebody.ask("studies", cookie=f"{guard.COOKIE}=guess")]
    replies += [somebody.ask("studies/approve", {"token": "x"})]
    assert {(reply.status, reply.text) for reply in replies} == {(403, NOTHING)}
    assert settings.name not in NOTHING


def test_a_token_opens_once_and_is_told_nowhere(opened: tuple[str, list[str]]) -> None:
    address, logged = opened
    somebody = stranger(address)
    place = address.partition(somebody.host)[2]
    token = place.partition("token=")[2]
    reply = somebody.ask(place, sec_fetch_site="none")
    assert (reply.status, reply.place) == (303, f"{somebody.root}/welcome")
    assert reply.headers["referrer-policy"] == "no-referrer"
    cookie, *flags = reply.headers["set-cookie"].split("; ")
    assert {flag.lower() for flag in flags} == {
        "httponly",
        "samesite=strict",
        f"path={somebody.root.lower()}/",
    }
    again = somebody.ask(place, sec_fetch_site="none")
    assert (again.status, again.text) == (403, NOTHING)
    page = somebody.ask("", cookie=cookie)
    assert page.status == 200
    assert token not in page.text
    said = "\n".join(logged)
    assert not [secret for secret in (token, cookie, somebody.root) if secret in said]


@pytest.mark.parametrize("headers", [{"sec_fetch_dest": "iframe"}, {"sec_purpose": "prefetch"}])
def test_a_token_is_not_used_up_by_a_frame_or_by_looking_ahead(
    opened: tuple[str, list[str]], headers: Any
) -> None:
    somebody = stranger(opened[0])
    assert somebody.ask(opened[0].partition(somebody.host)[2], **headers).status == 403
    assert entered(opened[0]).ask("").status == 200


def test_a_session_ends_when_nobody_asks_and_in_any_case() -> None:
    now = [0.0]
    known = Sessions(lambda: now[0])
    first = known.enter(known.invite())
    assert first is not None
    now[0] = sessions.IDLE_SECONDS - 1
    assert known.find([first.cookie], active=False) is first  # a page by itself
    now[0] += 2
    assert known.find([first.cookie], active=True) is None
    second = known.enter(known.invite())
    assert second is not None
    assert known.find([first.cookie], active=True) is None
    for _ in range(100):
        now[0] += sessions.IDLE_SECONDS - 1
        if known.find([second.cookie], active=True) is None:
            break
    assert sessions.MOST_SECONDS < now[0] < sessions.MOST_SECONDS + 2 * sessions.IDLE_SECONDS
    token = known.invite()
    known.invite()
    assert known.enter(token) is None  # only the last one counts


def test_what_pages_ask_by_themselves_keeps_no_session_open(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "IDLE_SECONDS", 0.5)
    until(lambda: caller.ask("", sec_fetch_mode="cors").text == NOTHING)


def test_a_token_that_nobody_shows_in_time_opens_nothing() -> None:
    now = [0.0]
    known = Sessions(lambda: now[0])
    token = known.invite()
    now[0] = sessions.TOKEN_SECONDS
    assert not known.lapse()
    now[0] += 1
    assert known.enter(token) is None
    assert known.lapse()
    assert not known.lapse()  # it is told once
    now[0] = 0.0
    assert known.enter(token) is None
    assert known.enter(known.invite()) is not None


def test_the_log_says_how_to_get_another_address(
    settings: SiteSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_WATCH_SECONDS", 0.05)
    monkeypatch.setattr(sessions, "TOKEN_SECONDS", -1.0)
    told: list[str] = []
    with running(steward(settings), told) as (console, address, logged):
        until(lambda: any(f"kill -USR1 {os.getpid()}" in line for line in logged))
        assert stranger(address).ask(address.partition("http://")[2]).status == 403
        assert told == []
        monkeypatch.undo()
        console.renew()
        until(lambda: len(told) == 1)
        assert entered(told[0]).ask("").status == 200
        assert address.partition("token=")[2] not in "".join(logged)


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost", "", "127.0.0.1:{port}.evil"]
)
def test_a_foreign_host_is_shown_nothing_even_with_the_cookie(caller: Caller, host: str) -> None:
    reply = caller.ask("studies", host=host.format(port=caller.port))
    assert settings_free(reply.text)
    assert reply.status in (400, 403)


def settings_free(text: str) -> bool:
    return "elmwood" not in text and "<" not in text


def test_every_answer_forbids_what_pages_do_not_need(caller: Caller) -> None:
    replies = [caller.ask(path) for path in (*PAGES, "none", "static/console.js", "static/none")]
    replies += [caller.ask("studies", cookie=""), caller.ask("studies/approve", {"token": "x"})]
    replies += [caller.send("DELETE", f"{caller.root}/studies", {"host": caller.host})]
    for reply in replies:
        for name, value in guard.HEADERS.items():
            assert reply.headers[name] == value
        assert "server" not in reply.headers
    assert "default-src 'none'" in guard.POLICY
    assert "frame-ancestors 'none'" in guard.POLICY
    assert "unsafe" not in guard.POLICY


def test_only_the_owner_starts_it(
    settings: SiteSettings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    assert run(["console", "--folder", str(settings.folder), "--no-browser"]) == 2
    assert "belongs to" in capsys.readouterr().err


# What a form may do


FOREIGN: list[Any] = [
    {"origin": "http://evil.example"},
    {"origin": "null"},
    {"origin": ""},
    {"origin": "http://127.0.0.1:1"},
    {"origin": "http://localhost:{port}"},
    {"origin": "https://127.0.0.1:{port}"},
    {"origin": "http://127.0.0.1:{port}", "host": "localhost:{port}"},
    {"sec_fetch_site": "cross-site"},
    {"sec_fetch_site": "same-site"},
    {"sec_fetch_site": "none"},
    {"cookie": ""},
]


def test_no_other_page_can_send_a_form(caller: Caller, settings: SiteSettings) -> None:
    study = make_study()
    shown = caller.ask(put(settings, study))
    form = {**shown.fields(), **heard(study, shown), "who": WHO}
    for foreign in FOREIGN:
        headers = {name: value.format(port=caller.port) for name, value in foreign.items()}
        assert caller.ask("studies/approve", form, **headers).status == 403, headers
    for token in ("", "x", form["token"][:-1]):
        assert caller.ask("studies/approve", {**form, "token": token}).status == 403
    assert consents(settings) == []
    named = f"localhost:{caller.port}"
    asked = caller.ask("studies/approve", form, host=named, origin=f"http://{named}")
    assert asked.status == 303
    assert consents(settings) == [study.fingerprint]


def test_a_page_of_another_site_cannot_read_pages(caller: Caller) -> None:
    for site in ("cross-site", "same-site"):
        assert caller.ask("ledger", sec_fetch_site=site).text == NOTHING


def test_a_form_leads_back_to_pages_of_the_console_alone(caller: Caller) -> None:
    for back in ("//evil.example", "http://evil.example", "../x", "\\evil", "a\r\nx: y"):
        form = {"token": caller.token, "back": back, "key": "none"}
        reply = caller.drop("study", b"no study", "studies/drop", **form)
        assert reply.place == f"{caller.root}/"


def test_consent_needs_what_only_the_coordinator_can_say(
    caller: Caller, settings: SiteSettings
) -> None:
    study = make_study()
    page = put(settings, study, f"{study.fingerprint}.toml")
    shown = caller.ask(page)
    told = heard(study, shown)
    assert not [letters for letters in told.values() if letters in shown.text + page]
    assert sum(study.fingerprint[i : i + 8] in shown.text for i in range(0, 64, 8)) == 6
    form = {**shown.fields(), **told}
    wrong = {**form, **dict.fromkeys(told, "0" * 8)}
    reply = caller.ask("studies/approve", wrong)
    assert "somebody changed the study" in caller.ask(reply.place).text
    assert consents(settings) == []
    text = approve(caller, study, page)
    assert f"Approved by {WHO}" in text
    assert recorded(settings, study.fingerprint)[1].who == WHO


@pytest.mark.parametrize("columns", [2, 3])
def test_consent_names_three_columns_where_they_may_be_asked_for(
    caller: Caller, settings: SiteSettings, columns: int
) -> None:
    text = caller.ask(put(settings, make_study(columns=columns))).text
    assert "Consent is to the budget" in text
    assert ("any statistic, of up to three columns together, that the hub" in text) == (
        columns == 3
    )


def test_two_tabs_that_approve_at_once_give_one_consent(
    caller: Caller, settings: SiteSettings
) -> None:
    study = make_study()
    shown = caller.ask(put(settings, study))
    form = {**shown.fields(), **heard(study, shown)}
    people = [f"person {number}" for number in range(6)]
    tabs = [
        threading.Thread(target=caller.ask, args=("studies/approve", {**form, "who": who}))
        for who in people
    ]
    for tab in tabs:
        tab.start()
    for tab in tabs:
        tab.join()
    said = caller.ask("studies").text
    first = recorded(settings, study.fingerprint)[1].who
    assert said.count("Approved by ") == 1
    assert said.count(f"Already approved by {first}") == len(people) - 1


def test_the_console_is_no_way_around_caps_and_schemas(
    caller: Caller, settings: SiteSettings
) -> None:
    refused = {
        "large.toml": (make_study(epsilon=2.0), "more than the cap per study"),
        "other.toml": (make_study(sites=("lakeside",)), "this site is called"),
        "late.toml": (make_study(about=About(expires="2020-01-31")), "2020-01-31"),
    }
    for name, (study, why) in refused.items():
        shown = caller.ask(put(settings, study, name))
        assert why in shown.text.replace("&#39;", "'")
        assert "Approve this study" not in shown.text
        form = {"token": caller.token, "key": key_of(name), "who": WHO}
        caller.ask("studies/approve", form)
    assert consents(settings) == []


def test_a_study_that_hides_answers_is_approved_only_among_confirmed_keys(tmp_path: Path) -> None:
    sites = make_sites(tmp_path)
    own, study = sites["elmwood"], hidden_study(sites)
    page = put(own, study)
    confirmed = Peers.load(own.folder)
    Peers().save(own.folder)
    with running(steward(own)) as (_, address, _logged):
        caller = entered(address)
        shown = caller.ask(page).text
        assert "Roster" in shown
        assert "the same if each answer is seen by itself" in shown
        assert "Approve this study" not in shown
        confirmed.save(own.folder)
        assert f"Approved by {WHO}" in approve(caller, study, page)
        decided = f"studies/decided/{key_of(study.fingerprint)}"
        form = {**caller.ask(decided).fields(), "how": "withdraw", "sure": "yes", "who": WHO}
        reply = caller.ask("studies/withdraw", form)
        assert "its key is removed here" in caller.ask(reply.place).text
        assert "Approve" not in caller.ask(decided).text  # consent to such a study is given once


def test_consent_is_withdrawn_only_if_it_is_meant(caller: Caller, settings: SiteSettings) -> None:
    study = approved_study(settings)
    page = f"studies/decided/{key_of(study.fingerprint)}"
    form = {**caller.ask(page).fields(), "how": "withdraw", "sure": "", "who": WHO}
    reply = caller.ask("studies/withdraw", form)
    assert "nothing was changed" in caller.ask(reply.place).text
    caller.ask("studies/withdraw", {**form, "sure": "yes"})
    assert "was withdrawn" in caller.ask(page).text
    assert "Already" not in approve(caller, study, page)
    sheet = caller.ask(f"{page}/sheet")
    assert sheet.headers["content-disposition"].startswith("attachment")
    assert study.fingerprint[:8] in sheet.text
    caller.ask("studies/withdraw", {**form, "sure": "yes", "how": "close"})
    assert "Approve" not in caller.ask(page).text


def test_somebody_must_be_named_who_decides(caller: Caller, settings: SiteSettings) -> None:
    study = make_study()
    shown = caller.ask(put(settings, study))
    assert shown.fields()["who"] == ""
    reply = caller.ask("studies/approve", {**shown.fields(), **heard(study, shown)})
    assert "say who decides" in caller.ask(reply.place).text
    assert consents(settings) == []


def test_the_sheet_before_a_decision_has_not_what_the_page_asks_for(
    caller: Caller, settings: SiteSettings
) -> None:
    study = make_study()
    page = put(settings, study)
    told = heard(study, caller.ask(page))
    sheet = caller.ask(f"{page}/sheet")
    assert sheet.headers["content-disposition"].startswith("attachment")
    kept = [study.fingerprint[i : i + 8] for i in range(0, 64, 8)]
    said = sheet.text + str(sheet.headers)
    assert [group for group in kept if group not in said] == [*told.values()]


# What pages show


def test_a_study_that_carries_html_is_shown_as_text(caller: Caller, settings: SiteSettings) -> None:
    evil = '<script>alert(1)</script><img src=x onerror="alert(1)">'
    about = About(title=evil, purpose=f"\"'>{evil}", contact=evil)
    page = put(settings, make_study(about=about))
    for path in (page, "studies"):
        text = caller.ask(path).text
        assert "&lt;script&gt;alert(1)" in text
        assert "<script>alert" not in text
        assert "<img" not in text
    reply = caller.drop("study", evil.encode(), "studies/drop", back="studies")
    assert "<script>alert" not in caller.ask(reply.place).text


def test_ten_thousand_studies_wait_page_by_page(caller: Caller, settings: SiteSettings) -> None:
    put(settings, make_study())
    first = settings.folder / "inbox" / "study.toml"
    for number in range(9_999):
        os.link(first, first.with_name(f"copy-{number}.toml"))
    text = caller.ask("studies").text
    assert "10,000 in the inbox" in text
    assert text.count("waits for a decision") == 50
    assert "Page 1 of 200" in text
    assert caller.ask("studies?page=200").text.count("waits for a decision") == 50
    assert "Page 200 of 200" in caller.ask("studies?page=999999999").text
    assert "10,000 in the inbox" in caller.ask("").text
    (first.parent / "large.toml").write_bytes(b"#" * 2_000_000)
    assert "A large file" in caller.ask("studies").text


def test_the_inbox_says_what_each_file_waits_for(caller: Caller, settings: SiteSettings) -> None:
    put(settings, make_study(sites=("elmwood", "lakeside")), "new.toml")
    put(settings, approved_study(settings, seed=2), "old.toml")
    put(settings, make_study(about=About(expires="2020-01-31")), "late.toml")
    put(settings, make_study(sites=("lakeside",)), "other.toml")
    put(settings, make_study(epsilon=2.0), "large.toml")
    (settings.folder / "inbox" / "words.toml").write_text("no study")
    tally = (
        "6 in the inbox: 1 waits for a decision, 1 was decided on before, 1 is expired, 1 is for "
        "other sites, 1 cannot be approved, 1 cannot be read"
    )
    for page in ("", "studies"):
        assert tally in caller.ask(page).text
    text = caller.ask("studies").text
    assert "Asks elmwood, lakeside;" in text
    assert "its last day was 2020-01-31" in text
    assert "more than the cap per study" in text
    for name in ("new", "late", "other", "large", "words"):
        caller.ask("studies/remove", {"token": caller.token, "key": key_of(f"{name}.toml")})
    assert "1 in the inbox: 1 was decided on before" in caller.ask("").text


def test_a_study_that_used_all_it_may_has_a_full_bar(
    caller: Caller, settings: SiteSettings
) -> None:
    study = approved_study(settings)
    charge(settings, study, study.plan.budget)
    now = caller.ask("").text
    assert '<rect class="used" width="100.00"' in now
    assert "All of what it may spend is used" in now
    share = percent(study.plan.budget.rho / settings.cap.rho)
    page = caller.ask(f"studies/decided/{key_of(study.fingerprint)}").text
    assert f"may take up to {share} of all that this table may ever spend" in page
    assert f"This study has taken {share} so far." in page
    assert "Other studies have taken 0 % of it before" in page


def test_words_of_experts_are_folded(caller: Caller, settings: SiteSettings) -> None:
    study = approved_study(settings)
    charge(settings, study, study.plan.budget)
    waiting = put(settings, make_study(seed=3))
    for page in ("", "studies", waiting, f"studies/decided/{key_of(study.fingerprint)}"):
        text = caller.ask(page).text
        open_text = re.sub(r"<details.*?</details>", "", text, flags=re.DOTALL)
        assert not re.findall(r"\b(?:rho|sigma|flat|haar)\b", open_text), page


def test_a_schema_is_told_from_a_study(caller: Caller, settings: SiteSettings) -> None:
    data = settings.load_schema().to_toml().encode()
    reply = caller.drop("study", data, "studies/drop", back="studies")
    assert "this is a schema and no study" in caller.ask(reply.place).text


def test_what_is_no_study_is_refused_and_not_kept(caller: Caller, settings: SiteSettings) -> None:
    for data in (b"", b"[x", b"\xff\xfe", b"a = 1\n"):
        reply = caller.drop("study", data, "studies/drop", back="studies")
        text = caller.ask(reply.place).text
        assert 'role="alert"' in text
        assert "/heterofedsyn-" not in text  # where it lay for a moment
    assert not list((settings.folder / "inbox").glob("*"))
    data = make_study().to_toml().encode()
    places = {caller.drop("study", data, "studies/drop").place for _ in range(3)}
    assert len(places) == 1  # the same file again is the same study


def test_rows_are_counted_by_reason_and_marked_as_private(
    caller: Caller, settings: SiteSettings
) -> None:
    rows = Path(settings.source)
    rows.write_text(f"{rows.read_text()}secret-value,secret-value,secret-value\n")
    caller.ask("rows/check", {"token": caller.token})
    until = time.monotonic() + 20
    while "rows read" not in (shown := caller.ask("rows").text):
        assert time.monotonic() < until
        time.sleep(0.05)
    assert "301 rows read, 1 do not fit" in shown
    assert "being read" not in shown
    assert "computed from private rows: do not publish" in shown
    assert "1 unknown value" in shown
    assert "secret-value" not in shown


def test_a_disputed_ledger_is_told_on_every_page_that_needs_it(
    caller: Caller, settings: SiteSettings
) -> None:
    settings.anchor.unlink()
    assert "is missing" in caller.ask("").text
    assert "is missing" in caller.ask("ledger").text
    assert caller.ask("studies").status == 422


def test_a_repaired_ledger_is_told_before_a_decision(
    caller: Caller, settings: SiteSettings
) -> None:
    page = put(settings, make_study())
    words = "the ledger was repaired (entry 1), so entries may be missing"
    assert words not in caller.ask(page).text
    Books.repair(settings.folder, settings.anchor, settings.study_cap, restored=True)
    assert words in caller.ask(page).text


def test_the_ledger_shows_every_charge_and_the_agents_own_check(
    caller: Caller, settings: SiteSettings
) -> None:
    study = approved_study(settings)
    cost = study.plan.budget.split(1, 3)[0]
    charge(settings, study, cost, "one-way <b>")
    assert read_checked(settings.folder) is None
    keep_checked(settings.folder, ["noise looks as it should"], now=NOW)
    text = caller.ask("ledger").text
    assert "one-way &lt;b&gt;" in text
    assert f"{cost.rho:.4g}" in text
    assert "noise looks as it should" in text
    assert "agree: entry 1 is the last" in text
    assert "no agent answers" in text.lower()
    assert "1 charged query" in caller.ask("").text


def test_a_changed_receipt_does_not_hold(caller: Caller, settings: SiteSettings) -> None:
    study = approved_study(settings)
    charge(settings, study, study.plan.budget.split(1, 3)[0], "one-way")
    caller.ask("receipts/sign", {"token": caller.token, "key": key_of(study.fingerprint)})
    (file,) = settings.receipts.glob("*.json")
    signed = caller.ask(f"receipts/file/{file.name}").text.encode()
    by_itself = verified(caller, signed)
    assert "The receipt holds, if its key is the site" in by_itself  # anybody can make a key
    assert 'class="marked good"' not in by_itself
    known = json.loads(signed)["key"]
    assert "The receipt holds<" in verified(caller, signed, key=known)
    other = base64.b64encode(bytes(32)).decode()
    assert "The receipt does not hold" in verified(caller, signed, key=other)
    changed = signed.replace(b"one-way", b"two-way")
    assert changed != signed
    assert "The receipt does not hold" in verified(caller, changed)
    assert "does not hold" not in caller.ask("receipts").text  # it is said once
    secret = "-----BEGIN PRIVATE KEY-----abc"
    assert secret not in verified(caller, signed, key=secret)
    assert caller.ask("receipts/file/..%2f..%2fsite.toml").status == 404


def verified(caller: Caller, data: bytes, **texts: str) -> str:
    """The page that a receipt leads to; its forms lead back to a page that there is."""
    reply = caller.drop("receipt", data, "receipts/verify", **texts)
    assert reply.status == 303
    page = caller.ask(reply.place)
    assert caller.ask(page.fields()["back"]).status == 200
    return page.text


def test_pages_are_told_when_something_changes(caller: Caller, settings: SiteSettings) -> None:
    with socket.create_connection(("127.0.0.1", caller.port), timeout=20) as line:
        head = f"GET {caller.root}/events HTTP/1.1\r\nhost: {caller.host}\r\n"
        line.sendall(f"{head}cookie: {caller.cookie}\r\n\r\n".encode())
        heard_so_far = b""
        while b"retry" not in heard_so_far:
            heard_so_far += line.recv(4096)
        approved_study(settings)
        while b"event: changed" not in heard_so_far:
            heard_so_far += line.recv(4096)
    assert settings.name.encode() not in heard_so_far


def test_an_agent_that_was_killed_is_noticed(tmp_path: Path) -> None:
    place = tmp_path / "agent.sock"
    assert not agent_listens(place)
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(place))
        assert not agent_listens(place)
        agent.listen()
        assert agent_listens(place)
    assert place.exists()
    assert not agent_listens(place)


# How much, and for how long


def test_a_form_that_is_too_long_or_too_slow_is_not_waited_for(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "MOST_BODY_BYTES", 2_000)
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.3)
    assert caller.drop("study", b"x" * 3_000, "studies/drop").status == 413
    head = (
        f"POST {caller.root}/studies/drop HTTP/1.1\r\nhost: {caller.host}\r\n"
        f"cookie: {caller.cookie}\r\norigin: http://{caller.host}\r\n"
        "content-type: application/x-www-form-urlencoded\r\n"
    )
    for rest, status in (
        ("content-length: 100\r\n\r\ntoken", b"408"),
        (f"transfer-encoding: chunked\r\n\r\nbb9\r\n{'x' * 3001}\r\n", b"413"),
    ):
        with socket.create_connection(("127.0.0.1", caller.port), timeout=20) as line:
            line.sendall(f"{head}{rest}".encode())
            assert line.recv(4096).split()[1] == status


def test_a_request_whose_head_never_comes_is_closed(
    opened: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "HEAD_SECONDS", 0.3)
    port = stranger(opened[0]).port
    for begun in (b"", b"GET / HTTP/1.1\r\n"):
        with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
            line.sendall(begun)
            with suppress(ConnectionResetError):
                assert line.recv(100) == b""


def test_the_log_cannot_be_written_into(caller: Caller) -> None:
    before = len(caller.logged)
    caller.ask("none%0d%0aforged%1b%5b2J?secret=in-the-query")
    until = time.monotonic() + 5
    while len(caller.logged) == before:
        assert time.monotonic() < until
        time.sleep(0.01)
    line = caller.logged[-1]
    assert line.isprintable()
    assert "in-the-query" not in line


def test_a_port_that_is_taken_is_named(settings: SiteSettings) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = ["console", "--folder", str(settings.folder), "--no-browser", "--port", str(port)]
        assert run(command) == 2
