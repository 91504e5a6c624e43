"""A question written out: every name is replaced by what it stands for, down to the columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from heterofedsyn._sql import nodes
from heterofedsyn.hub.questions.plain_select import aggregates, arguments
from heterofedsyn.hub.release.sql_reading import (
    MOST_PARTS,
    column_called,
    literal,
    parts_of,
    too_large,
)
from heterofedsyn.schema import Schema


@dataclass(frozen=True)
class Sort:
    """By which output rows are in order, and how."""

    place: int
    falling: bool
    empty_first: bool


@dataclass(frozen=True, eq=False)
class Written:
    """A SELECT whose expressions are of columns of the release.

    Attributes:
        names: what its outputs are called in small letters, where they have a name.
        groups: what it groups by, however that is said.
        keys: what rows of the result are told apart by: the same, and outputs if DISTINCT.
        conditions: WHERE and HAVING.
        order: the expressions of ORDER BY.
        sorts: the same as places among the items; none if one is something else.
        source: the SELECT behind FROM; none for the release itself.
    """

    items: tuple[Any, ...]
    names: tuple[str, ...]
    groups: tuple[Any, ...]
    keys: tuple[Any, ...]
    conditions: tuple[Any, ...]
    order: tuple[Any, ...]
    sorts: tuple[Sort, ...] | None
    source: Written | None

    @property
    def outputs(self) -> dict[str, Any]:
        """The items by name."""
        return {name: item for name, item in zip(self.names, self.items, strict=True) if name}

    @property
    def beneath(self) -> Iterator[Written]:
        """The SELECTs behind FROM, down to that of the release."""
        inner = self.source
        while inner is not None:
            yield inner
            inner = inner.source


def written_out(node: Any, schema: Schema) -> Written:
    """A question, if it is not too large.

    Raises:
        UsageError: it is.
    """
    written = _Writer(schema).select(node, {})
    known: dict[int, int] = {}
    if _size(written, known) > MOST_PARTS:
        raise too_large("the question")
    return written


def _size(written: Written, known: dict[int, int]) -> int:
    own = [*written.items, *written.groups, *written.conditions, *written.order]
    size = sum(parts_of(expression, known) for expression in own)
    return size + (0 if written.source is None else _size(written.source, known))


_APART = "told_apart"


class _Writer:
    """Writes SELECTs out; what a name stands for is one object wherever it is put."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def select(self, node: Any, around: Mapping[str, Written]) -> Written:
        """One SELECT, where these queries of WITH are known."""
        known = dict(around)
        for entry in node.get("cte_map", {}).get("map", ()):
            known[entry["key"].casefold()] = self.select(_first_select(entry["value"]), known)
        source = self._source(node["from_table"], known)
        scope = _Scope(self._schema, None if source is None else source.outputs, {}, self, known)
        items, names = [], []
        for item in node["select_list"]:
            name = _name(item)
            items.append(scope.put_in(item))
            names.append(name)
            if item.get("alias"):
                scope.aliases.setdefault(name, items[-1])
        groups = [scope.at(group, items) for group in node["group_expressions"]]
        raw = zip(node["select_list"], items, strict=True)
        plain = [item for own, item in raw if not aggregates(own)]
        if node.get("aggregate_handling") == "FORCE_AGGREGATES":
            groups += plain
        distinct = any(part["type"] == "DISTINCT_MODIFIER" for part in node["modifiers"])
        sorts = [own for part in node["modifiers"] for own in part.get("orders", ())]
        order = [scope.sorted_by(sort["expression"], items, names) for sort in sorts]
        return Written(
            tuple(items),
            tuple(names),
            tuple(groups),
            tuple([*groups, *plain] if distinct else groups),
            tuple(scope.put_in(node[part]) for part in ("where_clause", "having") if node[part]),
            tuple(order),
            _sorts(sorts, order, items),
            source,
        )

    def _source(self, table: Any, known: Mapping[str, Written]) -> Written | None:
        if table["type"] == "SUBQUERY":
            return self.select(_first_select(table["subquery"]), known)
        return known.get(str(table.get("table_name")).casefold())


@dataclass(frozen=True, eq=False)
class _Scope:
    """What words mean within one SELECT."""

    schema: Schema
    source: dict[str, Any] | None
    aliases: dict[str, Any]
    writer: _Writer
    known: Mapping[str, Written]

    def put_in(self, tree: Any) -> Any:
        """A tree with all names replaced."""
        if isinstance(tree, list):
            return [self.put_in(part) for part in tree]
        if not isinstance(tree, dict):
            return tree
        if tree.get("class") == "COLUMN_REF":
            return self._meant(tree)
        if tree.get("class") == "SUBQUERY":
            return {**tree, "subquery": self._query(tree["subquery"])}
        bare = {key: part for key, part in tree.items() if not key.startswith("query_location")}
        own = {key: self.put_in(part) for key, part in bare.items()}
        return {**own, "alias": ""} if "class" in own else own

    def at(self, tree: Any, items: list[Any]) -> Any:
        """The same, only that a whole number is an item's place."""
        place = _place(tree, len(items))
        return self.put_in(tree) if place is None else items[place]

    def sorted_by(self, tree: Any, items: list[Any], names: list[str]) -> Any:
        """The same for ORDER BY, where names of items come before those of columns."""
        path = tree.get("column_names", ())
        if len(path) == 1 and path[0].casefold() in names:
            return items[names.index(path[0].casefold())]
        return self.at(tree, items)

    def _meant(self, reference: Any) -> Any:
        path = reference["column_names"]
        word = path[-1].casefold()
        if self.source is not None:
            return self.source.get(word, self.aliases.get(word, reference))
        name = column_called(self.schema, word)
        if name is not None:
            kind = {"class": "COLUMN_REF", "type": "COLUMN_REF", "alias": ""}
            return {**kind, "column_names": [name]}
        return self.aliases.get(word, reference)

    def _query(self, query: Any) -> Any:
        """The expressions of a query within an expression."""
        own = self.writer.select(query["node"], self.known)
        levels = (own, *own.beneath)
        return {
            "parts": [part for each in levels for part in (*each.items, *each.conditions)],
            _APART: [part for each in levels for part in each.keys],
        }


def _sorts(given: list[Any], order: list[Any], items: list[Any]) -> tuple[Sort, ...] | None:
    """Items that an order is by: what a place or a name stands for is the item itself."""
    found = []
    for sort, meant in zip(given, order, strict=True):
        places = [place for place, item in enumerate(items) if item is meant or item == meant]
        if not places:
            return None
        falling, first = sort["type"] == "DESCENDING", "FIRST" in sort["null_order"]
        found.append(Sort(places[0], falling, first))
    return tuple(found)


def told_apart(written: Written) -> Iterator[Any]:
    """Expressions whose values are told apart and counted, or counted by, within a question."""
    for inner in written.beneath:
        yield from inner.keys
    for level in (written, *written.beneath):
        for part in nodes([*level.items, *level.conditions]):
            yield from part.get(_APART, ())
            if part.get("class") == "FUNCTION" and (
                part.get("distinct") or part["function_name"].lower() == "entropy"
            ):
                yield from arguments(part)


def _first_select(tree: Any) -> Any:
    return next(part for part in nodes(tree) if "select_list" in part)


def _name(item: Any) -> str:
    own = item.get("alias") or (item.get("column_names") or [""])[-1]
    return str(own).casefold()


def _place(tree: Any, many: int) -> int | None:
    """The item that a whole number in GROUP BY or ORDER BY stands for."""
    if tree.get("class") != "CONSTANT":
        return None
    try:
        place = int(literal(tree)) - 1
    except (TypeError, ValueError):
        return None
    return place if 0 <= place < many else None
