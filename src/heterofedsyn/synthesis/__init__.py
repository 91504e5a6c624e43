"""From noisy marginals to rows: post-processing that never meets private data."""

from heterofedsyn.synthesis.gum import Gum
from heterofedsyn.synthesis.targets import Measurement, Synthesizer, Targets

SYNTHESIZERS: dict[str, type[Synthesizer]] = {
    Gum.name: Gum,
}
"""Every synthesizer by name; a new one is a file of its own and a line here."""

__all__ = ["SYNTHESIZERS", "Gum", "Measurement", "Synthesizer", "Targets"]
