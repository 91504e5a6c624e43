"""Whether a query is answered depends on no row, no number of rows and no time."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from heterofedsyn.audit.clock import jumping_clock, stopped_clock
from heterofedsyn.audit.disk import SiteOnDisk
from heterofedsyn.audit.effort import Effort
from heterofedsyn.audit.exhibit import SITE, ask, plain_schema, plan_of
from heterofedsyn.audit.findings import Broken, Check, Finding, require
from heterofedsyn.audit.hearing import hear
from heterofedsyn.errors import HeterofedsynError, UsageError
from heterofedsyn.marginals import Flat, Statistic, Total
from heterofedsyn.privacy.noise import SimulatedNoise
from heterofedsyn.protocol import Study, encode
from heterofedsyn.schema import EncodedTable
from heterofedsyn.site.consent import read_consent
from heterofedsyn.site.receipt import issue
from heterofedsyn.site.signing import make_key

_SCHEMA = plain_schema(3, 2)
_ISSUED = datetime(2026, 2, 3, tzinfo=UTC)
_HASHES = ("answer", "ledger_head", "signature", "key")
"""What of a receipt follows from noisy answers, or from a key of its site."""


def checks(effort: Effort, seed: int) -> Iterator[Check]:
    """Tables of many sizes, clocks that jump, and what is written down about an answer."""
    yield "agent: tables of many sizes", partial(_sizes, effort, seed)
    yield "agent: a clock that jumps", partial(_clock, seed)
    yield "receipts", partial(_receipts, seed)


def _sizes(effort: Effort, seed: int) -> Iterator[Finding]:
    """From no row to a million, every table is answered, in messages of one length."""
    sizes = effort.sizes
    lengths = {len(_answer(rows, seed, nullcontext())) for rows in sizes}
    require(len(lengths) == 1, "the length of a message depends on the number of rows")
    yield Finding(
        "agent: tables of many sizes", True, f"{len(sizes)} tables of up to {sizes[-1]:,} rows"
    )


def _clock(seed: int) -> Iterator[Finding]:
    """An agent for which every look at a clock is an hour later answers as any other."""
    replies = {_answer(1_000, seed, clock) for clock in (nullcontext(), jumping_clock())}
    require(len(replies) == 1, "an answer depends on how long it took")
    yield Finding("agent: a clock that jumps", True, "the same bytes, an hour a step")


def _answer(rows: int, seed: int, clock: AbstractContextManager[None]) -> bytes:
    """What an agent with so many rows says."""
    codes = np.array([np.arange(rows) % 3, np.arange(rows) % 2])
    table = EncodedTable.from_codes(_SCHEMA.domain, codes)
    block = "".join(f"v{i % 3},v{i % 2}\n" for i in range(6))
    text = "a0,a1\n" + block * (rows // 6) + block[: 6 * (rows % 6)]
    plan = plan_of(_SCHEMA, seed, epsilon=1.0)
    kinds: list[Statistic] = [Total(), Flat(("a0",)), Flat(("a0", "a1"))]
    query = ask(plan, 0, kinds, plan.budget.evenly(len(kinds))[0].rho)
    with tempfile.TemporaryDirectory(prefix="heterofedsyn-audit-") as place:
        site = SiteOnDisk.make(Path(place), SITE, _SCHEMA, plan, text.encode())
        with site.serving(SimulatedNoise(seed, SITE)) as agent, clock:
            try:
                return hear(agent, query, table, plan, seed).reply
            except Broken:
                raise
            except HeterofedsynError as error:
                why = getattr(error, "reason", "an error")
                raise Broken(f"a query of {rows:,} rows is refused as {why}") from None


def _receipts(seed: int) -> Iterator[Finding]:
    """A receipt says the same whatever the rows are, but for hashes of noisy answers."""
    plan = plan_of(_SCHEMA, seed, epsilon=1.0)
    study = Study(plan=plan, schema=_SCHEMA.settings, quorum=1)
    found: list[Any] = []
    for text in (b"a0,a1\nv0,v0\nv1,v1\n", b"a0,a1\nv0,v0\nv1,v1\nv2,v1\n", b"a0,a1\n"):
        with tempfile.TemporaryDirectory(prefix="heterofedsyn-audit-") as place, stopped_clock():
            site = SiteOnDisk.make(Path(place), SITE, _SCHEMA, plan, text)
            try:
                make_key(site.settings.key)
            except UsageError as error:
                yield Finding("receipts", True, str(error))
                return
            with site.serving(SimulatedNoise(seed, SITE)) as agent:
                for number in range(2):
                    query = ask(plan, number, [Total(), Flat(("a0",))], plan.budget.rho / 4)
                    agent.answer(encode(query))
                account = agent.books.account
            consent = read_consent(site.settings.studies / plan.fingerprint / "consent.json")
            signed = issue(site.settings, study, consent, account, now=_ISSUED)
            found.append(_public(msgspec.json.decode(signed.to_bytes())))
    for other in found[1:]:
        differ = sorted(_differences(found[0], other))
        require(not differ, f"a record changes {', '.join(differ)} of a receipt")
    yield Finding("receipts", True, f"{len(found)} tables, one receipt")


def _public(value: Any) -> Any:
    """A receipt without hashes, and without times: they are those of the audit."""
    if isinstance(value, dict):
        left_out = (*_HASHES, "when", "issued")
        return {k: _public(v) for k, v in value.items() if k not in left_out}
    return [_public(v) for v in value] if isinstance(value, list) else value


def _differences(one: Any, other: Any, where: str = "") -> Iterator[str]:
    """The names of fields that differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in {*one, *other}:
            yield from _differences(one.get(name), other.get(name), name)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for first, second in zip(one, other, strict=True):
            yield from _differences(first, second, where)
    elif one != other:
        yield where
