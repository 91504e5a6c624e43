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
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.report.blocks import Block, Halves, Points, Section, Table, Text, Warn
from heterofedsyn.report.chances import in_hundred, likely_right, most_right, odds
from heterofedsyn.report.privacy import SIMULATED, bound, strength, upwards
from heterofedsyn.report.purpose import purpose_of
from heterofedsyn.report.verdicts import Word, column_verdicts

EPSILONS = (0.1, 0.5, 1.0, 2.0, 5.0, 10.0)
"""What the epsilon of a release is compared with."""

STUDIES = (1, 2, 5, 10, 20)
"""How many studies like this one the same rows may be in."""


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
    every = [block for section in board_sections(release, agreed) for block in section.blocks]
    blocks = tuple(block for block in every if not isinstance(block, Warn))  # a report has its own
    return Section("board", "For ethics and data protection boards", blocks)


def board_sections(release: Release, agreed: Sequence[Agreed] = ()) -> tuple[Section, ...]:
    """The same as chapters of a page of its own."""
    statement = release.privacy
    warning = (Warn(SIMULATED),) if statement.simulated_noise else ()
    return (
        Section("short", "In short", (*warning, _short(release))),
        Section("chances", "What epsilon means", _chances(statement)),
        Section("learn", "Who can learn what", (_learners(release),)),
        Section("limits", "What is not covered", (_limits(statement),)),
        Section("consent", "Who agreed", _consents(release, agreed)),
    )


def _short(release: Release) -> Points:
    statement = release.privacy
    verdicts = column_verdicts(release)
    words = ", ".join(f"{sum(v.word is word for v in verdicts)} “{word}”" for word in Word)
    may = (
        "Nothing, if the people are real: the noise of this release can be undone."
        if statement.simulated_noise
        else "The whole release: the synthetic table, the model it is drawn from, the noise and "
        "price of every answer (privacy.json), how it was made (run.json), and its report. None "
        "of them holds a real row or an exact count."
    )
    return Points(
        (
            *purpose_of(release),
            ("May be published", may),
            (
                "Promise",
                f"{'None as it is; with noise that nobody can undo: ' * statement.simulated_noise}"
                f"Epsilon {statement.epsilon:g} for every {_unit(statement)}, a "
                f"{strength(statement.epsilon)} promise: of 1,000 guesses whether somebody is in "
                f"the data, the best attacker gets at most "
                f"{math.ceil(1000 * most_right(statement.rho))} right, a coin 500.",
            ),
            ("Worth", f"Of {count(len(verdicts), 'column')}, by themselves: {words}."),
        )
    )


def _chances(statement: PrivacyStatement) -> tuple[Block, ...]:
    unit = _unit(statement)
    most = most_right(statement.rho)
    text = Text(
        f"Somebody knows all data but those of one {unit}, and the odds are even whether that "
        f"{unit} was in. With everything published, the best guess is right with a chance of at "
        f"most {in_hundred(most)} instead of 50 %: {_odds(most)} to 1. That bound is rigorous (1/2 "
        f"+ sqrt(rho / 2) / 2 with rho = {statement.rho:.5g}); were the noise exactly Gaussian, "
        f"it would be about {100 * likely_right(statement.rho):.2f} %. Whoever believed something "
        f"else before moves their odds by a factor of at most {bound(statement.epsilon)}, except "
        f"with a chance of about delta = {statement.delta:g}."
    )
    compared = [(_rho(epsilon, statement), f"{epsilon:g}") for epsilon in EPSILONS]
    compared = [each for each in compared if each[1] != f"{statement.epsilon:g}"]
    compared.append((statement.rho, f"{statement.epsilon:g}, this study"))
    if statement.rho_alone > statement.rho:
        words = f"{upwards(_alone(statement))}, if more sites collude"
        compared.append((statement.rho_alone, words))
    rows = tuple((words, *_figures(rho)) for rho, words in sorted(compared))
    head = ("right, at most", "about", "odds, at most")
    several = tuple(
        (f"{number}", _in_all(statement, number), *_figures(_together(statement, number).rho))
        for number in STUDIES
    )
    return (
        text,
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


def _rho(epsilon: float, statement: PrivacyStatement) -> float:
    return Budget.of(epsilon=epsilon, delta=statement.delta, conversion=statement.conversion).rho


def _alone(statement: PrivacyStatement) -> float:
    return Budget(statement.rho_alone).epsilon(statement.delta, statement.conversion)


def _in_all(statement: PrivacyStatement, studies: int) -> str:
    if studies == 1:
        return f"{statement.epsilon:g}"
    whole = _together(statement, studies)
    return upwards(whole.epsilon(statement.delta, statement.conversion))


def _together(statement: PrivacyStatement, studies: int) -> Budget:
    return Budget(statement.rho).times(studies)


def _figures(rho: float) -> tuple[str, str, str]:
    most = most_right(rho)
    return in_hundred(most), f"{100 * likely_right(rho):.2f} %", f"{_odds(most)} to 1"


def _odds(chance: float) -> str:
    """Right guesses for each wrong one, never below the truth."""
    exact = odds(chance)
    if exact > 1e6:
        return "any"
    return f"{math.ceil(round(100 * exact, 6)) / 100:,.2f}"


def _unit(statement: PrivacyStatement) -> str:
    return "record" if statement.unit_column is None else "person"


def _learners(release: Release) -> Table:
    """What each party sees, and what that tells of one record at most."""
    statement, sites = release.privacy, release.run.sites
    promise = f"at most what epsilon {statement.epsilon:g} allows"
    reader = ("anyone who reads the release", "the release", promise)
    rows: tuple[tuple[str, str, str], ...]
    if sites == ("pooled",):
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
                f"at most what epsilon {upwards(_alone(statement))} allows",
            ),
            reader,
        )
    head = ("who", "sees", f"learns of one {_unit(statement)}")
    return Table("Whoever they are and whatever else they know", head, rows, words=3)


def _limits(statement: PrivacyStatement) -> Points:
    unit = _unit(statement)
    several = (
        "Somebody with rows at several sites, or with several rows, is protected less."
        if unit == "record"
        else f"Of each person {count(statement.rows_per_unit, 'row')} at one site count; somebody "
        "at several sites is protected less."
    )
    return Points(
        (
            ("Other studies", "Costs of all studies of the same rows add up (table above)."),
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
            upwards(each.epsilon) if each.epsilon > 0 else "0",
        )
        for each in agreed
    )
    head = ("site", "agreed by", "when", "signature", f"epsilon at delta {agreed[0].delta:g}")
    told: list[Block] = [Table("What receipts say", head, rows, words=4)]
    missing = [site for site in release.run.sites if site not in {each.site for each in agreed}]
    if missing:
        named = ", ".join(drawing.short(site, 40) for site in missing[:20])
        told.append(Text(f"No receipt was given of {count(len(missing), 'site')}: {named}."))
    return tuple(told)
