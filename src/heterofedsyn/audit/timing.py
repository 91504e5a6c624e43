"""What a hub learns from when answers arrive, measured as it would measure it.

Two agents hold tables that differ in one row. The same queries go to both in turn, and the area
under the curve (AUC) of "which one took longer" says how well one answer tells them apart: 0.5 is
not at all, 1 is always.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heterofedsyn._arrays import Codes, Floats, stream
from heterofedsyn.audit.fixtures import UNIT, SiteOnDisk, listening, plan_of, query_of
from heterofedsyn.marginals.sketch import SketchKind
from heterofedsyn.marginals.statistics import Flat, Grouped, Haar, Sketched, Statistic, Total
from heterofedsyn.privacy.noise import SecureNoise
from heterofedsyn.protocol import encode
from heterofedsyn.protocol.socket import ask
from heterofedsyn.schema import EncodedTable, IntegerColumn, Schema
from heterofedsyn.schema.table import decode
from heterofedsyn.site.settings import propose

SCHEMA = Schema(
    tuple(
        IntegerColumn(f"a{place}", 0, size - 1, bins=size)
        for place, size in enumerate((400, 400, 20, 20))
    )
)
"""Short to read, which an agent does for every query: what takes longer would only add noise."""

PLAN = plan_of(SCHEMA, 0, epsilon=1.0)
READ_PLANS = tuple(
    plan_of(SCHEMA, 0, epsilon=1.0, unit=UNIT, rows_per_unit=most) for most in (2, 3, 4)
)
"""Of three studies that keep so many rows of a person."""

SIZES = (32, 128, 1_024, 16_384, 38_462, 65_536, 131_072, 160_000, 262_144, 500_000)
"""Rows around which work might change: powers of two, the cells of a pair (160,000), a million rows
times groups (26 and 2 of them), eight rows for each of 4 cells (32)."""

SHARE = 1e-5
MAPS = 24
"""Of one pair in a query: enough for what is done for each to add up."""

_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where sites are made: a disk would add noise that an attacker can average away."""

FRESH = 10
QUICK_FRESH = 2
DEVIATIONS = {FRESH: 2.262, QUICK_FRESH: 12.706}
"""Agents that are started anew for each table, and Student's 97.5 % point for so many."""


@dataclass(frozen=True)
class Game:
    """Two tables that differ in one row, and how they are asked.

    Attributes:
        rows: of the larger one, and of the smaller one.
        filled: whether the rows of the first lie in one cell more.
        socket: whether queries travel over the agents' sockets.
        odd: what is odd about the last row of the first table, if every query has to read anew:
            `twice` if a person has it twice, `bytes` if a byte of it is no text.
    """

    name: str
    rows: tuple[int, int]
    filled: bool = False
    socket: bool = False
    odd: str = ""


@dataclass(frozen=True)
class Told:
    """How well one answer tells two tables apart, with the ends of its 95 % interval."""

    game: str
    auc: float
    low: float
    high: float

    @property
    def nothing(self) -> bool:
        """Whether 0.5, which is nothing, is in the interval."""
        return self.low <= 0.5 <= self.high


@dataclass(frozen=True)
class Table:
    """All games at one tick; 0 is none."""

    tick: float
    told: tuple[Told, ...]

    def describe(self) -> str:
        """How many games told nothing."""
        fine = sum(told.nothing for told in self.told)
        return f"tick {self.tick:g} s: 0.5 is within {fine} of {len(self.told)} intervals"

    def as_dict(self) -> dict[str, Any]:
        """The table for programs."""
        return {**asdict(self), "within": sum(told.nothing for told in self.told)}


def games(quick: bool = False) -> list[Game]:
    """Every threshold known, cells that are empty or not, and a control: equal tables."""
    sizes = SIZES[:2] if quick else SIZES
    large = sizes[-3:][0]
    return [
        *(Game(f"{n:,} rows against {n - 1:,}", (n, n - 1)) for n in sizes),
        Game("a sketch, one cell more filled", (1_000, 1_000), filled=True),
        Game(f"{large:,} against {large - 1:,}, socket", (large, large - 1), socket=True),
        Game(f"{large:,} rows read, one of them twice", (large, large), odd="twice"),
        Game(f"{large:,} rows read, one byte no text", (large, large), odd="bytes"),
        Game(f"control: {large:,} twice", (large, large)),
    ]


def measure(
    progress: Callable[[str], None], *, tick: float = 0.1, queries: int = 200, quick: bool = False
) -> list[Table]:
    """All games without ticks and with them, each table asked so many queries.

    Args:
        tick: seconds; shorter than a site's own, so that thousands of queries take minutes.
    """
    fresh = QUICK_FRESH if quick else FRESH
    tables = []
    for ticking in (0.0, tick):
        told = []
        for number, game in enumerate(games(quick)):
            progress(f"tick {ticking:g} s: {game.name}")
            told.append(play(game, ticking, queries // fresh, fresh, number))
        tables.append(Table(ticking, tuple(told)))
    return tables


def play(game: Game, tick: float, queries: int, fresh: int, seed: int) -> Told:
    """One game, with agents that are started anew so many times.

    Where an agent's memory lies makes it a little faster or slower than another of equal rows, so
    the interval comes from how the area varies between agents as well as within them.
    """
    areas = []
    for turn in range(fresh):
        rng = stream(seed, f"timing {turn}")
        with (
            tempfile.TemporaryDirectory(prefix="hfs-timing-", dir=_MEMORY) as place,
            ExitStack() as stack,
        ):
            # Which agent starts first, and whose files come first, is a coin's choice.
            order = (0, 1) if rng.random() < 0.5 else (1, 0)
            asked = {
                which: stack.enter_context(_agent(Path(place) / f"{i}", game, which, tick))
                for i, which in enumerate(order)
            }
            areas.append(_auc(*_times([asked[0], asked[1]], queries, game, rng)))
    return Told(game.name, *_interval(areas, queries))


@contextmanager
def _agent(place: Path, game: Game, which: int, tick: float) -> Iterator[Callable[[bytes], Any]]:
    """A real agent on disk with its own noise; what is asked of it takes as long as it takes."""
    import pyarrow.parquet

    place.mkdir()
    source = place / ("rows.csv" if game.odd else "rows.parquet")
    settings = {"source": str(source), "rows": propose(max(game.rows)), "tick": tick}
    plans = READ_PLANS if game.odd else (PLAN,)
    site = SiteOnDisk.make(place, SCHEMA, b"", *plans, **settings)
    if game.odd:
        source.write_bytes(_file(game, which))
    else:
        rows = EncodedTable.from_codes(SCHEMA.domain, _codes(game, which))
        pyarrow.parquet.write_table(decode(SCHEMA, rows, np.random.default_rng(0)), source)
    with site.serving(SecureNoise()) as serving:
        if not game.odd:
            serving.agent.prepare()
        if not game.socket:
            yield serving.answer
            return
        with listening(serving):
            yield lambda message: ask(site.settings.socket, message, 60.0)


def _codes(game: Game, which: int) -> Codes:
    """The rows of one table; all but the last are those of the other."""
    rng = np.random.default_rng(0)
    most = max(game.rows)
    if game.filled:
        codes = np.zeros((4, most), np.int64)
        codes[2:, -1] = 1 - which
    else:
        codes = np.stack([rng.integers(0, size, most) for size in SCHEMA.domain.sizes])
    rows: Codes = codes[:, : game.rows[which]].astype(np.uint16)
    return rows


def _file(game: Game, which: int) -> bytes:
    """The rows of two for each person, as a file; the last is odd in the first table alone."""
    lines = [
        b"%d,%d,%d,%d,p%d" % (*row, number // 2)
        for number, row in enumerate(_codes(game, which).T.tolist())
    ]
    if which == 0:
        first, *cells = lines[0].split(b",")
        lines[-1] = lines[0] if game.odd == "twice" else b",".join([first[:-1] + b"\xff", *cells])
    else:
        lines[-1] = b"0,0,0,0,p0"
    return b"\n".join([",".join((*SCHEMA.domain.names, UNIT)).encode(), *lines, b""])


def _times(
    agents: Sequence[Callable[[bytes], Any]], queries: int, game: Game, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Seconds until each answer; two warm-up queries are not counted, and order alternates."""
    times = np.empty((2, queries))
    for number in range(-2, queries):
        message = _query(number + 2, game, rng)
        for which in (0, 1) if number % 2 else (1, 0):
            begun = time.perf_counter()
            agents[which](message)
            if number >= 0:
                times[which, number] = time.perf_counter() - begun
    return times[0], times[1]


def _query(number: int, game: Game, rng: np.random.Generator) -> bytes:
    """What no query asked before, so that all of it is counted anew; next to nothing is paid."""
    parts: list[Statistic]
    if game.odd:
        parts = [Total()]
    elif game.filled:
        parts = [Sketched(("a2", "a3"), 512, number, SketchKind.GAUSSIAN)]
    else:
        parts = [Grouped(("a0", "a1"), (_map(400, rng), _map(400, rng))) for _ in range(MAPS)]
        parts += [Grouped(("a2", "a3"), (_map(20, rng), _map(20, rng))) for _ in range(2)]
        parts += [Flat(("a2",)), Haar(("a0",), 0)]
        parts += [Grouped(("a0", "a2", "a3"), (_map(400, rng), _map(20, rng), _map(20, rng)))]
    # A site keeps two tables: of three that are asked for in turn, each is read anew.
    plan = READ_PLANS[number % 3] if game.odd else PLAN
    return encode(query_of(plan, *parts, share=SHARE, number=number, label=f"timing {number}"))


def _map(size: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Values in two groups."""
    return (0, 1, *map(int, rng.integers(0, 2, size - 2)))


def _auc(one: Floats, other: Floats) -> float:
    """How often the first takes longer than the second; ties are half."""
    apart = one[:, None] - other[None, :]
    return float(np.mean((apart > 0) + 0.5 * (apart == 0)))


def _interval(areas: Sequence[float], queries: int) -> tuple[float, float, float]:
    """The mean area and its 95 % interval: the wider of what agents and queries vary by.

    For queries: Hanley and McNeil, 1982.
    """
    mean, many = float(np.mean(areas)), len(areas)
    q1, q2 = mean / (2 - mean), 2 * mean**2 / (1 + mean)
    within = mean * (1 - mean) + (queries - 1) * (q1 + q2 - 2 * mean**2)
    between = DEVIATIONS[many] * float(np.std(areas, ddof=1)) / math.sqrt(many)
    half = max(1.96 * math.sqrt(max(within, 0.0) / queries**2 / many), between)
    return mean, max(0.0, mean - half), min(1.0, mean + half)
