"""`independent`: the whole budget on 1-ways, no dependence at all; the baseline to beat."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import ClassVar

from heterofedsyn.hub.methods.base import Method, Model, Outcome, Setting
from heterofedsyn.hub.methods.stages import one_ways
from heterofedsyn.hub.replies import Ask, Round


@dataclass(frozen=True)
class Independent(Method):
    """Every attribute by itself, equal shares."""

    name: ClassVar[str] = "independent"

    def conduct(self, setting: Setting) -> Generator[Ask, Round, Outcome]:
        targets = yield from one_ways(setting, setting.budget)
        return Outcome(Model(self.synthesizer, (targets,)))
