"""From sources of rows to exact counts, without holding the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from heterofedsyn.errors import UsageError
from heterofedsyn.marginals import Counts, Tally
from heterofedsyn.marginals.counts import PAIRS
from heterofedsyn.schema import Encoder, Fit, Schema
from heterofedsyn.site.misfits import Checked
from heterofedsyn.sources import Source, Watch, read, unwatched
from heterofedsyn.sources.spark_table import SparkSource


@dataclass(frozen=True, eq=False)
class Counted:
    """The exact counts of a holder's rows, and how the rows fitted; never leaves a site."""

    counts: Counts
    fit: Fit


def count(
    sources: Sequence[Source],
    schema: Schema,
    *,
    unit: str | None = None,
    max_rows_per_unit: int = 1,
    folder: Path | None = None,
    declared: int | None = None,
    together: int = PAIRS,
    watch: Watch = unwatched,
) -> Counted:
    """The rows of one holder, read once; memory does not grow with them, but with their people.

    Args:
        folder: for an encoded copy of the rows, where that is smaller than all their counts.
        declared: how many rows there are at most, rounded up, by the word of their owner; it
            steers how they are kept and counted, so that the time it takes does not tell how many.
        together: how many columns the plan of the study lets anybody ask for at once.

    Raises:
        DataError: if the rows cannot be read to their end.
    """
    if on_spark := _on_spark(sources):
        from heterofedsyn.site import spark_counting

        return Counted(
            *spark_counting.count(
                on_spark,
                schema,
                unit=unit,
                max_rows_per_unit=max_rows_per_unit,
                declared=declared,
                together=together,
                watch=watch,
            )
        )
    encoder = Encoder(schema, unit, max_rows_per_unit, declared)
    with Tally(schema.domain, folder, declared, together) as tally:
        for part in encoder.encode(read(sources, encoder.columns, watch)):
            tally.add(part.codes)
        return Counted(tally.counts(), encoder.fit)


def check(
    sources: Sequence[Source],
    schema: Schema,
    *,
    unit: str | None = None,
    max_rows_per_unit: int = 1,
    watch: Watch = unwatched,
) -> Checked:
    """How the rows of one holder fit a schema; nothing of them is kept."""
    if on_spark := _on_spark(sources):
        from heterofedsyn.site import spark_counting

        fit = spark_counting.check(
            on_spark, schema, unit=unit, max_rows_per_unit=max_rows_per_unit, watch=watch
        )
        return Checked(**vars(fit))
    encoder = Encoder(schema, unit, max_rows_per_unit)
    starts: list[tuple[str, int]] = []

    def begun() -> Iterator[Source]:
        # Asked for the next one when all rows of those before were read.
        for source in sources:
            starts.append((source.name, encoder.fit.rows_read))
            yield source

    for _ in encoder.encode(read(begun(), encoder.columns, watch)):
        pass
    return Checked(**vars(encoder.fit), starts=tuple(starts))


def _on_spark(sources: Sequence[Source]) -> list[SparkSource]:
    """The sources, if Spark holds them and must count them where they are."""
    on_spark = [source for source in sources if isinstance(source, SparkSource)]
    if on_spark and len(on_spark) < len(sources):
        raise UsageError(
            "tables of Spark cannot be put together with other tables; give all to Spark"
        )
    return on_spark
