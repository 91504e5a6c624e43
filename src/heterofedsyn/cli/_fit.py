"""How rows fit a schema, as its owner sees it: options, tables and JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from heterofedsyn.cli._show import show_table

if TYPE_CHECKING:
    from heterofedsyn.schema import Fit, Schema

MOST_MISFIT = 0.05
MOST_CLAMPED = 0.2

MostMisfit = Annotated[
    float,
    typer.Option(metavar="SHARE", help="Share of rows that may not fit before this fails."),
]
MostClamped = Annotated[
    float,
    typer.Option(
        metavar="SHARE",
        help="Share of a column's values that may lie outside of its range before this fails.",
    ),
]


def show_fit(fit: Fit, schema: Schema, title: str, *, all_columns: bool) -> None:
    """Rows that do not fit by column and reason, values that were clamped, and broken rules.

    Args:
        all_columns: with their types and sizes, also those of which there is nothing to say.
    """
    known = {column.name: column for column in schema.columns}
    names = [*known, *(name for name in fit.misfits if name not in known)]
    lines = []
    for name in names:
        said = [_why(fit, name), _clamped(fit, name)]
        if all_columns and name in known:
            said = [known[name].kind, f"{known[name].size:,}" if known[name].size else "-", *said]
        elif all_columns:
            said = ["-", "-", *said]
        if all_columns or said != ["-", "-"]:
            lines.append([name, *said])
    if lines:
        about = ["type", "values"] if all_columns else []
        show_table(title, ["column", *about, "rows that do not fit", "values clamped"], lines)
    if fit.rules:
        show_table(
            "Rules that rows break",
            ["rule", "rows"],
            [
                [f"{number}: {schema.rules[number - 1].words}", f"{many:,}"]
                for number, many in fit.rules.items()
            ],
        )


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


def _clamped(fit: Fit, name: str) -> str:
    from heterofedsyn.site.misfits import side

    return side(*fit.clamped.get(name, (0, 0))) or "-"
