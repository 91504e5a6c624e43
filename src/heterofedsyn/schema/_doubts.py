"""How else the cells of a public table could be meant: what a draft asks whoever reads it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

from heterofedsyn.schema._checks import shown
from heterofedsyn.schema._seen import Held, Seen, Way

Choice: TypeAlias = tuple[str, Way, Held]
"""A kind that holds for all rows of a column, how they are written, and what was read so."""

_DAYS = ("date", "datetime")
_MOST_SAID = 3


def proven_order(columns: Iterable[Seen], ways: Iterable[Way]) -> tuple[str, str]:
    """Whether days or months come first, and the column that proves it; nothing if none does.

    A column proves it whose dates cannot be read the other way round.
    """
    known = {_layout(way) for way in ways} - {""}
    proofs: dict[str, str] = {}
    for seen in columns:
        layouts = [_layout(way) for kind in _DAYS for way, _ in _read(seen, kind)]
        orders = {_order(layout) for layout in layouts}
        turned = any(_turned(layout) in known for layout in layouts)
        if turned and len(orders) == 1:
            proofs.setdefault(orders.pop(), seen.name)
    proofs.pop("", None)
    return next(iter(proofs.items())) if len(proofs) == 1 else ("", "")


def in_proven_order(seen: Seen, choice: Choice | None, order: str) -> Choice | None:
    """The choice, or that of the same dates with days and months in the proven order."""
    if choice is None or choice[0] not in _DAYS or not order:
        return choice
    kind, way, _ = choice
    for other, reading in _read(seen, kind):
        if _layout(other) == _turned(_layout(way)) and _order(_layout(other)) == order:
            return kind, other, reading
    return choice


def doubts(seen: Seen, choice: Choice, proof: tuple[str, str]) -> tuple[str, ...]:
    """What to ask of one column."""
    kind, way, reading = choice
    if kind in _DAYS:
        return _of_dates(seen, choice, proof)
    if kind == "categorical":
        return tuple(_alike(seen))
    if kind not in ("integer", "number"):
        return ()
    return (*_of_marks(seen, kind, way), *_codes(seen, reading))


def _of_dates(seen: Seen, choice: Choice, proof: tuple[str, str]) -> tuple[str, ...]:
    kind, way, _ = choice
    layout, (order, prover) = _layout(way), proof
    turned = _turned(layout)
    if not turned or not any(_layout(other) == turned for other, _ in _read(seen, kind)):
        return _of_marks(seen, kind, way)
    start = "days and months cannot be told apart:"
    if _order(layout) == order:
        return (f"{start} read with date={layout}, the order that column {shown(prover)} proves",)
    return (
        f"{start} read with date={layout}, but date={turned} fits as well; look which is meant",
    )


def _of_marks(seen: Seen, kind: str, way: Way) -> tuple[str, ...]:
    """Another way that reads other values."""
    found = dict(_read(seen, kind))
    others = [other for other, reading in found.items() if reading != found[way]]
    if not way.options or not others:
        return ()
    written, other = (
        "&".join(f"{key}={value}" for key, value in one.options) for one in (way, others[0])
    )
    return (f"read with {written}; {other or 'no option'} would fit as well: look which is meant",)


def _codes(seen: Seen, reading: Held) -> tuple[str, ...]:
    """Numbers that may stand for no value."""
    codes = reading.tails.suspects
    if not codes:
        return ()
    words = ",".join(word for code in codes for word in _words(seen, code))
    column = re.sub("[%&=,]", lambda letter: f"%{ord(letter[0]):02X}", seen.name)
    remedy = f"read with ?null.{column}={words}" if seen.is_text else "make them null"
    low, high = reading.tails.low, reading.tails.high
    settings = ["nullable = true"]
    settings += [f"min = {low:g}"] if codes[0] < low else []
    settings += [f"max = {high:g}"] if codes[-1] > high else []
    told = ", ".join(map(str, codes))
    return (f"{told} may stand for missing: if so, {remedy}, and write {', '.join(settings)}",)


def _words(seen: Seen, code: int) -> list[str]:
    """How a code is written."""
    pattern = re.compile(rf"\s*{code}(?:[.,]0*)?\s*")
    values = [] if seen.values is None else seen.values.to_pylist()
    return sorted({word.strip() for word in values if pattern.fullmatch(word)}) or [str(code)]


def _alike(seen: Seen) -> list[str]:
    """Categories that differ in case and blanks alone."""
    values = [] if seen.values is None else sorted(seen.values.to_pylist())
    groups: dict[str, list[str]] = {}
    for value in values:
        groups.setdefault(" ".join(value.casefold().split()), []).append(value)
    several = [group for group in groups.values() if len(group) > 1]
    if not several:
        return []
    said = "; ".join(", ".join(map(shown, group)) for group in several[:_MOST_SAID])
    more = f"; and {len(several) - _MOST_SAID} more" if len(several) > _MOST_SAID else ""
    return [f"differ in case or blanks only: {said}{more}; if they are the same, mend the rows"]


def _read(seen: Seen, kind: str) -> list[tuple[Way, Held]]:
    return [(way, reading) for way, reading in seen.of(kind) if not reading.empty]


def _layout(way: Way) -> str:
    return dict(way.options).get("date", "")


def _order(layout: str) -> str:
    """Days or months first, where both are numbers that could be either."""
    places = {code: layout.find(code) for code in ("%d", "%m")}
    if min(places.values()) < 0 or layout.startswith("%Y"):
        return ""
    return "days" if places["%d"] < places["%m"] else "months"


def _turned(layout: str) -> str:
    """The same layout with days and months the other way round."""
    if not _order(layout):
        return ""
    return re.sub("%[dm]", lambda code: {"%d": "%m", "%m": "%d"}[code[0]], layout)
