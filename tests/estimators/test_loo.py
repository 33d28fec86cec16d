"""Closed-form leave-one-out against refitting: mean, variance and log density to 1e-8."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from mercer import GPRegressor
from mercer.kernels import RBF, Matern, Noise, White
from mercer.losses import Gaussian
from tests.reference import gp

KERNEL = 1.7 * RBF(np.array([0.8, 1.9]))


def data(rng: np.random.Generator, repeats: bool = False) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(16, 2))
    if repeats:
        X[10:13], X[13] = X[0], X[1]
    return X, 2.0 + np.sin(X[:, 0]) + 0.4 * rng.normal(size=16)


def check(model: GPRegressor, Ky: np.ndarray, y: np.ndarray, H: np.ndarray | None = None) -> None:
    mean, variance, density = gp.leave_one_out(Ky, y, H)
    np.testing.assert_allclose(model.loo_.mean, mean, atol=1e-8)
    np.testing.assert_allclose(model.loo_.variance, variance, atol=1e-8)
    np.testing.assert_allclose(model.loo_.std, np.sqrt(variance), atol=1e-8)
    np.testing.assert_allclose(model.loo_.log_density, density, atol=1e-8)
    assert model.loo_.total == pytest.approx(density.sum(), abs=1e-7)


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("basis", [None, "constant", "linear"])
@pytest.mark.parametrize("noise", [0.3, "per row"])
def test_against_refitting(
    rng: np.random.Generator, repeats: bool, basis: object, noise: object
) -> None:
    X, y = data(rng, repeats)
    noise = rng.uniform(0.1, 0.8, 16) if noise == "per row" else noise
    model = GPRegressor(KERNEL, loss=Gaussian(noise), search=None, basis=basis).fit(X, y)
    H = {None: None, "constant": np.ones((16, 1)), "linear": np.c_[np.ones(16), X]}[basis]
    Ky = KERNEL(X, X) + np.diag(np.broadcast_to(noise, 16))
    check(model, Ky, y, H)


def test_noise_parts(rng: np.random.Generator) -> None:
    X, y = data(rng)
    coloured = 0.3 * Matern(nu=0.5, length_scale=0.5)
    kernel = KERNEL + White(0.1) + Noise(coloured)
    model = GPRegressor(kernel, loss=Gaussian(0.2), search=None).fit(X, y)
    check(model, KERNEL(X) + coloured(X) + 0.3 * np.eye(16), y)


def test_zero_noise(rng: np.random.Generator) -> None:
    X, y = data(rng)
    model = GPRegressor(1.7 * Matern(nu=0.5), loss=Gaussian(0.0), search=None).fit(X, y)
    check(model, 1.7 * Matern(nu=0.5)(X), y)


def test_estimator_by_estimator_in_user_units(rng: np.random.Generator) -> None:
    """Refits of the fitted kernel, noise and mean on raw units."""
    X, y = data(rng)
    X, y = X * 1e3 + 5e3, 1e-4 * y
    model = GPRegressor(basis="constant").fit(X, y)
    for i in (0, 7, 15):
        rest = np.arange(16) != i
        again = GPRegressor(model.kernel_, loss=model.loss_, search=None, basis="constant")
        mean, std = again.fit(X[rest], y[rest]).predict(X[i : i + 1], return_std=True)
        assert model.loo_.mean[i] == pytest.approx(mean[0], rel=1e-7)
        assert model.loo_.std[i] == pytest.approx(std[0], rel=1e-7)
        assert model.loo_.log_density[i] == pytest.approx(norm(mean, std).logpdf(y[i])[0], rel=1e-6)


def test_several_outputs(rng: np.random.Generator) -> None:
    X, y = data(rng, repeats=True)
    Y = np.column_stack([y, y[::-1] ** 2])
    model = GPRegressor(KERNEL, loss=Gaussian(0.3), search=None).fit(X, Y)
    Ky = KERNEL(X, X) + 0.3 * np.eye(16)
    assert model.loo_.mean.shape == model.loo_.variance.shape == (16, 2)
    for j in range(2):
        mean, variance, density = gp.leave_one_out(Ky, Y[:, j])
        np.testing.assert_allclose(model.loo_.mean[:, j], mean, atol=1e-8)
        np.testing.assert_allclose(model.loo_.variance[:, j], variance, atol=1e-8)
        np.testing.assert_allclose(model.loo_.log_density[:, j], density, atol=1e-8)


@pytest.mark.parametrize("basis", [None, "linear"])
def test_a_weight_of_two_is_two_rows(rng: np.random.Generator, basis: object) -> None:
    X, y = data(rng, repeats=True)
    w = rng.integers(1, 4, 16)
    model = GPRegressor(KERNEL, loss=Gaussian(0.3), search=None, basis=basis).fit(X, y, w)
    every = np.repeat(np.arange(16), w)
    Ky = KERNEL(X[every], X[every]) + 0.3 * np.eye(len(every))
    H = None if basis is None else np.c_[np.ones(len(every)), X[every]]
    mean, variance, density = gp.leave_one_out(Ky, y[every], H)
    np.testing.assert_allclose(model.loo_.mean[every], mean, atol=1e-8)
    np.testing.assert_allclose(model.loo_.variance[every], variance, atol=1e-8)
    assert model.loo_.total == pytest.approx(density.sum(), abs=1e-7)


def test_order_of_the_rows_is_kept(rng: np.random.Generator) -> None:
    X, y = data(rng)
    y[5] += 50.0
    loo = GPRegressor(KERNEL, loss=Gaussian(0.3), search=None).fit(X, y).loo_
    assert np.argmin(loo.log_density) == 5


def test_a_basis_that_needs_every_row(rng: np.random.Generator) -> None:
    """k = n: no row can be left out; an error or infinite spread, but no silent rubbish."""
    X, y = data(rng)
    try:
        model = GPRegressor(KERNEL, loss=Gaussian(0.3), search=None, basis="linear")
        model.fit(X[:3], y[:3])
    except ValueError as error:
        assert "basis" in str(error)  # noqa: PT017  # either outcome is right
    else:
        assert not np.any(np.abs(model.loo_.variance) < 1e6)
