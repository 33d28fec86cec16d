"""The first pass over a table in blocks, against the same figures of the whole table."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.core.arrays import location_scale
from mercer.estimators.blocks.facts import EACH, Targets, find_facts
from mercer.linalg.blocks.local import LocalEngine


def engine_of(X, y, w=None, size=7, workers=1) -> LocalEngine:
    return LocalEngine.of_arrays(X, y, w, size=size, workers=workers)


def facts_of(X, y, w=None, size=7, workers=1, *, labels=False, rows=20, seed=0, **told):
    engine = engine_of(X, y, w, size, workers)
    return find_facts(engine, labels=labels, rows=rows, seed=seed, **told)


@pytest.fixture
def table(rng):
    X = rng.normal(size=(100, 3)) * [1.0, 100.0, 1e-3] + [0.0, 1e6, 5.0]
    return X, np.exp(rng.normal(size=(100, 2))), rng.integers(0, 3, size=100).astype(float)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_moments_are_those_of_the_whole_table(table) -> None:
    X, y, w = table
    X[:, 2] = 3.0  # a constant column is its own scale
    found = facts_of(X, y, w)
    for A, moments in ((X, found.x), (y, found.y)):
        mean, deviation = location_scale(A[w > 0], w[w > 0])
        shift, scale, _ = moments.location_scale()
        np.testing.assert_allclose(shift, mean, rtol=1e-12)
        np.testing.assert_allclose(scale, deviation, rtol=1e-12)
    assert found.x.location_scale()[2].tolist() == [True, True, False]
    np.testing.assert_allclose(found.y_log, w @ np.log(y) / w.sum(), rtol=1e-12)
    assert (found.rows, found.used, found.weight) == (100, np.count_nonzero(w), w.sum())
    assert found.y_top == y[w > 0].max()


def test_a_logarithm_of_targets_that_are_not_positive_is_not_a_number(table) -> None:
    X, y, _ = table
    y[13, 0] = -1.0
    assert np.isnan(facts_of(X, y).y_log).tolist() == [True, False]


def test_classes_and_their_weights(table, rng) -> None:
    X, _, w = table
    y = rng.choice(["b", "a", "long name"], size=100)
    found = facts_of(X, y, w, labels=True)
    assert found.classes.tolist() == ["a", "b", "long name"]
    np.testing.assert_allclose(found.counts, [w[y == c].sum() for c in found.classes])
    factors = np.array([2.0, 0.5, 7.0])  # rows of a class count more
    times = w * factors[np.searchsorted(found.classes, y)]
    mean, deviation = location_scale(X, times)
    shift, scale, _ = found.x.location_scale(factors)
    np.testing.assert_allclose(shift, mean, rtol=1e-12)
    np.testing.assert_allclose(scale, deviation, rtol=1e-12)


@pytest.mark.parametrize("labels", [False, True])
def test_the_sample_is_that_of_the_smallest_keys(table, rng, labels) -> None:
    """By brute force: a key for each row of each block, those of weight zero left out."""
    X, _, w = table
    y = np.where(np.arange(100) % 50 == 3, "rare", "often") if labels else X[:, 0]
    keys = np.concatenate(
        [
            np.random.Generator(np.random.Philox(key=[5, b])).random(min(7, 100 - 7 * b))
            for b in range(15)
        ]
    )
    keys[w == 0.0] = np.inf
    order = np.argsort(keys)[:20]
    if labels:  # the rare ones are all there
        assert np.count_nonzero((y == "rare") & (w > 0)) <= EACH
        every = np.argsort(keys)[: np.count_nonzero(w)]
        often = [i for i in every if y[i] == "often"][: max(EACH, 0)]
        order = [i for i in every if i in set(order) | set(often) or y[i] == "rare"]
    for workers in (1, 3):
        sample = facts_of(X, y, w, workers=workers, labels=labels, seed=5).sample
        np.testing.assert_array_equal(sample.X, X[order])
        np.testing.assert_array_equal(sample.y, y[order])
        np.testing.assert_array_equal(sample.w, w[order])


def test_every_row_is_as_likely_as_the_others() -> None:
    X = np.arange(40.0)[:, None]
    counts = np.zeros(40)
    for seed in range(80):
        drawn = facts_of(X, X[:, 0], size=6, rows=10, seed=seed).sample.X[:, 0].astype(int)
        counts[drawn] += 1.0
    expected, deviation = 20.0, np.sqrt(80 * 0.25 * 0.75)
    assert np.abs(counts - expected).max() < 4.0 * deviation


@pytest.mark.parametrize("where", ["X", "y", "w"])
def test_a_value_that_is_missing_is_named_with_its_block_and_row(table, where) -> None:
    X, y, w = table
    y = y[:, 0].copy()
    {"X": X[:, 1], "y": y, "w": w}[where][30] = np.nan
    with pytest.raises(ValueError, match=r"row 30 \(block 4\)"):
        facts_of(X, y, w)


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (np.full(20, "a"), "only one class, 'a'"),
        (np.linspace(0, 1, 20), "Unknown label type: continuous"),
        (np.array(["a"] * 19 + [None], dtype=object), r"row 19 \(block 2\)"),
        (np.array(["a"] * 10 + [1] * 10, dtype=object), "(in block 1)"),
    ],
)
def test_labels_that_are_none(y, said) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        facts_of(np.zeros((20, 1)), y, labels=True)


def test_what_the_loss_says_of_targets_is_said_with_the_block(table) -> None:
    from mercer.losses import Poisson

    X, _, _ = table
    y = np.ones(100)
    y[50] = -2.0
    with pytest.raises(ValueError, match="block 7"):
        facts_of(X, y, read=Targets(Poisson()))


def test_no_rows_and_no_weight(table) -> None:
    X, y, _ = table
    with pytest.raises(ValueError, match="all sample weights are zero"):
        facts_of(X, y, np.zeros(100))
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        facts_of(X[:0], y[:0])


def test_squares_beyond_all_numbers_are_refused() -> None:
    X = np.array([[1e200], [-1e200], [3.0]])
    with pytest.raises(ValueError, match="other units"):
        facts_of(X, np.zeros(3)).x.location_scale()
