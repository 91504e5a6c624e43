"""Trust models: who sees a site's message, and so how much noise the site itself must add."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

from heterofedsyn.errors import PrivacyRefusal, UsageError, did_you_mean
from heterofedsyn.privacy.budget import Budget, sigma_for

SMALLEST_SHARE = 2.0
"""Under secure aggregation a site's own sigma must reach this; MATH section 1."""


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

    def site_sigma(self, sensitivity: float, budget: Budget, integers: int) -> float:
        """The noise one site adds so that its release costs at most the budget."""
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

    def site_sigma(self, sensitivity: float, budget: Budget, integers: int) -> float:
        return sigma_for(sensitivity, budget)


@dataclass(frozen=True)
class SecureAggregation:
    """Only the sum over sites is ever seen; `absent` sites may drop out or collude."""

    name: ClassVar[str] = "secure-aggregation"
    sites: int
    absent: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.absent < self.sites:
            raise UsageError(f"absent must be at least 0 and below {self.sites} sites")

    @property
    def variance_factor(self) -> float:
        return self.sites / self.alone_factor

    @property
    def alone_factor(self) -> float:
        return float(self.sites - self.absent)

    def site_sigma(self, sensitivity: float, budget: Budget, integers: int) -> float:
        # The sum of discrete Gaussians is not quite one: Kairouz, Liu and Steinke (2021) price the
        # difference at slack * integers / 4. More noise has less slack, so one step is enough.
        first = self._share(sensitivity, budget)
        slack = self._slack(first) * integers / 4
        if slack >= budget.rho:
            raise self._refusal(first)
        return self._share(sensitivity, Budget(budget.rho - slack))

    def _share(self, sensitivity: float, budget: Budget) -> float:
        sigma = sigma_for(sensitivity, budget) / math.sqrt(self.alone_factor) * (1 + 1e-15)
        if sigma < SMALLEST_SHARE:
            raise self._refusal(sigma)
        return sigma

    def _slack(self, sigma: float) -> float:
        if self.sites == 1:
            return 0.0
        steps = range(1, self.sites)
        return 10 * sum(math.exp(-2 * math.pi**2 * sigma**2 * k / (k + 1)) for k in steps)

    def _refusal(self, sigma: float) -> PrivacyRefusal:
        return PrivacyRefusal(
            f"secure aggregation over {self.sites} sites would leave each with noise of sigma "
            f"{sigma:.3g}, below {SMALLEST_SHARE:g}: too little for the sum to be private; "
            "lower epsilon, take fewer sites, or use trust 'local'"
        )


TRUST_MODELS: dict[str, type[Local] | type[SecureAggregation]] = {
    model.name: model for model in (Local, SecureAggregation)
}


def trust_model(name: str, sites: int) -> Trust:
    """The trust model of this name for a number of sites."""
    if name not in TRUST_MODELS:
        raise UsageError(f"there is no trust model {name!r}; {did_you_mean(name, TRUST_MODELS)}")
    return TRUST_MODELS[name](sites)
