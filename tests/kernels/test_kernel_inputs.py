"""A learned metric and invariances, against sums and matrices written out."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import mercer
from mercer import SVC, GPRegressor
from mercer.kernels import (
    RBF,
    Invariant,
    Linear,
    Mahalanobis,
    Matern,
    Polynomial,
    RationalQuadratic,
    Tangent,
    White,
)
from mercer.testing import check_kernel


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("weight", [None, 0.7, np.array([0.5, 1.0, 2.0])])
def test_the_metric_is_the_matrix(rng, weight):
    X, L = rng.standard_normal((8, 3)), rng.standard_normal((3, 2))
    M = L @ L.T + (0.0 if weight is None else np.diag(np.broadcast_to(weight, 3) ** 2))
    r = X[:, None] - X
    s = np.einsum("ijk,kl,ijl->ij", r, M, r)
    np.testing.assert_allclose(Mahalanobis(RBF(), L, weight)(X), np.exp(-0.5 * s), atol=1e-13)
    check_kernel(Mahalanobis(RBF(), L, weight))


@pytest.mark.parametrize(
    "inside",
    [
        Matern(nu=2.5).fix(),
        2.0 * RationalQuadratic(alpha=0.7),
        RBF() + 0.5 * Matern(nu=1.5),
        RBF() * Matern(nu=2.5),
    ],
)
def test_every_stationary_kernel_has_the_gradient(inside):
    check_kernel(Mahalanobis(inside, np.array([[0.5], [-0.4], [0.2]]), np.array([0.3, 0.6, 0.2])))


def test_a_ridge_direction_is_found_and_stored(rng, tmp_path):
    X = rng.uniform(-1.0, 1.0, (80, 4))
    direction = np.array([1.0, -2.0, 0.5, 0.0]) / np.sqrt(5.25)
    y = np.sin(4.0 * X @ direction) + 0.05 * rng.standard_normal(80)
    model = GPRegressor(1.0 * Mahalanobis(RBF().fix(), weight=None), random_state=0).fit(X, y)
    found = model.kernel_.kernel.factors[:, 0]
    assert abs(found @ direction) / np.linalg.norm(found) > 0.999
    ard = GPRegressor(1.0 * RBF(np.ones(4)), random_state=0).fit(X, y)
    assert model.log_evidence_ > ard.log_evidence_ + 20.0
    mercer.save(model, tmp_path / "m")
    again = mercer.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(X[:3]), model.predict(X[:3]))


def test_an_orbit_average_is_the_double_sum(rng):
    X, Z = rng.standard_normal((5, 3)), rng.standard_normal((4, 3))
    kernel = Invariant.permuted(Polynomial(degree=3), 3, [0, 1, 2])
    slow = np.zeros((5, 4))
    for a in permutations(range(3)):
        for b in permutations(range(3)):
            slow += Polynomial(degree=3)(X[:, a], Z[:, b]) / 36.0
    np.testing.assert_allclose(kernel(X, Z), slow, rtol=1e-12)
    np.testing.assert_allclose(kernel(X[:, [2, 0, 1]], Z), slow, rtol=1e-12)
    check_kernel(Invariant.permuted(2.0 * RBF(0.7) + Linear(), 3, [0, 2]))


def test_functions_of_the_space_are_invariant(rng):
    """A turn by a quarter generates four; a fitted function has the same value at all of them."""
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])
    kernel = Invariant.group(RBF(0.8), [turn])
    assert kernel.maps.shape == (4, 2, 2)
    X = rng.standard_normal((30, 2))
    y = np.abs(X[:, 0]) + np.abs(X[:, 1])
    model = GPRegressor(1.0 * kernel, search=None).fit(X, y)
    np.testing.assert_allclose(model.predict(X @ turn.T), model.predict(X), atol=1e-9)
    plain = GPRegressor(1.0 * RBF(0.8), search=None).fit(X, y)
    new = rng.standard_normal((200, 2))
    truth = np.abs(new).sum(axis=1)
    error = [np.mean((m.predict(new) - truth) ** 2) for m in (model, plain)]
    assert error[0] < 0.5 * error[1]


def test_shifts_of_an_image():
    image = np.arange(12.0).reshape(3, 4)
    kernel = Invariant.shifted(Linear(), 3, 4, reach=1)
    moved = np.zeros((3, 4))
    moved[1:, :-1] = image[:-1, 1:]  # down by one, left by one
    found = [m @ image.ravel() for m in kernel.maps]
    assert any(np.array_equal(f.reshape(3, 4), moved) for f in found)
    assert any(np.array_equal(f.reshape(3, 4), image) for f in found)


def test_affine_maps_and_their_gradient(rng):
    maps = np.array([np.eye(2), 0.5 * np.eye(2)])
    kernel = Invariant(Matern(nu=2.5, length_scale=0.9), maps, np.array([[0.0, 0.0], [1.0, -1.0]]))
    check_kernel(kernel)
    X = rng.standard_normal((4, 2))
    both = np.vstack([X, 0.5 * X + [1.0, -1.0]])
    K = Matern(nu=2.5, length_scale=0.9)(both)
    np.testing.assert_allclose(
        kernel(X), (K[:4, :4] + K[4:, 4:] + K[:4, 4:] + K[4:, :4]) / 4.0, atol=1e-14
    )


def test_refusals(rng):
    X = rng.standard_normal((4, 2))
    with pytest.raises(ValueError, match="add noise outside"):
        Invariant(RBF() + White(0.1), np.eye(2)[None])(X)
    with pytest.raises(ValueError, match="matrices of 2 x 2"):
        Invariant(RBF(), np.eye(3)[None])(X)
    with pytest.raises(ValueError, match="finite group"):
        Invariant.group(RBF(), [2.0 * np.eye(2)])
    with pytest.raises(ValueError, match="has seen none"):
        Tangent(RBF(), np.zeros((1, 2, 2)))(X)
    with pytest.raises(ValueError, match="has seen none"):
        Mahalanobis(RBF())(X)


def test_tangents_are_a_penalty_on_the_slope_along_them(rng):
    """With a linear kernel: min |w|^2 + strength mean (w't)^2 + |y - Xw|^2 / noise."""
    X, y = rng.standard_normal((20, 3)), rng.standard_normal(20)
    A = rng.standard_normal((2, 3, 3))
    T = np.concatenate([X @ a.T for a in A])
    strength, noise = 3.0, 0.5
    w = np.linalg.solve(np.eye(3) + strength * T.T @ T / len(T) + X.T @ X / noise, X.T @ y / noise)
    kernel = Tangent(Linear(), A, strength)
    model = GPRegressor(kernel, loss=mercer.losses.Gaussian(noise), search=None).fit(X, y)
    np.testing.assert_allclose(model.predict(X), X @ w, atol=1e-9)


def test_tangents_help_a_support_vector_machine(rng):
    turn = np.array([[[0.0, -1.0], [1.0, 0.0]]])
    kernel = Tangent(RBF(0.5), turn, 1.0)
    X = rng.standard_normal((30, 2))
    model = SVC(kernel=kernel).fit(X, np.linalg.norm(X, axis=1) > 1.0)
    assert model.score(X, np.linalg.norm(X, axis=1) > 1.0) > 0.9


@pytest.mark.parametrize("inside", [Linear(), Polynomial(2)], ids=str)
def test_a_metric_of_few_features_has_all_its_slopes(inside):
    """The finite map of the kernel inside knows no slope in the metric: it is not offered."""
    kernel = Mahalanobis(inside, np.array([[0.5], [-0.4], [0.2]]), 0.6)
    check_kernel(kernel)
    assert kernel.width(np.zeros((1, 3))) is None
    X = np.random.default_rng(0).normal(size=(300, 3))
    model = GPRegressor(kernel, random_state=0).fit(X, X @ [1.0, -1.0, 0.5])
    assert model.report_["gram"] == "dense"
