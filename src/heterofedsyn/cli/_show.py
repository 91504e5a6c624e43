"""How commands talk to people: progress on stderr, lines, tables and JSON on stdout.

The only place that writes to a terminal. Names, labels and reasons come from files and programs of
others, so every letter that a terminal would obey is shown escaped.
"""

from __future__ import annotations

import codecs
import io
import json
import shutil
import sys
import time
from collections.abc import Sequence
from typing import IO, TYPE_CHECKING, Any, Literal, TextIO, cast

from heterofedsyn._words import Pace, count, size
from heterofedsyn.errors import plain

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from heterofedsyn.simulate.run import RoundReport


PAGE, WIDE_PAGE = 100, 140
"""Letters of a line where there is no terminal to ask."""

MOST_FIGURE = 16
"""Letters of a figure, which stays on one line."""


def note(text: str) -> None:
    """A line of progress, or of a log."""
    print(plain(text), file=sys.stderr, flush=True)


def say(text: str) -> None:
    """A line of the result."""
    print(plain(text))


def say_json(value: Any) -> None:
    """The result for programs; JSON escapes what terminals obey by itself."""
    print(json.dumps(value, indent=1))


def bytes_out() -> IO[bytes]:
    """Where the bytes of a table go: stdout, and as letters if that is a terminal."""
    sys.stdout.flush()
    return cast("IO[bytes]", _Letters(sys.stdout)) if sys.stdout.isatty() else sys.stdout.buffer


class _Letters(io.RawIOBase):
    """UTF-8 as lines of letters that no terminal obeys."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        letters = bytes(data)
        self._out.write("\n".join(map(plain, self._decode(letters).split("\n"))))
        return len(letters)


def show_round(report: RoundReport) -> None:
    """One finished round as a line of progress."""
    sent = list(report.sent.values())
    who = f"each of {len(sent)} sites" if len(sent) > 1 else next(iter(report.sent))
    note(
        f"  round {report.number + 1}: {report.label}, {count(report.parts, 'release')} "
        f"from {who}, {size(sum(sent))}"
    )


def pace(doing: str) -> Pace:
    """A line on stderr every few seconds while something long is going on."""
    return Pace(lambda text: note(f"{doing}: {text}"))


class Moving:
    """A line that moves while something is waited for; without a terminal, a line now and then.

    Args:
        after: seconds of the same wait after which it is worth a line where nothing moves.
        again: seconds after which it is worth another.
    """

    def __init__(self, after: float = 10.0, again: float = 60.0) -> None:
        self._after, self._again = after, again
        self._text, self._since, self._due = "", 0.0, 0.0
        self._long = 0

    def show(self, text: str) -> None:
        """What is waited for."""
        now = time.monotonic()
        if text != self._text:
            self._text, self._since, self._due = text, now, now + self._after
        line = f"{text} ({now - self._since:.0f} s)"
        if sys.stderr.isatty():
            line = plain(line)[: _columns() - 1]
            print(f"\r{line:<{self._long}}", end="", file=sys.stderr, flush=True)
            self._long = len(line)
        elif now >= self._due:
            self._due = now + self._again
            note(line)

    def clear(self) -> None:
        """Make room for a line that stays."""
        if self._long:
            print(f"\r{'':<{self._long}}\r", end="", file=sys.stderr, flush=True)
            self._long = 0


def _columns() -> int:
    return shutil.get_terminal_size((PAGE, 24)).columns


def show_table(
    title: str, head: Sequence[str], rows: Sequence[Sequence[str]], *, whole: str = ""
) -> None:
    """A table on stdout; the first column is text, the others are figures.

    Args:
        whole: a column that people search for, on one line however long; makes pages wider.
    """
    from rich.console import Console
    from rich.table import Table

    table = Table(title=plain(title), title_justify="left", header_style="bold")
    for place, name in enumerate(head):
        justify: Literal["left", "right"] = "left" if place == 0 else "right"
        # Long words take more lines: they must not push figures beside them off the page.
        figures = place > 0 and all(len(row[place]) <= MOST_FIGURE for row in rows)
        on_one_line = figures or name == whole
        table.add_column(plain(name), justify=justify, overflow="fold", no_wrap=on_one_line)
    for row in rows:
        table.add_row(*map(plain, row))
    # Names of columns are shown as they are: [this] is no colour.
    width = None if sys.stdout.isatty() else WIDE_PAGE if whole else PAGE
    Console(width=width, markup=False, emoji=False, highlight=False).print(table)


def protected(unit: str | None) -> str:
    """Whom a guarantee protects, given the column that tells people apart."""
    from heterofedsyn.protocol import plan

    return plan.protected(unit)
