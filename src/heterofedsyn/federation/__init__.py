"""A real federation set up: certificates, hardened kits, units, and the checks of a site."""

from __future__ import annotations

from heterofedsyn.federation.admission import admit, read_asking, remove
from heterofedsyn.federation.founding import new_federation
from heterofedsyn.federation.joining import join, unpack_kit
from heterofedsyn.federation.party import Party
from heterofedsyn.federation.services import services

__all__ = [
    "Party",
    "admit",
    "join",
    "new_federation",
    "read_asking",
    "remove",
    "services",
    "unpack_kit",
]
