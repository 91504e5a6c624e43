from __future__ import annotations

import dataclasses
import itertools
import math
import os
import re
import shutil
import stat
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from heterofedsyn import FederatedSynthesizer, drawing, load
from heterofedsyn._words import PRIVATE_ROWS
from heterofedsyn.errors import ReleaseError
from heterofedsyn.hub.release.paid_noise import total_error
from heterofedsyn.hub.release.statement import SiteAccount, spent_on
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.report import internal_report, public_report, strangers
from heterofedsyn.report.attributes import compact
from heterofedsyn.report.bars import Display
from heterofedsyn.report.checks import check
from heterofedsyn.report.dependence import strengths
from heterofedsyn.report.page import _DARK
from heterofedsyn.report.pair_noise import expected_noise
from heterofedsyn.report.privacy import bound
from heterofedsyn.schema import Schema
from heterofedsyn.synthesis.tree import steps
from invented import Desk, names
from release_changes import agreed, vouch
from report_support import COLUMNS, HOSTILE, Outline, release_of, table

pytestmark = pytest.mark.thorough

MOST = 1_000_000
FORMS = pytest.mark.parametrize(
    "form", ["public", pytest.param("internal", marks=pytest.mark.thorough)]
)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return release_of(tmp_path_factory.mktemp("report") / "release", table())


@pytest.fixture(scope="module")
def public(release: Path) -> str:
    return public_report(release)


@pytest.fixture(scope="module")
def internal(release: Path) -> str:
    return internal_report(release, [table()], table(500, seed=9))


# WHAT EVERY PAGE KEEPS


def test_the_same_release_gives_the_same_bytes(release: Path, public: str) -> None:
    assert public_report(release) == public


def test_the_public_form_needs_nothing_but_the_files(release: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    for path in release.iterdir():
        (alone / path.name).write_bytes(path.read_bytes())
    assert public_report(alone) == public_report(release)


@FORMS
def test_a_page_runs_nothing_and_loads_nothing(form: str, request: pytest.FixtureRequest) -> None:
    page = request.getfixturevalue(form)
    assert "<script" not in page.lower()
    found = Outline(page)
    (policy,) = (
        attributes["content"]
        for tag, attributes in found.tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for tag, attributes in found.tags:
        assert tag not in ("script", "iframe", "object", "embed", "form", "base")
        assert not any(name.startswith("on") or name == "style" for name in attributes)
        for name in ("src", "href"):
            address = attributes.get(name) or "#"
            assert address.startswith(("#", "data:,")), address
    assert "@import" not in page
    assert len(page.encode()) < MOST


@FORMS
def test_ids_are_unique_and_every_reference_has_one(
    form: str, request: pytest.FixtureRequest
) -> None:
    page = request.getfixturevalue(form)
    found = Outline(page)
    ids = [attributes["id"] for _, attributes in found.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    named = set(re.findall(r"(?:href=\"#|url\(#)([^\")]+)", page))
    for _, attributes in found.tags:
        named |= set((attributes.get("aria-labelledby") or "").split())
    assert named <= set(ids)


@FORMS
def test_headings_go_down_one_level_at_a_time(form: str, request: pytest.FixtureRequest) -> None:
    levels = [
        int(tag[1])
        for tag, _ in Outline(request.getfixturevalue(form)).tags
        if re.fullmatch(r"h[1-6]", tag)
    ]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


def test_every_figure_has_a_name_words_and_numbers(public: str) -> None:
    figures = re.findall(r"<figure.*?</figure>", public, re.DOTALL)
    assert len(figures) >= len(COLUMNS) + 4
    for figure in figures:
        assert '<svg xmlns="http://www.w3.org/2000/svg"' in figure
        assert 'role="img"' in figure
        for part in ("<title", "<desc", "<figcaption>", "<details>", "<table>"):
            assert part in figure, part


def test_every_attribute_site_and_stage_is_named(release: Path, public: str) -> None:
    made = load(release)
    said = "".join(Outline(public).text)
    for name in (*made.schema.domain.names, *made.run.sites):
        assert name in said
    for charge in made.privacy.sites[0].charges:
        assert charge.label in said
    for fact in (made.run.study, made.run.method, made.run.version, "1e-09"):
        assert fact in said


@pytest.mark.thorough
def test_every_colour_of_a_figure_has_a_dark_counterpart(internal: str) -> None:
    drawn = "".join(re.findall(r"<svg.*?</svg>", internal, re.DOTALL))
    used = set(re.findall(r"(?:fill|stroke)=\"(#[0-9a-f]+)\"", drawn))
    assert used <= set(_DARK)


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("colour", [drawing.INK, drawing.SOFT, *drawing.SERIES])
def test_colours_of_figures_stand_out_of_their_paper(colour: str, dark: bool) -> None:
    pair = [_DARK[c] if dark else c for c in (colour, drawing.PAPER)]
    low, high = sorted(_luminance(each) for each in pair)
    assert (high + 0.05) / (low + 0.05) >= 4.5


# PUBLIC AND INTERNAL


def test_no_part_of_the_public_form_is_private(public: str) -> None:
    assert PRIVATE_ROWS not in public
    assert "private" not in {s.get("class") for s in Outline(public).sections}


@pytest.mark.thorough
def test_every_private_section_is_stamped_and_no_other(public: str, internal: str) -> None:
    known = {section["id"] for section in Outline(public).sections}
    found = Outline(internal)
    private = [s for s in found.sections if s["id"] not in known]
    assert {s["id"] for s in private} == {
        "real-attributes",
        "real-pairs",
        "metrics",
        "components",
    }
    for section in found.sections:
        assert (PRIVATE_ROWS in section["text"]) == (section["id"] not in known), section["id"]
    assert known <= {section["id"] for section in found.sections}


def test_the_internal_form_never_says_that_it_may_be_published(internal: str) -> None:
    for sentence in "".join(Outline(internal).text).split("."):
        assert not ("this page" in sentence.lower() and "may be published" in sentence)


@pytest.mark.thorough
def test_the_internal_form_has_the_three_metrics_with_best_and_worst(internal: str) -> None:
    (metrics,) = (s["text"] for s in Outline(internal).sections if s["id"] == "metrics")
    for word in ("query error", "fidelity", "machine learning", "drawn again", "constant guess"):
        assert word in metrics


# HOSTILE AND LARGE


def test_hostile_names_and_values_stay_text(tmp_path: Path) -> None:
    rows = 400
    columns: list[dict[str, Any]] = [
        {"name": HOSTILE, "type": "categorical", "values": [HOSTILE, "</svg><b>", "日本\u200b"]},
        {"name": '"><img src=x>', "type": "boolean"},
    ]
    data = pa.table(
        {
            HOSTILE: [HOSTILE, "</svg><b>"] * (rows // 2),
            '"><img src=x>': [True, False] * (rows // 2),
        }
    )
    folder = release_of(tmp_path / "r", data, columns, label=HOSTILE)
    page = public_report(folder)
    found = Outline(page)
    assert not {"script", "img", "b"} & {tag for tag, _ in found.tags}
    assert HOSTILE in "".join(found.text)


@pytest.mark.slow
@pytest.mark.thorough
def test_sixty_columns_stay_below_a_megabyte(tmp_path: Path) -> None:
    rows, many = 4_000, 62
    rng = np.random.default_rng(0)
    base = rng.normal(size=(rows, 5))
    columns: list[dict[str, Any]] = []
    data = {}
    for i in range(many):
        name = f"a column with quite a long name {i:02}"
        values = base[:, i % 5] + rng.normal(size=rows)
        data[name] = np.clip(values * 10 + 50, 0, 100)
        columns.append({"name": name, "type": "number", "min": 0, "max": 100, "nullable": True})
    folder = release_of(tmp_path / "r", pa.table(data), columns, label=None, epsilon=20.0)
    page = public_report(folder)
    assert len(page.encode()) < MOST
    said = "".join(Outline(page).text)
    assert all(column["name"] in said for column in columns)
    assert f"The first 60 of {many} columns are drawn" in said


# EVERY KIND OF RELEASE


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"method": "independent"}, ["No pair of columns was measured"]),
        ({"method": "privsyn"}, ["one pool", "pooled", "follows no tree"]),
        ({"method": "local-merge"}, ["published no scores"]),
        (
            {
                "method": "fedprivsyn",
                "trust": "secure-aggregation",
                "sites": 3,
                "noise_seed": None,
            },
            ["sums over at least 3 of 3 sites", "1 site may tell", "All 3 sites are in every sum"],
        ),
        ({"method": "adafedprivsyn"}, ["follows no tree"]),
        ({"sites": 1}, ["nothing to compare"]),
        ({"label": None}, ["Rows are drawn from top to bottom"]),
        ({"epsilon": 0.01}, ["measured"]),
    ],
    ids=str,
)
def test_a_release_of_every_kind_can_be_reported(
    terms: dict[str, Any], words: list[str], tmp_path: Path
) -> None:
    page = public_report(release_of(tmp_path / "r", table(800), **terms))
    said = "".join(Outline(page).text)
    for word in words:
        assert word in said
    assert "nan" not in said.lower().split()


def test_nine_alike_sites_share_one_bar(tmp_path: Path) -> None:
    page = public_report(release_of(tmp_path / "r", table(900), sites=9, method="independent"))
    assert "each of 9 sites" in page


def test_one_column_with_one_value_can_be_reported(tmp_path: Path) -> None:
    columns = [{"name": "only", "type": "categorical", "values": ["a"]}]
    data = pa.table({"only": ["a"] * 50})
    folder = release_of(tmp_path / "r", data, columns, label=None, method="independent")
    assert "only" in public_report(folder)


def test_simulated_noise_is_a_warning_and_true_noise_is_not(public: str, tmp_path: Path) -> None:
    assert "Simulated noise" in public
    real = release_of(tmp_path / "r", table(300), method="independent", noise_seed=None)
    assert "Simulated noise" not in public_report(real)


@pytest.mark.parametrize("epsilon", [1e-9, 0.01, 0.5, 1.0, 2.0, 3.0, 5.0, 13.0, 20.0, 100.0])
def test_the_factor_of_the_promise_is_rounded_up_and_little(epsilon: float) -> None:
    said = Fraction(bound(epsilon).replace(",", ""))
    gain = Fraction(math.expm1(epsilon))
    assert gain <= said - 1 <= gain * Fraction(11, 10)


def test_a_unit_column_called_record_is_no_row(tmp_path: Path) -> None:
    terms: dict[str, Any] = {"method": "independent", "noise_seed": None}
    rows = table(300).append_column("record", pa.array(range(300)))
    plain = release_of(tmp_path / "p", rows, **terms)
    assert "data of one record were" in public_report(plain)
    people = release_of(tmp_path / "r", rows, unit="record", **terms)
    assert "data of one person (column record) were" in public_report(people)


# FORGED AND CROWDED RELEASES


def copied(release: Path, target: Path) -> Path:
    target.mkdir()
    for path in release.iterdir():
        (target / path.name).write_bytes(path.read_bytes())
    return target


@pytest.mark.slow
def test_what_else_lies_in_the_folder_is_not_on_the_page(release: Path, tmp_path: Path) -> None:
    folder = copied(release, tmp_path / "r")
    assert strangers(folder) == ()
    plain = public_report(folder)
    (folder / "rows.csv").write_text("of real people")
    (folder / "patients").mkdir()
    (folder / "link").symlink_to("/dev/zero")
    os.mkfifo(folder / "pipe")
    Path(os.fsdecode(os.fsencode(folder) + b"/n\xff")).touch()
    assert public_report(folder) == plain
    assert strangers(folder) == ("link", "n ", "patients", "pipe", "rows.csv")
    (folder / "synthetic.csv").unlink()
    (folder / "synthetic.csv").symlink_to(folder / "rows.csv")
    assert "synthetic.csv" in strangers(folder)
    assert "synthetic.csv" not in public_report(folder)
    (folder / "synthetic.parquet").unlink()
    os.mkfifo(folder / "synthetic.parquet")
    assert "no rows to check" in public_report(folder)


@pytest.mark.slow
def test_a_crowded_release_stays_below_a_megabyte(tmp_path: Path) -> None:
    """As much of everything as loading lets through, with texts that grow when escaped."""
    long = "&" * 3_000
    columns = [
        {"name": f"{i}{long}", "type": "categorical", "values": [f"{k}{long}" for k in range(12)]}
        for i in range(60)
    ]
    rng = np.random.default_rng(0)
    rows = pa.table({c["name"]: np.array(c["values"])[rng.integers(0, 12, 600)] for c in columns})
    sites = {f"{i:02d}" + "x" * 62: rows.slice(10 * i, 10) for i in range(60)}
    schema = {"columns": columns}
    terms: dict[str, Any] = {"epsilon": 5.0, "delta": 1e-9, "noise_seed": 3}
    made = FederatedSynthesizer(schema, method="wavetree", **terms).fit(sites).release
    assert len(made.run.differences) == 60
    statement = made.privacy
    labels = [f"{chr(97 + k % 26)}{long}{chr(97 + k // 26)}" for k in range(500)]
    total = statement.sites[0].charges[0]
    more = [msgspec.structs.replace(total, label=text) for text in labels]
    accounts = tuple(
        SiteAccount(each.site, spent_on(charges).rho, charges)
        for each in statement.sites
        for charges in [(*each.charges, *more)]
    )
    epsilon = Budget(accounts[0].rho * 1.001).epsilon(1e-9)
    whole = Budget.of(epsilon=epsilon, delta=1e-9).rho
    error = total_error(accounts[0])
    crowded = dataclasses.replace(
        made,
        run=msgspec.structs.replace(
            made.run,
            settings={f"{k}{'&' * 100}": long for k in range(20_000)},
            remarks=("&" * 10_000,) * 100,
            differences=tuple(
                msgspec.structs.replace(each, total_error=error) for each in made.run.differences
            ),
        ),
        privacy=msgspec.structs.replace(
            statement, epsilon=epsilon, rho=whole, rho_alone=whole, sites=accounts
        ),
    )
    page = public_report(agreed(crowded).save(tmp_path / "r"))
    assert len(page.encode()) < MOST
    said = "".join(Outline(page).text)
    for words in ("and 19,940 more", "80 more remarks", "others"):
        assert words in said


# FIGURES


@pytest.mark.parametrize("name", [column["name"] for column in COLUMNS])
def test_every_value_has_one_bar_and_every_bar_a_label(release: Path, name: str) -> None:
    made = load(release)
    column = made.schema.column(name)
    display = Display.of(column, np.arange(column.size, dtype=float))
    assert display.groups.size == column.size
    assert set(display.groups.tolist()) == set(range(len(display.labels)))
    assert (display.labels[-1] == "missing") == column.nullable
    if display.edges is not None:
        assert (np.diff(display.edges) > 0).all()
        assert display.edges.size - 1 == len(display.labels) - display.single - display.missing


def test_the_edges_of_bars_are_where_codes_begin() -> None:
    for bins in (7, 20, 33, 101):
        column = {"name": "a", "type": "integer", "min": 3, "max": 103, "bins": bins}
        made = Schema.of({"columns": [column]}).columns[0]
        display = Display.of(made, np.zeros(made.size))
        assert display.edges is not None
        codes, _ = made.encode(pa.array(range(3, 104)))
        bars = display.groups[codes]
        first = [3 + int(np.flatnonzero(bars == bar)[0]) for bar in range(len(display.labels))]
        assert first == display.edges[:-1].tolist()


def test_the_expected_noise_is_that_of_the_noise(release: Path) -> None:
    made = load(release)
    pair = next(p.attributes for p in made.run.pairs if p.measured)
    error = made.accuracy(pair).standard_error
    rng = np.random.default_rng(0)
    drawn = [0.5 * np.abs(rng.normal(0, error)).sum() / made.run.noisy_total for _ in range(2_000)]
    found = expected_noise(made, pair)
    assert found is not None
    assert abs(np.mean(drawn) - found) < 4 * np.std(drawn) / np.sqrt(len(drawn))


def test_the_tree_draws_each_attribute_once_after_its_parent(release: Path) -> None:
    made = load(release)
    estimates = made.model.targets[0].estimates
    found = steps(estimates)
    order = [step.name for step in found]
    assert sorted(order) == sorted(made.schema.domain.names)
    assert order[0] == made.schema.label
    for place, step in enumerate(found):
        if step.parent is not None:
            assert order.index(step.parent) < place
            assert made.schema.domain.clique(step.name, step.parent) in estimates.residuals
    measured = {pair.attributes for pair in made.run.pairs if pair.measured}
    assert set(strengths(made)) == measured


@pytest.mark.quick
def test_a_number_in_few_letters_says_the_same() -> None:
    scale = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
    for value in (0.0, -3.0, 0.125, 999.0, 1_234.0, 56_700.0, -2.5e6, 7e9, 1.5e13):
        text = compact(value).replace(",", "")
        unit = scale.get(text[-1], 1.0)
        assert float(text.rstrip("kMGT")) * unit == pytest.approx(value, rel=1e-3)


# CHECKS OF THE SYNTHETIC TABLE


@pytest.fixture
def columns() -> dict[str, Any]:
    return {column.name: column for column in Schema.of({"columns": COLUMNS}).columns}


@pytest.mark.parametrize(
    ("name", "values", "outside", "unexpected", "right"),
    [
        ("age", pa.array([0, 99]), 0, 0, True),
        ("age", pa.array([-1, 100, 5]), 2, 0, True),
        ("age", pa.array([1, None]), 0, 1, True),
        ("age", pa.array(["1"]), 0, 0, False),
        ("age", pa.array([2**63 + 1], pa.uint64()), 0, 0, False),
        ("weight", pa.array([1.5], pa.float16()), 0, 0, False),
        ("weight", pa.array([1.5, None, 151.0, float("nan")]), 2, 0, True),
        ("ward", pa.array(["ward 1", "attic"]), 1, 0, True),
        ("sick", pa.array([True, None]), 0, 0, True),
        ("seen", pa.array(["2025-03-01", "2024-12-31"]).cast(pa.timestamp("s")), 1, 0, True),
    ],
)
def test_what_breaks_the_schema_is_counted(
    columns: dict[str, Any], name: str, values: pa.Array, outside: int, unexpected: int, right: bool
) -> None:
    found = check(columns[name], pa.chunked_array([values]))
    assert (found.outside, found.unexpected, found.right_type) == (outside, unexpected, right)
    assert found.good == (right and not outside and not unexpected)


def test_a_synthetic_table_that_breaks_the_schema_is_reported(
    release: Path, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in release.iterdir():
        (broken / path.name).write_bytes(path.read_bytes())
    rows = pyarrow.parquet.read_table(broken / "synthetic.parquet")
    assert "keep the schema" in public_report(broken)
    wrong = rows.set_column(0, "age", pa.array(np.full(rows.num_rows, 500)))
    pyarrow.parquet.write_table(wrong, broken / "synthetic.parquet")
    with pytest.raises(ReleaseError, match="not the file that the release was made with"):
        public_report(broken)
    vouch(broken)
    assert "Columns that break the schema: age" in public_report(broken)
    (broken / "synthetic.parquet").unlink()
    assert "no rows to check" in public_report(broken)


# THE COMMAND


@pytest.fixture
def small(desk: Desk) -> Desk:
    assert desk.simulate("--method", "independent") == 0
    return desk


@pytest.mark.thorough
@pytest.mark.quick
def test_simulate_ends_with_the_public_form_which_needs_no_rows(small: Desk) -> None:
    (small.folder / "d.csv").rename(small.folder / "kept.csv")
    page = (small.folder / "release" / "report.html").read_text("utf-8")
    assert page == public_report(small.folder / "release")
    assert stat.S_IMODE((small.folder / "release" / "report.html").stat().st_mode) & 0o044
    (small.folder / "kept.csv").rename(small.folder / "d.csv")
    assert small.simulate("--method", "independent", "--overwrite") == 0


@pytest.mark.thorough
def test_the_demo_ends_with_the_public_form(desk: Desk) -> None:
    options = ["--patients", "2000", "--seed", "1", "--method", "independent"]
    assert desk.run("demo", *options) == 0
    assert "report.html" in desk.out
    page = (desk.folder / "heterofedsyn-demo" / "report.html").read_text("utf-8")
    assert page == public_report(desk.folder / "heterofedsyn-demo")


def test_the_public_form_may_be_written_anywhere(small: Desk) -> None:
    assert small.run("report", "release", "--out", "page.html") == 0
    assert (small.folder / "page.html").read_text("utf-8") == public_report("release")
    assert small.run("report", "release", "--out", "release/report.html", "--overwrite") == 0
    assert "public form" in small.err


def test_another_release_keeps_its_page(small: Desk) -> None:
    shutil.copytree("release", "other")
    kept = (small.folder / "other" / "report.html").read_bytes()
    small.run("report", "release", "--out", "other/report.html", "--overwrite")
    small.refused(2, "another release")
    assert (small.folder / "other" / "report.html").read_bytes() == kept
    (small.folder / "report.html").symlink_to(small.folder / "release" / "synthetic.csv")
    small.run("report", "release", "--out", "report.html", "--overwrite")
    small.refused(2, "called report.html")


def test_what_else_lies_in_the_folder_is_one_line(small: Desk) -> None:
    (small.folder / "release" / "rows.csv").touch()
    Path(os.fsdecode(os.fsencode(small.folder) + b"/release/n\xff")).touch()
    assert small.run("report", "release", "--out", "page.html") == 0
    (line,) = [line for line in small.err.splitlines() if "rows.csv" in line]
    assert "not of the release" in line


def test_test_rows_may_come_in_several_files(small: Desk) -> None:
    shutil.copyfile("d.csv", "e.csv")
    real = ("--real", "d.csv", "--test", "d.csv", "--test", "e.csv")
    assert small.run("report", "release", *real, "--out", "page.html") == 0
    assert "test rows" in (small.folder / "page.html").read_text("utf-8")


def test_the_internal_form_is_for_its_owner(small: Desk) -> None:
    small.write("more.csv", (small.folder / "d.csv").read_text())
    real = ("--real", "d.csv", "--real", "more.csv")
    assert small.run("report", "release", *real, "--out", "page.html") == 0
    page = small.folder / "page.html"
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert PRIVATE_ROWS in page.read_text("utf-8")
    assert "do not publish" in small.err
    assert "report.html" in names(small.folder / "release")
    assert PRIVATE_ROWS not in (small.folder / "release" / "report.html").read_text("utf-8")


def test_an_existing_page_that_others_may_read_becomes_private(small: Desk) -> None:
    page = small.write("page.html", "old")
    page.chmod(0o644)
    command = ["report", "release", "--real", "d.csv", "--out", "page.html"]
    assert small.run(*command) == 2
    assert small.run(*command, "--overwrite") == 0
    assert stat.S_IMODE(page.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["release", "--real", "d.csv", "--out", "release/report.html"], 2, ["published"]),
        (["release", "--real", "d.csv", "--out", "release/in/x.html"], 2, ["published"]),
        (["release", "--out", "release/other.html"], 2, ["called report.html"]),
        (["release", "--test", "d.csv", "--out", "x.html"], 2, ["--test", "--real"]),
        (["release", "--out", "x.txt"], 2, [".html"]),
        (["release", "--out", "release/report.html"], 2, ["exists", "--overwrite"]),
        (["release", "--out", "no/x.html"], 2, ["no folder no"]),
        (["elsewhere", "--out", "x.html"], 1, ["elsewhere"]),
        (["release", "--real", "none.csv", "--out", "x.html"], 1, ["none.csv"]),
    ],
)
def test_what_cannot_be_reported_is_one_line(
    small: Desk, arguments: list[str], code: int, words: list[str]
) -> None:
    (small.folder / "release" / "report.html").touch()
    before = names(small.folder)
    small.run("report", *arguments)
    small.refused(code, *words)
    assert names(small.folder) == before


def test_without_the_extra_one_line_says_so(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "NEEDED", ("matplotlib", "a_library_that_is_not_there"))
    assert desk.simulate("--method", "independent") == 0
    assert "heterofedsyn[report]" in desk.err
    assert "report.html" not in names(desk.folder / "release")
    desk.run("report", "release", "--out", "x.html")
    desk.refused(2, "heterofedsyn[report]")


# DRAWING


def test_a_figure_is_the_same_every_time_and_names_keep_ids_apart() -> None:
    def drawn(name: str) -> str:
        with drawing.figure(200, 100) as figure:
            axes = figure.add_subplot()
            axes.plot([1, 2, 3], [1, 4, 9], marker="o")
            return drawing.svg(figure, name, "A title", "A description")

    assert drawn("one") == drawn("one")
    ids = [set(re.findall(r"id=\"([^\"]+)\"", drawn(name))) for name in ("one", "two")]
    assert not ids[0] & ids[1]
    assert all(element.startswith("one-") for element in ids[0])


def test_text_of_a_figure_is_text() -> None:
    with drawing.figure(200, 100) as figure:
        figure.add_subplot().set_title(drawing.short(f"{HOSTILE}\x00\x1b", 80))
        found = Outline(drawing.svg(figure, "x"))
    assert HOSTILE in "".join(found.text)
    assert "script" not in {tag for tag, _ in found.tags}


def test_bars_that_look_alike_say_so_once_and_are_all_there() -> None:
    with drawing.figure(300, 200) as figure:
        axes = figure.add_subplot()
        axes.bar(range(30), range(1, 31), color=drawing.SERIES[0])
        text = drawing.svg(figure, "x")
    (bars,) = re.findall(r"<g [^>]*fill=\"#0072b2\"[^>]*>(.*?)</g>", text)
    assert bars.count("<path d=") == bars.count('z"') == 30
