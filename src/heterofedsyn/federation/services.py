"""The processes of a party as systemd's units, and the scripts that make its users."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from heterofedsyn._defaults import PARTY, UNITS
from heterofedsyn._files import file_written_whole
from heterofedsyn.federation.party import Party

USERS_SCRIPT, START_SCRIPT = "users.sh", "start.sh"

_CONFINED = ("NoNewPrivileges=yes", "ProtectSystem=strict", "ProtectHome=yes", "PrivateTmp=yes")


@dataclass(frozen=True)
class Service:
    """One process: what is started, as whom, and what it may see.

    Attributes:
        settings: more lines of the unit's section on the service.
    """

    name: str
    description: str
    user: str
    group: str
    command: tuple[str, ...]
    environment: dict[str, str]
    settings: tuple[str, ...]
    after: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """The name of the unit's file."""
        return f"{self.name}.service"

    def unit(self) -> str:
        """The unit as systemd reads it."""
        before = [f"Description={self.description}"]
        if self.after:
            before += [f"After={' '.join(self.after)}", "Wants=network-online.target"]
        service = [
            f"User={self.user}",
            f"Group={self.group}",
            *(f"Environment={_quoted(f'{k}={v}')}" for k, v in self.environment.items()),
            f"ExecStart={' '.join(map(_quoted, self.command))}",
            "Restart=on-failure",
            *self.settings,
        ]
        parts = (
            ("Unit", before),
            ("Service", service),
            ("Install", ["WantedBy=multi-user.target"]),
        )
        return "\n\n".join("\n".join((f"[{name}]", *lines)) for name, lines in parts) + "\n"


def services(party: Party) -> tuple[Service, ...]:
    """The processes of a party, in the order in which they start."""
    if party.kind == "hub":
        return (_hub(party),)
    if not party.flower:
        return (_agent(party), _engine(party))
    relay = () if party.runs_apps else (_relay(party),)
    return (_agent(party), _supernode(party), *relay)


def _agent(party: Party) -> Service:
    """Owns rows and ledger, and has no network."""
    return Service(
        name=f"{party.prefix}-agent",
        description=f"heterofedsyn site agent of {party.name}",
        user=party.agent,
        group=party.group,
        command=(
            str(party.programs / "heterofedsyn"),
            *("site", "serve", "--folder", str(party.site)),
        ),
        environment={"NUMBA_CACHE_DIR": str(party.cache)},
        settings=(
            "TimeoutStopSec=150",
            f"RuntimeDirectory={party.prefix}",
            "RuntimeDirectoryMode=0750",
            f"CacheDirectory={party.prefix}",
            "PrivateNetwork=yes",
            "RestrictAddressFamilies=AF_UNIX",
            *_CONFINED,
            f"ReadWritePaths={_paths(party.site, _anchor(party))}",
        ),
    )


def _engine(party: Party) -> Service:
    """Carries messages, and sees no rows; the socket's path is set here and nowhere else."""
    return Service(
        name=f"{party.prefix}-engine",
        description=f"heterofedsyn engine of {party.name} (NVFlare client)",
        user=party.engine,
        group=party.group,
        command=_start(party),
        environment={**_path(party), "HETEROFEDSYN_SOCKET": str(party.socket)},
        settings=_kept_from_rows(party),
        after=("network-online.target", f"{party.prefix}-agent.service"),
    )


def _supernode(party: Party) -> Service:
    """Carries messages, and sees no rows; it runs nothing unless the site wants it to."""
    isolation = "subprocess" if party.runs_apps else "process"
    secret = () if party.runs_apps else ("--superexec-auth-secret-file", str(party.secret))
    socket = {"HETEROFEDSYN_SOCKET": str(party.socket)} if party.runs_apps else {}
    return Service(
        name=f"{party.prefix}-engine",
        description=f"heterofedsyn engine of {party.name} (Flower SuperNode)",
        user=party.engine,
        group=party.group,
        command=(
            str(party.programs / "flower-supernode"),
            *("--superlink", f"{party.host}:{party.port}"),
            *("--root-certificates", str(party.root)),
            *("--auth-supernode-private-key", str(party.key)),
            *("--host", "127.0.0.1", "--port", str(party.runtime_port)),
            *("--ssl-certfile", str(party.runtime_certificate)),
            *("--ssl-keyfile", str(party.runtime_key)),
            *("--ssl-ca-certfile", str(party.runtime_certificate)),
            *("--isolation", isolation, *secret),
        ),
        environment={
            **_path(party),
            **socket,
            "FLWR_HOME": str(party.kit / "flower"),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
        },
        settings=_kept_from_rows(party),
        after=("network-online.target", f"{party.prefix}-agent.service"),
    )


def _relay(party: Party) -> Service:
    """Answers what a SuperNode was sent by asking the agent; it reaches no other machine."""
    return Service(
        name=f"{party.prefix}-relay",
        description=f"heterofedsyn relay of {party.name} (between SuperNode and agent)",
        user=party.engine,
        group=party.group,
        command=(
            str(party.programs / "heterofedsyn"),
            *("site", "relay", "--supernode", f"127.0.0.1:{party.runtime_port}"),
            *("--secret", str(party.secret)),
            *("--certificate", str(party.runtime_certificate)),
        ),
        environment={
            **_path(party),
            "HETEROFEDSYN_SOCKET": str(party.socket),
            "FLWR_HOME": str(party.kit / "flower"),
            "FLWR_TELEMETRY_ENABLED": "0",
        },
        settings=(
            *_kept_from_rows(party),
            "IPAddressDeny=any",
            "IPAddressAllow=localhost",
        ),
        after=(f"{party.prefix}-engine.service",),
    )


def _kept_from_rows(party: Party) -> tuple[str, ...]:
    """What holds for all processes of the engine's user."""
    return (
        "RestartSec=10",
        *_CONFINED,
        f"ReadWritePaths={_paths(party.kit)}",
        f"InaccessiblePaths={_paths(party.agent_folder, party.rows, _anchor(party))}",
    )


def _hub(party: Party) -> Service:
    """Asks sites, and keeps noisy answers."""
    return Service(
        name=f"{party.prefix}-hub",
        description=f"heterofedsyn hub of {party.federation} (NVFlare server)",
        user=party.engine,
        group=party.group,
        command=_start(party),
        environment={
            **_path(party),
            "HETEROFEDSYN_HUB": str(party.state / "studies"),
            "NUMBA_CACHE_DIR": str(party.cache),
        },
        settings=(
            "RestartSec=10",
            f"CacheDirectory={party.prefix}",
            *_CONFINED,
            f"ReadWritePaths={_paths(party.kit, party.state)}",
        ),
        after=("network-online.target",),
    )


def users_script(party: Party) -> str:
    """Makes a party's users, group and folders; it may run twice.

    The folder and what root runs or reads in it stay root's: whoever could write there would be
    root at the next command.
    """
    users = (party.engine,) if party.kind == "hub" else (party.agent, party.engine)
    group, home, kit = party.group, _words(party.folder), _words(party.kit)
    own = (
        (party.state,) if party.kind == "hub" else (party.agent_folder, party.rows, _anchor(party))
    )
    guarded = tuple(party.folder / name for name in instructions(party))
    folders, files = _words(*own), _words(*guarded)
    lines = [
        *_no_links(party.folder, party.kit, *own, *guarded),
        f"getent group {group} > /dev/null || groupadd --system {group}",
    ]
    lines += [
        f"id {user} > /dev/null 2>&1 || useradd --system --gid {group} --home-dir {home} "
        f"--no-create-home --shell /usr/sbin/nologin {user}"
        for user in users
    ]
    lines += [
        f"chown -h root:root {home} {files}",
        f"chmod 755 {home}",
        f"chmod 644 {files}",
        f"mkdir -p {folders}",
        f"chown -h {users[0]}:{group} {folders}",
        f"chmod 700 {folders}",
        f"chown -hR {party.engine}:{group} {kit}",
        f"chmod 700 {kit}",
    ]
    return _script(f"The users and folders of {party.name}; run as root.", lines)


def start_script(party: Party) -> str:
    """Installs a party's units and starts them, again if they run."""
    files = [service.file for service in services(party)]
    names = " ".join(service.name for service in services(party))
    lines = [
        *_no_links(party.folder, *(party.folder / file for file in files)),
        f"cd {_words(party.folder)}",
        "if ! systemctl show --property=Version >/dev/null 2>&1; then",
        '    echo "systemd does not run here; start what ExecStart of each .service says, as" \\',
        '        "its User, with its Environment and folders below /run and /var/cache" >&2',
        "    exit 1",
        "fi",
        f"cp {' '.join(files)} {UNITS}/",
        "systemctl daemon-reload",
        f"systemctl enable {names}",
        f"systemctl restart {names}",
    ]
    return _script(f"Installs and starts the units of {party.name}; run as root.", lines)


def instructions(party: Party) -> tuple[str, ...]:
    """The files in a party's folder that root runs, installs or reads names from."""
    return (PARTY, USERS_SCRIPT, START_SCRIPT, *(service.file for service in services(party)))


def write_services(party: Party, folder: Path) -> None:
    """Write units and scripts of a party into a folder."""
    files = {service.file: service.unit() for service in services(party)}
    files |= {USERS_SCRIPT: users_script(party), START_SCRIPT: start_script(party)}
    for name, text in files.items():
        with file_written_whole(folder / name) as partial:
            partial.write_text(text, "utf-8")
            partial.chmod(0o644)


def _no_links(*paths: Path) -> tuple[str, ...]:
    """Lines that end a script where a link is in the place of a folder or file."""
    return (
        f"for path in {_words(*paths)}; do",
        '    if [ -L "$path" ]; then',
        '        echo "$path is a link; see who made it, remove it, and run this again" >&2',
        "        exit 1",
        "    fi",
        "done",
    )


def _words(*paths: Path) -> str:
    """Paths as a shell reads them."""
    return " ".join(shlex.quote(str(path)) for path in paths)


def _script(purpose: str, lines: list[str]) -> str:
    return "\n".join(("#!/bin/sh", f"# {purpose}", "set -eu", *lines)) + "\n"


def _start(party: Party) -> tuple[str, ...]:
    return (str(party.kit / "startup" / "sub_start.sh"), "--once")


def _path(party: Party) -> dict[str, str]:
    return {"PATH": f"{party.programs}:/usr/bin:/bin"}


def _anchor(party: Party) -> Path:
    if party.anchor is None:
        raise ValueError("a site has a folder for its anchor")
    return party.anchor


def _paths(*paths: Path) -> str:
    return " ".join(_quoted(str(path)) for path in paths)


def _quoted(word: str) -> str:
    """A word of a unit, which takes % and $ for its own."""
    word = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{word}"' if any(letter.isspace() for letter in word) else word
