"""Rows of one table dealt to sites by what a column of it says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from heterofedsyn.errors import UsageError, did_you_mean
from heterofedsyn.schema import CategoricalColumn, Domain, Encoded, EncodedTable, Schema
from heterofedsyn.simulate.persons import check_persons
from heterofedsyn.simulate.split import MOST_SITES

MISSING = "missing"
"""The site of rows without a value, where the schema allows that."""

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, eq=False)
class SiteColumn:
    """A column that says at which site a row is, and the public list of what it may say.

    Which sites there are follows from the list alone, whatever rows hold: a release names all of
    them, so a name taken from rows would tell that somebody has it. A row that says anything else
    does not fit, and is left out like any other that does not.

    Attributes:
        schema: by which rows are encoded before they are dealt, with this column.
        sites: their names, one for each code of the column.
        own: whether the column is there for dealing only, and no part of the release.
    """

    name: str
    schema: Schema
    sites: tuple[str, ...]
    own: bool

    @classmethod
    def of(cls, schema: Schema, name: str, names: Sequence[str] | None = None) -> SiteColumn:
        """The column of this name, of the schema or, with what it may say, beside it.

        Raises:
            UsageError: if nobody says which sites there are, or two would have one name.
        """
        if (
            any(column.name == name for column in schema.columns)
            and name not in schema.domain.names
        ):
            raise UsageError(
                f"column {name!r} is a key or follows from another column, so rows are not dealt "
                "by it; name another"
            )
        if names is None:
            values, own = _listed(schema, name), False
        elif any(column.name == name for column in schema.columns):
            raise UsageError(
                f"column {name!r} is in the schema, whose values name the sites; leave names out"
            )
        else:
            column = CategoricalColumn(name, tuple(names))
            schema = replace(schema, columns=(*schema.columns, column))
            values, own = column.values, True
        if len(values) > MOST_SITES:
            raise UsageError(f"column {name!r} names {len(values):,} sites, over {MOST_SITES:,}")
        return cls(name, schema, _as_sites(name, values), own)

    def deal(self, encoded: Encoded) -> dict[str, EncodedTable]:
        """One table per site, some of them perhaps empty.

        Raises:
            PrivacyRefusal: with a unit, somebody has rows at two sites.
        """
        table = encoded.table
        site = table.codes[table.domain.index(self.name)]
        order = np.argsort(site, kind="stable")
        members = np.split(order, np.searchsorted(site[order], np.arange(1, len(self.sites))))
        if encoded.units is not None:
            whose = [{*encoded.units[rows].tolist()} for rows in members]
            check_persons(dict(zip(self.sites, whose, strict=True)))
        table = self.without(table)
        return {name: table.take(rows) for name, rows in zip(self.sites, members, strict=True)}

    def without(self, table: EncodedTable) -> EncodedTable:
        """The rows as they are released: without a column that is there for dealing only."""
        if not self.own:
            return table
        rest = tuple(name for name in table.domain.names if name != self.name)
        domain = Domain(rest, tuple(map(table.domain.size, rest)))
        codes = np.delete(table.codes, table.domain.index(self.name), axis=0)
        return EncodedTable.from_codes(domain, codes)


def _listed(schema: Schema, name: str) -> tuple[str, ...]:
    """What a column of the schema may say, by its codes."""
    if name not in schema.domain.names:
        raise UsageError(
            f"nobody says which sites column {name!r} may name, and names taken from rows would "
            f"tell who is in them; list them (--site-column {name}=north,south, in Python "
            "site_names=[...]), or make it a categorical column of the schema; "
            f"{did_you_mean(name, schema.domain.names)}"
        )
    column = schema.column(name)
    if not isinstance(column, CategoricalColumn):
        raise UsageError(
            f"column {name!r} is of type {column.kind}, which lists no sites; make it categorical"
        )
    return (*column.values, MISSING) if column.nullable else column.values


def _as_sites(column: str, values: Sequence[str]) -> tuple[str, ...]:
    """Names that sites can have, made of values and nothing else."""
    named: dict[str, str] = {}
    for value in values:
        name = _NOT_IN_NAMES.sub("-", value).lstrip("-._")[:64] or "unnamed"
        if (first := named.setdefault(name, value)) is not value:
            raise UsageError(
                f"values {first!r} and {value!r} of column {column!r} would name one site, "
                f"{name!r}; rename one of them"
            )
    return tuple(named)
