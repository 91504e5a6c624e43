"""Files and folders, told apart by their names."""

from __future__ import annotations

from glob import has_magic
from pathlib import Path

from heterofedsyn.errors import DataError, UsageError
from heterofedsyn.sources.csv_file import CsvSource
from heterofedsyn.sources.location import is_visible, matches, root_of
from heterofedsyn.sources.parquet_file import ParquetSource
from heterofedsyn.sources.source import Source

_CSV = (".csv", ".csv.gz")
_PARQUET = (".parquet", ".pq")


def open_file(text: str) -> Source:
    """The rows of a file, of a folder of Parquet files, or of a glob of them."""
    path = Path(text)
    if path.is_dir():
        parts = sorted(found for found in path.rglob("*") if _is_part(found, path))
        return _open_many(text, parts, path)
    if not path.exists():
        if not has_magic(text):
            raise DataError(f"{path}: there is no such file; check the path")
        return _open_many(text, matches(text), root_of(text))
    if path.name.lower().endswith(_CSV):
        return CsvSource.open(path)
    if path.name.lower().endswith(_PARQUET):
        return ParquetSource.open(text, [path])
    raise UsageError(
        f"{path}: cannot read this kind of file; use .csv, .csv.gz, .parquet or a database"
    )


def _is_part(path: Path, folder: Path) -> bool:
    """Whether a file of a folder holds rows."""
    return path.name.lower().endswith(_PARQUET) and is_visible(path, folder) and path.is_file()


def _open_many(text: str, paths: list[Path], root: Path) -> Source:
    if not paths:
        raise DataError(f"{text}: no .parquet file is there; check the path")
    other = [path for path in paths if not path.name.lower().endswith(_PARQUET)]
    if other:
        raise UsageError(
            f"{text}: a glob reads .parquet files only, and {other[0].name} is none; "
            "name other files one by one"
        )
    return ParquetSource.open(text, paths, root)
