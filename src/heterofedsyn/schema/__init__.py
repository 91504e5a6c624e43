"""The public schema, and tables encoded by it; nothing here comes from a private row."""

from __future__ import annotations

from heterofedsyn.schema.atoms import with_atoms
from heterofedsyn.schema.binned import DateColumn, DatetimeColumn, IntegerColumn, NumberColumn
from heterofedsyn.schema.columns import BooleanColumn, CategoricalColumn, Column, KeyColumn
from heterofedsyn.schema.domain import Clique, Domain
from heterofedsyn.schema.draft import draft
from heterofedsyn.schema.fit import Fit
from heterofedsyn.schema.rulebook import Rulebook
from heterofedsyn.schema.rules import Determines, Never, Order
from heterofedsyn.schema.schema import Schema
from heterofedsyn.schema.table import Encoded, EncodedTable, Encoder, decode, encode

__all__ = [
    "BooleanColumn",
    "CategoricalColumn",
    "Clique",
    "Column",
    "DateColumn",
    "DatetimeColumn",
    "Determines",
    "Domain",
    "Encoded",
    "EncodedTable",
    "Encoder",
    "Fit",
    "IntegerColumn",
    "KeyColumn",
    "Never",
    "NumberColumn",
    "Order",
    "Rulebook",
    "Schema",
    "decode",
    "draft",
    "encode",
    "with_atoms",
]
