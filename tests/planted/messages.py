"""Bugs of what leaves: messages, `privacy.json`, receipts and releases that tell too much."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import structs

from planted import places as at
from planted.bugs import Planting, coupling, noise
from planted.planting import changed, instead_of, never, put, through, wrap


def _any_length() -> None:
    """The hub takes a release of any length."""
    never(at.replies._misfit, "data")


@coupling("zero cells left out", r"every cell and zeros too")
def _() -> None:
    def release(desk: at.Desk, door: Any, exact: at.Exact, terms: at.Terms, *how: Any) -> Any:
        some = exact.values[exact.values != 0]
        return door(at.Exact(some), structs.replace(terms, integers=some.size), *how)

    through(at.Desk.answer, at.add_noise, release)
    _any_length()


@coupling("a message whose length depends on data", r"not 8 bytes for each", "lengths")
def _() -> None:
    def of(true: Any, *how: Any, **more: Any) -> Any:
        made = true(*how, **more)
        data = np.trim_zeros(made.values, "b").astype("<i8").tobytes()
        return structs.replace(made, data=data)

    wrap(at.Released.of, of)
    _any_length()


@coupling("the exact n sent beside the noise", r"un-noised")
def _() -> None:
    def answer(true: Any, desk: at.Desk, *how: Any) -> bytes:
        said = at.decode(true(desk, *how), at.Answer)
        return at.encode(structs.replace(said, study=f"{said.study} {desk.counts().rows}"))

    wrap(at.Desk.answer, answer)
    never(at.replies._fault, "study")


@noise("fresh noise on redelivery without a charge", r"other bytes", "same query again")
@instead_of(at.Desk.answer)
def _(true: Any, desk: at.Desk, query: Any, store: Any) -> Any:
    return true(desk, query, changed(store, kept=lambda query: None))


@coupling("the exact n published", r"does not follow from the answers", "release of")
@instead_of(at.run_study)
def _(true: Any, schema: Any, plan: Any, method: Any, tables: Any, **more: Any) -> Any:
    made = true(schema, plan, method, tables, **more)
    rows = sum(table.rows for table in tables)
    return replace(made, run=structs.replace(made.run, noisy_total=rows))


@coupling("the exact n is in receipts", r"receipts: a record changes", "receipts")
@instead_of(at.receipt.issue)
def _(true: Any, settings: Any, *how: Any, **more: Any) -> Any:
    rows = len(Path(settings.source).read_bytes().splitlines()) - 1
    signed = true(settings, *how, **more)
    told = structs.replace(signed.receipt, software=f"heterofedsyn ({rows})")
    return structs.replace(signed, receipt=told)


@coupling(
    "the exact n is the default number of rows",
    r"simulate: what is published: .*synthetic.csv",
    "what is published",
)
def _() -> None:
    def fit(true: Any, own: Any, tables: Any, **more: Any) -> Any:
        own.exact = sum(table.rows for table in tables.values())
        return true(own, tables, **more)

    def save(true: Any, own: Any, folder: Any, *, rows: Any = None, **more: Any) -> Any:
        return true(own, folder, rows=rows or own.exact, **more)

    wrap(at.FederatedSynthesizer.fit_encoded, fit)
    wrap(at.FederatedSynthesizer.save, save)


def states(change: Callable[[dict[str, Any]], None]) -> Planting:
    """`privacy.json` says something else."""

    @instead_of(at.statement.state)
    def planting(true: Any, *how: Any, **more: Any) -> Any:
        made = true(*how, **more)
        said = msgspec.to_builtins(made)
        change(said)
        return msgspec.convert(said, type(made))

    return planting


@coupling(
    "privacy.json understates what an answer seen alone costs",
    r"secure-aggregation.* states rho_alone",
    "secure-aggregation",
)
@states
def _(said: dict[str, Any]) -> None:
    said["rho_alone"] = said["rho"]


@coupling(
    "privacy.json states the noise of all sites where some may collude",
    r"secure-aggregation.* sigma of a release is stated",
    "secure-aggregation",
)
@instead_of(at.guaranteed)
def _(true: Any, terms: at.Terms, trust: Any) -> at.Terms:
    return at.of_the_sum(terms, 1 if trust.name == "local" else trust.sites)


@coupling("privacy.json overstates every sigma", r"sigma of a release is stated")
@states
def _(said: dict[str, Any]) -> None:
    for site in said["sites"]:
        for charge in site["charges"]:
            for part in charge["parts"]:
                part["sigma"] *= 10


@coupling("privacy.json states a tenth of epsilon", r"states epsilon")
@states
def _(said: dict[str, Any]) -> None:
    said["epsilon"] /= 10


@coupling(
    "a site answers alone where only sums are seen",
    r"a query of its own where only sums",
    "every site's own answer",
)
@instead_of(at.Desk._check)
def _(true: Any, desk: at.Desk, query: at.Query, encoded: bytes) -> None:
    true(desk, msgspec.structs.replace(query, to=None), encoded)


@coupling("local-merge may run where only sums are seen", r"local-merge", "every site's own answer")
def _() -> None:
    put(at.LocalMerge, "sums", True)
