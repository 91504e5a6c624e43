"""Whether a site's receipt and a release tell of one study."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import UNSET

from heterofedsyn.hub.release import Release
from heterofedsyn.hub.release.paid_noise import same
from heterofedsyn.schema.atoms import comes_from
from heterofedsyn.site.receipt import Receipt

_EQUAL = (
    "epsilon",
    "delta",
    "conversion",
    "neighbours",
    "unit",
    "rows_per_unit",
    "trust",
)
"""What both records call by the same name."""


def contradictions(receipt: Receipt, release: Release) -> tuple[str, ...]:
    """On what a receipt, whose own figures add up, and a release of the same study do not agree.

    A name alone would let the receipt vouch for whatever bears it.
    """
    return tuple(_differing(receipt, release))


def _differing(receipt: Receipt, release: Release) -> Iterator[str]:
    statement, run = release.privacy, release.run
    for name in _EQUAL:
        if getattr(receipt, name) != getattr(statement, name):
            yield name
    if not same(receipt.rho, statement.rho):
        yield "rho"
    if receipt.method != run.method:
        yield "method"
    if not comes_from(release.schema, receipt.schema):
        yield "schema"
    if receipt.about is not UNSET and receipt.about != run.said_about:
        yield "about"
    if receipt.simulated_noise and not statement.simulated_noise:
        yield "simulated_noise"
    if receipt.aggregation is not UNSET:
        hidden = receipt.aggregation
        if hidden.sites != run.sites:
            yield "sites"
        if (hidden.colluding, hidden.quorum) != (statement.colluding, statement.quorum):
            yield "colluding or quorum"
