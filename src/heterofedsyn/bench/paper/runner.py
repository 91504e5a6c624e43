"""Runs the items that are not done yet, on several cores, and keeps each as it is done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from heterofedsyn.bench.paper.experiments import Experiment, experiments
from heterofedsyn.bench.paper.work import run_item
from heterofedsyn.bench.resumable.carrying import Ended, Note, Telling, carry_out
from heterofedsyn.bench.resumable.cells import COST, ML, SCORES, TRANSPORT, Cell
from heterofedsyn.bench.resumable.results import Block, Identity, Item, opened

USUAL_SECONDS = {
    SCORES: {"adult": 1.2, "shoppers": 0.8},
    TRANSPORT: {"adult": 2.5, "shoppers": 10.0, "abalone": 10.0, "obesity": 12.0},
    ML: {"adult": 9.0, "shoppers": 3.0, "abalone": 2.0},
    COST: {"adult": 2.0, "shoppers": 2.0},
}
"""CPU seconds of an item before one like it was measured; about one where nothing is said."""


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


def run(request: Request, note: Note, after: Callable[[Block], None] = lambda block: None) -> Ended:
    """Do what is not done yet; what is done stays even if this is stopped at any moment.

    Args:
        after: is told every item once it is kept.
    """
    with opened(request.folder, request.identity, memberships(request.identity)) as results:
        work = partial(run_item, folder=request.data)
        tell = Telling(note, usual=_usual)
        return carry_out(plan_items(request), results, work, request.jobs, tell, after)


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
