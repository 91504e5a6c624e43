"""The report on a release that anyone may have made."""

from __future__ import annotations

from functools import cache
from html.parser import HTMLParser

import msgspec

from fuzz import release
from fuzz.law import folder, lawful
from heterofedsyn.report import public_report

FORM = "msgpack"


@cache
def seeds() -> list[bytes]:
    return release.seeds()


def examples() -> list[bytes]:
    good = msgspec.msgpack.decode(seeds()[2])
    run = {**good["run"], "remarks": ["<script>alert(1)</script>\u202e", "</pre>&lt;"]}
    return [msgspec.msgpack.encode({**good, "run": run})]


def fuzz_one(data: bytes) -> None:
    if release.write_and_load(data) is None:
        return
    page = lawful(lambda: public_report(folder("release") / "fuzzed"))
    if page is not None:
        tags = _Tags()
        tags.feed(page)
        assert "script" not in tags.found


class _Tags(HTMLParser):
    """The names of all elements of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.found.add(tag)
