"""Checks on what a schema says about one column; each refusal names it and the remedy."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from numbers import Integral, Real
from typing import TypeVar

from heterofedsyn.errors import SchemaError, did_you_mean
from heterofedsyn.schema._bins import IntegerBins

Ordered = TypeVar("Ordered", int, float, datetime, date)

MOST_CODES = 65_536
SECOND = timedelta(seconds=1)
_DEFAULT_BINS = 100
_WIDEST = 2**62
_MOST_DIGITS = 1_000


def shown(value: object) -> str:
    """What a file says, as an error shows it, whatever it is."""
    return repr(value) if isinstance(value, str) else f"of type {type(value).__name__}"


def hint(value: object, known: Iterable[str]) -> str:
    """What may have been meant by a word, or which words there are."""
    return did_you_mean(value if isinstance(value, str) else "", known)


def text(value: object, what: str) -> str:
    """Text that can be written to a file."""
    if not isinstance(value, str):
        raise SchemaError(f"{what} must be text; put it in quotes")
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        raise SchemaError(f"{what} must be valid Unicode; retype it")
    return value


def word(value: object, what: str) -> str:
    """A category: text, or a whole number or truth value in its text form."""
    if not isinstance(value, (bool, int)):
        return text(value, what)
    if abs(value) >= 10**_MOST_DIGITS:
        raise SchemaError(f"{what} must have at most {_MOST_DIGITS} digits")
    return str(value)


def flag(value: object, what: str) -> None:
    """True or false and nothing else."""
    if not isinstance(value, bool):
        raise SchemaError(f"{what} must be true or false")


def listed(values: object, what: str) -> tuple[object, ...]:
    """A list, not a text that looks like one."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise SchemaError(f"{what} must be a list; write it in square brackets")
    return tuple(values)


def real(value: object, what: str) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise SchemaError(f"{what} must be a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise SchemaError(f"{what} must be finite; give the public end of the range")
    return number


def whole(value: object, what: str) -> int:
    """A whole number of at most 64 bits."""
    number = real(value, what)
    if not number.is_integer():
        raise SchemaError(f"{what} must be a whole number; use type number for decimals")
    exact = int(value if isinstance(value, Integral) else number)
    if not -(2**63) <= exact < 2**63:
        raise SchemaError(f"{what} must fit into 64 bits; use type number for larger ones")
    return exact


def moment(value: object, what: str) -> datetime:
    """A moment to the second, in UTC and without zone."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise SchemaError(f"{what} must be a date or time like 2025-12-31T23:59:59") from None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if not isinstance(value, datetime):
        raise SchemaError(f"{what} must be a date or time like 2025-12-31T23:59:59")
    if value.microsecond:
        raise SchemaError(f"{what} must be given to the second; leave out the fraction")
    if value.tzinfo is not None:
        try:
            value = value.astimezone(UTC).replace(tzinfo=None)
        except OverflowError:
            raise SchemaError(f"{what} is outside of the years 1 to 9999 in UTC") from None
    return value


def day(value: object, what: str) -> date:
    """A day; a time of day in it must be midnight."""
    try:
        at = moment(value, what)
    except SchemaError:
        raise SchemaError(f"{what} must be a date like 2025-12-31") from None
    if at.time() != time():
        raise SchemaError(f"{what} must be a date without a time of day, like 2025-12-31")
    return at.date()


def no_repeats(values: Sequence[Hashable], what: str) -> None:
    """Every value once."""
    seen: set[Hashable] = set()
    for value in values:
        if value in seen:
            raise SchemaError(f"{what} {value!r} is listed twice; remove one")
        seen.add(value)


def atoms(name: str, low: Ordered, high: Ordered, values: Sequence[Ordered]) -> tuple[Ordered, ...]:
    """The atoms in order, all inside a range that is one."""
    if low > high:
        raise SchemaError(f"column {name!r}: min is larger than max; swap them")
    no_repeats(values, f"column {name!r}: atom")
    for value in values:
        if not low <= value <= high:
            raise SchemaError(
                f"column {name!r}: atom {value} is outside the range from {low} to {high}; "
                "widen the range or remove the atom"
            )
    return tuple(sorted(values))


def bins(name: str, asked: object, most: int, of_what: str) -> int:
    """How many bins: as asked, or 100, or as many as there are values."""
    if most > _WIDEST:
        raise SchemaError(f"column {name!r}: the range needs more than 62 bits; narrow it")
    if asked is None:
        return min(_DEFAULT_BINS, most)
    if isinstance(asked, bool) or not isinstance(asked, Integral) or int(asked) < 1:
        raise SchemaError(f"column {name!r}: bins must be a whole number of at least 1")
    if int(asked) > MOST_CODES:
        raise SchemaError(
            f"column {name!r}: its bins are more than {MOST_CODES:,}; use at most "
            f"{min(most, MOST_CODES):,}"
        )
    if int(asked) > most:
        raise SchemaError(
            f"column {name!r}: {asked} bins are more than the {most} {of_what} of the range; "
            f"use at most {most}"
        )
    return int(asked)


def room(name: str, grid: IntegerBins, values: Sequence[object]) -> None:
    """Every bin keeps a value that is no atom."""
    for atom, place in zip(values, grid.layout.atom_bins, strict=True):
        if grid.free[place] < 1:
            raise SchemaError(
                f"column {name!r}: the bin of atom {atom} holds no other value; "
                "remove the atom, whose bin is a code of its own, or use fewer bins"
            )
