"""Small tables as text and for notebooks; whatever stands in them is shown and never obeyed."""

from __future__ import annotations

import html
from collections.abc import Sequence

from heterofedsyn.errors import plain

Row = Sequence[str]


def text_of(head: Row, rows: Sequence[Row], words: int = 1) -> str:
    """Aligned lines under a head, if there is one; so many columns are words, the rest figures.

    >>> print(text_of(("ward", "rows"), [("icu", "7"), ("general", "1,203")]))
    ward      rows
    icu          7
    general  1,203
    """
    lines = [[plain(text) for text in row] for row in ((head,) if head else ()) + tuple(rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            text.ljust(width) if place < words else text.rjust(width)
            for place, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def html_of(head: Row, rows: Sequence[Row], words: int = 1, note: str = "") -> str:
    """The same as an HTML table, and a sentence below it."""
    top = f"<thead>{_row(head, words, 'th')}</thead>" if head else ""
    body = "".join(_row(row, words, "td") for row in rows)
    below = f"<p>{html.escape(plain(note))}</p>" if note else ""
    return f"<table>{top}<tbody>{body}</tbody></table>{below}"


def _row(row: Row, words: int, tag: str) -> str:
    cells = (
        f'<{tag} style="text-align: {"left" if place < words else "right"}">'
        f"{html.escape(plain(text))}</{tag}>"
        for place, text in enumerate(row)
    )
    return f"<tr>{''.join(cells)}</tr>"
