"""Reports in a real browser: on phones and desks, light and dark, on paper, read by machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page

from heterofedsyn.cli.app import run
from heterofedsyn.schema import CategoricalColumn, draft
from heterofedsyn.simulate.hospitals import hospitals
from report_support import published

pytestmark = pytest.mark.slow

PATIENTS = 3_000
PHONE, DESK = 390, 1280


@dataclass
class View:
    """A page as somebody sees it, and all that happened while it was opened."""

    page: Page
    address: str
    messages: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def ask(self, script: str) -> Any:
        """What a function written in JavaScript finds on the page."""
        return self.page.evaluate(script)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both forms of the report on a small demo, and one on a trying table, by the command line."""
    folder = tmp_path_factory.mktemp("reports")
    release, rows = folder / "release", folder / "rows.csv"
    pyarrow.csv.write_csv(pa.concat_tables(hospitals(patients=PATIENTS).values()), rows)
    demo = ["demo", "--patients", str(PATIENTS), "--epsilon", "5", "--seed", "1"]
    assert run([*demo, "--out", str(release)]) == 0
    public, internal = folder / "public.html", folder / "internal.html"
    assert run(["report", str(release), "--out", str(public)]) == 0
    assert run(["report", str(release), "--real", str(rows), "--out", str(internal)]) == 0
    pages = {"public": public, "internal": internal, "awkward": awkward(folder)}
    for name, source in (
        ("board", published(release, folder / "p")),
        ("awkward board", folder / "awkward"),
    ):
        pages[name] = folder / f"{name}.html"
        assert run(["report", str(source), "--for", "board", "--out", str(pages[name])]) == 0
    return pages


def awkward(folder: Path) -> Path:
    """The report on a table with names, sizes and sites that no layout likes."""
    rng = np.random.default_rng(5)
    odd = '<b>"bold" & </script> a name that is far too long for any label beside a figure'
    table = pa.table(
        {
            odd: rng.integers(0, 3, 900),
            "Größe in Zentimetern 身長": rng.normal(170, 9, 900),
            "one": ["only"] * 900,
            "many": [f"category {value} of very many" for value in rng.integers(0, 60, 900)],
            "often missing": pa.array(rng.integers(0, 9, 900), mask=rng.random(900) < 0.6),
            **{f"q{number:02}": rng.random(900) < 0.5 for number in range(24)},
        }
    )
    places = folder / "awkward.csv", folder / "awkward.toml", folder / "awkward"
    pyarrow.csv.write_csv(table, places[0])
    schema = draft(table.to_batches()).schema()
    one = CategoricalColumn("one", ("only",))  # a draft leaves it out
    replace(schema, columns=(*schema.columns, one)).save(places[1])
    terms = ["--epsilon", "1", "--delta", "1e-9", "--seed", "1", "--sites", "13"]
    given = ["--data", str(places[0]), "--schema", str(places[1]), "--out", str(places[2])]
    assert run(["simulate", *given, *terms]) == 0
    page = folder / "awkward.html"
    assert run(["report", str(places[2]), "--out", str(page)]) == 0
    return page


def opened(browser: Browser, file: Path, width: int, scheme: Any) -> View:
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, reduced_motion="reduce"
    )
    view = View(context.new_page(), file.as_uri())
    view.page.on("console", lambda message: view.messages.append(message.text))
    view.page.on("pageerror", lambda error: view.messages.append(str(error)))
    view.page.on("request", lambda request: view.requests.append(request.url))
    view.page.goto(view.address, wait_until="networkidle")
    return view


@pytest.fixture(
    scope="module",
    params=[
        (form, width, scheme)
        for form in ("public", "internal", "awkward")
        for width in (PHONE, DESK)
        for scheme in ("light", "dark")
    ],
    ids=lambda param: "-".join(map(str, param)),
)
def view(
    request: pytest.FixtureRequest, browser: Browser, reports: dict[str, Path]
) -> Iterator[View]:
    form, width, scheme = request.param
    seen = opened(browser, reports[form], width, scheme)
    yield seen
    seen.page.context.close()


def test_the_page_loads_itself_and_nothing_else(view: View) -> None:
    assert view.messages == []
    assert [url for url in view.requests if not url.startswith("data:")] == [view.address]


def test_every_figure_is_drawn(view: View) -> None:
    figures = view.ask(
        """() => [...document.querySelectorAll("figure")].map(figure => {
            const drawing = figure.querySelector("svg, img");
            const box = drawing ? drawing.getBoundingClientRect() : {width: 0, height: 0};
            return [figure.id, box.width, box.height];
        })"""
    )
    assert len(figures) >= 10
    assert [name for name, width, height in figures if width < 50 or height < 20] == []


FITS = """() => {
    const wide = document.documentElement.clientWidth, found = [];
    if (document.documentElement.scrollWidth > wide) found.push("the page scrolls sideways");
    for (const element of document.querySelectorAll("body *")) {
        if (element.closest(".scroll > *") || element.closest("svg *")) continue;
        const box = element.getBoundingClientRect();
        if (box.width && (box.right > wide + 0.5 || box.left < -0.5))
            found.push(`${element.tagName} ${element.id} from ${box.left} to ${box.right}`);
    }
    return found;
}"""
OPEN = """() => document.querySelectorAll("details").forEach(one => { one.open = true; })"""
SHUT = """() => document.querySelectorAll("details").forEach(one => { one.open = false; })"""


def test_nothing_sticks_out_of_the_window(view: View) -> None:
    """Wide drawings and tables scroll within themselves; so do those that can be unfolded."""
    assert view.ask(FITS) == []
    view.ask(OPEN)
    assert view.ask(FITS) == []
    view.ask(SHUT)


def test_headings_are_in_order(view: View) -> None:
    levels = view.ask(
        """() => [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")]
            .map(heading => Number(heading.tagName[1]))"""
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_it_breaks_no_rule_of_accessibility(view: View) -> None:
    view.ask(OPEN)
    found = Axe().run(view.page).response["violations"]
    view.ask(SHUT)
    assert [
        f"{rule['id']}: {rule['help']} ({node['target']})"
        for rule in found
        for node in rule["nodes"]
    ] == []


QUADS = """
    // Where the letters of a text are, as four corners: the box without its leading.
    const corners = text => {
        const box = text.getBBox(), to = text.getScreenCTM();
        const [left, right] = [box.x + 0.5, box.x + box.width - 0.5];
        const [top, bottom] = [box.y + 0.22 * box.height, box.y + 0.8 * box.height];
        return [[left, top], [right, top], [right, bottom], [left, bottom]].map(
            ([x, y]) => [to.a * x + to.c * y + to.e, to.b * x + to.d * y + to.f]);
    };
    const texts = svg => [...svg.querySelectorAll("text")]
        .filter(text => text.textContent.trim())
        .map(text => ({words: text.textContent.trim(), text, quad: corners(text)}));
    // A path may hold many shapes; one is a rectangle if it is as long around as its box.
    const pieces = shape => (shape.getAttribute("d") ?? "").split(/(?=M)/).map(piece => {
        const path = shape.cloneNode();
        path.setAttribute("d", piece);
        shape.after(path);
        const box = path.getBBox(), around = 2 * (box.width + box.height);
        const middle = new DOMPoint(box.x + box.width / 2, box.y + box.height / 2);
        const fits = Math.abs(path.getTotalLength() - around) < 0.02 * around + 0.2
            && path.isPointInFill(middle);
        const to = path.getScreenCTM();
        path.remove();
        return fits ? {shape, box: DOMRect.fromRect({
            x: to.a * box.x + to.e, y: to.d * box.y + to.f,
            width: to.a * box.width, height: to.d * box.height})} : null;
    });
    const rectangles = svg => [...svg.querySelectorAll("path")]
        .filter(shape => !shape.closest("defs, clipPath"))
        .filter(shape => getComputedStyle(shape).fill !== "none")
        .flatMap(pieces).filter(piece => piece);
    const drawings = [...document.querySelectorAll("figure svg")].map(svg => ({
        name: svg.closest("figure").id, svg, texts: texts(svg), rectangles: rectangles(svg)}));
"""


OVERLAPS = f"""() => {{ {QUADS}
            // Two convex shapes are apart if a line along some side has them on either hand.
            const between = (one, other) => (corner, place, shape) => {{
                const next = shape[(place + 1) % 4];
                const side = [next[1] - corner[1], corner[0] - next[0]];
                const along = quad => quad.map(point => point[0] * side[0] + point[1] * side[1]);
                const [a, b] = [along(one), along(other)];
                return Math.max(...a) <= Math.min(...b) || Math.max(...b) <= Math.min(...a);
            }};
            const apart = (one, other) =>
                one.some(between(one, other)) || other.some(between(one, other));
            const found = [];
            for (const {{name, texts}} of drawings)
                texts.forEach((one, place) => texts.slice(place + 1).forEach(other => {{
                    if (!apart(one.quad, other.quad))
                        found.push(`${{name}}: "${{one.words}}" and "${{other.words}}"`);
                }}));
            return found;
        }}"""


def test_no_text_in_a_figure_lies_on_another(view: View) -> None:
    found = view.ask(OVERLAPS)
    assert found == []


CUT_OFF = f"""() => {{ {QUADS}
            const found = [];
            for (const {{name, svg, texts}} of drawings) {{
                const box = svg.getBoundingClientRect();
                for (const {{words, quad}} of texts)
                    if (quad.some(([x, y]) => x < box.left - 1 || x > box.right + 1
                            || y < box.top - 1 || y > box.bottom + 1))
                        found.push(`${{name}}: "${{words}}"`);
            }}
            return found;
        }}"""


def test_no_text_in_a_figure_is_cut_off(view: View) -> None:
    found = view.ask(CUT_OFF)
    assert found == []


UNREADABLE = f"""() => {{ {QUADS}
            const parts = colour => colour.match(/[\\d.]+/g).map(Number);
            const light = colour => {{
                const [r, g, b] = parts(colour).slice(0, 3).map(value => value / 255)
                    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
            }};
            const paper = element => {{
                const colour = getComputedStyle(element).backgroundColor;
                const alpha = parts(colour)[3];
                return alpha === 0 && element.parentElement ? paper(element.parentElement) : colour;
            }};
            const under = (svg, shapes, text, [[left, top], , [right, bottom]]) => {{
                const [x, y] = [(left + right) / 2, (top + bottom) / 2];
                const before = Node.DOCUMENT_POSITION_PRECEDING;
                const painted = shapes.filter(({{shape, box}}) =>
                    text.compareDocumentPosition(shape) & before && box.left < x && x < box.right
                    && box.top < y && y < box.bottom);
                return painted.length ? getComputedStyle(painted.at(-1).shape).fill : paper(svg);
            }};
            const found = [];
            for (const {{name, svg, texts, rectangles}} of drawings)
                for (const {{words, text, quad}} of texts) {{
                    const style = getComputedStyle(text), to = text.getScreenCTM();
                    const size = parseFloat(style.fontSize) * Math.hypot(to.a, to.b);
                    const [a, b] = [light(style.fill), light(under(svg, rectangles, text, quad))];
                    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
                    if (size < 9 || contrast < 4.5)
                        found.push(`${{name}}: "${{words}}" ${{size}} px, ${{contrast}} to 1`);
                }}
            return found;
        }}"""


def test_text_in_figures_can_be_read(view: View) -> None:
    """Nine pixels high, and standing out of the paper, or of its bar, by 4.5 to 1."""
    found = view.ask(UNREADABLE)
    assert found == []


THIN = f"""() => {{ {QUADS}
            const found = [], seen = [];
            for (const {{name, rectangles}} of drawings) {{
                const lines = {{}};
                for (const {{box}} of rectangles) {{
                    for (const [line, thick, long] of [
                        [`bottom ${{Math.round(box.bottom)}}`, box.width, box.height],
                        [`left ${{Math.round(box.left)}}`, box.height, box.width]])
                        (lines[line] ??= []).push([thick, long]);
                }}
                for (const [line, bars] of Object.entries(lines)) {{
                    const thick = bars.map(bar => bar[0]), long = bars.map(bar => bar[1]);
                    // Parts of one bar, end to end, are as long as it is thick.
                    if (bars.length < 3 || Math.max(...long) - Math.min(...long) < 0.5) continue;
                    seen.push(name);
                    if (Math.min(...thick) < 1.5)
                        found.push(`${{name}}, ${{line}}: ${{Math.min(...thick)}} px`);
                }}
            }}
            return [new Set(seen).size, found];
        }}"""


def test_bars_are_thick_enough_to_be_seen(view: View) -> None:
    """Bars are filled rectangles that stand on one line; a short one may have hardly any length."""
    found = view.ask(THIN)
    assert found[0] >= 3
    assert found[1] == []


BAD = """<!doctype html><html lang="en"><title>bad</title><body style="background: #fff">
<figure id="bad"><svg width="300" height="100" font-size="12">
<path d="M10 90L30 90L30 20L10 20z" fill="#0072b2"/>
<path d="M40 90H60V50H40zM70 90H71V40H70z" fill="#0072b2"/>
<text x="100" y="30">one word</text>
<text transform="translate(120 60) rotate(-45)">another</text>
<text x="100" y="80" fill="#cccccc">pale</text>
<text x="180" y="80" font-size="6">tiny</text>
<text x="13" y="40" fill="#0072b2">on</text>
<text x="280" y="80">cut off</text>
</svg></figure><p style="width: 2000px">wide</p></body></html>"""


def test_these_checks_notice_what_is_wrong(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "bad.html").write_text(BAD)
    seen = opened(browser, tmp_path / "bad.html", DESK, "light")
    assert seen.ask(OVERLAPS) == ['bad: "one word" and "another"']
    assert seen.ask(CUT_OFF) == ['bad: "cut off"']
    words = [line.split('"')[1] for line in seen.ask(UNREADABLE)]
    assert words == ["pale", "tiny", "on"]
    assert seen.ask(THIN)[1] == ["bad, bottom 106: 1 px"]
    assert "the page scrolls sideways" in seen.ask(FITS)
    seen.page.context.close()


@pytest.mark.parametrize("form", ["public", "internal", "awkward"])
def test_it_prints(browser: Browser, reports: dict[str, Path], tmp_path: Path, form: str) -> None:
    """On paper colours are those of light screens, and nothing is wider than the page."""
    seen = opened(browser, reports[form], 700, "dark")
    seen.page.emulate_media(media="print")
    assert seen.ask("() => document.documentElement.scrollWidth") <= 700
    assert (
        seen.ask(
            """() => [...document.querySelectorAll("figure svg")].filter(svg =>
            svg.getBoundingClientRect().right > 700).length"""
        )
        == 0
    )
    paper = seen.page.pdf(path=tmp_path / "report.pdf", format="A4", print_background=True)
    seen.page.context.close()
    assert paper.startswith(b"%PDF-")
    assert paper.count(b"/Type /Page\n") >= 3


@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("form", ["board", "awkward board"])
def test_a_board_can_read_its_page(
    browser: Browser, reports: dict[str, Path], form: str, width: int, scheme: str
) -> None:
    seen = opened(browser, reports[form], width, scheme)
    assert seen.messages == []
    assert seen.ask(FITS) == []
    found = Axe().run(seen.page).response["violations"]
    seen.page.context.close()
    assert [(rule["id"], rule["help"]) for rule in found] == []


@pytest.mark.parametrize("form", ["board", "awkward board"])
def test_the_page_of_a_board_prints_on_two_sheets(
    browser: Browser, reports: dict[str, Path], form: str
) -> None:
    seen = opened(browser, reports[form], 700, "light")
    seen.page.emulate_media(media="print")
    assert seen.ask("() => document.documentElement.scrollWidth") <= 700
    paper = seen.page.pdf(prefer_css_page_size=True)
    seen.page.context.close()
    assert 1 <= paper.count(b"/Type /Page\n") <= 2


FIRST = """() => {
    const [first, facts] = [document.querySelector("#verdicts"), document.querySelector(".key")];
    const drawn = document.querySelector("figure");
    return [first.getBoundingClientRect().top, first.getBoundingClientRect().top <
        facts.getBoundingClientRect().top, first.compareDocumentPosition(drawn)];
}"""


def test_what_a_table_is_good_for_is_the_first_thing_on_a_screen(
    browser: Browser, reports: dict[str, Path]
) -> None:
    seen = opened(browser, reports["public"], DESK, "light")
    top, before_facts, place = seen.ask(FIRST)
    seen.page.context.close()
    assert top < 300
    assert before_facts
    assert place == 4  # drawings follow
