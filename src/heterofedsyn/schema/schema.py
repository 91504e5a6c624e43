"""The public schema: which columns there are, and which values each may hold."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from heterofedsyn._files import read_whole
from heterofedsyn._toml import NotToml, from_toml, to_toml
from heterofedsyn.errors import SchemaError, UsageError
from heterofedsyn.schema import _checks, _settings
from heterofedsyn.schema.columns import Column, KeyColumn
from heterofedsyn.schema.domain import Domain
from heterofedsyn.schema.rulebook import Rulebook
from heterofedsyn.schema.rules import Determines, Rule, cut, with_tables

MOST_SCHEMA_BYTES = 2**24
MOST_COLUMNS = 1_000
"""So that all pairs of columns can be listed."""

TASKS = ("binary_classification", "multiclass_classification", "regression")


@dataclass(frozen=True)
class Schema:
    """The columns of a table, what is true of every row, and what a model would predict.

    >>> schema = Schema.of({"columns": [{"name": "age", "type": "integer", "min": 0, "max": 99}]})
    >>> schema.domain
    Domain(names=('age',), sizes=(100,))
    """

    columns: tuple[Column, ...]
    label: str | None = None
    task: str | None = None
    rules: tuple[Rule, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", cut(self.columns, self.rules))
        object.__setattr__(self, "rules", tuple(self.rules))
        if not self.columns:
            raise SchemaError("a schema needs at least one column; add a [[columns]] entry")
        if len(self.columns) > MOST_COLUMNS:
            raise SchemaError(
                f"a schema of {len(self.columns):,} columns is over the limit of {MOST_COLUMNS:,}; "
                "leave some out"
            )
        names = [column.name for column in self.columns]
        for name, many in Counter(names).items():
            if many > 1:
                raise SchemaError(f"two columns are named {name!r}; rename one of them")
        if self.label is not None and self.label not in names:
            hint = _checks.hint(self.label, names)
            raise SchemaError(f"label {_checks.shown(self.label)} is not a column; {hint}")
        if self.task is not None and self.task not in TASKS:
            hint = _checks.hint(self.task, TASKS)
            raise SchemaError(f"there is no task {_checks.shown(self.task)}; {hint}")
        if self.task is not None and self.label is None:
            raise SchemaError(f"task {self.task!r} needs a label; name the column to predict")
        if not self.measured:
            raise SchemaError("all columns are keys or determined; add one that can be measured")
        if self.label is not None and self.label not in self.domain.names:
            raise SchemaError(f"label {self.label!r} is a key or determined; name another column")
        _ = self.rulebook  # refuses rules that leave no row

    @classmethod
    def of(cls, source: Schema | Mapping[str, Any] | str | os.PathLike[str]) -> Schema:
        """The schema itself, one from a mapping shaped like the TOML, or one from a file."""
        if isinstance(source, Schema):
            return source
        if isinstance(source, Mapping):
            return cls(*_settings.read(source))
        if isinstance(source, str | os.PathLike):
            return cls.load(source)
        raise UsageError(
            f"a schema cannot be made from a {type(source).__name__}; "
            "pass a Schema, a mapping or the path of a TOML file"
        )

    @classmethod
    def from_toml(cls, text: str) -> Schema:
        """The schema that a TOML text describes."""
        if len(text) > MOST_SCHEMA_BYTES:
            raise SchemaError(f"a schema has at most {MOST_SCHEMA_BYTES:,} letters; shorten it")
        return _read(text)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Schema:
        """The schema in a TOML file."""
        try:
            text = read_whole(path, MOST_SCHEMA_BYTES).decode("utf-8")
            said = _parsed(text)
            whole = with_tables(said, Path(path).parent)
            return _read(text) if whole is said else cls.of(whole)
        except SchemaError as error:
            raise SchemaError(f"{os.fspath(path)}: {error}") from None
        except UnicodeDecodeError:
            raise SchemaError(f"{os.fspath(path)}: not UTF-8 text; save it as UTF-8") from None
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise UsageError(
                f"cannot read schema {os.fspath(path)!r}: {reason}; check the path"
            ) from None

    @cached_property
    def measured(self) -> tuple[Column, ...]:
        """The columns that are counted: all but keys and those that others determine."""
        derived = {rule.target for rule in self.rules if isinstance(rule, Determines)}
        return tuple(
            column
            for column in self.columns
            if column.name not in derived and not isinstance(column, KeyColumn)
        )

    @cached_property
    def domain(self) -> Domain:
        """Names and numbers of codes of the columns that are measured."""
        names = tuple(column.name for column in self.measured)
        return Domain(names, tuple(column.size for column in self.measured))

    @cached_property
    def rulebook(self) -> Rulebook:
        """What the rules mean for codes."""
        return Rulebook.of(self.columns, self.rules, self.domain)

    def without_rules(self) -> Schema:
        """The same columns, all of them measured, and no keys: what tables are compared by."""
        columns = tuple(column for column in self.columns if not isinstance(column, KeyColumn))
        return Schema(columns, self.label, self.task)

    @cached_property
    def _by_name(self) -> dict[str, Column]:
        return {column.name: column for column in self.columns}

    @cached_property
    def fingerprint(self) -> str:
        """A SHA-256 of all that the schema says; equal schemas have equal ones everywhere."""
        return fingerprint_of(self.settings)

    @property
    def settings(self) -> dict[str, Any]:
        """The schema as a mapping shaped like the TOML; `of` gives it back."""
        return _settings.write(self.columns, self.label, self.task, self.rules)

    def column(self, name: str) -> Column:
        """The column of that name."""
        if name in self._by_name:
            return self._by_name[name]
        raise UsageError(f"there is no attribute {name!r}; {_checks.hint(name, self._by_name)}")

    def to_toml(self) -> str:
        """The schema as TOML; `from_toml` gives it back."""
        return to_toml(self.settings)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the schema to a TOML file."""
        try:
            Path(path).write_text(self.to_toml(), encoding="utf-8", newline="\n")
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise UsageError(
                f"cannot write schema {os.fspath(path)!r}: {reason}; choose another place"
            ) from None


def fingerprint_of(settings: Mapping[str, Any]) -> str:
    """The fingerprint of the schema that has these settings."""
    canonical = json.dumps(
        settings, sort_keys=True, separators=(",", ":"), default=lambda day: day.isoformat()
    )
    return hashlib.sha256(canonical.encode()).hexdigest()


@lru_cache(maxsize=4)
def _read(text: str) -> Schema:
    """The schema in a text; an agent reads its file at every request, mostly the same one."""
    return Schema.of(_parsed(text))


@lru_cache(maxsize=4)
def _parsed(text: str) -> dict[str, Any]:
    """What a text says, not to be changed."""
    try:
        return from_toml(text)
    except NotToml as error:
        raise SchemaError(f"the schema is not valid TOML: {error}") from None
