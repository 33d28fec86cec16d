"""Platt scaling: the optimum of its objective, separable data, weights, two classes of many."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, softmax

from mercer.losses.calibration import fit_platt, fit_slope, fit_softmax_platt


def targets(y, w):
    """Platt's targets (Lin, Lin & Weng, section 2)."""
    plus, minus = w[y > 0].sum(), w[y < 0].sum()
    return np.where(y > 0, (plus + 1) / (plus + 2), 1 / (minus + 2))


def objective(theta, f, y, w):
    z = theta[0] * f + theta[1]
    return float(w @ (targets(y, w) * z + np.logaddexp(0.0, -z)))


def data(rng, n=60):
    y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    return 0.8 * y + rng.normal(size=n), y


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e4])
def test_binary_is_the_minimum(rng, size):
    f, y = data(rng)
    f, w = size * f, rng.gamma(2.0, size=len(f))
    A, B = fit_platt(f, y, w)
    z = A * f + B
    residual = w * (targets(y, w) - expit(-z))  # gradient zero at the solution
    assert abs(residual.sum()) < 1e-9
    assert abs(residual @ f) < 1e-9 * size
    found = minimize(
        lambda t: objective([t[0] / size, t[1]], f, y, w),
        [0.0, 0.0],
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-13, "maxiter": 4000},
    )
    np.testing.assert_allclose([A * size, B], found.x, rtol=1e-5, atol=1e-6)
    assert objective([A, B], f, y, w) <= found.fun + 1e-12


def test_separable_gives_the_smoothed_target():
    f = np.repeat([1e4, -1e4], 50)
    A, B = fit_platt(f, np.sign(f))
    assert expit(-(A * 1e4 + B)) == pytest.approx(51 / 52, abs=1e-12)
    assert expit(-(-A * 1e4 + B)) == pytest.approx(1 / 52, abs=1e-12)
    assert abs(B) < 1e-10


def test_a_weight_is_a_number_of_rows(rng):
    f, y = data(rng)
    w = rng.integers(0, 4, len(f))
    np.testing.assert_allclose(
        fit_platt(f, y, w), fit_platt(np.repeat(f, w), np.repeat(y, w)), rtol=1e-9, atol=1e-10
    )


def test_constant_decision_values_give_the_class_rate():
    f, y = np.full(10, 3.0), np.repeat([1.0, -1.0], [7, 3])
    A, B = fit_platt(f, y)
    rate = (7 * 8 / 9 + 3 * 1 / 5) / 10
    assert expit(-(A * 3.0 + B)) == pytest.approx(rate, abs=1e-8)


def test_useless_values_give_a_flat_map(rng):
    f, y = rng.normal(size=4000), np.tile([1.0, -1.0], 2000)
    A, _ = fit_platt(f, y)
    assert abs(A) < 0.1


def test_two_classes_of_the_softmax_are_platt(rng):
    f, y = data(rng)
    w = rng.gamma(2.0, size=len(f))
    slope, offsets = fit_softmax_platt(np.c_[-f, f] / 2, (y > 0).astype(int), w)
    A, B = fit_platt(f, y, w)
    assert slope == pytest.approx(-A)
    assert offsets[1] - offsets[0] == pytest.approx(-B)


def test_softmax_is_the_minimum(rng):
    n, k = 80, 4
    codes = rng.integers(0, k, n)
    F, w = 1.5 * np.eye(k)[codes] + rng.normal(size=(n, k)), rng.gamma(2.0, size=n)
    slope, offsets = fit_softmax_platt(F, codes, w)
    counts = np.bincount(codes, w, k)[codes][:, None]
    T = np.where(np.eye(k)[codes] > 0, (counts + 1) / (counts + k), 1 / (counts + k))
    np.testing.assert_allclose(T.sum(axis=1), 1.0)

    def value(theta):
        scores = theta[0] * F + theta[1:]
        return float(w @ (np.logaddexp.reduce(scores, axis=1) - (T * scores).sum(axis=1)))

    residual = w[:, None] * (softmax(slope * F + offsets, axis=1) - T)
    np.testing.assert_allclose(residual.sum(axis=0), 0.0, atol=1e-9)
    assert abs((residual * F).sum()) < 1e-9
    assert offsets.sum() == pytest.approx(0.0, abs=1e-12)
    found = minimize(value, np.zeros(k + 1), method="BFGS", options={"gtol": 1e-7})
    np.testing.assert_allclose([slope, *offsets], found.x, atol=1e-5)


def test_separable_classes_stay_finite():
    codes = np.repeat([0, 1, 2], 20)
    slope, offsets = fit_softmax_platt(1e3 * np.eye(3)[codes], codes)
    p = softmax(slope * 1e3 * np.eye(3) + offsets, axis=1)
    np.testing.assert_allclose(np.diagonal(p), 21 / 23, atol=1e-9)


def test_a_class_without_rows_is_possible(rng):
    slope, offsets = fit_softmax_platt(rng.normal(size=(30, 3)), np.tile([0, 1], 15))
    assert np.all(np.isfinite([slope, *offsets]))
    assert np.argmin(offsets) == 2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((np.ones((3, 2)), np.array([0, 1, 2])), "codes must lie"),
        ((np.array([[1.0, np.nan]]), np.array([0])), "finite"),
        ((np.ones((3, 2)), np.array([0, 1])), r"\(n, k\)"),
        ((np.ones((2, 2)), np.array([0, 1]), np.zeros(2)), "weights"),
        ((np.ones((2, 2)), np.array([0, 1]), np.array([1.0, -1.0])), "weights"),
    ],
)
def test_refusals(given, message):
    with pytest.raises(ValueError, match=message):
        fit_softmax_platt(*given)


def test_labels_must_be_signs():
    with pytest.raises(ValueError, match=r"-1 and \+1"):
        fit_platt(np.ones(2), np.array([0.0, 1.0]))


@pytest.mark.parametrize("k", [2, 3])
def test_a_slope_without_offsets_is_the_minimum(k: int) -> None:
    """Against a fine grid of slopes; outputs that rank the wrong way have none."""
    rng = np.random.default_rng(3)
    codes = np.arange(30) % k
    F = 2.0 * np.eye(k)[codes] + rng.normal(size=(30, k))
    F = F[:, 1:] - F[:, :1] if k == 2 else F
    w = rng.uniform(0.5, 2.0, size=30)
    wrong = 1.0 / (w.sum() + 2.0)
    T = np.where(np.eye(k)[codes] == 1.0, 1.0 - wrong, wrong / (k - 1))

    def entropy(slope: float) -> float:
        z = slope * (np.column_stack([np.zeros(30), F[:, 0]]) if k == 2 else F)
        return float(-w @ (T * (z - np.log(np.exp(z).sum(axis=1, keepdims=True)))).sum(axis=1))

    found = fit_slope(F, codes, w, k)
    grid = np.linspace(0.5 * found, 1.5 * found, 2001)
    best = grid[np.argmin([entropy(s) for s in grid])]
    assert found == pytest.approx(best, rel=1e-3)
    assert 0.0 < fit_slope(-F, codes, w, k) < 1e-5  # and the classes keep their order
    assert fit_slope(1e6 * F, codes, w, k) == pytest.approx(1e-6 * found, rel=1e-9)
    apart = 50.0 * (np.where(codes == 1, 1.0, -1.0)[:, None] if k == 2 else np.eye(k)[codes])
    assert 0.0 < fit_slope(apart, codes, w, k) < np.inf  # separable
