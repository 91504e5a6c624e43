"""Frictionless Table Schema (versions 1 and 2), alone or in a resource or a data package.

What it has no word for goes into a property of its own, `heterofedsyn`, so that a schema comes back
as it was.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from heterofedsyn.errors import SchemaError
from heterofedsyn.schema._checks import no_repeats, shown
from heterofedsyn.schema._truth import NO, YES
from heterofedsyn.schema.formats.parts import (
    category,
    date_options,
    dates,
    field_of,
    is_iso,
    listed,
    mapping,
    need_text,
    only_table,
    plain_value,
    text_of,
    without_format,
)
from heterofedsyn.schema.outline import Entry, Options, Outline, option
from heterofedsyn.schema.schema import Schema

OWN = "heterofedsyn"
"""The property for what the format has no word for."""

PROFILE = "https://datapackage.org/profiles/2.0/tableschema.json"
_OWN_KEYS = ("bins", "atoms", "other", "decimals", "prefix")
_KINDS = {
    "integer": "integer",
    "year": "integer",
    "number": "number",
    "boolean": "boolean",
    "date": "date",
    "datetime": "datetime",
    "string": "categorical",
    "any": "categorical",
    "yearmonth": "categorical",
}
_DESCRIPTIONS = ("title", "description", "example", "rdfType")
_FIELD_KEYS = (
    *("name", "type", "format", "constraints", "categories", "categoriesOrdered", OWN),
    *("missingValues", "decimalChar", "groupChar", "bareNumber", "trueValues", "falseValues"),
    *_DESCRIPTIONS,
)
_SCHEMA_KEYS = (
    "$schema",
    "fields",
    "fieldsMatch",
    "missingValues",
    "primaryKey",
    "uniqueKeys",
    OWN,
)
_MOST_LABELS = 20
_CONSTRAINTS = (
    *("required", "unique", "enum"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
)


def read(source: Mapping[str, Any], table: str | None = None) -> Outline:
    """The outline that a Table Schema, a resource or a data package describes.

    Args:
        table: which resource of a package, if it has several with a schema.

    Raises:
        SchemaError: it is none of these, or contradicts itself.
    """
    resource = _resource(source, table)
    schema = resource["schema"]
    fields = [mapping(entry, "a field") for entry in listed(schema.get("fields"), "fields")]
    keys = _keys(schema)
    no_repeats([field["name"] for field in fields if isinstance(field.get("name"), str)], "field")
    nulls = _missing(schema, "the schema")
    entries = tuple(_entry(field, keys) for field in fields)
    own = mapping(schema.get(OWN, {}), OWN)
    dialect = {**_dialect(resource), **_nulls(nulls), **_field_options(fields, nulls)}
    return Outline(
        entries,
        own.get("label"),
        own.get("task"),
        tuple(_rule(rule, entries) for rule in listed(own.get("rules", []), "rules")),
        dialect,
        tuple(_lost(schema)),
    )


def write(schema: Schema) -> dict[str, Any]:
    """The schema as a Table Schema; `read` gives it back."""
    settings = schema.settings
    fields = [_field(entry) for entry in settings["columns"]]
    keys = [field["name"] for field in fields if field["constraints"].get("unique")]
    descriptor: dict[str, Any] = {"$schema": PROFILE, "fields": fields}
    if len(keys) == 1:
        descriptor["primaryKey"] = keys
    own = {key: value for key, value in settings.items() if key != "columns"}
    return descriptor | ({OWN: plain_value(own)} if own else {})


# READING


def _resource(source: Mapping[str, Any], table: str | None) -> Mapping[str, Any]:
    """What a schema stands in: a resource, or nothing around it."""
    if "fields" in source:
        return {"schema": source}
    if "resources" in source:
        resources = [
            mapping(item, "a resource") for item in listed(source["resources"], "resources")
        ]
        tables = {str(item.get("name", place)): item for place, item in enumerate(resources, 1)}
        described = {name: item for name, item in tables.items() if "schema" in item}
        source = only_table(described, table, "resource with a schema")
    if isinstance(source.get("schema"), str):
        raise SchemaError(
            "the schema is in another file, which its resource names; import that one"
        )
    return {**source, "schema": mapping(source.get("schema"), "the schema")}


def _keys(schema: Mapping[str, Any]) -> set[str]:
    """Columns whose values are all different by themselves."""
    primary = schema.get("primaryKey", [])
    keys = set() if isinstance(primary, list) and len(primary) != 1 else {text_of(primary)}
    for key in listed(schema.get("uniqueKeys", []), "uniqueKeys"):
        if isinstance(key, str) or len(listed(key, "a unique key")) == 1:
            keys.add(text_of(key))
    for field in schema["fields"]:
        if mapping(field.get("constraints", {}), "constraints").get("unique") is True:
            keys.add(need_text(field.get("name"), "the name of a field"))
    return keys


def _entry(field: Mapping[str, Any], keys: Collection[str]) -> Entry:
    name = need_text(field.get("name"), "the name of a field")
    at = f"column {shown(name)}"
    given = need_text(field.get("type", "any"), f"{at}: type")
    constraints = mapping(field.get("constraints", {}), f"{at}: constraints")
    remarks = [f"{key}: {field[key]}" for key in _DESCRIPTIONS if field.get(key)]
    remarks += [*_labels(field), *_not_kept(field, given, constraints)]
    own = mapping(field.get(OWN, {}), f"{at}: {OWN}")
    required = constraints.get("required") is True
    settings: dict[str, Any] = {"name": name}
    if name in keys:
        if "prefix" not in own and given in ("string", "any"):
            remarks.append('its ids are numbers here; prefix = "..." makes them text')
        settings |= {"type": "key"} | {key: own[key] for key in ("prefix",) if key in own}
        return Entry(settings, "", tuple(remarks))
    if given not in _KINDS:
        reason = f"there is no type for {given}; perhaps a column made of it has one"
        return Entry({**settings, "type": "categorical"}, reason, tuple(remarks))
    settings |= _values(field, given, constraints, at, remarks)
    settings |= {key: own[key] for key in _OWN_KEYS if key in own}
    if not required:
        settings["nullable"] = True
    if given in ("string", "any") and "values" not in settings:
        formats = {"email": "addresses", "uri": "addresses", "uuid": "ids", "binary": "bytes"}
        if (what := formats.get(str(field.get("format")))) is not None:
            return Entry({"name": name, "type": "key"}, f"it holds {what}", tuple(remarks))
    return Entry(settings, "", tuple(remarks))


def _values(
    field: Mapping[str, Any],
    given: str,
    constraints: Mapping[str, Any],
    at: str,
    remarks: list[str],
) -> dict[str, Any]:
    """Type, and values or range."""
    kind = _KINDS[given]
    values = constraints.get("enum")
    if values is None and "categories" in field:
        values = [
            item.get("value") if isinstance(item, Mapping) else item
            for item in listed(field["categories"], f"{at}: categories")
        ]
    if given == "yearmonth" and values is None:
        values = _months(constraints)
    if kind == "boolean":
        if values is not None:
            remarks.append("enum is not kept for truth values")
        return {"type": kind}
    if values is not None:
        values = listed(values, f"{at}: enum")
        whole = _whole(values, field) if kind == "integer" else set()
        if whole and len(whole) == len(values) == max(whole) - min(whole) + 1:
            return {"type": kind, "min": min(whole), "max": max(whole)}
        if kind != "categorical":
            remarks.append(f"its {given} values are listed, so they come back as text")
        ordered = field.get("categoriesOrdered") is True or given == "yearmonth"
        point, what = text_of(field.get("decimalChar", ".")), f"{at}: every value of enum"
        words = [
            category(v, what).replace(".", point) if isinstance(v, float) else category(v, what)
            for v in values
        ]
        listing = {"type": "categorical", "values": words}
        return listing | ({"ordered": True} if ordered else {})
    return {"type": kind} | _ends(kind, field, constraints, at, remarks)


def _ends(
    kind: str, field: Mapping[str, Any], constraints: Mapping[str, Any], at: str, remarks: list[str]
) -> dict[str, Any]:
    """The ends of a range, as far as they are told; the narrower one where both kinds are."""
    if kind == "categorical":
        return {}
    ends: dict[str, Any] = {}
    for key, end, step, inner in (("min", "inimum", 1, max), ("max", "aximum", -1, min)):
        told = []
        for word in (f"m{end}", f"exclusiveM{end}"):
            if (value := constraints.get(word)) is None:
                continue
            value = field_of(kind, without_format(value, field, kind), f"{at}: {word}")
            if word.startswith("exclusive"):
                value = _inside(kind, value, step)
                if kind == "number":
                    remarks.append(f"{word}: the end itself belongs to the range here")
            told.append(value)
        if told:
            ends[key] = inner(told)
    return ends


def _inside(kind: str, value: Any, step: int) -> Any:
    """The nearest value inside an end that does not belong to a range; of numbers none is."""
    if kind == "number":
        return value
    if kind == "integer":
        return value + step
    try:
        return value + (timedelta(days=step) if kind == "date" else timedelta(seconds=step))
    except OverflowError:
        return value


def _months(constraints: Mapping[str, Any]) -> list[str] | None:
    ends = [str(constraints.get(key)) for key in ("minimum", "maximum")]
    if not all(re.fullmatch(r"[0-9]{4}-(0[1-9]|1[0-2])", end) for end in ends):
        return None
    low, high = (int(end[:4]) * 12 + int(end[5:]) - 1 for end in ends)
    return [f"{month // 12:04}-{month % 12 + 1:02}" for month in range(low, high + 1)]


def _whole(values: Sequence[object], field: Mapping[str, Any]) -> set[int]:
    """Those values that are whole numbers."""
    said = [without_format(value, field, "integer") for value in values]
    return {
        int(value)
        for value in said
        if type(value) is int
        or (isinstance(value, str) and re.fullmatch("[+-]?[0-9]{1,18}", value))
    }


def _labels(field: Mapping[str, Any]) -> list[str]:
    """What categories are called, which has no place here."""
    said = field.get("categories")
    items = [item for item in said if isinstance(item, Mapping)] if isinstance(said, list) else []
    labels = [f"{item.get('value')} = {item['label']}" for item in items if item.get("label")]
    more = ", ..." if len(labels) > _MOST_LABELS else ""
    return [f"labels: {', '.join(labels[:_MOST_LABELS])}{more}"] if labels else []


def _not_kept(field: Mapping[str, Any], given: str, constraints: Mapping[str, Any]) -> list[str]:
    """What a field says that no schema here can say."""
    lines = [f"constraint {key} is not kept" for key in constraints if key not in _CONSTRAINTS]
    if field.get("bareNumber") is False:
        lines.append("cells with letters around the number (bareNumber) do not fit; strip them")
    for key, usual in (("trueValues", (*YES, "1")), ("falseValues", (*NO, "0"))):
        given_words = {str(word).strip().lower() for word in listed(field.get(key, []), key)}
        if given == "boolean" and given_words.difference(usual):
            lines.append(f"{key}: other words than the usual ones for true and false do not fit")
    if given == "year":
        lines.append("a year is a whole number here")
    form = str(field.get("format", "default")).removeprefix("fmt:")
    if given in ("date", "datetime") and form == "any":
        lines.append("format any: say in the location how dates are written, or write them as ISO")
    lines += [f"{key} is not kept" for key in field if key not in _FIELD_KEYS]
    return lines


def _lost(schema: Mapping[str, Any]) -> list[str]:
    lines = []
    primary = schema.get("primaryKey", [])
    if isinstance(primary, list) and len(primary) > 1:
        lines.append("primaryKey: a key of several columns is not kept")
    several = [key for key in schema.get("uniqueKeys", []) if not isinstance(key, str)]
    if any(len(key) > 1 for key in several):
        lines.append("uniqueKeys: keys of several columns are not kept")
    lines += [f"{key} is not kept" for key in schema if key not in _SCHEMA_KEYS]
    return lines


def _rule(rule: object, entries: Sequence[Entry]) -> Mapping[str, Any]:
    """A rule with dates for the texts that JSON has in their place."""
    said = dict(mapping(rule, "a rule"))
    dated = {e.name for e in entries if e.settings.get("type") in ("date", "datetime")}
    if isinstance(said.get("never"), Mapping):
        said["never"] = {
            name: dates(given, f"a rule: {name}") if name in dated else given
            for name, given in said["never"].items()
        }
    return said


# WHAT THE LOCATION MUST SAY


def _missing(source: Mapping[str, Any], what: str) -> list[str] | None:
    if "missingValues" not in source:
        return None
    return [
        need_text(item.get("value") if isinstance(item, Mapping) else item, "a missing value")
        for item in listed(source["missingValues"], f"{what}: missingValues")
    ]


def _nulls(values: Sequence[str] | None, column: str = "") -> Options:
    words = [value for value in values or [] if value]
    return option("null", *words, column=column) if words else {}


def _dialect(resource: Mapping[str, Any]) -> Options:
    """What a resource says of its file."""
    options: dict[tuple[str, str], tuple[str, ...]] = {}
    dialect = resource.get("dialect")
    delimiter = dialect.get("delimiter") if isinstance(dialect, Mapping) else None
    if isinstance(delimiter, str) and delimiter != ",":
        options |= option("delimiter", delimiter)
    encoding = resource.get("encoding")
    if isinstance(encoding, str) and encoding.lower() not in ("utf-8", "utf8"):
        options |= option("encoding", encoding)
    return options


def _field_options(fields: Sequence[Mapping[str, Any]], nulls: Sequence[str] | None) -> Options:
    options: dict[tuple[str, str], tuple[str, ...]] = {}
    formats: dict[str, str] = {}
    for field in fields:
        name, given = str(field.get("name")), field.get("type")
        if given == "number" and field.get("decimalChar", ".") != ".":
            options |= option("decimal", text_of(field["decimalChar"]), column=name)
        if given in ("number", "integer") and field.get("groupChar"):
            options |= option("thousands", text_of(field["groupChar"]), column=name)
        if given == "integer" and field.get("groupChar") == ".":
            options |= option("decimal", ",", column=name)  # a point cannot be both
        form = str(field.get("format", "default")).removeprefix("fmt:")
        if given in ("date", "datetime") and "%" in form and not is_iso(form):
            formats[name] = form
        if (own := _missing(field, f"column {name!r}")) is not None and own != nulls:
            options |= _nulls(own, name)
    return {**options, **date_options(formats)}


# WRITING


def _field(entry: Mapping[str, Any]) -> dict[str, Any]:
    kind = entry["type"]
    constraints: dict[str, Any] = {"required": not entry.get("nullable", False)}
    field: dict[str, Any] = {"name": entry["name"], "type": kind, "constraints": constraints}
    if kind == "key":
        field["type"] = "string" if entry.get("prefix") else "integer"
        constraints |= {"required": True, "unique": True}
    if kind == "categorical":
        field["type"] = "string"
        constraints["enum"] = list(entry["values"])
        if entry.get("ordered"):
            field |= {"categories": list(entry["values"]), "categoriesOrdered": True}
        if "" in entry["values"]:
            field["missingValues"] = []  # else the empty text would be missing
    for key, name in (("min", "minimum"), ("max", "maximum")):
        if key in entry:
            constraints[name] = plain_value(entry[key])
    own = {key: plain_value(entry[key]) for key in _OWN_KEYS if key in entry}
    return field | ({OWN: own} if own else {})
