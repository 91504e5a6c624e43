"""The public schema, and tables encoded by it; nothing here comes from a private row."""

from __future__ import annotations

from heterofedsyn.schema.atoms import with_atoms
from heterofedsyn.schema.columns import (
    BooleanColumn,
    CategoricalColumn,
    Column,
    DatetimeColumn,
    IntegerColumn,
    NumberColumn,
)
from heterofedsyn.schema.domain import Clique, Domain
from heterofedsyn.schema.draft import draft
from heterofedsyn.schema.schema import Schema
from heterofedsyn.schema.table import Encoded, EncodedTable, Encoder, Fit, decode, encode

__all__ = [
    "BooleanColumn",
    "CategoricalColumn",
    "Clique",
    "Column",
    "DatetimeColumn",
    "Domain",
    "Encoded",
    "EncodedTable",
    "Encoder",
    "Fit",
    "IntegerColumn",
    "NumberColumn",
    "Schema",
    "decode",
    "draft",
    "encode",
    "with_atoms",
]
