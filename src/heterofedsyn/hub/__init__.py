"""The hub: it runs studies on noisy answers and publishes releases; it never meets a row."""

from heterofedsyn.hub.methods import DEFAULT_METHOD, METHODS, make_method
from heterofedsyn.hub.release import Release, load
from heterofedsyn.hub.study import federate

__all__ = ["DEFAULT_METHOD", "METHODS", "Release", "federate", "load", "make_method"]
