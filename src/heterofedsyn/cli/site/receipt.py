"""`heterofedsyn site receipt` and `verify`: a signed record of what a study got."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import UNSET

from heterofedsyn._words import count, short
from heterofedsyn.cli._options import Json, OverwriteFile, check_file
from heterofedsyn.cli._show import protected, say, say_json
from heterofedsyn.cli.site._shared import HERE, Folder, StudyName, find_study, own_settings

if TYPE_CHECKING:
    from heterofedsyn.site.receipt import Receipt


def receipt(
    study: StudyName,
    folder: Folder = HERE,
    out: Annotated[
        Path | None, typer.Option(help="The receipt; a file of the site's folder unless given.")
    ] = None,
    overwrite: OverwriteFile = False,
) -> None:
    """Sign a record of what a study got.

    It says under which guarantee and by whose consent.
    """
    from heterofedsyn.protocol.plan import unit_column
    from heterofedsyn.site.consent import recorded
    from heterofedsyn.site.ledger.books import Books
    from heterofedsyn.site.receipt import issue

    settings = own_settings(folder)
    approved, consent = recorded(settings, find_study(settings, study))
    account = Books.read(settings.folder, settings.anchor)
    signed = issue(settings, approved, consent, account, now=datetime.now(UTC))
    stem = f"{short(approved.fingerprint)}-{account.number}"
    target = settings.receipts / f"{stem}.json" if out is None else out
    check_file(target, overwrite=overwrite or out is None)
    signed.save(target)
    made = signed.receipt
    say(f"receipt in {target}")
    say(
        f"{count(len(made.releases), 'answer')}, rho {made.spent_rho:.4g} of {made.rho:.4g}, "
        f"epsilon {made.spent_epsilon:.4g} at delta {made.delta:g} for every "
        f"{protected(unit_column(made.unit))}"
    )
    _say_hidden(made)


def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A receipt.")],
    key: Annotated[
        str | None,
        typer.Option(help="The site's public key, or a file of it; else only that the file has."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a receipt: its signature and its figures."""
    from heterofedsyn.protocol.plan import unit_column
    from heterofedsyn.site.receipt import SignedReceipt
    from heterofedsyn.site.signing import read_public_key

    signed = SignedReceipt.load(file)
    signed.check(None if key is None else read_public_key(key))
    made = signed.receipt
    integers = sum(part.integers for answer in made.releases for part in answer.parts)
    if as_json:
        verified = {
            "valid": True,
            "key": signed.key,
            "key_known": key is not None,
            "site": made.site,
            "study": made.study,
            "spent_rho": made.spent_rho,
            "spent_epsilon": made.spent_epsilon,
            "delta": made.delta,
            "answers": len(made.releases),
            "integers": integers,
            "repairs": [
                {"number": booked.number, "when": booked.when, "rho": booked.rho}
                for booked in made.repairs
            ],
        }
        say_json({**verified, **_hidden_json(made)})
        return
    known = "the key given" if key is not None else f"key {signed.key}, which nobody vouched for"
    say(f"the receipt holds, signed with {known}")
    say(f"site {made.site!r}, study {made.study}, issued {made.issued}")
    say(f"consent by {made.consent_by} on {made.consent_when}")
    say(
        f"{count(len(made.releases), 'answer')} with {count(integers, 'noisy integer')}: rho "
        f"{made.spent_rho:.4g}, epsilon {made.spent_epsilon:.4g} at delta {made.delta:g} for every "
        f"{protected(unit_column(made.unit))}"
    )
    _say_hidden(made)
    for booked in made.repairs:
        say(
            f"remark: the ledger was repaired ({booked.when}, entry "
            f"{booked.number:,}, rho {booked.rho:.4g} booked): entries may be missing, and more "
            "may have been released than is said here"
        )
    if made.simulated_noise:
        say("remark: its noise was simulated and protects nobody")


def _say_hidden(made: Receipt) -> None:
    """What is said of a study that hides answers in sums."""
    study = made.aggregation
    if study is UNSET:
        return
    hidden = [one.hidden for one in made.releases if one.hidden is not UNSET]
    signed, opened = sum(bool(one.set) for one in hidden), sum(one.opened for one in hidden)
    say(
        f"{count(len(hidden), 'answer')} left under masks, {signed:,} in a set that was signed "
        f"here, of at least {study.quorum} of {len(study.sites)} sites, {opened:,} signed and "
        "opened here; others may have opened the rest"
    )
    honest = study.quorum - study.colluding
    say(
        "sigma in the receipt is that of the noise which this site added itself; what protects is "
        f"the noise of at least {honest} sites, {math.sqrt(honest):.3g} times as much, if at most "
        f"{study.colluding} of the sites collude"
    )
    say(
        f"if each answer is seen by itself: rho {study.spent_rho_alone:.4g}, epsilon "
        f"{study.spent_epsilon_alone:.4g} at delta {made.delta:g}"
    )
    if left_out := sorted({name for one in hidden for name in one.outside}):
        say(f"not in every sum: {', '.join(left_out)}")


def _hidden_json(made: Receipt) -> dict[str, Any]:
    """The same for programs."""
    study = made.aggregation
    if study is UNSET:
        return {}
    return {
        "colluding": study.colluding,
        "quorum": study.quorum,
        "spent_rho_alone": study.spent_rho_alone,
        "spent_epsilon_alone": study.spent_epsilon_alone,
        "sums": [
            {
                "query": one.query,
                "sites": one.hidden.sites,
                "opened": one.hidden.opened,
                "outside": one.hidden.outside,
            }
            for one in made.releases
            if one.hidden is not UNSET
        ],
    }
