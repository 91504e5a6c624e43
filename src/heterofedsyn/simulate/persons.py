"""Whether somebody has rows at two sites, which only a process that reads all of them can tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from heterofedsyn._arrays import Integers
from heterofedsyn.errors import PrivacyRefusal
from heterofedsyn.schema._units import identify, salts
from heterofedsyn.sources import Source
from heterofedsyn.sources.spark_table import Jobs, SparkSource, one_line

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class Heard(Source):
    """A source whose people are noted while it is read."""

    source: Source
    unit: str
    people: set[int] = field(default_factory=set)

    @property
    def name(self) -> str:
        """That of the source."""
        return self.source.name

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of the source."""
        return self.source.columns

    def _batches(self, columns: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        for batch in self.source.batches(columns):
            self.people.update(_hashes(batch.column(self.unit), self.unit).tolist())
            yield batch


def people_of(source: Source, unit: str) -> set[int]:
    """Hashes of the people with rows in a source: noted when it was read, or asked of Spark."""
    if isinstance(source, Heard):
        return source.people
    assert isinstance(source, SparkSource)
    with one_line(source.name):
        column = source.select((unit,))
        hashes = column.mapInArrow(_Work(unit), "person long").distinct()
        return {row.person for row in Jobs(source.frame.sparkSession).run(hashes.collect)}


def check_persons(sites: Mapping[str, set[int]]) -> None:
    """Refuses people with rows at several sites, for whom the guarantee would not hold.

    Raises:
        PrivacyRefusal: saying how many there are, and nothing else about them.
    """
    seen: set[int] = set()
    several: set[int] = set()
    for people in sites.values():
        several |= seen & people
        seen |= people
    if several:
        have = "person has" if len(several) == 1 else "people have"
        raise PrivacyRefusal(
            f"{len(several):,} {have} rows at more than one site, and would pay at each of them: "
            "pool all rows (--data), or leave out the unit, where every record is protected, "
            "and read in docs/privacy.md what several records of one person cost"
        )


@dataclass(frozen=True)
class _Work:
    """Runs on workers of Spark: a column of identities to hashes of the people in it."""

    unit: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            yield pa.record_batch({"person": pa.array(_hashes(batch.column(0), self.unit))})


def _hashes(column: pa.Array, unit: str) -> Integers:
    """A number for everybody in a column, the same in whichever source and spelling.

    That two of ten million people share one, and are refused in vain, has a chance of 3e-6.
    """
    identities, _ = identify(column, unit)
    entries = identities.indices.drop_null().unique()
    return salts(identities.dictionary.take(entries).to_pylist())
