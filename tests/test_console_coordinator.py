"""The coordinator's console: it plans, words, shows and asks as the command line does."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from playwright.sync_api import Browser, expect

from console_support import Caller, entered, running
from console_window import EVIL, Opened, window
from heterofedsyn import FederatedSynthesizer
from heterofedsyn._words import aloud
from heterofedsyn.console import follower as following
from heterofedsyn.console.coordinator import coordinator
from heterofedsyn.console.coordinator_standing import standing
from heterofedsyn.console.follower import Follower
from heterofedsyn.console.planner import Planner, Setup
from heterofedsyn.engines.presence import Seen
from heterofedsyn.engines.progress import Progress, RoundProgress, State
from heterofedsyn.engines.study_run import StudyStatus
from heterofedsyn.errors import EngineError, HeterofedsynError
from heterofedsyn.exports import export
from heterofedsyn.hub import make_method
from heterofedsyn.hub.planning.forecast import EPSILONS, forecast
from heterofedsyn.hub.release import load
from heterofedsyn.masking.identity import key_fingerprint
from heterofedsyn.protocol.about import About
from heterofedsyn.protocol.study import Study
from heterofedsyn.schema import Schema
from heterofedsyn.simulate.drafting import draft_plan
from heterofedsyn.site.signing import Identity
from invented import SCHEMA, patients
from site_support import NOW, make_study

pytestmark = pytest.mark.thorough

PUBLIC = Schema.from_toml(SCHEMA)
WORDS = {
    "title": f"Falls {EVIL}",
    "purpose": "planning of beds",
    "contact": "Ada",
    "ethics_approval": "Board, 17/2029",
    "expires": "2999-12-31",
}


@pytest.fixture(scope="module", autouse=True)
def kept_apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tables for answers are not kept where this user keeps theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a schema and a release in it; nobody changes it."""
    folder = tmp_path_factory.mktemp("hub")
    PUBLIC.save(folder / "schema.toml")
    with pytest.warns(match="simulated noise"):
        fitted = FederatedSynthesizer(
            PUBLIC,
            epsilon=2,
            delta=1e-9,
            method="independent",
            noise_seed=1,
            about={"title": f"Stays {EVIL}"},
        ).fit({"one": patients(400), "two": patients(400, 1)})
    fitted.release.save(folder / "stays")
    (folder / "stays" / "report.html").write_text(f"<title>planted</title>{EVIL}")
    return folder


@pytest.fixture(scope="module")
def looking(released: Path) -> Iterator[Caller]:
    with running(coordinator(released, None)) as (_, address, _logged):
        yield entered(address)


@pytest.fixture
def working(tmp_path: Path) -> Iterator[Caller]:
    """Somebody whose folder has a schema and nothing else."""
    PUBLIC.save(tmp_path / "schema.toml")
    with running(coordinator(tmp_path, None)) as (_, address, _logged):
        yield entered(address)


def make(caller: Caller, **other: str) -> str:
    """What the console shows after the form of a study was sent."""
    usual = {"name": "falls", "schema": "schema", "sites": "one\r\ntwo", "trust": "local"}
    form = {**caller.ask("new").fields(), **usual, "method": "independent", **WORDS, **other}
    reply = caller.ask("new/make", form)
    assert reply.status == 303, reply.text
    return caller.ask(reply.place).text


# STUDIES


def test_pages_without_anything_to_show_say_what_to_do(tmp_path: Path) -> None:
    with running(coordinator(tmp_path, None)) as (_, address, _logged):
        caller = entered(address)
        said = {path: caller.ask(path).text for path in ("", "plan", "new", "releases")}
    for path, words in {
        "": "Plan one",
        "plan": "heterofedsyn schema draft",
        "new": "Drop one on the plan page",
        "releases": "heterofedsyn study run",
    }.items():
        assert words in said[path]


def test_a_study_that_is_worded_in_the_form_is_that_of_study_new(
    working: Caller, tmp_path: Path
) -> None:
    more = {"patience": "7.5", "most_rows": "9000", "conversion": "paper"}
    page = make(working, delta="1e-8", quorum="1", unit="person", rows_per_unit="2", **more)
    study = Study.load(tmp_path / "falls.toml")
    plan = study.plan
    assert dict(plan.said_about.said) == WORDS
    assert (plan.sites, plan.epsilon, plan.delta) == (("one", "two"), 1.0, 1e-8)
    assert (plan.unit, plan.rows_per_unit, study.quorum) == ("person", 2, 1)
    assert (study.patience, study.most_rows, plan.conversion) == (7.5, 9000, "paper")
    assert (plan.method, study.public.fingerprint) == ("independent", PUBLIC.fingerprint)
    for group in re.findall("........", study.fingerprint):
        assert group in page
    for text in WORDS.values():
        assert text in unescape(page)
    sent = working.ask("studies/falls/file")
    assert sent.text == (tmp_path / "falls.toml").read_text()
    assert "attachment" in sent.headers["content-disposition"]
    assert "Falls" in working.ask("").text


def test_a_study_of_sums_is_made_of_pasted_keys_and_shows_what_to_compare(
    working: Caller, tmp_path: Path
) -> None:
    keys = {name: Identity.fresh().public for name in ("one", "two", "oak")}
    sites = "\n".join(f"{name}={key}" for name, key in keys.items())
    page = make(working, trust="secure-aggregation", sites=sites, colluding="1")
    plan = Study.load(tmp_path / "falls.toml").plan
    assert plan.roster == keys
    for key in keys.values():
        assert aloud(key_fingerprint(key)) in page


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"quorum": "3"}, "quorum (3) must be in 1..2"),
        ({"epsilon": "one"}, "epsilon ('one') must be a number"),
        ({"expires": "2001-01-01"}, "expires (2001-01-01) is past"),
        ({"sites": "one one"}, "each with a name of its own"),
        ({"trust": "secure-aggregation", "sites": "a b c"}, "site a needs its public key"),
        ({"trust": "secure-aggregation", "sites": "a=/etc/passwd"}, "public key"),
        ({"name": "../falls"}, "is no name of a file"),
        ({"name": "schema"}, "exists already"),
        ({"schema": "none"}, "choose a schema"),
        ({"rows_per_unit": "2"}, "the column that identifies a person"),
    ],
)
def test_a_wrong_form_comes_back_with_what_was_written_and_one_line(
    working: Caller, tmp_path: Path, wrong: dict[str, str], words: str
) -> None:
    page = unescape(make(working, **wrong))
    assert words in page
    assert "root:" not in page
    assert WORDS["purpose"] in page
    assert [path.name for path in tmp_path.iterdir()] == ["schema.toml"]


def test_what_a_study_says_is_shown_as_text(working: Caller) -> None:
    for page in (make(working), working.ask("").text):
        assert EVIL not in page
        assert EVIL in unescape(page)


def test_an_expired_study_says_so(working: Caller, tmp_path: Path) -> None:
    make_study(PUBLIC, about=About(expires="2001-01-01")).save(tmp_path / "old.toml")
    for path in ("", "studies/old"):
        assert "its last day was 2001-01-01" in working.ask(path).text


@pytest.mark.parametrize("name", ["none", "..%2Fschema", "linked", "schema.toml", "%2Fetc"])
def test_nothing_outside_of_the_folder_is_a_study_or_release(
    working: Caller, tmp_path: Path, released: Path, name: str
) -> None:
    make_study(PUBLIC).save(tmp_path.parent / f"{tmp_path.name}-other.toml")
    (tmp_path / "linked.toml").symlink_to(tmp_path.parent / f"{tmp_path.name}-other.toml")
    (tmp_path / "linked").symlink_to(released / "stays")
    for path in (f"studies/{name}", f"studies/{name}/file", f"releases/{name}"):
        assert working.ask(path).status == 404
    assert "linked" not in working.ask("").text + working.ask("releases").text


# PLAN


def test_a_plan_expects_what_the_forecast_does() -> None:
    method, terms = make_method("independent"), {"delta": 1e-9, "sites": 3}
    setup = Setup(
        schema=PUBLIC,
        fingerprint=PUBLIC.fingerprint,
        rows=2_000,
        sites=3,
        trust="local",
        colluding=None,
        quorum=None,
        delta=1e-9,
        method="independent",
    )
    planner = Planner()
    planner.look(setup, 1.0)
    assert planner.wait(60)
    found = planner.look(setup, 1.0)
    assert {*found.outlooks} == {*EPSILONS}
    plan = draft_plan(PUBLIC, method, epsilon=3.0, **terms)  # type: ignore[arg-type]
    others = forecast(PUBLIC, plan, method, 2_000).others
    told = {outlook.epsilon: outlook for outlook in others if outlook.epsilon != 3.0}
    assert found.outlooks == told


def test_the_plan_page_shows_exact_noise_at_once_and_errors_when_they_are_known(
    looking: Caller,
) -> None:
    path = "plan?schema=schema&method=independent&sites=4&rows=1000&budget=3"
    first = looking.ask(path).text
    assert "2.00 times that of one place" in first
    for _ in range(200):
        page = looking.ask(path).text
        if "being worked out" not in page:
            break
        time.sleep(0.1)
    assert "being worked out" not in page
    assert "<polyline" in page
    summed = looking.ask(path + "&trust=secure-aggregation&quorum=3").text
    assert "1.41 times that of one place" in summed
    assert "Epsilon if more collude" in summed


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("rows=many", "rows ('many') must be a whole number"),
        ("rows=0", "rows (0) must be in"),
        ("sites=0", "sites (0) must be in"),
        ("sites=2&trust=secure-aggregation", "needs at least 3 sites"),
        ("delta=2", "delta"),
        ("budget=99", "budgets to choose from"),
        ("method=privsyn", "no federation can run method 'privsyn'"),
        ("trust=none", "there is no trust model 'none'"),
    ],
)
def test_a_wrong_plan_is_one_line_on_its_page(looking: Caller, wrong: str, words: str) -> None:
    for _ in range(100):
        page = looking.ask(f"plan?schema=schema&method=independent&{wrong}")
        if 'role="alert"' in page.text:
            break
        time.sleep(0.1)
    assert page.status == 200
    found = re.findall(r'<p class="marked poor" role="alert">([^<]*)</p>', page.text)
    assert len(found) == 1
    assert words in unescape(found[0])


def test_a_schema_that_is_dropped_can_be_planned_for(working: Caller, tmp_path: Path) -> None:
    reply = working.drop("schema", SCHEMA.encode(), "plan/drop", back="plan", name="other")
    assert reply.place.endswith("plan?schema=other")
    assert Schema.load(tmp_path / "other.toml").fingerprint == PUBLIC.fingerprint
    working.drop("schema", b"\xff", "plan/drop", back="plan", name="third")
    assert "not UTF-8" in working.ask("plan").text
    assert not (tmp_path / "third.toml").exists()


# RELEASES


def test_a_question_is_answered_as_the_release_does(looking: Caller, released: Path) -> None:
    sql = "SELECT ward, count(*) FROM release\r\nGROUP BY ward"
    fields = looking.ask("releases/stays").fields()
    reply = looking.ask("releases/ask", {**fields, "name": "stays", "question": sql})
    page = unescape(looking.ask(reply.place).text)
    for row in load(released / "stays").answer(sql).shown():
        for cell in row:
            assert cell in page
    assert "\nGROUP BY ward</textarea>" in page
    reply = looking.ask("releases/ask", {**fields, "name": "stays", "question": "DROP TABLE x"})
    assert 'role="alert"' in looking.ask(reply.place).text


def test_exports_and_files_are_those_of_the_release(looking: Caller, released: Path) -> None:
    release = load(released / "stays")
    assert looking.ask("releases/stays/export/dictionary").text == export(release, "dictionary")
    whole = (released / "stays" / "privacy.json").read_text()
    assert looking.ask("releases/stays/file/privacy.json").text == whole
    for path in ("export/none", "file/none", "file/..%2Fschema.toml", "page/none"):
        assert looking.ask(f"releases/stays/{path}").status in (404, 422)


def test_a_report_is_made_anew_and_shown_as_a_page_of_nobody(looking: Caller) -> None:
    reply = looking.ask("releases/stays/page/report")
    assert "planted" not in reply.text
    assert EVIL not in reply.text
    policy = reply.headers["content-security-policy"]
    assert policy.endswith("; frame-ancestors 'none'; sandbox")
    assert "default-src 'none'" in policy
    assert "script-src" not in policy
    assert "'self'" not in policy


def test_a_release_that_is_none_is_told_of_and_nothing_else_suffers(
    working: Caller, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for name in ("model", "privacy.json", "run.json"):
        (broken / name).write_bytes(b"x")
    page = working.ask("releases")
    assert page.status == 200
    assert "cannot be read" in page.text
    assert working.ask("releases/broken").status == 422


# SITES AND ROUNDS


def test_a_study_is_followed_while_somebody_looks_and_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(following, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(following, "AGAIN_SECONDS", 0.01)
    monkeypatch.setattr(following, "UNSEEN_SECONDS", 0.3)
    study, opened = make_study(PUBLIC), [0, 0]
    seen = Seen(site="elmwood", connected=True, last_seen=10.0)
    said: list[StudyStatus | Exception] = [EngineError("nobody is there"), RuntimeError("secret")]

    @contextmanager
    def session() -> Iterator[following.Ask]:
        opened[0] += 1
        try:
            yield answer
        finally:
            opened[1] += 1

    def answer(asked: Study) -> StudyStatus:
        if said and isinstance(said[0], Exception):
            raise said.pop(0)  # type: ignore[misc]
        return StudyStatus(study=asked.fingerprint, sites=(seen,))

    watch, problems = Follower(session), set()
    until = time.monotonic() + 20
    while (found := watch.look(study)).status is None and time.monotonic() < until:
        problems.add(found.problem)
        time.sleep(0.001)
    assert found.status is not None
    assert found.status.lines == [["elmwood", seen.words]]
    assert "secret" not in "".join(problems)
    turn = watch.turn
    assert turn >= 1
    while opened[0] != opened[1] and time.monotonic() < until:
        time.sleep(0.01)
    assert opened[0] == opened[1] == 3
    assert watch.look(study).status is None, "what is old is not shown as new"


def test_rounds_that_are_known_stay_until_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "LOOK_SECONDS", 0.01)
    study, asked = make_study(PUBLIC), threading.Event()
    seen = RoundProgress(round=1, label="total", parts=1, asked=("elmwood",))
    known = StudyStatus(study=study.fingerprint, job="1", status="RUNNING")
    said = [structs.replace(known, progress=Progress(study=study.fingerprint, rounds=(seen,)))]

    @contextmanager
    def session() -> Iterator[following.Ask]:
        yield answer

    def answer(_: Study) -> StudyStatus:
        if said:
            return said.pop()
        asked.set()
        return known

    watch = Follower(session)
    watch.look(study)
    assert asked.wait(20)
    time.sleep(0.05)
    found = watch.look(study).status
    assert found is not None
    assert found.rounds == ((1, "total"),)


def test_a_kit_that_is_none_is_told_on_the_page_of_the_study(tmp_path: Path) -> None:
    make_study(PUBLIC).save(tmp_path / "falls.toml")
    (tmp_path / "kit").mkdir()
    with running(coordinator(tmp_path, tmp_path / "kit")) as (_, address, _logged):
        caller = entered(address)
        for _ in range(100):
            page = caller.ask("studies/falls")
            if "is no administrator" in page.text:
                break
            time.sleep(0.05)
    assert page.status == 200
    assert "is no administrator" in page.text


def followed(study: Study) -> following.Session:
    """A federation that says how far a study is: one site answers, one is away."""
    rounds = (
        RoundProgress(round=1, label="total", parts=1, asked=study.plan.sites, answered=("one",)),
        RoundProgress(round=2, label="one-way", parts=3, asked=("one",)),
    )
    status = StudyStatus(
        study=study.fingerprint,
        job="77",
        status="RUNNING",
        progress=Progress(study=study.fingerprint, rounds=rounds),
        sites=(
            Seen(site="one", connected=True, last_seen=10.0),
            Seen(site="two", last_seen=90.0),
        ),
    )

    @contextmanager
    def session() -> Iterator[following.Ask]:
        yield lambda _: status

    return session


def test_sites_and_rounds_stand_on_the_page_of_a_study(tmp_path: Path) -> None:
    study = make_study(PUBLIC, sites=("one", "two"))
    study.save(tmp_path / "falls.toml")
    session = followed(study)
    with running(coordinator(tmp_path, tmp_path, session)) as (_, address, _logged):
        caller = entered(address)
        for _ in range(200):
            page = caller.ask("studies/falls").text
            if "Job 77" in page:
                break
            time.sleep(0.05)
    assert "It is running." in page
    assert "heterofedsyn study run" not in page
    with session() as ask:
        status = ask(study)
    assert [line[2:] for line in status.lines] == [["answered", "waiting"], ["waiting", "-"]]
    for words in (*status.head, *(cell for line in status.lines for cell in line)):
        assert f">{words}<" in page


LATER = datetime(2999, 1, 1, tzinfo=UTC)


def said_of(study: Study, status: str, **progress: Any) -> StudyStatus:
    known = Progress(study=study.fingerprint, **progress) if progress else None
    return StudyStatus(study=study.fingerprint, job="7", status=status, progress=known)


@pytest.mark.parametrize(
    ("status", "progress", "state", "words"),
    [
        ("RUNNING", {}, "is running", "It is running."),
        ("FINISHED:COMPLETED", {"state": State.DONE}, "is done", "not in this folder"),
        ("FINISHED:EXECUTION_EXCEPTION", {}, "came to no release", "look at the hub's log"),
        ("FINISHED:ABORTED", {}, "came to no release", "somebody stopped it"),
        ("FINISHED:NEWER_WORD", {}, "came to no release", "ended without a result"),
        (
            "FINISHED:EXECUTION_EXCEPTION",
            {"state": State.STOPPED, "message": "too few sites answered"},
            "came to no release",
            "It stopped: too few sites answered.",
        ),
    ],
)
def test_where_a_study_stands_is_one_verdict_in_plain_words(
    status: str, progress: dict[str, Any], state: str, words: str
) -> None:
    study = make_study(PUBLIC, about=About(expires="2990-01-01"))
    found = standing(study, said_of(study, status, **progress), (), NOW)
    assert found.state == state
    assert words in found.words
    assert not re.search("[A-Z]{2}", found.words)
    assert found.runnable == (state == "came to no release")
    late = standing(study, said_of(study, status, **progress), (), LATER)
    assert not late.runnable
    assert ("expired" in late.words) == found.runnable
    if state != "is running":
        released = standing(study, said_of(study, status, **progress), ["stays"], LATER)
        assert released.state == "came to a release"


def test_a_study_that_nobody_can_be_asked_for_is_neither_sent_nor_run(
    working: Caller, tmp_path: Path
) -> None:
    make_study(PUBLIC, about=About(expires="2001-01-01")).save(tmp_path / "old.toml")
    make_study(PUBLIC).save(tmp_path / "new.toml")
    asked = {name: working.ask(f"studies/{name}").text for name in ("old", "new")}
    for words in ("heterofedsyn study run", "to every steward"):
        assert words in asked["new"]
        assert words not in asked["old"]
    listed = working.ask("").text
    assert ">is expired<" in listed
    assert ">has no release yet<" in listed


def test_only_the_page_of_a_study_keeps_the_federation_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[str] = []
    role = coordinator(tmp_path, tmp_path, followed(make_study(PUBLIC)))
    for page in ("", "plan", "releases/stays", "studies/falls"):
        monkeypatch.setattr(Follower, "still_here", lambda _, page=page: kept.append(page))
        role.state(page)
    assert kept == ["studies/falls"]


def test_many_who_plan_at_once_do_not_work_in_parallel() -> None:
    planner = Planner()
    usual = {"trust": "local", "colluding": None, "quorum": None, "delta": 1e-9}
    setups = [
        Setup(PUBLIC, PUBLIC.fingerprint, 1_000 + n, 3, method="independent", **usual)  # type: ignore[arg-type]
        for n in range(20)
    ]
    before = threading.active_count()
    for setup in setups:
        planner.look(setup, 1.0)
    assert threading.active_count() <= before + 1
    assert planner.wait(120)
    assert {*planner.look(setups[-1], 1.0).outlooks} == {*EPSILONS}
    unknown = Setup(PUBLIC, PUBLIC.fingerprint, 0, 3, method="independent", **usual)  # type: ignore[arg-type]
    planner.look(unknown, 1.0)
    assert planner.wait(60)
    assert "rows (0)" in planner.look(unknown, 1.0).problems[1.0]
    with pytest.raises(HeterofedsynError):
        Setup(PUBLIC, PUBLIC.fingerprint, 9, 0, method="independent", **usual).plan(1.0)  # type: ignore[arg-type]


# IN A BROWSER


@pytest.fixture
def hub(released: Path, tmp_path: Path) -> Path:
    """A folder of one's own with a schema and a release."""
    PUBLIC.save(tmp_path / "schema.toml")
    load(released / "stays").save(tmp_path / "stays")
    return tmp_path


@pytest.mark.slow
def test_the_whole_journey_of_a_coordinator(browser: Browser, hub: Path) -> None:
    with (
        running(coordinator(hub, None)) as (_, address, _l),
        window(browser, address, "Studies") as seen,
    ):
        page = seen.page
        for words in ("Studies", "Plan", "New study", "Releases"):
            seen.link(words)
            seen.looks_well()

        seen.link("Plan")
        page.get_by_label("Method").select_option("independent")
        expected = page.locator("#expected")
        expect(expected).not_to_contain_text("being worked out", timeout=60_000)
        expect(expected.locator("dd").first).to_have_text("1")
        page.get_by_label("Epsilon, from").press("ArrowRight")
        expect(expected.locator("dd").first).to_have_text("2")
        page.get_by_label("Trust", exact=True).select_option("secure-aggregation")
        expect(expected).to_contain_text("Epsilon if more collude")
        expect(expected).not_to_contain_text("being worked out", timeout=60_000)
        seen.looks_well()
        page.get_by_label("Trust", exact=True).select_option("local")
        expect(expected).not_to_contain_text("Epsilon if more collude")
        page.get_by_role("link", name="Word a study of this plan").click()

        expect(page.get_by_label("Epsilon", exact=True)).to_have_value("2")
        for name, text in WORDS.items():
            page.locator(f"[name={name}]").fill(text)
        page.get_by_label("Sites, one").fill("elmwood\nlakeside")
        page.get_by_label("Quorum", exact=True).fill("9")
        page.get_by_role("button", name="Make the study").click()
        expect(page.locator(".said")).to_contain_text("quorum (9)")
        seen.looks_well()
        page.get_by_label("Quorum", exact=True).fill("")
        page.get_by_role("button", name="Make the study").click()
        expect(page.locator("h1")).to_have_text(WORDS["title"])
        study = Study.load(hub / "study.toml")
        assert (study.plan.epsilon, study.plan.sites) == (2.0, ("elmwood", "lakeside"))
        expect(page.locator("ol.groups")).to_contain_text(study.fingerprint[:8])
        seen.looks_well()

        seen.link("Releases")
        page.locator("#releases a").first.click()
        expect(page.locator("h1")).to_have_text(f"Stays {EVIL}")
        page.get_by_role("button", name="Ask").click()
        expect(page.locator("section#answer table")).to_be_visible(timeout=60_000)
        seen.looks_well()
        with page.expect_download() as file:
            page.get_by_role("link", name="dictionary", exact=True).click()
        assert file.value.suggested_filename == "stays-dictionary.md"
        shown_report(seen)
        assert page.title().startswith("Stays")
        seen.harmless()


@pytest.mark.slow
def test_sites_and_rounds_appear_without_a_reload(browser: Browser, tmp_path: Path) -> None:
    study = make_study(PUBLIC, sites=("one", "two"))
    study.save(tmp_path / "falls.toml")
    role = coordinator(tmp_path, tmp_path, followed(study))
    with running(role) as (_, address, _l), window(browser, address, "Studies") as seen:
        seen.page.goto(f"{address.partition('enter?')[0]}studies/falls")
        expect(seen.page.locator("#runs table")).to_contain_text("within 10 s")
        expect(seen.page.locator("#runs")).to_contain_text("It is running.")
        seen.looks_well()
        seen.harmless()


def shown_report(seen: Opened) -> None:
    """The report opens beside the page, in its own look, and knows nothing of the session."""
    with seen.page.context.expect_page() as beside:
        seen.page.get_by_role("link", name="What the table is good for").click()
    report = beside.value
    report.on("console", lambda message: seen.messages.append(message.text))
    expect(report.locator("h1")).to_contain_text("Report on a synthetic table")
    section = report.locator("section").first
    assert section.evaluate("one => getComputedStyle(one).borderRadius") != "0px"
    assert report.evaluate("self.origin") == "null"
    report.close()


@pytest.mark.slow
def test_a_coordinator_needs_no_script(browser: Browser, hub: Path) -> None:
    with (
        running(coordinator(hub, None)) as (_, address, _l),
        window(browser, address, "Studies", script=False) as seen,
    ):
        page = seen.page
        seen.link("Plan")
        page.get_by_label("Method").select_option("independent")
        page.get_by_label("Epsilon, from").fill("5")
        page.get_by_role("button", name="Foretell").click()
        expect(page.locator("#expected dd").first).to_have_text("5")
        page.get_by_role("link", name="Word a study of this plan").click()
        page.get_by_label("Sites, one").fill("one two")
        page.get_by_role("button", name="Make the study").click()
        expect(page.locator("h1")).to_have_text("A study without a title")
        assert Study.load(hub / "study.toml").plan.epsilon == 5.0
        seen.harmless()
