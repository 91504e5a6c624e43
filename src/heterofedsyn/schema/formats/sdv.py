"""Metadata files of SDV (V1, and the older form of one table).

They say what kind of values a column holds, but neither ranges nor values: whoever imports one
fills these in from what is publicly known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from heterofedsyn.errors import SchemaError
from heterofedsyn.schema._checks import shown
from heterofedsyn.schema.formats.parts import (
    date_options,
    is_iso,
    listed,
    mapping,
    need_text,
    only_table,
)
from heterofedsyn.schema.outline import Entry, Outline
from heterofedsyn.schema.schema import Schema

VERSION = "V1"
_VERSIONS = (VERSION, "SINGLE_TABLE_V1", "MULTI_TABLE_V1")
_KNOWN = ("sdtype", "pii", "computer_representation", "datetime_format", "order", "order_by")
_TABLE_KEYS = ("columns", "primary_key", "METADATA_SPEC_VERSION", "SCHEMA_VERSION")
_PREFIX = re.compile(r"^\^?([\w-]*[A-Za-z_-])(?=\\d|\[|$)")
_TIME = re.compile(r"%[HIMSfpXcT]")
_KINDS = {"integer": "numerical", "number": "numerical", "date": "datetime", "key": "id"}


def read(source: Mapping[str, Any], table: str | None = None) -> Outline:
    """The outline of one table of a metadata file.

    Raises:
        SchemaError: it is no such file, or has several tables and none is named.
    """
    version = source.get("METADATA_SPEC_VERSION", VERSION)
    if version not in _VERSIONS:
        raise SchemaError(
            f"METADATA_SPEC_VERSION {shown(version)} is not known; save it as {VERSION}"
        )
    remarks = ["SDV does not say where values may be missing: add nullable = true there."]
    if "tables" in source:
        tables = mapping(source["tables"], "tables")
        described = mapping(only_table(tables, table, "table"), "a table")
        remarks += ["relationships of tables are not kept"] if source.get("relationships") else []
    else:
        described = source
    columns = mapping(described.get("columns"), "columns")
    primary = described.get("primary_key")
    keys = {primary} if isinstance(primary, str) else set()
    if isinstance(primary, list):
        remarks.append("primary_key: a key of several columns is not kept")
    for name in listed(described.get("alternate_keys") or [], "alternate_keys"):
        keys |= {name} if isinstance(name, str) else set()
    ignored = (*_TABLE_KEYS, "alternate_keys")
    remarks += [
        f"{key} is not kept" for key, value in described.items() if value and key not in ignored
    ]
    formats: dict[str, str] = {}
    entries = []
    for name, said in columns.items():
        entries.append(_entry(name, mapping(said, f"column {name!r}"), name in keys, formats))
    return Outline(tuple(entries), dialect=date_options(formats), remarks=tuple(remarks))


def write(schema: Schema, table: str = "table") -> dict[str, Any]:
    """Metadata of the schema; ranges, values and rules have no place in it."""
    columns = {}
    for entry in schema.settings["columns"]:
        kind = entry["type"]
        column: dict[str, Any] = {"sdtype": _KINDS.get(kind, kind)}
        if kind in ("integer", "number"):
            column["computer_representation"] = "Int64" if kind == "integer" else "Float"
        if kind in ("date", "datetime"):
            column["datetime_format"] = "%Y-%m-%d" + ("" if kind == "date" else "T%H:%M:%S")
        if kind == "categorical" and entry.get("ordered"):
            column["order"] = list(entry["values"])
        if kind == "key" and entry.get("prefix"):
            column["regex_format"] = re.escape(entry["prefix"]) + "[0-9]{9}"
        columns[entry["name"]] = column
    described: dict[str, Any] = {"columns": columns}
    keys = [name for name, column in columns.items() if column["sdtype"] == "id"]
    if keys:
        described["primary_key"] = keys[0]
    if keys[1:]:
        described["alternate_keys"] = keys[1:]
    return {"tables": {table: described}, "relationships": [], "METADATA_SPEC_VERSION": VERSION}


def lost(schema: Schema) -> list[str]:
    """What a file of this format cannot say of the schema."""
    lines = ["ranges, bins, missing values, and values without order have no place in SDV metadata"]
    if schema.label is not None or schema.settings.get("rules"):
        lines.append("label, task and rules have none either")
    return lines


def _entry(name: str, said: Mapping[str, Any], is_key: bool, formats: dict[str, str]) -> Entry:
    at = f"column {shown(name)}"
    sdtype = need_text(said.get("sdtype"), f"{at}: sdtype")
    remarks = [f"{key} is not kept" for key in said if key not in (*_KNOWN, "regex_format")]
    if is_key or sdtype == "id":
        prefix = _PREFIX.match(str(said.get("regex_format", "")))
        settings = {"name": name, "type": "key"} | ({"prefix": prefix[1]} if prefix else {})
        return Entry(settings, "", tuple(remarks))
    if sdtype == "boolean":
        return Entry({"name": name, "type": "boolean"}, "", tuple(remarks))
    if sdtype == "numerical":
        whole = "int" in str(said.get("computer_representation", "")).lower()
        if not whole and "computer_representation" not in said:
            remarks.append('write type = "integer" if its numbers are whole')
        return Entry({"name": name, "type": "integer" if whole else "number"}, "", tuple(remarks))
    if sdtype == "datetime":
        form = said.get("datetime_format")
        if isinstance(form, str) and not is_iso(form):
            formats[name] = form
        is_date = isinstance(form, str) and not _TIME.search(form)
        return Entry({"name": name, "type": "date" if is_date else "datetime"}, "", tuple(remarks))
    if sdtype == "categorical" or said.get("pii") is False:
        entry: dict[str, Any] = {"name": name, "type": "categorical"}
        if isinstance(said.get("order"), list):
            entry |= {"values": [str(value) for value in said["order"]], "ordered": True}
        elif "order_by" in said:
            entry["ordered"] = True
            remarks.append(f"order_by {said['order_by']}: list the values in that order")
        return Entry(entry, "", tuple(remarks))
    reason = f"{sdtype} tells about persons" if sdtype != "unknown" else "its sdtype is unknown"
    return Entry({"name": name, "type": "key"}, reason, tuple(remarks))
