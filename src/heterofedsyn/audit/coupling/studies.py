"""The same noise, a table with and without one record: all that leaves a study is compared.

The queries of a study on the table are replayed against the table and one more record. Since the
noise is the same, what differs in the answers is what the record did, and its price can be added
up in exact fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
import numpy as np

from heterofedsyn._arrays import Floats, Integers, stream
from heterofedsyn._words import count
from heterofedsyn.audit import oracle
from heterofedsyn.audit.cases import (
    ALL_ROUNDS,
    Case,
    Transcript,
    carry,
    cases,
    deal,
)
from heterofedsyn.audit.coupling.answers import (
    Examined,
    check_charges,
    check_statement,
    compare,
    examine,
    examine_in_memory,
)
from heterofedsyn.audit.coupling.neighbours import files_in
from heterofedsyn.audit.effort import Effort
from heterofedsyn.audit.findings import Check, require
from heterofedsyn.audit.fixtures import (
    Charging,
    InMemory,
    ask_all,
    every_kind,
    plain_schema,
    plan_of,
    serving,
    table_of,
    temporary_folder,
)
from heterofedsyn.audit.patches import patched
from heterofedsyn.marginals import Flat, Sketched, SketchKind, Statistic, counting
from heterofedsyn.privacy.noise import SimulatedNoise
from heterofedsyn.privacy.trust import Local
from heterofedsyn.protocol import Answer, Plan, Query, decode
from heterofedsyn.schema import Domain, EncodedTable
from heterofedsyn.schema import decode as decode_rows
from heterofedsyn.simulate.run import run_study
from heterofedsyn.site import Site

if TYPE_CHECKING:
    import pyarrow as pa

_LARGE = (300, 300, *(3,) * 10)
_LARGE_ROWS = 66_000
"""Sizes of attributes and rows that several threads count; a pair has 90,000 cells."""

_MOST_RECORDS = 10**6
"""Of a schema, that are looked at one by one."""

_ON_DISK = (Case("wavetree"), Case("fedprivsyn", {"sketch": "gaussian"}, rows_per_unit=3))


_AT_AGENTS = ("all rare", "nulls", "a row that does not fit")
"""Canaries that agents are tried with, which are slower than sites in memory."""


def checks(effort: Effort, seed: int, own: Case | None = None) -> Iterator[Check]:
    """One check for each study, in memory and at an agent, and for every kind of statistic.

    Args:
        own: a study that takes the place of the built-in ones.
    """
    for case in (own,) if own else cases(every=effort.every_study):
        yield case.name, partial(_in_memory, case, seed)
    yield "every kind, every record", partial(_every_record, seed)
    yield "a large table", partial(_large, seed)
    for case in (own,) if own and answers_singly(own) else _ON_DISK:
        yield f"agent: {case.name}", partial(_on_disk, case, seed)


def release_checks(effort: Effort, seed: int, own: Case | None = None) -> Iterator[Check]:
    """What is published, of the built-in studies or of one that takes their place."""
    wavetree = Case("wavetree"), Case("wavetree", epsilon=ALL_ROUNDS)
    released = (*wavetree, Case("fedprivsyn")) if effort.every_study else wavetree
    for case in (own,) if own and answers_singly(own) else released:
        yield f"release of {case.name}", partial(_release, case, seed)


def answers_singly(case: Case) -> bool:
    """Whether sites answer one by one: an agent, or a simulation, carries such a study as it is."""
    return case.trust == Local.name and not case.conducted.pools


Open: TypeAlias = Callable[["pa.Table", Plan], AbstractContextManager[Charging]]
"""A new site with these rows, the first one of a plan."""


def _in_memory(case: Case, seed: int) -> str:
    def open_site(rows: pa.Table, plan: Plan) -> AbstractContextManager[Charging]:
        name = plan.sites[0]
        noise = SimulatedNoise(seed, name)
        site = Site(name, case.encoded(rows), plan, noise, trust=plan.trust_model)
        return nullcontext(InMemory(site))

    return _couple(case, open_site, tuple(case.canaries), seed)


def _on_disk(case: Case, seed: int) -> str:
    def open_site(rows: pa.Table, plan: Plan) -> AbstractContextManager[Charging]:
        noise = SimulatedNoise(seed, plan.sites[0])
        return serving(case.public, rows, plan, noise=noise)

    some = [name for name in _AT_AGENTS if name in case.canaries]
    return _couple(case, open_site, some, seed)


def _every_record(seed: int) -> str:
    """Every kind of statistic, with every record that a small schema allows, added and removed.

    Each is asked for twice in one query: equal parts have noise of their own, and cost twice.
    """
    schema = plain_schema(9, 6, 2)
    plan = plan_of(schema, seed, epsilon=1.0)
    kinds = every_kind(schema.domain, seed) * 2
    query = ask_all(plan, kinds)
    table = table_of(schema, 40, stream(seed, "rows"))
    records = np.array(list(np.ndindex(schema.domain.sizes)), dtype=np.int64)
    neighbours = [
        EncodedTable.concatenate([table, EncodedTable.from_codes(table.domain, record[:, None])])
        for record in records
    ] + [table.take(np.delete(np.arange(table.rows), row)) for row in range(table.rows)]
    one = examine_in_memory(table, query, table, plan, seed)
    most = Fraction(0)
    for neighbour in neighbours:
        other = examine_in_memory(neighbour, query, neighbour, plan, seed)
        moved = compare(one, other, plan.trust_model, "a record")
        most = max(most, moved / one.charged)
    return (
        f"{len(kinds)} releases, {len(neighbours)} neighbours: {float(most):.9f} of the charge at "
        "most"
    )


def _large(seed: int) -> str:
    """Pairs of a table that threads count, and sketches of more cells than a small schema has."""
    schema = plain_schema(*_LARGE)
    names = schema.domain.names
    plan = plan_of(schema, seed, epsilon=1.0)
    kinds: list[Statistic] = [Flat(pair) for pair in combinations(names, 2) if pair != names[:2]]
    kinds += [Sketched(names[:2], 4, seed + i, SketchKind.GAUSSIAN) for i in range(3)]
    table = table_of(schema, _LARGE_ROWS, stream(seed, "many rows"))
    pools: list[Any] = []
    own_pool = counting._pool

    def pool(*arguments: Any) -> Any:
        pools.append(own_pool(*arguments))
        return pools[-1]

    with patched(counting, cores=lambda: 4, _pool=pool):
        examine_in_memory(table, ask_all(plan, kinds), table, plan, seed)
    require(bool(pools), "a large table is counted by one thread")
    return f"{len(kinds)} releases of {table.rows:,} rows"


def _study(case: Case, seed: int) -> tuple[Plan, pa.Table, Transcript]:
    """The plan, the rows of its first site, and the study on them."""
    plan = case.plan(seed)
    rows = case.people(case.rows, seed)
    dealt = [rows] if len(plan.sites) == 1 else deal(rows, len(plan.sites))
    trust = plan.trust_model
    sites = {
        name: Site(name, case.encoded(part), plan, SimulatedNoise(seed, name), trust=trust)
        for name, part in zip(plan.sites, dealt, strict=True)
    }
    return plan, dealt[0], carry(case.encoding, plan, case.conducted, sites)


def _couple(case: Case, open_site: Open, canaries: Sequence[str], seed: int) -> str:
    """The losses of all canaries, each at most what was charged."""
    import pyarrow as pa

    plan, own, transcript = _study(case, seed)
    queries = transcript.asked(plan.sites[0])
    stated = transcript.release.privacy.sites[0].rho
    with open_site(own, plan) as site:
        without = [examine(site, query, case.encoded(own), plan, seed) for query in queries]
        check_charges(site.spent, without, plan.budget, stated)
    said = [said[plan.sites[0]] for said in transcript.replies if plan.sites[0] in said]
    require([one.reply for one in without] == said, "the same query and noise gave other bytes")
    worst = _worst(queries, without, case)
    first, last = case.corners
    added = {canary: [case.canaries[canary]] * (case.rows_per_unit + 2) for canary in canaries}
    added["the longest rows of sketches"] = [worst] * (case.rows_per_unit + 2)
    if case.rows_per_unit > 1:
        added["rows that differ"] = [worst, first, last, first, last]
    else:
        added = {canary: rows[:1] for canary, rows in added.items()}
    most = Fraction(0)
    for canary, rows in added.items():
        larger = pa.concat_tables([own, case.person(rows, own)])
        with open_site(larger, plan) as site:
            within = [examine(site, query, case.encoded(larger), plan, seed) for query in queries]
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
    return (
        f"{count(len(queries), 'round')}, {parts:,} releases, {len(added)} canaries: "
        f"{float(most):.9f} of the charge at most"
    )


def _worst(queries: Sequence[Query], answers: Sequence[Examined], case: Case) -> dict[str, object]:
    """The record that moves all sketches most, found among all records of the schema.

    Where they are too many to be looked at one by one, each column in turn takes its worst value.
    """
    domain = case.encoding.domain
    moved: list[Floats] = []
    for query, one in zip(queries, answers, strict=True):
        for part, sigma in zip(query.parts, one.sigmas, strict=True):
            if isinstance(part.statistic, Sketched):
                names = part.statistic.attributes
                shape = [domain.size(n) if n in names else 1 for n in domain.names]
                rows = oracle.squared_rows(part.statistic, domain) / sigma**2
                moved.append(rows.reshape(shape))
    if math.prod(domain.sizes) <= _MOST_RECORDS:
        whole = sum(moved, np.zeros(domain.sizes))
        codes = np.array(np.unravel_index(int(whole.argmax()), domain.sizes))[:, None]
    else:
        codes = _in_turn(moved, domain)[:, None]
    table = EncodedTable.from_codes(domain, codes)
    rows = decode_rows(case.encoding, table, stream(0, "the worst record"))
    record: dict[str, object] = rows.to_pylist()[0]
    return record


def _in_turn(moved: Sequence[Floats], domain: Domain) -> Integers:
    """Codes of a record, column by column the value that moves most with the others as they are."""
    codes = np.zeros(len(domain.sizes), dtype=np.int64)
    for _ in range(2):
        for place, size in enumerate(domain.sizes):
            gain = np.zeros(size)
            for rows in moved:
                if rows.shape[place] > 1:
                    at = [int(min(c, n - 1)) for c, n in zip(codes, rows.shape, strict=True)]
                    gain += np.moveaxis(rows, place, -1)[tuple(at[:place] + at[place + 1 :])]
            codes[place] = int(gain.argmax())
    return codes


def _release(case: Case, seed: int) -> str:
    """The folder of a study holds nothing but what follows from its answers."""
    import pyarrow as pa

    plan, own, transcript = _study(case, seed)
    tables = [case.encoded(rows) for rows in deal(case.people(case.rows, seed), len(plan.sites))]
    larger = [
        case.encoded(pa.concat_tables([own, case.person([case.corners[1]], own)])),
        *tables[1:],
    ]
    releases = [
        run_study(case.encoding, plan, case.conducted, tables, noise_seed=seed),
        transcript.release,
        run_study(case.encoding, plan, case.conducted, larger, noise_seed=seed),
    ]
    with temporary_folder() as place:
        study, answers, other = (
            files_in(release.save(place / str(i))) for i, release in enumerate(releases)
        )
    told = _told_once(transcript)
    require({*study} == {*other}, "a record changed which files there are")
    for name in study:
        require(study[name] == answers.get(name), f"{name} does not follow from the answers alone")
    stated = msgspec.json.decode(study["privacy.json"])
    check_statement(stated, plan, case.encoding.domain, transcript)
    for name in ("privacy.json", "run.json"):
        keys = [{*msgspec.json.decode(files[name])} for files in (study, other)]
        require(keys[0] == keys[1], f"a record changed which keys {name} has")
    return f"{len(study)} files follow from the answers alone, {told}"


def _told_once(transcript: Transcript) -> str:
    """Every number of a model is what sites said to one question, and none of it is used twice.

    So its noise is what was paid for, whatever a method does with it.
    """
    targets = transcript.release.model.targets
    heard: list[tuple[Statistic, Integers, float]] = []
    for query, replies in zip(transcript.queries, transcript.replies, strict=True):
        answers = [decode(reply, Answer).parts for reply in replies.values()]
        # One population is the sum over sites, of several each is a site.
        groups = [answers] if len(targets) == 1 else [[own] for own in answers]
        for place, part in enumerate(query.parts):
            for group in groups:
                values = np.sum([parts[place].values for parts in group], axis=0)
                variance = math.fsum(parts[place].sigma ** 2 for parts in group)
                heard.append((part.statistic, values, variance))
    used = [measurement for own in targets for measurement in own.measurements]
    for measurement in used:
        statistic, noisy = measurement.statistic, measurement.noisy
        found = [
            place
            for place, (asked, values, variance) in enumerate(heard)
            if asked == statistic
            and np.array_equal(values, noisy.values)
            and math.isclose(variance, noisy.variance, rel_tol=1e-9)
        ]
        words = f"{type(statistic).__name__.lower()} of {'-'.join(statistic.attributes)}"
        require(bool(found), f"{words}: the model has what nobody answered, or an answer twice")
        del heard[found[0]]
    return f"{len(used)} answers each once"
