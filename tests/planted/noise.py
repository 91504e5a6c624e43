"""Bugs of the noise: too little of it, of another shape, used again, or known to somebody."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from planted import places as at
from planted.bugs import Planting, coupling, game, noise
from planted.planting import changed, instead_of, put, stands_in, through, wrap

restarts = partial(noise, first="restarts and forks")
hiding = partial(coupling, first="secure-aggregation")

Integers = NDArray[np.int64]


def secure(how: Callable[[float, int], Integers]) -> Planting:
    """Noise from the operating system is so many integers, made in this way for a sigma."""

    @instead_of(at.SecureNoise.draw)
    def planting(true: Any, own: Any, terms: at.Terms, *how_else: Any) -> Integers:
        return how(terms.sigma, terms.integers)

    return planting


def gaussian(sigma: float, integers: int) -> Integers:
    """What the package itself draws, asked of OpenDP."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T=float)
    drawn = dp.m.make_gaussian(*space, scale=sigma)(np.zeros(integers, np.int64))
    return np.array(drawn, np.int64)


def seeded(rng: np.random.Generator, sigma: float, integers: int) -> Integers:
    """Noise of the right shape from a generator that somebody may know."""
    out = np.empty(integers, np.int64)
    at.discrete_gaussian(rng, sigma, out)
    return out


def door(how: Callable[[Integers, Integers], Integers]) -> Planting:
    """What leaves is made in this way from exact integers and their noise."""

    @instead_of(at.add_noise)
    def planting(
        true: Any, exact: at.Exact, terms: at.Terms, alone: Any, noise: Any, key: Any
    ) -> Any:
        values = how(exact.values, noise.draw(terms, alone, key))
        return at.Noised(at.NoisyIntegers(values), terms)

    return planting


@noise("sigma halved where noise is drawn", r"sigma .*OpenDP")
@game("sigma halved where noise is drawn, seen by the attacker", r"OpenDP")
@secure
def _(sigma: float, integers: int) -> Integers:
    return gaussian(sigma / 2, integers)


@noise("noise reused between two releases", r"the same numbers", "independence")
def _() -> None:
    secure(cache(gaussian))()


@noise("seeded noise reused between the parts of a query", r"the same numbers", "independence")
@instead_of(at.SimulatedNoise.draw)
def _(true: Any, own: at.SimulatedNoise, *how: Any) -> Any:
    *terms, key = how
    return true(own, *terms, key.partition(b" ")[0])


@restarts("noise seeded by time", r"processes: the same numbers")
@secure
def _(sigma: float, integers: int) -> Integers:
    return seeded(np.random.default_rng(time.time_ns()), sigma, integers)


@restarts("noise from a generator that forks share", r"processes: the same numbers")
def _() -> None:
    secure(partial(seeded, np.random.default_rng()))()


@noise("continuous noise, rounded", r"sigma 0.5, OpenDP")
@secure
def _(sigma: float, integers: int) -> Integers:
    return np.rint(np.random.default_rng().normal(0, sigma, integers)).astype(np.int64)


@noise("a sampler biased as OpenDP's was before 0.14.2", r"sigma 2.5, OpenDP", "sigma 2.5")
@secure
def _(sigma: float, integers: int) -> Integers:
    drawn, other = gaussian(sigma, integers), gaussian(sigma, integers)
    scale = int(sigma) + 1
    redrawn = np.random.default_rng().random(integers) < 0.18
    redrawn &= abs(drawn) % scale != scale - 1
    return np.where(redrawn, other, drawn)


for _cut in (2.2, 2.5, 3.5):

    @noise(f"noise cut off at {_cut} sigma", r"tails, OpenDP")
    @secure
    def _(sigma: float, integers: int, cut: float = _cut) -> Integers:
        return np.clip(gaussian(sigma, integers), -int(cut * sigma), int(cut * sigma))


_AGAIN: dict[str, Callable[[Integers], Integers]] = {
    "backwards": lambda half: np.append(half, half[::-1]),
    "in neighbouring cells": lambda half: np.repeat(half, 2),
    "with the other sign": lambda half: np.stack([half, -half], axis=1).ravel(),
}
for _how, _again in _AGAIN.items():

    @noise(f"noise used twice in a vector: {_how}", r"draws used twice, OpenDP")
    @secure
    def _(sigma: float, integers: int, again: Any = _again) -> Any:
        drawn = gaussian(sigma, integers)
        return drawn if integers % 2 else again(drawn[: integers // 2])


@noise("large noise is even", r"sigma 173.2, OpenDP", "sigma 173.2")
@secure
def _(sigma: float, integers: int) -> Integers:
    return gaussian(sigma, integers) if sigma <= 100 else 2 * gaussian(sigma / 2, integers)


@noise("noise of a long vector is repeated after 65,536 draws", r"one long vector", "long vector")
@secure
def _(sigma: float, integers: int) -> Integers:
    return np.resize(gaussian(sigma, min(integers, 65_536)), integers)


@noise("sigma above 2^20 is drawn as 2^20", r"sigma .*, (OpenDP|of a site): ", "large sigmas")
@secure
def _(sigma: float, integers: int) -> Integers:
    return gaussian(min(sigma, 2.0**20), integers)


@noise("noise beyond 4 sigma is drawn again", r"far tails, OpenDP", "far tails")
@secure
def _(sigma: float, integers: int) -> Integers:
    drawn = gaussian(sigma, integers)
    while (far := np.abs(drawn) > 4 * sigma).any():
        drawn[far] = gaussian(sigma, int(far.sum()))
    return drawn


@noise("no noise on zero cells", r"sigma")
@door
def _(exact: Integers, drawn: Integers) -> Integers:
    return np.where(exact == 0, 0, exact + drawn)


@noise("the exact n sent as the total", r"total", "every kind of release")
@door
def _(exact: Integers, drawn: Integers) -> Integers:
    return exact + (exact.size > 1) * drawn


@coupling("a float in the release path", r"a float is in the release path", "the door")
@door
def _(exact: Integers, drawn: Integers) -> Integers:
    return (exact + 0.0 + drawn).astype(np.int64)


def hidden(desk: at.Desk) -> bool:
    """Whether only the sum over sites is seen of what a site answers."""
    return desk.trust.name != "local"


def where_hidden(how: Callable[..., Integers]) -> Planting:
    """A site of whose answers only the sum is seen draws its noise in this way."""

    def release(
        desk: at.Desk, door: Any, exact: Any, terms: Any, alone: Any, own: Any, key: Any
    ) -> Any:
        other = changed(own, draw=partial(how, own)) if hidden(desk) else own
        return door(exact, terms, alone, other, key)

    return lambda: through(at.Desk.answer, at.add_noise, release)


@noise("three columns leave without noise", r"noise of a release: grouped three", "grouped three")
@game(
    "three columns leave without noise, seen by the attacker",
    r"grouped three",
    "grouped three, seeded",
)
def _() -> None:
    def release(desk: at.Desk, door: Any, exact: at.Exact, terms: at.Terms, *how: Any) -> Any:
        if len(terms.attributes) < 3:
            return door(exact, terms, *how)
        return at.Noised(at.NoisyIntegers(exact.values), terms)

    through(at.Desk.answer, at.add_noise, release)


@coupling(
    "three columns leave without noise where they are one cell",
    r"agent: three columns together: .*not what passed the door",
    "agent: three columns",
)
def _() -> None:
    def release(desk: at.Desk, door: Any, exact: at.Exact, terms: at.Terms, *how: Any) -> Any:
        made = door(exact, terms, *how)
        if len(terms.attributes) < 3 or terms.integers > 1:
            return made
        return at.Noised(at.NoisyIntegers(exact.values), terms)

    through(at.Desk.answer, at.add_noise, release)


@hiding(
    "half the noise where only the sum over sites is seen", r"secure-aggregation.* drawn at sigma"
)
def _() -> None:
    def release(desk: at.Desk, door: Any, exact: Any, terms: at.Terms, *how: Any) -> Any:
        used = structs.replace(terms, sigma=terms.sigma / 2) if hidden(desk) else terms
        return replace(door(exact, used, *how), terms=terms)

    through(at.Desk.answer, at.add_noise, release)


@hiding(
    "half the noise added where only the sum over sites is seen",
    r"secure-aggregation.* not the noise of the recorded sigma",
)
@where_hidden
def _(own: Any, *terms: Any) -> Any:
    return own.draw(*terms) // 2


@game(
    "half of OpenDP's noise where only the sum over sites is seen",
    r"sum over sites, OpenDP",
    "sum over sites",
)
@where_hidden
def _(own: Any, terms: at.Terms, *how: Any) -> Any:
    if isinstance(own, at.SecureNoise):
        return gaussian(terms.sigma / 2, terms.integers)
    return own.draw(terms, *how)


@noise("an agent's own noise has a seed", r"agents by default: the same numbers", "by default")
@instead_of(at.Agent.__init__)
def _(true: Any, own: at.Agent, *how: Any, **more: Any) -> None:
    true(own, *how, **{"noise": at.SimulatedNoise(0, "site"), **more})


@noise("a study's own noise has a seed", r"studies by default: the same numbers", "by default")
@instead_of(at.run_study)
def _(true: Any, *how: Any, noise_seed: int | None = None, **more: Any) -> Any:
    return true(*how, noise_seed=noise_seed or 0, **more)


@restarts("an environment variable seeds an agent", r"noise has a seed|processes: the same numbers")
@instead_of(at.Agent.__init__)
def _(true: Any, own: at.Agent, *how: Any, **more: Any) -> None:
    if seed := os.environ.get("HETEROFEDSYN_AGENT_SEED"):
        more["noise"] = at.SimulatedNoise(int(seed), "site")
    true(own, *how, **more)


@restarts("an environment variable seeds all noise, unseen", r"processes: the same numbers")
def _() -> None:
    # Read when the package is imported, and never again.
    seed = stands_in(at.noise, lambda: os.getenv("HETEROFEDSYN_NOISE"))()

    def draw(true: Any, own: at.SecureNoise, *terms: Any) -> Any:
        return true(own, *terms) if seed is None else at.SimulatedNoise(int(seed), "").draw(*terms)

    wrap(at.SecureNoise.draw, draw)


NUMBER_NOT_LOOKED_AT = "the version of OpenDP is not looked at"


@noise(NUMBER_NOT_LOOKED_AT, r"sigma 2.5, OpenDP", "without bias|2.5")
def _() -> None:
    """Harmless by itself: for an OpenDP that is biased."""
    put(at.noise, "_LEAST_OPENDP", (0, 0))
