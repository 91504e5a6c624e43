"""Sums over sites: whether the noise of all shares together protects a record as it is priced.

A sum of discrete Gaussians is not one. Its distribution is convolved here and its divergences are
reckoned from that, whatever bound the software takes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from unittest import mock

import msgspec
import numpy as np

from heterofedsyn._arrays import Floats, stream
from heterofedsyn.audit.effort import Effort
from heterofedsyn.audit.exhibit import plain_schema, plan_of, table_of
from heterofedsyn.audit.findings import Check, Finding, require
from heterofedsyn.audit.subject import SITES
from heterofedsyn.errors import HeterofedsynError, PrivacyRefusal
from heterofedsyn.hub import METHODS, make_method
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.trust import SecureAggregation
from heterofedsyn.simulate.run import run_study
from heterofedsyn.site import Site

_ORDERS = (1.05, 1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
_SMALL = 0.1
"""A sigma below which nobody would call anything noise."""

_ALONE = "local-merge"
"""The method that makes a model of every site's own answers."""

_LEAST = 1e-290
"""A probability that floats still hold with all their digits."""


def checks(effort: Effort, seed: int) -> Iterator[Check]:
    """Shares of noise, and who may count on them."""
    yield "sums of shares", partial(_shares, effort, seed)
    yield "methods that need every site's own answer", partial(_methods, seed)


def _shares(effort: Effort, seed: int) -> Iterator[Finding]:
    """What sites add together costs at most what was charged, however small their shares are."""
    rng = stream(seed, "shares of noise")
    answered = refused = 0
    closest = 0.0
    many = max(300, effort.prices // 5)
    for _ in range(many):
        sites = int(rng.integers(2, 7))
        sigma = float(10 ** rng.uniform(math.log10(_SMALL), 1))
        shift = int(rng.integers(1, 4))
        integers = int(10 ** rng.uniform(0, 5))
        budget = Budget(shift**2 / (2 * sites * sigma**2))
        try:
            share = SecureAggregation(sites).site_sigma(float(shift), budget, integers)
        except PrivacyRefusal:
            refused += 1
            continue
        answered += 1
        # One record may move one integer by all of its sensitivity, or many by a little.
        for moved, by in ((1, shift), (min(integers, shift**2), 1)):
            cost = moved * _cost(share, sites, by)
            require(
                cost <= budget.rho * (1 + 1e-9),
                f"{sites} shares of sigma {share:.4g} cost rho {cost:.6g} for {moved} "
                f"integers moved by {by}, {budget.rho:.6g} was charged",
            )
            closest = max(closest, cost / budget.rho)
    require(answered > many // 10, "nearly all sums are refused")
    yield Finding(
        "sums of shares",
        True,
        f"{answered} convolved, {closest:.9f} of the charge at most; {refused} refused",
    )


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


def _methods(seed: int) -> Iterator[Finding]:
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
            with mock.patch.object(Site, "answer", answer):
                run_study(schema, own, make_method(name, {}), tables, noise_seed=seed)
        except HeterofedsynError:
            require(not asked, f"{name} began to ask where only sums over sites are seen")
            refused.append(name)
        for sites in asked.values():
            require(len(sites) == len(SITES), f"{name} asks one site where only sums are seen")
    require(
        refused == [_ALONE],
        f"where only sums over sites are seen, {' and '.join(refused) or 'nothing'} is refused "
        f"instead of {_ALONE}, which merges what single sites say",
    )
    yield Finding("methods that need every site's own answer", True, f"{_ALONE} refused")
