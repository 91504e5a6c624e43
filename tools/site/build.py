"""Build the documents as a site that can be searched: `python tools/site/build.py ROOT OUT`.

The pages are those that the README leads to. Nothing on them is loaded from elsewhere. A link to a
file, a page or a heading that is not there fails the build. Exit codes: 0 built, 1 broken links.
"""

from __future__ import annotations

import json
import posixpath
import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

HERE = Path(__file__).parent
START = "README.md"
ASSETS = ("style.css", "search.js")
MOST_LETTERS = 4_000
"""Of a section, that are searched."""


@dataclass
class Section:
    """A heading and the text below it, as the search knows it."""

    title: str
    anchor: str
    words: list[str] = field(default_factory=list)


@dataclass
class Document:
    """A page: where it lies in the repository, and what it says."""

    path: str
    tokens: list[Token]
    sections: list[Section]
    links: list[str]

    @property
    def title(self) -> str:
        """What its first heading says."""
        return self.sections[0].title

    @property
    def anchors(self) -> set[str]:
        """Where on it a link can lead."""
        return {section.anchor for section in self.sections}

    @property
    def place(self) -> str:
        """Where its page lies in the site."""
        return "index.html" if self.path == START else self.path.removesuffix(".md") + ".html"


def main(root: Path, out: Path) -> int:
    """Build the site, or say which links are broken."""
    reader = reader_of_pages()
    documents = collect(reader, root)
    broken = [line for each in documents.values() for line in check(each, documents, root)]
    for line in broken:
        print(line, file=sys.stderr)
    if broken:
        return 1
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    write(reader, documents, root, out)
    print(f"{len(documents)} pages in {out}/index.html")
    return 0


def reader_of_pages() -> MarkdownIt:
    """Reads documents as GitHub does, raw HTML apart."""
    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def collect(reader: MarkdownIt, root: Path) -> dict[str, Document]:
    """Every page that can be reached from the first one."""
    documents: dict[str, Document] = {}
    waiting = [START]
    while waiting:
        path = waiting.pop(0)
        if path in documents or not (root / path).is_file():
            continue
        documents[path] = read(reader, root, path)
        targets = [target_of(path, link)[0] for link in documents[path].links]
        waiting += [target for target in targets if target.endswith(".md")]
    # The README ends with a list of documents, which is their order.
    listed = [target_of(START, link)[0] for link in documents[START].links]
    last = {target: place for place, target in enumerate(listed)}
    order = sorted(documents, key=lambda path: (path != START, last.get(path, len(listed))))
    return {path: documents[path] for path in order}


def read(reader: MarkdownIt, root: Path, path: str) -> Document:
    """A page with its headings named as GitHub names them."""
    tokens = reader.parse((root / path).read_text("utf-8"))
    sections: list[Section] = []
    links: list[str] = []
    used: dict[str, int] = {}
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            title = text_of(tokens[place + 1])
            anchor = slug(title)
            used[anchor] = used.get(anchor, -1) + 1
            anchor += f"-{used[anchor]}" if used[anchor] else ""
            token.attrSet("id", anchor)
            sections.append(Section(title, anchor))
        elif token.type == "inline" and sections and tokens[place - 1].type != "heading_open":
            sections[-1].words.append(text_of(token))
        elif token.type in ("fence", "code_block") and sections:
            sections[-1].words.append(token.content)
        for child in token.children or ():
            link = child.attrGet("href" if child.type == "link_open" else "src")
            if child.type in ("link_open", "image") and isinstance(link, str):
                links.append(link)
    if not sections:
        raise SystemExit(f"{path} has no heading; give it one")
    return Document(path, tokens, sections, links)


def check(document: Document, documents: dict[str, Document], root: Path) -> list[str]:
    """What is wrong with the links of a page, in lines."""
    lines = []
    for link in document.links:
        if is_elsewhere(link):
            continue
        target, anchor = target_of(document.path, link)
        if not (root / target).is_file():
            lines.append(f"{document.path}: there is no {target} ({link})")
        elif target in documents and anchor not in {"", *documents[target].anchors}:
            lines.append(f"{document.path}: {target} has no heading #{anchor}")
    return lines


def write(reader: MarkdownIt, documents: dict[str, Document], root: Path, out: Path) -> None:
    """All pages, what they show, and the index of the search."""
    shelf = Environment(loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined)
    template = shelf.get_template("page.html")
    for document in documents.values():
        home = "../" * document.place.count("/")
        for token in document.tokens:
            for child in token.children or ():
                rewrite(child, document, documents, root, out)
        body = reader.renderer.render(document.tokens, reader.options, {})
        body = body.replace("<table>", '<div class="wide" tabindex="0"><table>')
        body = body.replace("</table>", "</table></div>").replace("<pre>", '<pre tabindex="0">')
        page = template.render(
            title=document.title,
            body=Markup(body),  # made from our own documents, raw HTML escaped
            home=home,
            here=document.place,
            pages=[(each.title, each.place) for each in documents.values()],
        )
        target = out / document.place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page, "utf-8")
    for name in ASSETS:
        shutil.copy(HERE / name, out)
    index = [
        [document.title, f"{document.place}#{section.anchor}", section.title, words_of(section)]
        for document in documents.values()
        for section in document.sections
    ]
    (out / "index.js").write_text(f"const INDEX = {json.dumps(index)};\n", "utf-8")


def rewrite(
    token: Token, document: Document, documents: dict[str, Document], root: Path, out: Path
) -> None:
    """A link as it must be in the site; a file that it leads to is copied."""
    name = "href" if token.type == "link_open" else "src"
    link = token.attrGet(name) if token.type in ("link_open", "image") else None
    if not isinstance(link, str) or is_elsewhere(link):
        return
    target, anchor = target_of(document.path, link)
    place = target
    if target in documents:
        place = documents[target].place
    else:
        (out / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / target, out / target)
    near = posixpath.relpath(place, posixpath.dirname(document.place) or ".")
    token.attrSet(name, near + (f"#{anchor}" if anchor else ""))


def is_elsewhere(link: str) -> bool:
    """Whether a link leaves the repository; such a link is shown and never followed here."""
    return re.match(r"[a-z][a-z0-9+.-]*:", link) is not None


def target_of(path: str, link: str) -> tuple[str, str]:
    """The file that a link on a page leads to, and the heading there."""
    name, _, anchor = unquote(link).partition("#")
    if not name:
        return path, anchor
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), name)), anchor


def text_of(token: Token) -> str:
    """The words of a line without their marks."""
    kept = ("text", "code_inline")
    children = token.children or ()
    return "".join(
        child.content if child.type in kept else " " if child.type == "softbreak" else ""
        for child in children
    )


def slug(title: str) -> str:
    """The name of a heading in addresses.

    >>> slug("What works today, and what does not")
    'what-works-today-and-what-does-not'
    """
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def words_of(section: Section) -> str:
    """What is searched of a section."""
    return " ".join(" ".join(section.words).split())[:MOST_LETTERS]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
