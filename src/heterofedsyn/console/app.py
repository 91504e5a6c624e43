"""The console as an application: pages of one role behind the guard."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from heterofedsyn.console.guard import COOKIE, Guard
from heterofedsyn.console.pages import Do, Form, Role, Show, Upload, Visit, static
from heterofedsyn.console.sessions import Sessions
from heterofedsyn.errors import HeterofedsynError

MOST_FIELDS, MOST_UPLOADS = 200, 4
MOST_STREAMS = 12
"""Pages of one session that are told of changes at once."""

LOOK_SECONDS = 1.0
"""Between two looks for something new."""

ALIVE_SECONDS = 15.0
"""Between two lines to a page of which nothing is new, so that one which is gone is noticed."""

GOODBYE = (
    '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>Logged out</title></head>'
    "<body><main><h1>Logged out</h1><p>The session is over. The terminal in which the console runs "
    "shows a new address.</p></main></body></html>"
)


def make_app(
    role: Role,
    *,
    root: str,
    port: int,
    sessions: Sessions,
    log: Callable[[str, str], None],
    stopping: Callable[[], bool] = lambda: False,
) -> Guard:
    """The application that a server runs.

    Args:
        root: the path below which everything lies.
        log: takes the kind of a line, and the line.
        stopping: whether the server wants to end.
    """

    def visit_of(request: Request) -> Visit:
        return Visit(request, role, request.scope["session"], root)

    async def events(request: Request) -> Response:
        visit = visit_of(request)
        if visit.session.streams >= MOST_STREAMS:
            return PlainTextResponse(
                "too many pages are open; close some, then load this one anew\n", 429
            )
        changes = _changes(visit, lambda: stopping() or not sessions.holds(visit.session))
        return StreamingResponse(changes, media_type="text/event-stream")

    def leave(visit: Visit, _: Form) -> Response:
        visit.session.left = True
        answer = Response(GOODBYE, media_type="text/html")
        answer.delete_cookie(COOKIE, path=f"{root}/", httponly=True, samesite="strict")
        return answer

    async def asset(request: Request) -> Response:
        return static(request.path_params["name"]) or PlainTextResponse("not found\n", 404)

    async def missing(request: Request, error: Exception) -> Response:
        words = "There is no such page; it may have been about a study that is gone."
        page = visit_of(request).page("words.html", "Not found", words=words)
        page.status_code = 404
        return page

    views = [(path, _viewing(show, visit_of)) for path, show in role.views.items()]
    actions = [(path, _doing(do, visit_of)) for path, do in role.actions.items()]
    routes = [
        Route(f"{root}/events", events),
        Route(f"{root}/leave", _doing(leave, visit_of), methods=["POST"]),
        Route(f"{root}/static/{{name}}", asset),
        *(Route(f"{root}/{path}", show, methods=["GET"]) for path, show in views),
        *(Route(f"{root}/{path}", do, methods=["POST"]) for path, do in actions),
    ]
    pages = Starlette(routes=routes, exception_handlers={404: missing})
    return Guard(pages, root=root, port=port, sessions=sessions, log=log)


def _viewing(
    show: Show, visit_of: Callable[[Request], Visit]
) -> Callable[[Request], Awaitable[Response]]:
    """A page, made in a thread: what it shows is read from disk, or computed."""

    async def view(request: Request) -> Response:
        visit = visit_of(request)
        try:
            return await run_in_threadpool(show, visit)
        except HeterofedsynError as error:
            page = visit.page("words.html", "This cannot be shown", words=str(error))
            page.status_code = 422
            return page

    return view


def _doing(
    do: Do, visit_of: Callable[[Request], Visit]
) -> Callable[[Request], Awaitable[Response]]:
    """What a form does, if it holds the session's token; what fails is said where the form is."""

    async def action(request: Request) -> Response:
        visit = visit_of(request)
        form = await _read(request)
        if not hmac.compare_digest(form.text("token").encode(), visit.session.form_token.encode()):
            return PlainTextResponse("this form is not of this session; load its page anew\n", 403)
        try:
            return await run_in_threadpool(do, visit, form)
        except HeterofedsynError as error:
            visit.say(str(error), good=False)
            return visit.go(form.text("back"))

    return action


async def _read(request: Request) -> Form:
    """A form as browsers send it."""
    texts, uploads = {}, {}
    async with request.form(max_files=MOST_UPLOADS, max_fields=MOST_FIELDS) as fields:
        for name, value in fields.multi_items():
            if isinstance(value, UploadFile):
                uploads[name] = Upload(value.filename or "", await value.read())
            else:
                texts[name] = value
    return Form(texts, uploads)


async def _changes(visit: Visit, over: Callable[[], bool]) -> AsyncIterator[str]:
    """Says that something is new; what it is, the page asks for itself."""
    loop, page = asyncio.get_running_loop(), visit.query("page")
    visit.session.streams += 1
    try:
        known = await run_in_threadpool(visit.role.state, page)
        yield "retry: 3000\n\n"
        told = loop.time()
        while not over():
            await asyncio.sleep(LOOK_SECONDS)
            state = await run_in_threadpool(visit.role.state, page)
            if state != known:
                known, told = state, loop.time()
                yield "event: changed\ndata: \n\n"
            elif loop.time() - told > ALIVE_SECONDS:
                told = loop.time()
                yield ": nothing new\n\n"
        yield "event: over\ndata: \n\n"
    finally:
        visit.session.streams -= 1
