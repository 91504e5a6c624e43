"""Receipts: what an ethics board gets from a site, and anyone may have changed."""

from __future__ import annotations

import base64
from functools import cache
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from fuzz.law import folder, lawful
from heterofedsyn.site.agent import Agent
from heterofedsyn.site.consent import recorded
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.receipt import Receipt, SignedReceipt, canonical, issue
from heterofedsyn.site.signing import read_public_key
from site_support import NOW, approved_study, make_message, make_site

FORM = "json"

_KEY = Ed25519PrivateKey.from_private_bytes(bytes(32))


@cache
def seeds() -> list[bytes]:
    settings = make_site(folder("receipt"))
    study = approved_study(settings)
    with Books.open(settings.folder, settings.anchor) as books:
        agent = Agent(settings, books, log=lambda line: None)
        for number, share in enumerate((0.25, 0.5)):
            agent.answer(make_message(study, number, share))
    account = Books.read(settings.folder, settings.anchor)
    made = issue(settings, *recorded(settings, study.fingerprint), account, now=NOW)
    return [made.to_bytes(), _signed(made.receipt).to_bytes()]


def examples() -> list[bytes]:
    good = msgspec.json.decode(seeds()[0])

    def other(**values: Any) -> bytes:
        made = {**good, "receipt": {**good["receipt"], **values}}
        return msgspec.json.format(msgspec.json.encode(made), indent=1) + b"\n"

    return [
        other(ledger_number=10**30),
        other(version=10**4_000),
        other(delta=0.0, epsilon=1e308),
        other(delta=5e-324, epsilon=1e-300, conversion="paper"),
        other(spent_rho=1e308, releases=[{**r, "rho": 1e308} for r in good["receipt"]["releases"]]),
        other(site="\x1b[31m\u202e\n" * 1_000),
        b'{"receipt":' * 100_000,
        b"[" * 1_000_000,
        b'{"key":"\\ud800"}',
        msgspec.json.encode({**good, "key": "é" * 44}),
    ]


def fuzz_one(data: bytes) -> None:
    _check(data)
    try:
        spelt = msgspec.json.decode(data, type=SignedReceipt).to_bytes()
    except Exception:
        return  # no receipt, however it is spelt
    _check(spelt)


def _check(data: bytes) -> None:
    path = folder("receipt") / "receipt.json"
    path.write_bytes(data)
    found = lawful(lambda: SignedReceipt.load(path))
    if found is not None:
        assert found.to_bytes() == data
        lawful(found.check)
        lawful(lambda: found.check(_signed(found.receipt).key))
        lawful(_signed(found.receipt).check)
    lawful(lambda: read_public_key(str(path)))


def _signed(receipt: Receipt) -> SignedReceipt:
    key = base64.b64encode(_KEY.public_key().public_bytes_raw()).decode()
    return SignedReceipt(receipt, key, base64.b64encode(_KEY.sign(canonical(receipt))).decode())
