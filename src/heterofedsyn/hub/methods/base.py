"""What a method of synthesis is, and how one is made from its name and settings."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, Protocol

import numpy as np

from heterofedsyn._arrays import stream
from heterofedsyn._registry import find
from heterofedsyn.errors import UsageError, did_you_mean
from heterofedsyn.hub.replies import Ask, Round
from heterofedsyn.privacy.budget import Budget, together
from heterofedsyn.privacy.trust import Trust
from heterofedsyn.schema import Clique, Domain, Schema
from heterofedsyn.synthesis import REBUILDS, SYNTHESIZERS, Rebuild, Synthesizer, Targets

Value = str | int | float | bool
"""A setting as it appears on the command line or in a plan."""


@dataclass(frozen=True)
class Setting:
    """What a method may know: public facts only."""

    schema: Schema
    budget: Budget
    trust: Trust
    sites: tuple[str, ...]
    seed: int
    rows_per_unit: int = 1

    @property
    def variance_factor(self) -> float:
        """V: the noise variance of a summed count in units of 1 / (2 rho)."""
        return self.trust.variance_factor * self.rows_per_unit**2

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
    """

    label: str
    kinds: tuple[str, ...]
    releases: int | None
    integers: int | None
    cost: Budget
    rounds: int | None = 1
    to: str | None = None


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


class Method(Protocol):
    """Decides what to ask and when to stop; a frozen dataclass of its settings."""

    name: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]
    pools: ClassVar[bool]
    """Needs all rows in one place (a central baseline): possible in a simulation only."""
    sums: ClassVar[bool]
    """Needs only sums over sites, so that secure aggregation may hide the rest."""
    mode_names: ClassVar[tuple[str, ...]]
    """The modes it may choose, the most ambitious first; none if it always attempts the same."""

    def encoding(self, schema: Schema) -> Schema:
        """The schema by which sites encode their rows: the public one, or one made from it."""
        ...

    def ahead(self, setting: Setting) -> tuple[Ask | Later, ...]:
        """All that `conduct` may ask: what is fixed in advance as it is, of the rest the most."""
        ...

    def ahead_of(self, setting: Setting, rows: float) -> tuple[Ask | Later, ...]:
        """The same, if the sites have about so many rows; as much as `ahead` or more precise."""
        ...

    def modes(self, setting: Setting) -> Mapping[str, Mode]:
        """All that could be attempted, whatever the number of rows."""
        ...

    def mode(self, setting: Setting, n: float) -> Mode | None:
        """What is attempted with so many rows."""
        ...

    def conduct(self, setting: Setting) -> Generator[Ask, Round, Outcome]:
        """Yield what to ask, be sent the round, return the outcome."""
        ...


class Federated(ABC):
    """What most methods have in common: they need only sums over sites, and the schema as it is."""

    pools: ClassVar[bool] = False
    sums: ClassVar[bool] = True
    mode_names: ClassVar[tuple[str, ...]] = ()

    def encoding(self, schema: Schema) -> Schema:
        """The public schema itself."""
        return schema

    @abstractmethod
    def conduct(self, setting: Setting) -> Generator[Ask, Round, Outcome]:
        """Yield what to ask, be sent the round, return the outcome."""

    def ahead(self, setting: Setting) -> tuple[Ask | Later, ...]:
        """The first question, and then anything: methods that know more say more."""
        conversation = self.conduct(setting)
        first = next(conversation)
        conversation.close()
        share = setting.budget.share(together(cost for _, cost in first.parts))
        left = setting.budget.part(max(0.0, 1.0 - share))
        return first, Later("later", (), None, None, left, None)

    def ahead_of(self, setting: Setting, rows: float) -> tuple[Ask | Later, ...]:
        """What is asked does not hang on the number of rows."""
        return self.ahead(setting)

    def modes(self, setting: Setting) -> Mapping[str, Mode]:
        """There is no choice."""
        return {}

    def mode(self, setting: Setting, n: float) -> Mode | None:
        """There is no choice."""
        return None


def build(kind: type[Any], settings: Mapping[str, Value]) -> Any:
    """A method from its settings; those it does not know go to its synthesizer.

    Raises:
        UsageError: naming the setting, what was given and what would do.
    """
    rest = dict(settings)
    chosen = str(rest.pop("synthesizer", kind.synthesizer.name))
    own = {f.name for f in dataclasses.fields(kind)} - {"synthesizer"}
    inner = {f.name for f in dataclasses.fields(find("synthesizer", SYNTHESIZERS, chosen))}
    for name in rest:
        if name not in own | inner:
            hint = did_you_mean(name, [*sorted(own | inner), "synthesizer"])
            raise UsageError(
                f"neither method {kind.name!r} nor synthesizer {chosen!r} has a setting {name!r}; "
                f"{hint}"
            )
    usual = dataclasses.asdict(kind.synthesizer) if chosen == kind.synthesizer.name else {}
    given = {name: value for name, value in rest.items() if name in inner}
    synthesizer = make_synthesizer(chosen, {**usual, **given})
    return kind(
        **_typed(kind, {n: v for n, v in rest.items() if n in own}), synthesizer=synthesizer
    )


def make_synthesizer(name: str, settings: Mapping[str, Value]) -> Synthesizer:
    """The synthesizer of this name with these settings."""
    kind = find("synthesizer", SYNTHESIZERS, name)
    synthesizer: Synthesizer = kind(**_typed(kind, settings))
    return synthesizer


def make_rebuild(name: str, settings: Mapping[str, Value]) -> Rebuild:
    """The way to deal with noise of this name with these settings."""
    kind = find("rebuild", REBUILDS, name)
    rebuild: Rebuild = kind(**_typed(kind, settings))
    return rebuild


def settings_of(method: Method) -> dict[str, Value]:
    """All settings of a method and its synthesizer, as `build` takes them."""
    own = {f.name: getattr(method, f.name) for f in dataclasses.fields(method)}
    synthesizer: Synthesizer = own.pop("synthesizer")
    return {**own, "synthesizer": synthesizer.name, **dataclasses.asdict(synthesizer)}


def _typed(kind: type[Any], settings: Mapping[str, Value]) -> dict[str, Any]:
    defaults = {f.name: f.default for f in dataclasses.fields(kind)}
    return {name: _like(name, value, defaults[name]) for name, value in settings.items()}


def _like(name: str, value: Value, default: Any) -> Any:
    """The value as the kind of thing the default is."""
    wanted = type(default)
    try:
        if wanted is float:
            return float(value)
        if wanted is int and not isinstance(value, bool) and float(value) == int(float(value)):
            return int(float(value))
        if issubclass(wanted, str):
            return wanted(value)
    except (ValueError, OverflowError):
        pass
    if wanted is bool and str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    options = f" ({', '.join(wanted.__members__.values())})" if issubclass(wanted, StrEnum) else ""
    raise UsageError(
        f"setting {name}={value!s} must be {_WORDS.get(wanted, 'one of the known words')}{options}"
    )


_WORDS: dict[type, str] = {float: "a number", int: "a whole number", bool: "true or false"}
