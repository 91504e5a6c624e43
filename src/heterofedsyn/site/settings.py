"""What a steward decided for one table: where it is, what it may ever spend, who may ask."""

from __future__ import annotations

import grp
import math
import os
import pwd
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import msgspec

from heterofedsyn._files import read_whole
from heterofedsyn._toml import NotToml, from_toml, to_toml
from heterofedsyn.errors import HeterofedsynError, UsageError
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.protocol.plan import check_site_name
from heterofedsyn.schema import Schema
from heterofedsyn.site.ledger.anchor import others_can_write
from heterofedsyn.site.schedule import MOST_TICK, TICK
from heterofedsyn.site.signing import KEY
from heterofedsyn.sources import file_of

STUDY = "study.toml"
"""In the folder of every study that was approved."""

SETTINGS = "site.toml"
MOST_SETTINGS_BYTES = 2**20
MOST_ROWS = 2**50
MOST_SOCKET_PATH = 107
"""Bytes that the operating system allows in the path of a Unix socket."""

MOST_UNIT = 1_000

LEAST_RHO = 1e-10
"""A hundredth of what any method asks of 64 columns at epsilon 0.2; see tests/test_preview.py."""

STUDY_BYTES = 2**30
REFUSED_QUERIES = 2_000
REFUSED_SECONDS = 300.0


@dataclass(frozen=True)
class Limits:
    """What holds a hub back, study by study and in all; `least` is for one part of a query.

    Attributes:
        alone_cap: of all answers, if somebody sees each by itself; None if there is no such cap.
    """

    cap: Budget
    study_cap: Budget
    alone_cap: Budget | None
    least: Budget
    study_bytes: int
    refused_queries: int
    refused_seconds: float

    def strictest(self, other: Limits) -> Limits:
        """Of each limit the stricter one."""
        return Limits(
            cap=min(self.cap, other.cap),
            study_cap=min(self.study_cap, other.study_cap),
            alone_cap=min(
                (cap for cap in (self.alone_cap, other.alone_cap) if cap is not None), default=None
            ),
            least=max(self.least, other.least),
            study_bytes=min(self.study_bytes, other.study_bytes),
            refused_queries=min(self.refused_queries, other.refused_queries),
            refused_seconds=min(self.refused_seconds, other.refused_seconds),
        )


@dataclass(frozen=True, kw_only=True)
class SiteSettings:
    """The settings of one site; the caps live here and nowhere else.

    Attributes:
        folder: of the site, with its ledger; mode 0700.
        name: of the site, as studies call it.
        schema: file of the public schema.
        source: location of the private rows: a file, or a query of a database; no password.
        epsilon: the most that the table may ever spend, at this delta.
        study_epsilon: the most that one study may spend, at the same delta.
        alone_epsilon: the most that all answers may ever cost, at the same delta, if somebody sees
            each of them by itself. Without it the site takes part in no secure aggregation, under
            which an answer seen by itself costs more than is spent.
        unit: column that identifies a person: studies must then protect persons, and without one
            records. The ledger keeps it for life.
        rows: more rows than the table has, generously rounded up. How rows are counted follows it
            and not their number, which the time of an answer would else tell.
        tick: seconds; a reply leaves a whole number of them after its query's turn began.
        least_rho: the least that one part of a query must cost.
        study_bytes: the most that queries and answers of one study may take on disk.
        refused_queries: the most queries of one study that get no answer; the next one, and what
            comes after it, are not looked at.
        refused_seconds: likewise, the most that looking at them may take.
        anchor: file, best on another disk, that repeats the end of the ledger.
        socket: path of the socket on which the agent answers, in a folder of its own.
        engine: user, by name or number, that carries messages; besides the agent's own user
            nobody else may ask.
        group: the group, by name or number, that both users are in.
    """

    folder: Path
    name: str
    schema: Path
    source: str
    epsilon: float
    delta: float
    study_epsilon: float
    anchor: Path
    socket: Path
    engine: str
    group: str
    alone_epsilon: float | None = None
    unit: str | None = None
    rows: int | None = None
    tick: float = TICK
    least_rho: float = LEAST_RHO
    study_bytes: int = STUDY_BYTES
    refused_queries: int = REFUSED_QUERIES
    refused_seconds: float = REFUSED_SECONDS

    def __post_init__(self) -> None:
        check_site_name(self.name)
        if self.rows is not None and not 1 <= self.rows <= MOST_ROWS:
            raise UsageError(f"rows ({self.rows}) must be in 1..{MOST_ROWS}")
        if not 0 <= self.tick <= MOST_TICK:
            raise UsageError(f"tick ({self.tick}) must be in 0..{MOST_TICK:g} seconds")
        places = {"schema": self.schema, "anchor": self.anchor, "socket": self.socket}
        if (file := file_of(self.source)) is not None:
            places["source"] = file
        for place, path in places.items():
            if not path.is_absolute() or "\0" in str(path):
                raise UsageError(f"{place} ({path}) must be a path from the root")
        if self.anchor.is_relative_to(self.folder):
            raise UsageError(
                f"anchor ({self.anchor}) must lie outside of {self.folder}, best on another disk: "
                "whoever restores an old copy of the folder would restore it too"
            )
        if self.socket.is_relative_to(self.folder):
            raise UsageError(
                f"socket ({self.socket}) must lie outside of {self.folder}, which no other user "
                "may enter"
            )
        if len(os.fsencode(self.socket)) > MOST_SOCKET_PATH:
            raise UsageError(
                f"socket ({self.socket}) is longer than {MOST_SOCKET_PATH} bytes; the operating "
                "system takes no more"
            )
        if self.unit is not None and not 1 <= len(self.unit) <= MOST_UNIT:
            raise UsageError(f"unit must be the name of a column, of 1 to {MOST_UNIT:,} letters")
        if not 0 <= self.least_rho < math.inf:
            raise UsageError(f"least_rho ({self.least_rho}) must be a number from 0 on")
        for name in ("study_bytes", "refused_queries", "refused_seconds"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} ({getattr(self, name)}) must be above 0")
        if self.study_cap > self.cap:
            raise UsageError(
                f"study_epsilon ({self.study_epsilon:g}) must be at most epsilon ({self.epsilon:g})"
            )
        if self.alone_cap is not None and self.alone_cap < self.cap:
            raise UsageError(
                f"alone_epsilon ({self.alone_epsilon:g}) must be at least epsilon "
                f"({self.epsilon:g}): an answer that is seen by itself costs no less than one that "
                "is hidden"
            )

    @classmethod
    def load(cls, folder: Path) -> SiteSettings:
        """The settings of the site in a folder.

        Raises:
            UsageError: if there is no site, or its settings are anything else.
        """
        path = folder / SETTINGS
        try:
            text = read_whole(path, MOST_SETTINGS_BYTES).decode("utf-8")
        except FileNotFoundError:
            raise UsageError(
                f"there is no site in {folder}; make one with `heterofedsyn site init`"
            ) from None
        except UnicodeDecodeError:
            raise UsageError(f"{path}: not UTF-8 text; save it as UTF-8") from None
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise UsageError(f"cannot read {path}: {reason}; run this as the site's user") from None
        try:
            return msgspec.convert(from_toml(text), _File).settings(folder)
        except (NotToml, msgspec.ValidationError) as error:
            raise UsageError(f"{path}: these are no settings of a site: {error}") from None
        except HeterofedsynError as error:
            raise UsageError(f"{path}: {error}") from None
        except ValueError:
            raise UsageError(
                f"{path}: these are no settings of a site: a number is too long"
            ) from None

    def again(self) -> SiteSettings:
        """The settings as they are on disk now, by which a site may have become stricter.

        Raises:
            UsageError: if they cannot be read; nobody is answered then, as these may be looser.
        """
        return SiteSettings.load(self.folder)

    def load_schema(self) -> Schema:
        """The public schema by which the site holds its rows, as it is on disk now.

        Raises:
            UsageError: if it cannot be read.
        """
        return Schema.load(self.schema)

    def to_toml(self) -> str:
        """The settings as TOML; `load` gives them back."""
        values = {key: value for key, value in asdict(self).items() if key != "folder"}
        return to_toml({k: str(v) if isinstance(v, Path) else v for k, v in values.items()})

    @cached_property
    def cap(self) -> Budget:
        """The most that the table may ever spend."""
        return Budget.of(epsilon=self.epsilon, delta=self.delta)

    @cached_property
    def study_cap(self) -> Budget:
        """The most that one study may spend."""
        return Budget.of(epsilon=self.study_epsilon, delta=self.delta)

    @cached_property
    def alone_cap(self) -> Budget | None:
        """The most that all answers may cost if somebody sees each by itself; None if unsaid."""
        if self.alone_epsilon is None:
            return None
        try:
            return Budget.of(epsilon=self.alone_epsilon, delta=self.delta)
        except UsageError as error:
            raise UsageError(f"alone_epsilon: {error}") from None

    @cached_property
    def limits(self) -> Limits:
        """All that these settings hold a hub to."""
        return Limits(
            cap=self.cap,
            study_cap=self.study_cap,
            alone_cap=self.alone_cap,
            least=Budget(self.least_rho),
            study_bytes=self.study_bytes,
            refused_queries=self.refused_queries,
            refused_seconds=self.refused_seconds,
        )

    @property
    def studies(self) -> Path:
        """The folder of approved studies, each under its fingerprint."""
        return self.folder / "studies"

    @property
    def receipts(self) -> Path:
        """The folder of signed records."""
        return self.folder / "receipts"

    @property
    def key(self) -> Path:
        """The file of the signing key."""
        return self.folder / KEY

    def group_id(self) -> int:
        """The number of the group that shares the socket, as the machine knows it now."""
        return _number("group", self.group, lambda name: grp.getgrnam(name).gr_gid)

    def askers(self) -> frozenset[int]:
        """The user numbers that may ask: the engine's and the agent's own."""
        return frozenset({self._engine_id(), os.geteuid()})

    def shares_disk(self) -> bool:
        """Whether ledger and anchor are on one disk: whoever restores it restores both."""
        return self.folder.stat().st_dev == self.anchor.parent.stat().st_dev

    def remarks(self) -> tuple[str, ...]:
        """What weakens the site as it is set up, for its steward."""
        remarks: list[str] = []
        if self._engine_id() == os.geteuid():
            remarks.append(
                "REMARK: the engine runs as the agent's own user, so whoever takes over the engine "
                "can read the rows and change the ledger; on a real site give the engine a user of "
                f"its own in {SETTINGS}"
            )
        if self.tick == 0:
            remarks.append(
                "REMARK: tick is 0, so a reply leaves when it is ready, and whoever asks sees how "
                f"long counting took; set tick = {TICK:g} in {SETTINGS}"
            )
        if self.rows is None:
            remarks.append(
                "REMARK: no number of rows is declared, so how rows are counted follows their own "
                f"number, and time may tell of it; set rows in {SETTINGS} to twice as many or more"
            )
        folder = self.anchor.parent
        with suppress(OSError):  # a missing folder is refused elsewhere
            if others_can_write(folder):
                remarks.append(
                    f"REMARK: others can write in {folder}, so they can replace the anchor of the "
                    f"ledger; make it the agent's own: chmod go-w {folder}"
                )
        return tuple(remarks)

    def _engine_id(self) -> int:
        return _number("user", self.engine, lambda name: pwd.getpwnam(name).pw_uid)


def group_of(user: str) -> str:
    """The name of a user's own group."""
    number = _number("user", user, lambda name: pwd.getpwnam(name).pw_uid)
    try:
        return grp.getgrgid(pwd.getpwuid(number).pw_gid).gr_name
    except KeyError:
        raise UsageError(f"user {user!r} has no group of its own; name one with --group") from None


def propose(rows: int) -> int:
    """How many rows a steward may declare: above twice as many, with one digit that is not 0.

    >>> propose(0), propose(3_797), propose(100_000), propose(30_000)
    (1000, 10000, 500000, 100000)
    """
    size = 1_000
    while size <= 2 * rows:
        size = size * 5 // 2 if str(size)[0] == "2" else size * 2
    return size


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What stands in the file."""

    name: str
    schema: str
    source: str
    epsilon: float
    delta: float
    study_epsilon: float
    anchor: str
    socket: str
    engine: str | int
    group: str | int
    alone_epsilon: float | None = None
    unit: str | None = None
    rows: int | None = None
    tick: float = TICK
    least_rho: float = LEAST_RHO
    study_bytes: int = STUDY_BYTES
    refused_queries: int = REFUSED_QUERIES
    refused_seconds: float = REFUSED_SECONDS

    def settings(self, folder: Path) -> SiteSettings:
        """The settings of the site in this folder."""
        others = {
            "folder": Path(os.path.realpath(folder)),
            "schema": Path(self.schema),
            "anchor": Path(self.anchor),
            "socket": Path(self.socket),
            "engine": str(self.engine),
            "group": str(self.group),
        }
        return SiteSettings(**msgspec.structs.asdict(self) | others)


def _number(kind: str, name: str, find: Callable[[str], int]) -> int:
    try:
        if name.isascii() and name.isdigit() and int(name) < 2**32:
            return int(name)
        return find(name)
    except (KeyError, ValueError):
        raise UsageError(
            f"there is no {kind} {name!r} on this machine; make it, or name another in {SETTINGS}"
        ) from None
