"""Sketches: the same everywhere, integer, and as sensitive as they say."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from heterofedsyn.marginals import Sketch, SketchKind
from heterofedsyn.schema import Domain

DOMAIN = Domain(("a", "b", "c"), (7, 13, 40))


@pytest.mark.parametrize(
    ("kind", "digest"),
    [
        (SketchKind.SIGNS, "62c6e85baa9dba59"),
        (SketchKind.GAUSSIAN, "11f1b53b517e1a1c"),
    ],
)
def test_a_sketch_is_the_same_on_every_machine_and_in_every_version(
    kind: SketchKind, digest: str
) -> None:
    matrix = Sketch.draw(DOMAIN, ("b", "c"), 10, 42, kind).matrix
    assert hashlib.sha256(matrix.astype("<i4").tobytes()).hexdigest()[:16] == digest


@given(st.integers(0, 2**62), st.integers(1, 40), st.sampled_from(SketchKind))
def test_sensitivity_is_the_longest_row_never_less(seed: int, width: int, kind: SketchKind) -> None:
    sketch = Sketch.draw(DOMAIN, ("a", "b"), width, seed, kind)
    longest = int((sketch.matrix.astype(np.int64) ** 2).sum(axis=1).max())
    assert sketch.sensitivity**2 >= longest * (1 - 1e-15)
    assert sketch.sensitivity == pytest.approx(math.sqrt(longest), rel=1e-12)
    if kind is SketchKind.SIGNS:
        assert longest == width


@pytest.mark.parametrize("kind", SketchKind)
@pytest.mark.parametrize("sizes", [(64, 65), (300, 300)], ids=str)
def test_no_row_of_a_large_sketch_is_longer_than_its_sensitivity(
    sizes: tuple[int, int], kind: SketchKind
) -> None:
    domain = Domain(("a", "b"), sizes)
    longest = []
    for seed in range(8):
        sketch = Sketch.draw(domain, ("a", "b"), 2, seed, kind)
        squares = (sketch.matrix.astype(np.int64) ** 2).sum(axis=1)
        assert squares.size == sizes[0] * sizes[1]
        assert sketch.sensitivity == pytest.approx(math.sqrt(squares.max()), rel=1e-12)
        assert sketch.sensitivity**2 >= squares.max() * (1 - 1e-15)
        longest.append(int(squares.argmax()) / squares.size)
    if kind is SketchKind.GAUSSIAN:
        assert min(longest) < 0.5 < max(longest), "the longest row is sometimes late"


@given(st.integers(0, 2**62), st.sampled_from(SketchKind))
def test_a_sketch_of_counts_is_integer_and_additive(seed: int, kind: SketchKind) -> None:
    sketch = Sketch.draw(DOMAIN, ("a", "b"), 10, seed, kind)
    rng = np.random.default_rng(seed)
    one, two = rng.integers(0, 1000, (2, 7 * 13))
    assert sketch.count(one).dtype == np.int64
    assert np.array_equal(sketch.count(one) + sketch.count(two), sketch.count(one + two))
    projected = sketch.project(one.astype(np.float64))
    assert np.allclose(projected, sketch.count(one) * sketch.scale)


@pytest.mark.parametrize("kind", SketchKind)
def test_squared_length_is_kept_on_average(kind: SketchKind) -> None:
    values = np.random.default_rng(0).random(7 * 13)
    squares = np.array(
        [
            float((Sketch.draw(DOMAIN, ("a", "b"), 10, seed, kind).project(values) ** 2).sum())
            for seed in range(2_000)
        ]
    )
    error = squares.std() / math.sqrt(squares.size)
    assert abs(squares.mean() - float(values @ values)) < 4 * error


@pytest.mark.thorough
def test_gaussian_entries_are_normal_and_signs_are_fair() -> None:
    import scipy.stats  # seconds of every run that needs it

    domain = Domain(("a", "b"), (200, 200))
    gaussian = Sketch.draw(domain, ("a", "b"), 10, 3, SketchKind.GAUSSIAN)
    entries = gaussian.matrix.ravel() * gaussian.scale * math.sqrt(10)
    assert scipy.stats.kstest(entries, "norm").pvalue > 1e-4
    signs = Sketch.draw(domain, ("a", "b"), 10, 3, SketchKind.SIGNS).matrix
    assert set(np.unique(signs)) == {-1, 1}
    assert abs(int(signs.sum())) < 4 * math.sqrt(signs.size)
