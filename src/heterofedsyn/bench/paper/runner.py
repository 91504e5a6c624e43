"""Runs the items that are not done yet, on several cores, and keeps each as it is done."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from heterofedsyn.bench.paper.experiments import (
    COST,
    ML,
    SCORES,
    TRANSPORT,
    Cell,
    Experiment,
    experiments,
)
from heterofedsyn.bench.paper.results import Block, Identity, Item, Results, opened
from heterofedsyn.bench.paper.work import run_item
from heterofedsyn.errors import HeterofedsynError

Note = Callable[[str], None]


class Work(Protocol):
    """What is done with an item."""

    def __call__(self, item: Item, *, noise_seed: int) -> Block:
        """Its figures."""
        ...


USUAL_SECONDS = {
    SCORES: {"adult": 1.2, "shoppers": 0.8},
    TRANSPORT: {"adult": 2.5, "shoppers": 10.0, "abalone": 10.0, "obesity": 12.0},
    ML: {"adult": 9.0, "shoppers": 3.0, "abalone": 2.0},
    COST: {"adult": 2.0, "shoppers": 2.0},
}
"""CPU seconds of an item before one like it was measured; about one where nothing is said."""

PAUSE = 10.0
"""Seconds between lines of progress."""

_SINGLE_THREAD = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"),
    *("NUMBA_NUM_THREADS", "POLARS_MAX_THREADS", "ARROW_NUM_THREADS"),
)


@dataclass(frozen=True)
class Request:
    """What a run shall do."""

    experiments: tuple[Experiment, ...]
    folder: Path
    data: Path
    identity: Identity
    repetitions: int
    ml_repetitions: int
    jobs: int


@dataclass(frozen=True)
class Ended:
    """How a run went."""

    items: int
    fresh: int
    failures: tuple[str, ...]


def run(request: Request, note: Note, after: Callable[[Block], None] = lambda block: None) -> Ended:
    """Do what is not done yet; what is done stays even if this is stopped at any moment.

    Args:
        after: is told every item once it is kept.
    """
    with opened(request.folder, request.identity, memberships(request.identity)) as results:
        work = partial(run_item, folder=request.data)
        return carry_out(plan_items(request), results, work, request.jobs, note, after)


def carry_out(
    wanted: Sequence[Item],
    results: Results[Any],
    work: Work,
    jobs: int,
    note: Note,
    after: Callable[[Block], None] = lambda block: None,
) -> Ended:
    """Do those items that the results lack, on so many cores, and keep each as it is done.

    Args:
        work: does an item with its noise seed; other processes must be able to import it.
        after: is told every item once it is kept.
    """
    done = results.done()
    left = [item for item in wanted if item.key not in done]
    note(f"{len(wanted):,} items, {len(wanted) - len(left):,} of them done already")
    clock = _Clock(left, note)
    failures = []
    with closing(_outcomes(left, results, work, jobs)) as outcomes:
        for outcome in outcomes:
            if isinstance(outcome, Block):
                results.append(outcome)
                clock.tick(outcome)
                after(outcome)
            else:
                note(f"  failed: {outcome}")
                failures.append(outcome)
    results.sort()
    return Ended(len(wanted), len(left) - len(failures), tuple(failures))


def memberships(identity: Identity) -> dict[Cell, tuple[str, ...]]:
    """Which experiments every cell belongs to: one that several share is run once."""
    names: dict[Cell, tuple[str, ...]] = defaultdict(tuple)
    for experiment in experiments(quick=identity.quick).values():
        for cell in experiment.cells:
            names[cell] += (experiment.name,)
    return names


def plan_items(request: Request) -> list[Item]:
    """All items, the most important first: an experiment may be cut short at any point.

    Repetitions of transport are the longest work, and last; before it, `overall` comes before the
    rest, closeness before machine learning and that before transport, one repetition at a time.
    """
    many = {
        SCORES: request.repetitions,
        TRANSPORT: request.repetitions,
        ML: request.ml_repetitions,
        COST: 1,
    }
    places: dict[Item, tuple[object, ...]] = {}
    for experiment in request.experiments:
        for kind in experiment.kinds:
            for repetition in range(many[kind]):
                for cell in experiment.cells:
                    again = kind == TRANSPORT and repetition > 0
                    rank = (SCORES, COST, ML, TRANSPORT).index(kind)
                    place = (again, experiment.name != "overall", rank, repetition)
                    item = Item(cell, repetition, kind)
                    places[item] = min(place, places.get(item, place))
    return sorted(places, key=lambda item: (places[item], -_usual(item)))


def _usual(item: Item) -> float:
    return USUAL_SECONDS[item.kind].get(item.cell.table, 1.0)


class _Clock:
    """Says how far a run is and how long it will take."""

    def __init__(self, left: Sequence[Item], note: Note) -> None:
        self._note = note
        self._left = {item.key: item for item in left}
        self._seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
        self._total, self._start, self._said, self._cpu = len(left), time.monotonic(), 0.0, 0.0

    def tick(self, block: Block) -> None:
        """Count an item as done, and say so every now and then."""
        item, now = block.item, time.monotonic()
        del self._left[item.key]
        self._cpu += block.cpu_seconds
        self._seconds[item.kind, item.cell.table].append(block.cpu_seconds)
        if now - self._said < PAUSE and self._left:
            return
        self._said = now
        # Other work on the machine makes a CPU second last longer.
        stretch = (now - self._start) / max(self._cpu, 0.1)
        rest = sum(map(self._expected, self._left.values())) * stretch
        self._note(
            f"  {self._total - len(self._left):,}/{self._total:,}, {_duration(rest)} left; "
            f"{item.kind} of {item.cell}, repetition {item.repetition + 1}"
        )

    def _expected(self, item: Item) -> float:
        seen = self._seconds.get((item.kind, item.cell.table))
        return sum(seen) / len(seen) if seen else _usual(item)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _outcomes(
    left: Sequence[Item], results: Results[Any], work: Work, jobs: int
) -> Generator[Block | str]:
    """Every item's figures as they are ready, or a line on why there are none."""
    seeds = {item.key: results.noise_seed(item.repetition) for item in left}
    if jobs == 1 or len(left) <= 1:
        for item in left:
            yield _attempt(item, work, seeds[item.key])
        return
    with _workers(jobs) as pool:
        waiting = iter(left)
        running: set[Future[Block | str]] = set()
        while True:
            # Few items are handed out ahead, so that a stop does not wait for many.
            for item in islice(waiting, 2 * jobs - len(running)):
                running.add(pool.submit(_attempt, item, work, seeds[item.key]))
            if not running:
                return
            ready, running = wait(running, return_when=FIRST_COMPLETED)
            for future in ready:
                try:
                    yield future.result()
                except BrokenProcessPool:
                    raise HeterofedsynError(
                        "a worker was killed, perhaps for want of memory; run again to continue, "
                        "with fewer --jobs"
                    ) from None


def _attempt(item: Item, work: Work, noise_seed: int) -> Block | str:
    """An item's figures; something unforeseen ends the item, not the run."""
    try:
        return work(item, noise_seed=noise_seed)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        return f"{item.kind} of {item.cell}: {type(error).__name__} at {place}"


@contextmanager
def _workers(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Fresh processes of one thread each, gone at the end however it comes."""
    others = set(multiprocessing.active_children())
    with _environment(dict.fromkeys(_SINGLE_THREAD, "1")):
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_begin)
        try:
            yield pool
        except BaseException:
            for worker in set(multiprocessing.active_children()) - others:
                worker.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


def _begin() -> None:
    """Leave Ctrl-C to the process that keeps the results."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Variables for the processes started meanwhile."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
