"""A Frictionless data package: the table of a release with its schema."""

from __future__ import annotations

from typing import Any

from heterofedsyn.exports.description import (
    check_spelling,
    guarantee,
    limits,
    origin,
    title,
    vouched,
)
from heterofedsyn.exports.quoting import single
from heterofedsyn.hub.release import TABLES, Release
from heterofedsyn.schema.formats import frictionless

PROFILE = "https://datapackage.org/profiles/2.0/datapackage.json"


def data_package(release: Release) -> dict[str, Any]:
    """The descriptor, `datapackage.json`; the table is meant to lie beside it.

    Raises:
        UsageError: the release was never saved, so that no file can be named, or its CSV is not
            spelt as its schema.
    """
    path, digest = vouched(release, TABLES[0])
    check_spelling(release)
    said = release.run.said_about
    package: dict[str, Any] = {
        "$schema": PROFILE,
        "name": f"release-{release.run.study[:12]}",
        "title": title(release),
        "description": "\n\n".join(
            [origin(release, single), guarantee(release, single), *limits(release, single)]
        ),
    }
    if said.contact:
        package["contributors"] = [{"title": said.contact, "roles": ["contact"]}]
    package["resources"] = [
        {
            "name": "synthetic",
            "type": "table",
            "path": path,
            "format": "csv",
            "mediatype": "text/csv",
            "encoding": "utf-8",
            "hash": f"sha256:{digest}",
            "schema": frictionless.write(release.schema),
        }
    ]
    return package
