"""The compiled core against NumPy, at sizes around the tile of 128."""

from __future__ import annotations

import numpy as np
import pytest

from mercer._native import core

SIZES = [1, 2, 127, 128, 129, 260]


def squared(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return ((X[:, None] - Z[None]) ** 2).sum(axis=2)


def profile(which: int, s: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """k(s) and dk/ds."""
    if which == 0:
        return np.exp(-0.5 * s), -0.5 * np.exp(-0.5 * s)
    r = np.sqrt((1.0, 3.0, 5.0)[which - 1] * s)
    e = np.exp(-r)
    if which == 1:
        return e, np.where(s > 0, -0.5 * e / np.where(s > 0, r, 1.0), 0.0)
    if which == 2:
        return (1 + r) * e, -1.5 * e
    return (1 + r + r**2 / 3) * e, -5 / 6 * (1 + r) * e


def points(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    return rng.normal(size=(n, d))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("which", [-1, 0, 1, 2, 3])
def test_stationary(rng: np.random.Generator, n: int, which: int) -> None:
    X, Z = points(rng, n, 3), points(rng, 131, 3)
    for other, same in ((X, True), (Z, False)):
        out = np.full((n, len(other)), np.nan)
        core.stationary(which, X, other, same, out)
        s = squared(X, other)
        expected = s if which < 0 else profile(which, s)[0]
        np.testing.assert_allclose(out, expected, rtol=1e-14, atol=1e-15)
        if same:
            np.testing.assert_array_equal(out, out.T)
            np.testing.assert_array_equal(np.diagonal(out), 0.0 if which < 0 else 1.0)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("which", [0, 1, 2, 3])
def test_stationary_pullback(rng: np.random.Generator, n: int, which: int) -> None:
    X, Z = points(rng, n, 3), points(rng, 131, 3)
    for other, same in ((X, True), (Z, False)):
        Q = rng.normal(size=(n, len(other)))
        Q = Q + Q.T if same else Q
        k, slope = profile(which, squared(X, other))
        sums = np.full(3, np.nan)
        value = core.stationary_pullback(which, X, other, same, Q, sums)
        spread = (X[:, None] - other[None]) ** 2
        expected = np.einsum("ij,ij,ijd->d", Q, slope, spread)
        size = np.einsum("ij,ij,ijd->d", np.abs(Q), np.abs(slope), spread).max()
        np.testing.assert_allclose(value, (Q * k).sum(), rtol=1e-12, atol=1e-14 * np.abs(Q).sum())
        np.testing.assert_allclose(sums, expected, rtol=1e-12, atol=1e-13 * size)


@pytest.mark.parametrize("n", SIZES)
def test_weighted_spread(rng: np.random.Generator, n: int) -> None:
    X, Z = points(rng, n, 2), points(rng, 130, 2)
    M, sums = rng.normal(size=(n, 130)), np.full(2, np.nan)
    core.weighted_spread(X, Z, M, sums)
    terms = M[:, :, None] * (X[:, None] - Z[None]) ** 2
    np.testing.assert_allclose(
        sums, terms.sum(axis=(0, 1)), rtol=1e-12, atol=1e-13 * np.abs(terms).sum()
    )


@pytest.mark.parametrize("n", SIZES)
def test_mirror_upper(rng: np.random.Generator, n: int) -> None:
    A = rng.normal(size=(n, n))
    expected = np.triu(A) + np.triu(A, 1).T
    core.mirror_upper(A)
    np.testing.assert_array_equal(A, expected)


@pytest.mark.parametrize("n", SIZES)
def test_swap_triangles(rng: np.random.Generator, n: int) -> None:
    A = rng.normal(size=(n, n))
    before = A.copy()
    core.swap_triangles(A)
    np.testing.assert_array_equal(A, before.T)


@pytest.mark.parametrize("n", SIZES)
def test_add_scaled_upper(rng: np.random.Generator, n: int) -> None:
    A, M, s = rng.normal(size=(n, n)), rng.normal(size=(n, n)), rng.uniform(0.5, 2.0, n)
    expected = M + np.triu(A * np.outer(s, s))
    core.add_scaled_upper(A, s, M)
    np.testing.assert_allclose(M, expected, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("n", SIZES)
def test_scale_upper(rng: np.random.Generator, n: int) -> None:
    A, s = rng.normal(size=(n, n)), rng.uniform(0.5, 2.0, n)
    before, out = A.copy(), np.full((n, n), 7.0)
    core.scale_upper(A, s, 1.25, out)
    np.testing.assert_array_equal(A, before)
    np.testing.assert_array_equal(np.tril(out, -1), np.tril(np.full((n, n), 7.0), -1))
    core.scale_upper(A, s, 1.25, A)
    np.testing.assert_array_equal(np.triu(out), np.triu(A))
    expected = np.triu(before * np.outer(s, s), 1) + 1.25 * np.eye(n)
    np.testing.assert_allclose(np.triu(A), expected, rtol=1e-14, atol=1e-15)
    np.testing.assert_array_equal(np.tril(A, -1), np.tril(before, -1))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("m", [1, 3])
def test_gradient_weights(rng: np.random.Generator, n: int, m: int) -> None:
    A, s, a = rng.normal(size=(n, n)), rng.uniform(0.5, 2.0, n), rng.normal(size=(n, m))
    inverse = np.triu(A) + np.triu(A, 1).T
    expected = 0.5 * (a @ a.T - 1.7 * np.outer(s, s) * inverse)
    core.gradient_weights(A, s, a, 1.7)
    np.testing.assert_allclose(A, expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(A, A.T)


def test_accuracy_of_exp() -> None:
    """exp(-s/2) to a few units in the last place down to 1e-300, zero where doubles end."""
    x = np.concatenate([np.linspace(0, 50, 20_001), np.linspace(50, 690, 20_001)])
    X, out = np.sqrt(2 * x)[:, None], np.empty((len(x), 1))
    core.stationary(0, X, np.zeros((1, 1)), False, out)
    exact = np.exp(-0.5 * X[:, 0] ** 2)
    # the argument itself is rounded: relative error eps * |argument| is not exp's
    assert np.max(np.abs(out[:, 0] / exact - 1)) < 5e-16
    far = np.array([[30.0], [37.6], [38.7], [100.0], [1e160], [np.inf]])
    out = np.empty((6, 1))
    core.stationary(0, far, np.zeros((1, 1)), False, out)
    assert out[0, 0] == pytest.approx(np.exp(-450.0), rel=1e-15)
    assert 0 < out[1, 0] < 1e-306
    np.testing.assert_array_equal(out[2:, 0], 0.0)


def test_coincident_points_far_from_the_origin() -> None:
    """Distances are differences: no cancellation of large squares."""
    X = np.array([[1e8, -1e8], [1e8, -1e8], [1e8 + 1, -1e8]])
    out = np.empty((3, 3))
    core.stationary(-1, X, X, True, out)
    np.testing.assert_array_equal(out, [[0, 0, 1], [0, 0, 1], [1, 1, 0]])


@pytest.mark.parametrize("which", [0, 1, 2, 3])
def test_nan_is_not_hidden(which: int) -> None:
    out = np.empty((1, 1))
    core.stationary(which, np.array([[np.nan]]), np.zeros((1, 1)), False, out)
    assert np.isnan(out[0, 0])


def test_no_columns_and_no_rows() -> None:
    out = np.full((2, 3), np.nan)
    core.stationary(0, np.empty((2, 0)), np.empty((3, 0)), False, out)
    np.testing.assert_array_equal(out, 1.0)
    core.stationary(0, np.empty((0, 2)), np.empty((0, 2)), True, np.empty((0, 0)))


def test_shapes_are_checked(rng: np.random.Generator) -> None:
    X, s = points(rng, 4, 2), np.ones(4)
    with pytest.raises(ValueError, match="shapes do not match"):
        core.stationary(0, X, X[:, :1].copy(), False, np.empty((4, 4)))
    with pytest.raises(ValueError, match="shapes do not match"):
        core.stationary(0, X, X, True, np.empty((4, 5)))
    with pytest.raises(ValueError, match="shapes do not match"):
        core.stationary_pullback(0, X, X, True, np.empty((4, 4)), np.empty(3))
    with pytest.raises(ValueError, match="shapes do not match"):
        core.weighted_spread(X, X, np.empty((4, 5)), np.empty(2))
    with pytest.raises(ValueError, match="square"):
        core.mirror_upper(np.empty((4, 5)))
    with pytest.raises(ValueError, match="shapes do not match"):
        core.scale_upper(np.empty((5, 5)), s, 1.0, np.empty((5, 5)))
    with pytest.raises(ValueError, match="shapes do not match"):
        core.gradient_weights(np.empty((5, 5)), s, np.ones((5, 1)), 1.0)


def test_only_contiguous_doubles_are_taken(rng: np.random.Generator) -> None:
    X = points(rng, 4, 2)
    with pytest.raises(TypeError):
        core.mirror_upper(np.empty((4, 4), dtype=np.float32))
    with pytest.raises(TypeError):
        core.mirror_upper(np.empty((8, 4))[::2, :].T)
    with pytest.raises(TypeError):
        core.stationary(0, X, X, True, np.empty((4, 8))[:, ::2])
