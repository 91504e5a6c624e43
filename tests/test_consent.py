"""Consent is to one study as it is, under one schema, up to one amount, until it is withdrawn."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from heterofedsyn.cli.site import app
from heterofedsyn.errors import HeterofedsynError, NotApproved, UsageError
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.protocol import Study
from heterofedsyn.site.consent import (
    CONSENT,
    STUDY,
    WITHDRAWN,
    approve,
    approved,
    check_unit,
    recorded,
    withdraw,
)
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.ledger.entries import Account
from heterofedsyn.site.settings import SiteSettings
from site_support import NOW, SCHEMA, WHO, approved_study, make_site, make_study
from support import categories


def account(settings: SiteSettings) -> Account:
    return Books.read(settings.folder, settings.anchor)


@pytest.fixture
def settings(tmp_path: Path) -> SiteSettings:
    return make_site(tmp_path)


def test_what_was_approved_is_found_with_who_when_and_how_much(settings: SiteSettings) -> None:
    study = make_study()
    given = approve(settings, study, who=WHO, now=NOW)
    assert approved(settings, study.fingerprint, account(settings)) == (study, given)
    assert (given.who, given.when) == (WHO, "2030-01-02T03:04:05Z")
    assert given.cap == study.plan.budget
    assert given.study == study.fingerprint


@pytest.mark.parametrize(
    ("study", "words"),
    [
        (make_study(sites=("oak", "birch")), "this site is called 'elmwood'"),
        (make_study(sites=("elmwood", "oak"), trust="secure-aggregation"), "'local' trust only"),
        (make_study(categories(4, 6, 4)), "another schema"),
        (make_study(epsilon=1.001), "more than the cap per study"),
        (make_study(delta=1e-3), "more than the cap per study"),
    ],
)
def test_what_a_site_never_answers_cannot_be_approved(
    settings: SiteSettings, study: Study, words: str
) -> None:
    with pytest.raises(NotApproved, match=words):
        approve(settings, study, who=WHO, now=NOW)
    assert list(settings.studies.iterdir()) == []


def test_a_site_of_persons_approves_studies_of_these_persons_only(tmp_path: Path) -> None:
    settings = make_site(tmp_path, unit="a0")
    for study in (make_study(), make_study(unit="a1", rows_per_unit=2)):
        with pytest.raises(NotApproved, match="this site's unit is 'a0'"):
            approve(settings, study, who=WHO, now=NOW)
    approve(settings, make_study(unit="a0", rows_per_unit=2), who=WHO, now=NOW)


@pytest.mark.parametrize("who", ["", "two\nlines", "x" * 201])
def test_who_decides_must_be_a_name(settings: SiteSettings, who: str) -> None:
    with pytest.raises(UsageError, match="who decides"):
        approve(settings, make_study(), who=who, now=NOW)


@pytest.mark.parametrize("name", ["", "..", "../..", "x" * 64, "A" * 64, "0" * 63, "0" * 64 + "\n"])
def test_a_query_can_name_no_path(settings: SiteSettings, name: str) -> None:
    with pytest.raises(NotApproved, match="names no study"):
        approved(settings, name, account(settings))


def test_an_unknown_study_is_not_approved(settings: SiteSettings) -> None:
    with pytest.raises(NotApproved, match="was not approved"):
        approved(settings, make_study().fingerprint, account(settings))


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0.9},
        {"seed": 8},
        {"method": "wavetree"},
        {"sites": ("elmwood", "oak")},
        {"settings": {"passes": 3}},
    ],
)
def test_a_study_that_changes_after_approval_is_another_study(
    settings: SiteSettings, change: dict[str, Any]
) -> None:
    study = approved_study(settings)
    changed = msgspec.structs.replace(study, plan=msgspec.structs.replace(study.plan, **change))
    with pytest.raises(NotApproved, match="was not approved"):
        approved(settings, changed.fingerprint, account(settings))
    changed.save(settings.studies / study.fingerprint / STUDY)
    with pytest.raises(NotApproved, match="changed after"):
        approved(settings, study.fingerprint, account(settings))


def test_a_schema_or_cap_that_changes_after_approval_ends_consent(settings: SiteSettings) -> None:
    study = approved_study(settings)
    categories(4, 6, 4).save(settings.schema)
    with pytest.raises(NotApproved, match="another schema"):
        approved(settings, study.fingerprint, account(settings))
    SCHEMA.save(settings.schema)
    approved(settings, study.fingerprint, account(settings))
    path = settings.folder / "site.toml"
    path.write_text(path.read_text().replace("study_epsilon = 1.0", "study_epsilon = 0.5"))
    with pytest.raises(NotApproved, match="more than the cap per study"):
        approved(SiteSettings.load(settings.folder), study.fingerprint, account(settings))


def test_consent_and_its_withdrawal_are_on_disk_under_their_names(
    settings: SiteSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[tuple[Path, list[str]]] = []
    flush = os.fsync

    def noting(file: int) -> None:
        path = Path(f"/proc/self/fd/{file}").readlink()
        flushed.append((path, [inner.name for inner in path.iterdir()] if path.is_dir() else []))
        flush(file)

    monkeypatch.setattr(os, "fsync", noting)
    study = approved_study(settings)
    path, names = flushed[-1]
    assert (path, study.fingerprint in names) == (settings.studies, True)
    withdraw(settings, study.fingerprint, who=WHO, now=NOW)
    path, names = flushed[-1]
    assert (path, WITHDRAWN in names) == (settings.studies / study.fingerprint, True)


def test_consent_can_be_withdrawn_once_and_given_again(settings: SiteSettings) -> None:
    study = approved_study(settings)
    withdraw(settings, study.fingerprint, who=WHO, now=NOW)
    with pytest.raises(NotApproved, match="was withdrawn"):
        approved(settings, study.fingerprint, account(settings))
    assert recorded(settings, study.fingerprint)[0] == study
    with pytest.raises(UsageError, match="withdrawn before"):
        withdraw(settings, study.fingerprint, who=WHO, now=NOW)
    with pytest.raises(UsageError, match="no consent"):
        withdraw(settings, "0" * 64, who=WHO, now=NOW)
    with pytest.raises(UsageError, match="no consent"):
        withdraw(settings, "../" + study.fingerprint, who=WHO, now=NOW)
    approved_study(settings)
    approved(settings, study.fingerprint, account(settings))


def test_consent_ends_with_a_repair_of_the_ledger_until_it_is_given_again(
    settings: SiteSettings,
) -> None:
    study = approved_study(settings)
    path = settings.studies / study.fingerprint / CONSENT
    for _ in range(2):
        before = path.read_bytes()
        Books.repair(settings.folder, settings.anchor, settings.study_cap, restored=True)
        with pytest.raises(NotApproved, match="approve the study again"):
            approved(settings, study.fingerprint, account(settings))
        approved_study(settings)
        approved(settings, study.fingerprint, account(settings))
        path.write_bytes(before)  # an older consent does not come back to life
        with pytest.raises(NotApproved, match="approve the study again"):
            approved(settings, study.fingerprint, account(settings))
        approved_study(settings)


def test_a_steward_repairs_after_a_snapshot_and_is_told_what_consent_means(
    settings: SiteSettings, tmp_path: Path
) -> None:
    study, file = approved_study(settings), tmp_path / "study.toml"
    study.save(file)
    folder = ["--folder", str(settings.folder)]
    consenting = ["approve", str(file), "--yes", *folder]
    first = CliRunner().invoke(app, consenting)
    assert "the agent answers any statistic" in first.stderr
    assert "repaired" not in first.stderr
    done = CliRunner().invoke(app, ["ledger", "repair", "--restored", *folder])
    assert done.exit_code == 0
    assert "no study is approved any longer" in done.stdout
    assert account(settings).spent == settings.study_cap
    with pytest.raises(NotApproved, match="the ledger was repaired"):
        approved(settings, study.fingerprint, account(settings))
    again = CliRunner().invoke(app, consenting)
    assert "the ledger was repaired (entry 1), so entries may be missing" in again.stderr
    approved(settings, study.fingerprint, account(settings))


def test_a_consent_that_does_not_name_a_repair_was_given_before_any(
    settings: SiteSettings,
) -> None:
    study = approved_study(settings)
    path = settings.studies / study.fingerprint / CONSENT
    found = json.loads(path.read_text())
    del found["repaired"]
    path.write_text(json.dumps(found))
    approved(settings, study.fingerprint, account(settings))
    settings.anchor.unlink()
    Books.repair(settings.folder, settings.anchor, settings.study_cap)
    with pytest.raises(NotApproved, match="the ledger was repaired"):
        approved(settings, study.fingerprint, account(settings))


@pytest.mark.parametrize("text", [b"", b"{}", b"\xff", b"[]", b"{" * 10_000])
def test_a_damaged_consent_is_no_consent(settings: SiteSettings, text: bytes) -> None:
    study = approved_study(settings)
    (settings.studies / study.fingerprint / CONSENT).write_bytes(text)
    with pytest.raises(HeterofedsynError, match="approve the study again"):
        approved(settings, study.fingerprint, account(settings))


def test_a_consent_cannot_be_moved_to_another_study(settings: SiteSettings) -> None:
    study, other = approved_study(settings), make_study(epsilon=0.5)
    (settings.studies / study.fingerprint).rename(settings.studies / other.fingerprint)
    with pytest.raises(NotApproved, match="changed after"):
        approved(settings, other.fingerprint, account(settings))


# LEDGERS THAT DO NOT SAY WHAT THEY PROTECT


def old_site(place: Path, *units: str | None) -> tuple[SiteSettings, list[Study]]:
    """A site whose ledger was charged for a study of each unit, when it said no unit itself."""
    settings = make_site(place)
    for path in (settings.folder / "ledger", settings.anchor):
        path.unlink()
    Books.create(settings.folder, settings.anchor)
    studies = [make_study(unit=unit, seed=number) for number, unit in enumerate(units)]
    with Books.open(settings.folder, settings.anchor) as books:
        for study in studies:
            folder = settings.studies / study.fingerprint
            folder.mkdir()
            study.save(folder / STUDY)
            whole = Budget(1.0)
            one = Budget(0.01)
            books.charge(study.fingerprint, study.fingerprint, "q", one, cap=whole, study_cap=whole)
    assert account(settings).unit == ""
    return settings, studies


@pytest.mark.parametrize("repaired", [False, True])
@pytest.mark.parametrize(("own", "other"), [(None, "a0"), ("a0", None), ("a0", "a1")])
def test_an_old_ledger_protects_what_the_studies_protect_that_it_was_charged_for(
    tmp_path: Path, own: str | None, other: str | None, repaired: bool
) -> None:
    settings, _ = old_site(tmp_path, own, own)
    if repaired:  # and no charge is left to say it
        (settings.folder / "ledger").unlink()
        Books.repair(settings.folder, settings.anchor, settings.study_cap)
        assert account(settings).charges == ()
    changed, same = replace(settings, unit=other), replace(settings, unit=own)
    with pytest.raises(NotApproved, match="one for life"):
        check_unit(changed, account(settings))
    with pytest.raises(NotApproved, match="one for life"):
        approve(changed, make_study(unit=other), who=WHO, now=NOW)
    check_unit(same, account(settings))
    study = make_study(unit=own, seed=9)
    approve(same, study, who=WHO, now=NOW)
    approved(same, study.fingerprint, account(settings))


@pytest.mark.parametrize("unit", [None, "a0"])
def test_an_old_ledger_that_was_charged_for_several_units_guarantees_none(
    tmp_path: Path, unit: str | None
) -> None:
    settings, _ = old_site(tmp_path, None, "a0")
    with pytest.raises(NotApproved, match="every 'a0' and every 'record'"):
        check_unit(replace(settings, unit=unit), account(settings))


def test_an_old_ledger_whose_studies_are_gone_or_changed_is_refused(tmp_path: Path) -> None:
    settings, (first, second) = old_site(tmp_path, None, None)
    path = settings.studies / second.fingerprint / STUDY
    first.save(path)
    with pytest.raises(NotApproved, match="does not say what it protects") as caught:
        check_unit(settings, account(settings))
    assert "\n" not in str(caught.value)
    shutil.rmtree(path.parent)
    with pytest.raises(NotApproved, match="does not say what it protects"):
        check_unit(settings, account(settings))
    path.parent.mkdir()
    second.save(path)
    check_unit(settings, account(settings))


def test_serve_refuses_an_old_ledger_of_another_unit(tmp_path: Path) -> None:
    settings, _ = old_site(tmp_path, "a0")
    found = CliRunner().invoke(app, ["serve", "--folder", str(settings.folder)])
    assert isinstance(found.exception, NotApproved)
    assert "one for life" in str(found.exception)


def test_serve_refuses_an_anchor_that_others_can_replace(tmp_path: Path) -> None:
    settings = make_site(tmp_path)
    settings.anchor.parent.chmod(0o1777)
    found = CliRunner().invoke(app, ["serve", "--folder", str(settings.folder)])
    assert isinstance(found.exception, UsageError)
    assert "others can write" in str(found.exception)
    assert any("others can write" in remark for remark in settings.remarks())
