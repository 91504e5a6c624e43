"""`randmarg`: a random number of random pairs; a baseline of the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from heterofedsyn.hub.methods.allmarg import AllMarg
from heterofedsyn.hub.methods.base import Setting
from heterofedsyn.hub.methods.forced import forced_flat
from heterofedsyn.schema import Clique


@dataclass(frozen=True)
class RandMarg(AllMarg):
    """As `allmarg`, but for pairs drawn blindly."""

    name: ClassVar[str] = "randmarg"

    def choose(self, setting: Setting) -> Sequence[Clique]:
        """How many uniformly in 1..m, then which, beside those that must be measured."""
        forced = forced_flat(setting.schema, self.measure)
        pairs = setting.domain.pairs()
        if not pairs:
            return pairs
        rng = setting.rng("pairs")
        many = int(rng.integers(1, len(pairs), endpoint=True))
        drawn = [pairs[i] for i in sorted(rng.permutation(len(pairs))[:many])]
        return [*drawn, *(pair for pair in forced if pair not in drawn)]
