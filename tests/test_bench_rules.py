"""Releases with rules and without, compared in small."""

from __future__ import annotations

import json

import pytest

from heterofedsyn.bench import many_codes, with_rules
from heterofedsyn.bench.benchmark_tables import data_folder
from heterofedsyn.cli.app import run
from heterofedsyn.schema import encode
from rules_support import broken_rows

pytestmark = pytest.mark.thorough

needs_tables = pytest.mark.skipif(data_folder() is None, reason="benchmark tables are not at hand")


@needs_tables
@pytest.mark.thorough
@pytest.mark.parametrize("name", with_rules.RULES)
def test_the_rules_of_a_benchmark_table_hold_in_it(name: str) -> None:
    schema, rows = with_rules.ruled_table(name)
    assert schema.rules
    assert encode(schema, rows.to_batches()).rules == {}


@pytest.mark.thorough
def test_releases_of_the_hospitals_are_no_worse_with_rules_and_better_where_these_speak(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(with_rules, "PATIENTS", 6_000)
    (found,) = with_rules.compare(["hospitals"], seeds=8)
    assert found.change < 4 * found.error
    assert found.tied[1] < 0.9 * found.tied[0]
    assert found.broken > 0.05
    schema, rows = with_rules.ruled_table("hospitals")
    made = with_rules.release_of(schema, rows, "wavetree", 1.0, 0)
    assert not any(broken_rows(schema, made))


@needs_tables
@pytest.mark.slow
@pytest.mark.parametrize("name", with_rules.RULES)
def test_releases_of_benchmark_tables_are_no_worse_with_rules(name: str) -> None:
    (found,) = with_rules.compare([name], seeds=10)
    assert found.change < 4 * found.error
    assert found.tied[1] < found.tied[0]


def test_codes_are_told_better_when_their_chapters_are_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(many_codes, "SIZES", (20_000,))
    assert run(["bench", "rules", "codes", "--seeds", "1", "--json"]) == 0
    told = {one["what"]: one for one in json.loads(capsys.readouterr().out)["codes"]}
    assert {*told} == {*many_codes.SEEN}
    for what in ("code", "pairs with code", "all pairs"):
        assert told[what]["known"] < 0.95 * told[what]["without"]


def test_an_unknown_table_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "rules", "adultt"]) == 2
    assert "did you mean 'adult'?" in capsys.readouterr().err
