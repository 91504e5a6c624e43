"""A release described for others: catalogues, registries, metadata, R, a data dictionary."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from heterofedsyn.errors import UsageError, did_you_mean
from heterofedsyn.exports.croissant import croissant, missing
from heterofedsyn.exports.data_package import data_package
from heterofedsyn.exports.deployments_registry import deployments_registry, to_be_written
from heterofedsyn.exports.description import spelling
from heterofedsyn.exports.dictionary import dictionary
from heterofedsyn.exports.r_script import r_script
from heterofedsyn.hub.release import Release
from heterofedsyn.schema.formats import sdv

__all__ = ["EXPORTS", "TABLE", "Export", "export", "export_named"]

TABLE = "release"
"""What the table is called in metadata of SDV."""


@dataclass(frozen=True)
class Export:
    """How a release is described in one format.

    Attributes:
        text: of the file.
        ending: of the file's name.
        lacks: what the file does not say and a person may add, in lines.
    """

    text: Callable[[Release], str]
    ending: str
    lacks: Callable[[Release], list[str]]


def _json(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"


EXPORTS = {
    "croissant": Export(lambda release: _json(croissant(release)), ".json", missing),
    "deployments-registry": Export(deployments_registry, ".yaml", to_be_written),
    "sdv-metadata": Export(
        lambda release: _json(sdv.write(release.schema, TABLE)),
        ".json",
        lambda release: [*sdv.lost(release.schema), *spelling(release)],
    ),
    "frictionless": Export(
        lambda release: _json(data_package(release)),
        ".json",
        lambda release: ["add by hand: licenses, and where it is published"],
    ),
    "r": Export(r_script, ".R", lambda release: []),
    "dictionary": Export(dictionary, ".md", lambda release: []),
}


def export_named(name: str) -> Export:
    """The export of that name.

    Raises:
        UsageError: there is none.
    """
    if name not in EXPORTS:
        raise UsageError(f"there is no export {name!r}; {did_you_mean(name, EXPORTS)}")
    return EXPORTS[name]


def export(release: Release, name: str) -> str:
    """The release in that format, as the text of a file; it holds published things alone.

    Raises:
        UsageError: there is no such format, or it needs files and the release was never saved.
        PrivacyRefusal: a guarantee is asked for that the release does not have.
    """
    return export_named(name).text(release)
