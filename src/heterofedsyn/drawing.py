"""Figures as small SVG: one palette, no style sheet inside, the same bytes for the same figure.

Colours are plain attributes taken from one palette, so a page may give each of them another value
by a rule such as `[fill="#0072b2"]`, and a file of its own looks right as it is. That is why the
drawing is made lean here: minifiers shorten styles but do not make them attributes, and the one in
Python (scour) has had no release for years.
"""

from __future__ import annotations

import importlib.util
import io
import itertools
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from heterofedsyn.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#1c2128"
SOFT = "#57606a"
LINE = "#d5dae0"
PAPER = "#ffffff"
SERIES = ("#0072b2", "#c2540a", "#00795c", "#a8508c", "#8f6a00", "#4b5bb5")
"""Colours of kinds of things: blue, vermilion, green, purple, ochre, indigo; after Okabe and Ito,
darkened until each stands out of white paper by 4.5 to 1."""

RAMP = (
    "#e3eef6",
    "#cfe3f0",
    "#b7d6ea",
    "#9bc6e1",
    "#7db5d8",
    "#559dc9",
    "#3482b6",
    "#1d689d",
    "#0f4e7e",
    "#08365c",
)
"""From little to much, in steps that differ in lightness."""

TEXT = 12
"""Size of text, in pixels at full width."""

NEEDED = ("matplotlib", "jinja2")
"""Libraries of the extra `report`."""

_FONTS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif"
_SVG = "http://www.w3.org/2000/svg"
_XLINK = "{http://www.w3.org/1999/xlink}href"


def check_drawing() -> None:
    """Refuse, in one line, when the libraries that draw and lay out are not installed."""
    if not can_draw():
        raise UsageError("this needs the extra `report`: pip install 'heterofedsyn[report]'")


def can_draw() -> bool:
    """Whether the extra `report` is installed."""
    return all(importlib.util.find_spec(name) for name in NEEDED)


@contextmanager
def figure(width: float, height: float) -> Iterator[Figure]:
    """An empty figure of so many pixels to draw on, with the house style while it is open."""
    check_drawing()
    import matplotlib
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {
        "axes.axisbelow": True,
        "axes.edgecolor": SOFT,
        "axes.facecolor": "none",
        "axes.labelcolor": INK,
        "axes.labelsize": TEXT,
        "axes.linewidth": 0.8,
        "axes.prop_cycle": f"cycler('color', {SERIES})",
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlecolor": INK,
        "axes.titlelocation": "left",
        "axes.titlesize": TEXT + 1,
        "axes.titleweight": "bold",
        "axes.unicode_minus": True,
        "figure.dpi": 72,
        "figure.facecolor": PAPER,
        "font.size": TEXT,
        "grid.color": LINE,
        "grid.linewidth": 0.8,
        "legend.frameon": False,
        "legend.fontsize": TEXT,
        "lines.linewidth": 1.6,
        "text.color": INK,
        "text.parse_math": False,  # a dollar in a column's name is a dollar
        "xtick.color": SOFT,
        "xtick.labelcolor": INK,
        "xtick.labelsize": TEXT,
        "ytick.color": SOFT,
        "ytick.labelcolor": INK,
        "ytick.labelsize": TEXT,
    }
    with matplotlib.rc_context(style):
        yield Figure(figsize=(width / 72, height / 72), layout="constrained")


def svg(drawn: Figure, name: str, title: str = "", description: str = "") -> str:
    """A figure as SVG text; names differ within one page, and so do all ids in their figures."""
    import matplotlib

    buffer = io.StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    settings: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": name}
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        # Widths are measured with a font that lacks some scripts; a browser's has them.
        warnings.simplefilter("ignore")
        drawn.savefig(buffer, format="svg", metadata=nothing)
    root = ElementTree.fromstring(buffer.getvalue())
    lean = _lean(root, name)
    _describe(lean, name, title, description)
    return ElementTree.tostring(lean, encoding="unicode") + "\n"


def short(text: str, most: int = 24) -> str:
    """A text that fits on a label: printable, and not longer than so many letters.

    >>> short("a very long name of a column", 12)
    'a very long…'
    """
    letters = "".join(letter if letter.isprintable() else " " for letter in str(text))
    return letters if len(letters) <= most else letters[: most - 1].rstrip() + "…"


def shade(share: float) -> str:
    """The colour of a share of the most there is.

    >>> shade(0.0) == RAMP[0], shade(1.0) == RAMP[-1]
    (True, True)
    """
    return RAMP[min(len(RAMP) - 1, max(0, int(share * len(RAMP))))]


def bare(axes: Axes) -> None:
    """Take the frame and the ticks away."""
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(length=0)


def _lean(node: ElementTree.Element, name: str) -> ElementTree.Element:
    """The same drawing with attributes for styles, rounded numbers, and nothing idle."""
    text = ElementTree.tostring(node, encoding="unicode")
    used = dict.fromkeys(re.findall(r"(?:href=\"#|url\(#)([^\")]+)", text))
    ids = {old: f"{name}-{number}" for number, old in enumerate(used)}
    root = ElementTree.Element(
        "svg",
        {
            "xmlns": _SVG,
            "viewBox": node.get("viewBox", ""),
            "width": node.get("width", "").removesuffix("pt"),
            "height": node.get("height", "").removesuffix("pt"),
            "font-family": _FONTS,
            **_USUAL,
        },
    )
    for child in node:
        _copy(child, root, ids)
    _share(root)
    return root


_USUAL = {"font-size": str(TEXT), "fill": INK, "stroke-linejoin": "round"}
"""What the parts of a drawing inherit."""


def _copy(node: ElementTree.Element, parent: ElementTree.Element, ids: Mapping[str, str]) -> None:
    tag = node.tag.removeprefix(f"{{{_SVG}}}")
    if tag in ("style", "metadata"):
        return
    attributes = _attributes(node, ids)
    unseen = attributes.get("fill") == "none" and not {"stroke", "id"} & {*attributes}
    if tag == "path" and unseen:
        return
    target = parent
    if tag != "g" or attributes:
        target = ElementTree.SubElement(parent, tag, attributes)
        if node.text and node.text.strip():
            target.text = node.text
    for child in node:
        _copy(child, target, ids)
    if target is not parent and tag in ("g", "defs") and not len(target):
        parent.remove(target)


def _share(node: ElementTree.Element) -> None:
    """Paths that follow each other and look alike say so once, in a group around them."""
    children = list(node)
    for child in children:
        node.remove(child)
    for look, run in itertools.groupby(children, _look):
        alike = list(run)
        if look is None or len(alike) < 3:
            for child in alike:
                _share(child)
                node.append(child)
            continue
        around = ElementTree.SubElement(node, "g", dict(look))
        for child in alike:
            ElementTree.SubElement(around, "path", {"d": child.get("d", "")})


def _look(node: ElementTree.Element) -> tuple[tuple[str, str], ...] | None:
    """All that a path says besides where it goes; None for other things."""
    if node.tag != "path" or "id" in node.attrib:
        return None
    return tuple((key, value) for key, value in node.attrib.items() if key != "d")


def _attributes(node: ElementTree.Element, ids: Mapping[str, str]) -> dict[str, str]:
    kept: dict[str, str] = {}
    for key, value in node.attrib.items():
        if key == "id":
            if value in ids:
                kept["id"] = ids[value]
        elif key == "style":
            kept |= _styles(value)
        elif key == _XLINK:
            kept["href"] = f"#{ids[value.removeprefix('#')]}"
        elif key == "clip-path":
            kept[key] = f"url(#{ids[value.removeprefix('url(#').removesuffix(')')]})"
        elif key == "transform" and value.startswith("rotate(-0 "):
            continue
        elif key == "d":
            kept[key] = _path(value)
        elif key in ("transform", "x", "y", "width", "height"):
            kept[key] = _rounded(value)
        else:
            kept[key] = value
    return {key: value for key, value in kept.items() if _USUAL.get(key) != value}


def _styles(text: str) -> dict[str, str]:
    """Declarations as attributes; the font is the whole drawing's."""
    attributes = {}
    for declaration in text.split(";"):
        key, _, value = (part.strip() for part in declaration.partition(":"))
        if key and key != "font-family":
            attributes[key] = value.removesuffix("px") if key == "font-size" else value
    return attributes


def _rounded(text: str) -> str:
    """Tenths of a pixel will do."""

    def shorter(number: re.Match[str]) -> str:
        return f"{float(number[0]):.1f}".removesuffix(".0")

    return re.sub(r"-?\d+\.\d+(e-\d+)?", shorter, " ".join(text.split()))


def _path(text: str) -> str:
    """A path in tenths of a pixel, level and upright lines by one number."""
    steps = []
    at = ("", "")
    for letter, rest in re.findall(r"([A-Za-z])([^A-Za-z]*)", _rounded(text)):
        numbers = rest.split()
        if letter == "L" and numbers[1] == at[1]:
            steps.append(f"H{numbers[0]}")
        elif letter == "L" and numbers[0] == at[0]:
            steps.append(f"V{numbers[1]}")
        else:
            steps.append(letter + " ".join(numbers))
        if numbers:
            at = (numbers[-2], numbers[-1])
    return "".join(steps)


def _describe(root: ElementTree.Element, name: str, title: str, description: str) -> None:
    """A name, and words for those who do not see the drawing."""
    root.set("role", "img")
    given = [("title", title), ("desc", description)]
    said = [(tag, text) for tag, text in given if text]
    for place, (tag, text) in enumerate(said):
        element = ElementTree.Element(tag, {"id": f"{name}-{tag}"})
        element.text = short(text, 10_000)
        root.insert(place, element)
    if said:
        root.set("aria-labelledby", " ".join(f"{name}-{tag}" for tag, _ in said))
