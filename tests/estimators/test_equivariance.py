"""Units do not matter: predictions, intervals and evidence under rescaled and shifted tables."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import GPRegressor
from mercer.kernels import RBF
from mercer.losses import Gaussian
from mercer.search import Optimize
from tests.reference import gp


def data(n: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(n, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.normal(size=n)
    return X, y, rng.normal(size=(9, 2))


def results(model: GPRegressor, Z: np.ndarray) -> np.ndarray:
    mean, std = model.predict(Z, return_std=True)
    return np.array([mean, *model.predict_interval(Z, 0.9), mean + std])


@pytest.fixture(scope="module")
def plain() -> np.ndarray:
    X, y, Z = data()
    return results(GPRegressor().fit(X, y), Z)


@pytest.mark.parametrize("scale", [(1e-9, 1e9), (1e9, 1.0), (1e-9, 1e-9), (1.0, 37.0)])
@pytest.mark.parametrize("offset", [(0.0, 0.0), (1e6, -1e6), (10.0, 1e6)])
def test_columns(plain: np.ndarray, scale: tuple, offset: tuple) -> None:
    X, y, Z = data()
    s, o = np.array(scale), np.array(offset)
    model = GPRegressor().fit((X + o) * s, y)
    np.testing.assert_allclose(results(model, (Z + o) * s), plain, atol=1e-3 * y.std())


@pytest.mark.parametrize("scale", [1e-12, 1e-5, 3.0, 1e12])
@pytest.mark.parametrize("offset", [0.0, -30.0, 1e4])
def test_targets(plain: np.ndarray, scale: float, offset: float) -> None:
    X, y, Z = data()
    model = GPRegressor().fit(X, (y + offset) * scale)
    found = results(model, Z) / scale
    expected = plain + offset
    np.testing.assert_allclose(found, expected, atol=1e-3 * y.std())


@pytest.mark.parametrize("basis", ["constant", "linear", 2])
def test_everything_with_a_basis(basis: object) -> None:
    X, y, Z = data()
    s, o = np.array([1e-6, 1e4]), np.array([100.0, -1e4])
    plain = results(GPRegressor(basis=basis).fit(X, y), Z)
    model = GPRegressor(basis=basis).fit((X + o) * s, 1e7 * (y + 3.0))
    found = results(model, (Z + o) * s) / 1e7 - 3.0
    np.testing.assert_allclose(found, plain, atol=1e-3 * y.std())


@pytest.mark.parametrize("search", ["evidence", "loo"])
def test_a_sign_changes_a_sign(search: str) -> None:
    X, y, Z = data()
    plain = GPRegressor(search=search).fit(X, y).predict(Z)
    turned = GPRegressor(search=search).fit(-X, -y).predict(-Z)
    np.testing.assert_allclose(turned, -plain, atol=1e-4)


@pytest.mark.parametrize("basis", [None, "constant", "linear", 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_evidence_is_a_density_of_y(basis: object, weighted: bool) -> None:
    """y -> s y: -N log s, k fewer with flat coefficients; columns: -log |det T| of the basis."""
    X, y, _ = data()
    w = np.tile([1.0, 2.0, 3.0, 0.5], 10) if weighted else np.ones(40)
    s, scale = 37.0, np.array([5.0, 0.01])
    first = GPRegressor(basis=basis, search=Optimize(restarts=0)).fit(X, y, w)
    second = GPRegressor(basis=basis, search=Optimize(restarts=0)).fit(X * scale, s * y, w)
    k = {None: 0, "constant": 1, "linear": 3, 2: 6}[basis]
    powers = {None: [], "constant": [], "linear": [1.0, 1.0], 2: [4.0, 4.0]}[basis]
    change = -(w.sum() - k) * np.log(s)
    change -= sum(p * np.log(c) for p, c in zip(powers, scale if powers else [], strict=True))
    assert second.log_evidence_ - first.log_evidence_ == pytest.approx(change, abs=1e-3)


@pytest.mark.parametrize("basis", [None, "constant", "linear", 2])
def test_stated_parts_give_the_stated_evidence_and_predictions(basis: object) -> None:
    """kernel_ and loss_ are in the user's units: refitting with them changes nothing."""
    X, y, Z = data()
    X, Z, y = X * [1000.0, 0.01] + [7e3, 0.3], Z * [1000.0, 0.01] + [7e3, 0.3], 40.0 * y + 50.0
    model = GPRegressor(basis=basis).fit(X, y)
    shift = y.mean() if basis is None else 0.0
    again = GPRegressor(model.kernel_, loss=model.loss_, search=None, basis=basis)
    again.fit(X, y - shift)
    assert again.report_["standardize"]["on"] is False
    np.testing.assert_allclose(again.predict(Z) + shift, model.predict(Z), rtol=1e-6)
    for a, b in zip(again.predict_interval(Z), model.predict_interval(Z), strict=True):
        np.testing.assert_allclose(a + shift, b, rtol=1e-6)
    assert again.log_evidence_ == pytest.approx(model.log_evidence_, abs=1e-5)
    if basis is None:  # a row is left out of the mean of the targets, too
        for i in range(0, len(y), 5):
            others = np.arange(len(y)) != i
            centre = y[others].mean()
            again.fit(X[others], y[others] - centre)
            left = again.predict(X[i : i + 1])[0] + centre
            assert model.loo_.mean[i] == pytest.approx(left, rel=1e-5)
            density = again.predictive_log_density(X[i : i + 1], y[i : i + 1] - centre)[0]
            assert model.loo_.log_density[i] == pytest.approx(density, abs=1e-5)
        again.fit(X, y - shift)
    else:
        np.testing.assert_allclose(again.loo_.mean, model.loo_.mean, rtol=1e-5)
        np.testing.assert_allclose(again.loo_.log_density, model.loo_.log_density, atol=1e-5)
    columns = {"constant": X[:, :0], "linear": X}.get(basis)
    if basis is None:
        H = None
    elif columns is None:
        H = np.column_stack([np.ones(40), X, X[:, :1] * X, X[:, 1] ** 2])
    else:
        H = np.column_stack([np.ones(40), columns])
    Ky = model.kernel_(X) + model.loss_.noise * np.eye(40)
    if basis != 2:  # the naive formula has no digits left with raw squares of 1e6
        dense = gp.log_evidence(Ky, y - shift, H)
        assert model.log_evidence_ == pytest.approx(dense, abs=1e-4)


def test_kernel_objects_mean_the_users_units() -> None:
    X, y, Z = data()
    kernel = 3.0 * RBF(np.array([0.5, 2.0]))
    model = GPRegressor(kernel, loss=Gaussian(0.1), search=None).fit(100 * X, y)
    Ky = kernel(100 * X) + 0.1 * np.eye(40)
    mean = gp.posterior(Ky, kernel(100 * X, Z), kernel(Z), y)[0]
    np.testing.assert_allclose(model.predict(Z), mean, atol=1e-10)
    assert model.kernel_ == kernel
    assert model.loss_ == Gaussian(0.1)


def test_known_noise_is_in_the_users_units_with_a_default_kernel() -> None:
    X, y, Z = data()
    model = GPRegressor(loss=Gaussian(0.04 * 1e6).fix()).fit(X, 1000 * y)
    assert model.loss_.noise == pytest.approx(0.04 * 1e6)
    std, narrow = model.predict(Z, return_std=True)[1], model.predict_latent(Z)[1]
    np.testing.assert_allclose(std**2 - narrow**2, 0.04 * 1e6, rtol=1e-7)


def test_overflowing_squares_do_not_matter(plain: np.ndarray) -> None:
    X, y, Z = data()
    model = GPRegressor().fit(X * 1e200, y)
    np.testing.assert_allclose(results(model, Z * 1e200), plain, atol=1e-3)
