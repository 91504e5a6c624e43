from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn import FederatedSynthesizer, Release, Schema, load
from heterofedsyn.errors import HeterofedsynError, ReleaseError, UsageError
from heterofedsyn.hub.release import (
    MODEL_FORMAT,
    MOST_RELEASED,
    check_target,
    model_file,
    sampling,
)
from invented import SCHEMA, names, patients

pytestmark = pytest.mark.sweep

FORMAT_1 = Path(__file__).parent / "data" / "release-format-1"
PARTS = ["model", "privacy.json", "run.json"]


def study(rows: int = 300, **terms: Any) -> Release:
    settings = {"epsilon": 2.0, "delta": 1e-9, "noise_seed": 3, **terms}
    synth = FederatedSynthesizer(Schema.from_toml(SCHEMA), **settings)
    return synth.fit([patients(rows, seed=1), patients(rows, seed=2)]).release


@pytest.fixture(scope="module")
def release() -> Release:
    return study()


@pytest.fixture
def folder(release: Release, tmp_path: Path) -> Path:
    return release.save(tmp_path / "release")


# WHAT IS INSIDE


def test_a_release_comes_back_as_it_was(release: Release, folder: Path) -> None:
    back = load(folder)
    assert back.schema == release.schema
    assert back.privacy == release.privacy
    assert back.run == release.run
    assert back.model.synthesizer == release.model.synthesizer
    for mine, theirs in zip(release.model.targets, back.model.targets, strict=True):
        for one, other in zip(mine.measurements, theirs.measurements, strict=True):
            assert one.statistic == other.statistic
            assert one.noisy.variance == other.noisy.variance
            assert np.array_equal(one.noisy.values, other.noisy.values)
    assert back.sample(50, seed=1).equals(release.sample(50, seed=1))


def test_saving_what_was_loaded_gives_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    again = load(folder).save(tmp_path / "again")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        path.name: path.read_bytes() for path in again.iterdir()
    }


def test_the_model_holds_noisy_marginals_and_nothing_else(release: Release, folder: Path) -> None:
    head, _, body = (folder / "model").read_bytes().partition(b"\n")
    assert head.startswith(b"heterofedsyn model %d " % MODEL_FORMAT)
    stored = msgspec.msgpack.decode(body)
    assert set(stored) == {
        "files",
        "schema",
        "synthesizer",
        "settings",
        "rebuild",
        "rebuild_settings",
        "populations",
    }
    assert stored["schema"] == release.schema.to_toml()
    cells = sum(
        8 * measured.statistic.integers(release.schema.domain)
        for targets in release.model.targets
        for measured in targets.measurements
    )
    assert {*stored["files"]} == {*PARTS[1:], "synthetic.csv", "synthetic.parquet"}
    digests = len(msgspec.msgpack.encode(stored["files"]))
    names = sum(
        len(msgspec.msgpack.encode(marginal["statistic"])) + len("statistic data variance") + 16
        for population in stored["populations"]
        for marginal in population
    )
    # Rows would not fit in: what is not a marginal or a digest is schema and names.
    assert len(body) - digests < cells + names + len(stored["schema"]) + 340
    for population in stored["populations"]:
        for marginal in population:
            assert set(marginal) == {"statistic", "data", "variance"}
            assert marginal["variance"] > 1


def test_no_file_has_a_pickle_in_it(folder: Path) -> None:
    for path in folder.iterdir():
        data = path.read_bytes()
        for proto in range(2, 6):
            assert not data.startswith(bytes([0x80, proto]))
        assert b"numpy" not in data
        assert b"__reduce" not in data


def test_the_files_say_only_what_was_agreed_on(folder: Path) -> None:
    """A new field must be looked at: could it tell something that was not noised?"""

    def keys(value: Any) -> set[str]:
        if isinstance(value, dict):
            return {*value}.union(*(keys(inner) for inner in value.values()))
        return set().union(*(keys(inner) for inner in value)) if isinstance(value, list) else set()

    run = json.loads((folder / "run.json").read_text())
    settings = run.pop("settings")
    assert keys(run) == {
        *("version", "method", "sites", "seed", "study", "schema", "noisy_total", "remarks"),
        "columns",
        *("pairs", "attributes", "score", "measured"),
        *("differences", "site", "total", "total_error", "name", "distance", "noise"),
    }
    assert all(isinstance(value, str | int | float | bool) for value in settings.values())
    assert keys(json.loads((folder / "privacy.json").read_text())) == {
        *("epsilon", "delta", "rho", "conversion", "neighbours", "unit", "rows_per_unit"),
        *("trust", "rho_alone", "simulated_noise", "sites", "site", "charges", "label", "parts"),
        *("kind", "attributes", "sensitivity", "sigma", "integers"),
    }
    assert names(folder) == {*PARTS, "synthetic.csv", "synthetic.parquet"}


def test_what_cannot_be_noised_does_not_depend_on_rows() -> None:
    """Another number of rows, some of which do not fit, changes noisy figures only."""
    bad = patients(90, seed=1).append_column("x", pa.nulls(90)).drop(["x"])
    bad = bad.set_column(2, "ward", pa.array(["?"] * 30 + ["a"] * 60))
    terms: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-9, "noise_seed": 3}
    schema = Schema.from_toml(SCHEMA)
    synth = FederatedSynthesizer(schema, method="allmarg", **terms)
    with pytest.warns(UserWarning, match="30 rows do not fit"):
        few = synth.fit([bad, bad.slice(0)]).release
    many = study(method="allmarg")
    assert few.privacy == many.privacy

    def public(release: Release) -> dict[str, Any]:
        fields: dict[str, Any] = msgspec.to_builtins(release.run)
        assert fields.pop("noisy_total") > 0
        assert len(fields.pop("differences")) == 2  # noisy; tests/test_differences.py
        return fields

    assert public(few) == public(many)


def test_the_noisy_total_is_not_the_total() -> None:
    totals = {study(rows=40, noise_seed=seed).run.noisy_total for seed in range(5)}
    assert len(totals) > 1


def error_of_total(release: Release, sites: list[str]) -> float:
    """The standard error of the noisy number of records at some sites, from the recorded sigmas."""
    variance = 0.0
    for site in release.privacy.sites:
        parts = [part for charge in site.charges for part in charge.parts]
        told = [p for p in parts if (p.kind, len(p.attributes)) in {("total", 0), ("flat", 1)}]
        if site.site in sites:
            variance += 1 / math.fsum(1 / (part.integers * part.sigma**2) for part in told)
    return math.sqrt(variance)


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["independent", "wavetree"])
def test_every_noisy_number_of_records_is_off_by_noise_of_the_recorded_size(method: str) -> None:
    rows, times = 500, 60
    off = []
    for seed in range(times):
        release = study(rows, noise_seed=seed, method=method)
        told = [(site.total - rows, [site.site]) for site in release.run.differences]
        assert len(told) == 2
        told.append((release.run.noisy_total - 2 * rows, [*release.run.sites]))
        off.append([wrong / error_of_total(release, sites) for wrong, sites in told])
    assert np.all(np.abs(np.std(off, axis=0) - 1) < 4 / math.sqrt(2 * times))
    assert np.all(np.abs(np.mean(off, axis=0)) < 4 / math.sqrt(times))


def test_the_column_of_units_is_in_no_file_of_a_release(tmp_path: Path) -> None:
    tables = []
    for seed in (1, 2):
        table = patients(seed=seed)
        people = pa.array([f"PERSON-{number}" for number in table["person"].to_pylist()])
        tables.append(table.set_column(0, "person", people))
    schema = Schema.from_toml(SCHEMA)
    terms: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-9, "noise_seed": 3}
    synth = FederatedSynthesizer(schema, unit="person", max_rows_per_unit=2, **terms)
    folder = synth.fit(tables).save(tmp_path / "release")
    assert load(folder).privacy.unit == "person"
    drawn = pyarrow.parquet.read_table(folder / "synthetic.parquet")
    for made in (drawn, pyarrow.csv.read_csv(folder / "synthetic.csv"), load(folder).sample(10)):
        assert made.column_names == ["age", "ward", "sick"]
    for held in (str(drawn.to_pydict()).encode(), *(p.read_bytes() for p in folder.iterdir())):
        assert b"PERSON-" not in held


# THE SAME BYTES


SCRIPT = """
import sys
from heterofedsyn.cli.app import run
sys.exit(run(["simulate", "--schema", "s.toml", "--data", "d.csv", "--epsilon", "2", "--delta",
    "1e-9", "--seed", "5", "--split", "dirichlet", "--out", sys.argv[1], *sys.argv[2:]]))
"""


def simulate(folder: Path, out: str, *arguments: str, **environment: str) -> None:
    subprocess.run(
        [sys.executable, "-c", SCRIPT, out, *arguments],
        cwd=folder,
        env=os.environ | environment,
        check=True,
        capture_output=True,
    )


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    (tmp_path / "s.toml").write_text(SCHEMA)
    pyarrow.csv.write_csv(patients(), tmp_path / "d.csv")
    return tmp_path


@pytest.mark.thorough
@pytest.mark.parametrize(
    "method", ["adafedprivsyn", pytest.param("local-merge", marks=pytest.mark.slow)]
)
def test_the_same_seed_gives_the_same_bytes_in_every_process(desk: Path, method: str) -> None:
    for out, seed, threads in (("one", "1", "1"), ("two", "2", "4")):
        simulate(desk, out, "--method", method, PYTHONHASHSEED=seed, NUMBA_NUM_THREADS=threads)
    for path in (desk / "one").iterdir():
        assert path.read_bytes() == (desk / "two" / path.name).read_bytes(), path.name


def test_a_release_of_format_1_loads_and_samples_the_same_rows_for_ever() -> None:
    """`make-release-format-1.sh` beside it says how it was made; it is never made again."""
    release = load(FORMAT_1)
    assert release.schema.domain.names == ("age", "ward", "sick")
    assert release.privacy.epsilon == 4.0
    assert release.run.method == "adafedprivsyn"
    assert release.run.pairs
    rows = pa.BufferOutputStream()
    pyarrow.csv.write_csv(release.sample(40, seed=1), rows)
    expected = FORMAT_1.with_name("release-format-1.csv").read_bytes()
    assert rows.getvalue().to_pybytes() == expected


def test_load_needs_no_synthetic_rows(folder: Path) -> None:
    (folder / "synthetic.csv").unlink()
    (folder / "synthetic.parquet").unlink()
    assert load(folder).sample(3).num_rows == 3


# DAMAGE


def refused(folder: Path, name: str) -> str:
    with pytest.raises(ReleaseError) as caught:
        load(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert str(folder / name) in message
    return message


@pytest.mark.parametrize("name", PARTS)
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert "o such file" in refused(folder, name)
    (folder / name).mkdir()
    refused(folder, name)


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("part", [0.0, 0.01, 0.5, 0.99])
def test_a_truncated_file_is_named(folder: Path, name: str, part: float) -> None:
    data = (folder / name).read_bytes()
    (folder / name).write_bytes(data[: int(part * len(data))])
    refused(folder, name)


@pytest.fixture(scope="module")
def kept(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release for a test that puts everything back."""
    return release.save(tmp_path_factory.mktemp("kept") / "release")


@pytest.mark.parametrize("name", PARTS)
@given(data=st.data())
def test_a_flipped_bit_is_noticed(kept: Path, name: str, data: st.DataObject) -> None:
    whole = (kept / name).read_bytes()
    changed = bytearray(whole)
    place = data.draw(st.integers(0, 8 * len(changed) - 1))
    changed[place // 8] ^= 1 << place % 8
    (kept / name).write_bytes(changed)
    try:
        refused(kept, name)
    finally:
        (kept / name).write_bytes(whole)


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize(
    "garbage",
    [
        b"\0",
        b"\xff" * 999,
        b"{}",
        b"[]",
        b"null",
        b"[" * 100_000,
        b"heterofedsyn model 1 \n",
        b"\n",
    ],
)
def test_garbage_is_named(folder: Path, name: str, garbage: bytes) -> None:
    (folder / name).write_bytes(garbage)
    refused(folder, name)


@pytest.mark.parametrize("name", PARTS[1:])
@pytest.mark.parametrize("change", ["NaN", "1e999", '"text"', "null", "-1", "[]"])
def test_a_record_of_wrong_values_is_named(folder: Path, name: str, change: str) -> None:
    text = (folder / name).read_text()
    field = "rho" if name == "privacy.json" else "noisy_total"
    (folder / name).write_text(re.sub(rf'"{field}": [^,]+', f'"{field}": {change}', text, count=1))
    refused(folder, name)


@pytest.mark.parametrize("name", PARTS[1:])
def test_the_record_of_another_release_is_noticed(folder: Path, name: str, tmp_path: Path) -> None:
    other = study(epsilon=50.0).save(tmp_path / "other")
    shutil.copy(other / name, folder / name)
    refused(folder, name)


def repack(folder: Path, change: Callable[[Any], None]) -> None:
    """The model with a change that its digest does not betray."""
    body = (folder / "model").read_bytes().partition(b"\n")[2]
    stored = msgspec.msgpack.decode(body)
    change(stored)
    body = msgspec.msgpack.encode(stored)
    digest = hashlib.sha256(body).hexdigest().encode()
    (folder / "model").write_bytes(b"heterofedsyn model 1 %s\n%s" % (digest, body))


def put(*path: Any) -> Callable[[Any], None]:
    *way, last, value = path

    def change(stored: Any) -> None:
        for step in way:
            stored = stored[step]
        stored[last] = value

    return change


def forge(folder: Path, name: str, change: Callable[[Any], None]) -> None:
    """A record with a change, and a model that vouches for it."""
    record = json.loads((folder / name).read_text())
    change(record)
    data = json.dumps(record).encode()
    (folder / name).write_bytes(data)
    repack(folder, put("files", name, hashlib.sha256(data).hexdigest()))


def drop(*path: Any) -> Callable[[Any], None]:
    *way, last = path

    def change(stored: Any) -> None:
        for step in way:
            stored = stored[step]
        del stored[last]

    return change


PRIVACY, RUN = "privacy.json", "run.json"
PART = ("sites", 0, "charges", 0, "parts", 0)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        (RUN, put("pairs", 0, "attributes", [])),
        (RUN, put("pairs", 0, "attributes", ["age"])),
        (RUN, put("pairs", 0, "attributes", ["age", "sick", "ward"])),
        (RUN, put("pairs", 0, "attributes", ["age", "no such"])),
        (RUN, put("pairs", 0, "attributes", ["sick", "age"])),
        (RUN, put("pairs", 0, "score", 1e300)),
        (RUN, lambda run: run["pairs"].append(run["pairs"][0])),
        (RUN, put("pairs", [])),
        (RUN, drop("differences", 1)),
        (RUN, drop("differences", 1, "attributes", 0)),
        (RUN, put("differences", 0, "attributes", 0, "name", "no such")),
        (RUN, put("differences", 0, "attributes", 0, "distance", -1.0)),
        (RUN, put("differences", 0, "attributes", 0, "noise", 1e300)),
        (RUN, put("differences", 0, "site", "elsewhere")),
        (RUN, put("differences", 0, "total", 0)),
        (RUN, put("differences", 0, "total", 1e40)),
        (RUN, put("differences", 0, "total_error", -1.0)),
        (RUN, put("noisy_total", 0)),
        (RUN, put("noisy_total", -5)),
        (RUN, put("noisy_total", 10**18)),
        (RUN, put("noisy_total", 1e40)),
        (RUN, put("sites", [])),
        (RUN, put("sites", ["site-2", "site-1"])),
        (RUN, put("seed", -1)),
        (RUN, put("method", "a\x1b[31mb")),
        (RUN, put("remarks", ["a\nb"])),
        (RUN, put("remarks", ["a" * 10_001])),
        (RUN, put("remarks", ["a"] * 100_001)),
        (RUN, put("settings", {"a\x00": 1})),
        (RUN, put("settings", {"a": 1e300})),
        (PRIVACY, put("epsilon", -1.0)),
        (PRIVACY, put("epsilon", 0.0)),
        (PRIVACY, put("delta", 0.0)),
        (PRIVACY, put("delta", 1.0)),
        (PRIVACY, put("rho", 0.0)),
        (PRIVACY, put("rho_alone", 0.0)),
        (PRIVACY, put("sites", [])),
        (PRIVACY, put("sites", 0, "site", "site-2")),
        (PRIVACY, put("sites", 0, "site", "a\tb")),
        (PRIVACY, put("sites", 0, "rho", 5.0)),
        (PRIVACY, put("sites", 0, "charges", 0, "label", "one\x07way")),
        (PRIVACY, put("sites", 0, "charges", 0, "label", "a" * 10_001)),
        (PRIVACY, put("sites", 0, "charges", 0, "rho", -0.1)),
        (PRIVACY, put(*PART, "sigma", 0.0)),
        (PRIVACY, put(*PART, "sensitivity", -1.0)),
        (PRIVACY, put(*PART, "integers", -1)),
        (PRIVACY, put(*PART, "rho", -1.0)),
        (PRIVACY, put(*PART, "attributes", ["no such"])),
        (PRIVACY, put(*PART, "kind", "a\x00")),
        (PRIVACY, put("unit", "a" * 10_001)),
    ],
    ids=range(50),
)
def test_a_forged_record_is_named(folder: Path, name: str, change: Callable[[Any], None]) -> None:
    forge(folder, name, change)
    assert len(refused(folder, name)) < 300 + len(str(folder))


@pytest.mark.parametrize(
    "change",
    [
        put("epsilon", 0.5),
        put("trust", "secure-aggregation"),
        put("trust", "nobody"),
        put("conversion", "none"),
        put("rows_per_unit", 0),
        put("sites", 0, "site", "elsewhere"),
        put("rho_alone", 1.0),
    ],
    ids=range(7),
)
def test_records_that_contradict_each_other_are_named(
    folder: Path, change: Callable[[Any], None]
) -> None:
    forge(folder, PRIVACY, change)
    refused(folder, RUN)


def test_a_record_that_is_forged_but_possible_loads(folder: Path) -> None:
    """The tests above refuse the change, not the forging."""
    forge(folder, RUN, put("remarks", ["something else"]))
    forge(folder, RUN, put("differences", 0, "attributes", 0, "distance", 0.5))
    assert load(folder).run.remarks == ("something else",)


@pytest.mark.parametrize("name", PARTS)
def test_only_regular_files_of_a_bearable_size_are_read(folder: Path, name: str) -> None:
    data = (folder / name).read_bytes()
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert "regular file" in refused(folder, name)
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")
    assert "this is a link" in refused(folder, name)
    (folder / name).unlink()
    with (folder / name).open("wb") as file:
        file.truncate(2**31)  # a hole, which takes no room
    assert "more than " in refused(folder, name)
    (folder / name).unlink()
    (folder.parent / "elsewhere").write_bytes(data)
    for target in (folder.parent / "elsewhere", Path("../elsewhere"), Path("nowhere")):
        (folder / name).symlink_to(target)
        assert "this is a link" in refused(folder, name)
        (folder / name).unlink()
    (folder / name).write_bytes(data)
    (folder.parent / "link").symlink_to(folder)
    assert load(folder.parent / "link").sample(3).num_rows == 3


def test_a_unit_column_may_be_called_record(tmp_path: Path) -> None:
    people = study().privacy
    assert (people.unit, people.unit_column) == ("record", None)
    rows = [patients(300, seed=k) for k in (1, 2)]
    rows = [
        each.append_column("record", pa.array(np.arange(300) + 300 * site))
        for site, each in enumerate(rows)
    ]
    terms: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-9, "noise_seed": 3}
    schema = Schema.from_toml(SCHEMA)
    for most in (1, 2):
        synth = FederatedSynthesizer(schema, unit="record", max_rows_per_unit=most, **terms)
        release = synth.fit(rows).release
        assert release.privacy.unit != "record"
        back = load(release.save(tmp_path / str(most)))
        assert back.privacy.unit_column == "record"


NAN = np.array([np.nan] * 5).tobytes()
HUGE = np.array([1e300] * 5).tobytes()


@pytest.mark.parametrize(
    "change",
    [
        put("schema", "label = ="),
        put("schema", '[[columns]]\nname = "x"\ntype = "boolean"\n'),
        put("schema", 3),
        put("synthesizer", "no such"),
        put("settings", {"passes": -1}),
        put("settings", {"no such": 1}),
        put("populations", []),
        put("populations", [[]]),
        put("populations", 0, 0, "data", NAN),
        put("populations", 0, 0, "data", HUGE),
        put("populations", 0, 0, "data", b""),
        put("populations", 0, 0, "data", b"123"),
        put("populations", 0, 0, "variance", 0.0),
        put("populations", 0, 0, "variance", -1.0),
        put("populations", 0, 0, "variance", float("nan")),
        put("populations", 0, 0, "variance", float("inf")),
        put("populations", 0, 0, "statistic", {"type": "flat", "attributes": ["no such"]}),
        put("populations", 0, 0, "statistic", {"type": "flat", "attributes": []}),
        put("populations", 0, 0, "statistic", {"type": "flat", "attributes": ["sick", "age"]}),
        lambda stored: stored["populations"][0].pop(1),
    ],
    ids=range(20),
)
def test_a_model_that_makes_no_sense_is_named(folder: Path, change: Callable[[Any], None]) -> None:
    repack(folder, change)
    refused(folder, "model")


def test_a_model_may_not_forget_its_files(folder: Path) -> None:
    repack(folder, put("files", {}))
    refused(folder, "privacy.json")


def test_a_newer_release_asks_for_an_upgrade(folder: Path) -> None:
    data = (folder / "model").read_bytes()
    newer = b"heterofedsyn model %d " % (MODEL_FORMAT + 1)
    (folder / "model").write_bytes(data.replace(b"heterofedsyn model 1 ", newer))
    message = refused(folder, "model")
    assert f"format {MODEL_FORMAT + 1}, newer than {MODEL_FORMAT}" in message
    assert "upgrade" in message
    (folder / "model").write_bytes(data.replace(b"heterofedsyn model 1 ", b"heterofedsyn model 0 "))
    assert "damaged" in refused(folder, "model")


# SAMPLING


@pytest.mark.parametrize("rows", [0, -1, MOST_RELEASED + 1, 2**70])
def test_an_impossible_number_of_rows_is_refused(release: Release, rows: int) -> None:
    with pytest.raises(UsageError, match=rf"rows \({rows}\) must be in 1"):
        release.sample(rows)


def test_sampling_gives_what_was_asked_for(release: Release) -> None:
    for rows in (1, 2, 999):
        table = release.sample(rows, seed=1)
        assert table.num_rows == rows
        assert table.equals(release.sample(rows, seed=1))
    assert not release.sample(200, seed=1).equals(release.sample(200, seed=2))
    assert not release.sample(200).equals(release.sample(200))
    assert release.sample(2**3, seed=2**90).num_rows == 8


# ALL OR NOTHING


def test_a_failure_in_the_middle_leaves_nothing(
    release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(model_file, "pack", fail)
    with pytest.raises(HeterofedsynError, match=r"cannot write .*: No space left on device"):
        release.save(tmp_path / "new" / "deep" / "release")
    assert names(tmp_path) == set()


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_failure_in_the_middle_leaves_the_former_release(
    release: Release, folder: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def fail(*_: object) -> bytes:
        raise error

    monkeypatch.setattr(model_file, "pack", fail)
    with pytest.raises(error):
        release.save(folder, rows=3, overwrite=True)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert names(folder.parent) == {"release"}


def test_a_failed_exchange_brings_the_former_release_back(
    release: Release, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename, asked = Path.rename, []

    def fail_second(self: Path, target: Path) -> Path:
        asked.append(target)
        if len(asked) == 2:
            raise OSError(5, "Input/output error")
        return rename(self, target)

    before = (folder / "synthetic.csv").read_bytes()
    monkeypatch.setattr(Path, "rename", fail_second)
    with pytest.raises(HeterofedsynError, match="Input/output error"):
        release.save(folder, rows=3, overwrite=True)
    assert (folder / "synthetic.csv").read_bytes() == before
    assert names(folder.parent) == {"release"}


def test_overwriting_replaces_the_whole_folder(release: Release, folder: Path) -> None:
    release.save(folder, rows=3, overwrite=True)
    assert names(folder) == {*PARTS, "synthetic.csv", "synthetic.parquet"}
    assert names(folder.parent) == {"release"}
    assert pyarrow.csv.read_csv(folder / "synthetic.csv").num_rows == 3


def test_a_release_is_not_replaced_unasked(release: Release, folder: Path) -> None:
    with pytest.raises(UsageError, match="holds a release already"):
        release.save(folder)


def test_copies_are_the_same_files_of_rows_drawn_once(
    release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, drawn = sampling.draw, []

    def counted(*asked: Any) -> Generator[Any]:
        drawn.append(asked)
        return draw(*asked)

    monkeypatch.setattr(sampling, "draw", counted)
    first, second, third = (tmp_path / name for name in ("first", "second", "deep/third"))
    assert release.save(first, rows=20, copies=[second, third]) == first
    assert len(drawn) == 1
    written = {path.name: path.read_bytes() for path in first.iterdir()}
    assert {*written} == {*PARTS, "synthetic.csv", "synthetic.parquet"}
    for copy in (second, third):
        assert {path.name: path.read_bytes() for path in copy.iterdir()} == written
    assert names(tmp_path) == {"first", "second", "deep"}


def test_nothing_is_written_if_a_copy_has_no_place(release: Release, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="something else"):
        release.save(tmp_path / "new", overwrite=True, copies=[tmp_path / "full"])
    assert names(tmp_path) == {"full"}


@pytest.mark.parametrize("missing", PARTS)
def test_a_folder_that_only_looks_like_a_release_stays(folder: Path, missing: str) -> None:
    (folder / missing).unlink()
    with pytest.raises(UsageError, match="something else"):
        check_target(folder, overwrite=True)


SLOW = """
import os, sys, time
from pathlib import Path
from heterofedsyn.hub.release import model_file
from heterofedsyn.cli.app import main

def slow(*_):
    Path("writing").touch()
    time.sleep(60)

model_file.pack = slow
sys.argv[1:] = ["simulate", "--schema", "s.toml", "--data", "d.csv", "--epsilon", "2", "--delta",
    "1e-9", "--seed", "5", "--method", "independent", "--out", "out/release"]
main()
"""


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_process_leaves_nothing(desk: Path, number: signal.Signals) -> None:
    (desk / "out").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW], cwd=desk, stderr=subprocess.PIPE, text=True
    )
    with process:
        try:
            deadline = time.monotonic() + 60
            while not (desk / "writing").exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            assert names(desk / "out") != set()
            process.send_signal(number)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 128 + number
    assert "Traceback" not in said
    assert said.splitlines()[-1] == "error: stopped before the end; nothing half-written is left"
    assert names(desk / "out") == set()
