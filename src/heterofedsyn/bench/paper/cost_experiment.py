"""What a study costs: bytes a site sends and receives, and seconds at hub and sites."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

from heterofedsyn.bench.benchmark_tables import random_table
from heterofedsyn.bench.paper.experiments import CONVERSION, DELTA, RANDOM
from heterofedsyn.bench.resumable.cells import Cell
from heterofedsyn.hub import Release, Request, converse, make_method
from heterofedsyn.hub.conversation import Conversation
from heterofedsyn.hub.methods.base import Method, settings_of, with_columns
from heterofedsyn.privacy.noise import SimulatedNoise
from heterofedsyn.protocol import Answer, Plan, decode
from heterofedsyn.protocol import encode as pack
from heterofedsyn.schema import CategoricalColumn, EncodedTable, Schema, encode
from heterofedsyn.site import Site
from heterofedsyn.sources import open_source

VALUES = 20
"""Values of every column of a random table."""

RANDOM_ROWS = 10_000

Result = TypeVar("Result")


def measure_cost(cell: Cell, folder: Path, noise_seed: int) -> dict[str, float]:
    """Bytes and CPU seconds of one study whose messages are carried here, one site after another.

    Hub seconds are those until the release is there; drawing its rows is counted apart.
    """
    method = make_method(cell.method, dict(cell.settings))
    schema, table = _table(cell.table, method, folder)
    plan = Plan(
        schema=schema.fingerprint,
        epsilon=cell.epsilon,
        delta=DELTA,
        conversion=CONVERSION,
        sites=tuple(f"site-{number + 1}" for number in range(cell.sites)),
        method=method.name,
        settings=settings_of(method),
        seed=noise_seed,
    )
    plan = with_columns(plan, method, schema)
    sites = [
        Site(
            name,
            table.take(np.arange(number, table.rows, cell.sites)),
            plan,
            SimulatedNoise(noise_seed, name),
        )
        for number, name in enumerate(plan.sites)
    ]
    up, down, scoring, rounds, at_hub, at_sites = 0, 0, 0, 0, 0.0, 0.0
    study = converse(schema, plan, method)
    request, spent = _timed(lambda: next(study))
    at_hub += spent
    while True:
        message = pack(request.query)
        replies, spent = _timed(lambda: [site.answer(message) for site in sites])  # noqa: B023
        at_sites += spent
        up += sum(map(len, replies))
        down += len(message) * len(sites)
        scoring += sum(map(len, replies)) if request.query.label in SCORING else 0
        rounds += 1
        answers = [decode(reply, Answer) for reply in replies]
        after, spent = _timed(lambda: _after(study, request, answers))  # noqa: B023
        at_hub += spent
        if isinstance(after, Release):
            break
        request = after
    _, sampling = _timed(lambda: after.sample(table.rows, seed=noise_seed))
    return {
        "cost.columns": float(len(table.domain)),
        "cost.rounds": float(rounds),
        "cost.bytes_up": up / len(sites),
        "cost.bytes_up_scoring": scoring / len(sites),
        "cost.bytes_down": down / len(sites),
        "cost.site_seconds": at_sites / len(sites),
        "cost.hub_seconds": at_hub,
        "cost.sample_seconds": sampling,
    }


SCORING = ("dependence", "scores")
"""Labels of rounds that only serve to choose pairs."""


def _after(study: Conversation, request: Request, answers: list[Answer]) -> Request | Release:
    """The next request, or the release at the end."""
    try:
        return study.send(request.check(answers))
    except StopIteration as stop:
        release: Release = stop.value
        return release


def _timed(work: Callable[[], Result]) -> tuple[Result, float]:
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def _table(name: str, method: Method, folder: Path) -> tuple[Schema, EncodedTable]:
    """A real table, or a random one of so many columns of equal size."""
    if name.startswith(RANDOM):
        sizes = (VALUES,) * int(name.removeprefix(RANDOM))
        table = random_table(RANDOM_ROWS, sizes)
        values = tuple(f"v{number}" for number in range(VALUES))
        columns = tuple(CategoricalColumn(name, values=values) for name in table.domain.names)
        return method.encoding(Schema(columns)), table
    schema = method.encoding(Schema.load(folder / name / "schema.toml"))
    files = [open_source(folder / name / f"{part}.csv") for part in ("train", "val")]
    batches = (batch for file in files for batch in file.batches(schema.domain.names))
    return schema, encode(schema, batches).table
