"""Does the items that are not done yet, on several cores, and keeps each as it is done."""

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
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from heterofedsyn.bench.resumable.results import Block, Item, Results
from heterofedsyn.errors import HeterofedsynError

Note = Callable[[str], None]


class Work(Protocol):
    """What is done with an item."""

    def __call__(self, item: Item, *, noise_seed: int) -> Block:
        """Its figures."""
        ...


PAUSE = 10.0
"""Seconds between lines of progress."""

_SINGLE_THREAD = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS"),
    *("NUMBA_NUM_THREADS", "POLARS_MAX_THREADS", "ARROW_NUM_THREADS"),
)


@dataclass(frozen=True)
class Ended:
    """How a run went."""

    items: int
    fresh: int
    failures: tuple[str, ...]


def carry_out(
    wanted: Sequence[Item],
    results: Results[Any],
    work: Work,
    jobs: int,
    tell: Telling,
    after: Callable[[Block], None] = lambda block: None,
) -> Ended:
    """Do those items that the results lack, on so many cores, and keep each as it is done.

    Args:
        work: does an item with its noise seed; other processes must be able to import it.
        after: is told every item once it is kept.
    """
    done = results.done()
    left = [item for item in wanted if item.key not in done]
    before = len(wanted) - len(left)
    tell.note(f"{len(wanted):,} runs" + (f", {before:,} of them done already" if before else ""))
    clock = _Clock(left, tell)
    failures = []
    with closing(_outcomes(left, results, work, jobs, tell.called)) as outcomes:
        for outcome in outcomes:
            if isinstance(outcome, Block):
                results.append(outcome)
                clock.tick(outcome)
                after(outcome)
            else:
                tell.note(f"  failed: {outcome}")
                failures.append(outcome)
    results.sort()
    return Ended(len(wanted), len(left) - len(failures), tuple(failures))


def _called(item: Item) -> str:
    return f"{item.kind} of {item.cell}, repetition {item.repetition + 1}"


@dataclass(frozen=True)
class Telling:
    """How a run is told of.

    Attributes:
        called: what an item is to whoever waits for it.
        usual: CPU seconds of an item before one like it was measured.
    """

    note: Note
    called: Callable[[Item], str] = _called
    usual: Callable[[Item], float] = lambda item: 1.0


class _Clock:
    """Says how far a run is and how long it will take."""

    def __init__(self, left: Sequence[Item], tell: Telling) -> None:
        self._tell = tell
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
        self._tell.note(
            f"  {self._total - len(self._left):,} of {self._total:,} done, about "
            f"{_duration(rest)} left; last {self._tell.called(item)}"
        )

    def _expected(self, item: Item) -> float:
        seen = self._seconds.get((item.kind, item.cell.table))
        return sum(seen) / len(seen) if seen else self._tell.usual(item)


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def _outcomes(
    left: Sequence[Item],
    results: Results[Any],
    work: Work,
    jobs: int,
    called: Callable[[Item], str],
) -> Generator[Block | str]:
    """Every item's figures as they are ready, or a line on why there are none."""
    seeds = {item.key: results.noise_seed(item.repetition) for item in left}
    if jobs == 1 or len(left) <= 1:
        for item in left:
            yield _attempt(item, work, seeds[item.key], called(item))
        return
    with _workers(jobs) as pool:
        waiting = iter(left)
        running: set[Future[Block | str]] = set()
        while True:
            # Few items are handed out ahead, so that a stop does not wait for many.
            for item in islice(waiting, 2 * jobs - len(running)):
                running.add(pool.submit(_attempt, item, work, seeds[item.key], called(item)))
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


def _attempt(item: Item, work: Work, noise_seed: int, called: str) -> Block | str:
    """An item's figures; something unforeseen ends the item, not the run."""
    try:
        return work(item, noise_seed=noise_seed)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        return f"{called}: {type(error).__name__} at {place}"


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
