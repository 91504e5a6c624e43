"""Making a disputed ledger usable: what it or its anchor says is spent, and one study more."""

from __future__ import annotations

from pathlib import Path

from msgspec import UNSET

from heterofedsyn.errors import LedgerDisputed, UsageError
from heterofedsyn.privacy.budget import Budget, together
from heterofedsyn.privacy.ledger import shortfall
from heterofedsyn.site.ledger.agreement import LEDGER, check, lock_both, read_ledger
from heterofedsyn.site.ledger.anchor import Anchor, place_of, write_anchor
from heterofedsyn.site.ledger.answers import ANSWERS
from heterofedsyn.site.ledger.durable import held, saying, write
from heterofedsyn.site.ledger.entries import Account, Chain, Entry, Repaired, salvaged, unit_in
from heterofedsyn.site.ledger.locked import unlock
from heterofedsyn.site.ledger.private import forget, studies_kept
from heterofedsyn.site.ledger.retiring import retire_key


def repair(
    folder: Path,
    anchor: Path,
    study_cap: Budget,
    *,
    restored: bool = False,
    alone_cap: Budget | None = None,
) -> Account:
    """Book what may be missing from a disputed ledger: the cap of one study.

    The entries that still form a chain are kept, and so is the old file, beside the new one.
    No consent that was given before holds any longer, and the signing key is another one: nobody
    knows what was signed with the old one, or hidden under masks that its word made possible.

    Args:
        restored: ledger and anchor were restored together, so that they agree and may both
            have lost entries; or the site locked itself, because it must have lost some.
        alone_cap: the most that answers seen by themselves may cost in all; all that is left of
            it is booked.

    Raises:
        UsageError: if there is nothing to repair.
        LedgerDisputed: if neither ledger nor anchor is left to say what was spent.
        LedgerUnavailable: if another agent serves, or nothing can be written.
    """
    with saying("repair", folder):
        anchor = place_of(anchor)
    with saying("repair", folder), held(lock_both(folder, anchor)):
        path = folder / LEDGER
        data = read_ledger(folder) if path.exists() else None
        known = Anchor.if_readable(anchor)
        if not restored and data is not None and known is not None:
            _check_disputed(Chain.of(data), known, folder, anchor)
        places = f"{path} and {anchor}"
        chain = _repaired(data or b"", known, study_cap, places, alone_cap)
        number = chain.account.repairs[-1].number
        # Until the ledger is replaced it stays disputed, or locked, or consent holds that names the
        # old key: whoever ends here must repair again, which retires one more key.
        for study in studies_kept(folder):
            forget(folder, study)
        key = retire_key(folder, number)
        chain = _repaired(data or b"", known, study_cap, places, alone_cap, key)
        if data is not None:
            write(folder / f"{LEDGER}.before-{number}", data)
        (folder / ANSWERS).mkdir(mode=0o700, exist_ok=True)
        write(path, chain.to_bytes())
        write_anchor(anchor, chain)
        unlock(folder)
        return chain.account


def _check_disputed(chain: Chain, known: Anchor, folder: Path, anchor: Path) -> None:
    """Refuse to repair what needs no repair."""
    try:
        check(chain, known, folder, anchor)
    except LedgerDisputed:
        return
    raise UsageError(
        "ledger and anchor agree: there is nothing to repair, unless both were restored from older "
        "copies; then pass --restored"
    )


def _times(entry: Entry) -> float:
    """How many times its price an entry costs if somebody sees the answer by itself."""
    return entry.budget_alone.rho / entry.rho if entry.rho > 0 else 1.0


def _repaired(
    data: bytes,
    known: Anchor | None,
    study_cap: Budget,
    places: str,
    alone_cap: Budget | None,
    key: str = "",
) -> Chain:
    """The chain at the start of a file, and what was booked beyond it or may have been."""
    readable = salvaged(data)
    if not readable and known is None:
        raise LedgerDisputed(
            f"nothing is left of {places} that says what was spent; the table "
            "must count as spent: publish nothing more from it"
        )
    unit = (known.unit if known else "") or unit_in(readable)
    chain = Chain.of(data)
    if not chain.lines:
        chain = Chain.begun(unit)
    nothing = Budget(0.0)
    spent = max(together(one.budget for one in readable), known.spent if known else nothing)
    booked = shortfall(together([spent, study_cap]), (one.budget for one in chain.entries))
    alone = max(
        together(one.budget_alone for one in readable), known.spent_alone if known else nothing
    )
    # What hid in a sum had to fit under a cap; of one that was lowered or taken away since, the
    # dearest entry that is left tells how much a study may have cost.
    study_alone = study_cap.times(max((_times(one) for one in readable), default=1.0))
    most = max(alone_cap or nothing, together([alone, study_alone]))
    alone = max(booked, shortfall(most, (one.budget_alone for one in chain.entries)))
    number = max(chain.number, 0 if known is None else known.number) + 1
    chain = chain.add(
        Repaired(
            **chain.end(number),
            rho=booked.rho,
            alone=UNSET if alone == booked else alone.rho,
            key=key,
        )
    )
    return chain.add(chain.settled(unit)) if unit and not chain.unit else chain
