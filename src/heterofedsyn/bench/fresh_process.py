"""Work done in a process of its own, so that its peak of memory is its own."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from heterofedsyn.errors import HeterofedsynError


@dataclass(frozen=True)
class Cost:
    """What some work took, and what it returned."""

    cpu: float
    wall: float
    peak: float
    """MiB, those of the interpreter and its libraries included."""
    result: Any


def in_fresh_process(work: Callable[..., Any], *arguments: object) -> Cost:
    """Run a function of a module in a new process, and wait for it."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(there, work, arguments))
    process.start()
    there.close()
    try:
        cost: Cost = here.recv()
    except EOFError:
        raise HeterofedsynError(f"{work.__name__} ended without a result") from None
    finally:
        process.join()
    return cost


def _run(there: Connection, work: Callable[..., Any], arguments: tuple[object, ...]) -> None:
    cpu, wall = time.process_time(), time.perf_counter()
    result = work(*arguments)
    there.send(Cost(time.process_time() - cpu, time.perf_counter() - wall, _peak() / 2**10, result))


def peak_of(process: int) -> int:
    """KiB that a process had at most, by what Linux says of it."""
    status = Path(f"/proc/{process}/status").read_text("utf-8")
    return int(status.partition("VmHWM:")[2].split()[0])


def _peak() -> int:
    """KiB; `getrusage` would count the parent in, whose pages a child has until it is itself."""
    if Path("/proc/self/status").exists():
        return peak_of(os.getpid())
    import resource
    import sys

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most // 2**10 if sys.platform == "darwin" else most
