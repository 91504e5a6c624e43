"""Answers with intervals to any question that SQL can ask of a release; costs no privacy."""

from heterofedsyn.hub.questions.answer import Answer, Cell
from heterofedsyn.hub.questions.combining import Combined, combine

__all__ = ["Answer", "Cell", "Combined", "combine"]
