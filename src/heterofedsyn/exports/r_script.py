"""A script of R that reads the table of a release with the types of its schema."""

from __future__ import annotations

from heterofedsyn.errors import plain
from heterofedsyn.exports.description import (
    ColumnFacts,
    check_spelling,
    column_facts,
    title,
    vouched,
)
from heterofedsyn.hub.release import TABLES, Release

MOST_INTEGER = 2**31 - 1
"""Of R's own whole numbers; larger ones are numeric."""

_CLASSES = {"boolean": "logical", "number": "numeric"}
_FORMATS = {"date": "%Y-%m-%d", "datetime": "%Y-%m-%d %H:%M:%S"}


def r_script(release: Release) -> str:
    """The script; it makes a data frame called `release` of the table beside it.

    Raises:
        UsageError: the release was never saved, so that no file can be named, or its CSV is not
            spelt as its schema.
    """
    table, _ = vouched(release, TABLES[0])
    check_spelling(release)
    facts = column_facts(release)
    ends = [","] * (len(facts) - 1) + [""]
    lines = [
        f"# {plain(title(release))}",
        "release <- read.csv(",
        f"  {quoted(table)},",
        '  encoding = "UTF-8", check.names = FALSE, na.strings = character(0),',
        "  colClasses = c(",
        *(
            f"    {quoted(class_of(column))}{end}  # {plain(column.name)}"
            for column, end in zip(facts, ends, strict=True)
        ),
        "  )",
        ")",
    ]
    for place, column in enumerate(facts, start=1):
        lines += _conversion(f"release[[{place}]]", column)
    return "\n".join(lines) + "\n"


def class_of(facts: ColumnFacts) -> str:
    """How R reads a column before its values get their last form."""
    if facts.kind == "integer" and facts.ends is not None:
        fits = all(abs(int(end)) <= MOST_INTEGER for end in facts.ends)
        return "integer" if fits else "numeric"
    if facts.kind == "key":
        return "numeric" if facts.prefix is None else "character"
    return _CLASSES.get(facts.kind, "character")


def quoted(text: str) -> str:
    r"""A text of R, whatever it holds.

    >>> print(quoted('a"b\\'))
    "a\"b\\"
    """
    return '"' + "".join(_letter(letter) for letter in text) + '"'


def _letter(letter: str) -> str:
    if letter in '"\\':
        return "\\" + letter
    if letter.isascii() and letter.isprintable():
        return letter
    return f"\\U{{{ord(letter):x}}}"


def _conversion(target: str, facts: ColumnFacts) -> list[str]:
    """Categories become factors, which keep their order; what is none of them becomes NA."""
    remark = f"  # {plain(facts.name)}"
    if facts.kind in _FORMATS:
        make, zone = ("as.Date", "") if facts.kind == "date" else ("as.POSIXct", ', tz = "UTC"')
        form = quoted(_FORMATS[facts.kind])
        return [f"{target} <- {make}({target}, format = {form}{zone}){remark}"]
    if facts.kind != "categorical":
        return []
    levels = ", ".join(map(quoted, facts.values))
    ordered = ", ordered = TRUE" if facts.ordered else ""
    return [f"{target} <- factor({target}, levels = c({levels}){ordered}){remark}"]
