"""A real NVFlare federation on this machine, set up and run as docs/federation.md says."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from heterofedsyn.cli.app import run
from heterofedsyn.engines.nvflare import job
from heterofedsyn.engines.nvflare.hardening import AUTHORIZATION, CONTROLLER, EXECUTOR
from heterofedsyn.engines.nvflare.job import connect, write_job
from heterofedsyn.engines.nvflare.progress import Progress
from heterofedsyn.federation.engine_checks import check_engine
from heterofedsyn.federation.party import Party
from heterofedsyn.hub import make_method
from heterofedsyn.hub.methods.base import settings_of
from heterofedsyn.protocol import Plan, Study
from heterofedsyn.simulate import FederatedSynthesizer
from heterofedsyn.simulate.hospitals import hospital_schema, hospitals
from nvflare_support import (
    AGENT,
    BIN,
    COORDINATOR,
    ENGINE,
    GUIDE,
    HUB,
    SERVER,
    SIMULATED,
    Federation,
    federation,
    until,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SITES = ("elmwood", "kingsbridge", "lakeside")
SEED = 11
SCHEMA = hospital_schema()
TABLES = {name: rows for name, rows in hospitals(patients=6_000).items() if name in SITES}


@pytest.fixture(scope="module")
def federated() -> Iterator[Federation]:
    # Paths of sockets are short, so the folder's must be.
    root = Path(tempfile.mkdtemp(prefix="hfs"))
    try:
        with federation(root, TABLES, SCHEMA) as made:
            made.gated_agents(*SITES)
            yield made
    finally:
        shutil.rmtree(root)


def make_study(method: str, quorum: int, seed: int = SEED) -> Study:
    made = make_method(method)
    plan = Plan(
        schema=SCHEMA.fingerprint,
        encoding=made.encoding(SCHEMA).fingerprint,
        epsilon=1.0,
        delta=1e-9,
        sites=SITES,
        method=method,
        settings=settings_of(made),
        seed=seed,
    )
    schema = tomllib.loads(SCHEMA.to_toml())
    return Study(plan=plan, schema=schema, quorum=quorum)


def approve(federated: Federation, study: Study) -> None:
    """Hand the study to everyone; every steward approves it."""
    for role in (COORDINATOR, *SITES):
        study.save(federated.folder(role) / "study.toml")
    for site in SITES:
        assert f"approved {study.fingerprint}" in federated.run("steward.sh", site)
    shutil.rmtree(federated.folder(COORDINATOR) / "release", ignore_errors=True)


def release_of(federated: Federation) -> Path:
    return federated.folder(COORDINATOR) / "release"


def started(federated: Federation) -> subprocess.Popen[bytes]:
    """`study run`, on its own."""
    federated.spawn(
        "run",
        [
            "bash",
            "-euc",
            f"cd {federated.folder(COORDINATOR)}; exec {federated.page('run.sh', COORDINATOR)}",
        ],
        federated.environment(),
    )
    return federated.processes["run"]


def progress_of(federated: Federation, study: Study) -> Progress | None:
    """How far the study is, as the hub wrote it down."""
    found = sorted(
        federated.folder(HUB).glob("kit/*/heterofedsyn/progress.json"),
        key=lambda path: path.stat().st_mtime,
    )
    progress = msgspec.json.decode(found[-1].read_bytes(), type=Progress) if found else None
    return progress if progress and progress.study == study.fingerprint else None


def waits_in(federated: Federation, study: Study, number: int, answered: int) -> bool:
    """Whether a round is under way, and so many sites have answered it."""
    progress = progress_of(federated, study)
    return progress is not None and any(
        found.round == number and len(found.answered) == answered and not found.finished
        for found in progress.rounds
    )


def charges(federated: Federation, site: str, study: Study) -> list[str]:
    found: Any = federated.ledger(site)["charges"]
    return [charge["label"] for charge in found if charge["study"] == study.fingerprint]


def test_nvflare_and_a_simulation_of_the_same_tables_give_the_same_bytes(
    federated: Federation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    terms: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-9, "noise_seed": SEED}
    simulated = FederatedSynthesizer(SCHEMA, **terms).fit({name: TABLES[name] for name in SITES})
    study = make_study("wavetree", quorum=3)
    assert simulated.release.run.study == study.fingerprint
    simulated.save(tmp_path / "simulated")
    approve(federated, study)
    federated.gated_agents(*SITES, seed=SEED)
    # The server's own controller takes no such noise; one that does must be named and allowed.
    monkeypatch.setattr(job, "CONTROLLER", SIMULATED)
    monkeypatch.chdir(federated.folder(COORDINATOR))
    assert run(shlex.split(GUIDE["run.sh"])[1:]) == 0
    said = capsys.readouterr().err
    assert "round 4: pairs" in said
    assert said.count("3 of 3 sites answered") == 4
    for path in (tmp_path / "simulated").iterdir():
        assert path.read_bytes() == (release_of(federated) / path.name).read_bytes(), path.name
    assert (release_of(federated) / "report.html").exists()
    assert "FINISHED:COMPLETED" in federated.run("status.sh", COORDINATOR)
    for site in SITES:
        assert charges(federated, site, study) == ["total", "one-way", "scores", "pairs"]
    federated.gated_agents(*SITES)


def test_nvflare_study_goes_on_without_a_site_that_dies_and_one_that_is_late(
    federated: Federation,
) -> None:
    study = make_study("allmarg", quorum=1, seed=SEED + 1)
    approve(federated, study)
    for site in SITES[1:]:
        federated.hold(site, 1)
    run = started(federated)
    until(lambda: waits_in(federated, study, 2, 1), "two sites that do not answer round 2", 150)
    federated.end(f"{SITES[2]} {AGENT}")
    assert run.wait(300) == 0, federated.log("run").read_text()
    record = json.loads((release_of(federated) / "run.json").read_text())
    assert [(m["site"], m["round"], m["reason"]) for m in record["missed"]] == [
        (SITES[1], 2, "gave no answer"),
        (SITES[2], 2, "gave no answer"),
    ]
    assert record["scaled"][0]["round"] == 2
    booked = json.loads((release_of(federated) / "privacy.json").read_text())["sites"]
    assert {len(site["charges"]) for site in booked} == {2}
    assert charges(federated, SITES[1], study) == ["one-way"]
    # A late answer is ignored by the hub, and remains paid.
    for site in SITES[1:]:
        federated.hold(site, None)
    until(lambda: len(charges(federated, SITES[1], study)) == 2, "a late answer is paid for")
    assert charges(federated, SITES[2], study) == ["one-way"]
    federated.gated_agents(SITES[2])


def test_nvflare_hub_is_killed_then_below_quorum_then_resumed_and_nobody_pays_twice(
    federated: Federation,
) -> None:
    study = make_study("allmarg", quorum=3, seed=SEED + 2)
    approve(federated, study)
    federated.hold(SITES[0], 1)
    started(federated)
    until(lambda: waits_in(federated, study, 2, 2), "a site that does not answer round 2", 150)
    federated.end(f"{HUB} {SERVER}", signal.SIGKILL)
    federated.end("run")
    federated.end(f"{SITES[0]} {AGENT}")
    federated.hold(SITES[0], None)
    federated.server()
    until(lambda: federated.connected() == {*SITES}, "sites back at the server", 150)
    said = federated.run("resume.sh", COORDINATOR, ok=False)
    assert "round 1: one-way, from the journal" in said
    assert "at least 3 of 3 sites, but 2 are left: site 'elmwood' refused (unavailable)" in said
    assert not release_of(federated).exists()
    federated.agent(SITES[0])  # the real one, as its unit starts it
    said = federated.run("resume.sh", COORDINATOR)
    assert "round 1: one-way, from the journal" in said
    assert "round 2: pairs, 136 releases, 3 of 3 sites answered" in said
    for site in SITES:
        assert charges(federated, site, study) == ["one-way", "pairs"]
    record = json.loads((release_of(federated) / "run.json").read_text())
    assert "missed" not in record
    # Without --resume it is not begun anew: its rounds are there, and paid for.
    shutil.rmtree(release_of(federated))
    assert "--resume" in federated.run("run.sh", COORDINATOR, ok=False)


def test_nvflare_site_refuses_a_job_that_carries_code(federated: Federation) -> None:
    study = make_study("allmarg", quorum=3, seed=SEED + 3)
    approve(federated, study)
    job = write_job(study, federated.root / "code")
    (job / "site" / "custom").mkdir()
    (job / "site" / "custom" / "mine.py").write_text("class Mine: ...\n")
    with connect(federated.folder(COORDINATOR) / "kit") as hub:
        number = hub._session.submit_job(str(job))
        list(hub.follow(number))
        assert hub.status(number) == "FINISHED:FAILED_TO_RUN"
        detail = hub.detail(number)
    assert "server" not in detail
    for site in SITES:
        assert f"{site}: NVFLARE_ERROR: BYOC not permitted" in detail
        assert charges(federated, site, study) == []


def test_nvflare_doctor_reaches_the_hub_and_a_kit_is_as_hardened(federated: Federation) -> None:
    line = federated.page("doctor.sh", SITES[0]).strip() + " --json"
    said = federated.command(["bash", "-euc", line], SITES[0], ok=False)
    found = {one["rule"]: one["state"] for one in json.loads(said)["findings"]}
    # Users are not apart here, and the disk is one; all that is about kit and hub is as it must be.
    kept = ("code refused", "allow list", "log streaming", "connection", "root certificate")
    for rule in (
        *kept,
        "versions unchanged",
        "certificate",
        "code beside the kit",
        "hub reachable",
        "clock",
    ):
        assert found[rule] == "ok", rule
    engine = check_engine(Party.load(federated.folder(SITES[0])), os.getuid())
    assert engine.state == "ok", engine.words
    for role in (SITES[0], HUB):
        kit = federated.folder(role) / "kit" / "local"
        assert json.loads((kit / "authorization.json").read_text()) == AUTHORIZATION
        allowed = json.loads((kit / "resources.json").read_text())["class_allow_list"]
        assert allowed == ([EXECUTOR] if role != HUB else [CONTROLLER, SIMULATED])


def test_nvflare_certificate_is_renewed_by_the_guide_and_a_removed_site_is_let_in_no_more(
    federated: Federation,
) -> None:
    renewed, gone = SITES[:2]
    folder = federated.folder(renewed)
    federated.run("renew-join.sh", renewed)
    shutil.copy(folder / f"{renewed}.request.zip", federated.root)
    federated.command(["bash", "-euc", federated.page("renew-admit.sh", renewed)], HUB)
    shutil.copy(federated.root / f"{renewed}.signed.zip", folder)
    federated.run("renew-kit.sh", renewed)
    before, after = (
        (folder / kit / "startup" / "client.crt").read_text() for kit in ("kit-before", "kit")
    )
    assert before != after
    own = federated.folder(HUB) / "kit" / "startup" / "server.crt"
    former = own.read_text()
    federated.run("renew-server.sh", HUB)
    assert own.read_text() != former
    federated.command(["bash", "-euc", federated.page("remove.sh", gone)], HUB)
    # The server's key is another one, so that no engine comes back by itself.
    for name in (f"{HUB} {SERVER}", *(f"{site} {ENGINE}" for site in SITES)):
        federated.end(name)
    federated.server()
    for site in SITES:
        federated.start(ENGINE, site)
    log = federated.log(f"{HUB} {SERVER}")
    refused = f"Reject disabled client registration: {gone}"
    until(lambda: refused in log.read_text(), "a removed site is refused", 150)
    until(lambda: federated.connected() == {renewed, SITES[2]}, "the others are let in", 150)


def test_nvflare_steward_leaves_and_the_root_is_renewed_by_the_guide(
    federated: Federation,
) -> None:
    study = Study.load(federated.folder(SITES[0]) / "study.toml")
    said = federated.run("withdraw.sh", SITES[0])
    assert f"consent to {study.fingerprint} is withdrawn" in said
    federated.run("new-root.sh", HUB)
    fresh = Party.load(federated.root / "hospitals-2" / "hub")
    assert fresh.fingerprint != Party.load(federated.folder(HUB)).fingerprint
    assert fresh.folder == federated.folder(HUB)


def test_nvflare_study_package_prints_what_kits_say(federated: Federation) -> None:
    program = str(BIN / "heterofedsyn")
    said = federated.command(
        [program, "study", "package", "study.toml", "--out", "job"], COORDINATOR
    )
    for needed in (EXECUTOR, CONTROLLER, '"byoc": "none"'):
        assert needed in said
    files = {
        str(p.relative_to(federated.folder(COORDINATOR) / "job"))
        for p in (federated.folder(COORDINATOR) / "job").rglob("*.*")
    }
    assert files == {
        "meta.json",
        "server/config/config_fed_server.json",
        "site/config/config_fed_client.json",
    }
