"""Pairs that must be measured are, whatever the scores say, the budget and the method."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn.cli.app import run
from heterofedsyn.errors import UsageError
from heterofedsyn.hub import METHODS, Release, make_method
from heterofedsyn.hub.methods.base import Later, Setting
from heterofedsyn.hub.methods.forced import read_pairs, write_pairs
from heterofedsyn.hub.replies import Ask
from heterofedsyn.protocol import Study
from heterofedsyn.schema import EncodedTable, Schema
from heterofedsyn.simulate import FederatedSynthesizer
from heterofedsyn.simulate.hospitals import hospital_schema
from heterofedsyn.simulate.run import run_study, site_names
from invented import Desk
from support import categories, deal, make_plan

pytestmark = pytest.mark.thorough

SCHEMA = categories(4, 6, 3, 5, 12, label=0)
FREE = Schema(SCHEMA.columns)
WEAK = (("a1", "a2"), ("a2", "a4"))
TEXT = write_pairs([("a2", "a1"), ("a2", "a4"), ("a1", "a2")])
MEASURING = sorted(name for name in METHODS if name != "independent")
SCORED = ("wavetree", "fedprivsyn", "fedprivsyn-noprojection", "adafedprivsyn", "privsyn")


def unrelated(schema: Schema, rows: int) -> EncodedTable:
    """Rows in which no pair is worth anything, and one value of a2 is all there is."""
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, size, rows) for size in schema.domain.sizes])
    codes[2] = 1
    return EncodedTable.from_codes(schema.domain, codes)


def study(name: str, schema: Schema, rows: int, epsilon: float, measure: str = TEXT) -> Release:
    method = make_method(name, {"measure": measure, "synthesizer": "tree"})
    tables = deal(unrelated(schema, rows), 1 if method.pools else 3)
    names = site_names(method, ["one", "two", "three"][: len(tables)])
    plan = make_plan(schema, names, method=name, epsilon=epsilon)
    return run_study(schema, plan, method, tables, noise_seed=3)


@pytest.mark.thorough
@pytest.mark.parametrize("schema", [SCHEMA, FREE], ids=["label", "free"])
@pytest.mark.parametrize(("rows", "epsilon"), [(0, 0.01), (300, 1.0), (20_000, 0.3), (20_000, 9.0)])
@pytest.mark.parametrize("name", MEASURING)
def test_pairs_that_must_be_measured_are_and_the_budget_holds(
    name: str, rows: int, epsilon: float, schema: Schema
) -> None:
    release = study(name, schema, rows, epsilon)
    for targets in release.model.targets:
        assert {*WEAK} <= {*targets.pairs}
    for account in release.privacy.sites:
        assert account.rho <= release.privacy.rho
        assert account.rho > 0.99 * release.privacy.rho


@pytest.mark.parametrize("name", SCORED)
def test_pairs_that_must_be_measured_are_not_scored(name: str) -> None:
    release = study(name, SCHEMA, 20_000, 9.0)
    told = {pair.attributes: pair for pair in release.run.pairs}
    assert all(told[pair].measured and told[pair].score is None for pair in WEAK)
    assert any(pair.score is not None for pair in release.run.pairs)


@pytest.mark.parametrize("name", MEASURING)
def test_all_pairs_may_be_asked_for_and_none_is_scored_then(name: str) -> None:
    pairs = SCHEMA.domain.pairs()
    release = study(name, SCHEMA, 2_000, 1.0, write_pairs(pairs))
    assert all({*pairs} == {*targets.pairs} for targets in release.model.targets)
    labels = {charge.label for account in release.privacy.sites for charge in account.charges}
    assert not labels & {"scores", "dependence"}
    assert all(account.rho > 0.99 * release.privacy.rho for account in release.privacy.sites)


@pytest.mark.thorough
@pytest.mark.parametrize("measure", [TEXT, write_pairs(SCHEMA.domain.pairs()), "a0,a1"])
@pytest.mark.parametrize(("rows", "epsilon"), [(300, 1.0), (20_000, 0.3), (20_000, 9.0)])
@pytest.mark.parametrize("name", MEASURING)
def test_what_is_foreseen_holds_with_pairs_that_must_be_measured(
    name: str, rows: int, epsilon: float, measure: str
) -> None:
    release = study(name, SCHEMA, rows, epsilon, measure)
    method = make_method(name, {"measure": measure})
    names = tuple(account.site for account in release.privacy.sites)
    setting = Setting.of(SCHEMA, make_plan(SCHEMA, names, epsilon=epsilon))
    account = release.privacy.sites[0]
    for foreseen in (method.ahead(setting), method.ahead_of(setting, rows)):
        stages = {part.label: part for part in foreseen if part.to in (None, account.site)}
        for label in {charge.label for charge in account.charges}:
            charges = [charge for charge in account.charges if charge.label == label]
            parts = [part for charge in charges for part in charge.parts]
            stage = stages[label]
            if isinstance(stage, Ask):
                asked = [statistic for statistic, _ in stage.parts]
                assert [part.attributes for part in parts] == [s.attributes for s in asked]
            else:
                assert isinstance(stage, Later)
                assert len(parts) <= (stage.releases or 0)
                assert sum(part.integers for part in parts) <= (stage.integers or 0)
                assert sum(c.rho for c in charges) <= stage.cost.rho * (1 + 1e-9)


def test_without_pairs_that_must_be_measured_a_study_is_what_it_was() -> None:
    plain = make_method("wavetree")
    assert make_method("wavetree", {"measure": ""}) == plain
    usual = FederatedSynthesizer(SCHEMA, epsilon=1, delta=1e-9, noise_seed=1)
    tables = deal(unrelated(SCHEMA, 2_000), 2)
    assert "measure" not in usual.fit_encoded(dict(enumerate_sites(tables))).release.run.settings


def enumerate_sites(tables: list[EncodedTable]) -> list[tuple[str, EncodedTable]]:
    return [(f"site-{number}", table) for number, table in enumerate(tables, start=1)]


def test_python_takes_pairs_as_pairs_and_the_record_names_them() -> None:
    synthesizer = FederatedSynthesizer(
        SCHEMA, epsilon=1, delta=1e-9, measure=[("a2", "a1"), ("a2", "a4")], noise_seed=1
    )
    tables = deal(unrelated(SCHEMA, 2_000), 2)
    release = synthesizer.fit_encoded(dict(enumerate_sites(tables))).release
    assert release.run.settings["measure"] == "a2,a1;a2,a4"
    assert {*WEAK} <= {pair.attributes for pair in release.run.pairs if pair.measured}


@given(st.lists(st.lists(st.text(max_size=6), min_size=2, max_size=2, unique=True), max_size=4))
def test_whatever_columns_are_called_pairs_are_read_as_written(names: list[list[str]]) -> None:
    pairs = tuple((f"x{first}", f"x{second}") for first, second in names)
    assert read_pairs(write_pairs(pairs)) == pairs


@pytest.mark.parametrize("text", ["a0", "a0,a1,a2", "a0,", ',"', '"a0', 'a0"b,a1', ",", "a0,a0"])
def test_what_names_no_pairs_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match=r"such as sex,diagnosis|two columns"):
        make_method("wavetree", {"measure": text})


@pytest.mark.parametrize("name", MEASURING)
def test_an_unknown_column_is_refused_before_anything_is_asked(name: str) -> None:
    with pytest.raises(UsageError, match="did you mean 'a1'"):
        FederatedSynthesizer(
            SCHEMA, epsilon=1, delta=1e-9, method=name, settings={"measure": "A1,a2"}
        )


def test_a_column_of_one_value_can_depend_on_nothing() -> None:
    with pytest.raises(UsageError, match="'a0' has one value"):
        FederatedSynthesizer(categories(1, 3), epsilon=1, delta=1e-9, measure=[("a0", "a1")])


def test_pairs_that_no_answer_has_room_for_are_refused_where_every_cell_is_asked() -> None:
    wide = categories(3_000, 3_000)
    for name in MEASURING:
        if name == "wavetree":
            FederatedSynthesizer(wide, epsilon=1, delta=1e-9, measure=[("a0", "a1")])
            continue
        with pytest.raises(UsageError, match="9,000,000 cells"):
            FederatedSynthesizer(wide, epsilon=1, delta=1e-9, method=name, measure=[("a0", "a1")])


def test_commands_take_pairs_and_say_when_nothing_else_is_worth_it(desk: Desk) -> None:
    assert desk.simulate("--measure", "ward,age", epsilon="0.1") == 0
    assert "1 pairs measured" in desk.out
    assert "asked for" in desk.out
    terms = ("--schema", "s.toml", "--rows", "300", "--epsilon", "0.1", "--delta", "1e-9")
    assert desk.run("plan", *terms, "--measure", "ward,age") == 0
    assert "of pairs only those asked for are measured (1)" in desk.out


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("--measure", "ward,agee"), "did you mean 'age'"),
        (("--measure", "ward"), "must name pairs of columns"),
        (("--measure", "ward,age", "--set", "measure=ward,age"), "not both"),
        (("--measure", "ward,age", "--method", "independent"), "does not choose pairs"),
    ],
)
def test_pairs_that_cannot_be_measured_are_refused_in_one_line(
    desk: Desk, given: tuple[str, ...], said: str
) -> None:
    terms = ("--schema", "s.toml", "--epsilon", "1", "--delta", "1e-9")
    desk.simulate(*given)
    desk.refused(2, said)
    desk.run("plan", *terms, "--rows", "300", *given)
    desk.refused(2, said)
    desk.run("study", "new", *terms, "--site", "a", "--site", "b", "--out", "study.toml", *given)
    desk.refused(2, said)
    assert not (desk.folder / "study.toml").exists()


def test_a_study_names_its_pairs(tmp_path: Path) -> None:
    hospital_schema().save(tmp_path / "schema.toml")
    out = tmp_path / "study.toml"
    new = ["study", "new", "--schema", str(tmp_path / "schema.toml"), "--site", "elmwood"]
    new += ["--site", "lakeside", "--epsilon", "1", "--delta", "1e-9", "--out", str(out)]
    assert run([*new, "--measure", "sex,age", "--measure", "age,ward"]) == 0
    assert Study.load(out).plan.settings["measure"] == "sex,age;age,ward"
