"""How parties of a federation come to their kits, what is refused, and what is left behind."""

from __future__ import annotations

import grp
import io
import json
import os
import shlex
import shutil
import ssl
import stat
import subprocess
import zipfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs_support import blocks
from federation_support import Machine, admitted
from heterofedsyn import __version__
from heterofedsyn._toml import from_toml, to_toml
from heterofedsyn._words import aloud
from heterofedsyn.cli.app import run
from heterofedsyn.engines.nvflare import provisioning
from heterofedsyn.engines.nvflare.hardening import (
    AUTHORIZATION,
    AUTHORIZATION_FILE,
    RESOURCES_FILE,
    SITE_RESOURCES,
    differences,
    hub_resources,
)
from heterofedsyn.engines.nvflare.provisioning import normal_fingerprint, read_request
from heterofedsyn.errors import HeterofedsynError, PrivacyRefusal, UsageError
from heterofedsyn.federation import admission, kit_checks
from heterofedsyn.federation.admission import read_asking
from heterofedsyn.federation.finding import rights
from heterofedsyn.federation.founding import new_federation
from heterofedsyn.federation.joining import join, unpack_kit
from heterofedsyn.federation.machine_checks import User
from heterofedsyn.federation.party import Party, as_owner, check_host, check_prefix
from heterofedsyn.federation.services import instructions, services, start_script, users_script
from heterofedsyn.protocol import Study
from heterofedsyn.simulate.hospitals import hospital_schema
from heterofedsyn.site.settings import SiteSettings
from nvflare_support import GUIDE, ROOT

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(120)]

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="other users need root: run as root")


@pytest.fixture(scope="module")
def waiting(federated_site: Machine) -> Path:
    """The folder of another site that has asked, and was not answered yet."""
    folder = federated_site.root / "lakeside"
    folder.mkdir()
    join("hospitals", "lakeside", folder)
    return folder


@pytest.fixture(scope="module")
def answer(federated_site: Machine, waiting: Path) -> Path:
    """What the hub answers it."""
    asking = read_asking(waiting / "lakeside.request.zip", federated_site.founded.root)
    out = federated_site.root / "lakeside.signed.zip"
    admission.admit(asking, out, fingerprint=asking.request.public_key_sha256)
    return out


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(path: Path, contents: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
    return path


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def refused(work: Callable[[], object], *folders: Path) -> str:
    """The one line of a refusal, which leaves folders as they were."""
    before = [files(folder) for folder in folders]
    with pytest.raises(HeterofedsynError) as caught:
        work()
    assert [files(folder) for folder in folders] == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


# A FEDERATION


def test_federation_has_its_root_key_apart_and_its_kits_private(federated_site: Machine) -> None:
    founded = federated_site.founded
    assert stat.S_IMODE(founded.root.stat().st_mode) == 0o700
    assert stat.S_IMODE((founded.root / "rootCA.key").stat().st_mode) == 0o600
    keys = [path for path in founded.folder.rglob("*") if path.suffix == ".key"]
    assert {str(path.relative_to(founded.folder)) for path in keys} == {
        "root/rootCA.key",
        "hub/kit/startup/server.key",
        "coordinator/kit/startup/client.key",
    }
    for kit in (founded.hub_folder / "kit", founded.coordinator_kit):
        for path in (kit, *kit.rglob("*")):
            assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


def test_kits_are_hardened(federated_site: Machine) -> None:
    hub = federated_site.founded.hub
    for kit, resources in (
        (federated_site.party.kit, SITE_RESOURCES),
        (federated_site.founded.hub_folder / "kit", hub_resources(hub.state)),
    ):
        assert json.loads((kit / AUTHORIZATION_FILE).read_text()) == AUTHORIZATION
        assert json.loads((kit / RESOURCES_FILE).read_text()) == resources


def test_programs_of_a_hub_are_looked_for_where_it_will_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["federation", "new", "wards", "--hub", "localhost", "--folder", str(tmp_path / "f")]
    command += ["--programs", "/srv/elsewhere/bin"]
    assert run(command) == 2
    assert "cannot find /srv/elsewhere/bin" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert run([*command, "--at", "/srv/wards"]) == 0
    (unit,) = (tmp_path / "f" / "hub").glob("*.service")
    assert "PATH=/srv/elsewhere/bin:" in unit.read_text()


def test_federation_is_never_replaced(federated_site: Machine) -> None:
    folder = federated_site.founded.folder
    said = refused(lambda: new_federation("hospitals", "localhost", folder), folder)
    assert "never replaces anything" in said


@pytest.mark.parametrize(
    ("name", "host", "port", "words"),
    [
        ("two words", "hub.example.org", 8002, "cannot name a federation"),
        ("../up", "hub.example.org", 8002, "cannot name a federation"),
        ("hospitals", "hub.example.org:8002", 8002, "--port"),
        ("hospitals", "http://hub", 8002, "no name of a machine"),
        ("hospitals", "hub.example.org", 0, "1..65535"),
    ],
)
def test_federation_refuses_names_that_nobody_could_use(
    name: str, host: str, port: int, words: str, tmp_path: Path
) -> None:
    said = refused(lambda: new_federation(name, host, tmp_path / "f", port=port), tmp_path)
    assert words in said


def test_federation_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever NVFlare does: here it cannot make the server's request."""

    def fail(*_: object) -> Path:
        raise UsageError("NVFlare cannot make a request: disk full")

    monkeypatch.setattr("heterofedsyn.federation.founding.make_request", fail)
    refused(lambda: new_federation("hospitals", "localhost", tmp_path / "f"), tmp_path)


@given(st.text(max_size=70))
def test_no_host_is_taken_that_a_settings_file_could_misread(host: str) -> None:
    try:
        check_host(host)
    except UsageError:
        return
    assert set(host) <= {*"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-"}
    assert len(host) <= 253


@given(st.text(max_size=40))
def test_no_prefix_is_taken_that_a_shell_or_a_unit_could_misread(prefix: str) -> None:
    try:
        check_prefix(prefix)
    except UsageError:
        return
    assert set(prefix) <= {*"abcdefghijklmnopqrstuvwxyz0123456789-"}
    assert len(f"{prefix}-engine") <= 32  # letters of a user's name


@given(st.binary(min_size=32, max_size=32), st.sampled_from([" ", ":", ""]), st.booleans())
def test_fingerprint_is_read_however_it_is_written(
    data: bytes, between: str, capitals: bool
) -> None:
    text = data.hex(between, 1) if between else data.hex()
    text = text.upper() if capitals else text
    for written in (text, f"SHA256:{text}", f" {text}\n", aloud(data.hex())):
        assert normal_fingerprint(written) == data.hex()


# A REQUEST


def test_second_request_in_one_folder_is_refused(waiting: Path, federated_site: Machine) -> None:
    assert "earlier request" in refused(lambda: join("hospitals", "lakeside", waiting), waiting)
    own = federated_site.party.folder
    assert "--renew" in refused(lambda: join("hospitals", "elmwood", own), own)
    assert "no kit" in refused(lambda: join("hospitals", "lakeside", waiting, renew=True), waiting)
    said = refused(lambda: join("hospitals", "oak", own, renew=True), own)
    assert "changes no name" in said


def test_renewal_is_asked_for_without_naming_what_the_kit_knows(
    federated_site: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = federated_site.party.folder
    assert run(["site", "join", "--name", "elmwood", "--folder", str(folder)]) == 2
    assert "both names, --federation and --name" in capsys.readouterr().err
    assert run(shlex.split(f"{kit_checks.RENEW} --folder '{folder}'")[1:]) == 0
    request = folder / "elmwood.request.zip"
    asks = read_request(request.read_bytes())
    request.unlink()
    shutil.rmtree(folder / "renewal")
    assert (asks.project, asks.name) == ("hospitals", "elmwood")


@pytest.mark.parametrize("name", ["sum", "server", "st.anna", "../x", "two words", "", "a" * 65])
def test_site_is_called_as_studies_and_certificates_allow(name: str, tmp_path: Path) -> None:
    refused(lambda: join("hospitals", name, tmp_path), tmp_path)


def test_request_carries_no_private_key(waiting: Path) -> None:
    for name, data in members(waiting / "lakeside.request.zip").items():
        assert b"PRIVATE" not in data, name
    assert stat.S_IMODE((waiting / "request").stat().st_mode) == 0o700


def test_request_is_shown_as_it_is_signed(
    federated_site: Machine, waiting: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Who asks, of whom, and the key's fingerprint, before anything is signed."""
    request = waiting / "lakeside.request.zip"
    command = ["federation", "admit", str(request), "--root", str(federated_site.founded.root)]
    out = tmp_path / "signed.zip"
    assert run([*command, "--out", str(out), "--fingerprint", "ab" * 32]) == 3
    said = capsys.readouterr().err
    assert "lakeside of lakeside asks to be a site of hospitals" in said
    assert aloud(read_request(request.read_bytes()).public_key_sha256) in said
    assert run([*command, "--out", str(out)]) == 2  # there is no terminal to ask on
    assert "--fingerprint, or --yes" in capsys.readouterr().err
    assert not out.exists()


def test_site_that_is_in_is_admitted_again_only_as_a_renewal(
    federated_site: Machine,
    waiting: Path,
    answer: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = federated_site.founded.root
    request = waiting / "lakeside.request.zip"
    assert answer.exists()
    assert "add --renew" in refused(lambda: read_asking(request, root), root)
    assert read_asking(request, root, renew=True).before is not None
    places = ["--root", str(root), "--out", str(tmp_path / "signed.zip")]
    assert run(["federation", "admit", str(request), *places, "--renew", "--yes"]) == 0
    assert f"heterofedsyn {__version__}, NVFlare 2." in capsys.readouterr().err


def test_request_to_a_mistyped_federation_is_told_which_are_here(
    federated_site: Machine, waiting: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(federated_site.root)
    request = forged(waiting, tmp_path, project="hospital")
    said = refused(lambda: read_asking(request))
    assert "asks for federation 'hospital', and here is 'hospitals'" in said


def forged(waiting: Path, place: Path, **other: str) -> Path:
    """The same request with other words about itself."""
    contents = members(waiting / "lakeside.request.zip")
    contents["request.json"] = json.dumps(
        {**json.loads(contents["request.json"]), **other}
    ).encode()
    return zipped(place / "forged.zip", contents)


def test_request_with_another_name_or_key_than_its_own_is_not_signed(
    federated_site: Machine, waiting: Path, tmp_path: Path
) -> None:
    root = federated_site.founded.root
    for other, words in (
        ({"project": "banks"}, "is the root of 'hospitals'"),
        ({"kind": "server"}, "not of a site"),
        ({"name": "../../etc"}, "letters"),
        ({"public_key_sha256": "x"}, "names no key"),
    ):
        request = forged(waiting, tmp_path, **other)
        assert words in refused(partial(read_asking, request, root))
    asking = read_asking(forged(waiting, tmp_path, public_key_sha256="ab" * 32, name="oak"), root)
    out = tmp_path / "signed.zip"
    refused(lambda: admission.admit(asking, out), root)
    assert not out.exists()


@given(st.binary(max_size=200))
def test_what_is_no_zip_is_refused_in_one_line(data: bytes) -> None:
    for read in (provisioning.read_request, provisioning.read_signed):
        with pytest.raises(UsageError) as caught:
            read(data)
        assert "\n" not in str(caught.value)


@given(
    st.dictionaries(st.sampled_from(["request.json", "signed.json", "x"]), st.binary(max_size=99))
)
def test_what_is_no_request_is_refused_in_one_line(contents: dict[str, bytes]) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, value in contents.items():
            archive.writestr(name, value)
    for read in (provisioning.read_request, provisioning.read_signed):
        with pytest.raises(UsageError):
            read(data.getvalue())


# A KIT


def test_kit_is_made_of_no_other_root_than_was_told(
    federated_site: Machine, waiting: Path, answer: Path
) -> None:
    with pytest.raises(PrivacyRefusal, match="another fingerprint than you were told"):
        unpack_kit(answer, waiting, fingerprint="ab" * 32)
    assert not (waiting / "kit").exists()
    assert "by telephone" in refused(lambda: unpack_kit(answer, waiting), waiting)
    # What an answer says of its root is not believed: NVFlare looks at the certificate itself.
    contents = members(answer)
    said = json.loads(contents["signed.json"])
    said["ca_info"]["rootCA_fingerprint"] = "SHA256:" + ":".join(["AB"] * 32)
    contents["signed.json"] = json.dumps(said).encode()
    lying = zipped(federated_site.root / "lying.signed.zip", contents)
    refused(lambda: unpack_kit(lying, waiting, fingerprint="ab" * 32), waiting)


def test_kit_is_made_of_the_answer_to_the_own_request_only(
    federated_site: Machine, answer: Path, tmp_path: Path
) -> None:
    told = federated_site.founded.hub.fingerprint
    said = refused(lambda: unpack_kit(answer, tmp_path, fingerprint=told), tmp_path)
    assert "in which `site join` was" in said
    own = federated_site.party.folder
    assert "`site join --renew`" in refused(lambda: unpack_kit(answer, own), own)
    shutil.copytree(federated_site.root / "lakeside" / "request", tmp_path / "request")
    request = json.loads((tmp_path / "request" / "request.json").read_text())
    (tmp_path / "request" / "request.json").write_text(
        json.dumps({**request, "request_id": "0" * 32})
    )
    said = refused(lambda: unpack_kit(answer, tmp_path, fingerprint=told), tmp_path)
    assert "answers another request" in said


def test_kit_takes_no_prefix_that_is_the_group_of_others(
    federated_site: Machine, waiting: Path, answer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told, group = federated_site.founded.hub.fingerprint, grp.getgrgid(1).gr_name
    command = ["site", "kit", str(answer), "--fingerprint", told, "--folder", str(waiting)]
    assert run([*command, "--prefix", group]) == 2
    said = capsys.readouterr().err
    assert f"there is a group {group!r} on this machine already" in said
    assert not (waiting / "kit").exists()


def test_kit_command_says_nothing_of_starting_before_hardening(
    federated_site: Machine, waiting: Path, answer: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    told = federated_site.founded.hub.fingerprint
    before = files(waiting)
    command = ["site", "kit", str(answer), "--fingerprint", told, "--folder", str(waiting)]
    assert run([*command, "--prefix", "lake", "--anchor", str(waiting / "vault")]) == 0
    said = "".join(capfd.readouterr())
    assert "startup" not in said
    assert "refuses code" in said
    assert said.index("refuses code") < said.index("start.sh")
    assert not (waiting / "request").exists()  # the key lies in the kit, and nowhere else
    new = {name.split("/")[0] for name in files(waiting) - before}
    assert new == {
        *("kit", "federation.toml", "users.sh", "start.sh"),
        *("lake-agent.service", "lake-engine.service"),
    }


def test_kit_that_was_interrupted_is_made_by_the_same_command(
    federated_site: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = federated_site.root / "oak"
    folder.mkdir()
    signed = admitted(federated_site.founded, folder, "oak", days=100)
    told = federated_site.founded.hub.fingerprint

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("heterofedsyn.federation.joining.write_services", stop)
        with pytest.raises(KeyboardInterrupt):
            unpack_kit(signed, folder, fingerprint=told)
    party = unpack_kit(signed, folder, fingerprint=told)
    assert party == Party.load(folder)
    assert not (folder / "request").exists()


def test_hardening_again_takes_every_change_back(federated_site: Machine) -> None:
    party = federated_site.party
    for name in (AUTHORIZATION_FILE, RESOURCES_FILE):
        (party.kit / name).write_text("{}")
    unit = party.folder / services(party)[0].file
    unit.write_text("")
    assert run(["site", "kit", "--harden", "--folder", str(party.folder)]) == 0
    assert json.loads((party.kit / RESOURCES_FILE).read_text()) == SITE_RESOURCES
    assert unit.read_text() == services(party)[0].unit()
    assert (party.kit / RESOURCES_FILE).stat().st_uid == party.kit.stat().st_uid


def test_hub_is_hardened_again_by_its_own_command(
    federated_site: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    founded = federated_site.founded
    resources = founded.hub_folder / "kit" / RESOURCES_FILE
    resources.write_text("{}")
    unit = founded.hub_folder / services(founded.hub)[0].file
    unit.write_text("")
    folder = ["--folder", str(founded.hub_folder)]
    assert run(["site", "kit", "--harden", *folder]) == 2
    assert "there is no site's kit in" in capsys.readouterr().err
    assert run(["federation", "harden", *folder]) == 0
    assert json.loads(resources.read_text()) == hub_resources(founded.hub.state)
    assert unit.read_text() == services(founded.hub)[0].unit()
    assert run(["federation", "harden", "--folder", str(federated_site.party.folder)]) == 2
    assert "there is no hub's kit in" in capsys.readouterr().err


@as_root
def test_hardening_as_root_follows_no_link_that_an_engine_planted(
    federated_site: Machine,
) -> None:
    party = federated_site.party
    precious = federated_site.root / "precious"
    precious.mkdir()
    precious.joinpath("authorization.json").write_text("mine")
    local, aside = party.kit / "local", party.kit / "aside"
    local.rename(aside)
    local.symlink_to(precious)
    try:
        assert run(["site", "kit", "--harden", "--folder", str(party.folder)]) == 1
        assert precious.joinpath("authorization.json").read_text() == "mine"
        assert os.geteuid() == 0
    finally:
        local.unlink()
        aside.rename(local)


def test_party_is_read_as_it_was_written(federated_site: Machine, tmp_path: Path) -> None:
    for party in (federated_site.party, federated_site.founded.hub):
        party.save(tmp_path)
        assert Party.load(tmp_path) == party


@as_root
def test_site_of_a_kit_is_set_up_without_naming_what_its_units_say(
    federated_site: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`site init` knows name, anchor, socket and users from the kit beside it."""
    party = federated_site.party
    settings = SiteSettings.load(party.site)
    aside = party.folder / "site-aside"
    monkeypatch.chdir(party.folder)
    party.site.rename(aside)
    anchor = settings.anchor.rename(settings.anchor.with_name("aside"))
    command = ["site", "init", "--schema", str(settings.schema), "--data", settings.source]
    command += ["--epsilon", "3", "--study-epsilon", "1", "--delta", "1e-9"]
    try:
        assert run(command) == 2
        said = capsys.readouterr().err
        assert f"runuser -u {party.agent} -- {party.programs}/heterofedsyn site init" in said
        assert not party.site.exists()
        with as_owner(party.agent_folder):
            assert run(command) == 0
        made = SiteSettings.load(party.site)
        assert (made.name, made.socket, made.engine) == ("elmwood", party.socket, party.engine)
        assert made.anchor == settings.anchor
        shutil.rmtree(party.site)
        made.anchor.unlink()
    finally:
        aside.rename(party.site)
        anchor.rename(settings.anchor)


@as_root
def test_consent_of_a_user_who_is_nobody_names_a_person(
    federated_site: Machine, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    party = federated_site.party
    study = federated_site.root / "study.toml"
    study.write_text("")
    with as_owner(party.site):
        for command in ("approve", "withdraw", "close"):
            assert run(["site", command, str(study), "--folder", str(party.site)]) == 2
            assert "say who decides with --who NAME" in capsys.readouterr().err


# WHO MAY WRITE WHAT ROOT OBEYS


@as_root
def test_nothing_that_root_runs_or_obeys_can_be_written_by_agent_or_engine(
    federated_site: Machine,
) -> None:
    """After `users.sh`, twice: neither the files, nor a folder in which they could be replaced."""
    party = federated_site.party
    subprocess.run(["sh", str(party.folder / "users.sh")], check=True)
    guarded = [party.folder / name for name in instructions(party)]
    assert {path.name for path in guarded} <= {path.name for path in party.folder.iterdir()}
    above = [party.folder, *party.folder.parents[:-2]]
    for name in (party.agent, party.engine):
        user = User.find(name)
        assert user is not None
        held = rights([*guarded, *above], user.number, user.groups)
        assert not [path for path, allowed in held.items() if "w" in allowed]
    own = {path.name for path in party.folder.iterdir() if path.lstat().st_uid != 0}
    assert own == {"agent", "kit", "rows"}


@as_root
def test_scripts_stop_before_a_link(federated_site: Machine) -> None:
    party = federated_site.party
    precious = federated_site.root / "precious-too"
    precious.mkdir(mode=0o755)
    for name, script in ((party.rows.name, "users.sh"), (services(party)[0].file, "start.sh")):
        place, aside = party.folder / name, party.folder / "aside"
        place.rename(aside)
        place.symlink_to(precious)
        try:
            done = subprocess.run(
                ["sh", str(party.folder / script)], capture_output=True, check=False
            )
        finally:
            place.unlink()
            aside.rename(place)
        assert done.returncode == 1
        assert b"is a link" in done.stderr
        assert (precious.stat().st_uid, stat.S_IMODE(precious.stat().st_mode)) == (0, 0o755)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("prefix", "x; reboot #"),
        ("prefix", "x\nUser=root"),
        ("name", "elm\nreboot"),
        ("name", "$(reboot)"),
        ("federation", "a b"),
        ("host", "hub;reboot"),
        ("port", 0),
        ("folder", "/srv/a\nreboot"),
        ("folder", "srv"),
        ("anchor", "/srv/a\nUser=root"),
        ("programs", "/srv/\x1b[2J"),
    ],
)
def test_party_with_words_that_a_script_could_misread_is_not_read(
    field: str, value: object, federated_site: Machine, tmp_path: Path
) -> None:
    federated_site.party.save(tmp_path)
    values = from_toml((tmp_path / "federation.toml").read_text())
    (tmp_path / "federation.toml").write_text(to_toml({**values, field: value}))
    assert "describes no party" in refused(lambda: Party.load(tmp_path), tmp_path)


def test_programs_are_changed_by_hardening_and_only_to_such_as_all_can_run(
    federated_site: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    party = federated_site.party
    command = ["site", "kit", "--harden", "--folder", str(party.folder), "--programs"]
    other = federated_site.root / "other-programs"
    shutil.copytree(party.programs, other)
    try:
        assert run([*command, str(other)]) == 0
        assert Party.load(party.folder).programs == other
        assert (
            f"ExecStart={other}/heterofedsyn"
            in (party.folder / services(party)[0].file).read_text()
        )
        capsys.readouterr()
        other.chmod(0o700)
        for place, words in (
            (other, "other users cannot run"),
            (Path("/home/ada/venv/bin"), "lies in a home"),
            (other / "none", "cannot find"),
        ):
            assert run([*command, str(place)]) == 2
            said = capsys.readouterr().err
            assert words in said
            assert "/srv or /opt" in said
    finally:
        assert run([*command, str(party.programs)]) == 0
        shutil.rmtree(other)


# UNITS


def test_units_name_their_user_and_take_no_new_rights(federated_site: Machine) -> None:
    for party in (federated_site.party, federated_site.founded.hub):
        for service in services(party):
            assert f"User={service.user}\n" in service.unit()
            assert "NoNewPrivileges=yes" in service.unit()


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze checks units: install systemd"
)
def test_units_are_such_as_systemd_takes(federated_site: Machine) -> None:
    paths = []
    for party in (federated_site.party, federated_site.founded.hub):
        for service in services(party):
            paths.append(federated_site.root / service.file)
            paths[-1].write_text(service.unit())
    subprocess.run(["systemd-analyze", "verify", *paths], check=True, capture_output=True)


def test_agent_has_no_network_and_engine_sees_no_rows(federated_site: Machine) -> None:
    agent, engine = services(federated_site.party)
    party = federated_site.party
    assert "PrivateNetwork=yes" in agent.unit()
    hidden = next(line for line in engine.settings if line.startswith("InaccessiblePaths="))
    for path in (party.agent_folder, party.rows, party.anchor):
        assert str(path) in hidden
    assert agent.user != engine.user


def test_scripts_are_such_as_a_shell_takes(federated_site: Machine) -> None:
    for party in (federated_site.party, federated_site.founded.hub):
        for script in (users_script(party), start_script(party)):
            subprocess.run(["sh", "-n"], input=script.encode(), check=True)


# RENEWING


@pytest.mark.parametrize(("part", "called"), [("hub", "server"), ("coordinator", "client")])
def test_own_certificate_of_the_hub_is_renewed_in_its_place(
    part: str, called: str, federated_site: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    founded = federated_site.founded
    kit = founded.folder / part / "kit"

    def files() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in kit.rglob("*") if path.is_file()}

    before = files()
    assert run(["federation", "renew", str(kit), "--root", str(founded.root)]) == 0
    assert ("every site" in capsys.readouterr().err) is (part == "hub")
    after = files()
    assert before.keys() == after.keys()
    changed = {path.name for path in after if before[path] != after[path]}
    assert {f"{called}.crt", f"{called}.key"} <= changed
    assert all(name.startswith(f"{called}.") for name in changed)
    startup = kit / "startup"
    context = ssl.create_default_context(cafile=str(startup / "rootCA.pem"))
    context.load_cert_chain(startup / f"{called}.crt", startup / f"{called}.key")
    assert all(not stat.S_IMODE(path.stat().st_mode) & 0o077 for path in after)


def test_renewal_of_what_is_not_the_hubs_own_is_refused(
    federated_site: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    founded = federated_site.founded
    own, root = founded.hub_folder / "kit", ["--root", str(founded.root)]
    assert run(["federation", "renew", str(federated_site.party.kit), *root]) == 2
    assert "`site join --renew`" in capsys.readouterr().err
    assert run(["federation", "renew", str(own), "--root", str(tmp_path)]) == 2
    assert "missing or damaged" in capsys.readouterr().err
    provisioning.make_root("hospitals", "localhost", 8002, tmp_path / "root")
    assert run(["federation", "renew", str(own), "--root", str(tmp_path / "root")]) == 2
    assert "another root" in capsys.readouterr().err


# REMOVING


def test_removed_site_is_written_down_and_its_name_refused_by_the_server(
    federated_site: Machine, answer: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    founded = federated_site.founded
    kit, root = founded.hub_folder / "kit", ["--root", str(founded.root)]
    assert answer.exists()
    assert run(["federation", "remove", "lakesid", *root]) == 2
    assert "did you mean 'lakeside'?" in capsys.readouterr().err
    assert run(["federation", "remove", founded.coordinator, *root]) == 2
    assert "no site" in capsys.readouterr().err
    assert run(["federation", "remove", "lakeside", *root]) == 0
    assert "the certificate stays valid" in capsys.readouterr().out
    listed = kit / admission.DISABLED
    assert json.loads(listed.read_text()) == {"disabled_clients": ["lakeside"]}
    assert "lakeside" not in admission.admitted_sites(founded.root)
    admission.refuse_name(kit, "lakeside", refused=False)
    assert json.loads(listed.read_text()) == {"disabled_clients": []}
    listed.write_text("[]")
    assert "damaged" in refused(lambda: admission.refuse_name(kit, "lakeside"), kit)
    listed.unlink()


@given(
    st.recursive(
        st.none() | st.booleans() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=8,
    )
)
def test_settings_differ_from_themselves_in_nothing(settings: object) -> None:
    assert list(differences(settings, settings)) == []
    assert list(differences({"a": settings}, {})) == ["a"]


# THE GUIDE


def test_study_of_the_guide_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hospital_schema().save(tmp_path / "schema.toml")
    monkeypatch.chdir(tmp_path)
    assert run(shlex.split(GUIDE["study.sh"].replace("\\\n", " "))[1:]) == 0
    assert Study.load(tmp_path / "study.toml").plan.sites == ("elmwood", "kingsbridge", "lakeside")


def test_every_command_of_the_guide_is_run_by_a_test_or_said_not_to_be() -> None:
    """What needs root, a package index or systemd is not; what it says is tested elsewhere."""
    names = ("nvflare_support", "engine_real", "test_nvflare", "test_nvflare_sums")
    assert unused(GUIDE, *names) == {
        *("install.sh", "hub-start.sh", "users.sh", "start.sh", "stop.sh"),
        "try.sh",
    }


def test_every_command_of_the_guide_to_flower_is_run_by_a_test_or_said_not_to_be() -> None:
    page = blocks(ROOT / "docs" / "flower.md")
    named = [block.words[0] for block in page if block.words]
    assert all(block.words for block in page)
    used = ("flower_support", "engine_real", "test_flower")
    assert unused(named, *used) == {"install.sh", "superlink-user.sh"}


def unused(blocks_of_a_guide: Iterable[str], *modules: str) -> set[str]:
    """The named blocks that no test of these modules speaks of."""
    tests = "".join(Path(__file__).with_name(f"{name}.py").read_text("utf-8") for name in modules)
    return {name for name in blocks_of_a_guide if f'"{name}"' not in tests}
