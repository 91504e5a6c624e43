"""`local-merge`: every site synthesizes alone and the tables are put together; a baseline."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import ClassVar

from heterofedsyn.hub.methods.base import Later, Model, Outcome, Setting
from heterofedsyn.hub.methods.privsyn import PrivSyn
from heterofedsyn.hub.methods.stages import addressed
from heterofedsyn.hub.replies import Ask, Round
from heterofedsyn.privacy.trust import Local
from heterofedsyn.synthesis import Targets


@dataclass(frozen=True)
class LocalMerge(PrivSyn):
    """`privsyn` at each site with that site's full budget."""

    name: ClassVar[str] = "local-merge"
    pools: ClassVar[bool] = False
    sums: ClassVar[bool] = False

    def ahead(self, setting: Setting) -> tuple[Ask | Later, ...]:
        alone = self._at_a_site.ahead(replace(setting, trust=Local(1)))
        return tuple(replace(part, to=site) for site in sorted(setting.sites) for part in alone)

    def conduct(self, setting: Setting) -> Generator[Ask, Round, Outcome]:
        alone = replace(setting, trust=Local(1))
        targets: list[Targets] = []
        remarks: list[str] = []
        for site in sorted(setting.sites):
            outcome = yield from addressed(self._at_a_site.conduct(alone), site)
            if outcome is None:
                continue
            targets += outcome.model.targets
            remarks += [f"{site}: {remark}" for remark in outcome.remarks]
        return Outcome(Model(self.synthesizer, tuple(targets)), remarks=tuple(remarks))

    @property
    def _at_a_site(self) -> PrivSyn:
        return PrivSyn(q=self.q, measure=self.measure, synthesizer=self.synthesizer)
