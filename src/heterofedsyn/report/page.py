"""One self-contained HTML page: no script, nothing loaded, colours for light, dark and paper."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from heterofedsyn import drawing
from heterofedsyn._words import PRIVATE_ROWS
from heterofedsyn.report.blocks import Glossary, Section
from heterofedsyn.report.glossary import TERMS

if TYPE_CHECKING:
    from markupsafe import Markup

MOST_ROWS = 300
"""Rows of a table that are shown."""

MOST_FACTS = 60
"""Facts of a list that are shown."""


_DARK = {
    drawing.INK: "#e6e9ed",
    drawing.SOFT: "#a7b1bc",
    drawing.LINE: "#3a424c",
    drawing.PAPER: "#171b21",
    **dict(
        zip(
            drawing.SERIES,
            ("#4fb0e8", "#f08a4b", "#3cc79f", "#dd8fc4", "#d1a63a", "#9aa6f0"),
            strict=True,
        )
    ),
    **dict(
        zip(
            drawing.RAMP,
            (
                "#1e3140",
                "#203d50",
                "#224b63",
                "#245a79",
                "#256c93",
                "#2c80ad",
                "#4497c6",
                "#69afd9",
                "#98cbea",
                "#cfe7f7",
            ),
            strict=True,
        )
    ),
}


@dataclass(frozen=True)
class Page:
    """All that is shown, and its head."""

    title: str
    lead: str
    private: bool
    facts: tuple[tuple[str, str], ...]
    sections: tuple[Section, ...]
    foot: str
    first: Section | None = None
    """Shown before anything else."""
    brief: bool = False
    """Whether it is to fit on two sheets of paper."""


def render(page: Page) -> str:
    """The page as HTML text."""
    import jinja2
    from markupsafe import Markup

    drawing.check_drawing()
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(template_text),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["drawn"] = Markup  # written by our own writer, which escapes all text
    environment.filters["fit"] = drawing.short
    environment.filters["linked"] = Links(page)
    return environment.get_template("page.html").render(
        page=page,
        style=Markup(_style()),
        policy=policy(),
        stamp=PRIVATE_ROWS,
        most_rows=MOST_ROWS,
        most_facts=MOST_FACTS,
    )


def template_text(name: str) -> str | None:
    """A template of the report by its name, which other pages may use too."""
    place = files("heterofedsyn.report") / name
    return place.read_text("utf-8") if name.endswith(".html") and place.is_file() else None


def policy() -> str:
    """What a browser may do with a report: load and run nothing; its style is named by its hash."""
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def _style() -> str:
    return (files("heterofedsyn.report") / "page.css").read_text("utf-8") + _figure_colours()


class Links:
    """Writes text with each word of the glossary as a link, the first time in a section."""

    def __init__(self, page: Page) -> None:
        explained = {
            name
            for section in page.sections
            for block in section.blocks
            if isinstance(block, Glossary)
            for name, _, _ in block.items
        }
        self._names = {
            word.lower(): term.name
            for term in TERMS
            if term.name in explained
            for word in (term.word, *term.others)
        }
        longest_first = sorted(self._names, key=lambda word: (-len(word), word))
        self._words = re.compile(
            rf"\b({'|'.join(map(re.escape, longest_first)) or '(?!)'})\b", re.IGNORECASE
        )
        self._seen: set[tuple[str, str]] = set()

    def __call__(self, text: str, section: str, most: int = 2000) -> Markup:
        """The text, escaped and cut, in a section of this name."""
        import markupsafe

        def link(found: re.Match[str]) -> str:
            name = self._names[found[1].lower()]
            if (section, name) in self._seen:
                return found[0]
            self._seen.add((section, name))
            return f'<a class="term" href="#{name}">{found[0]}</a>'

        return markupsafe.Markup(
            self._words.sub(link, str(markupsafe.escape(drawing.short(text, most))))
        )


def _figure_colours() -> str:
    """Rules that give the colours of figures their values on dark screens."""
    rules = "".join(
        f'[fill="{light}"]{{fill:{dark}}}[stroke="{light}"]{{stroke:{dark}}}'
        for light, dark in _DARK.items()
    )
    return f"@media screen and (prefers-color-scheme: dark){{{rules}}}\n"
