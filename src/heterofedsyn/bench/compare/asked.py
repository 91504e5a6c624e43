"""What a comparison asks for, checked before any work is done."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from heterofedsyn.bench.compare.trial import TABLE, Bench, Trial
from heterofedsyn.bench.resumable.cells import ML, REAL, SCORES, Cell
from heterofedsyn.bench.resumable.results import Item
from heterofedsyn.errors import PrivacyRefusal, SimulatedNoiseWarning, UsageError
from heterofedsyn.evaluation.extra import need
from heterofedsyn.evaluation.learning import Task
from heterofedsyn.schema import Schema
from heterofedsyn.simulate import FederatedSynthesizer

MOST_SEEDS = 1_000
MOST_SEED = 10**12


@dataclass(frozen=True)
class CommonTerms:
    """What must be equal for figures to stand in one table; a later run may ask for more of them.

    Attributes:
        rows: a SHA-256 of all rows, real and for tests, as the schema reads them.
        seed: repetition r has noise seed 1000 SEED + r.
    """

    rows: str
    schema: str
    sites: int
    split: str
    delta: float
    seed: int

    @classmethod
    def of(cls, bench: Bench, sites: int, split: str, delta: float, seed: int) -> CommonTerms:
        """Those of studies on these rows."""
        digest = hashlib.sha256()
        for rows in (bench.evaluator.real, bench.evaluator.test):
            if rows is not None:
                digest.update(rows.values.tobytes())
                digest.update(rows.fine.codes.tobytes())
        schema = bench.schema.fingerprint
        return cls(digest.hexdigest(), schema, sites, split, delta, seed)

    def __str__(self) -> str:
        return (
            f"on rows {self.rows[:12]} with schema {self.schema[:12]}, --sites {self.sites} "
            f"--split {self.split} --delta {self.delta:g} --seed {self.seed}"
        )


@dataclass(frozen=True)
class Comparison:
    """Every method with every epsilon, each with as many draws of noise."""

    trial: Trial
    methods: tuple[str, ...]
    epsilons: tuple[float, ...]
    seeds: int
    sites: int
    split: str
    seed: int
    ml: bool

    def __post_init__(self) -> None:
        check_seeds(self.seeds, self.seed)
        if self.ml and not self.trial.test:
            raise UsageError("--ml needs --test, rows that no synthesizer saw")
        if self.ml:
            check_learning(self.trial.bench.schema)
        for method in self.methods:
            for epsilon in self.epsilons:
                self.synthesizer(method, epsilon)  # refuses what would fail an hour later

    def synthesizer(self, method: str, epsilon: float) -> FederatedSynthesizer:
        """One that was not fitted yet, with the noise of the first repetition."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SimulatedNoiseWarning)
            return self.trial.synthesizer(method, epsilon, self.seed * 1_000)

    def question(self) -> CommonTerms:
        """What a folder of results is for; reads all rows."""
        bench = self.trial.bench
        return CommonTerms.of(bench, self.sites, self.split, self.trial.delta, self.seed)

    @property
    def noise_seeds(self) -> range:
        """One for every repetition."""
        return range(self.seed * 1_000, self.seed * 1_000 + self.seeds)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of work on every cell."""
        return (SCORES, ML) if self.ml else (SCORES,)

    @property
    def floor(self) -> Cell:
        """Real rows drawn again: what chance alone does."""
        return Cell(TABLE, REAL, 0.0, self.sites, self.split)

    def cell(self, method: str, epsilon: float) -> Cell:
        """One setting of a study."""
        return Cell(TABLE, method, epsilon, self.sites, self.split)

    def cells(self) -> Iterator[Cell]:
        """All of them, methods in the order in which they were named."""
        for method in self.methods:
            for epsilon in self.epsilons:
                yield self.cell(method, epsilon)

    def called(self, item: Item) -> str:
        """What an item is to whoever waits for it."""
        if item.cell.method == REAL:
            return "real rows drawn anew"
        learnt = "what models learn from " if item.kind == ML else ""
        return (
            f"{learnt}{item.cell.method} at epsilon {item.cell.epsilon:g}, "
            f"draw {item.repetition + 1} of {self.seeds}"
        )

    def items(self) -> list[Item]:
        """All work, one repetition of everything before the next: it may be cut short."""
        every = [
            Item(cell, repetition, kind)
            for kind in self.kinds
            for repetition in range(self.seeds)
            for cell in self.cells()
        ]
        return [Item(self.floor, 0, SCORES), *every]


def check_seeds(seeds: int, seed: int) -> None:
    """Refuse numbers of repetitions, or a seed, that cannot be."""
    if not 1 <= seeds <= MOST_SEEDS:
        raise UsageError(f"--seeds ({seeds}) must be in 1..{MOST_SEEDS:,}")
    if not 0 <= seed < MOST_SEED:
        raise UsageError(f"--seed ({seed}) must be in 0..10^12 - 1")


def check_learning(schema: Schema) -> None:
    """Refuse machine learning that has nothing to learn, or nothing to learn with."""
    need("sklearn", "models")
    need("xgboost", "models")
    if Task.of(schema) is None:
        raise UsageError("--ml needs a label to predict; add `label = ...` to the schema")


def read_epsilons(text: str) -> tuple[float, ...]:
    """Numbers with commas between them, each once, the smallest first.

    >>> read_epsilons("5, 0.5,1")
    (0.5, 1.0, 5.0)
    """
    epsilons = []
    for word in text.split(","):
        try:
            epsilon = float(word)
        except ValueError:
            epsilon = math.nan
        if not 0 < epsilon < math.inf:
            raise UsageError(f"--epsilons {text!r} must be numbers above 0, as in 0.5,1,5")
        epsilons.append(epsilon)
    return tuple(sorted({*epsilons}))


def read_methods(text: str, option: str = "--methods") -> tuple[str, ...]:
    """Names with commas between them, each once; whether there are such is seen later."""
    names = [word.strip() for word in text.split(",")]
    if not all(names):
        raise UsageError(f"{option} {text!r} must be names with commas between them")
    return tuple(dict.fromkeys(names))


def check_public(public: bool, names: Sequence[str]) -> None:
    """Refuse rows that nobody declared to be public.

    Raises:
        PrivacyRefusal: saying why, and how to go on.
    """
    if not public:
        raise PrivacyRefusal(
            "a comparison prints how far tables are from the rows themselves, without any noise, "
            "and draws its noise from seeds that anyone can repeat; if "
            f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} public or invented, say "
            "so with --public"
        )
