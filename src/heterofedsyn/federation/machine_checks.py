"""Whether users are apart, and files, socket and anchor as they must be."""

from __future__ import annotations

import grp
import os
import pwd
import shlex
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from heterofedsyn._defaults import PARTY
from heterofedsyn.errors import UsageError
from heterofedsyn.federation.finding import Finding, judged, rights, unknown, wrong
from heterofedsyn.federation.kit_checks import AS_ROOT, harden_command, start_command, users_command
from heterofedsyn.federation.party import Party
from heterofedsyn.federation.services import instructions
from heterofedsyn.site.server import FOLDER_MODE, SOCKET_MODE
from heterofedsyn.site.settings import SETTINGS, SiteSettings
from heterofedsyn.sources import file_of

MOST_FILES = 2_000
"""Of a folder, that are looked at one by one."""


@dataclass(frozen=True)
class User:
    """A user of this machine."""

    name: str
    number: int
    groups: tuple[int, ...]

    @classmethod
    def find(cls, name: str) -> User | None:
        """The user of that name, if there is one."""
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            return None
        return cls(name, found.pw_uid, tuple(os.getgrouplist(name, found.pw_gid)))


def check_users(party: Party) -> Iterator[Finding]:
    """Whether agent and engine are two users, with one group that nobody else is in."""
    yield _guarded(party)
    agent, engine = User.find(party.agent), User.find(party.engine)
    remedy = users_command(party)
    missing = [u for u, found in ((party.agent, agent), (party.engine, engine)) if found is None]
    if agent is None or engine is None:
        yield wrong("users apart", f"there is no user {' and no '.join(missing)}", remedy)
        return
    faults, remedies = [], []
    if engine.number in (agent.number, 0):
        one = "root" if engine.number == 0 else agent.name
        faults.append(f"{engine.name} and {one} have one number")
        stop = f"systemctl stop {agent.name} {engine.name}"
        remedies.append(f"{stop}; userdel {engine.name}; {remedy}; {start_command(party)}")
    if agent.number == 0:
        faults.append(f"{agent.name} is root")
        remedies.append(f"give {agent.name} a number of its own, and what it owns with it")
    more = [_group_name(number) for number in engine.groups[1:]]
    if more:
        faults.append(f"{engine.name} is in other groups too: {', '.join(more)}")
        remedies += [f"gpasswd --delete {engine.name} {group}" for group in more]
    yield judged("users apart", faults, "; ".join(remedies), f"{agent.name} and {engine.name}")
    yield _group(party, (agent, engine))


def _group(party: Party, users: tuple[User, User]) -> Finding:
    try:
        group = grp.getgrnam(party.group)
    except KeyError:
        return wrong("group", f"there is no group {party.group}", users_command(party))
    outside = [user.name for user in users if group.gr_gid not in user.groups]
    both = {user.name for user in users}
    own = {entry.pw_name for entry in pwd.getpwall() if entry.pw_gid == group.gr_gid}
    strangers = sorted(({*group.gr_mem} | own) - both)
    faults = [f"{name} is not in it" for name in outside]
    faults += [f"{name} is in it" for name in strangers]
    remedies = [f"usermod --gid {party.group} {name}" for name in outside]
    remedies += [f"usermod --gid nogroup {name}" for name in sorted(own - both)]
    remedies += [f"gpasswd --delete {n} {party.group}" for n in sorted({*group.gr_mem} - both)]
    return judged(
        "group",
        faults,
        "; ".join(remedies),
        f"{party.group} has the two of them and nobody else",
    )


def _guarded(party: Party) -> Finding:
    """Whether what root runs or reads is root's: whoever else could write it could be root."""
    paths = (party.folder, *(party.folder / name for name in instructions(party)))
    faults = []
    for path in paths:
        try:
            there = path.lstat()
        except OSError:
            faults.append(f"there is no {path}")
            continue
        if there.st_uid != 0 or stat.S_ISLNK(there.st_mode) or there.st_mode & 0o022:
            faults.append(f"others than root may write {path}")
    place = shlex.quote(str(party.folder))
    return judged(
        "folder",
        faults[:3],
        f"chown -h root:root {place}; chmod 755 {place}; {harden_command(party)}; "
        f"{users_command(party)} # see first that nobody changed {PARTY}",
        f"{party.folder} and its scripts are root's",
    )


def check_site(party: Party) -> Iterator[Finding]:
    """Everything about the folder of a site, its rows, its anchor and its socket."""
    agent, engine = User.find(party.agent), User.find(party.engine)
    try:
        settings = SiteSettings.load(party.site)
    except UsageError as error:
        if os.path.lexists(party.site) and not os.access(party.site, os.X_OK):
            yield unknown("site", f"{party.site} cannot be read from here", AS_ROOT)
        else:
            there = (party.site / SETTINGS).exists()
            init = f"runuser -u {party.agent} -- {party.programs / 'heterofedsyn'} site init"
            remedy = f"change {SETTINGS} in it" if there else f"{init} # with what it asks for"
            yield wrong("site", str(error), remedy)
        return
    yield _owned(party, settings, agent)
    yield _agreed(party, settings)
    if engine is not None:
        yield from _hidden(party, settings, engine)
    if agent is not None:
        yield _readable(party, settings, agent)
    yield from _anchor(party, settings, agent)
    yield from _socket(party, settings, agent)


def _owned(party: Party, settings: SiteSettings, agent: User | None) -> Finding:
    path = settings.folder / SETTINGS
    faults = []
    for place, mode in ((settings.folder, 0o700), (path, 0o600)):
        there = place.stat()
        if stat.S_IMODE(there.st_mode) != mode:
            faults.append(f"{place} has mode {stat.S_IMODE(there.st_mode):04o}, not {mode:04o}")
        if agent is not None and there.st_uid != agent.number:
            faults.append(f"{place} does not belong to {agent.name}")
    return judged(
        "site.toml",
        faults,
        _given(party, settings.folder),
        f"{party.agent}'s own",
    )


def _agreed(party: Party, settings: SiteSettings) -> Finding:
    """Whether the site's settings and the units mean the same."""
    pairs = (
        ("name", settings.name, party.name),
        ("engine", settings.engine, party.engine),
        ("group", settings.group, party.group),
        ("socket", str(settings.socket), str(party.socket)),
    )
    faults = [f"{name} is {there}, not {unit}" for name, there, unit in pairs if there != unit]
    if settings.tick == 0:
        faults.append("tick is 0, so that time tells how long counting took")
    if party.anchor is not None and not settings.anchor.is_relative_to(party.anchor):
        faults.append(f"anchor is not in {party.anchor}, where alone the agent may write")
    return judged("settings", faults, f"change {SETTINGS}, and start the agent", "as the units say")


def _hidden(party: Party, settings: SiteSettings, engine: User) -> Iterator[Finding]:
    """Whether the engine is kept from rows, ledger, anchor and key."""
    rows = file_of(settings.source)
    named = {
        "rows hidden": [rows] if rows is not None else [],
        "ledger hidden": [p for p in _inside(settings.folder) if p != settings.key],
        "key hidden": [settings.key],
        "anchor hidden": [settings.anchor, settings.anchor.parent],
    }
    remedies = {
        "rows hidden": "" if rows is None else _rows_given(party, rows),
        "ledger hidden": _given(party, settings.folder),
        "key hidden": _given(party, settings.folder),
        "anchor hidden": _anchor_given(party, settings.anchor),
    }
    try:
        held = rights([p for paths in named.values() for p in paths], engine.number, engine.groups)
    except PermissionError:
        held = None
    for rule, paths in named.items():
        if not paths:
            yield unknown(rule, "rows are in a database", "grant its tables to the agent only")
        elif held is None:
            yield unknown(rule, f"only root can ask what {engine.name} may read", "run as root")
        else:
            open_ones = [path for path in paths if {*held[path]} & {*"rw"}]
            yield judged(
                rule,
                [f"{engine.name} can reach {path}" for path in open_ones[:3]],
                remedies[rule],
                f"{engine.name} can neither read nor write it",
            )


def _given(party: Party, folder: Path) -> str:
    """What makes a folder the agent's alone; as that user, where its links could lead astray."""
    place = shlex.quote(str(folder))
    chmod = f"runuser -u {party.agent} -- chmod -R u=rwX,go= {place}"
    return f"chown -hR {party.agent}:{party.group} {place}; {chmod}"


def _rows_given(party: Party, rows: Path) -> str:
    """The same for rows: their whole folder if it is the kit's, else their file."""
    return _given(party, party.rows if rows.is_relative_to(party.rows) else rows)


def _anchor_given(party: Party, anchor: Path) -> str:
    """The same for the anchor, whose folder may have others' files in it."""
    folder, file = shlex.quote(str(anchor.parent)), shlex.quote(str(anchor))
    chmod = f"runuser -u {party.agent} -- chmod u=rwX,go= {folder} {file}"
    return f"chown -h {party.agent}:{party.group} {folder} {file}; {chmod}"


def _inside(folder: Path) -> list[Path]:
    found = [folder]
    for path in folder.rglob("*"):
        found.append(path)
        if len(found) >= MOST_FILES:
            break
    return found


def _readable(party: Party, settings: SiteSettings, agent: User) -> Finding:
    rows = file_of(settings.source)
    paths = [settings.schema, *([rows] if rows is not None else [])]
    try:
        held = rights(paths, agent.number, agent.groups)
    except PermissionError:
        return unknown("agent reads", f"only root can ask what {agent.name} reads", "run as root")
    shut = [path for path in paths if "r" not in held[path]]
    return judged(
        "agent reads",
        [f"{agent.name} cannot read {path}" for path in shut],
        "; ".join(dict.fromkeys(_rows_given(party, path) for path in shut))
        + " # and let it enter the folders above",
        "schema and rows",
    )


def _anchor(party: Party, settings: SiteSettings, agent: User | None) -> Iterator[Finding]:
    anchor = settings.anchor
    try:
        folder, file = anchor.parent.stat(), anchor.stat()
    except OSError:
        yield wrong("anchor", f"{anchor} is missing", "put its disk back, or repair the ledger")
        return
    faults = []
    if stat.S_IMODE(folder.st_mode) & 0o022 or stat.S_IMODE(file.st_mode) & 0o022:
        faults.append(f"others may write {anchor} or its folder")
    if agent is not None and (folder.st_uid != agent.number or file.st_uid != agent.number):
        faults.append(f"{anchor} or its folder does not belong to {agent.name}")
    yield judged("anchor", faults, _anchor_given(party, anchor), str(anchor))
    yield judged(
        "anchor's disk",
        ["ledger and anchor are on one disk, and whoever restores it restores both"]
        if settings.shares_disk()
        else [],
        _moved(party, anchor.parent),
        "another than the ledger's",
    )


def _moved(party: Party, folder: Path) -> str:
    """How a folder comes to another disk, with what is in it."""
    place = shlex.quote(str(folder))
    return (
        f"systemctl stop {party.agent}; mount DISK /mnt; cp -a {place}/. /mnt; umount /mnt; "
        f"mount DISK {place}; chown {party.agent} {place}; systemctl start {party.agent} "
        "# and name it in /etc/fstab"
    )


def _socket(party: Party, settings: SiteSettings, agent: User | None) -> Iterator[Finding]:
    path = settings.socket
    try:
        folder, there = path.parent.stat(), path.stat()
        group = settings.group_id()
    except OSError:
        remedy = f"systemctl restart {party.agent} # journalctl -u {party.agent} tells why it ended"
        yield wrong("socket", f"there is no {path}", remedy)
        return
    except UsageError as error:
        yield wrong("socket", str(error), users_command(party))
        return
    faults = []
    for place, found, mode in ((path.parent, folder, FOLDER_MODE), (path, there, SOCKET_MODE)):
        if stat.S_IMODE(found.st_mode) != mode:
            faults.append(f"{place} has mode {stat.S_IMODE(found.st_mode):04o}, not {mode:04o}")
        if found.st_gid != group or (agent is not None and found.st_uid != agent.number):
            faults.append(f"{place} is not the agent's and the group's")
    if not stat.S_ISSOCK(there.st_mode):
        faults.append(f"{path} is no socket")
    yield judged(
        "socket",
        faults,
        f"systemctl restart {party.agent} # which makes {path.parent} anew",
        f"{path}, for the group alone",
    )


def _group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
