"""All scores of synthetic tables against one real table."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from heterofedsyn._arrays import Floats, stream
from heterofedsyn._files import cache_of, file_written_whole
from heterofedsyn.errors import HeterofedsynError, UsageError, did_you_mean
from heterofedsyn.evaluation import learning
from heterofedsyn.evaluation.learning import Figures, Task, average, guess, learn
from heterofedsyn.evaluation.queries import RangeQueries, cut_to, seeded_queries
from heterofedsyn.evaluation.rows import Rows, read_real, read_synthetic
from heterofedsyn.evaluation.transport import CUT_ROWS, KINDS, MOST_CUT, transport
from heterofedsyn.evaluation.tvd import TotalVariation, total_variation
from heterofedsyn.evaluation.wasserstein import mean_over_pairs
from heterofedsyn.schema import Schema

QUICK = ("tvd", "query", "histogram")
"""Measures of seconds that need no extra."""

MEASURES = (*QUICK, *KINDS, "ml")


@dataclass(frozen=True)
class Learning:
    """Machine learning on a synthetic table, on the real one, and a constant guess.

    Attributes:
        synthetic: None if nothing can be learnt from the table.
    """

    task: Task
    synthetic: Figures | None
    ceiling: Figures
    trivial: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """The first metric in short, then every figure of every model."""
        first, second = self.task.metrics
        return {
            "metric": first,
            **self._short(first),
            second: self._short(second),
            "models": {
                model: {
                    metric: {
                        "synthetic": self.synthetic[model][metric] if self.synthetic else None,
                        "ceiling": figures[metric],
                        "trivial": self.trivial[metric],
                    }
                    for metric in self.task.metrics
                }
                for model, figures in self.ceiling.items()
            },
        }

    def _short(self, metric: str) -> dict[str, float | None]:
        return {
            "average": average(self.synthetic, metric) if self.synthetic else None,
            "ceiling": average(self.ceiling, metric),
            "trivial": self.trivial[metric],
        }


@dataclass(frozen=True)
class Scores:
    """How far a synthetic table is from a real one; what was not asked for is None.

    Attributes:
        tvd: on the schema's grid.
        tvd_20: on at most 20 equal bins a column.
        train: query error with one condition, with two, and so on, against the real table.
        test: the same against test rows and as many synthetic ones.
        fidelity: transport distances by kind; None where the schema has no such pair.
        remarks: what had to be done to the tables, and what could not be scored.
    """

    tvd: TotalVariation | None
    tvd_20: TotalVariation | None
    train: tuple[float, ...] | None
    test: tuple[float, ...] | None
    fidelity: dict[str, float | None]
    ml: Learning | None
    remarks: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The scores by name, ready for JSON."""
        figures: dict[str, Any] = {}
        if self.tvd and self.tvd_20:
            figures["tvd"] = {
                "one_way": self.tvd.one_way,
                "two_way": self.tvd.two_way if self.tvd.pairs else None,
                "one_way_20": self.tvd_20.one_way,
                "two_way_20": self.tvd_20.two_way if self.tvd.pairs else None,
            }
        queries = {"train": self.train, "test": self.test}
        if asked := {name: _by_ways(errors) for name, errors in queries.items() if errors}:
            figures["query"] = asked
        if self.fidelity:
            figures["fidelity"] = dict(self.fidelity)
        if self.ml:
            figures["ml"] = self.ml.to_dict()
        return {**figures, "remarks": list(self.remarks)}


class Evaluator:
    """Scores any number of synthetic tables against one real table.

    Args:
        real: the rows that the synthetic tables stand for: a table, a file, or a list of them.
        test: rows that no synthesizer saw; without them there is no machine learning.
        seed: draws the queries, the cuts and the models.
        transport_rows: how many rows of a large table exact transport compares.
        cache: a folder that keeps what models learn from the real rows, for the next time.
    """

    def __init__(
        self,
        schema: Schema,
        real: object,
        test: object = None,
        *,
        seed: int = 0,
        transport_rows: int = CUT_ROWS,
        cache: Path | None = None,
    ) -> None:
        if seed < 0:
            raise UsageError(f"seed ({seed}) must be at least 0")
        if not 1 <= transport_rows <= MOST_CUT:
            raise UsageError(f"transport_rows ({transport_rows}) must be in 1..{MOST_CUT}")
        # All columns count, also those that rules derive, and rows that break a rule are rows.
        schema = schema.without_rules()
        self._schema, self._seed, self._cache = schema, seed, cache
        self._cut = transport_rows
        self.real = read_real(schema, real)
        self.test = None if test is None else read_real(schema, test, "test")

    def score(self, synthetic: object, measures: Iterable[str] = MEASURES) -> Scores:
        """The asked scores of one synthetic table."""
        return self._score(read_synthetic(self._schema, synthetic), measures)

    def floor(self, measures: Iterable[str] = MEASURES) -> Scores:
        """The scores of real rows drawn with replacement: what no table can be expected to beat."""
        many = self.real.number
        drawn = stream(self._seed, "floor").integers(0, many, many)
        return self._score(self.real.take(drawn), measures)

    def _score(self, made: Rows, measures: Iterable[str]) -> Scores:
        wanted = _known(measures)
        real, test = self.real, self.test
        remarks = [*real.remarks, *(test.remarks if test else ()), *made.remarks]
        fidelity = {
            kind: transport(real, made, kind, self._seed, self._cut)
            for kind in KINDS
            if kind in wanted
        }
        if "histogram" in wanted:
            fidelity["histogram"] = mean_over_pairs(real, made)
        ml = None
        if "ml" in wanted:
            ml, reason = self._learning(made)
            remarks += [reason] if reason else []
        return Scores(
            tvd=total_variation(real.fine, made.fine) if "tvd" in wanted else None,
            tvd_20=total_variation(real.wide, made.wide) if "tvd" in wanted else None,
            train=self._errors(self._on_real, made.values) if "query" in wanted else None,
            test=self._errors(self._on_test, cut_to(made.values, test.number, self._seed))
            if "query" in wanted and test
            else None,
            fidelity=fidelity,
            ml=ml,
            remarks=tuple(dict.fromkeys(remarks)),
        )

    @cached_property
    def _queries(self) -> tuple[RangeQueries, ...]:
        """A query has up to three conditions, each on another column."""
        ways = range(1, min(3, len(self._schema.columns)) + 1)
        return tuple(seeded_queries(self._schema, many, seed=self._seed) for many in ways)

    def _errors(self, known: tuple[Floats, ...], values: Floats) -> tuple[float, ...]:
        return tuple(
            float(np.abs(truth - queries.answer(values)).mean())
            for truth, queries in zip(known, self._queries, strict=True)
        )

    @cached_property
    def _on_real(self) -> tuple[Floats, ...]:
        return tuple(queries.answer(self.real.values) for queries in self._queries)

    @cached_property
    def _on_test(self) -> tuple[Floats, ...]:
        assert self.test is not None
        return tuple(queries.answer(self.test.values) for queries in self._queries)

    @cached_property
    def _ceiling(self) -> tuple[Task, Figures, dict[str, float]] | str:
        """What the real rows teach, and a constant; or why that cannot be known."""
        task, test = Task.of(self._schema), self.test
        if task is None:
            return "no machine learning: the schema names no label"
        if test is None:
            return "no machine learning: it needs test rows that no synthesizer saw"
        if task.known(test).number < 1 or task.known(self.real).number < 2:
            return "no machine learning: too few rows have a label"
        figures = self._remembered(task, test)
        return task, figures, guess(task, self.real, test)

    def _learning(self, made: Rows) -> tuple[Learning | None, str | None]:
        if isinstance(self._ceiling, str):
            return None, self._ceiling
        assert self.test is not None
        task, ceiling, trivial = self._ceiling
        figures = learn(task, made, self.test, self._seed, made=True)
        reason = None if figures else "no machine learning: too few synthetic rows have a label"
        return Learning(task, figures, ceiling, trivial), reason

    def _remembered(self, task: Task, test: Rows) -> Figures:
        """What models learn from the real rows, from the cache if it is there."""
        if self._cache is None:
            return _learnt(task, self.real, test, self._seed)
        key = hashlib.sha256(f"{self._schema.fingerprint} {self._seed}".encode())
        for package in ("numpy", "scikit-learn", "xgboost-cpu"):
            key.update(f" {package} {_version(package)}".encode())
        key.update(Path(learning.__file__).read_bytes())  # its settings decide what is learnt
        for rows in (self.real, test):
            key.update(rows.values.tobytes())
            key.update(rows.fine.codes.tobytes())
        place = self._cache / f"{key.hexdigest()}.json"
        try:
            return msgspec.json.decode(place.read_bytes(), type=Figures)
        except (OSError, msgspec.MsgspecError):
            figures = _learnt(task, self.real, test, self._seed)
        with suppress(OSError, HeterofedsynError):  # it only saves time
            self._cache.mkdir(mode=0o700, parents=True, exist_ok=True)
            with file_written_whole(place) as partial:
                partial.touch(0o600)
                partial.write_bytes(msgspec.json.encode(figures))
        return figures


def cache_folder() -> Path | None:
    """Where the user keeps what models learn from real rows; it holds scores, no rows."""
    return cache_of("ceilings")


def score(
    schema: Schema,
    real: object,
    synthetic: object,
    test: object = None,
    seed: int = 0,
    measures: Iterable[str] = QUICK,
) -> dict[str, Any]:
    """Scores of one synthetic table by name; those against test only when it is given."""
    return Evaluator(schema, real, test, seed=seed).score(synthetic, measures).to_dict()


def _learnt(task: Task, real: Rows, test: Rows, seed: int) -> Figures:
    figures = learn(task, real, test, seed, made=False)
    assert figures is not None
    return figures


def _known(measures: Iterable[str]) -> set[str]:
    wanted = set(measures)
    for name in sorted(wanted - {*MEASURES}):
        raise UsageError(f"there is no measure {name!r}; {did_you_mean(name, MEASURES)}")
    return wanted


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # another build of it
        return "?"


def _by_ways(errors: tuple[float, ...]) -> dict[str, float]:
    return {f"{ways}_way": error for ways, error in enumerate(errors, start=1)}
