"""A schema as plain settings, the way its TOML file says it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from heterofedsyn.errors import SchemaError
from heterofedsyn.schema._checks import hint, shown
from heterofedsyn.schema.binned import DateColumn, DatetimeColumn, IntegerColumn, NumberColumn
from heterofedsyn.schema.columns import BooleanColumn, CategoricalColumn, Column, KeyColumn
from heterofedsyn.schema.rules import Rule, rules_of, settings_of

MOST_ALL_CODES = 2**22
"""Of all columns together: 64 columns of as many codes as a column may have."""

KINDS: dict[str, type[Column]] = {
    kind.kind: kind
    for kind in (
        IntegerColumn,
        NumberColumn,
        CategoricalColumn,
        BooleanColumn,
        DatetimeColumn,
        DateColumn,
        KeyColumn,
    )
}


def read(
    settings: Mapping[str, Any],
) -> tuple[tuple[Column, ...], str | None, str | None, tuple[Rule, ...]]:
    """The columns, label, task and rules of a mapping shaped like the TOML."""
    _check_keys(settings, ("label", "task", "columns", "rules"), "the schema")
    entries = settings.get("columns", ())
    if not isinstance(entries, list | tuple):
        raise SchemaError("columns must be a list of tables; start each with [[columns]]")
    columns: list[Column] = []
    codes = 0
    for place, entry in enumerate(entries, start=1):
        columns.append(_column(entry, place))
        codes += columns[-1].size
        # Checked on the way: a short file can ask for more than any memory holds.
        if codes > MOST_ALL_CODES:
            raise SchemaError(
                f"the first {place:,} columns have {codes:,} codes, more than {MOST_ALL_CODES:,}; "
                "use fewer bins or values"
            )
    rules = rules_of(settings.get("rules", ()), columns)
    return tuple(columns), settings.get("label"), settings.get("task"), rules


def write(
    columns: tuple[Column, ...], label: str | None, task: str | None, rules: tuple[Rule, ...]
) -> dict[str, Any]:
    """The same as a mapping, with what is left at its default left out."""
    settings: dict[str, Any] = {"label": label, "task": task}
    settings = {key: value for key, value in settings.items() if value is not None}
    settings["columns"] = [_entry(column) for column in columns]
    return {**settings, "rules": settings_of(rules, columns)} if rules else settings


def _column(entry: object, place: int) -> Column:
    if not isinstance(entry, Mapping):
        raise SchemaError(f"column {place} must be a table; start it with [[columns]]")
    name = entry.get("name")
    if not name:
        raise SchemaError(f'column {place} has no name; add name = "..."')
    at = f"column {shown(name)}"
    if "type" not in entry:
        raise SchemaError(f"{at} has no type; add type = one of {', '.join(KINDS)}")
    kind = KINDS.get(entry["type"]) if isinstance(entry["type"], str) else None
    if kind is None:
        given = entry["type"]
        raise SchemaError(f"{at} has the unknown type {shown(given)}; {hint(given, KINDS)}")
    fields = _fields(kind)
    _check_keys(entry, ("type", *(field.name for field in fields)), f"{at} of type {kind.kind}")
    for field in fields:
        if field.default is dataclasses.MISSING and field.name not in entry:
            raise SchemaError(f"{at} of type {kind.kind} needs {field.name}; add it")
    return kind(**{key: value for key, value in entry.items() if key != "type"})


def _check_keys(entry: Mapping[str, Any], known: tuple[str, ...], what: str) -> None:
    for key in entry:
        if key not in known:
            raise SchemaError(f"{what} has the unknown key {key!r}; {hint(key, known)}")


def _entry(column: Column) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": column.name, "type": column.kind}
    for field in sorted(_fields(type(column)), key=lambda field: field.kw_only is True):
        value = getattr(column, field.name)
        if value != field.default:
            entry[field.name] = list(value) if isinstance(value, tuple) else value
    return entry


def _fields(kind: type[Column]) -> list[dataclasses.Field[Any]]:
    """What a file says of a column; where its bins are cut the rules say."""
    return [field for field in dataclasses.fields(kind) if "from_rules" not in field.metadata]
