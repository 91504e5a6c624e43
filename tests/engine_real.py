"""Laws that every engine keeps with real processes: a hub, sites and their agents, over TLS.

`RealEngine` is inherited by the tests of each engine, whose module has a fixture `federated`.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from heterofedsyn._defaults import PATIENCE
from heterofedsyn.cli.app import run
from heterofedsyn.engines.progress import Progress
from heterofedsyn.hub import make_method
from heterofedsyn.hub.methods.base import settings_of
from heterofedsyn.protocol import Plan, Study
from heterofedsyn.simulate import FederatedSynthesizer
from heterofedsyn.simulate.hospitals import hospital_schema, hospitals
from nvflare_support import AGENT, COORDINATOR, Federation, until

SITES = ("elmwood", "kingsbridge", "lakeside")
SEED = 11
SCHEMA = hospital_schema()
TABLES = {name: rows for name, rows in hospitals(patients=6_000).items() if name in SITES}


def make_study(method: str, quorum: int, seed: int = SEED, patience: float = PATIENCE) -> Study:
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
    return Study(plan=plan, schema=schema, quorum=quorum, patience=patience)


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
    found = sorted(federated.progress_files(), key=lambda path: path.stat().st_mtime)
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


class RealEngine:
    """What holds whichever engine carries the messages."""

    def test_it_and_a_simulation_of_the_same_tables_give_the_same_bytes(
        self,
        federated: Federation,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        terms: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-9, "noise_seed": SEED}
        simulated = FederatedSynthesizer(SCHEMA, **terms).fit(
            {name: TABLES[name] for name in SITES}
        )
        study = make_study("wavetree", quorum=3)
        assert simulated.release.run.study == study.fingerprint
        simulated.save(tmp_path / "simulated")
        approve(federated, study)
        federated.gated_agents(*SITES, seed=SEED)
        federated.take_simulated(monkeypatch)
        monkeypatch.chdir(federated.folder(COORDINATOR))
        line = federated.page("run.sh", COORDINATOR).replace("\\\n", "")
        assert run(shlex.split(line)[1:]) == 0
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

    def test_a_study_goes_on_without_a_site_that_dies_and_one_that_is_late(
        self, federated: Federation
    ) -> None:
        study = make_study("allmarg", quorum=1, seed=SEED + 1, patience=20.0)
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

    def test_a_hub_is_killed_then_below_quorum_then_resumed_and_nobody_pays_twice(
        self, federated: Federation
    ) -> None:
        study = make_study("allmarg", quorum=3, seed=SEED + 2)
        approve(federated, study)
        federated.hold(SITES[0], 1)
        started(federated)
        until(lambda: waits_in(federated, study, 2, 2), "a site that does not answer round 2", 150)
        federated.end_server()
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
