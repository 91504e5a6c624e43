"""Counting a table where Spark holds it: rows and codes stay with its workers."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from heterofedsyn._arrays import Integers
from heterofedsyn.errors import DataError
from heterofedsyn.marginals import Counts
from heterofedsyn.marginals.counting import Marginal, at_least
from heterofedsyn.marginals.counts import PAIRS, PairCounts, View, columns, shape, whole
from heterofedsyn.marginals.tally import most_codes
from heterofedsyn.schema import Domain, Fit, Schema
from heterofedsyn.schema.table import code_type, columns_of
from heterofedsyn.site import _spark_tasks as work
from heterofedsyn.sources import Watch, unwatched
from heterofedsyn.sources._spark_plan import setting
from heterofedsyn.sources.spark_table import Jobs, SparkSource, context_of, one_line

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession

_T = TypeVar("_T")

_MOST_JOB_CELLS = 2**24
"""Cells that a worker counts at once: 128 MiB."""

_MOST_JOB_COLUMNS = 512
"""Columns, merged or not, that a worker copies of each block."""

_TASK_BYTES = 2**24
_MOST_TASKS = 256
_FIT_PARTITIONS = "spark.sql.optimizer.canChangeCachedPlanOutputPartitioning"
_CHANGED = (
    "a part of the table was read again, as after a lost worker, and its rows were others; let "
    "nothing change the table meanwhile, and try again"
)


class SparkCounts(Counts):
    """Counts of an encoded copy that Spark keeps on its workers' disks until `close`."""

    def __init__(
        self,
        name: str,
        domain: Domain,
        rows: int,
        copy: DataFrame,
        mark: int,
        size: int | None = None,
    ) -> None:
        """Counts to come.

        Args:
            mark: the sum of the marks of all rows of the copy, by which it is known again.
        """
        super().__init__(domain, rows, size)
        self._name = name
        self._copy = copy
        self._mark = mark
        self.close = weakref.finalize(self, _remove, copy)

    def _count(self, views: Sequence[View]) -> list[Integers]:
        return [counts for some in _jobs(views, self.domain) for counts in self._run(some)]

    def all_pairs(self) -> PairCounts:
        """The same counts without the copy, which is removed."""
        pairs = self.domain.pairs()
        tables = self._count([whole(pair) for pair in pairs])
        self.close()
        return PairCounts(self.domain, self.rows, list(map(Marginal, pairs, tables)), self.size)

    def _run(self, views: Sequence[View]) -> list[Integers]:
        """The counts of some views: each worker's own, added up by workers, fetched in slots."""
        cells = [math.prod(shape(view, self.domain)) for view in views]
        with one_line(self._name):
            slots = Jobs(self._copy.sparkSession).run(lambda: self._slots(views))
            try:
                found = together(slots, sum(cells), self._mark)
            except ValueError:
                raise DataError(f"{self._name}: {_CHANGED}") from None
        return np.split(found, np.cumsum(cells)[:-1])

    def _slots(self, views: Sequence[View]) -> dict[int, Integers]:
        """The counts of each slot, behind the mark of the rows that were counted for it."""
        tasks = min(1 + _bytes(self.size, self.domain) // _TASK_BYTES, _MOST_TASKS)
        blocks = self._copy.where("codes is not null").select("codes", "mark").coalesce(tasks)
        parts = blocks.mapInArrow(work.Count(self.domain, views), work.COUNTS)
        slots = parts.groupBy("slot").applyInArrow(work.add_up, work.COUNTS)
        return {row.slot: np.frombuffer(row.counts, np.int64) for row in slots.toLocalIterator()}


def together(slots: Mapping[int, Integers], cells: int, mark: int) -> Integers:
    """The counts of all slots, if all of them are there and of the same rows.

    Where there is no row there may be no slot.

    Raises:
        ValueError: a slot is missing, or was counted from other rows than those of the mark.
    """
    if not slots and mark == 0:
        return np.zeros(cells, np.int64)
    if {*slots} != {*range(-(-cells // work.SLOT_CELLS))}:
        raise ValueError("slots are missing")
    if any(own[0] != mark for own in slots.values()):
        raise ValueError("slots are of different rows")
    return np.concatenate([slots[slot][1:] for slot in sorted(slots)])


def count(
    sources: Sequence[SparkSource],
    schema: Schema,
    *,
    unit: str | None = None,
    max_rows_per_unit: int = 1,
    declared: int | None = None,
    together: int = PAIRS,
    watch: Watch = unwatched,
) -> tuple[Counts, Fit]:
    """The rows of one holder, read once; only integers come here.

    Args:
        declared: how many rows there are at most, rounded up, by the word of their owner.
        together: how many columns may be asked for at once. For three, the copy stays.

    Raises:
        DataError: if the rows cannot be read to their end.
    """
    domain = schema.domain
    reading = _Reading.of(sources, schema, unit, max_rows_per_unit)
    with one_line(reading.name):
        copy, (fit, mark) = reading.run(reading.keep, watch)
        try:
            watch(fit.rows_read)
            rows = fit.rows_read - fit.rows_dropped - fit.rows_over
            size = at_least(rows, declared)
            counts = SparkCounts(reading.name, domain, rows, copy, mark, size)
            if _bytes(size, domain) <= most_codes(domain, together):
                return counts, fit
            # The counts of all pairs are smaller than the codes, and hold all that is asked for.
            return counts.all_pairs(), fit
        except BaseException:
            _remove(copy)
            raise


def check(
    sources: Sequence[SparkSource],
    schema: Schema,
    *,
    unit: str | None = None,
    max_rows_per_unit: int = 1,
    watch: Watch = unwatched,
) -> Fit:
    """How the rows of one holder fit a schema; nothing of them is kept."""
    reading = _Reading.of(sources, schema, unit, max_rows_per_unit)
    with one_line(reading.name):
        fit, _ = reading.run(reading.check, watch)
    watch(fit.rows_read)
    return fit


@dataclass(frozen=True, eq=False)
class _Reading:
    """The rows of one holder on their way to blocks of codes."""

    sources: Sequence[SparkSource]
    schema: Schema
    unit: str | None
    most: int
    read: Accumulator[int] | None
    """Rows of the partitions that are done, twice where one is tried again: for progress alone."""

    @classmethod
    def of(
        cls, sources: Sequence[SparkSource], schema: Schema, unit: str | None, most: int
    ) -> _Reading:
        context = context_of(sources[0].frame.sparkSession)
        return cls(sources, schema, unit, most, context.accumulator(0) if context else None)

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.sources[0].name

    @property
    def columns(self) -> dict[str, str]:
        """What is read, and as what kind."""
        return columns_of(self.schema, self.unit)

    @property
    def session(self) -> SparkSession:
        """Where the rows are."""
        return self.sources[0].frame.sparkSession

    def run(self, action: Callable[[], _T], watch: Watch) -> _T:
        """What an action gives; meanwhile `watch` hears how many rows are encoded."""
        heard = 0

        def pulse() -> None:
            nonlocal heard
            if self.read is not None and self.read.value > heard:
                heard = self.read.value
                watch(heard)

        return Jobs(self.session).run(action, pulse)

    def keep(self) -> tuple[DataFrame, tuple[Fit, int]]:
        """A copy that Spark keeps, how the rows fitted, and the mark of those in the copy."""
        from pyspark import StorageLevel

        encoded = self._encoded()
        # As for all but kept tables, Spark may fit the partitions of the copy to its size.
        with setting(self.session, _FIT_PARTITIONS, "true"):
            copy = encoded.persist(StorageLevel.DISK_ONLY)
        try:
            return copy, self._fit(copy)
        except BaseException:
            _remove(copy)
            raise

    def check(self) -> tuple[Fit, int]:
        """How the rows fit, and their mark."""
        return self._fit(self._encoded())

    def _fit(self, encoded: DataFrame) -> tuple[Fit, int]:
        parts = encoded.where("fit is not null").select("fit").collect()
        total = work.total_of(row.fit for row in parts)
        if total.lost:
            raise DataError(f"{self.name}: {_CHANGED}")
        return total.fit, total.mark

    def _encoded(self) -> DataFrame:
        """The rows as blocks of codes, made when they are first needed."""
        from pyspark.sql import DataFrame, Window, functions

        columns = self.columns
        task = work.Task(self.schema.to_toml(), self.unit, self.read)
        encode = work.Encode(task) if self.unit is None else work.EncodeRecords(task)
        kind = work.COPY if self.unit is None else work.RECORDS
        for source in self.sources:
            source.check(columns)
        parts = [source.select(columns).mapInArrow(encode, kind) for source in self.sources]
        encoded = reduce(DataFrame.unionAll, parts)
        if self.unit is None:
            return encoded
        # The same rows stay as from any other source: those of the lowest ranks.
        ranked = Window.partitionBy("person").orderBy("rank", "codes")
        number = functions.row_number().over(ranked)
        numbered = encoded.select("rank", "codes", "fit", number.alias("number"))
        limit = work.Limit(self.schema.domain, self.most)
        return numbered.mapInArrow(limit, work.COPY)


def _bytes(rows: int, domain: Domain) -> int:
    """What the codes of so many rows weigh."""
    return rows * len(domain) * code_type(domain).itemsize


def _jobs(views: Sequence[View], domain: Domain) -> Iterator[list[View]]:
    """Views in groups that a worker has room for."""
    some: list[View] = []
    copied: set[View] = set()
    cells = 0
    for view in views:
        own, more = math.prod(shape(view, domain)), {*columns(view, domain)}
        if some and (cells + own > _MOST_JOB_CELLS or len(copied | more) > _MOST_JOB_COLUMNS):
            yield some
            some, copied, cells = [], set(), 0
        some.append(view)
        copied |= more
        cells += own
    if some:
        yield some


def _remove(copy: DataFrame) -> None:
    with suppress(Exception):  # a session that ended took the copy with it
        copy.unpersist()
