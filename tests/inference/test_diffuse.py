"""Laplace and EP of curves with a flat prior on polynomials, against dense matrices."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from mercer.inference import EP, Laplace
from mercer.inference.diffuse import DiffuseGram, diffuse
from mercer.losses import (
    Gamma,
    Gaussian,
    Huber,
    LaplaceNoise,
    Logistic,
    NegativeBinomial,
    Poisson,
    Probit,
    StudentT,
)
from tests.reference import spline_likelihood as slow

LOSSES = [
    Poisson(),
    NegativeBinomial(size=3.0),
    Logistic(),
    Probit(),
    Gamma(shape=2.0),
    StudentT(scale=0.2, df=3.0),
]
NAMES = [type(loss).__name__ for loss in LOSSES]


def rows(loss, n=30, seed=0):
    """Unsorted inputs with ties, weights, and targets that bend four times."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 4.0, n)
    x[3], x[7] = x[4], x[8]
    f = np.sin(3.0 * x)
    y = {
        "count": lambda: rng.poisson(np.exp(1.0 + f)),
        "binary": lambda: np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-f)), 1.0, -1.0),
        "positive": lambda: rng.gamma(2.0, np.exp(f)),
        "real": lambda: f + 0.2 * rng.standard_t(3, n),
    }[loss.response]()
    return x, np.asarray(y, dtype=float), rng.choice([1.0, 2.0, 0.5], n)


def solved(inference, loss, x, y, w, m, variance, start=None):
    gram = DiffuseGram(x[:, None], m, variance)
    method, Y = diffuse(inference), y[:, None]
    solution = method.solve(gram, Y, loss, weights=w, start=start)
    value = method.evidence(gram, Y, loss, solution)
    return solution, value, gram.slope(solution.alpha, solution.factor, value.U)


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("loss", LOSSES, ids=NAMES)
def test_laplace_is_the_dense_one(loss, m):
    x, y, w = rows(loss)
    solution, value, _ = solved(Laplace(), loss, x, y, w, m, 0.6)
    f, var, evidence = slow.laplace(loss, x, y, w, m, 0.6)
    assert solution.report.converged
    np.testing.assert_allclose(solution.z[:, 0], f, atol=1e-7)
    np.testing.assert_allclose(solution.factor.cov_diag(), var, rtol=1e-7)
    assert abs(value.value - evidence) < 1e-7
    # stationary: the slope of the loss is balanced by the penalty, polynomials being free
    d1 = loss.derivatives(y, solution.z[:, 0])[0]
    np.testing.assert_allclose(solution.alpha[:, 0], -w * d1, atol=1e-6)
    for j in range(m):
        assert abs(solution.alpha[:, 0] @ x**j) < 1e-7


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("loss", [Poisson(), Logistic(), Probit()], ids=["P", "L", "N"])
def test_ep_is_the_dense_one(loss, m):
    x, y, w = rows(loss, 16)
    solution, value, _ = solved(EP(tol=1e-9), loss, x, y, w, m, 0.6)
    f, var, evidence = slow.ep(loss, x, y, w, m, 0.6)
    assert solution.report.converged
    np.testing.assert_allclose(solution.z[:, 0], f, atol=1e-6)
    np.testing.assert_allclose(solution.factor.cov_diag(), var, rtol=1e-6)
    assert abs(value.value - evidence) < 1e-6


@pytest.mark.parametrize("inference", [Laplace(), EP(tol=1e-9)], ids=["Laplace", "EP"])
@pytest.mark.parametrize("loss", LOSSES, ids=NAMES)
def test_slopes_of_the_evidence_are_differences(loss, inference):
    if not loss.convex and isinstance(inference, EP):
        pytest.skip("EP would need negative precisions")
    x, y, w = rows(loss, 24, seed=1)
    solution, value, slope = solved(inference, loss, x, y, w, 2, 0.6)

    def moved(t, name=None):
        other = copy.deepcopy(loss)
        if name is not None:
            other.set_params(**{name: getattr(loss, name) * np.exp(t)})
        variance = 0.6 * np.exp(t) if name is None else 0.6
        return solved(inference, other, x, y, w, 2, variance, solution)[1].value

    h = 1e-3
    for name, found in {None: slope, **value.loss_gradient}.items():
        difference = (moved(h, name) - moved(-h, name)) / (2.0 * h)
        size = 1.0 if name is None else getattr(loss, name)
        assert abs(found * size - difference) < 1e-5 * max(1.0, abs(difference))


@pytest.mark.parametrize("inference", [Laplace(), EP()], ids=["Laplace", "EP"])
def test_gaussian_noise_is_exact(inference):
    x, y, w = rows(Gaussian())
    loss = Gaussian(noise=0.05)
    solution, value, _ = solved(inference, loss, x, y, w, 2, 0.6)
    f, var, *_ = slow.dense(x, y, w / 0.05, 2, 1.0 / 0.6)
    np.testing.assert_allclose(solution.z[:, 0], f, atol=1e-9)
    np.testing.assert_allclose(solution.factor.cov_diag(), var, rtol=1e-8)
    exact = slow.gaussian_evidence(x, y, w / 0.05, 2, 0.6)
    # a weight is a power of the density, not a precision: they differ in the constant
    exact += 0.5 * (np.log(w) + (1.0 - w) * np.log(2.0 * np.pi * 0.05)).sum() - np.log(w).sum()
    assert abs(value.value - exact) < 1e-8


def test_points_without_curvature_still_pull():
    x, y, w = rows(Gaussian())
    y[5] += 20.0
    loss = Huber(noise=0.04, delta=0.1)
    solution, _, _ = solved(Laplace(), loss, x, y, w, 2, 0.6)
    f, a = solution.z[:, 0], solution.alpha[:, 0]
    assert solution.report.converged
    assert solution.report.details["raised_curvature"] >= 1
    np.testing.assert_allclose(a, -w * loss.derivatives(y, f)[0], atol=1e-6)
    # f = K a + H beta, the optimality of GPML 6.2 with a null space
    K = DiffuseGram(x[:, None], 2, 0.6).rows(np.arange(len(x)))
    H = np.column_stack([np.ones_like(x), x])
    np.testing.assert_allclose(H.T @ a, 0.0, atol=1e-6)
    rest = f - K @ a
    np.testing.assert_allclose(rest, H @ np.linalg.lstsq(H, rest, rcond=None)[0], atol=1e-6)


def test_ep_averages_over_kinks():
    x, y, _ = rows(Gaussian(), 16)
    loss = LaplaceNoise(scale=0.2)
    solution, value, _ = solved(EP(tol=1e-9), loss, x, y, np.ones(16), 1, 0.6)
    assert solution.report.converged
    # a fixed point: the moments of every tilted distribution are those of the posterior
    W, f, var = solution.W, solution.z[:, 0], solution.factor.cov_diag()
    v = 1.0 / (1.0 / var - W)
    m = f - v * solution.alpha[:, 0]
    t = m[:, None] + np.sqrt(v)[:, None] * np.linspace(-14.0, 14.0, 20001)
    p = np.exp(-loss.value(y[:, None], t) - 0.5 * (t - m[:, None]) ** 2 / v[:, None])
    mean = (p * t).sum(axis=1) / p.sum(axis=1)
    spread = (p * (t - mean[:, None]) ** 2).sum(axis=1) / p.sum(axis=1)
    np.testing.assert_allclose(mean, f, atol=1e-5)
    np.testing.assert_allclose(spread, var, rtol=1e-4)
    assert np.isfinite(value.value)


def test_the_expected_curvature_of_student_is_its_average():
    for loss in (StudentT(scale=0.7, df=1.5), StudentT(scale=2.0, df=30.0)):
        t = np.sinh(np.linspace(-16.0, 16.0, 200_001))  # tails as far as they matter
        weight = np.gradient(t) * np.exp(-loss.value(t, np.zeros_like(t)))
        found = (weight * loss.derivatives(t, np.zeros_like(t))[1]).sum()
        assert abs(found / loss.expected_curvature() - 1.0) < 1e-6


def test_the_level_of_the_targets_does_not_matter():
    x, y, w = rows(StudentT())
    loss = StudentT(scale=0.2, df=3.0)
    _, near, slope = solved(Laplace(), loss, x, y, w, 2, 0.6)
    _, far, same = solved(Laplace(), loss, x, y + 1e6 * (2.0 + x), w, 2, 0.6)
    assert abs(far.value - near.value) < 1e-4
    assert abs(same - slope) < 1e-4


def test_a_start_nearby_ends_in_the_same_place():
    x, y, w = rows(Poisson())
    cold, _, _ = solved(Laplace(), Poisson(), x, y, w, 2, 0.6)
    near, _, _ = solved(Laplace(), Poisson(), x, y, w, 2, 0.5)
    warm, _, _ = solved(Laplace(), Poisson(), x, y, w, 2, 0.6, near)
    np.testing.assert_allclose(warm.z, cold.z, atol=1e-10)


def test_one_step_is_not_enough_and_says_so():
    x, y, w = rows(Poisson())
    solution, _, _ = solved(Laplace(max_iter=1), Poisson(), x, y, w, 2, 0.6)
    assert not solution.report.converged
    assert "raise max_iter" in solution.report.message


def test_the_polynomial_is_the_limit_of_no_variance():
    x, y, w = rows(Poisson())
    none, at_zero, slope = solved(Laplace(), Poisson(), x, y, w, 2, 0.0)
    tiny, near, _ = solved(Laplace(), Poisson(), x, y, w, 2, 1e-9)
    assert abs(at_zero.value - near.value) < 1e-5
    assert abs(slope) < 1e-9
    np.testing.assert_allclose(none.z, tiny.z, atol=1e-6)
    H = np.column_stack([np.ones_like(x), x])
    rest = none.z[:, 0] - H @ np.linalg.lstsq(H, none.z[:, 0], rcond=None)[0]
    np.testing.assert_allclose(rest, 0.0, atol=1e-10)
