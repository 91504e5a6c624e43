"""Every rule for a site of a federation, checked on the machine it runs on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from heterofedsyn._defaults import PARTY, UNITS
from heterofedsyn.errors import UsageError
from heterofedsyn.federation.engine_checks import check_engine
from heterofedsyn.federation.finding import Finding
from heterofedsyn.federation.hub_checks import check_hub
from heterofedsyn.federation.kit_checks import check_kit
from heterofedsyn.federation.machine_checks import User, check_site, check_users
from heterofedsyn.federation.party import Party
from heterofedsyn.federation.unit_checks import check_units


def examine(folder: Path, units: Path = Path(UNITS)) -> Iterator[Finding]:
    """Check a site, rule by rule; nothing is changed.

    Args:
        units: the folder of systemd's units.

    Raises:
        UsageError: if the folder is no site of a federation.
    """
    party = Party.load(folder)
    if party.kind != "site":
        raise UsageError(f"{folder / PARTY} describes a hub; the doctor looks at sites")
    if party.folder != folder.resolve():
        raise UsageError(
            f"{folder} was set up as {party.folder}, which units and users know; move it back, or "
            "set the site up anew here"
        )
    engine = User.find(party.engine)
    yield from check_kit(party, None if engine is None else engine.number)
    yield from check_users(party)
    yield from check_site(party)
    yield from check_units(party, units)
    if engine is not None:
        yield check_engine(party, engine.number)
    yield from check_hub(party)
