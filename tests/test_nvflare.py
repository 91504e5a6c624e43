"""A real NVFlare federation on this machine, set up and run as docs/federation.md says."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine_real import SCHEMA, SEED, SITES, TABLES, RealEngine, approve, charges, make_study
from heterofedsyn.engines.nvflare.hardening import AUTHORIZATION, CONTROLLER, EXECUTOR
from heterofedsyn.engines.nvflare.job import connect, write_job
from heterofedsyn.federation.engine_checks import check_engine
from heterofedsyn.federation.party import Party
from heterofedsyn.protocol import Study
from nvflare_support import (
    BIN,
    COORDINATOR,
    ENGINE,
    HUB,
    SERVER,
    SIMULATED,
    Federation,
    until,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def federated() -> Iterator[Federation]:
    # Paths of sockets are short, so the folder's must be.
    root = Path(tempfile.mkdtemp(prefix="hfs"))
    try:
        with Federation.running(root, TABLES, SCHEMA) as made:
            made.gated_agents(*SITES)
            yield made
    finally:
        shutil.rmtree(root)


class TestNVFlare(RealEngine):
    """Every law of engines, kept by NVFlare."""


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
