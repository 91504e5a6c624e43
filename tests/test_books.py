"""The ledger on disk: nothing booked is ever lost unnoticed, and nothing is booked twice."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import settings as tuned
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from heterofedsyn.errors import (
    BudgetExceeded,
    HeterofedsynError,
    LedgerDisputed,
    LedgerUnavailable,
    UsageError,
)
from heterofedsyn.privacy.budget import Budget, together
from heterofedsyn.site.ledger.anchor import check_anchor_folder
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.ledger.entries import Chain

pytestmark = pytest.mark.thorough

CAP = Budget(1.0)
STUDY_CAP = Budget(0.25)
COST = Budget(0.01)


class Place:
    """Where one ledger lives."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "site"
        self.anchor = folder / "elsewhere" / "anchor"
        self.anchor.parent.mkdir(parents=True)
        self.ledger = self.folder / "ledger"
        Books.create(self.folder, self.anchor)

    def open(self) -> Books:
        return Books.open(self.folder, self.anchor)

    def read(self) -> Budget:
        return Books.read(self.folder, self.anchor).spent

    def repair(self) -> Budget:
        return Books.repair(self.folder, self.anchor, STUDY_CAP).spent

    def charge(self, *queries: str) -> None:
        with self.open() as books:
            for query in queries:
                charge(books, query)

    def refuses(self, words: str) -> None:
        """The ledger can neither be served from nor read as sound, and is left as it is."""
        before = self.ledger.read_bytes() if self.ledger.exists() else None
        for look in (self.open, self.read):
            with pytest.raises(LedgerDisputed, match=words) as caught:
                look()
            assert "\n" not in str(caught.value)
        assert before == (self.ledger.read_bytes() if self.ledger.exists() else None)


def charge(books: Books, query: str, cost: Budget = COST, study: str = "study") -> None:
    books.charge(study, query, f"label of {query}", cost, cap=CAP, study_cap=STUDY_CAP)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.quick
def test_what_is_charged_and_kept_is_there_after_reopening(place: Place) -> None:
    with place.open() as books:
        charge(books, "one")
        books.keep("one", b"an answer", b"a query")
        account = books.account
    with place.open() as books:
        assert books.account == account == Books.read(place.folder, place.anchor)
        assert books.kept("one") == b"an answer"
        assert books.kept("two") is None
        assert books.spent_on("study") == COST
        assert books.spent_on("another") == Budget(0.0)
    assert [c.query for c in account.charges] == ["one"]
    assert place.ledger.stat().st_mode & 0o777 == 0o600
    assert place.anchor.stat().st_mode & 0o777 == 0o600
    assert place.folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.quick
def test_a_query_is_charged_at_most_once(place: Place) -> None:
    for _ in range(3):
        place.charge("one", "one")
    assert place.read() == COST


@pytest.mark.quick
def test_a_charge_beyond_either_cap_books_nothing(place: Place) -> None:
    with place.open() as books:
        charge(books, "one", STUDY_CAP)
        with pytest.raises(BudgetExceeded, match="study 'study'"):
            charge(books, "two")
        for other in range(3):
            charge(books, f"of {other}", STUDY_CAP, study=f"study {other}")
        with pytest.raises(BudgetExceeded, match="table"):
            charge(books, "three", study="another")
        charge(books, "one", STUDY_CAP)  # paid already
        assert books.account.spent == CAP
    assert place.read() == CAP


def test_an_answer_that_was_never_charged_is_not_kept(place: Place) -> None:
    with place.open() as books:
        with pytest.raises(LedgerDisputed, match="never charged"):
            books.keep("one", b"an answer")
        assert books.kept("one") is None


def test_a_damaged_answer_is_never_replaced_by_another(place: Place) -> None:
    with place.open() as books:
        charge(books, "one")
        books.keep("one", b"an answer", b"a query")
        stored = place.folder / "answers" / "one"
        whole = stored.read_bytes()
        for damaged in (whole[:-1], whole[:10], b"", whole[:40] + b"\0" + whole[41:]):
            stored.write_bytes(damaged)
            with pytest.raises(LedgerUnavailable, match="damaged"):
                books.kept("one")


def test_an_answer_that_was_lost_is_never_drawn_again(place: Place) -> None:
    with place.open() as books:
        for query in ("one", "two"):
            charge(books, query)
            books.keep(query, f"answer to {query}".encode())
    answers = place.folder / "answers"
    (answers / "one").replace(answers / "two")
    for _ in range(2):
        with place.open() as books:
            for query in ("one", "two"):
                with pytest.raises(LedgerUnavailable, match="must not be drawn again"):
                    books.kept(query)
                with pytest.raises(LedgerDisputed, match="answered before"):
                    books.keep(query, b"another answer")


def test_a_stored_answer_that_the_ledger_does_not_know_never_left(place: Place) -> None:
    with place.open() as books:
        charge(books, "one")
        ledger, anchor = place.ledger.read_bytes(), place.anchor.read_bytes()
        books.keep("one", b"an answer")
    # As if the agent had died between the two.
    place.ledger.write_bytes(ledger)
    place.anchor.write_bytes(anchor)
    with place.open() as books:
        assert books.kept("one") is None
        books.keep("one", b"another answer")
        assert books.kept("one") == b"another answer"


def test_after_a_repair_only_what_is_known_to_be_answered_is_paid(place: Place) -> None:
    with place.open() as books:
        for query in ("one", "two"):
            charge(books, query)
        books.keep("one", b"an answer")
    place.anchor.unlink()
    spent = place.repair()
    with place.open() as books:
        assert books.kept("one") == b"an answer"
        books.charge("study", "one", "q", COST, cap=CAP, study_cap=STUDY_CAP)
        assert books.account.spent == spent
        books.charge("study", "two", "q", COST, cap=CAP, study_cap=STUDY_CAP)
        assert books.account.spent > spent


@pytest.mark.quick
def test_entries_form_a_chain_and_the_anchor_knows_its_end(place: Place) -> None:
    place.charge("one", "two", "three")
    lines = place.ledger.read_bytes().splitlines(keepends=True)
    heads = [hashlib.sha256(line).hexdigest() for line in lines]
    entries = [json.loads(line) for line in lines]
    assert [entry["number"] for entry in entries] == [0, 1, 2, 3]
    assert [entry["previous"] for entry in entries] == ["", *heads[:-1]]
    anchor = json.loads(place.anchor.read_bytes())
    assert anchor == {"number": 3, "head": heads[-1], "rho": place.read().rho}


def test_nothing_that_is_there_is_ever_made_anew(place: Place, tmp_path: Path) -> None:
    place.charge("one")
    for folder, anchor in (
        (place.folder, place.anchor),
        (place.folder, tmp_path / "new anchor"),
        (tmp_path / "new", place.anchor),
    ):
        with pytest.raises(LedgerDisputed, match="already"):
            Books.create(folder, anchor)
    assert place.read() == COST


# One agent at a time


def test_a_second_agent_refuses_to_start(place: Place) -> None:
    script = (
        "import sys; from pathlib import Path; from heterofedsyn.site.ledger.books import Books\n"
        "Books.open(Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", script, str(place.folder), str(place.anchor)]
    with place.open() as books:
        charge(books, "one")
        with pytest.raises(LedgerUnavailable, match="in use by another agent"):
            place.open()
        with pytest.raises(LedgerUnavailable, match="in use by another agent"):
            place.repair()
        other = subprocess.run(command, capture_output=True, text=True, check=False)
        assert other.returncode == 1
        assert "LedgerUnavailable" in other.stderr
        assert place.read() == COST  # reading needs no lock
        charge(books, "two")
    subprocess.run(command, check=True)


_SPENDING = (
    "import sys; from pathlib import Path; from heterofedsyn.site.ledger.books import Books\n"
    "from heterofedsyn.errors import HeterofedsynError\n"
    "from heterofedsyn.privacy.budget import Budget\n"
    "books = None\n"
    "for line in sys.stdin:\n"
    "    try:\n"
    "        books = books or Books.open(Path(sys.argv[1]), Path(sys.argv[2]))\n"
    "        one = Budget(0.25)\n"
    "        books.charge('s', line, 'q', one, cap=Budget(0.5), study_cap=Budget(0.5))\n"
    "        books.keep(line, b'an answer')\n"
    "        print('released', flush=True)\n"
    "    except HeterofedsynError as error:\n"
    "        print(type(error).__name__, flush=True)\n"
)


@pytest.mark.parametrize("locked", [True, False])
def test_two_agents_on_copies_of_a_site_never_release_more_than_the_cap_together(
    place: Place, tmp_path: Path, locked: bool
) -> None:
    shutil.copytree(place.folder, tmp_path / "copy")
    folders = (place.folder, tmp_path / "copy")
    agents = [
        subprocess.Popen(
            [sys.executable, "-c", _SPENDING, str(folder), str(place.anchor)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for folder in folders
    ]
    said: list[list[str]] = [[], []]
    for turn in range(3):
        for agent, heard in zip(agents, said, strict=True):
            assert agent.stdin is not None
            assert agent.stdout is not None
            print(f"query {turn}", file=agent.stdin, flush=True)
            heard.append(agent.stdout.readline().strip())
            if not locked:  # as on two machines whose file system does not share locks
                (place.anchor.with_name("anchor.lock")).unlink(missing_ok=True)
    for agent in agents:
        agent.communicate()
        assert agent.returncode == 0
    refused = "LedgerUnavailable" if locked else "LedgerDisputed"
    assert said == [["released", "released", "BudgetExceeded"], [refused] * 3]


def test_an_agent_whose_anchor_another_moved_on_books_nothing_more(
    place: Place, tmp_path: Path
) -> None:
    with place.open() as books:
        shutil.copytree(place.folder, tmp_path / "copy")
        place.anchor.with_name("anchor.lock").unlink()  # as if locks were not shared
        with Books.open(tmp_path / "copy", place.anchor) as other:
            charge(other, "one")
            known, before = place.anchor.read_bytes(), place.ledger.read_bytes()
            for _ in range(2):
                with pytest.raises(LedgerDisputed, match="knows entry 1"):
                    charge(books, "two")
            assert (place.anchor.read_bytes(), place.ledger.read_bytes()) == (known, before)
            charge(other, "three")


def test_a_copy_is_not_repaired_while_an_agent_serves(place: Place, tmp_path: Path) -> None:
    shutil.copytree(place.folder, tmp_path / "copy")
    (tmp_path / "link").symlink_to(place.anchor)
    with place.open():
        for anchor in (place.anchor, tmp_path / "link"):
            with pytest.raises(LedgerUnavailable, match="in use by another agent"):
                Books.repair(tmp_path / "copy", anchor, STUDY_CAP)


def test_closed_books_are_not_opened_by_the_next_query(place: Place) -> None:
    with place.open() as books:
        charge(books, "one")
        books.keep("one", b"an answer")
        charge(books, "two")
    before = place.ledger.read_bytes()
    uses: list[Callable[[], object]] = [
        lambda: charge(books, "one"),
        lambda: charge(books, "three"),
        lambda: books.kept("one"),
        lambda: books.kept("three"),
        lambda: books.keep("two", b"an answer"),
    ]
    for use in uses:
        with pytest.raises(LedgerUnavailable, match="is closed"):
            use()
    assert place.ledger.read_bytes() == before
    with place.open():
        books.close()  # once more: it takes nothing from the one who has them now
        with pytest.raises(LedgerUnavailable, match="in use"):
            place.open()


def test_a_ledger_can_be_read_at_every_moment_while_an_agent_writes(place: Place) -> None:
    script = (
        "import sys; from pathlib import Path; from heterofedsyn.site.ledger.books import Books\n"
        "from heterofedsyn.privacy.budget import Budget\n"
        "books = Books.open(Path(sys.argv[1]), Path(sys.argv[2])); print('ready', flush=True)\n"
        "for i in range(300):\n"
        "    books.charge('s', str(i), 'q', Budget(1e-6), cap=Budget(1), study_cap=Budget(1))\n"
    )
    command = [sys.executable, "-c", script, str(place.folder), str(place.anchor)]
    seen = []
    with subprocess.Popen(command, stdout=subprocess.PIPE) as agent:
        assert agent.stdout is not None
        agent.stdout.readline()
        while agent.poll() is None:
            seen.append(Books.read(place.folder, place.anchor).number)
    assert agent.returncode == 0
    assert seen == sorted(seen)
    assert len(set(seen)) > 10
    assert Books.read(place.folder, place.anchor).number == 300


# Crashes and restored copies


@pytest.mark.quick
def test_a_ledger_one_entry_ahead_of_its_anchor_is_normal(place: Place) -> None:
    place.charge("one", "two")
    before = place.anchor.read_bytes()
    place.charge("three")
    after = place.anchor.read_bytes()
    place.anchor.write_bytes(before)
    assert place.read() == together([COST] * 3)
    with place.open() as books:
        assert [c.query for c in books.account.charges] == ["one", "two", "three"]
        assert place.anchor.read_bytes() == after


def test_a_ledger_several_entries_ahead_of_its_anchor_is_refused(place: Place) -> None:
    place.charge("one")
    before = place.anchor.read_bytes()
    place.charge("two", "three")
    place.anchor.write_bytes(before)
    place.refuses("more than one beyond entry 1")
    assert place.repair() >= together([COST, COST, COST, STUDY_CAP])


@pytest.mark.quick
def test_an_older_ledger_is_refused_and_repair_knows_what_the_anchor_knows(place: Place) -> None:
    place.charge("one")
    older = place.ledger.read_bytes()
    place.charge("two", "three")
    place.ledger.write_bytes(older)
    place.refuses("knows entry 3")
    assert place.repair() >= together([COST, COST, COST, STUDY_CAP])
    with place.open() as books:
        assert [c.query for c in books.account.charges] == ["one"]
        assert books.account.number == 4
    # The older ledger, put back once more, is refused once more.
    place.ledger.write_bytes(older)
    place.refuses("knows entry 4")


def test_another_ledger_of_the_same_length_is_refused(place: Place, tmp_path: Path) -> None:
    other = Place(tmp_path / "other")
    for each in (place, other):
        each.charge("one", "two")
    shutil.copy(other.ledger, place.ledger)
    place.refuses("not the one")
    shutil.copy(other.anchor, place.anchor)
    assert place.read() == together([COST, COST])


@pytest.mark.parametrize("damage", ["missing", "empty", "no json", "negative", "another shape"])
def test_without_a_sound_anchor_nothing_is_served(place: Place, damage: str) -> None:
    place.charge("one")
    if damage == "missing":
        place.anchor.unlink()
    else:
        text = {
            "empty": "",
            "no json": '{"number": 1, "head"',
            "negative": '{"number":1,"head":"","rho":-1.0}',
            "another shape": '{"number":1}',
        }
        place.anchor.write_text(text[damage])
    place.refuses("missing" if damage == "missing" else "damaged")
    assert place.repair() >= together([COST, STUDY_CAP])
    place.charge("two")


def test_a_ledger_that_is_gone_is_refused_and_repaired_from_its_anchor(place: Place) -> None:
    place.charge("one", "two")
    place.ledger.unlink()
    place.refuses("there is no ledger")
    assert place.repair() >= together([COST, COST, STUDY_CAP])
    place.charge("three")


def test_with_neither_ledger_nor_anchor_the_table_counts_as_spent(place: Place) -> None:
    place.charge("one")
    place.ledger.unlink()
    place.anchor.unlink()
    with pytest.raises(LedgerDisputed, match="must count as spent"):
        place.repair()


def test_a_torn_last_line_that_the_anchor_does_not_know_is_dropped(place: Place) -> None:
    place.charge("one")
    whole, anchor = place.ledger.read_bytes(), place.anchor.read_bytes()
    place.charge("two")
    line = place.ledger.read_bytes()[len(whole) :]
    for torn in (line[:1], line[:50], line[:-1], b"\0" * len(line), line[:50] + b"\0" * 50 + b"\n"):
        place.ledger.write_bytes(whole + torn)
        place.anchor.write_bytes(anchor)
        assert place.read() == COST
        with place.open() as books:
            assert books.account.spent == COST
        assert place.ledger.read_bytes() == whole
        place.charge("three")
        assert place.read() == together([COST, COST])


def test_every_cut_of_the_file_that_the_anchor_can_tell_is_refused(place: Place) -> None:
    place.charge("one", "two")
    whole, anchor = place.ledger.read_bytes(), place.anchor.read_bytes()
    for length in range(len(whole)):
        place.ledger.write_bytes(whole[:length])
        with pytest.raises(LedgerDisputed):
            place.open()
        assert place.ledger.read_bytes() == whole[:length]
        assert place.anchor.read_bytes() == anchor


def test_every_changed_byte_is_refused(place: Place) -> None:
    place.charge("one", "two")
    whole = place.ledger.read_bytes()
    for at in range(len(whole)):
        place.ledger.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(LedgerDisputed):
            place.open()


def test_repair_never_lowers_what_is_spent_whatever_is_damaged(place: Place) -> None:
    place.charge(*(f"{i}" for i in range(8)))
    whole, anchor = place.ledger.read_bytes(), place.anchor.read_bytes()
    spent = place.read()
    for at in range(5, len(whole), 97):
        place.ledger.write_bytes(whole[:at] + b"\xff" + whole[at + 1 :])
        place.anchor.write_bytes(anchor)
        assert place.repair() >= together([spent, STUDY_CAP])
        assert place.read() >= together([spent, STUDY_CAP])
        (kept,) = place.folder.glob("ledger.before-*")
        assert kept.read_bytes()[at] == 0xFF
        kept.unlink()
        with pytest.raises(UsageError, match="nothing to repair"):
            place.repair()


def test_ledger_and_anchor_restored_together_are_repaired_on_the_stewards_word(
    place: Place,
) -> None:
    place.charge("one")
    older = place.ledger.read_bytes(), place.anchor.read_bytes()
    place.charge("two")
    place.ledger.write_bytes(older[0])
    place.anchor.write_bytes(older[1])
    with pytest.raises(UsageError, match="--restored"):
        place.repair()
    account = Books.repair(place.folder, place.anchor, STUDY_CAP, restored=True)
    assert account.spent >= together([COST, STUDY_CAP])
    assert account.spent.rho == pytest.approx(COST.rho + STUDY_CAP.rho)
    assert account == Books.read(place.folder, place.anchor)
    place.charge("three")


def test_a_repaired_ledger_stays_repaired(place: Place) -> None:
    place.charge("one")
    for times in range(1, 4):
        place.anchor.unlink()
        spent, wanted = place.repair(), together([COST, *[STUDY_CAP] * times])
        assert spent >= wanted
        assert spent.rho == pytest.approx(wanted.rho)
    with place.open() as books, pytest.raises(BudgetExceeded, match="table"):
        charge(books, "two", STUDY_CAP, study="another")


# Trouble with the disk


@contextmanager
def files_of_at_most(many: int) -> Iterator[None]:
    """No file can grow beyond so many bytes, as if the disk were full there."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (many, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_fills_up_in_the_middle_of_an_entry_leaves_a_sound_ledger(
    place: Place,
) -> None:
    with place.open() as books:
        for i in range(4):
            charge(books, f"{i}")
        size = place.ledger.stat().st_size
        for room in (0, 1, 7, 100, 200):
            with files_of_at_most(size + room):
                for _ in range(2):
                    with pytest.raises(LedgerUnavailable, match="nothing is released"):
                        charge(books, "very " * 20 + "late")
            assert place.read() == together([COST] * 4)
        charge(books, "late")  # there is room again: no restart is needed
        assert place.ledger.read_bytes().endswith(b"}\n")
        assert place.ledger.read_bytes().count(b"very") == 0
        assert books.account.spent == together([COST] * 5)
    with place.open() as books:
        assert [c.query for c in books.account.charges] == ["0", "1", "2", "3", "late"]


def test_a_disk_that_fills_up_under_an_answer_keeps_the_charge_and_no_answer(
    place: Place,
) -> None:
    with place.open() as books:
        charge(books, "one")
        with (
            files_of_at_most(place.ledger.stat().st_size + 100),
            pytest.raises(LedgerUnavailable, match="cannot write"),
        ):
            books.keep("one", b"x" * 10_000)
        assert [path.name for path in (place.folder / "answers").iterdir()] == []
        assert books.kept("one") is None
        charge(books, "one")
        books.keep("one", b"y" * 10_000)
        assert books.kept("one") == b"y" * 10_000
        assert books.account.spent == COST


def test_an_anchor_that_cannot_be_written_stops_the_answer_but_not_the_ledger(
    place: Place,
) -> None:
    with place.open() as books:
        charge(books, "one")
        books.keep("one", b"an answer")
        gone = place.anchor.parent.with_name("gone")
        place.anchor.parent.rename(gone)
        for query in ("two", "two", "three"):
            with pytest.raises(HeterofedsynError, match="anchor"):
                charge(books, query)
            assert books.kept("one") == b"an answer"
        gone.rename(place.anchor.parent)
        assert place.read() == COST  # nothing is booked that the anchor could not know
        charge(books, "two")
        charge(books, "three")
        assert [c.query for c in books.account.charges] == ["one", "two", "three"]
    assert place.read() == together([COST] * 3)


@contextmanager
def an_ordinary_user(place: Place) -> Iterator[None]:
    """Nobody in particular, for whom modes of files hold."""
    if os.geteuid() != 0:
        yield
        return
    for folder in (place.folder, place.anchor.parent):
        for path in (folder, *folder.rglob("*")):
            os.chown(path, 65534, 65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def open_place() -> Iterator[Place]:
    """A place that every user can reach."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Place(Path(folder))


@pytest.mark.parametrize(
    ("which", "mode"), [("folder", 0o000), ("ledger", 0o000), ("ledger", 0o400), ("anchor", 0o000)]
)
def test_what_may_not_be_read_or_written_is_refused_in_one_line(
    open_place: Place, which: str, mode: int
) -> None:
    open_place.charge("one")
    with an_ordinary_user(open_place):
        with open_place.open() as books:
            assert books.account.spent == COST
        getattr(open_place, which).chmod(mode)
        with pytest.raises(LedgerUnavailable, match="Permission denied") as caught:
            open_place.open()
        assert "\n" not in str(caught.value)
        open_place.folder.chmod(0o700)
        open_place.ledger.chmod(0o600)
        open_place.anchor.chmod(0o600)
        open_place.charge("two")
    assert open_place.read() == together([COST, COST])


def test_read_only_folders_stop_answers_and_leave_the_ledger_sound(open_place: Place) -> None:
    with an_ordinary_user(open_place), open_place.open() as books:
        answers = open_place.folder / "answers"
        answers.chmod(0o500)
        charge(books, "one")
        with pytest.raises(LedgerUnavailable, match="Permission denied"):
            books.keep("one", b"an answer")
        assert books.kept("one") is None
        answers.chmod(0o700)
        open_place.anchor.parent.chmod(0o500)
        with pytest.raises(LedgerUnavailable, match="Permission denied"):
            charge(books, "two")
        open_place.anchor.parent.chmod(0o700)
        charge(books, "one")
        books.keep("one", b"an answer")
        assert [c.query for c in books.account.charges] == ["one", "two"]
    assert open_place.read() == together([COST, COST])


# Everything at once, against a model


class Histories(RuleBasedStateMachine):
    """The ledger against a model that knows which entries each file on disk ends with.

    The model's ledger and anchor are tuples of prices with a number that no other entry has; the
    books may open exactly if the anchor's are the ledger's, or all but the last of them and the
    ledger does not end in a torn line: no crash leaves both.
    """

    def __init__(self) -> None:
        super().__init__()
        self.base = Path(tempfile.mkdtemp())
        self.place = Place(self.base)
        self.ledger: tuple[tuple[int, float], ...] = ()
        self.anchor: tuple[tuple[int, float], ...] | None = ()
        self.torn = False
        self.made = 0
        self.saved = [self._state()]

    def teardown(self) -> None:
        shutil.rmtree(self.base)

    def _state(self) -> tuple[bytes, bytes, tuple[tuple[int, float], ...]]:
        return self.place.ledger.read_bytes(), self.place.anchor.read_bytes(), self.ledger

    @property
    def sound(self) -> bool:
        return self.anchor is not None and self.anchor in (
            self.ledger,
            *([self.ledger[:-1]] if self.ledger and not self.torn else []),
        )

    def _spent(self, entries: tuple[tuple[int, float], ...] | None) -> Budget:
        return together(Budget(rho) for _, rho in entries or ())

    @initialize()
    def begin(self) -> None:
        assert self.place.read() == Budget(0.0)

    @precondition(lambda self: self.sound)
    @rule(rho=st.floats(1e-6, 0.2), again=st.booleans())
    def charge(self, rho: float, again: bool) -> None:
        """A charge, or one that was made before."""
        number = self.made if again and self.ledger else self.made + 1
        known = number in dict(self.ledger)
        cost = Budget(dict(self.ledger).get(number, rho))
        fits = together([self._spent(self.ledger), cost]) <= CAP
        with self.place.open() as books:
            try:
                books.charge("s", str(number), "q", cost, cap=CAP, study_cap=CAP)
                assert known or fits
            except BudgetExceeded:
                assert not known
                assert not fits
            else:
                if not known:
                    self.made = number
                    self.ledger = (*self.ledger, (number, rho))
        self.anchor, self.torn = self.ledger, False

    @precondition(lambda self: self.sound)
    @rule(rho=st.floats(1e-6, 0.01))
    def crash_before_the_anchor(self, rho: float) -> None:
        """The entry is on disk, the anchor does not know it."""
        with self.place.open():
            self.anchor = self.ledger
        before, anchor = self.place.anchor.read_bytes(), self.anchor
        self.charge(rho, again=False)
        self.place.anchor.write_bytes(before)
        self.anchor = anchor

    @precondition(lambda self: self.sound)
    @rule(part=st.floats(0, 0.99))
    def crash_in_an_entry(self, part: float) -> None:
        """Some bytes of an entry that the anchor will never know."""
        with self.place.open():
            self.anchor = self.ledger
        lines = self.place.ledger.read_bytes().splitlines(keepends=True)
        with self.place.ledger.open("ab") as file:
            self.torn = file.write(lines[-1][: int(part * len(lines[-1]))]) > 0

    @rule()
    def save(self) -> None:
        """A copy for later."""
        if self.sound:
            with self.place.open():
                self.anchor, self.torn = self.ledger, False
            self.saved.append(self._state())

    @rule(which=st.integers(0, 100))
    def restore_ledger(self, which: int) -> None:
        data, _, entries = self.saved[which % len(self.saved)]
        self.place.ledger.write_bytes(data)
        self.ledger, self.torn = entries, False

    @rule(which=st.integers(0, 100))
    def restore_anchor(self, which: int) -> None:
        _, data, entries = self.saved[which % len(self.saved)]
        self.place.anchor.write_bytes(data)
        self.anchor = entries

    @rule()
    def lose_anchor(self) -> None:
        self.place.anchor.unlink(missing_ok=True)
        self.anchor = None

    @rule(cap=st.floats(0.01, 0.1))
    def repair(self, cap: float) -> None:
        """Never less than before, on either side, and one study more."""
        if self.sound:
            with pytest.raises(UsageError, match="nothing to repair"):
                Books.repair(self.place.folder, self.place.anchor, Budget(cap))
            return
        least = together([max(self._spent(self.ledger), self._spent(self.anchor)), Budget(cap)])
        account = Books.repair(self.place.folder, self.place.anchor, Budget(cap))
        assert least <= account.spent
        assert account.spent.rho == pytest.approx(least.rho)
        self.made += 1
        self.torn = False
        self.ledger = self.anchor = (*self.ledger, (-self.made, account.repairs[-1].rho))

    @invariant()
    def what_is_on_disk_is_what_the_model_says(self) -> None:
        if self.sound:
            assert self.place.read() == self._spent(self.ledger)
        else:
            with pytest.raises(LedgerDisputed):
                self.place.read()
            with pytest.raises(LedgerDisputed):
                self.place.open()


TestHistories = pytest.mark.thorough(Histories.TestCase)
TestHistories.settings = tuned(max_examples=40, stateful_step_count=25)


# WHAT OTHERS PLANT BESIDE AN ANCHOR


@pytest.mark.parametrize("name", [".anchor.new", "anchor.lock"])
@pytest.mark.parametrize("there", [True, False])
def test_a_link_planted_beside_an_anchor_is_never_followed(
    place: Place, tmp_path: Path, name: str, there: bool
) -> None:
    victim = tmp_path / "victim"
    if there:
        victim.write_bytes(b"what the agent's user holds dear")
    planted = place.anchor.parent / name
    planted.unlink(missing_ok=True)
    planted.symlink_to(victim)
    with suppress(LedgerUnavailable):  # a lock that is a link is refused
        place.charge("one", "two")
    assert victim.exists() == there
    if there:
        assert victim.read_bytes() == b"what the agent's user holds dear"
    planted.unlink(missing_ok=True)
    place.charge("three")
    assert not place.anchor.is_symlink()
    assert place.read().rho > 0


def test_what_a_failed_machine_left_beside_an_anchor_is_in_nobodys_way(place: Place) -> None:
    for folder, name in ((place.anchor.parent, ".anchor.new"), (place.folder, ".ledger.new")):
        (folder / name).write_bytes(b"half of it")
    place.charge("one")
    assert not (place.anchor.parent / ".anchor.new").exists()
    assert stat.S_IMODE(place.anchor.stat().st_mode) == 0o600


def test_a_folder_in_the_way_beside_an_anchor_stops_nothing(place: Place) -> None:
    (place.anchor.parent / ".anchor.new" / "full").mkdir(parents=True)
    place.charge("one", "two")
    assert place.read() == together([COST, COST])


@pytest.fixture
def victim(place: Place) -> Path:
    """What the agent's user holds dear; its bytes are those of an anchor that would be believed."""
    path = place.folder / "rows.csv"
    path.write_bytes(place.anchor.read_bytes())
    return path


def test_a_link_that_takes_the_place_of_an_anchor_is_neither_read_nor_followed(
    place: Place, victim: Path
) -> None:
    before = victim.read_bytes()
    with place.open() as books:
        own = place.anchor.rename(place.anchor.with_name("own"))
        place.anchor.symlink_to(victim)
        for _ in range(2):
            with pytest.raises(LedgerDisputed, match="is a link"):
                charge(books, "one")
        assert victim.read_bytes() == before
        own.replace(place.anchor)
        charge(books, "one")
    assert victim.read_bytes() == before
    assert place.read() == COST


def test_a_link_that_appears_between_reading_and_writing_is_replaced(
    place: Place, victim: Path
) -> None:
    before = victim.read_bytes()

    class Beset(Books):
        def _put(self, chain: Chain) -> None:
            super()._put(chain)
            place.anchor.unlink()
            place.anchor.symlink_to(victim)

    with Beset.open(place.folder, place.anchor) as books:
        charge(books, "one")
        assert not place.anchor.is_symlink()
        charge(books, "two")
    assert victim.read_bytes() == before
    assert place.read() == together([COST, COST])


def test_a_link_to_an_anchor_counts_only_where_nobody_else_can_make_one(
    place: Place, victim: Path
) -> None:
    link = place.anchor.with_name("link")
    link.symlink_to("anchor")
    with Books.open(place.folder, link) as books:
        charge(books, "one")
    assert link.is_symlink()
    assert place.read() == COST == Books.read(place.folder, link).spent
    before = victim.read_bytes()
    link.unlink()
    link.symlink_to(victim)
    link.parent.chmod(0o1777)
    uses: list[Callable[[], object]] = [
        lambda: Books.open(place.folder, link),
        lambda: Books.read(place.folder, link),
    ]
    for use in uses:
        with pytest.raises(LedgerDisputed, match="is a link"):
            use()
    Books.repair(place.folder, link, STUDY_CAP)
    assert victim.read_bytes() == before
    assert not link.is_symlink()


def test_an_anchor_in_another_folder_of_the_same_name_is_not_believed(place: Place) -> None:
    with place.open() as books:
        own = place.anchor.parent.rename(place.anchor.parent.with_name("own"))
        shutil.copytree(own, place.anchor.parent)
        for _ in range(2):
            with pytest.raises(LedgerDisputed, match="another folder"):
                charge(books, "one")
        shutil.rmtree(place.anchor.parent)
        own.rename(place.anchor.parent)
        charge(books, "one")
    assert place.read() == COST


def test_an_anchor_that_others_can_replace_is_refused_wherever_a_link_to_it_is(
    place: Place, tmp_path: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(place.anchor)
    for anchor in (place.anchor, link):
        for mode in (0o700, 0o755, 0o1700):
            place.anchor.parent.chmod(mode)
            check_anchor_folder(anchor)
        for mode in (0o770, 0o707, 0o1777):
            place.anchor.parent.chmod(mode)
            with pytest.raises(UsageError, match=f"others can write in {place.anchor.parent}"):
                check_anchor_folder(anchor)


# WHAT A LONG LEDGER COSTS


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 0.3)), max_size=12), st.booleans())
@tuned(max_examples=25, deadline=None)
def test_running_sums_are_the_sums_of_all_charges_rounded_up_once(
    costs: list[tuple[str, float]], repaired: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder))
        if repaired:
            place.anchor.unlink()
            place.repair()
        with place.open() as books:
            for number, (study, rho) in enumerate(costs):
                with suppress(BudgetExceeded):
                    charge(books, f"{number}", Budget(rho), study)
                found = books.account
                booked = [entry.budget for entry in (*found.charges, *found.repairs)]
                assert found.spent == together(booked) <= CAP
                for one in "abc":
                    own = together(c.budget for c in found.charges if c.study == one)
                    assert books.spent_on(one) == found.spent_on(one) == own <= STUDY_CAP
            assert books.account == Books.read(place.folder, place.anchor)


def calls(work: Callable[[], object]) -> int:
    """How many functions some work calls."""
    found = 0

    def note(frame: FrameType, event: str, arg: object) -> None:
        nonlocal found
        found += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def test_what_a_query_costs_does_not_grow_with_the_ledger(place: Place) -> None:
    with place.open() as books:

        def ask(number: int) -> None:
            books.charge("s", f"{number}", "q", Budget(1e-5), cap=CAP, study_cap=CAP)
            books.keep(f"{number}", b"an answer")
            assert books.account.spent >= books.spent_on("s") > Budget(0.0)
            assert books.stored_on("s") > 0

        early = [calls(lambda: ask(number)) for number in range(10)]  # noqa: B023
        for number in range(10, 150):
            ask(number)
        late = [calls(lambda: ask(number)) for number in range(150, 160)]  # noqa: B023
        assert max(late) < max(early) + 50


@pytest.mark.parametrize(
    "label", ["\x01" * 200, "\x1b[2J\n" * 40, "\u202e" * 200, "\U0001f600" * 200]
)
def test_a_label_cannot_fill_the_ledger_nor_say_what_cannot_be_printed(
    place: Place, label: str
) -> None:
    place.charge("one")
    before = place.ledger.stat().st_size
    with place.open() as books:
        books.charge("study", "two", label, COST, cap=CAP, study_cap=STUDY_CAP)
        kept = books.account.charges[-1].label
    assert kept.isprintable()
    assert len(kept) == 80
    assert place.ledger.stat().st_size - before < 700


def test_what_a_study_stores_is_its_entries_its_queries_and_its_answers(place: Place) -> None:
    founding = place.ledger.stat().st_size
    with place.open() as books:
        for number in range(6):
            charge(books, f"{number}", study="ab"[number % 2])
            if number < 4:
                books.keep(f"{number}", b"an answer" * number, b"a query")
        answers = {path.name: path.stat().st_size for path in (place.folder / "answers").iterdir()}
        whole = place.ledger.stat().st_size - founding + sum(answers.values())
        found = [books.stored_on(study) for study in "ab"]
        assert sum(found) == whole
        assert books.stored_on("c") == 0
        assert books.stored_on("b", but="3") == found[1] - answers["3"]
        assert books.stored_on("a", but="3") == books.stored_on("a", but="4") == found[0]
    with place.open() as books:
        assert [books.stored_on(study) for study in "ab"] == found
