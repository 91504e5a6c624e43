"""Carries messages between the hub of a study and sites, and keeps all that was said."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from heterofedsyn.hub import Release, federate
from heterofedsyn.hub.method import Method
from heterofedsyn.hub.rounds import SUM
from heterofedsyn.protocol import Answer, Plan, Query, Released, decode, encode
from heterofedsyn.schema import Schema


class Answering(Protocol):
    """A site of any kind."""

    def answer(self, message: bytes) -> bytes:
        """The answer to a query."""
        ...


@dataclass(frozen=True, eq=False)
class Transcript:
    """All messages of a study, and what came of it."""

    queries: tuple[Query, ...]
    replies: tuple[Mapping[str, bytes], ...]
    release: Release

    def asked(self, site: str) -> list[Query]:
        """The queries that this site got."""
        return [query for query in self.queries if query.to in (None, site)]


def carry(schema: Schema, plan: Plan, method: Method, sites: Mapping[str, Answering]) -> Transcript:
    """A whole study."""
    queries: list[Query] = []
    replies: list[dict[str, bytes]] = []
    study = federate(schema, plan, method)
    try:
        query = next(study)
        while True:
            message = encode(query)
            asked = sites if query.to is None else {query.to: sites[query.to]}
            said = {name: site.answer(message) for name, site in asked.items()}
            queries.append(query)
            replies.append(said)
            query = study.send(_heard(plan, list(said.values())))
    except StopIteration as stop:
        return Transcript(tuple(queries), tuple(replies), stop.value)


def _heard(plan: Plan, replies: list[bytes]) -> list[Answer]:
    """What the hub hears: every answer, or only their sum."""
    if plan.trust == "local":
        return [decode(reply, Answer) for reply in replies]
    return [summed(replies)]


def summed(replies: Sequence[bytes]) -> Answer:
    """What is seen of answers that are hidden in their sum."""
    answers = [decode(reply, Answer) for reply in replies]
    first = answers[0]
    parts = tuple(
        Released.of(
            np.sum([answer.parts[i].values for answer in answers], axis=0),
            sensitivity=part.sensitivity,
            sigma=math.sqrt(math.fsum(answer.parts[i].sigma ** 2 for answer in answers)),
            rho=part.rho,
        )
        for i, part in enumerate(first.parts)
    )
    return Answer(
        study=first.study,
        query=first.query,
        site=SUM,
        simulated=any(answer.simulated for answer in answers),
        parts=parts,
    )
