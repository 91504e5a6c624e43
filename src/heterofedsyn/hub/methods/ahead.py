"""What a method asks before it looks at any answer: found by holding its conversation."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from typing import Any

from heterofedsyn.hub.replies import Ask, Round
from heterofedsyn.privacy.noisy import Noisy
from heterofedsyn.protocol import Part, Query


class _LookedAt(Exception):
    """A method looked at an answer that is not there yet."""


class _Unknown(Noisy):
    """Values that may be handed on, but not looked at."""

    def __init__(self) -> None:
        """It has no values."""

    def __getattr__(self, name: str) -> Any:
        raise _LookedAt


class _Unanswered(Round):
    """A round of which only the question is known."""

    @classmethod
    def to(cls, ask: Ask) -> _Unanswered:
        parts = tuple(Part(statistic, 0.0) for statistic, _ in ask.parts)
        return cls(Query(study="", number=0, label=ask.label, parts=parts, to=ask.to), ())

    def __getattribute__(self, name: str) -> Any:
        if name in _ANSWERED:
            raise _LookedAt
        return super().__getattribute__(name)

    def totals(self) -> list[Noisy]:
        return [_Unknown() for _ in self.query.parts]


_ANSWERED = {field.name for field in dataclasses.fields(Round)} - {"query"}


def fixed_asks(conversation: Generator[Ask, Round, object]) -> tuple[tuple[Ask, ...], bool]:
    """What is asked whatever the answers will be, and whether that is all."""
    asks: list[Ask] = []
    try:
        ask = next(conversation)
        while True:
            asks.append(ask)
            ask = conversation.send(_Unanswered.to(ask))
    except StopIteration:
        return tuple(asks), True
    except _LookedAt:
        return tuple(asks), False
