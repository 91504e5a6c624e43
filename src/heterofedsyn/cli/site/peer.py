"""`heterofedsyn site peer`: the address book of other sites' keys."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from heterofedsyn._words import aloud
from heterofedsyn.cli._options import Json
from heterofedsyn.cli._show import note, say, say_json, show_table
from heterofedsyn.cli.site._shared import HERE, Folder
from heterofedsyn.errors import PrivacyRefusal, UsageError

if TYPE_CHECKING:
    from heterofedsyn.site.settings import SiteSettings

app = typer.Typer(help="Keys of other sites, confirmed by telephone.", no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The other site, as studies call it.")]


@app.command()
def add(
    name: Name,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Its public key, or a file of it.")],
    folder: Folder = HERE,
    yes: Annotated[
        bool, typer.Option("--yes", help="Its fingerprint was compared; do not ask.")
    ] = False,
    fingerprint: Annotated[
        str | None,
        typer.Option(help="As the other site told it: no other key is taken, and none asked."),
    ] = None,
) -> None:
    """Confirm that a key is another site's own.

    Ask somebody there whom you know, by telephone, to read out the key's fingerprint. Studies that
    hide answers in sums are approved only if all of their keys were confirmed.
    """
    from heterofedsyn.masking.identity import key_fingerprint
    from heterofedsyn.site.owner import own_settings
    from heterofedsyn.site.peers import Peers, check_other
    from heterofedsyn.site.signing import Identity, read_public_key

    settings = own_settings(folder)
    told = read_public_key(key)
    own = Identity.load(settings.key).public
    check_other(name, told, own_name=settings.name, own_key=own)
    book = Peers.load(settings.folder).add(name, told)
    found = key_fingerprint(told)
    if fingerprint is not None and "".join(fingerprint.split()).lower() != found:
        raise PrivacyRefusal(
            f"the key's fingerprint is {aloud(found)}, not {fingerprint!r}; ask {name} for its "
            "key again"
        )
    note(f"fingerprint of {name}'s key, to compare by telephone: {aloud(found)}")
    if not yes and fingerprint is None:
        if not sys.stdin.isatty():
            raise UsageError("a key needs a terminal to confirm it, --fingerprint, or --yes")
        if not typer.confirm(f"Did {name} read out the same?", err=True):
            raise PrivacyRefusal(
                f"not confirmed: this may not be {name}'s key; ask for it again over another "
                "channel"
            )
    book.save(settings.folder)
    say(f"{name} is confirmed with key {told}")


@app.command("list")
def list_peers(folder: Folder = HERE, as_json: Json = False) -> None:
    """Who is confirmed, and this site's own key to tell others."""
    from heterofedsyn.masking.identity import key_fingerprint
    from heterofedsyn.site.peers import Peers
    from heterofedsyn.site.settings import SiteSettings
    from heterofedsyn.site.signing import Identity

    settings = SiteSettings.load(folder)
    own = Identity.load(settings.key).public
    peers = sorted(Peers.load(settings.folder).keys.items())
    if as_json:
        entries = [(settings.name, own), *peers]
        first, *others = (
            {"site": name, "key": key, "fingerprint": key_fingerprint(key)} for name, key in entries
        )
        say_json({"own": first, "peers": others})
        return
    show_table(
        f"Address book of {settings.name}",
        ["site", "key", "fingerprint"],
        [[name, key, aloud(key_fingerprint(key))] for name, key in peers],
    )
    for line in own_key(settings, own):
        say(line)


@app.command()
def remove(name: Name, folder: Folder = HERE) -> None:
    """Take a site out of the book.

    Studies with its key are answered no longer.
    """
    from heterofedsyn.site.owner import own_settings
    from heterofedsyn.site.peers import Peers

    settings = own_settings(folder)
    Peers.load(settings.folder).remove(name).save(settings.folder)
    say(f"{name} is no longer confirmed")


def own_key(settings: SiteSettings, key: str) -> list[str]:
    """What a site tells others of its key."""
    from heterofedsyn.masking.identity import key_fingerprint

    return [
        f"the key of {settings.name}, for coordinators and other sites: {key}",
        f"its fingerprint, to read out by telephone: {aloud(key_fingerprint(key))}",
    ]
