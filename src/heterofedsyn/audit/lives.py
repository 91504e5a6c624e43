"""Lives of a site on disk, made up by hypothesis: asked, killed, doubled, restored, repaired.

Every query goes to an agent of its own, forked from this process, which may be killed (as by
kill -9) before any of its writes, or in the middle of one, or whose power may fail. The laws are
checked after each step: what left was charged, before and once; one query never gets two answers;
no cap is exceeded; nothing booked is ever lost; an older copy of the ledger is refused; and a
repair books all that may be missing, ends every consent, and lets no old charge pay for an answer.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from heterofedsyn.audit.disk import SiteOnDisk
from heterofedsyn.audit.doom import Doom
from heterofedsyn.audit.exhibit import SITE, plain_schema, plan_of
from heterofedsyn.audit.findings import Broken, require
from heterofedsyn.audit.twins import Damage, books_of, damage, repair, twin
from heterofedsyn.errors import HeterofedsynError, LedgerDisputed, LedgerUnavailable, UsageError
from heterofedsyn.marginals import Flat
from heterofedsyn.privacy.budget import Budget, together
from heterofedsyn.privacy.noise import SecureNoise
from heterofedsyn.protocol import Part, Query, encode
from heterofedsyn.protocol.refusal import Reason, Refused
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.ledger.entries import Account

_SCHEMA = plain_schema(3, 2)
_PLANS = tuple(plan_of(_SCHEMA, seed, epsilon=2.0) for seed in range(3))
_STUDY = _PLANS[0].budget
"""What each of the studies may spend."""

_TABLE_EPSILON = 2.3
"""The cap of the table: above that of a study, below that of two."""

_MOST_WRITES = 20
"""Steps of an agent at which it may be killed; one that opens, charges and answers has fewer."""

_ANSWER, _REFUSAL = b"a", b"r"
_SHARES = st.sampled_from([0.01, 0.05, 0.1, 0.2, 0.3])
_STUDIES = st.sampled_from([0, 0, 1, 2])
_FATES = st.builds(Doom, st.integers(0, _MOST_WRITES), st.booleans())

happened: Counter[str] = Counter()


@dataclass(frozen=True)
class Ended:
    """What came out of an agent, one line for each message, and whether it was killed."""

    said: tuple[bytes, ...]
    killed: bool


def _serve(site: SiteOnDisk, messages: tuple[bytes, ...], out: int) -> None:
    """An agent's life: open the books, answer all messages at once, send the answers."""
    with site.serving(SecureNoise()) as agent:
        said: dict[int, bytes] = {}

        def answer(place: int) -> None:
            try:
                said[place] = _ANSWER + agent.answer(messages[place])
            except Refused as refused:
                said[place] = _REFUSAL + refused.reason.encode()

        threads = [threading.Thread(target=answer, args=(i,)) for i in range(len(messages))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    os.write(out, json.dumps([said[i].hex() for i in range(len(messages))]).encode())


def _live(site: SiteOnDisk, messages: tuple[bytes, ...], fate: Doom | None) -> Ended:
    """One agent in a process of its own."""
    source, out = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(source)
            if fate is not None:
                fate.begin()
            _serve(site, messages, out)
            if fate is not None and fate.power_fails:
                fate.end()
            status = 0
        except HeterofedsynError as error:
            os.write(out, json.dumps({"failed": str(error)}).encode())
        finally:
            os._exit(status)
    os.close(out)
    with os.fdopen(source, "rb") as pipe:
        received = pipe.read()
    _, status = os.waitpid(child, 0)
    killed = os.waitstatus_to_exitcode(status) == -signal.SIGKILL
    told = json.loads(received) if received else []
    if isinstance(told, dict):
        raise Broken(f"an agent did not open its books: {told['failed']}")
    require(killed or bool(told), "an agent ended without a word")
    return Ended(tuple(bytes.fromhex(said) for said in told), killed)


def _site(place: Path) -> SiteOnDisk:
    import pyarrow as pa

    rows = pa.table({"a0": ["v0", "v1", "v2", "v0"], "a1": ["v0", "v1", "v1", "v0"]})
    first, *more = _PLANS
    return SiteOnDisk.make(place, SITE, _SCHEMA, first, rows, more=more, epsilon=_TABLE_EPSILON)


def _warm() -> None:
    """Load what an agent loads, so that every fork starts at once."""
    part = Part(Flat(("a0",)), 0.1)
    query = Query(study=_PLANS[0].fingerprint, number=0, label="warm", parts=(part,))
    with (
        tempfile.TemporaryDirectory(prefix="heterofedsyn-audit-") as place,
        _site(Path(place)).serving(SecureNoise()) as agent,
    ):
        agent.answer(encode(query))


class Lives(RuleBasedStateMachine):
    """A site against a model that knows what was asked, what left and what must be booked."""

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(prefix="heterofedsyn-audit-"))
        self.site = _site(self.place)
        self.folder, self.anchor = self.site.settings.folder, self.site.settings.anchor
        self.cap = Fraction(self.site.settings.cap.rho)
        self.costs: dict[str, Fraction] = {}
        self.studies: dict[str, str] = {}
        self.messages: dict[str, bytes] = {}
        self.left: dict[str, bytes] = {}
        self.spent = Fraction(0)
        self.copies: list[tuple[Path, int]] = []
        happened["lives"] += 1

    def teardown(self) -> None:
        shutil.rmtree(self.place)

    def _account(self) -> Account:
        try:
            with Books.open(self.folder, self.anchor) as books:
                return books.account
        except LedgerDisputed as error:
            raise Broken(f"an agent's end left books that are disputed: {error}") from None

    def _query(self, share: float, study: int) -> str:
        parts = (Part(Flat(("a0",)), share), Part(Flat(("a1",)), share / 2))
        number = len(self.costs)
        of = _PLANS[study].fingerprint
        query = Query(study=of, number=number, label=f"q{number}", parts=parts)
        name = query.fingerprint
        self.studies[name] = of
        self.messages[name] = encode(query)
        self.costs[name] = Fraction(together(_STUDY.part(part.share) for part in query.parts).rho)
        return name

    def _ask(self, names: tuple[str, ...], fate: Doom | None) -> None:
        before = self._account()
        charged = {entry.query for entry in before.charges}
        ended = _live(self.site, tuple(self.messages[name] for name in names), fate)
        if ended.killed and fate is not None:
            happened["power failures" if fate.power_fails else "kills"] += 1
        happened["answers or refusals"] += len(ended.said)
        for name, said in zip(names, ended.said, strict=ended.said != ()):
            if said[:1] == _ANSWER:
                happened["redeliveries"] += name in self.left
                require(
                    self.left.setdefault(name, said) == said, "one query got two different answers"
                )
            elif len(names) == 1:
                own = Fraction(_STUDY.rho) - Fraction(before.spent_on(self.studies[name]).rho)
                left = self.cap - Fraction(before.spent.rho)
                room = min(own, left)
                happened["refusals for the " + ("table" if left < own else "study")] += 1
                require(said[1:].decode() == Reason.OVER_THE_CAP, f"refused as {said[1:]!r}")
                require(name not in charged, "a query that was charged before was refused")
                require(
                    self.costs[name] > room * (1 - Fraction(1, 2**50)),
                    "a query that fits was refused",
                )

    @rule(share=_SHARES, study=_STUDIES)
    def ask(self, share: float, study: int) -> None:
        """A new query."""
        self._ask((self._query(share, study),), None)

    @rule(share=_SHARES, study=_STUDIES, fate=_FATES)
    def ask_and_kill(self, share: float, study: int, fate: Doom) -> None:
        """A new query to an agent that is killed, or whose power fails."""
        self._ask((self._query(share, study),), fate)

    @precondition(lambda self: self.costs)
    @rule(which=st.integers(0, 100), fate=st.one_of(st.none(), _FATES))
    def ask_again(self, which: int, fate: Doom | None) -> None:
        """A query that was asked before; the agent may be killed."""
        names = sorted(self.costs)
        self._ask((names[which % len(names)],), fate)

    @rule(
        shares=st.tuples(_SHARES, _SHARES),
        studies=st.tuples(_STUDIES, _STUDIES),
        twice=st.booleans(),
    )
    def ask_at_once(
        self, shares: tuple[float, float], studies: tuple[int, int], twice: bool
    ) -> None:
        """Two queries at the same time, of one study or of two, or one of them twice."""
        happened["at once"] += 1
        first = self._query(shares[0], studies[0])
        self._ask((first, first if twice else self._query(shares[1], studies[1])), None)

    @rule()
    def save(self) -> None:
        """A copy of the site's folder for later; a second agent, here or there, is refused."""
        happened["second agents refused"] += 2
        copy = self.place / f"saved-{len(self.copies)}"
        with Books.open(self.folder, self.anchor) as books:
            shutil.copytree(self.folder, copy)
            self.copies.append((copy, books.account.number))
            for folder in (self.folder, copy):
                try:
                    Books.open(folder, self.anchor).close()
                except LedgerUnavailable:
                    continue
                raise Broken("two agents have one ledger")

    @precondition(lambda self: self.copies)
    @rule(which=st.integers(0, 100))
    def restore(self, which: int) -> None:
        """An older copy in place of the folder: refused if anything was booked since."""
        copy, number = self.copies[which % len(self.copies)]
        newest = self._account().number
        aside = self.place / "aside"
        self.folder.rename(aside)
        shutil.copytree(copy, self.folder)
        try:
            Books.open(self.folder, self.anchor).close()
        except LedgerDisputed:
            require(number < newest, "the newest ledger was refused")
            happened["restored copies refused"] += 1
        else:
            require(number == newest, "an older copy of the ledger was accepted")
        shutil.rmtree(self.folder)
        aside.rename(self.folder)

    @rule()
    def swap(self) -> None:
        """The ledger of one history and the anchor of another, equally long: refused."""
        with twin(self.site) as one, twin(self.site) as other:
            for number, site in enumerate((one, other)):
                ample = site.settings.cap
                with Books.open(site.settings.folder, site.settings.anchor) as books:
                    books.charge(
                        "s", f"query {number}", "q", Budget(0.01), cap=ample, study_cap=ample
                    )
            try:
                Books.open(one.settings.folder, other.settings.anchor).close()
            except LedgerDisputed:
                happened["swapped anchors refused"] += 1
            else:
                raise Broken("a ledger was accepted with the anchor of another")

    @rule(share=_SHARES, study=_STUDIES, fate=_FATES, how=st.sampled_from(Damage))
    def repair(self, share: float, study: int, fate: Doom, how: Damage) -> None:
        """A copy is asked and killed, damaged and repaired, approved again and asked again."""
        name = self._query(share, study)
        messages = (self.messages[name],)
        with twin(self.site) as site:
            before = books_of(site)
            first = _live(site, messages, fate).said
            damage(site, before, how)
            try:
                repaired = repair(site, how)
            except UsageError:
                require(how is Damage.CUT, f"{how}: there was something to repair")
                return  # there was nothing to cut
            happened["repairs"] += 1
            (said,) = _live(site, messages, None).said
            require(said == _REFUSAL + Reason.NOT_APPROVED.encode(), "consent outlived a repair")
            site.approve(_PLANS[study], _SCHEMA)
            (said,) = _live(site, messages, None).said
            with Books.open(site.settings.folder, site.settings.anchor) as books:
                charges = books.account.charges[len(repaired.charges) :]
            if name in {entry.query for entry in repaired.answers}:
                require(said in first or not first, "a repair changed an answer")
            elif said[:1] == _ANSWER:
                require(
                    [entry.query for entry in charges] == [name],
                    "a charge from before a repair paid for an answer after it",
                )
            else:
                require(said[1:].decode() == Reason.OVER_THE_CAP, f"refused as {said[1:]!r}")

    @invariant()
    def what_left_was_charged_once_and_within_the_caps(self) -> None:
        """The laws."""
        account = self._account()
        booked = [entry.query for entry in account.charges]
        require(len({*booked}) == len(booked), "one query was charged twice")
        require({*self.left} <= {*booked}, "an answer left that was never charged")
        for entry in account.charges:
            require(
                Fraction(entry.rho) == self.costs[entry.query], "a charge is not what was asked"
            )
            require(entry.study == self.studies[entry.query], "a charge is for another study")
        spent = sum((Fraction(entry.rho) for entry in account.charges), Fraction(0))
        require(spent >= self.spent, "the ledger knows less than before")
        require(spent <= Fraction(account.spent.rho), "a sum of charges was rounded down")
        for plan in _PLANS:
            own = sum(
                (Fraction(e.rho) for e in account.charges if e.study == plan.fingerprint),
                Fraction(0),
            )
            require(own <= Fraction(plan.budget.rho), "a study spent more than its budget")
        require(spent <= self.cap, "the table spent more than its cap")
        self.spent = spent


def main(seed: int, lives: int, steps: int) -> None:
    """Live so many lives of at most so many steps; print what happened as JSON."""
    terms = settings(
        max_examples=lives,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    _warm()
    failure = ""
    try:
        run_state_machine_as_test(seeded(seed)(Lives), settings=terms)
    except BaseExceptionGroup as errors:
        failure = str(errors.exceptions[0])
    except Exception as error:
        failure = str(error)
    figures = ", ".join(f"{many:,} {what}" for what, many in happened.items())
    print(json.dumps({"passed": not failure, "figure": failure or figures}))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
