"""A whole study without input or output: queries go out, answers come in, a release comes back."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Protocol

from heterofedsyn.errors import UsageError
from heterofedsyn.hub.methods import make_method
from heterofedsyn.hub.methods.base import Method, Outcome, Setting
from heterofedsyn.hub.release import Missed, Release, RunRecord, Scaled
from heterofedsyn.hub.release.differences import differences
from heterofedsyn.hub.release.statement import Accounts, state
from heterofedsyn.hub.replies import (
    NO_ANSWER,
    NOT_ASKED,
    SUM,
    UNAVAILABLE,
    Ask,
    Reply,
    Roll,
    Round,
    make_query,
    receive,
)
from heterofedsyn.protocol import Plan, Query, Study
from heterofedsyn.protocol.limits import check_query
from heterofedsyn.schema import Schema


def federate(
    schema: Schema,
    plan: Plan,
    method: Method,
    quorum: int | None = None,
    most_rows: int | None = None,
) -> Generator[Query, Sequence[Reply], Release]:
    """Run a study; whoever drives the generator carries the messages.

    The same answers give the same release, in whatever order they arrive, so a study is resumed
    by replaying its stored answers. A site that gives no answer, or one that is not as agreed, is
    left out from then on; `Roll` says whom to ask, and what becomes of sums over fewer sites.

    Args:
        quorum: how many sites must answer every round; all of them unless given.
        most_rows: that a site may have; one that tells of more has not answered.

    Raises:
        QuorumLost: if fewer do, or those who do have too few of all rows.
        ProtocolError: if the method asks for more than any site answers.
    """
    if plan.schema != schema.fingerprint:
        raise UsageError("the plan was made for another schema; make a new plan")
    budget, study = plan.budget, plan.fingerprint
    accounts, roll = Accounts(plan), Roll.of(plan, quorum)
    setting = Setting(schema, budget, plan.trust_model, plan.sites, plan.seed, plan.rows_per_unit)
    conversation = method.conduct(setting)
    simulated = False
    try:
        ask: Ask = next(conversation)
        while True:
            query = make_query(ask, plan, budget, study, len(accounts.rounds))
            check_query(query, schema.domain)  # before hub or site does any work for it
            asked = roll.asked(query)
            replies = (yield query) if asked else ()
            round_ = receive(query, replies, schema.domain, plan, asked, most_rows)
            roll, round_ = roll.take(round_)
            accounts = accounts.book(round_)
            simulated = simulated or any(answer.simulated for answer in round_.answers)
            ask = conversation.send(round_)
    except StopIteration as stop:
        outcome: Outcome = stop.value
    present = [site for site in plan.sites if site not in roll.missing]
    seen = [round_.of([*present, SUM]) for round_ in accounts.rounds]
    return Release(
        schema=schema,
        model=outcome.model,
        privacy=state(plan, accounts, simulated=simulated),
        run=RunRecord.of(
            plan,
            outcome,
            differences(schema, present, seen),
            _missed(accounts.rounds, plan),
            tuple(
                Scaled(round_.query.number + 1, round_.query.label, round_.factor)
                for round_ in accounts.rounds
                if round_.factor != 1
            ),
        ),
    )


class Rounds(Protocol):
    """Where finished rounds are kept."""

    def find(self, query: Query) -> tuple[Reply, ...] | None:
        """What came of this query, if it was asked before."""
        ...

    def begin(self, query: Query) -> None:
        """Remember a query that is about to be sent; refuse another one in the same round."""
        ...

    def keep(self, query: Query, replies: Sequence[Reply]) -> None:
        """Remember what came of a query."""
        ...


Carrier = Callable[[Query, tuple[str, ...]], Sequence[Reply]]
"""Asks sites, and comes back with what each of them said."""


def conduct(study: Study, rounds: Rounds, carry: Carrier) -> Release:
    """Run a study to its release; rounds that were finished before are not asked again.

    Raises:
        QuorumLost: if too few sites answer; the rounds before are kept, so it can be resumed.
    """
    schema, plan = study.encoding, study.plan
    roll = Roll.of(plan, study.quorum)
    method = make_method(plan.method, plan.settings)
    hub = federate(schema, plan, method, study.quorum, study.most_rows)
    try:
        query = next(hub)
        while True:
            asked = roll.asked(query)
            found = rounds.find(query)
            if found is None:
                rounds.begin(query)
            replies = carry(query, asked) if found is None else found
            round_ = receive(query, replies, schema.domain, plan, asked, study.most_rows)
            roll, _ = roll.take(round_)  # refuses what must not be kept
            if found is None:
                rounds.keep(query, round_.replies)
            query = hub.send(round_.replies)
    except StopIteration as stop:
        release: Release = stop.value
        return release


def _missed(rounds: Sequence[Round], plan: Plan) -> tuple[Missed, ...]:
    """Every round that a site missed: the first with its reason, then those it was left out of."""
    found: list[Missed] = []
    gone: set[str] = set()
    for round_ in rounds:
        number, label = round_.query.number + 1, round_.query.label
        reasons = {absence.site: absence.reason for absence in round_.absent}
        for site in plan.sites:
            if site in reasons:
                found.append(Missed(site, number, label, _published(reasons[site])))
            elif site in gone and round_.query.to in (None, site):
                found.append(Missed(site, number, label, NOT_ASKED))
        gone.update(reasons)
    return tuple(found)


def _published(reason: str) -> str:
    """A reason as a release tells it: whether a site was late, failed or could not be reached would
    say something of how long it took, and is for the coordinator alone.
    """
    return NO_ANSWER if reason == UNAVAILABLE or reason.startswith(NO_ANSWER) else reason
