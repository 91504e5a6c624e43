"""What an agent checks before it serves: sound software and books pass, others are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from agent_support import approved_study, ask, books_of, make_site
from heterofedsyn._arrays import Integers
from heterofedsyn.errors import LedgerDisputed, PrivacyRefusal
from heterofedsyn.marginals import Flat
from heterofedsyn.privacy import noise as noise_module
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.noise import SecureNoise, SimulatedNoise
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.site import selfcheck
from heterofedsyn.site.agent import Agent
from heterofedsyn.site.settings import SiteSettings

pytestmark = pytest.mark.thorough


@dataclass(frozen=True)
class Changed:
    """Sound noise, then something is done to it."""

    change: Callable[[Integers, float], Integers]
    simulated = True

    def draw(self, terms: Terms, alone: Budget, key: bytes) -> Integers:
        drawn = SimulatedNoise(5, "site").draw(terms, alone, key)
        return self.change(drawn, terms.sigma)


def answered(place: Path) -> SiteSettings:
    """A site that has answered twice."""
    settings = make_site(place)
    study = approved_study(settings)
    with books_of(settings) as books:
        agent = Agent(settings, books, log=lambda line: None)
        for number in range(2):
            agent.answer(ask(study, Flat(("a0",)), number=number))
    return settings


def test_a_sound_site_passes_and_says_what_was_checked(tmp_path: Path) -> None:
    settings = answered(tmp_path)
    with books_of(settings) as books:
        agent = Agent(settings, books, log=lambda line: None)
        lines = list(selfcheck.self_check(settings, books, agent.noise))
    assert [line.split()[0] for line in lines] == ["OpenDP", "noise", "the"]
    assert not any("remark" in line for line in lines)


@pytest.mark.quick
@pytest.mark.parametrize("found", ["0.14.1", "0.14.2", "0.9.2", "0.15.0rc1"])
def test_an_opendp_that_is_known_to_be_biased_is_refused(
    monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    monkeypatch.setattr(noise_module, "version", lambda name: found)
    with pytest.raises(PrivacyRefusal, match=f"OpenDP {found} may draw biased noise"):
        noise_module.check_version()


@pytest.mark.parametrize("found", ["0.16.0", "1.0", "0.17.0a1"])
def test_later_ones_are_not(monkeypatch: pytest.MonkeyPatch, found: str) -> None:
    monkeypatch.setattr(noise_module, "version", lambda name: found)
    noise_module.check_version()


def biased(drawn: Integers, sigma: float) -> Integers:
    """As OpenDP's sampler was before 0.14.2."""
    scale = int(sigma) + 1
    redrawn = np.random.default_rng(0).random(drawn.size) < 0.18
    return np.where(redrawn & (abs(drawn) % scale != scale - 1), np.roll(drawn, 1), drawn)


@pytest.mark.parametrize(
    "change",
    [
        biased,
        lambda drawn, sigma: drawn // 2,
        lambda drawn, sigma: drawn * 0,
        lambda drawn, sigma: abs(drawn),
        lambda drawn, sigma: drawn + 1,
        lambda drawn, sigma: drawn.clip(-int(2.2 * sigma), int(2.2 * sigma)),
        lambda drawn, sigma: drawn.clip(-int(3.5 * sigma), int(3.5 * sigma)),
        lambda drawn, sigma: drawn // 2 * 2 if sigma > 100 else drawn,
    ],
    ids=["biased", "halved", "none", "one side only", "shifted", "cut", "cut far out", "even"],
)
def test_noise_of_another_shape_is_refused(change: Callable[[Integers, float], Integers]) -> None:
    with pytest.raises(PrivacyRefusal, match="no discrete Gaussian") as caught:
        selfcheck.check_noise(Changed(change))
    assert "\n" not in str(caught.value)


def test_noise_that_comes_twice_is_refused() -> None:
    class Twice:
        simulated = True

        def draw(self, terms: Terms, alone: Budget, key: bytes) -> Integers:
            return SimulatedNoise(5, "site").draw(terms, alone, b"")

    with pytest.raises(PrivacyRefusal, match="came twice"):
        selfcheck.check_noise(Twice())


@pytest.mark.parametrize(
    "again",
    [
        lambda half: np.append(half, half[::-1]),
        lambda half: np.repeat(half, 2),
        lambda half: np.stack([half, -half], axis=1).ravel(),
    ],
    ids=["backwards", "neighbours", "other sign"],
)
def test_draws_that_are_used_twice_are_refused(again: Callable[[Integers], Integers]) -> None:
    with pytest.raises(PrivacyRefusal, match="came twice"):
        selfcheck.check_noise(Changed(lambda drawn, sigma: again(drawn[: drawn.size // 2])))


@pytest.mark.quick
def test_noise_with_a_seed_is_refused_whatever_it_says() -> None:
    class Sly(SimulatedNoise):
        simulated = False

    for source in (SimulatedNoise(1, "site"), Sly(1, "site")):
        with pytest.raises(PrivacyRefusal, match="noise has a seed"):
            selfcheck.check_fresh(source)
    selfcheck.check_fresh(SecureNoise())


def test_both_sources_pass() -> None:
    selfcheck.check_noise(SecureNoise())
    selfcheck.check_noise(SimulatedNoise(1, "site"))


def test_a_ledger_that_changed_under_its_agent_is_refused(tmp_path: Path) -> None:
    settings = answered(tmp_path / "one")
    other = answered(tmp_path / "other")
    with books_of(settings) as books:
        for name in ("folder", "anchor"):
            for_ledger = "ledger" if name == "folder" else ""
            target = getattr(settings, name) / for_ledger
            target.write_bytes((getattr(other, name) / for_ledger).read_bytes())
        with pytest.raises(LedgerDisputed, match="changed while it was opened"):
            list(selfcheck.check_ledger(settings, books))


def test_a_lost_answer_is_told_to_the_steward(tmp_path: Path) -> None:
    settings = answered(tmp_path)
    with books_of(settings) as books:
        lost = settings.folder / "answers" / books.account.answers[0].query
        lost.unlink()
        lines = list(selfcheck.check_ledger(settings, books))
    assert "must not be drawn again" in lines[0]
    assert lines[-1].startswith("the ledger's 5 entries hold")
