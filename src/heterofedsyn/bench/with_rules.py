"""What rules do to a release: the same tables with the rules that hold in them and without."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING, Any

from heterofedsyn.bench.benchmark_tables import need_data
from heterofedsyn.errors import SimulatedNoiseWarning
from heterofedsyn.evaluation import total_variation
from heterofedsyn.hub import METHODS
from heterofedsyn.schema import Schema, encode
from heterofedsyn.schema.table import columns_of
from heterofedsyn.simulate import FederatedSynthesizer
from heterofedsyn.simulate.hospitals import hospital_schema, hospitals
from heterofedsyn.simulate.synthesizer import name_sites
from heterofedsyn.sources import open_source

if TYPE_CHECKING:
    import pyarrow as pa

SITES = 5
DELTA = 1e-9
HOSPITALS = "hospitals"
PATIENTS = 20_000

YEARS = (
    *("Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad"),
    *("Some-college", "Assoc-voc", "Assoc-acdm", "Bachelors", "Masters", "Prof-school"),
    "Doctorate",
)
SCHOOL = {name: str(years) for years, name in enumerate(YEARS, start=1)}
"""Years of school by education, in the adult table."""

RULES: Mapping[str, Sequence[dict[str, Any]]] = {
    "adult": (
        {"determines": {"from": "education", "to": "education-num", "table": SCHOOL}},
        {
            "never": {
                "relationship": ["Husband", "Wife"],
                "marital-status": ["Never-married", "Divorced", "Widowed", "Separated"],
            }
        },
    ),
    "shoppers": (
        {"never": {"Administrative": {"to": 0}, "Administrative_Duration": {"above": 0}}},
        {"never": {"Informational": {"to": 0}, "Informational_Duration": {"above": 0}}},
        {
            "never": {
                "Month": ["Aug", "Dec", "Jul", "June", "Mar", "Nov", "Oct", "Sep"],
                "SpecialDay": {"above": 0},
            }
        },
    ),
    "insurance": ({"never": {"smoker": "yes", "label": {"below": 12_000}}},),
    "obesity": (
        {"never": {"label": "Insufficient_Weight", "Weight": {"above": 66}}},
        {"never": {"label": "Obesity_Type_III", "Weight": {"below": 100}}},
    ),
    "abalone": ({"order": ["viscera_weight", "whole_weight"]},),
}
"""What holds of every row of a benchmark table."""


@dataclass(frozen=True)
class Compared:
    """2-way total variation of one table, over noise seeds.

    Attributes:
        tied: the mean of the pairs that rules speak of, without rules and with them.
        broken: rows of the releases without rules that break one, as a share.
    """

    table: str
    without: tuple[float, ...]
    ruled: tuple[float, ...]
    tied: tuple[float, float]
    broken: float

    @property
    def change(self) -> float:
        """Of the mean, by the rules; negative is better."""
        return mean(self.ruled) / mean(self.without) - 1

    @property
    def error(self) -> float:
        """The standard error of the mean difference, in the same unit."""
        apart = [one - other for one, other in zip(self.ruled, self.without, strict=True)]
        return stdev(apart) / len(apart) ** 0.5 / mean(self.without) if len(apart) > 1 else 0.0


def compare(
    names: Sequence[str],
    *,
    method: str = "wavetree",
    epsilon: float = 1.0,
    seeds: int = 10,
    note: Callable[[str], None] = lambda _: None,
) -> Iterator[Compared]:
    """Each table with its rules and without, with the same noise seeds."""
    for name in names or (*RULES, HOSPITALS):
        note(f"{name}: {seeds} seeds, with rules and without")
        schema, rows = ruled_table(name)
        yield _compared(name, schema, rows, method, epsilon, seeds)


def plain_table(name: str) -> tuple[Schema, pa.Table]:
    """A table and its schema as it comes: that of the hospitals has rules."""
    if name == HOSPITALS:
        return ruled_table(name)
    folder = need_data() / name
    return Schema.load(folder / "schema.toml"), _read(folder)


def ruled_table(name: str) -> tuple[Schema, pa.Table]:
    """A table and its schema with rules."""
    import pyarrow as pa

    if name == HOSPITALS:
        return hospital_schema(), pa.concat_tables(hospitals(patients=PATIENTS).values())
    folder = need_data() / name
    return _with_rules(folder, name), _read(folder)


def _with_rules(folder: Path, name: str) -> Schema:
    settings = Schema.load(folder / "schema.toml").settings
    if name == "adult":  # what is determined has words for values
        column = next(own for own in settings["columns"] if own["name"] == "education-num")
        column.clear()
        years = [str(year) for year in range(1, 17)]
        column |= {"name": "education-num", "type": "categorical", "values": years, "ordered": True}
    return Schema.of({**settings, "rules": [*RULES[name]]})


def _read(folder: Path) -> pa.Table:
    import pyarrow as pa

    schema = Schema.load(folder / "schema.toml")
    sources = [open_source(folder / f"{part}.csv") for part in ("train", "val")]
    batches = [batch for own in sources for batch in own.batches(columns_of(schema, None))]
    return pa.Table.from_batches(batches)


def _compared(
    name: str, schema: Schema, rows: pa.Table, method: str, epsilon: float, seeds: int
) -> Compared:
    plain = schema.without_rules()
    real = encode(plain, rows.to_batches()).table
    found: dict[bool, list[float]] = {True: [], False: []}
    tied: dict[bool, list[float]] = {True: [], False: []}
    spoken = {
        plain.domain.clique(*two) for rule in schema.rules for two in combinations(rule.columns, 2)
    }
    broken = []
    for seed in range(seeds):
        for ruled in (True, False):
            made = release_of(schema if ruled else plain, rows, method, epsilon, seed)
            apart = total_variation(real, encode(plain, made.to_batches()).table)
            found[ruled].append(apart.two_way)
            tied[ruled].append(mean(apart.pairs[pair] for pair in spoken))
            if not ruled:
                fit = encode(schema, made.to_batches())
                broken.append(fit.rows_dropped / max(1, fit.rows_read))
    pairs = mean(tied[False]), mean(tied[True])
    return Compared(name, tuple(found[False]), tuple(found[True]), pairs, mean(broken))


def release_of(schema: Schema, rows: pa.Table, method: str, epsilon: float, seed: int) -> pa.Table:
    """The rows of a release over five sites, trust local."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SimulatedNoiseWarning)
        synthesizer = FederatedSynthesizer(
            schema, epsilon=epsilon, delta=DELTA, method=method, noise_seed=seed
        )
        encoded = synthesizer.encode([rows])
        if METHODS[method].pools:
            tables = {"pooled": encoded.table}
        else:
            tables = name_sites(synthesizer.split(encoded, SITES, "uniform"))
        return synthesizer.fit_encoded(tables).sample(seed=seed)
