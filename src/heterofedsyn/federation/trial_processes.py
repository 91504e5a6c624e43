"""The processes of a trial: started with a mark, watched, and ended whatever happens."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from heterofedsyn._files import check_place
from heterofedsyn.errors import HeterofedsynError, UsageError
from heterofedsyn.federation import trial_watch
from heterofedsyn.federation.trial_watch import KEEP, MARK, NOTE, clear, end_all, marked

READY_SECONDS = 60.0
"""In which a process is ready, or something is wrong."""

_LOOK_AGAIN = 0.05


@dataclass(eq=False)
class Processes:
    """What runs for a trial, and where it writes its logs.

    Attributes:
        scratch: a folder with a short path, for sockets, and for what nobody keeps.
        stays: whether the folder stays, whatever happens from now on.
    """

    folder: Path
    scratch: Path
    mark: str
    stays: bool = False
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def number(self) -> int:
        """How many processes run now, those that others started included."""
        return len(marked(self.mark))

    def start(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        hear: Callable[[str], None] | None = None,
    ) -> None:
        """Start a program in a session of its own, so that it hears no Ctrl-C.

        Args:
            hear: takes the lines of its output, which are in no log then.
        """
        with self.log(name).open("wb") as log:
            process = subprocess.Popen(
                list(command),
                cwd=self.scratch,
                env={**os.environ, "HOME": str(self.scratch), **environment},
                stdin=subprocess.DEVNULL,
                stdout=log if hear is None else subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self._running[name] = process
        if hear is not None:
            threading.Thread(target=_pass_on, args=(process, hear), daemon=True).start()

    def log(self, name: str) -> Path:
        """What a process says."""
        return self.folder / "logs" / f"{name.replace(' ', '-')}.log"

    def check(self) -> None:
        """Refuse to go on without a process that should run.

        Raises:
            HeterofedsynError: with the last line of its log.
        """
        for name, process in self._running.items():
            if process.poll() is not None:
                lines = self.log(name).read_text("utf-8", "replace").split("\n")
                last = next((line for line in reversed(lines) if line.strip()), "nothing")
                raise HeterofedsynError(
                    f"the {name} ended too early; its log is {self.log(name)} and ends with: {last}"
                )

    def until(self, ready: Callable[[], bool], what: str) -> None:
        """Wait until something is so.

        Raises:
            HeterofedsynError: if it takes too long, or a process ended.
        """
        end = time.monotonic() + READY_SECONDS
        while not ready():
            self.check()
            if time.monotonic() > end:
                raise HeterofedsynError(
                    f"{what} took more than {READY_SECONDS:.0f} s; see {self.folder / 'logs'}, and "
                    "try again when the machine has less to do"
                )
            time.sleep(_LOOK_AGAIN)

    def says(self, name: str, words: str) -> bool:
        """Whether a process has said something in its log."""
        return words in self.log(name).read_text("utf-8", "replace")

    def end(self) -> None:
        """End all that runs now; what others start afterwards is ended later."""
        end_all(self.mark, grace=0.2)

    def forget(self) -> None:
        """Take note that they ended."""
        for process in self._running.values():
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


@contextmanager
def processes(folder: Path) -> Iterator[Processes]:
    """A folder for a trial, and what runs in it; nothing runs and nothing lies elsewhere after it.

    An earlier trial's folder is replaced. Interrupted, the folder is removed unless it
    `stays`; so it does after an error, for its logs.

    Raises:
        UsageError: if the folder is anything else, or a trial runs there.
    """
    check_place(folder)
    place = Path(os.path.realpath(folder))
    _check_free(place)
    mark = secrets.token_hex(16)
    made = Processes(place, Path(tempfile.gettempdir()) / f"hfs-{mark[:8]}", mark)
    watch = None
    try:
        with _claimed(place, mark) as lock:
            watch = _watch(made, lock)
        made.scratch.mkdir(0o700)
        (place / "logs").mkdir()
        # What other programs start, and where they put what they keep for a moment.
        with _environment(mark, made.scratch):
            yield made
    except Exception:
        made.stays = True
        raise
    finally:
        with _undisturbed():
            if watch is None or _ended_badly(watch, made):
                clear(mark, place, made.scratch, keep=made.stays)
            made.forget()


def _pass_on(process: subprocess.Popen[bytes], hear: Callable[[str], None]) -> None:
    with suppress(ValueError):  # closed when all is over
        for line in process.stdout or ():
            hear(line.decode("utf-8", "replace").rstrip("\n"))


def _check_free(place: Path) -> None:
    """Refuse a folder that is no earlier trial's."""
    if not place.parent.is_dir():
        raise UsageError(f"there is no folder {place.parent}; make it first, or name another")
    if place.exists() and not (place / NOTE).is_file():
        raise UsageError(f"{place} exists already and is no earlier trial; name another folder")


@contextmanager
def _claimed(place: Path, mark: str) -> Iterator[int]:
    """An empty folder with the mark in it, and the lock of the mark, for whoever watches."""
    if place.exists():
        with (place / NOTE).open("rb") as former:
            try:
                fcntl.flock(former, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(
                    f"a trial runs in {place}, or is being ended; end it with Ctrl-C, or name "
                    "another folder"
                ) from None
            shutil.rmtree(place)
    place.mkdir(0o755)
    with (place / NOTE).open("wb", buffering=0) as note:
        note.write(mark.encode())
        fcntl.flock(note, fcntl.LOCK_EX)
        yield note.fileno()


def _watch(made: Processes, lock: int) -> subprocess.Popen[bytes]:
    """What ends all others; it holds the lock until nothing is left."""
    program = [sys.executable, "-I", trial_watch.__file__]
    return subprocess.Popen(
        [*program, made.mark, str(made.folder), str(made.scratch)],
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=(lock,),
    )


def _ended_badly(watch: subprocess.Popen[bytes], made: Processes) -> bool:
    """Tell it that all is over, and wait; whether it did not do its work."""
    watch.communicate(KEEP if made.stays else b"")
    return watch.returncode != 0


@contextmanager
def _environment(mark: str, scratch: Path) -> Iterator[None]:
    before, named = tempfile.tempdir, os.environ.get("TMPDIR")
    os.environ |= {MARK: mark, "TMPDIR": str(scratch)}
    tempfile.tempdir = str(scratch)
    try:
        yield
    finally:
        tempfile.tempdir = before
        del os.environ[MARK], os.environ["TMPDIR"]
        if named is not None:
            os.environ["TMPDIR"] = named


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Let no signal interrupt what cleans up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    before = {name: signal.signal(getattr(signal, name), _heed_nothing) for name in names}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


def _heed_nothing(number: int, frame: object) -> None:
    """Not `SIG_IGN`, which processes that are started would inherit."""
