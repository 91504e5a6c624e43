"""Coupling: does a record change more than was charged, or anything un-noised?

Every check looks at what leaves with a table and with its neighbour, of one record more or less.
"""

from __future__ import annotations

from collections.abc import Iterator

from heterofedsyn.audit.cases import Case
from heterofedsyn.audit.coupling import (
    agents,
    availability,
    persons,
    prices,
    rows,
    simulations,
    spark_workers,
    studies,
)
from heterofedsyn.audit.effort import Effort
from heterofedsyn.audit.findings import Check


def checks(effort: Effort, seed: int, own: Case | None = None) -> Iterator[Check]:
    """Studies, agents, what rows and persons count as, whole simulations, and prices.

    Args:
        own: a study that takes the place of the built-in ones.
    """
    yield from studies.checks(effort, seed, own)
    yield from agents.checks(seed)
    yield from persons.checks(effort, seed)
    yield from spark_workers.checks(seed)
    yield from rows.checks(seed)
    yield from availability.checks(effort, seed)
    yield from simulations.checks(seed)
    yield from studies.release_checks(effort, seed, own)
    yield from prices.checks(effort, seed)
