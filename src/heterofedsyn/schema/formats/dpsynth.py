"""Domain files of google/dpsynth: YAML with possible values or a range for every attribute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heterofedsyn.errors import SchemaError
from heterofedsyn.schema._checks import shown
from heterofedsyn.schema.formats.parts import category, listed, mapping, only_table
from heterofedsyn.schema.outline import Entry, Outline
from heterofedsyn.schema.schema import Schema

_KEYS = {
    "CategoricalAttribute": ("possible_values", "out_of_domain_index"),
    "NumericalAttribute": ("min_value", "max_value", "dtype", "clip_to_range"),
    "OpenSetCategoricalAttribute": ("default_value", "public_possible_values"),
    "FreeFormTextAttribute": ("max_tokens", "formatting", "exemplar"),
}
_BOTH = ("type", "description")
_TRUTH = ["True", "False"]


def read(source: Mapping[str, Any], table: str | None = None) -> Outline:
    """The outline that a domain file describes.

    Args:
        table: which one, where a file describes several.

    Raises:
        SchemaError: it is no such file, or contradicts itself.
    """
    remarks = []
    if isinstance(source.get("tables"), Mapping) and not _is_attribute(source["tables"]):
        remarks = [f"{key} is not kept" for key in source if key != "tables"]
        source = mapping(only_table(mapping(source["tables"], "tables"), table, "table"), "a table")
    entries = [
        _entry(str(name), mapping(said, f"column {name!r}")) for name, said in source.items()
    ]
    return Outline(tuple(entries), remarks=tuple(remarks))


def write(schema: Schema) -> dict[str, Any]:
    """A domain file of the schema, as a mapping; dates and keys have no place in it."""
    attributes = {}
    for entry in schema.settings["columns"]:
        if said := _attribute(entry):
            attributes[entry["name"]] = said
    return attributes


def lost(schema: Schema) -> list[str]:
    """What a file of this format cannot say of the schema."""
    columns = schema.settings["columns"]
    absent = [entry["name"] for entry in columns if not _attribute(entry)]
    lines = ["bins, atoms, order, decimals, label, task and rules have no place in a domain file"]
    missing = [e["name"] for e in columns if e.get("nullable") and _attribute(e)]
    if missing:
        lines.append(f"missing values of {', '.join(missing)} are one more value there")
    if absent:
        lines.append(f"left out, as dates, keys and ranges of one value are: {', '.join(absent)}")
    odd = [e["name"] for e in columns if e["type"] == "categorical" and "other" not in e]
    if odd:
        lines.append(
            f"unknown values of {', '.join(odd)} count as the first value there, or as missing; "
            "here such a row does not fit"
        )
    return lines


def _is_attribute(said: Mapping[str, Any]) -> bool:
    known = {key for keys in _KEYS.values() for key in keys} | {"type"}
    return bool(known & said.keys())


def _entry(name: str, said: Mapping[str, Any]) -> Entry:
    at = f"column {shown(name)}"
    kind = said.get("type") or _kind(said)
    if not isinstance(kind, str) or kind not in _KEYS:
        raise SchemaError(
            f"{at}: {shown(kind)} is no kind of attribute; use one of {', '.join(_KEYS)}"
        )
    known = (*_KEYS[kind], *_BOTH)
    remarks = [f"description: {said['description']}"] if said.get("description") else []
    remarks += [f"{k} is not kept" for k, v in said.items() if k not in known and v is not None]
    if kind == "FreeFormTextAttribute":
        return Entry({"name": name, "type": "key"}, "it holds free text", tuple(remarks))
    if kind == "NumericalAttribute":
        return _numbers(name, said, at, remarks)
    if kind == "OpenSetCategoricalAttribute":
        default = said.get("default_value") or "<OOD>"
        public = listed(said.get("public_possible_values") or [], f"{at}: public_possible_values")
        values = list(dict.fromkeys([default, *public]))
        settings = {"name": name, "type": "categorical", "values": values, "other": default}
        remarks.append("its other values were to be found by spending budget: list those known")
        return Entry(settings, "", tuple(remarks))
    return _categories(name, said, at, remarks)


def _categories(name: str, said: Mapping[str, Any], at: str, remarks: list[str]) -> Entry:
    values = listed(said.get("possible_values"), f"{at}: possible_values")
    index = said.get("out_of_domain_index", 0)
    if type(index) is not int or not 0 <= index < len(values):
        raise SchemaError(f"{at}: out_of_domain_index must be the place of a value, from 0")
    unknown = values[index]
    missing: list[Any] = [value for value in values if value is None]
    if isinstance(values[-1], str) and said.get("description") == _stands(values[-1]):
        missing, remarks = [values[-1]], remarks[1:]
    known = [value for value in values if value not in missing]
    nullable = {"nullable": True} if missing else {}
    if known in ([False, True], [True, False]) and type(known[0]) is bool:
        return Entry({"name": name, "type": "boolean", **nullable}, "", tuple(remarks))
    if missing and known == _TRUTH:
        return Entry({"name": name, "type": "boolean", **nullable}, "", tuple(remarks))
    what = f"{at}: every possible value"
    settings = {"name": name, "type": "categorical", "values": [category(v, what) for v in known]}
    if "out_of_domain_index" not in said:
        remarks.append(
            f"unknown values count as {shown(unknown)} there; here a row with one does not fit, "
            "unless `other` names a value"
        )
    elif unknown in missing:
        remarks.append("unknown values are missing there; here a row with one does not fit")
    else:
        settings["other"] = category(unknown, what)
        remarks.append(f"unknown values become {shown(settings['other'])}")
    return Entry(settings | nullable, "", tuple(remarks))


def _stands(word: str) -> str:
    """What a description says of the value that this package wrote for missing ones."""
    return f"{word!r} stands for a missing value"


def _kind(said: Mapping[str, Any]) -> str:
    """What an attribute is, where an older file does not say it."""
    if "possible_values" in said:
        return "CategoricalAttribute"
    if "min_value" in said:
        return "NumericalAttribute"
    return "FreeFormTextAttribute" if "max_tokens" in said else "OpenSetCategoricalAttribute"


def _numbers(name: str, said: Mapping[str, Any], at: str, remarks: list[str]) -> Entry:
    dtype = said.get("dtype", "float")
    if dtype not in ("int", "float"):
        raise SchemaError(f"{at}: dtype must be int or float")
    settings: dict[str, Any] = {"name": name, "type": "integer" if dtype == "int" else "number"}
    for key, own in (("min_value", "min"), ("max_value", "max")):
        value = said.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SchemaError(f"{at}: {key} must be a number")
        if dtype == "int" and float(value).is_integer():
            value = int(value)
        settings[own] = value
    if said.get("clip_to_range") is False:
        settings["nullable"] = True
        remarks.append("values outside of the range are clamped to it; there they count as missing")
    return Entry(settings, "", tuple(remarks))


def _attribute(entry: Mapping[str, Any]) -> dict[str, Any]:
    kind = entry["type"]
    nullable = bool(entry.get("nullable"))
    if kind in ("integer", "number") and entry["min"] < entry["max"]:
        return {
            "type": "NumericalAttribute",
            "min_value": float(entry["min"]),
            "max_value": float(entry["max"]),
            "clip_to_range": not nullable,
            "dtype": "int" if kind == "integer" else "float",
        }
    if kind == "boolean" and not nullable:
        return {"type": "CategoricalAttribute", "possible_values": [False, True]}
    if kind == "boolean":
        values = list(_TRUTH)
    elif kind == "categorical":
        values = list(entry["values"])
    else:
        return {}
    said: dict[str, Any] = {"type": "CategoricalAttribute", "possible_values": values}
    if "other" in entry:
        said["out_of_domain_index"] = values.index(entry["other"])
    if nullable:  # it has no word for missing but a value
        word = next(w for w in ("", "missing", "missing value") if w not in values)
        said.setdefault("out_of_domain_index", len(values))
        said["description"] = _stands(word)
        values.append(word)
    return said
