"""What a stranger can send keeps the law of `fuzz.law`: a moment here, hours by `make fuzz`."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz import run as fuzz_run
from fuzz import socket_frame
from fuzz.changes import MOST_BYTES, changed
from fuzz.run import TARGETS, known, load
from heterofedsyn._files import read_whole
from heterofedsyn._toml import NotToml, from_toml
from heterofedsyn.errors import HeterofedsynError, SchemaError, UsageError
from heterofedsyn.protocol import Study
from heterofedsyn.schema import Schema
from heterofedsyn.site.consent import read_consent
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.receipt import SignedReceipt
from heterofedsyn.site.server import Service
from heterofedsyn.site.settings import SETTINGS, SiteSettings

ROOT = Path(__file__).parents[1]
FEWER = {"release_report": 3, "receipt": 50}


@pytest.mark.thorough
@pytest.mark.parametrize("name", TARGETS)
def test_known_and_changed_inputs_keep_the_law(name: str) -> None:
    target = load(name)
    seeds = target.seeds()

    @settings(max_examples=FEWER.get(name, 100), derandomize=True, database=None, deadline=None)
    @given(st.sampled_from(seeds), st.integers(0, 2**32))
    def check(data: bytes, number: int) -> None:
        target.fuzz_one(changed(data, np.random.default_rng(number), target.FORM, seeds))

    @settings(max_examples=20, derandomize=True, database=None, deadline=None)
    @given(st.binary(max_size=2_000))
    def check_any(data: bytes) -> None:
        target.fuzz_one(data)

    for data in known(name):
        if len(data) <= MOST_BYTES:
            target.fuzz_one(data)
    check()
    check_any()


@pytest.mark.slow
def test_every_known_input_keeps_the_law_within_its_memory_and_time() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "fuzz.run", "--examples"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" 0 break the law") == len(TARGETS)


def test_what_was_found_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {folder.name for folder in fuzz_run.FOUND.iterdir()} <= {*TARGETS}
    (tmp_path / "study_file").mkdir()
    (tmp_path / "study_file" / "named-after-what-it-broke").write_bytes(b"\xf0found")
    monkeypatch.setattr(fuzz_run, "FOUND", tmp_path)
    assert b"\xf0found" in known("study_file")
    assert b"\xf0found" not in known("schema_file")


def test_a_target_hears_of_a_broken_thread_and_takes_nobody_elses_news(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail() -> None:
        raise ValueError

    def in_a_thread() -> None:
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()

    heard: list[str] = []
    monkeypatch.setattr(
        threading, "excepthook", lambda found: heard.append(found.exc_type.__name__)
    )
    socket_frame.fuzz_one(b"")
    in_a_thread()
    assert heard == ["ValueError"]
    monkeypatch.setattr(Service, "_one", lambda *_: fail())
    with pytest.raises(AssertionError, match="a thread ended with ValueError"):
        socket_frame.fuzz_one(b"")
    assert heard == ["ValueError"] * 2


@pytest.mark.parametrize(
    "text",
    [
        ".".join(["a"] * 60) + " = 1",
        "[" + " . ".join(['"a.b"'] * 60) + "]",
        "x = { y = '''\n''', " + ".".join(["a"] * 60) + " = 1 }",
        'x = { y = """a"""", ' + ".".join(["a"] * 60) + " = 1 }",
        '"\\""."#".' + ".".join(["'='"] * 60) + " = 1",
        "# don't\n" + ".".join(["a"] * 60) + " = 1",
    ],
)
def test_a_name_of_very_many_parts_is_refused_wherever_it_stands(text: str) -> None:
    with pytest.raises(NotToml, match=r"line \d holds a name of more than 50 parts"):
        from_toml(text)


def test_dots_elsewhere_are_no_names() -> None:
    dots = ".".join(["a"] * 60)
    text = (
        f'x = "{dots}" # {dots}\ny = """{dots}\n{dots}"""\n"{dots}" = 1\nz = \'\'\'\n{dots}\'\'\''
    )
    assert from_toml(text) == {"x": dots, "y": f"{dots}\n{dots}", dots: 1, "z": dots}


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    link = tmp_path / "link"
    link.symlink_to("/dev/zero")
    site = tmp_path / "site"
    site.mkdir()
    for path in (pipe, link, tmp_path, Path("/dev/zero")):
        with pytest.raises(OSError, match=r"no regular file|Is a directory"):
            read_whole(path, 10)
        for load_from in (Schema.load, Study.load, SignedReceipt.load, read_consent):
            with pytest.raises(HeterofedsynError):
                load_from(path)
        for name in (SETTINGS, "ledger"):
            (site / name).unlink(missing_ok=True)
            (site / name).symlink_to(path)
        with pytest.raises(UsageError):
            SiteSettings.load(site)
        with pytest.raises(HeterofedsynError):
            Books.open(site, path)
        with pytest.raises(HeterofedsynError):
            Books.read(site, path)


def test_a_short_schema_cannot_ask_for_all_memory() -> None:
    column = '[[columns]]\nname = "c{}"\ntype = "number"\nmin = 0\nmax = 1\nbins = 65535\n'
    with pytest.raises(SchemaError, match="the first 65 columns have 4,259,775 codes"):
        Schema.from_toml("".join(column.format(i) for i in range(1_000)))
    with pytest.raises(SchemaError, match="1,001 columns is over the limit of 1,000"):
        Schema.from_toml(
            "".join(f'[[columns]]\nname = "c{i}"\ntype = "boolean"\n' for i in range(1_001))
        )


def test_no_error_holds_letters_that_a_terminal_obeys_nor_goes_on_for_ever() -> None:
    assert str(SchemaError("a\x1b[2J\nb\u202ec")) == r"a\x1b[2J\nb\u202ec"
    assert len(str(SchemaError("x" * 10**6))) == 2_004
