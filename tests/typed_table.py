"""One table stored in every type that its columns may have, and the codes that all of them give."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from heterofedsyn.schema import Schema, encode

UUIDS = ("5b0e4f5e-93ab-4d33-9d5e-0d5d0f0f1a01", "f47ac10b-58cc-4372-a567-0e02b2c3d479")
SCHEMA = Schema.of(
    {
        "columns": [
            {"name": "whole", "type": "integer", "min": 0, "max": 99, "nullable": True},
            {"name": "real", "type": "number", "min": 0, "max": 3, "bins": 30, "nullable": True},
            {
                "name": "ward",
                "type": "categorical",
                "values": ["a", "b", "3", "größer, als"],
                "nullable": True,
            },
            {"name": "code", "type": "categorical", "values": ["1", "2", "30"], "nullable": True},
            {"name": "alive", "type": "boolean", "nullable": True},
            {"name": "day", "type": "datetime", "min": "2025-01-01", "max": "2025-12-31"},
            {
                "name": "seen",
                "type": "datetime",
                "min": "2025-01-01",
                "max": "2025-12-31",
                "bins": 365,
                "nullable": True,
            },
            {"name": "person", "type": "categorical", "values": list(UUIDS)},
        ]
    }
)

WHOLE = [1, 2, None, 50, 120, -7]
REAL = [1.5, 0.25, 2.75, None, 3.5, 0.0]
WARD = ["a", "größer, als", None, "3", "b", "a"]
CODE = [1, 2, 30, None, 2, 1]
ALIVE = [True, False, None, True, True, False]
DAY = [date(2025, 5, 1), date(2025, 1, 1), date(2025, 12, 31), *[date(2025, 7, 4)] * 3]
SEEN = [
    datetime(2025, 5, 1, 23, 30, 59),
    None,
    datetime(2025, 1, 1),
    datetime(2025, 12, 30, 22, 59, 59),
    datetime(2025, 3, 30, 1, 30),
    datetime(2025, 10, 26, 0, 30),
]
PERSON = [UUIDS[0], UUIDS[1]] * 3
ZONED = [None if moment is None else moment.replace(tzinfo=UTC) for moment in SEEN]


def _decimals(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array([None if value is None else Decimal(str(value)) for value in values], kind)


def _texts(values: list[Any], kind: pa.DataType | None = None) -> pa.Array:
    return pa.array([None if v is None else str(v) for v in values], kind or pa.string())


def _nan_for_null(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array([float("nan") if value is None else value for value in values], kind)


TYPES: dict[str, list[pa.Array]] = {
    "whole": [
        pa.array(WHOLE, pa.int64()),
        pa.array(WHOLE, pa.int8()),
        pa.array(WHOLE, pa.float64()),
        _nan_for_null(WHOLE, pa.float32()),
        _texts(WHOLE),
        _texts(WHOLE, pa.string_view()),
        _decimals(WHOLE, pa.decimal128(10, 2)),
        _decimals(WHOLE, pa.decimal256(50, 0)),
        pa.array(WHOLE, pa.int16()).dictionary_encode(),
    ],
    "real": [
        pa.array(REAL, pa.float64()),
        pa.array(REAL, pa.float32()),
        _nan_for_null(REAL, pa.float64()),
        _texts(REAL, pa.large_string()),
        _decimals(REAL, pa.decimal128(10, 2)),
        _decimals(REAL, pa.decimal256(60, 4)),
        pa.array(REAL, pa.float64()).dictionary_encode(),
    ],
    "ward": [
        pa.array(WARD, pa.string()),
        pa.array(WARD, pa.large_string()),
        pa.array(WARD, pa.string_view()),
        pa.array(WARD, pa.string()).dictionary_encode(),
        pa.array(WARD, pa.large_string()).dictionary_encode(),
    ],
    "code": [
        pa.array(CODE, pa.int64()),
        pa.array(CODE, pa.uint8()),
        pa.array(CODE, pa.float64()),
        _nan_for_null(CODE, pa.float64()),
        _texts(CODE),
        _decimals(CODE, pa.decimal128(5, 0)),
        pa.array(CODE, pa.int32()).dictionary_encode(),
    ],
    "alive": [
        pa.array(ALIVE),
        pa.array([None if value is None else int(value) for value in ALIVE], pa.int32()),
        _texts(ALIVE),
        _nan_for_null([None if value is None else int(value) for value in ALIVE], pa.float64()),
    ],
    "day": [
        pa.array(DAY, pa.date32()),
        pa.array(DAY, pa.date64()),
        pa.array(DAY, pa.date32()).cast(pa.timestamp("s")),
        pa.array(DAY, pa.date32()).cast(pa.timestamp("ns")),
        _texts(DAY),
    ],
    "seen": [
        pa.array(SEEN, pa.timestamp("us")),
        pa.array(SEEN, pa.timestamp("s")),
        pa.array(SEEN, pa.timestamp("ns")),
        pa.array(ZONED, pa.timestamp("us", tz="UTC")),
        pa.array(ZONED, pa.timestamp("ms", tz="Europe/Berlin")),
        pa.array(ZONED, pa.timestamp("ns", tz="America/New_York")),
        _texts(ZONED),
    ],
    "person": [_texts(PERSON), _texts(PERSON).dictionary_encode()],
}


def typed_table(number: int) -> pa.Table:
    """The table with its columns in some of their types; so many numbers there are: `TABLES`."""
    return pa.table({name: kinds[number % len(kinds)] for name, kinds in TYPES.items()})


TABLES = range(max(len(kinds) for kinds in TYPES.values()))

CODES: list[list[int]] = [
    [1, 2, 100, 50, 99, 0],
    [15, 2, 27, 30, 29, 0],
    [0, 3, 4, 2, 1, 0],
    [0, 1, 2, 3, 1, 0],
    [1, 0, 2, 1, 1, 0],
    encode(SCHEMA, typed_table(0).to_batches()).table.codes[5].tolist(),
    encode(SCHEMA, typed_table(0).to_batches()).table.codes[6].tolist(),
    [0, 1, 0, 1, 0, 1],
]
