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
from heterofedsyn.schema.columns import Column
from heterofedsyn.schema.domain import Domain

MOST_SCHEMA_BYTES = 2**24
MOST_COLUMNS = 1_000
"""So that all pairs of columns can be listed."""

TASKS = ("binary_classification", "multiclass_classification", "regression")


@dataclass(frozen=True)
class Schema:
    """The columns of a table, and what a downstream model would predict from them.

    >>> schema = Schema.of({"columns": [{"name": "age", "type": "integer", "min": 0, "max": 99}]})
    >>> schema.domain
    Domain(names=('age',), sizes=(100,))
    """

    columns: tuple[Column, ...]
    label: str | None = None
    task: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
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

    @classmethod
    def of(cls, source: Schema | Mapping[str, Any] | str | os.PathLike[str]) -> Schema:
        """The schema itself, one from a mapping shaped like the TOML, or one from a file."""
        if isinstance(source, Schema):
            return source
        if isinstance(source, Mapping):
            columns, label, task = _settings.read(source)
            return cls(columns, label, task)
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
        try:
            return _read(text)
        except NotToml as error:
            raise SchemaError(f"the schema is not valid TOML: {error}") from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Schema:
        """The schema in a TOML file."""
        try:
            return cls.from_toml(read_whole(path, MOST_SCHEMA_BYTES).decode("utf-8"))
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
    def domain(self) -> Domain:
        """Names and numbers of codes."""
        names = tuple(column.name for column in self.columns)
        return Domain(names, tuple(column.size for column in self.columns))

    @cached_property
    def fingerprint(self) -> str:
        """A SHA-256 of all that the schema says; equal schemas have equal ones everywhere."""
        canonical = json.dumps(
            self.settings,
            sort_keys=True,
            separators=(",", ":"),
            default=lambda moment: moment.isoformat(),
        )
        return hashlib.sha256(canonical.encode()).hexdigest()

    @property
    def settings(self) -> dict[str, Any]:
        """The schema as a mapping shaped like the TOML; `of` gives it back."""
        return _settings.write(self.columns, self.label, self.task)

    def column(self, name: str) -> Column:
        """The column of that name."""
        return self.columns[self.domain.index(name)]

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


@lru_cache(maxsize=4)
def _read(text: str) -> Schema:
    """The schema in a text; an agent reads its file at every request, mostly the same one."""
    return Schema.of(from_toml(text))
