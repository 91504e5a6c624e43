"""The measured figures, one line each, in a file that a killed run leaves usable."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from heterofedsyn._files import check_place, file_written_whole
from heterofedsyn._version import __version__
from heterofedsyn.bench.resumable.cells import COST, ML, SCORES, TRANSPORT, Cell
from heterofedsyn.errors import DataError, HeterofedsynError, UsageError

COLUMNS = (
    *("experiments", "table", "method", "epsilon", "sites", "split", "trust", "settings"),
    *("repetition", "seed", "metric", "value", "version"),
)
REFUSED = "refused"
"""Metric of work that the software declined to do; its value is the reason in one word."""

CLOSING = "cpu_seconds."
"""Each block of lines ends with this metric and its kind of work; one without it was torn."""

EXACT = "fidelity.num_num"
"""The metric of the kind `transport`."""

Value = float | str


@dataclass(frozen=True)
class Item:
    """One kind of work on one cell with one draw of noise."""

    cell: Cell
    repetition: int
    kind: str

    @property
    def key(self) -> tuple[str, ...]:
        """What is done when a file of results holds it."""
        return (*self.cell.key, str(self.repetition), self.kind)


@dataclass(frozen=True)
class Block:
    """What one item gave."""

    item: Item
    figures: Mapping[str, Value]
    cpu_seconds: float


@dataclass(frozen=True)
class Identity:
    """What must be equal for a later run to continue a folder."""

    seed: int
    quick: bool

    def __str__(self) -> str:
        return f"{'with' if self.quick else 'without'} --quick and --seed {self.seed}"


class Continued(Protocol):
    """What must be equal for a later run to continue a folder: a dataclass, kept as JSON."""

    @property
    def seed(self) -> int:
        """Of the first repetition's noise, in thousands."""
        ...


Continuing = TypeVar("Continuing", bound=Continued)


@dataclass(eq=False)
class Results(Generic[Continuing]):
    """The folder of one benchmark, locked while it is held; see `opened`."""

    folder: Path
    identity: Continuing
    memberships: Mapping[Cell, tuple[str, ...]]
    _lines: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def path(self) -> Path:
        """The long-form table."""
        return self.folder / "results.csv"

    def noise_seed(self, repetition: int) -> int:
        """The seed of one repetition: the same for all methods, so that they compare fairly."""
        return self.identity.seed * 1_000 + repetition

    def done(self) -> set[tuple[str, ...]]:
        """The keys of all finished items."""
        return {
            (*line[1:9], line[10].removeprefix(CLOSING))
            for line in self._lines
            if line[10].startswith(CLOSING)
        }

    def append(self, block: Block) -> None:
        """Keep what an item gave, durably."""
        item = block.item
        seed = self.noise_seed(item.repetition)
        head = (" ".join(self.memberships.get(item.cell, ())), *item.cell.key)
        figures = {**block.figures, f"{CLOSING}{item.kind}": block.cpu_seconds}
        lines = [
            (*head, str(item.repetition), str(seed), metric, _shown(value), __version__)
            for metric, value in figures.items()
        ]
        with self.path.open("ab") as file:
            file.write(_text(lines))
            file.flush()
            os.fsync(file.fileno())
        self._lines += lines

    def sort(self) -> None:
        """Put the file in an order that does not depend on which worker was quicker."""
        self._lines.sort(key=lambda line: (line[1:9], line[10]))
        with file_written_whole(self.path) as partial:
            partial.write_bytes(_text([COLUMNS, *self._lines]))


@dataclass(frozen=True)
class Figure:
    """One line of results."""

    cell: tuple[str, ...]
    repetition: int
    seed: int
    metric: str
    value: str
    version: str


def read_figures(folder: Path) -> list[Figure]:
    """All figures of a folder, those of torn blocks left out."""
    return [
        Figure(line[1:8], int(line[8]), int(line[9]), line[10], line[11], line[12])
        for line in _whole_blocks(_read(folder / "results.csv"))
    ]


@contextmanager
def opened(
    folder: Path,
    identity: Continuing,
    memberships: Mapping[Cell, tuple[str, ...]],
    otherwise: str = "name another --out",
) -> Iterator[Results[Continuing]]:
    """The results of a folder, new or to be continued, while nobody else writes there.

    Args:
        otherwise: what to do if the folder holds another run.

    Raises:
        UsageError: if the folder holds something else, or a run with another seed or extent.
    """
    _check(folder, identity, otherwise)
    folder.mkdir(parents=True, exist_ok=True)
    record = folder / "run.json"
    if not record.exists():
        with file_written_whole(record) as partial:
            partial.write_text(json.dumps(vars(identity)) + "\n", "utf-8")
    with record.open("rb") as lock:
        # The system's own lock, gone with its process; filelock would wrap the same call.
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise HeterofedsynError(
                f"another run is writing to {folder}; wait for it, or name another --out"
            ) from None
        results = Results(folder, identity, memberships)
        results._lines = _whole_blocks(_read(results.path))
        results.sort()
        yield results


def read_identity(folder: Path, kind: Callable[..., Continuing]) -> Continuing:
    """What a folder of results was made with, as an identity of this kind.

    Raises:
        DataError: if it is no folder of results.
    """
    record = folder / "run.json"
    try:
        return kind(**json.loads(record.read_text("utf-8")))
    except OSError:
        raise DataError(f"{folder} holds no results; run without --render-only first") from None
    except (ValueError, TypeError):
        raise DataError(f"{record} is damaged; name another --out") from None


def _check(folder: Path, identity: Continued, otherwise: str) -> None:
    check_place(folder)
    record = folder / "run.json"
    if not record.exists():
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder} holds something else than results; name another --out")
        return
    begun = read_identity(folder, type(identity))
    if begun != identity:
        raise UsageError(
            f"{folder} holds a run {begun}; ask for the same to continue it, or {otherwise}"
        )


def _read(path: Path) -> list[tuple[str, ...]]:
    """The whole lines of a file; a torn last one is left out."""
    if not path.exists():
        return []
    data = path.read_bytes()
    whole = data[: data.rfind(b"\n") + 1].decode("utf-8")
    head, *lines = [tuple(line) for line in csv.reader(io.StringIO(whole, newline=""))] or [COLUMNS]
    if head != COLUMNS or any(len(line) != len(COLUMNS) for line in lines):
        raise DataError(f"{path} is damaged; remove it to start again")
    return lines


def _whole_blocks(lines: Iterable[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The lines of blocks that were written to their end."""
    lines = list(lines)
    ends = {(line[1:9], line[10].removeprefix(CLOSING)) for line in lines if CLOSING in line[10]}
    return [line for line in lines if (line[1:9], kind_of(line[10])) in ends]


def kind_of(metric: str) -> str:
    """The kind of work a metric comes from.

    >>> [kind_of(metric) for metric in ("ml.average", "tvd.two_way", "refused.ml")]
    ['ml', 'scores', 'ml']
    """
    first, _, rest = metric.partition(".")
    if first in (REFUSED, CLOSING.rstrip(".")):
        return rest
    if metric == EXACT:
        return TRANSPORT
    return first if first in (ML, COST) else SCORES


def _text(lines: Iterable[tuple[str, ...]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue().encode("utf-8")


def _shown(value: Value) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"
