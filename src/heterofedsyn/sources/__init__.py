"""Where rows come from: files, databases, data frames and streams, all as Arrow record batches."""

from __future__ import annotations

from heterofedsyn.sources.apart import check_apart
from heterofedsyn.sources.dialect import Dialect, Spelling
from heterofedsyn.sources.guesses import looks_like, remedy, suggested
from heterofedsyn.sources.location import (
    anchored,
    check_location,
    file_of,
    name_of,
    split_name,
    with_options,
)
from heterofedsyn.sources.reading import Watch, read, unwatched
from heterofedsyn.sources.source import Source, open_source

__all__ = [
    "Dialect",
    "Source",
    "Spelling",
    "Watch",
    "anchored",
    "check_apart",
    "check_location",
    "file_of",
    "looks_like",
    "name_of",
    "open_source",
    "read",
    "remedy",
    "split_name",
    "suggested",
    "unwatched",
    "with_options",
]
