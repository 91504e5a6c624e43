"""`make docs`: every document is a page of a site that finds it and loads nothing else."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[1]


def build(root: Path, out: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "tools" / "site" / "build.py", root, out],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site") / "docs"
    done = build(ROOT, out)
    assert done.returncode == 0, done.stderr
    return out


def test_every_document_is_a_page_and_is_found_by_the_search(site: Path) -> None:
    pages = [*ROOT.glob("docs/*.md"), *(ROOT / f"{n}.md" for n in ("SECURITY", "CONTRIBUTING"))]
    text = (site / "index.js").read_text("utf-8")
    index = json.loads(text.removeprefix("const INDEX = ").removesuffix(";\n"))
    found = {place.partition("#")[0] for _, place, _, _ in index}
    for page in pages:
        place = str(page.relative_to(ROOT).with_suffix(".html"))
        assert (site / place).is_file()
        assert place in found
    for _, place, title, _ in index:
        name, _, anchor = place.partition("#")
        assert f'id="{anchor}"' in (site / name).read_text("utf-8"), title


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        for tag in re.findall(r"<(?:img|script|link|iframe|source)\b[^>]*>", text):
            for place in re.findall(r'(?:src|href)="([^"]*)"', tag):
                assert place == "data:," or (page.parent / place).resolve().is_file(), tag
        assert "<style" not in text
    assert "url(" not in (site / "style.css").read_text("utf-8")
    assert not re.search(r"fetch|XMLHttp|innerHTML", (site / "search.js").read_text("utf-8"))


@pytest.mark.parametrize(
    ("link", "said"),
    [
        ("docs/none.md", "there is no docs/none.md"),
        ("#nowhere", "README.md has no heading #nowhere"),
        ("docs/a.md#b", "docs/a.md has no heading #b"),
        ("none.png", "there is no none.png"),
    ],
)
def test_a_broken_link_fails_and_leaves_what_was_built(
    tmp_path: Path, link: str, said: str
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# A\n\n[back](../README.md#start)\n")
    (tmp_path / "README.md").write_text("# Start\n\n[a](docs/a.md) <b>bold</b>\n")
    out = tmp_path / "out"
    assert build(tmp_path, out).returncode == 0
    before = (out / "index.html").read_text()
    assert "&lt;b&gt;" in before
    (tmp_path / "README.md").write_text(f"# Start\n\n[a](docs/a.md) ![x]({link})\n")
    done = build(tmp_path, out)
    assert done.returncode == 1
    assert said in done.stderr
    assert (out / "index.html").read_text() == before


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_a_reader_finds_a_page_by_its_words(site: Path, browser: Browser, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto((site / "docs" / "privacy.html").as_uri(), wait_until="networkidle")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.fill("#query", "croissant registry")
    page.locator("#found a", has_text="Where releases go").first.click()
    page.wait_for_url("**/docs/exports.html*")
    assert page.locator("h1").inner_text() == "Where releases go"
    page.fill("#query", "no such words anywhere")
    assert "Nothing" in page.locator("#found").inner_text()
    assert all(url.startswith(("file:", "data:")) for url in asked)
    assert said == []
    page.close()
