"""What readers of all formats share: parts of a file, taken as what they must be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import date, datetime
from typing import Any, TypeVar

from heterofedsyn.errors import SchemaError, did_you_mean
from heterofedsyn.schema import _checks
from heterofedsyn.schema.outline import Options, option

Value = TypeVar("Value")


def mapping(value: object, what: str) -> Mapping[str, Any]:
    """A mapping whose keys are text."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise SchemaError(f"{what} must be a mapping with names as keys")
    return value


def listed(value: object, what: str) -> list[Any]:
    """A list, and no text that could be taken for one."""
    if not isinstance(value, list):
        raise SchemaError(f"{what} must be a list")
    return value


def need_text(value: object, what: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise SchemaError(f"{what} must be text")
    return _checks.text(value, what)


def category(value: object, what: str) -> str:
    """A category as text; 2.0 is "2"."""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else repr(value)
    if not isinstance(value, str | int):
        raise SchemaError(f"{what} must be text, a number or a truth value")
    return str(value)


def text_of(value: object) -> str:
    """A text, or the only one of a list."""
    return need_text(value[0] if isinstance(value, list) and len(value) == 1 else value, "a name")


def field_of(kind: str, value: object, what: str) -> Any:
    """One end of a range, given as JSON gives it: as it is, or as text."""
    try:
        if kind == "integer":
            return _checks.whole(int(value) if isinstance(value, str) else value, what)
        if kind == "number":
            return _checks.real(float(value) if isinstance(value, str) else value, what)
    except ValueError:
        raise SchemaError(f"{what} must be a number") from None
    return _checks.day(value, what) if kind == "date" else _checks.moment(value, what)


def without_format(value: object, field: Mapping[str, Any], kind: str) -> object:
    """The same value of a field, if it is text in the field's own format; else as it is.

    >>> without_format("1.200,5", {"decimalChar": ",", "groupChar": "."}, "number")
    '1200.5'
    """
    if not isinstance(value, str):
        return value
    if kind in ("integer", "number"):
        point, group = (
            re.escape(str(field.get(key) or "")) for key in ("decimalChar", "groupChar")
        )
        whole, fraction = "[+-]?[0-9]+", rf"(?:{point or '[.]'}(?P<fraction>[0-9]+))?"
        if group:
            whole = rf"[+-]?[0-9]{{1,3}}(?:{group}[0-9]{{3}})+|{whole}"
        if (found := re.fullmatch(rf"(?P<whole>{whole}){fraction}", value.strip())) is None:
            return value
        digits = re.sub("[^0-9+-]", "", found["whole"])
        return f"{digits}.{found['fraction']}" if found["fraction"] else digits
    form = str(field.get("format", "default")).removeprefix("fmt:")
    if "%" in form:
        with suppress(ValueError, re.error):
            return datetime.strptime(value, form)
    return value


def dates(value: Any, what: str) -> Any:
    """The same with dates for their texts; `plain_value` made these."""
    if isinstance(value, Mapping):
        return {key: dates(item, what) for key, item in value.items()}
    if isinstance(value, list):
        return [dates(item, what) for item in value]
    if not isinstance(value, str):
        return value
    moment = _checks.moment(value, what)
    return moment.date() if len(value) == len("2025-12-31") else moment


def plain_value(value: Any) -> Any:
    """The same for JSON, which has no dates."""
    if isinstance(value, Mapping):
        return {key: plain_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    return value.isoformat() if isinstance(value, date | datetime) else value


def is_iso(form: str) -> bool:
    """Whether dates of this format are read without a word."""
    return re.fullmatch(r"%Y-%m-%d(?:[T ]%H:%M(?::%S(?:\.%f)?)?(?:Z|%z)?)?", form) is not None


def date_options(formats: Mapping[str, str]) -> Options:
    """What a location says for columns whose dates are written in these formats."""
    options: dict[tuple[str, str], tuple[str, ...]] = {}
    if len(formats) > 1 and len({*formats.values()}) == 1:
        return option("date", next(iter(formats.values())))
    for name, form in formats.items():
        options |= option("date", form, column=name)
    return options


def only_table(tables: Mapping[str, Value], name: str | None, what: str) -> Value:
    """The table of that name, or the only one."""
    if name is not None:
        if name not in tables:
            raise SchemaError(f"there is no table {name!r}; {did_you_mean(name, tables)}")
        return tables[name]
    if len(tables) != 1:
        there = f"it has {len(tables)}: {', '.join(tables)}" if tables else "it has none"
        raise SchemaError(f"the file must have one {what}, but {there}; name one with --table")
    return next(iter(tables.values()))
