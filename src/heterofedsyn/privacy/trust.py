"""Trust models: who sees a site's message, and so how much noise the site itself must add."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

from heterofedsyn.errors import PrivacyRefusal, UsageError, did_you_mean
from heterofedsyn.privacy.budget import Budget, sigma_for

SMALLEST_SHARE = 1.3
"""Under secure aggregation a site's own sigma must reach this; the slack is known to hold there."""

LEAST_SITES = 3
"""Of a sum that hides anybody from the others in it."""

_ROUNDING = 1e-9
"""More than the roundings of a slack, relative to it: its exponents are below 750."""

_TINY = 2.0**-1000
"""More than what underflows in a slack."""


class Trust(Protocol):
    """What protects a record: the noise of its own site, or that of the sum over sites."""

    name: ClassVar[str]

    @property
    def sites(self) -> int:
        """How many sites take part."""
        ...

    @property
    def variance_factor(self) -> float:
        """V: the variance of the sum over sites in units of the protecting variance."""
        ...

    @property
    def alone_factor(self) -> float:
        """How many times its price a message costs if somebody sees it by itself."""
        ...

    def site_sigma(
        self, sensitivity: float, budget: Budget, integers: int, l1: float | None = None
    ) -> float:
        """The noise one site adds so that its release costs at most the budget.

        Args:
            sensitivity: how far one record can move the release (L2).
            integers: how many integers it moves at most.
            l1: by how much in all (L1); if not given, what the other two allow.
        """
        ...


@dataclass(frozen=True)
class Local:
    """Everyone may see every message: each site protects its records by itself."""

    name: ClassVar[str] = "local"
    sites: int

    @property
    def variance_factor(self) -> float:
        return self.sites

    @property
    def alone_factor(self) -> float:
        return 1.0

    def site_sigma(
        self, sensitivity: float, budget: Budget, integers: int, l1: float | None = None
    ) -> float:
        return sigma_for(sensitivity, budget)


@dataclass(frozen=True)
class SecureAggregation:
    """Only sums over at least `quorum` sites are ever seen, though `colluding` sites tell the hub.

    Each site adds a share of the noise: that of the honest sites which every sum has, at least
    `honest` of them, protects a record as declared. More noise costs nothing more.

    Attributes:
        colluding: sites that pool what they know, with the hub or without; its own is one of them.
        quorum: sites that must be in a sum; all of them unless given.
    """

    name: ClassVar[str] = "secure-aggregation"
    sites: int
    colluding: int = 1
    quorum: int = 0

    def __post_init__(self) -> None:
        if self.quorum == 0:
            object.__setattr__(self, "quorum", self.sites)
        if self.sites < LEAST_SITES:
            raise UsageError(
                f"secure aggregation needs at least {LEAST_SITES} sites, not {self.sites}: of a "
                "sum over two each knows the other's part; use trust 'local'"
            )
        if not 1 <= self.colluding <= self.sites - 2:
            raise UsageError(
                f"colluding ({self.colluding}) must be in 1..{self.sites - 2}: of {self.sites} "
                "sites at least two must be honest"
            )
        if self.quorum > self.sites:
            raise UsageError(
                f"quorum ({self.quorum}) must be in {self.signatures}..{self.sites}: there are no "
                "more sites"
            )
        if self.quorum < self.signatures:
            raise UsageError(
                f"quorum ({self.quorum}) must be in {self.signatures}..{self.sites} where "
                f"{self.colluding} of {self.sites} sites may collude: with fewer a hub could form "
                "two sums whose difference tells of one site"
            )

    @property
    def honest(self) -> int:
        """Sites that add noise to every sum which nobody else knows."""
        return self.quorum - self.colluding

    @property
    def signatures(self) -> int:
        """Members that must sign the set of a sum: any two such groups share an honest site."""
        return (self.sites + self.colluding) // 2 + 1

    @property
    def shares(self) -> int:
        """Shares that open a self mask: one more than those who collude have."""
        return self.colluding + 1

    @property
    def variance_factor(self) -> float:
        return self.sites / self.honest

    @property
    def alone_factor(self) -> float:
        return float(self.honest)

    def site_sigma(
        self, sensitivity: float, budget: Budget, integers: int, l1: float | None = None
    ) -> float:
        # More noise has less slack, so one step is enough: what the slack of the least noise takes
        # from the budget covers the slack of the noise that the rest buys.
        first = self._share(sensitivity, budget)
        slack = self.slack(first, sensitivity, integers, l1)
        if slack >= budget.rho:
            raise self._refusal(first)
        return self._share(sensitivity, budget.less(slack))

    def dearest(self, sensitivity: float) -> Budget:
        """The most that a release can cost: with more, a site's own noise would be too little."""
        least = SMALLEST_SHARE * (1 + 1e-6)
        return Budget(sensitivity**2 / (2 * self.honest * least**2))

    def slack(
        self, sigma: float, sensitivity: float, integers: int, l1: float | None = None
    ) -> float:
        """What a sum of discrete Gaussians of this sigma costs beyond one Gaussian; rounded up.

        Kairouz, Liu and Steinke (2021), MATH section 1: with tau from the n sites that surely add
        noise, D integers moved, and l2, l1 in units of sqrt(n) sigma, a sum costs
        min{l2^2 / 2 + tau D, (l2^2 + 2 l1 tau + tau^2 D) / 2, (l2 + sqrt(D) tau)^2 / 2}.
        """
        n = self.honest
        # Never 0, though the exponential of a large sigma is: the sum is not quite a Gaussian.
        tau = max(_TINY, 10 * math.fsum(_overlap(sigma, k) for k in range(1, n)))
        scale = math.sqrt(n) * sigma
        most = math.sqrt(integers) * sensitivity  # L1 is no more, by Cauchy and Schwarz
        near = tau * (most if l1 is None else min(most, l1)) / scale
        return min(tau * integers, near + tau**2 * integers / 2) * (1 + _ROUNDING) + _TINY

    def _share(self, sensitivity: float, budget: Budget) -> float:
        sigma = sigma_for(sensitivity, budget) / math.sqrt(self.alone_factor) * (1 + 1e-15)
        if sigma < SMALLEST_SHARE:
            raise self._refusal(sigma)
        return sigma

    def _refusal(self, sigma: float) -> PrivacyRefusal:
        return PrivacyRefusal(
            f"secure aggregation over {self.sites} sites would leave each with noise of sigma "
            f"{sigma:.3g}, below {SMALLEST_SHARE:g}: too little for the sum to be private; "
            "lower epsilon, take fewer sites, or use trust 'local'"
        )


def _overlap(sigma: float, k: int) -> float:
    """How far k + 1 discrete Gaussians are from one that is wider, in units of tau / 10."""
    return math.exp(-2 * math.pi**2 * sigma**2 * k / (k + 1))


TRUST_MODELS = (Local.name, SecureAggregation.name)


def trust_model(name: str, sites: int, *, colluding: int = 1, quorum: int = 0) -> Trust:
    """The trust model of this name for a number of sites; the rest is for secure aggregation."""
    if name == Local.name:
        return Local(sites)
    if name == SecureAggregation.name:
        return SecureAggregation(sites, colluding, quorum)
    raise UsageError(f"there is no trust model {name!r}; {did_you_mean(name, TRUST_MODELS)}")
