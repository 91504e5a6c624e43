"""For ethics and data protection boards: what the guarantee means, for whom, and what it leaves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import UnsetType

from heterofedsyn import drawing
from heterofedsyn._words import count
from heterofedsyn.hub.release import Release
from heterofedsyn.hub.release.statement import PrivacyStatement
from heterofedsyn.privacy.budget import Budget, large_delta
from heterofedsyn.report.blocks import Block, Halves, Heading, Points, Section, Table, Text, Warn
from heterofedsyn.report.chances import (
    formula_of,
    in_hundred,
    in_thousand,
    likely_right,
    most_right,
    odds_text,
)
from heterofedsyn.report.privacy import SIMULATED, alone_epsilon, bound, strength, upwards
from heterofedsyn.report.purpose import purpose_of
from heterofedsyn.report.verdicts import Word, careful, column_verdicts

EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
"""What the epsilon of a release is compared with."""

STUDIES = (1, 2, 5, 10, 20)
"""How many studies like this one the same rows may be in."""

MOST_NAMED = 12
"""Columns not to be used alone that are named."""


@dataclass(frozen=True)
class Agreed:
    """What a receipt says: who agreed to the study at a site, when, and what it was charged.

    Attributes:
        vouched: whether its signature is by a key that somebody vouches for.
    """

    site: str
    by: str
    when: str
    epsilon: float
    delta: float
    vouched: bool


def board_section(release: Release, agreed: Sequence[Agreed] = ()) -> Section:
    """Everything a board asks, as one chapter of a report."""
    every = [
        block
        for section in board_sections(release, agreed)
        for block in (Heading(section.title), *section.blocks)
    ]
    blocks = tuple(block for block in every if not isinstance(block, Warn))  # a report has its own
    return Section("board", "For ethics and data protection boards", blocks)


def board_sections(release: Release, agreed: Sequence[Agreed] = ()) -> tuple[Section, ...]:
    """The same as chapters of a page of its own."""
    statement = release.privacy
    warning = (Warn(SIMULATED),) if statement.simulated_noise else ()
    return (
        Section("short", "In short", (*warning, _short(release))),
        Section("chances", "What epsilon means", _chances(release)),
        Section("learn", "Who can learn what", (_learners(release),)),
        Section("limits", "What is not covered", (_limits(statement),)),
        Section("consent", "Who agreed", _consents(release, agreed)),
    )


def _short(release: Release) -> Points:
    statement = release.privacy
    verdicts = column_verdicts(release)
    words = ", ".join(f"{sum(v.word is word for v in verdicts)} “{word}”" for word in Word)
    points = [*purpose_of(release)]
    if statement.simulated_noise:
        points += [
            ("May be published", "Nothing, if the people are real: its noise can be undone."),
            ("Promise", "None."),
        ]
    else:
        points += [
            (
                "May be published",
                "The whole release: the synthetic table, the model it is drawn from, the noise and "
                "price of every answer (privacy.json), how it was made (run.json), and its report. "
                "None of them holds a real row or an exact count.",
            ),
            (
                "Promise",
                f"Epsilon {statement.epsilon:g} for every {statement.whom}, a "
                f"{strength(statement.epsilon)} promise: whether one {statement.whom} is in the "
                f"data, the best attacker guesses right {in_thousand(most_right(statement.rho))}.",
            ),
        ]
    large = large_delta(statement.delta, release.run.noisy_total)
    points += [("Warning", f"{remark.capitalize()}.") for remark in large]
    points += [
        ("Worth", f"Of {count(len(verdicts), 'column')}, by themselves: {words}."),
        ("Be careful with", careful(verdicts)),
    ]
    alone = [verdict.name for verdict in verdicts if verdict.word is Word.NOT_ALONE]
    if alone:
        named = ", ".join(drawing.short(name, 40) for name in alone[:MOST_NAMED])
        more = len(alone) - MOST_NAMED
        points.append(("Do not use alone", f"{named}{f' and {more:,} more' if more > 0 else ''}."))
    return Points(tuple(points))


def _chances(release: Release) -> tuple[Block, ...]:
    statement = release.privacy
    head = ("right, at most", "about", "odds, at most")
    compared = [(_rho(epsilon, statement), f"{epsilon:g}") for epsilon in EPSILONS]
    if statement.simulated_noise:
        rows = tuple((words, *_figures(rho)) for rho, words in compared)
        return (
            Text(
                "Of this release it means nothing: its noise can be undone, and with it an "
                "attacker is always right. With noise that nobody can undo, an epsilon bounds the "
                "chance of the best attacker to tell whether somebody is in the data:"
            ),
            Table("What epsilons mean elsewhere", ("epsilon", *head), rows),
        )
    compared = [each for each in compared if each[1] != f"{statement.epsilon:g}"]
    compared.append((statement.rho, f"{statement.epsilon:g}, this study"))
    if statement.rho_alone > statement.rho:
        words = f"{upwards(alone_epsilon(statement))}, if more sites collude"
        compared.append((statement.rho_alone, words))
    rows = tuple((words, *_figures(rho)) for rho, words in sorted(compared))
    several = tuple(
        (f"{number}", _in_all(statement, number), *_figures(_together(statement, number).rho))
        for number in STUDIES
    )
    return (
        Text(_meaning(release)),
        Halves(
            (
                Table("Other epsilons at the same delta", ("epsilon", *head), rows),
                Table(
                    "After several such studies of the same rows",
                    ("studies", "epsilon", *head),
                    several,
                ),
            )
        ),
    )


def _meaning(release: Release) -> str:
    """The guarantee as the chance of an attacker."""
    statement = release.privacy
    unit, most = statement.whom, most_right(statement.rho)
    (other,) = {formula_of(0.0), formula_of(math.inf)} - {formula_of(statement.rho)}
    return (
        f"Somebody knows all data but those of one {unit}, and the odds are even whether that "
        f"{unit} was in. With everything published, the best guess is right with a chance of at "
        f"most {in_hundred(most)} instead of 50 % (odds {odds_text(most)}). That bound is rigorous "
        f"({formula_of(statement.rho)} with rho = {statement.rho:.5g}; in the tables too, or "
        f"{other} where that is smaller); were the noise exactly Gaussian, it would be about "
        f"{100 * likely_right(statement.rho):.2f} %. Whoever believed something else before moves "
        f"their odds by a factor of at most {bound(statement.epsilon)}, except with a chance "
        f"of about delta = {statement.delta:g}; one in the (noisy) number of rows is "
        f"{1 / release.run.noisy_total:.2g}."
    )


def _rho(epsilon: float, statement: PrivacyStatement) -> float:
    return Budget.of(epsilon=epsilon, delta=statement.delta, conversion=statement.conversion).rho


def _in_all(statement: PrivacyStatement, studies: int) -> str:
    if studies == 1:
        return f"{statement.epsilon:g}"
    whole = _together(statement, studies)
    return upwards(whole.epsilon(statement.delta, statement.conversion))


def _together(statement: PrivacyStatement, studies: int) -> Budget:
    return Budget(statement.rho).times(studies)


def _figures(rho: float) -> tuple[str, str, str]:
    most = most_right(rho)
    return in_hundred(most), f"{100 * likely_right(rho):.2f} %", odds_text(most)


def _learners(release: Release) -> Table:
    """What each party sees, and what that tells of one record at most."""
    statement = release.privacy
    promise = _at_most(statement, f"{statement.epsilon:g}")
    reader = ("anyone who reads the release", "the release", promise)
    rows: tuple[tuple[str, str, str], ...]
    if release.run.pooled:
        rows = (
            ("who holds the pool of rows", "all rows", "everything: the pool is where they are"),
            reader,
        )
    elif isinstance(statement.colluding, UnsetType) or isinstance(statement.quorum, UnsetType):
        rows = (
            ("the site that holds the rows", "its own rows", "everything of its own rows"),
            ("the hub", "noisy answers of every site", promise),
            ("other sites, with the hub in league", "all noisy answers", promise),
            reader,
        )
    else:
        few = count(statement.colluding, "site")
        rows = (
            ("the site that holds the rows", "its own rows", "everything of its own rows"),
            ("the hub", f"sums over at least {statement.quorum} sites", promise),
            (f"the hub and {few} in league", "sums, and what these sites know", promise),
            (
                "the hub and more sites in league",
                "noisy answers of single sites",
                _at_most(statement, upwards(alone_epsilon(statement))),
            ),
            reader,
        )
    head = ("who", "sees", f"learns of one {statement.whom}")
    return Table("Whoever they are and whatever else they know", head, rows, words=3)


def _at_most(statement: PrivacyStatement, epsilon: str) -> str:
    if statement.simulated_noise:
        return "everything, with the seed of the noise"
    return f"at most what epsilon {epsilon} allows"


def _limits(statement: PrivacyStatement) -> Points:
    unit = statement.whom
    several = (
        "Somebody with rows at several sites, or with several rows, is protected less."
        if unit == "record"
        else f"Of each person {count(statement.rows_per_unit, 'row')} at one site count; somebody "
        "at several sites is protected less."
    )
    return Points(
        (
            ("Other studies", "Costs of all studies of the same rows add up."),
            ("Many rows", several),
            (
                "Groups",
                "What is true of many people is shown, and may be used against them: that smokers "
                "cough is no secret of any one smoker.",
            ),
            (
                "Before and around",
                "Who may see the rows at a site, whether they are right, whether column names and "
                "ranges were chosen without looking at them, how long answers took, and who broke "
                "into a computer.",
            ),
            ("Accuracy", "Noise makes figures wrong by known amounts, which the report tells."),
        )
    )


def _consents(release: Release, agreed: Sequence[Agreed]) -> tuple[Block, ...]:
    if not agreed:
        return (
            Text(
                "No receipts were given for this page. A site’s receipt says who agreed to the "
                "study, when, and what was charged; heterofedsyn report --receipt FILE shows it "
                "here."
            ),
        )
    rows = tuple(
        (
            drawing.short(each.site, 40),
            drawing.short(each.by, 60),
            drawing.short(each.when, 30),
            "verified" if each.vouched else "not verified: nobody vouches for its key",
            f"{upwards(each.epsilon) if each.epsilon > 0 else '0'}, {each.delta:g}",
        )
        for each in agreed
    )
    head = ("site", "agreed by", "when", "signature", "epsilon, delta")
    told: list[Block] = [Table("What receipts say", head, rows, words=4)]
    missing = [site for site in release.run.sites if site not in {each.site for each in agreed}]
    if missing:
        named = ", ".join(drawing.short(site, 40) for site in missing[:20])
        told.append(Text(f"No receipt was given of {count(len(missing), 'site')}: {named}."))
    return tuple(told)
