"""Invented tables keep what they claim: their shape, their schema, and what is independent."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest

from heterofedsyn.bench.families import FAMILIES, Invented, family
from heterofedsyn.cli.peers import peers
from heterofedsyn.errors import UsageError
from heterofedsyn.evaluation.learning import Task
from heterofedsyn.marginals import count_pairs
from heterofedsyn.schema import Clique, Encoded, Schema, encode

NAMES = sorted(FAMILIES)


def invented(name: str, rows: int = 1_000, columns: int | None = None, seed: int = 0) -> Invented:
    return family(name).invent(np.random.default_rng(seed), rows, columns)


def encoded(made: Invented) -> Encoded:
    return encode(made.schema, made.rows.to_batches())


def excesses(made: Invented, pairs: Sequence[Clique]) -> list[float]:
    """Chi-square of pairs' tables against independence, in standard errors above its mean."""
    domain = made.schema.domain
    found = []
    for marginal in count_pairs(encoded(made).table, [domain.clique(*pair) for pair in pairs]):
        table = marginal.counts.reshape(domain.shape(marginal.clique)).astype(float)
        table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
        expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
        freedom = (table.shape[0] - 1) * (table.shape[1] - 1)
        chi_square = ((table - expected) ** 2 / expected).sum()
        found.append(float((chi_square - freedom) / np.sqrt(2 * freedom)))
    return found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("columns", [5, 6, 37, 100, None])
def test_a_table_has_the_shape_asked_for_and_its_schema_fits_every_row(
    name: str, columns: int | None
) -> None:
    made = invented(name, 1_000, columns)
    assert made.rows.num_rows == 1_000
    assert made.rows.num_columns == (columns or FAMILIES[name].columns)
    assert made.rows.column_names == [column.name for column in made.schema.columns]
    assert encoded(made).table.rows == 1_000
    assert Schema.from_toml(made.schema.to_toml()) == made.schema


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_table_and_another_another(name: str) -> None:
    first, again, other = (invented(name, seed=seed) for seed in (3, 3, 4))
    assert first.schema == again.schema
    assert first.rows.equals(again.rows)
    assert not first.rows.equals(other.rows)


@pytest.mark.parametrize("name", ["path", "label-interaction", "many-codes"])
def test_pairs_claimed_independent_are(name: str) -> None:
    made = invented(name, 20_000, 12)
    few = [pair for pair in made.independent if "code" not in pair]  # too rare for a chi-square
    assert few
    assert max(excesses(made, few)) < 4


def test_a_path_joins_what_is_independent() -> None:
    made = invented("path", 5_000)
    both = [(left, left.replace("left", "both")) for left, _ in made.independent]
    rest = [(left.replace("left", "both"), right) for left, right in made.independent]
    assert min(excesses(made, both + rest)) > 100


def test_a_label_decides_how_a_child_follows_its_parent() -> None:
    made = invented("label-interaction", 5_000)
    pair = ("parent-00", "child-00")
    assert excesses(made, [pair])[0] < 4
    one = made.rows.filter(np.array(made.rows["label"].to_pylist()) == "v01")
    assert excesses(Invented(made.schema, one), [pair])[0] > 100


@pytest.mark.parametrize("name", ["binary", "small-categories", "few-wide"])
def test_some_columns_of_a_tree_depend_and_some_hardly(name: str) -> None:
    made = invented(name, 9_000)
    pairs = [*made.schema.domain.pairs()]
    found = dict(zip(pairs, excesses(made, pairs), strict=True))
    strongest = [
        max(own for pair, own in found.items() if name in pair) for name in made.rows.column_names
    ]
    assert max(strongest) > 40
    assert min(strongest) < max(strongest) / 10


def test_a_comb_leaves_every_other_bin_nearly_empty() -> None:
    made = invented("comb", 5_000)
    counts = np.bincount(encoded(made).table.codes[0], minlength=96)
    assert min(counts[0::2].sum(), counts[1::2].sum()) < 0.1 * counts.sum()


def test_a_diameter_is_nearly_a_function_of_its_area() -> None:
    made = invented("collinear", 5_000)
    area, across = (made.rows[f"{what}-0"].to_numpy() for what in ("area", "diameter"))
    assert np.allclose(across, np.sqrt(4 * area / np.pi), atol=0.05)


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("small-categories-label", "binary_classification"),
        ("mixed", "binary_classification"),
        ("mixed-regression", "regression"),
        ("label-interaction", "multiclass_classification"),
    ],
)
def test_families_for_models_have_a_label(name: str, task: str) -> None:
    schema = invented(name).schema
    assert schema.task == task
    assert Task.of(schema) is not None
    values = invented(name).rows[schema.label].to_pylist()
    assert len({*values}) > 1


@pytest.mark.parametrize(("rows", "columns"), [(0, 5), (10**7, 5), (100, 4), (100, 101)])
def test_tables_out_of_range_are_refused(rows: int, columns: int) -> None:
    with pytest.raises(UsageError, match="must be in"):
        invented("binary", rows, columns)


def test_the_families_are_those_that_the_guide_and_the_command_name() -> None:
    page = (Path(__file__).parents[1] / "docs" / "evaluation.md").read_text("utf-8")
    assert re.findall(r"^\| `([\w-]+)` \| (.+) \| ([\d,]+), (\d+) \|$", page, re.MULTILINE) == [
        (name, own.about, f"{own.rows:,}", str(own.columns)) for name, own in FAMILIES.items()
    ]
    (option,) = get_type_hints(peers, include_extras=True)["family"].__metadata__
    assert option.help.partition(": ")[2] == f"{', '.join(FAMILIES)}."


def test_an_unknown_family_is_refused_with_a_hint() -> None:
    with pytest.raises(UsageError, match="did you mean 'comb'"):
        family("combs")
