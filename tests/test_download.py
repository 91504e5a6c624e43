"""The downloader, against a server of our own that serves invented rows in the original layouts."""

from __future__ import annotations

import csv
import io
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from heterofedsyn.bench import download as download_module
from heterofedsyn.bench.benchmark_tables import data_folder, need_data, real_table
from heterofedsyn.bench.download import CUT, ORIGINS, Origin, download
from heterofedsyn.cli.app import run
from heterofedsyn.errors import DataError, HeterofedsynError, UsageError
from heterofedsyn.schema import CategoricalColumn, IntegerColumn, NumberColumn, Schema, encode
from heterofedsyn.sources import open_source

pytestmark = pytest.mark.thorough

PARTS = ("train", "val", "test")
ROWS = 103


class Shelf:
    """What a server on this machine serves, by path."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.files: dict[str, bytes] = {}
        self.moved: dict[str, str] = {}

    def put(self, name: str, data: bytes) -> str:
        self.files[f"/{name}"] = data
        return f"{self.address}/{name}"


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shelf]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path in kept.moved:
                self.send_response(302)
                self.send_header("Location", kept.moved[self.path])
                self.end_headers()
            elif self.path in kept.files:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(kept.files[self.path])
            else:
                self.send_error(404)

        def log_message(self, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    kept = Shelf(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=partial(server.serve_forever, poll_interval=0.01))
    thread.start()
    yield kept
    server.shutdown()
    thread.join()
    server.server_close()


def packed(name: str, text: str, folder: str = "") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{folder}Index", "what there is\n")
        archive.writestr(f"{folder}{name}", text)
    return buffer.getvalue()


def joined(header: tuple[str, ...] | None, rows: list[list[str]], comma: str = ",") -> str:
    head = [list(header)] if header else []
    return "".join(comma.join(row) + "\n" for row in [*head, *rows])


def invented(name: str) -> list[list[str]]:
    """Rows that look like those of a table, and are nobody's."""
    rng = np.random.default_rng(3)

    def whole(low: int, high: int) -> Callable[[], str]:
        return lambda: str(rng.integers(low, high + 1))

    def real(digits: int) -> Callable[[], str]:
        return lambda: f"{rng.random() * 3:.{digits}f}"

    def word(*words: str) -> Callable[[], str]:
        return lambda: str(rng.choice(words))

    cells = {
        "adult": [
            *(whole(17, 90), word("?", "Private", "State-gov"), whole(12285, 999999)),
            *(word("10th", "HS-grad"), whole(1, 16), word("Divorced", "Widowed")),
            *(word("?", "Sales"), word("Wife", "Husband"), word("Other", "White")),
            *(word("Male", "Female"), whole(0, 99999), whole(0, 4356), whole(1, 99)),
            *(word("?", "Cuba", "United-States"), word("<=50K", ">50K")),
        ],
        "shoppers": [
            *(whole(0, 27), real(9), whole(0, 24), word("0", "12.5"), whole(0, 705), real(6)),
            *(real(9), real(9), word("0", "53.1"), word("0", "0.2", "1"), word("May", "June")),
            *(whole(1, 8), whole(1, 13), whole(1, 9), whole(1, 20)),
            *(word("New_Visitor", "Other"), word("TRUE", "FALSE"), word("TRUE", "FALSE")),
        ],
        "obesity": [
            *(word("Male", "Female"), real(6), real(6), real(6), word("yes", "no")),
            *(word("yes", "no"), real(1), real(1), word("Always", "no"), word("yes", "no")),
            *(real(6), word("yes", "no"), real(6), real(6), word("Always", "no")),
            *(word("Bike", "Walking"), word("Normal_Weight", "Obesity_Type_I")),
        ],
        "abalone": [word("M", "F", "I"), *[real(3)] * 7, whole(1, 29)],
        "insurance": [
            *(whole(18, 64), word("male", "female"), real(2), whole(0, 5)),
            *(word("yes", "no"), word("northeast", "southwest"), real(5)),
        ],
    }
    return [[cell() for cell in cells[name]] for _ in range(ROWS)]


def shelved(shelf: Shelf, rows: Callable[[str], list[list[str]]] = invented) -> list[Origin]:
    """The origins, each moved to the shelf in its own layout."""
    found = []
    for origin in ORIGINS:
        held = rows(origin.name)
        if origin.name == "adult":  # spaces after commas, and an empty last line
            data = packed("adult.data", joined(None, held, ", ") + "\n")
        elif origin.name == "abalone":
            data = packed("abalone.data", joined(None, held))
        elif origin.member is None:
            data = joined(origin.columns, held).encode()
        else:
            data = packed(origin.member, joined(origin.columns, held), folder="inner/")
        address = shelf.put(f"{origin.name}.bin", data)
        found.append(replace(origin, address=address, rows=len(held)))
    return found


def read(folder: Path) -> list[tuple[str, ...]]:
    """All rows of the three files, header first, in a fixed order."""
    rows = []
    for part in PARTS:
        with (folder / f"{part}.csv").open(encoding="utf-8", newline="") as file:
            header, *own = map(tuple, csv.reader(file))
        rows += own
    return [header, *sorted(rows)]


def only(origins: list[Origin], name: str) -> list[Origin]:
    return [origin for origin in origins if origin.name == name]


# WHAT COMES OUT


def test_every_row_comes_out_once_under_the_names_of_the_benchmark(
    shelf: Shelf, tmp_path: Path
) -> None:
    notes: list[str] = []
    download(tmp_path / "data", notes.append, shelved(shelf))
    assert notes[-1] == CUT
    for origin in ORIGINS:
        header, *rows = read(tmp_path / "data" / origin.name)
        assert header == (*origin.columns[:-1], "label")
        plain = {"TRUE": "True", "FALSE": "False"}
        expected = [tuple(plain.get(c, c) for c in row) for row in invented(origin.name)]
        assert rows == sorted(expected)


def test_the_schema_fits_every_row_and_reads_like_the_benchmark(
    shelf: Shelf, tmp_path: Path
) -> None:
    download(tmp_path, lambda line: None, shelved(shelf))
    schemas = {
        origin.name: Schema.load(tmp_path / origin.name / "schema.toml") for origin in ORIGINS
    }
    for origin in ORIGINS:
        schema, table = real_table(tmp_path, origin.name)
        assert schema == schemas[origin.name]
        assert (schema.label, schema.task) == ("label", origin.task)
        test = -(-ROWS // 5)
        assert table.rows == ROWS - test
        held_out = open_source(tmp_path / origin.name / "test.csv")
        encoded = encode(schema, held_out.batches(schema.domain.names))
        assert (encoded.table.rows, encoded.rows_dropped) == (test, 0)
    adult, shoppers, insurance = (schemas[n] for n in ("adult", "shoppers", "insurance"))
    assert isinstance(adult.column("age"), IntegerColumn)
    workclass = adult.column("workclass")
    assert isinstance(workclass, CategoricalColumn)
    assert workclass.values[0] == "?"
    for schema, name in ((shoppers, "Browser"), (insurance, "children")):
        column = schema.column(name)
        assert isinstance(column, CategoricalColumn)
        assert [int(value) for value in column.values] == sorted(map(int, column.values))
    weekend = shoppers.column("Weekend")
    assert isinstance(weekend, CategoricalColumn)
    assert weekend.values == ("False", "True")


def test_ranges_are_exact_and_bins_are_distinct_values_up_to_a_hundred(
    shelf: Shelf, tmp_path: Path
) -> None:
    download(tmp_path, lambda line: None, only(shelved(shelf), "insurance"))
    schema = Schema.load(tmp_path / "insurance" / "schema.toml")
    header, *rows = read(tmp_path / "insurance")
    lines = [
        line
        for part in ("train", "val")
        for line in (tmp_path / "insurance" / f"{part}.csv").read_text("utf-8").splitlines()
    ]
    known = [*csv.reader(lines)]
    for name in ("age", "bmi", "label"):
        column, place = schema.column(name), header.index(name)
        assert isinstance(column, IntegerColumn | NumberColumn)
        values = [float(row[place]) for row in rows]
        assert (column.min, column.max) == (min(values), max(values))
        assert column.bins == min(100, len({row[place] for row in known} - {name}))


def test_the_cut_is_the_same_every_time(shelf: Shelf, tmp_path: Path) -> None:
    origins = only(shelved(shelf), "abalone")
    for out in ("one", "two"):
        download(tmp_path / out, lambda line: None, origins)
    for path in (tmp_path / "one" / "abalone").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / "abalone" / path.name).read_bytes()


@pytest.mark.thorough
def test_the_published_tables_come_out_with_the_benchmarks_schema(
    shelf: Shelf, tmp_path: Path, data_folder: Path
) -> None:
    """Up to the cut: the same rows, types, ranges and categories; bins within the cut's luck."""

    def known(name: str) -> list[list[str]]:
        upper = {"True": "TRUE", "False": "FALSE"}
        return [[upper.get(c, c) for c in row] for row in read(data_folder / name)[1:]]

    download(tmp_path, lambda line: None, shelved(shelf, known))
    for origin in ORIGINS:
        mine, theirs = tmp_path / origin.name, data_folder / origin.name
        assert read(mine) == read(theirs)
        for part in PARTS:
            lines = [(f / f"{part}.csv").read_text("utf-8").count("\n") for f in (mine, theirs)]
            assert lines[0] == lines[1]
        ours, published = (Schema.load(folder / "schema.toml") for folder in (mine, theirs))
        for column, other in zip(ours.columns, published.columns, strict=True):
            if isinstance(other, IntegerColumn | NumberColumn):
                assert isinstance(column, IntegerColumn | NumberColumn)
                assert column.bins is not None
                assert other.bins is not None
                assert abs(column.bins - other.bins) <= 4
                column = replace(column, bins=other.bins)  # noqa: PLW2901
            assert column == other


# WHAT STAYS


def test_a_table_that_is_there_is_left_alone(shelf: Shelf, tmp_path: Path) -> None:
    (tmp_path / "abalone").mkdir()
    (tmp_path / "abalone" / "mine.txt").write_text("mine")
    notes: list[str] = []
    download(tmp_path, notes.append, only(shelved(shelf), "abalone"))
    assert [path.name for path in (tmp_path / "abalone").iterdir()] == ["mine.txt"]
    assert notes == [f"abalone: already in {tmp_path / 'abalone'}"]


def test_another_number_of_rows_is_said(shelf: Shelf, tmp_path: Path) -> None:
    (origin,) = only(shelved(shelf), "abalone")
    notes: list[str] = []
    download(tmp_path, notes.append, [replace(origin, rows=4_177)])
    assert f"abalone: {ROWS} rows, while the paper's table had 4,177" in notes


def test_what_was_fetched_before_a_failure_stays_and_nothing_else(
    shelf: Shelf, tmp_path: Path
) -> None:
    origins = shelved(shelf)
    del shelf.files["/shoppers.bin"]
    with pytest.raises(HeterofedsynError, match=r"cannot fetch table 'shoppers'.*404"):
        download(tmp_path / "data", lambda line: None, origins)
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["adult"]


# WHAT IS REFUSED


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"<html>Not found</html>", "no archive"),
        (packed("other.data", "1,2\n"), "no file abalone.data"),
        (packed("abalone.data", "M,1\n" * 9), "no table of 9 columns"),
        (packed("abalone.data", ""), "no table of 9 columns"),
        (packed("abalone.data", "\x00"), "as it was"),
        (packed("abalone.data", '"' + "M" * 200_000), "cannot be told apart"),
    ],
)
def test_a_file_that_has_changed_is_refused_in_one_line(
    shelf: Shelf, tmp_path: Path, data: bytes, words: str
) -> None:
    origins = only(shelved(shelf), "abalone")
    shelf.put("abalone.bin", data)
    with pytest.raises(HeterofedsynError, match=words) as caught:
        download(tmp_path / "data", lambda line: None, origins)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 1
    assert not (tmp_path / "data").exists()


def test_damaged_archives_are_refused(shelf: Shelf, tmp_path: Path) -> None:
    origins = only(shelved(shelf), "abalone")
    whole = shelf.files["/abalone.bin"]
    rng = np.random.default_rng(0)
    for _ in range(40):
        place = int(rng.integers(0, len(whole)))
        broken = whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :]
        shelf.put("abalone.bin", broken[: len(broken) - int(rng.integers(0, 2)) * place])
        try:
            download(tmp_path / "data", lambda line: None, origins)
        except HeterofedsynError:
            assert not (tmp_path / "data").exists()
        else:  # the flipped bit was in a date or the like
            assert len(read(tmp_path / "data" / "abalone")) == ROWS + 1
            break


def test_a_missing_column_is_named(shelf: Shelf, tmp_path: Path) -> None:
    (origin,) = only(shelved(shelf), "insurance")
    shelf.put("insurance.bin", joined(("age", "sex"), [["1", "male"]] * 9).encode())
    with pytest.raises(HeterofedsynError, match="no column 'bmi'"):
        download(tmp_path, lambda line: None, [origin])
    assert not [*tmp_path.iterdir()]


def test_too_much_is_not_read(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither from the server nor out of an archive that is small."""
    monkeypatch.setattr(download_module, "MOST_BYTES", 2**16)
    origins = only(shelved(shelf), "abalone")
    shelf.put("abalone.bin", packed("abalone.data", "M" * 2**20))
    assert len(shelf.files["/abalone.bin"]) < 2**16
    with pytest.raises(HeterofedsynError, match=r"abalone\.data is larger than 65,536 bytes"):
        download(tmp_path, lambda line: None, origins)
    shelf.put("abalone.bin", b"M" * 2**17)
    with pytest.raises(HeterofedsynError, match="it is larger than 65,536 bytes"):
        download(tmp_path, lambda line: None, origins)


@pytest.mark.parametrize(
    "address", ["http://example.invalid/a", "file:///etc/hostname", "ftp://127.0.0.1/a"]
)
def test_only_https_is_followed(shelf: Shelf, tmp_path: Path, address: str) -> None:
    (origin,) = only(shelved(shelf), "abalone")
    with pytest.raises(HeterofedsynError, match="only https"):
        download(tmp_path, lambda line: None, [replace(origin, address=address)])
    shelf.moved["/abalone.bin"] = address
    with pytest.raises(HeterofedsynError, match=r"only https|is not allowed"):
        download(tmp_path, lambda line: None, [origin])


def test_every_origin_is_named_by_https() -> None:
    assert {origin.name for origin in ORIGINS} == {
        *("adult", "shoppers", "obesity", "abalone", "insurance")
    }
    assert all(origin.address.startswith("https://") for origin in ORIGINS)


def test_a_moved_file_is_followed(shelf: Shelf, tmp_path: Path) -> None:
    (origin,) = only(shelved(shelf), "abalone")
    shelf.moved["/old.bin"] = origin.address
    moved = replace(origin, address=f"{shelf.address}/old.bin")
    download(tmp_path, lambda line: None, [moved])
    assert len(read(tmp_path / "abalone")) == ROWS + 1


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_fetched(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("")
    notes: list[str] = []
    with pytest.raises(UsageError, match="is a file"):
        download(tmp_path / "file", notes.append)
    with pytest.raises(UsageError, match="is a file"):
        download(tmp_path / "file" / "data", notes.append)
    assert not notes


def test_offline_the_command_says_so_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A proxy that nobody runs: no way out, with or without internet."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    assert run(["bench", "data", "--out", str(tmp_path / "data")]) == 1
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert "Traceback" not in err
    assert "cannot fetch table 'adult'" in lines[0]
    assert out == ""
    assert not (tmp_path / "data").exists()


# WHO NEEDS THEM


def test_whoever_needs_the_tables_is_told_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HETEROFEDSYN_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"HETEROFEDSYN_DATA.*`heterofedsyn bench data`"):
        need_data()
    monkeypatch.delenv("HETEROFEDSYN_DATA")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"\.\./shared/data.*`heterofedsyn bench data`"):
        need_data()
    (tmp_path / "adult").mkdir()
    monkeypatch.setenv("HETEROFEDSYN_DATA", str(tmp_path))
    assert need_data() == data_folder() == tmp_path
