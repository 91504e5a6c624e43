"""What a tally holds in memory, measured in a process of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from heterofedsyn.marginals import TableCounts, Tally
from heterofedsyn.marginals.counts import whole
from heterofedsyn.schema import Domain, EncodedTable

BATCH = 100_000


@dataclass(frozen=True)
class Held:
    """MiB, of a process that took rows in batches and counted every attribute."""

    adding: float
    """The peak before anything was counted."""
    counting: float
    """The peak. Pages of a mapped file are in it while there is room for them."""
    anonymous: float
    """At the end: what cannot be given back."""
    codes: float
    """Of all rows."""
    as_codes: bool
    """Whether these were kept, and not counts."""


def kept_rows(domain: Domain, batches: int) -> Held:
    """What it takes to tally so many batches of random rows."""
    rng = np.random.default_rng(0)
    drawn = np.stack([rng.integers(0, size, BATCH) for size in domain.sizes])
    codes = EncodedTable.from_codes(domain, drawn).codes
    with Tally(domain) as tally:
        for _ in range(batches):
            tally.add(codes)
        adding = _mebibytes("VmHWM")
        found = tally.counts()
    for name in domain.names:
        assert found.of(whole((name,))).sum() == found.rows == BATCH * batches
    return Held(
        adding=adding,
        counting=_mebibytes("VmHWM"),
        anonymous=_mebibytes("RssAnon"),
        codes=codes.nbytes * batches / 2**20,
        as_codes=isinstance(found, TableCounts),
    )


def _mebibytes(name: str) -> float:
    """A figure of this process alone: `getrusage` would count its parent in."""
    status = Path("/proc/self/status").read_text("utf-8")
    return int(status.partition(f"{name}:")[2].split()[0]) / 2**10
