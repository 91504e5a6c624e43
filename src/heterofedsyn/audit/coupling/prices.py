"""Prices: every rounding goes against us, and what the door and the codec carry stays as it is.

A sum of discrete Gaussians is not one. Its distribution is convolved here and its divergences are
reckoned from that, whatever bound the software takes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from functools import partial

import msgspec
import numpy as np

from heterofedsyn._arrays import Exact, Floats, Integers, stream
from heterofedsyn.audit import oracle
from heterofedsyn.audit.cases import SITES
from heterofedsyn.audit.effort import Effort
from heterofedsyn.audit.findings import Broken, Check, require
from heterofedsyn.audit.fixtures import noise_terms, plain_schema, plan_of, query_of, table_of
from heterofedsyn.audit.patches import patched
from heterofedsyn.errors import HeterofedsynError, PrivacyRefusal
from heterofedsyn.hub import METHODS, make_method
from heterofedsyn.marginals import Total
from heterofedsyn.privacy.budget import Budget, Conversion, together
from heterofedsyn.privacy.noise import (
    NoiseSource,
    SecureNoise,
    SimulatedNoise,
    add_noise,
)
from heterofedsyn.privacy.terms import Noised, NoisyIntegers
from heterofedsyn.privacy.trust import Local, SecureAggregation, Trust
from heterofedsyn.protocol import Answer, Released, decode, encode
from heterofedsyn.simulate.run import run_study
from heterofedsyn.site import Site

_LEAST_SHARE = 1.3
"""Sigma below which a site may not be asked for its share of the noise."""

_ORDERS = (1.05, 1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
_SMALL = 0.1
"""A sigma below which nobody would call anything noise."""

_ALONE = "local-merge"
"""The method that makes a model of every site's own answers."""

_LEAST = 1e-290
"""A probability that floats still hold with all their digits."""


def checks(effort: Effort, seed: int) -> Iterator[Check]:
    """The door and the codec, budgets, shares of noise and who may count on them, guarantees."""
    yield "the door keeps integers", partial(_door, seed)
    yield "lengths of messages", partial(_lengths, seed)
    yield "splits of a budget", partial(_splits, effort, seed)
    yield "sums of shares", partial(_shares, effort, seed)
    yield "methods that need every site's own answer", partial(_methods, seed)
    yield "rho keeps epsilon and delta", partial(_conversions, effort, seed)


def _door(seed: int) -> str:
    """Integers that no float can hold come through the door and the codec unharmed."""
    rng = stream(seed, "door")
    exact = (2**60 + rng.integers(0, 2**20, 2_000) * 2 + 1).astype(np.int64)
    terms, price = noise_terms(1.0, exact.size)
    sources: tuple[NoiseSource, ...] = (SimulatedNoise(seed, "site"), SecureNoise())
    for source in sources:
        noisy = add_noise(Exact(exact), terms, price, source, b"door").values
        require(noisy.dtype == np.int64, f"{noisy.dtype} comes out of the door, not int64")
        arrived = np.frombuffer(decode(_answer(noisy), Answer).parts[0].data, dtype="<i8")
        require(arrived.size == exact.size, "integers of another number arrive")
        # Floats near 2^60 are 256 apart; noise of sigma 1 reaches 20 with a chance below 1e-80.
        require(int(np.abs(arrived - exact).max()) <= 20, "a float is in the release path")
    return f"{exact.size:,} integers above 2^60"


def _lengths(seed: int) -> str:
    """A message is as long whatever integers it holds: none, small, large, all alike."""
    rng = stream(seed, "lengths")
    many = 1_000
    random = rng.integers(-(2**62), 2**62, many)
    contents = [np.full(many, value) for value in (0, 1, -1, 255, 2**31, 2**62, -(2**62))]
    contents += [random, random % 100, np.where(np.arange(many) < many // 2, random, 0)]
    lengths = set()
    for values in contents:
        message = _answer(values.astype(np.int64))
        data = decode(message, Answer).parts[0].data
        require(len(data) == 8 * many, "a part has not 8 bytes for each of its integers")
        lengths.add(len(message))
    require(len(lengths) == 1, "the length of a message depends on its integers")
    return f"{len(contents)} contents, {lengths.pop():,} bytes each"


def _answer(integers: Integers) -> bytes:
    """A message with these integers, as if they were noisy."""
    terms, _ = noise_terms(1.0, integers.size)
    part = Released.of(Noised(NoisyIntegers(integers), terms))
    return encode(Answer(study="", query="", site="", simulated=True, parts=(part,)))


def _splits(effort: Effort, seed: int) -> str:
    """Parts of a budget are together never more than the whole, nor sums less than their parts."""
    rng = stream(seed, "splits")
    for _ in range(effort.prices):
        whole = Budget(float(10 ** rng.uniform(-7, 1)))
        exact = Fraction(whole.rho)
        parts = whole.split(*rng.uniform(0.01, 1, rng.integers(1, 30)).tolist())
        even = whole.evenly(int(rng.integers(1, 60)))
        share = float(rng.random())
        for shares in (parts, even):
            spent = sum((Fraction(part.rho) for part in shares), Fraction(0))
            require(spent <= exact, f"{len(shares)} parts of rho {whole.rho} add up to more")
            require(Fraction(together(shares).rho) >= spent, "a sum of prices was rounded down")
        require(
            Fraction(whole.part(share).rho) <= exact * Fraction(share),
            f"the share {share} of rho {whole.rho} is more than that",
        )
        require(whole.part(whole.share(parts[0])) <= parts[0], "a share of a part is more than it")
    return f"{effort.prices:,} random budgets, none exceeded"


def _conversions(effort: Effort, seed: int) -> str:
    """A plan's epsilon and delta are kept by its rho, by a second computation."""
    rng = stream(seed, "conversions")
    closest = Decimal(0)
    for _ in range(max(10, effort.prices // 100)):
        epsilon, delta = float(10 ** rng.uniform(-1.5, 1.5)), float(10 ** rng.uniform(-12, -4))
        for conversion in Conversion:
            budget = Budget.of(epsilon=epsilon, delta=delta, conversion=conversion)
            exact = oracle.epsilon_of(budget.rho, delta, conversion) * (1 - oracle.LAST_DIGITS)
            require(
                exact <= Decimal(epsilon),
                f"epsilon {epsilon} was promised, but rho {budget.rho} means {exact:.20g} "
                f"({conversion})",
            )
            stated = budget.epsilon(delta, conversion)
            require(
                exact <= Decimal(stated),
                f"rho {budget.rho} is said to mean epsilon {stated}, it means {exact:.20g} "
                f"({conversion})",
            )
            closest = max(closest, exact / Decimal(epsilon))
    return f"at most 1 - {1 - closest:.1e} of epsilon, none above"


def calibrations(effort: Effort, seed: int) -> str:
    """The recorded sigma costs at most what is charged: variances are rounded up, never down."""
    rng = stream(seed, "calibrations")
    closest = Fraction(0)
    for i in range(effort.prices):
        root = math.sqrt(int(rng.integers(1, 10**6)))
        sensitivity = (1.0, math.nextafter(root, math.inf), float(rng.integers(1, 50)))[i % 3]
        budget = Budget(float(10 ** rng.uniform(-6, -1)))
        hidden = _hidden(rng, 12)
        trusts: tuple[Trust, ...] = (Local(hidden.sites), hidden)
        for trust in trusts:
            shared = trust is hidden
            share = sensitivity / math.sqrt(2 * budget.rho * oracle.shares(trust))
            try:
                sigma = trust.site_sigma(sensitivity, budget, 100)
            except PrivacyRefusal:
                require(
                    shared and share < _LEAST_SHARE * (1 + 1e-9),
                    f"noise of sigma {share} a site was refused as too little",
                )
                continue
            require(
                not shared or sigma >= _LEAST_SHARE,
                f"a site adds noise of sigma {sigma} only, hidden in a sum",
            )
            price = oracle.price_of(Fraction(sensitivity) ** 2, sigma, 100, trust)
            require(
                price <= Fraction(budget.rho) <= Fraction(budget.rho),
                f"sigma {sigma} costs more than the rho {budget.rho} that is charged",
            )
            closest = max(closest, price / Fraction(budget.rho))
    return f"{effort.prices:,} calibrations, 1 - {float(1 - closest):.1e} of the charge at most"


def _shares(effort: Effort, seed: int) -> str:
    """What sites add together costs at most what was charged, however small their shares are."""
    rng = stream(seed, "shares of noise")
    answered = refused = 0
    closest = 0.0
    many = max(300, effort.prices // 5)
    for _ in range(many):
        trust = _hidden(rng, 7)
        honest = oracle.shares(trust)
        sigma = float(10 ** rng.uniform(math.log10(_SMALL), 1))
        shift = int(rng.integers(1, 4))
        integers = int(10 ** rng.uniform(0, 5))
        budget = Budget(shift**2 / (2 * honest * sigma**2))
        try:
            sigma = trust.site_sigma(float(shift), budget, integers)
        except PrivacyRefusal:
            refused += 1
            continue
        answered += 1
        # One record may move one integer by all of its sensitivity, or many by a little.
        for moved, by in ((1, shift), (min(integers, shift**2), 1)):
            cost = moved * _cost(sigma, honest, by)
            require(
                cost <= budget.rho * (1 + 1e-9),
                f"{honest} shares of sigma {sigma:.4g} cost rho {cost:.6g} for {moved} "
                f"integers moved by {by}, {budget.rho:.6g} was charged",
            )
            closest = max(closest, cost / budget.rho)
    require(answered > many // 10, "nearly all sums are refused")
    return f"{answered} convolved, {closest:.9f} of the charge at most; {refused} refused"


def _hidden(rng: np.random.Generator, most: int) -> SecureAggregation:
    """Secure aggregation over up to so many sites, with whoever may collude or be missing."""
    sites = int(rng.integers(3, most + 1))
    colluding = int(rng.integers(1, sites - 1))
    quorum = int(rng.integers((sites + colluding) // 2 + 1, sites + 1))
    return SecureAggregation(sites, colluding, quorum)


def _cost(sigma: float, sites: int, shift: int) -> float:
    """The rho of a sum of so many discrete Gaussians, one integer of which moves by this much."""
    mass = _sum_of(sigma, sites)
    one, other = mass[shift:], mass[:-shift]
    seen = (one > _LEAST) & (other > _LEAST)
    logs, ratios = np.log(one[seen]), np.log(one[seen]) - np.log(other[seen])
    most = 0.0
    for order in _ORDERS:
        terms = logs + (order - 1) * ratios
        top = float(terms.max())
        divergence = (top + math.log(float(np.exp(terms - top).sum()))) / (order - 1)
        most = max(most, divergence / order)
    return most


def _sum_of(sigma: float, sites: int) -> Floats:
    """The probabilities of the values of a sum, as far out as floats can tell."""
    reach = math.ceil(38 * sigma) + 2
    values = np.arange(-reach, reach + 1, dtype=np.float64)
    share = np.exp(-(values**2) / (2 * sigma**2))
    share /= share.sum()
    mass = share
    for _ in range(sites - 1):
        mass = np.convolve(mass, share)
    return mass


def _methods(seed: int) -> str:
    """Where nobody may see a single answer, no site is asked by itself, and none is merged."""
    schema = plain_schema(4, 3)
    tables = [table_of(schema, 30, stream(seed, f"rows {name}")) for name in SITES]
    plan = plan_of(schema, seed, *SITES, epsilon=1.0)
    refused = []
    true_answer = Site.answer
    for name, kind in METHODS.items():
        if kind.pools:
            continue
        own = msgspec.structs.replace(plan, method=name, trust=SecureAggregation.name)
        asked: dict[bytes, set[str]] = defaultdict(set)

        def answer(site: Site, message: bytes, asked: dict[bytes, set[str]] = asked) -> bytes:
            asked[message].add(site.name)
            return true_answer(site, message)

        try:
            with patched(Site, answer=answer):
                run_study(schema, own, make_method(name, {}), tables, noise_seed=seed)
        except HeterofedsynError:
            require(not asked, f"{name} began to ask where only sums over sites are seen")
            refused.append(name)
        for sites in asked.values():
            require(len(sites) == len(SITES), f"{name} asks one site where only sums are seen")
    summed = msgspec.structs.replace(plan, trust=SecureAggregation.name)
    site = Site(
        SITES[0], tables[0], summed, SimulatedNoise(seed, SITES[0]), trust=summed.trust_model
    )
    query = msgspec.structs.replace(query_of(summed, Total(), share=0.1), to=SITES[0])
    try:
        site.answer(encode(query))
    except HeterofedsynError:
        pass
    else:
        raise Broken("a site answers a query of its own where only sums over sites are seen")
    require(
        refused == [_ALONE],
        f"where only sums over sites are seen, {' and '.join(refused) or 'nothing'} is refused "
        f"instead of {_ALONE}, which merges what single sites say",
    )
    return f"{_ALONE} refused"
