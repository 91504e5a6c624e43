"""What a method of synthesis is, and how one is made from its name and settings."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, TypeVar

import msgspec
import numpy as np

from heterofedsyn._arrays import stream
from heterofedsyn._registry import Value, typed
from heterofedsyn.errors import UsageError, did_you_mean
from heterofedsyn.hub.methods.ahead import fixed_asks
from heterofedsyn.hub.methods.forced import MEASURE
from heterofedsyn.hub.replies import Ask, Round
from heterofedsyn.marginals.counts import PAIRS
from heterofedsyn.privacy.budget import Budget, together
from heterofedsyn.privacy.trust import Local, Trust
from heterofedsyn.protocol import Plan
from heterofedsyn.schema import Clique, Domain, Schema
from heterofedsyn.synthesis import SYNTHESIZERS, Gum, Synthesizer, Targets

__all__ = ["Later", "Method", "Model", "Outcome", "Setting", "Value", "build", "settings_of"]


@dataclass(frozen=True)
class Setting:
    """What a method may know: public facts only."""

    schema: Schema
    budget: Budget
    trust: Trust
    sites: tuple[str, ...]
    seed: int
    rows_per_unit: int = 1
    together: int = PAIRS
    """How many columns a statistic may be of, by the plan's word: what `Method.columns` asked for
    when the plan was made, or two."""

    @classmethod
    def of(cls, schema: Schema, plan: Plan) -> Setting:
        """What a plan says to a method."""
        return cls(
            schema,
            plan.budget,
            plan.trust_model,
            plan.sites,
            plan.seed,
            plan.rows_per_unit,
            plan.together,
        )

    @property
    def variance_factor(self) -> float:
        """V: the noise variance of a summed count in units of 1 / (2 rho)."""
        return self.trust.variance_factor * self.rows_per_unit**2

    def noise_of(self, budget: Budget, many: int = 1) -> float:
        """Sigma of a summed count if so many releases share a budget; infinite if it is nothing."""
        if not budget.rho:
            return math.inf
        return math.sqrt(self.variance_factor * many / (2 * budget.rho))

    @property
    def domain(self) -> Domain:
        """The attributes and their sizes."""
        return self.schema.domain

    def rng(self, purpose: str) -> np.random.Generator:
        """Public randomness for one purpose."""
        return stream(self.seed, purpose)


@dataclass(frozen=True, eq=False)
class Model:
    """Noisy marginals, ready to be sampled from; one set of targets per population."""

    synthesizer: Synthesizer
    targets: tuple[Targets, ...]

    @property
    def total(self) -> float:
        """The noisy number of records."""
        return sum(targets.total for targets in self.targets)

    @property
    def pairs(self) -> tuple[Clique, ...]:
        """The pairs of columns that were measured together, in every population."""
        first, *others = (targets.pairs for targets in self.targets)
        return tuple(pair for pair in first if all(pair in own for own in others))


@dataclass(frozen=True, eq=False)
class Outcome:
    """The model, and what there is to say about how it came about."""

    model: Model
    scores: dict[Clique, float] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Later:
    """Rounds that are chosen from noisy answers: the most that they may ask of one site.

    Attributes:
        kinds: of statistics, by their tags; none if they could be any.
        releases: in all of its rounds together; None if only a site's own limits hold.
        integers: likewise.
        cost: likewise.
        to: one site, or all.
        columns: that each release is of, one, two or three; None if it could be any that the plan
            allows.
        numbers: of groups in its queries: one for every value of each column of a release.
        shares: how often the cost holds the least that a pair gets; unless given, releases of one
            kind share alike.
    """

    label: str
    kinds: tuple[str, ...]
    releases: int | None
    integers: int | None
    cost: Budget
    rounds: int | None = 1
    to: str | None = None
    columns: int | None = None
    numbers: int = 0
    shares: float | None = None


class Mode(Protocol):
    """How much a method attempts, where that is a choice."""

    @property
    def name(self) -> str:
        """What statements call it."""
        ...

    @property
    def needed(self) -> float:
        """Groups per attribute from which it is chosen."""
        ...

    def groups(self, n: float) -> float:
        """Groups per attribute that would stand out of the noise with so many rows."""
        ...


@dataclass(frozen=True)
class Method(ABC):
    """Decides what to ask and when to stop; a frozen dataclass of its settings, all with defaults.

    Attributes:
        synthesizer: makes rows of what was measured.
    """

    name: ClassVar[str]
    pools: ClassVar[bool] = False
    """Needs all rows in one place (a central baseline): possible in a simulation only."""
    sums: ClassVar[bool] = True
    """Needs only sums over sites, so that secure aggregation may hide the rest."""
    mode_names: ClassVar[tuple[str, ...]] = ()
    """The modes it may choose, the most ambitious first; none if it always attempts the same."""

    synthesizer: Synthesizer = Gum()

    def encoding(self, schema: Schema) -> Schema:
        """The schema by which sites encode their rows: the public one, or one made from it."""
        return schema

    def columns(self, setting: Setting) -> int:
        """How many columns its statistics may be of, as a new plan is to say; see `with_columns`.

        What a plan says stands in `setting.together`, and binds `conduct`, `ahead` and `later`.
        """
        return PAIRS

    @abstractmethod
    def conduct(self, setting: Setting) -> Generator[Ask, Round, Outcome]:
        """Yield what to ask, be sent the round, return the outcome."""

    def ahead(self, setting: Setting) -> tuple[Ask | Later, ...]:
        """All that `conduct` may ask: what is fixed in advance as it is, of the rest the most."""
        asks, all_of_them = fixed_asks(self.conduct(setting))
        if all_of_them:
            return asks
        share = setting.budget.share(together(cost for ask in asks for _, cost in ask.parts))
        return *asks, *self.later(setting, setting.budget.part(max(0.0, 1.0 - share)))

    def later(self, setting: Setting, left: Budget) -> tuple[Ask | Later, ...]:
        """The most that is asked after the first look at an answer.

        Anything that what is left can pay for, unless a method knows more.
        """
        return (Later("later", (), None, None, left, None),)

    def ahead_of(self, setting: Setting, rows: float) -> tuple[Ask | Later, ...]:
        """What is asked does not hang on the number of rows."""
        return self.ahead(setting)

    def modes(self, setting: Setting) -> Mapping[str, Mode]:
        """There is no choice."""
        return {}

    def mode(self, setting: Setting, n: float) -> Mode | None:
        """There is no choice."""
        return None


def with_columns(plan: Plan, method: Method, schema: Schema) -> Plan:
    """A new plan that says how many columns its method needs counts of together.

    Args:
        schema: the one by which sites encode.
    """
    return msgspec.structs.replace(plan, columns=method.columns(Setting.of(schema, plan)))


def check_trust(method: Method, trust: str) -> None:
    """Refuse a trust model under which a method would not hear what it needs, or hide nothing.

    Raises:
        UsageError: naming the one that would do.
    """
    if trust == Local.name:
        return
    if method.pools:
        raise UsageError(
            f"method {method.name!r} pools all rows in one place, where no sum hides anybody; use "
            "trust 'local'"
        )
    if not method.sums:
        raise UsageError(
            f"method {method.name!r} needs every site's own answers; use trust 'local'"
        )


Made = TypeVar("Made", bound=Method)


def build(kind: type[Made], settings: Mapping[str, Value]) -> Made:
    """A method from its settings; those it does not know go to its synthesizer.

    Raises:
        UsageError: naming the setting, what was given and what would do.
    """
    usual, rest = kind.synthesizer, dict(settings)
    chosen = str(rest.pop("synthesizer", usual.name))
    own = {f.name for f in dataclasses.fields(kind)} - {"synthesizer"}
    inner = {f.name for f in dataclasses.fields(SYNTHESIZERS.find(chosen))}
    for name in rest:
        if name == MEASURE and name not in own:
            raise UsageError(
                f"method {kind.name!r} does not choose pairs to measure, so none can be asked for; "
                "leave measure out, or use another method, such as wavetree"
            )
        if name not in own | inner:
            hint = did_you_mean(name, [*sorted(own | inner), "synthesizer"])
            raise UsageError(
                f"neither method {kind.name!r} nor synthesizer {chosen!r} has a setting {name!r}; "
                f"{hint}"
            )
    given = {name: value for name, value in rest.items() if name in inner}
    defaults = dataclasses.asdict(usual) if chosen == usual.name else {}
    synthesizer = SYNTHESIZERS.make(chosen, {**defaults, **given})
    return kind(synthesizer=synthesizer, **typed(kind, {n: v for n, v in rest.items() if n in own}))


def settings_of(method: Method) -> dict[str, Value]:
    """All settings of a method and its synthesizer, as `build` takes them.

    Without pairs that must be measured, nothing is said of them: a study is then what it was
    before they could be named.
    """
    own = {f.name: getattr(method, f.name) for f in dataclasses.fields(method)}
    if not own.get(MEASURE):
        own.pop(MEASURE, None)
    synthesizer: Synthesizer = own.pop("synthesizer")
    return {**own, "synthesizer": synthesizer.name, **dataclasses.asdict(synthesizer)}
