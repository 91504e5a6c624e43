"""What stands before every page: who asks, from where, how much and for how long."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import parse_qs

from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from heterofedsyn.console.sessions import Session, Sessions
from heterofedsyn.errors import plain

COOKIE = "heterofedsyn-console"
BODY_SECONDS = 60.0
"""In which all that a form sends must have come."""

MOST_QUERY_BYTES = 4_096
MOST_BODY_BYTES = 2**24 + 2**16
"""A study or receipt, and the form around it."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    # Nothing leaves for elsewhere. With `no-referrer` forms of our own would come from nowhere:
    # browsers then say `Origin: null`.
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), usb=()",
}
NOTHING = (
    "Nothing is shown without the address that `heterofedsyn console` printed last, which works "
    "once and for 15 minutes. Start it again for a new one.\n"
)
WELCOME = (
    '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Console</title>'
    '<link rel="icon" href="{root}/static/mark.svg">'
    '<meta http-equiv="refresh" content="0; url={root}/"></head>'
    '<body><p><a href="{root}/">To the console</a></p></body></html>'
)


class Guard:
    """Lets through what a browser with a session asks of its own pages, and nothing else.

    To everybody else every address looks alike: nothing tells which pages there are.

    Attributes:
        root: the path below which everything lies. It is drawn at every start, and the cookie is
            sent below it alone: browsers send cookies to every port of a machine, and other ports
            may be other people's.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        root: str,
        port: int,
        sessions: Sessions,
        log: Callable[[str, str], None],
    ) -> None:
        self._app = app
        self.root = root
        self._hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self._sessions = sessions
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        began, status = time.monotonic(), 0
        headers = _Headers(scope)

        async def checked_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = _with_ours(message.get("headers", []))
            await send(message)

        session = None
        try:
            answer, session = self._answer(scope, headers)
            if answer is None:
                scope["session"] = session
                body = _Body(receive, headers)
                await self._app(scope, body.receive, checked_send)
            else:
                await answer(scope, receive, checked_send)
        except Exception as error:
            # The text of an unforeseen error could quote a record, so only its place is told.
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(where.filename).name}:{where.lineno}"
            self._log("failed", f"unexpected {type(error).__name__} at {place}; please report this")
            if not status:
                text = PlainTextResponse(f"unexpected {type(error).__name__} at {place}\n", 500)
                await text(scope, receive, checked_send)
        self._note(scope, session, status, time.monotonic() - began)

    def _answer(self, scope: Scope, headers: _Headers) -> tuple[Response | None, Session | None]:
        """What is answered before any page is asked, or the session in which one is."""
        nothing = PlainTextResponse(NOTHING, 403)
        path, method = str(scope["path"]), str(scope["method"])
        if headers.one("host") not in self._hosts or len(scope["query_string"]) > MOST_QUERY_BYTES:
            return nothing, None
        if method == "GET" and path == f"{self.root}/enter":
            return self._enter(scope, headers) or nothing, None
        if method == "GET" and path == f"{self.root}/welcome":
            words = WELCOME.format(root=self.root)
            return Response(words, media_type="text/html"), None
        if not path.startswith(f"{self.root}/") or not _from_here(headers, method):
            return nothing, None
        scope["navigates"] = headers.one("sec-fetch-mode") in ("", "navigate")
        session = self._sessions.find(headers.cookies(COOKIE), active=scope["navigates"])
        if session is None:
            return nothing, None
        if method == "POST" and headers.one("origin") != f"http://{headers.one('host')}":
            return nothing, session
        if method not in ("GET", "HEAD", "POST"):
            return PlainTextResponse("only GET and POST are answered\n", 405), session
        return None, session

    def _enter(self, scope: Scope, headers: _Headers) -> Response | None:
        """The cookie for whoever shows the token; it is in no address from then on.

        The page behind asks for the first page by itself: a browser that came by a link on another
        page, such as a mail, would not show the new cookie at once.
        """
        if headers.one("sec-fetch-dest") not in ("", "document") or headers.one("sec-purpose"):
            return None
        query = parse_qs(scope["query_string"].decode("latin-1"))
        session = self._sessions.enter(query.get("token", [""])[-1])
        if session is None:
            return None
        answer = RedirectResponse(f"{self.root}/welcome", 303, {"referrer-policy": "no-referrer"})
        answer.set_cookie(
            COOKIE, session.cookie, path=f"{self.root}/", httponly=True, samesite="strict"
        )
        return answer

    def _note(self, scope: Scope, session: Session | None, status: int, seconds: float) -> None:
        """A line of the log: no query, and nothing of the path that only a session knows."""
        path = str(scope["path"]).removeprefix(self.root)
        if session is not None and (path.startswith("/static/") or path == "/events"):
            return  # what pages ask for by themselves
        if session is not None:
            line = f"{scope['method']} {plain(path)[:200]} {status} {1000 * seconds:.0f} ms"
            self._log("asked", line)
        elif path == "/enter" and status == 303:
            self._log("entered", "a browser showed the token: it has the console now")
        elif path != "/welcome":
            self._log("refused", f"refused a request without a session ({status})")


class _Headers:
    """The headers of a request, where each counts once."""

    def __init__(self, scope: Scope) -> None:
        self._all: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            self._all.setdefault(name.decode("latin-1"), []).append(value.decode("latin-1"))

    def one(self, name: str) -> str:
        """The value of a header; empty if it is missing, and no value at all if it came twice."""
        found = self._all.get(name, [""])
        return found[0] if len(found) == 1 else "\0"

    def cookies(self, name: str) -> list[str]:
        """All cookies of this name: others on this machine may have set some too."""
        pairs = [each.strip() for line in self._all.get("cookie", []) for each in line.split(";")]
        return [value for key, _, value in (pair.partition("=") for pair in pairs) if key == name]


class _Body:
    """What a request sends, no longer and no slower than a form does."""

    def __init__(self, receive: Receive, headers: _Headers) -> None:
        self._receive = receive
        self._length = headers.one("content-length")
        self._until = time.monotonic() + BODY_SECONDS
        self._bytes = 0
        self._whole = False

    async def receive(self) -> Message:
        """The next part of it."""
        if self._whole:
            return await self._receive()
        if self._length and not (self._length.isdigit() and int(self._length) <= MOST_BODY_BYTES):
            raise _unfit(413, f"more than {MOST_BODY_BYTES:,} bytes are not taken")
        left = self._until - time.monotonic()
        try:
            message = await asyncio.wait_for(self._receive(), max(0.0, left))
        except TimeoutError:
            raise _unfit(408, f"this took longer than {BODY_SECONDS:g} seconds") from None
        if message["type"] == "http.request":
            self._bytes += len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
        if self._bytes > MOST_BODY_BYTES:
            raise _unfit(413, f"more than {MOST_BODY_BYTES:,} bytes are not taken")
        return message


def _unfit(status: int, words: str) -> HTTPException:
    """Of a body that nobody waits for: the connection ends with it."""
    return HTTPException(status, f"{words}\n", {"connection": "close"})


def _from_here(headers: _Headers, method: str) -> bool:
    """Whether the browser says that one of our pages asks, or for reading also a person.

    Browsers that say nothing of it are known by `Origin` and by the token of the form alone.
    """
    site = headers.one("sec-fetch-site")
    return site in ("", "same-origin") or (method in ("GET", "HEAD") and site == "none")


def _with_ours(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Headers of an answer, and those of every answer that it does not have itself."""
    found = list(headers)
    known = {name.decode("latin-1") for name, _ in found}
    ours = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k not in known]
    return [*found, *ours]
