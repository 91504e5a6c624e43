"""Schemas in formats of others: Frictionless Table Schema, SDV metadata, domains of dpsynth."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from heterofedsyn.errors import SchemaError, UsageError, did_you_mean
from heterofedsyn.schema.formats import dpsynth, frictionless, sdv
from heterofedsyn.schema.formats.parts import mapping
from heterofedsyn.schema.formats.yaml_text import from_yaml, to_yaml
from heterofedsyn.schema.outline import Outline
from heterofedsyn.schema.schema import Schema

__all__ = ["FORMATS", "MOST_BYTES", "Format", "format_of", "guessed", "parsed"]

MOST_BYTES = 2**24
"""Of a file that is imported."""


@dataclass(frozen=True)
class Format:
    """How schemas are read and written in one format.

    Attributes:
        read: an outline from what a file says, and the name of one of its tables or None.
        text: a schema as the text of a file.
        lost: what such a file cannot say of a schema, in lines for people.
    """

    read: Callable[[Mapping[str, Any], str | None], Outline]
    text: Callable[[Schema], str]
    lost: Callable[[Schema], list[str]]


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


FORMATS = {
    "frictionless": Format(
        frictionless.read, lambda schema: _json(frictionless.write(schema)), lambda schema: []
    ),
    "sdv": Format(sdv.read, lambda schema: _json(sdv.write(schema)), sdv.lost),
    "dpsynth": Format(dpsynth.read, lambda schema: to_yaml(dpsynth.write(schema)), dpsynth.lost),
}


def format_of(name: str) -> Format:
    """The format of that name.

    Raises:
        UsageError: there is none.
    """
    if name not in FORMATS:
        raise UsageError(f"there is no format {name!r}; {did_you_mean(name, FORMATS)}")
    return FORMATS[name]


def parsed(text: str) -> Mapping[str, Any]:
    """What a JSON or YAML text says.

    Raises:
        SchemaError: it is neither, or no mapping.
    """
    if text.lstrip("\ufeff \t\r\n").startswith(("{", "[")):
        try:
            value = json.loads(text.removeprefix("\ufeff"))
        except (ValueError, RecursionError) as error:
            why = error.msg if isinstance(error, json.JSONDecodeError) else "it cannot be read"
            line = f" in line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
            raise SchemaError(f"not valid JSON: {why}{line}") from None
    else:
        value = from_yaml(text)
    return mapping(value, "the file")


def guessed(source: Mapping[str, Any]) -> str:
    """The name of the format that a file is in.

    Raises:
        UsageError: it looks like none of them.
    """
    if "fields" in source or "resources" in source or "schema" in source:
        return "frictionless"
    if "METADATA_SPEC_VERSION" in source or "SCHEMA_VERSION" in source:
        return "sdv"
    if isinstance(source.get("columns"), Mapping):
        return "sdv"
    entries = source.get("tables") if isinstance(source.get("tables"), Mapping) else source
    if entries and all(isinstance(said, Mapping) for said in entries.values()):
        return "sdv" if all("columns" in said for said in entries.values()) else "dpsynth"
    raise UsageError(f"its format is not clear; name one with --format: {', '.join(FORMATS)}")
