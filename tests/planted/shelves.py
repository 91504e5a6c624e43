"""Bugs of secure aggregation in prices and books: what a sum costs, and what a site remembers."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import Any

from planted import places as at
from planted.bugs import sums
from planted.planting import changed, instead_of, wrap

# PRICES

priced = partial(sums, first="what a sum costs: 5 sites")
DEAR = r"a record costs rho"


@priced("each of c sites adds a c-th of the variance", DEAR)
@instead_of(at.SecureAggregation._share)
def _(true: Any, own: at.SecureAggregation, sensitivity: float, budget: at.Budget) -> float:
    return at.sigma_for(sensitivity, budget) / math.sqrt(own.sites) * (1 + 1e-15)


@priced("the slack of a sketch is that of its length", r"sketch: " + DEAR)
@instead_of(at.SecureAggregation.slack)
def _(
    true: Any, own: Any, sigma: float, sensitivity: float, integers: int, l1: Any = None
) -> float:
    return float(true(own, sigma, sensitivity, integers, sensitivity))


@priced("a sum is priced as if it were one Gaussian", DEAR)
@instead_of(at.SecureAggregation.slack)
def _(true: Any, *how: Any) -> float:
    return 0.0


@priced("an answer seen alone costs what it costs in a sum", r"seen alone, answers cost")
@instead_of(at.Desk.answer)
def _(true: Any, desk: at.Desk, query: Any, store: Any, pack: Any = None) -> Any:
    def book(price: at.Price) -> None:
        store.charge(replace(price, alone=price.cost))

    return true(desk, query, changed(store, charge=book), pack)


# BOOKS

on_disk = partial(sums, first="on disk")


@on_disk(
    "there is no cap on answers seen alone", r"a cap on answers seen alone|than the cap on that"
)
@instead_of(at.Books.afford)
def _(true: Any, own: at.Books, *how: Any, alone_cap: Any = None, **more: Any) -> None:
    true(own, *how, **more)


@on_disk("what an answer costs by itself is not booked", r"by themselves, .* is booked")
@instead_of(at.Books.charge)
def _(true: Any, own: at.Books, *how: Any, alone: Any = None, **more: Any) -> None:
    true(own, *how, **more)


@on_disk("an older copy of a site of sums is accepted", r"a copy from before .* was answered")
@instead_of(at.agreement.check)
def _(true: Any, *how: Any) -> None:
    return None


@on_disk("a key that is gone is made anew", r"without its key: key was answered")
def _() -> None:
    def key(true: Any, own: at.Shelf) -> Any:
        try:
            return true(own)
        except at.NotApproved:
            return own.books.secret(own.study, "key")

    def keep_key(true: Any, own: at.Shelf, private: bytes) -> Any:
        if own.study not in own.books.account.joined:
            return true(own, private)
        own.books.keep_secret(own.study, "key", private)
        return private

    wrap(at.Shelf.key, key)
    wrap(at.Shelf.keep_key, keep_key)


@on_disk("a study that ended is approved again", r"the study was approved again")
@instead_of(at.consent.check_first)
def _(true: Any, *how: Any) -> None:
    return None


@on_disk("the key of a study outlives consent", r"private key is still there")
@instead_of(at.private.forget)
def _(true: Any, *how: Any) -> None:
    return None


@on_disk("a repaired site signs with its old key", r"signs with the same key")
@instead_of(at.retiring.retire_key)
def _(true: Any, folder: Any, number: int) -> Any:
    return at.Identity.load(folder / "key.pem").public


@on_disk("a site on disk signs a second set when it is started anew", r"another set was answered")
def _() -> None:
    def once(true: Any, own: at.Books, entry: Any) -> None:
        if entry.about not in own._index.noted:
            true(own, entry)

    def vote(true: Any, own: at.Member, asked: Any) -> Any:
        return true(changed(own, memory=changed(own.memory, agreed=lambda query: None)), asked)

    wrap(at.Member.vote, vote)
    wrap(at.Books._once, once)


@on_disk(
    "a site that forgot what it signed goes on", r"with its anchor from before .* was answered"
)
@instead_of(at.Shelf.lock)
def _(true: Any, own: at.Shelf, reason: str) -> None:
    return None
