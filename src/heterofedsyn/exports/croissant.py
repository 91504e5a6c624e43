"""Croissant 1.1 with RAI fields: what catalogues of data sets for machine learning read."""

from __future__ import annotations

import re
from typing import Any

from heterofedsyn.errors import plain
from heterofedsyn.exports.description import (
    ColumnFacts,
    column_facts,
    guarantee,
    held,
    limits,
    origin,
    title,
    unit_of_privacy,
    vouched,
)
from heterofedsyn.exports.quoting import single
from heterofedsyn.hub.release import TABLES, Release

CONFORMS = ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"]
_TERMS = (
    *("citeAs", "column", "containedIn", "equivalentProperty", "extract", "field", "fileObject"),
    *("fileProperty", "fileSet", "format", "includes", "isLiveDataset", "jsonPath", "key", "md5"),
    *("parentField", "path", "recordSet", "references", "regex", "repeated", "replace"),
    *("samplingRate", "separator", "source", "subField", "transform"),
)
_TYPES = {
    "integer": "sc:Integer",
    "number": "sc:Float",
    "categorical": "sc:Text",
    "boolean": "sc:Boolean",
    "date": "sc:Date",
    "datetime": "sc:DateTime",
}
_MEDIA = {"csv": "text/csv", "parquet": "application/x-parquet", "json": "application/json"}
_RECORDS = "rows"


def croissant(release: Release) -> dict[str, Any]:
    """The description as JSON-LD; its files are meant to lie beside it.

    Raises:
        UsageError: the release was never saved, so that no file can be named.
    """
    table, _ = vouched(release, *reversed(TABLES))  # Parquet keeps types and missing values
    said = release.run.said_about
    described: dict[str, Any] = {
        "@context": _context(),
        "@type": "sc:Dataset",
        "conformsTo": CONFORMS,
        "name": title(release),
        "description": f"{origin(release, single)} {guarantee(release, single)}",
        "isLiveDataset": False,
        "version": "1.0.0",
    }
    if said.contact:
        described["creator"] = {"@type": "sc:Organization", "name": said.contact}
    return described | {
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": name,
                "name": name,
                "contentUrl": name,
                "encodingFormat": _MEDIA[name.rpartition(".")[2]],
                "sha256": digest,
            }
            for name, digest in sorted(release.files.items())
            if name.rpartition(".")[2] in _MEDIA
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": _RECORDS,
                "name": _RECORDS,
                "description": "The synthetic rows.",
                "field": [
                    _field(facts, place, table, release)
                    for place, facts in enumerate(column_facts(release), start=1)
                ],
            }
        ],
        **_responsible(release),
    }


def missing(release: Release) -> list[str]:
    """What a catalogue asks for and no release knows."""
    words = ["license", "url", "datePublished", "citeAs"]
    words += [] if release.run.said_about.contact else ["creator"]
    return [f"add by hand: {', '.join(words)}"]


def _context() -> dict[str, Any]:
    return {
        "@language": "en",
        "@vocab": "https://schema.org/",
        "sc": "https://schema.org/",
        "cr": "http://mlcommons.org/croissant/",
        "rai": "http://mlcommons.org/croissant/RAI/",
        "dct": "http://purl.org/dc/terms/",
        "conformsTo": "dct:conformsTo",
        "data": {"@id": "cr:data", "@type": "@json"},
        "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
        "examples": {"@id": "cr:examples", "@type": "@json"},
        **{term: f"cr:{term}" for term in _TERMS},
    }


def _field(facts: ColumnFacts, place: int, table: str, release: Release) -> dict[str, Any]:
    # An id is a place on the web to readers of JSON-LD: a stranger's words are none.
    own = facts.name if re.fullmatch(r"[A-Za-z][\w-]*", facts.name, re.ASCII) else f"({place})"
    key = "sc:Integer" if facts.prefix is None else "sc:Text"
    kind = _TYPES.get(facts.kind, key)
    is_label = facts.name == release.schema.label
    return {
        "@type": "cr:Field",
        "@id": f"{_RECORDS}/{own}",
        "name": facts.name,
        "description": _described(facts),
        "dataType": [kind, "cr:Label"] if is_label else kind,
        "source": {"fileObject": {"@id": table}, "extract": {"column": facts.name}},
    }


def _described(facts: ColumnFacts) -> str:
    words = [f"{facts.kind}: {facts.allowed(single)}."]
    if facts.follows is not None:
        words.append(f"Follows from {single(facts.follows)}.")
    if facts.partners:
        words.append(f"Measured together with {', '.join(map(single, facts.partners))}.")
    if facts.kind != "key":
        words.append(f"Standard error of the share of one value or bin: {facts.trust()}.")
    return " ".join([*words, *(f"Rule: {plain(rule)}." for rule in facts.rules)])


def _responsible(release: Release) -> dict[str, Any]:
    """How the rows came about, whom they protect and what they are not good for."""
    privacy = release.privacy
    keys = {
        "dataCollection": origin(release, single),
        "dataCollectionType": ["Others"],
        "dataCollectionRawData": (
            f"{held(release)} read to count them; no record is in the release."
        ),
        "dataPreprocessingProtocol": [
            "Values became codes of the public schema; records that do not fit it were left out, "
            f"and of one {unit_of_privacy(release, single)} at most "
            f"{privacy.rows_per_unit:,} counted."
        ],
        "dataManipulationProtocol": (
            "Estimates from noisy counts, synthesis and sampling are post-processing, which costs "
            "no privacy; rows keep every rule of the schema."
        ),
        "dataImputationProtocol": "None: a missing value is a value of its own.",
        "personalSensitiveInformation": [
            guarantee(release, single),
            "No row is a person's. What holds for many records can be learnt from the table, also "
            "about people of whom it is known that it holds for them.",
        ],
        "dataLimitations": limits(release, single),
        "dataBiases": [
            "The table has the biases of the records it was made from. Noise weighs more on small "
            "groups than on large ones, and negative counts became zero."
        ],
        "dataUseCases": [release.run.said_about.purpose or "Not said by the study."],
        "dataReleaseMaintenancePlan": [
            "A release is not changed. Another from the same records adds its rho to this one's."
        ],
    }
    return {f"rai:{key}": value for key, value in keys.items()}
