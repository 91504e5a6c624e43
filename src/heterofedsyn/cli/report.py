"""`heterofedsyn report`: one page about a release, to publish or to keep."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from heterofedsyn.cli._options import OverwriteFile, check_file
from heterofedsyn.errors import UsageError

if TYPE_CHECKING:
    from heterofedsyn.report import Agreed


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A release folder.")],
    out: Annotated[Path, typer.Option(help="The page, an .html file.")],
    real: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LOCATION",
            help="PRIVATE rows to compare with, a file or a database's query; repeat to pool. "
            "Makes the internal form, which must not be published.",
        ),
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LOCATION",
            help="PRIVATE rows the study did not see; repeat to pool. Needs --real.",
        ),
    ] = None,
    audience: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="board",
            help="A page for an ethics board instead: two printed sheets on what is promised.",
        ),
    ] = None,
    receipt: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="A site's receipt: the page says who agreed; repeat for more."
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="A site's public key, or a file of it, that you vouch for; repeat for more. "
            "Needs --receipt.",
        ),
    ] = None,
    overwrite: OverwriteFile = False,
) -> None:
    """Describe a release in one HTML page.

    The public form needs the release alone and may be published with it. Real rows (--real) make
    an internal form, with comparisons to them and readable by its owner only. A board gets a page
    of its own (--for board), with what receipts of sites say if they are given.
    """
    from heterofedsyn.cli._show import note
    from heterofedsyn.drawing import check_drawing
    from heterofedsyn.report import (
        REPORT,
        board_report,
        internal_report,
        public_report,
        strangers,
        write_page,
    )

    if test and not real:
        raise UsageError("--test needs --real, the rows that the study saw")
    if audience not in (None, "board"):
        raise UsageError(f"--for {audience}: there is a page for a board; write --for board")
    if audience and real:
        raise UsageError("--for board needs the release alone; leave out --real")
    if key and not receipt:
        raise UsageError("--key needs --receipt, the file that the key has signed")
    _check_place(folder, out, REPORT, board=bool(audience or receipt), internal=bool(real))
    check_file(out, ".html", overwrite=overwrite)
    check_drawing()
    agreed = _agreed(folder, receipt or [], key or [])
    if real:
        note("comparing with private rows; this takes a while")
        text = internal_report(folder, real, test or None, agreed)
    elif audience:
        text = board_report(folder, agreed)
    else:
        text = public_report(folder, agreed)
    write_page(out, text, private=bool(real))
    others = strangers(folder)
    if others:
        named = ", ".join(others[:5]) + (" and others" if len(others) > 5 else "")
        note(
            f"not of the release, so not on the page: {named}; look at {folder} before it is "
            "published"
        )
    form = "internal form, with private rows: do not publish" if real else "public form"
    note(f"{'page for a board' if audience else form}, in {out}")


def _check_place(folder: Path, out: Path, name: str, *, board: bool, internal: bool) -> None:
    """Refuse a page that would lie in a release, which is published, and is not its own.

    Args:
        name: of the page that a release has.
    """
    inside = release_around(out)
    if inside is not None and board:
        raise UsageError(
            f"--out {out} lies in a release, which is published as a whole; keep a page for a "
            "board, or with receipts, somewhere else"
        )
    if inside is not None and internal:
        raise UsageError(
            f"--out {out} lies in a release, which is published as a whole; keep the internal form "
            "somewhere else"
        )
    if inside is not None and inside != folder.resolve():
        raise UsageError(
            f"--out {out} lies in another release than {folder}; name a place outside of it"
        )
    if inside is not None and out.resolve() != inside / name:
        raise UsageError(f"--out {out} lies in a release, where a page is called {name}")


def _agreed(folder: Path, receipts: Sequence[Path], keys: Sequence[str]) -> list[Agreed]:
    """What the receipts of a release say, once their signatures hold.

    Raises:
        HeterofedsynError: if one was changed, does not add up, is of another study, or contradicts
            the release.
    """
    if not receipts:
        return []
    from heterofedsyn.hub.release import load
    from heterofedsyn.masking.identity import raw_key
    from heterofedsyn.report import Agreed
    from heterofedsyn.report.receipts import contradictions
    from heterofedsyn.site.receipt import SignedReceipt
    from heterofedsyn.site.signing import read_public_key

    release = load(folder)
    run = release.run
    known = {raw_key(read_public_key(key)) for key in keys}
    told: dict[str, Agreed] = {}
    for path in receipts:
        signed = SignedReceipt.load(path)
        signed.check()
        made = signed.receipt
        if made.study != run.study:
            raise UsageError(f"{path} is the receipt of another study than {folder}")
        if made.site not in run.sites:
            raise UsageError(
                f"{path} is the receipt of {made.site!r}, which is no site of the study; give "
                f"those of {', '.join(run.sites[:5])}{' and others' if len(run.sites) > 5 else ''}"
            )
        if differing := contradictions(made, release):
            raise UsageError(
                f"{path} is of a study of the same name as {folder}, but they do not agree on "
                f"{', '.join(differing)}: one of them was changed; ask the site and whoever made "
                "the release"
            )
        if made.site in told:
            raise UsageError(f"{path} is a second receipt of site {made.site!r}; give one of each")
        told[made.site] = Agreed(
            site=made.site,
            by=made.consent_by,
            when=made.consent_when,
            epsilon=made.spent_epsilon,
            delta=made.delta,
            vouched=raw_key(signed.key) in known,
        )
    return [*told.values()]


def write_report(folder: Path) -> bool:
    """The public form into a new release; without the extra, a line that says how to get it."""
    from heterofedsyn.cli._show import note
    from heterofedsyn.drawing import can_draw
    from heterofedsyn.report import REPORT, public_report, write_page

    if not can_draw():
        note(f"no {REPORT}: it needs the extra `report`: pip install 'heterofedsyn[report]'")
        return False
    write_page(folder / REPORT, public_report(folder), private=False)
    return True


def release_around(path: Path) -> Path | None:
    """The release folder that a file would lie in, at whatever depth."""
    parts = ("model", "privacy.json", "run.json")
    for folder in path.resolve().parents:
        if all((folder / part).is_file() for part in parts):
            return folder
    return None
