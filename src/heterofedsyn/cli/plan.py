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
from heterofedsyn.errors import UsageError

if TYPE_CHECKING:
    from heterofedsyn.hub.planning.forecast import Forecast, Outlook, Stage

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
    from heterofedsyn.hub.methods.base import check_trust, settings_of
    from heterofedsyn.hub.planning.forecast import forecast
    from heterofedsyn.privacy.budget import check_usual_delta
    from heterofedsyn.protocol import Plan
    from heterofedsyn.protocol.plan import Hiding
    from heterofedsyn.schema import Schema
    from heterofedsyn.simulate.run import site_names
    from heterofedsyn.simulate.split import MOST_SITES

    chosen = make_method(method, read_settings(setting, measure))
    if not 1 <= sites <= MOST_SITES:
        raise UsageError(f"sites ({sites}) must be in 1..{MOST_SITES}")
    hiding = Hiding(trust, colluding, quorum)
    check_trust(chosen, trust)
    public = Schema.load(schema)
    names = site_names(chosen, [f"site-{number}" for number in range(1, sites + 1)])
    terms = Plan(
        schema=public.fingerprint,
        encoding=chosen.encoding(public).fingerprint,
        epsilon=epsilon,
        delta=delta,
        conversion=conversion,
        trust=trust,
        sites=names,
        aggregation=hiding.aggregation(len(names)),
        unit="person" if max_rows_per_unit != 1 else None,
        rows_per_unit=max_rows_per_unit,
        method=method,
        settings=settings_of(chosen),
        seed=0,
    )
    check_usual_delta(delta, allow_large=allow_large_delta)
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

    say(
        f"{count(told.rows, 'row')} over {count(told.sites, 'site')}, trust {_trust(told)}, "
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
                _figure(column.groups, ".1f"),
                _figure(column.one_way, ".3f"),
            ]
            for column in shown
        ],
    )
    if len(shown) < len(told.columns):
        say(f"and {len(told.columns) - len(shown):,} more columns; --json has all")
    show_table(
        "Other budgets: expected total variation",
        ["epsilon", "mode", "pairs", "groups", "1-way", "2-way"],
        [_line(outlook, told.epsilon) for outlook in told.others],
    )
    _show_trusts(told)
    say(_mode(told))
    say(f"errors are from {count(told.outlook.runs, 'dry run')} on invented tables")
    for remark in told.advice:
        say(f"advice: {remark}")


def _show_stages(stages: tuple[Stage, ...], rho: float) -> None:
    show_table(
        "Noise: what each site would send and add",
        ["stage", "releases", "integers", "sigma, site", "sigma, sum", "rho", "sent"],
        [
            *(
                [
                    _label(stage),
                    _figure(stage.releases, ","),
                    _figure(stage.integers, ","),
                    _spread([part.terms.sigma for part in stage.parts]),
                    _spread([part.sum_sigma for part in stage.parts]),
                    f"{stage.rho:.3g}",
                    _size(stage.bytes),
                ]
                for stage in stages
            ),
            [
                "together",
                _figure(_sum(stage.releases for stage in stages), ","),
                _figure(_sum(stage.integers for stage in stages), ","),
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


def _trust(told: Forecast) -> str:
    if told.quorum is None:
        return told.trust
    return f"{told.trust} (sums over {told.quorum} or more, {told.colluding} may collude)"


def _show_trusts(told: Forecast) -> None:
    if len(told.trusts) < 2:
        return
    own = (told.trust, told.colluding, told.quorum)
    show_table(
        "Trust models: noise of a sum (1 is that of one place), and epsilon if more collude",
        ["trust", "may collude", "quorum", "noise", "1-way", "2-way", "epsilon alone"],
        [
            [
                f"{each.trust}{' <' if (each.trust, each.colluding, each.quorum) == own else ''}",
                "any" if each.colluding is None else f"{each.colluding:,}",
                "-" if each.quorum is None else f"{each.quorum:,}",
                f"{each.noise:.2f}",
                _figure(each.outlook.one_way, ".3f"),
                "refused" if each.outlook.mode == "refused" else _two_way(each.outlook),
                f"{each.epsilon_alone:.3g}",
            ]
            for each in told.trusts
        ],
    )


def _two_way(outlook: Outlook) -> str:
    return "-" if outlook.two_way is None else "{:.3f} to {:.3f}".format(*outlook.two_way)


def _line(outlook: Outlook, asked: float) -> list[str]:
    return [
        f"{outlook.epsilon:g}{' <' if outlook.epsilon == asked else ''}",
        outlook.mode or "-",
        f"{outlook.pairs:,}" if outlook.mode else f"{outlook.measured:,.0f}",
        _figure(outlook.groups, ".1f"),
        _figure(outlook.one_way, ".3f"),
        _two_way(outlook),
    ]


def _mode(told: Forecast) -> str:
    """What would be attempted, and why not more."""
    outlook = told.outlook
    if outlook.mode is None:
        return f"method {told.method}: {outlook.measured:.1f} pairs are measured on average"
    what = {
        "full": f"pairs of all kinds are measured, at most {outlook.pairs:,}",
        "star": f"only the {outlook.pairs:,} pairs with the label are measured",
        "independent": f"of pairs only those asked for are measured ({outlook.pairs:,})"
        if outlook.pairs
        else "only 1-ways are measured, and columns are drawn independently",
    }.get(outlook.mode, f"at most {outlook.pairs:,} pairs are measured")
    if len(told.columns) < 2 or (outlook.mode != "independent" and not outlook.pairs):
        return f"mode {outlook.mode}: there is no pair of columns that could depend on each other"
    likely = f" ({outlook.chances[outlook.mode]:.0%} likely)"
    if outlook.mode == "full":
        return f"mode full{likely}: {what}, on up to {outlook.resolution:.1f} groups per column"
    missing = [t for t in told.thresholds if t.groups < t.needed]
    why = "; ".join(
        f"for pairs {'of all kinds' if t.mode == 'full' else 'with the label'} {t.groups:.1f} "
        f"groups per column would stand out of the noise, and {t.needed:g} are needed"
        for t in missing
    )
    return f"mode {outlook.mode}{likely}: {what}{'; ' if why else ''}{why}"


def _label(stage: Stage) -> str:
    return stage.label if stage.fixed else f"{stage.label} (at most)"


def _spread(sigmas: list[float]) -> str:
    if not sigmas:
        return "-"
    return _between(min(sigmas), max(sigmas))


def _between(first: float, last: float) -> str:
    one, other = f"{first:,.1f}", f"{last:,.1f}"
    return one if one == other else f"{one} to {other}"


def _figure(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _size(many: int | None) -> str:
    return "-" if many is None else size(many)


def _seconds(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < 600 else f"{seconds / 60:,.0f} min"


def _sum(figures: Iterable[int | None]) -> int | None:
    """The sum, unless nobody knows one of them."""
    known = list(figures)
    return None if None in known else sum(figure for figure in known if figure is not None)
