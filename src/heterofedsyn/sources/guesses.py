"""Which dialect cells look like; for the owner of the rows, since it depends on them.

An agent that serves never asks. No value of a row is in what is said: only marks, layouts of
dates, and words from a fixed list that stand for no value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from heterofedsyn._words import NO_VALUE
from heterofedsyn.errors import UsageError
from heterofedsyn.sources._date_format import LAYOUTS
from heterofedsyn.sources.dialect import OF_CELLS, Dialect, Spelling, written

if TYPE_CHECKING:
    import pyarrow as pa

    from heterofedsyn.sources.source import Source

MARKS = (
    *((".", ""), (",", ""), (",", "."), (".", ","), (".", " "), (",", " ")),
    *((".", "'"), (".", "\u2019"), (",", "'")),
)
"""Before a fraction, and between digits, the usual ones first."""

_WHOLE = r"^(?:[+-]?[0-9]+(?:\.0*)?|(?i:nan))$"
_REAL = r"^(?:[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|(?i:nan))$"
_ISO = (
    r"^[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
    r"(?:[Tt ](?:[01][0-9]|2[0-3]):[0-5][0-9](?:$|:[0-5][0-9].*|[Zz+ -].*))?$"
)
_CANONICAL = {"integer": _WHOLE, "number": _REAL, "date": _ISO, "datetime": _ISO}
_MOST_CELLS = 10_000


def looks_like(cells: pa.Array, kind: str, usual: Spelling = Spelling()) -> Spelling | None:
    """The spelling that reads most of those cells which are not read as they are, if there is one.

    Args:
        cells: text of one column; the first few thousand are looked at.
        kind: integer, number, date or datetime; nothing is said of others.
        usual: how the cells are taken to be written.

    >>> import pyarrow as pa
    >>> looks_like(pa.array(["1.234,5", "7"]), "number")
    Spelling(decimal=',', thousands='.', date='', null=())
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    text = _text(cells[:_MOST_CELLS])
    if text is None or kind not in _CANONICAL:
        return None
    total = len(text)
    now = _read(text, kind, usual)
    best = max(_candidates(kind, usual), key=lambda spelling: _read(text, kind, spelling))
    if _read(text, kind, best) <= now:
        best = usual
    absent = text.filter(pc.is_in(text, value_set=pa.array(NO_VALUE, text.type)))
    found = {*absent.unique().to_pylist()}
    null = tuple(word for word in NO_VALUE if word in found and word not in usual.null)
    best = replace(best, null=(*usual.null, *null))
    missing = len(absent) if null else 0
    gained = _read(text, kind, best) + missing - now
    return best if best != usual and 2 * gained >= total - now else None


def remedy(source: Source, kinds: Mapping[str, str]) -> str | None:
    """What to add to a source's location so that more cells are read, or None.

    Args:
        kinds: the kind of each column of the schema; the first rows of all of them are looked at.
    """
    kinds = {name: kind for name, kind in kinds.items() if kind in _CANONICAL}
    batches = source.batches([*kinds]) if kinds and source.has_dialects else iter(())
    batch = next((batch for batch in batches if batch.num_rows), None)
    if batch is None:
        return None
    options = suggested(source.dialect, {n: (batch.column(n), kinds[n]) for n in kinds})
    if not options:
        return None
    mark = "?" if source.dialect == Dialect() else "&"
    return f"it looks like another dialect: add {mark}{options} to the location"


def suggested(dialect: Dialect, columns: Mapping[str, tuple[pa.Array, str]]) -> str:
    """Options with which more cells are read; nothing if all looks as the dialect says.

    What columns have in common is said once, if no other column is read worse by it.

    Args:
        columns: cells and kind of each, by name.
    """
    usual = {name: dialect.of(name) for name in columns}
    found = {
        name: looks_like(cells, kind, usual[name]) or usual[name]
        for name, (cells, kind) in columns.items()
    }
    options = []
    for key in OF_CELLS:
        new = {name: getattr(like, key) for name, like in found.items()}
        new = {name: value for name, value in new.items() if value != getattr(usual[name], key)}
        values = {*new.values()}
        unsaid = not dialect.columns and getattr(dialect.cells, key) == getattr(Spelling(), key)
        once = len(values) == 1 and unsaid and (key != "null" or len(new) > 1)
        same = {n: _alike(*columns[n], found[n], key, *values) for n in columns} if once else {}
        if once and None not in same.values():
            options.append(written(key, *values))
            found = {name: like for name, like in same.items() if like is not None}
        else:
            options += [written(key, _added(key, new[n], usual[n]), n) for n in new]
    return "&".join(options)


def _added(key: str, value: str | tuple[str, ...], usual: Spelling) -> str | tuple[str, ...]:
    """What an option has to say: of words for no value, those that are new."""
    return tuple(word for word in value if word not in usual.null) if key == "null" else value


def _alike(cells: pa.Array, kind: str, like: Spelling, key: str, value: Any) -> Spelling | None:
    """The spelling of a column with what is said of others, unless it is read worse by that."""
    if key == "null":
        return like
    try:
        other = replace(like, **{key: value})
    except UsageError:  # the mark means something else there
        return None
    text = _text(cells[:_MOST_CELLS])
    worse = text is not None and _read(text, kind, other) < _read(text, kind, like)
    return None if worse else other


def _text(cells: pa.Array) -> pa.Array | None:
    """The texts that are there, without blanks around them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(cells, pa.DictionaryArray):
        cells = cells.dictionary_decode()
    if not (pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type)):
        return None
    text = pc.ascii_trim_whitespace(cells.drop_null())
    return text.filter(pc.not_equal(text, ""))


def _read(text: pa.Array, kind: str, spelling: Spelling) -> int:
    """How many cells are read in a spelling."""
    import pyarrow.compute as pc

    from heterofedsyn.sources._spelling import rewritten

    plain = rewritten(text, kind, replace(spelling, null=()))
    return int(pc.sum(pc.match_substring_regex(plain, pattern=_CANONICAL[kind])).as_py() or 0)


def _candidates(kind: str, usual: Spelling) -> Iterator[Spelling]:
    if kind in ("date", "datetime"):
        for layout in LAYOUTS:
            yield replace(usual, date=layout)
        return
    for decimal, thousands in MARKS:
        yield replace(usual, decimal=decimal, thousands=thousands)
