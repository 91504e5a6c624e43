"""Whether systemd's units and the programs they start are as they must be."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

from heterofedsyn import __version__
from heterofedsyn._files import read_whole
from heterofedsyn.engines.flower.bundle import flower_version
from heterofedsyn.engines.nvflare.provisioning import nvflare_version
from heterofedsyn.federation.finding import Finding, judged, rights, unknown, wrong
from heterofedsyn.federation.kit_checks import harden_command, start_command
from heterofedsyn.federation.machine_checks import User
from heterofedsyn.federation.party import PROGRAMS, Party, in_home, own_programs
from heterofedsyn.federation.services import services

VERSIONS = "versions unchanged"
"""Since the kit was made; the hub's own are not told to sites."""

_MOST_UNIT_BYTES = 2**16
_SECONDS = 60.0


def check_units(party: Party, folder: Path) -> Iterator[Finding]:
    """Whether systemd's units are as they were written, and can start what they name."""
    if not folder.is_dir():
        yield unknown("units", f"there is no folder {folder}", "start as whom the units say")
    else:
        faults, remedies = [], []
        for service in services(party):
            path = folder / service.file
            try:
                found = read_whole(path, _MOST_UNIT_BYTES)
            except OSError:
                faults.append(f"there is no {path}")
                continue
            if found != service.unit().encode():
                faults.append(f"{path} was changed")
            changes = folder / f"{service.file}.d"
            if changes.is_dir() and any(changes.iterdir()):
                faults.append(f"{changes} changes it")
                remedies.append(f"rm -r {shlex.quote(str(changes))}")
        remedies += [harden_command(party), start_command(party)]
        yield judged("units", faults, "; ".join(remedies), "as they were written")
    yield _programs(party)
    yield _versions(party)


def _programs(party: Party) -> Finding:
    paths = [party.programs / name for name in PROGRAMS]
    remedy = (
        "install with the system's Python, where all can read it, in DIR; then: "
        f"{harden_command(party)} --programs DIR/bin; {start_command(party)}"
    )
    faults = [f"there is no {path}" for path in paths if not path.exists()]
    faults += [f"{path} lies in a home, which units do not see" for path in paths if in_home(path)]
    if faults:
        return wrong("programs", "; ".join(faults), remedy)
    for name in (party.agent, party.engine):
        user = User.find(name)
        if user is None:
            continue
        try:
            held = rights(paths, user.number, user.groups)
        except PermissionError:
            return unknown("programs", f"only root can ask what {name} may run", "run as root")
        faults += [f"{name} cannot run {path}" for path in paths if "x" not in held[path]]
    return judged("programs", faults, remedy, f"{party.programs}")


def _versions(party: Party) -> Finding:
    faults = []
    installed = __version__
    if party.programs != own_programs():
        installed = _version_of(party.programs / "heterofedsyn", User.find(party.agent))
    if not installed:
        return unknown(VERSIONS, "the installed program does not run", "see the line on programs")
    if installed != party.version:
        faults.append(f"heterofedsyn is {installed}, and was {party.version}")
    now = f"Flower {flower_version()}" if party.flower else f"NVFlare {nvflare_version()}"
    if now != party.carrier:
        faults.append(f"there is {now}, and was {party.carrier}")
    return judged(
        VERSIONS,
        faults,
        f"install what the hub has; if that is the new one: {harden_command(party)}",
        f"heterofedsyn {party.version}, {party.carrier}, as when the kit was made",
    )


def _version_of(program: Path, agent: User | None) -> str:
    """What a program says of itself, as the agent: its place may have been written by others."""
    if agent is None or os.geteuid() != 0:
        user = group = groups = None
    else:
        user, group, groups = agent.number, agent.groups[0], list(agent.groups[1:])
    try:
        said = subprocess.run(
            [str(program), "--version"],
            user=user,
            group=group,
            extra_groups=groups,
            cwd="/",
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    words = said.decode("utf-8", "replace").split()
    return words[-1][:40] if words else ""
