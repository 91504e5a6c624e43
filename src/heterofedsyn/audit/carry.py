"""A whole study through the code that carries any, with all that was said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from heterofedsyn.hub import Release
from heterofedsyn.hub.methods.base import Method
from heterofedsyn.protocol import Plan, Query
from heterofedsyn.schema import Schema
from heterofedsyn.simulate import run


@dataclass(frozen=True, eq=False)
class Transcript:
    """All messages of a study, and what came of it."""

    queries: tuple[Query, ...]
    replies: tuple[Mapping[str, bytes], ...]
    release: Release

    def asked(self, site: str) -> list[Query]:
        """The queries that this site got."""
        return [query for query in self.queries if query.to in (None, site)]


def carry(
    schema: Schema, plan: Plan, method: Method, sites: Mapping[str, run.Answering]
) -> Transcript:
    """A whole study."""
    said: list[tuple[Query, Mapping[str, bytes]]] = []
    release = run.carry(schema, plan, method, sites, lambda *heard: said.append(heard))
    return Transcript(tuple(query for query, _ in said), tuple(each for _, each in said), release)
