"""The hub: it runs studies on noisy answers and publishes releases; it never meets a row."""

from heterofedsyn.errors import QuorumLost
from heterofedsyn.hub.conversation import converse, drive, of_study
from heterofedsyn.hub.methods import DEFAULT_METHOD, METHODS, make_method
from heterofedsyn.hub.release import Release, load
from heterofedsyn.hub.replies import Absence
from heterofedsyn.hub.requests import Request

__all__ = [
    "DEFAULT_METHOD",
    "METHODS",
    "Absence",
    "QuorumLost",
    "Release",
    "Request",
    "converse",
    "drive",
    "load",
    "make_method",
    "of_study",
]
