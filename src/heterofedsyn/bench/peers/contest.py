"""What a match between our methods and central ones asks for, and what it found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from heterofedsyn._files import check_no_link
from heterofedsyn.bench.compare.asked import CommonTerms, check_learning, check_seeds
from heterofedsyn.bench.compare.scoreboard import LEARNT, MEASURES
from heterofedsyn.bench.compare.trial import TABLE
from heterofedsyn.bench.peers.field import need_mbi
from heterofedsyn.bench.peers.match import CENTRAL, SECONDS, Match
from heterofedsyn.bench.resumable.carrying import Note, Telling, carry_out
from heterofedsyn.bench.resumable.cells import ML, REAL, SCORES, SITES, Cell
from heterofedsyn.bench.resumable.lookup import Lookup, number
from heterofedsyn.bench.resumable.results import CLOSING, Item, opened
from heterofedsyn.errors import HeterofedsynError, UsageError, did_you_mean
from heterofedsyn.evaluation.learning import Task
from heterofedsyn.hub import METHODS
from heterofedsyn.privacy.trust import TRUST_MODELS, Local, SecureAggregation

SPLIT = "uniform"

_SHORT = {CENTRAL: CENTRAL, Local.name: "local", SecureAggregation.name: "secure"}
"""Where noise is added: by whom holds all rows, at every site, or once for all of them."""

NOTICE = (
    "errors against the rows themselves, without noise, and noise from seeds: for public or "
    "invented rows only, and no release"
)


@dataclass(frozen=True)
class Contest:
    """Every method with every epsilon, each with as many draws of noise; ours by trust model."""

    match: Match
    methods: tuple[str, ...]
    trusts: tuple[str, ...]
    epsilons: tuple[float, ...]
    seeds: int
    seed: int
    ml: bool
    sites: int = SITES

    def __post_init__(self) -> None:
        check_seeds(self.seeds, self.seed)
        if self.match.bins is not None and not 2 <= self.match.bins <= 1_000:
            raise UsageError(f"--bins ({self.match.bins}) must be in 2..1000")
        known = [*self.match.peers, *METHODS]
        for method in self.methods:
            if method not in known:
                raise UsageError(f"there is no method {method!r}; {did_you_mean(method, known)}")
        for trust in self.trusts:
            if trust not in TRUST_MODELS:
                raise UsageError(
                    f"there is no trust model {trust!r}; {did_you_mean(trust, TRUST_MODELS)}"
                )
        if {*self.methods} & {*self.match.peers}:
            need_mbi()
        if self.ml:
            if self.match.bench.evaluator.test is None:
                raise UsageError("--ml needs --test, rows that no synthesizer saw")
            check_learning(self.match.bench.schema)
        for cell in self.cells():
            if cell.trust != CENTRAL:
                self.match.synthesizer(cell, 0)  # refuses what would fail an hour later

    @property
    def question(self) -> CommonTerms:
        """What a folder of results is for."""
        return CommonTerms.of(self.match.bench, self.sites, SPLIT, self.match.delta, self.seed)

    def cells(self) -> Iterator[Cell]:
        """All settings, methods in the order in which they were named."""
        for method in self.methods:
            central = method in self.match.peers
            for trust in (CENTRAL,) if central else self.trusts:
                for epsilon in self.epsilons:
                    settings = self.match.settings(method) if central else ()
                    sites = 1 if central else self.sites
                    yield Cell(TABLE, method, epsilon, sites, SPLIT, trust, settings)

    @property
    def floor(self) -> Cell:
        """Real rows drawn again: what chance alone does."""
        return Cell(TABLE, REAL, 0.0, self.sites, SPLIT)

    def items(self) -> list[Item]:
        """All work, one repetition of everything before the next: it may be cut short."""
        kinds = (SCORES, ML) if self.ml else (SCORES,)
        return [
            Item(self.floor, 0, SCORES),
            *(
                Item(cell, repetition, kind)
                for repetition in range(self.seeds)
                for cell in self.cells()
                for kind in kinds
            ),
        ]

    def called(self, item: Item) -> str:
        """What an item is to whoever waits for it."""
        cell = item.cell
        if cell.method == REAL:
            return "real rows drawn anew"
        learnt = "what models learn from " if item.kind == ML else ""
        draw = f"draw {item.repetition + 1} of {self.seeds}"
        return f"{learnt}{cell.method} ({cell.trust}) at epsilon {cell.epsilon:g}, {draw}"


@dataclass(frozen=True, eq=False)
class Outcome:
    """The figures of a match."""

    contest: Contest
    question: CommonTerms
    lookup: Lookup

    @property
    def measures(self) -> dict[str, str]:
        """What stands in the table."""
        schema = self.contest.match.bench.schema
        task = Task.of(schema) if self.contest.ml else None
        return {**MEASURES, **({LEARNT: f"ML: {task.metrics[0]}"} if task else {})}

    @property
    def title(self) -> str:
        """What the table shows."""
        return f"Distance from the real rows, mean ± standard error of {self.contest.seeds}"

    @property
    def head(self) -> tuple[str, ...]:
        """Of the table."""
        return ("method", "epsilon", *self.measures.values(), "CPU s")

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Of the table."""
        shown = [
            (f"{cell.method} {_SHORT[cell.trust]}", f"{cell.epsilon:g}", *self._shown(cell))
            for cell in self.contest.cells()
        ]
        return [*shown, ("real rows anew", "", *self._shown(self.contest.floor))]

    def as_dict(self) -> dict[str, Any]:
        """All of it for programs."""
        return {
            "notice": NOTICE,
            "question": asdict(self.question),
            "seeds": self.contest.seeds,
            "cells": [
                {
                    "method": cell.method,
                    "noise": cell.trust,
                    "epsilon": cell.epsilon,
                    "settings": dict(cell.settings),
                    "figures": self._figures(cell),
                }
                for cell in self.contest.cells()
            ],
            "floor": self._figures(self.contest.floor),
        }

    def _shown(self, cell: Cell) -> list[str]:
        means = {metric: self.lookup.mean(cell, metric) for metric in self.measures}
        errors = [
            self.lookup.shown(cell, metric) if mean is None else mean.with_error
            for metric, mean in means.items()
        ]
        seconds = self.lookup.mean(cell, SECONDS)
        return [*errors, number(seconds.value) if seconds else ""]

    def _figures(self, cell: Cell) -> dict[str, Any]:
        return {
            metric: mean.as_dict()
            for metric in self.lookup.metrics(cell)
            if not metric.startswith(CLOSING) and (mean := self.lookup.mean(cell, metric))
        }


def compete(contest: Contest, out: Path, *, jobs: int, note: Note) -> Outcome:
    """Do what a folder lacks of a match.

    Raises:
        UsageError: if the folder belongs to another question.
        HeterofedsynError: if some of it failed; the rest is kept.
    """
    check_no_link(out)
    question = contest.question
    first = contest.seed * 1_000
    with opened(out, question, {}) as results:
        ended = carry_out(
            contest.items(), results, contest.match, jobs, Telling(note, contest.called)
        )
        seeds = range(first, first + contest.seeds)
        outcome = Outcome(contest, question, Lookup.read(out).of_seeds(seeds))
    if ended.failures:
        raise HeterofedsynError(
            f"{len(ended.failures)} of {ended.items} runs failed, the rest is kept in {out}; run "
            "again to try them once more"
        )
    return outcome
