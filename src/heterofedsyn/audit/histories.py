"""Histories of a site on disk, drawn at random, against a model of what must have been charged.

Every query goes to an agent of its own, which may be killed or lose its power (see
`faults`). The laws are checked after each step: what left was charged, before and once; one query
never gets two answers; no cap is exceeded; nothing booked is ever lost; an older copy of the ledger
is refused; and a repair books all that may be missing, ends every consent, and lets no old charge
pay for an answer.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from heterofedsyn._arrays import stream
from heterofedsyn.audit import caps, consents
from heterofedsyn.audit.effort import Effort
from heterofedsyn.audit.faults import (
    ANSWERED,
    REFUSED,
    Damage,
    Fault,
    books_of,
    damage,
    live,
    repair,
    twin,
)
from heterofedsyn.audit.findings import Broken, Check, require
from heterofedsyn.audit.fixtures import (
    SiteOnDisk,
    plain_schema,
    plan_of,
    query_of,
    temporary_folder,
)
from heterofedsyn.errors import LedgerDisputed, LedgerUnavailable, UsageError
from heterofedsyn.marginals import Flat
from heterofedsyn.privacy.budget import Budget, together
from heterofedsyn.privacy.noise import SecureNoise
from heterofedsyn.protocol import Part, encode
from heterofedsyn.protocol.refusal import Reason
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.ledger.entries import Account

_SCHEMA = plain_schema(3, 2)
_ROWS = b"a0,a1\nv0,v0\nv1,v1\nv2,v1\nv0,v0\n"
_PLANS = tuple(plan_of(_SCHEMA, seed, epsilon=2.0) for seed in range(3))
_STUDY = _PLANS[0].budget
"""What each of the studies may spend."""

_TABLE_EPSILON = 2.3
"""The cap of the table: above that of a study, below that of two."""

_MOST_WRITES = 20
"""Steps of an agent at which it may be killed; one that opens, charges and answers has fewer."""

_SHARES = (0.01, 0.05, 0.1, 0.2, 0.3)
_STUDIES = (0, 0, 1, 2)
_ROUNDED = 1 - Fraction(1, 2**50)
"""A sum is rounded up, so what fits only just may be refused."""

_ENOUGH = 5
"""Laws that were broken, after which no further history is needed."""

_SECONDS_PER_LIFE = 60
_ALONE = "from heterofedsyn.audit.histories import main; main()"


def checks(effort: Effort, seed: int) -> Iterator[Check]:
    """Caps, consents, and histories of a site on disk."""
    yield from caps.checks(effort, seed)
    yield from consents.checks(seed)
    yield "histories on disk", partial(_on_disk, effort, seed)


def _on_disk(effort: Effort, seed: int) -> str:
    """An agent on disk charges, crashes, is asked again, doubled and restored.

    In a process of its own: one that has threads should not fork.
    """
    numbers = map(str, (seed, effort.lives, effort.steps))
    with temporary_folder() as place:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _ALONE, *numbers],
            env={**os.environ, "TMPDIR": str(place)},
            capture_output=True,
            text=True,
            timeout=_SECONDS_PER_LIFE * effort.lives,
            check=False,
        )
    require(done.returncode == 0, f"histories broke off: {done.stderr.strip()[-300:]}")
    said = json.loads(done.stdout.splitlines()[-1])
    require(said["passed"], said["figure"])
    return str(said["figure"])


def main() -> None:
    """Histories by the numbers on the command line; prints what happened as JSON."""
    seed, lives, steps = map(int, sys.argv[1:])
    happened: Counter[str] = Counter()
    broken: list[str] = []
    with temporary_folder() as place:
        History.warm(place)
    for life in range(lives):
        with temporary_folder() as place:
            broken += History(place, stream(seed, f"history {life}"), happened).run(steps)
        if len(broken) >= _ENOUGH:
            break
    figures = ", ".join(f"{many:,} {what}" for what, many in happened.items())
    laws = "; ".join(dict.fromkeys(broken))
    print(json.dumps({"passed": not broken, "figure": laws or figures}))


class History:
    """A site on disk against a model that knows what was asked, what left, what must be booked."""

    def __init__(self, place: Path, rng: np.random.Generator, happened: Counter[str]) -> None:
        self.place = place
        self.rng = rng
        self.happened = happened
        self.site = SiteOnDisk.make(place, _SCHEMA, _ROWS, *_PLANS, epsilon=_TABLE_EPSILON)
        self.folder, self.anchor = self.site.settings.folder, self.site.settings.anchor
        self.cap = Fraction(self.site.settings.cap.rho)
        self.costs: dict[str, Fraction] = {}
        self.studies: dict[str, int] = {}
        self.messages: dict[str, bytes] = {}
        self.left: dict[str, str] = {}
        self.spent = Fraction(0)
        self.copies: list[tuple[Path, int]] = []

    @classmethod
    def warm(cls, place: Path) -> None:
        """Load what an agent loads, so that every fork starts at once."""
        history = cls(place, stream(0, "warm"), Counter())
        with history.site.serving(SecureNoise()) as agent:
            agent.answer(history.messages[history._query()])

    def run(self, steps: int) -> list[str]:
        """So many steps; every kind comes as often as the others, in any order.

        Returns:
            The laws that were broken.
        """
        self.happened["lives"] += 1
        kinds = (
            self.ask,
            self.ask_and_kill,
            self.ask_again,
            self.ask_at_once,
            self.save,
            self.restore,
            self.swap,
            self.repair,
        )
        coming: list[int] = []
        broken: list[str] = []
        for _ in range(steps):
            coming = coming or self.rng.permutation(len(kinds)).tolist()
            try:
                kinds[coming.pop()]()
                self.check_laws()
            except Broken as law:  # one bug may break several laws: the others are looked at, too
                broken.append(str(law))
            except Exception as error:
                return [*broken, str(error) or type(error).__name__]
        return broken

    # WHAT HAPPENS

    def ask(self) -> None:
        """A new query."""
        self._ask([self._query()])

    def ask_and_kill(self) -> None:
        """A new query to an agent that is killed, or whose power fails."""
        self._ask([self._query()], self._fault())

    def ask_again(self) -> None:
        """A query that was asked before; the agent may be killed."""
        names = sorted(self.costs) or [self._query()]
        name = names[int(self.rng.integers(len(names)))]
        self._ask([name], self._fault() if self.rng.random() < 0.5 else None)

    def ask_at_once(self) -> None:
        """Two queries at the same time, of one study or of two, or one of them twice."""
        self.happened["at once"] += 1
        first = self._query()
        self._ask([first, first if self.rng.random() < 0.5 else self._query()])

    def save(self) -> None:
        """A copy of the site's folder for later; a second agent, here or there, is refused."""
        self.happened["second agents refused"] += 2
        copy = self.place / f"saved-{len(self.copies)}"
        with self.site.open_books() as books:
            shutil.copytree(self.folder, copy)
            self.copies.append((copy, books.account.number))
            for folder in (self.folder, copy):
                try:
                    Books.open(folder, self.anchor).close()
                except LedgerUnavailable:
                    continue
                raise Broken("two agents have one ledger")

    def restore(self) -> None:
        """An older copy in place of the folder: refused if anything was booked since."""
        if not self.copies:
            self.save()
        copy, number = self.copies[int(self.rng.integers(len(self.copies)))]
        newest = self._account().number
        aside = self.place / "aside"
        self.folder.rename(aside)
        shutil.copytree(copy, self.folder)
        try:
            self.site.open_books().close()
        except LedgerDisputed:
            accepted = False
            self.happened["restored copies refused"] += 1
        else:
            accepted = True
        shutil.rmtree(self.folder)
        aside.rename(self.folder)
        require(accepted or number < newest, "the newest ledger was refused")
        require(number == newest or not accepted, "an older copy of the ledger was accepted")

    def swap(self) -> None:
        """The ledger of one history and the anchor of another, equally long: refused."""
        with twin(self.site) as one, twin(self.site) as other:
            for number, site in enumerate((one, other)):
                ample, cost = site.settings.cap, Budget(0.01)
                with site.open_books() as books:
                    books.charge("s", f"query {number}", "q", cost, cap=ample, study_cap=ample)
            try:
                Books.open(one.settings.folder, other.settings.anchor).close()
            except LedgerDisputed:
                self.happened["swapped anchors refused"] += 1
            else:
                raise Broken("a ledger was accepted with the anchor of another")

    def repair(self) -> None:
        """A copy is asked and killed, damaged and repaired, approved again and asked again."""
        name, how = self._query(), [*Damage][int(self.rng.integers(len(Damage)))]
        message = self.messages[name]
        with twin(self.site) as site:
            before = books_of(site)
            first = _live(site, [message], self._fault())[0]
            damage(site, before, how)
            try:
                repaired = repair(site, how)
            except UsageError:
                require(how is Damage.CUT, f"{how}: there was something to repair")
                return  # there was nothing to cut
            self.happened["repairs"] += 1
            (said,), _ = _live(site, [message])
            require(said == REFUSED + Reason.NOT_APPROVED, "consent outlived a repair")
            site.approve(_PLANS[self.studies[name]], _SCHEMA)
            (said,), _ = _live(site, [message])
            with site.open_books() as books:
                charges = books.account.charges[len(repaired.charges) :]
            if name in {entry.query for entry in repaired.answers}:
                require(said in first or not first, "a repair changed an answer")
            elif said.startswith(ANSWERED):
                require(
                    [entry.query for entry in charges] == [name],
                    "a charge from before a repair paid for an answer after it",
                )
            else:
                require(said == REFUSED + Reason.OVER_THE_CAP, said)

    # WHAT MUST HOLD

    def check_laws(self) -> None:
        """What left was charged, once and within the caps."""
        account = self._account()
        booked = [entry.query for entry in account.charges]
        require(len({*booked}) == len(booked), "one query was charged twice")
        require({*self.left} <= {*booked}, "an answer left that was never charged")
        spent_on: dict[str, Fraction] = defaultdict(Fraction)
        for entry in account.charges:
            require(
                Fraction(entry.rho) == self.costs[entry.query], "a charge is not what was asked"
            )
            study = _PLANS[self.studies[entry.query]].fingerprint
            require(entry.study == study, "a charge is for another study")
            spent_on[study] += Fraction(entry.rho)
        spent = sum(spent_on.values(), Fraction(0))
        require(spent >= self.spent, "the ledger knows less than before")
        require(spent <= Fraction(account.spent.rho), "a sum of charges was rounded down")
        require(
            all(own <= Fraction(_STUDY.rho) for own in spent_on.values()),
            "a study spent more than its budget",
        )
        require(spent <= self.cap, "the table spent more than its cap")
        self.spent = spent

    def _account(self) -> Account:
        try:
            with self.site.open_books() as books:
                return books.account
        except LedgerDisputed as error:
            raise Broken(f"an agent's end left books that are disputed: {error}") from None

    def _query(self) -> str:
        """The name of a new query."""
        share, study = float(self.rng.choice(_SHARES)), int(self.rng.choice(_STUDIES))
        parts = (Part(Flat(("a0",)), share), Part(Flat(("a1",)), share / 2))
        number = len(self.costs)
        query = query_of(_PLANS[study], number=number, label=f"q{number}", parts=parts)
        name = query.fingerprint
        self.studies[name] = study
        self.messages[name] = encode(query)
        self.costs[name] = Fraction(together(_STUDY.part(part.share) for part in parts).rho)
        return name

    def _fault(self) -> Fault:
        return Fault(int(self.rng.integers(_MOST_WRITES + 1)), bool(self.rng.random() < 0.5))

    def _ask(self, names: Sequence[str], fault: Fault | None = None) -> None:
        before = self._account()
        charged = {entry.query for entry in before.charges}
        said, killed = _live(self.site, [self.messages[name] for name in names], fault)
        if killed and fault is not None:
            self.happened["power failures" if fault.power_fails else "kills"] += 1
        self.happened["answers or refusals"] += len(said)
        for name, line in zip(names, said, strict=not killed):
            if line.startswith(ANSWERED):
                self.happened["redeliveries"] += name in self.left
                require(
                    self.left.setdefault(name, line) == line, "one query got two different answers"
                )
            elif len(names) == 1:
                study = _PLANS[self.studies[name]].fingerprint
                own = Fraction(_STUDY.rho) - Fraction(before.spent_on(study).rho)
                left = self.cap - Fraction(before.spent.rho)
                self.happened["refusals for the " + ("table" if left < own else "study")] += 1
                require(line == REFUSED + Reason.OVER_THE_CAP, line)
                require(name not in charged, "a query that was charged before was refused")
                require(
                    self.costs[name] > min(own, left) * _ROUNDED, "a query that fits was refused"
                )


def _live(
    site: SiteOnDisk, messages: Sequence[bytes], fault: Fault | None = None
) -> tuple[tuple[str, ...], bool]:
    """What an agent that found its books said, and whether it was killed."""
    ended = live(site, messages, fault)
    if not ended.killed:
        require(ended.sent != "", "an agent ended without a word")
        require(ended.code == 0, f"an agent did not open its books: {ended.sent}")
    return ended.said, ended.killed
