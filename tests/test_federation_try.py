"""`federation try`: a real federation on this machine, of which nothing is left but its folder."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("nvflare")

from heterofedsyn._defaults import SITE_OF_KIT
from heterofedsyn.cli.app import run
from heterofedsyn.errors import HeterofedsynError, UsageError
from heterofedsyn.federation.trial_processes import processes
from heterofedsyn.federation.trial_watch import MARK, NOTE, end_all, marked, remove_trial

BIN = Path(sys.executable).parent
PATIENCE = 60.0
MOST_SECONDS = 30.0
"""After the first word of a trial, in which it is interrupted."""

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks at /proc"),
]

SLEEPER = (
    "import subprocess, sys; subprocess.Popen(['sleep', '600'], start_new_session=True).wait()"
)
"""A program that starts another in a session of its own, as NVFlare does with its jobs."""

OWNER = """
import sys, time
from pathlib import Path
from heterofedsyn.federation.trial_processes import processes
with processes(Path(sys.argv[1])) as running:
    running.start("sleeper", [sys.executable, "-c", sys.argv[2]], {})
    running.until(lambda: running.number == 2, "both processes")
    (running.scratch / "left").write_text("there")
    print(running.mark, running.scratch, flush=True)
    time.sleep(600)
"""
"""Owns a trial of two processes until it is ended."""


@dataclass
class Owned:
    process: subprocess.Popen[bytes]
    folder: Path
    mark: str
    scratch: Path

    def gone(self) -> bool:
        """Whether no process, no folder and no scratch folder is left."""
        return not (marked(self.mark) or self.folder.exists() or self.scratch.exists())


@contextmanager
def owner(folder: Path) -> Iterator[Owned]:
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(folder), SLEEPER],
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(folder.parent)},
    )
    assert process.stdout is not None
    try:
        mark, scratch = process.stdout.readline().decode().split()
        yield Owned(process, folder, mark, Path(scratch))
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def until(holds: object, seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    assert callable(holds)
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


# ENDING


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL], ids=lambda n: n.name
)
def test_whatever_ends_a_trial_nothing_of_it_is_left(
    number: signal.Signals, tmp_path: Path
) -> None:
    with owner(tmp_path / "try") as owned:
        assert len(marked(owned.mark)) == 2
        owned.process.send_signal(number)
        owned.process.wait(PATIENCE)
        until(owned.gone)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_which_a_trial_runs_is_not_taken(tmp_path: Path) -> None:
    with owner(tmp_path / "try") as owned:
        with pytest.raises(UsageError, match="a trial runs in"), processes(tmp_path / "try"):
            pass
        assert len(marked(owned.mark)) == 2


def test_an_earlier_trial_is_replaced_and_nothing_else_is(tmp_path: Path) -> None:
    for _ in range(2):
        with processes(tmp_path / "try") as running:
            (running.folder / "made").touch(exist_ok=False)
            running.stays = True
        assert (tmp_path / "try" / "made").exists()
    (tmp_path / "mine").mkdir()
    for name, words in (("mine", "is no earlier trial"), ("no/where", "there is no folder")):
        with pytest.raises(UsageError, match=words), processes(tmp_path / name):
            pass
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "try"]


def fail(folder: Path) -> None:
    with processes(folder) as running:
        running.start("sleeper", [sys.executable, "-c", SLEEPER], {})
        raise ZeroDivisionError


def test_an_error_leaves_the_logs_and_no_process(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        fail(tmp_path / "try")
    assert marked((tmp_path / "try" / NOTE).read_text()) == []
    assert (tmp_path / "try" / "logs" / "sleeper.log").exists()


def test_a_process_that_ends_too_early_is_named_with_its_last_words(tmp_path: Path) -> None:
    with processes(tmp_path / "try") as running:
        running.start("sleeper", [sys.executable, "-c", "print('no rest')"], {})
        with pytest.raises(HeterofedsynError, match=r"ended too early; .* ends with: no rest"):
            running.until(lambda: False, "sleep")


def test_only_what_has_the_mark_is_ended_or_removed(tmp_path: Path) -> None:
    other = subprocess.Popen(["sleep", "600"], env={**os.environ, MARK: "other"})
    try:
        until(lambda: other.pid in marked("other"))
        end_all("mine")
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
    (tmp_path / NOTE).write_text("other")
    remove_trial(tmp_path, "mine")
    assert (tmp_path / NOTE).exists()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--trust", "blind"], "must be local or secure-aggregation"),
        (["--patients", "10"], "must be in 1000..1000000"),
        (["--folder", "."], "is the folder you are in"),
    ],
)
def test_what_cannot_be_tried_is_refused(
    more: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["federation", "try", *more]) == 2
    assert words in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


# THE WHOLE


def started(folder: Path, *more: str) -> subprocess.Popen[bytes]:
    """`federation try`, with a home and a folder for what is kept for a moment, both empty."""
    for name in ("home", "tmp"):
        (folder / name).mkdir(exist_ok=True)
    environment = {**os.environ, "HOME": str(folder / "home"), "TMPDIR": str(folder / "tmp")}
    with (folder / "said").open("wb") as said:
        return subprocess.Popen(
            [str(BIN / "heterofedsyn"), "federation", "try", "--folder", "try", *more],
            cwd=folder,
            env={**environment, "COLUMNS": "100", "MPLCONFIGDIR": str(folder / "home")},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
        )


def running_in(folder: Path) -> list[str]:
    """The processes whose command, folder or open files are of a trial in a folder."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                command = (place / "cmdline").read_bytes().decode("utf-8", "replace")
                where = str((place / "cwd").readlink())
            except OSError:
                continue
            if str(folder) in command or where.startswith(str(folder)):
                found.append(f"{place.name} {command}")
    return found


def listens(said: str) -> bool:
    """Whether anybody listens on the port of the server that was spoken of."""
    found = re.search(r"reaching the server localhost:(\d+)", said)
    with socket.socket() as probe:
        return found is not None and probe.connect_ex(("127.0.0.1", int(found[1]))) == 0


@pytest.mark.slow
def test_a_trial_comes_to_a_release_and_to_receipts_that_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under secure aggregation; README's is the other one."""
    process = started(tmp_path, "--trust", "secure-aggregation", "--patients", "4000")
    code = process.wait(500)
    said = (tmp_path / "said").read_text()
    assert code == 0, said
    assert "connected: elmwood, kingsbridge, lakeside" in said
    assert ": pairs, open, 3 of 3 sites answered" in said
    assert running_in(tmp_path) == []
    assert not listens(said)
    assert [*(tmp_path / "tmp").iterdir()] == []
    release = tmp_path / "try" / "release"
    assert {"report.html", "synthetic.csv", "privacy.json"} <= {p.name for p in release.iterdir()}
    assert json.loads((release / "privacy.json").read_text())["trust"] == "secure-aggregation"
    for site in ("elmwood", "kingsbridge", "lakeside"):
        key = tmp_path / "try" / site / SITE_OF_KIT / "key.pub"
        receipt = tmp_path / "try" / "receipts" / f"{site}.json"
        assert run(["site", "verify", str(receipt), "--key", str(key)]) == 0
    shown = [line.split()[1:] for line in said.splitlines() if line.startswith("  heterofedsyn ")]
    assert [words[:2] for words in shown] == [["site", "ledger"], ["site", "preview"]]
    monkeypatch.chdir(tmp_path)
    assert [run(words) for words in shown] == [0, 0]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_a_trial_that_is_interrupted_at_any_moment_leaves_no_process_port_or_half_of_a_folder(
    number: signal.Signals, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The moments are drawn from the seed that the head of a run says."""
    seed = request.config.option.hypothesis_seed
    moment = np.random.default_rng([int(seed or 0), number]).uniform(0, MOST_SECONDS)
    print(f"seed {seed}: {number.name} {moment:.1f} s after the first word")
    process = started(tmp_path, "--patients", "4000", "--keep")
    until(lambda: (tmp_path / "said").stat().st_size > 0)
    time.sleep(moment)
    process.send_signal(number)
    code = process.wait(PATIENCE)
    said = (tmp_path / "said").read_text()
    if (tmp_path / "try").exists():
        assert (tmp_path / "try" / "release" / "report.html").exists()
    else:
        assert code == 128 + number
        assert "nothing half-written is left" in said
    assert {path.name for path in tmp_path.iterdir()} <= {"home", "said", "tmp", "try"}
    assert running_in(tmp_path) == []
    assert not listens(said)
    assert [*(tmp_path / "tmp").iterdir()] == []
