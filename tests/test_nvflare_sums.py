"""A real NVFlare federation of five sites under secure aggregation, as docs/federation.md says."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from heterofedsyn._defaults import SITE_OF_KIT
from heterofedsyn.engines.nvflare import job
from heterofedsyn.engines.progress import Progress, RoundProgress
from heterofedsyn.hub.methods import make_method
from heterofedsyn.hub.methods.base import settings_of
from heterofedsyn.protocol import Plan, Study
from heterofedsyn.protocol.plan import Aggregation
from heterofedsyn.schema import encode
from heterofedsyn.simulate.hospitals import hospital_schema, hospitals
from heterofedsyn.simulate.run import run_study
from heterofedsyn.sources import open_source
from nvflare_support import (
    AGENT,
    BIN,
    COORDINATOR,
    HUB,
    SERVER,
    SIMULATED,
    Federation,
    until,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]

SCHEMA = hospital_schema()
TABLES = {
    # NVFlare takes no hyphen in the name of an organisation.
    name.replace("st-anna", "southport"): rows
    for name, rows in hospitals(patients=4_000).items()
}
SITES = tuple(TABLES)
SEED = 23


@pytest.fixture(scope="module")
def federated() -> Iterator[Federation]:
    root = Path(tempfile.mkdtemp(prefix="hfs"))  # paths of sockets are short
    try:
        with Federation.running(root, TABLES, SCHEMA) as made:
            for site in SITES:
                made.run("alone.sh", site)
            for site in (*SITES, COORDINATOR):
                for other in SITES:
                    shutil.copy(
                        made.folder(other) / SITE_OF_KIT / "key.pub",
                        made.folder(site) / f"{other}.pub",
                    )
            made.run("peer.sh", SITES[0])
            for site in SITES:
                for other in SITES:
                    if other != site:
                        confirm = ["site", "peer", "add", other, f"{other}.pub", "--yes"]
                        made.command([str(BIN / "heterofedsyn"), *confirm], site)
            made.gated_agents(*SITES, seed=SEED)
            yield made
    finally:
        shutil.rmtree(root)


def make_study(federated: Federation, method: str, quorum: int, seed: int) -> Study:
    keys = {
        site: (federated.folder(site) / SITE_OF_KIT / "key.pub").read_text().strip()
        for site in SITES
    }
    made = make_method(method)
    plan = Plan(
        schema=SCHEMA.fingerprint,
        encoding=made.encoding(SCHEMA).fingerprint,
        epsilon=0.5,
        delta=1e-9,
        sites=SITES,
        trust="secure-aggregation",
        aggregation=Aggregation(1, quorum, keys),
        method=method,
        settings=settings_of(made),
        seed=seed,
    )
    study = Study(plan=plan, schema=SCHEMA.settings, quorum=quorum, patience=60)
    for role in (COORDINATOR, *SITES):
        study.save(federated.folder(role) / "study.toml")
    for site in SITES:
        said = federated.run("steward.sh", site)
        assert f"approved {study.fingerprint}" in said
    shutil.rmtree(release_of(federated), ignore_errors=True)
    return study


def release_of(federated: Federation) -> Path:
    return federated.folder(COORDINATOR) / "release"


RUN = """
import sys
from heterofedsyn.engines.nvflare import job
job.CONTROLLER = sys.argv.pop(1)
from heterofedsyn.cli.app import run
sys.exit(run(sys.argv[1:]))
"""
"""`study run`, by a controller that takes the noise of a simulation."""


def started(federated: Federation, *more: str) -> subprocess.Popen[bytes]:
    command = ["study", "run", "study.toml", "--kit", "kit", "--out", "release", *more]
    line = f"cd {federated.folder(COORDINATOR)}; "
    line += f"exec python -c '{RUN}' {SIMULATED} {' '.join(command)}"
    federated.spawn("run", ["bash", "-euc", line], federated.environment())
    return federated.processes["run"]


def ended(federated: Federation, process: subprocess.Popen[bytes]) -> str:
    code = process.wait(300)
    said = federated.log("run").read_text()
    federated.processes.pop("run", None)
    assert code == 0, said
    return said


def steps_of(federated: Federation, study: Study) -> tuple[RoundProgress, ...]:
    found = sorted(
        federated.folder(HUB).glob("kit/*/heterofedsyn/progress.json"),
        key=lambda path: path.stat().st_mtime,
    )
    progress = msgspec.json.decode(found[-1].read_bytes(), type=Progress) if found else None
    return progress.rounds if progress and progress.study == study.fingerprint else ()


def waits_at(federated: Federation, study: Study, step: str, answered: int) -> bool:
    return any(
        found.step == step and len(found.answered) >= answered and not found.finished
        for found in steps_of(federated, study)
    )


def simulated(study: Study, place: Path) -> Path:
    """The release that a simulation of the same tables makes, with the same noise."""
    method = make_method(study.plan.method, study.plan.settings)
    schema = method.encoding(SCHEMA)
    tables = [encode(schema, open_source(TABLES[name]).batches()).table for name in SITES]
    release = run_study(schema, study.plan, method, tables, noise_seed=SEED)
    return release.save(place, rows=release.run.noisy_total)


def check_same(federated: Federation, study: Study, place: Path) -> None:
    for path in simulated(study, place).iterdir():
        assert path.read_bytes() == (release_of(federated) / path.name).read_bytes(), path.name


def charges(federated: Federation, site: str, study: Study) -> list[str]:
    found = federated.ledger(site)["charges"]
    assert isinstance(found, list)
    return [charge["label"] for charge in found if charge["study"] == study.fingerprint]


def test_a_study_over_nvflare_and_a_simulation_give_the_same_bytes(
    federated: Federation, tmp_path: Path
) -> None:
    study = make_study(federated, "wavetree", 5, SEED)
    said = ended(federated, started(federated))
    for step in ("keys", "masked", "agree", "open"):
        assert step in said
    check_same(federated, study, tmp_path / "simulated")
    statement = json.loads((release_of(federated) / "privacy.json").read_text())
    assert (statement["colluding"], statement["quorum"]) == (1, 5)
    assert all(set(found["sites"]) == {*SITES} for found in statement["sums"])
    for site in SITES:
        assert charges(federated, site, study) == ["total", "one-way", "scores", "pairs"]
    receipt = federated.run("receipt.sh", SITES[0])
    assert (
        "secure-aggregation" in (federated.folder(SITES[0]) / "agent" / "receipt.json").read_text()
    )
    assert receipt


def test_a_site_that_dies_after_its_masked_answer_is_made_good_by_the_others(
    federated: Federation, tmp_path: Path
) -> None:
    study = make_study(federated, "independent", 5, SEED + 1)
    for site in SITES[:2]:
        federated.hold(site, "open")
    run = started(federated)
    until(lambda: waits_at(federated, study, "open", 3), "two sites that do not open", 150)
    federated.end(f"{SITES[0]} {AGENT}")
    for site in SITES[:2]:
        federated.hold(site, None)
    ended(federated, run)
    check_same(federated, study, tmp_path / "simulated")
    federated.gated_agents(SITES[0], seed=SEED)


def test_without_a_site_before_masked_the_others_of_a_quorum_go_on_and_wait_for_one_to_open(
    federated: Federation,
) -> None:
    study = make_study(federated, "independent", 4, SEED + 2)
    federated.hold(SITES[4], "masked")
    federated.hold(SITES[0], "open")
    run = started(federated)
    until(lambda: waits_at(federated, study, "masked", 4), "one site that does not mask", 150)
    federated.end(f"{SITES[4]} {AGENT}")
    federated.hold(SITES[4], None)
    until(lambda: waits_at(federated, study, "open", 3), "one site that does not open", 150)
    federated.end(f"{SITES[0]} {AGENT}")
    federated.hold(SITES[0], None)
    federated.gated_agents(SITES[0], seed=SEED)  # back within the study's patience, or resumed
    if run.wait(300) != 0:
        said = federated.log("run").read_text()
        federated.processes.pop("run")
        assert "--resume" in said
        run = started(federated, "--resume")
    ended(federated, run)
    statement = json.loads((release_of(federated) / "privacy.json").read_text())
    assert {len(found["sites"]) for found in statement["sums"]} == {4}
    assert all(SITES[4] not in found["sites"] for found in statement["sums"])
    record = json.loads((release_of(federated) / "run.json").read_text())
    assert {missed["site"] for missed in record["missed"]} == {SITES[4]}
    federated.gated_agents(SITES[4], seed=SEED)


@pytest.mark.parametrize(("number", "step"), enumerate(["keys", "masked", "agree", "open"]))
def test_the_hub_is_killed_at_any_step_and_resumed_with_the_same_bytes(
    federated: Federation, tmp_path: Path, number: int, step: str
) -> None:
    study = make_study(federated, "independent", 5, SEED + 3 + number)
    federated.hold(SITES[0], step)
    started(federated)
    until(lambda: waits_at(federated, study, step, 4), f"a site that waits at {step}", 150)
    federated.end(f"{HUB} {SERVER}", signal.SIGKILL)
    federated.end("run")
    federated.hold(SITES[0], None)
    federated.server()
    until(lambda: federated.connected() == {*SITES}, "sites back at the server", 150)
    ended(federated, started(federated, "--resume"))
    check_same(federated, study, tmp_path / "simulated")
    for site in SITES:
        assert charges(federated, site, study) == ["one-way"]


def test_the_job_of_the_guide_is_the_one_that_ran(federated: Federation) -> None:
    said = federated.command(
        [
            "bash",
            "-euc",
            federated.page("sum-study.sh", COORDINATOR).replace(
                "--out study.toml", "--out written.toml"
            ),
        ],
        COORDINATOR,
    )
    written = Study.load(federated.folder(COORDINATOR) / "written.toml")
    assert written.fingerprint in said
    assert written.plan.trust == "secure-aggregation"
    assert {*written.plan.roster} == {*SITES}
    assert written.quorum == 4
    assert job.job_name(written)
