"""Agents on disk: what a row holds moves counts, and never whether or how a query is answered.

Files are made line by line, with lines that nobody could read among them. Which of them count is
written down beside them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from importlib.util import find_spec
from itertools import combinations, product

import numpy as np

from heterofedsyn._arrays import stream
from heterofedsyn.audit.cases import mixed_schema
from heterofedsyn.audit.coupling.answers import Examined, check_charges, compare, examine
from heterofedsyn.audit.coupling.persons import Row, kept
from heterofedsyn.audit.findings import Broken, Check, require
from heterofedsyn.audit.fixtures import (
    SITE,
    UNIT,
    Serving,
    SiteOnDisk,
    as_csv,
    ask,
    ask_all,
    every_kind,
    grouped_three,
    plain_schema,
    plan_of,
    query_of,
    serving,
    table_of,
    temporary_folder,
)
from heterofedsyn.audit.patches import patched
from heterofedsyn.audit.sources import STORES
from heterofedsyn.marginals import Flat, Grouped, Haar, Sketched, Statistic, Total, tally
from heterofedsyn.privacy.noise import SimulatedNoise
from heterofedsyn.protocol import Plan, encode
from heterofedsyn.protocol.refusal import Reason, Refused
from heterofedsyn.schema import EncodedTable, Schema

_ROWS = 60

_SMALL_BLOCK = 64
"""Bytes; of so few rows, counts of all pairs are kept then where they are enough."""

_Codes = tuple[int, ...]


@dataclass(frozen=True)
class Line:
    """One line of a file, and the codes of its row; None if it does not count."""

    text: bytes
    codes: _Codes | None = None


_LINES = {
    "a row that fits": Line(b"87,760.5,2026-01-04,b,never seen,true", (4, 3, 3, 1, 2, 1)),
    "a row that breaks a rule": Line(b"87,760.5,2026-01-04,a,never seen,true"),
    "a row too short": Line(b"87,760.5"),
    "a row too long": Line(b"87,760.5,2026-01-04,b,died,true,and more"),
    "bytes that are no text": Line(b"87,760.5,2026-01-04,b\xff,died,true"),
    "bytes that are no number": Line(b"\xfe,760.5,2026-01-04,b,died,true"),
    "text for a whole number": Line(b"old,760.5,2026-01-04,b,died,true"),
    "a fraction for a whole number": Line(b"87.5,760.5,2026-01-04,b,died,true"),
    "text for a number": Line(b"87,much,2026-01-04,b,died,true"),
    "a whole number beyond all": Line(
        b"9" * 400 + b",760.5,2026-01-04,b,died,true", (4, 3, 3, 1, 1, 1)
    ),
    "a number beyond all": Line(b"87,1e999,2026-01-04,b,died,true", (4, 3, 3, 1, 1, 1)),
    "a number of 400 digits": Line(
        b"87,0." + b"9" * 400 + b",2026-01-04,b,died,true", (4, 0, 3, 1, 1, 1)
    ),
    "a date that is none": Line(b"87,760.5,2026-02-30,b,died,true"),
    "a date in words": Line(b"87,760.5,yesterday,b,died,true"),
    "a category of its own": Line(b"87,760.5,2026-01-04,zoo,died,true", (4, 3, 3, 2, 1, 1)),
    "a category nobody agreed on": Line(b"87,760.5,2026-01-04,b,zoo,true"),
    "a truth that is none": Line(b"87,760.5,2026-01-04,b,died,perhaps"),
    "nothing where a value must be": Line(b",760.5,2026-01-04,b,died,true"),
}


def checks(seed: int) -> Iterator[Check]:
    """Lines of files, studies side by side, and queries that nobody may answer."""
    yield "agent: a line among others", partial(_lines, _ROWS, seed)
    yield "agent: a line alone", partial(_lines, 0, seed)
    yield "agent: an open quote", partial(_quotes, seed)
    yield "agent: every kind of source", partial(_sources, seed)
    yield "agent: studies of other rows a person", partial(_units, seed)
    yield "agent: malformed queries", partial(_malformed, seed)
    yield "agent: three columns together", partial(_three, seed)


def _line(codes: _Codes) -> Line:
    """A row that fits in the middle of its bins."""
    age, cost, day, ward, outcome, smoker = codes
    cells = (
        f"{20 * age + 7}",
        f"{250 * cost + 10.5}",
        f"2026-01-0{day + 1}T12:00:00",
        "ab?"[ward],
        ("home", "died", "never seen")[outcome],
        ("false", "true")[smoker],
    )
    return Line(",".join(cells).encode(), codes)


def _lines(rows: int, seed: int) -> str:
    """A file with and without one line more."""
    schema = mixed_schema()
    plan = plan_of(schema, seed, epsilon=1.0)
    names = schema.domain.names
    kinds: list[Statistic] = [Total(), *(Flat(pair) for pair in combinations(names, 2))]
    query = ask_all(plan, kinds)
    rng = stream(seed, "lines of an audit")
    sizes = [
        size - (name == "outcome") for name, size in zip(names, schema.domain.sizes, strict=True)
    ]
    own = [_line(tuple(int(rng.integers(size)) for size in sizes)) for _ in range(rows)]

    def examined(lines: Sequence[Line], where: str) -> Examined:
        text = b"\n".join([",".join(names).encode(), *(line.text for line in lines), b""])
        with _serving(schema, text, seed, plan) as agent:
            try:
                answer = examine(agent, query, _counting(lines), plan, seed)
            except Refused as refused:
                raise Broken(f"{where}: refused as {refused.reason}") from None
            except Broken as broken:
                raise Broken(f"{where}: {broken}") from None
            check_charges(agent.spent, [answer], plan.budget, plan.budget.rho)
        return answer

    without = examined(own, f"{rows} rows")
    most = Fraction(0)
    for what, line in _LINES.items():
        within = examined([*own[: rows // 2], line, *own[rows // 2 :]], what)
        moved = compare(without, within, plan.trust_model, what)
        require(line.codes is not None or moved == 0, f"{what}: it was counted")
        most = max(most, moved / without.charged)
    return f"{len(kinds)} releases, {len(_LINES)} lines: {float(most):.9f} of the charge at most"


def _counting(lines: Sequence[Line]) -> EncodedTable:
    """The rows of the lines that count."""
    domain = mixed_schema().domain
    codes = [line.codes for line in lines if line.codes is not None]
    return EncodedTable.from_codes(domain, np.array(codes, np.int64).reshape(-1, len(domain)).T)


def _quotes(seed: int) -> str:
    """A line with half a pair of quotes takes no other line with it, not even to the next quote."""
    schema = mixed_schema()
    plan = plan_of(schema, seed, epsilon=1.0)
    names = schema.domain.names
    query = ask(plan, 0, [Total(), Flat(names[:2])], plan.budget.rho / 2)
    rng = stream(seed, "quoted lines of an audit")
    own = [_line(tuple(int(rng.integers(2)) for _ in names)) for _ in range(_ROWS)]
    # Every seventh line has a cell in quotes, as it should be.
    own[::7] = [
        Line(line.text.replace(b",a,", b',"a",').replace(b",b,", b',"b",'), line.codes)
        for line in own[::7]
    ]
    odd = (b'87,760.5,2026-01-04,"b,died,true', b'87,760.5,2026-01-04,b,died,"', b'"')
    table = _counting(own)
    tried = 0
    for text, place in product(odd, (0, 1, _ROWS // 2, _ROWS)):
        lines = [line.text for line in own]
        lines.insert(place, text)
        whole = b"\n".join([",".join(names).encode(), *lines, b""])
        with _serving(schema, whole, seed, plan) as agent:
            try:
                examine(agent, query, table, plan, seed)
            except (Broken, Refused) as broken:
                raise Broken(f"an open quote in line {place + 1}: {broken}") from None
        tried += 1
    return f"{tried} files, no other line changed"


def _serving(
    schema: Schema, text: bytes, seed: int, *plans: Plan
) -> AbstractContextManager[Serving]:
    """An agent whose rows are in this file, with consent to these plans."""
    return serving(schema, text, *plans, noise=SimulatedNoise(seed, SITE))


def _sources(seed: int) -> str:
    """A row more or less, first, last or in between, in a file of every kind, or in a database."""
    schema = plain_schema(9, 6, 3)
    plan = plan_of(schema, seed, epsilon=1.0)
    query = ask_all(plan, every_kind(schema.domain, seed))
    few = table_of(plain_schema(8, 5, 2), 40, stream(seed, "s"))
    own = [tuple(codes) for codes in few.codes.T]
    neighbours = [own[1:], own[:-1], *([*own[:i], (8, 5, 2), *own[i:]] for i in (0, 20, 40))]
    most = Fraction(0)
    kinds = ("csv", "parquet", *(("duckdb",) if find_spec("duckdb") else ()))

    def examined(rows: Sequence[_Codes], kind: str) -> Examined:
        with temporary_folder() as place:
            (place / "own").mkdir()
            cells = {f"a{i}": [f"v{row[i]}" for row in rows] for i in range(3)}
            source = str(STORES[kind](cells, place / "own"))
            site = SiteOnDisk.make(place, schema, b"", plan, source=source)
            table = EncodedTable.from_codes(schema.domain, np.array(rows, dtype=np.int64).T)
            with site.serving(SimulatedNoise(seed, SITE)) as agent:
                return examine(agent, query, table, plan, seed)

    for kind in kinds:
        one = examined(own, kind)
        for rows in neighbours:
            other = examined(rows, kind)
            moved = compare(one, other, plan.trust_model, f"a row of a {kind} source")
            most = max(most, moved / one.charged)
    return f"{', '.join(kinds)}: {float(most):.9f} of the charge at most"


def _units(seed: int) -> str:
    """Studies that protect people with one row, two or three, side by side at one agent."""
    schema = plain_schema(9, 6)
    rng = stream(seed, "units of an audit")
    rows = [
        Row(int(rng.integers(30)), (int(rng.integers(9)), int(rng.integers(6)))) for _ in range(200)
    ]
    tables = {most: kept([rows], schema, most) for most in (1, 2, 3)}
    plans = [plan_of(schema, seed, epsilon=1.0, unit=UNIT, rows_per_unit=most) for most in tables]
    lines = (f"{row.person},v{row.codes[0]},v{row.codes[1]}" for row in rows)
    text = "\n".join([f"{UNIT},a0,a1", *lines, ""]).encode()
    kinds = every_kind(schema.domain, seed)
    asked = 0
    with _serving(schema, text, seed, *plans) as agent:
        for number in range(3):
            for plan, table in zip(plans, tables.values(), strict=True):
                examine(agent, ask(plan, number, kinds, 1e-4), table, plan, seed)
                asked += 1
    return f"{len(plans)} studies, {asked} queries in turn"


def _malformed(seed: int) -> str:
    """What a hub may not ask is refused for nothing, and alike whatever the rows are."""
    schema = plain_schema(9, 6)
    plan = plan_of(schema, seed, epsilon=1.0)
    few = table_of(plain_schema(8, 5), 50, stream(seed, "few rows"))  # the last values are unseen
    texts = [as_csv(few), as_csv(few) + b"\nv8,v5\n"]
    messages = _messages(plan)
    with (
        _serving(schema, texts[0], seed, plan) as one,
        _serving(schema, texts[1], seed, plan) as two,
    ):
        for what, message in messages.items():
            replies = [agent.reply(message) for agent in (one, two)]
            require(replies[0] == replies[1], f"{what}: a record changes the reply")
            require(replies[0] in (Reason.MALFORMED, Reason.NOT_APPROVED), f"{what}: {replies[0]}")
            for agent in (one, two):
                require(agent.spent.rho == 0, f"{what}: charged")
    return f"{len(messages)} refused alike, and for nothing"


def _three(seed: int) -> str:
    """Three columns are counted together where the plan says so, and nowhere else.

    Both studies are asked in turn: counts of pairs, kept for one, must not do for the other.
    """
    schema = plain_schema(9, 6, 3, 2)
    table = table_of(schema, _ROWS, stream(seed, "three columns"))
    three = grouped_three(schema.domain)
    says, silent = (plan_of(schema, seed, epsilon=1.0, columns=most) for most in (3, 2))
    with (
        patched(tally, BLOCK_BYTES=_SMALL_BLOCK),
        _serving(schema, as_csv(table), seed, says, silent) as agent,
    ):
        for number in range(2):
            pairs = [Flat(pair) for pair in combinations(schema.domain.names, 2)]
            examine(agent, ask(silent, number, pairs, 1e-4), table, silent, seed)
            spent = agent.spent
            refusals: list[tuple[str, Plan, list[Statistic]]] = [
                ("three columns without the plan's word", silent, [three]),
                ("three columns without the plan's word, after a pair", silent, [pairs[0], three]),
                *((what, says, [statistic]) for what, statistic in _wrong_threes(three).items()),
            ]
            for what, plan, refused in refusals:
                reply = agent.reply(encode(ask(plan, number + 2, refused, 1e-4)))
                require(reply == Reason.MALFORMED, f"{what}: {reply}")
                require(agent.spent == spent, f"{what}: charged")
            examine(agent, ask(says, number, _threes(three), 1e-4), table, says, seed)
            require(agent.spent > spent, "three columns: nothing was charged")
    return "counted and charged where the plan says so, refused for nothing where it does not"


def _threes(three: Grouped) -> list[Statistic]:
    """Three columns in several ways: each has most groups once, one cell, and groups of nobody."""
    names, (first, second, third) = three.attributes, three.groups
    every = [tuple(range(len(groups))) for groups in three.groups]
    one = [tuple(0 for _ in groups) for groups in three.groups]
    return [
        three,
        Grouped(names, tuple(every)),
        Grouped(names, (*one[:2], third)),
        Grouped(names, tuple(one)),
        Grouped(names, (first, tuple(2 * group % len(second) for group in second), third)),
    ]


def _wrong_threes(three: Grouped) -> dict[str, Statistic]:
    """Statistics of three columns, or of four, that are wrong in one thing each."""
    names, (first, second, third) = three.attributes, three.groups
    return {
        "three columns without a map": Flat(names),
        "three columns, one of them twice": Grouped((names[0], *names[:2]), (first, first, second)),
        "three columns in another order": Grouped(names[::-1], (third, second, first)),
        "three columns, one of them none": Grouped((*names[:2], "none"), (first, second, third)),
        "a map too few for three columns": Grouped(names, (first, second)),
        "a map too short for three columns": Grouped(names, (first, second[:-1], third)),
        "a map too long for three columns": Grouped(names, (first, second, (*third, 0))),
        "a group below 0 of three columns": Grouped(names, (first, (*second[:-1], -1), third)),
        "a group of three columns that is none": Grouped(
            names, (first, (*second[:-1], 2**40), third)
        ),
        "four columns": Grouped((*names, "a3"), (first, second, third, (0, 1))),
    }


def _messages(plan: Plan) -> dict[str, bytes]:
    """Queries of a pair of 9 and 6 values that are wrong in one thing each."""
    pair = ("a0", "a1")
    nine, six = tuple(range(9)), tuple(range(6))

    def query(*statistics: Statistic, share: float = 0.01, **other: object) -> bytes:
        return encode(query_of(plan, *statistics, share=share, **other))

    good = query(Flat(pair))
    statistics: dict[str, Statistic] = {
        "a map too short": Grouped(pair, (nine[:-1], six)),
        "another map too short": Grouped(pair, (nine, six[:-1])),
        "a map too long": Grouped(pair, ((*nine, 0), six)),
        "a group that is none": Grouped(pair, ((*nine[:-1], 9), six)),
        "a group below 0": Grouped(pair, ((*nine[:-1], -1), six)),
        "an attribute that is none": Flat(("a0", "a2")),
        "an attribute twice": Flat(("a0", "a0")),
        "attributes in another order": Flat(("a1", "a0")),
        "a level too deep": Haar(("a0",), 4),
        "a level below 0": Haar(("a0",), -1),
        "a sketch of no width": Sketched(pair, 0, 1),
        "a sketch too wide": Sketched(pair, 2**40, 1),
    }
    return {
        "nothing": b"",
        "no message": b"\xc1",
        "half a message": good[: len(good) // 2],
        "more than a message": good + b"\0",
        **{what: query(statistic) for what, statistic in statistics.items()},
        **{
            f"a share of {share}": query(Flat(pair), share=share)
            for share in (0.0, -0.5, 1.5, math.nan, math.inf, 1e-300)
        },
        "no part": query(),
        "a label too long": query(Flat(pair), label="q" * 1_000),
        "a query for another site": query(Flat(pair), to="oak"),
        "a query of another study": query(Flat(pair), study="0" * 64),
        "a query of no study": query(Flat(pair), study="../schema.toml"),
    }
