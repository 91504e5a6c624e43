"""A release described for others: every column, published things alone, and words stay words."""

from __future__ import annotations

import hashlib
import html.parser
import json
import re
import shutil
import subprocess
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from heterofedsyn import FederatedSynthesizer, Release, Schema, load
from heterofedsyn.errors import PrivacyRefusal, UsageError, plain
from heterofedsyn.exports import EXPORTS, TABLE, export
from heterofedsyn.exports.description import column_facts
from heterofedsyn.exports.quoting import TODO, Todo, code, prose, todos, yaml_lines
from heterofedsyn.protocol.about import About
from heterofedsyn.simulate.hospitals import hospital_schema, hospitals
from invented import Desk, patients

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[1]
ODD = "a|b` <img src=x onerror=alert(1)>\n# \\| {{x}} : & \"'$\u202e"
VALUES = ["- x: [", "</td>|", "`` ` ``", " ", "*b*", "https://example.org", "é"]
SCHEMA: dict[str, Any] = {
    "label": "sick",
    "columns": [
        {"name": "id", "type": "key", "prefix": "P"},
        {"name": ODD, "type": "categorical", "values": VALUES},
        {"name": "@id", "type": "number", "min": 0.0, "max": 1.0, "bins": 4, "nullable": True},
        {
            "name": "day",
            "type": "date",
            "min": date(2024, 1, 1),
            "max": date(2024, 12, 31),
            "bins": 4,
        },
        {"name": "TODO: yes", "type": "integer", "min": -5, "max": 5, "nullable": True},
        {"name": "group", "type": "categorical", "values": ["low|", "high"]},
        {"name": "sick", "type": "boolean"},
    ],
    "rules": [
        {"never": {ODD: "</td>|", "sick": True}},
        {
            "determines": {
                "from": ODD,
                "to": "group",
                "table": {value: "high" if value == "é" else "low|" for value in VALUES},
            }
        },
    ],
}
ABOUT = {"title": "Odd <b>things</b> | `x`", "purpose": "to | try", "contact": "a@example.org"}
FIELDS = {
    "basic": {
        *("name", "data_curators", "intended_use", "data_product_type", "data_product_region"),
        *("description", "publication_date"),
    },
    "dp_variant": {"variant_name", "data_domain", "unprotected_quantities"},
    "privacy_loss": {
        *("privacy_unit", "privacy_unit_details", "privacy_parameters"),
        "privacy_parameters_details",
    },
    "deployment_model": {
        *("model_name", "model_name_details", "actors", "release_type", "release_type_details"),
        *("data_source_type", "access_type"),
    },
    "accounting": {"post_processing", "composition"},
    "implementation": {
        *("preprocessing_and_hyperparameter_tuning", "mechanisms", "justification"),
    },
    "administrative": {"sources", "notes", "registry_authors"},
}
"""Blocks and fields of the registry's schema that an entry fills in, all of tier 2 among them."""


def odd_rows(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    odd = rng.choice(VALUES, rows)
    return pa.table(
        {
            ODD: odd,
            "@id": pa.array(rng.random(rows), mask=rng.random(rows) < 0.2),
            "day": pa.array([f"2024-{month:02}-11" for month in rng.integers(1, 13, rows)]),
            "TODO: yes": pa.array(rng.integers(-5, 6, rows), mask=rng.random(rows) < 0.2),
            "group": np.where(odd == "é", "high", "low|"),
            "sick": (rng.random(rows) < 0.5) & (odd != "</td>|"),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release whose names, values and texts are all meant to break something."""
    synthesizer = FederatedSynthesizer(Schema.of(SCHEMA), epsilon=5, delta=1e-9, about=ABOUT)
    synthesizer.fit({f"s{seed}": odd_rows(400, seed) for seed in range(2)})
    place: Path = synthesizer.save(tmp_path_factory.mktemp("exports") / "odd")
    return place


@pytest.fixture(scope="module")
def release(folder: Path) -> Release:
    return load(folder)


class Rendered(html.parser.HTMLParser):
    """A page: which elements there are, and the text of every cell of its tables."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.rows: list[list[str]] = []
        self.text = ""
        self._cell = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not attrs
        self.elements.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self._cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._cell = False

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._cell:
            self.rows[-1][-1] += data


def render(markdown: str) -> Rendered:
    return Rendered(MarkdownIt("commonmark", {"html": True}).enable("table").render(markdown))


def shown(text: str) -> str:
    """A stranger's words as people see them: letters that are not seen are escaped."""
    return text.replace("\n", "\\n").replace("\u202e", "\\u202e")


def names_in(name: str, text: str) -> list[str]:
    """The columns that an export tells of, in its order."""
    if name == "croissant":
        return [field["extracted"] for field in croissant_fields(json.loads(text))]
    if name == "frictionless":
        return [field["name"] for field in json.loads(text)["resources"][0]["schema"]["fields"]]
    if name == "sdv-metadata":
        return [*json.loads(text)["tables"][TABLE]["columns"]]
    if name == "r":
        return re.findall(r'^    "\w+",?  # (.*)$', text, re.MULTILINE)
    if name == "dictionary":
        return [row[0] for row in render(text).rows[1:]]
    domain = yaml.safe_load(text)["deployment"]["dp_variant"]["data_domain"]
    lines = render(domain).text.split("columns:")[1].strip().split("\n")
    known = [shown(str(column["name"])) for column in SCHEMA["columns"]]
    return [name for line in lines for name in known if line.startswith(f"{name}: ")]


def croissant_fields(description: dict[str, Any]) -> list[dict[str, Any]]:
    (records,) = description["recordSet"]
    return [
        {**field, "extracted": field["source"]["extract"]["column"]} for field in records["field"]
    ]


@pytest.mark.parametrize("name", EXPORTS)
def test_every_column_is_in_every_export_whatever_it_is_called(release: Release, name: str) -> None:
    columns = [column.name for column in release.schema.columns]
    seen = name in ("dictionary", "deployments-registry", "r")
    expected = [shown(column) if seen else column for column in columns]
    assert names_in(name, export(release, name)) == expected


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_needs_model_statement_and_record_alone(
    folder: Path, tmp_path: Path, name: str
) -> None:
    for part in ("model", "privacy.json", "run.json"):
        shutil.copy(folder / part, tmp_path)
    assert export(load(tmp_path), name) == export(load(folder), name)


def test_a_dictionary_is_one_page_of_words_and_one_table(release: Release) -> None:
    page = render(export(release, "dictionary"))
    assert page.elements == {
        *("h1", "h2", "p", "ul", "li", "code"),
        *("table", "thead", "tbody", "tr", "th", "td"),
    }
    assert {len(row) for row in page.rows} == {6}
    assert ABOUT["title"] in page.text
    assert ABOUT["purpose"] in page.text
    odd = page.rows[2]
    for value in VALUES:
        assert value.strip() in odd[2]
    assert "group" in odd[3]
    by_name = {row[0]: row for row in page.rows[1:]}
    assert by_name["group"][4] == f"follows from {shown(ODD)}"
    assert by_name["id"][2:] == ["invented: it tells nothing", "", "none", "not measured"]


def test_a_dictionary_says_the_standard_errors_of_the_release(release: Release) -> None:
    rows = {row[0]: row for row in render(export(release, "dictionary")).rows[1:]}
    for name in ("@id", "day", "sick"):
        error = 100 * float(np.median(release.accuracy(name).fraction))
        assert float(rows[name][5].partition(" %")[0]) == pytest.approx(error, rel=0.06)
    partners = {facts.name: set(facts.partners) for facts in column_facts(release)}
    measured = [{*pair.attributes} for pair in release.run.pairs if pair.measured]
    for name in release.schema.domain.names:
        for other in release.schema.domain.names:
            assert (other in partners[name]) == ({name, other} in measured)


def test_croissant_names_the_files_by_the_digests_they_have(folder: Path, release: Release) -> None:
    description = json.loads(export(release, "croissant"))
    files = {file["contentUrl"]: file["sha256"] for file in description["distribution"]}
    assert {*files} == {"synthetic.csv", "synthetic.parquet", "privacy.json", "run.json"}
    for name, digest in files.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    ids = [field["@id"] for field in croissant_fields(description)]
    assert len({*ids}) == len(ids)
    assert all(re.fullmatch(r"rows/[\w()-]+", place, re.ASCII) for place in ids)
    sources = {field["source"]["fileObject"]["@id"] for field in croissant_fields(description)}
    assert sources == {"synthetic.parquet"}


def test_croissant_says_what_was_promised_and_what_was_not_measured(release: Release) -> None:
    description = json.loads(export(release, "croissant"))
    promise = " ".join(description["rai:personalSensitiveInformation"])
    assert f"epsilon {release.privacy.epsilon:g}, delta {release.privacy.delta:g}" in promise
    limits = " ".join(description["rai:dataLimitations"])
    measured = sum(pair.measured for pair in release.run.pairs)
    assert f"{measured:,} of {len(list(release.schema.domain.pairs())):,} pairs" in limits
    assert description["rai:dataUseCases"] == [ABOUT["purpose"]]


def test_an_entry_of_the_registry_has_its_fields_and_the_figures_of_the_statement(
    release: Release,
) -> None:
    text = export(release, "deployments-registry")
    entry = yaml.safe_load(text)
    assert (entry["status"], entry["tier"]) == ("Draft", 2)
    deployment = entry["deployment"]
    assert {block: {*fields} for block, fields in deployment.items()} == FIELDS
    assert deployment["privacy_loss"]["privacy_parameters"] == {
        "epsilon": release.privacy.epsilon,
        "delta": release.privacy.delta,
        "rho": release.privacy.rho,
    }
    assert deployment["deployment_model"]["model_name"] == "Federated"
    assert deployment["basic"]["name"] == code(ABOUT["title"])
    assert deployment["basic"]["intended_use"] == code(ABOUT["purpose"])
    for line in text.splitlines():
        assert line.isprintable()


def test_what_a_person_must_write_is_marked_and_nothing_else_is(release: Release) -> None:
    text = export(release, "deployments-registry")
    told = text.replace("`TODO: yes`", "")  # a column of that name
    marked = [line for line in told.splitlines() if TODO in line][1:]
    for word in ("data_curators", "publication_date", "data_product_region", "registry_authors"):
        place = told.index(word)
        assert TODO in told[place : place + 120]
    for line in marked:
        assert f"{TODO}: " in line
    lost = EXPORTS["deployments-registry"].lacks(release)
    assert lost == [f"{len(marked)} lines are marked {TODO}: write these by hand"]


def test_a_title_that_says_todo_is_nothing_to_be_written(release: Release) -> None:
    lacks = EXPORTS["deployments-registry"].lacks
    about = About("TODO: a list", "A TODO of ours", "")
    told = replace(release, run=msgspec.structs.replace(release.run, about=about))
    assert lacks(told) == lacks(release)
    entry = yaml.safe_load(export(told, "deployments-registry"))
    assert entry["deployment"]["basic"]["name"] == "`TODO: a list`"


def test_nothing_is_said_of_sites_that_nobody_knows(desk: Desk) -> None:
    """A pool is called one, and a release does not tell a simulation from a federation."""
    desk.simulate("--method", "privsyn", out="pool")
    desk.simulate("--method", "independent", out="dealt")
    for name in ("croissant", "frictionless", "dictionary"):
        pool, dealt = (export(load(desk.folder / place), name) for place in ("pool", "dealt"))
        assert "of one pool" in pool
        assert "sites (or of as many parts of one simulated study" in dealt
        for text in (pool, dealt):
            assert "never left" not in text
            assert "where they lie" not in text
        assert "1 site" not in pool


def test_a_defused_csv_is_described_as_it_is_or_not_at_all(tmp_path: Path) -> None:
    schema = {"columns": [{"name": "dose", "type": "categorical", "values": ["-", "+"]}]}
    synthesizer = FederatedSynthesizer(schema, epsilon=5, delta=1e-9, method="independent")
    synthesizer.fit({"elm": pa.table({"dose": ["-", "+"] * 50})})
    safe = load(synthesizer.save(tmp_path / "safe", safe_csv=True))
    assert safe.run.safe_csv is True
    for name in ("r", "frictionless"):
        with pytest.raises(UsageError, match=r"synthetic\.parquet"):
            export(safe, name)
    for name in ("croissant", "dictionary"):
        assert "an apostrophe stands before" in export(safe, name)
    again = load(safe.save(tmp_path / "again"))
    assert again.run == synthesizer.release.run
    for name in ("r", "frictionless", "croissant", "dictionary"):
        assert "apostrophe" not in export(again, name)
    assert EXPORTS["sdv-metadata"].lacks(safe) != EXPORTS["sdv-metadata"].lacks(again)


def test_a_defused_csv_without_formulas_is_as_the_schema_says(desk: Desk) -> None:
    assert desk.simulate("--method", "independent", "--safe-csv") == 0
    for name in ("r", "frictionless"):
        assert desk.run("export", "release", "--to", name) == 0


def test_a_package_holds_the_schema_as_it_is(release: Release) -> None:
    from heterofedsyn.schema.formats import FORMATS

    package = json.loads(export(release, "frictionless"))
    outline = FORMATS["frictionless"].read(package, None)
    assert outline.schema() == release.schema


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_words_in_markdown_and_yaml_come_back_as_they_are_shown(text: str) -> None:
    page = render(f"| a | b |\n| --- | --- |\n| {code(text)} | x |")
    assert page.rows[1][1:] == ["x"]
    assert page.rows[1][0].split() == plain(text).split()
    assert page.elements <= {"table", "thead", "tbody", "tr", "th", "td", "code"}
    lines = "\n".join(yaml_lines({"a": text, "b": [text], "c": (text, "x", text)}))
    whole = "\n".join([plain(text), "x", plain(text)])
    assert yaml.safe_load(lines) == {"a": plain(text), "b": [plain(text)], "c": whole}
    assert render(prose(text)).text.split() == plain(text).split()


def test_what_is_to_be_written_is_counted_wherever_it_stands() -> None:
    tree = {"a": Todo("x"), "b": [Todo("y", value="1")], "c": ("TODO", Todo("z")), "d": "TODO"}
    assert todos(tree) == 3
    assert sum(TODO in line for line in yaml_lines({**tree, "e": Todo("v", optional=True)})) == 6


def test_exports_are_refused_where_they_would_not_be_true(release: Release) -> None:
    unsaved = Release(release.schema, release.model, release.privacy, release.run)
    with pytest.raises(UsageError, match=r"vouches for no synthetic\.parquet"):
        export(unsaved, "croissant")
    with pytest.raises(UsageError, match="vouches for no"):
        export(unsaved, "frictionless")
    with pytest.raises(UsageError, match="did you mean 'croissant'"):
        export(release, "croisant")


def test_no_guarantee_is_stated_or_registered_for_noise_from_a_seed(desk: Desk) -> None:
    synthesizer = FederatedSynthesizer(
        Schema.load(desk.folder / "s.toml"),
        epsilon=1,
        delta=1e-9,
        method="independent",
        noise_seed=1,
    )
    place = synthesizer.fit([patients()]).save(desk.folder / "release")
    with pytest.raises(PrivacyRefusal):
        export(load(place), "deployments-registry")
    out = desk.folder / "entry.yaml"
    desk.run("export", place, "--to", "deployments-registry", "--out", out)
    desk.refused(3, "no guarantee to register")
    assert not out.exists()
    for name in ("croissant", "frictionless", "dictionary"):
        assert desk.run("export", place, "--to", name) == 0
        assert "NO GUARANTEE" in desk.out


def test_the_command_writes_what_python_gives(folder: Path, release: Release, desk: Desk) -> None:
    for name, form in EXPORTS.items():
        out = desk.folder / f"out{form.ending}"
        assert desk.run("export", folder, "--to", name, "--out", out, "--overwrite") == 0
        assert out.read_text("utf-8") == export(release, name)
        assert desk.run("export", folder, "--to", name) == 0
        assert desk.out == export(release, name)
    desk.run("export", folder, "--to", "croissant", "--out", desk.folder / "out.md")
    desk.refused(2, "must end in .json")
    desk.run("export", folder, "--to", "croissant", "--out", desk.folder / "out.json")
    desk.refused(2, "--overwrite")
    desk.run("export", folder, "--to", "excel")
    desk.refused(2, "there is no export 'excel'")


R_CHECK = """
source("read.R")
for (place in seq_along(release)) {
  cell <- as.character(release[[place]])
  text <- read.csv("synthetic.csv", encoding = "UTF-8", check.names = FALSE,
                   colClasses = "character")[[place]]
  cat(class(release[[place]])[1], sum(is.na(cell)), sum(text == ""), "\\n")
}
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed")
def test_r_reads_every_column_with_its_type_and_loses_no_value(folder: Path, desk: Desk) -> None:
    shutil.copytree(folder, desk.folder / "odd")
    out = desk.folder / "odd" / "read.R"
    assert desk.run("export", folder, "--to", "r", "--out", out) == 0
    done = subprocess.run(
        ["Rscript", "-e", R_CHECK], cwd=out.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    kinds = ["character", "factor", "numeric", "Date", "integer", "factor", "logical"]
    assert [line[0] for line in lines] == kinds
    assert all(lost == empty for _, lost, empty in lines)


def test_a_script_of_r_holds_words_as_texts_and_remarks_alone(release: Release) -> None:
    text = export(release, "r")
    text = re.sub(r'"(?:[^"\\]|\\.)*"|#[^\n]*', "", text)
    assert {*re.findall(r"\w+", text)} <= {
        *("release", "read", "csv", "encoding", "check", "names", "FALSE", "na", "strings"),
        *("character", "colClasses", "c", "as", "Date", "factor", "levels", "format"),
        *map(str, range(10)),
    }


def test_the_readers_that_are_named_are_those_that_are_installed() -> None:
    page = (ROOT / "docs" / "exports.md").read_text("utf-8")
    (said,) = re.findall(r"read by in the tests: (.*)", page)
    locked = dict(
        re.findall(r"^([\w-]+)==(\d+\.\d+)", (ROOT / "locks" / "readers.txt").read_text(), re.M)
    )
    named = dict(re.findall(r"`?(\w+)`? (\d+\.\d+)", said))
    assert {*named} == {"mlcroissant", "SDMetrics", "frictionless"}
    for name, version in named.items():
        assert locked[name.lower()] == version


READERS = """
import json, sys
import frictionless, mlcroissant, pandas
from sdmetrics.reports.single_table import DiagnosticReport

data = mlcroissant.Dataset(jsonld="croissant.json")
assert not data.metadata.ctx.issues.errors, data.metadata.ctx.issues.report()
table = pandas.read_parquet("synthetic.parquet")
rows = list(data.records("rows"))
assert len(rows) == len(table)
metadata = json.load(open("sdv.json"))["tables"]["release"]
report = DiagnosticReport()
report.generate(table, table, metadata, verbose=False)
assert report.get_score() == 1
checked = frictionless.validate("datapackage.json")
assert checked.valid, checked.flatten(["type", "message"])[:5]
print(len(rows), len(rows[0]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("odd", [True, False], ids=["odd", "hospitals"])
def test_the_readers_of_these_formats_read_them(folder: Path, desk: Desk, odd: bool) -> None:
    """mlcroissant, SDMetrics and frictionless, which have an environment of their own."""
    python = ROOT / ".venv-readers" / "bin" / "python"
    subprocess.run(["make", "-s", "readers"], cwd=ROOT, check=True)
    place = desk.folder / "release"
    if odd:
        shutil.copytree(folder, place)
    else:
        synthesizer = FederatedSynthesizer(
            hospital_schema(), epsilon=1, delta=1e-9, method="independent"
        )
        synthesizer.fit(hospitals(patients=1_000)).save(place)
    for name, file in (
        ("croissant", "croissant.json"),
        ("sdv-metadata", "sdv.json"),
        ("frictionless", "datapackage.json"),
    ):
        assert desk.run("export", place, "--to", name, "--out", place / file) == 0
    done = subprocess.run(
        [python, "-c", READERS], cwd=place, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    described = load(place)
    assert done.stdout.split()[-2:] == [
        str(described.usual_rows),
        str(len(described.schema.columns)),
    ]
