"""A party of a federation: what its folder is for, and the names it has on its machine."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec

from heterofedsyn._defaults import PARTY, SITE_OF_KIT
from heterofedsyn._files import check_no_link, file_written_whole, read_whole, reason
from heterofedsyn._toml import NotToml, from_toml, to_toml
from heterofedsyn.errors import UsageError
from heterofedsyn.protocol.plan import check_site_name

MOST_PARTY_BYTES = 2**16
KIT, ROWS, STATE = "kit", "rows", "state"
NODE_KEY, ROOT, SECRET = "node.key", "root.pem", "secret"
RUNTIME_KEY, RUNTIME_CERTIFICATE = "runtime.key", "runtime.pem"
"""Of a SuperNode's kit."""

PROGRAMS = ("python3", "heterofedsyn")
"""That units start, or that what they start does."""

_HOMES = ("/home", "/root", "/run/user")
_PREFIX = re.compile(r"[a-z][a-z0-9-]{0,23}")
_FEDERATION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*")
_CARRIED = re.compile(r"[A-Za-z0-9_-]+")


class Party(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One party as it was set up, in `federation.toml` of its folder; nothing of it is secret.

    Attributes:
        folder: of the party, on the machine where it will run.
        name: of a site, as studies call it, or the host of the hub.
        fingerprint: of the federation's root certificate.
        prefix: of users, group and units on its machine.
        programs: the folder of the installed programs.
        anchor: the folder of a site's anchor.
        version: of heterofedsyn when the kit was made.
        nvflare: of NVFlare, likewise, if that carries messages.
        flower: of Flower, if that does.
        runtime_port: on which a SuperNode has its tasks fetched, on its own machine.
        runs_apps: whether a SuperNode runs what submitters ship, instead of having us answer.
    """

    federation: str
    kind: Literal["hub", "site"]
    name: str
    host: str
    port: int
    fingerprint: str
    folder: Path
    prefix: str
    programs: Path
    version: str
    nvflare: str | None = None
    flower: str | None = None
    runtime_port: int | None = None
    runs_apps: bool = False
    anchor: Path | None = None

    @property
    def group(self) -> str:
        """The group that agent and engine share, or the hub's own."""
        return self.prefix

    @property
    def agent(self) -> str:
        """The user that owns rows and ledger."""
        return f"{self.prefix}-agent"

    @property
    def engine(self) -> str:
        """The user that carries messages."""
        return f"{self.prefix}-{'hub' if self.kind == 'hub' else 'engine'}"

    @property
    def kit(self) -> Path:
        """The folder of the engine's certificate and settings."""
        return self.folder / KIT

    @property
    def key(self) -> Path:
        """The engine's private key."""
        return self.kit / (NODE_KEY if self.flower else "startup/client.key")

    @property
    def root(self) -> Path:
        """The federation's root certificate."""
        return self.kit / (ROOT if self.flower else "startup/rootCA.pem")

    @property
    def secret(self) -> Path:
        """What a SuperNode and whoever fetches its tasks share."""
        return self.kit / SECRET

    @property
    def runtime_key(self) -> Path:
        """By which a SuperNode proves to whoever fetches its tasks that it is this site's."""
        return self.kit / RUNTIME_KEY

    @property
    def runtime_certificate(self) -> Path:
        """Of that key, and signed with it."""
        return self.kit / RUNTIME_CERTIFICATE

    @property
    def carrier(self) -> str:
        """Which engine carries messages, and its version."""
        return f"NVFlare {self.nvflare}" if self.nvflare else f"Flower {self.flower}"

    @property
    def site(self) -> Path:
        """The folder of the agent's settings and ledger."""
        return self.folder / SITE_OF_KIT

    @property
    def agent_folder(self) -> Path:
        """The one folder in which the agent's user may make others."""
        return self.site.parent

    @property
    def rows(self) -> Path:
        """The folder for schema and rows."""
        return self.folder / ROWS

    @property
    def state(self) -> Path:
        """The folder of what a hub keeps: noisy answers, jobs."""
        return self.folder / STATE

    @property
    def socket(self) -> Path:
        """Where the agent answers."""
        return Path("/run") / self.prefix / "agent.sock"

    @property
    def cache(self) -> Path:
        """Where compiled code is kept."""
        return Path("/var/cache") / self.prefix

    def save(self, folder: Path) -> None:
        """Write it down in a folder."""
        values = {k: v for k, v in msgspec.structs.asdict(self).items() if v is not None}
        with file_written_whole(folder / PARTY) as partial:
            partial.write_text(
                to_toml({k: str(v) if isinstance(v, Path) else v for k, v in values.items()}),
                "utf-8",
            )
            partial.chmod(0o644)

    @classmethod
    def load(cls, folder: Path) -> Party:
        """The party that a folder is of.

        Raises:
            UsageError: if it is of none.
        """
        path = folder / PARTY
        try:
            text = read_whole(path, MOST_PARTY_BYTES).decode("utf-8")
            party = msgspec.convert(from_toml(text), cls, dec_hook=_path)
            party.check()
        except FileNotFoundError:
            raise UsageError(
                f"there is no {PARTY} in {folder}; name the folder that `site kit`, "
                "`site flower` or `federation new` made with --folder"
            ) from None
        except OSError as error:
            raise UsageError(f"cannot read {path}: {reason(error)}") from None
        except (NotToml, msgspec.ValidationError, ValueError, UsageError) as error:
            raise UsageError(f"{path}: this describes no party of a federation: {error}") from None
        return party

    def check(self) -> None:
        """Refuse names that a script or a unit could misread; root runs what is made of them."""
        check_federation_name(self.federation)
        check_prefix(self.prefix)
        check_host(self.host)
        check_port(self.port)
        if self.kind == "hub":
            check_host(self.name)
        else:
            check_carried_name(self.name)
        if (self.anchor is None) is (self.kind == "site"):
            raise UsageError("a site has a folder for its anchor, and a hub has none")
        if (self.nvflare is None) is (self.flower is None):
            raise UsageError("either NVFlare or Flower carries messages")
        if (self.flower is None) is not (self.runtime_port is None):
            raise UsageError("a SuperNode has a port for its tasks, and nobody else has one")
        if self.runtime_port is not None:
            check_port(self.runtime_port)


@contextmanager
def as_owner(folder: Path) -> Iterator[None]:
    """Act as the user whose folder it is, if this is root: links they planted lead nowhere new.

    Raises:
        UsageError: if the folder is a link.
    """
    check_no_link(folder)
    owner = folder.stat()
    if os.geteuid() != 0 or owner.st_uid == 0:
        yield
        return
    before = os.getgroups(), os.getegid()
    os.setgroups([])
    os.setegid(owner.st_gid)
    os.seteuid(owner.st_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(before[1])
        os.setgroups(before[0])


def default_anchor(prefix: str) -> Path:
    """The folder of a site's anchor unless another is named."""
    return Path("/var/lib") / f"{prefix}-anchor"


def own_programs() -> Path:
    """The folder of the programs that run now."""
    return Path(sys.executable).parent


def in_home(path: Path) -> bool:
    """Whether a path, or what it leads to, lies where units that say ProtectHome do not look."""
    places = (Path(os.path.abspath(path)), Path(os.path.realpath(path)))  # noqa: PTH100
    return any(place.is_relative_to(home) for place in places for home in _HOMES)


def remark_on_programs() -> str:
    """What to say if users of a party could not run the programs that run now."""
    here = own_programs()
    if not in_home(here / PROGRAMS[0]):
        return ""
    return f"remark: {here} or its Python lies in a home, which units do not see; install elsewhere"


def check_programs(folder: Path) -> None:
    """Refuse programs that the users of a party could not run."""
    remedy = "install them with the system's Python below /srv or /opt, and name that folder"
    for path in (folder / name for name in PROGRAMS):
        if in_home(path):
            raise UsageError(f"{path} lies in a home, which units do not see; {remedy}")
        try:
            above = Path(os.path.realpath(path)).parents
            open_to_all = path.stat().st_mode & 0o005 == 0o005 and all(
                place.stat().st_mode & 0o001 for place in (*above, *path.parents)
            )
        except OSError as error:
            raise UsageError(f"cannot find {path}: {reason(error)}; {remedy}") from None
        if not open_to_all:
            raise UsageError(f"other users cannot run {path}; {remedy}")


def check_federation_name(name: str) -> None:
    """Refuse a name that certificates and folders do not take."""
    if not _FEDERATION.fullmatch(name):
        raise UsageError(
            f"{name[:100]!r} cannot name a federation: letters, digits, - and _, at most 64; "
            "such as hospitals"
        )


def check_host(host: str) -> None:
    """Refuse what is no name of a machine."""
    if not _HOST.fullmatch(host):
        raise UsageError(
            f"{host[:100]!r} is no name of a machine; say how sites reach the hub, such as "
            "hub.example.org (the port apart, with --port)"
        )


def check_port(port: int) -> None:
    """Refuse what is no port."""
    if not 1 <= port <= 65_535:
        raise UsageError(f"port ({port}) must be in 1..65535")


def check_prefix(prefix: str) -> None:
    """Refuse what users and units cannot be called."""
    if not _PREFIX.fullmatch(prefix):
        raise UsageError(
            f"{prefix[:100]!r} cannot begin the names of users and units: at most 24 small "
            "letters, digits and -, with a letter first"
        )


def check_free(prefix: str) -> None:
    """Refuse a site's prefix that is the name of somebody else's group on this machine."""
    import grp
    import pwd

    taken = prefix in {entry.gr_name for entry in grp.getgrall()}
    if taken and f"{prefix}-agent" not in {entry.pw_name for entry in pwd.getpwall()}:
        raise UsageError(
            f"there is a group {prefix!r} on this machine already, whose members would reach the "
            "agent; name another word with --prefix"
        )


def check_carried_name(name: str) -> None:
    """Refuse a site's name that a study or NVFlare does not take."""
    check_site_name(name)
    if not _CARRIED.fullmatch(name):
        raise UsageError(
            f"site {name!r} has a dot in its name, which NVFlare does not take; use - instead"
        )


def _path(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, str) and value.startswith("/") and value.isprintable():
        return Path(value)
    raise ValueError("a folder must be a path from the root, without control characters")
