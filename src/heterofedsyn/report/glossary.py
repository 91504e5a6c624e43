"""The words of a report and what they mean, for people who have not met them before."""

from __future__ import annotations

from dataclasses import dataclass

from heterofedsyn._words import percent
from heterofedsyn.report.blocks import Glossary, Section
from heterofedsyn.report.verdicts import MOST_GOOD, MOST_IN_PAIR, MOST_OF_SPREAD, MOST_ROUGH, Word


@dataclass(frozen=True)
class Term:
    """A word, how else it is written, and what it means.

    Attributes:
        meaning: with {whom} for whom the guarantee protects.
        board: whether the board's page explains it too.
    """

    word: str
    meaning: str
    others: tuple[str, ...] = ()
    board: bool = False

    @property
    def name(self) -> str:
        """What a link to it says."""
        return "term-" + self.word.partition(",")[0].replace(" ", "-")


TERMS = (
    Term(
        "epsilon",
        "How much one {whom} may change what is published: at most by a factor of "
        "e^epsilon (2.7 for 1) in the chance of any outcome. Smaller is safer and "
        "noisier. 1 or less is strong, above 3 is weak.",
        board=True,
    ),
    Term(
        "delta",
        "About the chance that the promise of epsilon is exceeded. It has to be far below one in "
        "the number of rows: a larger one would allow publishing somebody's record outright.",
        board=True,
    ),
    Term(
        "rho",
        "The same budget in the unit in which costs of several answers add up (zero-concentrated "
        "differential privacy); epsilon follows from rho and delta.",
        board=True,
    ),
    Term(
        "budget",
        "What all answers about one {whom} may cost together. Each answer is paid for from "
        "it, the more accurate the dearer, and when it is spent no more is answered.",
        board=True,
    ),
    Term(
        "noise",
        "Random whole numbers that a site adds to every count before anybody else sees it. They "
        "hide single people; how large they are is published, so errors are known.",
        board=True,
    ),
    Term(
        "standard error",
        "How far noise typically moves a figure. Two in three figures are within one of the truth, "
        "19 in 20 within two.",
        others=("standard errors",),
    ),
    Term(
        "total variation",
        "How different two distributions are: the share of rows that would have to move to make "
        "them equal. 0 is equal, 1 is disjoint; also called TVD.",
        others=("TVD",),
    ),
    Term(
        "marginal",
        "A table of counts: of each value of one column, or of each combination of two.",
        others=("marginals",),
    ),
    Term(
        "measured",
        "A pair of columns is measured if sites were asked how often its values occur together. "
        "The synthetic rows keep that, up to noise; of other pairs they keep what follows from it.",
    ),
    Term(
        "synthetic",
        "Made by a program. The rows look like the real ones in the statistics that were measured, "
        "but none of them is anybody's.",
        board=True,
    ),
    Term(
        "site",
        "Who holds rows of its own, such as a hospital, and answers by itself; in a simulation, a "
        "part of one table.",
        others=("sites",),
        board=True,
    ),
    Term(
        "hub",
        "Who asks the sites, adds up their answers and makes the table; it holds no rows.",
        board=True,
    ),
    Term(
        "trust model",
        "Against whom the promise holds. Local: every site's own noise protects its people even "
        "from the hub. Secure aggregation: the hub sees sums of several sites only, and their "
        "noise protects together.",
        board=True,
    ),
    Term(
        "good, rough, do not use alone",
        f"A verdict on a column from its noise alone. {Word.GOOD.capitalize()}: noise is expected "
        f"to put at most {percent(MOST_GOOD)} of rows into the wrong bar, and no more than a tenth "
        "of the rows outside the most frequent bar "
        f"({percent(MOST_OF_SPREAD)}). {Word.ROUGH.capitalize()}: at most {percent(MOST_ROUGH)}. "
        f"{Word.NOT_ALONE.capitalize()}: more; such a column is there to be drawn with the others, "
        "not to be quoted. A pair can be trusted if noise puts at most "
        f"{percent(MOST_IN_PAIR)} of rows into the wrong cell of the table it was measured on.",
        others=("verdict", "verdicts"),
    ),
)


def glossary_section(whom: str, *, board: bool = False) -> Section:
    """All words, or those that a board meets; of a guarantee for every record or person."""
    items = tuple(
        (term.name, term.word, term.meaning.replace("{whom}", whom))
        for term in TERMS
        if term.board or not board
    )
    return Section("glossary", "What the words mean", (Glossary(items),))
