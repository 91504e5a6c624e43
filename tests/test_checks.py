"""The same commit has the same verdict, however and however often its tests are started."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

DRAWING = """
import signal, subprocess, sys
from hypothesis import given, settings, strategies as st

drawn = []

@settings(max_examples=20)
@given(st.integers())
def test_some(number):
    drawn.append(number)

def test_say():
    print("DRAWN", drawn)

def test_child():
    code = "import signal; print(*(signal.getsignal(n).name for n in (1, 3, 15)))"
    code += "; print(signal.getsignal(2) is signal.default_int_handler)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    print("CHILD", found.stdout.split())
"""

IGNORING = """
import os, signal, sys
numbers = [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM]
for number in numbers:
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""As `nohup`, a shell's `&` and a scheduler start what they start, all at once."""


def said(folder: Path, *options: str, before: tuple[str, ...] = ()) -> str:
    """What a run of tests that say what they have drawn says."""
    shutil.copy(Path(__file__).with_name("conftest.py"), folder)
    (folder / "test_drawing.py").write_text(DRAWING)
    command = [*before, sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider", *options]
    done = subprocess.run(
        [*command, "test_drawing.py"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def drawn(text: str) -> str:
    found = re.search(r"DRAWN (.*)", text)
    assert found
    return found[1]


@pytest.mark.slow
def test_examples_are_the_same_in_every_check_and_fresh_ones_can_be_repeated(
    tmp_path: Path,
) -> None:
    assert drawn(said(tmp_path)) == drawn(said(tmp_path))
    first, second = (said(tmp_path, "--hypothesis-profile=fresh") for _ in range(2))
    assert drawn(first) != drawn(second)
    again = re.search(r"to repeat: (.*)", first)
    assert again
    assert drawn(said(tmp_path, *again[1].split())) == drawn(first)
    assert not (tmp_path / ".hypothesis" / "examples").exists()


@pytest.mark.thorough
def test_what_tests_start_hears_signals_however_the_tests_were_started(tmp_path: Path) -> None:
    usual = "CHILD ['SIG_DFL', 'SIG_DFL', 'SIG_DFL', 'True']"
    assert usual in said(tmp_path)
    assert usual in said(tmp_path, before=(sys.executable, "-c", IGNORING))
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN
