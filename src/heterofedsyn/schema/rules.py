"""Rules: public facts that hold for every record by definition, as a schema file says them.

Here is what a rule says and whether the columns it names exist; `rulebook` knows what it means for
codes.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from heterofedsyn._files import read_whole
from heterofedsyn._toml import Inline
from heterofedsyn._words import count
from heterofedsyn.errors import SchemaError
from heterofedsyn.schema import _checks
from heterofedsyn.schema.binned import BinnedColumn
from heterofedsyn.schema.columns import BooleanColumn, CategoricalColumn, Column, KeyColumn
from heterofedsyn.schema.conditions import Condition

MOST_RULES = 1_000
MOST_TABLE_BYTES = 2**24


@dataclass(frozen=True)
class Never:
    """Values of some columns that are never found together."""

    name: ClassVar[str] = "never"

    conditions: tuple[tuple[str, Condition], ...]

    @classmethod
    def of(cls, given: object, columns: Mapping[str, Column], what: str) -> Never:
        """What a schema file says."""
        if not isinstance(given, Mapping) or not given:
            raise SchemaError(f'{what} names no column; write never = {{ sex = "male", ... }}')
        conditions = []
        for name, said in given.items():
            column = _column(name, columns, what)
            condition = Condition.of(said, f"{what}: {name}")
            conditions.append((name, condition.settled(column, f"{what}: column {name!r}")))
        places = {name: place for place, name in enumerate(columns)}
        # In the order of columns: a file's order of keys is not kept everywhere.
        return cls(tuple(sorted(conditions, key=lambda condition: places[condition[0]])))

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it speaks of."""
        return tuple(name for name, _ in self.conditions)

    @property
    def settings(self) -> Any:
        """The same as a schema file says it."""
        return Inline((name, condition.settings) for name, condition in self.conditions)

    @property
    def words(self) -> str:
        """The same for people."""
        said = " with ".join(f"{name} {condition.words}" for name, condition in self.conditions)
        return f"never {said}"


@dataclass(frozen=True)
class Order:
    """Columns whose values never decrease from one to the next; missing ones pass."""

    name: ClassVar[str] = "order"

    columns: tuple[str, ...]

    @classmethod
    def of(cls, given: object, columns: Mapping[str, Column], what: str) -> Order:
        """What a schema file says."""
        if not isinstance(given, list | tuple) or len(given) < 2:
            raise SchemaError(f'{what} needs at least two columns; write order = ["a", "b"]')
        own = [_column(name, columns, what) for name in given]
        _checks.no_repeats([column.name for column in own], f"{what}: column")
        for column in own:
            if not isinstance(column, BinnedColumn):
                raise SchemaError(f"{what}: column {column.name!r} has no range; use never instead")
            if column.grid.atoms.size:
                raise SchemaError(f"{what}: column {column.name!r} cannot have atoms; remove them")
            unit = (column.kind, getattr(column, "decimals", None))
            if unit != (own[0].kind, getattr(own[0], "decimals", None)):
                raise SchemaError(
                    f"{what}: columns {own[0].name!r} and {column.name!r} are not of one type and "
                    "decimals; give them the same"
                )
        return cls(tuple(column.name for column in own))

    @property
    def settings(self) -> Any:
        """The same as a schema file says it."""
        return list(self.columns)

    @property
    def words(self) -> str:
        """The same for people."""
        return f"order {' <= '.join(self.columns)}"


@dataclass(frozen=True)
class Determines:
    """A column whose value follows from that of another; a missing one from a missing one.

    Attributes:
        table: for every value of the first column, in its order, the value of the second.
    """

    name: ClassVar[str] = "determines"

    source: str
    target: str
    table: tuple[str, ...]

    @classmethod
    def of(cls, given: object, columns: Mapping[str, Column], what: str) -> Determines:
        """What a schema file says."""
        if not isinstance(given, Mapping) or {*given} != {"from", "to", "table"}:
            raise SchemaError(f"{what} needs from, to and table, and nothing else")
        source, target = (_column(given[end], columns, what) for end in ("from", "to"))
        if source.name == target.name:
            raise SchemaError(f"{what}: from and to are the same column; name two")
        if source.nullable and not target.nullable:
            raise SchemaError(
                f"{what}: column {source.name!r} may be missing and {target.name!r} may not; make "
                "it nullable"
            )
        table = given["table"]
        if isinstance(table, str):
            raise SchemaError(f"{what}: a table in a file can be read only beside a schema file")
        if not isinstance(table, Mapping):
            raise SchemaError(f"{what}: table must be a table of values or the name of a CSV file")
        pairs = {_checks.word(key, what): _checks.word(v, what) for key, v in table.items()}
        for column, used in ((source, {*pairs}), (target, {*pairs.values()})):
            values = _values(column, what)
            unknown = sorted(used.difference(values))
            if unknown and isinstance(table, _FromFile):
                raise SchemaError(
                    f"{what}: the table has {count(len(unknown), 'value')} that column "
                    f"{column.name!r} does not list; mend one of them"
                )
            for value in unknown[:1]:
                hint = _checks.hint(value, values)
                raise SchemaError(f"{what}: {column.name!r} has no value {value!r}; {hint}")
        absent = [value for value in _values(source, what) if value not in pairs]
        if absent:
            raise SchemaError(
                f"{what}: the table lacks {len(absent):,} values of column {source.name!r}, the "
                f"first is {absent[0]!r}; add them"
            )
        ordered = tuple(pairs[value] for value in _values(source, what))
        return cls(source.name, target.name, ordered)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns it speaks of."""
        return self.source, self.target

    @property
    def words(self) -> str:
        """The same for people."""
        return f"{self.source} determines {self.target}"

    def written(self, columns: Mapping[str, Column]) -> Any:
        """The same as a schema file says it, with its table."""
        table = dict(zip(_values(columns[self.source], ""), self.table, strict=True))
        return {"from": self.source, "to": self.target, "table": table}

    def codes(self, columns: Mapping[str, Column]) -> NDArray[np.int64]:
        """For every code of the first column, that of the second."""
        source, target = columns[self.source], columns[self.target]
        place = {value: code for code, value in enumerate(_values(target, ""))}
        codes = [place[value] for value in self.table]
        return np.array([*codes, target.size - 1] if source.nullable else codes, np.int64)


Rule: TypeAlias = Never | Order | Determines

KINDS: dict[str, type[Rule]] = {kind.name: kind for kind in (Never, Order, Determines)}


def rules_of(entries: object, columns: Sequence[Column]) -> tuple[Rule, ...]:
    """The rules of a schema file."""
    if not isinstance(entries, list | tuple):
        raise SchemaError("rules must be a list of tables; start each with [[rules]]")
    if len(entries) > MOST_RULES:
        raise SchemaError(f"{len(entries):,} rules are over the limit of {MOST_RULES:,}")
    known = {column.name: column for column in columns}
    return tuple(_rule(entry, known, f"rule {n}") for n, entry in enumerate(entries, start=1))


def _rule(entry: object, columns: Mapping[str, Column], what: str) -> Rule:
    if not isinstance(entry, Mapping) or len(entry) != 1:
        raise SchemaError(f"{what} must be one of {', '.join(KINDS)}; start each with [[rules]]")
    ((kind, given),) = entry.items()
    if kind not in KINDS:
        raise SchemaError(f"{what} has the unknown kind {kind!r}; {_checks.hint(kind, KINDS)}")
    return KINDS[kind].of(given, columns, what)


def cut(columns: Sequence[Column], rules: Sequence[Rule]) -> tuple[Column, ...]:
    """The columns with their bins cut where a never begins or ends to hold."""
    cuts: dict[str, set[float]] = {}
    known = {column.name: column for column in columns}
    for number, rule in enumerate(rules, start=1):
        for name, condition in rule.conditions if isinstance(rule, Never) else ():
            column = known[name]
            if isinstance(column, BinnedColumn):
                found = condition.cuts(column, f"rule {number}: column {name!r}")
                cuts.setdefault(name, set()).update(found)
    return tuple(
        _cut(column, cuts.get(column.name, ())) if isinstance(column, BinnedColumn) else column
        for column in columns
    )


def _cut(column: BinnedColumn, cuts: Iterable[float]) -> BinnedColumn:
    inside = tuple(sorted(end for end in cuts if column.grid.low < end <= column.grid.high))
    return column if column.cuts == inside else replace(column, cuts=inside)


def settings_of(rules: Sequence[Rule], columns: Sequence[Column]) -> list[dict[str, Any]]:
    """The same as a schema file says them."""
    known = {column.name: column for column in columns}
    return [
        {rule.name: rule.written(known) if isinstance(rule, Determines) else rule.settings}
        for rule in rules
    ]


def with_tables(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Settings of a schema file with the tables that it names, read from beside it.

    Raises:
        SchemaError: if a table cannot be read.
    """
    rules = settings.get("rules")
    if not isinstance(rules, list):
        return settings
    read: list[Any] = []
    for number, rule in enumerate(rules, start=1):
        said = rule.get("determines") if isinstance(rule, dict) else None
        if isinstance(said, dict) and isinstance(said.get("table"), str):
            table = _table(folder, said["table"], f"rule {number}: table {said['table']!r}")
            read.append({**rule, "determines": {**said, "table": table}})
        else:
            read.append(rule)
    return {**settings, "rules": read} if read != rules else settings


class _FromFile(dict[str, str]):
    """A table that was read from a file, whose cells are not repeated in messages."""


def _table(folder: Path, name: str, what: str) -> dict[str, str]:
    """The two columns of a CSV file with a header, in the folder of the schema or below it.

    Who wrote the schema may be somebody else, and must not choose which files are read.
    """
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise SchemaError(f"{what}: a table lies beside its schema; move it there and name it")
    try:
        text = read_whole(path, MOST_TABLE_BYTES).decode("utf-8-sig")
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise SchemaError(f"{what}: cannot be read: {reason}; check the path") from None
    except UnicodeDecodeError:
        raise SchemaError(f"{what}: not UTF-8 text; save it as UTF-8") from None
    table = _FromFile()
    try:
        rows = list(csv.reader(io.StringIO(text), strict=True))
    except csv.Error as error:
        raise SchemaError(f"{what}: not CSV: {error}") from None
    for line, row in enumerate(rows[1:], start=2):
        if not row:
            continue
        if len(row) != 2:
            raise SchemaError(f"{what}: line {line} does not have two fields; write from,to")
        if table.setdefault(row[0], row[1]) != row[1]:
            raise SchemaError(f"{what}: line {line} gives a value a second time, and otherwise")
    return table


def _column(name: object, columns: Mapping[str, Column], what: str) -> Column:
    if not isinstance(name, str) or name not in columns:
        hint = _checks.hint(name, columns)
        raise SchemaError(f"{what} names {_checks.shown(name)}, which is no column; {hint}")
    if isinstance(columns[name], KeyColumn):
        raise SchemaError(f"{what} names {name!r}, a key, which is never read; leave it out")
    return columns[name]


def _values(column: Column, what: str) -> Sequence[str]:
    if isinstance(column, CategoricalColumn):
        return column.values
    if isinstance(column, BooleanColumn):
        return ("False", "True")
    raise SchemaError(f"{what}: column {column.name!r} is not categorical; use never or order")
