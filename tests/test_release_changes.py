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
from heterofedsyn.report import public_report
from release_changes import changes, forgeries, release_values, write

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
    for words, other in forgeries(value):
        yield words, partial(dict, other)
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
        value = data.draw(st.sampled_from(found))[1]
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
