"""From noisy marginals to rows: post-processing that never meets private data."""

from heterofedsyn._registry import Registry
from heterofedsyn.synthesis.consistency import Consistency
from heterofedsyn.synthesis.denoise import Denoising
from heterofedsyn.synthesis.gum import Gum
from heterofedsyn.synthesis.pgm import Pgm
from heterofedsyn.synthesis.targets import Measured, Measurement, Rebuild, Synthesizer, Targets
from heterofedsyn.synthesis.tree import Tree

SYNTHESIZERS = Registry[Synthesizer]("synthesizer", Synthesizer, (Gum, Tree, Pgm))
"""Every synthesizer by name; a new one is a file of its own and a name here."""

REBUILDS = Registry[Rebuild]("rebuild", Rebuild, (Consistency, Denoising))
"""Every way to deal with noise before synthesis, by name."""

__all__ = [
    "REBUILDS",
    "SYNTHESIZERS",
    "Consistency",
    "Denoising",
    "Gum",
    "Measured",
    "Measurement",
    "Pgm",
    "Rebuild",
    "Synthesizer",
    "Targets",
    "Tree",
]
