"""The exercises of GPML section 6.7, as statements about mercer's parts."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import KernelRegressor
from mercer.kernels import RBF, Spline
from mercer.losses import Gaussian, Hinge, Logistic, Probit


def test_1_the_norm_does_not_depend_on_the_measure(rng) -> None:
    """For any positive weights p the eigenfunctions give the same |f|^2 = f'K^-1 f."""
    X = rng.normal(size=(6, 2))
    K = RBF(1.0)(X) + 0.1 * np.eye(6)
    f = rng.normal(size=6)
    norm = f @ np.linalg.solve(K, f)
    for _ in range(5):
        p = rng.uniform(0.1, 5.0, 6)
        root = np.sqrt(p)
        values, U = np.linalg.eigh(root[:, None] * K * root)
        Phi = U / root[:, None]
        np.testing.assert_allclose(K @ (p[:, None] * Phi), Phi * values, atol=1e-9)
        np.testing.assert_allclose(Phi.T @ (p[:, None] * Phi), np.eye(6), atol=1e-9)
        c = np.linalg.solve(Phi, f)
        assert np.sum(c**2 / values) == pytest.approx(norm, rel=1e-8)


@pytest.mark.parametrize("C", [0.1, 0.5, 1.0, 2.0, 5.0, 20.0])
def test_2_the_hinge_does_not_normalise(C) -> None:
    """nu(f) = kappa (e^-C(1-f)_+ + e^-C(1+f)_+) is one at f = +-1 only, whatever kappa."""
    f = np.linspace(-6.0, 6.0, 2401)  # holds 0 and +-1
    kappa = 1.0 / (1.0 + np.exp(-2.0 * C))
    loss = Hinge(C=C)
    one = np.ones_like(f)
    nu = kappa * (np.exp(-loss.value(one, f)) + np.exp(-loss.value(-one, f)))
    assert nu.max() == pytest.approx(1.0, abs=1e-12)
    if C <= 5.0:  # beyond, nu differs from one by less than rounding for all |f| > 1
        np.testing.assert_allclose(np.abs(f[nu > 1.0 - 1e-9]), 1.0, atol=1e-9)
    assert nu[1200] == pytest.approx(1.0 / np.cosh(C))
    assert nu[-1] == pytest.approx(kappa + kappa * np.exp(-7.0 * C), rel=1e-12)
    assert nu.min() >= min(kappa, 1.0 / np.cosh(C)) - 1e-12
    if np.log(2.0) < C:
        assert nu.min() == pytest.approx(1.0 / np.cosh(C))
    ratio = (1.0 + np.exp(-2.0 * C)) / min(1.0, 2.0 * np.exp(-C))
    far = kappa  # the limit f -> infinity, which the grid does not reach for small C
    assert nu.max() / min(nu.min(), far) == pytest.approx(ratio, rel=1e-9)
    assert ratio > 1.0


@pytest.mark.parametrize("loss", [Logistic(), Probit()])
def test_2_logistic_and_probit_do(loss) -> None:
    f = np.linspace(-6.0, 6.0, 201)
    one = np.ones_like(f)
    total = np.exp(-loss.value(one, f)) + np.exp(-loss.value(-one, f))
    np.testing.assert_allclose(total, 1.0, rtol=1e-12)


def test_3_the_spline_is_linear_outside_the_data(rng) -> None:
    """(6.29): sum a_i = sum a_i x_i = 0, so that nothing but the line is left on either side."""
    x = np.sort(rng.uniform(2.0, 5.0, 15))[:, None]
    y = np.sin(2.0 * x[:, 0]) + 0.1 * rng.normal(size=15)
    model = KernelRegressor(
        3.0 * Spline(order=2), loss=Gaussian(0.01), basis="linear", search=None
    ).fit(x, y)
    a = model.posteriors_[0].alpha[:, 0]
    points = model.posteriors_[0].points[:, 0]
    assert abs(a.sum()) < 1e-8 * np.abs(a).max()
    assert abs(a @ points) < 1e-8 * np.abs(a).max()
    for side in (np.linspace(0.0, 1.9, 20), np.linspace(5.1, 9.0, 20)):
        assert np.abs(np.diff(model.predict(side[:, None]), 2)).max() < 1e-8


def test_3_a_proper_prior_on_the_line_tends_to_it(rng) -> None:
    """With beta ~ N(0, s I) the curvature left of the data goes to zero like 1/s."""
    x = np.sort(rng.uniform(2.0, 5.0, 15))
    y = np.sin(2.0 * x) + 0.1 * rng.normal(size=15)
    kernel, left = 3.0 * Spline(order=2), np.linspace(0.0, 1.9, 20)
    bends = []
    for s in (1e2, 1e4, 1e6):
        K = kernel(x[:, None]) + s * (1.0 + np.outer(x, x)) + 0.01 * np.eye(15)
        cross = kernel(left[:, None], x[:, None]) + s * (1.0 + np.outer(left, x))
        bends.append(np.abs(np.diff(cross @ np.linalg.solve(K, y), 2)).max())
    assert bends[1] < 0.02 * bends[0]
    assert bends[2] < 0.02 * bends[1]
