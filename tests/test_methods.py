"""What every method must keep, whatever its name: adding one to the table puts it under this."""

from __future__ import annotations

import dataclasses
import math
import os
import subprocess
import sys
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest

from heterofedsyn.errors import ProtocolError, UsageError
from heterofedsyn.evaluation import total_variation
from heterofedsyn.hub import METHODS, Release, Request, converse, drive, make_method
from heterofedsyn.hub.methods.base import Method, Outcome, Setting, settings_of
from heterofedsyn.hub.methods.fedprivsyn import greedy
from heterofedsyn.hub.replies import Ask, Round
from heterofedsyn.marginals import Total
from heterofedsyn.privacy.budget import Budget, together
from heterofedsyn.privacy.noise import SimulatedNoise
from heterofedsyn.protocol import Answer, Plan, decode, encode
from heterofedsyn.protocol.plan import Aggregation
from heterofedsyn.schema import Clique, EncodedTable, Schema
from heterofedsyn.schema import encode as encode_rows
from heterofedsyn.simulate.run import run_study, site_names
from heterofedsyn.site import Site
from support import categories, deal, dependent_table, make_plan

SCHEMA = categories(4, 6, 3, 5, 12, label=0)
TABLE = dependent_table(SCHEMA.domain, 4_000)
NAMES = ("one", "two", "three")
MORE = (*NAMES, "four", "five")
HERE = str(Path(__file__).parent)
LINEAR = sorted(name for name, kind in METHODS.items() if kind.sums and not kind.pools)

every_method = pytest.mark.parametrize("name", sorted(METHODS))


def run(
    name: str, tables: Sequence[EncodedTable], schema: Schema = SCHEMA, **terms: object
) -> Release:
    method = make_method(name)
    plan = make_plan(schema, site_names(method, MORE[: len(tables)]), method=name, **terms)
    return run_study(schema, plan, method, tables, noise_seed=3)


def rows_of(release: Release) -> EncodedTable:
    return encode_rows(release.schema, release.sample(seed=1).to_batches()).table


@every_method
def test_a_study_spends_its_budget_and_never_more(name: str) -> None:
    release = run(name, deal(TABLE, 3))
    for account in release.privacy.sites:
        charges = [Budget(charge.rho) for charge in account.charges]
        assert together(charges).rho == pytest.approx(account.rho, rel=1e-12)
        assert account.rho <= release.privacy.rho
        assert account.rho > 0.99 * release.privacy.rho


@every_method
def test_with_plenty_of_budget_the_table_is_close_to_the_truth(name: str) -> None:
    table = dependent_table(SCHEMA.domain, 20_000)
    apart = total_variation(table, rows_of(run(name, deal(table, 3), epsilon=100.0)))
    assert apart.one_way < 0.01
    limited = {"independent": 0.5, "randmarg": 0.5, "adafedprivsyn": 0.3}  # few pairs or none
    assert apart.two_way < limited.get(name, 0.1)


@pytest.mark.thorough
@every_method
@pytest.mark.parametrize("epsilon", [0.001, 1.0, 100.0])
@pytest.mark.parametrize("rows", [0, 1, 200])
def test_any_table_and_budget_give_rows_within_the_schema(
    name: str, epsilon: float, rows: int
) -> None:
    release = run(name, deal(dependent_table(SCHEMA.domain, rows), 3), epsilon=epsilon)
    made = rows_of(release)
    assert made.rows == release.run.noisy_total >= 1
    for targets in release.model.targets:
        for noisy in targets.marginals.values():
            assert np.isfinite(noisy.values).all()


@pytest.mark.thorough
@every_method
@pytest.mark.parametrize("sizes", [(5,), (1,), (2, 3), (1, 1), (300, 2)])
def test_few_or_constant_or_wide_attributes_are_no_obstacle(
    name: str, sizes: tuple[int, ...]
) -> None:
    schema = categories(*sizes)
    release = run(name, deal(dependent_table(schema.domain, 500), 2), schema)
    assert rows_of(release).domain == schema.domain


@every_method
def test_an_empty_site_is_no_obstacle(name: str) -> None:
    empty = TABLE.take(np.array([], dtype=np.int64))
    assert rows_of(run(name, [TABLE, empty])).rows >= 1


def conduct(schema: Schema, plan: Plan, method: Method, sites: list[Site], order: int) -> Release:
    """Drive the generator by hand, answers arriving in some order."""
    rng = np.random.default_rng(order)

    def ask(request: Request) -> list[Answer]:
        asked = [site for site in sites if site.name in request.asked]
        answers = [decode(site.answer(encode(request.query)), Answer) for site in asked]
        return [answers[i] for i in rng.permutation(len(answers))]

    return drive(converse(schema, plan, method), ask)


@every_method
def test_the_order_of_answers_does_not_matter(name: str) -> None:
    method = make_method(name)
    names = site_names(method, NAMES)
    parts = [TABLE] if method.pools else deal(TABLE, 3)
    plan = make_plan(SCHEMA, names, method=name)
    made = []
    for order in range(3):
        sites = [
            Site(site, table, plan, SimulatedNoise(5, site))
            for site, table in zip(names, parts, strict=True)
        ]
        made.append(conduct(SCHEMA, plan, method, sites, order).sample(seed=1))
    assert made[0].equals(made[1])
    assert made[0].equals(made[2])


@pytest.mark.thorough
@pytest.mark.parametrize("trust", ["local", "secure-aggregation"])
@pytest.mark.parametrize("name", LINEAR)
def test_the_split_of_rows_over_sites_does_not_matter(name: str, trust: str) -> None:
    made = [run(name, deal(TABLE, 3, seed), trust=trust).sample(seed=1) for seed in range(3)]
    lopsided = [TABLE, *deal(TABLE.take(np.array([], dtype=np.int64)), 2)]
    made.append(run(name, lopsided, trust=trust).sample(seed=1))
    assert all(made[0].equals(other) for other in made[1:])


@pytest.mark.parametrize(("colluding", "quorum"), [(1, 5), (1, 4), (2, 5), (3, 5)])
@pytest.mark.parametrize("name", LINEAR)
def test_secure_aggregation_is_less_noisy_than_local_by_the_honest_sites_of_a_quorum(
    name: str, colluding: int, quorum: int
) -> None:
    tables, honest = deal(TABLE, 5), quorum - colluding
    local = run(name, tables)
    hidden = run(
        name,
        tables,
        trust="secure-aggregation",
        aggregation=Aggregation(colluding, quorum),
    )
    for release, alone in ((local, 1), (hidden, honest)):
        assert release.privacy.rho_alone / release.privacy.rho == pytest.approx(alone)
    one, other = (release.model.targets[0].marginals[("a0",)] for release in (local, hidden))
    assert one.variance / other.variance == pytest.approx(honest)
    # Five sites add noise; that of so few is promised, and stated.
    stated = [
        part.sigma**2
        for charge in hidden.privacy.sites[0].charges
        for part in charge.parts
        if part.attributes == ("a0",) and part.kind == "flat"
    ]
    assert name == "wavetree" or other.variance / stated[0] == pytest.approx(5 / honest)


@pytest.mark.parametrize("name", ["local-merge", "privsyn"])
def test_methods_that_see_more_than_sums_cannot_run_under_secure_aggregation(name: str) -> None:
    with pytest.raises(UsageError, match="use trust 'local'"):
        run(name, deal(TABLE, 3), trust="secure-aggregation")


@pytest.mark.slow
@pytest.mark.thorough
@every_method
def test_results_do_not_depend_on_the_hash_seed(name: str) -> None:
    code = (
        "import hashlib, test_methods as t\n"
        f"table = t.run({name!r}, t.deal(t.TABLE, 3)).sample(seed=1)\n"
        "print(hashlib.sha256(str(table.to_pydict()).encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": HERE},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


@every_method
def test_settings_survive_the_way_through_a_plan(name: str) -> None:
    method: Any = make_method(name)
    assert make_method(name, settings_of(method)) == method
    (setting,) = dataclasses.asdict(method.synthesizer)
    changed = make_method(name, {**settings_of(method), setting: "7"})
    assert settings_of(changed)[setting] == 7


@every_method
def test_every_setting_is_a_frozen_named_default(name: str) -> None:
    kind: Any = METHODS[name]
    assert kind.__dataclass_params__.frozen
    assert kind.__doc__
    for field in dataclasses.fields(kind):
        assert field.default is not dataclasses.MISSING


@pytest.mark.parametrize(
    ("settings", "hint"),
    [
        ({"Q": 0.2}, "did you mean 'q'"),
        ({"q": 0.5}, "must be above 0 and at most 0.49"),
        ({"q": "many"}, "must be a number"),
        ({"k": 2.5}, "must be a whole number"),
        ({"k": 0}, "must be in 1..4096"),
        ({"sketch": "sings"}, "signs, gaussian"),
        ({"bound": 0}, "bound"),
        ({"refresh": 0}, "refresh"),
        ({"passes": -1}, "passes"),
        ({"synthesizer": "gumm"}, "did you mean 'gum'"),
    ],
)
def test_a_wrong_setting_is_named_with_what_would_do(
    settings: dict[str, str | float], hint: str
) -> None:
    with pytest.raises(UsageError, match=hint):
        make_method("adafedprivsyn", settings)


def test_greedy_never_raises_the_error_and_stops_at_the_best() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        pairs: list[Clique] = [(f"a{i}", f"b{i}") for i in range(8)]
        scores = dict(zip(pairs, rng.random(8).tolist(), strict=True))
        roots = dict(zip(pairs, (0.2 * rng.random(8)).tolist(), strict=True))

        def error(chosen: list[Clique]) -> float:
            noise: float = math.sqrt(len(chosen)) * sum(roots[p] for p in chosen)  # noqa: B023
            return noise + math.fsum(scores[p] for p in pairs if p not in chosen)  # noqa: B023

        chosen = greedy(dict(scores), dict(roots))
        errors = [error(chosen[:i]) for i in range(len(chosen) + 1)]
        assert errors == sorted(errors, reverse=True)
        rest = [pair for pair in pairs if pair not in chosen]
        assert all(error([*chosen, pair]) >= errors[-1] - 1e-12 for pair in rest)


class TestFaultyAnswers:
    """The hub refuses an answer that is not what was agreed, and names the site."""

    def answers(self) -> tuple[Request, list[Answer]]:
        plan = make_plan(SCHEMA, NAMES)
        request = next(converse(SCHEMA, plan, make_method("independent")))
        sites = [
            Site(name, table, plan, SimulatedNoise(5, name))
            for name, table in zip(NAMES, deal(TABLE, 3), strict=True)
        ]
        return request, [decode(site.answer(encode(request.query)), Answer) for site in sites]

    def test_missing_double_and_strange_answers_are_refused(self) -> None:
        for pick in ([0, 1], [0, 1, 1], [0, 1, 2, 2], []):
            request, answers = self.answers()
            with pytest.raises(ProtocolError, match="needs one answer each"):
                request.check([answers[i] for i in pick])

    @pytest.mark.parametrize(
        ("field", "value", "said"),
        [
            ("data", b"\x00" * 8, "wrong length"),
            ("sigma", 1e-3, "other noise"),
            ("sigma", math.nan, "other noise"),
            ("sensitivity", 0.5, "other noise"),
            ("rho", 1.0, "other noise"),
            ("data", np.full(4, 2**60).astype("<i8").tobytes(), "beyond 2"),
            ("data", np.full(4, -(2**63)).astype("<i8").tobytes(), "beyond 2"),
        ],
    )
    def test_a_release_other_than_agreed_is_refused(
        self, field: str, value: object, said: str
    ) -> None:
        request, answers = self.answers()
        parts = list(answers[1].parts)
        parts[0] = msgspec.structs.replace(parts[0], **{field: value})
        answers[1] = msgspec.structs.replace(answers[1], parts=tuple(parts))
        with pytest.raises(ProtocolError, match=f"'two'.*{said}"):
            request.check(answers)

    def test_an_answer_to_another_query_or_study_is_refused(self) -> None:
        for field in ("query", "study"):
            request, answers = self.answers()
            answers[2] = msgspec.structs.replace(answers[2], **{field: "0" * 64})
            with pytest.raises(ProtocolError, match="'three' answered another query"):
                request.check(answers)


def test_a_plan_for_another_schema_is_refused() -> None:
    plan = make_plan(categories(2, 2))
    with pytest.raises(UsageError, match="another schema"):
        next(converse(SCHEMA, plan, make_method("independent")))


@dataclasses.dataclass(frozen=True)
class Slip(Method):
    """A method whose author made a mistake."""

    name: ClassVar[str] = "slip"
    to: str = ""

    def conduct(self, setting: Setting) -> Generator[Ask, Round, Outcome]:
        yield Ask("one-way", ((Total(), setting.budget),), to=self.to or None)
        return None  # type: ignore[return-value]


def test_mistakes_of_a_method_are_named() -> None:
    plan = make_plan(SCHEMA, NAMES, method="slip")
    with pytest.raises(UsageError, match="'slip' ended without an outcome"):
        run_study(SCHEMA, plan, Slip(), deal(TABLE, 3), noise_seed=1)
    with pytest.raises(UsageError, match="'zz', which is no site of the study"):
        run_study(SCHEMA, plan, Slip(to="zz"), deal(TABLE, 3), noise_seed=1)
