"""Methods compared on public rows: figures that can be repeated, kept once, shown as they are."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn import FederatedSynthesizer, Schema
from heterofedsyn.bench.compare.asked import read_epsilons
from heterofedsyn.bench.compare.dealt import MOST_LABELS, Dealt
from heterofedsyn.bench.compare.trial import Trial
from heterofedsyn.errors import UsageError
from heterofedsyn.evaluation import Evaluator
from heterofedsyn.schema import CategoricalColumn, EncodedTable, IntegerColumn
from heterofedsyn.simulate.synthesizer import name_sites
from invented import Desk, names, patients

pytestmark = pytest.mark.thorough

ASKED = ("--data", "d.csv", "--schema", "s.toml", "--public", "--jobs", "1", "--sites", "3")
SMALL = (*ASKED, "--methods", "independent,wavetree", "--epsilons", "5,1", "--seeds", "2")


def compare(desk: Desk, *more: str, out: str = "out") -> dict[str, Any]:
    assert desk.run("compare", *SMALL, "--out", out, *more) == 0, desk.err
    found: dict[str, Any] = json.loads((desk.folder / out / "results.json").read_text())
    return found


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The items that were worked on."""
    items: list[str] = []
    work = Trial.__call__

    def counted(self: Trial, item: Any, *, noise_seed: int) -> Any:
        items.append(f"{item.cell.method} {item.cell.epsilon:g} {noise_seed}")
        return work(self, item, noise_seed=noise_seed)

    monkeypatch.setattr(Trial, "__call__", counted)
    return items


def test_figures_are_those_of_studies_and_scores_by_hand(desk: Desk) -> None:
    found = compare(desk, "--split", "dirichlet")
    schema = Schema.load("s.toml")
    evaluator = Evaluator(schema, "d.csv")
    for cell in found["cells"]:
        errors = []
        for seed in (0, 1):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                synthesizer = FederatedSynthesizer(
                    schema,
                    epsilon=cell["epsilon"],
                    delta=1e-9,
                    method=cell["method"],
                    noise_seed=seed,
                )
            dealt = synthesizer.split(synthesizer.encode(["d.csv"]), 3, "dirichlet")
            rows = synthesizer.fit_encoded(name_sites(dealt)).sample(seed=seed)
            errors.append(evaluator.score(rows, ["tvd"]).to_dict()["tvd"]["two_way"])
        told = cell["figures"]["tvd.two_way"]
        assert told["mean"] == pytest.approx(np.mean(errors), rel=1e-5)
        assert told["standard_error"] == pytest.approx(
            np.std(errors, ddof=1) / np.sqrt(2), rel=1e-3, abs=1e-6
        )
        assert told["repetitions"] == 2
    floor = evaluator.floor(["tvd"]).to_dict()["tvd"]["two_way"]
    assert found["floor"]["tvd.two_way"]["mean"] == pytest.approx(floor, rel=1e-5)


def test_one_table_one_chart_and_how_rows_were_dealt(desk: Desk) -> None:
    found = compare(desk, "--split", "label")
    assert names(desk.folder / "out") == {
        *("run.json", "results.csv", "results.json", "errors.svg", "compare.html")
    }
    for word in ("wavetree", "independent", "1-way TVD", "2-way TVD", "range queries", "±"):
        assert word in desk.out
        assert word in (desk.folder / "out" / "compare.html").read_text()
    assert "How --split label dealt 300 rows" in desk.out
    assert "public or invented rows only" in desk.err
    assert sum(found["dealt"]["rows"]) == 300
    assert found["dealt"]["values"] == ["false", "true"]
    shares = found["dealt"]["shares"]
    assert shares[0] == [1.0, 0.0]
    assert shares[2] == [0.0, 1.0]
    assert found["verdict"] in " ".join(desk.out.split())
    for epsilon in (1, 5):
        errors = {
            cell["method"]: cell["figures"]["tvd.two_way"]["mean"]
            for cell in found["cells"]
            if cell["epsilon"] == epsilon
        }
        best = min(errors, key=lambda method: errors[method])
        assert any(
            best in part and str(epsilon) in part.partition("at epsilon ")[2]
            for part in found["verdict"].split(";")
        )
    assert "done, about" in desk.err
    assert "wavetree at epsilon 5, draw 2 of 2" in desk.err
    compare(desk, "--split", "label", "--json")
    assert json.loads(desk.out) == found
    drawn = (desk.folder / "out" / "errors.svg").read_text()
    assert drawn.startswith("<svg")
    assert "wavetree" in drawn


def test_what_is_done_is_not_done_again_and_more_may_be_asked(desk: Desk, done: list[str]) -> None:
    first = compare(desk)
    assert len(done) == len({*done}) == 9
    written = (desk.folder / "out" / "results.json").read_bytes()
    assert compare(desk) == first
    assert (desk.folder / "out" / "results.json").read_bytes() == written
    assert len(done) == 9
    more = compare(desk, "--methods", "independent", "--epsilons", "1,2", "--seeds", "3")
    assert len(done) == len({*done}) == 13
    assert [cell["epsilon"] for cell in more["cells"]] == [1, 2]
    # What was asked for at first is what is told, whatever else is kept.
    assert compare(desk) == first
    assert len(done) == 13


def test_a_run_that_was_stopped_is_continued(
    desk: Desk, done: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = compare(desk, out="whole")
    done.clear()
    work = Trial.__call__

    def stopped(self: Trial, item: Any, *, noise_seed: int) -> Any:
        if len(done) == 4:
            raise KeyboardInterrupt
        return work(self, item, noise_seed=noise_seed)

    with monkeypatch.context() as patch:
        patch.setattr(Trial, "__call__", stopped)
        assert desk.run("compare", *SMALL, "--out", "out") == 130
    assert compare(desk) == whole
    assert len(done) == len({*done}) == 9


@pytest.mark.parametrize(
    "other",
    [
        ("--data", "e.csv"),
        *(
            pytest.param(other, marks=pytest.mark.slow)
            for other in (
                ("--sites", "4"),
                ("--split", "sizes"),
                ("--delta", "1e-6"),
                ("--seed", "1"),
            )
        ),
    ],
)
def test_another_question_is_refused_or_starts_anew(
    desk: Desk, other: tuple[str, ...], done: list[str]
) -> None:
    pyarrow.csv.write_csv(patients(seed=1), desk.folder / "e.csv")
    small = (*ASKED, "--methods", "independent", "--epsilons", "1", "--seeds", "1", "--out", "out")
    assert desk.run("compare", *small) == 0
    before = {path.name: path.read_bytes() for path in (desk.folder / "out").iterdir()}
    done.clear()
    assert desk.run("compare", *small, *other) == 2
    desk.refused(2, "out holds a run on rows", "--overwrite")
    assert {path.name: path.read_bytes() for path in (desk.folder / "out").iterdir()} == before
    assert not done
    assert desk.run("compare", *small, *other, "--overwrite") == 0
    assert len(done) == 2


def test_a_folder_of_something_else_stays_as_it_is(desk: Desk) -> None:
    (desk.folder / "out").mkdir()
    desk.write("out/thesis.tex", "")
    for more in ((), ("--overwrite",)):
        desk.run("compare", *SMALL, "--out", "out", *more)
        desk.refused(2, "something else")
    assert names(desk.folder / "out") == {"thesis.tex"}


def test_rows_that_nobody_calls_public_are_refused(desk: Desk) -> None:
    private = [word for word in SMALL if word != "--public"]
    desk.run("compare", *private, "--out", "out")
    desk.refused(3, "d.csv is public or invented", "--public")
    assert not (desk.folder / "out").exists()


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (("--methods", "wavetre"), ("no method 'wavetre'", "did you mean 'wavetree'")),
        (("--methods", "wavetree,,independent"), ("must be names",)),
        (("--epsilons", "1,much"), ("must be numbers above 0",)),
        (("--epsilons", "0"), ("must be numbers above 0",)),
        (("--epsilons", "inf"), ("must be numbers above 0",)),
        (("--seeds", "0"), ("--seeds (0)",)),
        (("--seed", "-1"), ("--seed (-1)",)),
        (("--sites", "0"), ("sites (0)",)),
        (("--split", "labell"), ("no split 'labell'", "did you mean 'label'")),
        (("--delta", "2"), ("delta",)),
        (("--jobs", "0"), ("--jobs (0)",)),
        (("--ml",), ("--ml needs --test",)),
        (("--data", "d.csv"), ("d.csv", "twice")),
    ],
)
def test_bad_input_is_one_line(desk: Desk, bad: tuple[str, ...], words: tuple[str, ...]) -> None:
    desk.run("compare", *SMALL, "--out", "out", *bad)
    desk.refused(2, *words)
    assert not (desk.folder / "out").exists()


def test_a_table_without_rows_is_refused(desk: Desk) -> None:
    desk.write("empty.csv", "age,ward,sick\n")
    desk.run("compare", *ASKED[4:], "--data", "empty.csv", "--schema", "s.toml", "--out", "out")
    desk.refused(1, "empty.csv", "no row")


def test_a_method_that_pools_is_marked(desk: Desk) -> None:
    small = (*ASKED, "--epsilons", "1", "--seeds", "1", "--out", "out")
    assert desk.run("compare", *small, "--methods", "privsyn") == 0
    assert "privsyn (pools)" in desk.out


def test_what_a_column_is_called_is_shown_and_not_obeyed(desk: Desk) -> None:
    for name in ("s.toml", "d.csv"):
        path = desk.folder / name
        path.write_text(path.read_text().replace("sick", "<b>sick</b>"))
    small = (*ASKED, "--methods", "independent", "--epsilons", "1", "--seeds", "1", "--out", "out")
    assert desk.run("compare", *small) == 0
    page = (desk.folder / "out" / "compare.html").read_text()
    assert "&lt;b&gt;sick" in page
    assert "<b>" not in page


@given(st.lists(st.floats(1e-6, 1e6), min_size=1))
def test_epsilons_come_once_and_in_order(epsilons: list[float]) -> None:
    assert read_epsilons(",".join(map(repr, epsilons))) == tuple(sorted({*epsilons}))


def test_epsilons_must_be_numbers() -> None:
    for text in ("", ",", "1,", "1;2", "nan", "-1", "one"):
        with pytest.raises(UsageError, match="numbers above 0"):
            read_epsilons(text)


@given(st.data())
def test_shares_of_labels_are_few_and_add_up(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, 30))
    ordered = data.draw(st.booleans())
    label = (
        IntegerColumn("y", 0, size - 1)
        if ordered
        else CategoricalColumn("y", values=tuple(f"v{n}" for n in range(size)))
    )
    schema = Schema((label,), label="y")
    sites = data.draw(st.lists(st.lists(st.integers(0, size - 1), max_size=20), min_size=1))
    tables = [
        EncodedTable.from_codes(schema.domain, np.array([own], np.int64).reshape(1, -1))
        for own in sites
    ]
    dealt = Dealt.of(schema, tables)
    assert dealt.rows == tuple(map(len, sites))
    assert 1 <= len(dealt.values) <= MOST_LABELS
    assert len({*dealt.values}) == len(dealt.values)
    for own, shares in zip(sites, dealt.shares, strict=True):
        assert sum(shares) == pytest.approx(1.0 if own else 0.0)
    plain = Dealt.of(Schema((label,)), tables)
    assert (plain.rows, plain.label, plain.shares) == (dealt.rows, None, ())


@pytest.mark.slow
def test_models_learn_from_every_table_if_asked(desk: Desk, tmp_path: Path) -> None:
    pyarrow.csv.write_csv(patients(seed=1), desk.folder / "t.csv")
    found = compare(desk, "--test", "t.csv", "--ml", "--seeds", "1")
    assert "ML: f1" in desk.out
    for cell in found["cells"]:
        assert 0 < cell["figures"]["ml.average"]["mean"] < 1
