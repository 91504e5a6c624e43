"""What a hub that lies can compute, for every choice of sets; and that an honest one gets its sum.

The audit runs this model for three and four sites; here it is run for five, and looked at itself.
"""

from __future__ import annotations

import numpy as np
import pytest

from heterofedsyn.audit.findings import Broken
from heterofedsyn.audit.sums import lies, settings, two_lists
from heterofedsyn.audit.sums.algebra import Equation, implied
from heterofedsyn.audit.sums.knowledge import Judge
from heterofedsyn.audit.sums.lies import Hub, answered, strategies
from heterofedsyn.audit.sums.members import WORDS, Cast, MaskWord, Unknown
from heterofedsyn.privacy.trust import SecureAggregation
from heterofedsyn.protocol import encode
from heterofedsyn.protocol.aggregation import AskVote, Masked, Opened
from heterofedsyn.site.remembered import read_hidden

THREE = SecureAggregation(3, 1, 3)
FOUR = SecureAggregation(4, 1, 3)


def begun(trust: SecureAggregation = FOUR) -> Cast:
    return answered(Cast.of(trust, 0, first=True))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "trust",
    [
        *settings(3),
        *(pytest.param(trust, marks=pytest.mark.slow) for trust in settings(4)),
    ],
    ids=str,
)
def test_of_three_or_four_sites_nothing_but_sums_can_be_computed(trust: SecureAggregation) -> None:
    assert "choices" in lies(trust, seed=1)
    assert "choices" in two_lists(trust, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("trust", [*settings(5)], ids=str)
def test_of_five_sites_nothing_but_sums_can_be_computed(trust: SecureAggregation) -> None:
    assert "choices" in lies(trust, seed=1)
    assert "choices" in two_lists(trust, seed=1)


def test_every_choice_of_sets_is_tried() -> None:
    """Of four sites each honest one is in 8 sets; of those, 4 have three sites or more."""
    assert len(list(strategies(begun(), 1))) == 8**3
    assert len(list(strategies(begun(), 3))) == 4**3
    assert len(list(settings(4))) == 3
    assert len(list(settings(5))) == 5


@pytest.mark.parametrize("absent", [False, True])
def test_a_hub_that_is_honest_gets_both_sums(absent: bool) -> None:
    cast = begun()
    everyone = frozenset(cast.plan.sites)
    late = [*cast.honest][-1]
    chosen = everyone - {late} if absent else everyone
    first = {name: chosen if name in chosen else everyone for name in cast.honest}
    hub, judge = Hub(cast), Judge(cast)
    hub.lie(cast, first)
    assert judge.check(cast, "sets") == 2 * WORDS
    assert not cast.broken


def test_nothing_is_known_before_a_set_is_opened() -> None:
    cast = begun()
    assert Judge(cast).check(cast, "sets") == 0
    hub = Hub(cast)
    for name in cast.honest:
        members = hub._members[hub.queries[1], hub.everyone]
        ask = AskVote(study=cast.plan.fingerprint, query=hub.queries[1], members=members)
        assert cast.ask(name, encode(ask)) is not None
    assert Judge(cast).check(cast, "sets") == 0


def test_a_seed_that_is_told_too_much_is_noticed() -> None:
    """The self seed of a site outside of the set that was opened."""
    cast = begun()
    everyone = frozenset(cast.plan.sites)
    late = [*cast.honest][-1]
    first = {name: everyone - {late} for name in cast.honest if name != late}
    hub = Hub(cast)
    hub.lie(cast, {**first, late: everyone})
    memory = cast.honest[late].memory(cast.states[late])
    two = hub.queries[1]
    kept = memory.kept(two)
    assert kept is not None
    told = Opened(
        study=cast.plan.fingerprint,
        query=two,
        site=late,
        seed=read_hidden(kept).seed,
        shares=(),
        seeds=(),
    )
    cast.heard[id(told)] = told
    with pytest.raises(Broken, match="a sum over 1 honest sites is known"):
        Judge(cast).check(cast, "sets")


def test_the_words_of_an_answer_hide_it_one_of_each_stream() -> None:
    cast = begun(THREE)
    for (site, query), equations in cast.equations.items():
        masked = cast.answers[site, query]
        assert isinstance(masked, Masked)
        assert len(equations) == WORDS == np.frombuffer(masked.data, "<u8").size
        for place, equation in enumerate(equations):
            hiding = [word for word in equation if isinstance(word, MaskWord)]
            assert equation[Unknown(site, query, place)] == 1
            assert len({word.seed for word in hiding}) == len(hiding) == THREE.sites
            assert {word.place for word in hiding} == {place}


@pytest.mark.quick
def test_what_follows_from_equations_is_told_and_nothing_else() -> None:
    masks = ["m", "n"]
    hidden: list[Equation] = [{"x": 1, "m": 1}, {"y": 1, "m": -1}, {"z": 1, "n": 1}]
    assert implied(hidden, masks) == [{"x": 1, "y": 1}]
    assert implied([*hidden, {"n": 1}], masks) == [{"x": 1, "y": 1}, {"z": 1}]
    assert implied(hidden[:1], masks) == []
