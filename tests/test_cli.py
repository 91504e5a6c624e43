from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import typer

from heterofedsyn import load
from heterofedsyn.cli.app import app, run
from heterofedsyn.hub import DEFAULT_METHOD, METHODS
from heterofedsyn.hub.release import MOST_RELEASED, model_file, sampling
from heterofedsyn.privacy.budget import Conversion
from heterofedsyn.privacy.trust import TRUST_MODELS
from heterofedsyn.schema import Schema
from heterofedsyn.simulate import synthesizer as synthesizer_module
from heterofedsyn.simulate.split import Split
from invented import SCHEMA, Desk, names

pytestmark = pytest.mark.sweep

PLAIN = ("--method", "independent")
"""The quickest study."""

ADA = ("--method", "adafedprivsyn")


# WRONG USE


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["simulat"], ["'simulat'", "'simulate'"]),
        (["schema", "chek"], ["'chek'", "'check'", "heterofedsyn schema --help"]),
        (["--verson"], ["--verson"]),
        (["simulate", "--epsilo", "1"], ["--epsilo", "--epsilon", "heterofedsyn simulate --help"]),
        (["simulate"], ["--schema"]),
        (["sample"], ["DIR"]),
        (["sample", "a", "b"], ["(b)"]),
        (["sample", "a", "--rows", "1.5"], ["--rows", "'1.5'"]),
        (["schema", "draft", "--public", "--out", "x.toml"], ["--data"]),
    ],
)
def test_a_command_that_cannot_be_parsed_is_one_line(
    desk: Desk, arguments: list[str], words: list[str]
) -> None:
    desk.run(*arguments)
    desk.refused(2, *words)


@pytest.mark.parametrize("arguments", [[], ["schema"], ["bench"]])
def test_no_command_shows_the_commands(desk: Desk, arguments: list[str]) -> None:
    assert desk.run(*arguments) == 2
    assert desk.err.startswith("Usage: heterofedsyn")
    assert "Commands:" in desk.err
    assert "error:" not in desk.err


ALWAYS = ["d.csv", "s.toml"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--epsilon", "0"], 2, ["epsilon", "0", "1 is usual"]),
        (["--epsilon", "-1"], 2, ["epsilon", "-1"]),
        (["--epsilon", "nan"], 2, ["epsilon", "nan"]),
        (["--epsilon", "inf"], 2, ["epsilon", "inf"]),
        (["--epsilon", "101"], 2, ["epsilon", "101"]),
        (["--epsilon", "abc"], 2, ["--epsilon", "'abc'", "number"]),
        (["--epsilon", "1e-7"], 3, ["too small to measure anything", "raise epsilon"]),
        (["--delta", "0"], 2, ["delta", "not 0"]),
        (["--delta", "1"], 2, ["delta", "not 1"]),
        (["--delta", "-1"], 2, ["delta", "not -1"]),
        (["--delta", "nan"], 2, ["delta", "nan"]),
        (["--delta", "inf"], 2, ["delta", "inf"]),
        (["--delta", "abc"], 2, ["--delta", "'abc'"]),
        (["--method", "fedprivsin"], 2, ["'fedprivsin'", "did you mean 'fedprivsyn'"]),
        (["--method", "xyzzy"], 2, ["'xyzzy'", "known: ", "'privsyn'"]),
        (["--split", "unifrom"], 2, ["'unifrom'", "did you mean 'uniform'"]),
        (["--trust", "lokal"], 2, ["'lokal'", "did you mean 'local'"]),
        (["--conversion", "tihgt"], 2, ["'tihgt'", "did you mean", "'tight'"]),
        ([*ADA, "--set", "passses=3"], 2, ["'passses'", "did you mean 'passes'"]),
        (["--set", "q"], 2, ["--set 'q'", "NAME=VALUE"]),
        (["--set", "=1"], 2, ["--set '=1'", "NAME=VALUE"]),
        (["--set", "q="], 2, ["--set 'q='", "NAME=VALUE"]),
        (["--set", "q=0.1", "--set", "q=0.2"], 2, ["--set q", "twice"]),
        ([*ADA, "--set", "q=0.7"], 2, ["q (0.7)", "at most 0.49"]),
        ([*ADA, "--set", "q=nan"], 2, ["q (nan)"]),
        ([*ADA, "--set", "k=abc"], 2, ["k=abc", "a whole number"]),
        ([*ADA, "--set", "k=1.5"], 2, ["k=1.5", "a whole number"]),
        ([*ADA, "--set", "k=1e999"], 2, ["k=1e999", "a whole number"]),
        ([*ADA, "--set", "k=0"], 2, ["k (0)"]),
        ([*ADA, "--set", "passes=-1"], 2, ["passes (-1)"]),
        ([*ADA, "--set", "sketch=foo"], 2, ["sketch=foo", "signs, gaussian"]),
        (["--set", "synthesizer=foo"], 2, ["'foo'", "gum"]),
        (["--sites", "0"], 2, ["sites (0)", "1.."]),
        (["--sites", "-3"], 2, ["sites (-3)"]),
        (["--sites", "1000000000"], 2, ["sites (1000000000)"]),
        (["--rows", "0"], 2, ["rows (0)", "1.."]),
        (["--rows", "-5"], 2, ["rows (-5)"]),
        (["--rows", str(MOST_RELEASED + 1)], 2, [f"rows ({MOST_RELEASED + 1})"]),
        (["--seed", "-1"], 2, ["seed (-1)"]),
        (["--unit", "persn"], 1, ["d.csv", "'persn'", "did you mean 'person'"]),
        (["--max-rows-per-unit", "2"], 2, ["--max-rows-per-unit", "--unit"]),
        (["--unit", "person", "--max-rows-per-unit", "0"], 2, ["rows per unit", "0"]),
        (["--schema", "no.toml"], 2, ["no.toml", "check the path"]),
        (["--schema", "."], 2, ["."]),
        (["--data", "no.csv"], 1, ["no.csv", "no such file"]),
        (["--data", "s.toml"], 2, ["s.toml", ".csv"]),
        (["--data", "d.csv", "--site", "d.csv"], 2, ["--data", "--site"]),
        (["--site", "d.csv", "--sites", "3"], 2, ["--sites", "--site"]),
        (["--site", "d.csv", "--split", "label"], 2, ["--split", "--site"]),
        (["--site", "a=d.csv", "--site", "a=d.csv"], 2, ["two --site options", "'a'"]),
        (["--site", "a/b=d.csv"], 2, ["site name 'a/b'"]),
        (["--site", "a=no.csv"], 1, ["no.csv", "no such file"]),
        (
            ["--method", "local-merge", "--trust", "secure-aggregation"],
            2,
            ["'local-merge'", "use trust 'local'"],
        ),
        (
            ["--method", "privsyn", "--trust", "secure-aggregation"],
            2,
            ["'privsyn'", "pools all rows", "use trust 'local'"],
        ),
        (
            ["--trust", "secure-aggregation", "--epsilon", "90", "--sites", "50"],
            3,
            ["secure aggregation over 50 sites", "below 1.3", "lower epsilon"],
        ),
        (["--trust", "secure-aggregation", "--sites", "2"], 2, ["at least 3 sites, not 2"]),
        (["--trust", "secure-aggregation", "--colluding", "0"], 2, ["colluding (0)"]),
        (["--trust", "secure-aggregation", "--colluding", "4"], 2, ["colluding (4)", "1..3"]),
        (["--trust", "secure-aggregation", "--colluding", "99999999"], 2, ["colluding (99999999)"]),
        (["--trust", "secure-aggregation", "--quorum", "0"], 2, ["quorum (0)"]),
        (["--trust", "secure-aggregation", "--quorum", "3"], 2, ["quorum (3)", "4..5"]),
        (["--trust", "secure-aggregation", "--quorum", "6"], 2, ["quorum (6)", "4..5"]),
        (["--trust", "secure-aggregation", "--quorum", "99999999"], 2, ["quorum (99999999)"]),
        (["--colluding", "1"], 2, ["colluding", "'local'", "leave it out"]),
        (["--quorum", "5"], 2, ["quorum", "'local'", "leave it out"]),
        (
            ["--site", "a=no.csv", "--site", "b=not.csv", "--trust", "secure-aggregation"],
            2,
            ["at least 3 sites, not 2"],
        ),
    ],
)
def test_simulate_refuses_in_one_line_and_leaves_nothing(
    desk: Desk, arguments: list[str], code: int, words: list[str]
) -> None:
    desk.simulate(*arguments)
    desk.refused(code, *words)
    assert sorted(names(desk.folder)) == ALWAYS
    assert desk.out == ""


def test_simulate_needs_data(desk: Desk) -> None:
    terms = ["--schema", "s.toml", "--epsilon", "1", "--delta", "1e-9", "--out", "o"]
    desk.run("simulate", *terms)
    desk.refused(2, "--data", "--site")


# SCHEMAS


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("label = =", ["s.toml", "not valid TOML", "line 1"]),
        ("", ["s.toml", "at least one column"]),
        (SCHEMA.replace("bins", "bin"), ["s.toml", "'age'", "'bin'", "did you mean 'bins'"]),
        (SCHEMA.replace('"sick"\n\n', '"sik"\n\n'), ["s.toml", "'sik'", "did you mean 'sick'"]),
        (SCHEMA.replace("integer", "intger"), ["s.toml", "'age'", "did you mean 'integer'"]),
        (SCHEMA.replace("max = 99", "max = -1"), ["s.toml", "'age'", "min is larger than max"]),
        (SCHEMA.replace("bins = 5", "bins = nan"), ["s.toml", "'age'", "bins"]),
    ],
)
@pytest.mark.parametrize("command", ["simulate", "check"])
def test_a_bad_schema_is_one_line_that_names_file_and_column(
    desk: Desk, command: str, text: str, words: list[str]
) -> None:
    desk.write("s.toml", text)
    if command == "simulate":
        desk.simulate()
    else:
        desk.run("schema", "check", "--schema", "s.toml")
    desk.refused(2, *words)
    assert sorted(names(desk.folder)) == ALWAYS


@pytest.mark.parametrize("split", ["label", "dirichlet"])
def test_a_split_by_label_without_one_is_refused(desk: Desk, split: str) -> None:
    desk.write("s.toml", SCHEMA.replace('label = "sick"', ""))
    desk.simulate("--split", split)
    desk.refused(2, f"'{split}'", "label")


# DATA

SECRET = "Zanzibar"
MISFITS = f"age,ward,sick\n5,a,true\n5,{SECRET},true\n{SECRET},b,true\n7,,maybe{SECRET}\n"


@pytest.mark.thorough
def test_rows_that_do_not_fit_are_counted_by_column_and_left_out(desk: Desk) -> None:
    desk.write("bad.csv", MISFITS)
    assert desk.simulate(*PLAIN, "--data", "bad.csv") == 1
    desk.refused(1, "3 rows do not fit", "of 4;", "--allow-misfits")
    assert SECRET not in desk.err + desk.out
    assert desk.simulate(*PLAIN, "--data", "bad.csv", "--allow-misfits") == 0
    (said,) = [line for line in desk.err.splitlines() if line.startswith("note: ")]
    assert "3 rows do not fit and are left out (age: 1 not a whole number; ward: 1 missing" in said
    assert SECRET not in desk.err + desk.out
    for path in (desk.folder / "release").iterdir():
        assert SECRET.encode() not in path.read_bytes()


def test_check_fails_and_names_no_value_if_rows_do_not_fit(desk: Desk) -> None:
    desk.write("bad.csv", MISFITS)
    desk.run("schema", "check", "--schema", "s.toml", "--data", "bad.csv")
    desk.refused(1, "3 of 4 rows do not fit, more than 5 % (age: 1 not a whole number;", "schema")
    assert SECRET not in desk.err + desk.out
    desk.write("bad.csv", "age,ward,sick\nx,a,true\n")
    desk.run("schema", "check", "--schema", "s.toml", "--data", "bad.csv")
    desk.refused(1, "1 of 1 row does not fit, more than 5 % (age: 1 not a whole number)")


def test_check_says_the_same_as_json(desk: Desk) -> None:
    desk.write("bad.csv", MISFITS)
    check = ["schema", "check", "--schema", "s.toml", "--json"]
    check += ["--data", "bad.csv", "--data", "d.csv", "--unit", "age"]
    assert desk.run(*check, "--most-misfit", "0.001") == 1
    failed = desk.out
    assert desk.run(*check) == 0
    assert desk.out == failed
    found = json.loads(desk.out)
    assert found["columns"] == {"age": 5, "ward": 3, "sick": 2}
    assert found["misfits"] == {
        "age": {"not a whole number": 1},
        "ward": {"missing": 1, "unknown value": 1},
        "sick": {"not true or false": 1},
    }
    assert (found["rows_read"], found["rows_that_do_not_fit"]) == (304, 3)
    assert found["ignored_columns"] == ["person"]


def test_check_tells_which_columns_are_never_read(desk: Desk) -> None:
    assert desk.run("schema", "check", "--schema", "s.toml", "--data", "d.csv") == 0
    assert "never read: person" in desk.out
    assert "all 300 rows fit" in desk.out
    assert desk.run("schema", "check", "--schema", "s.toml") == 0


def test_a_name_is_shown_as_it_is(desk: Desk) -> None:
    name = "[red]" + "long" * 30
    desk.write("s.toml", SCHEMA.replace('"ward"', f'"{name}"'))
    assert desk.run("schema", "check", "--schema", "s.toml") == 0
    cells = [line.split("│")[1].strip() for line in desk.out.splitlines() if "│" in line]
    assert "".join(cells) == f"age{name}sick"


def test_a_missing_column_is_named_with_its_file(desk: Desk) -> None:
    desk.write("bad.csv", "age,wart,sick\n1,a,true\n")
    desk.simulate("--data", "bad.csv")
    desk.refused(1, "bad.csv", "'ward'", "did you mean 'wart'")


@pytest.mark.parametrize(
    "text", ["", f"age,ward,sick\n1,a,true,{SECRET}\n", f'age,ward,sick\n1,"{SECRET},true\n']
)
def test_a_damaged_file_is_one_line_without_a_value(desk: Desk, text: str) -> None:
    desk.write("bad.csv", text)
    code = desk.simulate(*PLAIN, "--data", "bad.csv")
    if code:
        desk.refused(1, "bad.csv")
    assert SECRET not in desk.err + desk.out


HEADER = "age,ward,sick\n"


@pytest.mark.thorough
@pytest.mark.parametrize("rows", ["", "5,a,true\n", "5,a,true\n" * 50], ids=["no", "one", "same"])
@pytest.mark.parametrize("method", [DEFAULT_METHOD, "privsyn", "local-merge"])
def test_few_or_equal_rows_give_a_release_like_any_other(
    desk: Desk, rows: str, method: str
) -> None:
    desk.write("few.csv", HEADER + rows)
    assert desk.simulate("--data", "few.csv", "--method", method, "--allow-misfits") == 0
    assert load("release").sample(10, seed=1).num_rows == 10


@pytest.mark.thorough
def test_an_empty_site_takes_part(desk: Desk) -> None:
    desk.write("none.csv", HEADER)
    assert desk.simulate("--site", "d.csv", "--site", "far=none.csv", "--allow-misfits") == 0
    assert load("release").run.sites == ("site-1", "far")


@pytest.mark.thorough
def test_a_site_may_have_a_file_with_an_equals_sign(desk: Desk) -> None:
    (desk.folder / "d.csv").rename(desk.folder / "year=2020.csv")
    assert desk.simulate(*PLAIN, "--site", "year=2020.csv") == 0
    assert load("release").run.sites == ("site-1",)


@pytest.mark.thorough
def test_there_may_be_more_sites_than_rows(desk: Desk) -> None:
    desk.write("few.csv", HEADER + "5,a,true\n" * 3)
    assert desk.simulate(*PLAIN, "--data", "few.csv", "--sites", "20") == 0
    assert len(load("release").run.sites) == 20


@pytest.mark.thorough
def test_files_are_pooled(desk: Desk) -> None:
    rows = pyarrow.csv.read_csv("d.csv")
    many: list[str] = []
    for number in range(20):
        pyarrow.parquet.write_table(rows, f"d{number}.parquet")
        pyarrow.csv.write_csv(rows, f"d{number}.csv")
        many += ["--data", f"d{number}.csv", "--data", f"d{number}.parquet"]
    assert desk.simulate(*PLAIN, *many, "--sites", "1", epsilon="100") == 0
    assert abs(load("release").run.noisy_total - 12_000) < 100


@pytest.mark.thorough
@pytest.mark.parametrize("size", [1, 2, 300])
def test_any_number_of_categories_will_do(desk: Desk, size: int) -> None:
    values = [f"v{i}" for i in range(size)]
    column = f'[[columns]]\nname = "ward"\ntype = "categorical"\nvalues = {values}\n'
    desk.write("s.toml", column + column.replace("ward", "room"))
    rows = "".join(f"{values[i % size]},{values[i % size]}\n" for i in range(600))
    desk.write("d.csv", "ward,room\n" + rows)
    assert desk.simulate() == 0
    table = load("release").sample(50, seed=1)
    assert set(table["ward"].to_pylist()) <= set(values)


@pytest.mark.thorough
def test_at_most_so_many_rows_of_a_person_count(desk: Desk) -> None:
    for most, rows in (("1", 150), ("2", 300)):
        terms = ("--unit", "person", "--max-rows-per-unit", most, "--sites", "1", "--overwrite")
        assert desk.simulate(*PLAIN, *terms, epsilon="100") == 0
        privacy = load("release").privacy
        assert (privacy.unit, privacy.rows_per_unit) == ("person", int(most))
        assert "for every person (person)" in desk.out
        assert abs(load("release").run.noisy_total - rows) < 20
        assert (f"{150} rows are left out" in desk.err) == (most == "1")


# WHERE A RELEASE GOES


@pytest.mark.thorough
def test_a_release_is_replaced_only_when_asked_and_nothing_else_ever(desk: Desk) -> None:
    assert desk.simulate(*PLAIN) == 0
    before = (desk.folder / "release" / "model").read_bytes()
    desk.simulate(*PLAIN, epsilon="3")
    desk.refused(2, "release", "--overwrite")
    assert (desk.folder / "release" / "model").read_bytes() == before
    assert desk.simulate(*PLAIN, "--overwrite", epsilon="3") == 0
    assert (desk.folder / "release" / "model").read_bytes() != before
    for name in ("notes.txt", ".hidden"):
        (desk.folder / "release" / name).write_text("mine")
        desk.simulate(*PLAIN, "--overwrite")
        desk.refused(2, "release", "something else", "another folder")
        (desk.folder / "release" / name).unlink()
    assert names(desk.folder) == {*ALWAYS, "release"}


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("d.csv", ["d.csv is a file"]),
        ("d.csv/x", ["d.csv/x", "d.csv is a file"]),
        (".", ["something else"]),
        ("", ["something else"]),
        ("/", ["something else"]),
    ],
)
def test_a_place_that_is_taken_is_refused_before_the_study(
    desk: Desk, out: str, words: list[str]
) -> None:
    desk.simulate(*PLAIN, "--overwrite", out=out)
    desk.refused(2, *words)
    assert "study" not in desk.err
    assert sorted(names(desk.folder)) == ALWAYS


def test_the_current_folder_is_refused_even_if_empty(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    (desk.folder / "empty").mkdir()
    monkeypatch.chdir(desk.folder / "empty")
    terms = ["--schema", "../s.toml", "--epsilon", "1", "--delta", "1e-9", "--data", "../d.csv"]
    desk.run("simulate", *terms, "--out", ".")
    desk.refused(2, "the folder you are in")


def test_a_place_without_permission_is_refused_before_the_study(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Tests may run as root, to whom everything is permitted.
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    desk.simulate(*PLAIN)
    desk.refused(2, "release", "not permitted")
    assert "study" not in desk.err


@pytest.mark.thorough
def test_an_empty_folder_a_new_parent_and_one_behind_a_link_are_places(desk: Desk) -> None:
    (desk.folder / "empty").mkdir()
    (desk.folder / "behind").mkdir()
    (desk.folder / "link").symlink_to("behind")
    for out in ("empty", "new/deep/release", "link/release"):
        assert desk.simulate(*PLAIN, out=out) == 0
        assert load(out).run.method == "independent"
    assert names(desk.folder) == {*ALWAYS, "empty", "new", "link", "behind"}
    assert names(desk.folder / "behind") == {"release"}


@pytest.mark.thorough
def test_the_summary_is_also_json(desk: Desk) -> None:
    assert desk.simulate(*PLAIN, "--json", "--rows", "12") == 0
    summary = json.loads(desk.out)
    assert (summary["out"], summary["method"], summary["rows"]) == ("release", "independent", 12)
    assert summary["simulated_noise"] is True
    assert max(summary["spent"].values()) <= summary["rho"]
    assert pyarrow.csv.read_csv("release/synthetic.csv").num_rows == 12


@pytest.mark.thorough
def test_a_seed_is_warned_about_and_noted(desk: Desk) -> None:
    assert desk.simulate(*PLAIN) == 0
    assert "warning: simulated noise, for research: anyone with the seed can undo" in desk.err
    assert load("release").privacy.simulated_noise
    terms = ["--schema", "s.toml", "--epsilon", "1", "--delta", "1e-9", "--data", "d.csv"]
    assert desk.run("simulate", *terms, *PLAIN, "--out", "real") == 0
    assert "warning" not in desk.err
    assert not load("real").privacy.simulated_noise


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["independent", "privsyn"])
def test_progress_counts_in_proper_words(desk: Desk, method: str) -> None:
    assert desk.simulate("--method", method, "--sites", "1") == 0
    assert not re.search(r"\b1 (sites|releases|rows)\b", desk.err + desk.out)
    assert ("pooled rows" in desk.err) == (method == "privsyn")


# STOPPING


@pytest.mark.parametrize("moment", ["study", "writing"])
def test_control_c_leaves_nothing_and_says_so_in_one_line(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    if moment == "study":
        monkeypatch.setattr(synthesizer_module, "run_study", stop)
    else:
        monkeypatch.setattr(model_file, "pack", stop)
    desk.simulate(*PLAIN, out="new/release")
    desk.refused(130, "stopped")
    assert sorted(names(desk.folder)) == ALWAYS


@contextmanager
def sampling_for_ever(
    folder: Path, release: Path, *before: str, stderr: int = subprocess.PIPE
) -> Iterator[subprocess.Popen[str]]:
    """A process that draws more rows than anybody waits for, when it has begun to write them."""
    command = [*before, sys.executable, "-m", "heterofedsyn", "sample", str(release)]
    process = subprocess.Popen(
        [*command, "--rows", "1000000000", "--out", "x.csv"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stderr=stderr,
        text=True,
    )
    try:
        deadline = time.monotonic() + 60
        while not any(".x.csv" in name for name in names(folder)):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_nothing_and_is_answered_in_one_line(
    tmp_path: Path, release: Path, number: signal.Signals
) -> None:
    with sampling_for_ever(tmp_path, release) as process:
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert said.splitlines()[-1] == "error: stopped before the end; nothing half-written is left"
    assert "Traceback" not in said
    assert names(tmp_path) == set()


@pytest.mark.thorough
def test_a_terminal_that_closes_takes_what_is_half_written_with_it(
    tmp_path: Path, release: Path
) -> None:
    heard, said = os.pipe()
    with sampling_for_ever(tmp_path, release, stderr=said) as process:
        os.close(said)
        os.close(heard)
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)  # while it is cleaning up
        assert process.wait(60) == 128 + signal.SIGHUP
    assert names(tmp_path) == set()


@pytest.mark.thorough
def test_a_closed_terminal_does_not_end_what_was_started_to_outlive_it(
    tmp_path: Path, release: Path
) -> None:
    with sampling_for_ever(tmp_path, release, "nohup") as process:
        process.send_signal(signal.SIGHUP)
        time.sleep(0.5)
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM


def test_an_unforeseen_error_is_one_line_without_its_text(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError(SECRET)

    monkeypatch.setattr(synthesizer_module, "run_study", fail)
    assert desk.simulate(*PLAIN) == 1
    assert desk.err.splitlines()[-1].startswith("error: unexpected ZeroDivisionError at test_cli")
    assert SECRET not in desk.err
    monkeypatch.setenv("HETEROFEDSYN_DEBUG", "1")
    desk.simulate(*PLAIN)
    assert "Traceback" in desk.err


def test_too_little_memory_is_one_line(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(synthesizer_module, "run_study", fail)
    desk.simulate(*PLAIN)
    desk.refused(1, "memory")


def test_an_error_is_one_line_whatever_a_path_holds(desk: Desk) -> None:
    desk.run("sample", "a\nb\x1b[31m")
    desk.refused(1, r"folder a\nb\x1b[31m;")


def test_an_error_of_the_system_names_its_file_and_what_to_do(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "ward/rows.csv")

    monkeypatch.setattr(synthesizer_module, "run_study", fail)
    desk.simulate(*PLAIN)
    desk.refused(1, "cannot read or write ward/rows.csv: Permission denied; ", "another place")


# SAMPLE


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    (folder / "s.toml").write_text(SCHEMA)
    (folder / "d.csv").write_text(HEADER + "5,a,true\n70,b,false\n" * 200)
    terms = ["--epsilon", "5", "--delta", "1e-9", "--seed", "1", "--sites", "2"]
    files = ["--schema", f"{folder}/s.toml", "--data", f"{folder}/d.csv"]
    assert run(["simulate", *files, *terms, "--out", f"{folder}/release"]) == 0
    return folder / "release"


@pytest.mark.thorough
def test_the_same_seed_gives_the_same_rows_everywhere(desk: Desk, release: Path) -> None:
    ask = ["sample", str(release), "--rows", "40", "--seed"]
    assert desk.run(*ask, "3") == 0
    first = desk.out
    assert desk.run(*ask, "3", "--out", "a.csv") == 0
    assert "40 rows in a.csv" in desk.err
    assert desk.run(*ask, "3", "--out", "a.parquet") == 0
    assert (desk.folder / "a.csv").read_text() == first
    table = pyarrow.parquet.read_table("a.parquet")
    assert table.schema.names == ["age", "ward", "sick"]
    assert table.schema.types == [pa.int64(), pa.string(), pa.bool_()]
    assert table.num_rows == 40
    assert pyarrow.csv.read_csv("a.csv").equals(table)
    desk.run(*ask, "4")
    assert desk.out != first
    assert names(desk.folder) == {*ALWAYS, "a.csv", "a.parquet"}


def test_without_a_number_the_noisy_total_is_drawn(desk: Desk, release: Path) -> None:
    assert desk.run("sample", release) == 0
    assert len(desk.out.splitlines()) == 1 + load(release).run.noisy_total


def test_a_few_bytes_do_not_have_millions_of_rows_drawn_unasked(
    desk: Desk, release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    total = load(release).run.noisy_total
    monkeypatch.setattr("heterofedsyn.hub.release.MOST_UNASKED", total - 1)
    assert desk.run("sample", release) == 2
    assert "--rows" in desk.err
    assert not desk.out
    assert desk.run("sample", release, "--rows", str(total)) == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--rows", "0"], 2, ["rows (0)", "1.."]),
        (["--rows", "-1"], 2, ["rows (-1)"]),
        (["--rows", "99999999999999"], 2, ["rows (99999999999999)", "another seed"]),
        (["--rows", "abc"], 2, ["--rows", "'abc'"]),
        (["--seed", "-1"], 2, ["seed (-1)"]),
        (["--out", "a.txt"], 2, ["a.txt", ".csv or .parquet"]),
        (["--out", "noend"], 2, ["noend", ".csv or .parquet"]),
        (["--out", "d.csv"], 2, ["d.csv", "--overwrite"]),
        (["--out", "no/a.csv"], 2, ["no/a.csv", "no folder no"]),
        (["--out", "d.csv/a.csv"], 2, ["d.csv/a.csv"]),
    ],
)
def test_sample_refuses_in_one_line_and_leaves_nothing(
    desk: Desk, release: Path, arguments: list[str], code: int, words: list[str]
) -> None:
    before = (desk.folder / "d.csv").read_bytes()
    desk.run("sample", release, *arguments)
    desk.refused(code, *words)
    assert desk.out == ""
    assert sorted(names(desk.folder)) == ALWAYS
    assert (desk.folder / "d.csv").read_bytes() == before


def test_a_folder_that_is_no_release_is_named(desk: Desk) -> None:
    desk.run("sample", "nowhere")
    desk.refused(1, "nowhere")
    desk.run("sample", ".")
    desk.refused(1, "model")
    desk.run("sample", "d.csv")
    desk.refused(1, "d.csv")


def test_a_file_is_replaced_when_asked(desk: Desk, release: Path) -> None:
    ask = ["sample", str(release), "--rows", "2", "--out", "d.csv", "--overwrite"]
    assert desk.run(*ask) == 0
    assert pyarrow.csv.read_csv("d.csv").num_rows == 2


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_a_full_disk_is_one_line_with_the_remedy(
    desk: Desk, release: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    full = desk.folder / "full"
    full.symlink_to("/dev/full")
    monkeypatch.setattr(sampling, "_csv", lambda _, schema: pyarrow.csv.CSVWriter(full, schema))
    monkeypatch.setattr(
        sampling, "_parquet", lambda _, schema: pyarrow.parquet.ParquetWriter(full, schema)
    )
    desk.run("sample", release, "--rows", "100000", "--out", name)
    place = f"cannot write {name}: No space left on device; make room there, or name another place"
    assert desk.err == f"error: {place}\n"
    assert desk.code == 1


def test_a_failed_write_leaves_the_old_file(
    desk: Desk, release: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, schema: object) -> None:
        path.write_text("half")
        raise OSError(28, "No space left on device")

    before = (desk.folder / "d.csv").read_bytes()
    monkeypatch.setattr(pyarrow.csv, "CSVWriter", full)
    desk.run("sample", release, "--rows", "2", "--out", "d.csv", "--overwrite")
    desk.refused(1, "d.csv", "No space left")
    assert (desk.folder / "d.csv").read_bytes() == before
    assert sorted(names(desk.folder)) == ALWAYS


# SCHEMA DRAFT


def test_a_draft_is_refused_unless_the_data_are_public(desk: Desk) -> None:
    desk.run("schema", "draft", "--data", "d.csv", "--out", "new.toml")
    desk.refused(3, "d.csv", "--public", "published", "somebody's value")
    assert sorted(names(desk.folder)) == ALWAYS


def test_a_draft_of_public_data_loads_and_fits_and_says_what_to_look_at(desk: Desk) -> None:
    ask = ["schema", "draft", "--data", "d.csv", "--public", "--out", "new.toml"]
    assert desk.run(*ask, "--label", "sick") == 0
    assert "draft of 4 columns in new.toml" in desk.err
    assert "somebody's value" in desk.err
    schema = Schema.load("new.toml")
    assert (schema.label, schema.domain.names) == ("sick", ("person", "age", "ward", "sick"))
    assert desk.run("schema", "check", "--schema", "new.toml", "--data", "d.csv") == 0
    desk.run(*ask)
    desk.refused(2, "new.toml", "--overwrite")
    assert desk.run(*ask, "--overwrite") == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--label", "sik"], 2, ["'sik'", "did you mean 'sick'"]),
        (["--data", "none.csv"], 2, ["none.csv", "no rows"]),
        (["--data", "no.csv"], 1, ["no.csv", "no such file"]),
        (["--out", "no/new.toml"], 2, ["no/new.toml", "make it first"]),
    ],
)
def test_a_draft_fails_in_one_line_and_leaves_nothing(
    desk: Desk, arguments: list[str], code: int, words: list[str]
) -> None:
    desk.write("none.csv", HEADER)
    desk.run("schema", "draft", "--public", "--data", "d.csv", "--out", "new.toml", *arguments)
    desk.refused(code, *words)
    assert sorted(names(desk.folder)) == [*ALWAYS[:1], "none.csv", *ALWAYS[1:]]


# DEMO


@pytest.mark.thorough
def test_the_demo_tells_the_whole_story_and_replaces_only_its_own(desk: Desk) -> None:
    small = ["demo", "--patients", "2000", "--seed", "1", "--method", "independent"]
    assert desk.run(*small) == 0
    assert "guarantee: none: the noise is simulated, as if for epsilon 1" in desk.out
    assert load("heterofedsyn-demo").privacy.epsilon == 1
    assert desk.run(*small) == 0
    assert desk.simulate(*PLAIN) == 0
    desk.run(*small, "--out", "release")
    desk.refused(2, "release", "--overwrite")
    assert desk.run(*small, "--out", "release", "--overwrite") == 0


def test_the_demo_refuses_before_it_starts(desk: Desk) -> None:
    for arguments, words in (
        (["--patients", "3"], ["--patients (3)"]),
        (["--method", "privsin"], ["'privsin'"]),
        (["--epsilon", "0"], ["epsilon"]),
        (["--out", "d.csv"], ["d.csv is a file"]),
    ):
        desk.run("demo", *arguments)
        desk.refused(2, *words)
    assert sorted(names(desk.folder)) == ALWAYS


# HELP


def helped(desk: Desk, *command: str) -> str:
    assert desk.run(*command, "--help") == 0
    return " ".join(desk.out.replace("-\n", "-").split())


COMMANDS = [
    (),
    ("demo",),
    ("simulate",),
    ("plan",),
    ("sample",),
    ("evaluate",),
    ("compare",),
    ("report",),
    ("schema",),
    *(("schema", name) for name in ("draft", "new", "import", "export")),
    ("schema", "check"),
    ("schema", "fingerprint"),
    ("ask",),
    ("export",),
    ("console",),
    ("federation",),
    *(("federation", name) for name in ("try", "new", "admit", "remove", "renew", "harden")),
    ("audit",),
    ("bench",),
    ("bench", "audit"),
    ("bench", "coverage"),
    ("bench", "data"),
    ("bench", "paper"),
    ("bench", "peers"),
    ("bench", "rules"),
    ("bench", "scale"),
    ("bench", "speed"),
    ("bench", "timing"),
    ("site",),
    *(("site", name) for name in ("init", "preview", "approve", "withdraw", "serve", "receipt")),
    *(("site", name) for name in ("verify", "evaluate", "ledger", "close", "peer")),
    *(("site", name) for name in ("join", "kit", "flower", "relay", "doctor")),
    ("study",),
    *(("study", name) for name in ("new", "package", "run", "status")),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_and_option_is_explained(desk: Desk, command: tuple[str, ...]) -> None:
    assert desk.run(*command, "--help") == 0
    cut_off = re.sub(r"\[(ARGS|NAME)\]\.\.\.|, \.\.\.|3 \.\.\.", "", desk.out)
    assert "..." not in cut_off
    entries = re.findall(r"^  (-\S[^\n]*?)(?:  +(\S.*))?$(?=\n( {10,}\S)?)", desk.out, re.M)
    assert entries
    for option, text, more in entries:
        assert text or more, f"{option} has no help"
    assert "list[" not in desk.out.replace("NAME <list[str]>", "")  # the parser's own words


def test_the_help_names_all_methods_splits_and_trust_models(desk: Desk) -> None:
    text = helped(desk, "simulate").replace("- ", "-")
    for name in (*METHODS, *Split, *TRUST_MODELS, *Conversion):
        assert str(name) in text
    assert f"[default: {DEFAULT_METHOD}]" in text


def test_every_command_is_known_to_these_tests() -> None:
    group: Any = typer.main.get_command(app)
    found: list[tuple[str, ...]] = [()]
    for name, command in group.commands.items():
        found += [(name,), *((name, inner) for inner in getattr(command, "commands", ()))]
    assert sorted(found) == sorted(COMMANDS)


def test_the_version_is_told(desk: Desk) -> None:
    assert desk.run("--version") == 0
    assert re.fullmatch(r"heterofedsyn \d+\.\d+\.\d+\S*\n", desk.out)
