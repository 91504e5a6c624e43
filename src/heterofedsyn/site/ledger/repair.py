"""Making a disputed ledger usable: what it or its anchor says is spent, and one study more."""

from __future__ import annotations

from pathlib import Path

from heterofedsyn.errors import LedgerDisputed, UsageError
from heterofedsyn.privacy.budget import Budget, together
from heterofedsyn.privacy.ledger import shortfall
from heterofedsyn.site.ledger.agreement import LEDGER, check, lock_both, read_ledger
from heterofedsyn.site.ledger.anchor import Anchor, place_of, write_anchor
from heterofedsyn.site.ledger.answers import ANSWERS
from heterofedsyn.site.ledger.durable import held, saying, write
from heterofedsyn.site.ledger.entries import Account, Chain, Repaired, salvaged, unit_in


def repair(folder: Path, anchor: Path, study_cap: Budget, *, restored: bool = False) -> Account:
    """Book what may be missing from a disputed ledger: the cap of one study.

    The entries that still form a chain are kept, and so is the old file, beside the new one.
    No consent that was given before holds any longer.

    Args:
        restored: ledger and anchor were restored together, so that they agree and may both
            have lost entries.

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
        chain = _repaired(data or b"", known, study_cap, f"{path} and {anchor}")
        if data is not None:
            write(folder / f"{LEDGER}.before-{_number(chain)}", data)
        (folder / ANSWERS).mkdir(mode=0o700, exist_ok=True)
        write(path, chain.to_bytes())
        write_anchor(anchor, chain)
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


def _repaired(data: bytes, known: Anchor | None, study_cap: Budget, places: str) -> Chain:
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
    spent = together(entry.budget for entry in readable)
    larger = max(spent, Budget(0.0 if known is None else known.rho))
    booked = shortfall(together([larger, study_cap]), (entry.budget for entry in chain.entries))
    number = max(chain.number, 0 if known is None else known.number) + 1
    chain = chain.add(Repaired(**chain.end(number), rho=booked.rho))
    return chain.add(chain.settled(unit)) if unit and not chain.unit else chain


def _number(chain: Chain) -> int:
    """Of the last repair."""
    return chain.account.repairs[-1].number
