"""A small release to report on, and the elements of a page."""

from __future__ import annotations

import dataclasses
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from heterofedsyn import FederatedSynthesizer, load

HOSTILE = '<script>alert(1)</script> $x$ & "q" \''
COLUMNS: list[dict[str, Any]] = [
    {"name": "age", "type": "integer", "min": 0, "max": 99},
    {"name": "weight", "type": "number", "min": 0, "max": 150, "bins": 30, "nullable": True},
    {"name": "seen", "type": "datetime", "min": "2025-01-01", "max": "2025-12-31", "bins": 12},
    {"name": "ward", "type": "categorical", "values": [f"ward {k}" for k in range(14)]},
    {"name": "triage", "type": "categorical", "values": ["low", "mid", "high"], "ordered": True},
    {"name": "sick", "type": "boolean", "nullable": True},
]


def table(rows: int = 3_000, seed: int = 0) -> pa.Table:
    """People whose columns all lean on their age."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, rows)
    days = rng.integers(0, 365, rows) // 2 + age
    return pa.table(
        {
            "age": age,
            "weight": pa.array(rng.normal(60 + age / 4, 8, rows), mask=rng.random(rows) < 0.2),
            "seen": np.datetime64("2025-01-01", "s") + days.astype("timedelta64[D]"),
            "ward": [f"ward {k}" for k in np.minimum(rng.poisson(age / 20), 13)],
            "triage": np.array(["low", "mid", "high"])[np.minimum(age // 34, 2)],
            "sick": pa.array(rng.random(rows) < age / 100, mask=rng.random(rows) < 0.1),
        }
    )


def release_of(
    folder: Path,
    rows: pa.Table,
    columns: list[dict[str, Any]] = COLUMNS,
    label: str | None = "sick",
    sites: int = 2,
    **terms: Any,
) -> Path:
    schema = {"columns": columns, **({"label": label} if label else {})}
    usual = {"epsilon": 5.0, "delta": 1e-9, "noise_seed": 3}
    synthesizer = FederatedSynthesizer(schema, **{**usual, **terms})
    many = -(-rows.num_rows // sites)
    synthesizer.fit({f"site-{i}": rows.slice(i * many, many) for i in range(sites)})
    return synthesizer.save(folder)


def published(folder: Path, target: Path) -> Path:
    """The same release as if its noise could not be undone."""
    made = load(folder)
    privacy = msgspec.structs.replace(made.privacy, simulated_noise=False)
    return dataclasses.replace(made, privacy=privacy).save(target)


class Outline(HTMLParser):
    """The elements of a page, its ids and the text of its headings."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.sections: list[dict[str, Any]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "section":
            self.sections.append({**dict(attrs), "text": ""})

    def handle_data(self, data: str) -> None:
        self.text.append(data)
        if self.sections:
            self.sections[-1]["text"] += data
