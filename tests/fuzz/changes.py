"""New inputs from good ones: changes of bytes, and of the values that the bytes stand for."""

from __future__ import annotations

import copy
import json
import math
import tomllib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any, Final, Literal, TypeAlias

import msgspec
import numpy as np

from heterofedsyn._toml import to_toml

Form: TypeAlias = Literal["bytes", "json", "msgpack", "toml"]

MOST_BYTES = 20_000
"""Of an input that is made here; larger ones are examples of their target."""

_DEEP: list[Any] = []
for _ in range(200):
    _DEEP = [_DEEP]

VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 2, 255, 256, 65_535, 65_536, 65_537, 2**31, 2**32, 2**53, 2**62),
    *(2**63 - 1, 2**63, -(2**63), 2**64 - 1, 2**64, 10**30, -(10**400), 10**4299, 1 << 40_000),
    *(0.0, -0.0, 0.5, 1.0, 1e-300, 5e-324, 1e16, 1e300, 1.7976931348623157e308, -1e308),
    *(math.nan, math.inf, -math.inf, 1e-9, 100.0, 100.00000001),
    *("", "a", "a0", "one", "sum", "record", "local", "secure-aggregation", "\x00", "\x1b[31m\x07"),
    *(
        "\u202egnp.exe",
        "line\nfeed\r",
        "\u2028",
        "\ufeff",
        "x" * 5_000,
        "../../../etc",
        "/dev/zero",
    ),
    *("é" * 70, "\U0010ffff", "1" * 5_000, "nan", "0" * 64, "%s%n{0}", "v0", "wavetree"),
    *(b"", b"\x00" * 7, b"\x00" * 8, b"\xff" * 8, b"\x80" * 64, b"\x00" * 4096),
    *([], {}, [[]], {"": {}}, [0] * 3_000, ["a"] * 300, _DEEP, {"a": _DEEP}),
    *(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59), date(2020, 2, 29)),
    *(datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))), datetime(2020, 1, 1, tzinfo=UTC)),
    *(datetime(9999, 12, 31, tzinfo=timezone(timedelta(hours=-12))),),
)
"""What programs trip over."""

TOKENS: Final = (
    *(b"\x00", b"\xff", b"\xff\xff\xff\xff", b"\x7f" * 8, b"\x80", b"\xed\xa0\x80", b"\xc0\x80"),
    *(b"\xe2\x80\xae", b"\x1b[2J", b"\n", b"\r\n", b'"', b"'''", b"\\u0000", b"\\ud800", b"\\"),
    *(b"[" * 100, b"{" * 100, b"[[a]]\n", b"a.a.a.a.a.a = 1\n", b"1e999", b"-0", b"nan", b"inf"),
    *(b"9" * 400, b"0x" + b"f" * 4_500, b"0001-01-01T00:00:00+14:00", b"9999-12-31T23:59:59-12:00"),
    *(b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b"\x91" * 100),
    *(b"\xd4\xff\x00", b"\xcf" + b"\xff" * 8, b"\xcb\x7f\xf8" + b"\x00" * 6, b"\xc1"),
)

_READ: Final[dict[str, Callable[[bytes], Any]]] = {
    "json": json.loads,
    "msgpack": msgspec.msgpack.decode,
    "toml": lambda data: tomllib.loads(data.decode()),
}
_WRITE: Final[dict[str, Callable[[Any], bytes]]] = {
    "json": lambda value: json.dumps(value, indent=1).encode(),
    "msgpack": msgspec.msgpack.encode,
    "toml": lambda value: to_toml(value).encode(),
}


def changed(data: bytes, rng: np.random.Generator, form: Form, others: Sequence[bytes]) -> bytes:
    """The input after a few changes; most keep its form, some do not."""
    for _ in range(int(rng.geometric(0.6))):
        if form != "bytes" and rng.random() < 0.85:
            try:
                tree = _READ[form](data)
                data = _WRITE[form](_changed_tree(tree, rng))
                continue
            except Exception:
                pass  # no longer of that form, or nothing that it can say
        data = _changed_bytes(data, rng, others)
    return data[:MOST_BYTES]


def _changed_bytes(data: bytes, rng: np.random.Generator, others: Sequence[bytes]) -> bytes:
    place = int(rng.integers(0, len(data) + 1))
    end = min(len(data), place + int(rng.integers(1, 1 + 2 ** int(rng.integers(1, 10)))))
    match int(rng.integers(0, 7)):
        case 0:
            return data[:place] + TOKENS[int(rng.integers(len(TOKENS)))] + data[place:]
        case 1:
            return data[:place] + TOKENS[int(rng.integers(len(TOKENS)))] + data[end:]
        case 2:
            return data[:place] + data[end:]
        case 3:
            return data[:end] + data[place:end] * int(rng.integers(1, 20)) + data[end:]
        case 4:
            other = others[int(rng.integers(len(others)))] if others else data
            return data[:place] + other[int(rng.integers(0, len(other) + 1)) :]
        case 5:
            return data[:place] + bytes(rng.integers(0, 256, end - place, np.uint8)) + data[end:]
        case _:
            return data[:place]


def _changed_tree(tree: Any, rng: np.random.Generator) -> Any:
    """The same value with one of its parts replaced, removed, repeated, renamed or moved."""
    tree = copy.deepcopy(tree)
    places = list(_places(tree))
    if not places:
        return VALUES[int(rng.integers(len(VALUES)))]
    holder, key = places[int(rng.integers(len(places)))]
    other, at = places[int(rng.integers(len(places)))]
    found = holder[key]
    match int(rng.integers(0, 8)):
        case 0 | 1 | 2:
            holder[key] = copy.deepcopy(VALUES[int(rng.integers(len(VALUES)))])
        case 3:
            del holder[key]
        case 4:
            holder[key] = copy.deepcopy(other[at])
        case 5 if isinstance(holder, list):
            holder[key:key] = [copy.deepcopy(found)] * int(rng.integers(1, 40))
        case 5 | 6 if isinstance(holder, dict):
            holder[str(VALUES[int(rng.integers(46, 70))])] = copy.deepcopy(found)
        case _:
            holder[key] = _neighbour(found, rng)
    return tree


def _neighbour(value: Any, rng: np.random.Generator) -> Any:
    """Nearly the same value."""
    match value:
        case bool():
            return not value
        case int():
            return value + int(rng.integers(-2, 3)) if rng.random() < 0.5 else -value
        case float():
            return value * float(2.0 ** rng.integers(-20, 21))
        case str() if value:
            place = int(rng.integers(0, len(value)))
            return value[:place] + chr(int(rng.integers(32, 0x3000))) + value[place + 1 :]
        case bytes():
            return value[:-1] if rng.random() < 0.5 else value + b"\x00" * 8
        case list():
            return value * 2 if rng.random() < 0.5 else value[::-1]
    return [value]


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every part of a value, as what holds it and where; of very large ones the first."""
    waiting, seen = [tree], 0
    while waiting and seen < 5_000:
        holder = waiting.pop()
        keys: Any = range(len(holder)) if isinstance(holder, list) else holder
        for key in keys if isinstance(holder, list | dict) else ():
            yield holder, key
            seen += 1
            if isinstance(holder[key], list | dict):
                waiting.append(holder[key])
