"""Pages and forms: what a role shows, in one layout, and what a browser sends back."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote

import jinja2
from markupsafe import Markup
from starlette.responses import RedirectResponse, Response

from heterofedsyn import drawing
from heterofedsyn._words import PRIVATE_ROWS, sentence
from heterofedsyn.console.sessions import Session
from heterofedsyn.errors import plain
from heterofedsyn.report.page import template_text

if TYPE_CHECKING:
    from starlette.requests import Request

MOST_LETTERS = 4_000
"""Of one text on a page."""

MOST_MARKS = 4
"""Of one letter, such as accents and vowels; no language has more."""

MOST_SAID = 20
"""Lines that wait to be shown."""

MOST_ROWS = 500
"""Of one table on a page."""

NEW_LINE = Markup("\n")
"""Between lines of a text that one may write in; text of others has none on a page."""

_PLACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9/._=?&%-]*|")
_STATIC = {
    "console.css": "text/css",
    "console.js": "text/javascript",
    "mark.svg": "image/svg+xml",
}


@dataclass(frozen=True)
class Upload:
    """A file that was dropped."""

    name: str
    data: bytes


@dataclass(frozen=True)
class Form:
    """What a person filled in; its token was checked."""

    texts: Mapping[str, str]
    uploads: Mapping[str, Upload]

    def text(self, name: str) -> str:
        """What was written in a field; empty if there is none."""
        return self.texts.get(name, "").strip()


@dataclass(frozen=True)
class Visit:
    """One request in a session, and how it is answered."""

    request: Request
    role: Role
    session: Session
    root: str

    @property
    def here(self) -> str:
        """The page that is asked for, below the root, with its query."""
        path = self.request.url.path.removeprefix(self.root).lstrip("/")
        query = self.request.url.query
        return f"{path}?{query}" if query else path

    @property
    def navigates(self) -> bool:
        """Whether a person asks, and not a page that looks for something new."""
        return bool(self.request.scope["navigates"])

    def part(self, name: str) -> str:
        """A part of the path that the route names."""
        return str(self.request.path_params[name])

    def query(self, name: str, usual: str = "") -> str:
        """A value of the query."""
        return str(self.request.query_params.get(name, usual))

    def number(self, pages: int) -> int:
        """Which of so many pages of a list is asked for."""
        said = self.query("page", "1")
        asked = int(said) if said.isascii() and said.isdigit() and len(said) < 12 else 1
        return min(max(asked, 1), pages)

    def say(self, words: str, *, good: bool = True) -> None:
        """Show a line on the next page that a person asks for."""
        self.session.said.append((good, words))
        del self.session.said[:-MOST_SAID]

    def page(self, template: str, title: str, **values: Any) -> Response:
        """A page in the layout of all; `values` are what its template names."""
        said: list[tuple[bool, str]] = []
        if self.navigates:
            said, self.session.said = self.session.said, said
        text = (
            _environment()
            .get_template(template)
            .render(
                title=title,
                role=self.role,
                root=self.root,
                here=self.here,
                token=self.session.form_token,
                said=said,
                stamp=PRIVATE_ROWS,
                most_rows=MOST_ROWS,
                **values,
            )
        )
        return Response(text, media_type="text/html")

    def go(self, place: str) -> Response:
        """To another page, by its path below the root; after a form that was carried out."""
        if not _PLACE.fullmatch(place) or ".." in place:
            place = ""
        return RedirectResponse(f"{self.root}/{place}", 303)


def download(data: bytes, name: str, kind: str = "application/octet-stream") -> Response:
    """A file to keep; no browser shows it as a page."""
    safe = quote(re.sub(r"[^A-Za-z0-9._-]", "_", name))
    return Response(
        data, media_type=kind, headers={"content-disposition": f'attachment; filename="{safe}"'}
    )


Show: TypeAlias = Callable[[Visit], Response]
Do: TypeAlias = Callable[[Visit, Form], Response]


@dataclass(frozen=True)
class Role:
    """All that one kind of user sees.

    Attributes:
        name: who it is, such as "Steward of elmwood".
        links: paths and words of the navigation.
        views: pages by their path below the root, such as "study/{key}"; run in a thread.
        actions: what forms do, by their path; a failure is shown on the page of the form.
        state: changes whenever a page that is open, given by its path, should be shown anew.
    """

    name: str
    links: Sequence[tuple[str, str]]
    views: Mapping[str, Show]
    actions: Mapping[str, Do]
    state: Callable[[str], str]


def static(name: str) -> Response | None:
    """One of our own files, if there is such a one."""
    kind = _STATIC.get(name)
    return None if kind is None else Response(_static_bytes(name), media_type=kind)


@cache
def _static_bytes(name: str) -> bytes:
    own = (files("heterofedsyn.console") / "static" / name).read_bytes()
    if name != "console.css":
        return own
    return (files("heterofedsyn.report") / "page.css").read_bytes() + own


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader("heterofedsyn.console"), jinja2.FunctionLoader(template_text)]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.filters["fit"] = _fitting
    environment.filters["sentence"] = sentence
    return environment


def _shown(value: object) -> object:
    """Text of others as a page may show it; jinja2 escapes what HTML would obey."""
    if isinstance(value, Markup) or not isinstance(value, str):
        return value
    return _fitting(value, MOST_LETTERS)


def _fitting(text: str, most: int) -> str:
    """Text of no more letters than so many; those that one would not see are written out."""
    return drawing.short(_few_marks(plain(str(text)[: 2 * MOST_LETTERS])), most)


def _few_marks(text: str) -> str:
    """Text whose marks stay at their letters; a pile of them would cover other lines of a page.

    >>> print(_few_marks("e" + 6 * chr(0x301)).removeprefix("e" + 4 * chr(0x301)))
    \\u0301\\u0301
    """
    if text.isascii():
        return text
    found, pile = [], 0
    for letter in text:
        pile = pile + 1 if unicodedata.category(letter)[0] == "M" else 0
        found.append(letter if pile <= MOST_MARKS else ascii(letter)[1:-1])
    return "".join(found)
