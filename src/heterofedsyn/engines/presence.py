"""Which sites the server hears of, no finer than times are published: tens of seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from heterofedsyn.engines.progress import rough
from heterofedsyn.errors import closest

HEARD_SECONDS = 30.0
"""After which a site counts as away; engines are heard every ten seconds."""


_LEAST_LETTERS = 6
"""Of a name in which a letter more or less is no name of another site."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """A site of a study, as the server sees its engine.

    Attributes:
        last_seen: seconds since it was heard, rounded up to tens; nothing if it was not since the
            server started.
    """

    site: str
    connected: bool = False
    last_seen: float | None = None

    @property
    def words(self) -> str:
        """When it was heard, for people."""
        if self.last_seen is None:
            return "never"
        when = _time(self.last_seen)
        return f"within {when}" if self.connected else f"{when} ago"


class Presence(msgspec.Struct, frozen=True):
    """Who of a study is connected.

    Attributes:
        others: sites that are connected and that the study does not name.
    """

    sites: tuple[Seen, ...]
    others: tuple[str, ...] = ()

    @property
    def connected(self) -> tuple[str, ...]:
        """The sites that are there."""
        return tuple(seen.site for seen in self.sites if seen.connected)

    @property
    def missing(self) -> tuple[Seen, ...]:
        """The sites that are not."""
        return tuple(seen for seen in self.sites if not seen.connected)

    @property
    def mistyped(self) -> tuple[tuple[str, str], ...]:
        """Names that nobody has, each with the connected site that is surely meant."""
        return tuple(
            (seen.site, other)
            for seen in self.missing
            if seen.last_seen is None
            for other in self.others
            if _slip(seen.site, other)
        )

    def hint(self, site: str) -> str:
        """Whom a name may mean that nobody has connected by: a slip of the finger, perhaps."""
        close = closest(site, self.others)
        return "" if close is None else f"did you mean {close!r}?"


def _slip(one: str, other: str) -> bool:
    """Whether two names are hardly those of two sites: a letter is missing, or two changed places.

    Another letter in the place of one is no slip, nor is a digit: such names are given on purpose.

    >>> _slip("lakside", "lakeside"), _slip("lakesied", "lakeside"), _slip("Lakeside", "lakeside")
    (True, True, True)
    >>> _slip("ward-a", "ward-b"), _slip("site-1", "site-12"), _slip("east", "eastm")
    (False, False, False)
    """
    less, more = sorted((one.casefold(), other.casefold()), key=len)
    if len(less) < _LEAST_LETTERS:
        return less == more
    shorter = {more[:i] + more[i + 1 :] for i, letter in enumerate(more) if not letter.isdigit()}
    turned = {
        less[:i] + less[i + 1] + less[i] + less[i + 2 :]
        for i in range(len(less) - 1)
        if less[i : i + 2].isalpha()
    }
    return less == more or less in shorter or more in turned


class Sightings:
    """Looks again and again at what the server says; its clock may differ from the one here."""

    def __init__(self, sites: Sequence[str]) -> None:
        self._sites = tuple(sites)
        self._last: Mapping[str, float] = {}
        self._ahead = 0.0
        """Of the server's clock, learnt when a site is heard while this looks."""

    def look(self, heard: Mapping[str, float], now: float) -> Presence:
        """Who is there.

        Args:
            heard: when each connected site was last heard, by the server's clock.
            now: by the clock here.
        """
        fresh = [heard[site] for site in heard if self._last.get(site, heard[site]) < heard[site]]
        if fresh:
            self._ahead = max(fresh) - now
        elif heard:
            self._ahead = max(self._ahead, max(heard.values()) - now)  # none is heard in the future
        self._last = dict(heard)
        return _presence(self._sites, heard, now + self._ahead)


def look_once(sites: Sequence[str], heard: Mapping[str, float]) -> Presence:
    """Who is there, by one look, which learns nothing of the server's clock.

    Sites are compared with the one that was heard last, so that a clock hides none of them; if all
    went away together, that is seen only when the server forgets them.

    Args:
        heard: when each connected site was last heard, by the server's clock.
    """
    return _presence(sites, heard, max(heard.values(), default=0.0))


def _presence(sites: Sequence[str], heard: Mapping[str, float], now: float) -> Presence:
    """Who is there at a moment of the server's clock."""
    others = sorted(
        site
        for site, when in heard.items()
        if site not in sites and _seen(site, when, now).connected
    )
    return Presence(tuple(_seen(site, heard.get(site), now) for site in sites), tuple(others))


def _seen(site: str, when: float | None, now: float) -> Seen:
    if when is None:
        return Seen(site=site)
    age = rough(now - when)
    return Seen(site=site, connected=age <= HEARD_SECONDS, last_seen=age)


def _time(seconds: float) -> str:
    """A rough time for people.

    >>> _time(30.0), _time(150.0)
    ('30 s', '3 min')
    """
    return f"{seconds:.0f} s" if seconds < 120 else f"{-(-seconds // 60):.0f} min"
