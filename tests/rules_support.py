"""Random schemas with rules, rows that keep them, and a second opinion on who breaks one."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from heterofedsyn.errors import SchemaError
from heterofedsyn.schema import EncodedTable, Schema, decode

Settings = dict[str, Any]


def random_schema(rng: np.random.Generator) -> Schema:
    """Columns of every type with one to five rules that leave a row."""
    while True:
        try:
            return Schema.of(_settings(rng))
        except SchemaError as error:
            said = str(error)
            if not any(word in said for word in ("possible row", "no value of it", "twice")):
                raise


def _settings(rng: np.random.Generator) -> Settings:
    columns: list[Settings] = [
        {"name": "id", "type": "key", "prefix": "P"},
        {"name": "code", "type": "categorical", "values": [f"k{i}" for i in range(12)]},
        {"name": "area", "type": "categorical", "values": ["north", "south", "west"]},
        {"name": "sex", "type": "categorical", "values": ["male", "female"]},
        {"name": "size", "type": "categorical", "values": ["s", "m", "l"], "ordered": True},
        {"name": "ill", "type": "boolean"},
        {"name": "age", "type": "integer", "min": 0, "max": 99, "bins": int(rng.integers(2, 40))},
        {"name": "bmi", "type": "number", "min": 10, "max": 60, "bins": int(rng.integers(2, 30))},
        {"name": "first", "type": "date", "min": date(2000, 1, 1), "max": date(2009, 12, 31)},
        {"name": "second", "type": "date", "min": date(1995, 1, 1), "max": date(2012, 6, 1)},
        {"name": "third", "type": "date", "min": date(2000, 1, 1), "max": date(2009, 12, 31)},
    ]
    for column in columns[1:]:
        column["nullable"] = bool(rng.random() < 0.3)
        if column["type"] == "date":
            column["bins"] = int(rng.integers(2, 20))
    if rng.random() < 0.5:
        columns[7]["decimals"] = 1
    columns[2]["nullable"] = columns[1]["nullable"]
    rules: list[Settings] = [_rule(columns, rng) for _ in range(rng.integers(1, 6))]
    if rng.random() < 0.5:
        rules.append({"order": [str(n) for n in rng.permutation(["first", "second", "third"])]})
    if rng.random() < 0.5:
        table = {f"k{i}": columns[2]["values"][int(rng.integers(3))] for i in range(12)}
        rules.append({"determines": {"from": "code", "to": "area", "table": table}})
    label = "sex" if rng.random() < 0.7 else None
    return {"columns": columns, "rules": rules, **({"label": label} if label else {})}


def _rule(columns: list[Settings], rng: np.random.Generator) -> Settings:
    many = int(rng.choice([1, 2, 2, 2, 3, 4]))
    chosen = rng.permutation(len(columns) - 1)[:many] + 1
    return {"never": {columns[i]["name"]: _condition(columns[i], rng, many) for i in chosen}}


def _condition(column: Settings, rng: np.random.Generator, many: int) -> Any:
    if column["nullable"] and rng.random() < 0.2:
        return {"missing": True}
    if column["type"] == "boolean":
        return bool(rng.random() < 0.5)
    if column["type"] == "categorical" and not (column.get("ordered") and rng.random() < 0.5):
        some = max(1, int(len(column["values"]) * rng.uniform(0.1, 0.6)))
        return [str(value) for value in rng.permutation(column["values"])[:some]]
    if column["type"] == "categorical":
        return {"below": "l"} if rng.random() < 0.5 else {"from": "m"}
    low, high = column["min"], column["max"]
    part = rng.uniform(0.6, 0.95) if many == 1 else rng.uniform(0.2, 0.8)
    middle = low + (high - low) * part
    if column["type"] == "integer":
        middle = int(middle)
    elif column["type"] == "number":
        middle = round(middle, 1)
    end = str(rng.choice(["above", "from"] if many == 1 else ["above", "below", "from", "to"]))
    return {end: middle}


def any_rows(schema: Schema, rows: int, rng: np.random.Generator) -> pa.Table:
    """Rows that fit the columns and know nothing of the rules."""
    free = schema.without_rules()
    codes = np.stack([rng.integers(0, size, rows) for size in free.domain.sizes])
    return decode(free, EncodedTable.from_codes(free.domain, codes), rng)


def lawful_rows(schema: Schema, rows: int, rng: np.random.Generator) -> pa.Table:
    """Rows that keep the rules, with some dependence between columns."""
    found: list[np.ndarray[Any, Any]] = []
    book = schema.rulebook
    for _ in range(400):
        latent = rng.normal(size=(1, 4 * rows)) + rng.normal(size=(len(schema.domain), 4 * rows))
        ranks = (np.argsort(np.argsort(latent)) + 0.5) / latent.shape[1]
        sizes = np.array(schema.domain.sizes)[:, None]
        codes = np.minimum((ranks**1.5 * sizes).astype(np.int64), sizes - 1)
        found.append(codes[:, ~book.any_broken(codes)])
        if sum(part.shape[1] for part in found) >= rows:
            break
    codes = np.concatenate(found, axis=1)[:, :rows]
    if codes.shape[1] < rows // 10 + 1:
        row = book.possible({}, rng)
        codes = np.zeros((len(schema.domain), rows), np.int64)
        for place, code in row.items():
            codes[place] = code
    return decode(schema, EncodedTable.from_codes(schema.domain, codes), rng)


def broken_rows(schema: Schema, table: pa.Table, *, derived: bool = True) -> list[bool]:
    """For every row whether it breaks a rule of the schema's text, seen from the values alone.

    Args:
        derived: whether a determined value must be there where the other is.
    """
    settings = schema.settings
    kinds = {column["name"]: column for column in settings["columns"]}
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    broken = [False] * table.num_rows
    for rule in settings["rules"]:
        if "never" in rule:
            hits = [
                [_holds(kinds[name], condition, value) for value in columns[name]]
                for name, condition in rule["never"].items()
            ]
            found = [all(row) for row in zip(*hits, strict=True)]
        elif "order" in rule:
            found = []
            for row in zip(*(columns[name] for name in rule["order"]), strict=True):
                known = [value for value in row if value is not None]
                found.append(known != sorted(known))
        else:
            said = rule["determines"]
            found = [
                (derived or (one is not None and other is not None))
                and (None if one is None else said["table"][one]) != other
                for one, other in zip(columns[said["from"]], columns[said["to"]], strict=True)
            ]
        broken = [before or now for before, now in zip(broken, found, strict=True)]
    return broken


def _holds(column: Settings, condition: Any, value: Any) -> bool:
    if isinstance(condition, dict):
        if value is None:
            return bool(condition.get("missing", False))
        if "values" in condition:
            return value in condition["values"]
        ends = {end: condition[end] for end in ("above", "below", "from", "to") if end in condition}
        if column["type"] == "categorical":
            order = column["values"]
            value, ends = order.index(value), {e: order.index(v) for e, v in ends.items()}
        tests = {
            "above": lambda end: value > end,
            "below": lambda end: value < end,
            "from": lambda end: value >= end,
            "to": lambda end: value <= end,
        }
        return bool(ends) and all(tests[end](_plain(own)) for end, own in ends.items())
    if value is None:
        return False
    return value in condition if isinstance(condition, list) else bool(value == condition)


def _plain(value: Any) -> Any:
    return value.date() if isinstance(value, datetime) else value
