"""Who may see pages: a one-time token from the terminal, then a cookie, until the session ends."""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

TOKEN_SECONDS = 15 * 60.0
"""In which a token must be shown."""

IDLE_SECONDS = 30 * 60.0
"""Without a page asked for by a person, after which a session ends."""

MOST_SECONDS = 8 * 3600.0
"""After which a session ends whatever is done in it."""


@dataclass
class Session:
    """One browser that showed the token.

    Attributes:
        cookie: what the browser shows with every request.
        form_token: what every form of this session holds, and no other page knows.
        said: what is to be shown on the next page, each with whether it is good news.
        kept: what pages remember for this session alone.
        streams: pages that are told of changes at the moment.
        left: whether its user ended it.
    """

    cookie: str
    form_token: str
    began: float
    seen: float
    said: list[tuple[bool, str]] = field(default_factory=list)
    kept: dict[str, object] = field(default_factory=dict)
    streams: int = 0
    left: bool = False


class Sessions:
    """The session that there is, if any; the last one who showed a token has it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._token: str | None = None
        self._token_until = 0.0
        self._session: Session | None = None

    def invite(self) -> str:
        """A new token, which can be shown once; one that was not shown is worth nothing now."""
        self._token = secrets.token_urlsafe(32)
        self._token_until = self._clock() + TOKEN_SECONDS
        return self._token

    def lapse(self) -> bool:
        """Forget a token that nobody showed in time; whether there was one."""
        if self._token is None or self._clock() <= self._token_until:
            return False
        self._token = None
        return True

    def enter(self, token: str) -> Session | None:
        """A session for whoever shows the token in time, and the first time."""
        now = self._clock()
        if self._token is None or now > self._token_until or not _same(token, self._token):
            return None
        self._token = None
        cookie, form_token = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self._session = Session(cookie, form_token, now, now)
        return self._session

    def find(self, cookies: list[str], *, active: bool) -> Session | None:
        """The session that one of these cookies opens, if it has not ended.

        Args:
            active: whether a person asks; what pages ask by themselves keeps no session open.
        """
        session = self._session
        if session is None or not any(_same(cookie, session.cookie) for cookie in cookies):
            return None
        if self.ended():
            return None
        if active:
            session.seen = self._clock()
        return session

    def ended(self) -> bool:
        """Whether there was a session that is over now."""
        session, now = self._session, self._clock()
        if session is None:
            return False
        late = now - session.seen > IDLE_SECONDS or now - session.began > MOST_SECONDS
        return late or session.left

    def holds(self, session: Session) -> bool:
        """Whether this very session is the one that there is."""
        return session is self._session and not self.ended()

    def close(self) -> None:
        """End the session that there is."""
        self._session = None


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())
