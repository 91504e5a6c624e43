"""What a method asks before it looks at an answer is known in advance, without its saying so."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import ClassVar

import pytest

from heterofedsyn.hub.methods.base import Later, Method, Model, Outcome, Setting
from heterofedsyn.hub.methods.stages import addressed, measured, one_ways
from heterofedsyn.hub.replies import Ask, Round
from heterofedsyn.privacy.budget import together
from heterofedsyn.privacy.trust import Local
from heterofedsyn.schema import Clique
from support import categories, make_plan

SCHEMA = categories(2, 3, 4)
PLAN = make_plan(SCHEMA, ("one", "two"))
SETTING = Setting(SCHEMA, PLAN.budget, Local(2), PLAN.sites, PLAN.seed)
LEFT: tuple[Clique, ...] = (("a0", "a1"),)
RIGHT: tuple[Clique, ...] = (("a1", "a2"),)


@dataclass(frozen=True)
class Asking(Method):
    """1-ways, then one pair or another."""

    name: ClassVar[str] = "asking"

    def conduct(self, setting: Setting) -> Generator[Ask, Round, Outcome]:
        first, second, third = setting.budget.split(1, 1, 1)
        targets = yield from one_ways(setting, first)
        targets = yield from measured("left", targets, LEFT, [second])
        if self.looks(targets.measurements[0].noisy):
            targets = yield from measured("right", targets, RIGHT, [third])
        return Outcome(Model(self.synthesizer, (targets,)))

    def looks(self, answer: object) -> bool:
        """Whether the answer asks for more; here it is not looked at."""
        return True


class Looking(Asking):
    """The same, if the first count is not negative."""

    def looks(self, answer: object) -> bool:
        return float(getattr(answer, "values")[0]) >= 0  # noqa: B009


def labels(method: Method) -> list[str]:
    return [part.label for part in method.ahead(SETTING)]


def test_a_method_that_looks_at_nothing_is_foreseen_in_full() -> None:
    assert labels(Asking()) == ["one-way", "left", "right"]
    assert all(isinstance(part, Ask) for part in Asking().ahead(SETTING))


def test_after_the_first_look_at_an_answer_anything_is_foreseen_that_is_left_to_pay() -> None:
    *fixed, rest = Looking().ahead(SETTING)
    assert [part.label for part in fixed] == ["one-way", "left"]
    assert isinstance(rest, Later)
    assert (rest.kinds, rest.releases, rest.integers, rest.rounds) == ((), None, None, None)
    costs = [cost for ask in fixed if isinstance(ask, Ask) for _, cost in ask.parts]
    assert together([*costs, rest.cost]).rho == pytest.approx(SETTING.budget.rho, rel=1e-9)


LOOKS: dict[str, Callable[[Round], object]] = {
    "who answered": lambda round_: round_.answers,
    "who did not": lambda round_: round_.absent,
    "what was agreed": lambda round_: round_.terms,
    "how sums were scaled": lambda round_: round_.factor,
    "all replies": lambda round_: round_.replies,
    "one site": lambda round_: round_.of(["one"]),
    "values": lambda round_: round_.totals()[0].values,
    "their variance": lambda round_: round_.totals()[0].variance,
    "a sum": lambda round_: round_.totals()[0] + round_.totals()[1],
    "a scaled one": lambda round_: round_.measurements()[0].noisy.scaled(2.0),
}


@pytest.mark.parametrize("look", sorted(LOOKS))
def test_whatever_depends_on_an_answer_is_a_look_at_it(look: str) -> None:
    class Curious(Asking):
        def conduct(self, setting: Setting) -> Generator[Ask, Round, Outcome]:
            round_ = yield from addressed_to_nobody(setting)
            LOOKS[look](round_)
            return (yield from super().conduct(setting))

    def addressed_to_nobody(setting: Setting) -> Generator[Ask, Round, Round]:
        first = next(Asking().conduct(setting))
        return (yield first)

    assert labels(Curious()) == ["one-way", "later"]


def test_a_conversation_with_one_site_depends_on_whether_it_answers() -> None:
    class Single(Asking):
        def conduct(self, setting: Setting) -> Generator[Ask, Round, Outcome]:
            outcome = yield from addressed(super().conduct(setting), "two")
            assert outcome is not None
            return outcome

    first, rest = Single().ahead(SETTING)
    assert (first.label, first.to) == ("one-way", "two")
    assert isinstance(rest, Later)
