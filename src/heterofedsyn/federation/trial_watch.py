"""Ends all that a trial federation started once its owner is gone, however that ended.

The owner holds the other end of a pipe, which closes when it ends, even if it is killed. What was
started is known by a mark in its environment, which whatever it starts inherits. This runs as a
program of its own, so it needs the standard library alone.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

MARK = "HETEROFEDSYN_TRIAL"
"""Environment variable of every process of a trial."""

NOTE = ".trial"
"""A file of a trial's folder; it holds the mark, and is locked as long as anything may run."""

KEEP = b"k"
"""Said on the pipe when a folder is whole: it stays."""

GRACE = 5.0
"""Seconds in which processes may end by themselves; agents close their ledgers."""

_PROCESSES = Path("/proc")


def marked(mark: str) -> list[int]:
    """The processes of a trial, by their marks."""
    if not (_PROCESSES / "self" / "environ").exists():
        return _listed(mark)
    return [
        int(place.name)
        for place in _PROCESSES.iterdir()
        if place.name.isdigit() and _has(int(place.name), mark)
    ]


def end_all(mark: str, grace: float = GRACE) -> None:
    """End all processes of a trial; they are gone when this returns."""
    for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, grace)):
        until = time.monotonic() + seconds
        told: set[int] = set()
        while running := [pid for pid in marked(mark) if pid != os.getpid()]:
            for pid in running:
                # New ones may appear while others end; a second SIGTERM may hurry nobody.
                if pid not in told:
                    _tell(pid, number, mark)
                    told.add(pid)
            if time.monotonic() >= until:
                break
            time.sleep(0.05)
        else:
            return


def clear(mark: str, folder: Path, scratch: Path, *, keep: bool) -> None:
    """Leave nothing of a trial but its folder, and that only if it is kept."""
    end_all(mark)
    shutil.rmtree(scratch, ignore_errors=True)
    if not keep:
        remove_trial(folder, mark)


def remove_trial(folder: Path, mark: str) -> None:
    """Remove a trial's folder, and no other; one without a mark only if nothing is in it."""
    with contextlib.suppress(OSError, ValueError):
        if not (folder / NOTE).exists():
            folder.rmdir()
        elif (folder / NOTE).read_text("ascii") == mark:
            shutil.rmtree(folder, ignore_errors=True)


def _has(pid: int, mark: str) -> bool:
    try:
        words = (_PROCESSES / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:  # it ended, or is another user's
        return False
    return f"{MARK}={mark}".encode() in words


def _tell(pid: int, number: signal.Signals, mark: str) -> None:
    """Signal a process of the trial, and no other that got its number meanwhile."""
    with contextlib.suppress(OSError):
        if not hasattr(os, "pidfd_open"):
            os.kill(pid, number)
            return
        held = os.pidfd_open(pid)
        try:
            if _has(pid, mark):
                signal.pidfd_send_signal(held, number)
        finally:
            os.close(held)


def _listed(mark: str) -> list[int]:
    """The same where processes are no files."""
    command = ["ps", "-A", "-E", "-ww", "-o", "pid=,command="]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return [int(line.split()[0]) for line in said.splitlines() if f"{MARK}={mark}" in line]


def main() -> None:
    """Wait for the end of the pipe, then end and remove what is left."""
    mark, folder, scratch = sys.argv[1:]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    said = sys.stdin.buffer.read()
    clear(mark, Path(folder), Path(scratch), keep=KEEP in said)


if __name__ == "__main__":
    main()
