"""What a study says of itself is seen wherever it is met, and after its last day it is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from agent_support import FreshNoise, books_of
from heterofedsyn.errors import NotApproved, UsageError
from heterofedsyn.protocol import Study
from heterofedsyn.protocol.about import About
from heterofedsyn.protocol.refusal import Reason, Refused
from heterofedsyn.site.agent import Agent
from heterofedsyn.site.consent import approve
from invented import Desk
from site_support import NOW, WHO, make_message, make_site, make_study
from support import make_plan

pytestmark = pytest.mark.thorough

LAST = "2030-01-02"
"""The day of `NOW`."""

TEXTS = {
    "title": "Stays",
    "purpose": "planning of beds",
    "contact": "a@b.example",
    "ethics_approval": "Board of Elmwood, 17/2029",
    "expires": "2999-12-31",
}
OPTIONS = [word for name, text in TEXTS.items() for word in (f"--{name.replace('_', '-')}", text)]
BEFORE = "7e21528bc8cfa891a98114442fb031b12a52abb982a0040a2a6f7f3642ab79a3"
"""What the study below was called before there was more to say."""

OVER = datetime(2030, 1, 3, tzinfo=UTC)


@pytest.mark.parametrize("day", ["20300102", "2030-W01-3", "2030-1-2", "2030-02-30", "tomorrow"])
def test_a_last_day_is_written_in_one_way(day: str) -> None:
    with pytest.raises(UsageError, match="2030-12-31"):
        About(expires=day)


def test_a_study_is_open_until_its_last_day_ends_in_utc_wherever_the_clock_is() -> None:
    about = About(expires=LAST)
    for hours in (-12, 0, 14):
        zone = timezone(timedelta(hours=hours))
        about.check_open((OVER - timedelta(microseconds=1)).astimezone(zone))
        with pytest.raises(NotApproved, match="2030-01-02"):
            about.check_open(OVER.astimezone(zone))
    About().check_open(OVER)


def test_studies_that_say_no_more_than_before_keep_their_fingerprint() -> None:
    before = make_study(about=About("Stays", "planning of beds", "a@b.example"), seed=7)
    assert before.fingerprint == BEFORE
    texts: list[dict[str, str]] = [
        {},
        {"ethics_approval": "17/2029"},
        {"expires": LAST},
        {"expires": "2030-01-03"},
    ]
    names = {make_study(about=About(**said)).fingerprint for said in texts}
    assert len(names) == len(texts)


def test_an_agent_refuses_a_study_from_the_day_after_its_last_one(tmp_path: Path) -> None:
    settings = make_site(tmp_path)
    study = make_study(about=About(expires=LAST))
    approve(settings, study, who=WHO, now=NOW)
    times = [NOW, OVER]
    with books_of(settings) as books:
        agent = Agent(
            settings, books, noise=FreshNoise(), clock=lambda: times[0], log=lambda line: None
        )
        message = make_message(study, 0, 0.1)
        answer = agent.answer(message)
        spent = books.account.spent
        del times[0]
        for asked in (message, make_message(study, 1, 0.1)):  # also what was answered before
            with pytest.raises(Refused) as refused:
                agent.answer(asked)
            assert refused.value.reason is Reason.NOT_APPROVED
        assert answer
        assert books.account.spent == spent
    with pytest.raises(NotApproved, match="expired"):
        approve(settings, make_study(about=About(expires=LAST), seed=2), who=WHO, now=OVER)


def test_all_that_a_study_says_is_in_preview_consent_ledger_and_receipt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    desk = Desk(tmp_path, capsys)
    settings = make_site(tmp_path, folder=tmp_path / "site")
    schema = str(settings.schema)
    guarantee = ("--epsilon", "1", "--delta", "1e-9", "--method", "independent")
    new = ("study", "new", "--schema", schema, "--site", "elmwood", *guarantee)
    assert desk.run(*new, "--out", "study.toml", *OPTIONS) == 0, desk.err
    study = Study.load(tmp_path / "study.toml")
    assert dict(study.plan.said_about.said) == TEXTS
    lines = [f"{label.lower()}: {text}" for label, text in study.plan.said_about.worded]
    assert "ends after: 2999-12-31 (UTC)" in lines
    assert desk.run("site", "preview", "study.toml") == 0
    assert {*lines} <= {*desk.out.splitlines()}
    assert desk.run("site", "preview", "study.toml", "--json") == 0
    assert json.loads(desk.out)["about"] == TEXTS
    assert desk.run("site", "approve", "study.toml", "--yes") == 0
    assert {*lines} <= {*desk.err.splitlines()}
    with books_of(settings) as books:
        agent = Agent(settings, books, noise=FreshNoise(), log=lambda line: None)
        agent.answer(make_message(study, 0, 0.1))
    assert desk.run("site", "ledger") == 0
    assert "; ".join(lines) in desk.out
    assert desk.run("site", "ledger", "--json") == 0
    assert json.loads(desk.out)["about"] == {study.fingerprint: TEXTS}
    assert desk.run("site", "receipt", "study.toml", "--out", "receipt.json") == 0
    assert desk.run("site", "verify", "receipt.json") == 0
    assert {*lines} <= {*desk.out.splitlines()}


def test_an_expired_study_is_refused_before_anybody_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    desk = Desk(tmp_path, capsys)
    settings = make_site(tmp_path, folder=tmp_path / "site")
    new = ("study", "new", "--schema", settings.schema, "--site", "elmwood", "--epsilon", "1")
    desk.run(*new, "--delta", "1e-9", "--out", "new.toml", "--expires", "2001-01-01")
    desk.refused(2, "expires (2001-01-01) is past")
    schema = settings.load_schema()
    plan = make_plan(schema, ["elmwood"], about=About(expires="2001-01-01"))
    Study(plan=plan, schema=schema.settings, quorum=1).save(tmp_path / "old.toml")
    assert desk.run("site", "preview", "old.toml") == 0
    assert "it would be refused: the study expired: its last day was 2001-01-01 (UTC)" in desk.out
    desk.run("site", "approve", "old.toml", "--yes")
    desk.refused(3, "expired", "2001-01-01")
    desk.run("study", "run", "old.toml", "--kit", "no-kit", "--out", "release")
    desk.refused(3, "expired", "2001-01-01")
