"""A release: model, privacy statement and manifest; anyone may sample from it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heterofedsyn._words import count
from heterofedsyn.errors import UsageError
from heterofedsyn.hub.methods.base import Model
from heterofedsyn.hub.release import sampling
from heterofedsyn.hub.release.accuracy import Accuracy, accuracy_of
from heterofedsyn.hub.release.facts import facts_of
from heterofedsyn.hub.release.folder import check_target, copy, read, write
from heterofedsyn.hub.release.lines import html_of, text_of
from heterofedsyn.hub.release.run_record import RunRecord
from heterofedsyn.hub.release.statement import PrivacyStatement
from heterofedsyn.hub.release.where import Where
from heterofedsyn.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from heterofedsyn.hub.questions.intervals import Intervals
    from heterofedsyn.hub.questions.kept import Drawn

MOST_RELEASED = 100_000_000
"""Rows of one table or release folder, so that no slip of the finger exhausts a machine."""

MOST_STREAMED = 10_000_000_000
"""Rows of one drawing that is written while it is drawn."""

MOST_UNASKED = 10_000_000
"""Rows that are drawn without being asked for: a few bytes from a stranger can tell of more."""


@dataclass(frozen=True, eq=False)
class Release:
    """What a study publishes: anyone may sample from it, and nothing in it is private."""

    schema: Schema
    model: Model
    privacy: PrivacyStatement
    run: RunRecord
    files: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of the files beside the model, as it vouches for them; empty if never saved."""

    def __str__(self) -> str:
        return text_of((), facts_of(self), words=2)

    def __repr__(self) -> str:
        columns = count(len(self.schema.columns), "column")
        return f"<Release by {self.run.method!r}: {columns}, {self.privacy.guarantee}>"

    def _repr_html_(self) -> str:
        return html_of((), facts_of(self), words=2)

    @property
    def usual_rows(self) -> int:
        """How many rows are drawn unless asked otherwise: the noisy total, if that is possible."""
        return min(self.run.noisy_total, MOST_RELEASED)

    def sample(
        self, rows: int | None = None, seed: int | None = None, *, where: str | None = None
    ) -> pa.Table:
        """Synthetic rows with the schema's columns and types; the noisy total unless asked.

        The same seed gives the same rows. It is a matter of convenience, not of privacy.

        Args:
            where: a condition in SQL that all of the rows meet, such as "age > 60"; shows what the
                model believes of such rows, which need not have been measured. Needs DuckDB.

        Raises:
            UsageError: it is no condition on these columns, or almost no row meets it.
        """
        import pyarrow as pa

        wanted = self.usual_rows if rows is None else check_rows(rows)
        return pa.concat_tables(self.batches(wanted, seed, where=where))

    def batches(
        self, rows: int | None = None, seed: int | None = None, *, where: str | None = None
    ) -> Generator[pa.Table]:
        """The rows of `sample`, a part at a time: memory does not grow with their number."""
        wanted = self.usual_rows if rows is None else check_rows(rows, MOST_STREAMED)
        if seed is not None and seed < 0:
            raise UsageError(f"seed ({seed}) must be at least 0")
        drawn = secrets.randbits(128) if seed is None else seed
        if where is None:
            return sampling.draw(self.schema, self.model, wanted, drawn)
        condition = Where.of(self.schema, where)
        return sampling.draw_where(self.schema, self.model, wanted, drawn, condition)

    def accuracy(
        self, attributes: str | Sequence[str], groups: Sequence[int] | None = None
    ) -> Accuracy:
        """A released marginal with its error: of one column, a pair, or `()`, the total.

        A table with values or bins, estimate, standard error and 95 % interval, all in counts.

        Args:
            attributes: names of columns, in any order.
            groups: for one column, a group number for every value: errors are then those of sums
                over groups, which for long stretches of an ordered column are far smaller than
                those of its values would suggest.

        Raises:
            UsageError: if the pair was not measured, with what to do.
        """
        if isinstance(groups, str):
            raise UsageError(f"a pair is one argument: accuracy(({attributes!r}, {groups!r}))")
        return accuracy_of(self.model.targets, attributes, groups, self.run.noisy_total)

    def answer(
        self,
        sql: str,
        *,
        replicates: int = 20,
        cache: str | Path | None = None,
        watch: Callable[[str], None] | None = None,
    ) -> Intervals:
        """The answer to a question in SQL about the table `release`, every number with an interval.

        Args:
            sql: one SELECT with aggregates.
            replicates: how many tables the intervals come from.
            cache: a folder that keeps these tables for the next program; memory alone, unless
                given.
            watch: is told while these tables are drawn, and if they cannot be kept.

        Raises:
            UsageError: it is no question, with what to write instead.
        """
        from heterofedsyn.hub.questions.inquiry import put

        if replicates < 2:
            raise UsageError(
                f"replicates ({replicates}) must be at least 2: intervals need several"
            )
        drawn = self._drawn(replicates, cache, watch)
        return put(sql, self.schema, drawn.known_model(), drawn.tables, drawn.empty())

    def ask(self, sql: str, *, replicates: int = 20, cache: str | Path | None = None) -> Any:
        """The same as `answer`, as a pandas data frame with its notes in `attrs`."""
        return self.answer(sql, replicates=replicates, cache=cache).to_pandas()

    def replicates(
        self,
        many: int = 20,
        seed: int = 0,
        rows: int | None = None,
        *,
        cache: str | Path | None = None,
        watch: Callable[[str], None] | None = None,
    ) -> list[pa.Table]:
        """Tables like those of `sample`, each of another world that the noisy answers allow.

        Run an analysis on each, and `combine` the results.

        Args:
            cache: a folder that keeps them for the next program, as that of `answer`.
            watch: is told while they are drawn, and if they cannot be kept.
        """
        if seed < 0:
            raise UsageError(f"seed ({seed}) must be at least 0")
        wanted = None if rows is None else check_rows(rows)
        return self._drawn(many, cache, watch).whole(seed, wanted)

    def _drawn(
        self, replicates: int, cache: str | Path | None, watch: Callable[[str], None] | None
    ) -> Drawn:
        from heterofedsyn.hub.questions.kept import Drawn

        place = None if cache is None else Path(cache)
        seed, total = self.run.seed, self.run.noisy_total
        return Drawn(self.schema, self.model, seed, total, replicates, place, watch)

    def save(
        self,
        folder: str | Path,
        *,
        rows: int | None = None,
        overwrite: bool = False,
        safe_csv: bool = False,
        copies: Sequence[str | Path] = (),
    ) -> Path:
        """Write the release as a folder, all of it or nothing, with so many synthetic rows.

        Args:
            safe_csv: put an apostrophe before cells of `synthetic.csv` that a spreadsheet would
                take for formulas; `synthetic.parquet` always has the values themselves.
            copies: further folders that get the very same files, of rows that are drawn once.

        Raises:
            UsageError: if a folder holds something already.
        """
        target, *others = (
            check_target(Path(place), overwrite=overwrite) for place in (folder, *copies)
        )
        wanted = self.usual_rows if rows is None else check_rows(rows)
        write(target, self, self.batches(wanted, self.run.seed), safe_csv=safe_csv)
        for other in others:
            copy(target, other)
        return target


def load(folder: str | Path) -> Release:
    """A release from its folder, of which no link leads out; see `read` on what it refuses.

    Raises:
        ReleaseError: if it is missing, corrupt, contradicts itself, or is of a newer version.
    """
    return Release(*read(Path(folder)))


def check_rows(rows: int, most: int = MOST_RELEASED) -> int:
    """The number of rows itself, if so many may be drawn."""
    if not 1 <= rows <= most:
        more = "use `heterofedsyn sample` or batches()" if most < MOST_STREAMED else "draw again"
        raise UsageError(f"rows ({rows}) must be in 1..{most}; for more, {more} with another seed")
    return rows
