"""A real Flower federation on this machine, set up and run as docs/flower.md says."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from ast import literal_eval
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from engine_real import (
    SCHEMA,
    SEED,
    SITES,
    TABLES,
    RealEngine,
    approve,
    charges,
    make_study,
    release_of,
)
from flower_support import FlowerFederation
from heterofedsyn._defaults import SITE_OF_KIT
from heterofedsyn.cli.app import run
from heterofedsyn.engines.flower import bundle
from heterofedsyn.engines.session import ended
from heterofedsyn.federation.engine_checks import check_engine
from heterofedsyn.federation.party import Party
from heterofedsyn.protocol.plan import Aggregation
from nvflare_support import COORDINATOR, until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def federated() -> Iterator[FlowerFederation]:
    # Paths of sockets are short, so the folder's must be.
    root = Path(tempfile.mkdtemp(prefix="hff"))
    try:
        with FlowerFederation.running(root, TABLES, SCHEMA) as made:
            made.gated_agents(*SITES)
            yield made
    finally:
        shutil.rmtree(root)


class TestFlower(RealEngine):
    """Every law of engines, kept by Flower."""


def test_flower_site_opens_nothing_that_a_submitter_ships(federated: FlowerFederation) -> None:
    """A bundle whose ClientApp would leave a trace runs nowhere but at the hub."""
    from flwr.cli.build import build_fab_from_files
    from flwr.common.serde import fab_to_proto
    from flwr.proto.control_pb2 import StartRunRequest
    from flwr.supercore.fab import Fab

    trace, heard = federated.root / "trace", federated.root / "heard"
    shipped = f"""
from pathlib import Path
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

Path({str(trace)!r}).open("a").write(__name__)
client = ClientApp()

@client.query()
def answer(message, context):
    Path({str(trace)!r}).open("a").write("client")
    return Message(RecordDict(), reply_to=message)

server = ServerApp()

@server.main()
def main(grid, context):
    nodes = [*grid.get_nodes()]
    asked = [
        Message(RecordDict({{"heterofedsyn": ConfigRecord({{"query": b"rows?", "seconds": 5.0}})}}),
                node.node_id, "query", ttl=60.0)
        for node in nodes
    ]
    said = [
        (reply.has_content(), reply.has_content() and dict(reply.content["heterofedsyn"]))
        for reply in grid.send_and_receive(asked, timeout=60)
    ]
    Path({str(heard)!r}).write_text(repr(said))
"""
    text = bundle.bundle_text()
    text = text.replace(bundle.SERVER_APP, "shipped:server")
    text = text.replace(bundle.CLIENT_APP, "shipped:client")
    files = {"pyproject.toml": text.encode(), "shipped.py": shipped.encode()}
    content, _ = build_fab_from_files(files)
    fab = Fab(hashlib.sha256(content).hexdigest(), content, {})
    with federated.server_of().connect() as session:
        number = str(session._client.StartRun(StartRunRequest(fab=fab_to_proto(fab))).run_id)
        until(lambda: ended(session.status(number)), "the run ends", 150)
        assert session.status(number) == "FINISHED:COMPLETED"
    assert trace.read_text() == "shipped"  # once, at the hub
    said = literal_eval(heard.read_text())
    assert len(said) == len(SITES)
    assert all(content and {*fields} == {"reason"} for content, fields in said)


def test_flower_carries_a_study_under_secure_aggregation(federated: FlowerFederation) -> None:
    for site in SITES:
        federated.run("alone.sh", site)
        for other in SITES:
            if other != site:
                key = federated.folder(other) / SITE_OF_KIT / "key.pub"
                place = str(federated.folder(site) / SITE_OF_KIT)
                confirm = ["site", "peer", "add", other, str(key), "--yes", "--folder", place]
                assert run(confirm) == 0
    federated.gated_agents(*SITES)
    keys = {
        site: (federated.folder(site) / SITE_OF_KIT / "key.pub").read_text().strip()
        for site in SITES
    }
    plain = make_study("independent", quorum=3, seed=SEED + 4)
    hidden = Aggregation(1, 3, keys)
    plan = replace(plain.plan, epsilon=0.5, trust="secure-aggregation", aggregation=hidden)
    study = replace(plain, plan=plan)
    approve(federated, study)
    said = federated.run("run.sh", COORDINATOR)
    for step in ("keys of all sites", "masked", "agree", "open"):
        assert step in said
    statement = json.loads((release_of(federated) / "privacy.json").read_text())
    assert all({*found["sites"]} == {*SITES} for found in statement["sums"])
    for site in SITES:
        assert len(charges(federated, site, study)) == len(statement["sums"])


def test_flower_doctor_reaches_the_hub_and_finds_no_code_run(federated: FlowerFederation) -> None:
    line = federated.page("doctor.sh", SITES[0]).strip() + " --json"
    said = federated.command(["bash", "-euc", line], SITES[0], ok=False)
    found = {one["rule"]: one["state"] for one in json.loads(said)["findings"]}
    # Users are not apart here, and the disk is one; all that is about kit and hub is as it must be.
    for rule in (
        "code refused",
        "root certificate",
        "versions unchanged",
        "hub reachable",
        "clock",
    ):
        assert found[rule] == "ok", rule
    engine = check_engine(Party.load(federated.folder(SITES[0])), os.getuid())
    assert engine.state == "ok", engine.words
