"""What noise alone would do to each measured pair."""

from __future__ import annotations

import math

import numpy as np

from heterofedsyn._arrays import Floats
from heterofedsyn._words import count
from heterofedsyn.errors import UsageError
from heterofedsyn.hub.release import Release
from heterofedsyn.report.blocks import Picture, Section, Table, Text
from heterofedsyn.report.heat import MOST_LINES, both, limited, shown_names, square_map
from heterofedsyn.schema import Clique


def pair_noise_section(release: Release) -> Section:
    """What noise alone would do to each measured pair."""
    domain = release.schema.domain
    expected: dict[Clique, float] = {}
    for pair in (p.attributes for p in release.run.pairs if p.measured):
        error = expected_noise(release, pair)
        if error is not None:
            expected[pair] = error
    title = "Two columns at a time: what the noise can do"
    if not expected:
        return Section(
            "pair-noise", title, (Text("No pair of columns was measured for all rows at once."),)
        )
    shown = shown_names(domain.names, expected)
    svg = square_map(
        "fig-pair-noise",
        "Expected noise of measured pairs",
        shown,
        expected,
        "expected total variation from noise",
    )
    mean = float(np.mean(list(expected.values())))
    ranked = sorted(expected, key=lambda pair: (-expected[pair], pair))
    rows = tuple(
        (
            both(pair),
            f"{release.accuracy(pair).standard_error.size:,}",
            f"{float(release.accuracy(pair).standard_error.mean()):,.1f}",
            f"{expected[pair]:.4f}",
        )
        for pair in ranked[:MOST_LINES]
    )
    head = ("pair", "cells", "standard error of a cell, in rows", "expected total variation")
    caption = (
        "Each cell is half the sum, over the cells of the pair's table as it was measured, of the "
        "mean absolute noise (0.80 standard errors) as a share of the rows: the total variation "
        "distance from the truth that noise alone would cause if the noisy tables were used as "
        "they came. The model shrinks and fits them, so its own error is usually smaller. What "
        "is lost by grouping values, or by not measuring a pair, is not in this figure. Empty "
        f"cells: not measured.{limited(domain.names, shown, 'largest figures')}"
    )
    numbers = Table("Expected noise, the largest first", head, rows)
    lead = Text(
        f"The mean expected noise over {count(len(expected), 'pair')} is {mean:.3f}, on a scale "
        "where 0 is equal and 1 is disjoint. It is known exactly, without any private row, because "
        "the noise is."
        + (
            " Sites were asked separately; only pairs that all of them measured are shown."
            if len(release.model.targets) > 1
            else ""
        )
    )
    return Section(
        "pair-noise",
        title,
        (
            lead,
            Picture("fig-pair-noise", "Expected noise of measured pairs", svg, caption, numbers),
        ),
    )


def expected_noise(release: Release, pair: Clique) -> float | None:
    """Half the expected absolute noise over a pair's cells, as a share; None where unknown."""
    try:
        fraction = release.accuracy(pair).fraction
    except UsageError:  # populations that measured other pairs, or other grids
        return None
    return mean_noise(fraction)


def mean_noise(errors: Floats) -> float:
    """The total variation that noise of these standard errors, as shares, is expected to cause."""
    return 0.5 * math.sqrt(2 / math.pi) * float(errors.sum())
