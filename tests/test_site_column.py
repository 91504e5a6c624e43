"""Sites are named by a public list, and a row goes where its own value says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from heterofedsyn import FederatedSynthesizer, Schema
from heterofedsyn.cli.app import app
from heterofedsyn.errors import DataError, HeterofedsynWarning, PrivacyRefusal, UsageError
from heterofedsyn.hub.release import load
from heterofedsyn.schema import encode
from heterofedsyn.simulate.site_column import SiteColumn

pytestmark = pytest.mark.thorough

AGE = {"name": "age", "type": "integer", "min": 0, "max": 99, "bins": 5}
SICK = {"name": "sick", "type": "boolean"}
VALUES = ["north", "south", "St. Mary's"]
HOSPITAL = {"name": "hospital", "type": "categorical", "values": VALUES}
WITHOUT = Schema.of({"columns": [AGE, SICK]})
WITH = Schema.of({"columns": [AGE, HOSPITAL, SICK]})
KEYED = Schema.of({"columns": [AGE, SICK, {"name": "hospital", "type": "key"}]})
NAMES = ("north", "south", "St.-Mary-s")


def table(rows: int = 60, hospitals: tuple[str | None, ...] = ("north", "south")) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": np.arange(rows) % 100,
            "sick": np.arange(rows) % 2 == 0,
            "hospital": [hospitals[row % len(hospitals)] for row in range(rows)],
            "person": np.arange(rows) // 2,
        }
    )


def synthesizer(schema: Schema = WITHOUT, **terms: Any) -> FederatedSynthesizer:
    usual = {"epsilon": 5.0, "delta": 1e-9, "noise_seed": 1, "method": "independent"}
    return FederatedSynthesizer(schema, **{**usual, **terms})


KINDS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "lazy": lambda frame: pl.from_pandas(frame).lazy(),
    "pyarrow": pa.Table.from_pandas,
}


@pytest.mark.parametrize("kind", KINDS)
def test_one_table_is_one_site(kind: str) -> None:
    release = synthesizer().fit(KINDS[kind](table())).release
    assert release.run.sites == ("site-1",)
    assert abs(release.run.noisy_total - 60) < 20


def test_one_path_is_one_site(tmp_path: Path) -> None:
    table().to_csv(tmp_path / "rows.csv")
    for path in (tmp_path / "rows.csv", str(tmp_path / "rows.csv")):
        assert synthesizer().fit(path).release.run.sites == ("site-1",)


def test_several_tables_are_still_several_sites() -> None:
    frames = {"a": table(), "b": table()}
    assert synthesizer().fit([table(), table()]).release.run.sites == ("site-1", "site-2")
    assert synthesizer().fit(frames.values()).release.run.sites == ("site-1", "site-2")
    assert synthesizer().fit(frames).release.run.sites == ("a", "b")


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from(["north", "south", "St. Mary's", "west", "", None]), min_size=1),
    st.booleans(),
)
def test_a_row_goes_where_its_own_value_says_and_no_value_makes_a_site(
    hospitals: list[str | None], listed_in_schema: bool
) -> None:
    frame = table(len(hospitals), tuple(hospitals))
    schema = WITH if listed_in_schema else WITHOUT
    column = SiteColumn.of(schema, "hospital", None if listed_in_schema else VALUES)
    whole = encode(column.schema, pa.Table.from_pandas(frame).to_batches())
    dealt = column.deal(whole)
    assert tuple(dealt) == NAMES
    for name, value in zip(NAMES, VALUES, strict=True):
        own = encode(schema, pa.Table.from_pandas(frame[frame.hospital == value]).to_batches())
        assert dealt[name].domain == schema.domain
        np.testing.assert_array_equal(dealt[name].codes, own.table.codes)
    assert whole.rows_dropped == sum(value not in VALUES for value in hospitals)


def test_a_column_beside_the_schema_is_not_released() -> None:
    made = synthesizer().fit(table(), site_column="hospital", site_names=["north", "south", "west"])
    assert made.release.run.sites == ("north", "south", "west")
    assert made.sample().column_names == ["age", "sick"]


def test_a_column_of_the_schema_names_the_sites_and_is_released() -> None:
    made = synthesizer(WITH).fit([table(), table(40)], site_column="hospital")
    assert made.release.run.sites == NAMES
    assert made.sample().column_names == ["age", "hospital", "sick"]


def test_rows_without_a_site_have_one_where_the_schema_allows_them() -> None:
    schema = Schema.of({"columns": [AGE, {**HOSPITAL, "nullable": True}]})
    column = SiteColumn.of(schema, "hospital")
    rows = pa.Table.from_pandas(table(9, ("north", "south", None))).to_batches()
    dealt = column.deal(encode(column.schema, rows))
    assert {name: own.rows for name, own in dealt.items()} == {
        **{"north": 3, "south": 3, "St.-Mary-s": 0},
        "missing": 3,
    }


@pytest.mark.parametrize(
    ("schema", "words", "terms"),
    [
        (WITHOUT, "nobody says which sites column 'hospital' may name", {}),
        (WITH, "leave names out", {"site_names": ["north"]}),
        (WITH, "type integer, which lists no sites", {"site_column": "age"}),
        (WITHOUT, "would name one site, 'a-b'", {"site_names": ["a b", "a-b"]}),
        (WITHOUT, "no site may be named 'server'", {"site_names": ["server"]}),
        (KEYED, "a key or follows from another column", {}),
        (KEYED, "a key or follows from another column", {"site_names": ["north"]}),
        (WITHOUT, "needs site_column", {"site_column": None, "site_names": ["north"]}),
    ],
)
def test_sites_that_nobody_listed_are_refused_before_rows_are_read(
    schema: Schema, words: str, terms: dict[str, Any]
) -> None:
    with pytest.raises(UsageError, match=words):
        synthesizer(schema).fit("no-such-file.csv", **{"site_column": "hospital", **terms})


def test_people_at_two_sites_are_refused_and_others_are_not() -> None:
    apart = table(60, ("north", "north", "south", "south"))
    terms: dict[str, Any] = {"site_column": "hospital", "site_names": ["north", "south"]}
    protected: dict[str, Any] = {"unit": "person", "max_rows_per_unit": 2}
    synthesizer(**protected).fit(apart, **terms)
    with pytest.raises(PrivacyRefusal, match="rows at more than one site"):
        synthesizer(**protected).fit(table(), **terms)
    pooled = synthesizer(**protected, method="privsyn").fit(table(), **terms)
    assert pooled.release.run.sites == ("pooled",)


def simulate(*words: str | Path) -> Any:
    usual = ("--epsilon", "5", "--delta", "1e-9", "--seed", "1", "--method", "independent")
    return CliRunner().invoke(app, ["simulate", *usual, *map(str, words)])


def test_simulate_deals_rows_by_a_column(tmp_path: Path) -> None:
    table().to_csv(tmp_path / "all.csv", index=False)
    WITHOUT.save(tmp_path / "s.toml")
    terms = ("--schema", tmp_path / "s.toml", "--data", tmp_path / "all.csv")
    out = tmp_path / "out"
    told = simulate(*terms, "--out", out, "--site-column", "hospital=north,south")
    assert told.exit_code == 0, told.output
    assert load(out).run.sites == ("north", "south")
    for words in (["--sites", "3"], ["--split", "sizes"]):
        told = simulate(*terms, "--out", out, "--site-column", "hospital=north", *words)
        assert isinstance(told.exception, UsageError)
    told = simulate(*terms, "--out", tmp_path / "new", "--site-column", "hospital")
    assert "names taken from rows" in str(told.exception)
    assert not (tmp_path / "new").exists()


def spoilt(share: float, rows: int = 40) -> pd.DataFrame:
    frame = table(rows).astype({"age": object})
    frame.loc[: round(share * rows) - 1, "age"] = "1,5"
    return frame


@pytest.mark.parametrize("share", [0.5, 0.9, 1.0])
def test_a_table_of_which_half_does_not_fit_is_refused_unless_that_is_allowed(
    share: float, tmp_path: Path
) -> None:
    dealt: dict[str, Any] = {"site_column": "hospital", "site_names": ["north", "south"]}
    for terms in ({}, dealt):
        with pytest.raises(DataError, match=r"of 40;.*allow_misfits=True"):
            synthesizer().fit(spoilt(share), **terms)
        with pytest.warns(HeterofedsynWarning, match="do not fit"):
            synthesizer().fit(spoilt(share), allow_misfits=True, **terms)
    spoilt(share).to_csv(tmp_path / "rows.csv", index=False)
    WITHOUT.save(tmp_path / "s.toml")
    out = tmp_path / "out"
    for option in ("--data", "--site"):
        words = ("--schema", tmp_path / "s.toml", option, tmp_path / "rows.csv", "--out", out)
        told = simulate(*words)
        assert isinstance(told.exception, DataError)
        assert told.exception.exit_code == 1
        assert not out.exists()
    told = simulate(*words, "--allow-misfits")
    assert told.exit_code == 0


@pytest.mark.parametrize(("share", "refused"), [(0.475, False), (0.5, True), (1.0, True)])
@pytest.mark.parametrize(("value", "side"), [(999, "above"), (-7, "below")])
def test_a_column_of_which_half_is_clamped_is_refused_unless_that_is_allowed(
    share: float, refused: bool, value: int, side: str, tmp_path: Path
) -> None:
    frame = table(40)
    many = round(share * 40)
    frame.loc[: many - 1, "age"] = value
    dealt: dict[str, Any] = {"site_column": "hospital", "site_names": ["north", "south"]}
    said = f"column 'age': of 40 values {many} {side} its range, half of them or more"
    for terms in ({}, dealt):
        if refused:
            with pytest.raises(DataError, match=rf"{said}.*unit.*allow_misfits=True"):
                synthesizer().fit(frame, **terms)
        synthesizer().fit(frame, allow_misfits=refused, **terms)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    WITHOUT.save(tmp_path / "s.toml")
    out = tmp_path / "out"
    for option in ("--data", "--site"):
        words = ("--schema", tmp_path / "s.toml", option, tmp_path / "rows.csv", "--out", out)
        told = simulate(*words, "--overwrite")
        assert isinstance(told.exception, DataError) == refused
        assert out.exists() != refused
    assert simulate(*words, "--overwrite", "--allow-misfits").exit_code == 0


def test_rules_that_half_of_a_table_breaks_are_said_in_the_refusal() -> None:
    rules = [{"never": {"sick": True, "age": {"above": 3}}}]
    schema = Schema.of({"columns": [AGE, SICK], "rules": rules})
    frame = table(40).assign(sick=True)
    with pytest.raises(DataError, match=r"breaks rule 1: 36\).*; rule 1 says: never age .* sick"):
        synthesizer(schema).fit(frame)


def test_less_than_half_is_a_warning() -> None:
    with pytest.warns(HeterofedsynWarning, match="19 rows do not fit"):
        synthesizer().fit(spoilt(0.475))


def test_an_empty_table_is_refused_unless_that_is_allowed() -> None:
    with pytest.raises(DataError, match="site-2: it has no rows"):
        synthesizer().fit([table(), table(0)])
    assert synthesizer().fit(table(0), allow_misfits=True).release.run.sites == ("site-1",)


@pytest.mark.parametrize("sites", [None, 123, [None], {"a": 1.5}])
def test_what_is_no_table_is_refused(sites: Any) -> None:
    with pytest.raises(UsageError, match="cannot read rows from an object of type"):
        synthesizer().fit(sites)


@pytest.mark.parametrize("term", ["epsilon", "delta", "max_rows_per_unit"])
@pytest.mark.parametrize("value", ["a", None, True, [1]])
def test_terms_that_are_no_numbers_are_refused(term: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"{term} is a .*; give a "):
        synthesizer(**{term: value})
