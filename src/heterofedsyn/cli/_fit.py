"""How rows fit a schema, as its owner sees it: options, and tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from heterofedsyn.cli._show import show_table

if TYPE_CHECKING:
    from heterofedsyn.schema import Fit, Schema

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
    from heterofedsyn.site.misfits import fit_lines, rule_lines

    if lines := fit_lines(fit, schema, all_columns=all_columns):
        about = ["type", "values"] if all_columns else []
        show_table(title, ["column", *about, "rows that do not fit", "values clamped"], lines)
    if lines := rule_lines(fit, schema):
        show_table("Rules that rows break", ["rule", "rows"], lines)
