"""The console against those who have a session, or write what a steward will look at."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.responses import Response

from console_support import Caller, Reply, entered, heard, running
from heterofedsyn.console import row_check, serving, sessions, steward_site
from heterofedsyn.console.app import MOST_STREAMS
from heterofedsyn.console.coordinator import coordinator
from heterofedsyn.console.guard import NOTHING
from heterofedsyn.console.hidden_groups import KEY, MOST_WRONG
from heterofedsyn.console.inbox import Inbox, Waiting, key_of
from heterofedsyn.console.pages import MOST_MARKS, Do, Form, Visit, download
from heterofedsyn.console.row_check import RowCheck
from heterofedsyn.console.steward import steward
from heterofedsyn.console.steward_lists import MOST_LISTED_BYTES
from heterofedsyn.protocol.about import About
from heterofedsyn.protocol.study import Study
from heterofedsyn.schema import Schema
from heterofedsyn.site.settings import SiteSettings
from invented import SCHEMA
from site_support import WHO, make_site, make_study

pytestmark = pytest.mark.thorough


@pytest.fixture
def settings(tmp_path: Path) -> SiteSettings:
    return make_site(tmp_path)


@pytest.fixture
def caller(settings: SiteSettings) -> Iterator[Caller]:
    with running(steward(settings)) as (_, address, logged):
        found = entered(address)
        found.logged = logged
        yield found


def inbox(settings: SiteSettings) -> Path:
    folder = settings.folder / "inbox"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def put(settings: SiteSettings, study: Study, name: str = "study.toml") -> str:
    """A study in the watched folder; what its page is called."""
    study.save(inbox(settings) / name)
    return f"studies/waiting/{key_of(name)}"


def consents(settings: SiteSettings) -> list[Path]:
    return [*settings.studies.glob("*/consent.json")]


# FINGERPRINTS


def shown(reply: Reply, study: Study) -> set[str]:
    """The groups of a fingerprint that a page shows."""
    return {each for each in re.findall("........", study.fingerprint) if each in reply.text}


def test_wrong_answers_show_no_group_that_was_hidden(
    caller: Caller, settings: SiteSettings
) -> None:
    study = make_study()
    page = put(settings, study)
    first = caller.ask(page)
    seen, hidden = shown(first, study), heard(study, first)
    assert len(seen) == 6
    listed = shown(caller.ask("studies"), study)
    assert len(listed) == 1
    assert listed < seen
    form = {**first.fields(), **hidden, "who": WHO}
    one, other = hidden
    answers = [{one: "0" * 8}, {other: "0" * 8}, {one: hidden[other], other: hidden[one]}]
    answers += [{one: ""}] * (MOST_WRONG - len(answers))
    for wrong in answers:
        reply = caller.ask("studies/approve", {**form, **wrong})
        told = caller.ask(reply.place)
        assert "that is not this study" in told.text
        assert shown(told, study) == seen
    assert consents(settings) == []
    last = caller.ask(page)
    assert shown(last, study) == seen
    assert "heterofedsyn site approve" in last.text
    assert "Approve this study" not in last.text
    caller.ask("studies/approve", form)  # right, and too late
    assert consents(settings) == []


def test_what_is_hidden_stays_so_in_other_sessions_and_after_a_restart(
    settings: SiteSettings,
) -> None:
    studies = [make_study(seed=seed) for seed in range(4)]
    pages = [put(settings, study, f"{number}.toml") for number, study in enumerate(studies)]
    seen = []
    for _ in range(2):
        with running(steward(settings)) as (console, address, _logged):
            places: list[Callable[[], str]] = [lambda: address, console.invite]
            for place in places:
                caller = entered(place())
                seen.append(
                    [
                        frozenset(shown(caller.ask(page), study))
                        for page, study in zip(pages, studies, strict=True)
                    ]
                )
    assert len({tuple(each) for each in seen}) == 1
    assert (settings.folder / KEY).stat().st_mode & 0o777 == 0o600


def test_a_file_that_changed_after_it_was_seen_is_not_approved(
    caller: Caller, settings: SiteSettings
) -> None:
    seen, other = make_study(seed=1), make_study(seed=2)
    page = caller.ask(put(settings, seen))
    form = {**page.fields(), **heard(seen, page), "who": WHO}
    again = caller.ask(put(settings, other))
    assert shown(again, other)
    assert not shown(again, seen)
    told = caller.ask(caller.ask("studies/approve", form).place)
    assert "that is not this study" in told.text
    assert consents(settings) == []


def test_a_study_that_may_be_approved_again_hides_what_it_did_at_first(
    caller: Caller, settings: SiteSettings
) -> None:
    study = make_study()
    page = caller.ask(put(settings, study))
    seen = shown(page, study)
    caller.ask("studies/approve", {**page.fields(), **heard(study, page), "who": WHO})
    decided = f"studies/decided/{key_of(study.fingerprint)}"
    assert len(shown(caller.ask(decided), study)) == 8
    form = {**caller.ask(decided).fields(), "who": WHO, "sure": "yes", "how": "withdraw"}
    caller.ask("studies/withdraw", form)
    for place in (decided, f"{decided}/sheet"):
        reply = caller.ask(place)
        assert reply.status == 200
        assert shown(reply, study) == seen


# SESSIONS


@contextmanager
def told_of_changes(caller: Caller) -> Iterator[socket.socket]:
    """What an open page hears."""
    with asking_for_changes(caller) as line:
        until(line, b"retry")
        yield line


@contextmanager
def asking_for_changes(caller: Caller) -> Iterator[socket.socket]:
    """What a page hears that is being opened."""
    with socket.create_connection(("127.0.0.1", caller.port), timeout=20) as line:
        head = f"GET {caller.root}/events HTTP/1.1\r\nhost: {caller.host}\r\n"
        line.sendall(f"{head}cookie: {caller.cookie}\r\n\r\n".encode())
        yield line


def until(line: socket.socket, words: bytes) -> None:
    heard_so_far = b""
    while words not in heard_so_far:
        more = line.recv(4096)
        assert more
        heard_so_far += more


def test_pages_of_a_session_that_is_over_hear_nothing_more(
    settings: SiteSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_WATCH_SECONDS", 0.05)
    with running(steward(settings)) as (console, address, logged):
        first = entered(address)
        with told_of_changes(first) as line:
            second = entered(console.invite())  # the last one who showed a token has it
            until(line, b"event: over")
        with told_of_changes(second) as line:
            monkeypatch.setattr(sessions, "IDLE_SECONDS", -1.0)
            wait_for(logged, "the session is over")
            monkeypatch.undo()
            until(line, b"event: over")


def test_a_session_has_no_more_open_pages_than_it_may(caller: Caller) -> None:
    with ExitStack() as stack:
        for _ in range(MOST_STREAMS):
            stack.enter_context(told_of_changes(caller))
        line = stack.enter_context(asking_for_changes(caller))
        assert line.recv(12) == b"HTTP/1.1 429"
        assert caller.ask("").status == 200


@pytest.mark.parametrize("name", ["sec-fetch-site", "origin"])
def test_a_header_that_came_twice_says_nothing(caller: Caller, name: str) -> None:
    own = {"sec-fetch-site": "same-origin", "origin": f"http://{caller.host}"}
    token = caller.token
    for twice in ({}, {name.upper(): "http://evil.example"}):
        body = f"token={token}".encode()
        headers = {"host": caller.host, "cookie": caller.cookie, **own, **twice}
        headers["content-type"] = "application/x-www-form-urlencoded"
        reply = caller.send("POST", f"{caller.root}/rows/check", headers, body)
        assert (reply.text == NOTHING) is bool(twice)


def test_whoever_logs_out_needs_a_new_address(
    settings: SiteSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_WATCH_SECONDS", 0.05)
    with running(steward(settings)) as (console, address, logged):
        caller = entered(address)
        form = caller.ask("").fields()
        assert caller.ask("leave").status == 405
        assert caller.ask("leave", {**form, "token": "x"}).status == 403
        with told_of_changes(caller) as line:
            reply = caller.ask("leave", form)
            assert reply.status == 200
            assert caller.ask("").text == NOTHING
            until(line, b"event: over")
        wait_for(logged, "the session is over")
        said = reply.text + "\n".join(logged)
        assert not [each for each in (caller.root, caller.cookie, form["token"]) if each in said]
        assert entered(console.invite()).ask("").status == 200


def wait_for(logged: list[str], words: str) -> None:
    end = time.monotonic() + 10
    while not any(words in line for line in logged):
        assert time.monotonic() < end
        time.sleep(0.02)


# WHAT OTHERS PUT INTO THE INBOX


def test_nothing_is_computed_for_a_study_of_another_schema(
    caller: Caller, settings: SiteSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = make_study(Schema.from_toml(SCHEMA))
    assert study.public.fingerprint != settings.load_schema().fingerprint
    asked: list[str] = []
    monkeypatch.setattr(steward_site, "look_ahead", lambda study, site: asked.append(site))
    monkeypatch.setattr(RowCheck, "start", lambda *_args, **_terms: asked.append("rows"))
    page = put(settings, study)
    reply = caller.ask(page)
    assert reply.status == 200
    assert "another schema" in reply.text
    assert "Approve this study" not in reply.text
    form = {**reply.fields(), "who": WHO}
    for action in ("studies/check", "studies/approve"):
        place = caller.ask(action, {**form, **all_groups(study)}).place
        assert "another schema" in caller.ask(place).text
    assert asked == []
    assert consents(settings) == []


def all_groups(study: Study) -> dict[str, str]:
    return {f"group-{i}": study.fingerprint[8 * i : 8 * i + 8] for i in range(8)}


def test_a_file_that_cannot_be_read_hides_no_other_and_can_be_taken_out(
    caller: Caller, settings: SiteSettings
) -> None:
    folder = inbox(settings)
    for number in range(6):
        put(settings, make_study(seed=number), f"study-{number}.toml")
    (folder / "loop.toml").symlink_to("loop.toml")
    (folder / "nowhere.toml").symlink_to("missing")
    (folder / "words.toml").write_text("no study")
    (folder / "folder.toml").mkdir()
    listed = caller.ask("studies")
    assert listed.status == 200
    assert listed.text.count("waits for a decision") == 6
    assert listed.text.count(">cannot be read<") == 3
    assert "9 in the inbox: 6 wait for a decision, 3 cannot be read" in caller.ask("").text
    for name in ("loop.toml", "nowhere.toml", "words.toml"):
        page = caller.ask(f"studies/waiting/{key_of(name)}")
        assert page.status == 200
        caller.ask("studies/remove", page.fields())
        assert not (folder / name).is_symlink()
    assert "6 in the inbox" in caller.ask("").text


def test_a_file_that_goes_while_the_folder_is_read_hides_no_other(
    settings: SiteSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        put(settings, make_study(seed=number), f"study-{number}.toml")
    waiting = Inbox(settings.folder)
    listing = os.scandir

    @contextmanager
    def slow(folder: Path) -> Iterator[list[os.DirEntry[str]]]:
        with listing(folder) as entries:
            found = [*entries]
        Path(found[0].path).unlink()
        yield found

    monkeypatch.setattr(os, "scandir", slow)
    assert len(waiting.waiting()) == 3


def test_a_file_of_a_day_that_is_none_hides_no_other(settings: SiteSettings) -> None:
    for changed in (0, 2**70, -(2**70), 10**9 * 2**55):
        assert Waiting(settings.folder, "study.toml", changed, 1).when
    assert Waiting(settings.folder, "study.toml", 0, 1).when == "1970-01-01 00:00 UTC"


def test_a_study_that_no_site_could_answer_says_so_and_can_be_taken_out(
    caller: Caller, settings: SiteSettings
) -> None:
    study = make_study(epsilon=1e-300)
    reply = caller.ask(put(settings, study))
    assert reply.status == 200
    assert "the budget is too small" in reply.text
    assert "Approve this study" not in reply.text
    form = {**reply.fields(), **all_groups(study), "who": WHO}
    caller.ask("studies/approve", form)
    assert consents(settings) == []
    caller.ask("studies/remove", form)
    assert not [*inbox(settings).iterdir()]


def test_a_list_reads_small_files_alone(
    caller: Caller, settings: SiteSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    monkeypatch.setattr(Inbox, "study", lambda _, one: read.append(one.name))
    name = f"{make_study().fingerprint}.toml"
    (inbox(settings) / name).write_text("#" * (MOST_LISTED_BYTES + 1))
    text = caller.ask("studies").text
    assert "A large file" in text
    assert name[:8] not in text  # a page will ask for it
    assert read == []


def test_letters_that_a_terminal_or_page_obeys_are_escaped(
    caller: Caller, settings: SiteSettings
) -> None:
    evil = "a\x1b[2J\u202egpj.\u200b\x07<b>.toml"
    (inbox(settings) / evil).write_text("no study")
    for page in ("studies", f"studies/waiting/{key_of(evil)}"):
        text = caller.ask(page).text
        assert ">a\\x1b[2J\\u202egpj.\\u200b\\x07&lt;b&gt;.toml" in text
        assert str(settings.folder / "inbox" / "a") not in text
        assert not {*text} & {"\x1b", "\u202e", "\u200b", "\x07"}


def test_marks_of_a_letter_cover_nothing_else_on_a_page(
    caller: Caller, settings: SiteSettings
) -> None:
    mark = "\u0301"
    about = About(title=f"Falls{mark * 200}", purpose="Đặt lại: e\u0323\u0302")
    page = put(settings, make_study(about=about))
    for place in ("studies", page):
        text = caller.ask(place).text
        assert f"Falls{mark * MOST_MARKS}\\u0301" in text
        assert mark * (MOST_MARKS + 1) not in text
    assert about.purpose in text


# FORMS AND FILES


@pytest.mark.parametrize("who", ["steward", "coordinator"])
def test_no_form_does_anything_without_the_token_of_its_session(
    settings: SiteSettings, tmp_path: Path, who: str
) -> None:
    role = steward(settings) if who == "steward" else coordinator(tmp_path, None)
    done: list[str] = []

    def noting(path: str) -> Do:
        def note(visit: Visit, _: Form) -> Response:
            done.append(path)
            return visit.go("")

        return note

    noted = replace(role, actions={path: noting(path) for path in role.actions})
    assert len(noted.actions) >= 3
    with running(noted) as (_, address, _logged):
        caller = entered(address)
        token = caller.ask("").fields()["token"]
        for path in noted.actions:
            for wrong in ({}, {"token": ""}, {"token": token[:-1]}, {"token": f"{token}x"}):
                assert caller.ask(path, wrong).status == 403, path
            assert caller.ask(path, {"token": token}, cookie="").text == NOTHING
            assert caller.ask(path, {"token": token}, origin="http://evil.example").status == 403
        assert done == []
        for path in noted.actions:
            assert caller.ask(path, {"token": token}).status == 303
        assert done == [*noted.actions]


def test_a_download_is_named_by_plain_letters_whatever_it_is_called() -> None:
    for name in ('a"; filename="b.html', "a\r\nx-evil: 1", "a\u202egpj.exe", "../../b", "ä b;c"):
        told = download(b"x", name).headers["content-disposition"]
        assert re.fullmatch(r'attachment; filename="[A-Za-z0-9._-]+"', told), told


def test_what_a_form_did_is_told_to_a_person_and_not_to_a_page_that_looks_again(
    caller: Caller, settings: SiteSettings
) -> None:
    form = caller.ask(put(settings, make_study())).fields()
    place = caller.ask("studies/remove", form).place
    words = "nothing was approved"
    assert words not in caller.ask("", sec_fetch_mode="cors").text
    assert words in caller.ask(place, sec_fetch_mode="navigate").text
    assert words not in caller.ask(place).text  # it is said once
    caller.drop("receipt", b"{}", "receipts/verify")
    assert "does not hold" not in caller.ask("receipts", sec_fetch_mode="cors").text
    assert "does not hold" in caller.ask("receipts").text


def test_a_check_that_fails_unforeseen_quotes_no_row(
    caller: Caller,
    settings: SiteSettings,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    def fails(*_args: object) -> None:
        raise ZeroDivisionError("secret-value")

    monkeypatch.setattr(row_check, "fit_rows", fails)
    caller.ask("rows/check", {"token": caller.token})
    end = time.monotonic() + 10
    while "ended before all rows" not in (shown := caller.ask("rows").text):
        assert time.monotonic() < end
        time.sleep(0.05)
    said = capfd.readouterr()
    assert "secret-value" not in shown + said.out + said.err + "\n".join(caller.logged)
    assert "an unexpected ZeroDivisionError" in shown


def test_a_receipt_that_is_a_link_or_has_gone_hides_no_other(
    caller: Caller, settings: SiteSettings
) -> None:
    settings.receipts.mkdir(exist_ok=True)
    whole, link = f"{'0' * 32}-1.json", f"{'1' * 32}-1.json"
    (settings.receipts / whole).write_text("{}")
    (settings.receipts / link).symlink_to("nowhere")
    text = caller.ask("receipts").text
    assert whole in text
    assert link not in text


def test_only_receipts_are_downloaded(caller: Caller, settings: SiteSettings) -> None:
    settings.receipts.mkdir(exist_ok=True)
    name = f"{'0' * 32}-1.json"
    (settings.receipts / name).write_text("{}")
    reply = caller.ask(f"receipts/file/{name}")
    assert reply.text == "{}"
    assert reply.headers["content-disposition"] == f'attachment; filename="{name}"'
    assert reply.headers["content-type"] == "application/json"
    for other in ("notes.json", f"{name}.bak", f".{name}", f"{'f' * 31}-1.json"):
        (settings.receipts / other).write_text("not for a page")
        assert caller.ask(f"receipts/file/{other}").status == 404
        assert other not in caller.ask("receipts").text
