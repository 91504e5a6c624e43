"""What commands show as usual and other parts take unless told; nothing is imported for it."""

from __future__ import annotations

CERTIFICATE_DAYS = 1_095
"""That a participant's certificate is valid; three years."""

PORT = 8002
"""The one that a hub's server opens."""

PREFIX = "heterofedsyn"
"""Begins the names of users, group and units."""

PARTY = "federation.toml"
"""In the folder of a party of a federation: what it is, and how its users and units are called."""

SITE_OF_KIT = "agent/site"
"""Where a site is in the folder that has its kit: the agent owns what is above it, and no more."""

UNITS = "/etc/systemd/system"
"""Where systemd's units are."""

WAIT_MINUTES = 5
"""That server and sites are waited for."""

PATIENCE = 60.0
"""Seconds that a round may take at a site, beyond what its noise needs."""

MOST_ROWS = 10_000_000
"""That any site of a study has."""
