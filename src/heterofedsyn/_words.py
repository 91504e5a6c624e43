"""Words that several parts share, and the letter that no word has."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

PRIVATE_ROWS = "computed from private rows: do not publish"
"""Stands on everything that compares with rows and has no guarantee."""

PRIVATE_KEY = "PRIVATE KEY"
"""What files of private keys say of themselves, of whatever kind."""

NOT_PRIVATE = "this is a private key, which must not leave its site; give key.pub instead"
"""All that is ever said of one that is given by mistake."""

NO_TEXT = "\ufdd0"
"""Stands for what is no value of a table; Unicode promises that no text holds this letter."""

NO_VALUE = (
    *("NA", "N/A", "n/a", "#N/A", "NULL", "Null", "null", "None", "none", "nil", "-", "--", "."),
    *("?", "missing", "unknown", "unbekannt", "fehlt", "k.A.", "k. A.", "keine Angabe", "NaN"),
    *("nan", "<NA>", "NaT", "(null)", "\\N", "inconnu", "n.d.", "nd", "na", "Na"),
)
"""What people write for no value, in columns of numbers, dates and truth values."""

MOST_MISFIT = 0.05
MOST_CLAMPED = 0.2
"""Shares of rows, and of a column's values, that may be wrong unless their owner says otherwise."""

SILENCE = 5.0
"""Seconds between two lines of progress."""

STUDY_TEXTS = {
    "title": "What people call the study.",
    "purpose": "What its release will be used for.",
    "contact": "Whom to ask about it.",
    "ethics_approval": "Who approved of it, and under which number.",
    "expires": "Last day (UTC) on which sites may be asked, such as 2030-12-31; none unless given.",
}
"""What a study says of itself, for whoever words it."""


def count(many: int, noun: str, plural: str = "") -> str:
    """A number of things.

    >>> count(1, "row"), count(2_000, "row"), count(2, "query", "queries")
    ('1 row', '2,000 rows', '2 queries')
    """
    return f"{many:,} {noun if many == 1 else plural or f'{noun}s'}"


def sentence(words: str) -> str:
    """Words as a sentence.

    >>> sentence("the agent answers")
    'The agent answers.'
    """
    return f"{words[:1].upper()}{words[1:]}."


def percent(share: float) -> str:
    """A share for people.

    >>> percent(0.1234), percent(0.00012), percent(0.0)
    ('12.3 %', '0.012 %', '0 %')
    """
    value = 100 * share
    if value == 0:
        return "0 %"
    return f"{value:.1f} %" if abs(value) >= 1 else f"{value:.2g} %"


def size(many: int) -> str:
    """Bytes for people.

    >>> size(1_234_567)
    '1.2 MB'
    """
    if many < 1_000:
        return f"{many} B"
    return f"{many / 1e3:.1f} kB" if many < 1e6 else f"{many / 1e6:.1f} MB"


def aloud(fingerprint: str) -> str:
    """All of a fingerprint, in groups that people can compare by telephone.

    >>> aloud("0123456789abcdef")
    '01234567 89abcdef'
    """
    return " ".join(fingerprint[i : i + 8] for i in range(0, len(fingerprint), 8))


def digits_of(told: str) -> str:
    """The digits of a fingerprint, or of some groups of it, however it was written down.

    >>> digits_of("SHA256:01:23:AB"), digits_of(" 0123 AB ")
    ('0123ab', '0123ab')
    """
    return re.sub(r"^sha256[: ]|[:\s]", "", told.strip().lower())


def short(fingerprint: str) -> str:
    """The start of a fingerprint, in lines about what is known already.

    128 bits: whoever makes up two that begin alike needs 2^64 tries.
    """
    return fingerprint[:32]


class Pace:
    """Says now and then how far a long reading or writing has come."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._start = self._last = time.monotonic()

    def __call__(self, rows: int) -> None:
        """Hear how many rows are done."""
        now = time.monotonic()
        if now - self._last >= SILENCE:
            self._last = now
            self._say(f"{rows:,} rows so far, {rows / (now - self._start):,.0f} a second")
