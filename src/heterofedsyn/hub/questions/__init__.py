"""Answers with intervals to any question that SQL can ask of a release; costs no privacy."""

from heterofedsyn.hub.questions.combining import Combined, combine
from heterofedsyn.hub.questions.intervals import Interval, Intervals

__all__ = ["Combined", "Interval", "Intervals", "combine"]
