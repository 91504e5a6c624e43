"""A release from anybody is refused in one line, or all that is done with releases works on it."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.law import check_words
from heterofedsyn import load
from heterofedsyn.errors import HeterofedsynError, HeterofedsynWarning, ReleaseError
from heterofedsyn.hub import METHODS, Release
from heterofedsyn.privacy.budget import Budget
from heterofedsyn.report import public_report
from release_changes import agreeing, changes, forgeries, release_values, write

pytestmark = pytest.mark.sweep

ROWS = 200
NAMES = (
    *(f"{method} local" for method in METHODS),
    *(
        f"{name} secure-aggregation"
        for name, method in METHODS.items()
        if method.sums and not method.pools
    ),
)


def loaded(value: dict[str, Any], place: Path) -> Release | None:
    """The release, or None if it is refused as it should be."""
    write(value, place)
    try:
        return load(place)
    except ReleaseError as error:
        check_words(str(error))
        return None


def use(release: Release) -> None:
    """All that Python does with a release; only a pair that was not measured has no accuracy."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", HeterofedsynWarning)
        assert release.sample(ROWS, seed=1).num_rows == ROWS
        assert sum(part.num_rows for part in release.batches(3, seed=2)) == 3
        domain = release.schema.domain
        for clique in ((), *domain.singles()):
            assert np.all(np.isfinite(release.accuracy(clique).standard_error))
        for pair in domain.pairs():
            try:
                assert np.all(np.isfinite(release.accuracy(pair).standard_error))
            except HeterofedsynError as error:
                check_words(str(error))


def changed(
    value: dict[str, Any],
) -> Iterator[tuple[str, Callable[[], dict[str, Any] | None]]]:
    """Every change of a release in words, and what makes it, None if it changes nothing."""
    yield from forgeries(value)
    for change in changes(value):
        yield f"{change.what} {change.path}", partial(change.of, value)


def check_some(name: str, place: Path, *, every: int, first: int, pages: int) -> None:
    """The law for one change in so many, and on the page for so many of those that load."""
    value = msgspec.msgpack.decode(release_values()[name])
    refused = 0
    for words, make in itertools.islice(changed(value), first, None, every):
        other = make()
        if other is None:
            continue
        try:
            release = loaded(other, place)
            if release is None:
                refused += 1
                continue
            use(release)
            if pages > 0:
                pages -= 1
                assert "Report on a synthetic table" in public_report(place)
        except Exception as error:
            raise AssertionError(f"{name}: {words}: {type(error).__name__}: {error}") from error
    assert refused > 0


def test_there_are_releases_of_every_method_and_trust_model() -> None:
    assert {*release_values()} == {*NAMES}


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_a_changed_release_is_refused_or_works(name: str, tmp_path: Path) -> None:
    """One change in fifty; other ones for every method."""
    check_some(name, tmp_path / "r", every=50, first=NAMES.index(name), pages=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_many_changed_releases_are_refused_or_work(name: str, tmp_path: Path) -> None:
    """One change in eight; other ones for every method."""
    check_some(name, tmp_path / "r", every=8, first=NAMES.index(name), pages=4)


@pytest.mark.thorough
@settings(max_examples=60, derandomize=True, database=None, deadline=None)
@given(data=st.data())
def test_several_changes_at_once_are_refused_or_work(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """One forgery after the other, of which each leaves a release that could be loaded."""
    name = data.draw(st.sampled_from(NAMES))
    value = msgspec.msgpack.decode(release_values()[name])
    place = tmp_path_factory.getbasetemp() / "several"
    for _ in range(data.draw(st.integers(2, 4))):
        found = [*forgeries(value)]
        value = data.draw(st.sampled_from(found))[1]()
        release = loaded(value, place)
        if release is None:
            return
        use(release)


@pytest.mark.parametrize("name", NAMES)
def test_an_unchanged_release_loads_and_works(name: str, tmp_path: Path) -> None:
    value = msgspec.msgpack.decode(release_values()[name])
    release = loaded(value, tmp_path / "r")
    assert release is not None
    use(release)


# FIGURES THAT FOLLOW FROM EACH OTHER

FREE = {
    ("run", "pairs", "score"): "from answers that a release does not hold",
    ("run", "differences", "attributes", "distance"): "likewise",
    ("run", "differences", "attributes", "noise"): "likewise, and from the distributions",
}
"""Numbers that follow from nothing else in a release, by the names on the way to them."""

FREE_IN_SUMS = {
    ("run", "seed"): "part of the study's name, as is a roster that a release does not tell",
    ("run", "settings"): "likewise, where the model has no such setting",
}
"""The same where only sums are seen."""


def figures(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the numbers of the records and the variances of the model are."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield way
        return
    for step in value if isinstance(value, dict) else range(len(value)):
        if isinstance(value[step], str | bytes | bool | None):
            continue
        yield from figures(value[step], (*way, step))


def with_other(value: dict[str, Any], way: tuple[Any, ...]) -> dict[str, Any]:
    """The release with that number changed: a fraction by a thousandth, a whole number by half."""
    other: dict[str, Any] = msgspec.msgpack.decode(msgspec.msgpack.encode(value))
    holder: Any = other
    for step in way[:-1]:
        holder = holder[step]
    found = holder[way[-1]]
    holder[way[-1]] = found * 1.001 if isinstance(found, float) else found + found // 2 + 1
    return other


def is_free(way: tuple[Any, ...], name: str, value: dict[str, Any]) -> bool:
    names = tuple(step for step in way if isinstance(step, str))
    model = {**value["model"]["settings"], **value["model"]["rebuild_settings"]}
    if names[:2] == ("run", "settings") and names[2] in model:
        return False
    free = [*FREE, *(FREE_IN_SUMS if "secure" in name else ())]
    return any(names[: len(each)] == each for each in free)


def check_figures(name: str, place: Path, *, every: int, first: int) -> None:
    """Each number is noticed when it is another, or listed as one that follows from nothing."""
    value = msgspec.msgpack.decode(release_values()[name])
    model = {"populations": value["model"]["populations"]}
    records = {**{part: value[part] for part in ("privacy", "run")}, "model": model}
    ways = [*figures(records)]
    assert len(ways) > 30
    for way in itertools.islice(ways, first % every, None, every):
        release = loaded(with_other(value, way), place)
        assert (release is not None) == is_free(way, name, value), (name, way)


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_a_number_that_follows_from_others_cannot_be_another(name: str, tmp_path: Path) -> None:
    """One number in five; other ones for every method."""
    check_figures(name, tmp_path / "r", every=5, first=NAMES.index(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_no_number_that_follows_from_others_can_be_another(name: str, tmp_path: Path) -> None:
    check_figures(name, tmp_path / "r", every=1, first=0)


def without_charges(value: dict[str, Any]) -> None:
    for account in value["privacy"]["sites"]:
        account.update(rho=1e-6, charges=[])
    for each in value["privacy"].get("sums", [])[:]:
        value["privacy"]["sums"].remove(each)


def other_guarantee(value: dict[str, Any]) -> None:
    without_charges(value)
    factor = value["privacy"]["rho_alone"] / value["privacy"]["rho"]
    rho = Budget.of(epsilon=0.01, delta=1e-9).rho
    value["privacy"].update(epsilon=0.01, rho=rho, rho_alone=rho * factor)
    for account in value["privacy"]["sites"]:
        account["rho"] = 0.0


def less_noise(value: dict[str, Any]) -> None:
    for population in value["model"]["populations"]:
        for found in population:
            found["variance"] *= 1e-8


def dearer_parts(value: dict[str, Any]) -> None:
    for account in value["privacy"]["sites"]:
        for charge in account["charges"]:
            for part in charge["parts"]:
                part.update(sigma=part["sigma"] / 100, rho=part["rho"] * 10_000)


def dearer_charges(value: dict[str, Any]) -> None:
    dearer_parts(value)
    for account in value["privacy"]["sites"]:
        for charge in account["charges"]:
            charge["rho"] *= 10_000


def cheaper_charges(value: dict[str, Any]) -> None:
    """All of them agree with each other; only the model tells of less noise."""
    for account in value["privacy"]["sites"]:
        account["rho"] /= 4
        for charge in account["charges"]:
            charge["rho"] /= 4
            for part in charge["parts"]:
                part.update(sigma=part["sigma"] * 2, rho=part["rho"] / 4)
    value["run"]["differences"] = []


def other_schema(value: dict[str, Any]) -> None:
    value["run"]["schema"] = "0" * 64


TOGETHER = (
    without_charges,
    other_guarantee,
    less_noise,
    dearer_parts,
    dearer_charges,
    cheaper_charges,
    other_schema,
)


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_figures_that_are_changed_together_are_noticed(name: str, tmp_path: Path) -> None:
    """A forger gives the study the name that the changed records tell."""
    for change in TOGETHER:
        value = msgspec.msgpack.decode(release_values()[name])
        change(value)
        assert loaded(agreeing(value), tmp_path / "r") is None, change.__name__
