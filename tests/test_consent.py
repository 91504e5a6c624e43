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
    WITHDRAWN,
    approve,
    approved,
    close,
    recorded,
    withdraw,
)
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.ledger.entries import Account
from heterofedsyn.site.ledger.locked import lock
from heterofedsyn.site.ledger.private import is_forgotten
from heterofedsyn.site.ledger_unit import check_unit
from heterofedsyn.site.peers import Peers
from heterofedsyn.site.settings import STUDY, SiteSettings
from heterofedsyn.site.signing import Identity
from hidden_support import NAMES, conduct, hidden_study, key_of, make_sites
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
    assert approved(settings, study.fingerprint, account(settings), NOW) == (study, given)
    assert (given.who, given.when) == (WHO, "2030-01-02T03:04:05Z")
    assert given.cap == study.plan.budget
    assert given.study == study.fingerprint


@pytest.mark.parametrize(
    ("study", "words"),
    [
        (make_study(sites=("oak", "birch")), "this site is called 'elmwood'"),
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
        approved(settings, name, account(settings), NOW)


def test_an_unknown_study_is_not_approved(settings: SiteSettings) -> None:
    with pytest.raises(NotApproved, match="was not approved"):
        approved(settings, make_study().fingerprint, account(settings), NOW)


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
        approved(settings, changed.fingerprint, account(settings), NOW)
    changed.save(settings.studies / study.fingerprint / STUDY)
    with pytest.raises(NotApproved, match="changed after"):
        approved(settings, study.fingerprint, account(settings), NOW)


def test_a_schema_or_cap_that_changes_after_approval_ends_consent(settings: SiteSettings) -> None:
    study = approved_study(settings)
    categories(4, 6, 4).save(settings.schema)
    with pytest.raises(NotApproved, match="another schema"):
        approved(settings, study.fingerprint, account(settings), NOW)
    SCHEMA.save(settings.schema)
    approved(settings, study.fingerprint, account(settings), NOW)
    path = settings.folder / "site.toml"
    path.write_text(path.read_text().replace("study_epsilon = 1.0", "study_epsilon = 0.5"))
    with pytest.raises(NotApproved, match="more than the cap per study"):
        approved(SiteSettings.load(settings.folder), study.fingerprint, account(settings), NOW)


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
        approved(settings, study.fingerprint, account(settings), NOW)
    assert recorded(settings, study.fingerprint)[0] == study
    with pytest.raises(UsageError, match="withdrawn before"):
        withdraw(settings, study.fingerprint, who=WHO, now=NOW)
    with pytest.raises(UsageError, match="no consent"):
        withdraw(settings, "0" * 64, who=WHO, now=NOW)
    with pytest.raises(UsageError, match="no consent"):
        withdraw(settings, "../" + study.fingerprint, who=WHO, now=NOW)
    approved_study(settings)
    approved(settings, study.fingerprint, account(settings), NOW)


def test_consent_ends_with_a_repair_of_the_ledger_until_it_is_given_again(
    settings: SiteSettings,
) -> None:
    study = approved_study(settings)
    path = settings.studies / study.fingerprint / CONSENT
    for _ in range(2):
        before = path.read_bytes()
        Books.repair(settings.folder, settings.anchor, settings.study_cap, restored=True)
        with pytest.raises(NotApproved, match="approve the study again"):
            approved(settings, study.fingerprint, account(settings), NOW)
        approved_study(settings)
        approved(settings, study.fingerprint, account(settings), NOW)
        path.write_bytes(before)  # an older consent does not come back to life
        with pytest.raises(NotApproved, match="approve the study again"):
            approved(settings, study.fingerprint, account(settings), NOW)
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
        approved(settings, study.fingerprint, account(settings), NOW)
    again = CliRunner().invoke(app, consenting)
    assert "the ledger was repaired (entry 1), so entries may be missing" in again.stderr
    approved(settings, study.fingerprint, account(settings), NOW)


def test_a_consent_that_does_not_name_a_repair_was_given_before_any(
    settings: SiteSettings,
) -> None:
    study = approved_study(settings)
    path = settings.studies / study.fingerprint / CONSENT
    found = json.loads(path.read_text())
    del found["repaired"]
    path.write_text(json.dumps(found))
    approved(settings, study.fingerprint, account(settings), NOW)
    settings.anchor.unlink()
    Books.repair(settings.folder, settings.anchor, settings.study_cap)
    with pytest.raises(NotApproved, match="the ledger was repaired"):
        approved(settings, study.fingerprint, account(settings), NOW)


@pytest.mark.parametrize("text", [b"", b"{}", b"\xff", b"[]", b"{" * 10_000])
def test_a_damaged_consent_is_no_consent(settings: SiteSettings, text: bytes) -> None:
    study = approved_study(settings)
    (settings.studies / study.fingerprint / CONSENT).write_bytes(text)
    with pytest.raises(HeterofedsynError, match="approve the study again"):
        approved(settings, study.fingerprint, account(settings), NOW)


def test_a_consent_cannot_be_moved_to_another_study(settings: SiteSettings) -> None:
    study, other = approved_study(settings), make_study(epsilon=0.5)
    (settings.studies / study.fingerprint).rename(settings.studies / other.fingerprint)
    with pytest.raises(NotApproved, match="changed after"):
        approved(settings, other.fingerprint, account(settings), NOW)


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
    approved(same, study.fingerprint, account(settings), NOW)


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


# STUDIES THAT HIDE ANSWERS IN SUMS

Sites = dict[str, SiteSettings]


@pytest.fixture
def sites(tmp_path: Path) -> Sites:
    return make_sites(tmp_path)


def set_terms(settings: SiteSettings, **terms: Any) -> SiteSettings:
    """The site after its steward wrote other settings."""
    changed = replace(settings, **terms)
    (settings.folder / "site.toml").write_text(changed.to_toml())
    return changed


def test_a_study_whose_keys_are_all_confirmed_is_approved(sites: Sites) -> None:
    study = hidden_study(sites)
    for settings in sites.values():
        given = approve(settings, study, who=WHO, now=NOW)
        assert approved(settings, study.fingerprint, account(settings), NOW) == (study, given)


def forget_pair(sites: Sites) -> None:
    Peers.load(sites["elmwood"].folder).remove("oak").save(sites["elmwood"].folder)


def swap_pairs(sites: Sites) -> None:
    book = Peers().add("oak", key_of(sites["birch"])).add("birch", key_of(sites["oak"]))
    book.save(sites["elmwood"].folder)


def other_key(sites: Sites) -> None:
    book = Peers.load(sites["elmwood"].folder).remove("oak")
    book.add("oak", Identity.fresh().public).save(sites["elmwood"].folder)


def no_cap(sites: Sites) -> None:
    sites["elmwood"] = set_terms(sites["elmwood"], alone_epsilon=None)


def low_cap(sites: Sites) -> None:
    sites["elmwood"] = set_terms(sites["elmwood"], epsilon=1.2, alone_epsilon=1.3)


def new_key(sites: Sites) -> None:
    settings = sites["elmwood"]
    Books.repair(settings.folder, settings.anchor, settings.study_cap, restored=True)


def locked(sites: Sites) -> None:
    lock(sites["elmwood"].folder, "a reason")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (forget_pair, "keys of oak were not confirmed"),
        (swap_pairs, "ANOTHER key for birch, oak than the one confirmed here"),
        (other_key, "ANOTHER key for oak than the one confirmed here: somebody may have replaced"),
        (no_cap, "set alone_epsilon in site.toml"),
        (low_cap, "more than the cap on that"),
        (new_key, "another key for 'elmwood'"),
    ],
)
def test_a_study_that_a_site_cannot_hide_in_is_neither_approved_nor_answered(
    sites: Sites, change: Any, words: str
) -> None:
    study, before = hidden_study(sites), hidden_study(sites, seed=8)
    approve(sites["elmwood"], before, who=WHO, now=NOW)
    change(sites)
    settings = sites["elmwood"]
    with pytest.raises(NotApproved, match=words):
        approve(settings, study, who=WHO, now=NOW)
    assert not (settings.studies / study.fingerprint).exists()
    with pytest.raises(NotApproved):
        approved(settings, before.fingerprint, account(settings), NOW)


def test_a_study_without_keys_or_with_another_own_key_is_not_approved(sites: Sites) -> None:
    study, settings = hidden_study(sites), sites["elmwood"]
    plan = study.plan
    assert plan.aggregation is not msgspec.UNSET
    others = {
        "names no keys": {},
        "another key for 'elmwood'": {**plan.roster, "elmwood": Identity.fresh().public},
    }
    for words, keys in others.items():
        hidden = msgspec.structs.replace(plan.aggregation, keys=keys)
        other = msgspec.structs.replace(plan, aggregation=hidden)
        with pytest.raises(NotApproved, match=words):
            approve(settings, msgspec.structs.replace(study, plan=other), who=WHO, now=NOW)


def test_a_locked_site_approves_nothing(sites: Sites) -> None:
    locked(sites)
    for study in (make_study(), hidden_study(sites)):
        with pytest.raises(HeterofedsynError, match="locked itself"):
            approve(sites["elmwood"], study, who=WHO, now=NOW)


@pytest.mark.parametrize("quorum", [3, 4])
def test_the_price_seen_alone_is_that_of_the_honest_sites(tmp_path: Path, quorum: int) -> None:
    sites = make_sites(tmp_path, *NAMES)
    study = hidden_study(sites, quorum=quorum, epsilon=0.5)
    alone = study.plan.budget.times(quorum - 1)
    just = alone.epsilon(1e-9)
    for epsilon, fits in ((just * 1.0001, True), (just * 0.9999, False)):
        settings = set_terms(
            sites["elmwood"], epsilon=0.5, study_epsilon=0.5, alone_epsilon=epsilon
        )
        if fits:
            approve(settings, study, who=WHO, now=NOW)
        else:
            with pytest.raises(NotApproved, match="more than the cap on that"):
                approved(settings, study.fingerprint, account(settings), NOW)


def nothing(settings: SiteSettings, study: Study) -> None:
    pass


def take_back(settings: SiteSettings, study: Study) -> None:
    withdraw(settings, study.fingerprint, who=WHO, now=NOW)


def end(settings: SiteSettings, study: Study) -> None:
    close(settings, study.fingerprint, who=WHO, now=NOW)


def lose_consent(settings: SiteSettings, study: Study) -> None:
    shutil.rmtree(settings.studies / study.fingerprint)


def lose_key(settings: SiteSettings, study: Study) -> None:
    lose_consent(settings, study)
    shutil.rmtree(settings.folder / "aggregation")


def repair_and_restore_key(settings: SiteSettings, study: Study) -> None:
    old = settings.key.read_bytes()
    Books.repair(settings.folder, settings.anchor, settings.study_cap, restored=True)
    lose_consent(settings, study)
    settings.key.write_bytes(old)


@pytest.mark.parametrize(
    ("happens", "words"),
    [
        (nothing, "approved here before"),
        (take_back, "approved here before"),
        (end, "was closed here"),
        (lose_consent, "has a key of this site"),
        (lose_key, "has a key of this site"),
        (repair_and_restore_key, "a retired key came back"),
    ],
)
def test_consent_to_a_study_that_hides_answers_is_given_once(
    sites: Sites, happens: Any, words: str
) -> None:
    study, settings = hidden_study(sites), sites["elmwood"]
    for each in sites.values():
        approve(each, study, who=WHO, now=NOW)
    assert conduct(study, sites) == []
    assert account(settings).joined.keys() == {study.fingerprint}
    happens(settings, study)
    with pytest.raises(NotApproved, match=words):
        approve(settings, study, who=WHO, now=NOW)
    if happens is not nothing:
        with pytest.raises(NotApproved):
            approved(settings, study.fingerprint, account(settings), NOW)


@pytest.mark.parametrize("happens", [take_back, end])
@pytest.mark.parametrize("asked", [False, True])
def test_the_private_key_of_a_study_is_gone_at_once_while_an_agent_serves(
    sites: Sites, happens: Any, asked: bool
) -> None:
    study, settings = hidden_study(sites), sites["elmwood"]
    for each in sites.values():
        approve(each, study, who=WHO, now=NOW)
    if asked:
        conduct(study, sites)
    folder = settings.folder / "aggregation" / study.fingerprint
    assert (folder / "key").exists() == asked
    with Books.open(settings.folder, settings.anchor) as books:
        happens(settings, study)
        assert is_forgotten(settings.folder, study.fingerprint)
        assert [path.name for path in folder.iterdir()] == ["forgotten"]
        assert books.secret(study.fingerprint, "key") is None
        with pytest.raises(HeterofedsynError, match="closed"):
            books.keep_secret(study.fingerprint, "key", b"private")
        with pytest.raises(NotApproved, match=r"withdrawn|closed"):
            approved(settings, study.fingerprint, books.account, NOW)


def test_who_was_interrupted_while_ending_a_study_ends_it_again(
    sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, settings = hidden_study(sites), sites["elmwood"]
    approve(settings, study, who=WHO, now=NOW)

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("heterofedsyn.site.consent._mark", fail)
        with pytest.raises(KeyboardInterrupt):
            take_back(settings, study)
    with pytest.raises(NotApproved, match="was closed"):
        approved(settings, study.fingerprint, account(settings), NOW)
    with pytest.raises(NotApproved, match="approved here before"):
        approve(settings, study, who=WHO, now=NOW)
    take_back(settings, study)
    with pytest.raises(NotApproved, match="was withdrawn"):
        approved(settings, study.fingerprint, account(settings), NOW)


def test_a_closed_study_is_closed_for_good_under_any_trust(settings: SiteSettings) -> None:
    study = approved_study(settings)
    end(settings, study)
    with pytest.raises(NotApproved, match="was closed"):
        approved(settings, study.fingerprint, account(settings), NOW)
    with pytest.raises(NotApproved, match="for good"):
        approved_study(settings)
    assert recorded(settings, study.fingerprint)[0] == study
    for ending in (end, take_back):
        with pytest.raises(UsageError, match="closed before"):
            ending(settings, study)
    with pytest.raises(UsageError, match="no consent"):
        close(settings, "0" * 64, who=WHO, now=NOW)
    assert not (settings.folder / "aggregation").exists()


def test_a_study_may_be_withdrawn_and_then_closed(settings: SiteSettings) -> None:
    study = approved_study(settings)
    take_back(settings, study)
    end(settings, study)
    with pytest.raises(NotApproved, match="for good"):
        approved_study(settings)


def test_a_repaired_site_takes_part_again_with_its_new_key(sites: Sites) -> None:
    old = hidden_study(sites)
    for settings in sites.values():
        approve(settings, old, who=WHO, now=NOW)
    settings = sites["elmwood"]
    Books.repair(settings.folder, settings.anchor, settings.study_cap, restored=True)
    with pytest.raises(NotApproved, match="it cannot go on here"):
        approved(settings, old.fingerprint, account(settings), NOW)
    new = hidden_study(sites, seed=8)
    with pytest.raises(NotApproved, match="ANOTHER key for elmwood"):
        approve(sites["oak"], new, who=WHO, now=NOW)
    for name in ("oak", "birch"):
        book = Peers.load(sites[name].folder).remove("elmwood")
        book.add("elmwood", key_of(settings)).save(sites[name].folder)
    for each in sites.values():
        approve(each, new, who=WHO, now=NOW)
    assert conduct(new, sites) == []


def test_settings_without_a_cap_for_answers_seen_alone_still_load(settings: SiteSettings) -> None:
    assert "alone_epsilon" not in (settings.folder / "site.toml").read_text()
    assert SiteSettings.load(settings.folder).alone_cap is None
    with pytest.raises(UsageError, match="at least epsilon"):
        replace(settings, alone_epsilon=2.9)
    wider = set_terms(settings, alone_epsilon=5.0)
    assert SiteSettings.load(settings.folder) == wider
    assert wider.alone_cap == Budget.of(epsilon=5.0, delta=1e-9)


def test_of_two_caps_for_answers_seen_alone_the_stricter_holds(settings: SiteSettings) -> None:
    none, low, high = (
        replace(settings, alone_epsilon=epsilon).limits for epsilon in (None, 4.0, 5.0)
    )
    assert low.strictest(high) == high.strictest(low) == low
    assert none.strictest(high) == high.strictest(none) == high
    assert none.strictest(none).alone_cap is None


@pytest.mark.parametrize("repairs", [1, 2])
def test_a_key_that_was_away_when_the_ledger_was_repaired_is_not_believed_when_it_comes_back(
    tmp_path: Path, repairs: int
) -> None:
    sites = make_sites(tmp_path, "elmwood", "birch", "oak")
    one = sites["elmwood"]
    study = hidden_study(sites, seed=1)
    saved = {name: (one.folder / name).read_bytes() for name in ("key.pem", "key.pub")}
    for _ in range(repairs):
        for name in saved:
            (one.folder / name).unlink()
        Books.repair(one.folder, one.anchor, one.study_cap, restored=True, alone_cap=one.alone_cap)
    for name, data in saved.items():
        (one.folder / name).write_bytes(data)
    with pytest.raises(NotApproved, match="retired key came back"):
        approve(one, study, who=WHO, now=NOW)
