"""A column of very many values takes no more memory than a machine has, whatever the method."""

from __future__ import annotations

import pytest

from heterofedsyn.bench.fresh_process import in_fresh_process
from heterofedsyn.hub import METHODS
from heterofedsyn.synthesis import SYNTHESIZERS
from wide_support import wide_study

MOST = 2**10
"""MiB: one GiB."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["categorical", "integer"])
@pytest.mark.parametrize("synthesizer", sorted(SYNTHESIZERS))
@pytest.mark.parametrize("method", sorted(METHODS))
def test_sixty_thousand_values_fit_into_a_gibibyte_or_are_refused_before_anything_is_spent(
    method: str, synthesizer: str, kind: str
) -> None:
    cost = in_fresh_process(wide_study, method, kind, {"synthesizer": synthesizer})
    assert cost.peak < MOST, cost
    if cost.result:
        assert synthesizer == "pgm", cost.result
        assert "180,000 cells" in cost.result


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["categorical", "integer"])
def test_the_finest_grid_of_sixty_thousand_values_fits_too(kind: str) -> None:
    cost = in_fresh_process(wide_study, "wavetree", kind, {"finest": 1_000})
    assert cost.peak < MOST, cost
    assert not cost.result
