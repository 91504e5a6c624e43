"""`wavetree`: Haar 1-ways, a grid as fine as the noise allows, a tree of pairs; MATH section 5."""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from heterofedsyn.hub.methods.attempts import INDEPENDENT, TRIPLES, Mode, groups_at
from heterofedsyn.hub.methods.base import Later, Method, Model, Outcome, Setting
from heterofedsyn.hub.methods.choosing import choose, most_extras, stands_out
from heterofedsyn.hub.methods.forced import asked_pairs, read_pairs, ruled_pairs
from heterofedsyn.hub.methods.grouping import (
    dependence,
    grid_of,
    grouped_pairs,
    most_groups,
    waved,
)
from heterofedsyn.hub.methods.stages import check_between, check_share
from heterofedsyn.hub.methods.tiers import Tiers, hierarchy, worth_asking
from heterofedsyn.hub.methods.triples import (
    MOST_LOOKED_AT,
    SCORED_GROUPS,
    Together,
    cells_measured,
    cells_scored,
    most_integers,
    on_grid,
    seen,
    worth_a_look,
    worth_measuring,
)
from heterofedsyn.hub.replies import Ask, Round
from heterofedsyn.marginals.counts import PAIRS
from heterofedsyn.marginals.statistics import (
    Grouped,
    Haar,
    Statistic,
    Total,
    haar_levels,
    kind_of,
)
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
        check_share("triples", self.triples, most=0.99)
        check_share("triple_score", self.triple_score, most=0.99)
        check_share("triples + triple_score", self.triples + self.triple_score, most=0.99)
        check_between("triples_at", self.triples_at, 0, 1e9)
        for name in ("full_at", "star_at", "density", "density_free"):
            check_between(name, getattr(self, name), 0.1, 1_000)
        check_between("finest", self.finest, 2, 1_000)
        check_between("coarse", self.coarse, 2, 100)
        read_pairs(self.measure)

    def encoding(self, schema: Schema) -> Schema:
        """The public schema, with a code of its own for piles at a column's minimum."""
        return with_atoms(schema) if self.atoms else schema

    def columns(self, setting: Setting) -> int:
        """Three where tables of the label and two others may be worth it, whatever is answered."""
        return 3 if 0 < self._noise_of_triples(setting) <= self.triples_at else PAIRS

    def later(self, setting: Setting, left: Budget) -> tuple[Ask | Later, ...]:
        """What rounds after the total cost depends on the mode it leads to."""
        modes = list(self.modes(setting).values())
        _, rest = self._first_and_rest(setting)
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
        return ones, *self._later(setting, modes, pairs, None)

    def ahead_of(self, setting: Setting, rows: float) -> tuple[Ask | Later, ...]:
        """With the mode of so many rows the 1-ways are fixed, and pairs have fewer groups."""
        mode = self.mode(setting, rows)
        first, rest = self._first_and_rest(setting)
        for_ones, _, for_pairs = mode.split(rest)
        ones = Ask("one-way", self.one_way_parts(setting, for_ones, mode, rows))
        if not self._scored_pairs(setting):
            for_pairs = mode.all_pairs(rest)
        # The final number of rows may differ from the first noisy one; three of its sigmas more.
        error = math.sqrt(setting.variance_factor / (2 * first.rho))
        later = self._later(setting, [mode], for_pairs, rows + 3 * error)
        return self._ask_total(first), ones, *later

    def _later(
        self,
        setting: Setting,
        modes: Sequence[Mode],
        for_pairs: Budget,
        rows: float | None,
    ) -> tuple[Later, ...]:
        """The rounds after the 1-ways in one of these modes, with so many rows at most."""
        _, rest = self._first_and_rest(setting)
        rounds: list[Later] = []
        scored = self._scored_pairs(setting)
        if scored and any(mode.scored for mode in modes):
            groups = max(
                self._groups_of_scores(setting, mode, rows) for mode in modes if mode.scored
            )
            cells = self._most_cells(setting, scored, groups)
            most = max(mode.split(rest)[1] for mode in modes)
            rounds.append(Later("scores", ("grouped",), len(scored), sum(cells), most, columns=2))
        pairs = max(self._most_pairs(setting, mode) for mode in modes)
        if pairs:
            integers = max(self._most_integers(setting, mode, rows) for mode in modes)
            rounds.append(Later("pairs", ("grouped",), pairs, integers, for_pairs, columns=2))
        for mode in modes:
            if pairs and mode.triples:
                rounds += self._later_triples(setting, mode, (pairs, integers), rows)
        return tuple(rounds)

    def _later_triples(
        self, setting: Setting, mode: Mode, pairs: tuple[int, int], rows: float | None
    ) -> tuple[Later, ...]:
        """A look at three columns, and then tables of three, and what they leave to the pairs.

        Args:
            pairs: how many there are at most, and integers of their tables.
        """
        _, rest = self._first_and_rest(setting)
        look, tables = mode.split_beyond(rest)
        beside = self._beside_label(setting)
        n = math.inf if rows is None else rows
        many = min(MOST_LOOKED_AT, len(beside))
        sigma = self._noise_of(setting, look, many)
        scored = most_integers(setting.schema, beside, cells_scored(n, sigma), SCORED_GROUPS)
        few = self._noise_of(setting, tables, 1)
        cells = most_integers(setting.schema, beside, cells_measured(n, few), self.finest)
        edges = min(len(beside), len(setting.domain) - 2)
        largest = sum(sorted(cells, reverse=True)[:edges])
        return (
            Later(
                "triple-scores",
                ("grouped",),
                many,
                sum(sorted(scored, reverse=True)[:many]),
                look,
                columns=3,
            ),
            Later("triples", ("grouped",), pairs[0] + edges, pairs[1] + largest, tables),
        )

    def _beside_label(self, setting: Setting) -> list[Clique]:
        """Pairs that could be measured together with the label."""
        return [pair for pair in self._open_pairs(setting) if setting.schema.label not in pair]

    def _noise_of_triples(self, setting: Setting) -> float:
        """On a count of the label and two others if all edges of a tree share their budget; 0 if
        there are no such tables."""
        if setting.schema.label is None or not self._beside_label(setting):
            return 0.0
        tables = setting.budget.part((1 - self.total) * self.triples)
        return self._noise_of(setting, tables, len(setting.domain) - 2)

    def _noise_of(self, setting: Setting, budget: Budget, many: int) -> float:
        """On a count, in rows, if so many tables share a budget."""
        return math.sqrt(setting.variance_factor * many / (2 * budget.rho)) if budget.rho else 0.0

    def _most_integers(self, setting: Setting, mode: Mode, rows: float | None) -> int:
        """In the tables of all pairs that a mode may choose: the more of them, the coarser each."""
        every, largest = self._open_pairs(setting), 0
        most = self._most_pairs(setting, mode)
        few = 1
        while few <= most:
            many = min(most, few + few // 8)
            groups = float(self.finest)
            if rows is not None:
                groups = min(groups, mode.resolution_of(few, rows))
            cells = sorted(self._most_cells(setting, every, groups), reverse=True)
            largest = max(largest, sum(cells[:many]))
            few = many + 1
        return largest

    def _first_and_rest(self, setting: Setting) -> tuple[Budget, Budget]:
        first, rest = setting.budget.split(self.total, 1 - self.total)
        return first, rest

    def _open_pairs(self, setting: Setting) -> list[Clique]:
        """Pairs that could be measured: a column with one value can depend on nothing."""
        names = [column.name for column in setting.schema.measured if column.size > 1]
        return list(itertools.combinations(names, 2))

    def _scored_pairs(self, setting: Setting) -> list[Clique]:
        forced = self._forced(setting)
        return [
            pair
            for pair in self._open_pairs(setting)
            if setting.schema.label not in pair and pair not in forced
        ]

    def _groups_of_scores(self, setting: Setting, mode: Mode, n: float | None) -> float:
        """Groups per attribute when pairs are scored: as many as the noise of scores allows.

        Args:
            n: rows; without it, the most that there may be.
        """
        scored = self._scored_pairs(setting)
        few, most = float(self.coarse), 2.0 * self.coarse
        if sum(self._most_cells(setting, scored, most)) > MOST_FINE_SCORES:
            return few
        if n is None:
            return most
        _, rest = self._first_and_rest(setting)
        _, budget, _ = mode.split(rest)
        sigma = math.sqrt(setting.variance_factor * max(1, len(scored)) / (2 * budget.rho))
        return min(most, max(few, groups_at(n, sigma)))

    def _forced(self, setting: Setting) -> tuple[Clique, ...]:
        """Pairs that are measured where any are, those with the label included."""
        asked = asked_pairs(setting.schema, self.measure)
        return *asked, *(pair for pair in ruled_pairs(setting.schema) if pair not in asked)

    def _most_pairs(self, setting: Setting, mode: Mode) -> int:
        """All pairs with the label, a spanning tree of the rest and the most extras."""
        every, scored = self._open_pairs(setting), self._scored_pairs(setting)
        certain = len(every) - len(scored)
        if mode.independent or not mode.scored:
            return len(mode.forced) if mode.independent else certain
        tree = max(0, len({name for pair in scored for name in pair}) - 1)
        return min(len(every), certain + tree + most_extras(setting.domain))

    def _ask_total(self, budget: Budget) -> Ask:
        return Ask("total", ((Total(), budget),))

    def _most_cells(self, setting: Setting, pairs: Sequence[Clique], groups: float) -> list[int]:
        schema = setting.schema
        most = {column.name: most_groups(schema, column, groups) for column in schema.measured}
        return [most[first] * most[second] for first, second in pairs]

    def conduct(self, setting: Setting) -> Generator[Ask, Round, Outcome]:
        forced = self._forced(setting)  # refuses what cannot be before anything is asked
        first, rest = self._first_and_rest(setting)
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
            rough = grid_of(setting.schema, values, n, self._groups_of_scores(setting, mode, n))
            statistics = grouped_pairs(self._scored_pairs(setting), rough)
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
        if not chosen:
            return self._outcome(targets, scores, mode)
        # MEASURE pairs
        round_ = yield Ask.evenly("pairs", chosen, for_pairs)
        targets = targets.with_measured(round_.measurements())
        if mode.triples:
            targets = yield from self._measure_triples(setting, targets, mode, rest, chosen)
        return self._outcome(targets, scores, mode)

    def _measure_triples(
        self,
        setting: Setting,
        targets: Targets,
        mode: Mode,
        rest: Budget,
        pairs: Sequence[Grouped],
    ) -> Generator[Ask, Round, Targets]:
        """Tables of the label and two others where these tell more than pairs; else pairs again."""
        known, n = targets.estimates, max(SMALLEST_TOTAL, targets.total)
        look, tables = mode.split_beyond(rest)
        alone = self._noise_of(setting, look, 1)
        beside = worth_a_look(known, self._beside_label(setting), n, alone)
        sigma = self._noise_of(setting, look, len(beside))
        rough = on_grid(known, beside, cells_scored(n, sigma), SCORED_GROUPS)
        found: dict[Clique, Together] = {}
        if rough:
            round_ = yield Ask.evenly("triple-scores", rough, look)
            looks = zip(rough, round_.totals(), strict=True)
            found = dict(seen(known, statistic, noisy) for statistic, noisy in looks)
        edges = len(setting.domain) - 2
        worth = worth_measuring(found, self._noise_of(setting, tables, edges))
        # Noise on the counts of few tables would be the same as of many: pairs get what is spared.
        share = math.sqrt(len(worth) / edges)
        for_worth, for_pairs = tables.split(share, 1 - share)
        cells = cells_measured(n, self._noise_of(setting, for_worth, len(worth)))
        fine = on_grid(known, worth, cells, self.finest)
        parts = Ask.evenly("triples", fine, for_worth).parts if fine else ()
        if share < 1:
            parts += Ask.evenly("triples", pairs, for_pairs).parts
        round_ = yield Ask("triples", parts)
        return targets.with_measured(round_.measurements())

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

        asked = asked_pairs(setting.schema, self.measure)
        forced = tuple(p for p in self._forced(setting) if setting.schema.label not in p)
        certain = len(forced) + others * labelled if forced else 0

        def attempt(name: str, planned: float, pairs: float, scores: float, needed: float) -> Mode:
            budget = 2 * pairs * setting.budget.rho
            sigma = math.sqrt(setting.variance_factor * planned / budget) if budget else 0.0
            shares = (1 - self.total - pairs - scores, scores, pairs)
            own = asked if name == INDEPENDENT else forced
            return Mode(name, planned, shares, sigma, needed, own)

        usual = self.density if labelled else self.density_free
        full = attempt("full", max(usual * others, certain), share, score, self.full_at)
        modes = {
            INDEPENDENT: attempt(INDEPENDENT, len(asked), self.star * bool(asked), 0.0, 0.0),
        }
        if others:
            modes["full"] = full
        if setting.together > PAIRS:
            left = 1 - self.triple_score - self.triples
            sigma = full.sigma / math.sqrt(left)
            tables = self._noise_of_triples(setting)
            ones, scores, pairs = (share * left for share in full.shares)
            modes[TRIPLES] = replace(
                full,
                name=TRIPLES,
                shares=(ones, scores, pairs),
                beyond=(
                    (1 - self.total) * self.triple_score,
                    (1 - self.total) * self.triples,
                ),
                sigma=sigma,
                needed=max(self.full_at, math.sqrt(TRIPLE_CELLS * tables / sigma)),
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
                prices = share.split(*mode.level_weights(haar_levels(column.size)))
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
        sigma = math.sqrt(setting.variance_factor / (2 * share.rho)) if share.rho else math.inf
        return worth_asking(levels, column, n, sigma)

    def _outcome(self, targets: Targets, scores: dict[Clique, float], mode: Mode) -> Outcome:
        pairs = len(targets.pairs)
        remark = f"mode {mode.name}: {pairs} pairs measured"
        if mode.triples and pairs:
            many = len(targets.triples)
            remark += (
                f", and {many} tables of the label and two other columns"
                if many
                else " twice; no two columns and the label told more than their pairs"
            )
        if mode.planned and not pairs:
            remark += "; none stood out, so attributes are drawn independently"
        elif mode.independent:
            remark += "; with this budget and number of rows only 1-ways are worth measuring"
            remark += ", but these were asked for" if pairs else ""
        return Outcome(Model(self.synthesizer, (targets,)), scores, (remark,))
