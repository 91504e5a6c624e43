"""A whole study without input or output: requests go out, checked rounds come in, a release comes.

Simulation, engines, audit and plan drive the same generator; none of them says again what a study
does. A query may need several exchanges with each site, each a request with a step of its own (see
`steps`): whoever drives carries and keeps them one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Protocol, TypeVar

from heterofedsyn.errors import ProtocolError, UsageError
from heterofedsyn.hub.methods import make_method
from heterofedsyn.hub.methods.base import Method, Outcome, Setting
from heterofedsyn.hub.quorum import Roll
from heterofedsyn.hub.release import Missed, Release, RunRecord, Scaled
from heterofedsyn.hub.release.differences import differences
from heterofedsyn.hub.release.statement import state
from heterofedsyn.hub.replies import (
    NO_ANSWER,
    NOT_ASKED,
    SUM,
    UNAVAILABLE,
    Ask,
    Reply,
    Round,
    make_query,
)
from heterofedsyn.hub.requests import Request
from heterofedsyn.hub.steps import hidden_round, offered_keys
from heterofedsyn.protocol import Plan, Study
from heterofedsyn.protocol.aggregation import OfferedKey
from heterofedsyn.protocol.terms import hears_sums, within_means
from heterofedsyn.schema import Schema

Said = TypeVar("Said")
Told = TypeVar("Told")


Conversation = Generator[Request, Round, Release]


def converse(
    schema: Schema,
    plan: Plan,
    method: Method,
    quorum: int | None = None,
    most_rows: int | None = None,
    *,
    summed: bool | None = None,
    masked: bool = False,
) -> Conversation:
    """Run a study; whoever drives the generator carries the messages and keeps what came back.

    The same answers give the same release, in whatever order they arrive, so a study is resumed
    by replaying its stored rounds. A site that gives no answer, or one that is not as agreed, is
    left out from then on; `Roll` says whom to ask, and what becomes of sums over fewer sites.

    Args:
        quorum: how many sites must answer every round; all of them unless given.
        most_rows: that a site may have; one that tells of more has not answered.
        summed: whether whoever drives adds up the answers of all sites; as the plan's trust model
            says unless given.
        masked: whether sites hide their answers from the hub instead, which adds them up itself.
    """
    if plan.encoded_by != schema.fingerprint:
        raise UsageError("the plan was made for another schema; make a new plan")
    rounds: list[Round] = []
    summed = hears_sums(plan) if summed is None else summed
    roll = Roll.of(plan, quorum, summed=summed, masked=masked)
    asking = method.conduct(Setting.of(schema, plan))
    turn: Ask | Outcome = _next(asking)
    keys: tuple[OfferedKey, ...] = ()
    while isinstance(turn, Ask):
        query = within_means(make_query(turn, plan, len(rounds)), schema.domain, plan)
        request = Request.of(query, schema.domain, plan, roll, most_rows)
        if masked:
            keys = keys or (yield from offered_keys(request))
            round_ = yield from hidden_round(request, keys)
        else:
            round_ = yield from _round(request)
        rounds.append(round_)
        roll = round_.roll or roll
        turn = _next(asking, round_)
    if not isinstance(turn, Outcome):
        raise UsageError(f"method {method.name!r} ended without an outcome; return one")
    return _release(schema, plan, turn, rounds, roll)


def _round(request: Request) -> Generator[Request, Round, Round]:
    """All that is said about one query; nobody is asked if nobody is left.

    Raises:
        ProtocolError: if what comes back was not checked against the request.
    """
    if not request.asked:
        return request.check(())
    round_ = yield request
    if round_.roll is None or round_.terms != request.stated:
        raise ProtocolError(f"the round of query {request.query.label!r} was never checked")
    return round_


def _next(conversation: Generator[Said, Round, Told], round_: Round | None = None) -> Said | Told:
    """What a conversation says next, or what it ends with."""
    try:
        return next(conversation) if round_ is None else conversation.send(round_)
    except StopIteration as stop:
        result: Told = stop.value
        return result


class Rounds(Protocol):
    """Where finished rounds, and the steps of a round, are kept."""

    def find(self, request: Request) -> tuple[Reply, ...] | None:
        """What came of this request, if it was carried before."""
        ...

    def begin(self, request: Request) -> None:
        """Remember what is about to be sent; refuse anything else in the same place."""
        ...

    def keep(self, request: Request, replies: Sequence[Reply]) -> None:
        """Remember what came of it."""
        ...


Carrier = Callable[[Request], Sequence[Reply]]
"""Asks sites, and comes back with what each of them said."""


def drive(conversation: Conversation, carry: Carrier, rounds: Rounds | None = None) -> Release:
    """Carry a conversation to its release; rounds that are kept are not asked again.

    Raises:
        QuorumLost: if too few sites answer; the rounds before are kept, so it can be resumed.
    """
    turn: Request | Release = _next(conversation)
    while isinstance(turn, Request):
        kept = None if rounds is None else rounds.find(turn)
        if rounds is not None and kept is None:
            rounds.begin(turn)
        round_ = turn.check(carry(turn) if kept is None else kept)
        if rounds is not None and kept is None:
            rounds.keep(turn, round_.replies)
        turn = _next(conversation, round_)
    return turn


def of_study(study: Study) -> Conversation:
    """The conversation that a study file agrees on."""
    plan = study.plan
    method = make_method(plan.method, plan.settings)
    return converse(
        study.encoding, plan, method, study.quorum, study.most_rows, masked=bool(plan.roster)
    )


def _release(
    schema: Schema, plan: Plan, outcome: Outcome, rounds: Sequence[Round], roll: Roll
) -> Release:
    present = [site for site in plan.sites if site not in roll.missing]
    seen = [round_.of([*present, SUM]) for round_ in rounds]
    simulated = any(answer.simulated for round_ in rounds for answer in round_.answers)
    scaled = [
        Scaled(round_.query.number + 1, round_.query.label, round_.factor)
        for round_ in rounds
        if round_.factor != 1
    ]
    return Release(
        schema=schema,
        model=outcome.model,
        privacy=state(plan, rounds, simulated=simulated),
        run=RunRecord.of(
            plan,
            outcome,
            differences(schema, present, seen),
            _missed(rounds, plan),
            tuple(scaled),
        ),
    )


def _missed(rounds: Sequence[Round], plan: Plan) -> tuple[Missed, ...]:
    """Every round that a site missed, with its reason, and those it was left out of for that."""
    missed: list[Missed] = []
    gone: frozenset[str] = frozenset()
    for round_ in rounds:
        number, label = round_.query.number + 1, round_.query.label
        reasons = {absence.site: absence.reason for absence in round_.absent}
        for site in plan.sites:
            if site in reasons:
                missed.append(Missed(site, number, label, _published(reasons[site])))
            elif site in gone and round_.query.to in (None, site):
                missed.append(Missed(site, number, label, NOT_ASKED))
        gone = round_.roll.missing if round_.roll else gone
    return tuple(missed)


def _published(reason: str) -> str:
    """A reason as a release tells it: whether a site was late, failed or could not be reached would
    say something of how long it took, and is for the coordinator alone.
    """
    return NO_ANSWER if reason == UNAVAILABLE or reason.startswith(NO_ANSWER) else reason
