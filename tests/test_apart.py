"""A record counts once: no table is given twice, and with a unit nobody is at two sites."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from heterofedsyn import FederatedSynthesizer, Schema
from heterofedsyn.errors import (
    HeterofedsynError,
    HeterofedsynWarning,
    PrivacyRefusal,
    UsageError,
)
from heterofedsyn.schema import EncodedTable
from heterofedsyn.sources import check_apart, open_source
from invented import SCHEMA, Desk, patients

pytestmark = pytest.mark.thorough


def make(**terms: Any) -> FederatedSynthesizer:
    usual = {"epsilon": 1.0, "delta": 1e-9, "method": "independent", "noise_seed": 1}
    return FederatedSynthesizer(Schema.from_toml(SCHEMA), **{**usual, **terms})


def same_file(folder: Path) -> dict[str, tuple[str, str]]:
    """Two locations each, of which one leads to rows of the other."""
    for name in ("lake", "lake/deep", "other"):
        (folder / name).mkdir()
    rows = folder / "lake" / "deep" / "a.parquet"
    pyarrow.parquet.write_table(patients(60), rows)
    pyarrow.parquet.write_table(patients(60, seed=3), folder / "lake" / "b.parquet")
    (folder / "soft.csv").symlink_to("d.csv")
    (folder / "soft.parquet").symlink_to(rows)
    (folder / "hard.csv").hardlink_to("d.csv")
    (folder / "other" / "hard.parquet").hardlink_to(rows)
    (folder / "door").symlink_to("lake")
    with duckdb.connect(str(folder / "lake.duckdb")) as database:
        database.execute("CREATE TABLE t AS SELECT * FROM 'd.csv'")
    (folder / "copy.duckdb").hardlink_to("lake.duckdb")
    return {
        "once more": ("d.csv", "d.csv"),
        "from the root": ("d.csv", str(folder / "d.csv")),
        "with a detour": ("d.csv", "lake/../d.csv"),
        "a link": ("d.csv", "soft.csv"),
        "a hard link": ("d.csv", "hard.csv"),
        "a link of Parquet": ("lake/deep/a.parquet", "soft.parquet"),
        "a folder and its file": ("lake", "lake/deep/a.parquet"),
        "a file and its glob": ("lake/b.parquet", "lake/*.parquet"),
        "a folder by a link": ("lake", "door"),
        "a folder with a hard link": ("other", "lake"),
        "a table": ("lake.duckdb#t", "./lake.duckdb#t"),
        "a table and its query": ("lake.duckdb#t", "duckdb:lake.duckdb#select  *\tfrom T;"),
        "a database by a link": ("lake.duckdb#t", 'copy.duckdb#SELECT * FROM "t" -- all'),
    }


CASES = [
    *("once more", "from the root", "with a detour", "a link", "a hard link"),
    *("a link of Parquet", "a folder and its file", "a file and its glob", "a folder by a link"),
    *("a folder with a hard link", "a table", "a table and its query", "a database by a link"),
]


@pytest.mark.parametrize("case", CASES)
def test_no_file_counts_twice_in_any_command(desk: Desk, case: str) -> None:
    one, other = same_file(desk.folder)[case]
    assert desk.simulate("--method", "independent", "--data", one, out="real") == 0
    for first, second in ((one, other), (other, one)):
        for options in (
            ("--data", first, "--data", second),
            ("--site", f"a={first}", "--site", f"b={second}"),
            ("--site", first, "--site", second, "--method", "privsyn"),
        ):
            desk.simulate("--method", "independent", *options)
            desk.refused(2, "count twice")
        desk.run("schema", "check", "--schema", "s.toml", "--data", first, "--data", second)
        desk.refused(2, "count twice")
        synthetic = ("--synthetic", "real/synthetic.csv", "--schema", "s.toml")
        desk.run("evaluate", "--real", first, "--real", second, *synthetic)
        desk.refused(2, "count twice")
        with pytest.raises(UsageError, match="count twice"):
            make().fit([Path(first) if "#" not in first else first, second])
    assert not (desk.folder / "release").exists()


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(lambda table: table, id="arrow"),
        pytest.param(lambda table: table.to_pandas(), id="pandas"),
        pytest.param(pl.from_arrow, id="polars"),
        pytest.param(lambda table: pl.DataFrame(pl.from_arrow(table)).lazy(), id="lazy"),
        pytest.param(duckdb.from_arrow, id="duckdb"),
        pytest.param(open_source, id="source"),
        pytest.param(lambda table: table.to_reader(), id="stream"),
    ],
)
def test_no_object_counts_twice(kind: Callable[[pa.Table], object]) -> None:
    table = kind(patients())
    for sites in ([table, table], {"a": table, "b": table}):
        with pytest.raises(UsageError, match="count twice"):
            make().fit(sites)
        with pytest.raises(UsageError, match="count twice"):
            make(method="privsyn").fit(sites)
    with pytest.raises(UsageError, match="count twice"):
        make().encode([table, table])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("postgresql://h/db#t", "postgres://me@H:5432/db?sslmode=require#SELECT * FROM t"),
        ("postgresql:///db#t", 'postgresql://localhost/db?application_name=x#select *from "t"'),
        ("postgresql://h/my%20db#t", "postgresql://h/my db#t"),
        ("spark:lake.icu", "spark:SELECT * FROM `lake`.ICU /* all */"),
        ("spark:SELECT a FROM t WHERE b = 'X'", "spark:select A from t  where B='X'"),
        ("postgresql://h/db#t", "postgresql://h/db#public.t"),
        ("postgresql://h/db#t", "postgresql://h/db#db.public.T"),
        ("postgresql://h/db#t", "postgresql://h/db#SELECT * FROM ONLY t AS x"),
        ("postgresql://h/db#t", "postgresql://h/db#SELECT x.* FROM u JOIN t AS x USING (a)"),
        ("postgresql://h/db#t", "postgresql://h/db#SELECT x.* FROM u, s.v AS w, public.t x"),
        ("postgresql://h/db#t", "postgresql://h/db#WITH x AS (SELECT * FROM t) SELECT * FROM x"),
        ("postgresql://h/db#t", "postgresql:///db?host=h#SELECT * FROM t WHERE a"),
        ("postgresql://h:5433/db#t", "postgresql:///?host=H&port=5433&dbname=db#t"),
        ("postgresql:///db#t", "postgresql://[::1]/db?host=127.0.0.1&keepalives=1#t"),
        ("postgresql://h/db#s.t", "postgresql://h/db?options=-csearch_path%3Db#s.t"),
        ("spark:t", "spark:spark_catalog.default.`T`"),
        ("spark:lake.t", "spark:SELECT * FROM lake.t AS x"),
    ],
)
def test_a_database_is_told_by_address_and_query(one: str, other: str) -> None:
    with pytest.raises(UsageError, match="count twice") as refused:
        check_apart([one, other])
    assert "me@" not in str(refused.value)
    assert "WHERE" not in str(refused.value).upper()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("postgresql://h/db#t", "postgresql://h/db#u"),
        ("postgresql://h/db#t", "postgresql://h/db?options=-csearch_path%3Db#t"),
        ("postgresql://h/db#t", "postgresql://h/db#s.t"),
        ("spark:SELECT a FROM t WHERE b = 'X'", "spark:SELECT a FROM t WHERE b = 'x'"),
        ('postgresql://h/db#"T"', "postgresql://h/db#t"),
        (
            "postgresql://h/db#SELECT extract(year FROM day) FROM t",
            "postgresql:///db?host=h#SELECT extract(year FROM day) FROM u",
        ),
    ],
)
def test_what_may_be_other_rows_of_one_server_is_remarked_upon(one: str, other: str) -> None:
    """A view of either could read the other's table, or conditions could meet in a record."""
    with pytest.warns(HeterofedsynWarning, match="cannot be told for certain") as remarks:
        check_apart([one, other, "postgresql://g/db#t"])
    assert len(remarks) == 1
    assert "://" not in str(remarks[0].message)


@pytest.mark.parametrize(
    "other",
    [
        *("postgresql://g/db#t", "postgresql://h:5433/db#t", "postgresql://h/other#t", "spark:t"),
        *("postgresql://h/db?host=g#t", "postgresql://h/db?port=1#t", "postgresql:///db#t"),
    ],
)
def test_other_databases_are_taken_without_a_word(other: str) -> None:
    check_apart(["postgresql://h/db#t", other])


# ONE DATABASE FILE


@pytest.fixture(scope="module")
def lake_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a table, views, macros and a Parquet file beside it; nothing writes to it."""
    folder = tmp_path_factory.mktemp("lake")
    (folder / "beside").mkdir()
    pyarrow.parquet.write_table(patients(20), folder / "beside" / "p.parquet")
    with duckdb.connect(str(folder / "lake.duckdb")) as database:
        database.from_arrow(patients(20)).create("icu")
        database.execute("""
            CREATE TABLE other AS FROM icu; CREATE SCHEMA s; CREATE TABLE s.icu AS FROM icu;
            CREATE VIEW seen AS SELECT * FROM icu; CREATE VIEW s.deep AS SELECT * FROM main.SEEN;
            CREATE VIEW old AS SELECT * FROM icu WHERE age > 50;
            CREATE VIEW young AS SELECT * FROM seen WHERE age <= 50;
            CREATE MACRO rows_of() AS TABLE SELECT * FROM icu;
            CREATE MACRO most() AS (SELECT max(age) FROM icu)
        """)
    return folder


@pytest.fixture
def lake(lake_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(lake_folder)
    return lake_folder


PARQUET = "lake.duckdb?files=beside#SELECT * FROM 'beside/p.parquet'"


@pytest.mark.parametrize(
    "query",
    [
        *("icu", "ICU", '"ICU"', "main.icu", "lake.icu", "lake.main.icu", 'LAKE."Main".Icu'),
        *("SELECT * FROM icu AS t", "FROM icu", "SELECT age, * FROM icu t", "seen", "s.deep"),
        *("FROM rows_of()", "SELECT *, most() AS m FROM other", "SELECT * FROM icu WHERE age > 50"),
        *("old", "WITH t AS (SELECT * FROM icu) SELECT * FROM t", "SELECT * FROM (FROM main.icu)"),
        "WITH icu AS (SELECT * FROM icu) SELECT * FROM icu",
        "SELECT i.* FROM other JOIN icu AS i USING (person)",
        "SELECT * FROM other UNION ALL SELECT * FROM lake.icu",
        "SELECT * FROM other WHERE age = (SELECT max(age) FROM icu)",
    ],
)
def test_no_spelling_of_a_table_counts_it_twice(lake: Path, query: str) -> None:
    for first in ("icu", "s.deep"):
        for pair in ([first, query], [query, first]):
            with pytest.raises(UsageError, match="count twice") as refused:
                check_apart([f"{lake}/lake.duckdb#{pair[0]}", f"lake.duckdb#{pair[1]}"])
            assert "icu" not in str(refused.value)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (PARQUET, "beside/p.parquet"),
        (PARQUET + " WHERE age > 50", "beside"),
        (PARQUET, "lake.duckdb?files=beside#SELECT * FROM read_parquet('beside/*.parquet')"),
        ("lake.duckdb#SELECT * FROM icu WHERE age > 5 UNION ALL FROM icu", "lake.duckdb#old"),
    ],
)
def test_no_file_that_a_query_reads_counts_twice(lake: Path, one: str, other: str) -> None:
    for pair in ([one, other], [other, one]):
        with pytest.raises(UsageError, match="count twice"):
            check_apart(pair)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("icu", "s.icu"),
        ("icu", "other"),
        ("old", "young"),
        ("SELECT * FROM icu WHERE age > 50", "SELECT * FROM lake.icu WHERE age <= 50"),
        ("WITH icu AS (SELECT * FROM s.icu) SELECT * FROM icu", "icu"),
        ("WITH icu AS (SELECT * FROM icu WHERE age > 5) SELECT * FROM icu", "young"),
    ],
)
def test_other_tables_and_rows_that_conditions_choose_are_taken(
    lake: Path, one: str, other: str
) -> None:
    check_apart([f"lake.duckdb#{one}", f"lake.duckdb#{other}"])
    make().fit([f"lake.duckdb#{one}", f"lake.duckdb#{other}"])


def test_a_refused_query_is_refused_by_whoever_opens_it(lake: Path) -> None:
    for query in ("nothing", "SELECT * FROM icu LIMIT 3", "SELECT 1; COPY icu TO 'x.csv'"):
        check_apart([f"lake.duckdb#{query}", "lake.duckdb#other"])
    assert not (lake / "x.csv").exists()


def test_equal_rows_in_other_files_are_other_records(desk: Desk) -> None:
    shutil.copyfile("d.csv", "e.csv")
    options = ("--method", "independent", "--data", "d.csv", "--data", "e.csv")
    assert desk.simulate(*options) == 0
    make().fit([patients(), patients()])


# PERSONS


def both(shared: int) -> tuple[pa.Table, pa.Table]:
    """Two tables of different people, but for some of the first one's in both."""
    first, second = patients(100, seed=1), patients(100, seed=2)
    return first, pa.concat_tables([second, first.slice(0, 2 * shared)])


def kinds(table: pa.Table, place: Path, name: str) -> dict[str, object]:
    """The same rows in sources of all kinds that this process reads by itself."""
    paths = {end: place / f"{name}.{end}" for end in ("csv", "parquet", "duckdb")}
    pyarrow.csv.write_csv(table, paths["csv"])
    pyarrow.parquet.write_table(table, paths["parquet"])
    with duckdb.connect(str(paths["duckdb"])) as database:
        database.from_arrow(table).create("t")
    return {
        **{end: path for end, path in paths.items() if end != "duckdb"},
        "duckdb": f"{paths['duckdb']}#t",
        "arrow": table,
        "pandas": table.to_pandas(),
        "polars": pl.from_arrow(table),
        "stream": table.to_reader(),
        "text ids": table.set_column(0, "person", table["person"].cast(pa.string())),
        "decimal ids": pd.DataFrame(table.to_pandas()).assign(
            person=[f" {person}.0" for person in table["person"].to_pylist()]
        ),
    }


KINDS = [
    *("csv", "parquet", "duckdb", "arrow", "pandas", "polars", "stream", "text ids", "decimal ids")
]


@pytest.mark.parametrize("method", ["independent", "local-merge", "wavetree"])
@pytest.mark.parametrize("shared", [1, 7])
def test_nobody_is_at_two_sites_of_a_study_of_persons(
    tmp_path: Path, method: str, shared: int
) -> None:
    for kind in KINDS:
        tables = [
            kinds(table, tmp_path, f"{kind}-{number}")
            for number, table in enumerate((*both(shared), patients(50, seed=4)))
        ]
        sites = {"a": tables[0][kind], "b": tables[2]["arrow"], "c": tables[1]["parquet"]}
        with pytest.raises(PrivacyRefusal, match=f"^{shared} pe.* more than one site") as refused:
            make(unit="person", method=method).fit(sites)
        told = re.findall(r"\d+", str(refused.value))
        assert told == [str(shared)], kind  # nobody is named
        assert refused.value.exit_code == 3


def test_people_at_one_site_each_and_people_that_are_pooled_are_fine() -> None:
    people: dict[str, Any] = {"unit": "person", "max_rows_per_unit": 4}
    assert make(**people).fit(list(both(0))).release.privacy.unit == "person"
    make(**people, method="privsyn").fit(list(both(5)))
    make().fit(list(both(5)))


def test_the_command_refuses_people_at_two_sites_in_one_line(desk: Desk) -> None:
    for name, table in zip(("a.csv", "b.csv"), both(3), strict=True):
        pyarrow.csv.write_csv(table, name)
    places = ("--site", "a.csv", "--site", "b.csv", "--method", "independent")
    desk.write("c.csv", (desk.folder / "a.csv").read_text().partition("\n")[0] + "\n")
    more = {"local": (), "secure-aggregation": ("--site", "c.csv")}
    for trust, others in more.items():
        desk.simulate(*places, *others, "--unit", "person", "--trust", trust, epsilon="0.5")
        desk.refused(3, "3 people have rows at more than one site", "--data")
        assert not (desk.folder / "release").exists()
    assert desk.simulate(*places) == 0
    assert "for every record" in desk.out
    pooled = ("--data", "a.csv", "--data", "b.csv", "--method", "independent", "--overwrite")
    assert desk.simulate(*pooled, "--unit", "person") == 0
    assert "for every person (person)" in desk.out


def test_a_row_without_a_person_is_nobodys() -> None:
    """Ids that are missing or blank do not make one person of all their rows."""
    first, second = both(0)
    for missing in (None, " "):
        ids = [missing, *map(str, range(1, 100))]
        other = [missing, *map(str, range(101, 200))]
        tables = [first.set_column(0, "person", pa.array(ids, pa.string())), second.slice(0, 100)]
        tables[1] = tables[1].set_column(0, "person", pa.array(other, pa.string()))
        with pytest.warns(UserWarning, match="1 row does not fit"):
            make(unit="person").fit(tables)


def test_a_person_is_dealt_as_a_whole_when_rows_are_pooled() -> None:
    synthesizer = make(unit="person", max_rows_per_unit=2, noise_seed=None)
    whole = synthesizer.encode(list(both(5)))
    tables: list[EncodedTable] = synthesizer.split(whole, 4, "uniform")
    assert sum(table.rows for table in tables) == whole.table.rows


def test_what_cannot_be_looked_at_is_left_to_those_who_open_it(tmp_path: Path) -> None:
    check_apart([tmp_path / "gone.csv", tmp_path / "gone.csv"])
    for kind in (str, os.fspath):
        with pytest.raises(HeterofedsynError, match="no such file"):
            make().fit([kind(tmp_path / "gone.csv")])
