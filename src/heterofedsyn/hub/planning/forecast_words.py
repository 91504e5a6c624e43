"""A forecast for people: other budgets, trust models and modes, in lines of tables and words."""

from __future__ import annotations

from heterofedsyn.hub.planning.forecast import Forecast, Outlook
from heterofedsyn.hub.planning.modes import ATTEMPTED
from heterofedsyn.hub.planning.trusts import REFUSED

BUDGET_HEAD = ["epsilon", "mode", "pairs", "groups", "1-way", "2-way"]
"""What stands above `budget_lines`."""

TRUST_HEAD = ["trust", "may collude", "quorum", "noise", "1-way", "2-way", "epsilon alone"]
"""What stands above `trust_lines`."""


def trust_words(told: Forecast) -> str:
    """The trust model that was asked for."""
    if told.quorum is None:
        return told.trust
    return f"{told.trust} (sums over {told.quorum} or more, {told.colluding} may collude)"


def budget_lines(told: Forecast) -> list[list[str]]:
    """Expected total variation with other budgets; the one that was asked for is marked."""
    return [budget_line(outlook, told.epsilon) for outlook in told.others]


def trust_lines(told: Forecast) -> list[list[str]]:
    """The same study under each trust model that is worth a look; none if there is one alone."""
    if len(told.trusts) < 2:
        return []
    own = (told.trust, told.colluding, told.quorum)
    return [
        [
            f"{each.trust}{' <' if (each.trust, each.colluding, each.quorum) == own else ''}",
            "any" if each.colluding is None else f"{each.colluding:,}",
            "-" if each.quorum is None else f"{each.quorum:,}",
            f"{each.noise:.2f}",
            figure(each.outlook.one_way, ".3f"),
            REFUSED if each.outlook.mode == REFUSED else two_way(each.outlook),
            f"{each.epsilon_alone:.3g}",
        ]
        for each in told.trusts
    ]


def two_way(outlook: Outlook) -> str:
    """Between what and what the error of a pair will lie."""
    return "-" if outlook.two_way is None else "{:.3f} to {:.3f}".format(*outlook.two_way)


def mode_words(told: Forecast) -> str:
    """What would be attempted, and why not more."""
    outlook = told.outlook
    if outlook.mode is None:
        return f"method {told.method}: {outlook.measured:.1f} pairs are measured on average"
    all_kinds = f"pairs of all kinds are measured, at most {outlook.pairs:,}"
    what = {
        "triples": f"{all_kinds}, and some of them together with the label",
        "full": all_kinds,
        "star": f"only the {outlook.pairs:,} pairs with the label are measured",
        "independent": f"of pairs only those asked for are measured ({outlook.pairs:,})"
        if outlook.pairs
        else "only 1-ways are measured, and columns are drawn independently",
    }.get(outlook.mode, f"at most {outlook.pairs:,} pairs are measured")
    if len(told.columns) < 2 or (outlook.mode != "independent" and not outlook.pairs):
        return f"mode {outlook.mode}: there is no pair of columns that could depend on each other"
    likely = f" ({outlook.chances[outlook.mode]:.0%} likely)"
    if outlook.mode in ("triples", "full"):
        return (
            f"mode {outlook.mode}{likely}: {what}; {outlook.resolution:.1f} groups per column "
            "would stand out of the noise"
        )
    missing = [t for t in told.thresholds if t.groups < t.needed]
    why = "; ".join(
        f"for {ATTEMPTED[t.mode]} {t.groups:.1f} groups per column would stand out of the noise, "
        f"and {t.needed:.3g} are needed"
        for t in missing
    )
    return f"mode {outlook.mode}{likely}: {what}{'; ' if why else ''}{why}"


def budget_line(outlook: Outlook, asked: float) -> list[str]:
    """What to expect of one budget; the one that was asked for is marked."""
    return [
        f"{outlook.epsilon:g}{' <' if outlook.epsilon == asked else ''}",
        outlook.mode or "-",
        f"{outlook.pairs:,}" if outlook.mode else f"{outlook.measured:,.0f}",
        figure(outlook.groups, ".1f"),
        figure(outlook.one_way, ".3f"),
        two_way(outlook),
    ]


def figure(value: float | None, form: str) -> str:
    """A number in this form, or a dash."""
    return "-" if value is None else format(value, form)
