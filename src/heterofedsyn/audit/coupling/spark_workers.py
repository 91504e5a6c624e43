"""What Spark's workers make of persons' rows: those that count from any other source, in any order.

Their functions are run here without Spark, partition by partition. Spark only carries what they
give from one to the next and numbers the rows of each person by their ranks, which is done here in
plain Python.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from heterofedsyn._arrays import stream
from heterofedsyn.audit import oracle
from heterofedsyn.audit.findings import Check, require
from heterofedsyn.audit.fixtures import UNIT, grouped_three, plain_schema
from heterofedsyn.marginals import Flat, Total
from heterofedsyn.marginals.counts import whole
from heterofedsyn.schema import Fit, Schema
from heterofedsyn.schema.table import columns_of
from heterofedsyn.site import _spark_tasks as work
from heterofedsyn.site import spark_counting

if TYPE_CHECKING:
    import pyarrow as pa

from heterofedsyn._arrays import Integers
from heterofedsyn.audit.coupling.persons import Row, as_table, kept
from heterofedsyn.audit.patches import patched

_PARTITIONS = 3


def checks(seed: int) -> Iterator[Check]:
    """What workers of Spark make of people's rows."""
    yield "workers of Spark", partial(_workers, seed)


def _workers(seed: int) -> str:
    """L rows of a person reach the counts, those of any other source, and the total has no more."""
    import pyarrow as pa

    schema = plain_schema(9, 6, 2)
    three = grouped_three(schema.domain)
    rng = stream(seed, "rows for workers")
    rows = [
        Row(
            int(rng.integers(20)),
            (int(rng.integers(-1, 9)), int(rng.integers(6)), int(rng.integers(2))),
        )
        for _ in range(200)
    ]
    rows += [Row(99, (8, 5, 1))] * 12
    columns = columns_of(schema, UNIT)
    fitting = [row for row in rows if row.codes[0] >= 0]
    people = {row.person for row in fitting}
    for most in (1, 3):
        encode = work.EncodeRecords(work.Task(schema.to_toml(), UNIT))
        encoded: list[pa.RecordBatch] = []
        mixed = [rows[i] for i in rng.permutation(len(rows))]
        for part in range(_PARTITIONS):
            encoded += encode(_batches(mixed[part::_PARTITIONS], [*columns]))
        numbered = _numbered(pa.Table.from_batches(encoded))
        limit = work.Limit(schema.domain, most)
        half = numbered.num_rows // 2
        copy = [
            *limit(numbered.slice(0, half).to_batches()),
            *limit(numbered.slice(half).to_batches()),
        ]
        blocks = [batch for batch in copy if batch.column("codes").null_count == 0]
        counted = work.Count(schema.domain, [whole(("a0", "a1")), *three.views()])(blocks)
        mark, *cells = np.frombuffer(next(iter(counted)).column("counts")[0].as_py(), np.int64)
        joint, triple = np.split(np.array(cells), [schema.domain.cells(("a0", "a1"))])
        wanted = sum(min(most, sum(row.person == person for row in fitting)) for person in people)
        require(
            int(joint.sum()) == wanted,
            f"{most} rows a person: {int(joint.sum())} rows are counted, not {wanted}",
        )
        own = int(joint.reshape(9, 6)[8, 5])
        others = sum(row.codes[:2] == (8, 5) and row.person != 99 for row in fitting)
        require(
            own <= most + others, f"{most} rows a person: somebody with 12 has more than {most}"
        )
        table = kept([rows], schema, most)
        right = [oracle.exact(statistic, table) for statistic in (Flat(("a0", "a1")), three)]
        require(
            np.array_equal(joint, right[0]) and np.array_equal(triple, right[1]),
            f"{most} rows a person: other rows are counted than from any other source",
        )
        fits = [v for batch in copy for v in batch.column("fit").drop_null().to_pylist()]
        parts = work.total_of(fits)
        require(
            (parts.mark, parts.lost) == (mark, 0),
            f"{most} rows a person: rows are taken for others that are the same",
        )
        total = _total(schema, most, parts.fit, joint)
        require(
            total == wanted, f"{most} rows a person: the total is {total}, counted are {wanted}"
        )
    return f"{len(rows)} rows of {len(people)} people in {_PARTITIONS} parts"


def _batches(rows: Sequence[Row], columns: Sequence[str]) -> list[pa.RecordBatch]:
    table = as_table(rows, [str(row.person) for row in rows]).select(columns)
    return [*table.combine_chunks().to_batches()]


def _numbered(table: pa.Table) -> pa.Table:
    """Rows as Spark has them, each with its number among those of its person by rank and codes."""
    import pyarrow as pa

    ordered = table.sort_by([(name, "ascending") for name in ("person", "rank", "codes")])
    seen: dict[str | None, int] = defaultdict(int)
    numbers = []
    for person in ordered.column("person").to_pylist():
        seen[person] += 1
        numbers.append(seen[person])
    return ordered.append_column("number", pa.array(numbers, pa.int32())).combine_chunks()


class _Copy:
    """What Spark would keep of the rows; nothing is asked of it but to go."""

    def unpersist(self) -> None:
        """Nothing was kept."""


def _total(schema: Schema, most: int, fit: Fit, joint: Integers) -> int:
    """The exact total of a table of Spark of which so many rows were kept."""

    class Read:
        """Rows that were read already."""

        name = "rows"

        @staticmethod
        def run(action: Callable[[], Any], watch: object) -> Any:
            return action()

        @staticmethod
        def keep() -> tuple[object, tuple[Fit, int]]:
            return _Copy(), (fit, 0)

    with (
        patched(spark_counting._Reading, of=lambda *given: Read),
        patched(spark_counting.SparkCounts, _count=lambda counts, views: [joint]),
    ):
        counts, _ = spark_counting.count([], schema, unit=UNIT, max_rows_per_unit=most)
        require(
            int(Flat(("a0", "a1")).exact(counts).values.sum()) == int(joint.sum()),
            "counted wrongly",
        )
        return int(Total().exact(counts).values[0])
