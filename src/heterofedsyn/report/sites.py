"""How sites differ, from noisy answers only."""

from __future__ import annotations

import itertools

import numpy as np

from heterofedsyn import drawing
from heterofedsyn.hub.release import Release
from heterofedsyn.report.blocks import Block, Picture, Section, Table, Text
from heterofedsyn.report.heat import MOST_NAMES, heat_map

TITLE = "How sites differ"
CLEAR = 2.0
"""Times its chance level from which a difference is marked."""


def site_section(release: Release) -> Section:
    """Each site beside all others together."""
    differences = release.run.differences
    if not differences:
        return Section("sites", TITLE, (Text(_why_not(release)),))
    names = [d.name for d in differences[0].attributes]
    shown = differences[:MOST_NAMES]
    values = np.array([[d.distance for d in site.attributes] for site in shown]).T
    noise = np.array([[d.noise for d in site.attributes] for site in shown]).T
    clear = values > CLEAR * noise
    strongest = np.argsort(-values.max(axis=1, initial=0.0), kind="stable")[:MOST_NAMES]
    places = sorted(int(i) for i in strongest)
    blocks: list[Block] = [
        Text(
            "Each site is compared with all other sites together, column by column, from the noisy "
            "answers that everyone may see under trust local; this cost no further budget. A "
            "distance of 0 means alike, and the largest possible is 1.41 (two sites with one value "
            "each, another one). What chance adds on average was taken off: the noise, and the "
            "luck of which rows a site happens to hold."
        ),
        Table(
            "Rows of each site (noisy)",
            ("site", "rows", "± 2 standard errors", "columns marked"),
            tuple(
                (
                    site.site,
                    f"{site.total:,}",
                    f"{2 * site.total_error:,.0f}",
                    f"{sum(d.distance > CLEAR * d.noise for d in site.attributes)} of "
                    f"{len(site.attributes)}",
                )
                for site in differences
            ),
        ),
    ]
    if places:
        marks = [(row, int(c)) for row, i in enumerate(places) for c in np.flatnonzero(clear[i])]
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
            f"more than {CLEAR:g} times its chance level",
        )
        rows = tuple(
            (drawing.short(names[i], 40), site.site, f"{values[i, c]:.4f}", f"{noise[i, c]:.4f}")
            for i, (c, site) in sorted(
                itertools.product(places, enumerate(shown)),
                key=lambda cell: -values[cell[0], cell[1][0]],
            )
        )
        caption = (
            "Colour: Euclidean distance between the distribution of a column at one site and at "
            "all others, over at most eight groups of values. A dot marks distances above twice "
            "their chance level. If the rows of all sites came one by one from one population, "
            "about one cell in a hundred would get a dot, so a single dot among many proves little."
        )
        head = ("column", "site", "distance", "chance level")
        blocks.append(Picture("fig-sites", title, svg, caption, Table(title, head, rows, words=2)))
    if len(differences) > len(shown):
        blocks.append(Text(f"The first {len(shown)} of {len(differences)} sites are drawn."))
    return Section("sites", TITLE, tuple(blocks))


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
