"""Implementations by name, made from their settings: an explicit table first, then plug-ins."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from enum import StrEnum
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar, Protocol, TypeVar

from heterofedsyn.errors import UsageError, did_you_mean, plain

Value = str | int | float | bool
"""A setting as it appears on the command line or in a plan."""


class Named(Protocol):
    """What has a name and is a frozen dataclass of its settings, all with defaults."""

    name: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]


Kind = TypeVar("Kind", bound=Named)


class Registry(dict[str, type[Kind]]):
    """Every implementation of one thing by its name; a new one is a line in the table.

    Args:
        what: what one is called; plug-ins are the entry points of group `heterofedsyn.<what>s`.
        base: whose public names every implementation has, whether or not it derives from it.
    """

    def __init__(self, what: str, base: type, kinds: Iterable[type[Kind]]) -> None:
        super().__init__((kind.name, kind) for kind in kinds)
        self._what, self._base = what, base

    def find(self, name: str) -> type[Kind]:
        """The one of this name.

        Raises:
            UsageError: naming what is known, or what a plug-in lacks.
        """
        if name in self:
            return self[name]
        points = {point.name: point for point in entry_points(group=f"heterofedsyn.{self._what}s")}
        if name in points:
            return self._loaded(points[name])
        hint = did_you_mean(name, [*self, *points])
        raise UsageError(f"there is no {self._what} {name!r}; {hint}")

    def make(self, name: str, settings: Mapping[str, Value]) -> Kind:
        """The one of this name with these settings."""
        kind = self.find(name)
        return kind(**typed(kind, settings))

    def _loaded(self, point: EntryPoint) -> type[Kind]:
        said = f"the plug-in {point.name!r} ({point.value})"
        try:
            kind: type[Kind] = point.load()
        except Exception as error:  # whatever the module of a stranger raises
            reason = plain(f"{type(error).__name__}: {error}")
            raise UsageError(f"{said} cannot be loaded: {reason}") from error
        fault = self._fault(point.name, kind)
        if fault:
            raise UsageError(f"{said} is no {self._what}: {fault}")
        return kind

    def _fault(self, name: str, kind: Any) -> str | None:
        """What keeps something from being an implementation."""
        if not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
            return "it is not a dataclass"
        wanted = ["name", *(name for name in dir(self._base) if not name.startswith("_"))]
        lacking = [name for name in wanted if not hasattr(kind, name)]
        if lacking:
            return f"it lacks {', '.join(lacking)}"
        bare = [f.name for f in dataclasses.fields(kind) if f.default is dataclasses.MISSING]
        if bare:
            return f"its setting {bare[0]} has no default"
        if getattr(kind, "__abstractmethods__", None):
            return f"it does not define {', '.join(sorted(kind.__abstractmethods__))}"
        called = getattr(kind, "name", None)
        return None if called == name else f"it calls itself {called!r}"


def typed(kind: type[Named], settings: Mapping[str, Value]) -> dict[str, Any]:
    """Settings as the kinds of things that their defaults are.

    Raises:
        UsageError: naming the setting, what was given and what would do.
    """
    defaults = {f.name: f.default for f in dataclasses.fields(kind)}
    return {name: _like(name, value, defaults[name]) for name, value in settings.items()}


def _like(name: str, value: Value, default: Any) -> Any:
    """The value as the kind of thing the default is."""
    wanted = type(default)
    try:
        if wanted is float:
            return float(value)
        if wanted is int and not isinstance(value, bool) and float(value) == int(float(value)):
            return int(float(value))
        if issubclass(wanted, str):
            return wanted(value)
    except (ValueError, OverflowError):
        pass
    if wanted is bool and str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    options = f" ({', '.join(wanted.__members__.values())})" if issubclass(wanted, StrEnum) else ""
    raise UsageError(
        f"setting {name}={value!s} must be {_WORDS.get(wanted, 'one of the known words')}{options}"
    )


_WORDS: dict[type, str] = {float: "a number", int: "a whole number", bool: "true or false"}
