"""Whether the figures of a receipt contradict each other, whoever signed them."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from msgspec import UNSET

from heterofedsyn.errors import HeterofedsynError, PrivacyRefusal
from heterofedsyn.privacy.budget import Budget, together
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.privacy.trust import SecureAggregation

if TYPE_CHECKING:
    from heterofedsyn.site.receipt import HiddenAnswer, HiddenStudy, Receipt, ReleasedAnswer


_HASH = re.compile(r"[0-9a-f]{64}")


def add_up(receipt: Receipt) -> bool:
    """Whether all figures of a receipt agree with each other."""
    try:
        return _sums_hold(receipt) and _answers_hold(receipt)
    except (HeterofedsynError, ArithmeticError):  # no amount, delta or trust model at all
        return False


def _sums_hold(receipt: Receipt) -> bool:
    """Whether charges cover their parts, add up, and mean the epsilons that are stated.

    After a repair a query may have been charged again, never under one number.
    """
    numbers = [released.number for released in receipt.releases]
    if len({*numbers}) != len(numbers):
        return False
    delta, conversion = receipt.delta, receipt.conversion
    allowed = Budget.of(epsilon=receipt.epsilon, delta=delta, conversion=conversion)
    spent = together(Budget(released.rho) for released in receipt.releases)
    covered = all(
        together(Budget(part.rho) for part in released.parts) <= Budget(released.rho)
        for released in receipt.releases
    )
    return (
        covered
        and spent.rho == receipt.spent_rho <= receipt.rho
        and _same(allowed.rho, receipt.rho)
        and _same(spent.epsilon(delta, conversion), receipt.spent_epsilon)
    )


def _answers_hold(receipt: Receipt) -> bool:
    """Whether each answer is what the study's trust model makes it."""
    study = receipt.aggregation
    if study is UNSET:
        return receipt.trust != SecureAggregation.name and all(
            _is_plain(released) for released in receipt.releases
        )
    trust = SecureAggregation(len({*study.sites}), study.colluding, study.quorum)
    spent = together(_alone(released) for released in receipt.releases)
    return (
        receipt.trust == trust.name
        and len(study.sites) == trust.sites
        and receipt.site in study.sites
        and spent.rho == study.spent_rho_alone
        and _same(spent.epsilon(receipt.delta, receipt.conversion), study.spent_epsilon_alone)
        and all(_is_hidden(released, receipt.site, study, trust) for released in receipt.releases)
    )


def _is_plain(released: ReleasedAnswer) -> bool:
    """Whether noise protects by itself, at its own price."""
    return (
        released.rho_alone is UNSET
        and released.hidden is UNSET
        and all(_is_noisy(part) and _same(part.price_of_noise, part.rho) for part in released.parts)
    )


def _is_hidden(
    released: ReleasedAnswer, site: str, study: HiddenStudy, trust: SecureAggregation
) -> bool:
    """Whether an answer costs what is said, hidden and seen by itself, and in which sum it is."""
    if not all(_is_noisy(part) and _is_share(part, trust) for part in released.parts):
        return False
    alone = _alone(released)
    seen = math.fsum(part.price_of_noise for part in released.parts)
    if alone < Budget(released.rho) or not _at_most(seen, alone.rho):
        return False
    if not _same(alone.rho, released.rho * trust.honest):
        return False
    if released.answer is None:
        return released.hidden is UNSET
    return (
        bool(released.parts)
        and released.hidden is not UNSET
        and _is_summed(released.hidden, site, study)
    )


def _is_summed(hidden: HiddenAnswer, site: str, study: HiddenStudy) -> bool:
    """Whether an answer was signed for in at most one sum, a large enough one that it is in."""
    if not hidden.set:
        return not (hidden.sites or hidden.opened or hidden.outside)
    within, outside = {*hidden.sites}, {*study.sites} - {*hidden.sites}
    return (
        _HASH.fullmatch(hidden.set) is not None
        and site in within <= {*study.sites}
        and len(hidden.sites) == len(within) >= study.quorum
        and (hidden.opened or not hidden.outside)
        and (not hidden.opened or hidden.outside == tuple(sorted(outside)))
    )


def _is_share(part: Terms, trust: SecureAggregation) -> bool:
    """Whether the sites that surely add noise add what the price buys, together.

    A receipt does not tell how many integers one record moves: at least one, at most all.
    """
    least = part.price_of_noise / trust.honest + trust.slack(part.sigma, part.sensitivity, 1)
    try:
        most = trust.site_sigma(part.sensitivity, Budget(part.rho), part.integers)
    except PrivacyRefusal:  # only if one record moves so many, which it then does not
        most = math.inf
    return _at_most(least, part.rho) and _at_most(part.sigma, most)


def _is_noisy(part: Terms) -> bool:
    return part.sensitivity > 0 and part.sigma > 0


def _alone(released: ReleasedAnswer) -> Budget:
    return Budget(released.rho if released.rho_alone is UNSET else released.rho_alone)


def _same(one: float, other: float) -> bool:
    """Whether two figures are equal up to what another machine may round."""
    return math.isclose(one, other, rel_tol=1e-9)


def _at_most(one: float, other: float) -> bool:
    return one <= other or _same(one, other)
