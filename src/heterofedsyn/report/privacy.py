"""The guarantee in plain words, and where the budget went."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

from msgspec import UnsetType

from heterofedsyn import drawing
from heterofedsyn._words import count, percent
from heterofedsyn.hub.release import Release
from heterofedsyn.hub.release.statement import PrivacyStatement, SiteAccount
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.report.blocks import (
    Block,
    Facts,
    Picture,
    Section,
    Table,
    Text,
    Warn,
)

MOST_BARS = 8
"""Sites that are drawn one by one, if all were charged alike."""

MOST_SITES = 40
"""Sites that are drawn one by one at most."""

MOST_STAGES = 11
"""Stages that are told apart."""

STRONG, MODERATE = 1.0, 3.0
"""Epsilons up to which a promise is called so."""

SIMULATED = (
    "Simulated noise: this release was made with a noise seed, for research. Anyone with the seed, "
    "which is in run.json, can undo the noise, so nothing is promised to anybody. Do not publish "
    "such a release if its records are of real people."
)


def privacy_section(release: Release) -> Section:
    """What is promised to whom."""
    statement = release.privacy
    column = statement.unit_column
    unit = "record" if column is None else f"person (column {drawing.short(column, 60)})"
    blocks: list[Block] = [Warn(SIMULATED)] if statement.simulated_noise else []
    blocks += [
        *([Text(_NOTHING)] if statement.simulated_noise else _promised(release, unit)),
        Facts(
            (
                ("Epsilon", f"{statement.epsilon:g}"),
                ("Delta", f"{statement.delta:g}"),
                ("Protected unit", unit),
                ("Rows of a unit that count", f"{statement.rows_per_unit:,}"),
                ("Neighbouring tables", statement.neighbours.replace("-", " ")),
                ("Budget inside (rho, zero-concentrated)", f"{statement.rho:.5g}"),
                ("Rho if one site's answers are seen alone", f"{statement.rho_alone:.5g}"),
                ("From rho to epsilon and delta", statement.conversion),
                ("Trust model", statement.trust),
                *_hidden(statement),
                (
                    "Noise",
                    "simulated, from a seed"
                    if statement.simulated_noise
                    else "discrete Gaussian, from the operating system's randomness",
                ),
            )
        ),
    ]
    blocks += _contributors(statement)
    return Section("privacy", "What is promised", tuple(blocks))


_NOTHING = (
    "Nothing: with the seed, everything that the noise hides can be computed. The figures say how "
    "much noise there is, and what it would promise if nobody could undo it."
)


def _promised(release: Release, unit: str) -> list[Block]:
    statement = release.privacy
    return [
        Text(_promise(statement, unit)),
        Text(_factor(statement)),
        Text(_trust(statement, len(release.run.sites))),
        Text(
            "What the promise does not cover: other studies of the same rows (their budgets add "
            "up), people with rows at several sites (j sites cost them up to j times rho, under "
            "secure aggregation j^2 times), and what is true of many people at once. If smokers "
            "cough, a release shows it: that is what statistics are for."
        ),
    ]


def _hidden(statement: PrivacyStatement) -> list[tuple[str, str]]:
    """What is to be known of how answers were hidden in sums, where they were."""
    if isinstance(statement.colluding, UnsetType) or isinstance(statement.quorum, UnsetType):
        return []
    return [
        ("Sites that may collude", f"{statement.colluding:,}"),
        ("Sites in every sum, at least", f"{statement.quorum:,}"),
        ("Epsilon if more sites collude", upwards(alone_epsilon(statement))),
    ]


def _contributors(statement: PrivacyStatement) -> list[Block]:
    """Whose answers are in which sum."""
    if isinstance(statement.sums, UnsetType):
        return []
    names = tuple(account.site for account in statement.sites)
    fewer = [each for each in statement.sums if each.sites != names]
    if not fewer:
        return [Text(f"All {count(len(names), 'site')} are in every sum.")]
    rows = tuple(
        (
            drawing.short(each.label, 60),
            f"{len(each.sites):,} of {len(names):,}",
            ", ".join(name for name in names if name not in each.sites),
        )
        for each in fewer[:MOST_SITES]
    )
    told: list[Block] = [
        Table("Sums without some site", ("query", "sites", "without"), rows, words=1)
    ]
    if len(fewer) > len(rows):
        told.append(Text(f"{len(fewer) - len(rows):,} more sums are in privacy.json."))
    return told


def alone_epsilon(statement: PrivacyStatement) -> float:
    """Epsilon if somebody sees the answers of one site by themselves."""
    return Budget(statement.rho_alone).epsilon(statement.delta, statement.conversion)


def upwards(epsilon: float) -> str:
    """An epsilon with three digits, never below the truth.

    >>> upwards(1.0), upwards(2.0001), upwards(123.4), upwards(0.012345)
    ('1', '2.01', '124', '0.0124')
    """
    digits = 2 - math.floor(math.log10(epsilon))
    exact = Fraction(epsilon) * Fraction(10) ** digits
    return f"{float(math.ceil(exact) / Fraction(10) ** digits):.6g}"


def _promise(statement: PrivacyStatement, unit: str) -> str:
    return (
        f"Whether or not the data of one {unit} were used, every possible release would have come "
        "out with almost the same chance. So nobody can tell with confidence from these files "
        f"whether a {unit.partition(' ')[0]} was in the tables or what it said, whatever else they "
        "know and however much they compute. The files of this release, report.html among them, "
        "are made from noisy answers alone."
    )


def _factor(statement: PrivacyStatement) -> str:
    return (
        f"“Almost” is epsilon = {statement.epsilon:g}: the odds of any guess change by a factor of "
        f"at most {bound(statement.epsilon)}, except with a chance of about "
        f"delta = {statement.delta:g}. That is a {strength(statement.epsilon)} promise"
        f"{': such odds tell a lot' if statement.epsilon > MODERATE else ''}."
    )


def strength(epsilon: float) -> str:
    """What to call a promise.

    >>> strength(1.0), strength(2.0), strength(5.0)
    ('strong', 'moderate', 'weak')
    """
    return "strong" if epsilon <= STRONG else "moderate" if epsilon <= MODERATE else "weak"


def bound(epsilon: float) -> str:
    """The factor e^epsilon, never below the truth, with two digits of what it adds to 1.

    >>> bound(1.0), bound(0.01), bound(5.0), bound(100.0)
    ('2.72', '1.011', '149', '2.7e+43')
    """
    gain = math.expm1(epsilon)
    if gain >= 1e6:
        power = math.floor(math.log10(gain))
        return f"{math.ceil(math.exp(epsilon - (power - 1) * math.log(10))) / 10:.1f}e+{power}"
    digits = 0 if gain >= 100 else 1 if gain >= 10 else max(2, 1 - math.floor(math.log10(gain)))
    rounded = 10**digits + math.ceil(Fraction(gain) * 10**digits)
    return f"{Decimal(rounded).scaleb(-digits):,f}"


def _trust(statement: PrivacyStatement, sites: int) -> str:
    colluding, quorum = statement.colluding, statement.quorum
    if not isinstance(colluding, UnsetType) and not isinstance(quorum, UnsetType):
        changing = (
            " Sums over different sites can be compared: where a site missed some of them, its "
            "noisy size may be seen."
        )
        return (
            f"Trust model secure-aggregation: nobody sees more of the answers than sums over at "
            f"least {quorum} of {sites} sites, though the hub may lie and "
            f"{count(colluding, 'site')} may tell it all they know; the noise of the others, at "
            f"least {count(quorum - colluding, 'site')} in every sum, keeps the promise above. It "
            "rests on cryptography that nobody is known to break. If more sites collude, or keys "
            "leak, the answers of one site alone still keep the promise with epsilon = "
            f"{upwards(alone_epsilon(statement))} instead of {statement.epsilon:g}. Who takes "
            "part is not hidden, and in a simulation all sites are in one place."
            f"{changing if quorum < sites else ''}"
        )
    if sites == 1:
        return (
            "Trust model local, with one holder of all rows: the promise holds against everyone "
            "who sees its answers."
        )
    return (
        "Trust model local: the answers of each site carry noise of their own, enough to protect "
        "its records, so the promise holds even against a hub and other sites that see every "
        "answer. It says nothing of who holds the rows: in a simulation all sites are in one place."
    )


def budget_section(release: Release) -> Section:
    """Each site's budget by stage."""
    statement = release.privacy
    accounts = statement.sites
    stage_of = _stages(accounts)
    stages = tuple(dict.fromkeys(stage_of.values()))
    spent = [_by_stage(account, stage_of, stages) for account in accounts]
    alike = all(row == spent[0] for row in spent)
    if alike and len(accounts) > MOST_BARS:
        names, bars = [f"each of {len(accounts)} sites"], spent[:1]
    else:
        names, bars = [a.site for a in accounts[:MOST_SITES]], spent[:MOST_SITES]
    total = statement.rho
    svg = _draw(names, bars, stages, total)
    head = ("site", "stage", "releases", "integers", "noise (sigma)", "rho", "of budget")
    rows = [
        row
        for a in (accounts[:1] if alike else accounts[:MOST_SITES])
        for row in _lines(
            a, stage_of, total, "every site" if alike and len(accounts) > 1 else a.site
        )
    ]
    left_out = len(accounts) - len(names)
    notes: list[Block] = []
    if len(names) > 1 and left_out > 0:
        notes.append(Text(f"{left_out:,} more sites are in privacy.json."))
    caption = (
        "A bar is what one site was charged, cut into stages; the whole width is the budget of the "
        "study. Later stages depend on earlier answers, which were paid for already."
    )
    numbers = Table("The budget by stage", head, tuple(rows), words=2)
    picture = Picture("fig-budget", "Budget by stage and site", svg, caption, numbers)
    explained = Text(
        "Every answer of a site costs part of its budget: the more accurate, the dearer. Stages: "
        + "; ".join(
            f"{drawing.short(stage, 60)}, {_MEANINGS.get(stage, 'asked by the method')}"
            for stage in stages
        )
        + ". What is left of the budget is not used."
    )
    return Section("budget", "Where the budget went", (explained, picture, *notes))


_MEANINGS = {
    "total": "the number of rows",
    "one-way": "counts of single columns",
    "scores": "which pairs of columns depend on each other, on a coarse grid",
    "dependence": "which pairs of columns depend on each other",
    "pairs": "counts of pairs of columns",
    "triple-scores": "which pairs depend on each other given the label, on a coarse grid",
    "triples": "counts of three columns together, and of single columns and pairs again",
}


def _stages(accounts: Sequence[SiteAccount]) -> dict[str, str]:
    """The stage of every label: rounds of one kind together, and what comes late as one."""
    labels = dict.fromkeys(charge.label for account in accounts for charge in account.charges)
    stages = {label: re.sub(r"[-_ ]?\d+$", "", label) or label for label in labels}
    kept = {*[*dict.fromkeys(stages.values())][:MOST_STAGES]}
    return {label: stage if stage in kept else "others" for label, stage in stages.items()}


def _by_stage(
    account: SiteAccount, stage_of: Mapping[str, str], stages: Sequence[str]
) -> list[float]:
    return [
        math.fsum(c.rho for c in account.charges if stage_of[c.label] == stage) for stage in stages
    ]


def _lines(
    account: SiteAccount, stage_of: Mapping[str, str], total: float, who: str
) -> list[tuple[str, ...]]:
    lines: list[tuple[str, ...]] = []
    stages = tuple(dict.fromkeys(stage_of.values()))
    for stage, rho in zip(stages, _by_stage(account, stage_of, stages), strict=True):
        parts = [p for c in account.charges if stage_of[c.label] == stage for p in c.parts]
        if not parts:
            continue
        low, high = min(p.sigma for p in parts), max(p.sigma for p in parts)
        noise = f"{low:,.1f}" if high - low < 0.05 else f"{low:,.1f} to {high:,.1f}"
        integers = sum(p.integers for p in parts)
        lines.append(
            (
                who,
                stage,
                f"{len(parts):,}",
                f"{integers:,}",
                noise,
                f"{rho:.4g}",
                percent(rho / total),
            )
        )
    return lines


def _draw(
    names: Sequence[str], bars: Sequence[Sequence[float]], stages: Sequence[str], total: float
) -> str:
    from matplotlib.ticker import PercentFormatter

    height = 62 + 26 * len(names)
    with drawing.figure(640, height) as figure:
        axes = figure.add_subplot()
        labels = [drawing.short(name) for name in names]
        start = [0.0] * len(names)
        for place, stage in enumerate(stages):
            widths = [bar[place] / total for bar in bars]
            axes.barh(
                range(len(names)),
                widths,
                left=start,
                height=0.66,
                color=drawing.SERIES[place % len(drawing.SERIES)],
                edgecolor=drawing.PAPER,
                linewidth=1.5,
                label=drawing.short(stage),
            )
            for row, (left, width) in enumerate(zip(start, widths, strict=True)):
                if width > 0.09:
                    axes.text(
                        left + width / 2,
                        row,
                        percent(width),
                        ha="center",
                        va="center",
                        color=drawing.PAPER,
                    )
            start = [left + width for left, width in zip(start, widths, strict=True)]
        axes.set_yticks(range(len(names)), labels)
        axes.set_xlim(0, 1)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        figure.legend(loc="outside upper left", ncols=min(6, len(stages)), handlelength=1)
        what = "; ".join(
            f"{drawing.short(stage)} {percent(part / total)}"
            for stage, part in zip(stages, bars[0], strict=True)
        )
        return drawing.svg(
            figure,
            "fig-budget",
            "Budget by stage and site",
            f"Stacked bars, one per site. The first, {names[0]}: {what}.",
        )
