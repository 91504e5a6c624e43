"""Two tables that differ by one row: the tool that watches a study from end to end."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path

import pytest

from heterofedsyn.audit.coupling.neighbours import (
    Published,
    check_published,
    distance,
    rebuilt,
    record,
    simulate,
)
from heterofedsyn.audit.findings import Broken
from heterofedsyn.simulate.synthesizer import FederatedSynthesizer

pytestmark = pytest.mark.sweep

SCHEMA = """\
columns = [
  {name = "a", type = "categorical", values = ["x", "y", "z"]},
  {name = "b", type = "integer", min = 0, max = 9, bins = 10},
]
"""

Ask = Callable[..., Published]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """A study over the rows of three sites, which nobody deals."""
    (tmp_path / "s.toml").write_text(SCHEMA)

    def run(first: str, *arguments: str) -> Published:
        for name, rows in (("one", first), ("two", "x1y2y3"), ("three", "y5z6")):
            cells = [f"{rows[i]},{rows[i + 1]}" for i in range(0, len(rows), 2)]
            (tmp_path / f"{name}.csv").write_text("\n".join(["a,b", *cells, ""]))
        terms = ("--schema", tmp_path / "s.toml", "--epsilon", "1", "--delta", "1e-9")
        names = ("one", "two", "three")
        sites = [word for name in names for word in ("--site", tmp_path / f"{name}.csv")]
        return simulate(*sites, *terms, "--seed", "3", *(arguments or ("--method", "independent")))

    return run


def test_a_study_is_watched_and_not_changed(ask: Ask) -> None:
    plain = ask("x1y2z3x4")
    watched = record(lambda: ask("x1y2z3x4"))
    assert plain.code == 0
    assert {"synthetic.csv", "model", "run.json", "privacy.json"} <= {*plain.files}
    assert plain.differences(watched.published) == []
    assert rebuilt(watched) == plain.files
    assert [*watched.tables] == ["site-1", "site-2", "site-3"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("--method", "independent"),
        ("--method", "local-merge"),
        ("--method", "privsyn"),
        ("--method", "fedprivsyn", "--trust", "secure-aggregation", "--epsilon", "0.5"),
    ],
)
def test_a_row_more_moves_at_most_what_was_charged_and_many_rows_more(
    ask: Ask, arguments: tuple[str, ...]
) -> None:
    tables = ("x1y2z3", "x1y2z3z9", "x1" * 9)
    runs = [record(partial(ask, rows, *arguments)) for rows in tables]
    assert distance(runs[0], runs[0]) == 0
    assert 0 < distance(runs[0], runs[1]) <= 1
    assert distance(runs[0], runs[2]) > 4


def test_a_row_that_does_not_fit_moves_nothing(ask: Ask) -> None:
    one, other = record(lambda: ask("x1y2z3")), record(lambda: ask("x1y2z3w9"))
    assert distance(one, other) == Fraction(0)
    assert one.published.differences(other.published) == []


def test_what_follows_from_answers_alone_is_accepted(ask: Ask) -> None:
    assert check_published(lambda: ask("x1y2"), lambda: ask("x1y2z3")).published.code == 0


def test_an_exact_number_in_a_file_is_named(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the rows that were counted decided how many are drawn."""
    fit, save, exact = FederatedSynthesizer.fit_encoded, FederatedSynthesizer.save, list[int]()

    def fitted(self, tables, **more):  # type: ignore[no-untyped-def]
        exact[:] = [sum(table.rows for table in tables.values())]
        return fit(self, tables, **more)

    def saved(self, folder, **more):  # type: ignore[no-untyped-def]
        return save(self, folder, **{**more, "rows": exact[0]})

    monkeypatch.setattr(FederatedSynthesizer, "fit_encoded", fitted)
    monkeypatch.setattr(FederatedSynthesizer, "save", saved)
    with pytest.raises(Broken, match=r"synthetic.csv, synthetic.parquet"):
        check_published(lambda: ask("x1y2"), lambda: ask("x1y2z3"))


def test_what_is_said_and_returned_is_compared_too(ask: Ask) -> None:
    def other(code: int, more: str) -> Published:
        found = ask("x1y2z3")
        return Published(found.files, found.said + more, found.code + code)

    with pytest.raises(Broken, match="a row changes what is said, the exit code"):
        check_published(lambda: ask("x1y2"), lambda: other(1, "3 rows"))


def test_a_study_that_asks_by_its_rows_is_noticed(ask: Ask) -> None:
    """Another number of bins stands for whatever a hub should not know."""
    with pytest.raises(Broken, match="changes what is asked"):
        check_published(lambda: ask("x1y2"), lambda: ask("x1y2", "--method", "allmarg"))


def test_a_run_without_a_study_says_so(ask: Ask) -> None:
    with pytest.raises(Broken, match="no study was run, and the exit code is 2"):
        distance(*[record(lambda: ask("x1", "--method", "none of these"))] * 2)
