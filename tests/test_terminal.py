"""What others wrote reaches a person as letters: no terminal obeys it, and no line is forged."""

from __future__ import annotations

import ast
import io
import json
import os
import pty
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import heterofedsyn.cli
from heterofedsyn._toml import to_toml
from heterofedsyn.cli import _show
from heterofedsyn.cli.app import run
from heterofedsyn.engines.nvflare import job as job_module
from heterofedsyn.engines.nvflare.job import Hub
from heterofedsyn.engines.progress import Progress, RoundProgress, State
from heterofedsyn.engines.task import PROGRESS_FILE, RESULT
from heterofedsyn.errors import HeterofedsynError, HeterofedsynWarning, SchemaError, plain
from heterofedsyn.hub.replies import Absence
from heterofedsyn.protocol import Study
from heterofedsyn.schema import CategoricalColumn, Schema
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.receipt import SignedReceipt, canonical
from site_support import make_site, make_study
from test_site_cli import Steward

pytestmark = pytest.mark.sweep

ORDERS = (
    "\x1b[2K\x1b[1A\r\x08\x07\x9b31m\x1b]0;t\x07\x7f\u202e\u2066\u200b\u200d\ufeff\u2028\u2029\x85"
)
"""What erases, moves, rings, colours, renames, turns round, hides and breaks lines."""

FORGED = "\nstudy approved: epsilon 0.01[bold red]:boom:[/]"
NASTY = f"x{ORDERS}{FORGED}"


def obeyed(text: str) -> list[str]:
    """The letters of a text, lines apart, that are more than letters to a terminal."""
    kinds = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    return [letter for letter in text if letter != "\n" and unicodedata.category(letter) in kinds]


def check(out: str, err: str) -> str:
    """What was said, if no terminal would obey it and no line of it was made up by others."""
    said = out + err
    assert not obeyed(said), obeyed(said)
    assert not any(line.startswith("study approved") for line in said.splitlines())
    return said


@pytest.fixture
def steward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Steward:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    return Steward(tmp_path, capsys)


def hostile_schema() -> Schema:
    columns = [CategoricalColumn(f"{name}{NASTY}", ("v0", f"v1{NASTY}")) for name in "ab"]
    return Schema(tuple(columns))


def hostile_rows(**more: list[str]) -> pa.Table:
    """Rows of the hostile schema, in a format that takes any name."""
    first, second = hostile_schema().domain.names
    return pa.table({first: ["v0", f"v1{NASTY}"] * 40, second: ["v0"] * 80, **more})


@given(st.text())
def test_any_text_becomes_one_line_of_letters(text: str) -> None:
    assert plain(text).isprintable()
    assert not obeyed(plain(text))
    assert plain(plain(text)) == plain(text)
    assert str(HeterofedsynError(text)).isprintable()
    assert str(HeterofedsynWarning(text)).isprintable()


@given(st.text().filter(lambda text: "\\" not in text), st.text())
@example("a\x1b", "a ")
def test_two_texts_are_never_shown_alike(one: str, other: str) -> None:
    if "\\" not in other and one != other:
        assert plain(one) != plain(other)


def test_only_one_module_of_the_commands_writes_to_the_terminal() -> None:
    writers = {"print", "input", "echo", "secho", "print_exc", "writelines"}
    for path in sorted(Path(heterofedsyn.cli.__file__).parent.glob("*.py")):
        if path.name == "_show.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                called = node.func
                name = called.attr if isinstance(called, ast.Attribute) else ""
                name = called.id if isinstance(called, ast.Name) else name
                assert name not in writers, f"{path.name}:{node.lineno}"
            if isinstance(node, ast.Attribute) and node.attr in {"write", "buffer"}:
                streams = {"stdout", "stderr"}
                assert not (isinstance(node.value, ast.Attribute) and node.value.attr in streams), (
                    f"{path.name}:{node.lineno}"
                )


def test_lines_and_tables_escape_all_they_are_given(capsys: pytest.CaptureFixture[str]) -> None:
    _show.note(NASTY)
    _show.say(NASTY)
    _show.say_json({NASTY: [NASTY]})
    _show.show_table(NASTY, [NASTY, NASTY], [[NASTY, NASTY]])
    said = check(*capsys.readouterr())
    for shown in (r"\x1b[2K", r"\u202e", r"\n", "[bold red]", ":boom:"):
        assert shown in said


@given(
    st.lists(st.text(st.characters(codec="ascii"), max_size=300), min_size=3, max_size=3),
)
def test_no_word_however_long_pushes_a_figure_off_the_page(words: list[str]) -> None:
    rows = [[words[0], "1,234", "a" * 32, words[1], "0.001234"], [words[2], "5", "b", "c", "6.789"]]
    with redirect_stdout(io.StringIO()) as page:
        _show.show_table("title", ["when", "entry", "study", "for", "rho"], rows)
    for figure in ("1,234", "0.001234", "6.789"):
        assert figure in page.getvalue()
    assert page.getvalue().count("a") >= 32


@pytest.mark.thorough
def test_a_schema_of_others_is_shown_as_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    hostile_schema().save(Path("schema.toml"))
    first, second = hostile_schema().domain.names
    pq.write_table(pa.table({first: ["v0"], second: ["v9"], f"c{NASTY}": [1]}), "rows.parquet")
    Path("broken.toml").write_text(f"[[columns]]\nname = {json.dumps(NASTY)}\ntype = 'what'\n")
    for words, code in (
        (["schema", "check", "--schema", "schema.toml"], 0),
        (["schema", "check", "--schema", "schema.toml", "--json"], 0),
        (["schema", "check", "--schema", "schema.toml", "--data", "rows.parquet"], 1),
        (["schema", "check", "--schema", "broken.toml"], 2),
        (["schema", "draft", "--data", f"x{ORDERS}.csv", "--out", "out.toml", "--public"], 1),
        (["plan", "--schema", "schema.toml", *TERMS, "--rows", "5000", "--sites", "2"], 0),
        (
            ["plan", "--schema", "schema.toml", *TERMS, "--rows", "5000", "--sites", "2", "--json"],
            0,
        ),
    ):
        assert run(words) == code, capsys.readouterr()
        assert r"x\x1b[2K" in check(*capsys.readouterr()) or "--json" in words


TERMS = ["--epsilon", "1", "--delta", "1e-9"]


@pytest.mark.thorough
def test_a_release_of_others_is_shown_as_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    schema = hostile_schema()
    schema.save(Path("schema.toml"))
    for name in ("one", "two"):
        pq.write_table(hostile_rows(), f"{name}.parquet")
    made = ["simulate", "--schema", "schema.toml", "--method", "independent", "--out", "release"]
    sites = ["--site", f"x{ORDERS[:4]}=one.parquet", "--site", "two=two.parquet"]
    refused = run([*made, *sites, *TERMS])
    check(*capsys.readouterr())
    assert refused == 2  # a site's name is a word
    for words in (
        [*made, "--site", "one=one.parquet", "--site", "two=two.parquet", *TERMS],
        ["sample", "release", "--rows", "5", "--out", "more.csv"],
        ["report", "release", "--out", "page.html"],
        [
            "evaluate",
            "--synthetic",
            "release/synthetic.parquet",
            "--real",
            "one.parquet",
            "--only",
            "tvd",
            "--schema",
            "schema.toml",
        ],
    ):
        code = run(words)
        said = check(*capsys.readouterr())
        assert code == 0, said
    # A terminal is shown letters, a program gets the bytes.
    command = [sys.executable, "-m", "heterofedsyn", "sample", "release", "--rows", "30"]
    piped = subprocess.run(command, capture_output=True, check=True).stdout
    assert b"\x1b" in piped
    ours, theirs = pty.openpty()
    subprocess.run(command, stdout=theirs, check=True)
    seen = os.read(ours, 100_000).decode().replace("\r\n", "\n")
    assert r"\x1b[2K" in seen
    assert not obeyed(seen)  # a cell of a table may have lines of its own


@pytest.mark.thorough
def test_a_study_of_others_is_shown_to_the_steward_as_letters(steward: Steward) -> None:
    unit, schema = f"person{NASTY}", hostile_schema()
    settings = make_site(steward.place, source=str(steward.place / "rows.parquet"), unit=unit)
    schema.save(settings.schema)
    rows = hostile_rows(unit=[f"p{i}" for i in range(80)])
    pq.write_table(rows.rename_columns([*schema.domain.names, unit]), settings.source)
    study = make_study(schema, ("elmwood",), unit=unit, rows_per_unit=1)
    study.save(steward.place / "study.toml")
    for words in (["preview"], ["preview", "--json"], ["approve", "--yes"], ["withdraw"]):
        said = steward(words[0], "study.toml", *words[1:])
        shown = check(said.out, said.err)
        if words in (["preview"], ["approve", "--yes"]):
            assert r"for every person (personx\x1b[2K" in shown


@pytest.mark.thorough
def test_ledger_log_and_receipt_show_what_a_hub_chose_as_letters(
    steward: Steward, monkeypatch: pytest.MonkeyPatch
) -> None:
    import base64

    from cryptography.hazmat.primitives.asymmetric import ed25519

    from heterofedsyn.cli.site.serve import log_line
    from heterofedsyn.marginals.statistics import Flat
    from heterofedsyn.protocol import Part, Query, encode
    from heterofedsyn.site.agent import Agent

    settings = make_site(steward.place)
    study = steward.study()
    steward("approve", "study.toml", "--yes")
    asked = Query(
        study=study.fingerprint, number=0, label=NASTY[:60], parts=(Part(Flat(("a0",)), 0.1),)
    )
    with Books.open(settings.folder, settings.anchor) as books:
        Agent(settings, books, log=log_line).answer(encode(asked))
    check(*steward.capsys.readouterr())
    for words in (["ledger"], ["ledger", "--json"], ["receipt", "study.toml", "--out", "r.json"]):
        said = steward(*words)
        check(said.out, said.err)
    receipt = SignedReceipt.load(Path("r.json")).receipt
    texts = {
        name: NASTY
        for name in receipt.__struct_fields__
        if isinstance(getattr(receipt, name), str) and name != "conversion"
    }
    forged = msgspec.structs.replace(receipt, **{**texts, "unit": f"person:{NASTY}"})
    key = ed25519.Ed25519PrivateKey.generate()
    signed = SignedReceipt(
        forged,
        base64.b64encode(key.public_key().public_bytes_raw()).decode(),
        base64.b64encode(key.sign(canonical(forged))).decode(),
    )
    signed.save(Path("forged.json"))
    for more in ([], ["--json"]):
        said = steward("verify", "forged.json", *more)
        check(said.out, said.err)


class LyingServer:
    """A server of a federation that says what it likes."""

    def __init__(self, study: Study, progress: Progress) -> None:
        self.study, self.progress, self.status = study, progress, ""

    def list_jobs(self) -> list[dict[str, Any]]:
        name = job_module.job_name(self.study)
        return [{"job_name": name, "job_id": f"7{NASTY}", "submit_time": NASTY}]

    def submit_job(self, folder: str) -> str:
        return f"7{NASTY}"

    def get_job_meta(self, job: str) -> dict[str, Any]:
        return {"status": self.status, "job_deploy_detail": [NASTY]}

    def get_connected_client_list(self) -> list[Any]:
        known = SimpleNamespace(name=NASTY, last_connect_time=1.0)
        there = (
            SimpleNamespace(name=site, last_connect_time=2e9) for site in self.study.plan.sites
        )
        return [known, *there]

    def do_app_command(self, job: str, topic: str, data: dict[str, Any]) -> Any:
        return msgspec.to_builtins(self.progress)

    def download_job_result(self, job: str, folder: str) -> str:
        place = Path(folder) / RESULT
        place.mkdir()
        (place / PROGRESS_FILE).write_bytes(msgspec.json.encode(self.progress))
        return folder


def test_progress_that_a_server_made_up_is_shown_as_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    study = make_study()
    study.save(Path("study.toml"))
    rounds = tuple(
        RoundProgress(
            round=number,
            label=NASTY,
            parts=1,
            asked=(NASTY,),
            absent=(Absence(NASTY, NASTY),),
            resumed=number == 1,
            finished=True,
        )
        for number in (1, 2)
    )
    progress = Progress(study=NASTY, state=State.STOPPED, rounds=rounds, message=NASTY)

    server = LyingServer(study, progress)

    @contextmanager
    def connect(kit: Path, user: str | None = None) -> Iterator[Hub]:
        yield Hub(server)

    monkeypatch.setattr(job_module, "connect", connect)
    monkeypatch.setattr(job_module, "unreachable", lambda kit: None)
    Path("startup").mkdir()
    settings = {"admin": {"host": "localhost", "port": 1, "username": "lead@example.org"}}
    Path("startup/fed_admin.json").write_text(json.dumps(settings), "utf-8")
    for status in (f"RUNNING{NASTY}", f"FINISHED{NASTY}"):
        server.status = status
        for more in ([], ["--json"]):
            assert run(["study", "status", "study.toml", "--kit", ".", *more]) == 0
            check(*capsys.readouterr())
    assert (
        run(["study", "run", "study.toml", "--kit", ".", "--wait", "1s", "--out", "release"]) == 1
    )
    assert r"\x1b[2K" in check(*capsys.readouterr())


def test_rules_of_others_are_shown_as_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    columns = [{**column, "name": f"{NASTY}{column['name']}"} for column in RULED]
    word, low, high, whole = (column["name"] for column in columns)
    never = {"never": {word: ["v0", f"v1{NASTY}"], low: {"above": 3}}}
    table = {"v0": f"v1{NASTY}", f"v1{NASTY}": "v0", "v2": "v2"}
    rules = [never, {"order": [low, high]}]
    rules.append({"determines": {"from": word, "to": whole, "table": table}})
    Schema.of({"columns": columns, "rules": rules}).save(Path("schema.toml"))
    rows = {word: ["v0", "v2"] * 2, low: [4, 3] * 2, high: [5, 1] * 2, whole: ["v2", "v2"] * 2}
    pq.write_table(pa.table(rows), "rows.parquet")
    words = ["schema", "check", "--schema", "schema.toml", "--data", "rows.parquet"]
    for more in ([], ["--details", "details.txt"], ["--most-misfit", "1"]):
        run([*words, *more])
        assert r"x\x1b[2K" in check(*capsys.readouterr())
    kept = Path("details.txt").read_text()
    assert all(f"rule {number} (" in check(kept, "") for number in (1, 2, 3))
    assert len(kept.splitlines()) == 1 + 3
    for bad in (
        [{"never": {word: NASTY}}],
        [{"never": {low: {"above": 9}}}],
        [{"never": {low: {"below": NASTY}}}],
        [{"order": [low, word]}],
        [{"order": [low, high]}, {"order": [high, low]}, {"never": {low: {"to": 5}}}],
        [{"determines": {"from": word, "to": whole, "table": {NASTY: "v0"}}}],
    ):
        Path("bad.toml").write_text(to_toml({"columns": columns, "rules": bad}))
        assert run(["schema", "check", "--schema", "bad.toml"]) == SchemaError.exit_code
        check(*capsys.readouterr())


VALUES = ["v0", f"v1{NASTY}", "v2"]
RULED: list[dict[str, Any]] = [
    {"name": "word", "type": "categorical", "values": VALUES},
    {"name": "low", "type": "integer", "min": 0, "max": 9},
    {"name": "high", "type": "integer", "min": 0, "max": 9},
    {"name": "whole", "type": "categorical", "values": VALUES},
]
