"""The hub: it runs studies on noisy answers and publishes releases; it never meets a row."""

from heterofedsyn.hub.methods import DEFAULT_METHOD, METHODS, make_method
from heterofedsyn.hub.release import Release, load
from heterofedsyn.hub.rounds import Absence, QuorumLost
from heterofedsyn.hub.study import conduct, federate

__all__ = [
    "DEFAULT_METHOD",
    "METHODS",
    "Absence",
    "QuorumLost",
    "Release",
    "conduct",
    "federate",
    "load",
    "make_method",
]
