"""Answers to a hub: whatever a site sends, its round is whole or it is left out."""

from __future__ import annotations

from functools import cache

import numpy as np

from agent_support import SCHEMA, FreshNoise
from fuzz.law import lawful
from heterofedsyn.hub.quorum import Roll
from heterofedsyn.hub.replies import Absence, receive
from heterofedsyn.marginals import Flat, Grouped, Haar, Sketched, Total
from heterofedsyn.privacy.noise import SimulatedNoise
from heterofedsyn.protocol import Answer, Part, Query, decode, encode
from heterofedsyn.protocol.terms import stated_terms
from heterofedsyn.site import Site
from support import dependent_table, make_plan

FORM = "msgpack"

_PLAN = make_plan(SCHEMA, ("one", "two", "three"))
_QUERY = Query(
    study=_PLAN.fingerprint,
    number=0,
    label="all",
    parts=tuple(
        Part(statistic, 0.1)
        for statistic in (
            Total(),
            Flat(("a0",)),
            Flat(("a0", "a2")),
            Haar(("a1",), 1),
            Grouped(("a0", "a1"), ((0, 1, 1), (0, 0, 1, 1))),
            Sketched(("a0", "a1"), 3, 9),
        )
    ),
)
_TERMS = [stated_terms(part, SCHEMA.domain, _PLAN) for part in _QUERY.parts]
_MOST_ROWS = 10_000


def seeds() -> list[bytes]:
    table = dependent_table(SCHEMA.domain, 50)
    message = encode(_QUERY)
    quiet = Site("one", table, _PLAN, SimulatedNoise(1, "one")).answer(message)
    return [quiet, Site("one", table, _PLAN, FreshNoise()).answer(message)]


def examples() -> list[bytes]:
    return [
        b"",
        b"\x91" * 1_000_000,
        b"\x86\xa4type\xa6answer\xa5parts\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
    ]


def fuzz_one(data: bytes) -> None:
    answer = lawful(lambda: decode(data, Answer))
    if answer is None:
        return
    others = [decode(good, Answer) for good in _others()]
    for most in (None, _MOST_ROWS):
        round_ = receive(_QUERY, _TERMS, [answer, *others], _PLAN.sites, _PLAN, most)
        assert {reply.site for reply in round_.replies} == {*_PLAN.sites}
        assert all(not isinstance(r, Absence) or r.reason.isprintable() for r in round_.replies)
        first = lawful(lambda r=round_: Roll.of(_PLAN, 1, summed=False).take(r))  # type: ignore[misc]
        after = None if first is None else first.roll
        fitted = None if after is None else lawful(lambda f=after, r=round_: f.take(r))  # type: ignore[misc]
        if fitted is not None:
            for total in fitted.totals():
                assert np.isfinite(total.values).all()
                assert 0 < total.variance < np.inf
            assert fitted.measurements()


@cache
def _others() -> tuple[bytes, ...]:
    table = dependent_table(SCHEMA.domain, 50)
    return tuple(
        Site(name, table, _PLAN, SimulatedNoise(1, name)).answer(encode(_QUERY))
        for name in ("two", "three")
    )
