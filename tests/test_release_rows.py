"""Rows in a release folder are its own, and read within bounds that their size justifies."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from fuzz.law import check_words
from heterofedsyn import FederatedSynthesizer, Release, Schema, load
from heterofedsyn.engines.session import copy_release
from heterofedsyn.errors import HeterofedsynError, ReleaseError
from heterofedsyn.hub.release._footer import read_footer
from heterofedsyn.hub.release.synthetic import ROWS, released_table, synthetic_rows
from heterofedsyn.report import public_report
from heterofedsyn.report.checks import check_section
from heterofedsyn.schema import CategoricalColumn
from invented import SCHEMA, Desk, patients
from release_changes import seal, vouch

pytestmark = pytest.mark.sweep

PRIVATE_ROWS = 4_321
"""So many rows has a private file; the figure may be on no page."""


def study(schema: str = SCHEMA, *tables: pa.Table) -> Release:
    synth = FederatedSynthesizer(
        Schema.from_toml(schema), epsilon=2.0, delta=1e-9, noise_seed=3, method="independent"
    )
    return synth.fit(list(tables) or [patients(300, seed=1), patients(300, seed=2)]).release


@pytest.fixture(scope="module")
def release() -> Release:
    return study()


@pytest.fixture
def folder(release: Release, tmp_path: Path) -> Path:
    return release.save(tmp_path / "release")


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A file with the columns of the schema that is nobody's to publish."""
    path = tmp_path / "private.parquet"
    pyarrow.parquet.write_table(patients(PRIVATE_ROWS).drop(["person"]), path)
    return path


# NO LINK, NO OTHER FILE


LINKS: dict[str, Callable[[Path, Path], object]] = {
    "symbolic": lambda at, to: at.symlink_to(to),
    "relative": lambda at, to: at.symlink_to(Path("..") / to.name),
    "hard": lambda at, to: os.link(to, at),
    "copy": lambda at, to: at.write_bytes(to.read_bytes()),
}


@pytest.mark.parametrize("kind", LINKS)
def test_no_figure_of_another_file_is_on_the_public_page(
    folder: Path, private: Path, kind: str
) -> None:
    """A link, or a file that the model does not vouch for, is refused in one line."""
    (folder / ROWS).unlink()
    LINKS[kind](folder / ROWS, private)
    with pytest.raises(ReleaseError, match=r"is a link|not the file that the release") as caught:
        public_report(folder)
    assert f"{PRIVATE_ROWS:,}" not in str(caught.value)
    with pytest.raises(ReleaseError, match=r"is a link|not the file that the release"):
        released_table(load(folder), folder)


@pytest.mark.parametrize("kind", LINKS)
def test_the_manifest_tells_nothing_of_another_csv(folder: Path, private: Path, kind: str) -> None:
    (folder / "synthetic.csv").unlink()
    LINKS[kind](folder / "synthetic.csv", private)
    page = public_report(folder)
    assert f"{private.stat().st_size:,}" not in page
    assert hashlib.sha256(private.read_bytes()).hexdigest() not in page


@pytest.mark.thorough
def test_an_old_release_is_reported_without_a_word_on_rows_it_does_not_name(
    folder: Path, private: Path
) -> None:
    stored = msgspec.msgpack.decode((folder / "model").read_bytes().partition(b"\n")[2])
    stored["files"] = {name: stored["files"][name] for name in ("privacy.json", "run.json")}
    seal(folder, stored)
    (folder / ROWS).write_bytes(private.read_bytes())
    page = public_report(folder)
    assert "does not say which synthetic.parquet belongs to it" in page
    assert f"{PRIVATE_ROWS:,}" not in page
    assert hashlib.sha256(private.read_bytes()).hexdigest() not in page


def test_the_rows_of_a_release_are_those_that_were_drawn(release: Release, folder: Path) -> None:
    drawn = release.sample(seed=release.run.seed)
    with synthetic_rows(load(folder), folder) as rows:
        assert rows is not None
        assert rows.vouched
        assert rows.number == drawn.num_rows
        table = rows.table()
    assert table.to_pylist() == drawn.to_pylist()
    (folder / ROWS).unlink()
    with synthetic_rows(load(folder), folder) as none:
        assert none is None


@pytest.mark.thorough
def test_no_command_reads_a_release_through_a_link(desk: Desk, private: Path) -> None:
    assert desk.simulate("--method", "independent") == 0
    out = desk.folder / "release"
    scores = ("evaluate", "--schema", "s.toml", "--real", "d.csv", "--only", "tvd", "--synthetic")
    for given in ("release", "release/synthetic.parquet", "release/synthetic.csv"):
        assert desk.run(*scores, given) == 0, desk.err
    for name in ("synthetic.parquet", "synthetic.csv"):
        (out / name).unlink()
        (out / name).symlink_to(private)
    for given in ("release", "release/synthetic.parquet", "release/synthetic.csv"):
        desk.run(*scores, given)
        desk.refused(1, "this is a link")
    desk.run("report", "release", "--out", "page.html")
    desk.refused(1, "this is a link")
    (out / "run.json").rename(desk.folder / "run.json")
    (out / "run.json").symlink_to(desk.folder / "run.json")
    desk.run("sample", "release", "--rows", "3")
    desk.refused(1, "this is a link")


def test_a_result_of_a_server_is_copied_without_links_and_strangers(
    folder: Path, private: Path, tmp_path: Path
) -> None:
    (folder / "more.csv").write_text("of somebody")
    copy_release(folder, tmp_path / "copy")
    assert {path.name for path in (tmp_path / "copy").iterdir()} == {
        path.name for path in folder.iterdir()
    } - {"more.csv"}
    (folder / ROWS).unlink()
    (folder / ROWS).symlink_to(private)
    with pytest.raises(HeterofedsynError, match="this is a link"):
        copy_release(folder, tmp_path / "other")
    assert not (tmp_path / "other").exists()


# BOMBS


def repeated(rows: int, **options: Any) -> Callable[[Path], None]:
    """One row again and again, which takes next to no room."""

    def make(path: Path) -> None:
        chunk = pa.table(
            {
                "age": pa.array(np.full(2**20, 7)),
                "ward": pa.DictionaryArray.from_arrays(np.zeros(2**20, np.int8), ["a"]),
                "sick": np.ones(2**20, bool),
            }
        )
        text = chunk.set_column(1, "ward", chunk.column("ward").cast(pa.string()))
        with pyarrow.parquet.ParquetWriter(path, text.schema, **options) as writer:
            many = rows
            while many > 0:
                part = text.slice(0, min(many, text.num_rows))
                writer.write_table(part, row_group_size=2**26)
                many -= part.num_rows

    return make


def more_words_than_rows(path: Path) -> None:
    """A long word in all rows, among more words than there are rows."""
    rows = 20_000
    words = pa.array([*map(str, range(rows + 1)), "a" * 300_000])
    ward = pa.DictionaryArray.from_arrays(pa.array(np.full(rows, rows + 1, np.int32)), words)
    table = pa.table({"age": np.full(rows, 7), "ward": ward, "sick": np.ones(rows, bool)})
    pyarrow.parquet.write_table(table, path, store_schema=False)


def long_words(path: Path) -> None:
    """A word of a megabyte in each of very many rows, written once."""
    word, rows = "a" * 2**20, 60_000
    ward = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int8), [word])
    table = pa.table({"age": np.full(rows, 7), "ward": ward, "sick": np.ones(rows, bool)})
    pyarrow.parquet.write_table(table, path)


BOMBS: dict[str, tuple[Callable[[Path], None], str]] = {
    "rows": (repeated(40_000_000), "can be believed to hold"),
    "packed": (repeated(3_000_000, compression="zstd"), "not written like this"),
    "coded": (
        repeated(100_000, use_dictionary=False, column_encoding={"ward": "DELTA_BYTE_ARRAY"}),
        "not written like this",
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", BOMBS)
def test_a_file_that_stands_for_more_than_its_size_is_refused(folder: Path, kind: str) -> None:
    make, words = BOMBS[kind]
    make(folder / ROWS)
    vouch(folder)
    loaded = load(folder)
    with pytest.raises(ReleaseError, match=words) as caught:
        public_report(folder)
    assert len(str(caught.value).splitlines()) == 1
    with pytest.raises(ReleaseError, match=words):
        released_table(loaded, folder)


TEXT = "a" * 2**12
OTHERS: dict[str, pa.Array] = {
    "bytes": pa.array([TEXT.encode()] * 99),
    "bytes in a dictionary": pa.array([TEXT.encode()] * 99).dictionary_encode(),
    "bytes of one length": pa.array([TEXT.encode()] * 99, pa.binary(len(TEXT))),
    "long text": pa.array([TEXT] * 99, pa.large_string()),
    "a view of text": pa.array([TEXT] * 99, pa.string_view()),
    "lists": pa.array([[TEXT]] * 99),
    "numbers": pa.array([1] * 99),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_no_row_is_read_of_a_file_with_other_types_than_are_drawn(
    folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A value that is not text is held again for every row, however small the file is."""
    columns = {"age": np.full(99, 7), "ward": OTHERS[kind], "sick": np.ones(99, bool)}
    pyarrow.parquet.write_table(pa.table(columns), folder / ROWS)
    vouch(folder)
    loaded = load(folder)
    monkeypatch.delattr(pyarrow.parquet.ParquetFile, "iter_batches")
    with pytest.raises(ReleaseError, match="not those of the release's schema"):
        public_report(folder)
    with pytest.raises(ReleaseError, match="not those of the release's schema"):
        released_table(loaded, folder)


@pytest.mark.thorough
def test_columns_of_every_kind_are_read_back(tmp_path: Path) -> None:
    every = (
        '[[columns]]\nname = "when"\ntype = "datetime"\nmin = 2024-01-01\nmax = 2024-12-31\n'
        'bins = 4\nnullable = true\n[[columns]]\nname = "dose"\ntype = "number"\nmin = 0.0\n'
        'max = 1.0\nbins = 4\n[[columns]]\nname = "word"\ntype = "categorical"\n'
        'values = ["x"]\nnullable = true\n'
    )
    rows = pa.table({"when": ["2024-02-03", ""] * 150, "dose": [0.5] * 300, "word": ["x"] * 300})
    place = study(every, rows, rows.slice(0)).save(tmp_path / "release", rows=300)
    assert "keep the schema" in public_report(place)
    drawn = load(place).sample(300, seed=load(place).run.seed)
    assert released_table(load(place), place).to_pylist() == drawn.to_pylist()


@pytest.mark.parametrize("nullable", [False, True])
def test_a_dictionary_with_more_words_than_rows_is_read_word_by_word(nullable: bool) -> None:
    """Each word in use once, in whatever row: one long word in all rows takes no more room."""
    column = CategoricalColumn("ward", ("a", "b"), nullable=nullable)
    words = pa.array(["b", "a" * 2**20, "a", "", *map(str, range(5_000))])
    places = pa.array([1] * 3_000 + [2, 0, None, 3, 2, 17])
    array = pa.DictionaryArray.from_arrays(places, words)
    codes, fits = column.encode(array)  # rows by themselves would take 3 GB
    wanted, right = column.encode(words.take(places[3_000:]))
    assert codes[3_000:].tolist() == wanted.tolist()
    assert fits[3_000:].tolist() == right.tolist()
    assert not fits[:3_000].any()


LIMITED = """
import resource, sys, pathlib
from heterofedsyn import load
from heterofedsyn.hub.release.synthetic import released_table
from heterofedsyn.report import public_report
from heterofedsyn.schema import encode
place = pathlib.Path(sys.argv[1])
pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
most = pages * resource.getpagesize() + 2**30
resource.setrlimit(resource.RLIMIT_AS, (most, most))
print("do not fit" in public_report(place))
rows = released_table(load(place), place)
print(encode(load(place).schema, rows.to_batches()).table.rows)
"""


@pytest.mark.thorough
@pytest.mark.parametrize(
    "make",
    [long_words, more_words_than_rows, repeated(10_000_000)],
    ids=["words", "more words", "rows"],
)
def test_what_is_read_takes_memory_by_its_size(folder: Path, make: Callable[[Path], None]) -> None:
    """A word is held once however many rows have it; 60 GB would be needed else."""
    make(folder / ROWS)
    vouch(folder)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LIMITED, str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == "True"


def test_many_honest_rows_are_read(tmp_path: Path) -> None:
    """Nothing that the software writes is refused, be it of columns that hardly vary."""
    few = (
        '[[columns]]\nname = "a"\ntype = "boolean"\n[[columns]]\nname = "b"\ntype = "categorical"\n'
        'values = ["x", "y"]\n'
    )
    rows = pa.table({"a": np.zeros(300, bool), "b": ["x"] * 300})
    released = study(few, rows, rows.slice(0))
    place = released.save(tmp_path / "release", rows=400_000)
    assert released_table(load(place), place).num_rows == 400_000


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-1], lambda data: data[: len(data) // 2], lambda _: b"PAR1"],
    ids=["last byte", "half", "head"],
)
def test_damaged_rows_are_one_line(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    (folder / ROWS).write_bytes(damage((folder / ROWS).read_bytes()))
    vouch(folder)
    with pytest.raises(ReleaseError, match="damaged"):
        public_report(folder)


@pytest.mark.thorough
def test_changed_bytes_of_rows_are_refused_or_read(folder: Path) -> None:
    """Whatever stands there, in the footer above all; a library that ends the process fails it."""
    good = (folder / ROWS).read_bytes()
    footer = int.from_bytes(good[-8:-4], "little")
    rng = np.random.default_rng(5)
    refused = 0
    for number in range(300):
        data = bytearray(good)
        for _ in range(1 + number % 3):
            first = len(data) - 8 - footer if rng.random() < 0.7 else 4
            data[int(rng.integers(first, len(data)))] = int(rng.integers(256))
        (folder / ROWS).write_bytes(data)
        vouch(folder)
        loaded = load(folder)
        try:
            with synthetic_rows(loaded, folder) as rows:
                check_section(loaded, rows)
            released_table(loaded, folder)
        except ReleaseError as error:
            check_words(str(error))
            refused += 1
    assert 0 < refused < 300


@pytest.mark.parametrize("rows", [1, 1_000, 600_000])
def test_the_footer_is_read_as_the_library_reads_it(folder: Path, rows: int) -> None:
    place = load(folder).save(folder.parent / "more", rows=rows)
    theirs = pyarrow.parquet.read_metadata(place / ROWS)
    with (place / ROWS).open("rb") as file:
        footer = read_footer(file)
    assert footer.rows == theirs.num_rows == rows
    assert len(footer.groups) == theirs.num_row_groups
    for number, (many, chunks) in enumerate(footer.groups):
        group = theirs.row_group(number)
        assert (many, len(chunks)) == (group.num_rows, group.num_columns)
        for column, chunk in enumerate(chunks):
            same = group.column(column)
            assert (chunk.values, chunk.unfolded) == (
                same.num_values,
                same.total_uncompressed_size,
            )
            assert not chunk.elsewhere


def test_the_number_of_rows_drawn_is_what_the_model_tells(folder: Path) -> None:
    """A record alone cannot ask for a hundred million rows."""
    for number in (100_000_000, load(folder).run.noisy_total + 5, 1):
        text = (folder / "run.json").read_text()
        (folder / "run.json").write_text(
            re.sub(r'"noisy_total": \d+', f'"noisy_total": {number}', text)
        )
        vouch(folder, "run.json")
        assert json.loads((folder / "run.json").read_text())["noisy_total"] == number
        with pytest.raises(ReleaseError, match="noisy_total is not what the model tells"):
            load(folder)


@pytest.mark.parametrize(
    ("synthesizer", "settings"),
    [
        ("gum", {"passes": 10_000}),
        ("tree", {"polish": 10_000}),
        ("pgm", {"largest": 2**28}),
        ("pgm", {"iterations": 100_000}),
    ],
)
def test_a_model_cannot_ask_for_work_without_end(
    folder: Path, synthesizer: str, settings: dict[str, int]
) -> None:
    stored = msgspec.msgpack.decode((folder / "model").read_bytes().partition(b"\n")[2])
    seal(folder, {**stored, "synthesizer": synthesizer, "settings": settings})
    with pytest.raises(ReleaseError):
        load(folder)


# FORMULAS


FORMULAS = ["=1+2", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "plain", "a=b", "'quoted"]
FORMULAS += [
    " =1",
    "\u00a0=1",
    "\u3000+1",
    "\uff1d1",
    "\uff0b1",
    "\uff0d1",
    "\uff201",
    " \uff1d",
    " x",
]
PLAIN = {"plain", "a=b", "'quoted", " x"}
FORMULA_SCHEMA = f"""\
[[columns]]
name = "=word"
type = "categorical"
values = {json.dumps(FORMULAS)}

[[columns]]
name = "change"
type = "integer"
min = -5
max = -1
"""


@pytest.fixture(scope="module")
def formulas() -> Release:
    many = FORMULAS * 60
    table = pa.table({"=word": many, "change": np.resize(np.arange(-5, 0), len(many))})
    return study(FORMULA_SCHEMA, table, table.slice(0))


def cells(path: Path) -> pa.Table:
    return pyarrow.csv.read_csv(
        path,
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=False),
    )


def test_a_safe_csv_has_no_text_that_opens_as_a_formula(formulas: Release, tmp_path: Path) -> None:
    place = formulas.save(tmp_path / "safe", rows=500, safe_csv=True)
    safe = cells(place / "synthetic.csv")
    true = pyarrow.parquet.read_table(place / "synthetic.parquet")
    assert safe.column_names == ["'=word", "change"]
    assert {*true.column("=word").to_pylist()} == {*FORMULAS}
    for shown, value in zip(
        safe.column("'=word").to_pylist(), true.column("=word").to_pylist(), strict=True
    ):
        assert shown == (value if value in PLAIN else f"'{value}")
    # Numbers stay numbers, and the other file has the values themselves.
    assert safe.column("change").equals(true.column("change"))
    plain = formulas.save(tmp_path / "plain", rows=500)
    assert cells(plain / "synthetic.csv").column("=word").equals(true.column("=word"))
    assert (plain / ROWS).read_bytes() == (place / ROWS).read_bytes()
    assert load(place).sample(9, seed=1).equals(load(plain).sample(9, seed=1))


@pytest.mark.thorough
def test_commands_write_a_safe_csv_when_asked(desk: Desk) -> None:
    desk.write("s.toml", SCHEMA.replace('"a"', '"=a"'))
    text = (desk.folder / "d.csv").read_text().replace('"a"', '"=a"')
    desk.write("d.csv", text)
    assert desk.simulate("--method", "independent", "--safe-csv") == 0, desk.err
    written = (desk.folder / "release" / "synthetic.csv").read_text()
    assert "'=a" in written
    assert '"=a' not in written
    assert desk.run("sample", "release", "--rows", "50", "--safe-csv") == 0
    assert "'=a" in desk.out or '"=a' not in desk.out
    assert desk.run("sample", "release", "--rows", "50", "--safe-csv", "--out", "x.csv") == 0
    assert '"=a' not in (desk.folder / "x.csv").read_text()
    assert desk.run("sample", "release", "--rows", "50", "--out", "y.csv") == 0
    assert '"=a' in (desk.folder / "y.csv").read_text()
    demo = ("demo", "--patients", "1000", "--method", "independent", "--out", "demo")
    with pytest.MonkeyPatch.context() as patch:  # none of its own categories would be a formula
        patch.setattr("heterofedsyn.hub.release.sampling._FORMULA", r"\A(female)")
        assert desk.run(*demo, "--safe-csv") == 0, desk.err
    assert "'female" in (desk.folder / "demo" / "synthetic.csv").read_text()
    desk.run("sample", "release", "--safe-csv", "--out", "x.parquet")
    desk.refused(2, "--safe-csv is for CSV")
