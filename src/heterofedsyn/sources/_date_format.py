"""Formats of dates, as a location gives them: `%d.%m.%Y`, with a time or without."""

from __future__ import annotations

import re
from functools import cache

from heterofedsyn.errors import UsageError

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

LAYOUTS = (
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y", "%Y/%m/%d", "%Y.%m.%d"),
    *("%Y%m%d", "%d.%m.%y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%y", "%d-%b-%Y", "%d-%b-%y"),
    *("%d%b%Y", "%d%b%y", "%d %b %Y", "%b %d, %Y", "%m/%d/%Y %I:%M:%S %p", "%m/%d/%Y %I:%M %p"),
    *("%d/%m/%Y %I:%M:%S %p", "%d/%m/%Y %I:%M %p", "%Y%m%d %H:%M:%S", "%Y%m%d%H%M%S"),
)
"""Common ones, the likelier of two that read the same cells first."""

_TWO = "[0-9]{1,2}"
_CODES = {
    "d": ("day", _TWO),
    "m": ("month", _TWO),
    "b": ("named", f"(?i:{'|'.join(MONTHS)})"),
    "Y": ("year", "[0-9]{4}"),
    "y": ("short", "[0-9]{2}"),
    "H": ("hour", _TWO),
    "I": ("clock", _TWO),
    "M": ("minute", _TWO),
    "S": ("second", _TWO),
    "f": ("fraction", "[0-9]+"),
    "p": ("half", r"[AaPp]\.?[Mm]\.?"),
}
_KNOWN = ", ".join(f"%{code}" for code in _CODES)
_ANY_TIME = (
    r"(?:(?:,? +|[Tt])(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})"
    r"(?::(?P<second>[0-9]{2})(?:[.,][0-9]+)?)?"
    r"(?P<zone>[Zz]| ?[+-][0-9]{2}(?::?[0-9]{2})?)?)?"
)


@cache
def pattern_of(layout: str) -> str:
    """A pattern whose groups are the parts of a date; a layout without a time takes any time.

    Numbers have one digit or two where something stands between them, else two.

    Raises:
        UsageError: a code is unknown, or the parts do not make a date.
    """
    pieces = re.findall(r"%.?|[^%]", layout, re.DOTALL)
    groups: list[str] = []
    pattern = ""
    for place, piece in enumerate(pieces):
        if piece[0] != "%":
            pattern += piece if piece.isalnum() else re.escape(piece)
            continue
        if piece[1:] not in _CODES:
            raise UsageError(f"date= has the code {piece!r}; known: {_KNOWN}")
        name, digits = _CODES[piece[1:]]
        if digits == _TWO and _touches(pieces, place):
            digits = "[0-9]{2}"
        groups.append(name)
        pattern += f"(?P<{name}>{digits})"
    _check(groups)
    return f"^{pattern}{'' if {'hour', 'clock'} & {*groups} else _ANY_TIME}$"


def _touches(pieces: list[str], place: int) -> bool:
    """Whether a code has another one, or a digit, right beside it."""
    around = [*pieces[max(place - 1, 0) : place], *pieces[place + 1 : place + 2]]
    return any(piece[0] == "%" or piece.isdigit() for piece in around)


def _check(groups: list[str]) -> None:
    if len({*groups}) < len(groups):
        raise UsageError("date= has a code twice; write each once, as in %d.%m.%Y")
    there = {*groups}
    for needed in ({"day"}, {"month", "named"}, {"year", "short"}):
        if len(there & needed) != 1:
            raise UsageError("date= needs one day, one month and one year, as in %d.%m.%Y")
    before = {"minute": {"hour", "clock"}, "second": {"minute"}, "fraction": {"second"}}
    for name, needed in {**before, "half": {"clock"}, "clock": {"half"}}.items():
        if name in there and not there & needed:
            raise UsageError("date= has half of a time; write %H:%M:%S, %H:%M or %I:%M %p")
    if {"hour", "clock"} <= there or ({"hour", "clock"} & there and "minute" not in there):
        raise UsageError("date= has half of a time; write %H:%M:%S, %H:%M or %I:%M %p")
