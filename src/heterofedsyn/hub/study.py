"""A whole study without input or output: queries go out, answers come in, a release comes back."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from heterofedsyn.errors import UsageError
from heterofedsyn.hub.differences import differences
from heterofedsyn.hub.method import Method, Outcome, Setting
from heterofedsyn.hub.release import Release, RunRecord
from heterofedsyn.hub.rounds import Ask, Round, make_query, receive
from heterofedsyn.hub.statement import Accounts, state
from heterofedsyn.protocol import Answer, Plan, Query
from heterofedsyn.schema import Schema


def federate(
    schema: Schema, plan: Plan, method: Method
) -> Generator[Query, Sequence[Answer], Release]:
    """Run a study; whoever drives the generator carries the messages.

    The same answers give the same release, in whatever order they arrive, so a study is resumed
    by replaying its stored answers.
    """
    if plan.schema != schema.fingerprint:
        raise UsageError("the plan was made for another schema; make a new plan")
    budget, study = plan.budget, plan.fingerprint
    accounts = Accounts(plan)
    setting = Setting(schema, budget, plan.trust_model, plan.sites, plan.seed, plan.rows_per_unit)
    conversation = method.conduct(setting)
    simulated = False
    try:
        ask: Ask = next(conversation)
        while True:
            query = make_query(ask, plan, budget, study, len(accounts.rounds))
            answers = yield query
            round_: Round = receive(query, answers, schema.domain, plan, budget)
            accounts = accounts.book(round_)
            simulated = simulated or any(answer.simulated for answer in round_.answers)
            ask = conversation.send(round_)
    except StopIteration as stop:
        outcome: Outcome = stop.value
    return Release(
        schema=schema,
        model=outcome.model,
        privacy=state(plan, accounts, simulated=simulated),
        run=RunRecord.of(plan, outcome, differences(schema, plan.sites, accounts.rounds)),
    )
