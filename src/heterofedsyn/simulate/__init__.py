"""A federation in one process, for demonstration, research and tests."""

from heterofedsyn.simulate.synthesizer import FederatedSynthesizer

__all__ = ["FederatedSynthesizer"]
