"""What Spark would do is refused where it cannot be seen, as where it is not exact."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from heterofedsyn.errors import DataError
from heterofedsyn.sources._spark_plan import check_plan

STEPS = "\n\n".join(
    f"== {which} Logical Plan ==\n{{0}}" for which in ("Parsed", "Analyzed", "Optimized")
)


def frame(said: str) -> SimpleNamespace:
    """A data frame of Spark Connect, of which the server tells this."""
    conf = SimpleNamespace(
        get=lambda key, usual: usual, set=lambda key, value: None, unset=lambda key: None
    )
    return SimpleNamespace(
        isStreaming=False,
        sparkSession=SimpleNamespace(conf=conf),
        _explain_string=lambda extended: said,
    )


def test_steps_that_take_rows_one_by_one_pass() -> None:
    check_plan("t", frame(STEPS.format("id: bigint\nRange (0, 9, step=1)")))


def test_steps_that_push_out_rows_are_refused() -> None:
    with pytest.raises(DataError, match=r"^t: .*push out another"):
        check_plan("t", frame(STEPS.format("GlobalLimit 3\n+- LocalLimit 3\n   +- Range (0, 9)")))


@pytest.mark.parametrize("said", ["", "== Physical Plan ==\nGlobalLimit 3", "Analyzed: Limit 3"])
def test_steps_that_nobody_can_read_are_refused(said: str) -> None:
    with pytest.raises(DataError, match="not known here"):
        check_plan("t", frame(said))
