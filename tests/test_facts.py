"""What a release says of itself when it is printed: ten lines, and nothing of it is obeyed."""

from __future__ import annotations

import dataclasses

import msgspec
import numpy as np
import pytest

from heterofedsyn import Release
from heterofedsyn.hub import make_method
from heterofedsyn.protocol.about import About
from heterofedsyn.schema import CategoricalColumn, Domain, Schema
from heterofedsyn.simulate.run import run_study
from support import dependent_table, make_plan

pytestmark = pytest.mark.thorough

ODD = "<script>\x1b[2K&"


@pytest.fixture(scope="module")
def release() -> Release:
    names = (ODD, "b", "c")
    columns = tuple(CategoricalColumn(name, values=("x", "y", "z")) for name in names)
    schema = Schema(columns, label="b")
    plan = make_plan(schema, ("north", "south"), method="wavetree", epsilon=3.0)
    table = dependent_table(Domain(names, (3, 3, 3)), 2_000)
    halves = [table.take(np.arange(half, 2_000, 2)) for half in (0, 1)]
    return run_study(schema, plan, make_method("wavetree", {}), halves, noise_seed=1)


def test_a_release_is_about_ten_lines(release: Release) -> None:
    lines = str(release).splitlines()
    assert 7 <= len(lines) <= 13
    assert all(len(line) <= 100 for line in lines)
    said = {line.split()[0]: line for line in lines}
    assert f"{release.run.noisy_total:,}" in said["rows"]
    assert "3: " in said["columns"]
    assert "north, south" in said["sites"]
    assert "none: the noise is simulated, as if for epsilon 3" in said["guarantee"]
    measured = sum(pair.measured for pair in release.run.pairs)
    assert f"{measured} of 3 pairs" in said["pairs"]
    assert "SIMULATED" in said["noise"]
    assert "wavetree" in said["release"]
    assert "release.accuracy('b')" in said["next"]
    assert len(repr(release)) < 200


def test_what_a_stranger_wrote_is_shown_and_not_obeyed(release: Release) -> None:
    about = About(title="<b>beds & wards</b>", purpose="p" * 400)
    run = msgspec.structs.replace(release.run, about=about)
    told = dataclasses.replace(release, run=run)
    assert "<b>beds & wards</b>" in str(told)
    assert all(len(line) <= 100 for line in str(told).splitlines())
    page = told._repr_html_()
    assert "&lt;b&gt;beds &amp; wards&lt;/b&gt;" in page
    assert "<script>" not in page
    assert "\x1b" not in page + str(told) + repr(told)
    assert page.count("<tr>") == len(str(told).splitlines())
