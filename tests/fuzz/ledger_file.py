"""The ledger and its anchor: as bytes, or as entries that are chained here as they should be."""

from __future__ import annotations

import hashlib
import json
import shutil
from typing import Any

from fuzz.law import folder, lawful
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.site.ledger.answers import Kept
from heterofedsyn.site.ledger.books import Books

FORM = "json"

_CAP = Budget(0.01)
_QUERY = "ab" * 32


def _entry(kind: str, number: int, rho: float, **more: Any) -> dict[str, Any]:
    line = {"is": kind, "number": number, "when": "2030-01-01T00:00:00Z", "rho": rho}
    return {**line, **more}


_LINES = [
    _entry("opened", 0, 0.0, ledger="00" * 16, version=1),
    _entry("charged", 1, 0.25, study="cd" * 32, query=_QUERY, label="one", integers=3),
    _entry("answered", 2, 0.0, query=_QUERY, stored="ef" * 32),
    _entry("repaired", 5, 0.125),
]
_GOOD = {
    "lines": _LINES,
    "number": 5,
    "rho": 0.375,
    "stored": "answer",
}


def seeds() -> list[bytes]:
    return [json.dumps(_GOOD).encode(), _chained(_LINES)[0], b""]


def examples() -> list[bytes]:
    opened, charged, _, repaired = _LINES

    def other(*lines: Any, number: int, rho: float = 0.375) -> bytes:
        return json.dumps({**_GOOD, "lines": lines, "number": number, "rho": rho}).encode()

    most = {**charged, "rho": 1.7e308}
    return [
        other(opened, most, {**most, "number": 2}, number=2),
        other(opened, {**repaired, "number": 10**30}, number=10**30),
        other(opened, {**repaired, "number": 2**63 - 1}, number=2**63 - 1),
        other(opened, charged, number=2**64, rho=1.7e308),
        other(opened, {**charged, "label": "\x1b[2J\n\u202e"}, number=1),
        other(opened, {**charged, "rho": float("nan")}, number=1),
        other(
            opened,
            *({**charged, "number": i, "query": f"{i:064x}"} for i in range(1, 3_000)),
            number=3_000,
        ),
        b"[" * 1_000_000,
        b'{"is":' * 100_000 + b"\n",
        b'{"is":"opened","x":' + b"[" * 100_000 + b"\n",
        b"\n" * 300_000,
        b'{"is":"opened","number":' + b"9" * 5_000 + b"}\n",
    ]


def fuzz_one(data: bytes) -> None:
    place = folder("ledger") / "site"
    anchor = folder("ledger") / "vault" / "anchor"
    for restored in (False, True):
        stored = _write(data, place, anchor)
        account = lawful(lambda: Books.read(place, anchor))
        books = lawful(lambda: Books.open(place, anchor))
        if books is not None:
            with books:
                assert account is not None
                lawful(lambda: books.account.spent)  # noqa: B023
                lawful(lambda: books.kept(_QUERY))  # noqa: B023
                lawful(lambda: books.charge("s", "q", "l", _CAP, cap=_CAP, study_cap=_CAP))  # noqa: B023
        repaired = lawful(lambda: Books.repair(place, anchor, _CAP, restored=restored))  # noqa: B023
        if repaired is not None:
            again = Books.read(place, anchor)
            assert again == repaired
            assert account is None or again.spent >= account.spent
        if stored:
            lawful(lambda: Kept.load(place / "answers" / _QUERY))


def _write(data: bytes, place: Any, anchor: Any) -> bool:
    """Ledger, anchor and one answer on disk; whether there is an answer."""
    for path in (place, anchor.parent):
        shutil.rmtree(path, ignore_errors=True)
    (place / "answers").mkdir(parents=True)
    anchor.parent.mkdir()
    try:
        found = json.loads(data)
        ledger, head = _chained(found["lines"])
        known = {"number": found["number"], "head": head, "rho": found["rho"]}
        stored = str(found["stored"]).encode("utf-8", "surrogatepass")
    except (ValueError, KeyError, TypeError, RecursionError):
        ledger, stored = data, data
        known = {"number": 0, "head": hashlib.sha256(data).hexdigest(), "rho": 0.0}
    (place / "ledger").write_bytes(ledger)
    anchor.write_text(json.dumps(known))
    (place / "answers" / _QUERY).write_bytes(stored)
    return bool(stored)


def _chained(lines: list[Any]) -> tuple[bytes, str]:
    """The lines of a ledger, each with the hash of the one before, and the last one's hash."""
    head, data = "", b""
    for line in lines:
        entry = {**line, "previous": head} if isinstance(line, dict) else line
        text = json.dumps(entry).encode() + b"\n"
        head, data = hashlib.sha256(text).hexdigest(), data + text
    return data, head
