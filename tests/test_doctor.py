"""`site doctor`: a site as its commands make it is well, and each thing done wrong is noticed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from federation_support import AS_ROOT, Machine, admitted, changed, made, opened
from heterofedsyn.cli.app import run
from heterofedsyn.engines.nvflare.hardening import AUTHORIZATION_FILE, RESOURCES_FILE
from heterofedsyn.engines.nvflare.provisioning import make_root
from heterofedsyn.federation import engine_checks, hub_checks
from heterofedsyn.federation.joining import BEFORE, unpack_kit

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def site(federated_site: Machine) -> Iterator[Machine]:
    yield from examined(federated_site)


def examined(federated_site: Machine) -> Iterator[Machine]:
    """A site beside which another root lies, and whose engine need not be waited for."""
    other = federated_site.root / "other"
    make_root("hospitals", "localhost", federated_site.party.port, other)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_checks, "CONNECT_SECONDS", 0.0)
        yield federated_site
    shutil.rmtree(other)


@pytest.fixture(scope="module")
def healthy(site: Machine) -> set[str]:
    """What is wrong before anything is planted: nothing, but for users that only root can make."""
    return set(site.wrong())


Undo = Callable[[], object]


@dataclass(frozen=True)
class Planted:
    """A misconfiguration: how it is made, and the rules that must be called wrong for it."""

    name: str
    plant: Callable[[Machine], Undo]
    rules: frozenset[str]
    root: bool = False
    """Whether it takes root to plant or to notice."""


def planted(
    name: str, plant: Callable[[Machine], Undo], *rules: str, root: bool = False
) -> Planted:
    return Planted(name, plant, frozenset(rules), root)


def setting(path: Path, old: str, new: str) -> Callable[[Machine], Undo]:
    def plant(site: Machine) -> Undo:
        assert old in (site.party.kit / path).read_text()
        return changed(site.party.kit / path, lambda text: text.replace(old, new, 1))

    return plant


def unit_without(line: str) -> Callable[[Machine], Undo]:
    def plant(site: Machine) -> Undo:
        path = site.units / f"{site.party.prefix}-engine.service"
        assert line in path.read_text()
        return changed(path, lambda text: text.replace(line, f"# {line}"))

    return plant


def anchor_beside_the_ledger(site: Machine) -> Undo:
    place = site.root / "vault-beside"
    place.mkdir(mode=0o700)
    shutil.copy(site.settings.anchor, place / "anchor")
    owner = site.settings.anchor.stat()
    for path in (place, place / "anchor"):
        os.chown(path, owner.st_uid, owner.st_gid)
    back = changed(
        site.party.site / "site.toml",
        lambda text: text.replace(str(site.settings.anchor), str(place / "anchor")),
    )

    def undo() -> None:
        back()
        shutil.rmtree(place)

    return undo


def one_user(site: Machine) -> Undo:
    """The engine's user becomes the agent's."""
    agent, engine = site.party.agent, site.party.engine
    numbers = [subprocess.check_output(["id", "-u", name], text=True) for name in (agent, engine)]
    site.end_engine()  # a user of a process stays as it is
    # With its home elsewhere: usermod hands over what lies there.
    subprocess.run(["usermod", "--home", "/nonexistent", engine], check=True)

    def become(number: str) -> None:
        command = ["usermod", "--non-unique", "--uid", number.strip(), engine]
        subprocess.run(command, check=True, capture_output=True)

    become(numbers[0])

    def undo() -> None:
        become(numbers[1])
        site.run_engine()

    return undo


def somebody_in_the_group(site: Machine) -> Undo:
    subprocess.run(["usermod", "--append", "--groups", site.party.group, "nobody"], check=True)
    return lambda: subprocess.run(
        ["gpasswd", "--delete", "nobody", site.party.group], check=False, capture_output=True
    )


def nobody_answers(site: Machine) -> Undo:
    site.silence()
    return site.answer


def another_hub(site: Machine) -> Undo:
    """What answers has a certificate that is none of the federation's."""
    site.answer(site.root / "other" / "rootCA.pem")
    return site.answer


def another_root(site: Machine) -> Undo:
    other = (site.root / "other" / "rootCA.pem").read_text()
    return changed(site.party.root, lambda text: other)


def clock_apart(site: Machine) -> Undo:
    assert site.answering is not None
    site.answering.ahead = -3_600.0
    return site.answer


def engine_that_ended(site: Machine) -> Undo:
    site.end_engine()
    return site.run_engine


def engine_without_a_hub(site: Machine) -> Undo:
    assert site.engine is not None
    site.engine.connection.close()
    return site.run_engine


def agent_owns_the_folder(site: Machine) -> Undo:
    shutil.chown(site.party.folder, site.party.agent)
    return lambda: shutil.chown(site.party.folder, "root")


def root_owns(*paths: Callable[[Machine], Path]) -> Callable[[Machine], Undo]:
    def plant(site: Machine) -> Undo:
        places = [path(site) for path in paths]
        for place in places:
            os.chown(place, 0, 0)
        return lambda: [shutil.chown(place, site.party.agent) for place in places]

    return plant


def drop_in(site: Machine) -> Undo:
    place = site.units / f"{site.party.prefix}-agent.service.d"
    place.mkdir()
    (place / "network.conf").write_text("[Service]\nPrivateNetwork=no\n")
    return lambda: shutil.rmtree(place, ignore_errors=True)


def within_reach(**modes: int) -> Callable[[Machine], Undo]:
    """Files of the site, and the folders above, are open by one careless command each."""

    def plant(site: Machine) -> Undo:
        above = opened(site.party.agent_folder, 0o711)
        undo = [opened(site.party.site / name, mode) for name, mode in modes.items()]
        return lambda: [back() for back in (above, *undo)]

    return plant


PLANTED = (
    planted(
        "code is let in",
        setting(AUTHORIZATION_FILE, '"byoc": "none"', '"byoc": "any"'),
        "code refused",
    ),
    planted(
        "shell commands are let in",
        setting(AUTHORIZATION_FILE, '"shell_commands": "none"', '"shell_commands": "any"'),
        "code refused",
    ),
    planted(
        "another class may be used",
        setting(RESOURCES_FILE, '"class_allow_list": [', '"class_allow_list": [\n  "os.system",'),
        "allow list",
    ),
    planted(
        "the allow list only warns", setting(RESOURCES_FILE, '"enforce"', '"warn"'), "allow list"
    ),
    planted(
        "the log is streamed",
        setting(RESOURCES_FILE, '"allow_log_streaming": false', '"allow_log_streaming": true'),
        "log streaming",
    ),
    planted(
        "code lies in the kit",
        lambda site: made(site.party.kit / "local" / "custom"),
        "code beside the kit",
    ),
    planted("the kit is open", lambda site: opened(site.party.kit, 0o755), "kit private"),
    planted("the kit's key is open", lambda site: opened(site.party.key, 0o644), "kit private"),
    planted(
        "TLS without certificates",
        setting(Path("startup", "fed_client.json"), '"mtls"', '"tls"'),
        "connection",
    ),
    planted("a key is left over", lambda site: made(site.party.folder / BEFORE), "keys left over"),
    planted(
        "one user for both",
        one_user,
        "users apart",
        "kit private",
        "rows hidden",
        "ledger hidden",
        "key hidden",
        "anchor hidden",
        "engine",
        root=True,
    ),
    planted("somebody else in the group", somebody_in_the_group, "group", root=True),
    planted(
        "rows are open",
        lambda site: opened(Path(site.settings.source), 0o644),
        "rows hidden",
        root=True,
    ),
    planted(
        "the agent cannot read rows",
        lambda site: opened(Path(site.settings.source), 0o000),
        "agent reads",
        root=True,
    ),
    planted(
        "the site is open", within_reach(**{"": 0o755}), "site.toml", "ledger hidden", root=True
    ),
    planted("site.toml is open", within_reach(**{"site.toml": 0o644}), "site.toml"),
    planted(
        "the site's key is open",
        within_reach(**{"": 0o711, "key.pem": 0o644}),
        "site.toml",
        "key hidden",
        root=True,
    ),
    planted(
        "the anchor is open",
        lambda site: opened(site.settings.anchor.parent, 0o777),
        "anchor",
        "anchor hidden",
        root=True,
    ),
    planted(
        "the anchor is beside the ledger", anchor_beside_the_ledger, "anchor's disk", "settings"
    ),
    planted(
        "everybody may ask", lambda site: opened(site.party.socket, 0o666), "socket", root=True
    ),
    planted(
        "everybody reaches the socket",
        lambda site: opened(site.party.socket.parent, 0o755),
        "socket",
        root=True,
    ),
    planted("the engine's unit shows rows", unit_without("InaccessiblePaths"), "units"),
    planted("a unit is changed elsewhere", drop_in, "units"),
    planted(
        "programs in another version",
        lambda site: changed(
            site.party.programs / "heterofedsyn",
            lambda text: "#!/bin/sh\necho heterofedsyn 0.0.1\n",
        ),
        "versions unchanged",
    ),
    planted(
        "programs that users cannot run",
        lambda site: opened(site.party.programs, 0o700),
        "programs",
        root=True,
    ),
    planted("the engine ended", engine_that_ended, "engine", root=True),
    planted("the engine is not connected", engine_without_a_hub, "engine", root=True),
    planted("the agent owns the folder", agent_owns_the_folder, "folder", root=True),
    planted(
        "a script is open", lambda site: opened(site.party.folder / "start.sh", 0o666), "folder"
    ),
    planted(
        "the anchor is root's",
        root_owns(lambda site: site.settings.anchor.parent, lambda site: site.settings.anchor),
        "anchor",
        root=True,
    ),
    planted(
        "rows are root's",
        root_owns(lambda site: Path(site.settings.source)),
        "agent reads",
        root=True,
    ),
    planted(
        "site.toml is root's",
        root_owns(lambda site: site.party.site / "site.toml"),
        "site.toml",
        root=True,
    ),
    planted("nobody answers at the hub", nobody_answers, "hub reachable"),
    planted("another hub", another_hub, "hub reachable"),
    planted("another root in the kit", another_root, "root certificate", "hub reachable"),
    planted("the clock is wrong", clock_apart, "clock"),
)


def test_doctor_finds_nothing_wrong_with_a_site_as_its_commands_make_it(site: Machine) -> None:
    if not AS_ROOT:
        pytest.skip("a site has users of its own, which only root can make")
    assert {one.rule: one.words for one in site.findings() if one.state != "ok"} == {}


@pytest.mark.parametrize("case", PLANTED, ids=lambda case: case.name)
def test_doctor_notices(case: Planted, site: Machine, healthy: set[str]) -> None:
    check_noticed(case, site, healthy)


def check_noticed(case: Planted, site: Machine, healthy: set[str]) -> None:
    """What is planted is called wrong, with a remedy, and nothing else is."""
    if case.root and not AS_ROOT:
        pytest.skip("only root can act as another user")
    undo = case.plant(site)
    try:
        found = site.wrong()
    finally:
        undo()
    assert set(found) - healthy == case.rules
    assert all(one.words and one.remedy for one in found.values())


COMMANDS = {
    *("sh", "chmod", "chown", "rm", "gpasswd", "userdel", "usermod", "runuser", "systemctl"),
    "heterofedsyn",
}


def runnable(remedy: str) -> bool:
    """Whether a remedy is a command, and one that does something where no systemd runs."""
    words = [part.split()[0] for part in remedy.partition("#")[0].split(";")]
    return {*words} <= COMMANDS and "join" not in remedy and {*words} != {"systemctl"}


def obey(remedy: str, site: Machine, programs: Path) -> None:
    """Do what a remedy says, with units in the place of the test and no systemd."""
    subprocess.run(
        ["sh", "-euc", remedy],
        check=True,
        capture_output=True,
        cwd="/",
        env={
            **os.environ,
            "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
    )


@pytest.fixture(scope="module")
def without_systemd(site: Machine) -> Path:
    """Programs that install units where the test has them, and start nothing."""
    programs = site.root / "stubs"
    programs.mkdir()
    copy = f'exec /bin/cp $(echo "$@" | sed "s#/etc/systemd/system#{site.units}#")'
    for name, line in (("systemctl", ":"), ("cp", copy)):
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)
    return programs


@pytest.mark.parametrize("case", PLANTED, ids=lambda case: case.name)
def test_remedy_that_is_a_command_mends(
    case: Planted, site: Machine, healthy: set[str], without_systemd: Path
) -> None:
    if not AS_ROOT:
        pytest.skip("remedies are run as root")
    undo = case.plant(site)
    try:
        found = {rule: one.remedy for rule, one in site.wrong().items() if rule not in healthy}
        commands = dict.fromkeys(remedy for remedy in found.values() if runnable(remedy))
        for command in commands:
            obey(command, site, without_systemd)
        left = set(site.wrong()) - healthy if commands else set()
    finally:
        undo()
        obey(f"sh {site.party.folder}/users.sh", site, without_systemd)
        site.run_engine()
    assert left <= {rule for rule, remedy in found.items() if not runnable(remedy)}
    assert set(site.wrong()) == healthy


def test_doctor_waits_for_a_hub_no_longer_than_it_says(
    site: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However slowly it speaks."""
    monkeypatch.setattr(hub_checks, "SECONDS", 1.0)
    assert site.answering is not None
    site.answering.drip = 0.2
    try:
        (found,) = hub_checks.check_hub(site.party)
    finally:
        site.answer()
    assert found.state == "wrong"
    assert "no whole answer within 1 s" in found.words


def test_doctor_notices_what_is_missing(site: Machine, healthy: set[str]) -> None:
    """Each file of a site by itself: a line about it, and no error."""
    party = site.party
    for path in (
        party.kit,
        party.kit / AUTHORIZATION_FILE,
        party.kit / RESOURCES_FILE,
        party.root,
        party.key,
        party.kit / "startup" / "client.crt",
        party.kit / "startup" / "fed_client.json",
        party.site,
        party.site / "site.toml",
        site.settings.anchor,
        party.programs / "heterofedsyn",
        site.units / f"{party.prefix}-agent.service",
    ):
        aside = path.with_name(f"{path.name}.aside")
        path.rename(aside)
        try:
            assert set(site.wrong()) > healthy, path
        finally:
            aside.rename(path)


def test_doctor_says_it_to_programs_and_by_its_exit_code(
    site: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["site", "doctor", "--folder", str(site.party.folder), "--units", str(site.units)]
    undo = clock_apart(site)
    try:
        assert run([*command, "--json"]) == 1
        said = json.loads(capsys.readouterr().out)
        assert run(command) == 1
        lines = capsys.readouterr().out.splitlines()
    finally:
        undo()
    (clock,) = (one for one in said["findings"] if one["rule"] == "clock")
    assert clock["state"] == "wrong"
    assert any(re.match(r"wrong       clock: it is 3[56]\d\d s apart", line) for line in lines)
    assert len(lines) == len(said["findings"]) + 1
    assert run(command) == (0 if AS_ROOT else 1)


def test_doctor_is_content_with_what_a_site_decided(
    site: Machine, healthy: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["site", "doctor", "--folder", str(site.party.folder), "--units", str(site.units)]
    kept = [word for rule in healthy for word in ("--accept", rule)]
    undo = clock_apart(site)
    try:
        assert run([*command, *kept]) == 1
        assert run([*command, *kept, "--accept", "clock"]) == 0
        assert "accepted    clock:" in capsys.readouterr().out
    finally:
        undo()
    assert run([*command, "--accept", "clok"]) == 2
    assert "did you mean 'clock'?" in capsys.readouterr().err


def test_doctor_sees_a_certificate_run_out_in_a_renewed_kit(
    site: Machine, healthy: set[str]
) -> None:
    party = site.party
    signed = admitted(site.founded, party.folder, "elmwood", renew=True, days=5)
    assert unpack_kit(signed, party.folder) == party
    assert "keys left over" in site.wrong()
    shutil.rmtree(party.folder / BEFORE)
    found = site.wrong()
    assert set(found) - healthy == {"certificate"}
    assert "in 4 days" in found["certificate"].words
