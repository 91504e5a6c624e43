"""What a study would do and how well, from public facts alone: nothing is read, nothing is spent.

Noise follows from schema, budget and trust model exactly. Errors are expected ones: the method runs
on invented tables with exactly that noise (see `dryrun`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec
import numpy as np

from heterofedsyn.errors import PrivacyRefusal, UsageError
from heterofedsyn.hub.methods.base import Later, Method, Setting, with_columns
from heterofedsyn.hub.planning.advice import advice
from heterofedsyn.hub.planning.columns import ColumnForecast, column_forecasts
from heterofedsyn.hub.planning.cost import Effort, Planned, Size, check_feasible
from heterofedsyn.hub.planning.dryrun import DryRuns, Finding
from heterofedsyn.hub.planning.lengths import Weight
from heterofedsyn.hub.planning.modes import MOST_PLANNED, Threshold, chances, thresholds
from heterofedsyn.hub.planning.trusts import REFUSED, TrustOutlook, compare, trust_advice
from heterofedsyn.hub.replies import Ask
from heterofedsyn.marginals.statistics import Grouped, Statistic
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.trust import SecureAggregation
from heterofedsyn.protocol import Part, Plan
from heterofedsyn.protocol.terms import price_of
from heterofedsyn.schema import Schema

EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""Budgets to compare."""

LOW = 0.5
"""Pairs come out at best so much better than independent invented columns do."""

HIGH = 1.25
"""Pairs come out at worst so much worse than the worse kind of invented ones does."""

SPAN = 4.0
"""The most by which the ends of a range differ."""

SEEDED = "what is asked hangs on a seed that each study draws: this is one of many draws"


@dataclass(frozen=True)
class Stage:
    """One round of questions, or several that are chosen from noisy answers.

    Attributes:
        fixed: whether it is known in advance to the last integer; else releases, integers and
            bytes are the most there can be (None if nobody knows), and noise is that of as many.
        bytes: of one site's answers.
        usual_releases: in one dry run, on average.
        usual_integers: likewise.
    """

    label: str
    fixed: bool
    releases: int | None
    integers: int | None
    rho: float
    bytes: int | None
    parts: tuple[Planned, ...]
    usual_releases: float
    usual_integers: float
    effort: Effort | None


@dataclass(frozen=True)
class Outlook:
    """What to expect of one budget.

    Attributes:
        mode: with the expected number of rows; None if the method has none, `refused` if the
            trust model would not allow it.
        chances: of each mode, since the rule sees a noisy number of rows.
        resolution: groups per attribute that would stand out of the noise.
        pairs: that are measured, at most.
        measured: the same in one dry run, on average.
        groups: of an attribute, on average over dry runs.
        one_way: expected total variation of a 1-way, mean over columns.
        two_way: between what and what that of a pair will lie.
        runs: how many dry runs this is from.
    """

    epsilon: float
    rho: float
    mode: str | None
    chances: dict[str, float]
    resolution: float | None
    pairs: int
    measured: float
    groups: float | None
    one_way: float | None
    two_way: tuple[float, float] | None
    runs: int


@dataclass(frozen=True)
class Forecast:
    """A study before it starts.

    Attributes:
        colluding: under secure aggregation, sites that may pool what they know.
        quorum: under secure aggregation, sites that must be in every sum.
        others: the same study with other budgets.
        trusts: the same study under each trust model, from fewer runs, the same for all of them.
    """

    method: str
    rows: int
    sites: int
    trust: str
    colluding: int | None
    quorum: int | None
    epsilon: float
    delta: float
    conversion: str
    rho: float
    rows_per_unit: int
    stages: tuple[Stage, ...]
    columns: tuple[ColumnForecast, ...]
    outlook: Outlook
    others: tuple[Outlook, ...]
    trusts: tuple[TrustOutlook, ...]
    thresholds: tuple[Threshold, ...]
    advice: tuple[str, ...]


def forecast(
    schema: Schema,
    plan: Plan,
    method: Method,
    rows: int,
    *,
    epsilons: Sequence[float] = EPSILONS,
    seed: int = 0,
) -> Forecast:
    """What a study by this plan would do with so many rows over all sites.

    Args:
        schema: the public schema, as it is in the file.
        epsilons: other budgets to compare with.
        seed: of the invented tables; the same seed gives the same figures.

    Raises:
        UsageError: if the number of rows is none that a study could have, or the method would ask
            for more than sites answer.
        PrivacyRefusal: if the trust model or the budget would not allow it.
    """
    draft = _draft(schema, plan, method, rows, seed)
    findings = draft.findings()
    stages, outlook = draft.stages(findings), draft.outlook(findings)
    columns = column_forecasts(
        draft.setting.schema, rows, [part for stage in stages for part in stage.parts], findings
    )
    trust = plan.trust_model
    trusts = compare(plan, method, lambda other: draft.beside(other, findings))
    told = thresholds(method, draft.setting, rows, plan.delta, plan.conversion)
    return Forecast(
        method=method.name,
        rows=rows,
        sites=len(plan.sites),
        trust=plan.trust,
        colluding=trust.colluding if isinstance(trust, SecureAggregation) else None,
        quorum=trust.quorum if isinstance(trust, SecureAggregation) else None,
        epsilon=plan.epsilon,
        delta=plan.delta,
        conversion=plan.conversion,
        rho=outlook.rho,
        rows_per_unit=plan.rows_per_unit,
        stages=stages,
        columns=columns,
        outlook=outlook,
        others=tuple(
            outlook if epsilon == plan.epsilon else draft.elsewhere(draft.at(epsilon))
            for epsilon in sorted({*epsilons, plan.epsilon})
        ),
        trusts=trusts,
        thresholds=told,
        advice=(
            *([SEEDED] if draft.seed_decides() else []),
            *advice(schema, plan, method, rows, outlook, columns, told, draft.total_sigma(stages)),
            *trust_advice(len(plan.sites), trust, trusts),
        ),
    )


def glance(schema: Schema, plan: Plan, method: Method, rows: int, *, seed: int = 0) -> Outlook:
    """What to expect of one budget and trust model, from fewer runs; see `forecast`."""
    return _draft(schema, plan, method, rows, seed).elsewhere(plan)


def _draft(schema: Schema, plan: Plan, method: Method, rows: int, seed: int) -> _Draft:
    if not 1 <= rows <= MOST_PLANNED:
        raise UsageError(f"rows ({rows}) must be in 1..{MOST_PLANNED}")
    draft = _Draft(schema, plan, method, rows, seed)
    check_feasible(draft.setting.schema, plan, method)
    return draft


class _Draft:
    """A plan with everything that follows from it at once."""

    def __init__(self, schema: Schema, plan: Plan, method: Method, rows: int, seed: int) -> None:
        self.schema, self.plan, self.method = schema, plan, method
        self.rows, self.seed = rows, seed
        self.setting = Setting.of(method.encoding(schema), plan)
        self.mode = method.mode(self.setting, float(rows))
        # Every site is asked the same; one of them is enough to look at.
        self.ahead = [
            part
            for part in method.ahead_of(self.setting, float(rows))
            if part.to in (None, plan.sites[0])
        ]

    def findings(self, *, thorough: bool = True) -> list[Finding]:
        """What dry runs find."""
        return self._runs(thorough=thorough).run()

    def _runs(self, *, thorough: bool) -> DryRuns:
        return DryRuns(self.schema, self.plan, self.method, self.rows, self.seed, thorough)

    def at(self, epsilon: float) -> Plan:
        """The plan with another epsilon."""
        return msgspec.structs.replace(self.plan, epsilon=epsilon)

    def beside(self, plan: Plan, findings: Sequence[Finding]) -> Outlook:
        """Another plan from fewer runs; of this one, whose findings are there, from the same."""
        if plan.trust_model != self.plan.trust_model:
            return self.elsewhere(plan)
        return self.outlook(findings[: self._runs(thorough=False).many])

    def elsewhere(self, plan: Plan) -> Outlook:
        """The same study by another plan, from fewer runs."""
        plan = with_columns(plan, self.method, self.setting.schema)
        try:
            other = _Draft(self.schema, plan, self.method, self.rows, self.seed)
            return other.outlook(other.findings(thorough=False))
        except PrivacyRefusal:
            rho = plan.budget.rho
            return Outlook(plan.epsilon, rho, REFUSED, {}, None, 0, 0.0, None, None, None, 0)

    def seed_decides(self) -> bool:
        """Whether another seed of the study would lead to other questions."""
        draws = {
            tuple(statistic.attributes for statistic, _ in part.parts)
            for seed in range(8)
            for part in self.method.ahead(replace(self.setting, seed=seed))[-1:]
            if isinstance(part, Ask)
        }
        return len(draws) > 1

    # STAGES

    def stages(self, findings: Sequence[Finding] = ()) -> tuple[Stage, ...]:
        """All rounds in their order."""
        return tuple(
            self._fixed(part, findings) if isinstance(part, Ask) else self._later(part, findings)
            for part in self.ahead
        )

    def total_sigma(self, stages: Sequence[Stage]) -> float:
        """Noise on the first noisy number of rows; 0 if there is none by itself."""
        parts = (part for stage in stages for part in stage.parts)
        return next((part.sum_sigma for part in parts if part.terms.kind == "total"), 0.0)

    def _fixed(self, ask: Ask, findings: Sequence[Finding]) -> Stage:
        parts = tuple(self._planned(statistic, budget) for statistic, budget in ask.parts)
        sizes = [part.terms.integers for part in parts]
        rho = price_of([part.terms for part in parts]).rho
        sent = self._weight.of(sizes)
        size = Size.of([statistic for statistic, _ in ask.parts], self.setting.domain)
        return self._stage(ask.label, size, rho, sent, parts, findings, fixed=True)

    def _later(self, later: Later, findings: Sequence[Finding]) -> Stage:
        """A stage that only the answers to earlier ones will tell."""
        releases, integers = later.releases, later.integers
        sent = self._weight.most(later.rounds, releases, integers)
        parts: tuple[Planned, ...] = ()
        alike = later.columns is not None and {*later.kinds} <= {"flat", "grouped"}
        if releases and integers and (alike or later.shares):
            # The least share, without working out those of perhaps 20,000 pairs. Of which pair is
            # not known; as many cells have the same noise.
            cost = later.cost.split(1.0, (later.shares or releases) - 1.0)[0]
            usual = Grouped(("", ""), ((-(-integers // releases) - 1,), (0,)))
            planned = self._planned(usual, cost)
            kind = "grouped" if later.shares else later.kinds[0]
            unknown = msgspec.structs.replace(planned.terms, attributes=(), kind=kind)
            parts = (replace(planned, terms=unknown),)
        size = None
        if releases is not None and integers is not None:
            size = Size(releases, integers, cells=integers)
        return self._stage(later.label, size, later.cost.rho, sent, parts, findings, fixed=False)

    def _stage(
        self,
        label: str,
        size: Size | None,
        rho: float,
        sent: int | None,
        parts: tuple[Planned, ...],
        findings: Sequence[Finding],
        *,
        fixed: bool,
    ) -> Stage:
        asked = [finding.asked(label) for finding in findings] or [(0.0, 0.0)]
        usual_releases, usual_integers = np.mean(asked, axis=0).tolist()
        effort = None
        if size is not None and sent is not None:
            effort = Effort.of(len(self.plan.sites), self.rows, size, sent)
        return Stage(
            label=label,
            fixed=fixed,
            releases=None if size is None else size.releases,
            integers=None if size is None else size.integers,
            rho=rho,
            bytes=sent,
            parts=parts,
            usual_releases=usual_releases,
            usual_integers=usual_integers,
            effort=effort,
        )

    @cached_property
    def _weight(self) -> Weight:
        return Weight.of_plan(self.plan, max(self.plan.sites, key=len))

    def _planned(self, statistic: Statistic, cost: Budget) -> Planned:
        """One release, with the noise that a site would compute from the query."""
        share = self.setting.budget.share(cost)
        return Planned.of(Part(statistic, share), self.setting.domain, self.plan)

    # EXPECTATION

    def outlook(self, findings: Sequence[Finding]) -> Outlook:
        """The mean over dry runs."""
        stages = self.stages()  # refuses what a study would refuse
        one_way = float(np.mean([np.mean([*finding.errors.values()]) for finding in findings]))
        loose = [error for finding in findings for error in finding.loose]
        close = [error for finding in findings for error in finding.close]
        groups = [np.mean([*f.groups.values()]) for f in findings if f.groups]
        sigma = self.total_sigma(stages)
        return Outlook(
            epsilon=self.plan.epsilon,
            rho=self.setting.budget.rho,
            mode=None if self.mode is None else self.mode.name,
            chances=chances(self.method, self.setting, self.rows, sigma),
            resolution=None if self.mode is None else self.mode.groups(self.rows),
            pairs=sum(stage.releases or 0 for stage in stages if stage.label == "pairs"),
            measured=float(np.mean([finding.measured for finding in findings])),
            groups=float(np.mean(groups)) if groups else None,
            one_way=one_way,
            two_way=_range(one_way, loose, close) if loose or close else None,
            runs=len(findings),
        )


def _range(one_way: float, loose: Sequence[float], close: Sequence[float]) -> tuple[float, float]:
    """Between what and what the error of pairs will lie; no pair is better than its 1-ways."""
    kinds = [float(np.mean(errors)) for errors in (loose, close) if errors]
    low = max(one_way, LOW * kinds[0])
    high = max(HIGH * max(kinds), 1.5 * low)
    return low, min(1.0, high, SPAN * low)
