"""Python objects as text, cell by cell: no cell has a say in how another one is read."""

from __future__ import annotations

import datetime
import decimal
import math
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

from heterofedsyn._arrays import float_text
from heterofedsyn._words import NO_TEXT

_MOST_DIGITS = 400
"""Of a number that is written out; one with more is beyond any range of a schema."""

_COARSE = ("Y", "M", "W", "D", "h", "m")

_FRACTION = re.compile(r"(\.\d*?)0+(?=$|[+-]\d\d:)")


def texts(cells: Sequence[Any]) -> pa.Array:
    """The text of each cell, null where one is missing, `NO_TEXT` where it is no value at all."""
    if {type(cell) for cell in cells} <= {str, type(None)}:
        try:
            return pa.array(cells, pa.large_string())
        except UnicodeEncodeError:
            pass  # a cell that is no text
    return pa.array([_text(cell) for cell in cells], pa.large_string())


def _text(cell: Any) -> str | None:
    """A cell as a CSV file would hold it."""
    if cell is None:
        return None
    if isinstance(cell, str):
        return _sound(str.__str__(cell))
    if isinstance(cell, np.generic):
        return _of_numpy(cell)
    if isinstance(cell, bool):
        return "True" if cell else "False"
    if isinstance(cell, int):
        return _whole(cell)
    if isinstance(cell, float):
        return _real(cell)
    if isinstance(cell, decimal.Decimal):
        return _decimal(cell)
    if isinstance(cell, datetime.date):  # datetimes, and those of pandas, are dates too
        return _moment(cell)
    if isinstance(cell, UUID):
        return str(cell)
    return None if type(cell).__name__ == "NAType" else NO_TEXT


def _sound(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return NO_TEXT
    return text


def _of_numpy(cell: np.generic) -> str | None:
    if isinstance(cell, np.datetime64):
        return _of_datetime64(cell)
    if isinstance(cell, np.floating):
        return _real(float(str(cell)))  # 0.7 of 32 bits is 0.7
    if isinstance(cell, np.bool_ | np.integer):
        return _text(cell.item())
    return NO_TEXT


def _of_datetime64(moment: np.datetime64) -> str | None:
    """As a column of them would be written: to the second at least."""
    if np.isnat(moment):
        return None
    unit, _ = np.datetime_data(moment.dtype)
    text = str(moment.astype("datetime64[s]") if unit in _COARSE else moment)
    is_day = re.fullmatch(r"\d{4}-\d\d-\d\dT.*", text)
    return _FRACTION.sub(_trimmed, text.replace("T", " ")) if is_day else NO_TEXT


def _whole(number: int) -> str:
    if abs(number) < 10**_MOST_DIGITS:
        return int.__repr__(number)
    return "inf" if number > 0 else "-inf"


def _real(number: float) -> str | None:
    if math.isnan(number):
        return None
    return float_text(number) if math.isfinite(number) else float.__repr__(number)


def _decimal(number: decimal.Decimal) -> str | None:
    if number.is_nan():
        return None
    if number.is_infinite():
        return "-inf" if number < 0 else "inf"
    digits = len(number.as_tuple().digits)
    exponent = int(number.as_tuple().exponent)
    short = digits < _MOST_DIGITS and abs(exponent) < _MOST_DIGITS
    if not short:
        return _real(float(number))
    text = f"{number:f}"
    text = text.rstrip("0").removesuffix(".") if "." in text else text
    return "0" if number.is_zero() else text


def _moment(moment: datetime.date) -> str | None:
    if moment != moment:  # noqa: PLR0124 - as the missing moment of pandas
        return None
    if isinstance(moment, datetime.datetime) and moment.utcoffset() is not None:
        with suppress(OverflowError, ValueError):  # at the ends of time it stays as it is
            moment = moment.astimezone(datetime.UTC)
    text = moment.isoformat().replace("T", " ")
    return _FRACTION.sub(_trimmed, text)


def _trimmed(fraction: re.Match[str]) -> str:
    return fraction[1].removesuffix(".")
