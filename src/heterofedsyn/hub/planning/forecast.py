"""What a study would do and how well, from public facts alone: nothing is read, nothing is spent.

Noise follows from schema, budget and trust model exactly. Errors are expected ones: columns are
invented and rebuilt after exactly that noise (see `trial`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import NormalDist

import msgspec
import numpy as np

from heterofedsyn.errors import PrivacyRefusal, UsageError
from heterofedsyn.hub.methods.base import Setting
from heterofedsyn.hub.methods.wavetree import Mode, WaveTree, most_groups, waved
from heterofedsyn.hub.planning.preview import Weight
from heterofedsyn.hub.planning.trial import Bench, Ladder, Trial, studies
from heterofedsyn.marginals.statistics import (
    Flat,
    Grouped,
    Haar,
    Statistic,
    Total,
    haar_levels,
    kind_of,
    moves,
)
from heterofedsyn.privacy.budget import Budget, together
from heterofedsyn.privacy.trust import SecureAggregation
from heterofedsyn.protocol import Plan
from heterofedsyn.schema import CategoricalColumn, Clique, Column, Schema

EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Budgets to compare."""

MOST_PLANNED = 10**12
"""Rows that a plan can be made for."""

LOW = 0.5
"""Pairs come out at best so much better than independent invented columns do."""

HIGH = 1.25
"""Pairs come out at worst so much worse than strongly dependent invented columns do."""

SPAN = 4.0
"""The most by which the ends of a range differ."""

MODES = ("full", "star", "independent")


@dataclass(frozen=True)
class Planned:
    """One release: what a site would add to every integer, and what that means for the sum."""

    kind: str
    attributes: Clique
    level: int | None
    sensitivity: float
    site_sigma: float
    sum_sigma: float
    rho: float
    integers: int


@dataclass(frozen=True)
class Stage:
    """One round of questions.

    Attributes:
        fixed: whether it is known in advance to the last integer; else integers and bytes are the
            most there can be, and noise is that of as many releases as planned.
        bytes: of one site's answer.
    """

    label: str
    fixed: bool
    releases: int
    integers: int
    rho: float
    bytes: int
    parts: tuple[Planned, ...]


@dataclass(frozen=True)
class ColumnForecast:
    """What would be known of one column.

    Attributes:
        values: codes, an added one for the minimum included.
        way: `flat` counts, or `haar` differences from the root to single values.
        sum_sigma: noise on the sum over sites, of the first and of the last of its releases.
        noise: on the count of one value, before anything is smoothed.
        typical: rows per value.
        groups: in pairs, on average over invented studies; None if no pair is measured.
        one_way: expected total variation; None if the schema is too wide to look at each column.
        enough: how many bins (or values) the budget can tell apart, if fewer than there are; 1 is
            none.
    """

    name: str
    values: int
    way: str
    sum_sigma: tuple[float, float]
    noise: float
    typical: float
    groups: float | None
    one_way: float | None
    enough: int | None


@dataclass(frozen=True)
class Outlook:
    """What to expect of one budget.

    Attributes:
        mode: with the expected number of rows; `refused` if the trust model would not allow it.
        chances: of each mode, since the rule sees a noisy number of rows.
        resolution: groups per attribute that would stand out of the noise.
        groups: of an attribute, on average over invented studies.
        one_way: expected total variation of a 1-way, mean over columns.
        two_way: between what and what that of a pair will lie.
    """

    epsilon: float
    rho: float
    mode: str
    chances: dict[str, float]
    resolution: float
    pairs: int
    groups: float | None
    one_way: float | None
    two_way: tuple[float, float] | None


@dataclass(frozen=True)
class Threshold:
    """From where on at least a mode is chosen, all else being equal; None if never.

    Attributes:
        groups: per attribute that would stand out of the noise if it were chosen.
        needed: from how many groups on it is.
    """

    mode: str
    groups: float
    needed: float
    epsilon: float | None
    rows: int | None


@dataclass(frozen=True)
class Forecast:
    """A study before it starts."""

    rows: int
    sites: int
    trust: str
    epsilon: float
    delta: float
    conversion: str
    rho: float
    rows_per_unit: int
    stages: tuple[Stage, ...]
    columns: tuple[ColumnForecast, ...]
    outlook: Outlook
    others: tuple[Outlook, ...]
    thresholds: tuple[Threshold, ...]
    advice: tuple[str, ...]


def forecast(
    schema: Schema,
    plan: Plan,
    method: WaveTree,
    rows: int,
    *,
    epsilons: Sequence[float] = EPSILONS,
    seed: int = 0,
) -> Forecast:
    """What a study by this plan would do with so many rows over all sites.

    Args:
        schema: the public schema, as it is in the file.
        epsilons: other budgets to compare with.
        seed: of the invented columns; the same seed gives the same figures.

    Raises:
        UsageError: if the number of rows is none that a study could have.
        PrivacyRefusal: if the trust model or the budget would not allow it.
    """
    if not 1 <= rows <= MOST_PLANNED:
        raise UsageError(f"rows ({rows}) must be in 1..{MOST_PLANNED}")
    own = _Draft(schema, plan, method, rows, seed)
    trials = own.trials()
    outlook = own.outlook(trials)
    others = tuple(
        outlook if epsilon == plan.epsilon else _elsewhere(own, epsilon)
        for epsilon in sorted({*epsilons, plan.epsilon})
    )
    columns = own.columns(trials)
    thresholds = own.thresholds()
    return Forecast(
        rows=rows,
        sites=len(plan.sites),
        trust=plan.trust,
        epsilon=plan.epsilon,
        delta=plan.delta,
        conversion=plan.conversion,
        rho=own.setting.budget.rho,
        rows_per_unit=plan.rows_per_unit,
        stages=own.stages(),
        columns=columns,
        outlook=outlook,
        others=others,
        thresholds=thresholds,
        advice=tuple(_advice(own, outlook, columns, thresholds)),
    )


def _elsewhere(draft: _Draft, epsilon: float) -> Outlook:
    """The same study at another epsilon."""
    plan = msgspec.structs.replace(draft.plan, epsilon=epsilon)
    try:
        other = _Draft(draft.schema, plan, draft.method, draft.rows, draft.seed)
        return other.outlook(other.trials())
    except PrivacyRefusal:
        return Outlook(epsilon, plan.budget.rho, "refused", {}, 0.0, 0, None, None, None)


class _Draft:
    """A plan with everything that follows from it at once."""

    def __init__(self, schema: Schema, plan: Plan, method: WaveTree, rows: int, seed: int) -> None:
        self.schema, self.plan, self.method = schema, plan, method
        self.rows, self.seed = rows, seed
        self.encoding = method.encoding(schema)
        budget, trust = plan.budget, plan.trust_model
        self.setting = Setting(
            self.encoding, budget, trust, plan.sites, plan.seed, plan.rows_per_unit
        )
        first, self.rest = budget.split(method.total, 1 - method.total)
        self.total = self.planned(Total(), first)
        self.mode = method.mode(self.setting, float(rows))
        self._one_ways: dict[Mode, list[Planned]] = {}
        self._ladders: dict[Mode, Ladder] = {}

    # NOISE

    def planned(self, statistic: Statistic, cost: Budget) -> Planned:
        """One release that is known in advance."""
        domain, rows = self.encoding.domain, self.plan.rows_per_unit
        whole, trust = self.setting.budget, self.setting.trust
        # The noise is what a site would compute from the query.
        price = whole.part(whole.share(cost))
        sensitivity = statistic.sensitivity(domain) * rows
        sigma = trust.site_sigma(sensitivity, price, *moves(statistic, domain, rows))
        return Planned(
            kind=kind_of(statistic),
            attributes=statistic.attributes,
            level=statistic.level if isinstance(statistic, Haar) else None,
            sensitivity=sensitivity,
            site_sigma=sigma,
            sum_sigma=sigma * math.sqrt(trust.sites),
            rho=price.rho,
            integers=statistic.integers(domain),
        )

    def one_ways(self, mode: Mode) -> list[Planned]:
        """Every release of the 1-ways."""
        if mode not in self._one_ways:
            budget, _, _ = mode.split(self.rest)
            parts = self.method.one_way_parts(self.setting, budget, mode)
            self._one_ways[mode] = [self.planned(*part) for part in parts]
        return self._one_ways[mode]

    @cached_property
    def every_pair(self) -> list[Clique]:
        """Pairs that could be measured: a column with one value can depend on nothing."""
        names = [column.name for column in self.encoding.columns if column.size > 1]
        return list(itertools.combinations(names, 2))

    @cached_property
    def open_pairs(self) -> list[Clique]:
        """Pairs that would be scored."""
        return [pair for pair in self.every_pair if self.encoding.label not in pair]

    def pairs(self, mode: Mode) -> int:
        """How many pairs would be measured, at most."""
        if not mode.planned:
            return 0
        every, with_label = len(self.every_pair), len(self.every_pair) - len(self.open_pairs)
        if not mode.scored:
            return with_label
        least = max(with_label, len(self.encoding.columns) - 1)
        return min(every, max(least, math.floor(mode.planned)))

    def _later(self, label: str, releases: int, budget: Budget, sizes: list[int]) -> Stage:
        """A stage on a grid that only the answers to the 1-ways will tell."""
        # An equal share, without working out those of perhaps 20,000 pairs.
        cost = budget.split(1.0, releases - 1.0)[0]
        # Of which pair, and by which maps, is not known; as many cells have the same noise.
        largest = Grouped(("", ""), ((max(sizes) - 1,), (0,)))
        each = replace(self.planned(largest, cost), attributes=())
        return Stage(label, False, releases, sum(sizes), budget.rho, self._bytes(sizes), (each,))

    def stages(self) -> tuple[Stage, ...]:
        """All rounds in their order."""
        ones = self.one_ways(self.mode)
        found = [self._fixed("total", [self.total]), self._fixed("one-way", ones)]
        releases = self.pairs(self.mode)
        if not releases:
            return tuple(found)
        _, for_scores, for_pairs = self.mode.split(self.rest)
        if self.mode.scored:
            scored = self.open_pairs
            if scored:
                sizes = self._most_cells(scored, self.method.coarse)
                found.append(self._later("scores", len(scored), for_scores, sizes))
            else:
                for_pairs = self.mode.all_pairs(self.rest)
        # The final number of rows may differ from the first noisy one; three of its sigmas more.
        rows = self.rows + 3 * self.total.sum_sigma
        finest = min(float(self.method.finest), self.mode.resolution(rows))
        sizes = sorted(self._most_cells(self.every_pair, finest), reverse=True)
        found.append(self._later("pairs", releases, for_pairs, sizes[:releases]))
        return tuple(found)

    def _fixed(self, label: str, parts: list[Planned]) -> Stage:
        sizes = [part.integers for part in parts]
        rho = together(Budget(part.rho) for part in parts).rho
        return Stage(label, True, len(parts), sum(sizes), rho, self._bytes(sizes), tuple(parts))

    def _most_cells(self, pairs: Sequence[Clique], groups: float) -> list[int]:
        most = {column.name: most_groups(column, groups) for column in self.encoding.columns}
        return [most[first] * most[second] for first, second in pairs]

    def _bytes(self, sizes: Sequence[int]) -> int:
        """The length of a site's answer, which depends on nothing else."""
        return Weight(self.plan, max(self.plan.sites, key=len)).of(sizes)

    # EXPECTATION

    def ladder(self, mode: Mode) -> Ladder:
        """How a mode would measure."""
        if mode not in self._ladders:
            pairs, sigma = self.pairs(mode), 0.0
            if pairs:
                _, _, budget = mode.split(self.rest)
                if mode.scored and not self.open_pairs:
                    budget = mode.all_pairs(self.rest)
                sigma = self._later("pairs", pairs, budget, [1]).parts[0].sum_sigma
            parts = tuple((_statistic(part), part.sum_sigma) for part in self.one_ways(mode))
            self._ladders[mode] = Ladder(mode, parts, pairs, sigma)
        return self._ladders[mode]

    def trials(self) -> list[Trial]:
        """Invented studies, their first noisy totals spread as those of real ones would be."""
        many = studies(self.encoding)
        order = np.random.default_rng([self.seed, 0]).permutation(many)
        deviates = [NormalDist().inv_cdf((float(place) + 0.5) / many) for place in order]
        totals = [self.rows + self.total.sum_sigma * deviate for deviate in deviates]
        modes = [self.method.mode(self.setting, max(1.0, total)) for total in totals]
        bench = Bench(
            method=self.method,
            schema=self.schema,
            encoding=self.encoding,
            rows=self.rows,
            total_sigma=self.total.sum_sigma,
            seed=self.seed,
        )
        return list(bench.run(totals, [self.ladder(mode) for mode in modes]))

    def outlook(self, trials: Sequence[Trial]) -> Outlook:
        """The mean over invented studies."""
        self.stages()  # refuses what a study would refuse
        one_way = float(np.mean([np.mean([*trial.errors.values()]) for trial in trials]))
        loose = [error for trial in trials for error in trial.loose]
        close = [error for trial in trials for error in trial.close]
        groups = [np.mean([*trial.groups.values()]) for trial in trials if trial.groups]
        return Outlook(
            epsilon=self.plan.epsilon,
            rho=self.setting.budget.rho,
            mode=self.mode.name,
            chances=self._chances(),
            resolution=self.mode.groups(self.rows),
            pairs=self.pairs(self.mode),
            groups=float(np.mean(groups)) if groups and self.mode.planned else None,
            one_way=one_way,
            two_way=_range(one_way, loose, close) if loose else None,
        )

    def _chances(self) -> dict[str, float]:
        """How likely each mode is, since the first noisy total decides."""
        noisy = NormalDist(self.rows, self.total.sum_sigma)
        chances, below = dict.fromkeys(MODES, 0.0), 1.0
        for name in MODES[:-1]:
            least = self._least_rows(name)
            chance = 1 - noisy.cdf(least) if least is not None else 0.0
            chances[name] = max(0.0, chance - (1 - below))
            below = min(below, 1 - chance)
        chances[MODES[-1]] = below
        return chances

    def _least_rows(self, name: str) -> int | None:
        """The number of rows from which at least this mode is chosen."""
        wanted = MODES[: MODES.index(name) + 1]
        if self.method.mode(self.setting, float(MOST_PLANNED)).name not in wanted:
            return None
        low, high = 0, MOST_PLANNED
        while high - low > 1:
            middle = (low + high) // 2
            if self.method.mode(self.setting, float(middle)).name in wanted:
                high = middle
            else:
                low = middle
        return high

    def _least_epsilon(self, name: str) -> float | None:
        """The epsilon from which at least this mode is chosen."""
        wanted = MODES[: MODES.index(name) + 1]

        def reaches(rho: float) -> bool:
            setting = replace(self.setting, budget=Budget(rho))
            return self.method.mode(setting, float(self.rows)).name in wanted

        low, high = 1e-12, 100.0
        if not reaches(high):
            return None
        while high / low > 1 + 1e-6:
            middle = math.sqrt(low * high)
            low, high = (low, middle) if reaches(middle) else (middle, high)
        epsilon = Budget(high).epsilon(self.plan.delta, self.plan.conversion)
        return epsilon if epsilon <= 100 else None

    def thresholds(self) -> tuple[Threshold, ...]:
        """From where on pairs are measured, with the label and all kinds."""
        names = ["star", "full"] if self.encoding.label is not None else ["full"]
        if len(self.encoding.columns) < 2:
            return ()
        return tuple(self._threshold(name) for name in names)

    def _threshold(self, name: str) -> Threshold:
        needed = self.method.full_at if name == "full" else self.method.star_at
        least = self._least_rows(name)
        # Groups grow with the root of the number of rows; MATH section 5.0.
        groups = 0.0 if least is None else needed * math.sqrt(self.rows / least)
        return Threshold(name, groups, needed, self._least_epsilon(name), least)

    # COLUMNS

    def columns(self, trials: Sequence[Trial]) -> tuple[ColumnForecast, ...]:
        """What would be known of each column."""
        parts = self.ladder(self.mode).by_name
        return tuple(
            self._column(c, [s for _, s in parts[c.name]], trials) for c in self.encoding.columns
        )

    def _column(
        self, column: Column, sigmas: list[float], trials: Sequence[Trial]
    ) -> ColumnForecast:
        errors = [trial.errors[column.name] for trial in trials if column.name in trial.errors]
        groups = [trial.groups[column.name] for trial in trials if column.name in trial.groups]
        haar = waved(column.ordered, column.size)
        typical = self.rows / column.size
        noise = value_noise(sigmas, haar=haar)
        return ColumnForecast(
            name=column.name,
            values=column.size,
            way="haar" if haar else "flat",
            sum_sigma=(sigmas[0], sigmas[-1]),
            noise=noise,
            typical=typical,
            groups=float(np.mean(groups)) if groups and self.mode.planned else None,
            one_way=float(np.mean(errors)) if errors else None,
            enough=self._enough(column, sigmas) if noise > typical and column.size > 1 else None,
        )

    def _enough(self, column: Column, sigmas: Sequence[float]) -> int:
        """The most values at which the noise on one is not larger than its share of the rows."""
        # A column's share goes with the root of its size, and its levels keep their proportions.
        prices = [1 / sigma**2 for sigma in sigmas]
        whole = sum(math.sqrt(c.size) for c in self.encoding.columns)
        others = whole - math.sqrt(column.size)
        unit = sum(prices) * whole / math.sqrt(column.size)
        for size in range(min(column.size - 1, 1_000), 1, -1):
            price = unit * math.sqrt(size) / (others + math.sqrt(size))
            levels = haar_levels(size) if waved(column.ordered, size) else 1
            kept = prices[:levels]
            noise = value_noise(
                [math.sqrt(sum(kept) / (part * price)) for part in kept], haar=levels > 1
            )
            if noise <= self.rows / size:
                step = int(10 ** max(0, len(str(size)) - 2))
                return size // step * step
        return 1


def value_noise(sigmas: Sequence[float], *, haar: bool) -> float:
    """The noise on the count of one value, from that on its releases.

    A value is half the sum or difference of a node and its Haar difference, and so on upwards.
    """
    if not haar:
        return sigmas[0]
    return math.sqrt(sum((sigma / 2**step) ** 2 for step, sigma in enumerate(reversed(sigmas), 1)))


def _range(one_way: float, loose: Sequence[float], close: Sequence[float]) -> tuple[float, float]:
    """Between what and what the error of pairs will lie; no pair is better than its 1-ways."""
    low = max(one_way, LOW * float(np.mean(loose)))
    high = max(HIGH * float(np.mean(close)), 1.5 * low)
    return low, min(1.0, high, SPAN * low)


def _statistic(part: Planned) -> Flat | Haar:
    (name,) = part.attributes
    return Flat((name,)) if part.level is None else Haar((name,), part.level)


# ADVICE


def _advice(
    draft: _Draft,
    outlook: Outlook,
    columns: Sequence[ColumnForecast],
    thresholds: Sequence[Threshold],
) -> Iterable[str]:
    plan, rows = draft.plan, draft.rows
    if plan.delta >= 1 / rows:
        yield (
            f"delta ({plan.delta:g}) should be far below 1 / rows ({1 / rows:.2g}): as it is, "
            "publishing somebody's record outright would be allowed"
        )
    yield from _advice_on_modes(draft, outlook, thresholds)
    wide = [column for column in columns if column.enough is not None]
    for column in sorted(wide, key=lambda c: c.noise / c.typical, reverse=True)[:8]:
        yield _advice_on_column(draft, column)
    if len(wide) > 8:
        yield f"{len(wide) - 8} more columns are too wide for this budget; see the columns above"
    sites = draft.setting.trust.sites
    if sites > 1 and not isinstance(draft.setting.trust, SecureAggregation):
        worth = Budget(outlook.rho).times(sites).epsilon(plan.delta, plan.conversion)
        yield (
            f"secure aggregation would divide the noise by {math.sqrt(sites):.2g} "
            f"(sqrt of {sites} sites): worth as much as epsilon {worth:.3g} with trust local"
        )
    if outlook.one_way is not None and outlook.one_way > 0.25:
        yield (
            f"a 1-way is expected to miss {outlook.one_way:.0%} of the rows' values: the table "
            "would show little more than the schema; raise epsilon, find more rows or take "
            "fewer bins"
        )


def _advice_on_modes(
    draft: _Draft, outlook: Outlook, thresholds: Sequence[Threshold]
) -> Iterable[str]:
    words = {"star": "pairs with the label", "full": "pairs of all kinds"}
    for threshold in thresholds:
        if MODES.index(outlook.mode) <= MODES.index(threshold.mode):
            continue
        where = [
            *([f"epsilon {_up(threshold.epsilon)}"] if threshold.epsilon is not None else []),
            *([f"{_up_rows(threshold.rows):,} rows"] if threshold.rows is not None else []),
        ]
        if where:
            yield f"{words[threshold.mode]} are worth measuring from {' or '.join(where)}"
    first = thresholds[0] if thresholds else None
    if first and first.epsilon is not None and outlook.mode != "independent":
        yield f"below epsilon {_up(first.epsilon)} nothing but 1-ways would be worth measuring"
    likely = outlook.chances.get(outlook.mode, 1.0)
    if likely < 0.9:
        others = ", ".join(
            f"{name} {chance:.0%}"
            for name, chance in outlook.chances.items()
            if name != outlook.mode and chance >= 0.01
        )
        yield (
            f"mode {outlook.mode} is not certain ({likely:.0%}; {others}): the rule sees a noisy "
            f"number of rows, {draft.rows:,} give or take {draft.total.sum_sigma:,.0f}"
        )


def _advice_on_column(draft: _Draft, column: ColumnForecast) -> str:
    public = draft.schema.column(column.name)
    what = "values" if isinstance(public, CategoricalColumn) else "bins"
    why = f"noise on a value is {column.noise:,.0f}, its share of the rows {column.typical:,.0f}"
    if column.enough == 1:
        return f"column {column.name!r}: this budget tells nothing about it; {why}"
    return (
        f"column {column.name!r}: {column.enough} {what} instead of {public.size:,} would do; {why}"
    )


def _up(epsilon: float | None) -> str:
    """Two digits, rounded up."""
    if not epsilon:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(epsilon)) - 1)
    return f"{math.ceil(epsilon / unit - 1e-9) * unit:.3g}"


def _up_rows(rows: int | None) -> int:
    """Three digits, rounded up."""
    if not rows:
        return 0
    unit = int(10 ** max(0, len(str(rows)) - 3))
    return -(-rows // unit) * unit
