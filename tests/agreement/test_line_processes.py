"""Markov processes on a line against dense algebra, on unkind designs; additive parts."""

import numpy as np
import pytest

from mercer import GPRegressor
from mercer.kernels import RBF, Matern
from mercer.losses import Gaussian

NOISE = 0.01


def matern(r, nu, ell):
    """GPML (4.17) and its two lower orders."""
    r = np.sqrt(2.0 * nu) * r / ell
    return {0.5: 1.0, 1.5: 1.0 + r, 2.5: 1.0 + r + r**2 / 3.0}[nu] * np.exp(-r)


KERNELS = {
    "rough": [(1.0, 0.5, 1.0)],
    "smooth": [(1.0, 2.5, 2.0)],
    "two scales": [(1.0, 1.5, 0.5), (3.0, 2.5, 30.0)],
    "three": [(0.5, 0.5, 0.1), (1.0, 1.5, 1.0), (2.0, 2.5, 4.0)],
}


def built(parts):
    total = None
    for variance, nu, ell in parts:
        term = variance * Matern(nu, ell)
        total = term if total is None else total + term
    return total


def covariance(parts, x, z):
    r = np.abs(x[:, None] - z[None])
    return sum(variance * matern(r, nu, ell) for variance, nu, ell in parts)


def designs(rng, n=120):
    close = rng.uniform(0.0, 20.0, n)
    close[10:20] = close[9] + np.arange(1, 11) * 1e-12
    return {
        "unsorted": rng.uniform(0.0, 20.0, n),
        "close": close,
        "repeated": np.round(rng.uniform(0.0, 20.0, n), 1),
        "a long gap": np.concatenate([rng.uniform(0, 5, n // 2), 1e5 + rng.uniform(0, 5, n // 2)]),
        "gaps of all sizes": np.cumsum(10.0 ** rng.uniform(-8.0, 0.0, n)),
    }


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("design", list(designs(np.random.default_rng(0))))
def test_sums_of_matern_kernels(rng, design, kernel):
    """Mean, deviation, evidence and leave-one-out; rows of weight w count as w rows."""
    x, parts = designs(rng)[design], KERNELS[kernel]
    y = np.sin(x) + 0.1 * rng.normal(size=len(x))
    w = rng.integers(1, 4, len(x))
    model = GPRegressor(
        built(parts), search=None, standardize=False, gram="markov", loss=Gaussian(noise=NOISE)
    ).fit(x[:, None], y, sample_weight=w)
    every, target = np.repeat(x, w), np.repeat(y, w)
    Ky = covariance(parts, every, every) + NOISE * np.eye(len(every))
    order = np.sort(x)
    at = np.concatenate([x[:20], 0.5 * (order[1:30] + order[:29]), [x.min() - 3.0, x.max() + 3.0]])
    cross = covariance(parts, at, every)
    alpha = np.linalg.solve(Ky, target)
    prior = sum(variance for variance, _, _ in parts)
    variance = prior - np.einsum("ij,ji->i", cross, np.linalg.solve(Ky, cross.T))
    mean, std = model.predict_latent(at[:, None])
    np.testing.assert_allclose(mean, cross @ alpha, atol=1e-8)
    np.testing.assert_allclose(std**2, variance, rtol=1e-7, atol=1e-11)
    value = -0.5 * (target @ alpha + np.linalg.slogdet(2.0 * np.pi * Ky)[1])
    assert model.log_evidence_ == pytest.approx(value, rel=1e-9)
    inverse = np.diag(np.linalg.inv(Ky))
    first = np.concatenate([[0], np.cumsum(w)[:-1]])
    left = target - alpha / inverse  # GPML (5.12)
    np.testing.assert_allclose(model.loo_.mean, left[first], atol=1e-7)


def test_auto_is_the_dense_answer(rng):
    """gram="auto" takes the O(n) way on a long column, and only there."""
    x = rng.uniform(0.0, 50.0, 700)
    y = np.sin(x) + 0.1 * rng.normal(size=700)
    kernel = Matern(1.5, 2.0) + 0.5 * Matern(0.5, 0.3)
    found = {}
    for gram in ("auto", "dense"):
        model = GPRegressor(
            kernel, search=None, standardize=False, gram=gram, loss=Gaussian(noise=NOISE)
        )
        found[gram] = model.fit(x[:, None], y)
    assert found["auto"].report_["gram"] == "markov"
    new = np.linspace(-5.0, 55.0, 40)[:, None]
    for one, two in zip(*(found[g].predict(new, return_std=True) for g in found), strict=True):
        np.testing.assert_allclose(one, two, atol=1e-9)
    plane = GPRegressor(kernel, search=None).fit(np.column_stack([x, x])[:50], y[:50])
    assert plane.report_["gram"] != "markov"


def test_components_are_the_conditionals_of_a_joint_gaussian(rng):
    """f1 + f2 + noise: each part, their sum and its variance, by the covariance of both."""
    X = rng.uniform(0.0, 3.0, (60, 2))
    y = np.sin(3.0 * X[:, 0]) + X[:, 1] ** 2 / 3.0 + 0.1 * rng.normal(size=60)
    kernel = 1.0 * RBF(1.0).on(0) + 2.0 * Matern(1.5, 1.0).on(1)
    model = GPRegressor(kernel, search=None, standardize=False, loss=Gaussian(noise=NOISE)).fit(
        X, y
    )
    new = rng.uniform(-1.0, 4.0, (9, 2))

    def parts(A, B):
        one = np.exp(-0.5 * (A[:, None, 0] - B[None, :, 0]) ** 2)
        return one, 2.0 * matern(np.abs(A[:, None, 1] - B[None, :, 1]), 1.5, 1.0)

    inverse = np.linalg.inv(sum(parts(X, X)) + NOISE * np.eye(60))
    total, joint = 0.0, 0.0
    cross, priors = parts(new, X), (1.0, 2.0)
    for j in range(2):
        mean, std = model.predict_component(new, j, return_std=True)
        np.testing.assert_allclose(mean, cross[j] @ inverse @ y, atol=1e-9)
        known = np.einsum("ij,jk,ik->i", cross[j], inverse, cross[j])
        np.testing.assert_allclose(std**2, priors[j] - known, atol=1e-9)
        total, joint = total + mean, joint + std**2
    joint -= 2.0 * np.einsum("ij,jk,ik->i", cross[0], inverse, cross[1])  # they share the data
    mean, std = model.predict_latent(new)
    np.testing.assert_allclose(total, mean, atol=1e-10)
    np.testing.assert_allclose(joint, std**2, atol=1e-9)
