"""The agent's socket: who may ask, and that nobody who asks can harm the others."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn._arrays import Integers
from heterofedsyn.errors import UsageError
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.protocol import Answer, decode
from heterofedsyn.protocol.limits import MOST_QUERY_BYTES, MOST_REQUEST_BYTES
from heterofedsyn.protocol.refusal import Reason, Refused
from heterofedsyn.protocol.socket import ask
from heterofedsyn.site.agent import Agent
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.log import MOST_LINES, SPELL_SECONDS, PacedLog
from heterofedsyn.site.server import MOST_CONNECTIONS, MOST_UNREAD_BYTES, Answering, Service, _peer
from heterofedsyn.site.settings import SETTINGS, SiteSettings
from site_support import approved_study, make_message, make_settings, make_site
from support import categories

pytestmark = pytest.mark.thorough

LENGTH = struct.Struct(">Q")
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="other users need root: run as root")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with a short path, since that of a socket is limited."""
    folder = Path(tempfile.mkdtemp(prefix="hfs-"))
    yield folder
    shutil.rmtree(folder)


class Echo:
    """Says back what it hears, once it may."""

    def __init__(self, times: int = 1) -> None:
        self.free = threading.Event()
        self.free.set()
        self.times = times

    def answer(self, message: bytes) -> bytes:
        if message == b"fail":
            raise ValueError("the secret value of a record")
        self.free.wait(30)
        return message * self.times

    def close(self) -> None:
        """Nobody waits for a turn here."""


class Refusing:
    """Says to all why, by the one reason that it is given or by that which they ask for."""

    def __init__(self, reason: Reason | None = None) -> None:
        self.reason = reason

    def answer(self, message: bytes) -> bytes:
        raise Refused(self.reason or Reason(message.decode()), "for the steward alone")

    def close(self) -> None:
        """Nobody waits for a turn here."""


def write_settings(settings: SiteSettings) -> None:
    """The settings of a service without a site behind it."""
    if not (settings.folder / SETTINGS).exists():
        settings.folder.mkdir(exist_ok=True)
        (settings.folder / SETTINGS).write_text(settings.to_toml())


@contextmanager
def serving(
    agent: Answering,
    settings: SiteSettings,
    log: Callable[[str], None] = lambda line: None,
    **seconds: float,
) -> Iterator[Service]:
    """A service in a thread of its own; stopped, and found to have stopped, at the end."""
    write_settings(settings)
    with Service(agent, settings, log=log, **seconds) as service:
        thread = threading.Thread(target=service.run)
        thread.start()
        try:
            yield service
        finally:
            service.stop()
            thread.join(30)
            assert not thread.is_alive()
            assert not settings.socket.exists()


@contextmanager
def connected(settings: SiteSettings) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(10)
        connection.connect(str(settings.socket))
        yield connection


def reason_of(settings: SiteSettings, message: bytes, timeout: float = 10.0) -> Reason:
    with pytest.raises(Refused) as refused:
        ask(settings.socket, message, timeout)
    return refused.value.reason


def said_to(settings: SiteSettings, message: bytes) -> bytes:
    """Every byte that comes back until the connection ends."""
    with connected(settings) as connection:
        connection.sendall(LENGTH.pack(len(message)) + message)
        return b"".join(iter(lambda: connection.recv(1000), b""))


def until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come to be in time"
        time.sleep(0.01)


# WHO MAY ASK


@pytest.mark.quick
def test_folder_and_socket_have_exactly_the_modes_that_let_the_group_in(place: Path) -> None:
    settings = make_settings(place, group="2" if os.geteuid() == 0 else str(os.getegid()))
    former = os.umask(0)
    try:
        with serving(Echo(), settings):
            folder, at = settings.socket.parent.lstat(), settings.socket.lstat()
            assert stat.S_IMODE(folder.st_mode) == 0o750
            assert stat.S_IMODE(at.st_mode) == 0o660
            for found in (folder, at):
                assert (found.st_uid, found.st_gid) == (os.geteuid(), settings.group_id())
        assert os.umask(0) == 0, "the mask of the process is as it was"
    finally:
        os.umask(former)


def test_a_folder_with_anything_else_in_it_is_not_taken(place: Path) -> None:
    settings = make_settings(place)
    settings.socket.parent.mkdir(mode=0o755)
    (settings.socket.parent / "other").touch()
    with pytest.raises(UsageError, match="nothing but the socket"), serving(Echo(), settings):
        pass
    assert stat.S_IMODE(settings.socket.parent.stat().st_mode) == 0o755
    assert [path.name for path in settings.socket.parent.iterdir()] == ["other"]


def test_a_socket_that_a_killed_agent_left_is_replaced(place: Path) -> None:
    settings = make_settings(place)
    settings.socket.parent.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as left:
        left.bind(str(settings.socket))
    with serving(Echo(), settings):
        assert ask(settings.socket, b"there?", 10) == b"there?"


def test_anything_but_a_socket_is_left_alone(place: Path) -> None:
    settings = make_settings(place)
    settings.socket.parent.mkdir()
    settings.socket.write_text("precious")
    with pytest.raises(UsageError, match="no socket"), serving(Echo(), settings):
        pass
    assert settings.socket.read_text() == "precious"


@pytest.mark.quick
def test_a_second_service_at_the_same_socket_refuses_and_harms_nobody(place: Path) -> None:
    settings = make_settings(place)
    with serving(Echo(), settings):
        with pytest.raises(UsageError, match="another agent answers"), serving(Echo(), settings):
            pass
        assert ask(settings.socket, b"still there?", 10) == b"still there?"


AS_USER = """
import os, sys
import numba, opendp.prelude, pyarrow.csv, typer, rich.table, rich.console
import cryptography.hazmat.primitives.serialization
from pathlib import Path
import heterofedsyn.cli.app, heterofedsyn.cli.site, heterofedsyn.cli._show
import heterofedsyn.hub.planning.preview
import heterofedsyn.site.agent, heterofedsyn.site.create, heterofedsyn.sources.csv_file
from heterofedsyn.protocol.refusal import Refused
from heterofedsyn.protocol.socket import ask
user, group, shared = (int(word) for word in sys.argv[1:4])
os.setgroups([shared])
os.setgid(group)
os.setuid(user)
if sys.argv[4] == "ask":
    try:
        sys.stdout.buffer.write(ask(Path(sys.argv[5]), sys.stdin.buffer.read(), 60))
    except Refused as refused:
        sys.exit(f"{refused.reason}: {refused}")
else:
    sys.argv[1:] = sys.argv[4:]
    heterofedsyn.cli.app.main()
"""
"""Imports as root, since other users may not be able to read where the package is."""

AGENT, ENGINE, STRANGER, SHARED = 1, 65534, 2, 65533


def as_user(user: int, *words: str | Path, shared: int = SHARED) -> list[str]:
    return [sys.executable, "-c", AS_USER, str(user), str(user), str(shared), *map(str, words)]


@pytest.mark.slow
@root_only
def test_the_engine_of_another_user_is_answered_and_a_stranger_is_not(place: Path) -> None:
    place.chmod(0o755)
    for name, user in (("home", AGENT), ("vault", AGENT)):
        (place / name).mkdir(mode=0o755)
        os.chown(place / name, user, user)
    settings = make_settings(
        place, folder=place / "home" / "site", engine=str(ENGINE), group=str(SHARED)
    )
    os.chown(settings.source, AGENT, AGENT)
    Path(settings.source).chmod(0o600)
    run_folder = settings.socket.parent
    run_folder.mkdir()
    os.chown(run_folder, AGENT, AGENT)
    environment = os.environ | {"NUMBA_CACHE_DIR": str(place / "cache"), "HOME": str(place)}
    (place / "cache").mkdir(mode=0o777)
    (place / "cache").chmod(0o777)
    where: list[str | Path] = ["--folder", settings.folder]
    made = subprocess.run(
        as_user(
            AGENT,
            *["site", "init", *where],
            *["--schema", str(settings.schema), "--data", str(settings.source)],
            *["--name", "elmwood", "--epsilon", "3", "--delta", "1e-9", "--study-epsilon", "1"],
            *["--anchor", str(settings.anchor), "--socket", str(settings.socket)],
            *["--engine", str(ENGINE), "--group", str(SHARED)],
        ),
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    found = settings.folder.stat()
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (AGENT, 0o700)
    study = approved_study(settings)
    for path in (settings.studies / study.fingerprint).rglob("*"):
        os.chown(path, AGENT, AGENT)
    os.chown(settings.studies / study.fingerprint, AGENT, AGENT)
    message = make_message(study, 1, 0.5)
    agent = subprocess.Popen(
        as_user(AGENT, "site", "serve", *where), env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        # It is there first, closed to all others, and then open to the group.
        until(lambda: settings.socket.exists() and settings.socket.lstat().st_mode & 0o060 != 0)
        at = settings.socket.lstat()
        assert (at.st_uid, at.st_gid, stat.S_IMODE(at.st_mode)) == (AGENT, SHARED, 0o660)
        folder = run_folder.lstat()
        assert (folder.st_uid, folder.st_gid) == (AGENT, SHARED)
        assert stat.S_IMODE(folder.st_mode) == 0o750

        def speak(user: int, shared: int) -> subprocess.CompletedProcess[bytes]:
            words = as_user(user, "ask", settings.socket, shared=shared)
            return subprocess.run(
                words, input=message, env=environment, capture_output=True, check=False
            )

        # Outside of the group the kernel stops it; within, the agent does, by its user number.
        outside, inside = speak(STRANGER, STRANGER), speak(STRANGER, SHARED)
        for refused in (outside, inside):
            assert refused.returncode == 1
            assert refused.stderr.startswith(b"unavailable")
            assert refused.stdout == b""
        assert b"Permission denied" in outside.stderr
        answered = speak(ENGINE, SHARED)
        assert answered.returncode == 0, answered.stderr
        answer = decode(answered.stdout, Answer)
        assert (answer.site, answer.simulated) == ("elmwood", False)
        for secret in (settings.folder / "ledger", Path(settings.source)):
            peep = subprocess.run(
                ["cat", secret],
                user=ENGINE,
                group=SHARED,
                extra_groups=[],
                capture_output=True,
                check=False,
            )
            assert peep.returncode != 0
            assert b"Permission denied" in peep.stderr
    finally:
        agent.terminate()
        _, said = agent.communicate(timeout=60)
    assert agent.returncode == 0, said
    assert not settings.socket.exists()
    assert "own user" not in made.stderr + said
    assert f"refused a connection of user {STRANGER}" in said
    assert "answered query 'question 1'" in said
    account = Books.read(settings.folder, settings.anchor)
    assert [charged.label for charged in account.charges] == ["question 1"]


# What other tests of this process imported may have threads, which the child does not use.
@pytest.mark.filterwarnings("ignore:.*fork:RuntimeWarning", "ignore:.*fork:DeprecationWarning")
@root_only
def test_users_with_large_numbers_are_told_apart(place: Path) -> None:
    place.chmod(0o755)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(place / "door"))
        (place / "door").chmod(0o777)
        listener.listen()
        child = os.fork()
        if child == 0:
            try:
                os.setuid(2**32 - 3)
                socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).connect(str(place / "door"))
            finally:
                os._exit(0)
        listener.settimeout(10)
        with listener.accept()[0] as connection:
            assert _peer(connection) == 2**32 - 3
        os.waitpid(child, 0)


# WHAT THEY CAN DO


def test_fifty_queries_at_once_are_answered_until_the_cap_and_refused_beyond_it(
    place: Path,
) -> None:
    settings = make_site(place, study_epsilon=3.0)
    study = approved_study(settings, epsilon=3.0)
    share = 1 / 32
    messages = [make_message(study, number, share) for number in range(50)]
    with (
        Books.open(settings.folder, settings.anchor) as books,
        serving(Agent(settings, books, log=lambda line: None), settings),
        ThreadPoolExecutor(50) as pool,
    ):

        def outcome(message: bytes) -> bytes | Reason:
            try:
                return ask(settings.socket, message, 60)
            except Refused as refused:
                return refused.reason

        found = list(pool.map(outcome, messages))
        again = list(pool.map(outcome, messages))
    answered = [answer for answer in found if isinstance(answer, bytes)]
    assert len(answered) == 32
    assert set(found) - set(answered) == {Reason.OVER_THE_CAP}
    assert again == found, "what was answered is answered alike, and the rest is refused again"
    assert len({decode(answer, Answer).query for answer in answered}) == 32
    account = Books.read(settings.folder, settings.anchor)
    assert len(account.charges) == 32
    assert 0.999 * settings.cap.rho < account.spent.rho <= settings.cap.rho


def test_garbage_is_refused_and_harms_nobody(place: Path) -> None:
    settings = make_site(place)
    study = approved_study(settings)
    rng = np.random.default_rng(1)
    with (
        Books.open(settings.folder, settings.anchor) as books,
        serving(Agent(settings, books, log=lambda line: None), settings),
    ):
        for _ in range(100):
            assert reason_of(settings, rng.bytes(int(rng.integers(1, 300)))) == Reason.MALFORMED
        for length in (0, MOST_REQUEST_BYTES + 1, 2**63, 2**64 - 1):
            with connected(settings) as connection:
                connection.sendall(LENGTH.pack(length))
                assert connection.recv(9) == bytes([3]) + LENGTH.pack(0)
                assert connection.recv(1) == b""
        assert reason_of(settings, b"x" * (MOST_QUERY_BYTES + 1)) == Reason.MALFORMED
        for part in (b"", b"\0\0", LENGTH.pack(100), LENGTH.pack(100) + b"only this"):
            with connected(settings) as connection:
                connection.sendall(part)
        answer = ask(settings.socket, make_message(study, 1, 0.1), 60)  # the first takes longest
        assert decode(answer, Answer).site == "elmwood"
    assert len(Books.read(settings.folder, settings.anchor).charges) == 1


@contextmanager
def half_open(settings: SiteSettings) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection that says nothing, and one that stops in the middle of its message."""
    with connected(settings) as idle, connected(settings) as slow:
        slow.sendall(LENGTH.pack(10) + b"half")
        yield idle, slow


def test_half_open_connections_do_not_hold_up_others(place: Path) -> None:
    settings = make_settings(place)
    with serving(Echo(), settings, request_seconds=600.0), half_open(settings) as waiting:
        assert ask(settings.socket, b"quick", 60) == b"quick"
        for connection in waiting:
            connection.setblocking(False)
            with pytest.raises(BlockingIOError):  # neither has ended
                connection.recv(1)


def test_half_open_connections_end(place: Path) -> None:
    settings = make_settings(place)
    said: list[str] = []
    with (
        serving(Echo(), settings, said.append, request_seconds=2.0),
        half_open(settings) as waiting,
    ):
        for connection in waiting:
            assert connection.recv(1) == b""
        until(lambda: sum("did not arrive" in line for line in said) == 2)


def test_a_client_that_does_not_take_its_answer_holds_up_nobody(place: Path) -> None:
    settings = make_settings(place)
    said: list[str] = []
    with (
        serving(Echo(times=2**22), settings, said.append, request_seconds=1.0),
        connected(settings) as lazy,
    ):
        lazy.sendall(LENGTH.pack(4) + b"much")
        assert len(ask(settings.socket, b"more", 30)) == 2**24
        until(lambda: any("not taken" in line for line in said))
    # And one that asks and leaves.
    with serving(Echo(times=2**22), settings, said.append):
        with connected(settings) as gone:
            gone.sendall(LENGTH.pack(4) + b"much")
        assert len(ask(settings.socket, b"more", 30)) == 2**24


def test_connections_beyond_the_limit_are_turned_away_until_there_is_room(place: Path) -> None:
    settings = make_settings(place)
    agent = Echo()
    agent.free.clear()
    with serving(agent, settings) as service, ThreadPoolExecutor(MOST_CONNECTIONS) as pool:
        waiting = [
            pool.submit(ask, settings.socket, b"%d" % number, 60)
            for number in range(MOST_CONNECTIONS)
        ]
        until(lambda: len(service._threads) == MOST_CONNECTIONS)
        assert reason_of(settings, b"one more") is Reason.UNAVAILABLE
        agent.free.set()
        assert [found.result() for found in waiting] == [
            b"%d" % number for number in range(MOST_CONNECTIONS)
        ]
        assert ask(settings.socket, b"now?", 10) == b"now?"


def test_announced_bytes_are_bounded_whatever_is_sent(place: Path) -> None:
    settings = make_settings(place)
    with serving(Echo(), settings):
        held = []
        for _ in range(8):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            connection.connect(str(settings.socket))
            connection.sendall(LENGTH.pack(MOST_QUERY_BYTES))
            held.append(connection)
        until(lambda: _room_is_full(settings))
        for connection in held:
            connection.close()
        until(lambda: not _room_is_full(settings))


def test_answers_that_nobody_reads_are_bounded_and_given_later(place: Path) -> None:
    settings = make_settings(place)
    size, many = MOST_UNREAD_BYTES // 4, 6
    said: list[str] = []
    with serving(Echo(times=size // 4), settings, said.append) as service, ExitStack() as held:
        lazy = [held.enter_context(connected(settings)) for _ in range(many)]
        for connection in lazy:
            connection.sendall(LENGTH.pack(4) + b"much")
        statuses = [connection.recv(1)[0] for connection in lazy]  # and no more of it
        assert sorted(statuses) == [0] * 4 + [4] * 2
        assert service._unread.left == 0
        held.close()
        until(lambda: service._unread.left == MOST_UNREAD_BYTES)
        assert len(ask(settings.socket, b"much", 60)) == size
    assert sum("not taken; the same query" in line for line in said) >= 2


def test_without_a_thread_for_a_connection_the_service_goes_on(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = make_settings(place)
    said: list[str] = []
    with serving(Echo(), settings, said.append):
        with monkeypatch.context() as patched:

            def none_left(thread: threading.Thread) -> None:
                raise RuntimeError("can't start new thread")

            patched.setattr(threading.Thread, "start", none_left)
            assert reason_of(settings, b"please") is Reason.UNAVAILABLE
        assert ask(settings.socket, b"now?", 10) == b"now?"
    assert any("no thread" in line for line in said)


def _room_is_full(settings: SiteSettings) -> bool:
    try:
        return ask(settings.socket, b"a", 10) != b"a"
    except Refused as refused:
        return refused.reason is Reason.UNAVAILABLE


def test_an_unforeseen_error_tells_the_hub_nothing_and_the_log_no_value(place: Path) -> None:
    settings = make_settings(place)
    said: list[str] = []
    with serving(Echo(), settings, said.append):
        assert reason_of(settings, b"fail") is Reason.UNAVAILABLE
        assert said_to(settings, b"fail") == bytes([4]) + LENGTH.pack(0)
        assert ask(settings.socket, b"next", 10) == b"next"
    assert any("ValueError" in line for line in said)
    assert not any("secret" in line for line in said)


@pytest.mark.quick
@pytest.mark.parametrize(
    ("reason", "word"),
    [
        (Reason.OVER_THE_CAP, 1),
        (Reason.NOT_APPROVED, 2),
        (Reason.MALFORMED, 3),
        (Reason.UNAVAILABLE, 4),
    ],
)
def test_a_refusal_is_one_of_four_words_and_not_a_byte_more(
    place: Path, reason: Reason, word: int
) -> None:
    settings = make_settings(place)
    said: list[str] = []
    with serving(Refusing(reason), settings, said.append):
        with pytest.raises(Refused) as refused:
            ask(settings.socket, b"please", 10)
        assert said_to(settings, b"please") == bytes([word]) + LENGTH.pack(0)
    assert refused.value.reason is reason
    assert "steward" not in str(refused.value)
    assert len(Reason) == 4
    assert sum("for the steward alone" in line for line in said) == 2


def test_without_an_agent_the_answer_is_unavailable(place: Path) -> None:
    settings = make_settings(place)
    assert reason_of(settings, b"anybody?") is Reason.UNAVAILABLE
    settings.socket.parent.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as deaf:
        deaf.bind(str(settings.socket))
        deaf.listen(1)
        assert reason_of(settings, b"anybody?", 0.3) is Reason.UNAVAILABLE
    long = place / ("x" * 200)
    with pytest.raises(Refused, match="too long"):
        ask(long, b"anybody?", 1)


# STOPPING


@pytest.mark.quick
def test_who_asked_before_the_end_is_answered_and_half_open_connections_are_not_waited_for(
    place: Path,
) -> None:
    settings = make_settings(place)
    agent = Echo()
    agent.free.clear()
    with ThreadPoolExecutor(1) as pool, serving(agent, settings) as service:
        asked = pool.submit(ask, settings.socket, b"in time", 30)
        with connected(settings) as idle:
            until(lambda: len(service._threads) == 2 and len(service._asking) == 1)
            service.stop()
            assert idle.recv(1) == b""
            until(lambda: not settings.socket.exists())
            agent.free.set()
            assert asked.result() == b"in time"


class Gate:
    """Noise that is drawn once it may be."""

    simulated = True

    def __init__(self) -> None:
        self.begun, self.free = threading.Event(), threading.Event()

    def draw(self, terms: Terms, alone: Budget, key: bytes) -> Integers:
        self.begun.set()
        assert self.free.wait(60)
        return np.zeros(terms.integers, dtype=np.int64)


def test_at_the_end_who_has_the_turn_is_answered_and_who_waits_is_refused_and_charged_nothing(
    place: Path,
) -> None:
    settings = make_site(place)
    study = approved_study(settings)
    gate, said = Gate(), list[str]()
    first, *others = (make_message(study, number, 0.01) for number in range(6))
    with (
        Books.open(settings.folder, settings.anchor) as books,
        ThreadPoolExecutor(6) as pool,
        serving(
            agent := Agent(settings, books, noise=gate, log=lambda line: None),
            settings,
            said.append,
        ) as service,
    ):
        try:
            asked = pool.submit(ask, settings.socket, first, 60)
            assert gate.begun.wait(60)
            waiting = [pool.submit(ask, settings.socket, message, 60) for message in others]
            until(lambda: agent._turns._waiting == len(others))
            service.stop()
            for one in waiting:  # while the first is still being answered
                with pytest.raises(Refused) as refused:
                    one.result(30)
                assert refused.value.reason is Reason.UNAVAILABLE
            assert not asked.done()
            with pytest.raises(Refused, match="the agent stops"):
                agent.answer(others[0])
        finally:
            gate.free.set()
        assert decode(asked.result(30), Answer).site == "elmwood"
    account = Books.read(settings.folder, settings.anchor)
    assert [charged.label for charged in account.charges] == ["question 0"]
    assert sum("the agent stops" in line for line in said) == len(others)


def test_an_answer_that_waits_for_its_tick_leaves_before_the_end(place: Path) -> None:
    settings = make_site(place, tick=4.0)
    study = approved_study(settings)
    with (
        Books.open(settings.folder, settings.anchor) as books,
        ThreadPoolExecutor(1) as pool,
    ):
        agent = Agent(settings, books, log=lambda line: None)
        with serving(agent, settings, stop_seconds=2.0) as service:
            asked = pool.submit(ask, settings.socket, make_message(study, 1, 0.1), 60)
            until(lambda: bool(books.account.answers))
        assert not service.busy, "what was charged and is ready was left behind"
        assert decode(asked.result(30), Answer).site == "elmwood"


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_answering_leaves_nothing_half_written(
    place: Path, how: signal.Signals
) -> None:
    settings = make_site(place, categories(200, 200))
    study = approved_study(settings)
    message = make_message(study, 1, 0.5, ("a0", "a1"))  # a second of noise
    agent = subprocess.Popen(
        [sys.executable, "-m", "heterofedsyn", "site", "serve", "--folder", str(settings.folder)],
        stderr=subprocess.PIPE,
        text=True,
    )
    with ThreadPoolExecutor(1) as pool, agent:
        try:
            until(settings.socket.exists)
            asked = pool.submit(ask, settings.socket, message, 60)
            until(lambda: bool(Books.read(settings.folder, settings.anchor).charges))
            agent.send_signal(how)
            _, said = agent.communicate(timeout=60)
        finally:
            agent.kill()
        answer = asked.result()
    assert agent.returncode == 0, said
    assert "REMARK: the engine runs as the agent's own user" in said
    assert "stopped" in said.splitlines()[-1]
    assert not settings.socket.exists()
    every = [path.name for path in settings.folder.rglob("*")]
    assert not [name for name in every if name.startswith(".") or name.endswith(".new")]
    with Books.open(settings.folder, settings.anchor) as books:
        query = decode(answer, Answer).query
        assert books.kept(query) == answer
        assert [charged.query for charged in books.account.charges] == [query]


def test_a_second_agent_on_the_same_ledger_refuses_to_start(place: Path) -> None:
    settings = make_site(place)
    with Books.open(settings.folder, settings.anchor):
        done = subprocess.run(
            [sys.executable, "-m", "heterofedsyn", "site", "serve", "--folder", settings.folder],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "in use by another agent" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not settings.socket.exists()


def test_a_signal_after_the_end_reaches_no_other_connection(place: Path) -> None:
    settings = make_settings(place)
    with serving(Echo(), settings) as service:
        assert service._listener is not None
        number = service._listener.fileno()
    # The number of a closed socket is soon that of another.
    here, there = socket.socketpair()
    with here, there, ExitStack() as stack:
        if number not in (here.fileno(), there.fileno()):
            os.dup2(here.fileno(), number)
            stack.callback(os.close, number)
        service.stop()
        service.stop()
        here.sendall(b"still there")
        assert there.recv(100) == b"still there"
    service.stop()
    service.close()


def test_a_service_that_is_told_to_stop_before_it_runs_ends_at_once(place: Path) -> None:
    settings = make_settings(place)
    write_settings(settings)
    service = Service(Echo(), settings, log=lambda line: None)
    service.stop()
    with service:
        service.run()
    assert not settings.socket.exists()


# SETTINGS AND LOG WHILE IT SERVES


def test_a_user_whom_the_settings_no_longer_name_is_not_heard(place: Path) -> None:
    settings = make_settings(place)
    write_settings(settings)
    path = settings.folder / SETTINGS
    whole = path.read_text()
    said: list[str] = []
    with serving(Echo(), settings, said.append):
        assert ask(settings.socket, b"before", 10) == b"before"
        path.write_text("nothing that settings could be")
        assert reason_of(settings, b"unreadable") is Reason.UNAVAILABLE
        path.write_text(whole)
        assert ask(settings.socket, b"as it was", 10) == b"as it was"


def test_another_engine_in_the_settings_ends_the_old_one_at_once(place: Path) -> None:
    settings = replace(make_settings(place), engine="4242")
    write_settings(settings)
    service = Service(Echo(), settings, log=lambda line: None)
    try:
        service._check_still_allowed(4242)
        changed = replace(settings, engine="4243")
        (settings.folder / SETTINGS).write_text(changed.to_toml())
        with pytest.raises(Refused) as refused:
            service._check_still_allowed(4242)
        assert refused.value.reason is Reason.UNAVAILABLE
        assert 4243 not in service._askers, "whom the settings name now waits for a restart"
    finally:
        service.close()


def test_a_log_has_a_rate_and_says_what_it_left_out(place: Path) -> None:
    settings = make_settings(place)
    said: list[str] = []

    with serving(Refusing(), settings, said.append):
        for _ in range(2 * MOST_LINES):
            assert reason_of(settings, b"malformed") is Reason.MALFORMED
        assert reason_of(settings, b"over the cap") is Reason.OVER_THE_CAP
    assert sum("refused (malformed): for the steward" in line for line in said) == MOST_LINES
    assert sum("refused (over the cap): for the steward" in line for line in said) == 1
    assert f"{MOST_LINES} more lines of this kind were left out: refused (malformed)" in said


def test_every_line_that_an_agent_left_out_is_said_by_its_end(place: Path) -> None:
    settings = make_site(place, tick=0.0)
    study = approved_study(settings)
    message = make_message(study, 1, 0.5)
    many = MOST_LINES + 10
    agent = subprocess.Popen(
        [sys.executable, "-m", "heterofedsyn", "site", "serve", "--folder", str(settings.folder)],
        stderr=subprocess.PIPE,
        text=True,
    )
    with agent:
        try:
            until(settings.socket.exists)
            for _ in range(many):
                ask(settings.socket, message, 60)
            agent.terminate()
            _, said = agent.communicate(timeout=60)
        finally:
            agent.kill()
    lines = said.splitlines()
    assert "stopped" in lines[-1]
    for kind, word in (("answered", "answered query"), ("sent", "Z sent ")):
        left_out = [line.split()[1] for line in lines if line.endswith(f"left out: {kind}")]
        assert sum(word in line for line in lines) + sum(map(int, left_out)) == many


@given(st.lists(st.tuples(st.floats(0, 30), st.sampled_from("abc")), max_size=2_000))
def test_every_line_of_a_log_is_written_or_counted(lines: list[tuple[float, str]]) -> None:
    now = 0.0
    written: list[str] = []
    log = PacedLog(written.append, lambda: now)
    times: dict[str, list[float]] = {kind: [] for kind in "abc"}
    for seconds, kind in lines:
        now += seconds / 100
        before = len(written)
        log(kind, f"line of {kind}")
        if f"line of {kind}" in written[before:]:
            times[kind].append(now)
    log.close()
    left_out = sum(int(line.split()[0].replace(",", "")) for line in written if "left out" in line)
    assert sum(line.startswith("line of") for line in written) + left_out == len(lines)
    for found in times.values():
        for i, start in enumerate(found):
            # At most two spells touch any minute.
            assert sum(when < start + SPELL_SECONDS for when in found[i:]) <= 2 * MOST_LINES
