"""Families of invented tables: what the paper's five tables do not have, as often as one likes.

A table's law (its tree, its probabilities) comes from the generator too: rows that shall follow
the same law, for tests of models, must be cut from one table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from heterofedsyn._arrays import Floats, Integers
from heterofedsyn.bench.many_codes import coded_rows, coded_schema
from heterofedsyn.bench.mixed_table import SET, mixed_batches, mixed_schema
from heterofedsyn.errors import UsageError, did_you_mean
from heterofedsyn.schema import (
    BooleanColumn,
    CategoricalColumn,
    Clique,
    Column,
    NumberColumn,
    Schema,
)

MOST_ROWS = 1_250_000
FEWEST_COLUMNS, MOST_COLUMNS = 5, 100


@dataclass(frozen=True, eq=False)
class Invented:
    """A table with its public schema.

    Attributes:
        independent: pairs that are independent by construction, though something may join them.
    """

    schema: Schema
    rows: pa.Table
    independent: tuple[Clique, ...] = ()


Make = Callable[[np.random.Generator, int, int], Invented]


@dataclass(frozen=True)
class Family:
    """Tables of one kind.

    Attributes:
        make: a table from a generator with so many rows and columns.
        about: what is special about them.
        rows, columns: of a table unless it is said otherwise.
    """

    make: Make
    about: str
    rows: int = 9_000
    columns: int = 30

    def invent(
        self, rng: np.random.Generator, rows: int | None = None, columns: int | None = None
    ) -> Invented:
        """A table: the same one from the same state of the generator.

        Raises:
            UsageError: if there shall be too many rows or columns, or too few.
        """
        rows = self.rows if rows is None else rows
        columns = self.columns if columns is None else columns
        if not 1 <= rows <= MOST_ROWS:
            raise UsageError(f"rows ({rows}) of an invented table must be in 1..{MOST_ROWS:,}")
        if not FEWEST_COLUMNS <= columns <= MOST_COLUMNS:
            raise UsageError(
                f"columns ({columns}) of an invented table must be in "
                f"{FEWEST_COLUMNS}..{MOST_COLUMNS}"
            )
        return self.make(rng, rows, columns)


def family(name: str) -> Family:
    """The family of this name.

    Raises:
        UsageError: with what it may have meant.
    """
    if name not in FAMILIES:
        raise UsageError(f"there is no family {name!r}; {did_you_mean(name, FAMILIES)}")
    return FAMILIES[name]


def _binary(rng: np.random.Generator, rows: int, columns: int) -> Invented:
    return _tree(rng, rows, np.full(columns, 2))


def _small_categories(rng: np.random.Generator, rows: int, columns: int) -> Invented:
    return _tree(rng, rows, np.array([2, *rng.integers(2, 4, columns - 1)]))


def _small_categories_label(rng: np.random.Generator, rows: int, columns: int) -> Invented:
    made = _small_categories(rng, rows, columns)
    label, task = made.schema.columns[0].name, "binary_classification"
    return replace(made, schema=Schema(made.schema.columns, label=label, task=task))


def _few_wide(rng: np.random.Generator, rows: int, columns: int) -> Invented:
    return _tree(rng, rows, rng.integers(20, 61, columns))


def _tree(rng: np.random.Generator, rows: int, sizes: Integers, prefix: str = "item") -> Invented:
    """Categories that depend along a random tree; a quarter of them hardly."""
    codes: list[Integers] = []
    for place, size in enumerate(sizes.tolist()):
        usual = rng.dirichlet(np.full(size, 4.0))
        if place == 0:
            codes.append(rng.choice(size, rows, p=usual))
            continue
        parent = int(place * rng.random() ** 3)  # early columns have more children
        strength = rng.uniform(0, 0.05) if rng.random() < 0.25 else rng.uniform(0.5, 0.95)
        moved = rng.dirichlet(np.full(size, 0.3), size=sizes[parent])
        codes.append(_given(rng, codes[parent], (1 - strength) * usual + strength * moved))
    return _categories({f"{prefix}-{i:02}": own for i, own in enumerate(codes)}, sizes.tolist())


def _collinear(rng: np.random.Generator, rows: int, columns: int) -> Invented:
    """Particles: sets of area, equivalent diameter, perimeter and texture, all of a hidden size."""
    hidden = rng.normal(size=rows)
    made: dict[str, tuple[NumberColumn, Floats]] = {}
    for number in range(-(-columns // 4)):
        lean = rng.uniform(0.3, 0.9)
        own = lean * hidden + np.sqrt(1 - lean**2) * rng.normal(size=rows)
        area = np.exp(0.5 * own)
        across = np.sqrt(4 * area / np.pi)
        around = np.pi * across * (1 + 0.02 * np.abs(rng.normal(size=rows)))
        texture = 0.5 * own + rng.normal(size=rows)
        for name, values, low, high in (
            (f"area-{number}", area, 0.0, 8.0),
            (f"diameter-{number}", across, 0.0, 3.2),
            (f"perimeter-{number}", around, 0.0, 12.0),
            (f"texture-{number}", texture, -5.0, 5.0),
        ):
            made[name] = NumberColumn(name, low, high), np.clip(values, low, high)
    return _numbers(dict([*made.items()][:columns]))


def _comb(rng: np.random.Generator, rows: int, columns: int) -> Invented:
    """Measurements that most people round to tenths, in 96 bins: every other bin is nearly empty.

    In every second column the bins do not fall in with the tenths.
    """
    hidden = rng.normal(size=rows)
    made: dict[str, tuple[NumberColumn, Floats]] = {}
    for place in range(columns):
        low, high = (0.0, 4.8) if place % 2 == 0 else (0.03, 5.0)
        lean = rng.uniform(0.1, 0.9)
        own = lean * hidden + np.sqrt(1 - lean**2) * rng.normal(size=rows)
        exact = rng.uniform(1.5, 3.0) + rng.uniform(0.3, 0.8) * own
        rounded = np.where(rng.random(rows) < 0.9, np.round(exact, 1), np.round(exact, 3))
        name = f"measured-{place:02}"
        made[name] = NumberColumn(name, low, high, bins=96), np.clip(rounded, low, high)
    return _numbers(made)


def _mixed(rng: np.random.Generator, rows: int, columns: int, *, regression: bool) -> Invented:
    """Columns of every kind that lean on one hidden number, and an outcome of some of them."""
    sets = -(-(columns - 1) // SET)
    every = mixed_schema(sets).columns
    # 7 and 20 have no common factor: few columns are of many kinds too.
    chosen = [every[SET * (i // SET) + i * 7 % SET] for i in range(columns - 1)]
    table = pa.Table.from_batches([*mixed_batches(rows, sets, rng)])
    table = table.select([column.name for column in chosen])
    number = table["number-0-0"].to_numpy()
    two = np.asarray(table["category-2-0"].to_numpy(zero_copy_only=False) == "value 01")
    leaning = np.where(two, number, -0.4 * number) + 0.6 * two
    if "number-1-0" in table.column_names:
        leaning = leaning + 0.5 * table["number-1-0"].to_numpy()
    leaning = leaning + 0.5 * rng.normal(size=rows)
    outcome: Column
    if regression:
        outcome, values = NumberColumn("outcome", -6.0, 8.0), pa.array(np.clip(leaning, -6, 8))
    else:
        outcome, values = BooleanColumn("outcome"), pa.array(leaning > 0.8)
    task = "regression" if regression else "binary_classification"
    return Invented(
        Schema((*chosen, outcome), label="outcome", task=task),
        table.append_column("outcome", values),
    )


def _mixed_classification(rng: np.random.Generator, rows: int, columns: int) -> Invented:
    return _mixed(rng, rows, columns, regression=False)


def _mixed_regression(rng: np.random.Generator, rows: int, columns: int) -> Invented:
    return _mixed(rng, rows, columns, regression=True)


def _many_codes(rng: np.random.Generator, rows: int, columns: int) -> Invented:
    """5,000 codes in chapters beside age, sex and ward; further columns know nothing of them."""
    schema, table = coded_schema(known=False), coded_rows(rows, rng)
    more = columns - len(schema.columns)
    if not more:
        return Invented(schema, table)
    others = _tree(rng, rows, rng.integers(2, 9, more))
    for name in others.rows.column_names:
        table = table.append_column(name, others.rows[name])
    apart = tuple(
        (known.name, other) for known in schema.columns for other in others.rows.column_names
    )
    return Invented(Schema((*schema.columns, *others.schema.columns)), table, apart)


def _path(rng: np.random.Generator, rows: int, columns: int) -> Invented:
    """Triples left - both - right: both tells most of either, and they tell nothing of each other.

    Columns that are left over are one more left - both, or left, without the rest.
    """
    made: dict[str, Integers] = {}
    sizes: list[int] = []
    apart: list[Clique] = []
    for number in range(-(-columns // 3)):
        one, two = rng.integers(3, 6, 2).tolist()
        left = rng.choice(one, rows, p=rng.dirichlet(np.full(one, 3.0)))
        right = rng.choice(two, rows, p=rng.dirichlet(np.full(two, 3.0)))
        both = left * two + right
        lost = rng.random(rows) < 0.1
        both = np.where(lost, rng.integers(0, one * two, rows), both)
        names = (f"left-{number:02}", f"both-{number:02}", f"right-{number:02}")
        made |= dict(zip(names, (left, both, right), strict=True))
        sizes += (one, one * two, two)
        apart.append((names[0], names[2]))
    kept = dict([*made.items()][:columns])
    within = tuple(pair for pair in apart if pair[1] in kept)
    return replace(_categories(kept, sizes[:columns]), independent=within)


def _label_interaction(rng: np.random.Generator, rows: int, columns: int) -> Invented:
    """A label that decides how a child follows its parent: which only all three can tell.

    In every second pair of columns any two of the three are independent; in the others the parent
    depends on the label, so that pairs tell part of it.
    """
    label = rng.integers(0, 3, rows)
    made: dict[str, Integers] = {"label": label}
    sizes = [3]
    apart: list[Clique] = []
    for number in range(-(-(columns - 1) // 2)):
        parent_name, child_name = f"parent-{number:02}", f"child-{number:02}"
        if number % 2 == 0:
            size, parent = 3, rng.integers(0, 3, rows)
            apart += [("label", parent_name), ("label", child_name), (parent_name, child_name)]
        else:
            size = 6
            parent = _given(rng, label, rng.dirichlet(np.full(size, 2.0), size=3))
        followed = (parent + label * (size // 3)) % size
        child = np.where(rng.random(rows) < 0.3, rng.integers(0, size, rows), followed)
        made |= {parent_name: parent, child_name: child}
        sizes += [size, size]
    kept = dict([*made.items()][:columns])
    plain = _categories(kept, sizes[:columns])
    schema = Schema(plain.schema.columns, label="label", task="multiclass_classification")
    return Invented(schema, plain.rows, tuple(pair for pair in apart if {*pair} <= {*kept}))


def _given(rng: np.random.Generator, parent: Integers, chances: Floats) -> Integers:
    """For each row a code, with the chances of its parent's code."""
    upto = np.cumsum(chances, axis=1)
    upto /= upto[:, -1:]
    # One sorted line: the codes of parent p fill the stretch from p to p + 1.
    line = (upto + np.arange(len(chances))[:, None]).ravel()
    places = np.searchsorted(line, parent + rng.random(parent.size), side="right")
    codes: Integers = np.clip(places - parent * chances.shape[1], 0, chances.shape[1] - 1)
    return codes


def _categories(codes: Mapping[str, Integers], sizes: list[int]) -> Invented:
    columns: list[Column] = []
    rows: dict[str, pa.Array] = {}
    for (name, own), size in zip(codes.items(), sizes, strict=True):
        values = tuple(f"v{value:02}" for value in range(size))
        columns.append(CategoricalColumn(name, values))
        rows[name] = pa.array(values).take(pa.array(own))
    return Invented(Schema(tuple(columns)), pa.table(rows))


def _numbers(made: Mapping[str, tuple[NumberColumn, Floats]]) -> Invented:
    columns = tuple(column for column, _ in made.values())
    return Invented(Schema(columns), pa.table({name: own for name, (_, own) in made.items()}))


FAMILIES: Mapping[str, Family] = {
    "binary": Family(_binary, "2 values each, along a tree"),
    "small-categories": Family(_small_categories, "2 or 3 values each, along a tree"),
    "small-categories-label": Family(_small_categories_label, "the same with a label"),
    "few-wide": Family(_few_wide, "few columns of 20 to 60 values", 20_000, 6),
    "collinear": Family(_collinear, "continuous, pairs of them nearly functions", 5_000, 12),
    "comb": Family(_comb, "96 bins over values that are mostly tenths", 5_000, 8),
    "mixed": Family(_mixed_classification, "every kind of column, two classes", 10_000, 16),
    "mixed-regression": Family(_mixed_regression, "the same, a number to predict", 10_000, 16),
    "many-codes": Family(_many_codes, "a category of 5,000", 20_000, 5),
    "path": Family(_path, "independent pairs that a third column joins", 20_000, 12),
    "label-interaction": Family(_label_interaction, "what only triples can tell", 10_000, 13),
}
"""The families by name."""
