"""What an agent shows beside its counts: whether and how it answers depends on no row and no time.

Tables of many sizes, clocks that jump, receipts, and the socket: who hears what, byte by byte, and
what the steward's log holds.
"""

from __future__ import annotations

import socket
import stat
import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from heterofedsyn.audit.coupling.answers import examine
from heterofedsyn.audit.effort import Effort
from heterofedsyn.audit.findings import Broken, Check, require
from heterofedsyn.audit.fixtures import (
    SITE,
    SiteOnDisk,
    ask,
    ask_all,
    listening,
    plain_schema,
    plan_of,
    query_of,
    serving,
    temporary_folder,
)
from heterofedsyn.audit.patches import jumping_clock, patched, stopped_clock
from heterofedsyn.errors import HeterofedsynError, UsageError
from heterofedsyn.marginals import Flat, Total
from heterofedsyn.privacy.noise import SecureNoise, SimulatedNoise
from heterofedsyn.protocol import Study, encode
from heterofedsyn.schema import EncodedTable
from heterofedsyn.site import agent as agent_module
from heterofedsyn.site import server as server_module
from heterofedsyn.site.consent import read_consent
from heterofedsyn.site.receipt import issue
from heterofedsyn.site.signing import make_key

_SCHEMA = plain_schema(3, 2)
_ISSUED = datetime(2026, 2, 3, tzinfo=UTC)
_HASHES = ("answer", "ledger_head", "signature", "key")
"""What of a receipt follows from noisy answers, or from a key of its site."""

_SECRET = "a value of a record"
_REFUSAL = 9
"""Bytes of a refusal: its reason, and the length of nothing."""

_SECONDS = 30.0


def checks(effort: Effort, seed: int) -> Iterator[Check]:
    """Tables of many sizes, clocks that jump, and what is written down about an answer."""
    yield "agent: tables of many sizes", partial(_sizes, effort, seed)
    yield "agent: a clock that jumps", partial(_clock, seed)
    yield "receipts", partial(_receipts, seed)
    yield "agent: its socket", partial(_socket, seed)


def _sizes(effort: Effort, seed: int) -> str:
    """From no row to a million, every table is answered, in messages of one length."""
    sizes = effort.sizes
    lengths = {len(_answer(rows, seed, nullcontext())) for rows in sizes}
    require(len(lengths) == 1, "the length of a message depends on the number of rows")
    return f"{len(sizes)} tables of up to {sizes[-1]:,} rows"


def _clock(seed: int) -> str:
    """An agent for which every look at a clock is an hour later answers as any other."""
    replies = {_answer(1_000, seed, clock) for clock in (nullcontext(), jumping_clock())}
    require(len(replies) == 1, "an answer depends on how long it took")
    return "the same bytes, an hour a step"


def _answer(rows: int, seed: int, clock: AbstractContextManager[None]) -> bytes:
    """What an agent with so many rows says."""
    codes = np.array([np.arange(rows) % 3, np.arange(rows) % 2])
    table = EncodedTable.from_codes(_SCHEMA.domain, codes)
    block = "".join(f"v{i % 3},v{i % 2}\n" for i in range(6))
    text = "a0,a1\n" + block * (rows // 6) + block[: 6 * (rows % 6)]
    plan = plan_of(_SCHEMA, seed, epsilon=1.0)
    query = ask_all(plan, [Total(), Flat(("a0",)), Flat(("a0", "a1"))])
    noise = SimulatedNoise(seed, SITE)
    with serving(_SCHEMA, text.encode(), plan, noise=noise) as agent, clock:
        try:
            return examine(agent, query, table, plan, seed).reply
        except Broken:
            raise
        except HeterofedsynError as error:
            why = getattr(error, "reason", "an error")
            raise Broken(f"a query of {rows:,} rows is refused as {why}") from None


def _receipts(seed: int) -> str:
    """A receipt says the same whatever the rows are, but for hashes of noisy answers."""
    plan = plan_of(_SCHEMA, seed, epsilon=1.0)
    study = Study(plan=plan, schema=_SCHEMA.settings, quorum=1)
    receipts: list[Any] = []
    for text in (b"a0,a1\nv0,v0\nv1,v1\n", b"a0,a1\nv0,v0\nv1,v1\nv2,v1\n", b"a0,a1\n"):
        with temporary_folder() as place, stopped_clock():
            site = SiteOnDisk.make(place, _SCHEMA, text, plan)
            try:
                make_key(site.settings.key)
            except UsageError as error:
                return str(error)

            with site.serving(SimulatedNoise(seed, SITE)) as agent:
                for number in range(2):
                    query = ask(plan, number, [Total(), Flat(("a0",))], plan.budget.rho / 4)
                    agent.answer(encode(query))
                account = agent.books.account
            consent = read_consent(site.settings.studies / plan.fingerprint / "consent.json")
            signed = issue(site.settings, study, consent, account, now=_ISSUED)
            receipts.append(_public(msgspec.json.decode(signed.to_bytes())))
    for other in receipts[1:]:
        differ = sorted(_differences(receipts[0], other))
        require(not differ, f"a record changes {', '.join(differ)} of a receipt")
    return f"{len(receipts)} tables, one receipt"


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


def _socket(seed: int) -> str:
    """Who hears what through a socket, byte by byte, and what the steward's log holds."""
    if not hasattr(socket, "SO_PEERCRED"):
        return "no agent serves on this operating system"
    plan = plan_of(_SCHEMA, seed, epsilon=1.0)

    def query(label: str, share: float = 0.1) -> bytes:
        return encode(query_of(plan, Flat(("a0",)), share=share, label=label))

    def surprise(*given: object, **options: object) -> None:
        raise ValueError(_SECRET)

    log: list[str] = []
    with serving(_SCHEMA, b"a0,a1\nv0,v0\nv1,v1\n", plan, noise=SecureNoise()) as site:
        path = site.settings.socket
        with listening(site, log.append):
            for what in (path, path.parent):
                require(
                    not stat.S_IMODE(what.stat().st_mode) & 0o007, f"{what.name} is open to all"
                )
            for refused in (b"no message", query("twice", 2.0), query("x" * 1_000)):
                _check_refusal(_said(path, refused), "a malformed query")
            with patched(agent_module, count=surprise):
                _check_refusal(_said(path, query("surprise")), "a surprise in the rows")
            stranger = max(site.settings.askers()) + 1
            with patched(server_module, _peer=lambda *given: stranger):
                require(_said(path, query("stranger")) == b"", "a stranger was answered")
            require(len(_said(path, query("good"))) > _REFUSAL, "what was approved is refused")
    require(not any(_SECRET in line for line in log), "a value of a record is in the log")
    return f"6 requests, {len(log)} lines of the log"


def _check_refusal(said: bytes, what: str) -> None:
    reason_alone = len(said) == _REFUSAL and said[0] > 0 and not any(said[1:])
    require(reason_alone, f"{what}: a hub hears more than a reason")


def _said(path: Path, message: bytes) -> bytes:
    """All that a socket says to a message until it is closed."""
    heard = b""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_SECONDS)
        connection.connect(str(path))
        try:
            connection.sendall(struct.pack(">Q", len(message)) + message)
            while said := connection.recv(2**16):
                heard += said
        except (BrokenPipeError, ConnectionResetError):
            pass  # it was closed at once
    return heard
