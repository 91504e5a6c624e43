"""A first schema from a table that its owner declares public, to be read and corrected by hand."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING, Any

from heterofedsyn.errors import SchemaError
from heterofedsyn.schema._checks import SECOND
from heterofedsyn.schema._doubts import Choice, doubts, in_proven_order, proven_order
from heterofedsyn.schema._seen import (
    AS_IT_IS,
    KINDS,
    MOST_VALUES,
    Held,
    Seen,
    Way,
    told_decimals,
)
from heterofedsyn.schema._settings import MOST_ALL_CODES
from heterofedsyn.schema.outline import Entry, Options, Outline, option, settled
from heterofedsyn.schema.schema import MOST_SCHEMA_BYTES

if TYPE_CHECKING:
    import pyarrow as pa

FEW_VALUES = 1_000
"""Texts of a column that are taken for categories however seldom each is there."""

EVIDENCE = 20
"""Rows that a guess needs which rests on all of them being alike or different."""

_LARGEST = 2**61
_EPOCH = datetime(1970, 1, 1)
_LONG_TEXT = 40
_AS_KEY = "; as a key, invented ids take its place"
_ID_NAME = re.compile(
    r"(?:^|[\W_])(?i:id|key|nr|no|num|number|uuid|guid|pid|mrn|ssn|kennung|nummer|index)\W*$"
    r"|[a-z](?:Id|ID|Nr|Key)$|^(?i:unnamed: 0|rowid|patid|patientid)$"
)
_ID_VALUE = re.compile(r"[^\W_]*[\W_]?[^\W_]*[0-9][\w.:/-]*")


def draft(
    batches: Iterable[pa.RecordBatch],
    *,
    label: str | None = None,
    ways: Sequence[Way] = (AS_IT_IS,),
) -> Outline:
    """An outline that the rows fit: types, ranges and values are taken from the rows themselves.

    What it says is as public as the rows are: use it on public data only, or replace every
    range and list of values by what is publicly known. A column for which no entry can be written
    is left out, with the reason.

    Args:
        label: the column that a model would predict.
        ways: how cells may be written, the likeliest first.

    Raises:
        SchemaError: there are no rows, no column can be drafted, or the label is none of them.
    """
    from heterofedsyn.schema._candidates import Sample, candidates

    columns: dict[str, Seen] = {}
    sample, rows = Sample(), 0
    for batch in batches:
        rows += batch.num_rows
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            columns.setdefault(name, Seen(name, ways)).add(array)
        sample.add(batch, columns)
    if not rows:
        raise SchemaError("there are no rows to draft a schema from; pass a table with rows")
    comma = any(_needs_comma(seen) for seen in columns.values())
    proof = proven_order(columns.values(), ways)
    chosen = {
        name: in_proven_order(seen, _choice(seen, comma=comma), proof[0])
        for name, seen in columns.items()
    }
    entries = _within_limits([_entry(seen, chosen[name], proof) for name, seen in columns.items()])
    kept = [entry for entry in entries if not entry.left_out]
    if all(entry.settings["type"] == "key" for entry in kept):
        listed = "; ".join(f"column {e.name!r}: {e.left_out or 'a key'}" for e in entries)
        raise SchemaError(f"no column can be drafted: {listed}; write their entries by hand")
    written = {name: choice[1] for name, choice in chosen.items() if choice}
    outline = Outline(
        entries,
        dialect=_dialect(columns, chosen, {entry.name for entry in kept}),
        candidates=candidates(
            sample.coded(kept),
            sample.dated(kept, written),
            sample.numbered(kept, written),
            complete=sample.stride == 1,
        ),
    )
    return _labelled(outline, label)


def _labelled(outline: Outline, label: str | None) -> Outline:
    """The outline with a label and the task that follows from it."""
    if label in outline.left_out:
        raise SchemaError(f"label {label!r} is left out: {outline.left_out[label]}")
    replace(outline.schema(), label=label)  # refuses what is no column
    task = None
    for entry in outline.entries:
        if entry.name == label and not entry.left_out:
            task = _task(entry.settings)
    return replace(outline, label=label, task=task)


def _task(settings: Mapping[str, Any]) -> str | None:
    kind = settings["type"]
    if kind == "boolean":
        return "binary_classification"
    if kind == "categorical":
        many = len(settings["values"])
        return "binary_classification" if many == 2 else "multiclass_classification"
    if kind in ("integer", "number"):
        two = kind == "integer" and settings["max"] - settings["min"] == 1
        return "binary_classification" if two else "regression"
    return None


# WHAT A COLUMN IS


def _needs_comma(seen: Seen) -> bool:
    """Whether a column holds numbers only if commas are decimal ones."""
    ways = [way for way, _ in seen.of("number")]
    return bool(ways) and all(dict(way.options).get("decimal") == "," for way in ways)


def _choice(seen: Seen, *, comma: bool) -> Choice | None:
    """The most telling kind that holds for all rows, and how they are written."""
    for kind in KINDS:
        found = [(way, reading) for way, reading in seen.of(kind) if not reading.empty]
        if comma and kind in ("integer", "number"):  # as the other columns are written
            found.sort(key=lambda pair: dict(pair[0].options).get("decimal") != ",")
        if kind == "boolean" and _are_initials(seen):
            continue
        if kind == "integer" and (compact := _compact(seen)):
            return compact
        for way, reading in found:
            if kind != "integer" or max(abs(reading.low), abs(reading.high)) < _LARGEST:
                plain = [pair for pair in found if not pair[0].options and pair[1] == reading]
                return (kind, *(plain or [(way, reading)])[0])
    return None


def _are_initials(seen: Seen) -> bool:
    """Whether single letters stand for something else than yes and no: N and S are directions."""
    words = (
        {str(word).strip().lower() for word in seen.values.to_pylist()}
        if seen.values is not None
        else set()
    )
    letters = {word for word in words if word.isalpha()}
    if not letters or any(len(word) > 1 for word in letters):
        return False
    return not any(letters <= {*pair} for pair in ("yn", "tf", "jn"))


def _compact(seen: Seen) -> Choice | None:
    """Dates as 20251231, which are whole numbers too."""
    first, last = ((datetime(year, 1, 1) - _EPOCH) / SECOND for year in (1900, 2100))
    for kind in ("date", "datetime"):
        for way, reading in seen.of(kind):
            compact = dict(way.options).get("date") in ("%Y%m%d", "%Y%m%d%H%M%S")
            if compact and seen.known >= EVIDENCE and first <= reading.low < reading.high < last:
                return kind, way, reading
    return None


def _entry(seen: Seen, choice: Choice | None, proof: tuple[str, str]) -> Entry:
    name = seen.name
    if not name:
        return Entry({"name": name}, "it has no name in the header; give it one there")
    if not seen.known or (choice is None and seen.readings):
        return Entry({"name": name}, "it holds no value here")
    if choice is None:
        why = "its cells are of a type that no column can hold, or of several"
        return Entry({"name": name}, why)
    kind, _, reading = choice
    nullable = {"nullable": True} if reading.missing or reading.nulls else {}
    if reason := _identifies(seen, kind):
        return Entry({"name": name, "type": "key", **_prefix(seen, kind)}, "", (reason,))
    if kind == "categorical" and (left_out := _no_categories(seen)):
        return left_out
    settings = {"name": name, "type": kind, **_limits(seen, kind, reading), **nullable}
    remarks = doubts(seen, choice, proof)
    if seen.known >= EVIDENCE and not nullable and _is_constant(seen, kind, reading):
        return Entry(settings, "all its rows hold the same value, so there is nothing to learn")
    return settled(Entry(settings, "", remarks))


def _within_limits(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """The entries without the longest lists of values, where all of them are too many."""
    kept = list(entries)
    lists = {
        place: entry.settings["values"]
        for place, entry in enumerate(kept)
        if not entry.left_out and entry.settings.get("type") == "categorical"
    }
    letters = {place: sum(map(len, values)) + 8 * len(values) for place, values in lists.items()}
    for place in sorted(letters, key=letters.__getitem__, reverse=True):
        fine = sum(letters.values()) <= MOST_SCHEMA_BYTES // 4
        if fine and sum(map(len, lists.values())) <= MOST_ALL_CODES // 2:
            break
        why = f"{len(lists.pop(place)):,} different texts, too many beside those of other columns"
        letters.pop(place)
        kept[place] = replace(kept[place], left_out=why)
    return tuple(kept)


def _limits(seen: Seen, kind: str, reading: Held) -> dict[str, Any]:
    if kind == "boolean":
        return {}
    if kind == "categorical":
        assert seen.values is not None
        return {"values": sorted(seen.values.to_pylist())}
    low, high = reading.low, reading.high
    if kind == "integer":
        return {"min": int(low), "max": int(high)}
    if kind == "datetime":
        return {"min": _moment(int(low)), "max": _moment(int(high))}
    if kind == "date":
        return {"min": _moment(int(low)).date(), "max": _moment(int(high)).date()}
    ends = dict(zip(("min", "max"), _outwards(low, high), strict=True))
    places = told_decimals(reading)
    return ends | ({} if places is None else {"decimals": places})


def _identifies(seen: Seen, kind: str) -> str:
    """Why a column is taken for an identifier, if it is."""
    if not seen.all_differ or seen.known < max(EVIDENCE, seen.rows):
        return ""
    if kind == "integer":
        (_, reading), *_ = seen.of(kind)
        if reading.high - reading.low + 1 == seen.rows:
            return "a number of its own for every row, from one end to the other: a key"
        return "another number in every row, and called like an identifier: a key" * bool(
            _ID_NAME.search(seen.name)
        )
    if kind != "categorical":
        return ""
    assert seen.values is not None
    words = seen.values[:1_000].to_pylist()
    if all(_ID_VALUE.fullmatch(word) for word in words) or (
        _ID_NAME.search(seen.name) and not seen.blanks
    ):
        return "another code in every row: a key, of which invented ones come back"
    return ""


def _prefix(seen: Seen, kind: str) -> dict[str, str]:
    """What stands before the digits of all identifiers; texts stay texts even with nothing."""
    if kind != "categorical" or seen.values is None:
        return {}
    words = seen.values.to_pylist()
    first, last = min(words), max(words)
    common = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
    return {"prefix": "".join(letter for letter, _ in common).rstrip("0123456789")}


def _no_categories(seen: Seen) -> Entry | None:
    """A column of texts that are no categories."""
    assert seen.values is not None
    many, name = len(seen.values), seen.name
    mean = seen.letters / max(seen.known, 1)
    is_text = mean > _LONG_TEXT or seen.blanks > 3 * seen.known
    key = {"name": name, "type": "key"}
    if is_text and (seen.all_differ or many > FEW_VALUES):
        return Entry(key, f"free text of about {mean:.0f} letters{_AS_KEY}")
    if seen.all_differ and seen.known >= EVIDENCE:
        return Entry(key, f"every row has a text of its own, as names have{_AS_KEY}")
    if many > FEW_VALUES and _ID_NAME.search(name):
        why = "an identifier that repeats; if it tells people apart, name it with --unit"
        return Entry(key, f"{why}{_AS_KEY}")
    if many <= FEW_VALUES or (many <= MOST_VALUES and seen.known >= 2 * many):
        return None
    told = f"more than {MOST_VALUES:,}" if many > MOST_VALUES else f"{many:,}"
    why = (
        f"{told} different texts, too many for its rows; list those of a code book, or coarser ones"
    )
    return Entry({"name": name, "type": "categorical"}, why)


def _is_constant(seen: Seen, kind: str, reading: Held) -> bool:
    if kind == "categorical":
        return seen.values is not None and len(seen.values) == 1
    return reading.low == reading.high


def _moment(second: int) -> datetime:
    """The moment of a second since 1970, or the nearest that a date can say."""
    first, last = ((end - _EPOCH) // SECOND for end in (datetime.min, datetime.max))
    return _EPOCH + timedelta(seconds=min(max(second, first), last))


def _outwards(low: float, high: float) -> tuple[float, float]:
    """The range widened to round numbers, by at most a hundredth of itself at each end."""
    if low == high or not math.isfinite(high - low):
        return low, high
    step = Decimal(1).scaleb(math.floor(math.log10(high - low)) - 2)
    floor = Decimal(repr(low)).quantize(step, ROUND_FLOOR)
    ceiling = Decimal(repr(high)).quantize(step, ROUND_CEILING)
    return float(floor), float(ceiling)


# HOW ALL OF THEM ARE WRITTEN


def _dialect(
    columns: Mapping[str, Seen],
    chosen: Mapping[str, Choice | None],
    kept: set[str],
) -> Options:
    """What the location must say, of all columns at once where that reads each as drafted."""
    needed: dict[str, dict[str, str]] = {}
    for name, choice in chosen.items():
        if choice is None or name not in kept:
            continue
        kind, way, reading = choice
        for key, value in way.options if kind != "categorical" else ():
            needed.setdefault(key, {})[name] = value
        if reading.nulls:
            needed.setdefault("null", {})[name] = ",".join(sorted(reading.nulls))
    dialect: dict[tuple[str, str], tuple[str, ...]] = {}
    for key, by_column in needed.items():
        values = {*by_column.values()}
        others = [columns[name] for name in kept - {*by_column}]
        value = min(values)
        if len(values) == 1 and all(_same(seen, key, value, chosen) for seen in others):
            dialect |= option(key, *_words(key, value))
        else:
            for name, own in by_column.items():
                dialect |= option(key, *_words(key, own), column=name)
    return dialect


def _words(key: str, value: str) -> list[str]:
    return value.split(",") if key == "null" else [value]


def _same(seen: Seen, key: str, value: str, chosen: Mapping[str, Choice | None]) -> bool:
    """Whether a column that does not need an option is read alike with it."""
    choice = chosen[seen.name]
    assert choice is not None
    kind = choice[0]
    if key == "null":
        words = set() if seen.values is None else {*seen.values.to_pylist()}
        return kind != "categorical" or not words & {*value.split(",")}
    if key == "date":
        return True
    if kind not in ("integer", "number"):
        return True
    return any(dict(way.options).get(key) == value for way, _ in seen.of(kind))
