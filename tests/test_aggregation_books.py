"""The ledger under secure aggregation: two prices, things said once, and keys that are retired."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as tuned
from hypothesis import strategies as st

from heterofedsyn.audit.faults import Fault
from heterofedsyn.errors import (
    BudgetExceeded,
    HeterofedsynError,
    LedgerDisputed,
    LedgerUnavailable,
    UsageError,
)
from heterofedsyn.privacy.budget import Budget, together
from heterofedsyn.site.ledger.anchor import Anchor
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.ledger.entries import Account, hash_of
from heterofedsyn.site.ledger.locked import lock
from heterofedsyn.site.ledger.private import forget, is_forgotten
from heterofedsyn.site.signing import Identity, make_key

CAP, STUDY_CAP, ALONE_CAP = Budget(1.0), Budget(0.25), Budget(2.0)
COST, ALONE = Budget(0.01), Budget(0.04)
STUDY, OTHER = "a" * 64, "b" * 64


class Place:
    """Where a site with a signing key lives."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "site"
        self.anchor = folder / "elsewhere" / "anchor"
        self.anchor.parent.mkdir(parents=True)
        Books.create(self.folder, self.anchor)
        self.first_key = make_key(self.folder / "key.pem")
        (self.folder / "key.pub").write_text(f"{self.first_key}\n")

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger"

    @property
    def key(self) -> str:
        return Identity.load(self.folder / "key.pem").public

    def open(self) -> Books:
        return Books.open(self.folder, self.anchor)

    def read(self) -> Account:
        return Books.read(self.folder, self.anchor)

    def repair(self, *, restored: bool = True) -> Account:
        return Books.repair(
            self.folder, self.anchor, STUDY_CAP, restored=restored, alone_cap=ALONE_CAP
        )

    def on_disk(self) -> tuple[bytes, bytes]:
        return self.ledger.read_bytes(), self.anchor.read_bytes()


def charge(
    books: Books, query: str, cost: Budget = COST, alone: Budget | None = ALONE, study: str = STUDY
) -> None:
    books.charge(study, query, "q", cost, cap=CAP, study_cap=CAP, alone=alone, alone_cap=ALONE_CAP)


def answered(books: Books, query: str, study: str = STUDY) -> None:
    charge(books, query, study=study)
    books.keep(query, b"masked")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


# Two prices


@pytest.mark.quick
def test_both_prices_are_booked_once_for_each_query(place: Place) -> None:
    for _ in range(3):
        with place.open() as books:
            charge(books, "one")
            charge(books, "one", Budget(0.005), Budget(0.02))  # paid already
            charge(books, "two", alone=None)
    account = place.read()
    assert account.spent == together([COST, COST])
    assert account.spent_alone == together([ALONE, COST])
    assert account.spent_alone_on(STUDY) == account.spent_alone
    known = Anchor.read(place.anchor)
    assert (known.spent, known.spent_alone) == (account.spent, account.spent_alone)


def test_a_query_that_was_paid_too_little_for_being_seen_alone_is_paid_again(place: Place) -> None:
    with place.open() as books:
        charge(books, "one", alone=None)
        charge(books, "one")
        assert books.account.spent_alone == together([COST, ALONE])


def test_no_answer_costs_less_seen_alone_than_hidden(place: Place) -> None:
    with place.open() as books:
        charge(books, "one", alone=Budget(0.0))
        assert books.account.spent_alone == books.account.spent == COST


@pytest.mark.thorough
@tuned(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(0.001, 0.3), st.floats(1, 8), st.booleans()), max_size=12))
def test_neither_sum_ever_exceeds_its_cap(
    tmp_path_factory: pytest.TempPathFactory, charges: list[tuple[float, float, bool]]
) -> None:
    place = Place(tmp_path_factory.mktemp("place"))
    sums = [Fraction(0), Fraction(0)]
    with place.open() as books:
        for number, (rho, factor, local) in enumerate(charges):
            cost = Budget(rho)
            alone = cost if local else cost.times(factor)
            after = sums[0] + Fraction(cost.rho), sums[1] + Fraction(alone.rho)
            before = place.on_disk()
            try:
                charge(books, f"{number}", cost, None if local else alone)
            except BudgetExceeded:
                assert after[0] > Fraction(CAP.rho) or after[1] > Fraction(ALONE_CAP.rho)
                assert place.on_disk() == before
            else:
                sums = list(after)
                assert sums[0] <= Fraction(CAP.rho)
                assert sums[1] <= Fraction(ALONE_CAP.rho)
            assert [books.account.booked, books.account.booked_alone] == sums
    account = place.read()
    assert [account.booked, account.booked_alone] == sums


@pytest.mark.quick
def test_answers_of_local_studies_count_as_seen_alone_but_only_hidden_ones_are_capped_so(
    place: Place,
) -> None:
    with place.open() as books:
        for number in range(4):
            charge(books, f"{number}", COST, Budget(0.4975))
        charge(books, "local", Budget(0.005), None)
        before = place.on_disk()
        with pytest.raises(BudgetExceeded, match=r"only rho=0\.005 of 2 is left for answers seen"):
            charge(books, "hidden", Budget(0.001), Budget(0.006))
        caps = {"cap": CAP, "study_cap": CAP, "alone_cap": ALONE_CAP}
        with pytest.raises(BudgetExceeded):
            books.afford(STUDY, "h", "q", Budget(0.001), alone=Budget(0.006), **caps)
        assert place.on_disk() == before
        charge(books, "local again", Budget(0.02), None)
        charge(books, "hidden, uncapped", Budget(0.001), None)


def test_ledgers_and_anchors_of_one_price_read_the_same_and_go_on(place: Place) -> None:
    with place.open() as books:
        for query in ("one", "two"):
            charge(books, query, alone=None)
        books.keep("one", b"an answer")
    lines, head = [], ""
    for line in place.ledger.read_bytes().splitlines():
        fields = json.loads(line)
        assert not {"alone", "key"} & fields.keys()  # as they were always written
        old = json.dumps({**fields, "previous": head}).encode() + b"\n"
        lines.append(old)
        head = hash_of(old)
    place.ledger.write_bytes(b"".join(lines))
    known = json.loads(place.anchor.read_bytes())
    assert known.keys() == {"number", "head", "rho"}
    place.anchor.write_text(json.dumps({**known, "head": head}))
    account = place.read()
    assert account.booked == account.booked_alone == 2 * Fraction(COST.rho)
    with place.open() as books:
        assert books.account == account
        charge(books, "three")
    assert place.read().spent_alone == together([COST, COST, ALONE])


# What is said once


SAYINGS: list[Callable[[Books, str], None]] = [
    lambda books, what: books.join(STUDY, what * 32),
    lambda books, what: books.list_keys(STUDY, what * 32),
    lambda books, what: books.agree(STUDY, "one", what * 32, ("one", f"site-{what}")),
    lambda books, what: books.unmask(STUDY, "one", (f"site-{what}",)),
]


@pytest.mark.quick
@pytest.mark.parametrize("said", [1, 2, 3, 4])
def test_what_is_said_once_is_on_disk_and_anchored_and_never_said_otherwise(
    place: Place, said: int
) -> None:
    with place.open() as books:
        answered(books, "one")
        for say in SAYINGS[:said]:
            say(books, "x")
        account, before = books.account, place.on_disk()
    assert Anchor.read(place.anchor).number == account.number == 2 + said
    for _ in range(2):
        with place.open() as books:
            assert books.account == account == place.read()
            for say in SAYINGS[:said]:
                say(books, "x")
                with pytest.raises(LedgerDisputed, match="otherwise"):
                    say(books, "y")
            assert books.account == account
            assert place.on_disk() == before


def test_the_account_knows_keys_lists_sets_and_what_was_opened(place: Place) -> None:
    with place.open() as books:
        for study, query in ((STUDY, "one"), (OTHER, "two")):
            answered(books, query, study)
            books.join(study, f"key of {study}")
            books.list_keys(study, f"list of {study}")
            books.agree(study, query, "a set", ("a", "b", "c"))
            books.unmask(study, query, ("d",))
    account = place.read()
    assert account.joined == {study: f"key of {study}" for study in (STUDY, OTHER)}
    assert account.listed == {study: f"list of {study}" for study in (STUDY, OTHER)}
    assert account.agreed["one"].said == {
        "study": STUDY, "query": "one", "set": "a set", "sites": ("a", "b", "c")
    }  # fmt: skip
    assert account.unmasked["two"].said == {"study": OTHER, "query": "two", "outside": ("d",)}
    assert account.spent == together([COST, COST])


def test_sets_are_signed_and_opened_for_answered_queries_of_their_study_alone(
    place: Place,
) -> None:
    with place.open() as books:
        charge(books, "charged")
        answered(books, "answered")
        before = place.on_disk()
        for study, query in ((STUDY, "charged"), (STUDY, "unknown"), (OTHER, "answered")):
            with pytest.raises(LedgerDisputed, match="no answer"):
                books.agree(study, query, "a set", ("a",))
            with pytest.raises(LedgerDisputed, match="no answer"):
                books.unmask(study, query, ())
        with pytest.raises(LedgerDisputed, match="no set was signed"):
            books.unmask(STUDY, "answered", ())
        assert place.on_disk() == before


def test_what_is_said_for_a_study_counts_as_stored_for_it(place: Place) -> None:
    with place.open() as books:
        answered(books, "one")
        for say in SAYINGS:
            before, lines = books.stored_on(STUDY), place.ledger.stat().st_size
            say(books, "x")
            assert books.stored_on(STUDY) - before == place.ledger.stat().st_size - lines > 0
        stored = books.stored_on(STUDY)
        assert books.stored_on(OTHER) == 0
    with place.open() as books:
        assert books.stored_on(STUDY) == stored


# Private files


@pytest.mark.quick
def test_private_files_are_the_users_own_and_never_replaced(place: Place) -> None:
    with place.open() as books:
        assert books.secret(STUDY, "key") is None
        books.keep_secret(STUDY, "key", b"private")
        books.keep_secret(STUDY, "key", b"private")
        with pytest.raises(LedgerDisputed, match="never replaced"):
            books.keep_secret(STUDY, "key", b"another")
        assert books.secret(STUDY, "key") == b"private"
        assert books.secret(OTHER, "key") is None
    file = place.folder / "aggregation" / STUDY / "key"
    assert file.read_bytes() == b"private"
    assert file.stat().st_mode & 0o777 == 0o600
    assert {folder.stat().st_mode & 0o777 for folder in (file.parent, file.parent.parent)} == {
        0o700
    }


@pytest.mark.quick
def test_private_files_are_removed_for_good_while_an_agent_serves(place: Place) -> None:
    with place.open() as books:
        books.keep_secret(STUDY, "key", b"private")
        books.keep_secret(OTHER, "key", b"of another")
        for study in (STUDY, "c" * 64):
            assert not is_forgotten(place.folder, study)
            for _ in range(2):
                forget(place.folder, study)
            assert is_forgotten(place.folder, study)
            assert books.secret(study, "key") is None
            with pytest.raises(LedgerDisputed, match="closed"):
                books.keep_secret(study, "key", b"private")
        assert books.secret(OTHER, "key") == b"of another"
    held = [path.read_bytes() for path in place.folder.rglob("*") if path.is_file()]
    assert b"private" not in held
    with place.open() as books, pytest.raises(LedgerDisputed, match="closed"):
        books.keep_secret(STUDY, "key", b"private")


def test_nothing_is_kept_for_a_study_that_is_being_closed(place: Place) -> None:
    kept: list[str] = []
    with place.open() as books:

        def keep() -> None:
            with suppress(LedgerDisputed):
                for number in count():
                    books.keep_secret(STUDY, f"key-{number}", b"private")
                    kept.append(f"key-{number}")

        agent = threading.Thread(target=keep)
        agent.start()
        while len(kept) < 5:
            time.sleep(0.001)
        forget(place.folder, STUDY)
        at_once = [path.name for path in (place.folder / "aggregation" / STUDY).iterdir()]
        agent.join()
    assert at_once == ["forgotten"]
    assert [path.name for path in (place.folder / "aggregation" / STUDY).iterdir()] == at_once


@pytest.mark.parametrize("name", ["", ".", "..", "../key", "a/b", "Key", "forgotten", "k" * 65])
def test_private_files_have_plain_names(place: Place, name: str) -> None:
    with place.open() as books:
        for study, called in ((STUDY, name), ("../" + STUDY[3:], "key"), (STUDY.upper(), "key")):
            with pytest.raises(UsageError):
                books.keep_secret(study, called, b"private")
            with pytest.raises(UsageError):
                books.secret(study, called)


# A site that locks itself


@pytest.mark.quick
def test_a_locked_site_says_books_and_opens_nothing_until_it_is_repaired(place: Place) -> None:
    with place.open() as books:
        answered(books, "one")
        lock(place.folder, "its own signature over an unknown set")
        lock(place.folder, "another reason")
        before = place.on_disk()
        asks: list[Callable[[], object]] = [
            lambda: books.kept("one"),
            lambda: charge(books, "two"),
            lambda: books.settle("record"),
            lambda: books.keep("one", b"another"),
            lambda: books.keep_secret(STUDY, "key", b"private"),
            lambda: books.secret(STUDY, "key"),
            *(lambda say=say: say(books, "x") for say in SAYINGS),
        ]
        for ask in asks:
            with pytest.raises(LedgerDisputed, match=r"its own signature over .* --restored"):
                ask()
        assert place.on_disk() == before
    with pytest.raises(LedgerDisputed, match="locked itself"):
        place.open()
    assert place.read().number == 2  # the steward may look
    with pytest.raises(UsageError, match="--restored"):
        place.repair(restored=False)
    with pytest.raises(LedgerDisputed, match="locked itself"):
        place.open()
    place.repair()
    with place.open() as books:
        assert books.kept("one") == b"masked"


# Repair


@pytest.mark.quick
def test_a_repair_books_all_that_is_left_of_the_cap_for_answers_seen_alone(place: Place) -> None:
    with place.open() as books:
        charge(books, "one")
    account = place.repair()
    assert account.spent >= together([COST, STUDY_CAP])
    assert ALONE_CAP <= account.spent_alone < ALONE_CAP.times(1 + 1e-9)
    with place.open() as books:
        with pytest.raises(BudgetExceeded, match="seen alone"):
            charge(books, "two", Budget(1e-6), Budget(2e-6))
        charge(books, "local", Budget(1e-6), None)
    assert place.repair().spent_alone > ALONE_CAP  # the cap of a study more, as always


def test_a_repair_without_that_cap_counts_on_a_study_as_dear_alone_as_those_that_are_known(
    place: Place,
) -> None:
    with place.open() as books:
        charge(books, "one")
    account = Books.repair(place.folder, place.anchor, STUDY_CAP, restored=True)
    least = together([ALONE, STUDY_CAP.times(ALONE.rho / COST.rho)])
    assert least <= account.spent_alone < least.times(1 + 1e-9)


@pytest.mark.parametrize("lost", ["ledger", "anchor", "end of ledger"])
def test_a_repair_knows_both_prices_from_whatever_is_left(place: Place, lost: str) -> None:
    with place.open() as books:
        for query in ("one", "two", "three"):
            charge(books, query, COST, Budget(0.9))
            if query == "two":
                break
    if lost == "anchor":
        place.anchor.unlink()
    elif lost == "ledger":
        place.ledger.unlink()
    else:
        place.ledger.write_bytes(place.ledger.read_bytes().splitlines(keepends=True)[0])
    account = Books.repair(place.folder, place.anchor, STUDY_CAP)
    assert account.spent >= together([COST, COST, STUDY_CAP])
    assert account.spent_alone >= together([Budget(0.9), Budget(0.9), STUDY_CAP])


@pytest.mark.quick
def test_a_repair_retires_the_signing_key_and_removes_private_files(place: Place) -> None:
    with place.open() as books:
        books.join(STUDY, "key")
        books.keep_secret(STUDY, "key", b"private")
    keys = [place.key]
    for _ in range(3):
        old = (place.folder / "key.pem").read_bytes()
        account = place.repair()
        keys.append(place.key)
        number = account.repairs[-1].number
        assert account.repairs[-1].key == keys[-1]
        assert (place.folder / "key.pub").read_text() == f"{keys[-1]}\n"
        assert (place.folder / f"key.before-{number}.pem").read_bytes() == old
        assert (place.folder / f"key.before-{number}.pub").read_text() == f"{keys[-2]}\n"
        assert (place.folder / f"key.before-{number}.pem").stat().st_mode & 0o777 == 0o600
        assert (place.folder / "key.pem").stat().st_mode & 0o777 == 0o600
    assert len(set(keys)) == len(keys)
    assert is_forgotten(place.folder, STUDY)
    assert account.joined == {STUDY: "key"}


def test_no_retired_key_is_lost_though_a_repair_has_the_number_of_an_older_one(
    place: Place,
) -> None:
    before = place.on_disk()
    keys = {place.key}
    for _ in range(3):
        place.repair()
        keys.add(place.key)
        place.ledger.write_bytes(before[0])
        place.anchor.write_bytes(before[1])
    assert len(keys) == 4
    assert retained(place) == keys


def retained(place: Place) -> set[str]:
    """All keys that the site's folder still holds."""
    files = [place.folder / "key.pem", *place.folder.glob("key.before-*.pem")]
    return {Identity.load(file).public for file in files}


# Killed at any step


def killed(step: int, power_fails: bool, work: Callable[[], object]) -> bool:
    """Whether a process that does this work was ended at its so manieth step of writing."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            Fault(step, power_fails).begin()
            work()
            code = 0
        except HeterofedsynError:
            code = 2
        finally:
            os._exit(code)
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended <= 0
    return ended < 0


def whole_round(place: Place) -> None:
    """What an agent does for the first query of a study, as it does it after a restart, too."""
    with place.open() as books:
        key = books.secret(STUDY, "key")
        if key is None:
            assert STUDY not in books.account.joined
            key = os.urandom(8)
            books.keep_secret(STUDY, "key", key)
        books.join(STUDY, key.hex())
        books.list_keys(STUDY, "list")
        if books.kept("one") is None:
            charge(books, "one")
            books.keep("one", os.urandom(8))
        books.agree(STUDY, "one", "set", ("a", "b"))
        books.unmask(STUDY, "one", ("c",))


@pytest.mark.thorough
@pytest.mark.parametrize("power_fails", [pytest.param(False, marks=pytest.mark.slow), True])
def test_killed_at_any_step_a_round_goes_on_with_what_was_said(
    tmp_path: Path, power_fails: bool
) -> None:
    for step in count():
        place = Place(tmp_path / f"{step}")
        said: dict[str, object] = {}
        ended: list[bool] = []
        for _ in range(3):
            ended.append(killed(step, power_fails, lambda: whole_round(place)))  # noqa: B023
            account = place.read()
            now = {
                **{f"joined {k}": v for k, v in account.joined.items()},
                **{f"listed {k}": v for k, v in account.listed.items()},
                **{f"stored {one.query}": one.stored for one in account.answers},
                **{f"agreed {k}": v for k, v in account.agreed.items()},
                **{f"unmasked {k}": v for k, v in account.unmasked.items()},
            }
            assert said.items() <= now.items(), "something that was said is forgotten or another"
            said = now
            assert account.spent in (Budget(0.0), COST)
            assert account.spent_alone in (Budget(0.0), ALONE)
        whole_round(place)
        account = place.read()
        assert (account.spent, account.spent_alone) == (COST, ALONE), "not booked once"
        assert account.number == 6, "an entry was made twice"
        with place.open() as books:
            key = books.secret(STUDY, "key")
            assert key is not None
            assert books.account.joined[STUDY] == key.hex()
        if not ended[0]:
            break
    assert step > 30


@pytest.mark.thorough
@pytest.mark.parametrize("power_fails", [False, True])
@pytest.mark.parametrize("locked", [False, True])
def test_killed_at_any_step_a_repair_never_leaves_the_old_key_in_a_repaired_site(
    tmp_path: Path, locked: bool, power_fails: bool
) -> None:
    first = Place(tmp_path / "first")
    with first.open() as books:
        answered(books, "one")
        books.keep_secret(STUDY, "key", b"private")
    older = first.on_disk()
    with first.open() as books:
        charge(books, "two")
    if locked:
        lock(first.folder, "a reason")
    else:
        first.ledger.write_bytes(older[0])  # disputed: the anchor knows more
    for step in count():
        copy = tmp_path / f"{step}"
        shutil.copytree(tmp_path / "first", copy)
        place = Place.__new__(Place)
        place.folder, place.anchor = copy / "site", copy / "elsewhere" / "anchor"
        ended = killed(step, power_fails, lambda: place.repair(restored=locked))  # noqa: B023
        assert first.key in retained(place), "the old key is lost"
        repaired = False
        with suppress(LedgerDisputed, LedgerUnavailable):
            with place.open() as books:
                account = books.account
            repaired = True
            assert account.repairs, "a site answers again that was not repaired"
            assert place.key == account.repairs[-1].key != first.key
            assert account.spent_alone >= ALONE_CAP
            assert is_forgotten(place.folder, STUDY)
        if not repaired:
            place.repair()
            with place.open() as books:
                assert books.account.repairs[-1].key == place.key != first.key
                assert books.account.spent >= together([COST, STUDY_CAP])
                assert books.account.spent_alone >= ALONE_CAP
            assert first.key in retained(place)
        if not ended:
            break
    assert step > 12
