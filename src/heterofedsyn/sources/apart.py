"""Whether tables that are given beside each other are different ones."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Hashable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from heterofedsyn.errors import HeterofedsynError, HeterofedsynWarning, UsageError
from heterofedsyn.sources.location import Location, files_below, matches, parse
from heterofedsyn.sources.source import Source

_TOKEN = re.compile(
    r"""--[^\r\n]*|/\*.*?\*/|'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\w+|\S""", re.DOTALL
)
_PLAIN_NAME = re.compile(r'["`]([a-z_][a-z0-9_$]*)["`]')
_NAME = r'(?:[^\W\d]\w*(?!\w)|"(?:[^"]|"")*"|`[^`]*`)'
_PATH = rf"{_NAME}(?: \. {_NAME})*(?! [(.])"
_ITEM = rf"(?:only |lateral )?{_PATH}(?:(?: as)?(?: {_NAME})?(?= ,))?"
_FROM = re.compile(rf"\b(?:from|join|table) ({_ITEM}(?: , {_ITEM})*)")
_TABLE = re.compile(rf"(?:only |lateral )?({_PATH})")
_OTHER_FROM = re.compile(r"\b(?:distinct|(?:extract|overlay|substring|trim) \( [^()]*) from\b")
"""FROM is a word of some functions, too."""
_DEFINED = re.compile(rf"({_NAME}) as (?:(?:not )?materialized )?\(")
_HERE = {"", "localhost", "127.0.0.1", "::1"}
_PORT = "5432"
_USUAL_SCHEMA = {"postgresql": "public", "spark": "default"}
_SPARK_CATALOGUE = "spark_catalog"

_OWN_ROWS = ", or give each query a condition that says which rows are its own"
_UNSURE = (
    "several locations are in one database: whether a record is in more than one of them cannot be "
    "told for certain from here, and then it would count twice; make sure that none is"
)


class _Part(NamedTuple):
    """Something that a table takes rows from.

    Attributes:
        identity: equal for two names of the same.
        name: what messages call it.
        chosen: whether a condition of a query says which of its rows; None if no query may.
    """

    identity: Hashable
    name: str
    chosen: bool | None = None


def check_apart(tables: Iterable[object]) -> None:
    """Refuses tables of which one is given twice: each of its records would count twice.

    Files are told apart by what they are, not by their names: links, hard ones too, lead to the
    same rows, as does a folder to the files in it. Queries of one database are told apart by the
    tables that they read, in a DuckDB file behind views too: two may share one if both choose rows
    of it by a condition. Objects in memory are told apart by whether they are the very same.

    Two locations of one server are remarked upon: its views cannot be looked into from here.

    Raises:
        UsageError: naming both.
    """
    known: dict[Hashable, _Part] = {}
    servers: list[Hashable] = []
    for table in tables:
        location = parse(os.fsdecode(table)) if isinstance(table, str | os.PathLike) else None
        parts = list(_of_object(table) if location is None else _of_location(location))
        for part in parts:
            other = known.get(part.identity)
            if other is not None and not (part.chosen and other.chosen):
                again = "twice" if other.name == part.name else f"again as {other.name}"
                raise UsageError(
                    f"{part.name} is given {again}: its records would count twice; leave one out"
                    + (_OWN_ROWS if part.chosen is not None else "")
                )
        for part in sorted(parts, key=lambda part: not part.chosen):
            known[part.identity] = part  # one reading without a condition is enough
        if location is not None and location.kind in _USUAL_SCHEMA:
            servers.append(_database(location))
    if len({*servers}) < len(servers):
        warnings.warn(_UNSURE, HeterofedsynWarning, stacklevel=3)


def _of_object(table: object) -> Iterator[_Part]:
    name = table.name if isinstance(table, Source) else f"the same {type(table).__name__}"
    yield _Part(("object", id(table)), name)


def _of_location(location: Location) -> Iterator[_Part]:
    if location.kind in _USUAL_SCHEMA:
        yield from _of_server(location)
        return
    for path, there in _stats(location.place):
        name = location.name if os.fspath(path) == location.place else str(path)
        yield _Part((there, _tokens(location.query)), name)
        if location.kind == "duckdb":
            yield from _of_database_file(location, there)


def _of_database_file(location: Location, there: Hashable) -> Iterator[_Part]:
    from heterofedsyn.sources.duckdb_query import readings

    with suppress(HeterofedsynError):  # whoever opens it says what is wrong with it
        for reading in readings(location):
            if reading.table:
                yield _Part((there, reading.table), location.name, reading.chosen)
            for _, file in _stats(reading.files) if reading.files else ():
                yield _Part((file, _tokens("")), location.name, reading.chosen)


def _of_server(location: Location) -> Iterator[_Part]:
    database = _database(location)
    query = _tokens(location.query or f"SELECT * FROM {location.place}")
    path = _search_path(location)
    yield _Part((database, path, query), location.name)
    for names in _tables_named(query):
        table = _full_name(names, location.kind, path)
        yield _Part((database, "table", table), location.name, "where" in query)


def _full_name(names: tuple[str, ...], kind: str, path: str) -> tuple[str, ...]:
    """Schema and table; a name of three begins with the database's own, or a catalogue of Spark."""
    if kind == "spark":
        names = tuple(name.strip("`").lower() for name in names)
        names = names[1:] if names[0] == _SPARK_CATALOGUE else names
    else:
        names = names[-2:]
    return names if len(names) > 1 else (path or _USUAL_SCHEMA[kind], *names)


def _stats(place: str) -> Iterator[tuple[Path, Hashable]]:
    """The files of a path, each with what it is whatever its name."""
    for path in _files(place):
        try:
            there = path.stat()
        except OSError:
            continue  # whoever opens it says what is wrong with it
        yield path, (there.st_dev, there.st_ino)


def _files(place: str) -> list[Path]:
    """The files that are read for a path: of a folder or glob, those in it."""
    path = Path(place)
    try:
        if path.is_dir():
            return files_below(path, ["**", "*"])
        return [path] if path.exists() else matches(place)
    except OSError:
        return []  # as above


def _tokens(query: str) -> tuple[str, ...]:
    """The words of a query; blanks, comments, and the case of what is not quoted say nothing.

    >>> _tokens('SELECT *  FROM "icu" -- all') == _tokens("select * from ICU")
    True
    """
    words = []
    for token in _TOKEN.findall(query):
        if plain := _PLAIN_NAME.fullmatch(token):
            words.append(plain[1])
        elif token[0] in "'\"`":
            words.append(token)
        elif not token.startswith(("--", "/*")):
            words.append(token.lower())
    return tuple(words)


def _tables_named(query: tuple[str, ...]) -> set[tuple[str, ...]]:
    """The tables after FROM and JOIN, as far as words tell; those that WITH defines are none.

    >>> sorted(_tables_named(_tokens("SELECT extract(year FROM day) FROM a.b AS x, c JOIN d")))
    [('a', 'b'), ('c',), ('d',)]
    """
    words = _OTHER_FROM.sub("", " ".join("?" if word[0] == "'" else word for word in query))
    lists = (match[1].split(" , ") for match in _FROM.finditer(words))
    paths = (_TABLE.match(item) for items in lists for item in items)
    return {tuple(path[1].split(" . ")) for path in paths if path} - {
        (name,) for name in _DEFINED.findall(words)
    }


def _search_path(location: Location) -> str:
    """What says, besides the server's own settings, in which schemas names are looked for."""
    return _parameters(location).get("options", "")


def _parameters(location: Location) -> dict[str, str]:
    given = location.place.partition("?")[2] if location.kind == "postgresql" else ""
    return {key.lower(): value for key, value in parse_qsl(given, keep_blank_values=True)}


def _database(location: Location) -> Hashable:
    """Which database a location means, whoever asks; a parameter goes before the address."""
    if location.kind == "spark":
        return "spark"
    authority, _, database = location.place.partition("://")[2].partition("?")[0].partition("/")
    given = _parameters(location)
    places = [
        re.fullmatch(r"(.*?)(?::(\d*))?", host)
        for host in unquote(authority.rpartition("@")[2]).lower().split(",")
    ]
    hosts = [match[1].strip("[]") for match in places if match]
    ports = [match[2] or "" for match in places if match]
    hosts = given["host"].lower().split(",") if "host" in given else hosts
    ports = given["port"].split(",") if "port" in given else ports
    if len(ports) != len(hosts):
        ports = ports[:1] * len(hosts)
    return (
        tuple(
            ("" if host in _HERE else host, port or _PORT)
            for host, port in zip(hosts, ports, strict=True)
        ),
        given.get("dbname", unquote(database)),
        given.get("service", ""),
    )
