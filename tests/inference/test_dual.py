"""Dual: kinked losses by optimality conditions, the gap, and agreement with other solvers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from mercer import losses
from mercer.inference import Dual, Newton
from mercer.inference.mode.prox import conjugate, prox
from mercer.kernels import RBF, Linear
from mercer.linalg import DenseGram
from mercer.losses import Loss
from tests.reference import modes

KINKED = [
    losses.Hinge(),
    losses.Hinge(C=5.0),
    losses.EpsilonInsensitive(C=2.0, epsilon=0.3),
    losses.EpsilonInsensitive(C=2.0, epsilon=0.0),
    losses.LaplaceNoise(scale=0.5),
    losses.Pinball(level=0.8, scale=0.5),
]
SMOOTH = [losses.Logistic(), losses.Poisson(), losses.Margin(C=4.0), losses.Probit()]
KERNEL = 2.0 * RBF(0.9)


class Asymmetric(Loss):
    """A loss of one's own with a kink that it does not declare."""

    def value(self, y, f):
        r = np.asarray(y) - f
        return np.where(r > 0.0, 3.0 * r, -r) + 0.05 * r**2


def data(loss, n=40, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, loss.example_targets(rng, n)[:, None], rng.uniform(0.3, 2.5, n)


def subgradient(loss, y, f, eps=1e-5):
    """The slopes on both sides of f."""
    left = (loss.value(y, f) - loss.value(y, f - eps)) / eps
    return left, (loss.value(y, f + eps) - loss.value(y, f)) / eps


@pytest.mark.parametrize("basis", [False, True])
@pytest.mark.parametrize("loss", [*KINKED, *SMOOTH], ids=repr)
def test_optimality(loss, basis):
    X, y, w = data(loss)
    H = np.ones((40, 1)) if basis else None
    gram = DenseGram(KERNEL, X, keep=True)
    found = Dual().solve(gram, y, loss, basis=H, weights=w)
    assert found.report.converged
    assert (
        0.0 <= found.report.gap <= 1e-10 * max(1.0, abs(found.report.details["objective"])) * 1.01
    )
    f, a = found.z[:, 0], found.alpha[:, 0]
    low, high = subgradient(loss, y[:, 0], f)
    # a kink that f has reached up to rounding has both slopes within reach
    near_low, near_high = (
        subgradient(loss, y[:, 0], f - 2e-5)[0],
        subgradient(loss, y[:, 0], f + 2e-5)[1],
    )
    slack = 1e-4 * np.maximum(1.0, np.abs(high))
    assert np.all(-a / w >= np.minimum(low, near_low) - slack)
    assert np.all(-a / w <= np.maximum(high, near_high) + slack)
    if H is not None:
        assert abs(a.sum()) < 1e-7
        f = f - H[:, 0] * found.beta[0]
    np.testing.assert_allclose(f, (gram @ found.alpha)[:, 0], atol=1e-9)


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
def test_smooth_losses_agree_with_newton(loss):
    X, y, w = data(loss, seed=2)
    gram = DenseGram(KERNEL, X, keep=True)
    a = Dual().solve(gram, y, loss, weights=w)
    b = Newton().solve(gram, y, loss, weights=w)
    assert a.report.details["objective"] == pytest.approx(b.report.details["objective"], rel=1e-9)
    np.testing.assert_allclose(a.z, b.z, atol=1e-4)


@pytest.mark.parametrize("loss", [losses.Hinge(C=2.0), losses.EpsilonInsensitive(C=2.0)], ids=repr)
@pytest.mark.parametrize("size", [1, pytest.param(7, marks=pytest.mark.slow), 16])
def test_blocks_come_to_the_same_end(loss, size):
    X, y, w = data(loss)
    gram = DenseGram(KERNEL, X, keep=True)
    whole = Dual().solve(gram, y, loss, weights=w)
    parts = Dual(block=size, max_iter=20000, tol=1e-9).solve(gram, y, loss, weights=w)
    assert parts.report.converged
    assert parts.report.details["objective"] == pytest.approx(
        whole.report.details["objective"], rel=1e-8
    )
    np.testing.assert_allclose(parts.z, whole.z, atol=1e-3)


def test_single_coordinates_are_the_classical_ascent():
    X, y, _ = data(losses.Hinge())
    K = KERNEL(X)
    lam = modes.coordinate_ascent(K, y[:, 0], 1.0, sweeps=4000)
    found = Dual(block=1, max_iter=4000).solve(DenseGram(KERNEL, X, keep=True), y, losses.Hinge())
    np.testing.assert_allclose(found.z[:, 0], K @ (lam * y[:, 0]), atol=1e-4)


def test_an_iteration_limit_reports():
    X, y, _ = data(losses.Hinge())
    found = Dual(block=1, max_iter=2).solve(DenseGram(KERNEL, X, keep=True), y, losses.Hinge())
    assert found.report.iterations == 2
    assert not found.report.converged
    best = (
        Dual().solve(DenseGram(KERNEL, X, keep=True), y, losses.Hinge()).report.details["objective"]
    )
    assert found.report.details["objective"] - best <= found.report.gap


@pytest.mark.parametrize("loss", KINKED, ids=repr)
def test_singular_kernels_have_a_unique_function(loss):
    X, y, _ = data(loss)
    X = np.vstack([X, X[:10]])
    y = np.vstack([y, y[:10]])
    gram = DenseGram(Linear(weight=0.7), X, keep=True)
    found = Dual().solve(gram, y, loss)
    assert found.report.converged
    w = minimize(
        lambda v: loss.value(y[:, 0], X @ v).sum() + 0.5 * v @ v / 0.7,
        0.7 * X.T @ found.alpha[:, 0],
        method="Nelder-Mead",
        options={"xatol": 1e-10, "fatol": 1e-12},
    )
    assert found.report.details["objective"] <= w.fun + 1e-8


def test_own_loss_with_a_kink_it_does_not_declare():
    rng = np.random.default_rng(5)
    X = np.linspace(0, 3, 30)[:, None]
    y = np.sin(X) + 0.3 * rng.normal(size=X.shape)
    gram = DenseGram(KERNEL, X, keep=True)
    found = Dual().solve(gram, y, Asymmetric())
    assert found.report.converged
    assert found.report.gap <= 1.01e-6 * max(1.0, found.report.details["objective"])
    f = found.z[:, 0]
    above = np.mean(y[:, 0] > f + 1e-3)
    assert above < 0.3  # a residual above counts three times as much as one below


def test_weight_two_is_two_rows():
    loss = losses.Hinge()
    X, y, _ = data(loss, n=12)
    w = np.array([2.0, 3.0] + [1.0] * 10)
    many = np.repeat(np.arange(12), w.astype(int))
    short = Dual().solve(DenseGram(KERNEL, X, keep=True), y, loss, weights=w)
    long = Dual().solve(DenseGram(KERNEL, X[many], keep=True), y[many], loss)
    np.testing.assert_allclose(short.z[many], long.z, atol=1e-6)


@pytest.mark.parametrize("loss", [*KINKED, *SMOOTH, Asymmetric()], ids=repr)
def test_prox_is_the_minimum(loss):
    rng = np.random.default_rng(1)
    y = loss.example_targets(rng, 15)
    w, kappa, c = rng.uniform(0.2, 3, 15), 10.0 ** rng.uniform(-2, 1, 15), 3 * rng.normal(size=15)
    z, a, slope = prox(loss, y, w, c, kappa)
    grid = np.linspace(-8, 8, 40001)
    for i in range(15):
        height = w[i] * loss.value(y[i], grid) + (grid - c[i]) ** 2 / (2 * kappa[i])
        at = w[i] * loss.value(y[i], z[i]) + (z[i] - c[i]) ** 2 / (2 * kappa[i])
        assert at <= height.min() + 1e-9
    np.testing.assert_allclose(a, (z - c) / kappa, atol=1e-8 * (1 + np.abs(c).max()) / kappa.min())
    assert np.all((slope >= 0) & (slope <= 1))
    star = conjugate(loss, y, -a / w)
    np.testing.assert_allclose(loss.value(y, z) + star, -a / w * z, atol=1e-5)


@pytest.mark.parametrize("loss", [losses.Softmax(), losses.StudentT()], ids=repr)
def test_losses_without_a_dual_are_refused(loss):
    if loss.response == "multiclass":
        with pytest.raises(ValueError, match="newton"):
            Dual().check(loss)
    else:
        with pytest.raises(ValueError, match="conjugate"):
            Dual().check(loss)
