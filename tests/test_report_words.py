"""What a report says in words: verdicts, the board's figures, consent, and the glossary."""

from __future__ import annotations

import base64
import dataclasses
import math
import re
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import report_support
from heterofedsyn import FederatedSynthesizer, load
from heterofedsyn.audit.fixtures import table_of
from heterofedsyn.hub.methods import make_method
from heterofedsyn.hub.release.differences import AttributeDifference, SiteSummary
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.protocol.about import About
from heterofedsyn.report import Agreed, board_report, public_report
from heterofedsyn.report.board import EPSILONS, STUDIES, board_sections
from heterofedsyn.report.chances import (
    formula_of,
    in_hundred,
    in_thousand,
    likely_right,
    most_right,
)
from heterofedsyn.report.glossary import TERMS
from heterofedsyn.report.receipts import contradictions
from heterofedsyn.report.sites import marked
from heterofedsyn.report.summary import MOST_NAMED
from heterofedsyn.report.verdicts import (
    CAREFUL,
    Word,
    column_verdicts,
    judged,
    trusted_pairs,
)
from heterofedsyn.schema import Schema
from heterofedsyn.simulate.hospitals import hospital_schema, hospitals
from heterofedsyn.simulate.run import run_study
from heterofedsyn.site.receipt import SignedReceipt
from heterofedsyn.site.receipt_checks import add_up
from invented import Desk
from release_changes import agreed as agreed_on
from report_support import HOSTILE, Outline, release_of, table

pytestmark = pytest.mark.thorough

RHO = st.floats(0, 50)
WINGS = {"a": "east", "b": "west", "c": "west"}


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release_of(tmp_path_factory.mktemp("words") / "release", table(1200), noise_seed=8)


@pytest.fixture(scope="module")
def page(release: Path) -> str:
    return public_report(release)


@pytest.fixture(scope="module")
def published(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return report_support.published(release, tmp_path_factory.mktemp("published") / "release")


@pytest.fixture(scope="module")
def board(published: Path) -> str:
    return board_report(published)


# VERDICTS


def test_every_column_gets_exactly_one_verdict(release: Path, page: str) -> None:
    made = load(release)
    verdicts = column_verdicts(made)
    assert [verdict.name for verdict in verdicts] == [each.name for each in made.schema.columns]
    said = re.findall(r'<div class="marked (?:good|rough|poor)">.*?</div>', page, re.S)
    for name in (each.name for each in made.schema.columns):
        assert sum(f"<strong>{name}</strong>" in group for group in said) == 1


def test_all_pairs_to_trust_are_on_the_page(release: Path, page: str) -> None:
    made = load(release)
    trusted = trusted_pairs(made)
    folded = r"<summary>All (\d+) pairs that can be trusted</summary>(.*?)</details>"
    listed = re.findall(folded, page, re.S)
    if len(trusted) > MOST_NAMED:
        ((many, rows),) = listed
        assert int(many) == len(trusted) == rows.count("<tr>") - 1


def test_a_chapter_for_boards_has_the_headings_of_their_page(release: Path, page: str) -> None:
    for section in board_sections(load(release)):
        assert f'<h3 class="part">{section.title}</h3>' in page


def test_what_is_not_measured_has_a_verdict_too(tmp_path: Path) -> None:
    """Keys say nothing, and what follows from a column is as good as that."""
    schema = {
        "columns": [
            {"name": "number", "type": "key"},
            {"name": "ward", "type": "categorical", "values": ["a", "b", "c"]},
            {"name": "wing", "type": "categorical", "values": ["east", "west"]},
        ],
        "rules": [{"determines": {"from": "ward", "to": "wing", "table": WINGS}}],
    }
    rows = pa.table({"ward": ["a", "b", "c"] * 100, "wing": ["east", "west", "west"] * 100})
    synthesizer = FederatedSynthesizer(
        schema, epsilon=5.0, delta=1e-9, noise_seed=3, method="independent"
    )
    folder = synthesizer.fit({"elm": rows}).save(tmp_path / "r")
    key, ward, wing = column_verdicts(load(folder))
    assert key.word is Word.NOT_ALONE
    assert (wing.word, wing.reason) == (ward.word, "follows from ward")
    assert "follows from ward" in public_report(folder)


bars = st.integers(2, 12).flatmap(
    lambda many: st.tuples(
        st.lists(st.floats(0.001, 1), min_size=many, max_size=many),
        st.lists(st.floats(1e-6, 0.2), min_size=many, max_size=many),
    )
)


@given(bars, st.floats(1, 100))
def test_more_noise_never_makes_a_verdict_better(
    given_bars: tuple[list[float], list[float]], more: float
) -> None:
    shares, errors = (np.array(each) for each in given_bars)
    labels = tuple(map(str, range(shares.size)))
    words = [*Word]
    less, worse = (
        judged("c", labels, shares / shares.sum(), errors * times) for times in (1.0, more)
    )
    assert words.index(less.word) <= words.index(worse.word)
    assert less.noise <= worse.noise


def test_the_first_screen_names_the_weakest_columns_and_what_was_not_measured(
    release: Path, page: str
) -> None:
    made = load(release)
    first = Outline(page).sections[0]
    assert first["id"] == "verdicts"
    careful = first["text"].partition("Be careful with")[2].partition("Not measured")[0]
    assert sum(f"{name} (" in careful for name in made.schema.domain.names) == CAREFUL
    measured = sum(pair.measured for pair in made.run.pairs)
    every = len(made.schema.domain.pairs())
    assert f"{every - measured} of {every} pairs" in first["text"]
    assert f"{len(trusted_pairs(made))} pair" in first["text"]


TRUTH = [("hospitals", 20_000), ("adult", 0), ("insurance", 0), ("abalone", 0)]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "patients"), TRUTH)
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 5.0])
def test_nothing_is_called_good_that_is_not(
    name: str, patients: int, epsilon: float, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """On tables whose truth is known, as docs/report.md says."""
    from verdict_truth import distances

    if patients:
        schema, rows = hospital_schema(), [*hospitals(patients=patients).values()]
    else:
        folder = request.getfixturevalue("data_folder") / name
        schema = Schema.load(folder / "schema.toml")
        rows = [folder / "train.csv", folder / "val.csv"]
    for word, true in distances(schema, rows, epsilon, seed=5):
        if word is Word.GOOD:
            assert true <= 0.03
        if word is Word.NOT_ALONE:
            assert true >= 0.03


# CHANCES


@given(RHO)
def test_the_bound_is_at_least_the_gaussian_figure_and_a_chance(rho: float) -> None:
    assert 0.5 <= likely_right(rho) <= most_right(rho) <= 1
    if rho <= 1.5:
        assert most_right(rho) == 0.5 + math.sqrt(rho / 2) / 2


@given(RHO, RHO)
def test_a_larger_budget_never_helps_the_attacker_less(one: float, other: float) -> None:
    less, more = sorted([one, other])
    assert most_right(less) <= most_right(more)
    assert likely_right(less) <= likely_right(more)


@given(RHO)
def test_the_formula_that_is_shown_gives_the_figure(rho: float) -> None:
    shown = {
        "1/2 + sqrt(rho / 2) / 2": 0.5 + math.sqrt(rho / 2) / 2,
        "1/2 + sqrt(1 - e^-rho) / 2": 0.5 + math.sqrt(-math.expm1(-rho)) / 2,
    }
    assert shown[formula_of(rho)] == most_right(rho)


@pytest.mark.parametrize("sigma", [0.6, 1.0, 3.0, 20.0])
def test_the_best_guess_against_discrete_noise_is_within_the_bound(sigma: float) -> None:
    values = np.arange(-400, 402)
    weights = [np.exp(-((values - moved) ** 2) / (2 * sigma**2)) for moved in (0, 1)]
    one, other = (each / each.sum() for each in weights)
    best = 0.5 + 0.25 * float(np.abs(one - other).sum())
    rho = 1 / (2 * sigma**2)
    assert best <= most_right(rho)
    if sigma >= 3:
        assert best == pytest.approx(likely_right(rho), abs=1e-3)


def test_the_figures_of_the_board_are_those_of_the_formulas(release: Path, board: str) -> None:
    made = load(release).privacy
    said = "".join(Outline(board).text)
    assert in_hundred(most_right(made.rho)) in said
    assert in_hundred(most_right(Budget.of(epsilon=1.0, delta=1e-9).rho)) == "54.33 %"
    for epsilon in EPSILONS:
        rho = Budget.of(epsilon=epsilon, delta=made.delta, conversion=made.conversion).rho
        assert in_hundred(most_right(rho)) in said
        assert f"{100 * likely_right(rho):.2f} %" in said
    for number in STUDIES:
        assert in_hundred(most_right(number * made.rho)) in said


def test_a_board_reads_the_same_in_the_report(published: Path, board: str) -> None:
    (section,) = (s for s in Outline(public_report(published)).sections if s["id"] == "board")
    for part in re.findall(r"<td[^>]*>([^<]+)</td>", board):
        assert part in section["text"] or "&" in part


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"method": "privsyn"}, ["who holds the pool", "all rows"]),
        (
            {"method": "fedprivsyn", "trust": "secure-aggregation", "sites": 3},
            ["sums over at least 3 sites", "the hub and more sites in league", "if more sites"],
        ),
        ({"method": "independent", "unit": "number"}, ["one person"]),
    ],
    ids=str,
)
def test_who_can_learn_what_follows_the_trust_model(
    terms: dict[str, Any], words: list[str], tmp_path: Path
) -> None:
    rows = table(600).append_column("number", pa.array(range(600)))
    folder = release_of(tmp_path / "r", rows, **{"noise_seed": None, **terms})
    said = "".join(Outline(board_report(folder)).text)
    for word in words:
        assert word in said


def test_nothing_is_promised_where_noise_can_be_undone(
    release: Path, published: Path, page: str, board: str
) -> None:
    simulated = "".join(Outline(page).text) + "".join(Outline(board_report(release)).text)
    true = "".join(Outline(public_report(published)).text) + "".join(Outline(board).text)
    made = load(published).privacy
    for words in (
        f"at most what epsilon {made.epsilon:g} allows",
        in_thousand(most_right(made.rho)),
        f"{made.epsilon:g}, this study",
        "almost the same chance",
        "a weak promise",
    ):
        assert words not in simulated
        assert words in true
    assert "none: the noise is simulated" in str(load(release))
    assert "none: the noise is simulated" not in str(load(published))


def test_a_board_reads_which_columns_to_be_careful_with(published: Path, board: str) -> None:
    verdicts = column_verdicts(load(published))
    said = "".join(Outline(board).text)
    weakest = said.partition("Be careful with")[2].partition("What epsilon means")[0]
    assert sum(f"{verdict.name} (" in weakest for verdict in verdicts) == CAREFUL
    for verdict in verdicts:
        if verdict.word is Word.NOT_ALONE:
            assert verdict.name in weakest


@pytest.mark.filterwarnings("ignore:delta 0.01")
@pytest.mark.parametrize(("delta", "large"), [(1e-9, False), (0.01, True)])
def test_a_delta_that_protects_nobody_is_said(tmp_path: Path, delta: float, large: bool) -> None:
    folder = release_of(
        tmp_path / "r",
        table(600),
        method="independent",
        noise_seed=None,
        delta=delta,
        allow_large_delta=large,
    )
    said = "".join(Outline(board_report(folder)).text)
    assert ("publishing somebody's record outright; take a smaller one" in said) == large
    assert f"number of rows is {1 / load(folder).run.noisy_total:.2g}" in said


@pytest.mark.parametrize("epsilon", [3.0, 100.0])
def test_odds_are_words_at_every_epsilon(tmp_path: Path, epsilon: float) -> None:
    folder = release_of(
        tmp_path / "r", table(300), epsilon=epsilon, method="independent", noise_seed=None
    )
    said = "".join(Outline(board_report(folder)).text)
    assert "any to 1" not in said
    assert f"({formula_of(load(folder).privacy.rho)} with rho" in said


# SITES


def summaries(*deviations: float) -> list[SiteSummary]:
    """One site, whose columns differ by so many standard deviations of chance."""
    told = tuple(
        AttributeDifference(f"a{i}", math.sqrt(each), 1.0) for i, each in enumerate(deviations)
    )
    return [SiteSummary("elm", 100, 1.0, told)]


def test_what_one_comparison_shows_many_do_not() -> None:
    assert marked(summaries(4.0)).tolist() == [[True]]
    assert not marked(summaries(4.0, *[0.0] * 84)).any()
    assert marked(summaries(20.0, *[0.0] * 84)).ravel().tolist() == [True] + [False] * 84


def test_sites_that_are_alike_get_a_mark_in_one_report_of_twenty_at_most() -> None:
    rng = np.random.default_rng(0)
    squares = (rng.chisquare(1, (2_000, 40)) - 1) / math.sqrt(2)
    any_mark = sum(bool(marked(summaries(*np.maximum(row, 0))).any()) for row in squares)
    assert any_mark / 2_000 <= 0.05 + 4 * math.sqrt(0.05 * 0.95 / 2_000)


@given(st.lists(st.floats(0, 40), min_size=1, max_size=30), st.data())
def test_a_larger_difference_never_takes_a_mark_away(
    deviations: list[float], data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(deviations) - 1))
    more = [*deviations]
    more[place] += data.draw(st.floats(0, 40))
    before, after = (marked(summaries(*each)).ravel() for each in (deviations, more))
    assert (before <= after).all()


# WORDS AND STRANGERS


def test_every_word_of_the_glossary_is_explained_and_linked_once_a_section(page: str) -> None:
    for term in TERMS:
        assert f'id="{term.name}"' in page
    for section in re.findall(r"<section.*?</section>", page, re.DOTALL):
        links = re.findall(r'<a class="term" href="#([^"]+)"', section)
        assert len(links) == len(set(links))


def test_remarks_are_the_words_of_whoever_made_the_release(release: Path, page: str) -> None:
    remarks = load(release).run.remarks
    assert remarks
    for remark in remarks:
        assert f"Whoever made the release remarks: “{remark}”." in "".join(Outline(page).text)


def test_what_a_study_and_a_receipt_say_stays_text(release: Path, tmp_path: Path) -> None:
    made = load(release)
    about = About(f"T {HOSTILE}", f"P {HOSTILE}", f"C {HOSTILE}")
    told = dataclasses.replace(made, run=msgspec.structs.replace(made.run, about=about))
    folder = agreed_on(told).save(tmp_path / "r")
    agreed = [Agreed(HOSTILE, HOSTILE, HOSTILE, 1.0, 1e-9, vouched=False)]
    for page in (board_report(folder, agreed), public_report(folder, agreed)):
        found = Outline(page)
        said = "".join(found.text)
        assert not {"script", "img", "b"} & {tag for tag, _ in found.tags}
        for text in (f"T {HOSTILE}", f"P {HOSTILE}", f"C {HOSTILE}", "not verified"):
            assert text in said


# THE COMMAND


@pytest.fixture
def consented(desk: Desk) -> Desk:
    """Releases of two studies and a receipt of the first, in the folder where commands run."""
    from site_support import approved_study, make_message, make_site
    from test_receipt import answer, receipt_of

    settings = make_site(desk.folder)
    sites = ("elmwood", "oak")
    study, other = (approved_study(settings, sites=sites, seed=seed) for seed in (7, 8))
    answer(settings, make_message(study, 1, 0.25))
    receipt_of(settings, study).save(desk.folder / "receipt.json")
    for place, agreed in (("release", study), ("other", other)):
        schema, method = agreed.encoding, make_method(agreed.plan.method)
        tables = [table_of(schema, 300, np.random.default_rng(number)) for number in range(2)]
        run_study(schema, agreed.plan, method, tables).save(desk.folder / place)
    return desk


def sign_again(desk: Desk, **changed: Any) -> None:
    """The receipt with other figures, signed by the site itself."""
    from heterofedsyn.site.receipt import canonical
    from heterofedsyn.site.signing import Identity
    from site_support import make_settings

    path = desk.folder / "receipt.json"
    receipt = msgspec.structs.replace(SignedReceipt.load(path).receipt, **changed)
    own = Identity.load(make_settings(desk.folder).key)
    signature = base64.b64encode(own.sign(canonical(receipt))).decode()
    SignedReceipt(receipt, own.public, signature).save(path)


def test_a_board_sees_who_agreed_and_whether_anybody_vouches(consented: Desk) -> None:
    command = ("report", "release", "--for", "board", "--receipt", "receipt.json")
    assert consented.run(*command, "--out", "board.html") == 0
    signed = SignedReceipt.load(consented.folder / "receipt.json")
    page = (consented.folder / "board.html").read_text("utf-8")
    assert signed.receipt.consent_by in page
    assert "not verified" in page
    assert f", {signed.receipt.delta:g}</td>" in page
    assert "No receipt was given of 1 site: oak." in "".join(Outline(page).text)
    assert consented.run(*command, "--key", signed.key, "--out", "known.html") == 0
    known = (consented.folder / "known.html").read_text("utf-8")
    assert "not verified" not in known
    assert "verified" in known


def test_a_receipt_that_does_not_hold_is_refused(consented: Desk) -> None:
    receipt = consented.folder / "receipt.json"
    board = ("--for", "board", "--receipt", "receipt.json", "--out", "x.html")
    consented.run("report", "other", *board)
    consented.refused(2, "another study")
    consented.run("report", "release", *board, "--receipt", "receipt.json")
    consented.refused(2, "second receipt")
    signed = SignedReceipt.load(receipt)
    forged = msgspec.structs.replace(signed.receipt, consent_by="somebody else")
    msgspec.structs.replace(signed, receipt=forged).save(receipt)
    consented.run("report", "release", *board)
    consented.refused(1, "signature does not hold")
    assert not (consented.folder / "x.html").exists()


def test_a_receipt_of_no_site_of_the_study_is_refused(consented: Desk) -> None:
    sign_again(consented, site="birch")
    consented.run("report", "release", "--receipt", "receipt.json", "--out", "x.html")
    consented.refused(2, "'birch', which is no site of the study", "elmwood, oak")


WHOLE = Budget.of(epsilon=1.0, delta=1e-9)
OTHER_FIGURES: dict[str, dict[str, Any]] = {
    "epsilon": {"epsilon": 2.0, "rho": Budget.of(epsilon=2.0, delta=1e-9).rho},
    "delta": {
        "delta": 1e-8,
        "rho": Budget.of(epsilon=1.0, delta=1e-8).rho,
        "spent_epsilon": WHOLE.part(0.25).epsilon(1e-8),
    },
    "conversion": {
        "conversion": "paper",
        "rho": Budget.of(epsilon=1.0, delta=1e-9, conversion="paper").rho,
        "spent_epsilon": WHOLE.part(0.25).epsilon(1e-9, "paper"),
    },
    "neighbours": {"neighbours": "replace-one"},
    "unit": {"unit": "patient"},
    "rows_per_unit": {"rows_per_unit": 2},
    "method": {"method": "wavetree"},
    "schema": {"schema": "0" * 64},
    "about": {"about": About(title="Beds")},
    "simulated_noise": {"simulated_noise": True},
}


def test_a_receipt_vouches_for_no_other_guarantee(consented: Desk) -> None:
    """Its signature holds and its figures add up, but they are not those of the release."""
    receipt = SignedReceipt.load(consented.folder / "receipt.json").receipt
    release = load(consented.folder / "release")
    assert contradictions(receipt, release) == ()
    for name, figures in OTHER_FIGURES.items():
        other = msgspec.structs.replace(receipt, **figures)
        assert add_up(other)
        assert name in contradictions(other, release)
    sign_again(consented, **OTHER_FIGURES["epsilon"])
    consented.run("report", "release", "--receipt", "receipt.json", "--out", "x.html")
    consented.refused(2, "do not agree on epsilon, rho:")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--for", "everybody", "--out", "x.html"], ["--for board"]),
        (["--for", "board", "--real", "d.csv", "--out", "x.html"], ["--real"]),
        (["--for", "board", "--out", "release/report.html"], ["published as a whole"]),
        (["--receipt", "r.json", "--out", "release/report.html"], ["published as a whole"]),
        (["--key", "abc", "--out", "x.html"], ["--receipt"]),
        (["--receipt", "none.json", "--out", "x.html"], ["none.json"]),
    ],
)
def test_wrong_use_is_one_line(
    desk: Desk, release: Path, arguments: list[str], words: list[str]
) -> None:
    load(release).save(desk.folder / "release")
    desk.run("report", "release", *arguments)
    desk.refused(2, *words)
