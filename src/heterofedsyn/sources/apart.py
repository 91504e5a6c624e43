"""Whether tables that are given beside each other are different ones."""

from __future__ import annotations

import os
import re
from collections.abc import Hashable, Iterable, Iterator
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from heterofedsyn.errors import UsageError
from heterofedsyn.sources.location import Location, files_below, matches, parse
from heterofedsyn.sources.source import Source

_TOKEN = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|\w+|\S""", re.DOTALL
)
_PLAIN_NAME = re.compile(r'["`]([a-z_][a-z0-9_$]*)["`]')
_HERE = {"", "localhost", "127.0.0.1", "[::1]"}
_PORT = "5432"
_WHO = {"application_name", "connect_timeout", "passfile", "user"}
"""Parameters of PostgreSQL that say who asks and how, not which rows."""


def check_apart(tables: Iterable[object]) -> None:
    """Refuses tables of which one is given twice: each of its records would count twice.

    Files are told apart by what they are, not by their names: links, hard ones too, lead to the
    same rows, as does a folder to the files in it. Databases are told apart by address and query,
    objects in memory by whether they are the very same.

    Raises:
        UsageError: naming both.
    """
    known: dict[Hashable, str] = {}
    for table in tables:
        own: dict[Hashable, str] = dict(_identities(table))
        for identity, name in own.items():
            if (other := known.get(identity)) is not None:
                again = "twice" if other == name else f"again as {other}"
                raise UsageError(
                    f"{name} is given {again}: its records would count twice; leave one out"
                )
        known |= own


def _identities(table: object) -> Iterator[tuple[Hashable, str]]:
    """What a table is made of, each part with a name for messages."""
    if isinstance(table, str | os.PathLike):
        yield from _of_location(parse(os.fsdecode(table)))
        return
    name = table.name if isinstance(table, Source) else f"the same {type(table).__name__}"
    yield ("object", id(table)), name


def _of_location(location: Location) -> Iterator[tuple[Hashable, str]]:
    if location.kind == "postgresql":
        yield (_address(location.place), _tokens(location.query)), location.name
    elif location.kind == "spark":
        rows = location.query or f"SELECT * FROM {location.place}"
        yield ("spark", _tokens(rows)), location.name
    else:
        for path in _files(location.place):
            try:
                there = path.stat()
            except OSError:
                continue  # whoever opens it says what is wrong with it
            name = location.name if os.fspath(path) == location.place else str(path)
            yield (there.st_dev, there.st_ino, _tokens(location.query)), name


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
    found = []
    for token in _TOKEN.findall(query):
        if plain := _PLAIN_NAME.fullmatch(token):
            found.append(plain[1])
        elif token[0] in "'\"`":
            found.append(token)
        elif not token.startswith(("--", "/*")):
            found.append(token.lower())
    return tuple(found)


def _address(place: str) -> Hashable:
    """Which database a URL means, whoever asks."""
    rest, _, parameters = place.partition("://")[2].partition("?")
    authority, _, database = rest.partition("/")
    hosts = authority.rpartition("@")[2].lower().split(",")
    places = [re.fullmatch(r"(.*?)(?::(\d*))?", host) for host in hosts]
    servers = [(found[1], found[2] or _PORT) for found in places if found]
    given = [(key.lower(), value) for key, value in parse_qsl(parameters, keep_blank_values=True)]
    return (
        tuple(("" if host in _HERE else host, port) for host, port in servers),
        unquote(database),
        tuple(sorted(pair for pair in given if pair[0] not in _WHO and "ssl" not in pair[0])),
    )
