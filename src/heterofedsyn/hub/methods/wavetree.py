"""`wavetree`: Haar 1-ways, a grid as fine as the noise allows, a tree of pairs; MATH section 5."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from heterofedsyn._words import count
from heterofedsyn.hub.methods.attempts import INDEPENDENT, TRIPLES, Mode, groups_at
from heterofedsyn.hub.methods.base import Later, Method, Model, Outcome, Setting
from heterofedsyn.hub.methods.beside_label import ask_together
from heterofedsyn.hub.methods.choosing import choose, stands_out
from heterofedsyn.hub.methods.forced import read_pairs
from heterofedsyn.hub.methods.foreseen import later_rounds
from heterofedsyn.hub.methods.grouping import dependence, grid_of, grouped_pairs, waved
from heterofedsyn.hub.methods.open_pairs import OpenPairs
from heterofedsyn.hub.methods.stages import check_between, check_share, once_more
from heterofedsyn.hub.methods.tiers import Tiers, hierarchy, worth_asking
from heterofedsyn.hub.replies import Ask, Round
from heterofedsyn.marginals.counts import PAIRS
from heterofedsyn.marginals.statistics import Haar, Statistic, Total, haar_levels, kind_of
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.schema import Clique, Column, Schema, with_atoms
from heterofedsyn.synthesis import Denoising, Measurement, Synthesizer, Targets, Tree
from heterofedsyn.synthesis.asides import looked_at
from heterofedsyn.synthesis.denoise import SMALLEST_TOTAL
from heterofedsyn.synthesis.grid import halved

MOST_FINE_SCORES = 2**20
"""Integers of all scores together beyond which their grid stays coarse: noise takes time, 25
microseconds for each."""

TRIPLE_CELLS = 16
"""Of a table of three columns, from which on such tables are worth their share of the budget."""


@dataclass(frozen=True)
class WaveTree(Method):
    """The default; `tests/test_utility.py` says how good it must be.

    Shares are of the study's budget; what `total`, `one_way` and `score` leave goes to pairs.

    Attributes:
        total: share for the number of rows, which decides how much to attempt.
        one_way: share for 1-ways; most of the error is theirs.
        score: share for choosing pairs, on a coarse grid.
        one_way_few: share for 1-ways in a table of columns with few values, which pairs tell too.
        score_few: share for choosing pairs there: a score is a pair's whole table, and is used.
        star: share for pairs when only those with the label are attempted.
        full_at: groups per attribute from which pairs of all kinds are worth measuring.
        star_at: groups per attribute from which pairs with the label are.
        density: pairs per attribute that are planned for, those with the label included.
        density_free: the same when the schema has no label.
        label: how many times the share of another pair one with the label has.
        finest: most groups of an attribute.
        coarse: groups of an attribute when pairs are scored; up to twice as many if noise allows.
        atoms: whether the minimum of a numeric column has a code of its own.
        spread: prior weight of a Haar difference that could be anything, at the root.
        calm: how that weight shrinks per level.
        edge: prior weight of all mass lying on one side.
        triples: share for tables of the label and two other columns, where they are attempted.
        triple_score: share for choosing them, on a coarse grid.
        triples_at: noise on a count of such a table, in rows, up to which they may be attempted;
            with 0, no three columns are ever counted together.
        measure: pairs that must be measured, such as `sex,diagnosis;ward,age`; not scored.
    """

    name: ClassVar[str] = "wavetree"
    mode_names: ClassVar[tuple[str, ...]] = (TRIPLES, "full", "star", INDEPENDENT)

    total: float = 0.02
    one_way: float = 0.55
    score: float = 0.05
    one_way_few: float = 0.20
    score_few: float = 0.35
    star: float = 0.30
    full_at: float = 2.5
    star_at: float = 1.9
    density: float = 2.5
    density_free: float = 2.0
    label: float = 2.0
    finest: int = 24
    coarse: int = 4
    atoms: bool = True
    spread: float = 0.3
    calm: float = 0.7
    edge: float = 0.05
    triples: float = 0.10
    triple_score: float = 0.03
    triples_at: float = 20.0
    measure: str = ""
    synthesizer: Synthesizer = Tree()

    def __post_init__(self) -> None:
        for name in ("total", "one_way", "score", "one_way_few", "score_few", "star"):
            check_share(name, getattr(self, name), most=1.0)
        for name in ("spread", "calm", "edge"):
            check_share(name, getattr(self, name), most=0.99)
        check_share("total + one_way + score", self.total + self.one_way + self.score, most=0.99)
        few = self.total + self.one_way_few + self.score_few
        check_share("total + one_way_few + score_few", few, most=0.99)
        check_share("spread + edge", self.spread + self.edge, most=0.99)
        check_share("total + star", self.total + self.star, most=0.99)
        for name in ("triples", "triple_score"):
            check_between(name, getattr(self, name), 0, 0.99)
        check_between("triples + triple_score", self.triples + self.triple_score, 0, 0.99)
        check_between("triples_at", self.triples_at, 0, 1e9)
        for name in ("full_at", "star_at", "density", "density_free"):
            check_between(name, getattr(self, name), 0.1, 1_000)
        check_between("label", self.label, 1, 100)
        check_between("finest", self.finest, 2, 1_000)
        check_between("coarse", self.coarse, 2, 100)
        read_pairs(self.measure)

    def encoding(self, schema: Schema) -> Schema:
        """The public schema, with a code of its own for piles at a column's minimum."""
        return with_atoms(schema) if self.atoms else schema

    def columns(self, setting: Setting) -> int:
        """Three where tables of the label and two others may be worth it, whatever is answered."""
        return 3 if self._noise_of_triples(setting) <= self.triples_at else PAIRS

    def later(self, setting: Setting, left: Budget) -> tuple[Ask | Later, ...]:
        """What rounds after the total cost depends on the mode it leads to."""
        modes = list(self.modes(setting).values())
        _, rest = self.first_and_rest(setting)
        parts = self.one_way_parts(setting, rest, modes[0], None)
        ones = Later(
            "one-way",
            tuple(sorted({kind_of(statistic) for statistic, _ in parts})),
            len(parts),
            sum(statistic.integers(setting.domain) for statistic, _ in parts),
            max(mode.split(rest)[0] for mode in modes),
            columns=1,
        )
        pairs = max(mode.all_pairs(rest) for mode in modes)
        return ones, *later_rounds(self, setting, modes, pairs)

    def ahead_of(self, setting: Setting, rows: float) -> tuple[Ask | Later, ...]:
        """With the mode of so many rows the 1-ways are fixed, and pairs have fewer groups.

        A study goes by a noisy number of rows: near a step of `Mode.level_weights` or of a
        hierarchy its columns may be asked otherwise, for the same price.
        """
        mode = self.mode(setting, rows)
        first, rest = self.first_and_rest(setting)
        for_ones, _, for_pairs = mode.split(rest)
        ones = Ask("one-way", self.one_way_parts(setting, for_ones, mode, rows))
        if not self.open_pairs(setting).scored:
            for_pairs = mode.all_pairs(rest)
        # The final number of rows may differ from the first noisy one; three of its sigmas more.
        error = setting.noise_of(first)
        later = later_rounds(self, setting, [mode], for_pairs, rows + 3 * error)
        return self._ask_total(first), ones, *later

    def first_and_rest(self, setting: Setting) -> tuple[Budget, Budget]:
        """Budgets for the number of rows, and for all that follows."""
        first, rest = setting.budget.split(self.total, 1 - self.total)
        return first, rest

    def open_pairs(self, setting: Setting) -> OpenPairs:
        """Pairs that could be measured, and those that must be."""
        return OpenPairs(setting.schema, self.measure)

    def share_of(self, schema: Schema, pair: Clique) -> float:
        """Of what pairs cost: models learn from those with the label."""
        return self.label if schema.label in pair else 1.0

    def groups_of_scores(self, setting: Setting, mode: Mode, n: float | None) -> float:
        """Groups per attribute when pairs are scored: as many as the noise of scores allows.

        Args:
            n: rows; without it, the most that there may be.
        """
        pairs = self.open_pairs(setting)
        few, most = float(self.coarse), 2.0 * self.coarse
        if sum(pairs.most_cells(pairs.scored, most)) > MOST_FINE_SCORES:
            return few
        if n is None:
            return most
        _, rest = self.first_and_rest(setting)
        _, budget, _ = mode.split(rest)
        sigma = setting.noise_of(budget, max(1, len(pairs.scored)))
        return min(most, max(few, groups_at(n, sigma)))

    def _noise_of_triples(self, setting: Setting) -> float:
        """On a count of the label and two others if all edges of a tree share their budget."""
        if not (self.triple_score and self.open_pairs(setting).beside_label):
            return math.inf
        tables = setting.budget.part((1 - self.total) * self.triples)
        return setting.noise_of(tables, len(setting.domain) - 2)

    def _ask_total(self, budget: Budget) -> Ask:
        return Ask("total", ((Total(), budget),))

    def conduct(self, setting: Setting) -> Generator[Ask, Round, Outcome]:
        pairs = self.open_pairs(setting)
        forced = pairs.forced  # refuses what cannot be before anything is asked
        first, rest = self.first_and_rest(setting)
        round_ = yield self._ask_total(first)
        denoising = Denoising(self.spread, self.calm, self.edge)
        targets = Targets(setting.schema, round_.measurements(), denoising)
        mode = self.mode(setting, targets.total)
        for_ones, for_scores, for_pairs = mode.split(rest)
        # MEASURE 1-ways
        parts = self.one_way_parts(setting, for_ones, mode, targets.total)
        round_ = yield Ask("one-way", parts)
        targets = targets.with_measured(round_.measurements())
        if not mode.planned:
            return self._outcome(targets, {}, mode)
        n = max(SMALLEST_TOTAL, targets.total)
        values = denoising.one_ways(targets)
        # SELECT
        scores: dict[Clique, float] = {}
        looked: tuple[Measurement, ...] = ()
        if mode.scored:
            rough = grid_of(setting.schema, values, n, self.groups_of_scores(setting, mode, n))
            statistics = grouped_pairs(pairs.scored, rough)
            if statistics:
                round_ = yield Ask.evenly("scores", statistics, for_scores)
                looked = round_.measurements()
                surely = stands_out(len(statistics))
                scores = {
                    statistic.attributes: dependence(statistic, noisy, values, n, surely)
                    for statistic, noisy in zip(statistics, round_.totals(), strict=True)
                }
            else:
                for_pairs = mode.all_pairs(rest)
        picked = choose(setting.domain, setting.schema.label, scores, mode, n)
        reach = min(self.finest, mode.resolution_of(len(picked), n))
        fine = grid_of(setting.schema, values, n, reach, by_rules=True)
        for name in {name for pair in forced for name in pair}:
            fine[name] = halved(fine[name], values[name])
        chosen = grouped_pairs(picked, fine)
        targets = targets.with_measured(looked_at(looked, chosen, setting.domain))
        # MEASURE pairs
        share = mode.worth(len(picked))
        if not chosen and share == 1:
            return self._outcome(targets, scores, mode)
        for_chosen, left = for_pairs.split(*((share, 1 - share) if chosen else (0, 1)))
        shares = [self.share_of(setting.schema, statistic.attributes) for statistic in chosen]
        paid = tuple(zip(chosen, for_chosen.split(*shares), strict=True)) if chosen else ()
        round_ = yield Ask("pairs", (*paid, *(once_more(parts, left) if share < 1 else ())))
        targets = targets.with_measured(round_.measurements())
        if mode.triples and chosen:
            before = (*parts, *paid)
            budgets, beside = mode.split_beyond(rest), pairs.beside_label
            targets = yield from ask_together(
                setting, targets, budgets, beside, before, finest=self.finest
            )
        return self._outcome(targets, scores, mode)

    def mode(self, setting: Setting, n: float) -> Mode:
        """How much to attempt with this budget and noisy total; MATH section 5.0."""
        modes = self.modes(setting)
        if TRIPLES in modes and modes[TRIPLES].groups(n) >= modes[TRIPLES].needed:
            return modes[TRIPLES]
        if "full" in modes and modes["full"].groups(n) >= self.full_at:
            return modes["full"]
        if "star" in modes and modes["star"].groups(n) >= self.star_at:
            return modes["star"]
        return modes[INDEPENDENT]

    def modes(self, setting: Setting) -> dict[str, Mode]:
        """All that could be attempted, whatever the noisy total."""
        others = len(setting.domain) - 1
        labelled = setting.schema.label is not None
        one_way, score = self._shares(setting)
        share = 1 - self.total - one_way - score

        pairs = self.open_pairs(setting)
        forced = tuple(p for p in pairs.forced if setting.schema.label not in p)
        certain = len(forced) + others * labelled if forced else 0

        def attempt(name: str, planned: float, tables: float, scores: float, needed: float) -> Mode:
            budget = 2 * tables * setting.budget.rho
            sigma = math.sqrt(setting.variance_factor * planned / budget) if budget else 0.0
            shares = (1 - self.total - tables - scores, scores, tables)
            own = pairs.asked if name == INDEPENDENT else forced
            return Mode(name, planned, shares, sigma, needed, own)

        usual = self.density if labelled else self.density_free
        full = attempt("full", max(usual * others, certain), share, score, self.full_at)
        modes = {
            INDEPENDENT: attempt(
                INDEPENDENT, len(pairs.asked), self.star * bool(pairs.asked), 0.0, 0.0
            ),
        }
        if others:
            modes["full"] = replace(full, thrifty=not labelled)
        noise = self._noise_of_triples(setting)
        if setting.together > PAIRS and noise < math.inf:
            left = 1 - self.triple_score - self.triples
            sigma = full.sigma / math.sqrt(left)
            ones, scores, tables = (share * left for share in full.shares)
            modes[TRIPLES] = replace(
                full,
                name=TRIPLES,
                shares=(ones, scores, tables),
                beyond=(
                    (1 - self.total) * self.triple_score,
                    (1 - self.total) * self.triples,
                ),
                sigma=sigma,
                needed=max(self.full_at, math.sqrt(TRIPLE_CELLS * noise / sigma)),
            )
        if others and labelled:
            modes["star"] = attempt("star", others + len(forced), self.star, 0.0, self.star_at)
        return modes

    def _shares(self, setting: Setting) -> tuple[float, float]:
        """For 1-ways and for scores: between a table of wide columns and one of narrow ones."""
        sizes = [column.size for column in setting.schema.measured]
        wide = sum(size for size in sizes if size > self.coarse) / sum(sizes)
        one_way = wide * self.one_way + (1 - wide) * self.one_way_few
        return one_way, wide * self.score + (1 - wide) * self.score_few

    def one_way_parts(
        self, setting: Setting, budget: Budget, mode: Mode, n: float | None
    ) -> tuple[tuple[Statistic, Budget], ...]:
        """Haar levels of ordered attributes, counts of the others, each with its price.

        Where no pair is worth measuring, no single value of many is either: shares are equal then,
        since the first levels of a wide attribute need no more than a narrow one does.

        Args:
            n: rows, on which it hangs what is asked of columns with a hierarchy; without it,
                everything that might be.
        """
        columns = setting.schema.measured
        shares = self._one_way_shares(budget, mode, [column.size for column in columns])
        tiers = [
            self._tiers(setting, column, share, n)
            for column, share in zip(columns, shares, strict=True)
        ]
        if not all(own.values for own in tiers):
            widths = [own.width(column) for own, column in zip(tiers, columns, strict=True)]
            shares = self._one_way_shares(budget, mode, widths)
        parts: list[tuple[Statistic, Budget]] = []
        for column, own, share in zip(columns, tiers, shares, strict=True):
            if waved(column.ordered, column.size):
                usual = 0.0 if n is None else n / column.size
                seen = usual / (usual + setting.noise_of(share) ** 2)
                prices = share.split(*mode.level_weights(haar_levels(column.size), seen))
                parts += [(Haar((column.name,), level), p) for level, p in enumerate(prices)]
            else:
                parts += own.parts(share)
        return tuple(parts)

    def _one_way_shares(
        self, budget: Budget, mode: Mode, widths: Sequence[int]
    ) -> tuple[Budget, ...]:
        return budget.split(*(1 if mode.independent else math.sqrt(width) for width in widths))

    def _tiers(self, setting: Setting, column: Column, share: Budget, n: float | None) -> Tiers:
        levels = () if column.ordered else hierarchy(setting.schema, column)
        if n is None:
            return Tiers(column.name, levels)
        return worth_asking(levels, column, n, setting.noise_of(share))

    def _outcome(self, targets: Targets, scores: dict[Clique, float], mode: Mode) -> Outcome:
        pairs = len(targets.pairs)
        remark = f"mode {mode.name}: {pairs} pairs measured"
        if mode.triples and pairs:
            many = len(targets.triples)
            remark += (
                f", and {count(many, 'table')} of the label and two other columns"
                if many
                else "; no two columns and the label told more than their pairs"
            )
        if mode.planned and not pairs:
            remark += "; none stood out, so attributes are drawn independently"
        elif mode.independent:
            remark += "; with this budget and number of rows only 1-ways are worth measuring"
            remark += ", but these were asked for" if pairs else ""
        return Outcome(Model(self.synthesizer, (targets,)), scores, (remark,))
