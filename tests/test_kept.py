"""Replicates that are kept: what is read, what is drawn again, and what is never removed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from heterofedsyn import FederatedSynthesizer, Release, Schema
from heterofedsyn._files import cache_of
from heterofedsyn.cli.app import run
from heterofedsyn.errors import UsageError
from heterofedsyn.hub.methods.base import Model
from heterofedsyn.hub.questions import kept, kept_folder, replicates
from heterofedsyn.hub.questions.kept_estimates import informed, pack_estimates
from heterofedsyn.hub.questions.replicates import Replicate, draw_replicate, world
from heterofedsyn.hub.release import sampling
from heterofedsyn.schema import EncodedTable
from heterofedsyn.simulate.hospitals import hospital_schema, hospitals
from invented import SCHEMA, patients

pytestmark = pytest.mark.thorough

FEW = 2
SQL = "SELECT ward, avg(age), count(*) FROM release GROUP BY ward ORDER BY ward"


def released(method: str = "wavetree") -> Release:
    sites = {"one": patients(400), "two": patients(200, seed=1)}
    schema = Schema.from_toml(SCHEMA)
    made = FederatedSynthesizer(schema, epsilon=2.0, delta=1e-6, noise_seed=1, method=method)
    return made.fit(sites).release


@pytest.fixture(scope="module")
def release() -> Release:
    return released()


@pytest.fixture(scope="module")
def filled(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with replicates, to copy."""
    folder = tmp_path_factory.mktemp("kept")
    release.answer(SQL, replicates=FEW, cache=folder)
    return folder


@pytest.fixture
def cache(filled: Path, tmp_path: Path) -> Path:
    return shutil.copytree(filled, tmp_path / "cache")


@pytest.fixture
def place(cache: Path) -> Path:
    (place,) = (cache / kept.FOLDER).iterdir()
    return place


def asked(release: Release, cache: Path | None) -> list[str]:
    """What is told while a question is answered, which has the answer that it has without files."""
    told: list[str] = []
    answer = release.answer(SQL, replicates=FEW, cache=cache, watch=told.append)
    assert answer == release.answer(SQL, replicates=FEW)
    return told


def relist(place: Path, **changed: Any) -> None:
    """The list with the digests that the files have now."""
    paths = sorted(place.glob("*.arrow"), key=lambda path: int(path.stem))
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
    estimates = hashlib.sha256((place / "estimates.msgpack").read_bytes()).hexdigest()
    listed = {"digests": digests, "estimates": estimates, **changed}
    (place / "list.json").write_text(json.dumps(listed))


def rewrite(place: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    path = place / "1.arrow"
    table = change(pa.ipc.open_file(pa.BufferReader(path.read_bytes())).read_all())
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)
    relist(place)


def no_arrow(place: Path) -> None:
    (place / "1.arrow").write_text("rows")
    relist(place)


def link(path: Path) -> None:
    other = path.rename(path.parent.parent / "elsewhere")
    path.symlink_to(other)


# WHAT IS READ


def test_kept_replicates_are_read_instead_of_drawn(
    release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = asked(release, tmp_path)
    assert told == ["drawing 2 replicates, which are kept for the next question"]

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("drawn again")

    monkeypatch.setattr(kept, "draw_replicate", refuse)
    assert asked(release, tmp_path) == []
    with pytest.raises(AssertionError):
        release.answer(SQL, replicates=FEW + 1, cache=tmp_path)
    assert len([*(tmp_path / kept.FOLDER).iterdir()]) == 1, "nothing half-written stays"


def test_replicates_for_analyses_are_kept_too(
    release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def given(seed: int, **more: Any) -> tuple[list[pa.Table], list[str]]:
        told: list[str] = []
        return release.replicates(FEW, seed, 50, watch=told.append, **more), told

    tables, told = given(3, cache=tmp_path)
    assert tables == given(3)[0]
    assert told == ["drawing 2 replicates, which are kept for the next program"]
    assert given(3, cache=tmp_path) == (tables, [])
    assert given(4, cache=tmp_path)[1]


def test_replicates_behind_answers_are_those_for_analyses(release: Release, cache: Path) -> None:
    told: list[str] = []
    tables = release.replicates(FEW, cache=cache, watch=told.append)
    assert not told
    assert tables == [draw_replicate(release.schema, release.model, n, 0).table for n in range(FEW)]


@pytest.mark.parametrize("total", [10**12, 10**9])
def test_a_release_that_tells_of_too_many_is_refused_before_work(
    release: Release, total: int
) -> None:
    vast = replace(release, run=msgspec.structs.replace(release.run, noisy_total=total))
    with pytest.raises(UsageError, match=f"tells of {total:,} records"):
        vast.replicates(FEW)
    if total > kept.MOST_TOLD_OF:
        with pytest.raises(UsageError, match=f"tells of {total:,} records"):
            vast.answer(SQL, replicates=FEW)


def test_it_is_told_how_many_are_drawn(
    release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "TOLD_EVERY", 1)
    assert asked(release, tmp_path)[1:] == ["  1 of 2", "  2 of 2"]


def test_only_their_owner_reads_or_writes_them(cache: Path, place: Path) -> None:
    for path in (cache / kept.FOLDER, place, *place.iterdir()):
        assert path.stat().st_mode & 0o077 == 0


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a byte changed": lambda place: (place / "1.arrow").write_bytes(
        (place / "1.arrow").read_bytes()[:-1] + b"x"
    ),
    "a file cut": lambda place: os.truncate(place / "2.arrow", 100),
    "a file missing": lambda place: (place / "0.arrow").unlink(),
    "a file linked": lambda place: link(place / "1.arrow"),
    "no list": lambda place: (place / "list.json").unlink(),
    "a deep list": lambda place: (place / "list.json").write_text("[" * 500_000),
    "a deep digest": lambda place: (place / "list.json").write_text('{"digests": ' + "[" * 500_000),
    "no text": lambda place: (place / "list.json").write_bytes(b'{"digests": ["\xff"]}'),
    "weights": lambda place: relist(place, weight=3),
    "numbers for digests": lambda place: relist(place, digests=[1, 2.5, 2**39]),
    "one digest too many": lambda place: relist(place, digests=["0" * 64] * 4),
    "a number for estimates": lambda place: relist(place, estimates=1),
    "other estimates": lambda place: (place / "estimates.msgpack").write_bytes(b"\x90"),
    "no estimates": lambda place: (place / "estimates.msgpack").unlink(),
    "no Arrow": no_arrow,
    "other columns": lambda place: rewrite(
        place, lambda table: table.rename_columns(["a", "b", "c"])
    ),
    "other types": lambda place: rewrite(
        place, lambda table: table.set_column(0, "age", table["age"].cast(pa.string()))
    ),
    "a file of the group": lambda place: (place / "1.arrow").chmod(0o660),
    "a list of all": lambda place: (place / "list.json").chmod(0o666),
    "a folder of the group": lambda place: place.chmod(0o770),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_is_not_as_it_was_written_is_never_read(
    release: Release, cache: Path, place: Path, damage: str
) -> None:
    DAMAGE[damage](place)
    (told,) = asked(release, cache)
    assert told.startswith("drawing 2 replicates")
    assert asked(release, cache) == [], "it is whole again"


@pytest.mark.parametrize("method", ["wavetree", "local-merge", "fedprivsyn"])
def test_estimates_come_back_as_they_were(method: str) -> None:
    model = released(method).model
    known = informed(model, pack_estimates(model.targets))
    for before, after in zip(model.targets, known.targets, strict=True):
        assert after.known is not None
        assert before.measurements is after.measurements
        for own in ("total", "values", "groups", "singles", "pairs"):
            was, now = getattr(before.estimates, own), getattr(after.estimates, own)
            if own != "total":
                assert [*was] == [*now]
                assert all(np.array_equal(was[key], now[key]) for key in was)
            else:
                assert was == now


@pytest.mark.parametrize("size", [0, 1, 100])
def test_estimates_of_another_model_are_made_again(
    release: Release, cache: Path, place: Path, size: int
) -> None:
    path = place / "estimates.msgpack"
    path.write_bytes(path.read_bytes()[:size])
    relist(place)
    assert asked(release, cache) == []


def test_a_later_question_takes_no_library_that_it_does_not_need(tmp_path: Path) -> None:
    """They are most of what such a question would take; of columns of every kind."""
    sites = hospitals(patients=600)
    made = FederatedSynthesizer(hospital_schema(), epsilon=20.0, delta=1e-6, noise_seed=1)
    release = made.fit(sites).release
    release.save(tmp_path / "release")
    pairs = [pair for pair in release.model.pairs if "admitted_at" not in pair]
    of_pairs = [f"count(*) FILTER (WHERE {a} IS NULL AND {b} IS NULL)" for a, b in pairs]
    sql = f"SELECT {', '.join(of_pairs)}, count(admitted_at) FROM release"
    release.answer(sql, replicates=FEW, cache=tmp_path / "cache")
    heavy = {"pandas", "numba", "sklearn", "matplotlib", "scipy", "opendp", "xgboost", "jax"}
    script = f"""
import sys
from heterofedsyn.cli.app import run
code = run(["ask", "release", {sql!r}, "--replicates", "{FEW}", "--cache", "cache", "--json"])
print(sorted({heavy} & {{*sys.modules}}), file=sys.stderr)
sys.exit(code)
"""
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == ["[]"], "and nothing is drawn again"
    assert len(json.loads(done.stdout)["cells"]) == len(pairs) + 1


def test_a_folder_that_is_another_users_is_not_used(
    release: Release, cache: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 1)
    (told,) = asked(release, cache)
    assert "another user" in told
    assert place.is_dir()


@pytest.mark.parametrize("above", [0, 1])
def test_nothing_is_kept_where_others_could_exchange_folders(
    release: Release, cache: Path, place: Path, above: int
) -> None:
    """Be it above what is private: who may rename it can put something else in its place."""
    open_to_all = (cache, cache.parent)[above]
    mode = open_to_all.stat().st_mode
    open_to_all.chmod(0o777)
    (told,) = asked(release, cache)
    assert "everybody may write" in told
    open_to_all.chmod(0o1777)
    assert asked(release, cache) == []
    open_to_all.chmod(mode)
    assert place.is_dir()


@pytest.mark.parametrize("which", ["home", "place"])
def test_folders_are_not_read_through_links(
    release: Release, cache: Path, place: Path, which: str
) -> None:
    link(cache / kept.FOLDER if which == "home" else place)
    (told,) = asked(release, cache)
    assert "link" in told


# WHERE NOTHING CAN BE KEPT


@pytest.mark.parametrize("path", ["/proc/nohome/cache", "/dev/null", "/dev/null/cache"])
def test_a_question_is_answered_where_nothing_can_be_written(release: Release, path: str) -> None:
    asked(release, None)
    (told,) = asked(release, Path(path))
    assert told.startswith(f"replicates cannot be kept in {path}/{kept.FOLDER}: ")


@pytest.mark.parametrize("home", ["/proc/nohome", "nowhere"])
def test_the_command_answers_whatever_home_is(
    release: Release,
    tmp_path: Path,
    home: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = release.save(tmp_path / "release")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", home)
    assert run(["ask", str(folder), SQL, "--replicates", "2"]) == 0
    said = capsys.readouterr()
    assert said.err.splitlines()[-1] == "drawing 2 replicates"
    assert "ward" in said.out
    assert run(["ask", str(folder), "SELECT avg(agee) FROM release"]) == 2
    assert "drawing" not in capsys.readouterr().err


def test_caches_are_below_whole_paths_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert cache_of("ask") == Path("/caches/heterofedsyn/ask")
    monkeypatch.setenv("HOME", "/home/me")
    for other in ("", "caches", "~/caches"):
        monkeypatch.setenv("XDG_CACHE_HOME", other)
        assert cache_of("ask") == Path("/home/me/.cache/heterofedsyn/ask")
    monkeypatch.setenv("HOME", "me")
    assert cache_of("ask") is None


# WHAT IS REMOVED


def test_replicates_on_disk_stay_within_a_limit(
    release: Release, cache: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = sum(path.stat().st_size for path in place.iterdir())
    monkeypatch.setattr(kept_folder, "MOST_KEPT", 3 * size)
    os.utime(place, (1, 1))
    for many in (3, 4):
        release.answer(SQL, replicates=many, cache=cache)
    folders = [*(cache / kept.FOLDER).iterdir()]
    assert place not in folders
    assert sum(path.stat().st_size for own in folders for path in own.iterdir()) <= 3 * size


def test_nothing_of_others_is_removed(
    release: Release, cache: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = cache / kept.FOLDER
    mine = {
        "beside": cache / ("0" * 32),
        "inside": home / ("1" * 32),
        "with the name of a list": home / ("2" * 32),
        "half-written": home / "partial-mine",
    }
    for folder in mine.values():
        folder.mkdir()
        (folder / "thesis.txt").write_text("years of work")
    (mine["with the name of a list"] / "list.json").write_text('{"digests": []}')
    shutil.copytree(place, home / ("3" * 32))
    (home / ("3" * 32) / "thesis.txt").write_text("years of work")
    (home / ("4" * 32)).symlink_to(mine["beside"])
    (home / ("5" * 32)).symlink_to(cache / "nowhere")
    (mine["inside"] / "dangling").symlink_to(cache / "nowhere")
    for folder in mine.values():
        os.utime(folder, (1, 1))
    before = {path for path in cache.rglob("*") if place not in (path, path.parent)}
    monkeypatch.setattr(kept_folder, "MOST_KEPT", 0)
    release.answer(SQL, replicates=FEW + 1, cache=cache)
    assert not place.exists(), "room was made"
    assert before <= {*cache.rglob("*")}


def test_what_stands_in_the_way_stays(release: Release, cache: Path, place: Path) -> None:
    (place / "list.json").unlink()
    (place / "thesis.txt").write_text("years of work")
    (told,) = asked(release, cache)
    assert "other files are in the way" in told
    assert (place / "thesis.txt").exists()


def test_what_killed_programs_left_is_removed_after_a_while(
    release: Release, cache: Path, place: Path
) -> None:
    old, new = (place.parent / f"partial-{name}" for name in ("old", "new"))
    for folder in (old, new):
        folder.mkdir(mode=0o700)
        shutil.copy(place / "0.arrow", folder)
    os.utime(old, (time.time() - 2 * kept_folder.LEFT_BEHIND,) * 2)
    release.answer(SQL, replicates=FEW + 1, cache=cache)
    assert not old.exists()
    assert new.exists()


def test_of_two_programs_that_draw_the_same_one_keeps_it(
    release: Release, cache: Path, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = shutil.move(place, tmp_path / "other")

    def slowly(*arguments: Any, **more: Any) -> Replicate:
        if not place.exists():
            shutil.copytree(other, place)
        return draw_replicate(*arguments, **more)

    monkeypatch.setattr(kept, "draw_replicate", slowly)
    assert len(asked(release, cache)) == 1
    assert [*place.parent.iterdir()] == [place]


# WHAT IS DRAWN


def test_populations_of_a_world_have_the_shares_of_that_world(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    merged = released("local-merge")
    model = merged.model
    sizes = [t.estimates.total for t in world(model, 0, 0).targets]
    ours = [t.total for t in model.targets]
    assert not np.allclose(np.divide(sizes, sum(sizes)), np.divide(ours, sum(ours)), atol=1e-3)
    drawn: list[list[int]] = []

    def counted(model: Model, counts: list[int], *rest: Any) -> EncodedTable:
        drawn.append(counts)
        return sampling.rows_of(model, counts, *rest)

    monkeypatch.setattr(replicates, "rows_of", counted)
    replicate = draw_replicate(merged.schema, model, 0, 0)
    assert np.abs(np.array(drawn[0]) - sizes).max() <= 1
    assert replicate.table.num_rows == sum(drawn[0])


def test_rows_of_a_replicate_stand_for_the_records_of_its_world(release: Release) -> None:
    whole = draw_replicate(release.schema, release.model, 0, 0)
    some = draw_replicate(release.schema, release.model, 0, 0, weight=7)
    assert abs(some.table.num_rows * some.weight - whole.table.num_rows) <= 7
