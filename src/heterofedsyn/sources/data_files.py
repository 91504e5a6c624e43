"""Files and folders, told apart by their names."""

from __future__ import annotations

from dataclasses import replace
from glob import has_magic
from pathlib import Path

from heterofedsyn.errors import DataError, UsageError
from heterofedsyn.sources.csv_file import CsvSource
from heterofedsyn.sources.dialect import OF_FILES, Dialect
from heterofedsyn.sources.location import files_below, matches, root_of
from heterofedsyn.sources.parquet_file import ParquetSource
from heterofedsyn.sources.source import Source

_CSV = (".csv", ".csv.gz")
_PARQUET = (".parquet", ".pq")


def open_file(text: str, *, multiline: bool = False, dialect: Dialect = Dialect()) -> Source:
    """The rows of a file, of a folder of Parquet files, or of a glob of them.

    Args:
        multiline: whether cells of a CSV file may hold line breaks.
        dialect: how texts are written; of Parquet, those in its cells.
    """
    path = Path(text)
    if multiline and not path.name.lower().endswith(_CSV):
        raise UsageError(f"{path}: csv-multiline: is for files that end with .csv or .csv.gz")
    try:
        is_folder, is_there = path.is_dir(), path.exists()
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}; check the path, or ask for access") from None
    if is_folder:
        files = files_below(path, ["**", "*"])
        return _spelt(
            _open_many(text, [part for part in files if _is_parquet(part)], path), dialect
        )
    if not is_there:
        if not has_magic(text):
            raise DataError(f"{path}: there is no such file; check the path")
        return _spelt(_open_many(text, matches(text), root_of(text)), dialect)
    if path.name.lower().endswith(_CSV):
        return CsvSource.open(path, multiline=multiline, dialect=dialect)
    if _is_parquet(path):
        return _spelt(ParquetSource.open(text, [path]), dialect)
    raise UsageError(
        f"{path}: cannot read this kind of file; use .csv, .csv.gz, .parquet or a database"
    )


def _is_parquet(path: Path) -> bool:
    return path.name.lower().endswith(_PARQUET)


def _spelt(source: ParquetSource, dialect: Dialect) -> ParquetSource:
    """The same rows, their texts being in a dialect."""
    if not dialect.plain_file:
        raise UsageError(
            f"{source.name}: {', '.join(f'{option}=' for option in OF_FILES)} are for CSV files; "
            "leave them out"
        )
    dialect.check(source.name, source.columns)
    return replace(source, dialect=dialect)


def _open_many(text: str, paths: list[Path], root: Path) -> ParquetSource:
    if not paths:
        raise DataError(f"{text}: no .parquet file is there; check the path")
    other = [path for path in paths if not _is_parquet(path)]
    if other:
        raise UsageError(
            f"{text}: a glob reads .parquet files only, and {other[0].name} is none; "
            "name other files one by one"
        )
    return ParquetSource.open(text, paths, root)
