"""What a public hierarchy is worth: an invented table of 5,000 codes in 20 chapters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from statistics import mean

import numpy as np
import pyarrow as pa

from heterofedsyn.bench.with_rules import release_of
from heterofedsyn.evaluation import TotalVariation, total_variation
from heterofedsyn.schema import (
    CategoricalColumn,
    Determines,
    IntegerColumn,
    Schema,
    encode,
)

CHAPTERS, EACH = 20, 250
SIZES = (20_000, 100_000)
OTHERS = ("age", "sex", "ward")

SEEN: Mapping[str, Callable[[TotalVariation], float]] = {
    "code": lambda apart: apart.attributes["code"],
    "chapter": lambda apart: apart.attributes["chapter"],
    "pairs with chapter": lambda apart: mean(apart.pairs[name, "chapter"] for name in OTHERS),
    "pairs with code": lambda apart: mean(apart.pairs[name, "code"] for name in OTHERS),
    "all pairs": lambda apart: apart.two_way,
}
"""What is compared."""


@dataclass(frozen=True)
class Worth:
    """Mean total variation without the hierarchy and with it."""

    rows: int
    what: str
    without: float
    known: float


def coded_schema(*, known: bool) -> Schema:
    """The columns, and whether it is known which chapter a code belongs to."""
    codes = [f"{chapter:02}.{code:03}" for chapter in range(CHAPTERS) for code in range(EACH)]
    chapters = tuple(f"{chapter:02}" for chapter in range(CHAPTERS))
    rule = Determines("code", "chapter", tuple(code[:2] for code in codes))
    return Schema(
        (
            IntegerColumn("age", 0, 99),
            CategoricalColumn("sex", ("female", "male")),
            CategoricalColumn("ward", tuple("abcdefgh")),
            CategoricalColumn("code", tuple(codes)),
            CategoricalColumn("chapter", chapters),
        ),
        rules=(rule,) if known else (),
    )


def coded_rows(rows: int, seed: int | np.random.Generator = 0) -> pa.Table:
    """Chapters that depend on age, sex and ward; codes that follow Zipf's law in their chapter."""
    rng = np.random.default_rng(seed)
    age = np.clip(rng.normal(50, 22, rows), 0, 99).astype(np.int64)
    sex = rng.integers(0, 2, rows)
    usual = np.log(rng.dirichlet(np.full(CHAPTERS, 2.0)))
    by_age, by_sex = rng.normal(0, 1, (5, CHAPTERS)), rng.normal(0, 0.7, (2, CHAPTERS))
    odds = usual + by_age[age // 20] + by_sex[sex]
    chapter = (odds + rng.gumbel(size=odds.shape)).argmax(axis=1)
    by_chapter = rng.normal(0, 1.2, (CHAPTERS, 8))
    ward = (by_chapter[chapter] + rng.gumbel(size=(rows, 8))).argmax(axis=1)
    zipf = 1 / np.arange(1, EACH + 1)
    order = np.stack([rng.permutation(EACH) for _ in range(CHAPTERS)])
    code = order[chapter, rng.choice(EACH, rows, p=zipf / zipf.sum())]
    both = zip(chapter.tolist(), code.tolist(), strict=True)
    return pa.table(
        {
            "age": age,
            "sex": np.array(["female", "male"])[sex],
            "ward": np.array([*"abcdefgh"])[ward],
            "code": [f"{one:02}.{other:03}" for one, other in both],
            "chapter": [f"{one:02}" for one in chapter.tolist()],
        }
    )


def compare(seeds: int, note: Callable[[str], None] = lambda _: None) -> Iterator[Worth]:
    """Every size without the hierarchy and with it, with the same noise seeds; epsilon 1."""
    plain = coded_schema(known=False)
    for rows in SIZES:
        note(f"{CHAPTERS * EACH:,} codes, {rows:,} rows: {seeds} seeds, with chapters and without")
        table = coded_rows(rows)
        real = encode(plain, table.to_batches()).table
        found: dict[bool, list[TotalVariation]] = {}
        for known in (False, True):
            made = (
                release_of(coded_schema(known=known), table, "wavetree", 1.0, seed)
                for seed in range(seeds)
            )
            found[known] = [
                total_variation(real, encode(plain, each.to_batches()).table) for each in made
            ]
        for what, measure in SEEN.items():
            yield Worth(rows, what, *(mean(map(measure, found[known])) for known in (False, True)))
