"""What the owner of rows is told of those that do not fit, and when that stops them.

For the steward's eyes alone: a serving agent asks for nothing here, and goes on whatever rows hold.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heterofedsyn._files import check_place, file_written_whole, read_whole
from heterofedsyn._words import MOST_CLAMPED, MOST_MISFIT, count
from heterofedsyn.errors import DataError, UsageError, plain
from heterofedsyn.schema import Fit, Schema
from heterofedsyn.schema.fit import ABOVE, BELOW
from heterofedsyn.schema.table import columns_of
from heterofedsyn.sources import Source, remedy

DETAILS = "misfits.txt"
"""In the site's folder: which rows do not fit, as the last check found them."""

ROWS_TITLE = "Rows that do not fit the schema and are left out, and values outside of a range"

_REMEDY = "mend the rows, or widen the schema: `other`, `nullable`, the type"
_UNIT_REMEDY = "see whether it is in the schema's unit, or widen min and max"
_MOST_SAID = 3
"""Rules, or columns, in one line."""

_MOST_BYTES = 2**24
"""Of a file of details."""

_ROWS = "rows are numbered from 1 in every table: in a CSV file row 1 is the line below its header"


@dataclass(frozen=True, eq=False, kw_only=True)
class Checked(Fit):
    """How the rows of several sources fit.

    Attributes:
        starts: the name of each source, and how many rows came before it.
    """

    starts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Tolerance:
    """How much of a table may be wrong before its owner is stopped.

    Attributes:
        misfit: share of its rows that do not fit.
        clamped: share of one column's values, missing ones apart, that lie outside of its range.
    """

    misfit: float = MOST_MISFIT
    clamped: float = MOST_CLAMPED

    def __post_init__(self) -> None:
        for name, share in (("misfit", self.misfit), ("clamped", self.clamped)):
            if not 0 <= share <= 1:
                raise UsageError(f"--most-{name} ({share:g}) must be a share in 0..1")

    def check(self, fit: Fit, schema: Schema, hint: str | None = None) -> None:
        """Refuse rows of which too many are wrong.

        Args:
            hint: what else is known of how to mend them.

        Raises:
            DataError: saying how many, why, and what to do.
        """
        if fit.rows_dropped > self.misfit * fit.rows_read:
            fits = "does" if fit.rows_dropped == 1 else "do"
            raise DataError(
                f"{fit.rows_dropped:,} of {count(fit.rows_read, 'row')} {fits} not fit, more than "
                f"{100 * self.misfit:g} % ({fit.reasons}); "
                f"{'; '.join([*rules_said(fit, schema), hint or _REMEDY])}"
            )
        beyond = [
            name
            for name, both in fit.clamped.items()
            if sum(both) > self.clamped * fit.values[name]
        ]
        if beyond:
            raise DataError(
                f"{clamped_said(fit, beyond)}, more than {100 * self.clamped:g} %; {_UNIT_REMEDY}"
            )


def check_half(fit: Fit, schema: Schema, sources: Iterable[Source] = ()) -> None:
    """Refuse rows half of which do not fit, or a column half of whose values are clamped.

    Args:
        sources: where the rows are, to look whether they are in another dialect.

    Raises:
        DataError: saying how many, why, and what to do.
    """
    if 2 * fit.rows_dropped >= fit.rows_read:
        found = f"{fit.describe()}, of {fit.rows_read:,}" if fit.rows_read else "it has no rows"
        hint = dialect_hint(fit, sources, schema) or "see `heterofedsyn schema check`"
        raise DataError("; ".join([found, *rules_said(fit, schema), hint]))
    beyond = [name for name, both in fit.clamped.items() if 2 * sum(both) >= fit.values[name]]
    if beyond:
        raise DataError(f"{clamped_said(fit, beyond)}, half of them or more; {_UNIT_REMEDY}")


def clamped_said(fit: Fit, names: Sequence[str]) -> str:
    """How many values of columns were clamped and on which side, of the first few of them."""
    said = []
    for name in names[:_MOST_SAID]:
        sides = side(*fit.clamped[name])
        said.append(f"column {name!r}: of {count(fit.values[name], 'value')} {sides} its range")
    more = len(names) - len(said)
    return "; ".join(said) + (f"; and so in {count(more, 'more column')}" if more else "")


def side(below: int, above: int) -> str:
    """How many values were clamped, and on which side.

    >>> side(0, 3), side(2, 1)
    ('3 above', '2 below and 1 above')
    """
    sides = ((below, "below"), (above, "above"))
    return " and ".join(f"{many:,} {where}" for many, where in sides if many)


def rules_said(fit: Fit, schema: Schema) -> list[str]:
    """What the rules say that most rows break, the first few of them."""
    most = sorted(fit.rules, key=lambda number: (-fit.rules[number], number))[:_MOST_SAID]
    return [f"rule {number} says: {schema.rules[number - 1].words}" for number in most]


def dialect_hint(fit: Fit, sources: Iterable[Source], schema: Schema) -> str | None:
    """What to add to a location, where cells that do not fit look like another dialect."""
    if not fit.misfits:
        return None
    kinds = columns_of(schema, None)
    found = ((source.name, remedy(source, kinds)) for source in sources)
    return "; ".join(f"{name}: {words}" for name, words in found if words) or None


def counted_said(checked: Checked) -> str:
    """How many rows were read and left out, for the steward's eyes."""
    line = f"{count(checked.rows_read, 'row')} read, {checked.rows_dropped:,} do not fit"
    if checked.rows_over:
        line += f", {checked.rows_over:,} are more than one unit may contribute"
    return f"{line}; these counts are exact: do not publish them"


def fit_lines(fit: Fit, schema: Schema, *, all_columns: bool = False) -> list[list[str]]:
    """By column: rows that do not fit by reason, and values that were clamped.

    Args:
        all_columns: with their types and sizes, also those of which there is nothing to say.
    """
    known = {column.name: column for column in schema.columns}
    names = [*known, *(name for name in fit.misfits if name not in known)]
    lines = []
    for name in names:
        said = [_why(fit, name), side(*fit.clamped.get(name, (0, 0))) or "-"]
        if all_columns and name in known:
            said = [known[name].kind, f"{known[name].size:,}" if known[name].size else "-", *said]
        elif all_columns:
            said = ["-", "-", *said]
        if all_columns or said != ["-", "-"]:
            lines.append([name, *said])
    return lines


def rule_lines(fit: Fit, schema: Schema) -> list[list[str]]:
    """The rules that rows break, and how many do."""
    return [
        [f"{number}: {schema.rules[number - 1].words}", f"{many:,}"]
        for number, many in fit.rules.items()
    ]


def fit_json(fit: Fit) -> dict[str, Any]:
    """The same for programs."""
    return {
        "rows_read": fit.rows_read,
        "rows_that_do_not_fit": fit.rows_dropped,
        "misfits": fit.misfits,
        "rules": {str(number): many for number, many in fit.rules.items()},
        "clamped": {
            name: {"below": below, "above": above} for name, (below, above) in fit.clamped.items()
        },
    }


def _why(fit: Fit, name: str) -> str:
    return ", ".join(f"{many:,} {why}" for why, many in fit.misfits.get(name, {}).items()) or "-"


def details(checked: Checked, schema: Schema) -> Iterator[str]:
    """Which rows do not fit or are clamped, the first few of every reason; never their values."""
    starts = [start for _, start in checked.starts]
    for (what, reason), rows in checked.places.items():
        if isinstance(what, int):
            said, many = f"rule {what} ({schema.rules[what - 1].words})", checked.rules[what]
        elif reason in (BELOW, ABOVE):
            said, many = f"column {what!r}", checked.clamped[what][(BELOW, ABOVE).index(reason)]
        else:
            said, many = f"column {what!r}", checked.misfits[what][reason]
        own: dict[str, list[int]] = {}
        for row in rows:
            source, start = checked.starts[bisect_right(starts, row - 1) - 1]
            own.setdefault(source, []).append(row - start)
        for source, numbers in own.items():
            first = ", ".join(f"{number:,}" for number in numbers)
            word = "row" if len(numbers) == 1 else "rows"
            yield plain(f"{source}: {said}, {reason} ({many:,} in all): {word} {first}")


def check_details(target: Path) -> None:
    """Refuse a file that is there and was not written by `write_details`, before rows are read.

    Raises:
        UsageError: if it is, or nothing can be written there.
    """
    check_place(target)
    try:
        own = not target.exists() or read_whole(target, _MOST_BYTES).startswith(_ROWS.encode())
    except OSError:
        own = False
    if not own:
        raise UsageError(f"{target} exists, and tells of no rows that do not fit; name a new file")


def write_details(target: Path, checked: Checked, schema: Schema) -> str:
    """Write them to a file that its owner alone can read, instead of what was there.

    Returns:
        What was done, for the owner.

    Raises:
        HeterofedsynError: if it cannot be written.
    """
    check_details(target)
    lines = list(details(checked, schema))
    if not lines:
        target.unlink(missing_ok=True)
        return f"all rows fit and no value is clamped: there is no {target}"
    with file_written_whole(target) as partial:
        partial.touch(0o600, exist_ok=False)
        partial.write_text("\n".join([_ROWS, *lines, ""]), "utf-8")
    return (
        f"the first rows that do not fit or are clamped are named in {target}: only you can read it"
    )
