"""The audit: sound software passes, its own tools are right, and a failure is told plainly."""

from __future__ import annotations

import dataclasses
import json
import math
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats

from heterofedsyn._arrays import Codes, Integers
from heterofedsyn.audit import (
    LAYERS,
    QUICK,
    USUAL,
    Effort,
    Finding,
    audit,
    caps,
    coupling,
)
from heterofedsyn.audit import run as run_module
from heterofedsyn.audit.coupling import persons, simulations, spark_workers, studies
from heterofedsyn.audit.coupling.persons import Row
from heterofedsyn.audit.findings import ALARM, Broken, Check, require
from heterofedsyn.audit.fixtures import UNIT, ask_all, plain_schema, plan_of
from heterofedsyn.audit.game import compared, epsilon_of_mu
from heterofedsyn.audit.patches import jumping_clock, patched
from heterofedsyn.audit.study_case import StudyCase
from heterofedsyn.errors import UsageError
from heterofedsyn.marginals import Flat, Haar
from heterofedsyn.privacy import goodness
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.privacy.goodness import (
    chi_square_tail,
    gaussian_p_value,
    relation_p_value,
    reuse_p_value,
    tails_p_value,
)
from heterofedsyn.privacy.noise import SimulatedNoise
from heterofedsyn.privacy.terms import Terms
from heterofedsyn.protocol import Study
from heterofedsyn.schema import _units
from heterofedsyn.simulate import synthesizer
from heterofedsyn.site import _spark_tasks
from heterofedsyn.site.settings import SiteSettings
from invented import Desk

pytestmark = pytest.mark.thorough


@pytest.mark.slow
@pytest.mark.parametrize("layer", LAYERS)
def test_sound_software_passes(layer: str) -> None:
    found = audit(QUICK, 2, [layer])
    assert found.passed, [verdict.failed for verdict in found.verdicts]
    assert [verdict.layer for verdict in found.verdicts] == [layer]
    assert found.false_alarm <= 1e-6


# THE TOOLS


def drawn(sigma: float, many: int, key: bytes) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    terms = Terms("flat", (), 1.0, sigma, many, 1.0)
    return SimulatedNoise(1, "site").draw(terms, Budget(1.0), key)


@pytest.mark.parametrize("freedom", [1, 2, 14, 59, 200])
@pytest.mark.parametrize("times", [0.1, 0.9, 1.0, 1.1, 2.0, 10.0])
def test_the_tail_of_a_chi_square_is_that_of_scipy(freedom: int, times: float) -> None:
    expected = scipy.stats.chi2.sf(freedom * times, freedom)
    assert chi_square_tail(freedom * times, freedom) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("sigma", [0.5, 2.5, 41.0])
def test_p_values_of_sound_noise_are_not_smaller_than_they_say(sigma: float) -> None:
    """Of 400, at most 0.01 are below 0.01, within four standard errors."""
    small = sum(
        gaussian_p_value(drawn(sigma, 5_000, f"{i}".encode()), sigma) < 0.01 for i in range(400)
    )
    assert small <= 4 + 4 * math.sqrt(400 * 0.01)


@pytest.mark.parametrize("sigma", [0.5, 2.5, 41.0, 1000.5])
def test_noise_two_percent_too_small_is_noticed(sigma: float) -> None:
    assert gaussian_p_value(drawn(sigma, 200_000, b"x"), sigma * 1.02) < ALARM


def test_noise_that_was_moved_or_mirrored_is_recognised() -> None:
    one, other = drawn(41.0, 2_048, b"one"), drawn(41.0, 2_048, b"other")
    assert relation_p_value(one, other) > 1e-4
    for copy in (one, -one, np.roll(one, 700), np.abs(np.roll(one, 3)), one + other // 2):
        assert relation_p_value(one, copy) < ALARM


@pytest.mark.parametrize("sigma", [0.5, 0.8, 2.5, 41.0])
def test_p_values_of_reuse_and_tails_are_not_smaller_than_they_say(sigma: float) -> None:
    vectors = [drawn(sigma, 3_000, f"{i}".encode()) for i in range(300)]
    for chances in (map(reuse_p_value, vectors), (tails_p_value([(v, sigma)]) for v in vectors)):
        assert sum(chance < 0.01 for chance in chances) <= 3 + 4 * math.sqrt(300 * 0.01)


@pytest.mark.parametrize("sigma", [0.8, 2.5, 41.0, 173.2])
@pytest.mark.parametrize("cut", [2.2, 2.5, 3.0, 3.5])
def test_noise_that_is_cut_off_is_noticed_on_either_side(sigma: float, cut: float) -> None:
    noise, most = drawn(sigma, 200_000, b"cut"), int(cut * sigma)
    assert gaussian_p_value(noise, sigma) > 1e-4
    assert gaussian_p_value(noise.clip(-most, most), sigma) < ALARM
    assert gaussian_p_value(noise.clip(None, most), sigma) < ALARM


WIDE = [4_096.5, 2.0**20, 2.0**31, 2.0**40]


@pytest.mark.parametrize("sigma", WIDE)
def test_p_values_of_wide_noise_are_not_smaller_than_they_say(sigma: float) -> None:
    small = sum(
        gaussian_p_value(drawn(sigma, 5_000, f"{i}".encode()), sigma) < 0.01 for i in range(200)
    )
    assert small <= 2 + 4 * math.sqrt(200 * 0.01)


@pytest.mark.parametrize("sigma", WIDE)
def test_wide_noise_of_another_sigma_cut_off_or_with_a_grain_is_noticed(sigma: float) -> None:
    noise = drawn(sigma, 200_000, b"wide")
    assert gaussian_p_value(noise, sigma) > 1e-4
    for odd in (
        drawn(sigma / 1.02, 200_000, b"small"),
        drawn(sigma / 4, 2_000, b"fewer"),
        noise.clip(-int(3.5 * sigma), int(3.5 * sigma)),
        noise // 2 * 2,
        noise + int(sigma / 20),
    ):
        assert gaussian_p_value(odd, sigma) < ALARM


def test_tails_where_wide_noise_begins_are_those_of_the_exact_distribution() -> None:
    """Both ways of reckoning agree at one sigma, so that neither misses what the other sees."""
    sigma, places = 4_096.0, np.array([0, 1, 4_097, 12_289, 16_385, 20_481])
    exact = goodness._outside(goodness._mass(sigma))[places]
    assert goodness._beyond(places, sigma) == pytest.approx(exact, rel=1e-5)


def test_a_jumping_clock_is_an_hour_later_at_every_look() -> None:
    before = time.monotonic()
    with jumping_clock():
        looks = [time.monotonic() for _ in range(3)]
        assert isinstance(time.time_ns(), int)
    assert np.diff(looks).tolist() == [3_600, 3_600]
    assert time.monotonic() - before < 3_600


def test_tails_of_several_sigmas_tell_more_than_each_alone() -> None:
    vectors = [(drawn(s, 10_000, b"tail"), s) for s in (1.5, 2.5, 7.3, 41.0, 173.2, 1000.5)]
    cut = [(noise.clip(-int(3.5 * s), int(3.5 * s)), s) for noise, s in vectors]
    assert tails_p_value(vectors) > 1e-4
    assert tails_p_value(cut) < ALARM < min(tails_p_value([one]) for one in cut)


_FAILING = """\
import os, sys
from pathlib import Path
from heterofedsyn.audit.faults import Fault
writes, power_fails, place = int(sys.argv[1]), sys.argv[2] == "power", Path(sys.argv[3])
fault = Fault(writes, power_fails)
fault.begin()
file = os.open(place / "ledger", os.O_RDWR)
os.pwrite(file, b"-two", 3)
os.fsync(file)
os.pwrite(file, b"-three", 7)
(place / "new").replace(place / "name")
fault.end()
"""


@pytest.mark.parametrize(
    ("writes", "how", "ledger", "name"),
    [
        (0, "kill", b"one-t", b"former"),
        (0, "power", b"one", b"former"),
        (1, "kill", b"one-two", b"former"),
        (1, "power", b"one", b"former"),
        (2, "kill", b"one-two-th", b"former"),
        (2, "power", b"one-two", b"former"),
        (9, "kill", b"one-two-three", b"new"),
        (9, "power", b"one-two", b"former"),
    ],
)
def test_a_kill_leaves_what_was_written_and_a_power_failure_what_was_flushed(
    tmp_path: Path, writes: int, how: str, ledger: bytes, name: bytes
) -> None:
    for file, held in (("ledger", b"one"), ("name", b"former"), ("new", b"new")):
        (tmp_path / file).write_bytes(held)
    command = [sys.executable, "-c", _FAILING, str(writes), how, str(tmp_path)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert (tmp_path / "ledger").read_bytes() == ledger
    assert (tmp_path / "name").read_bytes() == name


@pytest.mark.parametrize("grain", [2, 3, 5, 7, 11, 12, 13])
def test_noise_with_a_grain_is_noticed(grain: int) -> None:
    coarse = grain * drawn(173.2 / grain, 2_000, b"grain")
    assert gaussian_p_value(coarse, 173.2) < ALARM


@pytest.mark.parametrize("sigma", [0.8, 41.0])
def test_draws_that_are_used_twice_in_a_vector_are_recognised(sigma: float) -> None:
    one = drawn(sigma, 1_024, b"one")
    assert reuse_p_value(drawn(sigma, 2_048, b"all")) > 1e-4
    for twice in (
        np.append(one, one),
        np.append(one, one[::-1]),
        np.append(one, -np.roll(one, 77)),
        np.repeat(one, 2),
        np.stack([one, -one], axis=1).ravel(),
    ):
        assert reuse_p_value(twice) < ALARM


def test_noise_beyond_all_reach_is_no_gaussian_and_takes_no_memory() -> None:
    assert gaussian_p_value(np.array([0, 2**62], dtype=np.int64), 1.0) == 0.0


@pytest.mark.quick
def test_an_epsilon_has_the_delta_that_it_says() -> None:
    for mu in (0.3, 1.0, 3.0):
        epsilon = epsilon_of_mu(mu, 1e-6)
        delta = scipy.stats.norm.cdf(-epsilon / mu + mu / 2) - math.exp(
            epsilon
        ) * scipy.stats.norm.cdf(-epsilon / mu - mu / 2)
        assert delta == pytest.approx(1e-6, rel=1e-6)


def test_what_was_patched_comes_back_whatever_happens() -> None:
    with pytest.raises(ZeroDivisionError), patched(time, time=lambda: 1 // 0):
        time.time()
    assert time.time() > 1.7e9


# WHAT A CHECK DOES NOT LET PASS


def run_check(checks: Iterator[Check], name: str) -> None:
    """The one check of this name; raises whatever it refuses."""
    (work,) = (work for title, work in checks if title == name)
    assert isinstance(work(), str)


@pytest.mark.parametrize("cap", ["cap", "study_cap"])
@pytest.mark.parametrize("more", [1e-6, 1e-10])
def test_a_cap_that_is_too_wide_by_any_digit_is_noticed(
    monkeypatch: pytest.MonkeyPatch, cap: str, more: float
) -> None:
    name, true = "caps keep epsilon and delta", getattr(SiteSettings, cap)
    run_check(caps.checks(QUICK, 3), name)
    wide = property(lambda self: Budget(true.func(self).rho * (1 + more)))
    monkeypatch.setattr(SiteSettings, cap, wide)
    with pytest.raises(Broken, match="its rho means"):
        run_check(caps.checks(QUICK, 3), name)


@pytest.mark.parametrize("most", [1, 2, 3])
def test_of_the_rows_of_a_person_one_may_be_exchanged_for_the_price_of_one(most: int) -> None:
    """Two of three cost less than four times the charge, and more than is promised."""
    plan = plan_of(plain_schema(9, 6), 3, epsilon=1.0, unit=UNIT, rows_per_unit=most)
    query = ask_all(plan, [Flat(("a0",)), Haar(("a1",), 2)])
    same = [Row(1, (0, 0))] * most

    def moved(rows: int) -> Fraction:
        others = [*same[rows:], *[Row(1, (8, 5))] * rows]
        return persons._within(plan, query, same, others, most, 3)

    assert 0 < moved(1) <= Fraction(4, most**2)
    for rows in range(2, most + 1):
        with pytest.raises(Broken, match="times the charge"):
            moved(rows)


def test_rows_that_spark_ranks_in_another_way_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    run_check(spark_workers.checks(3), "workers of Spark")

    def by_number(codes: Codes, salts: Integers) -> Integers:
        return np.arange(codes.shape[1])

    others = SimpleNamespace(salts=_units.salts, ranks=by_number)
    monkeypatch.setattr(_spark_tasks, "_units", others)
    with pytest.raises(Broken, match="than from any other source"):
        run_check(spark_workers.checks(3), "workers of Spark")


def test_whatever_else_ends_a_simulation_refuses_nobody_at_two_sites(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "simulate: a person at two sites"
    run_check(simulations.checks(3), name)

    def broken(sites: Mapping[str, set[int]]) -> None:
        if set.intersection(*sites.values()):
            raise UsageError("the disk is full")

    monkeypatch.setattr(synthesizer, "check_persons", broken)
    with pytest.raises(Broken, match="the exit code is 2, not 3"):
        run_check(simulations.checks(3), name)


# THE COMMAND


def sound(effort: Effort, seed: int) -> Iterator[Check]:
    def work() -> Iterator[Finding]:
        yield Finding("a law", True, "1 of 1")
        yield Finding.of_chance("a chance", 0.5)

    yield "a law", work


def broken(effort: Effort, seed: int) -> Iterator[Check]:
    def work() -> Iterator[Finding]:
        yield Finding("so far", True, "good")
        require(False, "a promise was broken")

    def crash() -> Iterator[Finding]:
        yield Finding("never", True, str(1 / math.floor(0.5)))

    yield "a promise", work
    yield "a crash", crash


@pytest.fixture
def layers(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in LAYERS:
        monkeypatch.setitem(run_module.LAYERS, name, ("is it so?", sound))
    return monkeypatch


@pytest.mark.quick
def test_a_pass_ends_with_code_0_and_says_so(desk: Desk, layers: pytest.MonkeyPatch) -> None:
    assert desk.run("audit") == 0
    assert "ok    a law: 1 of 1" in desk.out
    assert desk.out.splitlines()[-1].startswith("passed: 5 of 5 layers")
    assert "at most 5e-09" in desk.out


def test_a_failure_ends_with_code_1_and_names_the_promise(
    desk: Desk, layers: pytest.MonkeyPatch
) -> None:
    layers.setitem(run_module.LAYERS, "game", ("is it so?", broken))
    assert desk.run("audit", "--html", "audit.html") == 1
    assert "game: FAILED in 2 checks, 3 checks" in desk.out
    assert "FAIL  a promise: a promise was broken" in desk.out
    assert "FAIL  a crash: unexpected ZeroDivisionError" in desk.out
    assert desk.out.splitlines()[-1].startswith("FAILED: 4 of 5 layers")
    page = (desk.folder / "audit.html").read_text("utf-8")
    assert "Privacy audit: FAILED" in page
    assert "a promise was broken" in page
    assert "computed from the release" not in page


def test_a_page_begins_with_a_plain_verdict_and_ends_with_a_legend(
    desk: Desk, layers: pytest.MonkeyPatch
) -> None:
    assert desk.run("audit", "--html", "audit.html") == 0
    page = (desk.folder / "audit.html").read_text("utf-8")
    places = [page.index(words) for words in ("All 10 checks held", 'id="coupling"', 'id="legend"')]
    assert places == sorted(places)
    assert ">held</th>" in page


@pytest.mark.parametrize(
    ("measured", "chance", "words"),
    [
        (7.9, 0.6, "not above the promise"),
        (8.54, 0.2, "not above the promise, within the error of the experiment"),
        (9.0, 0.01, "not above the promise, within the error of the experiment"),
        (21.0, 1e-12, "ABOVE the promise"),
    ],
)
def test_a_measured_epsilon_is_compared_in_words(
    measured: float, chance: float, words: str
) -> None:
    assert compared(measured, 8.0, chance) == words


STUDY = ("--schema", "s.toml", "--site", "elm", "--site", "oak", "--epsilon", "0.5")


@pytest.fixture
def own_study(desk: Desk) -> StudyCase:
    terms = ("--delta", "1e-7", "--unit", "person", "--max-rows-per-unit", "2")
    assert desk.run("study", "new", *STUDY, *terms, "--out", "study.toml") == 0
    return StudyCase.of(Study.load(desk.folder / "study.toml"))


def test_the_case_of_a_study_has_its_guarantee_schema_and_method(own_study: StudyCase) -> None:
    plan = own_study.plan(3)
    assert plan == own_study.study.plan
    assert (own_study.epsilon, own_study.delta) == (plan.epsilon, plan.delta) == (0.5, 1e-7)
    assert own_study.conducted.name == plan.method
    rows = own_study.people(400, 3)
    assert {*own_study.public.domain.names} <= {*rows.column_names}
    assert own_study.encoded(rows).rows == 400
    for corner in own_study.corners:
        assert own_study.encoded(own_study.person([corner], rows)).rows == 1
    for name, canary in own_study.canaries.items():
        fits = name != "a row that does not fit"
        assert own_study.encoded(own_study.person([canary], rows)).rows == fits, name


def test_a_study_of_ones_own_takes_the_place_of_the_built_in_ones(
    own_study: StudyCase, desk: Desk
) -> None:
    titles = [title for title, _ in coupling.checks(QUICK, 0, own_study)]
    assert {"your study: wavetree, local", "agent: your study: wavetree, local"} <= {*titles}
    assert not any(title.endswith("fedprivsyn, local") for title in titles)
    for title, work in studies.checks(QUICK, 0, own_study):
        if "your study" in title:
            assert "of the charge at most" in str(work())


def test_a_charge_that_is_too_small_for_a_study_of_ones_own_is_noticed(
    own_study: StudyCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = dict(studies.checks(QUICK, 0, own_study))["your study: wavetree, local"]
    monkeypatch.setattr(Flat, "sensitivity", lambda self, domain: 0.5)
    with pytest.raises(Broken):
        work()


AGENT = "coupling: the study at an agent, and its release"


def test_what_a_study_of_ones_own_is_not_tried_with_is_told(own_study: StudyCase) -> None:
    tried, untried = run_module.seen(own_study, USUAL, [*LAYERS])
    assert {AGENT, "game: the study as a whole"} <= {*tried}
    assert [line.partition(":")[0] for line in untried] == ["ledger", "sums"]
    summed = dataclasses.replace(own_study, trust="secure-aggregation")
    tried, untried = run_module.seen(summed, USUAL, [*LAYERS])
    assert AGENT not in tried
    assert f"{AGENT} (built-in studies instead: its answers are summed)" in untried
    assert "game: the study as a whole (its answers are summed)" in untried


def test_a_study_that_is_summed_leaves_agents_to_built_in_ones(own_study: StudyCase) -> None:
    summed = dataclasses.replace(own_study, trust="secure-aggregation")
    titles = [title for title, _ in coupling.checks(QUICK, 0, summed)]
    assert "your study: wavetree, secure-aggregation" in titles
    for kind in ("agent: ", "release of "):
        assert any(title.startswith(kind) and "your study" not in title for title in titles)


def test_the_command_audits_a_study(desk: Desk, layers: pytest.MonkeyPatch) -> None:
    named = (*STUDY, "--delta", "1e-7", "--title", "Falls at night")
    assert desk.run("study", "new", *named, "--out", "study.toml") == 0
    fingerprint = Study.load(desk.folder / "study.toml").fingerprint
    assert desk.run("audit", "--study", "study.toml", "--layer", "ledger", "--json") == 0
    found = json.loads(desk.out)
    assert (found["study"], found["tried"]) == (fingerprint, [])
    assert "ledger: built-in studies instead, as for every study" in found["untried"]
    assert "coupling: not asked for" in found["untried"]
    command = ("audit", "--study", "study.toml", "--layer", "ledger", "--html", "audit.html")
    assert desk.run(*command) == 0
    page = (desk.folder / "audit.html").read_text("utf-8")
    assert f"“Falls at night” ({fingerprint})" in page
    assert "checks held, of built-in studies:" in page
    assert "Not tried with it" in page
    desk.run("audit", "--study", "s.toml")
    desk.refused(2, "no study")


def test_json_has_every_finding(desk: Desk, layers: pytest.MonkeyPatch) -> None:
    assert desk.run("audit", "--json", "--layer", "noise", "--seed", "5") == 0
    found = json.loads(desk.out)
    assert (found["passed"], found["seed"], found["false_alarm"]) == (True, 5, ALARM)
    (layer,) = found["layers"]
    assert layer["layer"] == "noise"
    assert [finding["p_value"] for finding in layer["findings"]] == [None, 0.5]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--layer", "nois"], ["'nois'", "'noise'"]),
        (["--seed", "-1"], ["seed (-1)"]),
        (["--html", "page.pdf"], ["page.pdf", ".html"]),
        (["--html", "none/page.html"], ["there is no folder none"]),
        (["--html", "old.html"], ["--overwrite"]),
    ],
)
def test_wrong_use_is_one_line(
    desk: Desk, layers: pytest.MonkeyPatch, arguments: list[str], words: list[str]
) -> None:
    desk.write("old.html", "")
    desk.run("audit", *arguments)
    desk.refused(2, *words)


def test_the_audit_is_found_under_its_former_name_too(
    desk: Desk, layers: pytest.MonkeyPatch
) -> None:
    assert desk.run("bench", "audit", "--layer", "noise") == 0
    former = desk.out
    assert desk.run("audit", "--layer", "noise") == 0
    assert [line for line in desk.out.splitlines() if "CPU" not in line] == [
        line for line in former.splitlines() if "CPU" not in line
    ]
