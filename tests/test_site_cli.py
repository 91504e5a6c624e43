"""`heterofedsyn site ...` as a steward meets it."""

from __future__ import annotations

import io
import json
import os
import pty
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

import heterofedsyn.marginals.sketch as sketch_module
from heterofedsyn._words import aloud
from heterofedsyn.cli.app import run
from heterofedsyn.errors import HeterofedsynError
from heterofedsyn.hub import make_method
from heterofedsyn.hub.planning.preview import preview
from heterofedsyn.masking.identity import key_fingerprint
from heterofedsyn.privacy import noise
from heterofedsyn.protocol import Query, Study
from heterofedsyn.schema import Schema
from heterofedsyn.site.agent import Agent
from heterofedsyn.site.consent import approve as consent_to
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.ledger.locked import lock
from heterofedsyn.site.settings import SiteSettings
from heterofedsyn.site.signing import Identity
from hidden_support import NAMES, conduct, hidden_study, key_of, make_sites
from site_support import NOW, SCHEMA, make_message, make_site, make_study, write_rows
from support import categories, make_plan

pytestmark = pytest.mark.thorough


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Steward:
    """A person in a folder, without a terminal."""

    place: Path
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *words: str | Path, code: int = 0) -> Said:
        """What a command says; it must end with this code."""
        self.capsys.readouterr()
        found = run(["site", *map(str, words)])
        out, err = self.capsys.readouterr()
        assert found == code, err
        return Said(found, out, err)

    def refused(self, *words: str | Path, code: int = 2) -> str:
        """The one line of a refusal."""
        said = self(*words, code=code)
        assert said.out == ""
        (line,) = said.err.splitlines()[-1:]
        assert line.startswith("error: ")
        return line

    def init(self, **other: str | None) -> list[str]:
        """The words of `site init` for the usual site."""
        SCHEMA.save(self.place / "schema.toml")
        if not (self.place / "rows.csv").exists():
            write_rows(self.place, SCHEMA)
        (self.place / "vault").mkdir(exist_ok=True)
        usual: dict[str, str | None] = {
            "schema": "schema.toml",
            "data": "rows.csv",
            "name": "elmwood",
            "epsilon": "3",
            "delta": "1e-9",
            "study_epsilon": "1",
            "anchor": "vault/anchor",
            "socket": "run/agent.sock",
            "engine": str(os.geteuid()),
            "group": str(os.getegid()),
        }
        given = {name: value for name, value in {**usual, **other}.items() if value is not None}
        return ["init", *(w for n, v in given.items() for w in (f"--{n.replace('_', '-')}", v))]

    @property
    def settings(self) -> SiteSettings:
        return SiteSettings.load(self.place / "site")

    def study(self, file: str = "study.toml", **terms: Any) -> Study:
        study = make_study(sites=("elmwood", "oak"), **terms)
        study.save(self.place / file)
        return study

    def answer(self, *messages: bytes) -> None:
        settings = self.settings
        with Books.open(settings.folder, settings.anchor) as books:
            agent = Agent(settings, books, log=lambda line: None)
            for message in messages:
                agent.answer(message)


@pytest.fixture
def steward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Steward]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    mask = os.umask(0o022)
    os.umask(mask)
    yield Steward(tmp_path, capsys)
    os.umask(mask)  # `serve` has a stricter one


@pytest.fixture
def ready(steward: Steward) -> Steward:
    """A steward whose site is there, with an approved study."""
    make_site(steward.place)
    steward.study()
    steward("approve", "study.toml", "--yes")
    return steward


# INIT


def test_init_makes_a_private_folder_and_says_what_it_found(steward: Steward) -> None:
    rows = write_rows(steward.place, SCHEMA, rows=20)
    text = rows.read_text().splitlines()
    rows.write_text("\n".join([*text, "v9,v0,v0", "v0,v9,v9"]) + "\n")
    said = steward(*steward.init(), "--most-misfit", "0.1")
    assert "22 rows read, 2 do not fit; these counts are exact: do not publish them" in said.out
    for column in ("a0", "a1", "a2"):
        assert any(column in line and " 1 unknown value " in line for line in said.out.splitlines())
    folder = steward.place / "site"
    key = (folder / "key.pub").read_text().strip()  # which may hold any letters
    assert "v9" not in said.out + said.err.replace(key, ""), "no value of a record"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {path.name for path in folder.iterdir()} >= {"site.toml", "ledger", "key.pem", "answers"}
    settings = steward.settings
    assert settings.source == str(rows)
    assert settings.socket == steward.place / "run" / "agent.sock"
    assert (settings.epsilon, settings.study_epsilon, settings.delta) == (3.0, 1.0, 1e-9)
    assert key in said.err
    assert "same disk" in said.err
    assert Books.read(settings.folder, settings.anchor).spent.rho == 0


def test_init_never_replaces_anything(steward: Steward) -> None:
    steward(*steward.init())
    before = {path: path.read_bytes() for path in steward.place.rglob("*") if path.is_file()}
    assert "never replaced" in steward.refused(*steward.init())
    assert "never replaced" in steward.refused(*steward.init(folder="other"))
    assert before == {p: p.read_bytes() for p in steward.place.rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    ("other", "code", "words"),
    [
        ({"schema": None, "epsilon": None}, 2, "--schema, --epsilon must be given"),
        ({"schema": "no.toml"}, 2, "cannot read schema"),
        ({"data": "no.csv"}, 1, "no such file"),
        ({"data": "vault"}, 1, "no .parquet file is there"),
        ({"name": "a b"}, 2, "site name"),
        ({"epsilon": "0"}, 2, "epsilon must be above 0"),
        ({"epsilon": "x"}, 2, "--epsilon"),
        ({"delta": "1"}, 2, "delta must be above 0"),
        ({"study_epsilon": "9"}, 2, "at most epsilon"),
        ({"alone_epsilon": "2.9"}, 2, "alone_epsilon (2.9) must be at least epsilon (3)"),
        ({"alone_epsilon": "0"}, 2, "alone_epsilon: epsilon must be above 0"),
        ({"alone_epsilon": "-1"}, 2, "alone_epsilon: epsilon must be above 0"),
        ({"alone_epsilon": "nan"}, 2, "alone_epsilon: epsilon must be above 0"),
        ({"anchor": "site/anchor"}, 2, "must lie outside"),
        ({"anchor": "nowhere/anchor"}, 2, "make it first"),
        ({"socket": "site/x"}, 2, "must lie outside"),
        ({"socket": "x" * 200}, 2, "longer than 107 bytes"),
        ({"engine": "nobody-at-all"}, 2, "there is no user 'nobody-at-all'"),
        ({"group": "nobody-at-all"}, 2, "there is no group 'nobody-at-all'"),
        ({"unit": "person"}, 1, "no column 'person'"),
    ],
)
def test_init_refuses_in_one_line_and_leaves_nothing(
    steward: Steward, other: dict[str, str | None], code: int, words: str
) -> None:
    arguments = steward.init(**other)
    before = sorted(steward.place.rglob("*"))
    assert words in steward.refused(*arguments, code=code)
    assert sorted(steward.place.rglob("*")) == before


def test_init_asks_on_a_terminal_for_what_was_not_given(steward: Steward) -> None:
    words = steward.init(name=None, delta=None, study_epsilon=None)
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "wb", buffering=0) as terminal:
        child = subprocess.Popen(
            [sys.executable, "-m", "heterofedsyn", "site", *words],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        os.close(theirs)
        terminal.write(b"birch\n\n0.5\n")
        said, _ = child.communicate(timeout=120)
    assert child.returncode == 0, said
    settings = steward.settings
    assert (settings.name, settings.delta, settings.study_epsilon) == ("birch", 1e-9, 0.5)
    assert "the site's name in studies" in said


# PREVIEW


@pytest.mark.parametrize("method", ["wavetree", "fedprivsyn", "allmarg", "local-merge"])
def test_preview_shows_every_fixed_release_and_the_most_of_the_others(
    steward: Steward, method: str
) -> None:
    make_site(steward.place)
    encoding = make_method(method).encoding(SCHEMA)
    plan = make_plan(encoding, ("elmwood", "oak"), method=method)
    study = Study(plan=plan, schema=SCHEMA.settings, quorum=1)
    study.save(steward.place / "study.toml")
    shown = preview(study, "elmwood")
    found = json.loads(steward("preview", "study.toml", "--json").out)
    assert found["bytes"] == shown.bytes
    assert found["rho"] == shown.rho == study.plan.budget.rho
    assert [round_["rho"] for round_ in found["rounds"]] == [r.rho for r in shown.rounds]
    assert [len(round_["parts"]) for round_ in found["rounds"]] == [
        len(round_.parts) for round_ in shown.rounds
    ]
    settings = steward.settings
    assert (found["cap_rho"], found["study_cap_rho"]) == (settings.cap.rho, settings.study_cap.rho)
    assert (found["spent_rho"], found["rows_that_do_not_fit"], found["misfits"]) == (0, 0, {})
    assert found["refused"] is None
    said = steward("preview", "study.toml").out
    for round_ in shown.rounds:
        assert round_.label in said
        for part in round_.parts:
            assert f"{part.sigma:,.1f}" in said
    assert "(at most)" in said
    assert "300 rows read, 0 do not fit" in said
    assert Books.read(settings.folder, settings.anchor).number == 0, "nothing is spent"


def test_preview_counts_what_was_spent_and_rows_that_do_not_fit(ready: Steward) -> None:
    study = Study.load(ready.place / "study.toml")
    ready.answer(make_message(study, 1, 0.5))
    rows = ready.place / "rows.csv"
    rows.write_text(rows.read_text() + "v9,v0,v0\n")
    found = json.loads(ready("preview", "study.toml", "--json").out)
    assert found["spent_rho"] == found["spent_on_study_rho"] > 0
    assert found["misfits"] == {"a0": {"unknown value": 1}}
    assert (found["rows_read"], found["rows_that_do_not_fit"]) == (301, 1)


def test_preview_says_what_would_be_refused_and_refuses_what_never_can_be(
    steward: Steward,
) -> None:
    make_site(steward.place)
    steward.study(epsilon=2.0)
    assert "it would be refused: the study may spend" in steward("preview", "study.toml").out
    assert "cap per study" in json.loads(steward("preview", "study.toml", "--json").out)["refused"]
    steward.study(method="privsyn")
    for command in (["preview"], ["approve", "--yes"]):
        line = steward.refused(command[0], "study.toml", *command[1:], code=3)
        assert "all rows in one place" in line
    steward.study(method="nothing")
    assert "there is no method 'nothing'" in steward.refused("preview", "study.toml")


@pytest.mark.parametrize("schema", [None, categories(120, 128)], ids=["own", "another's"])
def test_a_small_study_that_asks_for_gigabytes_is_refused_before_any_work(
    steward: Steward, schema: Schema | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a sketch was drawn")

    for name in ("_draw", "_kept"):
        monkeypatch.setattr(sketch_module, name, fail)
    own = categories(4, 6, 3) if schema else categories(120, 128)
    make_site(steward.place, own)
    bomb: dict[str, str | int] = {"k": 4096, "sketch": "gaussian"}
    asked = make_study(schema or own, method="fedprivsyn", settings=bomb)
    asked.save(steward.place / "bomb.toml")
    for words in (["preview", "bomb.toml"], ["approve", "bomb.toml", "--yes"]):
        line = steward.refused(*words, code=3 if schema else 1)
        assert ("another schema" if schema else "cells, more than") in line
    assert not list((steward.place / "site" / "studies").iterdir())


def test_preview_and_approve_refuse_a_study_of_people_at_a_site_of_records(
    steward: Steward,
) -> None:
    make_site(steward.place)
    steward.study(unit="a0")
    said = "the study protects units of 'a0', but this site protects records"
    assert f"it would be refused: {said}" in steward("preview", "study.toml").out
    assert said in json.loads(steward("preview", "study.toml", "--json").out)["refused"]
    assert said in steward.refused("approve", "study.toml", "--yes", code=3)


def test_a_site_keeps_its_unit_for_life(ready: Steward) -> None:
    path = ready.place / "site" / "site.toml"
    path.write_text(f"{path.read_text()}unit = 'a0'\n")
    ready.study(unit="a0")
    assert "one for life" in ready("preview", "study.toml").out
    for words in (["approve", "study.toml", "--yes"], ["serve"]):
        assert "one for life" in ready.refused(*words, code=3)


# CONSENT


def test_consent_needs_a_person_or_a_clear_word(steward: Steward) -> None:
    make_site(steward.place)
    study = steward.study()
    assert "or --yes" in steward.refused("approve", "study.toml")
    assert list(steward.settings.studies.iterdir()) == []
    said = steward("approve", "study.toml", "--yes", "--who", "Ada")
    assert f"approved {study.fingerprint} by Ada at 20" in said.out
    kept = json.loads((steward.settings.studies / study.fingerprint / "consent.json").read_text())
    assert (kept["who"], kept["rho"]) == ("Ada", study.plan.budget.rho)


@pytest.mark.parametrize("columns", [2, 3])
def test_consent_names_three_columns_where_they_may_be_asked_for(
    steward: Steward, columns: int
) -> None:
    make_site(steward.place)
    steward.study(columns=columns)
    said = " ".join(steward("approve", "study.toml", "--yes").err.split())
    assert ("any statistic, of up to three columns together, that the hub" in said) == (
        columns == 3
    )


@pytest.mark.parametrize("summed", [False, True])
def test_who_approves_again_is_told_who_did_and_nothing_changes(
    hidden: Steward, summed: bool
) -> None:
    study = Study.load(hidden.place / "study.toml")
    if not summed:
        study = hidden.study()
    hidden("approve", "study.toml", "--yes", "--who", "Ada")
    path = hidden.settings.studies / study.fingerprint / "consent.json"
    before, day = path.read_bytes(), json.loads(path.read_text())["when"][:10]
    for more in (["--yes"], [], ["--who", "Bob", "--yes"], ["--fingerprint", study.fingerprint]):
        said = hidden("approve", "study.toml", *more)
        assert said.out == f"already approved {study.fingerprint} by Ada on {day}; nothing to do\n"
        assert path.read_bytes() == before
    hidden("withdraw", "study.toml")
    if summed:
        line = hidden.refused("approve", "study.toml", "--yes", code=3)
        assert "approved here before" in line
    else:
        assert " by Bob at " in hidden("approve", "study.toml", "--yes", "--who", "Bob").out
    lock(hidden.settings.folder, "a reason")
    assert "locked itself" in hidden.refused("approve", "study.toml", "--yes", code=3)


def test_wherever_people_compare_studies_they_see_all_of_the_fingerprint(steward: Steward) -> None:
    make_site(steward.place)
    study = steward.study()
    groups = [study.fingerprint[i : i + 8] for i in range(0, 64, 8)]
    for words in (["preview"], ["approve", "--yes"], ["withdraw"]):
        said = steward(words[0], "study.toml", *words[1:])
        assert study.fingerprint in said.out + said.err
        assert " ".join(groups) in said.out + said.err or words == ["withdraw"]


def test_what_was_previewed_is_approved_and_nothing_else(steward: Steward) -> None:
    make_site(steward.place)
    study = steward.study()
    told = study.fingerprint
    for other in (
        "",
        told[:12],
        told[:63],
        "0" * 64,
        told[:-1] + ("0" if told[-1] != "0" else "1"),
    ):
        for more in ([], ["--yes"]):
            line = steward.refused("approve", "study.toml", "--fingerprint", other, *more, code=3)
            assert f"this is study {told}, not {other!r}" in line
    steward.study(seed=8)  # another file in its place after the preview
    assert "preview it again" in steward.refused(
        "approve", "study.toml", "--fingerprint", told, code=3
    )
    assert list(steward.settings.studies.iterdir()) == []
    steward.study()
    for spelt in (told, told.upper(), " ".join(told[i : i + 8] for i in range(0, 64, 8))):
        said = steward("approve", "study.toml", "--fingerprint", spelt)
        assert f"approved {told}" in said.out


@pytest.mark.parametrize(("word", "code"), [(b"y\n", 0), (b"n\n", 3), (b"\n", 3), (b"\x04", 130)])
def test_consent_is_confirmed_on_a_terminal(steward: Steward, word: bytes, code: int) -> None:
    make_site(steward.place)
    steward.study()
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "wb", buffering=0) as terminal:
        child = subprocess.Popen(
            [sys.executable, "-m", "heterofedsyn", "site", "approve", "study.toml"],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        os.close(theirs)
        terminal.write(word)
        said, _ = child.communicate(timeout=120)
    assert child.returncode == code, said
    assert ("error: not confirmed: the study is not approved" in said) == (code == 3)
    assert len(list(steward.settings.studies.iterdir())) == (code == 0)


def test_consent_says_when_the_table_has_too_little_left(ready: Steward) -> None:
    ready.study("second.toml", seed=1, epsilon=1.0)
    assert "remark" not in ready("approve", "second.toml", "--yes").err
    for number in range(8):
        study = ready.study("more.toml", seed=number + 2)
        ready("approve", "more.toml", "--yes")
        ready.answer(make_message(study, 1, 1.0))
    assert "remark" not in ready("preview", "study.toml").out, "it has had all that it may"
    ready.study("late.toml", seed=20)
    said = ready("preview", "late.toml").out
    (remark,) = (line for line in said.splitlines() if "refused before its end" in line)
    assert json.loads(ready("preview", "late.toml", "--json").out)["remarks"] == [
        remark.removeprefix("remark: ")
    ]
    assert remark in ready("approve", "late.toml", "--yes").err


def test_preview_says_when_too_little_is_left_for_answers_seen_by_themselves(
    hidden: Steward,
) -> None:
    path = hidden.place / "site" / "site.toml"
    assert "remark" not in hidden("preview", "study.toml").out
    path.write_text(path.read_text().replace("alone_epsilon = 9.0", "alone_epsilon = 3.0"))
    local = hidden.study("local.toml")
    assert "remark" not in hidden("preview", "local.toml").out
    for seed in range(10, 17):
        study = hidden.study("more.toml", seed=seed)
        hidden("approve", "more.toml", "--yes")
        hidden.answer(make_message(study, 1, 1.0))
    # One more local study fits under both caps; a sum costs twice as much by itself.
    assert local.plan.budget_alone == local.plan.budget
    assert "remark" not in hidden("preview", "local.toml").out
    said = hidden("preview", "study.toml").out
    assert "for answers seen by themselves only" in said
    assert "of the table's rho" not in said


def test_withdrawn_consent_is_found_by_the_start_of_a_fingerprint(ready: Steward) -> None:
    study = Study.load(ready.place / "study.toml")
    assert "no one study starts so" in ready.refused("withdraw", "ffff" * 4)
    for command in ("withdraw", "close"):
        line = ready.refused(command, study.fingerprint[:7])
        assert "no one study starts so (at least 8 digits are needed)" in line
    ready("withdraw", study.fingerprint[:8])
    assert "withdrawn before" in ready.refused("withdraw", "study.toml")


# LEDGER


@pytest.mark.quick
def test_the_ledger_is_a_table_with_a_bar_and_json(ready: Steward) -> None:
    study = Study.load(ready.place / "study.toml")
    ready.answer(make_message(study, 1, 0.5), make_message(study, 2, 0.5))
    said = ready("ledger").out
    assert "question 1" in said
    assert study.fingerprint[:32] in said  # too many letters for two studies to share
    found = json.loads(ready("ledger", "--json").out)
    settings = ready.settings
    account = Books.read(settings.folder, settings.anchor)
    assert found["spent_rho"] == account.spent.rho
    assert found["cap_rho"] == settings.cap.rho
    assert [charge["rho"] for charge in found["charges"]] == [c.rho for c in account.charges]
    assert f"{found['left_rho'] / found['cap_rho']:.1%} left" in said
    (bar,) = (line for line in said.splitlines() if "% left" in line)
    assert bar.count("#") == int(40 * found["left_rho"] / found["cap_rho"])
    with Books.open(settings.folder, settings.anchor):
        assert ready("ledger").out == said, "also while an agent serves"


def test_a_label_chosen_by_a_hub_cannot_command_a_terminal(ready: Steward) -> None:
    study = Study.load(ready.place / "study.toml")
    message = make_message(study, 1, 0.5)
    query = msgspec.msgpack.decode(message, type=Query)
    ready.answer(msgspec.msgpack.encode(msgspec.structs.replace(query, label="\x1b[2J[red]")))
    said = ready("ledger").out
    assert "\x1b" not in said
    assert "[2J[red]" in said


def test_a_disputed_ledger_is_refused_and_repaired_at_the_price_of_a_study(
    ready: Steward,
) -> None:
    study = Study.load(ready.place / "study.toml")
    settings = ready.settings
    older = (settings.folder / "ledger").read_bytes()
    ready.answer(make_message(study, 1, 0.5))
    spent = Books.read(settings.folder, settings.anchor).spent.rho
    assert "nothing to repair" in ready.refused("ledger", "repair")
    (settings.folder / "ledger").write_bytes(older)
    for command in (["ledger"], ["serve"], ["preview", "study.toml"]):
        assert "site ledger repair" in ready.refused(*command, code=3)
    said = ready("ledger", "repair", "--folder", "site")
    assert "was booked" in said.out
    found = json.loads(ready("ledger", "--json").out)
    assert found["spent_rho"] >= spent + settings.study_cap.rho
    assert "repair" in ready("ledger").out


# RECEIPT


@pytest.mark.quick
def test_a_receipt_is_made_checked_and_refused_when_forged(ready: Steward) -> None:
    study = Study.load(ready.place / "study.toml")
    assert "got nothing" in ready.refused("receipt", "study.toml")
    ready.answer(make_message(study, 1, 0.5))
    said = ready("receipt", "study.toml", "--out", "receipt.json")
    assert "receipt in receipt.json" in said.out
    assert "exists already" in ready.refused("receipt", "study.toml", "--out", "receipt.json")
    ready("receipt", study.fingerprint[:8])
    assert len(list(ready.settings.receipts.iterdir())) == 1
    key = ready.settings.folder / "key.pub"
    said = ready("verify", "receipt.json", "--key", key)
    assert "the receipt holds, signed with the key given" in said.out
    assert "nobody vouched for" in ready("verify", "receipt.json").out
    found = json.loads(ready("verify", "receipt.json", "--json", "--key", key).out)
    assert found["valid"] is True
    assert found["key_known"] is True
    assert (found["answers"], found["integers"]) == (1, 4)
    text = (ready.place / "receipt.json").read_text()
    (ready.place / "forged.json").write_text(text.replace('"elmwood"', '"oak"'))
    assert "signature does not hold" in ready.refused("verify", "forged.json", code=1)
    assert "no receipt" in ready.refused("verify", "rows.csv")
    assert "cannot read" in ready.refused("verify", "missing.json")
    assert "no public key" in ready.refused("verify", "receipt.json", "--key", "abc")
    line = ready.refused("verify", "receipt.json", "--key", ready.settings.key)
    assert line == (
        "error: this is a private key, which must not leave its site; give key.pub instead"
    )


# SECURE AGGREGATION


@pytest.fixture
def hidden(steward: Steward) -> Steward:
    """A steward of one of four sites that know each other's keys, with a study for all of them."""
    sites = make_sites(steward.place / "sites", *NAMES)
    (steward.place / "site").symlink_to(sites["elmwood"].folder)
    study = hidden_study(sites, quorum=3)
    study.save(steward.place / "study.toml")
    return steward


def all_sites(steward: Steward) -> dict[str, SiteSettings]:
    return {name: SiteSettings.load(steward.place / "sites" / name / "site") for name in NAMES}


def run_study(steward: Steward) -> Study:
    """Everyone approves the study, and all but pine, who is away, answer it."""
    study, sites = Study.load(steward.place / "study.toml"), all_sites(steward)
    for settings in sites.values():
        consent_to(settings, study, who="a steward", now=NOW)
    conduct(study, sites, lambda request, site: site == "pine" and request.step != "keys")
    return study


def test_init_opts_in_to_secure_aggregation_and_tells_the_key(steward: Steward) -> None:
    said = steward(*steward.init(alone_epsilon="6"))
    settings = steward.settings
    assert settings.alone_epsilon == 6.0
    assert settings.alone_cap is not None
    assert f"epsilon 6 in all (rho {settings.alone_cap.rho:.4g})" in said.err
    assert key_of(settings) in said.err
    assert aloud(key_fingerprint(key_of(settings))) in said.err


@pytest.mark.quick
def test_preview_says_what_is_promised_against_whom_and_whose_keys_are_confirmed(
    hidden: Steward,
) -> None:
    study = Study.load(hidden.place / "study.toml")
    sites = all_sites(hidden)
    alone = study.plan.budget.times(2)
    said = " ".join(hidden("preview", "study.toml").out.split())
    assert "together with up to 1 of the 4 sites" in said
    assert "sums over at least 3 sites" in said
    assert f"protected by epsilon 1 (rho {study.plan.budget.rho:.4g})" in said
    assert (
        f"then every record is protected by epsilon {alone.epsilon(1e-9):.4g} (rho {alone.rho:.4g})"
        in said
    )
    assert "can compare sums over different sets of sites and so see a site's noisy size" in said
    assert "1.41 times that of all rows in one place; under local trust it would be 2" in said
    assert "refused" not in said
    found = json.loads(hidden("preview", "study.toml", "--json").out)
    assert (found["colluding"], found["quorum"], found["trust"]) == (1, 3, study.plan.trust)
    assert found["rho_alone"] == alone.rho
    assert found["epsilon_alone"] == alone.epsilon(1e-9)
    cap = sites["elmwood"].alone_cap
    assert cap is not None
    assert (found["alone_cap_rho"], found["spent_alone_rho"]) == (cap.rho, 0)
    assert found["refused"] is None
    for entry in found["roster"]:
        assert entry["key"] == key_of(sites[entry["site"]])
        assert entry["fingerprint"] == key_fingerprint(entry["key"])
        assert entry["confirmed"] is (None if entry["own"] else True)
    assert [entry["site"] for entry in found["roster"]] == sorted(NAMES)
    hidden_study(sites).save(hidden.place / "all.toml")
    assert "compare sums" not in hidden("preview", "all.toml").out


def test_preview_of_local_trust_says_what_is_promised_against_whom(hidden: Steward) -> None:
    hidden.study("local.toml")
    said = " ".join(hidden("preview", "local.toml").out.split())
    assert "local trust: every record is protected by epsilon 1" in said
    assert "against the hub, all other sites together and every reader" in said
    assert "the hub sees each answer of this site by itself" in said
    cap = hidden.settings.alone_cap
    assert cap is not None
    assert "If each answer is seen by itself" in said
    assert f"{cap.rho:.4g}" in said
    assert "Roster" not in said
    path = hidden.place / "site" / "site.toml"
    path.write_text(path.read_text().replace("alone_epsilon = 9.0\n", ""))
    assert "If each answer is seen by itself" not in hidden("preview", "local.toml").out


def test_preview_tells_the_noise_added_here_from_the_noise_that_protects(hidden: Steward) -> None:
    study = run_study(hidden)
    said = " ".join(hidden("preview", "study.toml").out.replace("┃", " ").split())
    assert "sigma added here sigma that protects" in said
    found = json.loads(hidden("preview", "study.toml", "--json").out)
    (part,) = found["rounds"][0]["parts"][:1]
    assert part["own_sigma"] * 2**0.5 == pytest.approx(part["sigma"], rel=1e-12)
    assert f"{part['own_sigma']:,.1f}" in said
    assert f"{part['sigma']:,.1f}" in said
    made = hidden("receipt", study.fingerprint[:8], "--out", "receipt.json").out
    receipt = json.loads((hidden.place / "receipt.json").read_text())["receipt"]
    own = receipt["releases"][0]["parts"][0]["sigma"]
    assert own == pytest.approx(part["own_sigma"], rel=1e-12)
    for words in (made, hidden("verify", "receipt.json").out):
        assert "that of the noise which this site added itself" in words
        assert "the noise of at least 2 sites, 1.41 times as much" in words


def test_a_key_that_was_replaced_is_told_from_one_that_was_never_confirmed(
    hidden: Steward,
) -> None:
    sites = all_sites(hidden)
    study = Study.load(hidden.place / "study.toml")
    assert study.plan.aggregation is not msgspec.UNSET
    for name, words, refusal in (
        ("oak", "ANOTHER KEY than confirmed", "has ANOTHER key for oak than the one confirmed"),
        ("elmwood", "ANOTHER KEY than this site's", "has another key for 'elmwood' than"),
    ):
        keys = {**study.plan.roster, name: Identity.fresh().public}
        changed = msgspec.structs.replace(study.plan.aggregation, keys=keys)
        plan = msgspec.structs.replace(study.plan, aggregation=changed)
        msgspec.structs.replace(study, plan=plan).save(hidden.place / "other.toml")
        said = hidden("preview", "other.toml").out
        (line,) = (line for line in said.splitlines() if f"│ {name} " in line)
        assert words in line
        assert aloud(key_fingerprint(keys[name])) in line
        assert ("│ this site" in " ".join(said.split())) == (name != "elmwood")
        for told in (said, hidden.refused("approve", "other.toml", "--yes", code=3)):
            assert refusal in told
            assert "replaced it; do not go on before asking" in told
            assert "by telephone" in told
        found = json.loads(hidden("preview", "other.toml", "--json").out)
        standing = {entry["site"]: entry["standing"] for entry in found["roster"]}
        assert standing[name] == words
        assert not any(entry["own"] and entry["site"] == name for entry in found["roster"])
    assert key_of(sites["elmwood"]) == study.plan.roster["elmwood"]


def test_unconfirmed_keys_are_shown_and_refused(hidden: Steward) -> None:
    hidden("peer", "remove", "oak")
    said = hidden("preview", "study.toml").out
    (line,) = (line for line in said.splitlines() if "│ oak " in line)
    assert "NO" in line
    assert "it would be refused: the study's keys of oak were not confirmed" in said
    found = json.loads(hidden("preview", "study.toml", "--json").out)
    assert {e["site"]: e["confirmed"] for e in found["roster"]} == {
        "birch": True,
        "elmwood": None,
        "oak": False,
        "pine": True,
    }
    line = hidden.refused("approve", "study.toml", "--yes", code=3)
    assert "keys of oak were not confirmed here" in line
    assert list(hidden.settings.studies.iterdir()) == []
    hidden("peer", "add", "oak", key_of(all_sites(hidden)["oak"]), "--yes")
    said = hidden("approve", "study.toml", "--yes").err
    assert "together with up to 1 of the 4 sites" in said
    assert "refused" not in hidden("preview", "study.toml").out


def test_preview_of_a_site_that_did_not_opt_in_says_how(hidden: Steward) -> None:
    path = hidden.place / "site" / "site.toml"
    path.write_text(path.read_text().replace("alone_epsilon = 9.0\n", ""))
    said = hidden("preview", "study.toml").out
    assert "set alone_epsilon in site.toml" in said
    assert "none" in said
    assert "set alone_epsilon" in hidden.refused("approve", "study.toml", "--yes", code=3)


@pytest.mark.quick
def test_ledger_receipt_and_verify_show_both_prices(hidden: Steward) -> None:
    study = run_study(hidden)
    settings = hidden.settings
    account = Books.read(settings.folder, settings.anchor)
    assert account.spent_alone > account.spent
    said = hidden("ledger").out
    assert "rho alone" in said
    spent, alone = (line for line in said.splitlines() if "% left" in line)
    assert f"rho {account.spent.rho:.4g} of {settings.cap.rho:.4g}" in spent
    assert f"rho {account.spent_alone.rho:.4g} of" in alone
    assert "epsilon" in alone
    assert "of 9 at delta 1e-09, if each answer is seen by itself" in alone
    found = json.loads(hidden("ledger", "--json").out)
    assert found["spent_alone_rho"] == account.spent_alone.rho
    assert found["alone_cap_epsilon"] == 9.0
    assert [one["rho_alone"] for one in found["charges"]] == [c.alone for c in account.charges]
    said = hidden("receipt", study.fingerprint[:8], "--out", "receipt.json").out
    assert "left under masks" in said
    said = hidden("verify", "receipt.json", "--key", hidden.place / "site" / "key.pub").out
    many = len(account.charges)
    assert f"{many} answer" in said
    assert f"{many} in a set that was signed here, of at least 3 of 4 sites" in said
    assert f"{many} signed and opened here; others may have opened the rest" in said
    assert f"if each answer is seen by itself: rho {account.spent_alone.rho:.4g}" in said
    assert "not in every sum: pine" in said
    found = json.loads(hidden("verify", "receipt.json", "--json").out)
    assert found["spent_rho_alone"] == account.spent_alone.rho
    assert (found["colluding"], found["quorum"]) == (1, 3)
    for one in found["sums"]:
        assert (one["sites"], one["outside"]) == (["birch", "elmwood", "oak"], ["pine"])


def test_a_closed_study_answers_nothing_and_has_no_private_key(hidden: Steward) -> None:
    study = run_study(hidden)
    kept = hidden.settings.folder / "aggregation" / study.fingerprint
    assert (kept / "key").exists()
    said = hidden("close", "study.toml").out
    assert f"study {study.fingerprint} is closed; its key is removed here, and it cannot" in said
    assert [path.name for path in kept.iterdir()] == ["forgotten"]
    assert "closed before" in hidden.refused("close", "study.toml")
    assert "closed here" in hidden.refused("approve", "study.toml", "--yes", code=3)
    assert "closed here" in hidden("preview", "study.toml").out
    hidden("receipt", "study.toml", "--out", "receipt.json")
    with pytest.raises(HeterofedsynError):
        conduct(study, all_sites(hidden))


def test_withdrawal_from_a_sum_says_that_it_is_final_and_from_a_local_study_does_not(
    hidden: Steward,
) -> None:
    study = run_study(hidden)
    said = hidden("withdraw", study.fingerprint[:8]).out
    assert said == (
        f"consent to {study.fingerprint} is withdrawn; its key is removed here, and it cannot be "
        "approved again\n"
    )
    assert not (hidden.settings.folder / "aggregation" / study.fingerprint / "key").exists()
    local = hidden.study("local.toml")
    hidden("approve", "local.toml", "--yes")
    said = hidden("withdraw", "local.toml").out
    assert said == f"consent to {local.fingerprint} is withdrawn\n"
    said = hidden("close", "local.toml").out
    assert said == f"study {local.fingerprint} is closed, and it cannot be approved again\n"


def test_a_ledger_that_is_piped_has_every_study_on_one_line(hidden: Steward) -> None:
    study = run_study(hidden)
    local = hidden.study("local.toml")
    hidden("approve", "local.toml", "--yes")
    query = msgspec.msgpack.decode(make_message(local, 1, 0.5), type=Query)
    hidden.answer(msgspec.msgpack.encode(msgspec.structs.replace(query, label="x" * 90)))
    said = hidden("ledger").out
    assert "rho alone" in said
    for each in (study, local):
        assert each.fingerprint[:32] in said


def test_a_locked_site_serves_again_after_a_repair_with_a_new_key(hidden: Steward) -> None:
    settings = hidden.settings
    old = key_of(settings)
    lock(settings.folder, "its own signature under a set that it does not know")
    for words in (["serve"], ["approve", "study.toml", "--yes"]):
        assert "locked itself: its own signature" in hidden.refused(*words, code=3)
    assert "remark: this site locked itself" in hidden("ledger").err
    assert "pass --restored" in hidden.refused("ledger", "repair")
    said = hidden("ledger", "repair", "--restored").out
    new = key_of(settings)
    assert new != old
    assert new in said
    assert aloud(key_fingerprint(new)) in said
    account = Books.read(settings.folder, settings.anchor)
    assert settings.alone_cap is not None
    assert account.spent_alone >= settings.alone_cap
    assert "0.0% left" in said
    assert "another key for 'elmwood'" in hidden.refused("approve", "study.toml", "--yes", code=3)


# EVALUATE


def test_scores_of_a_release_stay_in_a_private_marked_file(ready: Steward) -> None:
    schema = ready.place / "schema.toml"
    rows = ready.place / "rows.csv"
    made = ["simulate", "--data", rows, "--schema", schema, "--sites", "2", "--method"]
    made += ["independent", "--epsilon", "1", "--delta", "1e-9", "--out", "out"]
    assert run([str(word) for word in made]) == 0
    said = ready("evaluate", "out")
    path = ready.settings.folder / "evaluations" / "out.json"
    assert str(path) in said.out
    assert "computed from private rows: do not publish" in said.err
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = json.loads(path.read_text())
    assert found["warning"] == "computed from private rows: do not publish"
    assert 0 <= found["floor"]["tvd"]["one_way"] <= found["tvd"]["one_way"] <= 1
    assert "exists already" in ready.refused("evaluate", "out")
    ready("evaluate", "out", "--overwrite")
    assert "lies in a release" in ready.refused("evaluate", "out", "--out", "out/scores.json")
    assert "no release folder" in ready.refused("evaluate", "missing", code=1)
    assert "there is no measure" in ready.refused("evaluate", "out", "--only", "x", "--out", "s")
    (ready.place / "out" / "synthetic.parquet").unlink()
    ready("evaluate", "out", "--out", "scores.json", "--only", "tvd")
    assert stat.S_IMODE((ready.place / "scores.json").stat().st_mode) == 0o600
    (ready.place / "out" / "synthetic.parquet").symlink_to(rows)
    assert "this is a link" in ready.refused("evaluate", "out", "--out", "linked.json", code=1)


# WRONG USE


@pytest.mark.parametrize(
    "words",
    [
        ["preview", "study.toml"],
        ["approve", "study.toml"],
        ["withdraw", "study.toml"],
        ["close", "study.toml"],
        ["peer", "add", "oak", "key"],
        ["peer", "list"],
        ["peer", "remove", "oak"],
        ["serve"],
        ["ledger"],
        ["ledger", "--json"],
        ["ledger", "repair"],
        ["receipt", "study.toml"],
        ["evaluate", "out"],
    ],
)
def test_every_command_says_that_there_is_no_site(steward: Steward, words: list[str]) -> None:
    assert "there is no site in site; make one with" in steward.refused(*words)


@pytest.mark.skipif(os.geteuid() != 0, reason="other users need root: run as root")
@pytest.mark.parametrize(
    "words",
    [
        ["approve", "study.toml", "--yes"],
        ["withdraw", "study.toml"],
        ["close", "study.toml"],
        ["peer", "add", "oak", "key"],
        ["peer", "remove", "oak"],
        ["serve"],
        ["ledger", "repair"],
        ["receipt", "study.toml"],
        ["evaluate", "out"],
    ],
)
def test_only_the_owner_of_a_site_changes_it(ready: Steward, words: list[str]) -> None:
    os.chown(ready.settings.folder, 1, 1)
    line = ready.refused(*words)
    assert "belongs to daemon; run this as that user, not as root" in line
    ready("ledger")


@pytest.mark.parametrize("command", ["preview", "approve"])
@pytest.mark.parametrize("text", ["", "x = 1", "\x00", "[plan]"])
def test_a_file_that_is_no_study_is_refused(ready: Steward, command: str, text: str) -> None:
    (ready.place / "study.toml").write_text(text)
    assert "this is no study" in ready.refused(command, "study.toml")
    assert "cannot read study" in ready.refused(command, "missing.toml")


def test_serve_refuses_what_would_not_work(ready: Steward) -> None:
    settings = ready.settings
    settings.folder.chmod(0o750)
    assert "chmod 700" in ready.refused("serve")
    settings.folder.chmod(0o700)
    settings.anchor.rename(ready.place / "elsewhere")
    assert "the anchor" in ready.refused("serve", code=3)
    (ready.place / "elsewhere").rename(settings.anchor)
    Path(settings.source).unlink()
    assert "no such file" in ready.refused("serve", code=1)
    Path(settings.source).write_text("a0,a1\nv0,v0\n")
    assert "no column 'a2'" in ready.refused("serve", code=1)
    settings.schema.unlink()
    assert "cannot read schema" in ready.refused("serve")
    assert not settings.socket.exists()


def test_serve_refuses_software_that_is_known_to_be_biased(
    ready: Steward, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noise, "version", lambda name: "0.14.1")
    assert "OpenDP 0.14.1 may draw biased noise" in ready.refused("serve", code=3)
    assert not ready.settings.socket.exists()


def test_no_option_or_setting_of_a_site_is_about_noise(steward: Steward) -> None:
    commands = ["init", "preview", "approve", "withdraw", "serve", "ledger", "receipt", "evaluate"]
    commands += ["close", "peer", "verify"]
    for command in commands:
        said = steward(command, "--help").out
        assert "seed" not in said, command
        assert "noise" not in said, command
