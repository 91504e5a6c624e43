"""Replicates that are kept: in memory while a program runs, and on disk if it says where."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from heterofedsyn._files import reason
from heterofedsyn._version import __version__
from heterofedsyn._words import count
from heterofedsyn.errors import UsageError
from heterofedsyn.hub.methods.base import Model
from heterofedsyn.hub.questions.kept_estimates import informed, pack_estimates
from heterofedsyn.hub.questions.kept_folder import keep, read_estimates, read_tables, settled
from heterofedsyn.hub.questions.replicates import SEED, Replicate, draw_replicate
from heterofedsyn.hub.release import MOST_RELEASED
from heterofedsyn.hub.release.model_file import digest, pack
from heterofedsyn.hub.release.sampling import CHUNK, draw
from heterofedsyn.schema import EncodedTable, Schema, decode

if TYPE_CHECKING:
    import pyarrow as pa

MOST_DRAWN = 25_000
"""Rows of a replicate, each of which may stand for several: more made no interval better."""

MOST_TOLD_OF = 10_000_000_000
"""Records, so that a few bytes from a stranger do not become hours of work."""

MOST_REPLICATES = 1_000
FORMAT = 5
FOLDER = "heterofedsyn-replicates"
"""In the folder that a user names: nothing outside of it is ever written or removed."""

FARTHEST = 8
"""Standard deviations from our number of records within which that of every world is."""

TOLD_EVERY = 5
"""Replicates after which it is told how many are drawn."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """The synthetic table and its replicates, drawn when first asked for.

    Attributes:
        seed: of the synthetic table.
        total: how many records that tells of.
        cache: a folder to keep them in; nothing is written unless given.
        watch: is told while they are drawn, and if they cannot be kept.
    """

    schema: Schema
    model: Model
    seed: int
    total: int
    replicates: int
    cache: Path | None = None
    watch: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.replicates <= MOST_REPLICATES:
            raise UsageError(f"replicates ({self.replicates}) must be in 1..{MOST_REPLICATES}")
        if self.total > MOST_TOLD_OF:
            raise UsageError(
                f"the release tells of {self.total:,} records, and questions are answered about at "
                f"most {MOST_TOLD_OF:,}; release.accuracy gives its tables"
            )

    def empty(self) -> pa.Table:
        """The synthetic table without rows."""
        none = np.zeros((len(self.schema.domain), 0), np.uint16)
        return decode(self.schema, EncodedTable(self.schema.domain, none), np.random.default_rng(0))

    def known_model(self) -> Model:
        """The model, with its estimates if they are kept: they take longer than a question."""
        if self.cache is None:
            return self.model
        try:
            return informed(self.model, read_estimates(self._place(self._facts)))
        except (OSError, ValueError, msgspec.MsgspecError, UsageError):
            return self.model  # `tables` says what is wrong with the place

    def tables(self, columns: Sequence[str]) -> Iterator[Replicate]:
        """The synthetic table, then its replicates, with at least these columns."""
        drawn = self._drawn(", which are kept for the next question")
        tables = self._kept(self._facts, self.replicates + 1, columns, drawn)
        if tables is None:
            for own in self._remembered():
                yield Replicate(
                    own.table.select([*columns] or own.table.column_names[:1]), own.weight
                )
        else:
            yield from map(Replicate, tables, self._weights)

    def whole(self, seed: int, rows: int | None) -> list[pa.Table]:
        """The replicates alone, each with a row for every record; those behind answers if alike.

        Args:
            rows: of each; those of its world unless given.
        """
        if rows is None and self.total > MOST_RELEASED:
            raise UsageError(
                f"the release tells of {self.total:,} records; say how many rows a replicate has, "
                f"at most {MOST_RELEASED:,}"
            )
        columns = self.empty().column_names
        if seed == SEED and rows is None and max(self._weights) == 1 < self.replicates:
            return [replicate.table for replicate in self.tables(columns)][1:]
        facts = ["whole", seed, rows, self.replicates]
        drawn = self._drawn_whole(seed, rows, ", which are kept for the next program")
        tables = self._kept(facts, self.replicates, columns, drawn)
        return [*self._drawn_whole(seed, rows)] if tables is None else tables

    @property
    def _facts(self) -> list[object]:
        """What tells the tables behind answers from those of another drawing of the same model."""
        return [self.seed, self.total, self.replicates, MOST_DRAWN]

    def _kept(
        self,
        facts: Sequence[object],
        many: int,
        columns: Sequence[str],
        drawn: Iterator[pa.Table],
    ) -> list[pa.Table] | None:
        """What is kept, drawn now unless it was before; nothing where that cannot be."""
        if self.cache is None:
            return None
        like = self.empty().schema
        try:
            place = self._place(facts)
            tables = read_tables(place, many, like, columns)
            if tables is not None:
                return tables
            keep(place, drawn, lambda: pack_estimates(self.model.targets))
        except OSError as error:
            self._tell(f"replicates cannot be kept in {self.cache / FOLDER}: {reason(error)}")
            return None
        return read_tables(place, many, like, columns)

    def _place(self, facts: Sequence[object]) -> Path:
        """Where these replicates are kept, and no others; `cache` is given.

        Raises:
            OSError: others could exchange what is there.
        """
        assert self.cache is not None
        own = [FORMAT, __version__, digest(pack(self.schema, self.model, {})), *facts]
        name = hashlib.sha256(json.dumps(own).encode()).hexdigest()[:32]
        return settled(self.cache) / FOLDER / name

    @cached_property
    def _weights(self) -> list[int]:
        """How many records a row of each table stands for.

        One number for all worlds, so that the release tells it and no file has to.
        """
        error = math.sqrt(math.fsum(targets.total_variance for targets in self.model.targets))
        most = math.ceil(self.total + FARTHEST * error)
        return [-(-self.total // CHUNK), *[-(-most // MOST_DRAWN)] * self.replicates]

    def _remembered(self) -> list[Replicate]:
        known = _REMEMBERED.setdefault(self.model, {})
        which = (self.seed, self.total, self.replicates)
        if which not in known:
            known[which] = [*map(Replicate, self._drawn(), self._weights)]
        return known[which]

    def _drawn(self, remark: str = "") -> Iterator[pa.Table]:
        import pyarrow as pa

        self._tell(f"drawing {self.replicates} replicates{remark}")
        ours, *others = self._weights
        rows = max(1, round(self.total / ours))
        yield pa.concat_tables(draw(self.schema, self.model, rows, self.seed))
        for number, weight in enumerate(others):
            yield draw_replicate(self.schema, self.model, number, SEED, weight=weight).table
            self._tell_pace(number + 1)

    def _drawn_whole(self, seed: int, rows: int | None, remark: str = "") -> Iterator[pa.Table]:
        self._tell(f"drawing {count(self.replicates, 'replicate')}{remark}")
        for number in range(self.replicates):
            yield draw_replicate(self.schema, self.model, number, seed, rows=rows).table
            self._tell_pace(number + 1)

    def _tell_pace(self, done: int) -> None:
        if done % TOLD_EVERY == 0:
            self._tell(f"  {done} of {self.replicates}")

    def _tell(self, line: str) -> None:
        if self.watch is not None:
            self.watch(line)


_REMEMBERED: WeakKeyDictionary[Model, dict[tuple[int, int, int], list[Replicate]]] = (
    WeakKeyDictionary()
)
