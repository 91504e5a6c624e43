"""Bugs of the ledger on disk: what is booked, flushed, repaired and believed."""

from __future__ import annotations

import os
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

from msgspec import structs

from planted import places as at
from planted.bugs import ledger
from planted.planting import instead_of, leave_out, never, wrap

on_disk = partial(ledger, first="on disk")


@on_disk(
    "the ledger is not flushed before the anchor is written",
    r"an agent's end left books that are disputed",
)
def _() -> None:
    leave_out(at.Books._append, os.fsync)


@on_disk("an answer may leave before its name is flushed", r"an agent's end left|gone from")
def _() -> None:
    leave_out(at.durable.write_as, at.durable.flush_folder)


@on_disk("a repair does not look at the anchor", r"a repair books less")
@instead_of(at.repair._repaired)
def _(true: Any, data: bytes, known: Any, *how: Any) -> Any:
    return true(data, known and structs.replace(known, rho=0.0), *how)


@on_disk("a repair books what the ledger says and no more", r"a repair books less")
@instead_of(at.repair._repaired)
def _(true: Any, data: bytes, known: Any, study_cap: at.Budget, *how: Any) -> Any:
    return true(data, known and structs.replace(known, rho=0.0), at.Budget(0.0), *how)


@ledger("a repair does not count against the cap", r"repairs count: ", "repairs count")
@instead_of(at.Books._ledgers)
def _(true: Any, own: at.Books, study: str, cap: at.Budget, study_cap: at.Budget) -> Any:
    table, other = true(own, study, cap, study_cap)
    repaired = sum(Fraction(entry.rho) for entry in own.account.repairs)
    return at.Ledger(table.table, cap, before=table.before - repaired), other


@on_disk("a charge from before a repair stays paid", r"a charge from before a repair paid")
@instead_of(at.Index.take)
def _(true: Any, own: at.Index, line: bytes, entry: Any) -> None:
    if not isinstance(entry, at.Repaired):
        true(own, line, entry)


@on_disk(
    "an anchor is known by its number alone", r"a ledger was accepted with the anchor of another"
)
def _() -> None:
    never(at.agreement.check, "known", "head")


@on_disk(
    "an older copy of the ledger accepted",
    r"older copy of the ledger was accepted|knows less than before",
)
@instead_of(at.agreement.check)
def _(true: Any, *how: Any) -> Any:
    return None


@on_disk("a charge booked at half its price", r"a charge is not what was asked")
@instead_of(at.Books._append)
def _(true: Any, own: at.Books, entry: Any) -> None:
    halved = isinstance(entry, at.Charged)
    true(own, structs.replace(entry, rho=entry.rho / 2) if halved else entry)


@ledger(
    "charges below 1e-9 of the cap are booked as nothing",
    r"on disk: a price is booked as another",
    "any size",
)
@instead_of(at.Books.charge)
def _(
    true: Any, own: Any, study: Any, query: Any, label: Any, cost: at.Budget, **more: Any
) -> None:
    small = cost.rho < 1e-9 * more["cap"].rho
    true(own, study, query, label, at.Budget(0.0) if small else cost, **more)


@on_disk("the cap of the table over several studies forgotten", r"table spent more than its cap")
@instead_of(at.Books._ledgers)
def _(true: Any, *how: Any) -> Any:
    return true(*how)[1:]


@ledger(
    "an agent has a tolerance of 1e-6 on its caps",
    r"an agent: .* of the cap was spent above it",
    "last bit",
)
def _() -> None:
    def wider(true: Any, shelf: at.Shelf, price: at.Price) -> None:
        cap, study_cap = (
            at.Budget(cap.rho * (1 + 1e-6)) for cap in (shelf.limits.cap, shelf.limits.study_cap)
        )
        true(replace(shelf, limits=replace(shelf.limits, cap=cap, study_cap=study_cap)), price)

    wrap(at.Shelf.afford, wider)
    wrap(at.Shelf.charge, wider)
