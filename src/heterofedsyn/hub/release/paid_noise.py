"""Whether the noise of a release was paid for: its charges by themselves, and the model by them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import msgspec
import numpy as np

from heterofedsyn.errors import HeterofedsynError, ReleaseError
from heterofedsyn.hub.methods import METHODS
from heterofedsyn.hub.methods.base import Model
from heterofedsyn.hub.quorum import MOST_FACTOR
from heterofedsyn.hub.release.run_record import RunRecord
from heterofedsyn.hub.release.statement import (
    PrivacyStatement,
    SiteAccount,
    SiteCharge,
    spent_on,
)
from heterofedsyn.marginals.sketch import SketchKind
from heterofedsyn.marginals.statistics import (
    MOST_CELLS,
    Dependence,
    Flat,
    Grouped,
    Haar,
    Sketched,
    Statistic,
    Total,
    kind_of,
)
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.privacy.trust import SecureAggregation
from heterofedsyn.protocol import Plan
from heterofedsyn.protocol.limits import MOST_WORK
from heterofedsyn.protocol.terms import guaranteed, terms_at
from heterofedsyn.schema import Domain
from heterofedsyn.synthesis import Measurement, Targets

CLOSE = 1e-6
"""Relative rounding between versions of the software."""


def check_charges(statement: PrivacyStatement, run: RunRecord, plan: Plan, domain: Domain) -> None:
    """Refuse charges that do not follow from each other.

    What a part is of tells its sensitivity and number of integers, these and its price the noise;
    a charge is the sum of its parts, and a site was charged what its parts cost jointly.

    Raises:
        ReleaseError: naming the first figure that is wrong.
    """

    @cache  # most sites were charged for the same
    def spent(charges: tuple[SiteCharge, ...]) -> float:
        for charge in charges:
            if not same(spent_on([charge]).rho, charge.rho):
                raise ReleaseError("rho of a charge is not what its parts cost")
        return spent_on(charges).rho

    parts = {
        part for account in statement.sites for charge in account.charges for part in charge.parts
    }
    left = MOST_WORK
    for part in sorted(parts, key=lambda part: part.attributes):
        statistic = _statistic(part, run, domain)
        if isinstance(statistic, Sketched) and statistic.kind is SketchKind.GAUSSIAN:
            left -= statistic.work(domain)  # its sensitivity is only known once it is drawn
        _check_part(part, statistic, plan, domain, draw=left >= 0)
    for account in statement.sites:
        if not same(spent(account.charges), account.rho):
            raise ReleaseError("a site's rho is not what its charges cost")


def check_noise(model: Model, statement: PrivacyStatement, run: RunRecord, plan: Plan) -> None:
    """Refuse a model whose noise is not that for which sites were charged, or by other rounds.

    Raises:
        ReleaseError: saying what does not agree.
    """
    heard = _heard(model, statement, run, plan)
    many = len(model.targets)
    if len(heard) != many:
        raise ReleaseError(f"the model has {many:,} populations, but {len(heard):,} sites answered")
    for targets, rounds in zip(model.targets, heard, strict=True):
        _check_targets(targets, rounds)
    _check_totals(statement, run)


@dataclass(frozen=True)
class _Round:
    """One round as the records tell it.

    Attributes:
        parts: on which terms it was answered.
        times: the variance of its sums in units of the stated one.
    """

    parts: tuple[Terms, ...]
    times: float


def _heard(
    model: Model, statement: PrivacyStatement, run: RunRecord, plan: Plan
) -> list[list[_Round]]:
    """The rounds of each population."""
    if isinstance(plan.trust_model, SecureAggregation):
        return [_summed(statement, run, plan.trust_model)] * len(model.targets)
    known = METHODS.get(run.method)
    if len(model.targets) > 1 if known is None else not known.sums:
        return _apart(statement, run)
    return [_together(statement, run)] * len(model.targets)


def _summed(statement: PrivacyStatement, run: RunRecord, trust: SecureAggregation) -> list[_Round]:
    """Every site was charged for every sum, whoever is in it."""
    charges = statement.sites[0].charges
    if any(account.charges != charges for account in statement.sites):
        raise ReleaseError("sites were charged for other queries than each other")
    if run.differences:
        raise ReleaseError("differences tell of single sites, but only sums were seen")
    sums = statement.sums or ()
    apart = {number for number, each in enumerate(sums, start=1) if each.sites != sums[0].sites}
    factors = _factors(run, charges, apart, least=1 / MOST_FACTOR)
    return [
        _Round(charge.parts, len(each.sites) / trust.honest * factors[number] ** 2)
        for number, (charge, each) in enumerate(zip(charges, sums, strict=True), start=1)
    ]


def _together(statement: PrivacyStatement, run: RunRecord) -> list[_Round]:
    """All sites get the same queries; who misses one is charged for it, and not asked again."""
    missing = {each.site for each in run.missed or ()}
    charges = max((account.charges for account in statement.sites), key=len)
    missed: list[tuple[str, int, str]] = []
    answers = [0] * len(charges)
    for account in statement.sites:
        asked, gone = len(account.charges), account.site in missing
        if account.charges != charges[:asked] or not (gone or asked == len(charges)):
            raise ReleaseError("sites were charged for other queries than each other")
        for place in range(asked - gone):
            answers[place] += 1
        if gone:
            after = [*enumerate(charges, start=1)][max(0, asked - 1) :]
            missed += [(account.site, number, charge.label) for number, charge in after]
    _check_missed(run, missed)
    few = {number for number, many in enumerate(answers, start=1) if many < len(statement.sites)}
    factors = _factors(run, charges, few, least=1.0)
    return [
        _Round(charge.parts, many * factors[number] ** 2)
        for number, (charge, many) in enumerate(zip(charges, answers, strict=True), start=1)
    ]


def _apart(statement: PrivacyStatement, run: RunRecord) -> list[list[_Round]]:
    """Each site is asked by itself, one after the other; who misses a query gets no more."""
    missing = {each.site for each in run.missed or ()}
    heard, missed, number = [], [], 0
    for account in sorted(statement.sites, key=lambda account: account.site):
        number += len(account.charges)
        if account.site not in missing:
            heard.append([_Round(charge.parts, 1.0) for charge in account.charges])
        elif account.charges:
            missed.append((account.site, number, account.charges[-1].label))
    _check_missed(run, missed)
    _factors(run, (), set(), least=1.0)
    return heard


def _check_missed(run: RunRecord, missed: Sequence[tuple[str, int, str]]) -> None:
    said = [(each.site, each.round, each.label) for each in run.missed or ()]
    if Counter(said) != Counter(missed):
        raise ReleaseError("missed is not what the charges of privacy.json tell")


def _factors(
    run: RunRecord, charges: Sequence[SiteCharge], possible: set[int], *, least: float
) -> dict[int, float]:
    """By which the sums of each round were multiplied; only those without all sites may have been.

    The totals of which a factor is the ratio are not in a release, so it is taken as it is.
    """
    factors = dict.fromkeys(range(1, len(charges) + 1), 1.0)
    for each in run.scaled or ():
        if each.round not in possible or charges[each.round - 1].label != each.label:
            raise ReleaseError("scaled names a round that needs no factor")
        if not least <= each.factor <= MOST_FACTOR:
            raise ReleaseError("a factor is impossible")
        if factors[each.round] != 1:
            raise ReleaseError("scaled names a round twice")
        factors[each.round] = each.factor
    return factors


def _check_targets(targets: Targets, rounds: Sequence[_Round]) -> None:
    """Each measurement is the sum of answers to a part, in the order in which they were asked."""
    paid = iter([(part, round_.times) for round_ in rounds for part in round_.parts])
    for measurement in targets.measurements:
        if not any(_is_of(measurement, part, times, targets.domain) for part, times in paid):
            raise ReleaseError("the model's noise is not what sites were charged for")


def _is_of(measurement: Measurement, part: Terms, times: float, domain: Domain) -> bool:
    statistic = measurement.statistic
    return (
        kind_of(statistic) == part.kind
        and statistic.attributes == part.attributes
        and statistic.integers(domain) == part.integers
        and same(measurement.noisy.variance, part.sigma**2 * times)
    )


def _check_totals(statement: PrivacyStatement, run: RunRecord) -> None:
    """The noisy totals of sites have the error that charges tell, and add up to that of all."""
    accounts = {account.site: account for account in statement.sites}
    for summary in run.differences:
        if not same(summary.total_error, total_error(accounts[summary.site])):
            raise ReleaseError("total_error is not what the charges of privacy.json tell")
    totals = [summary.total for summary in run.differences]
    apart = abs(sum(totals) - run.noisy_total)
    clear = len(totals) == len(run.sites) and not run.missed and min(totals) > 1
    if clear and apart > len(totals) / 2 + 1:  # each of them was rounded
        raise ReleaseError("the totals of sites do not add up to noisy_total")


def total_error(account: SiteAccount) -> float:
    """The standard error of what a site told of its number of records."""
    precisions = [
        1 / (part.sigma**2 * part.integers)
        for charge in account.charges
        for part in charge.parts
        if part.kind in _TELLING and len(part.attributes) < 2
    ]
    return 1 / math.sqrt(math.fsum(precisions)) if precisions else 0.0


_TELLING = {str(kind.__struct_config__.tag) for kind in (Flat, Total, Grouped) if kind.partitions}


def _statistic(part: Terms, run: RunRecord, domain: Domain) -> Statistic:
    """What a part is of, as far as its terms hang on it.

    Raises:
        ReleaseError: if there is nothing that it could be of.
    """
    try:
        if part.kind == kind_of(Total()):
            return msgspec.convert({"attributes": part.attributes}, Total)
        if domain.clique(*part.attributes) != part.attributes:
            raise ValueError
        return _of_columns(part, run, domain)
    except (HeterofedsynError, msgspec.ValidationError, ValueError):
        raise ReleaseError("a charge is for what no site can be asked for") from None


def _of_columns(part: Terms, run: RunRecord, domain: Domain) -> Statistic:
    names, integers = part.attributes, part.integers
    statistic: Flat | Dependence | Haar | Sketched
    match part.kind:
        case "grouped":
            return Grouped(names, _groups(integers, domain.shape(names)))
        case "flat":
            statistic = Flat(names)
        case "dependence":
            statistic = Dependence(names)
        case "haar":
            (name,) = names
            statistic = Haar((name,), integers.bit_length() - 1)
        case "sketch":
            kind = SketchKind(str(run.settings.get("sketch", SketchKind.SIGNS.value)))
            statistic = Sketched(names, integers, run.seed, kind)
        case _:
            raise ValueError
    statistic.check(domain)
    return statistic


@lru_cache(maxsize=4096)
def _groups(cells: int, sizes: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Of maps by which values of these numbers merge into so many cells, the last group alone."""
    if not 1 <= cells <= MOST_CELLS:
        raise ValueError
    small = np.arange(1, math.isqrt(cells) + 1)
    small = small[cells % small == 0]
    sides = np.union1d(small, cells // small)
    one, other = sides[:, None], sides[None, :]
    last = cells // (one * other)
    first, second, third = (*sizes, 1, 1)[:3]
    fits = (one <= first) & (other <= second) & (last <= third) & (one * other * last == cells)
    if not fits.any():
        raise ValueError
    found = np.argwhere(fits)[0]
    groups = (*sides[found].tolist(), int(last[tuple(found)]))
    return tuple((many - 1,) for many in groups[: len(sizes)])


def _check_part(
    part: Terms, statistic: Statistic, plan: Plan, domain: Domain, *, draw: bool
) -> None:
    """Refuse a part that was not released as its price demands.

    Args:
        draw: whether a sketch may be drawn to know how far a record moves it.
    """
    if isinstance(statistic, Sketched) and not draw:
        most = statistic.most_sensitivity(domain) * plan.rows_per_unit
        holds = part.sensitivity <= most and part.rho >= (1 - CLOSE) * part.price_of_noise
    else:
        try:
            terms = terms_at(statistic, Budget(part.rho), domain, plan)
        except HeterofedsynError:
            raise ReleaseError(
                "a part of a charge has a price for which there is no noise"
            ) from None
        terms = guaranteed(terms, plan.trust_model)
        holds = (
            part.integers == terms.integers
            and same(part.sensitivity, terms.sensitivity)
            and same(part.sigma, terms.sigma)
        )
    if not holds:
        raise ReleaseError("a part of a charge was not released as its price demands")


def same(one: float, other: float) -> bool:
    """Whether two figures are equal up to rounding."""
    return math.isclose(one, other, rel_tol=CLOSE)
