"""The exercises of GPML section 6.7, stated with mercer's parts."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import GPRegressor, SmoothingSpline, ThinPlateSpline
from mercer.kernels import Precomputed, Spline
from mercer.losses import Gaussian, Logistic, Probit
from mercer.losses.binary.margins import hinge_normaliser
from mercer.rkhs import Expansion
from tests.reference import gp


def test_6_7_1_the_norm_does_not_depend_on_the_measure(rng: np.random.Generator) -> None:
    """Eigenfunctions of K under a measure p on six points; the norm by their coefficients."""
    B = rng.normal(size=(6, 6))
    K = B @ B.T + 0.1 * np.eye(6)
    a = rng.normal(size=6)
    f = K @ a
    norm = Expansion(Precomputed(K), np.arange(6.0)[:, None], a).norm()
    assert norm**2 == pytest.approx(f @ np.linalg.solve(K, f), rel=1e-8)
    for _ in range(4):
        p = rng.uniform(0.05, 2.0, 6)
        values, U = np.linalg.eigh(np.sqrt(p)[:, None] * K * np.sqrt(p))
        functions = U / np.sqrt(p)[:, None]
        np.testing.assert_allclose(K @ (p[:, None] * functions), functions * values, rtol=1e-8)
        np.testing.assert_allclose(functions.T @ (p[:, None] * functions), np.eye(6), atol=1e-12)
        c = functions.T @ (p * f)
        assert np.sum(c**2 / values) == pytest.approx(norm**2, rel=1e-8)


@pytest.mark.parametrize("C", [0.1, 0.5, 1.0, 2.0, 5.0, 20.0])
def test_6_7_2_the_hinge_does_not_normalise(C: float) -> None:
    f = np.linspace(-6, 6, 2401)
    mass, kappa = hinge_normaliser(f, C), 1.0 / (1.0 + np.exp(-2.0 * C))
    assert mass.max() == pytest.approx(1.0, abs=1e-12)
    if C < 10.0:  # beyond, 1 - kappa is less than rounding
        np.testing.assert_allclose(np.abs(f[mass > 1.0 - 1e-12]), 1.0)
    assert hinge_normaliser(np.zeros(1), C)[0] == pytest.approx(1.0 / np.cosh(C))
    assert hinge_normaliser(np.array([1e6]), C)[0] == pytest.approx(kappa)
    lowest = hinge_normaliser(np.append(f, 1e6), C).min()
    assert lowest == pytest.approx(kappa if np.log(2.0) > C else 1.0 / np.cosh(C))
    ratio = (1.0 + np.exp(-2.0 * C)) / min(1.0, 2.0 * np.exp(-C))
    assert mass.max() / lowest == pytest.approx(ratio)
    assert ratio > 1.0
    for loss in (Logistic(), Probit()):
        both = [np.exp(-loss.value(np.full(f.shape, s), f)) for s in (-1.0, 1.0)]
        np.testing.assert_allclose(sum(both), 1.0, rtol=1e-12)


def test_6_7_3_a_spline_is_straight_outside_the_data(rng: np.random.Generator) -> None:
    x = np.sort(rng.uniform(0.2, 0.8, 12))[:, None]
    y = np.sin(9 * x[:, 0]) + 0.1 * rng.normal(size=12)
    dense = GPRegressor(
        3.0 * Spline(2), basis="linear", loss=Gaussian(noise=0.01), search=None
    ).fit(x, y)
    models = [dense, SmoothingSpline(lam=0.01 / 3.0), ThinPlateSpline(2, lam=0.01 / 3.0)]
    outside = (np.linspace(0.0, 0.2, 9), np.linspace(0.8, 1.5, 9))
    for model in models:
        fitted = model.fit(x, y)
        for side in outside:
            np.testing.assert_allclose(np.diff(fitted.predict(side[:, None]), 2), 0.0, atol=1e-8)
    alpha = dense.posteriors_[0].alpha[:, 0]
    assert alpha.sum() == pytest.approx(0.0, abs=1e-9 * np.abs(alpha).max())
    assert alpha @ x[:, 0] == pytest.approx(0.0, abs=1e-9 * np.abs(alpha).max())


def test_6_7_3_a_proper_prior_bends_it(rng: np.random.Generator) -> None:
    """With beta ~ N(0, s I) the left piece has a curvature of order 1 / s."""
    x = np.sort(rng.uniform(0.2, 0.8, 12))[:, None]
    y, left = np.sin(9 * x[:, 0]) + 5.0, np.linspace(0.0, 0.19, 5)[:, None]
    kernel = 3.0 * Spline(2)
    bends = []
    for s in (1e1, 1e3, 1e5):
        H, h = (np.column_stack([np.ones(len(a)), a[:, 0]]) for a in (x, left))
        Ky = kernel(x) + 0.01 * np.eye(12)
        mean, _ = gp.posterior(Ky, kernel(x, left), kernel(left), y, H, h, width=s)
        bends.append(np.abs(np.diff(mean, 2)).max())
    assert bends[0] > 1e-8
    np.testing.assert_allclose(np.array(bends[:-1]) / bends[1:], 100.0, rtol=0.2)
