"""`heterofedsyn plan`: what a study would do, before anything is spent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from heterofedsyn._words import size
from heterofedsyn.cli._options import (
    AllowLargeDelta,
    Colluding,
    ConversionName,
    Delta,
    Epsilon,
    Measure,
    SchemaFile,
    Settings,
    SumQuorum,
    TrustModel,
    read_settings,
)
from heterofedsyn.cli._show import say, say_json, show_table

if TYPE_CHECKING:
    from heterofedsyn.hub.planning.forecast import Forecast, Stage

MOST_LINES = 40
"""Columns shown one by one; --json has all."""


def plan(
    schema: SchemaFile,
    rows: Annotated[int, typer.Option(help="Expected rows over all sites; a public guess.")],
    epsilon: Epsilon,
    delta: Delta,
    sites: Annotated[int, typer.Option(help="How many sites take part.")] = 5,
    trust: TrustModel = "local",
    colluding: Colluding = None,
    quorum: SumQuorum = None,
    conversion: ConversionName = "tight",
    method: Annotated[
        str, typer.Option(metavar="NAME", help="How to synthesize; see `simulate --help`.")
    ] = "wavetree",
    setting: Settings = None,
    measure: Measure = None,
    max_rows_per_unit: Annotated[
        int, typer.Option(help="Rows of one person that will count, if a person may have several.")
    ] = 1,
    allow_large_delta: AllowLargeDelta = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
) -> None:
    """Foretell noise, error and effort of a study; costs nothing.

    Reads the schema and nothing else: no data, no ledger. Noise is exact; errors are expected
    ones, from dry runs of the method on invented tables.
    """
    from heterofedsyn.hub import make_method
    from heterofedsyn.hub.planning.forecast import forecast
    from heterofedsyn.schema import Schema
    from heterofedsyn.simulate.drafting import draft_plan

    chosen = make_method(method, read_settings(setting, measure))
    public = Schema.load(schema)
    terms = draft_plan(
        public,
        chosen,
        epsilon=epsilon,
        delta=delta,
        sites=sites,
        trust=trust,
        colluding=colluding,
        quorum=quorum,
        conversion=conversion,
        rows_per_unit=max_rows_per_unit,
        allow_large_delta=allow_large_delta,
    )
    told = forecast(public, terms, chosen, rows)
    if as_json:
        say_json(_json(told))
    else:
        _show(told)


def _json(told: Forecast) -> dict[str, Any]:
    from dataclasses import asdict

    stages = [
        {**asdict(stage), "parts": [part.as_dict() for part in stage.parts]}
        for stage in told.stages
    ]
    return {**asdict(told), "stages": stages}


def _show(told: Forecast) -> None:
    from heterofedsyn._words import count
    from heterofedsyn.hub.planning.forecast_words import (
        BUDGET_HEAD,
        budget_lines,
        figure,
        mode_words,
        trust_words,
    )

    say(
        f"{count(told.rows, 'row')} over {count(told.sites, 'site')}, trust {trust_words(told)}, "
        f"epsilon {told.epsilon:g}, delta {told.delta:g} (rho {told.rho:.4g}); nothing is spent"
    )
    _show_stages(told.stages, told.rho)
    shown = told.columns[:MOST_LINES]
    show_table(
        "Columns: noise on the sum over sites, and what it leaves",
        ["column", "values", "measured", "sigma", "on a value", "rows/value", "groups", "1-way"],
        [
            [
                column.name,
                f"{column.values:,}",
                column.way,
                _between(*column.sum_sigma),
                f"{column.noise:,.0f}{' !' if column.enough is not None else ''}",
                f"{column.typical:,.0f}",
                figure(column.groups, ".1f"),
                figure(column.one_way, ".3f"),
            ]
            for column in shown
        ],
    )
    if len(shown) < len(told.columns):
        say(f"and {len(told.columns) - len(shown):,} more columns; --json has all")
    show_table("Other budgets: expected total variation", BUDGET_HEAD, budget_lines(told))
    _show_trusts(told)
    say(mode_words(told))
    say(f"errors are from {count(told.outlook.runs, 'dry run')} on invented tables")
    for remark in told.advice:
        say(f"advice: {remark}")


def _show_stages(stages: tuple[Stage, ...], rho: float) -> None:
    from heterofedsyn.hub.planning.forecast_words import figure

    show_table(
        "Noise: what each site would send and add",
        ["stage", "releases", "integers", "sigma, site", "sigma, sum", "rho", "sent"],
        [
            *(
                [
                    _label(stage),
                    figure(stage.releases, ","),
                    figure(stage.integers, ","),
                    _spread([part.terms.sigma for part in stage.parts]),
                    _spread([part.sum_sigma for part in stage.parts]),
                    f"{stage.rho:.3g}",
                    _size(stage.bytes),
                ]
                for stage in stages
            ),
            [
                "together",
                figure(_sum(stage.releases for stage in stages), ","),
                figure(_sum(stage.integers for stage in stages), ","),
                *("", ""),
                f"{rho:.3g}",
                _size(_sum(stage.bytes for stage in stages)),
            ],
        ],
    )
    show_table(
        "Effort: beside the rows, and beside reading them",
        ["stage", "time, site", "memory, site", "received, hub", "memory, hub"],
        [
            [
                _label(stage),
                _seconds(stage.effort.site_seconds),
                size(stage.effort.site_memory),
                size(stage.effort.received),
                size(stage.effort.hub_memory),
            ]
            for stage in stages
            if stage.effort is not None
        ],
    )


def _show_trusts(told: Forecast) -> None:
    from heterofedsyn.hub.planning.forecast_words import TRUST_HEAD, trust_lines

    if lines := trust_lines(told):
        show_table(
            "Trust models: noise of a sum (1 is that of one place), and epsilon if more collude",
            TRUST_HEAD,
            lines,
        )


def _label(stage: Stage) -> str:
    return stage.label if stage.fixed else f"{stage.label} (at most)"


def _spread(sigmas: list[float]) -> str:
    if not sigmas:
        return "-"
    return _between(min(sigmas), max(sigmas))


def _between(first: float, last: float) -> str:
    one, other = f"{first:,.1f}", f"{last:,.1f}"
    return one if one == other else f"{one} to {other}"


def _size(many: int | None) -> str:
    return "-" if many is None else size(many)


def _seconds(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < 600 else f"{seconds / 60:,.0f} min"


def _sum(figures: Iterable[int | None]) -> int | None:
    """The sum, unless nobody knows one of them."""
    known = list(figures)
    return None if None in known else sum(figure for figure in known if figure is not None)
