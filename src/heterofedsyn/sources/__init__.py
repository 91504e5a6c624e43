"""Where rows come from: files, data frames and streams, all as Arrow record batches."""

from __future__ import annotations

from heterofedsyn.sources.reading import Watch, read, unwatched
from heterofedsyn.sources.source import Source, open_source

__all__ = ["Source", "Watch", "open_source", "read", "unwatched"]
