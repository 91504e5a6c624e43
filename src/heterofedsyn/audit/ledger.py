"""Ledger: random histories of a site, against a model of what must have been charged.

The histories of a real agent with books on disk (see `lives`) run in a process of their own,
which forks an agent for every query and kills some of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from importlib.util import find_spec

from heterofedsyn._arrays import Integers, stream
from heterofedsyn.audit import caps, consents
from heterofedsyn.audit.effort import Effort
from heterofedsyn.audit.exhibit import SITE, plain_schema, plan_of, table_of
from heterofedsyn.audit.findings import Check, Finding, require
from heterofedsyn.errors import BudgetExceeded, UsageError
from heterofedsyn.marginals import Flat
from heterofedsyn.privacy.budget import Budget, together
from heterofedsyn.privacy.noise import SecureNoise, SimulatedNoise
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.protocol import Part, Query, encode
from heterofedsyn.site import Site

_SECONDS_PER_LIFE = 60
_MEETING_SECONDS = 0.2


def check_library() -> None:
    """Refuse to begin without hypothesis, which makes up the histories.

    Raises:
        UsageError: naming the extra.
    """
    if find_spec("hypothesis") is None:
        raise UsageError(
            "the layer `ledger` needs the extra `audit`: pip install 'heterofedsyn[audit]'"
        )


def checks(effort: Effort, seed: int) -> Iterator[Check]:
    """Caps, consent, two threads, and histories in memory and on disk."""
    yield "histories in memory", partial(_in_memory, effort, seed)
    yield from caps.checks(effort, seed)
    yield from consents.checks(seed)
    yield "two threads", partial(_at_once, seed)
    yield "histories on disk", partial(_on_disk, effort, seed)


def _in_memory(effort: Effort, seed: int) -> Iterator[Finding]:
    """A site of a simulation answers what fits, refuses the rest, and charges each query once."""
    schema = plain_schema(3, 2)
    plan = plan_of(schema, seed, epsilon=1.0)
    whole = Fraction(plan.budget.rho)
    rng = stream(seed, "histories in memory")
    table = table_of(schema, 20, rng)
    asked = refused = 0
    for life in range(10 * effort.lives):
        site = Site(SITE, table, plan, SimulatedNoise(seed + life, SITE))
        paid: dict[bytes, Fraction] = {}
        for number in range(effort.steps):
            shares = rng.uniform(0.01, 0.3, rng.integers(1, 3)).tolist()
            parts = tuple(Part(Flat(("a0",)), share) for share in shares)
            query = Query(
                study=plan.fingerprint,
                number=int(rng.integers(0, number + 1)),
                label="q",
                parts=parts,
            )
            message = encode(query)
            cost = Fraction(together(plan.budget.part(share) for share in shares).rho)
            fits = message in paid or sum(paid.values()) + cost <= whole
            try:
                site.answer(message)
            except BudgetExceeded:
                # A sum is rounded up, so what fits only just may be refused.
                require(
                    not fits or sum(paid.values()) + cost > whole * (1 - Fraction(1, 2**50)),
                    "a query that fits was refused",
                )
                refused += 1
            else:
                require(fits, "a query that does not fit was answered")
                paid.setdefault(message, cost)
            asked += 1
            spent = Fraction(site.ledger.spent.rho)
            require(sum(paid.values()) <= spent <= whole, "the ledger books less than was spent")
    yield Finding(
        "histories in memory",
        True,
        f"{10 * effort.lives:,} histories, {asked:,} queries, {refused:,} of them refused",
    )


@dataclass(frozen=True)
class _Meeting:
    """Noise that is drawn when a second thread wants some too, or when none has come."""

    both: threading.Barrier
    simulated = False

    def draw(self, terms: Terms, alone: Budget, key: bytes) -> Integers:
        with suppress(threading.BrokenBarrierError):
            self.both.wait(_MEETING_SECONDS)
        return SecureNoise().draw(terms, alone, key)


def _at_once(seed: int) -> Iterator[Finding]:
    """A site of a simulation that is asked by two threads: the same query, and two too dear."""
    schema = plain_schema(3, 2)
    plan = plan_of(schema, seed, epsilon=1.0)
    table = table_of(schema, 20, stream(seed, "histories in memory"))
    parts = (Part(Flat(("a0",)), 0.6),)
    first, second = (
        encode(Query(study=plan.fingerprint, number=number, label="q", parts=parts))
        for number in range(2)
    )
    for messages in ((first, first), (first, second)):
        site = Site(SITE, table, plan, _Meeting(threading.Barrier(2)))

        def answer(message: bytes, site: Site = site) -> bytes | None:
            try:
                return site.answer(message)
            except BudgetExceeded:
                return None

        with ThreadPoolExecutor(2) as threads:
            left = {said for said in threads.map(answer, messages) if said is not None}
        require(len(left) == 1, "two answers left at the price of one")
        require(len(site.ledger.charges) == 1, "one answer left, but not one was charged")
    yield Finding("two threads", True, "one answer to the same query, and to two too dear together")


def _on_disk(effort: Effort, seed: int) -> Iterator[Finding]:
    """An agent on disk charges, crashes, is asked again, doubled and restored."""
    command = [sys.executable, "-P", "-m", "heterofedsyn.audit.lives"]
    with tempfile.TemporaryDirectory(prefix="heterofedsyn-audit-") as place:
        done = subprocess.run(
            [*command, *map(str, (seed, effort.lives, effort.steps))],
            env={**os.environ, "HYPOTHESIS_STORAGE_DIRECTORY": place, "TMPDIR": place},
            capture_output=True,
            text=True,
            timeout=_SECONDS_PER_LIFE * effort.lives,
            check=False,
        )
    require(done.returncode == 0, f"histories broke off: {done.stderr.strip()[-300:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    yield Finding("histories on disk", found["passed"], found["figure"])
