"""Secure aggregation in one process: the shares of noise and the sums of a federation."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn import FederatedSynthesizer, Schema
from heterofedsyn.errors import PrivacyRefusal, UsageError
from heterofedsyn.hub import Request, conversation, converse, drive, make_method
from heterofedsyn.hub.planning.cost import check_feasible
from heterofedsyn.masking.streams import stream
from heterofedsyn.privacy.budget import Budget, sigma_for
from heterofedsyn.privacy.noise import SimulatedNoise
from heterofedsyn.protocol import Answer, decode, encode
from heterofedsyn.protocol.plan import Aggregation, Hiding
from heterofedsyn.simulate.run import run_study, summed
from heterofedsyn.simulate.synthesizer import name_sites
from heterofedsyn.site import Site
from support import categories, deal, dependent_table, make_plan, released

pytestmark = pytest.mark.sweep

HIDDEN = "secure-aggregation"
SCHEMA = categories(4, 6, 3)
WAYS = [(3, 1, 3), (4, 1, 3), (5, 1, 5), (5, 1, 4), (5, 2, 4), (7, 5, 7)]

words = st.integers(-(2**63), 2**63 - 1)


def answer(site: str, values: list[int]) -> Answer:
    return Answer(study="s", query="q", site=site, simulated=True, parts=(released(values),))


@given(st.integers(1, 4).flatmap(lambda n: st.lists(st.lists(words, min_size=n, max_size=n))))
def test_sums_are_modulo_2_64(rows: list[list[int]]) -> None:
    if not rows:
        return
    told = summed([answer(f"s{i}", row) for i, row in enumerate(rows)])
    wanted = [sum(column) % 2**64 for column in zip(*rows, strict=True)]
    assert [int(value) % 2**64 for value in told.parts[0].values] == wanted


@given(st.lists(st.integers(-(2**40), 2**40), min_size=3, max_size=6), st.binary(min_size=32))
def test_masks_that_cancel_leave_the_sum_as_it_is(values: list[int], seed: bytes) -> None:
    """A mask that one site adds and the next takes away: the same sum, though nothing looks so."""
    plain = summed([answer(f"s{i}", [value]) for i, value in enumerate(values)])
    masks = stream(seed[:32], len(values))
    own = np.array(values, dtype=np.int64).view(np.uint64)
    masked = (own + masks - np.roll(masks, 1)).view(np.int64)
    hidden = summed([answer(f"s{i}", [int(value)]) for i, value in enumerate(masked)])
    assert plain.parts[0].data == hidden.parts[0].data
    assert int(plain.parts[0].values[0]) == sum(values)


@pytest.mark.parametrize(("sites", "colluding", "quorum"), WAYS)
def test_each_site_adds_its_share_and_the_hub_hears_the_sum(
    sites: int, colluding: int, quorum: int
) -> None:
    names = [f"site-{i}" for i in range(sites)]
    plan = make_plan(
        SCHEMA,
        names,
        epsilon=0.3,
        trust=HIDDEN,
        aggregation=Aggregation(colluding, quorum),
        method="allmarg",
    )
    tables = deal(dependent_table(SCHEMA.domain, 500), sites)
    members = [
        Site(name, table, plan, SimulatedNoise(1, name), trust=plan.trust_model)
        for name, table in zip(names, tables, strict=True)
    ]

    def ask(request: Request) -> list[Answer]:
        assert request.asked == ("sum",)
        message = encode(request.query)
        own = [decode(site.answer(message), Answer) for site in members]
        together = summed(own)
        for place, part in enumerate(request.query.parts):
            cost = plan.budget.part(part.share)
            sensitivity = own[0].parts[place].sensitivity
            protecting = sigma_for(sensitivity, cost) ** 2
            for site in own:
                share = site.parts[place].sigma ** 2
                assert share * (quorum - colluding) == pytest.approx(protecting, rel=1e-6)
                assert share * (quorum - colluding) >= protecting * (1 - 1e-12)
            total = together.parts[place]
            assert total.sigma**2 == pytest.approx(sites * share)
            assert request.stated[place].sigma ** 2 == pytest.approx((quorum - colluding) * share)
        return [together]

    release = drive(converse(SCHEMA, plan, make_method("allmarg")), ask)
    assert release.privacy.rho_alone == pytest.approx((quorum - colluding) * plan.budget.rho)


def fit(sites: int, **terms: Any) -> FederatedSynthesizer:
    usual = {"epsilon": 0.5, "delta": 1e-9, "method": "independent", "noise_seed": 3}
    synthesizer = FederatedSynthesizer(SCHEMA, **{**usual, **terms})
    tables = deal(dependent_table(synthesizer.encoding.domain, 600), sites)
    return synthesizer.fit_encoded(name_sites(tables))


@pytest.mark.parametrize(("sites", "colluding", "quorum"), WAYS)
def test_the_interface_says_who_may_collude_and_how_many_must_be_there(
    sites: int, colluding: int, quorum: int
) -> None:
    given = fit(sites, trust=HIDDEN, colluding=colluding, quorum=quorum).release
    honest = quorum - colluding
    assert given.privacy.rho_alone == pytest.approx(honest * given.privacy.rho)
    (first, *_) = given.privacy.sites[0].charges[0].parts
    cost = Budget(first.rho)
    assert first.sigma == pytest.approx(sigma_for(first.sensitivity, cost), rel=1e-6)


def test_one_colludes_and_all_must_be_there_unless_others_are_given() -> None:
    usual, given = (fit(4, trust=HIDDEN, **way) for way in ({}, {"colluding": 1, "quorum": 4}))
    assert usual.release.privacy == given.release.privacy
    assert usual.sample(50, seed=1).equals(given.sample(50, seed=1))
    assert Hiding(HIDDEN).aggregation(4) == Aggregation(colluding=1, quorum=4)
    assert Hiding("local").aggregation(4) is msgspec.UNSET


@pytest.mark.parametrize(
    ("terms", "word"),
    [
        ({"colluding": 1}, "colluding means nothing under trust 'local'"),
        ({"quorum": 3}, "quorum means nothing under trust 'local'"),
        ({"trust": HIDDEN, "colluding": 0}, r"colluding \(0\)"),
        ({"trust": HIDDEN, "colluding": -1}, r"colluding \(-1\)"),
        ({"trust": HIDDEN, "colluding": 10**12}, r"colluding \(1000000000000\)"),
        ({"trust": HIDDEN, "quorum": 0}, r"quorum \(0\)"),
        ({"trust": HIDDEN, "quorum": 2}, r"quorum \(2\)"),
        ({"trust": HIDDEN, "quorum": 10**12}, r"quorum \(1000000000000\)"),
        ({"trust": HIDDEN, "colluding": 3, "quorum": 4}, r"quorum \(4\)"),
        ({"trust": HIDDEN, "method": "privsyn"}, "pools all rows"),
        ({"trust": HIDDEN, "method": "local-merge"}, "every site's own answers"),
        ({"trust": "secure-agregation", "quorum": 3}, "secure-agregation"),
    ],
)
def test_what_no_number_of_sites_can_have_is_refused_when_it_is_said(
    terms: dict[str, Any], word: str
) -> None:
    with pytest.raises(UsageError, match=word):
        FederatedSynthesizer(SCHEMA, **{"epsilon": 1.0, "delta": 1e-9, **terms})


@pytest.mark.parametrize(
    ("sites", "terms", "word"),
    [
        (1, {}, "at least 3 sites, not 1"),
        (2, {}, "at least 3 sites, not 2"),
        (4, {"colluding": 3}, r"colluding \(3\) must be in 1\.\.2"),
        (6, {"quorum": 3}, r"quorum \(3\) must be in 4\.\.6"),
        (4, {"quorum": 5}, r"quorum \(5\) must be in 3\.\.4"),
    ],
)
def test_sites_over_which_no_sum_hides_anybody_are_refused_before_anything_is_read(
    sites: int, terms: dict[str, Any], word: str
) -> None:
    with pytest.raises(UsageError, match=word):
        fit(sites, trust=HIDDEN, **terms)
    synthesizer = FederatedSynthesizer(SCHEMA, epsilon=0.5, delta=1e-9, trust=HIDDEN, **terms)
    with pytest.raises(UsageError, match=word):
        synthesizer.fit([f"not-there-{number}.csv" for number in range(sites)])


@pytest.mark.parametrize("quorum", [-1, 0, 2])
def test_no_plan_has_a_quorum_that_means_something_else(quorum: int) -> None:
    with pytest.raises(UsageError, match=rf"quorum \({quorum}\) must be"):
        make_plan(SCHEMA, tuple("abc"), trust=HIDDEN, aggregation=Aggregation(1, quorum))


def test_a_schema_too_wide_for_any_site_is_refused_under_either_trust_model() -> None:
    wide = Schema.of(
        {
            "columns": [
                {"name": name, "type": "integer", "min": 0, "max": 29_999, "bins": 30_000}
                for name in "ab"
            ]
        }
    )
    for trust in ("local", HIDDEN):
        with pytest.raises(UsageError, match="more than sites answer"):
            FederatedSynthesizer(wide, epsilon=1.0, delta=1e-9, method="fedprivsyn", trust=trust)


def test_no_round_that_hangs_on_answers_asks_for_more_than_a_sum_can_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Few pairs of a small schema would be more exact than a hundred small shares of noise are."""
    schema = categories(3, 4, 5, label=0)
    tables = deal(dependent_table(schema.domain, 6_000), 100)
    method = make_method("wavetree")
    sites = [f"site-{number}" for number in range(100)]
    terms = {"trust": HIDDEN, "method": method.name, "epsilon": 1.2}
    plan = make_plan(method.encoding(schema), sites, **terms)
    check_feasible(method.encoding(schema), plan, method)
    release = run_study(method.encoding(schema), plan, method, tables, noise_seed=5)
    charges = release.privacy.sites[0].charges
    sigmas = [part.sigma / math.sqrt(99) for charge in charges for part in charge.parts]
    assert min(sigmas) == pytest.approx(1.3, rel=1e-4)
    assert release.privacy.sites[0].rho < plan.budget.rho
    monkeypatch.setattr(conversation, "within_means", lambda query, domain, plan: query)
    with pytest.raises(PrivacyRefusal, match=r"below 1\.3"):
        run_study(method.encoding(schema), plan, method, tables, noise_seed=5)
