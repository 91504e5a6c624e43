"""The paper's experiments: nothing is lost or done twice, and what is shown was measured."""

from __future__ import annotations

import csv
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from heterofedsyn.bench.paper import runner
from heterofedsyn.bench.paper.experiments import EPSILONS, TABLES, Experiment, chosen, experiments
from heterofedsyn.bench.paper.published import COUNTERPARTS, MEASURES, bound_rows, overall
from heterofedsyn.bench.paper.render import write_page
from heterofedsyn.bench.paper.runner import Request, memberships, plan_items
from heterofedsyn.bench.resumable.cells import ML, SCORES, TRANSPORT, Cell
from heterofedsyn.bench.resumable.lookup import Lookup
from heterofedsyn.bench.resumable.results import (
    Block,
    Identity,
    Item,
    opened,
    read_figures,
    read_identity,
)
from heterofedsyn.cli.app import run
from heterofedsyn.errors import HeterofedsynError, UsageError
from heterofedsyn.hub import METHODS

IDENTITY = Identity(seed=0, quick=False)
CELLS = tuple(
    Cell.of("insurance", method, epsilon)
    for method in ("independent", "wavetree")
    for epsilon in (1.0, 5.0)
)


def request(folder: Path, data: Path, **changes: object) -> Request:
    """A run of seconds."""
    tried = Experiment("overall", "", CELLS, (SCORES,))
    usual = Request((tried,), folder, data, IDENTITY, repetitions=2, ml_repetitions=1, jobs=1)
    return replace(usual, **changes)  # type: ignore[arg-type]


def silent(text: str) -> None:
    """Nobody reads this progress."""


def lines(folder: Path) -> list[list[str]]:
    """The results without CPU seconds, which no two runs share."""
    with (folder / "results.csv").open(newline="") as file:
        return [line for line in csv.reader(file) if not line[10].startswith("cpu_seconds")]


def test_overall_has_every_method_and_every_cell_of_the_paper() -> None:
    cells = experiments(quick=False)["overall"].cells
    for method in METHODS:
        found = {(c.table, c.epsilon) for c in cells if c.method == method and c.trust == "local"}
        assert found == {(table, epsilon) for table in TABLES for epsilon in EPSILONS}
    for measure in MEASURES:
        for cell in cells:
            assert overall(measure, cell.method, cell.table, cell.epsilon) > 0
    assert set(COUNTERPARTS) < set(METHODS)


def test_the_bound_experiment_has_every_row_of_the_paper_and_its_most_pairs() -> None:
    cells = experiments(quick=False)["bound"].cells
    attributes = {"adult": 15, "obesity": 17}
    assert len(bound_rows()) == len(cells) == 12
    for row in bound_rows():
        pairs = attributes[row.table] * (attributes[row.table] - 1) // 2
        share = {"1/4": 1 / 4, "1/3": 1 / 3, "1/2": 1 / 2}[row.bound]
        assert row.selected <= row.most == int(pairs * share)
        assert Cell.of(row.table, "adafedprivsyn", row.epsilon, q=0.3, bound=share) in cells


def test_a_setting_that_is_the_default_makes_no_other_cell() -> None:
    plain = Cell.of("adult", "fedprivsyn", 5.0, q=0.3)
    assert Cell.of("adult", "fedprivsyn", 5.0, q=0.3, k=10, sketch="signs", sites=5) == plain
    shared = memberships(IDENTITY)[plain]
    assert shared == ("participants", "distribution", "allocation", "projection")


def test_overall_comes_first_and_repeated_transport_last() -> None:
    everything = request(Path("out"), Path("data"), experiments=tuple(chosen([], quick=False)))
    items = plan_items(everything)
    assert len({item.key for item in items}) == len(items)
    main = set(experiments(quick=False)["overall"].cells)
    first_other = next(place for place, item in enumerate(items) if item.cell not in main)
    done = {(item.kind, item.repetition) for item in items[:first_other]}
    assert done == {(SCORES, 0), (SCORES, 1), (ML, 0), (TRANSPORT, 0)}
    again = [item.kind == TRANSPORT and item.repetition > 0 for item in items]
    assert again == sorted(again)


def test_an_unknown_experiment_is_named_with_a_hint() -> None:
    with pytest.raises(UsageError, match="did you mean 'overall'"):
        chosen(["overal"], quick=False)


@pytest.mark.thorough
def test_a_run_stopped_after_any_item_continues_to_the_same_results(
    data_folder: Path, tmp_path: Path
) -> None:
    whole = runner.run(request(tmp_path / "whole", data_folder), silent)
    assert (whole.items, whole.fresh) == (8, 8)
    kept = 0

    def stop(block: Block) -> None:
        nonlocal kept
        kept += 1
        if kept in (3, 4):
            raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            runner.run(request(tmp_path / "cut", data_folder), silent, stop)
    rest = runner.run(request(tmp_path / "cut", data_folder), silent, stop)
    assert (rest.items, rest.fresh) == (8, 4)
    assert lines(tmp_path / "cut") == lines(tmp_path / "whole")


@pytest.mark.slow
def test_several_processes_measure_what_one_does(data_folder: Path, tmp_path: Path) -> None:
    runner.run(request(tmp_path / "one", data_folder), silent)
    runner.run(request(tmp_path / "two", data_folder, jobs=2), silent)
    assert lines(tmp_path / "one") == lines(tmp_path / "two")


@pytest.mark.thorough
def test_every_repetition_has_noise_of_its_own_and_every_seed_too(
    data_folder: Path, tmp_path: Path
) -> None:
    runner.run(request(tmp_path / "0", data_folder), silent)
    runner.run(request(tmp_path / "1", data_folder, identity=Identity(1, quick=False)), silent)
    found = [
        figure.value
        for folder in ("0", "1")
        for figure in read_figures(tmp_path / folder)
        if figure.metric == "tvd.two_way"
    ]
    assert len(found) == 16
    assert len(set(found)) == 16


@pytest.mark.thorough
def test_more_repetitions_are_added_to_those_there(data_folder: Path, tmp_path: Path) -> None:
    runner.run(request(tmp_path / "out", data_folder, repetitions=1), silent)
    more = runner.run(request(tmp_path / "out", data_folder), silent)
    assert (more.items, more.fresh) == (8, 4)
    assert runner.run(request(tmp_path / "out", data_folder), silent).fresh == 0


@pytest.mark.thorough
def test_what_the_software_declines_is_kept_as_refused_and_shown(
    data_folder: Path, tmp_path: Path
) -> None:
    # So many sites would each have too little noise for the sum to be private.
    declined = Cell.of("insurance", "wavetree", 5.0, sites=2_000, trust="secure-aggregation")
    unable = Cell.of("insurance", "local-merge", 5.0, trust="secure-aggregation")
    tried = Experiment("overall", "", (declined, unable), (SCORES,))
    asked = request(tmp_path / "out", data_folder, experiments=(tried,), repetitions=1)
    assert runner.run(asked, silent).failures == ()
    found = Lookup.read(tmp_path / "out")
    assert found.shown(declined, "tvd.two_way") == "refused (privacy)"
    assert found.shown(unable, "tvd.two_way") == "refused (unsupported)"
    assert found.shown(unable, "ml.average") == "–"


@pytest.mark.slow
def test_a_terminated_run_leaves_no_worker_and_continues(data_folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "heterofedsyn", "bench", "paper", "pca", "cost", "--quick"]
    command += ["--out", str(tmp_path / "out"), "--jobs", "2"]
    environment = {"HETEROFEDSYN_DATA": str(data_folder), "PATH": ""}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "out" / "results.csv").exists() or not read_figures(tmp_path / "out"):
            assert process.poll() is None
            time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        # The pipe ends only when no worker holds it any more.
        assert process.stderr is not None
        assert "stopped before the end" in process.stderr.read()
    kept = len(read_figures(tmp_path / "out"))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert not re.search(r" items, 0 of them done", done.stderr)
    assert len(read_figures(tmp_path / "out")) > kept
    assert (tmp_path / "out" / "README.md").is_file()


def store(folder: Path, *blocks: Block, identity: Identity = IDENTITY) -> None:
    with opened(folder, identity, memberships(identity)) as results:
        for block in blocks:
            results.append(block)


def block(cell: Cell, kind: str = SCORES, repetition: int = 0, **figures: float | str) -> Block:
    named = {name.replace("__", "."): value for name, value in figures.items()}
    return Block(Item(cell, repetition, kind), named, 0.5)


@pytest.mark.parametrize("torn", [1, 20, 60])
def test_a_torn_block_is_done_again_and_all_before_it_stays(tmp_path: Path, torn: int) -> None:
    first, second = (block(cell, tvd__two_way=0.25, pairs=3.0) for cell in CELLS[:2])
    store(tmp_path / "out", first, second)
    path = tmp_path / "out" / "results.csv"
    path.write_bytes(path.read_bytes()[:-torn])
    with opened(tmp_path / "out", IDENTITY, {}) as results:
        assert results.done() == {first.item.key}
        results.append(second)
        assert results.done() == {first.item.key, second.item.key}
    assert len(read_figures(tmp_path / "out")) == 6


def test_only_one_run_writes_to_a_folder(tmp_path: Path) -> None:
    with (
        opened(tmp_path / "out", IDENTITY, {}),
        pytest.raises(HeterofedsynError, match="another run"),
        opened(tmp_path / "out", IDENTITY, {}),
    ):
        pass


@pytest.mark.parametrize("other", [Identity(1, quick=False), Identity(0, quick=True)])
def test_a_folder_of_another_seed_or_extent_is_refused(tmp_path: Path, other: Identity) -> None:
    store(tmp_path / "out", block(CELLS[0], tvd__two_way=0.1), identity=other)
    with pytest.raises(UsageError, match="holds a run"):
        store(tmp_path / "out")
    assert read_identity(tmp_path / "out", Identity) == other


def test_a_folder_of_something_else_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").touch()
    with pytest.raises(UsageError, match="something else"):
        store(tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.tex"]


@pytest.mark.slow
@pytest.mark.thorough
def test_the_page_holds_means_and_ratios_and_refusals_and_the_same_bytes_each_time(
    tmp_path: Path,
) -> None:
    ours = Cell.of("adult", "fedprivsyn", 1.0)
    best = Cell.of("adult", "wavetree", 1.0)
    declined = Cell.of("adult", "wavetree", 5.0, trust="secure-aggregation")
    narrow = Cell.of("obesity", "adafedprivsyn", 1.0, q=0.3, bound=1 / 4)
    store(
        tmp_path / "out",
        block(ours, query__test__2_way=0.008),
        block(ours, repetition=1, query__test__2_way=0.010),
        block(ours, ML, ml__average=0.8),
        block(best, query__test__2_way=0.0018),
        block(declined, refused__scores="privacy"),
        block(narrow, pairs=12.0, query__test__2_way=0.034),
    )
    page = write_page(tmp_path / "out", IDENTITY, data=None)
    text = page.read_text("utf-8")
    # The paper has 0.018 for FedPrivSyn, and 0.009 for the best federated method.
    assert "| 0.018 | 0.00900 ± 0.0014 | 0.50 |" in text
    assert "| *0.009* | 0.00180 | 0.20 |" in text
    assert "| 0.736 | 0.800 | 1.09 |" in text
    assert "refused (privacy)" in text
    assert "| obesity | 1 | 1/4 | 0.085 | 0.0340 | 0.40 |" in text
    assert "| 10 / 34 | 12.0 / 34 |" in text
    assert "| total variation, queries and histograms | none yet |" in text
    assert "noise seeds 0, 1:" in text
    drawn = {path.name: path.read_bytes() for path in (tmp_path / "out" / "figures").iterdir()}
    assert "overall.svg" in drawn
    write_page(tmp_path / "out", IDENTITY, data=None)
    assert page.read_text("utf-8") == text
    for name, content in drawn.items():
        assert (tmp_path / "out" / "figures" / name).read_bytes() == content


@pytest.mark.thorough
def test_the_quick_page_says_what_it_leaves_out(tmp_path: Path) -> None:
    quick = Identity(0, quick=True)
    store(tmp_path / "out", block(CELLS[0], query__test__2_way=0.02), identity=quick)
    text = write_page(tmp_path / "out", quick, data=None).read_text("utf-8")
    assert "quick version" in text
    assert "heterofedsyn bench paper --quick" in text


def test_without_tables_one_line_says_where_they_are_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HETEROFEDSYN_DATA", str(tmp_path / "nowhere"))
    assert run(["bench", "paper", "--out", str(tmp_path / "out")]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert all(word in said for word in ("nowhere", "HETEROFEDSYN_DATA", "heterofedsyn bench data"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--repetitions", "0"], "--repetitions"),
        (["--jobs", "0"], "--jobs"),
        (["--seed", "-1"], "--seed"),
        (["overal"], "overall"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_written(
    data_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    word: str,
) -> None:
    monkeypatch.setenv("HETEROFEDSYN_DATA", str(data_folder))
    assert run(["bench", "paper", "--out", str(tmp_path / "out"), *arguments]) == 2
    assert word in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_rendering_an_empty_folder_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["bench", "paper", "--render-only", "--out", str(tmp_path)]) == 1
    assert "holds no results" in capsys.readouterr().err
