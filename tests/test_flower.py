"""A real Flower federation on this machine, set up and run as docs/flower.md says."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import ssl
import tempfile
import urllib.error
import urllib.request
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
from flower_support import NGINX, RELAY, FlowerFederation
from heterofedsyn._defaults import SITE_OF_KIT
from heterofedsyn.cli.app import run
from heterofedsyn.engines.flower import bundle
from heterofedsyn.engines.flower.superlink import SuperLink
from heterofedsyn.engines.session import ended
from heterofedsyn.errors import EngineError
from heterofedsyn.federation.engine_checks import check_engine
from heterofedsyn.federation.flower_site import harden_flower
from heterofedsyn.federation.party import Party
from heterofedsyn.protocol.plan import Aggregation
from nvflare_support import COORDINATOR, ENGINE, HUB, until
from rounds import timed

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


@pytest.mark.skipif(NGINX is None, reason="the proxy of the guide is nginx: install it")
def test_flower_proxy_of_the_guide_lets_sites_through_and_nobody_submit(
    federated: FlowerFederation,
) -> None:
    assert federated.connected() == {*SITES}
    hub = federated.folder(HUB)
    for port, let_in in ((federated.port, True), (federated.gate, False)):
        server = SuperLink(f"localhost:{port}", hub / "root.pem", hub / "studies")
        with server.connect() as session:
            if let_in:
                assert {*session.heard()} == {*SITES}
                continue
            with pytest.raises(EngineError):
                session.heard()
            with pytest.raises(EngineError):
                session.submit(make_study("allmarg", quorum=3), resume=False)
    context = ssl.create_default_context(cafile=str(hub / "root.pem"))
    for place in ("control/ListRuns", "runtime/PullTaskInput", "fleet/../control/ListRuns", ""):
        asked = urllib.request.Request(f"https://localhost:{federated.gate}/v1/{place}", b"")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(asked, context=context)
        refused.value.close()
        assert refused.value.code == 403, place


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


def test_flower_site_may_decide_to_run_what_is_shipped_and_its_agent_answers_all_the_same(
    federated: FlowerFederation,
) -> None:
    """The ClientApp: Flower starts it for every message, beside relays of other sites."""
    site = SITES[1]
    harden_flower(federated.folder(site), runs_apps=True)
    federated.end(f"{site} {RELAY}")
    # A SuperNode that says farewell is let in at once, one that was killed when it is missed.
    federated.end(f"{site} {ENGINE}", signal.SIGTERM)
    federated.start(ENGINE, site)
    log = federated.log(f"{site} {ENGINE}")
    until(lambda: "SuperNode ID" in log.read_text(), "the SuperNode is back")
    study = make_study("allmarg", quorum=3, seed=SEED + 5)
    approve(federated, study)
    found = timed(federated, study)
    assert len(found.rounds) == 2
    assert min(found.rounds) > 0
    record = json.loads((release_of(federated) / "run.json").read_text())
    assert "missed" not in record
    for each in SITES:
        assert charges(federated, each, study) == ["one-way", "pairs"]
