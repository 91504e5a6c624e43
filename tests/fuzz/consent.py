"""Consents, as the agent reads them before every answer."""

from __future__ import annotations

from functools import cache

import msgspec

from fuzz.law import folder, lawful
from heterofedsyn.protocol import Study
from heterofedsyn.site.consent import CONSENT, approved
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.settings import SiteSettings
from site_support import NOW, approved_study, make_site

FORM = "json"


def seeds() -> list[bytes]:
    _, _, good = _site()
    return [good]


def examples() -> list[bytes]:
    good = msgspec.json.decode(seeds()[0])
    changes = ({"rho": 1e999}, {"rho": -1.0}, {"version": 10**4_000}, {"who": "\x1b\n" * 9_000})
    return [
        *(msgspec.json.encode({**good, **change}) for change in changes),
        b"[" * 1_000_000,
        b'{"study":' * 100_000,
        b'{"study":"\\ud800"}',
        b" " * (2**24 + 1),
    ]


def fuzz_one(data: bytes) -> None:
    settings, study, _ = _site()
    (settings.studies / study.fingerprint / CONSENT).write_bytes(data)
    account = Books.read(settings.folder, settings.anchor)
    found = lawful(lambda: approved(settings, study.fingerprint, account, NOW))
    if found is not None:
        assert found[0].fingerprint == found[1].study == study.fingerprint
        cap = lawful(lambda: found[1].cap)
        assert cap is None or cap.rho >= 0


@cache
def _site() -> tuple[SiteSettings, Study, bytes]:
    settings = make_site(folder("consent"))
    study = approved_study(settings)
    return settings, study, (settings.studies / study.fingerprint / CONSENT).read_bytes()
