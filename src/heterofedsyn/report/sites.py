"""How sites differ, from noisy answers only."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from heterofedsyn import drawing
from heterofedsyn.hub.release import Release
from heterofedsyn.hub.release.differences import AttributeDifference, SiteSummary
from heterofedsyn.report.blocks import Block, Picture, Section, Table, Text
from heterofedsyn.report.heat import MOST_NAMES, heat_map

TITLE = "How sites differ"
MATTERS = 0.1
"""Distance from which a difference is marked: as if 7 in 100 rows had another value."""

MOST_NAMED = 3
"""Differences of each site that are named."""

CHANCE = 0.05
"""Chance of any mark at all where all rows come from one population."""


def site_section(release: Release) -> Section:
    """Each site beside all others together."""
    differences = release.run.differences
    if not differences:
        return Section("sites", TITLE, (Text(_why_not(release)),))
    sizes = np.array([[d.distance for d in site.attributes] for site in differences]).T
    clear = marked(differences) & (sizes >= MATTERS)
    blocks: list[Block] = [
        Text(
            "Each site is compared with all other sites together, column by column, from the noisy "
            "answers that everyone may see under trust local; this cost no further budget. A "
            "distance of 0 means alike, and the largest possible is 1.41 (two sites with one value "
            f"each, another one); {MATTERS:g} is as if 7 in 100 rows had another value. What "
            "chance adds on average was taken off: the noise, and the luck of which rows a site "
            "happens to hold."
        ),
        _totals(differences, clear),
    ]
    if len(sizes):
        blocks.append(_picture(differences[:MOST_NAMES], clear))
    if len(differences) > MOST_NAMES:
        blocks.append(Text(f"The first {MOST_NAMES} of {len(differences)} sites are drawn."))
    return Section("sites", TITLE, tuple(blocks))


def _totals(differences: Sequence[SiteSummary], clear: NDArray[np.bool_]) -> Table:
    return Table(
        "Rows of each site (noisy)",
        ("site", "differs most in (distance)", "rows", "± 2 standard errors", "marked"),
        tuple(
            (
                site.site,
                _most_different(site),
                f"{site.total:,}",
                f"{2 * site.total_error:,.0f}",
                f"{int(own.sum())} of {len(site.attributes)}",
            )
            for site, own in zip(differences, clear.T, strict=True)
        ),
        words=2,
        longest=200,
    )


def _picture(shown: Sequence[SiteSummary], clear: NDArray[np.bool_]) -> Picture:
    """The columns that differ most, by site.

    Args:
        clear: which differences are marked, of these sites and others after them.
    """
    names = [d.name for d in shown[0].attributes]
    values = np.array([[d.distance for d in site.attributes] for site in shown]).T
    noise = np.array([[d.noise for d in site.attributes] for site in shown]).T
    strongest = np.argsort(-values.max(axis=1, initial=0.0), kind="stable")[:MOST_NAMES]
    places = sorted(int(i) for i in strongest)
    marks = [
        (row, int(c))
        for row, i in enumerate(places)
        for c in np.flatnonzero(clear[i, : len(shown)])
    ]
    top = np.unravel_index(int(values.argmax()), values.shape)
    title = "Distance of each site from the others"
    svg = heat_map(
        "fig-sites",
        title,
        f"Heat map of {len(places)} columns by {len(shown)} sites; the largest distance is "
        f"{values[top]:.3f}, of {shown[int(top[1])].site} in "
        f"{drawing.short(names[int(top[0])], 60)}.",
        [names[i] for i in places],
        [site.site for site in shown],
        values[places],
        "distance of distributions",
        marks,
        f"at least {MATTERS:g}, beyond chance",
    )
    rows = tuple(
        (drawing.short(names[i], 40), site.site, f"{values[i, c]:.4f}", f"{noise[i, c]:.4f}")
        for i, (c, site) in sorted(
            itertools.product(places, enumerate(shown)),
            key=lambda cell: -values[cell[0], cell[1][0]],
        )
    )
    caption = (
        "Colour: Euclidean distance between the distribution of a column at one site and at all "
        f"others, over at most eight groups of values. A dot marks a distance of at least "
        f"{MATTERS:g} that neither noise nor luck explains, corrected for all {clear.size:,} "
        "comparisons (Holm): if the rows of all sites came one by one from one population, the "
        f"chance of any dot at all would be at most about {100 * CHANCE:g} %. Smaller differences "
        "may be real too, and matter less."
    )
    head = ("column", "site", "distance", "chance level")
    return Picture("fig-sites", title, svg, caption, Table(title, head, rows, words=2))


def _most_different(site: SiteSummary) -> str:
    """The columns in which a site differs most, with the size of each difference."""
    ranked = sorted(site.attributes, key=lambda each: -each.distance)[:MOST_NAMED]
    named = [f"{drawing.short(each.name, 40)} {each.distance:.2f}" for each in ranked]
    return ", ".join(named)


def marked(differences: Sequence[SiteSummary]) -> NDArray[np.bool_]:
    """Which differences chance does not explain, for every column (down) and site (across).

    The squared distance, less its mean and in its standard deviations by chance, is at most as
    often large as that of a chi-square with one degree of freedom, which has the longest tail of
    all sums of squares. Holm's steps keep the chance of any mistake at `CHANCE`, however the
    comparisons depend on each other.
    """
    chances = np.array([[_chance(each) for each in site.attributes] for site in differences]).T
    order = np.argsort(chances, axis=None, kind="stable")
    steps = np.minimum.accumulate(
        chances.ravel()[order] <= CHANCE / (chances.size - np.arange(chances.size))
    )
    kept = np.zeros(chances.size, dtype=bool)
    kept[order] = steps
    return kept.reshape(chances.shape)


def _chance(difference: AttributeDifference) -> float:
    """The chance of such a distance, or a larger one, where there is no difference."""
    if difference.distance <= 0:
        return 1.0
    if difference.noise <= 0:
        return 0.0
    deviations = (difference.distance / difference.noise) ** 2
    return math.erfc(math.sqrt((1 + math.sqrt(2) * deviations) / 2))


def _why_not(release: Release) -> str:
    if len(release.run.sites) < 2:
        return "There is one site, or one pool of rows, so there is nothing to compare."
    if release.privacy.trust == "secure-aggregation":
        return (
            "Under secure aggregation only sums over sites are seen, so nothing is said about how "
            "sites differ. Sums over different sites tell of it: a hub that sees both can compare "
            "them, and learn a site's noisy counts. Only where all sites are in every sum is that "
            "hidden too."
        )
    return "This release does not say how its sites differ."
