"""`site doctor` at a site that Flower carries: what protects there is checked line by line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from federation_support import AS_ROOT, Machine, by_flower, changed, machine, opened
from heterofedsyn.cli.app import run
from heterofedsyn.errors import PrivacyRefusal, UsageError
from heterofedsyn.federation import flower_site, unit_checks
from heterofedsyn.federation.flower_site import harden_flower, join_flower
from heterofedsyn.federation.services import services
from test_doctor import PLANTED, Planted, Undo, check_noticed, examined, planted

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(120)]

OF_NVFLARE_ALONE = {
    "code is let in",
    "shell commands are let in",
    "another class may be used",
    "the allow list only warns",
    "the log is streamed",
    "code lies in the kit",
    "TLS without certificates",
    "a key is left over",
}


@pytest.fixture(scope="module")
def site() -> Iterator[Machine]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (flower_site, unit_checks):  # Flower is in another environment
            patch.setattr(module, "flower_version", lambda: "1.41.0")
        with machine(by_flower) as made:
            yield from examined(made)


@pytest.fixture(scope="module")
def healthy(site: Machine) -> set[str]:
    return set(site.wrong())


def apps_are_run(site: Machine) -> Undo:
    """The steward lets the SuperNode run what submitters ship."""

    def install() -> None:
        for service in services(harden_flower(site.party.folder, runs_apps=True)):
            (site.units / service.file).write_text(service.unit())
        site.run_engine()

    install()

    def undo() -> None:
        for service in services(harden_flower(site.party.folder)):
            (site.units / service.file).write_text(service.unit())
        site.run_engine()

    return undo


def started(change: Callable[[str], str]) -> Callable[[Machine], Undo]:
    """The engine's processes are others than its units say."""

    def plant(site: Machine) -> Undo:
        site.run_engine(change)
        return site.run_engine

    return plant


def supernode_runs_apps_after_all(site: Machine) -> Undo:
    path = site.units / f"{site.party.prefix}-engine.service"
    return changed(path, lambda text: text.replace("--isolation process", "--isolation subprocess"))


def relay_has_another_socket(site: Machine) -> Undo:
    path = site.units / f"{site.party.prefix}-relay.service"
    return changed(
        path, lambda text: text.replace("HETEROFEDSYN_SOCKET=", "HETEROFEDSYN_SOCKET=/x")
    )


def moved(path: Path) -> Undo:
    away = path.rename(path.with_suffix(".away"))

    def undo() -> None:
        away.rename(path)

    return undo


FLOWER = (
    *(case for case in PLANTED if case.name not in OF_NVFLARE_ALONE),
    planted("what is shipped is run", apps_are_run, "code refused"),
    planted("what is shipped is run by a changed unit", supernode_runs_apps_after_all, "units"),
    planted("the secret is open", lambda site: opened(site.party.secret, 0o640), "kit private"),
    planted(
        "the SuperNode's key is open",
        lambda site: opened(site.party.runtime_key, 0o604),
        "kit private",
    ),
    planted(
        "the SuperNode's certificate is gone",
        lambda site: moved(site.party.runtime_certificate),
        "kit private",
        "SuperNode's certificate",
    ),
    planted(
        "a SuperNode that runs what is shipped was started",
        started(lambda text: text.replace("--isolation process", "--isolation subprocess")),
        "engine",
        root=True,
    ),
    planted(
        "no relay runs",
        started(lambda text: "" if " site relay " in text else text),
        "engine",
        root=True,
    ),
    planted(
        "no SuperNode runs",
        started(lambda text: text if " site relay " in text else ""),
        "engine",
        root=True,
    ),
    planted("the relay asks elsewhere", relay_has_another_socket, "units"),
)


def test_doctor_finds_nothing_wrong_with_a_flower_site_as_its_commands_make_it(
    site: Machine,
) -> None:
    if not AS_ROOT:
        pytest.skip("a site has users of its own, which only root can make")
    assert {one.rule: one.words for one in site.findings() if one.state != "ok"} == {}
    rules = {one.rule for one in site.findings()}
    assert rules >= {
        *("users apart", "group", "rows hidden", "ledger hidden", "key hidden", "anchor hidden"),
        *("socket", "units", "code refused", "root certificate", "hub reachable", "clock"),
    }


@pytest.mark.parametrize("case", FLOWER, ids=lambda case: case.name)
def test_doctor_notices_at_a_flower_site(case: Planted, site: Machine, healthy: set[str]) -> None:
    check_noticed(case, site, healthy)


def test_a_site_may_decide_to_run_what_is_shipped(
    site: Machine, healthy: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["site", "doctor", "--folder", str(site.party.folder), "--units", str(site.units)]
    undo = apps_are_run(site)
    try:
        run([*words, "--json", "--accept", "code refused"])
    finally:
        undo()
    found = {one["rule"]: one["state"] for one in json.loads(capsys.readouterr().out)["findings"]}
    assert found["code refused"] == "accepted"
    assert {rule for rule, state in found.items() if state == "wrong"} == healthy


def test_units_of_a_flower_site_keep_the_relay_on_its_machine_and_all_from_rows(
    site: Machine,
) -> None:
    agent, supernode, relay = services(site.party)
    assert (agent.user, supernode.user, relay.user) == (
        site.party.agent,
        site.party.engine,
        site.party.engine,
    )
    assert "IPAddressDeny=any" in relay.unit()
    assert "--isolation process" in supernode.unit()
    assert "HETEROFEDSYN_SOCKET" not in supernode.unit()
    # Whoever fetches tasks proves by the secret who they are, and the SuperNode by its key.
    kit = site.party.kit
    assert " --host 127.0.0.1 " in supernode.unit()
    assert f" --superexec-auth-secret-file {kit}/secret\n" in supernode.unit()
    assert f" --ssl-certfile {kit}/runtime.pem --ssl-keyfile {kit}/runtime.key " in supernode.unit()
    assert f" --secret {kit}/secret --certificate {kit}/runtime.pem\n" in relay.unit()
    for unit in (supernode.unit(), relay.unit()):
        assert f"InaccessiblePaths={site.party.agent_folder} {site.party.rows}" in unit
    # Of Flower's own, nothing calls home.
    assert "FLWR_TELEMETRY_ENABLED=0" in supernode.unit()
    assert "FLWR_DISABLE_UPDATE_CHECK=1" in supernode.unit()


def test_a_key_and_a_secret_are_the_engines_alone_and_no_kit_is_replaced(site: Machine) -> None:
    kit = site.party.kit
    assert {path.name: oct(path.stat().st_mode & 0o777) for path in kit.iterdir()} == {
        "node.key": "0o600",
        "root.pem": "0o600",
        "runtime.key": "0o600",
        "runtime.pem": "0o600",
        "secret": "0o600",
    }
    assert len(site.party.secret.read_bytes()) == 32
    with pytest.raises(UsageError, match="a kit in"):
        by_flower_again(site, site.party.folder, site.party.fingerprint)


def test_a_root_that_was_not_told_is_refused_and_nothing_is_made(
    site: Machine, tmp_path: Path
) -> None:
    with pytest.raises(PrivacyRefusal, match="call the hub"):
        by_flower_again(site, tmp_path, "00" * 32)
    assert not [*tmp_path.iterdir()]


def by_flower_again(site: Machine, folder: Path, fingerprint: str) -> None:
    join_flower(
        "hospitals",
        "elmwood",
        folder,
        superlink="localhost:9092",
        root=site.party.root,
        fingerprint=fingerprint,
    )
