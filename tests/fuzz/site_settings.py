"""The settings of a site, and every answer that they give."""

from __future__ import annotations

import dataclasses

from agent_support import make_site
from fuzz.law import folder, lawful
from heterofedsyn.site.settings import SETTINGS, SiteSettings

FORM = "toml"


def seeds() -> list[bytes]:
    settings = _site()
    return [
        settings.to_toml().encode(),
        dataclasses.replace(settings, unit="person", engine="root").to_toml().encode(),
    ]


def examples() -> list[bytes]:
    good = _site().to_toml()
    return [
        good.replace('engine = "', 'engine = "\\u0000').encode(),
        good.replace('group = "', f'group = "{"9" * 5_000}').encode(),
        good.replace('schema = "', 'schema = "/\\u0000').encode(),
        good.replace('anchor = "', 'anchor = "/\\u0000/').encode(),
        good.replace('anchor = "', f'anchor = "/{"a" * 5_000}').encode(),
        good.replace("schema.toml", "../../../../../../dev/zero").encode(),
        f"epsilon = {'9' * 5_000}".encode(),
        f"engine = 0x{'f' * 5_000}".encode(),
        b"a = " + b"[" * 100_000,
        b".".join([b"a"] * 300_000) + b" = 1",
        b"#" * (2**20 + 1),
    ]


def fuzz_one(data: bytes) -> None:
    place = folder("settings") / "fuzzed"
    place.mkdir(exist_ok=True)
    (place / SETTINGS).write_bytes(data)
    settings = lawful(lambda: SiteSettings.load(place))
    if settings is not None:
        lawful(settings.askers)
        lawful(settings.group_id)
        lawful(settings.remarks)
        lawful(settings.load_schema)
        assert settings.study_cap <= settings.cap
        (place / SETTINGS).write_text(settings.to_toml(), "utf-8")
        assert SiteSettings.load(place) == settings


def _site() -> SiteSettings:
    place = folder("settings")
    if not (place / "site").exists():
        make_site(place)
    return SiteSettings.load(place / "site")
