"""A schema on its way: what is settled, what a person must fill in, what is left out and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any, TypeAlias

from heterofedsyn._toml import Inline, to_toml
from heterofedsyn.errors import SchemaError, UsageError, did_you_mean, plain
from heterofedsyn.schema._checks import shown
from heterofedsyn.schema.schema import Schema

LACKING = {
    "integer": {"min": "0", "max": "100"},
    "number": {"min": "0", "max": "100"},
    "date": {"min": "2000-01-01", "max": "2030-12-31"},
    "datetime": {"min": "2000-01-01T00:00:00", "max": "2030-12-31T23:59:59"},
    "categorical": {"values": '["...", "..."]'},
}
"""What an entry of each type needs besides name and type, with what a person may write there."""

ANY_TYPE = {"type": '"integer"'}
"""What an entry lacks whose type is not known either."""

_TYPES = (
    "integer, number, date, datetime (with min and max), categorical (with values), boolean, key"
)
_MOST_INLINE = 12
_RANGED = ("integer", "number", "date", "datetime")

Options: TypeAlias = Mapping[tuple[str, str], tuple[str, ...]]
"""What a location says of its dialect: values by option and column, if only one is meant."""


@dataclass(frozen=True)
class Entry:
    """One column of an outline.

    Attributes:
        settings: what its table in the schema file says, the name first.
        left_out: why the column is no part of the schema yet; its table is written as a comment.
        remarks: what whoever reads the file should know of the column.
    """

    settings: Mapping[str, Any]
    left_out: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The column."""
        return str(self.settings["name"])

    @property
    def lacking(self) -> Mapping[str, str]:
        """The keys that somebody must fill in, with what may stand there."""
        if "type" not in self.settings:
            return ANY_TYPE
        needed = LACKING.get(self.settings["type"], {})
        return {key: hint for key, hint in needed.items() if key not in self.settings}

    def to_toml(self) -> str:
        """The table, with a comment where something is to be done."""
        lines = _lines({"columns": [self.settings]})
        kinds = f": one of {_TYPES}" if "type" in self.lacking else ""
        to_do = [f"{key} = {hint}   # to be filled in{kinds}" for key, hint in self.lacking.items()]
        if self.left_out:
            to_do, lines = [*lines, *to_do], []
        why = (f"left out: {self.left_out}",) if self.left_out else ()
        remarks = "".join(_comment(remark) for remark in (*why, *self.remarks))
        return remarks + "".join([*(f"{n}\n" for n in lines), *(f"# {n}\n" for n in to_do)])


@dataclass(frozen=True)
class Candidate:
    """A rule that rows suggest, to be confirmed by what is known."""

    rule: Mapping[str, Any]
    why: str

    def to_toml(self) -> str:
        """The rule as a comment; a long table is only hinted at."""
        ((kind, said),) = self.rule.items()
        why = self.why
        table = said["table"] if kind == "determines" else ""
        if not isinstance(table, str) and len(table) > _MOST_INLINE:
            said = {**said, "table": "..."}
            why += "; `schema draft --tables DIR` writes the table"
        lines = _lines({"rules": [_one_line({kind: said})]})
        return _comment(why) + "".join(f"# {line}\n" for line in lines)


@dataclass(frozen=True)
class Outline:
    """What is known of a schema before a person has looked at it.

    Attributes:
        dialect: options that the location of the rows needs, with the columns they are for.
        remarks: what whoever reads the file should know of it all.
        candidates: rules to be confirmed.
    """

    entries: tuple[Entry, ...]
    label: str | None = None
    task: str | None = None
    rules: tuple[Mapping[str, Any], ...] = ()
    dialect: Options = field(default_factory=dict)
    remarks: tuple[str, ...] = ()
    candidates: tuple[Candidate, ...] = ()

    @property
    def lacking(self) -> dict[str, tuple[str, ...]]:
        """The keys that somebody must fill in, by column."""
        kept = (entry for entry in self.entries if not entry.left_out)
        return {entry.name: tuple(entry.lacking) for entry in kept if entry.lacking}

    @property
    def left_out(self) -> dict[str, str]:
        """The columns that are no part of the schema yet, and why."""
        return {entry.name: entry.left_out for entry in self.entries if entry.left_out}

    def schema(self) -> Schema:
        """The schema, once everything is filled in.

        Raises:
            SchemaError: naming what is not.
        """
        return Schema.of(self._settings)

    def to_toml(self) -> str:
        """The schema file, with comments for whoever completes it; it loads if nothing lacks."""
        return "\n".join(self._blocks())

    @property
    def _settings(self) -> dict[str, Any]:
        columns = [dict(entry.settings) for entry in self.entries if not entry.left_out]
        head = {"label": self.label, "task": self.task}
        settings: dict[str, Any] = {key: value for key, value in head.items() if value is not None}
        settings["columns"] = columns
        return settings | ({"rules": [dict(rule) for rule in self.rules]} if self.rules else {})

    def _blocks(self) -> Iterator[str]:
        if head := "".join(_comment(remark) for remark in self.remarks):
            yield head
        if top := to_toml({"label": self.label, "task": self.task}):
            yield top
        yield from (entry.to_toml() for entry in self.entries)
        if self.rules:
            yield to_toml({"rules": [_one_line(rule) for rule in self.rules]})
        if self.candidates:
            yield _comment(
                "Perhaps rules: no row here breaks them. Keep those that are true by definition, "
                "by removing the marks in front of their lines."
            )
        yield from (candidate.to_toml() for candidate in self.candidates)


def filled(
    outline: Outline, ranges: Mapping[str, str], values: Mapping[str, Sequence[str]]
) -> Outline:
    """The outline with ranges ("0:120") and lists of values for some of its columns.

    Raises:
        UsageError: a column is not there, or of a type that has none, or a range is none.
    """
    names = [entry.name for entry in outline.entries]
    for name in (*ranges, *values):
        if name not in names:
            raise UsageError(f"there is no column {shown(name)}; {did_you_mean(name, names)}")
    entries = tuple(_filled(e, ranges.get(e.name), values.get(e.name)) for e in outline.entries)
    return replace(outline, entries=entries)


def skeleton(columns: Sequence[str]) -> Outline:
    """An outline of which only the names of columns are known."""
    return Outline(tuple(Entry({"name": name}) for name in columns))


def option(key: str, *values: str, column: str = "") -> dict[tuple[str, str], tuple[str, ...]]:
    """One option of a location, for one column if one is named."""
    return {(key, column): values}


def _one_line(rule: Mapping[str, Any]) -> dict[str, Any]:
    return {
        kind: Inline(said) if isinstance(said, Mapping) else said for kind, said in rule.items()
    }


def _lines(values: Mapping[str, Any]) -> list[str]:
    """TOML line by line; other letters that end lines elsewhere do not here."""
    return to_toml(values).rstrip("\n").split("\n")


def _comment(text: str) -> str:
    return f"# {plain(text)}\n"


def _filled(entry: Entry, span: str | None, values: Sequence[str] | None) -> Entry:
    if span is None and values is None:
        return entry
    kind = entry.settings.get("type")
    if span is not None and values is not None:
        raise UsageError(f"column {entry.name!r} has a range or values, not both; give one")
    settings = dict(entry.settings)
    if values is not None:
        if kind not in (None, "categorical") and not entry.left_out:
            raise UsageError(
                f"column {entry.name!r} of type {kind} has no list of values; give its range"
            )
        settings |= {"type": "categorical", "values": list(values)}
    else:
        if kind not in (None, *_RANGED) and not entry.left_out:
            raise UsageError(f"column {entry.name!r} of type {kind} has no range; leave it away")
        kinds = (kind,) if kind in _RANGED else _RANGED
        settings |= _range(entry.name, str(span), kinds)
    order = ["name", "type", *settings]
    settings = {key: settings[key] for key in order}
    try:
        Schema.of({"columns": [settings]})
    except SchemaError as error:
        raise UsageError(str(error)) from None
    return Entry(settings, "", entry.remarks)


def _range(name: str, span: str, kinds: Sequence[str]) -> dict[str, Any]:
    """Both ends of a range, as the first type that both can be."""
    parts = span.split(":")
    middle = len(parts) // 2
    ends = [":".join(parts[:middle]).strip(), ":".join(parts[middle:]).strip()]
    for kind in kinds:
        try:
            low, high = (_READ[kind](end) for end in ends)
        except ValueError:
            continue
        return {"type": kind, "min": low, "max": high}
    what = kinds[0] if len(kinds) == 1 else "integer, number, date or datetime"
    raise UsageError(
        f"the range of column {name!r} must be two values of type {what} with a colon between, "
        "such as 0:120"
    )


_READ: dict[str, Callable[[str], Any]] = {
    "integer": int,
    "number": float,
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
}


def settled(entry: Entry) -> Entry:
    """The entry, or one that is left out because its column contradicts itself."""
    if entry.left_out or entry.lacking:
        return entry
    if entry.settings["type"] == "key":
        return entry  # nothing to contradict, and alone no schema
    try:
        Schema.of({"columns": [dict(entry.settings)]})
    except SchemaError as error:
        return replace(entry, left_out=str(error).removeprefix(f"column {entry.name!r}: "))
    return entry
