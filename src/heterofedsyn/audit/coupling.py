"""Coupling: the same noise, a table with and without one record; all that leaves is compared.

The queries of a study on the table are replayed against the table and one more record. Since the
noise is the same, what differs in the answers is what the record did, and its price can be added
up in exact fractions.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from fractions import Fraction
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import msgspec
import numpy as np

from heterofedsyn._arrays import Exact, stream
from heterofedsyn._words import count
from heterofedsyn.audit import (
    agents,
    availability,
    prices,
    readings,
    reference,
    simulations,
    sockets,
    streams,
    sums,
    workers,
)
from heterofedsyn.audit.carry import Transcript, carry
from heterofedsyn.audit.disk import SiteOnDisk
from heterofedsyn.audit.effort import Effort
from heterofedsyn.audit.exhibit import (
    SITE,
    ask,
    every_kind,
    plain_schema,
    plan_of,
    table_of,
)
from heterofedsyn.audit.findings import Check, Finding, require
from heterofedsyn.audit.hearing import Charging, Heard, InMemory, check_charges, compare, hear
from heterofedsyn.audit.statement import check_statement
from heterofedsyn.audit.subject import (
    CANARIES,
    FIRST,
    LAST,
    ROWS,
    Case,
    cases,
    deal,
    people,
    person,
)
from heterofedsyn.marginals import Flat, Sketched, SketchKind, Statistic, counting
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.noise import (
    NoiseSource,
    SecureNoise,
    SimulatedNoise,
    add_noise,
)
from heterofedsyn.privacy.terms import Noised, NoisyIntegers, Terms
from heterofedsyn.protocol import Answer, Plan, Query, Released, decode, encode
from heterofedsyn.schema import EncodedTable
from heterofedsyn.schema import decode as decode_rows
from heterofedsyn.simulate.run import run_study
from heterofedsyn.site import Site

if TYPE_CHECKING:
    import pyarrow as pa

_LARGE = (300, 300, *(3,) * 10)
_LARGE_ROWS = 66_000
"""Sizes of attributes and rows that several threads count; a pair has 90,000 cells."""

_ON_DISK = (Case("wavetree"), Case("fedprivsyn", {"sketch": "gaussian"}, rows_per_unit=3))


def checks(effort: Effort, seed: int) -> Iterator[Check]:
    """One check for each study, and those of prices, of the door and of the release folder."""
    for case in cases(every=effort.every_study):
        yield case.name, partial(_in_memory, case, seed)
    yield "every kind, every record", partial(_every_record, seed)
    yield "a large table", partial(_large, seed)
    for case in _ON_DISK:
        yield f"agent: {case.name}", partial(_on_disk, case, seed)
    yield from agents.checks(seed)
    yield from sockets.checks(seed)
    yield from streams.checks(seed)
    yield from readings.checks(effort, seed)
    yield from workers.checks(seed)
    yield from availability.checks(effort, seed)
    yield from simulations.checks(seed)
    released = (Case("wavetree"), Case("fedprivsyn")) if effort.every_study else (Case("wavetree"),)
    for case in released:
        yield f"release of {case.name}", partial(_release, case, seed)
    yield "the door keeps integers", partial(_door, seed)
    yield "lengths of messages", partial(_lengths, seed)
    yield "splits of a budget", partial(prices.splits, effort, seed)
    yield from sums.checks(effort, seed)
    yield "rho keeps epsilon and delta", partial(prices.conversions, effort, seed)


Open = Callable[["pa.Table"], AbstractContextManager[Charging]]
"""A new site with these rows."""


def _in_memory(case: Case, seed: int) -> Iterator[Finding]:
    plan, own, transcript = _study(case, seed)
    name = plan.sites[0]

    def open_site(rows: pa.Table) -> AbstractContextManager[Charging]:
        noise = SimulatedNoise(seed, name)
        site = Site(name, case.encoded(rows), plan, noise, trust=plan.trust_model)
        return nullcontext(InMemory(site))

    yield _couple(case.name, case, plan, own, transcript, open_site, tuple(CANARIES), seed)


def _on_disk(case: Case, seed: int) -> Iterator[Finding]:
    plan, own, transcript = _study(case, seed)
    name = plan.sites[0]

    @contextmanager
    def open_site(rows: pa.Table) -> Iterator[Charging]:
        with tempfile.TemporaryDirectory(prefix="heterofedsyn-audit-") as place:
            site = SiteOnDisk.make(Path(place), name, case.public, plan, rows)
            with site.serving(SimulatedNoise(seed, name)) as agent:
                yield agent

    few = ("all rare", "nulls", "a row that does not fit")
    yield _couple(f"agent: {case.name}", case, plan, own, transcript, open_site, few, seed)


def _every_record(seed: int) -> Iterator[Finding]:
    """Every kind of statistic, with every record that a small schema allows, added and removed.

    Each is asked for twice in one query: equal parts have noise of their own, and cost twice.
    """
    schema = plain_schema(9, 6)
    plan = plan_of(schema, seed, epsilon=1.0)
    kinds = [s for statistics in every_kind(schema.domain, seed).values() for s in statistics] * 2
    query = ask(plan, 0, kinds, plan.budget.evenly(len(kinds))[0].rho)
    table = table_of(schema, 40, stream(seed, "rows"))
    records = np.array(list(np.ndindex(schema.domain.sizes)), dtype=np.int64).T

    def heard(rows: EncodedTable) -> Heard:
        site = Site(SITE, rows, plan, SimulatedNoise(seed, SITE))
        found = hear(InMemory(site), query, rows, plan, seed)
        check_charges(site.ledger.spent, [found], plan.budget, plan.budget.rho)
        return found

    neighbours = [
        EncodedTable.concatenate([table, EncodedTable.from_codes(table.domain, record[:, None])])
        for record in records.T
    ] + [table.take(np.delete(np.arange(table.rows), row)) for row in range(table.rows)]
    one = heard(table)
    most = Fraction(0)
    for neighbour in neighbours:
        loss = compare(one, heard(neighbour), plan.trust_model, "a record")
        most = max(most, loss / one.charged)
    yield Finding(
        "every kind, every record",
        True,
        f"{len(kinds)} releases, {len(neighbours)} neighbours: {float(most):.9f} of the charge at "
        "most",
    )


def _large(seed: int) -> Iterator[Finding]:
    """Pairs of a table that threads count, and sketches of more cells than a small schema has."""
    schema = plain_schema(*_LARGE)
    names = schema.domain.names
    plan = plan_of(schema, seed, epsilon=1.0)
    kinds: list[Statistic] = [Flat(pair) for pair in combinations(names, 2) if pair != names[:2]]
    kinds += [Sketched(names[:2], 4, seed + i, SketchKind.GAUSSIAN) for i in range(3)]
    query = ask(plan, 0, kinds, plan.budget.evenly(len(kinds))[0].rho)
    table = table_of(schema, _LARGE_ROWS, stream(seed, "many rows"))
    site = Site(SITE, table, plan, SimulatedNoise(seed, SITE))
    with (
        mock.patch.object(counting, "cores", return_value=4),
        mock.patch.object(counting, "_pool", wraps=counting._pool) as threads,
    ):
        hear(InMemory(site), query, table, plan, seed)
    require(threads.called, "a large table is counted by one thread")
    yield Finding("a large table", True, f"{len(kinds)} releases of {table.rows:,} rows")


def _study(case: Case, seed: int) -> tuple[Plan, pa.Table, Transcript]:
    """The plan, the rows of its first site, and the study on them."""
    plan = case.plan(seed)
    rows = people(ROWS, seed)
    dealt = [rows] if len(plan.sites) == 1 else deal(rows, len(plan.sites))
    trust = plan.trust_model
    sites = {
        name: Site(name, case.encoded(part), plan, SimulatedNoise(seed, name), trust=trust)
        for name, part in zip(plan.sites, dealt, strict=True)
    }
    return plan, dealt[0], carry(case.encoding, plan, case.conducted, sites)


def _couple(
    name: str,
    case: Case,
    plan: Plan,
    own: pa.Table,
    transcript: Transcript,
    open_site: Open,
    canaries: Sequence[str],
    seed: int,
) -> Finding:
    """The losses of all canaries, each at most what was charged."""
    import pyarrow as pa

    queries = transcript.asked(plan.sites[0])
    stated = transcript.release.privacy.sites[0].rho
    with open_site(own) as site:
        without = [hear(site, query, case.encoded(own), plan, seed) for query in queries]
        check_charges(site.spent, without, plan.budget, stated)
    said = [said[plan.sites[0]] for said in transcript.replies if plan.sites[0] in said]
    require([h.reply for h in without] == said, "the same query and noise gave other bytes")
    worst = _worst(queries, without, case)
    added = {canary: [CANARIES[canary]] * (case.rows_per_unit + 2) for canary in canaries}
    added["the longest rows of sketches"] = [worst] * (case.rows_per_unit + 2)
    if case.rows_per_unit > 1:
        added["rows that differ"] = [worst, FIRST, LAST, FIRST, LAST]
    else:
        added = {canary: rows[:1] for canary, rows in added.items()}
    most = Fraction(0)
    for canary, rows in added.items():
        larger = pa.concat_tables([own, person(rows, own)])
        with open_site(larger) as site:
            within = [hear(site, query, case.encoded(larger), plan, seed) for query in queries]
            loss = Fraction(0)
            for query, one, other in zip(queries, without, within, strict=True):
                where = f"query {query.label!r} with {canary}"
                loss += compare(one, other, plan.trust_model, where)
            require(
                loss <= Fraction(site.spent.rho),
                f"{canary}: moved {float(loss):.6g}, charged was {site.spent.rho:.6g}",
            )
            check_charges(site.spent, within, plan.budget, stated)
            most = max(most, loss / Fraction(site.spent.rho))
    statement = msgspec.json.decode(msgspec.json.encode(transcript.release.privacy))
    check_statement(statement, plan, case.encoding.domain, transcript)
    parts = sum(len(query.parts) for query in queries)
    return Finding(
        name,
        True,
        f"{count(len(queries), 'round')}, {parts:,} releases, {len(added)} canaries: "
        f"{float(most):.9f} of the charge at most",
    )


def _worst(queries: Sequence[Query], heard: Sequence[Heard], case: Case) -> dict[str, object]:
    """The record that moves all sketches most, found among all records of the schema."""
    domain = case.encoding.domain
    moved = np.zeros(domain.sizes)
    for query, one in zip(queries, heard, strict=True):
        for part, sigma in zip(query.parts, one.sigmas, strict=True):
            if isinstance(part.statistic, Sketched):
                names = part.statistic.attributes
                shape = [size if n in names else 1 for n, size in zip(*_axes(case), strict=True)]
                rows = reference.squared_rows(part.statistic, domain) / sigma**2
                moved += rows.reshape(shape)
    codes = np.array(np.unravel_index(int(moved.argmax()), domain.sizes))[:, None]
    table = EncodedTable.from_codes(domain, codes)
    rows = decode_rows(case.encoding, table, stream(0, "the worst record"))
    found: dict[str, object] = rows.to_pylist()[0]
    return found


def _axes(case: Case) -> tuple[tuple[str, ...], tuple[int, ...]]:
    return case.encoding.domain.names, case.encoding.domain.sizes


def _release(case: Case, seed: int) -> Iterator[Finding]:
    """The folder of a study holds nothing but what follows from its answers."""
    plan, own, transcript = _study(case, seed)
    dealt = deal(people(ROWS, seed), len(plan.sites))
    tables = [case.encoded(rows) for rows in dealt]
    import pyarrow as pa

    larger = [case.encoded(pa.concat_tables([own, person([LAST], own)])), *tables[1:]]
    with tempfile.TemporaryDirectory(prefix="heterofedsyn-audit-") as place:
        folders = [
            run_study(case.encoding, plan, case.conducted, tables, noise_seed=seed).save(
                Path(place) / "study"
            ),
            transcript.release.save(Path(place) / "answers"),
            run_study(case.encoding, plan, case.conducted, larger, noise_seed=seed).save(
                Path(place) / "larger"
            ),
        ]
        files = [{path.name: path.read_bytes() for path in sorted(f.iterdir())} for f in folders]
    study, answers, other = files
    require({*study} == {*other}, "a record changed which files there are")
    for name in study:
        require(study[name] == answers.get(name), f"{name} does not follow from the answers alone")
    stated = msgspec.json.decode(study["privacy.json"])
    check_statement(stated, plan, case.encoding.domain, transcript)
    for name in ("privacy.json", "run.json"):
        keys = [{*msgspec.json.decode(found[name])} for found in (study, other)]
        require(keys[0] == keys[1], f"a record changed which keys {name} has")
    yield Finding(
        f"release of {case.name}", True, f"{len(study)} files follow from the answers alone"
    )


def _door(seed: int) -> Iterator[Finding]:
    """Integers that no float can hold come through the door and the codec unharmed."""
    rng = stream(seed, "door")
    exact = (2**60 + rng.integers(0, 2**20, 2_000) * 2 + 1).astype(np.int64)
    budget = Budget(0.5 * (1 + 1e-9))
    terms = Terms("flat", (), 1.0, 1.0, exact.size, budget.rho)
    sources: tuple[NoiseSource, ...] = (SimulatedNoise(seed, "site"), SecureNoise())
    for source in sources:
        noised = add_noise(Exact(exact), terms, budget, source, b"door")
        kind = noised.values.dtype
        require(kind == np.int64, f"{kind} comes out of the door, not int64")
        part = Released.of(noised)
        message = encode(Answer(study="", query="", site="", simulated=True, parts=(part,)))
        data = decode(message, Answer).parts[0].data
        arrived = np.frombuffer(data, dtype="<i8")
        require(arrived.size == exact.size, "integers of another number arrive")
        # Floats near 2^60 are 256 apart; noise of sigma 1 reaches 20 with a chance below 1e-80.
        require(int(np.abs(arrived - exact).max()) <= 20, "a float is in the release path")
    yield Finding("the door keeps integers", True, f"{exact.size:,} integers above 2^60")


def _lengths(seed: int) -> Iterator[Finding]:
    """A message is as long whatever integers it holds: none, small, large, all alike."""
    rng = stream(seed, "lengths")
    many = 1_000
    random = rng.integers(-(2**62), 2**62, many)
    contents = [np.full(many, value) for value in (0, 1, -1, 255, 2**31, 2**62, -(2**62))]
    contents += [random, random % 100, np.where(np.arange(many) < many // 2, random, 0)]
    lengths = set()
    for values in contents:
        noisy = NoisyIntegers(values.astype(np.int64))
        part = Released.of(Noised(noisy, Terms("flat", (), 1.0, 1.0, many, 0.5)))
        message = encode(Answer(study="", query="", site="", simulated=True, parts=(part,)))
        require(len(part.data) == 8 * many, "a part has not 8 bytes for each of its integers")
        lengths.add(len(message))
    require(len(lengths) == 1, "the length of a message depends on its integers")
    yield Finding(
        "lengths of messages", True, f"{len(contents)} contents, {lengths.pop():,} bytes each"
    )
