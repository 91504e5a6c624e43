"""Which tables and files a query of DuckDB reads, by what its own parser made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from heterofedsyn._sql import nodes

_FILE_READERS = ("read_parquet", "parquet_scan")
_USUAL = "main"

Name = tuple[str, str]
"""Schema and name of a table or view."""


class Reading(NamedTuple):
    """What a query takes rows from.

    Attributes:
        table: schema and name of a table of the file, in small letters; None if it is none.
        files: a path or glob, if it is no table.
        chosen: whether a WHERE says which rows.
    """

    table: Name | None
    files: str
    chosen: bool


@dataclass(frozen=True)
class _Scope:
    """What stands around a part of a query."""

    chosen: bool = False
    home: str = _USUAL
    """The schema of the view that it is in."""
    named: frozenset[str] = frozenset()
    """Names that WITH gave to something else than a table."""
    around: frozenset[object] = frozenset()
    """Views and macros that it is in."""

    def of(self, definition: object, home: str) -> _Scope:
        """Inside a view or macro, which sees no name of the query that uses it."""
        return replace(self, home=home, named=frozenset(), around=self.around | {definition})


@dataclass(frozen=True)
class Catalogue:
    """The names of a DuckDB file, all in small letters: it tells no capitals from them.

    Attributes:
        tables: by schema and name.
        views: their queries.
        macros: theirs, by name alone.
        parse: the tree of a query.
    """

    tables: frozenset[Name]
    views: Mapping[Name, str]
    macros: Mapping[str, Sequence[str]]
    parse: Callable[[str], object]

    def readings(self, query: str) -> list[Reading]:
        """The tables and files behind a query, its views and macros."""
        return list(self._read(self.parse(query), _Scope()))

    def _read(self, tree: object, scope: _Scope) -> Iterator[Reading]:
        if isinstance(tree, list):
            for part in tree:
                yield from self._read(part, scope)
        if not isinstance(tree, dict):
            return
        scope = replace(scope, chosen=scope.chosen or bool(tree.get("where_clause")))
        for entry in (tree.get("cte_map") or {}).get("map", ()):
            yield from self._read(entry["value"], scope)
            scope = replace(scope, named=scope.named | {entry["key"].lower()})
        for key, part in tree.items():
            if key != "cte_map":
                yield from self._read(part, scope)
        if tree.get("type") == "BASE_TABLE":
            yield from self._table(tree, scope)
        if "function_name" in tree:
            yield from self._function(tree, scope)

    def _table(self, node: dict[str, Any], scope: _Scope) -> Iterator[Reading]:
        schema, name = (str(node.get(key) or "").lower() for key in ("schema_name", "table_name"))
        if not schema and name in scope.named:
            return
        everything = self.tables | {*self.views}
        tables = {(place, name) for place in ([schema] if schema else [_USUAL, scope.home])}
        # What stands in the place of a schema may be the file's own name.
        tables = (tables & everything) or ({(_USUAL, name)} & everything)
        if not tables:
            yield Reading(None, str(node["table_name"]), scope.chosen)
        for known in sorted(tables):
            if known in self.tables:
                yield Reading(known, "", scope.chosen)
            elif known not in scope.around:
                yield from self._read(self.parse(self.views[known]), scope.of(known, known[0]))

    def _function(self, node: dict[str, Any], scope: _Scope) -> Iterator[Reading]:
        name = str(node["function_name"]).lower()
        if name in _FILE_READERS:
            for argument in nodes(node["arguments"]):
                if isinstance(literal := argument.get("literal"), dict):
                    yield Reading(None, str(literal.get("text", "")), scope.chosen)
        elif name not in scope.around:
            for query in self.macros.get(name, ()):
                yield from self._read(self.parse(query), scope.of(name, _USUAL))
