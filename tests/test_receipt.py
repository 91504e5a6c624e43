"""A receipt says what the ledger says, and no letter of it can be changed."""

from __future__ import annotations

import base64
import builtins
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from heterofedsyn.cli.site import app
from heterofedsyn.errors import HeterofedsynError, LedgerUnavailable, UsageError
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.protocol import Answer, Study, decode
from heterofedsyn.site.agent import Agent
from heterofedsyn.site.consent import recorded, withdraw
from heterofedsyn.site.ledger.answers import Kept
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.receipt import BookedRepair, Receipt, SignedReceipt, canonical, issue
from heterofedsyn.site.settings import SiteSettings
from heterofedsyn.site.signing import make_key, read_public_key
from site_support import NOW, WHO, approved_study, make_message, make_site, write_rows

pytestmark = pytest.mark.thorough


def answer(settings: SiteSettings, *messages: bytes) -> list[bytes]:
    with Books.open(settings.folder, settings.anchor) as books:
        agent = Agent(settings, books, log=lambda line: None)
        return [agent.answer(message) for message in messages]


def receipt_of(settings: SiteSettings, study: Study) -> SignedReceipt:
    account = Books.read(settings.folder, settings.anchor)
    return issue(settings, *recorded(settings, study.fingerprint), account, now=NOW)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("receipts")
    settings = make_site(folder)
    study = approved_study(settings)
    other = approved_study(settings, seed=8)
    answer(
        settings,
        make_message(study, 1, 0.25),
        make_message(other, 1, 0.125),
        make_message(study, 2, 0.5, ("a0", "a2")),
    )
    study.save(folder / "study.toml")
    receipt_of(settings, study).save(folder / "receipt.json")
    return folder


@pytest.fixture
def signed(place: Path) -> SignedReceipt:
    return SignedReceipt.load(place / "receipt.json")


@pytest.mark.quick
def test_a_receipt_lists_what_its_study_got_and_nothing_else(
    place: Path, signed: SignedReceipt
) -> None:
    settings, study = SiteSettings.load(place / "site"), Study.load(place / "study.toml")
    signed.check()
    made = signed.receipt
    assert [released.label for released in made.releases] == ["question 1", "question 2"]
    account = Books.read(settings.folder, settings.anchor)
    own = [one for one in account.charges if one.study == study.fingerprint]
    assert [released.number for released in made.releases] == [one.number for one in own]
    assert made.ledger_number == account.number
    assert made.ledger_head == account.head
    whole = study.plan.budget
    assert made.rho == whole.rho
    assert made.spent_rho == pytest.approx(0.75 * whole.rho, rel=1e-12)
    assert made.spent_epsilon == Budget(made.spent_rho).epsilon(1e-9)
    assert (made.consent_by, made.simulated_noise, made.unit) == (WHO, False, "record")
    again = answer(settings, make_message(study, 2, 0.5, ("a0", "a2")))[0]
    part = decode(again, Answer).parts[0]
    (shown,) = made.releases[1].parts
    assert (shown.kind, shown.attributes, shown.integers) == ("flat", ("a0", "a2"), 12)
    assert (shown.sigma, shown.rho, shown.sensitivity) == (part.sigma, part.rho, 1.0)


def test_nothing_in_a_receipt_but_the_hash_of_an_answer_depends_on_rows(tmp_path: Path) -> None:
    found = []
    for rows in (10, 300):
        folder = tmp_path / str(rows)
        folder.mkdir()
        settings = make_site(folder)
        write_rows(folder, settings.load_schema(), rows)
        study = approved_study(settings)
        answer(settings, make_message(study, 1, 0.25))
        made = msgspec.to_builtins(receipt_of(settings, study).receipt)
        for released in made["releases"]:
            del released["answer"], released["when"]
        del made["ledger_head"]
        found.append(made)
    assert found[0] == found[1]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from leaves(inner, (*path, place))
    else:
        yield path


def changed(value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 1.0000001
    return f"{value}x" if value is not None else "x"


def test_every_leaf_of_a_receipt_is_signed(place: Path, tmp_path: Path) -> None:
    found = json.loads((place / "receipt.json").read_text())
    paths = list(leaves(found))
    assert len(paths) > 40
    for *above, last in paths:
        forged = json.loads(json.dumps(found))
        at = forged
        for step in above:
            at = at[step]
        at[last] = changed(at[last])
        msgspec.convert(forged, SignedReceipt).save(tmp_path / "forged.json")
        with pytest.raises(HeterofedsynError, match=r"does not hold|no public key|of version"):
            SignedReceipt.load(tmp_path / "forged.json").check()


def holds(data: bytes, key: str | None = None) -> bool:
    """Whether these bytes are taken for a receipt that was signed."""
    try:
        SignedReceipt.of(data, "receipt").check(key)
    except HeterofedsynError:
        return False
    return True


def test_no_byte_of_a_receipt_can_be_changed_left_out_or_added(place: Path) -> None:
    data = (place / "receipt.json").read_bytes()
    key = SignedReceipt.load(place / "receipt.json").key
    assert holds(data)
    assert holds(data, key)
    for i, byte in enumerate(data):
        changed = [bytes([byte ^ 1 << bit]) for bit in range(8)]
        for other in (*changed, b"", b" " + data[i : i + 1], data[i : i + 1] * 2):
            assert not holds(data[:i] + other + data[i + 1 :]), (i, other)
    assert not holds(data + b"\n")


@pytest.mark.parametrize("field", ["key", "signature"])
def test_base64_in_a_receipt_has_one_spelling(field: str, place: Path) -> None:
    """Every letter by every other one of base64, those with the same bytes too."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
    signed = SignedReceipt.load(place / "receipt.json")
    text = getattr(signed, field)
    others = {text[:i] + letter + text[i + 1 :] for i in range(len(text)) for letter in letters}
    others |= {text.rstrip("="), text + "=", text + "====", text.replace("=", "\n=", 1)}
    for other in others - {text}:
        changed = msgspec.structs.replace(signed, **{field: other})
        assert not holds(changed.to_bytes()), other
        if field == "key":
            with pytest.raises(HeterofedsynError):
                signed.check(other)


def test_a_receipt_has_one_spelling(place: Path, tmp_path: Path) -> None:
    text = (place / "receipt.json").read_text()
    assert SignedReceipt.load(place / "receipt.json").to_bytes() == text.encode()
    twice = text.replace('"site": "elmwood"', '"site": "oak",\n  "site": "elmwood"')
    assert msgspec.json.decode(twice, type=SignedReceipt).receipt.site == "elmwood"
    for other in (twice, text + "\n", json.dumps(json.loads(text))):
        assert other != text
        (tmp_path / "other.json").write_text(other)
        with pytest.raises(UsageError, match="not as receipts are written"):
            SignedReceipt.load(tmp_path / "other.json")


@pytest.mark.parametrize(
    ("text", "words"),
    [("", "no receipt"), ("{}", "no receipt"), ("[" * 100_000, "no receipt")],
)
def test_a_file_that_is_no_receipt_is_refused_in_one_line(
    tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(UsageError, match=words):
        SignedReceipt.load(tmp_path / "file")
    with pytest.raises(UsageError, match="cannot read receipt"):
        SignedReceipt.load(tmp_path)
    with pytest.raises(UsageError, match="cannot read receipt"):
        SignedReceipt.load(tmp_path / "missing")


@pytest.mark.quick
def test_a_known_key_must_be_the_one_that_signed(
    place: Path, tmp_path: Path, signed: SignedReceipt
) -> None:
    own = read_public_key(str(place / "site" / "key.pub"))
    signed.check(own)
    other = make_key(tmp_path / "other.pem")
    with pytest.raises(HeterofedsynError, match="another key"):
        signed.check(other)
    assert (tmp_path / "other.pem").stat().st_mode & 0o777 == 0o600
    for wrong in ("", "no key", base64.b64encode(b"x" * 31).decode(), "ä"):
        with pytest.raises(UsageError, match="no public key"):
            read_public_key(wrong)
    (tmp_path / "wrong").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="no public key"):
        read_public_key(str(tmp_path / "wrong"))


def signed_as_it_is(place: Path, signed: SignedReceipt, receipt: Receipt) -> SignedReceipt:
    """What a site that lies would sign."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = load_pem_private_key((place / "site" / "key.pem").read_bytes(), None)
    assert isinstance(key, Ed25519PrivateKey)
    signature = base64.b64encode(key.sign(canonical(receipt))).decode()
    return SignedReceipt(receipt, signed.key, signature)


@pytest.mark.quick
@pytest.mark.parametrize(
    "change",
    [
        {"spent_rho": 0.001},
        {"rho": 0.001},
        {"rho": 1.0},
        {"rho": -1.0},
        {"releases": ()},
        {"epsilon": 0.1},
        {"epsilon": 0.0},
        {"spent_epsilon": 0.1},
        {"delta": 1e-12},
        {"delta": 0.0},
        {"conversion": "paper"},
        {"conversion": "none"},
    ],
)
def test_figures_must_add_up_even_if_they_are_signed(
    place: Path, signed: SignedReceipt, change: dict[str, Any]
) -> None:
    signed_as_it_is(place, signed, signed.receipt).check()
    receipt = msgspec.structs.replace(signed.receipt, **change)
    with pytest.raises(HeterofedsynError, match="do not add up"):
        signed_as_it_is(place, signed, receipt).check()


@pytest.mark.parametrize("field", ["sigma", "sensitivity", "rho"])
@pytest.mark.parametrize("factor", [-1.0, 0.0, 0.9, 1.1, 1e300])
def test_noise_must_be_what_its_price_buys(
    place: Path, signed: SignedReceipt, field: str, factor: float
) -> None:
    first, *others = signed.receipt.releases
    (part,) = first.parts
    forged = msgspec.structs.replace(part, **{field: getattr(part, field) * factor})
    releases = (msgspec.structs.replace(first, parts=(forged,)), *others)
    receipt = msgspec.structs.replace(signed.receipt, releases=releases)
    with pytest.raises(HeterofedsynError, match="do not add up"):
        signed_as_it_is(place, signed, receipt).check()


def test_no_text_of_a_receipt_commands_a_terminal(
    place: Path, tmp_path: Path, signed: SignedReceipt
) -> None:
    texts = ("site", "study", "unit", "consent_by", "consent_when", "issued")
    repairs = (BookedRepair(1, "\x1b[2J", 0.0),)
    evil: dict[str, Any] = {name: f"\x1b[2J\n{name}\x9b\u202e" for name in texts}
    receipt = msgspec.structs.replace(signed.receipt, repairs=repairs, **evil)
    signed_as_it_is(place, signed, receipt).save(tmp_path / "receipt.json")
    for options in ([], ["--json"]):
        said = CliRunner().invoke(app, ["verify", str(tmp_path / "receipt.json"), *options])
        assert said.exit_code == 0
        assert all(letter.isprintable() or letter == "\n" for letter in said.stdout)
    lines = CliRunner().invoke(app, ["verify", str(tmp_path / "receipt.json")]).stdout.splitlines()
    assert len(lines) == 5


def test_what_was_charged_but_never_answered_is_in_the_receipt(tmp_path: Path) -> None:
    settings = make_site(tmp_path)
    study = approved_study(settings)
    with pytest.raises(UsageError, match="got nothing"):
        receipt_of(settings, study)
    cost = study.plan.budget.part(0.5)
    with Books.open(settings.folder, settings.anchor) as books:  # and then it crashed
        cap, study_cap = settings.cap, settings.study_cap
        books.charge(study.fingerprint, "0" * 64, "lost", cost, cap=cap, study_cap=study_cap)
    found = receipt_of(settings, study)
    found.check()
    assert found.receipt.spent_rho == cost.rho
    assert [(one.label, one.answer, one.parts) for one in found.receipt.releases] == [
        ("lost", None, ())
    ]


@pytest.mark.quick
def test_a_withdrawn_study_still_gets_its_receipt(tmp_path: Path) -> None:
    settings = make_site(tmp_path)
    study = approved_study(settings)
    answer(settings, make_message(study, 1, 0.25))
    withdraw(settings, study.fingerprint, who=WHO, now=NOW)
    receipt_of(settings, study).check()


def test_a_damaged_answer_or_key_gives_no_receipt(tmp_path: Path) -> None:
    settings = make_site(tmp_path)
    study = approved_study(settings)
    answer(settings, make_message(study, 1, 0.25))
    key = settings.key.read_bytes()
    for text in (b"", b"-----BEGIN PRIVATE KEY-----\n", _other_key()):
        settings.key.write_bytes(text)
        with pytest.raises(HeterofedsynError, match="restore it"):
            receipt_of(settings, study)
    settings.key.unlink()
    with pytest.raises(HeterofedsynError, match="cannot read the signing key"):
        receipt_of(settings, study)
    settings.key.write_bytes(key)
    (kept,) = (settings.folder / "answers").iterdir()
    kept.write_bytes(kept.read_bytes()[:-1] + b"?")
    with pytest.raises(LedgerUnavailable, match="is damaged"):
        receipt_of(settings, study)
    kept.unlink()
    with pytest.raises(HeterofedsynError, match="a receipt must say what it was"):
        receipt_of(settings, study)
    other = Kept(b"another answer", b"to another query")
    kept.write_bytes(other.to_bytes())
    with pytest.raises(HeterofedsynError, match="a receipt must say what it was"):
        receipt_of(settings, study)


def test_an_answer_that_was_stored_but_never_noted_did_not_leave(tmp_path: Path) -> None:
    settings = make_site(tmp_path)
    study = approved_study(settings)
    cost = study.plan.budget.part(0.5)
    with Books.open(settings.folder, settings.anchor) as books:
        cap, study_cap = settings.cap, settings.study_cap
        books.charge(study.fingerprint, "0" * 64, "lost", cost, cap=cap, study_cap=study_cap)
    stored = Kept(b"an answer", b"a query")  # and then it crashed
    (settings.folder / "answers" / ("0" * 64)).write_bytes(stored.to_bytes())
    (released,) = receipt_of(settings, study).receipt.releases
    assert (released.answer, released.parts, released.rho) == (None, (), cost.rho)


def test_a_receipt_after_a_repair_says_that_entries_may_be_missing(tmp_path: Path) -> None:
    settings = make_site(tmp_path)
    study = approved_study(settings)
    answer(settings, make_message(study, 1, 0.25))
    assert receipt_of(settings, study).receipt.repairs == ()
    settings.anchor.unlink()
    account = Books.repair(settings.folder, settings.anchor, settings.study_cap)
    with (settings.folder / "ledger").open("ab") as file:
        file.write(b'{"is":"char')  # an agent that died in an entry
    made = receipt_of(settings, study)
    made.check()
    (booked,) = made.receipt.repairs
    assert (booked.number, booked.rho) == (account.number, account.repairs[0].rho)
    made.save(tmp_path / "receipt.json")
    said = CliRunner().invoke(app, ["verify", str(tmp_path / "receipt.json")])
    assert said.exit_code == 0
    assert f"entry {booked.number}" in said.stdout
    assert "entries may be missing" in said.stdout


def _other_key() -> bytes:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def test_without_the_extra_one_line_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = builtins.__import__

    def missing(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return found(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(UsageError, match=r"pip install 'heterofedsyn\[site\]'"):
        make_key(tmp_path / "key.pem")
    assert not (tmp_path / "key.pem").exists()
