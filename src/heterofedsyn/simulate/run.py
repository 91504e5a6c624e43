"""A whole federation in one process: the same messages, the same generator, no network."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from heterofedsyn.errors import UsageError
from heterofedsyn.hub import Release, Request, converse, drive
from heterofedsyn.hub.methods.base import Method, check_trust
from heterofedsyn.hub.release.run_record import POOLED
from heterofedsyn.hub.replies import SUM
from heterofedsyn.marginals import Counts, TableCounts
from heterofedsyn.privacy.noise import NoiseSource, SecureNoise, SimulatedNoise
from heterofedsyn.protocol import Answer, Plan, Query, Released, decode, encode
from heterofedsyn.schema import EncodedTable, Schema
from heterofedsyn.site import Site


@dataclass(frozen=True)
class RoundReport:
    """What was carried in one round, for progress and for the record of bytes sent."""

    number: int
    label: str
    parts: int
    sent: dict[str, int]
    """Bytes from each site."""


class Answering(Protocol):
    """A site of any kind."""

    def answer(self, message: bytes) -> bytes:
        """The answer to an encoded query."""
        ...


Watcher = Callable[[RoundReport], None]
Listener = Callable[[Query, Mapping[str, bytes]], None]
"""Hears every query, and what each site that was asked replied."""


def site_names(method: Method, names: Sequence[str]) -> tuple[str, ...]:
    """The sites as the plan names them: a method that pools has one."""
    return (POOLED,) if method.pools else tuple(names)


def run_study(
    schema: Schema,
    plan: Plan,
    method: Method,
    tables: Sequence[EncodedTable | Counts],
    *,
    noise_seed: int | None = None,
    watch: Watcher = lambda report: None,
) -> Release:
    """Carry a study between in-memory sites and the hub.

    Args:
        tables: one per site, in the order of `plan.sites`; encoded tables may be any number if
            the method pools.
        noise_seed: makes the noise reproducible and the release unfit for publication.
    """
    trust = plan.trust_model
    check_trust(method, plan.trust)
    if method.pools and len(tables) != 1:
        encoded = [table for table in tables if isinstance(table, EncodedTable)]
        if len(encoded) < len(tables):
            raise UsageError(f"method {method.name!r} pools rows: count them all as one table")
        tables = [TableCounts(*encoded)]

    def noise_of(name: str) -> NoiseSource:
        return SecureNoise() if noise_seed is None else SimulatedNoise(noise_seed, name)

    sites = {
        name: Site(name, table, plan, noise_of(name), trust=trust)
        for name, table in zip(plan.sites, tables, strict=True)
    }

    def hear(query: Query, replies: Mapping[str, bytes]) -> None:
        sent = {name: len(reply) for name, reply in replies.items()}
        watch(RoundReport(query.number, query.label, len(query.parts), sent))

    return carry(schema, plan, method, sites, hear)


def carry(
    schema: Schema, plan: Plan, method: Method, sites: Mapping[str, Answering], hear: Listener
) -> Release:
    """Carry the messages of a study between the hub and its sites, whatever these are."""

    def ask(request: Request) -> list[Answer]:
        message = encode(request.query)
        asked = {name: sites[name] for name in (sites if SUM in request.asked else request.asked)}
        with ThreadPoolExecutor() as pool:
            said = pool.map(lambda site: site.answer(message), asked.values())
            replies = dict(zip(asked, said, strict=True))
        hear(request.query, replies)
        answers = [decode(reply, Answer) for reply in replies.values()]
        return [summed(answers)] if SUM in request.asked else answers

    return drive(converse(schema, plan, method), ask)


def summed(answers: Sequence[Answer]) -> Answer:
    """What secure aggregation lets the hub see: sums modulo 2^64, formed here in memory."""
    first = answers[0]
    return Answer(
        study=first.study,
        query=first.query,
        site=SUM,
        simulated=any(answer.simulated for answer in answers),
        parts=tuple(map(Released.sum_of, zip(*(answer.parts for answer in answers), strict=True))),
    )
