"""What a preview tells about each column: the most that is asked, and no less."""

from __future__ import annotations

from pathlib import Path

import pytest

from browser_support import opened
from heterofedsyn import FederatedSynthesizer
from heterofedsyn.hub import make_method
from heterofedsyn.hub.methods.base import settings_of
from heterofedsyn.hub.planning.preview import Preview, column_lines, preview
from heterofedsyn.hub.planning.reach import told_as
from heterofedsyn.protocol import Plan, Study
from heterofedsyn.protocol.about import About
from heterofedsyn.report.study_summary import study_summary
from heterofedsyn.schema import Schema
from heterofedsyn.simulate.hospitals import hospital_schema, hospitals
from heterofedsyn.site.ledger.books import Books
from invented import SCHEMA
from site_support import NOW, make_site, make_study

pytestmark = pytest.mark.thorough

METHODS = ["wavetree", "fedprivsyn", "randmarg", "independent", "local-merge"]


def shown_of(schema: Schema, method: str, **terms: object) -> tuple[Study, Preview]:
    chosen = make_method(method)
    usual: dict[str, object] = {"epsilon": 1.0, "delta": 1e-9, "sites": ("one", "two")}
    plan = Plan(
        schema=schema.fingerprint,
        encoding=chosen.encoding(schema).fingerprint,
        method=method,
        settings=settings_of(chosen),
        seed=5,
        **{**usual, **terms},  # type: ignore[arg-type]
    )
    study = Study(plan=plan, schema=schema.settings, quorum=2)
    return study, preview(study, "one")


@pytest.mark.parametrize("method", METHODS)
def test_no_release_is_more_exact_or_of_other_columns_than_the_preview_tells(method: str) -> None:
    schema = hospital_schema()
    _, shown = shown_of(schema, method)
    told = {column.name: column for column in shown.columns}
    assert list(told) == [column.name for column in schema.columns]
    sites = list(hospitals(patients=400).values())[:2]
    fitted = FederatedSynthesizer(schema, epsilon=1, delta=1e-9, method=method, noise_seed=5).fit(
        dict(zip(("one", "two"), sites, strict=True))
    )
    parts = [
        part
        for charge in fitted.release.privacy.sites[0].charges
        for part in charge.parts
        if part.attributes
    ]
    assert parts
    for part in parts:
        noise = part.sigma / part.sensitivity
        assert noise >= shown.least_noise * (1 - 1e-9)
        for name in part.attributes:
            column = told[name]
            at_most = column.alone if len(part.attributes) == 1 else column.together
            assert at_most is not None
            assert noise >= at_most.records * (1 - 1e-9)
            assert {*part.attributes} - {name} <= {*column.partners}


def test_what_is_fixed_is_told_to_the_digit_and_what_answers_decide_as_the_least() -> None:
    _, shown = shown_of(hospital_schema(), "fedprivsyn")
    sigmas = {part.attributes: part.sigma for part in shown.rounds[0].parts}
    for column in shown.columns:
        assert column.alone is not None
        assert column.together is not None
        assert (column.alone.records, column.alone.least) == (sigmas[(column.name,)], False)
        assert column.together.least
        assert len(column.partners) == len(shown.columns) - 1


def test_more_rows_of_a_person_need_more_noise() -> None:
    schema = hospital_schema()
    few, many = (
        shown_of(schema, "independent", unit="person", rows_per_unit=rows)[1] for rows in (1, 3)
    )
    assert many.least_noise == pytest.approx(3 * few.least_noise)
    for first, second in zip(few.columns, many.columns, strict=True):
        assert first.alone is not None
        assert second.alone is not None
        assert second.alone.records == pytest.approx(3 * first.alone.records, rel=1e-3)
        assert (first.partners, first.together) == ((), None)


def test_identifiers_and_what_follows_from_other_columns_are_not_counted_themselves() -> None:
    text = SCHEMA + (
        '[[columns]]\nname = "id"\ntype = "key"\n\n'
        '[[columns]]\nname = "floor"\ntype = "categorical"\nvalues = ["low", "high"]\n\n'
        '[[rules]]\n[rules.determines]\nfrom = "ward"\nto = "floor"\n'
        'table = {a = "low", b = "low", c = "high"}\n'
    )
    _, shown = shown_of(Schema.from_toml(text), "wavetree")
    told = {column.name: column for column in shown.columns}
    assert told["id"].told_as == "an identifier: never counted"
    assert told["floor"].told_as == "follows from ward: counted as groups of that"
    for name in ("id", "floor"):
        assert (told[name].values, told[name].alone, told[name].partners) == (0, None, ())
    assert told["ward"].partners == ("age", "sick")
    lines = column_lines(shown)
    assert lines[1][0] == "ward: a or b or c"
    assert told_as(Schema.from_toml(text).column("age")) == "5 ranges from 0 to 99"


def summary_of(place: Path, study: Study, shown: Preview) -> str:
    settings = make_site(place)
    account = Books.read(settings.folder, settings.anchor)
    return study_summary(shown, study, settings, account, now=NOW, refusal=None)


def test_a_summary_shows_a_strangers_text_as_text(tmp_path: Path) -> None:
    title = "<script>alert(1)</script>"
    study = make_study(about=About(title=title, purpose="<b>beds</b>", expires="2030-01-02"))
    text = summary_of(tmp_path, study, preview(study, "elmwood"))
    assert "<script" not in text
    assert "<b>" not in text
    assert "&lt;b&gt;beds&lt;/b&gt;" in text
    assert "2030-01-02 (UTC)" in text
    assert "no row was read for it" in text


@pytest.mark.slow
@pytest.mark.parametrize("method", ["wavetree", "fedprivsyn"])
def test_a_summary_of_the_hospitals_is_one_sheet_of_paper(tmp_path: Path, method: str) -> None:
    texts = About("Stays", "Planning of beds", "a@b.example", "Board 17/2029", "2030-01-02")
    study, shown = shown_of(hospital_schema(), method, about=texts)
    page = tmp_path / "summary.html"
    page.write_text(summary_of(tmp_path, study, shown))
    with opened() as browser:
        tab = browser.new_page()
        said: list[str] = []
        tab.on("console", lambda message: said.append(message.text))
        tab.goto(page.as_uri())
        sheets = tab.pdf(format="A4").count(b"/Type /Page\n")
    assert (sheets, said) == (1, [])
