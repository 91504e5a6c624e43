"""The benchmark tables from their public origins, for those who do not have them yet.

Fetching is the standard library's: downloaders such as pooch hold a file against a digest, and
these origins publish none. What is checked instead is what the file holds.
"""

from __future__ import annotations

import csv
import io
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import pyarrow as pa

from heterofedsyn._arrays import stream
from heterofedsyn._files import check_no_link, check_place, written_whole
from heterofedsyn.errors import HeterofedsynError, UsageError
from heterofedsyn.schema import (
    BooleanColumn,
    CategoricalColumn,
    Column,
    IntegerColumn,
    NumberColumn,
    Schema,
    draft,
)

MOST_BYTES = 64 * 2**20
"""Of one file, packed or not; the largest table has 4 million."""

SECONDS = 60.0
"""How long an origin may stay silent."""

MOST_BINS = 100


@dataclass(frozen=True)
class Origin:
    """Where a table comes from, and what its file looks like.

    Attributes:
        member: the file's name inside the archive; None if the address is the file itself.
        columns: in their order; the last is the one to predict, which becomes `label`.
        headed: whether the file names its columns in the first line.
        rows: in the table that the paper's authors started from.
        categories: columns of whole numbers that are names.
    """

    name: str
    address: str
    member: str | None
    columns: tuple[str, ...]
    task: str
    rows: int
    headed: bool = True
    categories: tuple[str, ...] = ()


_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,  # packed in a way that is not known here
    RuntimeError,  # locked by a password
    EOFError,
    ValueError,
)
"""What reading a damaged archive can end in."""

UCI = "https://archive.ics.uci.edu/static/public"

ORIGINS = (
    Origin(
        name="adult",
        address=f"{UCI}/2/adult.zip",
        member="adult.data",
        columns=(
            *("age", "workclass", "fnlwgt", "education", "education-num", "marital-status"),
            *("occupation", "relationship", "race", "sex", "capital-gain", "capital-loss"),
            *("hours-per-week", "native-country", "income"),
        ),
        task="binary_classification",
        rows=32_561,
        headed=False,
    ),
    Origin(
        name="shoppers",
        address=f"{UCI}/468/online+shoppers+purchasing+intention+dataset.zip",
        member="online_shoppers_intention.csv",
        columns=(
            *("Administrative", "Administrative_Duration", "Informational"),
            *("Informational_Duration", "ProductRelated", "ProductRelated_Duration"),
            *("BounceRates", "ExitRates", "PageValues", "SpecialDay", "Month", "OperatingSystems"),
            *("Browser", "Region", "TrafficType", "VisitorType", "Weekend", "Revenue"),
        ),
        task="binary_classification",
        rows=12_330,
        categories=("OperatingSystems", "Browser", "Region", "TrafficType"),
    ),
    Origin(
        name="obesity",
        address=(
            f"{UCI}/544/estimation+of+obesity+levels+based+on+eating+habits+and+"
            "physical+condition.zip"
        ),
        member="ObesityDataSet_raw_and_data_sinthetic.csv",
        columns=(
            *("Gender", "Age", "Height", "Weight", "family_history_with_overweight", "FAVC"),
            *("FCVC", "NCP", "CAEC", "SMOKE", "CH2O", "SCC", "FAF", "TUE", "CALC", "MTRANS"),
            "NObeyesdad",
        ),
        task="multiclass_classification",
        rows=2_111,
    ),
    Origin(
        name="abalone",
        address=f"{UCI}/1/abalone.zip",
        member="abalone.data",
        columns=(
            *("sex", "length", "diameter", "height", "whole_weight", "shucked_weight"),
            *("viscera_weight", "shell_weight", "rings"),
        ),
        task="regression",
        rows=4_177,
        headed=False,
    ),
    Origin(
        # Kaggle wants an account; these are the same rows, of Lantz's "Machine Learning with R".
        name="insurance",
        address=(
            "https://raw.githubusercontent.com/stedy/Machine-Learning-with-R-datasets/master/"
            "insurance.csv"
        ),
        member=None,
        columns=("age", "sex", "bmi", "children", "smoker", "region", "charges"),
        task="regression",
        rows=1_338,
        categories=("children",),
    ),
)
"""The five tables of the paper."""

CUT = (
    "rows were cut into train, val and test by a seed of our own, so figures differ a little from "
    "those on the paper's cut"
)


def download(
    folder: Path, note: Callable[[str], None], origins: Sequence[Origin] = ORIGINS
) -> None:
    """Fetch the tables into `folder/NAME/{train,val,test}.csv` and `schema.toml`.

    A table appears whole or not at all; one that is there already is left alone, so running it
    again continues.

    Raises:
        HeterofedsynError: naming the table and its origin, if it cannot be fetched or read.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; name a folder")
    check_no_link(folder)
    check_place(folder / "adult")
    made = False
    for origin in origins:
        target = folder / origin.name
        if target.exists():
            note(f"{origin.name}: already in {target}")
            continue
        note(f"{origin.name}: fetching {origin.address}")
        rows = _rows(origin, _unpacked(origin, _fetched(origin)))
        if len(rows) != origin.rows:
            note(f"{origin.name}: {len(rows):,} rows, while the paper's table had {origin.rows:,}")
        _write(target, origin, rows)
        made = True
    if made:
        note(CUT)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows an origin to no place that it could not have named itself."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        _check_address(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check_address(address: str) -> None:
    """Refuse what could be changed on its way, unless there is no way."""
    parts = urlsplit(address)
    if parts.scheme != "https" and (parts.scheme, parts.hostname) != ("http", "127.0.0.1"):
        raise HeterofedsynError(f"{address} is not fetched: only https is safe on its way")


def _fetched(origin: Origin) -> bytes:
    _check_address(origin.address)
    opener = urllib.request.build_opener(_Redirects)
    try:
        with opener.open(origin.address, timeout=SECONDS) as answer:
            data: bytes = answer.read(MOST_BYTES + 1)
    except urllib.error.HTTPError as error:
        raise _unreachable(origin, f"the server says {error.code} {error.reason}") from None
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise _unreachable(origin, str(reason) or type(reason).__name__) from None
    if len(data) > MOST_BYTES:
        raise _changed(origin, f"it is larger than {MOST_BYTES:,} bytes")
    return data


def _unreachable(origin: Origin, reason: str) -> HeterofedsynError:
    words = " ".join(reason.split())
    return HeterofedsynError(
        f"cannot fetch table {origin.name!r} from {origin.address}: {words}; run it again when "
        "that address can be reached, what is complete stays"
    )


def _changed(origin: Origin, what: str) -> HeterofedsynError:
    return HeterofedsynError(
        f"table {origin.name!r} from {origin.address} is not as it was: {what}; fetch it by hand"
    )


def _unpacked(origin: Origin, data: bytes) -> str:
    """The text of the table's file."""
    if origin.member is not None:
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                members = {Path(name).name.lower(): name for name in archive.namelist()}
                if origin.member.lower() not in members:
                    raise _changed(origin, f"there is no file {origin.member} in the archive")
                with archive.open(members[origin.member.lower()]) as file:
                    data = file.read(MOST_BYTES + 1)
        except _BROKEN:
            raise _changed(origin, "it is no archive that can be read") from None
        if len(data) > MOST_BYTES:
            raise _changed(origin, f"{origin.member} is larger than {MOST_BYTES:,} bytes")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _changed(origin, "it is no text") from None


def _rows(origin: Origin, text: str) -> list[list[str]]:
    """The cells of every row in the order of `columns`, without spaces around them."""
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        rows = [[cell.strip() for cell in line] for line in lines if any(map(str.strip, line))]
    except csv.Error:
        raise _changed(origin, "its rows cannot be told apart") from None
    header = rows.pop(0) if origin.headed and rows else list(origin.columns)
    missing = [name for name in origin.columns if name not in header]
    if missing:
        raise _changed(origin, f"there is no column {missing[0]!r}")
    if any(len(row) != len(header) for row in rows) or len(rows) < 5:
        raise _changed(origin, f"it is no table of {len(header)} columns")
    places = [header.index(name) for name in origin.columns]
    truth = {"TRUE": "True", "FALSE": "False"}
    return [[truth.get(row[place], row[place]) for place in places] for row in rows]


def _write(target: Path, origin: Origin, rows: list[list[str]]) -> None:
    header = [*origin.columns[:-1], "label"]
    order = stream(0, f"benchmark cut {origin.name}").permutation(len(rows))
    # A fifth for testing, a fifth of the rest for validation; both rounded up, as the paper did.
    test = -(-len(rows) // 5)
    val = -(-(len(rows) - test) // 5)
    cut = {"test": order[:test], "val": order[test : test + val], "train": order[test + val :]}
    known = [rows[place] for part in ("train", "val") for place in cut[part]]
    schema = _schema(origin, header, rows, known)
    with written_whole(target) as partial:
        for part, places in cut.items():
            with (partial / f"{part}.csv").open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(header)
                writer.writerows(rows[place] for place in places)
        words = (
            f"# Public schema of the {origin.name} benchmark table. Ranges and categories are\n"
            "# those of the table itself, which is public; a real study must not do that.\n"
            f"# Bins = min({MOST_BINS}, distinct values of train and val), as in the paper.\n\n"
        )
        (partial / "schema.toml").write_text(words + schema.to_toml(), encoding="utf-8")


def _schema(
    origin: Origin, header: list[str], rows: list[list[str]], known: list[list[str]]
) -> Schema:
    """Ranges and categories of the whole table; bins by what train and val hold."""
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    trained = dict(zip(header, zip(*known, strict=True), strict=True))
    table = pa.table({name: pa.array(cells, pa.string()) for name, cells in columns.items()})
    drafted = draft(table.to_batches()).schema()
    finished = tuple(
        _settled(column, columns[column.name], trained[column.name], origin)
        for column in drafted.columns
    )
    return Schema(finished, label="label", task=origin.task)


def _settled(column: Column, cells: Iterable[str], known: Iterable[str], origin: Origin) -> Column:
    """A drafted column as the benchmark has it: exact ranges, and names of numbers as names."""
    if isinstance(column, BooleanColumn) or column.name in origin.categories:
        ordered = sorted({*cells}, key=lambda cell: (int(cell) if cell.isdecimal() else 0, cell))
        return CategoricalColumn(column.name, tuple(ordered))
    if isinstance(column, IntegerColumn | NumberColumn):
        numbers = [float(cell) for cell in cells]
        bins = min(MOST_BINS, len({float(cell) for cell in known}))
        if isinstance(column, NumberColumn):
            return NumberColumn(column.name, min(numbers), max(numbers), bins)
        return replace(column, bins=bins)
    return column
