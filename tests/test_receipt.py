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
from heterofedsyn.site.consent import approve, close, recorded, withdraw
from heterofedsyn.site.ledger.answers import Kept
from heterofedsyn.site.ledger.books import Books
from heterofedsyn.site.receipt import BookedRepair, Receipt, SignedReceipt, canonical, issue
from heterofedsyn.site.settings import SiteSettings
from heterofedsyn.site.signing import make_key, read_public_key
from hidden_support import NAMES, conduct, hidden_study, make_sites
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


# ANSWERS THAT ARE HIDDEN IN SUMS


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, dict[str, SiteSettings]]:
    """Four sites after a study of which pine missed the first query, when three were enough."""
    sites = make_sites(tmp_path_factory.mktemp("sums"), *NAMES)
    study = hidden_study(sites, quorum=3, method="independent")
    for settings in sites.values():
        approve(settings, study, who=WHO, now=NOW)
    conduct(study, sites, lambda request, site: site == "pine" and request.step != "keys")
    return study, sites


Sums = tuple[Study, dict[str, SiteSettings]]


@pytest.mark.quick
def test_a_receipt_of_hidden_answers_tells_sets_what_was_opened_and_both_prices(
    sums: Sums, tmp_path: Path
) -> None:
    study, sites = sums
    settings = sites["elmwood"]
    signed = receipt_of(settings, study)
    signed.check()
    signed.save(tmp_path / "receipt.json")
    assert SignedReceipt.load(tmp_path / "receipt.json") == signed
    made, account = signed.receipt, Books.read(settings.folder, settings.anchor)
    aggregation = made.aggregation
    assert aggregation is not msgspec.UNSET
    assert (aggregation.colluding, aggregation.quorum) == (1, 3)
    assert aggregation.sites == NAMES
    assert made.spent_rho == account.spent.rho
    assert aggregation.spent_rho_alone == account.spent_alone.rho
    assert aggregation.spent_rho_alone == pytest.approx(2 * made.spent_rho)
    assert made.releases
    for released, charged in zip(made.releases, account.charges, strict=True):
        hidden = released.hidden
        assert hidden is not msgspec.UNSET
        assert hidden.sites == tuple(sorted(set(NAMES) - {"pine"}))
        assert hidden.set == account.agreed[released.query].set
        assert (hidden.opened, hidden.outside) == (True, ("pine",))
        assert released.rho_alone == charged.alone
        for part in released.parts:
            own = (part.sensitivity / part.sigma) ** 2 / 2
            assert part.rho == pytest.approx(own / 2, rel=1e-3)


@pytest.mark.parametrize("name", ["birch", "oak"])
def test_receipts_of_all_members_name_the_same_sets(sums: Sums, name: str) -> None:
    study, sites = sums
    one, other = (receipt_of(sites[site], study).receipt for site in ("elmwood", name))
    for mine, theirs in zip(one.releases, other.releases, strict=True):
        assert mine.hidden is not msgspec.UNSET
        assert theirs.hidden is not msgspec.UNSET
        assert mine.query == theirs.query
        assert mine.hidden.set == theirs.hidden.set
        assert mine.hidden.hash != theirs.hidden.hash


def test_a_site_that_answered_nothing_has_no_receipt(sums: Sums) -> None:
    study, sites = sums
    with pytest.raises(UsageError, match="got nothing"):
        receipt_of(sites["pine"], study)


def test_every_leaf_of_a_receipt_of_hidden_answers_is_signed(sums: Sums, tmp_path: Path) -> None:
    study, sites = sums
    found = json.loads(receipt_of(sites["elmwood"], study).to_bytes())
    for *above, last in leaves(found):
        forged = json.loads(json.dumps(found))
        at = forged
        for step in above:
            at = at[step]
        at[last] = changed(at[last])
        msgspec.convert(forged, SignedReceipt).save(tmp_path / "forged.json")
        with pytest.raises(HeterofedsynError, match=r"does not hold|no public key|of version"):
            SignedReceipt.load(tmp_path / "forged.json").check()


def forge(path: str, value: Any) -> Any:
    """Changes one figure of a receipt; `value` gets the old one."""

    def change(made: dict[str, Any]) -> None:
        *above, last = path.split(".")
        at: Any = made
        for step in above:
            at = at[int(step)] if step.isdigit() else at[step]
        key = int(last) if last.isdigit() else last
        at[key] = value(at[key])

    return change


CONTRADICTIONS = {
    "less noise than the price buys": forge("releases.0.parts.0.sigma", lambda old: old * 0.99),
    "more noise than the price buys": forge("releases.0.parts.0.sigma", lambda old: old * 1.01),
    "a price below that of its parts": forge("releases.0.rho", lambda old: old * 0.99),
    "seen alone for less": forge("releases.0.rho_alone", lambda old: old * 0.4),
    "another sum of prices alone": forge("aggregation.spent_rho_alone", lambda old: old * 1.01),
    "another epsilon alone": forge("aggregation.spent_epsilon_alone", lambda old: old * 1.01),
    "more sites that may collude": forge("aggregation.colluding", lambda old: old + 1),
    "another quorum": forge("aggregation.quorum", lambda old: old + 1),
    "a quorum that no study has": forge("aggregation.quorum", lambda old: old - 1),
    "one site less": forge("aggregation.sites", lambda old: old[:-1]),
    "one site twice": forge("aggregation.sites", lambda old: [*old[:-1], old[0]]),
    "another trust model": forge("trust", lambda old: "local"),
    "a set without the site itself": forge("site", lambda old: "pine"),
    "a set that is too small": forge("releases.0.hidden.sites", lambda old: old[:2]),
    "a stranger in a set": forge("releases.0.hidden.sites", lambda old: [*old, "yew"]),
    "a site twice in a set": forge("releases.0.hidden.sites", lambda old: [*old, old[0]]),
    "a set without a hash": forge("releases.0.hidden.set", lambda old: ""),
    "more was opened": forge("releases.0.hidden.outside", lambda old: [*old, "oak"]),
    "less was opened": forge("releases.0.hidden.outside", lambda old: []),
    "told of others but not opened": forge("releases.0.hidden.opened", lambda old: False),
    "left, but of no parts": forge("releases.0.parts", lambda old: []),
    "a set with another kind of hash": forge("releases.0.hidden.set", lambda old: "nonsense"),
    "seen alone for more": forge("releases.0.rho_alone", lambda old: old * 1.1),
    "one entry twice": forge("releases", lambda old: [*old, old[0]]),
    "left, but not hidden": forge("releases.0", lambda old: {**old, "hidden": None}),
}


@pytest.mark.quick
@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_figures_of_hidden_answers_that_contradict_each_other_are_refused_though_signed(
    sums: Sums, what: str
) -> None:
    from heterofedsyn.site.signing import Identity

    study, sites = sums
    settings = sites["elmwood"]
    made = json.loads(msgspec.json.encode(receipt_of(settings, study).receipt))
    CONTRADICTIONS[what](made)
    for released in made["releases"]:
        if released["hidden"] is None:
            del released["hidden"]
    receipt = msgspec.convert(made, Receipt)
    own = Identity.load(settings.key)
    signature = base64.b64encode(own.sign(canonical(receipt))).decode()
    with pytest.raises(HeterofedsynError, match="do not add up"):
        SignedReceipt(receipt, own.public, signature).check()


def test_a_receipt_of_local_answers_has_nothing_of_sums_in_it(place: Path) -> None:
    text = (place / "receipt.json").read_text()
    for word in ("alone", "hidden", "aggregation", "quorum"):
        assert word not in text


def test_a_closed_study_still_has_its_receipt(tmp_path: Path) -> None:
    sites = make_sites(tmp_path)
    study = hidden_study(sites)
    for settings in sites.values():
        approve(settings, study, who=WHO, now=NOW)

    def stop(request: Any, site: str) -> bool:
        return request.step == "open" or (request.step == "agree" and site != "elmwood")

    with pytest.raises(HeterofedsynError):
        conduct(study, sites, stop)
    close(sites["elmwood"], study.fingerprint, who=WHO, now=NOW)
    signed = receipt_of(sites["elmwood"], study)
    signed.check()
    (released,) = signed.receipt.releases
    assert released.hidden is not msgspec.UNSET
    assert (released.hidden.opened, released.hidden.outside) == (False, ())
    assert set(released.hidden.sites) == {*sites}
    other = receipt_of(sites["oak"], study)
    other.check()
    (released,) = other.receipt.releases
    assert released.hidden is not msgspec.UNSET
    assert (released.hidden.set, released.hidden.sites) == ("", ())
