"""Locations: one text says where rows are, on the command line, in settings and in Python.

A path (`.csv`, `.csv.gz`, `.parquet`, `.pq`; `csv-multiline:stays.csv` if its cells hold line
breaks; `stays.csv?delimiter=;&decimal=,` if it is written in another dialect), a folder or glob
of Parquet files, a DuckDB file with a query (`lake.duckdb#SELECT ...`;
`lake.duckdb?files=FOLDER#...` lets it read files of a folder), a PostgreSQL database with one
(`postgresql://host/db#icu`), or one of Spark (`spark:lake.icu`, `spark://host:7077#lake.icu`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from glob import has_magic
from itertools import takewhile
from pathlib import Path
from urllib.parse import parse_qsl

from heterofedsyn.errors import DataError, UsageError
from heterofedsyn.sources.dialect import OF_CELLS, OF_FILES, Dialect

NO_PASSWORD = (
    "a location holds no password, for it is logged and kept in files; leave it out and give it by "
    "PGPASSWORD, PGPASSFILE, ~/.pgpass or PGSERVICEFILE"
)
_SECRETS = {
    "oauth_client_secret",
    "password",
    "scram_client_key",
    "scram_server_key",
    "sslpassword",
}
_LIKE_SECRETS = re.compile(r"(?i):[^/\s]*@|//.*:.*@|(?:pass\w*|pwd)\s*=", re.DOTALL)
"""Looks of a password in what should be a path, as of a URL without its scheme."""

_SECRETS_OF_QUERIES = re.compile(r"(?i)\bpassword\s*=|://[^/\s']*:[^\s']*@")
"""Looks of a password in a query, as for a server that the first one asks."""

_DATABASE_FILES = (".duckdb", ".ddb", ".db")
_FILES = "?files="
_DIALECT = re.compile(r"(?is)(.*?\.(?:csv|csv\.gz|parquet|pq))\?([^/=]*=.*)")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_HOSTS = re.compile(r"[\w.,:%\[\]-]*", re.ASCII)
_WORD = r'(?:[^\W\d][\w$]*|"(?:[^"]|"")+")'
_SPARK_TABLE = re.compile(r"(?:`(?:[^`]|``)+`|\w+)(?:\.(?:`(?:[^`]|``)+`|\w+))*")
_CLUSTER = re.compile(r"spark://[\w.,:\[\]-]+:\d+|sc://[\w.:\[\]-]+:\d+(?:/;(?!.*token)[^@]*|/?)")
_TABLE = re.compile(rf"{_WORD}(?:\.{_WORD}){{0,2}}")


@dataclass(frozen=True)
class Location:
    """Where rows are.

    Attributes:
        kind: which opener reads it: file, duckdb, postgresql or spark.
        name: what messages call it, a path as it was given; no user, parameter or query is in it.
        place: a path, what a driver connects to, or a table of Spark.
        query: SQL that gives the rows, or nothing where the place does.
        files: a folder that a query of DuckDB may read, or nothing.
        multiline: whether cells of a CSV file may hold line breaks.
        dialect: how the texts of a file are written.
    """

    kind: str
    name: str
    place: str
    query: str = ""
    files: str = ""
    multiline: bool = False
    dialect: Dialect = Dialect()


def parse(text: str) -> Location:
    """What a location says; nothing is opened.

    >>> parse("lake.duckdb#icu").query
    'SELECT * FROM icu'

    Raises:
        UsageError: a password, an unknown scheme, or a database without a query.
    """
    if not text.strip() or "\0" in text:
        raise UsageError("a location is empty or holds a zero byte; name a file or a database")
    location = _parsed(text)
    if _SECRETS_OF_QUERIES.search(location.query):
        raise UsageError(NO_PASSWORD)
    return location


def _parsed(text: str) -> Location:
    scheme = _SCHEME.match(text)
    if scheme and (known := SCHEMES.get(scheme[1].lower())):
        return known(text)
    if scheme and text.startswith("//", scheme.end()):
        raise UsageError(
            f"there is no reader for {scheme[1]}:// locations; use a path, "
            f"{', '.join(f'{name}:' for name in SCHEMES)}"
        )
    path, _, query = text.partition("#")
    if path.partition(_FILES)[0].lower().endswith(_DATABASE_FILES):
        return _database_file(path, query)
    if path.partition("?")[0].lower().endswith(_DATABASE_FILES):
        _check_database_options(path)
    return _file(text)


def _file(text: str, *, multiline: bool = False) -> Location:
    path, options = _split_options(text)
    _check_path(path)
    dialect = Dialect.parse(path, options) if options else Dialect()
    return Location("file", path, _expanded(path), multiline=multiline, dialect=dialect)


def _split_options(text: str) -> tuple[str, str]:
    """The path of a file and what is said of its dialect; a path that is there is a path."""
    match = _DIALECT.fullmatch(text)
    if match is None or _exists(_expanded(text)):
        return text, ""
    path, options = match.groups()
    known = _key(options) in OF_FILES + OF_CELLS
    return (path, options) if known or _exists(_expanded(path)) else (text, "")


def _key(options: str) -> str:
    """The first option that is said of a dialect, if it is one."""
    return re.split("[.=]", options)[0]


def _check_database_options(path: str) -> None:
    place, _, options = path.partition("?")
    if not _exists(_expanded(path)):
        _refuse_dialect(place, [_key(options)])


def _refuse_dialect(name: str, keys: Iterable[str]) -> None:
    for key in keys:
        if key in OF_FILES + OF_CELLS:
            raise UsageError(
                f"{name}: {key}= is for CSV and Parquet files; let the query give its values as "
                "schemas read them"
            )


def _database_file(path: str, query: str) -> Location:
    _check_database_options(path)
    path, files, folder = path.partition(_FILES)
    _check_path(path)
    if files and not folder:
        raise UsageError(f"{path}: files= names no folder; write {path}?files=FOLDER#QUERY")
    return Location("duckdb", path, _expanded(path), _query(path, query), _expanded(folder))


def _expanded(path: str) -> str:
    """A path with the folder of a user that `~` stands for, if there is such a user."""
    return os.path.expanduser(path)  # noqa: PTH111


def _check_path(text: str) -> None:
    """Refuses what is no path but looks like an address with a password."""
    if _LIKE_SECRETS.search(text) and not _exists(text) and not matches(text):
        raise UsageError(NO_PASSWORD)


def _exists(text: str) -> bool:
    """Whether there is such a path; one that is too long is not there either."""
    return os.path.exists(text)  # noqa: PTH110


def check_location(text: str) -> str:
    """The same text, if it is a location; nothing is opened.

    Raises:
        UsageError: a password, an unknown scheme, or a database without a query.
    """
    parse(text)
    return text


def name_of(text: str) -> str:
    """What messages may call a location: no user, parameter or query is in it.

    >>> name_of("postgresql://me@db.example.org:5433/icu?sslmode=require#SELECT * FROM stays")
    'postgresql://db.example.org:5433/icu'
    """
    return parse(text).name


def file_of(text: str) -> Path | None:
    """The path of a location, or None when its rows are not in a file of this machine.

    >>> file_of("postgresql://db.example.org/icu#stays") is None
    True
    """
    location = parse(text)
    return Path(location.place) if location.kind in ("file", "duckdb") else None


def anchored(text: str) -> str:
    """The same location with its path, if it has one, from the root.

    >>> anchored("/data/../data/lake.duckdb#icu")
    '/data/lake.duckdb#icu'
    """
    location = parse(text)
    if file_of(text) is None:
        return text
    place = os.path.abspath(location.place)  # noqa: PTH100
    scheme = text[: text.index(location.name)]
    if not location.query:
        return f"{scheme}{place}{text[len(scheme) + len(location.name) :]}"
    folder = os.path.abspath(location.files) if location.files else ""  # noqa: PTH100
    _, _, query = text.partition("#")
    return f"{scheme}{place}{_FILES if folder else ''}{folder}#{query}"


def with_options(text: str, options: str) -> str:
    """The location of a file that says more of its dialect.

    >>> with_options(with_options("stays.csv", "delimiter=;"), "decimal=,")
    'stays.csv?delimiter=;&decimal=,'
    """
    if not options:
        return text
    mark = "?" if text.endswith(parse(text).name) else "&"
    return check_location(f"{text}{mark}{options}")


def split_name(text: str) -> tuple[str | None, str]:
    """The name and the location of `NAME=LOCATION`; no name when there is none.

    >>> split_name("north=lake.db#SELECT * FROM icu WHERE ward = 'a'")
    ('north', "lake.db#SELECT * FROM icu WHERE ward = 'a'")
    >>> split_name("postgresql:///icu?service=north#stays")
    (None, 'postgresql:///icu?service=north#stays')
    """
    name, equals, location = text.partition("=")
    if not equals or re.search("[#:?]", name) or _exists(text):
        return None, text
    return (None, text) if "/" in name and matches(text) else (name, location)


def matches(text: str) -> list[Path]:
    """The files that a glob finds, in order; none for a text without wildcards.

    Raises:
        DataError: a folder may not be looked into, or a link leads nowhere.
    """
    if not has_magic(text):
        return []
    root = root_of(text)
    parts = Path(text).relative_to(root).parts
    if ".." in parts:
        raise UsageError(f"{text}: a folder above (..) cannot follow a wildcard; name it before")
    return files_below(root, parts)


def files_below(root: Path, parts: Sequence[str]) -> list[Path]:
    """The files below a folder whose path has these parts, in order; links are followed.

    Python's own globs pass over folders that may not be read and over links to folders, and rows
    would be missing without a word. What starts with a dot or an underscore is left out.

    Args:
        parts: names with wildcards; `**` stands for any number of folders.

    Raises:
        DataError: a folder may not be looked into, a link leads nowhere, or two paths lead to one
            file, by a link of either kind, whose records would count twice.
    """
    files = sorted({*_files(root, tuple(parts), (os.path.realpath(root),))})
    known: dict[tuple[int, int], Path] = {}
    for path in files:
        there = path.stat()
        if (other := known.setdefault((there.st_dev, there.st_ino), path)) != path:
            raise DataError(f"{path}: the same file as {other}, by a link; remove one of the two")
    return files


def _files(folder: Path, parts: tuple[str, ...], above: tuple[str, ...]) -> Iterator[Path]:
    first, rest = parts[0], parts[1:]
    if first == "**":
        yield from _files(folder, rest or ("*",), above)
    for path, is_folder in _listed(folder):
        if first != "**" and not fnmatchcase(path.name, first):
            continue
        if is_folder:
            real = os.path.realpath(path)
            if first == "**" and real not in above:  # a link may lead back
                yield from _files(path, parts, (*above, real))
            elif first != "**" and rest:
                yield from _files(path, rest, (*above, real))
        elif first != "**" and not rest:
            if not path.exists():
                raise DataError(f"{path}: the link leads nowhere; mend or remove it")
            if path.is_file():
                yield path


def _listed(folder: Path) -> list[tuple[Path, bool]]:
    """What is in a folder, and whether it is one; writers hide what they have not finished."""
    try:
        there = [path for path in folder.iterdir() if not path.name.startswith((".", "_"))]
        return [(path, path.is_dir()) for path in there]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise DataError(
            f"{folder}: looking into this folder failed: {error.strerror}; ask for access, or name "
            "files outside it"
        ) from None


def root_of(text: str) -> Path:
    """The folder of a glob, down to its first wildcard.

    >>> str(root_of("lake/icu/year=*/*.parquet"))
    'lake/icu'
    """
    return Path(*takewhile(lambda part: not has_magic(part), Path(text).parts))


def _duckdb(text: str) -> Location:
    path, _, query = text.partition(":")[2].partition("#")
    if not path:
        raise UsageError("duckdb: needs the path of a file; write duckdb:lake.db#TABLE")
    return _database_file(path, query)


def _csv_multiline(text: str) -> Location:
    path = text.partition(":")[2]
    if not path:
        raise UsageError("csv-multiline: needs the path of a file; write csv-multiline:stays.csv")
    return _file(path, multiline=True)


def _postgresql(text: str) -> Location:
    """A URL as libpq takes it, read by hand so that no part that may be a secret is repeated."""
    address, _, query = text.partition("#")
    if not address.partition(":")[2].startswith("//"):
        raise UsageError("a PostgreSQL location starts with postgresql://, then host, / and name")
    rest, _, parameters = address.partition("://")[2].partition("?")
    authority, _, database = rest.partition("/")
    user, _, hosts = authority.rpartition("@")
    given = {key.lower() for key, _ in parse_qsl(parameters, keep_blank_values=True)}
    # A password with "#" or "?" in it ends the address too early; the host is then further on.
    cut = re.match(r"[^=]*@", parameters) or (
        re.match(r"\S*@", query) and not _TABLE.fullmatch(query.strip())
    )
    if ":" in user or "@" in user + database or _SECRETS & given or cut:
        raise UsageError(NO_PASSWORD)
    ports = re.findall(r":([^,:\]]*)(?=,|$)", hosts)
    if not _HOSTS.fullmatch(hosts) or not all(port.isdigit() or not port for port in ports):
        raise UsageError("the host of a PostgreSQL location is not host:port; mend it")
    name = f"postgresql://{hosts}/{database}"
    _refuse_dialect(name, given)
    place = f"postgresql://{rest}" + (f"?{parameters}" if parameters else "")
    return Location("postgresql", name, place, _query(name, query))


def _spark(text: str) -> Location:
    """A table by its name, or a query, which messages do not repeat: it may name values of rows."""
    if text.partition(":")[2].startswith("//"):
        address, _, query = text.partition("#")
        if _CLUSTER.fullmatch(address) is None:
            raise UsageError(
                "a cluster of Spark is spark://host:7077 or sc://host:15002, without user and "
                "token; give a token by SPARK_CONNECT_AUTHENTICATE_TOKEN"
            )
        name = address.partition("/;")[0].rstrip("/")
        return Location("spark", name, address, _query(name, query, _SPARK_TABLE))
    said = text.partition(":")[2].strip().rstrip(";").rstrip()
    if _SPARK_TABLE.fullmatch(said):
        return Location("spark", f"spark:{said}", said)
    if not re.search(r"\s", said):
        raise UsageError("spark: needs a table or a query; write spark:TABLE or spark:SELECT ...")
    return Location("spark", "the Spark query", "", said)


SCHEMES: dict[str, Callable[[str], Location]] = {
    "csv-multiline": _csv_multiline,
    "duckdb": _duckdb,
    "postgres": _postgresql,
    "postgresql": _postgresql,
    "sc": _spark,
    "spark": _spark,
}
"""How a location that starts with a scheme is read; `sources.source` opens what is found."""


def _query(name: str, text: str, table: re.Pattern[str] = _TABLE) -> str:
    """SQL for the rows: a query as it is, or all of a table."""
    query = text.strip().rstrip(";").rstrip()
    if table.fullmatch(query):
        return f"SELECT * FROM {query}"
    if not re.search(r"\s", query):
        raise UsageError(f"{name}: say which rows: #TABLE or #SELECT ... after the location")
    return query
