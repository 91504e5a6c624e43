"""Bugs of persons: who is one, which few of their rows count, and where they may be."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from planted import places as at
from planted.bugs import coupling
from planted.planting import instead_of, shadow, wrap

spark = partial(coupling, first="workers of Spark")
over_files = partial(coupling, first="people over files")

_COUNTED = r"people over files.* counted wrongly"


@coupling("a person with more than L rows kept", r"3 rows a person.* moved more", "3 rows")
@instead_of(at.People.__init__)
def _(true: Any, people: at.People, most: int, *how: Any) -> None:
    true(people, most + 1, *how)


@over_files("the limit of L rows per person counted for each batch alone", _COUNTED)
def _() -> None:
    batches = count()

    def admit(true: Any, people: at.People, codes: Any, identities: Any) -> None:
        batch = next(batches)
        texts = pa.array([f"{batch} {text}" for text in identities.dictionary.to_pylist()])
        true(people, codes, pa.DictionaryArray.from_arrays(identities.indices, texts))

    wrap(at.People.admit, admit)


@over_files("rows of nobody kept, as if each had a person of its own", _COUNTED)
@instead_of(at.units.identify)
def _(true: Any, *how: Any) -> Any:
    found, known = true(*how)
    own = pa.array([f"row {number}" for number in range(len(found))])
    texts = pa.concat_arrays([found.dictionary, own.cast(found.dictionary.type)])
    places = found.indices.fill_null(0).to_numpy()
    places = np.where(known, places, len(found.dictionary) + np.arange(len(found)))
    return pa.DictionaryArray.from_arrays(pa.array(places), texts), np.ones_like(known)


@over_files("17 and 17.0 taken for two people", _COUNTED)
def _() -> None:
    shadow(at.units, at.parsing, integer_form=lambda texts: texts)


@over_files("a person's number with a blank before it is another person", _COUNTED)
def _() -> None:
    shadow(at.units, pc, utf8_trim_whitespace=lambda texts: texts)


@coupling("an accent makes two people", r"people in .* rows are counted as", "however spelt")
def _() -> None:
    shadow(at.units, pc, utf8_normalize=lambda texts, form: texts)


@coupling(
    "L rows of a person count in every batch",
    r"(people over files|many people|people, however spelt).*count",
    "people",
)
@instead_of(at.Encoder.encode)
def _(true: Any, encoder: at.Encoder, batches: Any) -> Any:
    for batch in batches:
        yield from true(encoder, [batch])


@coupling(
    "people are forgotten after 100,000 others",
    r"people with one row each are counted as",
    "many people",
)
@instead_of(at.People.admit)
def _(true: Any, people: at.People, *how: Any) -> None:
    if len(people._number) > 100_000:
        people._number = {f"gone {number}": number for number in people._number.values()}
    true(people, *how)


@coupling(
    "which rows of a person count follows the order of delivery",
    r"people in any order: .* rows count in another order that did not before",
    "people in any order",
)
def _() -> None:
    delivered = count()

    def ranks(true: Any, codes: Any, salts: Any) -> Any:
        return np.fromiter(delivered, np.int64, codes.shape[1])

    wrap(at.units.ranks, ranks)


@coupling(
    "a person may be at two sites",
    r"a person at two sites: people have rows at two sites: the exit code is 0",
    "a person at two sites",
)
@instead_of(at.persons.check_persons)
def _(true: Any, sites: Any) -> Any:
    return None


@coupling(
    "one file may be two sites",
    r"a person at two sites: one file is given as two sites: the exit code is 0",
    "a person at two sites",
)
@instead_of(at.apart.check_apart)
def _(true: Any, tables: Any) -> Any:
    return None


@spark(
    "workers of Spark rank rows by their order",
    r"workers of Spark: .*other rows are counted than from any other source",
)
def _() -> None:
    shadow(at.spark_tasks, at.units, ranks=lambda codes, salts: np.arange(codes.shape[1]))


@spark("Spark's workers count three columns twice", r"workers of Spark: .*other rows are counted")
def _() -> None:
    def twice(true: Any, tables: Any, views: Any, *how: Any) -> Any:
        found = true(tables, views, *how)
        return [own * (1 + (len(view) == 3)) for own, view in zip(found, views, strict=True)]

    wrap(at.counts.count_views, twice, only=at.spark_tasks)


@spark(
    "workers of Spark keep one row more of a person", r"workers of Spark: .*rows are counted, not"
)
@instead_of(at.spark_tasks.Limit.__call__)
def _(true: Any, own: Any, *how: Any) -> Any:
    return true(replace(own, most=own.most + 1), *how)


@spark(
    "the total of a table of Spark has all rows of a person", r"workers of Spark: .*the total is"
)
@instead_of(at.spark_counting.count)
def _(true: Any, *how: Any, **more: Any) -> Any:
    counts, fit = true(*how, **more)
    counts.rows += fit.rows_over
    return counts, fit
