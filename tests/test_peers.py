"""The address book holds pairs of name and key, and nobody is in it twice."""

from __future__ import annotations

import io
import json
import os
import pty
import string
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn.cli.app import run
from heterofedsyn.errors import UsageError
from heterofedsyn.masking.identity import key_fingerprint
from heterofedsyn.site.peers import PEERS, Peers, check_other
from heterofedsyn.site.signing import Identity, read_public_key
from hidden_support import key_of
from site_support import make_site

KEYS = [Identity.fresh().public for _ in range(4)]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["oak", "Oak", "OAK", "elm", "a.b", "a-b"]), st.sampled_from(KEYS)
        ),
        max_size=12,
    )
)
def test_whatever_is_added_names_and_keys_stay_different(pairs: list[tuple[str, str]]) -> None:
    book = Peers()
    for name, key in pairs:
        before = dict(book.keys)
        names = {known.lower(): known for known in before}
        fits = before.get(name) == key or (name.lower() not in names and key not in before.values())
        try:
            book = book.add(name, key)
        except UsageError:
            assert not fits
            assert dict(book.keys) == before
        else:
            assert fits
            assert book.confirms(name, key)
    assert len({name.lower() for name in book.keys}) == len(book.keys)
    assert len({*book.keys.values()}) == len(book.keys)


def test_what_is_confirmed_are_pairs(tmp_path: Path) -> None:
    book = Peers().add("oak", KEYS[0]).add("elm", KEYS[1])
    book.save(tmp_path)
    again = Peers.load(tmp_path)
    assert again == book
    assert again.confirms("oak", KEYS[0])
    assert not again.confirms("oak", KEYS[1])
    assert not again.confirms("elm", KEYS[0])
    assert not again.confirms("Oak", KEYS[0])
    gone = again.remove("oak")
    assert not gone.confirms("oak", KEYS[0])
    assert gone.add("oak", KEYS[2]).confirms("oak", KEYS[2])
    with pytest.raises(UsageError, match="not in the address book; known: elm"):
        gone.remove("oak")


def test_a_missing_book_is_empty(tmp_path: Path) -> None:
    assert Peers.load(tmp_path) == Peers()


@pytest.mark.parametrize(
    "text",
    [
        "\xff",
        "oak",
        "oak = 1",
        "[oak]\nkey = 'x'",
        "oak = 'x'",
        f"oak = '{KEYS[0]}'\nelm = '{KEYS[0]}'",
        f"oak = '{KEYS[0]}'\nOAK = '{KEYS[1]}'",
        f"'a b' = '{KEYS[0]}'",
        f"oak = '{KEYS[0][:-2]}B='",
    ],
)
def test_a_book_that_could_not_have_been_written_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / PEERS).write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=PEERS) as caught:
        Peers.load(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "key"), [("elmwood", KEYS[1]), ("ELMWOOD", KEYS[1]), ("oak", KEYS[0])]
)
def test_nobody_takes_the_site_itself_for_another(name: str, key: str) -> None:
    with pytest.raises(UsageError, match=r"this site itself|this very site"):
        check_other(name, key, own_name="elmwood", own_key=KEYS[0])
    check_other("oak", KEYS[1], own_name="elmwood", own_key=KEYS[0])


# Commands


@pytest.fixture
def site(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs a command of the steward of a new site, who has no terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    make_site(tmp_path)
    (tmp_path / "oak.pub").write_text(f"{KEYS[0]}\n")

    def command(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(["site", *words])
        return code, *capsys.readouterr()

    return command


Command = Callable[..., tuple[int, str, str]]


def groups(key: str) -> str:
    text = key_fingerprint(key)
    assert set(text) <= set(string.hexdigits)
    return " ".join(text[i : i + 8] for i in range(0, len(text), 8))


@pytest.mark.quick
def test_a_key_is_added_only_on_a_clear_word_and_its_fingerprint_is_shown(
    site: Command, tmp_path: Path
) -> None:
    code, out, err = site("peer", "add", "oak", "oak.pub")
    assert (code, out) == (2, "")
    assert groups(KEYS[0]) in err
    assert "needs a terminal" in err
    wrong = groups(KEYS[1])
    code, out, err = site("peer", "add", "oak", "oak.pub", "--fingerprint", wrong, "--yes")
    assert (code, out) == (3, "")
    assert Peers.load(tmp_path / "site") == Peers()
    for told in (groups(KEYS[0]), groups(KEYS[0]).upper(), key_fingerprint(KEYS[0])):
        code, out, err = site("peer", "add", "oak", "oak.pub", "--fingerprint", told)
        assert code == 0
        assert groups(KEYS[0]) in err
    assert site("peer", "add", "elm", KEYS[1], "--yes")[0] == 0
    assert Peers.load(tmp_path / "site").keys == {"oak": KEYS[0], "elm": KEYS[1]}


@pytest.mark.thorough
@pytest.mark.parametrize(("word", "code"), [(b"y\n", 0), (b"n\n", 3), (b"\n", 3), (b"\x04", 130)])
def test_a_key_is_confirmed_on_a_terminal(
    site: Command, tmp_path: Path, word: bytes, code: int
) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "heterofedsyn", "site", "peer", "add", "oak", "oak.pub"]
    with os.fdopen(ours, "wb", buffering=0) as terminal:
        child = subprocess.Popen(
            command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        os.close(theirs)
        terminal.write(word)
        said, _ = child.communicate(timeout=120)
    assert child.returncode == code, said
    assert groups(KEYS[0]) in said
    refusal = "error: not confirmed: this may not be oak's key; ask for it again over another"
    assert (refusal in said) == (code == 3)
    assert ("stopped before" in said) == (code == 130)
    assert Peers.load(tmp_path / "site").confirms("oak", KEYS[0]) == (code == 0)


@pytest.mark.thorough
def test_nothing_of_a_file_that_holds_no_public_key_is_repeated(
    site: Command, tmp_path: Path
) -> None:
    private = tmp_path / "site" / "key.pem"
    secret = private.read_text()
    (line,) = (line for line in secret.splitlines() if "PRIVATE" not in line)
    (tmp_path / "other").write_text("Ada Lovelace, 36\n")
    (tmp_path / "cut").write_text(line)
    (tmp_path / "binary").write_bytes(b"\xff" * 32)
    (tmp_path / "peers.pub").write_text(f"{KEYS[0]}\n{KEYS[1]}\n")
    words = {
        str(private): "this is a private key, which must not leave its site; give key.pub",
        secret: "this is a private key",
        secret * 40: "this is a private key",
        line: "there is no file of that name, and this is no public key",
        "other": "other holds no public key",
        "cut": "cut holds no public key",
        "binary": "binary holds no public key",
        "peers.pub": "peers.pub holds no public key",
        "site/none.pub": "there is no file 'site/none.pub', and this is no public key",
        "x" * 5000: "there is no file of that name, and this is no public key",
    }
    for told, said in words.items():
        code, out, found = site("peer", "add", "oak", told, "--yes")
        assert (code, out) == (2, "")
        with pytest.raises(UsageError) as caught:
            read_public_key(told)
        assert str(caught.value) in found
        assert said in found
        assert "Lovelace" not in found
        assert not any(line[i : i + 6] in found for i in range(len(line) - 5))
    assert not (tmp_path / "site" / PEERS).exists()


def test_an_address_book_with_a_private_key_in_it_does_not_repeat_it(tmp_path: Path) -> None:
    for text in ("-----BEGIN PRIVATE KEY----- secret", "secret"):
        (tmp_path / PEERS).write_text(f"oak = '{text}'\n")
        with pytest.raises(UsageError, match="no public key") as caught:
            Peers.load(tmp_path)
        assert "secret" not in str(caught.value)


@pytest.mark.thorough
def test_what_cannot_be_a_peer_is_refused_and_the_book_stays(site: Command, tmp_path: Path) -> None:
    from heterofedsyn.site.settings import SiteSettings

    own = key_of(SiteSettings.load(tmp_path / "site"))
    assert site("peer", "add", "oak", KEYS[0], "--yes")[0] == 0
    before = (tmp_path / "site" / PEERS).read_bytes()
    refused = {
        ("oak", KEYS[1]): "with another key",
        ("OAK", KEYS[0]): "another spelling",
        ("birch", KEYS[0]): "two sites never share one",
        ("elmwood", KEYS[1]): "this site itself",
        ("Elmwood", KEYS[1]): "this site itself",
        ("birch", own): "this very site",
        ("a b", KEYS[1]): "site name",
        ("sum", KEYS[1]): "no site may be named",
        ("birch", "abc"): "no public key",
    }
    for (name, key), words in refused.items():
        code, out, err = site("peer", "add", name, key, "--yes")
        assert (code, out) == (2, ""), (name, key)
        assert words in err
        assert (tmp_path / "site" / PEERS).read_bytes() == before


def test_the_list_tells_the_own_key_and_everyone_who_is_confirmed(
    site: Command, tmp_path: Path
) -> None:
    from heterofedsyn.site.settings import SiteSettings

    own = key_of(SiteSettings.load(tmp_path / "site"))
    site("peer", "add", "oak", KEYS[0], "--yes")
    _, out, _ = site("peer", "list")
    assert own in out
    assert groups(own) in out
    assert "oak" in out
    found = json.loads(site("peer", "list", "--json")[1])
    assert found["own"] == {"site": "elmwood", "key": own, "fingerprint": key_fingerprint(own)}
    assert [(peer["site"], peer["key"]) for peer in found["peers"]] == [("oak", KEYS[0])]
    assert site("peer", "remove", "oak")[0] == 0
    assert json.loads(site("peer", "list", "--json")[1])["peers"] == []
    code, _, err = site("peer", "remove", "oak")
    assert code == 2
    assert "known: nobody" in err
