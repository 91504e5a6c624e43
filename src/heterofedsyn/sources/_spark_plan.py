"""What Spark would do for a table, views and data frames included, refused where it is not exact.

A worker that is lost has its part read again, and a slow part may be read twice. Rows that chance
chose would then be others. Rows that push out others are refused as in any other query.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from heterofedsyn.errors import DataError, UsageError
from heterofedsyn.sources._rowwise import PUSHES

_STEP = r"^[ :+-]*{}\b"
_PUSHING = re.compile(
    _STEP.format("(?:GlobalLimit|LocalLimit|Offset|Tail|Sample|Window|AsOfJoin)"), re.MULTILINE
)
_ANY_OF_SEVERAL = re.compile(_STEP.format(r"Deduplicate\w*"), re.MULTILINE)
_CHANCE = re.compile(
    r"(?i)\b(?:rand|randn|random|randstr|uniform|uuid|shuffle|first|first_value|last|last_value"
    r"|any_value|mode|max_by|min_by|collect_list|collect_set|array_agg|listagg|string_agg|spark_partition_id"
    r"|monotonically_increasing_id|input_file_name|input_file_block_\w+)\("
)
_WIDTH = "spark.sql.debug.maxToStringFields"

CHANCE = (
    "chance or a row's place decides on a value (rand, uuid, first, collect_list, input_file_name, "
    "...), so a part that is read again gives other rows; use min or max, _metadata.file_path, or "
    "write the rows to a table first"
)
ANY_OF_SEVERAL = (
    "dropDuplicates and distinct keep any one of several rows; use SELECT DISTINCT, or GROUP BY "
    "with min or max"
)
UNTOLD = (
    "this version of Spark says what it would do in words that are not known here, so nobody can "
    "see whether each row stands for itself; use a version that the extra `spark` allows"
)


def check_plan(name: str, frame: Any) -> None:
    """Refuses a data frame that is not the same rows each time, or where rows push out others.

    Raises:
        DataError: it says what to do instead.
        UsageError: it is a stream.
    """
    if frame.isStreaming:
        raise UsageError(f"{name}: a stream has no end; pass a table")
    with setting(frame.sparkSession, _WIDTH, str(2**31 - 1)):
        plan, certain = _analysed(frame)
    if not plan.strip():
        raise DataError(f"{name}: {UNTOLD}")
    if _PUSHING.search(plan):
        raise DataError(f"{name}: {PUSHES}")
    if _ANY_OF_SEVERAL.search(plan):
        raise DataError(f"{name}: {ANY_OF_SEVERAL}")
    if not certain or _CHANCE.search(plan):
        raise DataError(f"{name}: {CHANCE}")


def _analysed(frame: Any) -> tuple[str, bool]:
    """The steps that were asked for, before Spark looks for better ones, and whether all are sure.

    Spark Connect tells the steps alone.
    """
    if explain := getattr(frame, "_explain_string", None):
        said: str = explain(extended=True)
        return said.partition("== Analyzed ")[2].rpartition("== Optimized ")[0], True
    analysed = frame._jdf.queryExecution().analyzed()
    return str(analysed.toString()), bool(analysed.deterministic())


@contextmanager
def setting(session: Any, key: str, value: str) -> Iterator[None]:
    """A setting of a session of Spark, for a moment."""
    before = session.conf.get(key, None)
    session.conf.set(key, value)
    try:
        yield
    finally:
        if before is None:
            session.conf.unset(key)
        else:
            session.conf.set(key, before)
