"""Finding an implementation by name: an explicit table first, then installed plug-ins."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from heterofedsyn.errors import UsageError, did_you_mean


def find(what: str, table: Mapping[str, Any], name: str) -> Any:
    """The entry of this name in the table or among entry points `heterofedsyn.<what>s`.

    Raises:
        UsageError: naming what is known.
    """
    if name in table:
        return table[name]
    plugins = {point.name: point for point in entry_points(group=f"heterofedsyn.{what}s")}
    if name in plugins:
        return plugins[name].load()
    raise UsageError(f"there is no {what} {name!r}; {did_you_mean(name, [*table, *plugins])}")
