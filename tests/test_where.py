"""Rows under a condition: all of them meet it, as many as asked, and as the model has them."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heterofedsyn import FederatedSynthesizer, Release, Schema
from heterofedsyn.errors import UsageError
from heterofedsyn.hub.release import sampling
from heterofedsyn.hub.release.where import Where
from heterofedsyn.schema import EncodedTable, encode
from invented import Desk, names

pytestmark = pytest.mark.thorough

SCHEMA = Schema.of(
    {
        "label": "sick",
        "columns": [
            {"name": "id", "type": "key", "prefix": "P"},
            {"name": "Age", "type": "integer", "min": 0, "max": 99, "bins": 10},
            {"name": "ward", "type": "categorical", "values": ["a", "b's", "c"], "nullable": True},
            {"name": "sick", "type": "boolean"},
            {"name": "big ward", "type": "categorical", "values": ["x", "y", "z"]},
        ],
        "rules": [{"never": {"Age": {"below": 20}, "ward": "c"}}],
    }
)


def rows(many: int) -> pa.Table:
    rng = np.random.default_rng(0)
    age = rng.integers(0, 100, many)
    ward = np.where(age < 20, rng.integers(0, 2, many), rng.integers(0, 3, many))
    return pa.table(
        {
            "Age": age,
            "ward": np.array(["a", "b's", "c"])[ward],
            "sick": rng.random(many) < age / 100,
            "big ward": np.array(["x", "y", "z"])[rng.choice(3, many, p=[0.8, 0.197, 0.003])],
        }
    )


def study(method: str) -> Release:
    whole = rows(6_000)
    synthesizer = FederatedSynthesizer(SCHEMA, epsilon=50, delta=1e-9, method=method, noise_seed=1)
    return synthesizer.fit([whole.slice(0, 2_000), whole.slice(2_000)]).release


@pytest.fixture(scope="module")
def release() -> Release:
    return study("wavetree")


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many of the model's rows each chunk had."""
    sizes: list[int] = []
    chunk = sampling._chunk

    def counted(schema: Any, model: Any, counts: list[int], *rest: Any) -> pa.Table:
        sizes.append(sum(counts))
        return chunk(schema, model, counts, *rest)

    monkeypatch.setattr(sampling, "_chunk", counted)
    return sizes


# WHICH ROWS

Test = Callable[[dict[str, Any]], bool]
CONDITIONS: dict[str, Test] = {
    "age > 60": lambda row: row["Age"] > 60,
    "ward = 'b''s' AND NOT sick": lambda row: row["ward"] == "b's" and not row["sick"],
    "release.\"Age\" BETWEEN 30 AND 40 OR ward IN ('a', 'c')": (
        lambda row: 30 <= row["Age"] <= 40 or row["ward"] in ("a", "c")
    ),
    "sick -- a comment": lambda row: row["sick"],
    "upper(\"big ward\") LIKE 'Y%' AND age::VARCHAR <> '3'": lambda row: (
        row["big ward"] == "y" and row["Age"] != 3
    ),
    "CASE WHEN sick THEN age > 50 ELSE nullif(ward, 'a') IS NULL END": (
        lambda row: row["Age"] > 50 if row["sick"] else row["ward"] in (None, "a")
    ),
    "true": lambda row: True,
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_every_row_meets_the_condition_and_the_rules(release: Release, condition: str) -> None:
    table = release.sample(500, seed=2, where=condition)
    assert table.num_rows == 500
    assert table.schema == release.sample(1, seed=2).schema
    assert all(CONDITIONS[condition](row) for row in table.to_pylist())
    fit = encode(SCHEMA, table.to_batches())
    assert fit.rows_read == 500
    assert fit.rows_dropped == 0
    assert table.column("id").to_pylist() == release.sample(500, seed=1).column("id").to_pylist()


@settings(max_examples=8)
@given(low=st.integers(0, 99), many=st.integers(1, 400), word=st.sampled_from(["a", "b's", "c"]))
def test_keep_is_a_filter_in_order(low: int, many: int, word: str) -> None:
    table = rows(many)
    quoted = word.replace("'", "''")
    kept = Where.of(SCHEMA, f"age >= {low} AND ward = '{quoted}'").keep(table)
    pairs = zip(table["Age"].to_pylist(), table["ward"].to_pylist(), strict=True)
    places = [i for i, (age, ward) in enumerate(pairs) if age >= low and ward == word]
    assert kept.equals(table.take(pa.array(places, pa.int64())))


def test_a_large_chunk_keeps_its_order() -> None:
    table = pa.table({"Age": np.arange(300_000) % 100, "place": np.arange(300_000)})
    kept = Where.of(SCHEMA, "age % 3 = 0").keep(table)
    assert kept["place"].to_pylist() == [n for n in range(300_000) if n % 100 % 3 == 0]


@pytest.mark.parametrize("method", ["wavetree", "local-merge"])
def test_they_are_distributed_as_the_same_rows_of_a_sample(
    method: str, release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a part of the last chunk is taken, and populations follow each other."""
    monkeypatch.setattr(sampling, "FIRST", 4_000)
    made = release if method == "wavetree" else study(method)
    where = Where.of(SCHEMA, "age > 60 OR NOT sick")
    wanted = where.keep(made.sample(100_000, seed=5))
    parts = [made.sample(1_500, seed=seed, where=where.text) for seed in range(8)]
    found = pa.concat_tables(parts)
    plain = SCHEMA.without_rules()
    one, other = (encode(plain, table.to_batches()).table for table in (wanted, found))
    for first in range(len(plain.domain)):
        for second in range(first):
            shares = [_shares(table, first, second) for table in (one, other)]
            # At most that of independent draws: rows that are allocated vary less.
            error = np.sqrt(shares[0] * (1 - shares[0]) * (1 / one.rows + 1 / other.rows))
            assert np.all(np.abs(shares[1] - shares[0]) <= 4.5 * error + 1e-4)


def _shares(table: EncodedTable, first: int, second: int) -> Any:
    size = table.domain.sizes[second]
    cells = table.codes[first].astype(int) * size + table.codes[second]
    return np.bincount(cells, minlength=table.domain.sizes[first] * size) / table.rows


def test_the_same_seed_gives_the_same_rows(
    release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling, "CHUNK", 4_000)
    monkeypatch.setattr(sampling, "FIRST", 4_000)
    one = release.sample(5_000, seed=3, where="age > 60")
    monkeypatch.setattr(sampling, "AT_ONCE", 5)
    assert release.sample(5_000, seed=3, where="age > 60").equals(one)
    assert pa.concat_tables(release.batches(5_000, seed=3, where="age > 60")).equals(one)
    assert not release.sample(5_000, seed=4, where="age > 60").equals(one)
    assert not release.sample(10, where="age > 60").equals(release.sample(10, where="age > 60"))


# HOW MUCH WORK


@pytest.mark.parametrize(("condition", "share"), [("age >= 80", 0.2), ("true", 1.0)])
def test_hardly_more_is_drawn_than_the_share_of_those_that_qualify_needs(
    release: Release, drawn: list[int], condition: str, share: float
) -> None:
    release.sample(20_000, seed=0, where=condition)
    assert sum(drawn) <= 1.1 * 20_000 / share + sampling.FIRST


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("age < 20 AND ward = 'c'", r"rule 1 of its schema \(never Age below 20 with ward c\)"),
        ("age > 200", "none of 65,536"),
        ("\"big ward\" = 'z' AND age = 42", r"0\.0\d\d% \(\d+ of 65,536\).*widen the condition"),
    ],
)
def test_what_almost_no_row_meets_is_refused_with_its_share_before_any_row_comes(
    release: Release, drawn: list[int], condition: str, said: str
) -> None:
    parts = release.batches(1_000, seed=0, where=condition)
    with pytest.raises(UsageError, match=said):
        next(parts)
    assert sum(drawn) == sampling.JUDGED


def test_too_much_work_is_refused_at_once(release: Release, drawn: list[int]) -> None:
    parts = release.batches(900_000_000, seed=0, where="ward = 'a'")
    with pytest.raises(UsageError, match=r"need about \d[\d,]+ to be drawn.*ask for fewer rows"):
        next(parts)
    assert sum(drawn) <= sampling.JUDGED


# WHAT A CONDITION IS


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("", "has 0 letters; write 1 to"),
        ("x" * 10_001, "has 10,001 letters"),
        ("age >", "not SQL that DuckDB reads"),
        ("agee > 3", "no column 'agee'; did you mean 'Age'"),
        ("other.age > 3", "no column 'other.age'"),
        ("id = 'P1'", "'id' is a key"),
        ("age", "no truth value but BIGINT"),
        ("age > 'old'", "cannot be computed"),
        ("ward > 3", "cannot be computed"),
        ("age > (SELECT 1)", "without any subquery"),
        ("EXISTS (SELECT 1)", "without any subquery"),
        ("sum(age) OVER () > 1", "without any window"),
        ("columns('A.*') > 3", "name the columns"),
        ("list_contains([x + 1 for x in [1]], age)", "without any lambda"),
        ("age > avg(age)", r"avg\(\) sees more than one row"),
        ("unnest([true, false])", r"unnest\(\) is not known"),
        ("regexp_split_to_table(ward, 'a') = 'a'", "is not known here"),
        ("random() < 0.5", r"random\(\) is not known.*the same each time"),
        ("now() > '2020-01-01'", "is not known here"),
        ("pg_sleep(3) IS NULL", "is not known here"),
        ("read_text('/etc/hostname') = ''", "is not known here"),
        ("nonesuch(age)", r"nonesuch\(\) is not known"),
        ("$1", "more than one expression"),
        ("true), (false", "more than one expression"),
        ("true; SELECT true", "not SQL"),
        ("true) FROM release WHERE (false) --", "not SQL"),
        ("true) UNION SELECT (true", "more than one expression"),
        ("rowid > 3", "no column 'rowid'"),
        (f"{'(' * 3_000}true{')' * 3_000}", "more than 3,000 parts"),
        (f"{'NOT ' * 2_000}sick", "nested too deeply|not SQL"),
    ],
)
def test_what_is_no_condition_on_one_row_is_refused_before_work(
    release: Release, drawn: list[int], condition: str, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        release.batches(10, seed=0, where=condition)
    assert not drawn


def test_names_that_sql_does_not_tell_apart_are_refused() -> None:
    column = {"type": "boolean"}
    schema = Schema.of({"columns": [{**column, "name": "a"}, {**column, "name": "A"}]})
    with pytest.raises(UsageError, match="differ in the size of letters"):
        Where.of(schema, "a")


def test_without_duckdb_one_line_names_the_extra(
    release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **terms: Any) -> Any:
        if name == "duckdb":
            raise ImportError(name)
        return real(name, *rest, **terms)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match=r"pip install 'heterofedsyn\[duckdb\]'"):
        release.sample(1, where="sick")
    assert release.sample(1).num_rows == 1


# ON THE COMMAND LINE


def test_the_command_writes_rows_that_meet_the_condition(desk: Desk) -> None:
    desk.simulate("--method", "independent")
    where = ("--where", "age > 60 AND ward <> 'c'", "--rows", "200", "--seed", "0")
    assert desk.run("sample", "release", *where) == 0
    table = pyarrow.csv.read_csv(pa.BufferReader(desk.out.encode()))
    assert table.num_rows == 200
    assert min(table["age"].to_pylist()) > 60
    for name in ("x.csv", "x.parquet"):
        assert desk.run("sample", "release", *where, "--out", name) == 0
    assert pyarrow.parquet.read_table("x.parquet").num_rows == 200
    there = names(desk.folder)
    desk.run("sample", "release", "--where", "age > 200", "--rows", "5", "--out", "y.csv")
    desk.refused(2, "none of 65,536")
    assert names(desk.folder) == there
    desk.run("sample", "release", "--where", "age > 200", "--rows", "5")
    assert desk.out == ""
    desk.run("sample", "release", "--where", "agee > 2")
    desk.refused(2, "did you mean 'age'?")
