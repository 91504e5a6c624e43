"""A coordinator is told who is there, whom a study waits for, and what to do when it stops."""

from __future__ import annotations

import io
import json
import socket
import sys
import time
from pathlib import Path

import msgspec
import pytest

pytest.importorskip("nvflare")

from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn.cli._options import seconds_of
from heterofedsyn.cli._show import Moving
from heterofedsyn.cli.app import run
from heterofedsyn.engines import study_run
from heterofedsyn.engines.nvflare.job import Hub, KitServer
from heterofedsyn.engines.presence import HEARD_SECONDS, Presence, Sightings
from heterofedsyn.engines.progress import Progress, RoundProgress, State
from heterofedsyn.engines.study_run import (
    Course,
    Stage,
    StudyStatus,
    run_study,
    stopped,
    study_status,
)
from heterofedsyn.errors import EngineError, HeterofedsynError, UsageError
from heterofedsyn.hub import Absence
from heterofedsyn.hub.replies import NO_ANSWER
from heterofedsyn.protocol.refusal import Reason
from quorum_support import SITES, study_of

pytestmark = pytest.mark.thorough

STUDY = study_of("allmarg", quorum=3)[0]


# WHO IS THERE


@given(st.dictionaries(st.sampled_from(SITES), st.floats(0, 1e4)), st.floats(0, 1e4))
def test_when_a_site_was_seen_is_told_in_tens_of_seconds(
    heard: dict[str, float], now: float
) -> None:
    found = Sightings(SITES).look(heard, now)
    assert [seen.site for seen in found.sites] == [*SITES]
    for seen in found.sites:
        assert (seen.last_seen is None) is (seen.site not in heard)
        if seen.last_seen is not None:
            assert seen.last_seen % 10 == 0
            assert seen.connected is (seen.last_seen <= HEARD_SECONDS)


@pytest.mark.parametrize("ahead", [-3_600.0, 0.0, 3_600.0])
def test_a_clock_that_is_wrong_hides_no_site_for_longer_than_it_takes_to_be_heard(
    ahead: float,
) -> None:
    sightings = Sightings(SITES)
    sightings.look(dict.fromkeys(SITES, 1_000 + ahead), 1_005)
    found = sightings.look(dict.fromkeys(SITES, 1_010 + ahead), 1_010)
    assert found.connected == SITES
    gone = sightings.look({SITES[0]: 1_060 + ahead, SITES[1]: 1_010 + ahead}, 1_060)
    assert gone.connected == (SITES[0],)
    assert [seen.last_seen for seen in gone.missing] == [50.0, None]


@pytest.mark.parametrize("ahead", [-3_600.0, -90.0, 0.0, 90.0, 3_600.0])
def test_a_status_is_the_same_however_wrong_the_clock_here_is(ahead: float) -> None:
    server = time.time() + ahead

    class There(Session):
        def get_connected_client_list(self) -> list[object]:
            return [client("one", server), client("two", server - 60)]

        def list_jobs(self, **_: object) -> list[object]:
            return []

    sites = study_status(Hub(There()), STUDY).sites
    assert [(seen.connected, seen.last_seen) for seen in sites[:3]] == [
        (True, 10.0),
        (False, 60.0),
        (False, None),
    ]


@given(st.floats(0, 1e4), st.floats(0, 1e4))
def test_a_site_that_was_heard_later_than_now_tells_that_the_clock_here_is_late(
    when: float, now: float
) -> None:
    found = Sightings(SITES).look({"one": now + when, "two": now + when - 60}, now)
    assert found.connected == ("one",)


def test_a_name_that_nobody_has_is_compared_with_sites_the_study_does_not_name() -> None:
    found = Sightings(("elmwood", "lakside")).look({"elmwood": 9.0, "lakeside": 9.0}, 10.0)
    assert found.others == ("lakeside",)
    assert found.hint("lakside") == "did you mean 'lakeside'?"
    assert not Presence(found.sites, ("north",)).hint("lakside")


# WAITING


class Session:
    """What a server says of who is connected."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def get_connected_client_list(self) -> list[object]:
        return [client(name, time.time()) for name in self.names]


def client(name: str, heard: float) -> object:
    return type("Client", (), {"name": name, "last_connect_time": heard})


def gathered(session: Session, wait: float, quorum: int = 3) -> list[Course]:
    begin = Course(stage=Stage.REACHING, seconds=0.0, server="hub:8002", quorum=quorum)
    sightings = Sightings(("elmwood", "kingsbridge", "lakside"))
    until = time.monotonic() + wait
    return list(study_run._gather(Hub(session), sightings, begin, until))


def test_a_study_that_lacks_sites_says_which_and_what_to_do() -> None:
    with pytest.raises(EngineError) as refused:
        gathered(Session("elmwood", "lakewide"), 0.0)
    said = str(refused.value)
    for words in (
        "1 of 3 sites are connected and the study needs 3",
        "nobody is connected as 'kingsbridge'",
        "nobody is connected as 'lakside' (did you mean 'lakewide'?)",
        "make it with `study new`",
        "ask kingsbridge to start the engine",
    ):
        assert words in said


def test_a_study_that_surely_names_a_site_wrongly_ends_at_once() -> None:
    with pytest.raises(UsageError) as refused:
        gathered(Session("elmwood", "lakeside"), 600.0)
    said = str(refused.value)
    assert "nobody is connected as 'lakside' (did you mean 'lakeside'?)" in said
    assert "`study new`" in said
    assert "kingsbridge" not in said


@given(st.sampled_from("abc123"), st.sampled_from("abc123"))
def test_sites_that_are_numbered_or_lettered_are_taken_for_no_slip(one: str, other: str) -> None:
    for stem in ("site-", "site", "ward_"):
        heard = {f"{stem}{other}": 9.0}
        found = Sightings((f"{stem}{one}",)).look(heard, 10.0)
        assert found.mistyped == ()


def test_a_study_goes_on_without_others_if_its_quorum_is_there() -> None:
    (course,) = gathered(Session("elmwood", "kingsbridge"), 0.0, quorum=2)
    assert course.presence is not None
    assert [seen.site for seen in course.presence.missing] == ["lakside"]


def test_a_study_begins_as_soon_as_all_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study_run, "LOOK_AGAIN", 0.01)
    session = Session("elmwood")
    begin = Course(stage=Stage.REACHING, seconds=0.0, server="hub:8002", quorum=1)
    events = study_run._gather(
        Hub(session), Sightings(("elmwood", "lakeside")), begin, time.monotonic() + 60
    )
    assert next(events).presence == Sightings(("elmwood", "lakeside")).look({"elmwood": 1.0}, 1.0)
    session.names = ("elmwood", "lakeside")
    assert [len(course.presence.missing) for course in events if course.presence] == [0]


def kit_of(folder: Path, port: object) -> Path:
    (folder / "startup").mkdir(parents=True)
    settings = {"admin": {"username": "a@b.org", "host": "localhost", "port": port}}
    (folder / "startup" / "fed_admin.json").write_text(json.dumps(settings))
    return folder


def test_a_server_that_is_away_is_said_to_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # and nobody listens
        kit = kit_of(tmp_path / "kit", held.getsockname()[1])
        STUDY.save(tmp_path / "study.toml")
        places = ["--kit", str(kit), "--out", str(tmp_path / "release")]
        code = run(["study", "run", str(tmp_path / "study.toml"), *places, "--wait", "0"])
    said = capsys.readouterr().err
    assert code == 1
    assert "reaching the server localhost:" in said
    assert "cannot be reached (Connection refused); ask at the hub whether it runs" in said
    assert not (tmp_path / "release").exists()


@pytest.mark.parametrize("port", ["here", None])
def test_a_kit_that_names_no_server_is_refused(port: object, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not say where the server is"):
        next(run_study(KitServer(kit_of(tmp_path / "kit", port)), STUDY, tmp_path / "out"))


@pytest.mark.parametrize(("text", "seconds"), [("0", 0), ("30s", 30), ("10m", 600), ("1.5h", 5400)])
def test_durations_are_read(text: str, seconds: float) -> None:
    assert seconds_of("--wait", text) == seconds


@pytest.mark.parametrize("text", ["", "s", "ten", "-1m", "1d", "nan", "inf", "1_0s", "9999h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="write 30s, 10m or 2h"):
        seconds_of("--wait", text)


def test_a_line_moves_on_a_terminal_and_is_said_now_and_then_elsewhere(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = Moving(after=10.0, again=60.0)
    for seconds in (0.0, 9.0, 11.0, 12.0, 70.0, 72.0):
        monkeypatch.setattr(time, "monotonic", lambda now=seconds: now)
        line.show("waiting for elmwood")
    line.clear()
    lines = [f"waiting for elmwood ({seconds} s)" for seconds in (11, 72)]
    assert capsys.readouterr().err.splitlines() == lines
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    line.show("waiting for \x1b[2Jelmwood")
    line.show("waiting")
    line.clear()
    said = terminal.getvalue()
    assert "\x1b" not in said
    assert "\n" not in said
    assert said.endswith("\r")


# HOW FAR


def round_of(number: int, label: str, **more: object) -> RoundProgress:
    fields = {"round": number, "label": label, "parts": 1, "asked": SITES, **more}
    return msgspec.convert(fields, RoundProgress)


def status_of(*rounds: RoundProgress, status: str = "RUNNING") -> StudyStatus:
    progress = Progress(study="s", rounds=rounds)
    return StudyStatus(study="s", job="j", status=status, progress=progress)


def test_a_status_is_a_table_of_sites_and_rounds() -> None:
    refused = {"site": "three", "reason": "refused (not approved)"}
    first = round_of(1, "total", answered=SITES[:2], absent=[refused], finished=True)
    second = round_of(2, "pairs", asked=SITES[:2], answered=SITES[:1])
    found = status_of(first, second)
    assert found.rounds == ((1, "total"), (2, "pairs"))
    assert [[found.cell(site, number) for number, _ in found.rounds] for site in SITES] == [
        ["answered", "answered"],
        ["answered", "waiting"],
        ["not approved", "-"],
    ]
    ended = msgspec.structs.replace(found, status="FINISHED:ABORTED")
    assert ended.cell("two", 2) == NO_ANSWER


def test_the_steps_of_a_round_are_one_column() -> None:
    steps = [
        round_of(1, "total", step=step, answered=SITES, finished=True, resumed=True)
        for step in ("masked", "agree", "open")
    ]
    found = status_of(*steps[:2], msgspec.structs.replace(steps[2], answered=SITES[:1]))
    assert found.rounds == ((1, "total"),)
    assert [found.cell(site, 1) for site in SITES] == ["kept", "waiting", "waiting"]


def test_a_status_for_programs_says_all_that_the_table_does() -> None:
    seen = Sightings(SITES).look({"one": 5.0}, 10.0)
    found = msgspec.structs.replace(status_of(round_of(1, "total")), sites=seen.sites)
    again = msgspec.convert(json.loads(json.dumps(msgspec.to_builtins(found))), StudyStatus)
    assert again == found


# WHY IT STOPPED


@pytest.mark.parametrize("finished", [False, True])
@pytest.mark.parametrize(
    ("reason", "remedy"),
    [
        (Absence.refused("", Reason.NOT_APPROVED).reason, "ask the steward of two for `site app"),
        (Absence.refused("", Reason.UNAVAILABLE).reason, "ask two to start the agent"),
        (Absence.refused("", Reason.OVER_THE_CAP).reason, "more than the steward of two allows"),
        (Absence.refused("", Reason.MALFORMED).reason, "see that two has the hub's version"),
        (NO_ANSWER, "ask two whether agent and engine run"),
    ],
)
def test_a_study_that_stopped_says_whom_to_ask_for_what(
    reason: str, remedy: str, finished: bool
) -> None:
    last = round_of(2, "pairs", absent=[{"site": "two", "reason": reason}])
    rounds = (round_of(1, "total", finished=True), last) if finished else (last,)
    error = stopped(Progress(study="s", state=State.STOPPED, message="2 are left", rounds=rounds))
    assert isinstance(error, HeterofedsynError)
    assert str(error).startswith("2 are left; ")
    assert remedy in str(error)
    assert ("--resume" in str(error)) is finished
