"""Counts of a Spark table come in slots, and all of them are of the same rows, or none is used."""

from __future__ import annotations

import numpy as np
import pytest

from heterofedsyn._arrays import Integers
from heterofedsyn.marginals.counts import whole
from heterofedsyn.schema import Domain, _units
from heterofedsyn.site import _spark_tasks as work
from heterofedsyn.site.spark_counting import together

DOMAIN = Domain(("a", "b", "c"), (400, 400, 400))
VIEWS = [whole(("a", "b")), whole(("a", "c"))]
CELLS = 2 * 400 * 400


def counted(seed: int) -> tuple[dict[int, Integers], int]:
    """The slots of a thousand rows as a worker sends them, and the mark of the rows."""
    codes = np.random.default_rng(seed).integers(0, 400, (3, 1_000)).astype(np.uint16)
    blocks = work._Blocks()
    ranks = _units.ranks(codes, np.zeros(1_000, np.int64))
    batches = [*blocks.add(codes, ranks), *blocks.rest()]
    sent = work.Count(DOMAIN, VIEWS)(iter(batches))
    slots = {
        batch.column("slot")[0].as_py(): np.frombuffer(batch.column("counts")[0].as_py(), np.int64)
        for batch in sent
    }
    return slots, blocks.mark


def test_every_slot_holds_its_part_of_the_counts() -> None:
    slots, mark = counted(1)
    assert len(slots) > 1
    found = together(slots, CELLS, mark)
    assert found.size == CELLS
    assert found.sum() == 2 * 1_000


def test_slots_of_two_versions_of_a_table_are_refused() -> None:
    (slots, mark), (others, _) = counted(1), counted(2)
    for place in slots:
        with pytest.raises(ValueError, match="different rows"):
            together({**slots, place: others[place]}, CELLS, mark)


def test_a_slot_that_is_missing_or_too_much_is_refused() -> None:
    slots, mark = counted(1)
    for place in slots:
        with pytest.raises(ValueError, match="missing"):
            together({k: own for k, own in slots.items() if k != place}, CELLS, mark)
    with pytest.raises(ValueError, match="missing"):
        together({**slots, len(slots): slots[0]}, CELLS, mark)
    with pytest.raises(ValueError, match="missing"):
        together({}, CELLS, mark)


def test_a_table_without_rows_has_counts_of_zero() -> None:
    assert not together({}, 7, 0).any()
