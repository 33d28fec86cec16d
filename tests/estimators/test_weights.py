"""Sample weights equal repetition, zero weights equal dropping, order does not matter."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import GPClassifier, GPRegressor
from mercer.kernels import RBF, Matern, White
from mercer.losses import Gaussian
from tests.reference import gp

WEIGHTS = np.array([1, 2, 3, 1, 0, 2, 1, 1, 4, 1, 1, 2, 0, 1, 1, 3, 1, 1, 2, 1] * 2)
EVERY = np.repeat(np.arange(40), WEIGHTS)


def data(outputs: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(8)
    X = np.vstack([rng.normal(size=(30, 2)), np.zeros((10, 2))])
    X[30:35], X[35:] = X[:5], X[7]  # repeated inputs with other targets
    y = np.sin(X[:, :1]) + np.arange(outputs) + 0.3 * rng.normal(size=(40, outputs))
    return X, y[:, 0] if outputs == 1 else y, rng.normal(size=(7, 2))


def same(a: GPRegressor, b: GPRegressor, Z: np.ndarray, tol: float = 1e-7) -> None:
    assert a.log_evidence_ == pytest.approx(b.log_evidence_, abs=tol * 10)
    for first, second in zip(
        a.predict(Z, return_std=True), b.predict(Z, return_std=True), strict=True
    ):
        np.testing.assert_allclose(first, second, atol=tol)
    assert a.loss_.noise == pytest.approx(b.loss_.noise, rel=max(tol, 1e-7))
    assert a.loo_.total == pytest.approx(b.loo_.total, abs=tol * 10)
    np.testing.assert_allclose(
        a.report_["standardize"]["x_scale"], b.report_["standardize"]["x_scale"], rtol=1e-12
    )


@pytest.mark.parametrize("basis", [None, "linear"])
@pytest.mark.parametrize("search", [None, "evidence", "loo"])
@pytest.mark.parametrize("kernel", [None, 1.3 * Matern(nu=2.5)])
def test_weights_equal_repetition(basis: object, search: object, kernel: object) -> None:
    X, y, Z = data()
    options = {"kernel": kernel, "basis": basis, "search": search}
    weighted = GPRegressor(**options).fit(X, y, sample_weight=WEIGHTS)
    repeated = GPRegressor(**options).fit(X[EVERY], y[EVERY])
    same(weighted, repeated, Z)
    np.testing.assert_allclose(weighted.loo_.mean[EVERY], repeated.loo_.mean, atol=1e-6)
    np.testing.assert_allclose(weighted.loo_.variance[EVERY], repeated.loo_.variance, atol=1e-6)


def test_weights_equal_repetition_with_outputs() -> None:
    X, y, Z = data(outputs=2)
    weighted = GPRegressor().fit(X, y, sample_weight=WEIGHTS)
    same(weighted, GPRegressor().fit(X[EVERY], y[EVERY]), Z)


def test_weights_are_not_ignored() -> None:
    X, y, Z = data()
    weighted = GPRegressor().fit(X, y, sample_weight=WEIGHTS)
    assert np.abs(weighted.predict(Z) - GPRegressor().fit(X, y).predict(Z)).max() > 1e-3


@pytest.mark.parametrize("search", [None, "evidence"])
def test_zero_weights_equal_dropping(search: object) -> None:
    X, y, Z = data()
    w = np.where(np.arange(40) % 3 == 0, 0.0, 1.7)
    wild = np.where(w == 0, 1e3, y)
    zero = GPRegressor(search=search).fit(X, wild, sample_weight=w)
    dropped = GPRegressor(search=search).fit(X[w > 0], y[w > 0], sample_weight=w[w > 0])
    same(zero, dropped, Z)
    # a row that does not count is still predicted, from all that do
    mean, std = dropped.predict(X[w == 0], return_std=True)
    np.testing.assert_allclose(zero.loo_.mean[w == 0], mean, atol=1e-7)
    np.testing.assert_allclose(zero.loo_.std[w == 0], std, atol=1e-7)


@pytest.mark.parametrize("kernel", [None, 1.3 * RBF()])
@pytest.mark.parametrize("basis", [None, "linear"])
def test_order_of_rows_does_not_matter(kernel: object, basis: object) -> None:
    X, y, Z = data()
    order = np.random.default_rng(0).permutation(40)
    plain = GPRegressor(kernel, basis=basis).fit(X, y, WEIGHTS)
    mixed = GPRegressor(kernel, basis=basis).fit(X[order], y[order], WEIGHTS[order])
    same(plain, mixed, Z)
    np.testing.assert_allclose(mixed.loo_.mean, plain.loo_.mean[order], atol=1e-7)
    np.testing.assert_allclose(mixed.loo_.log_density, plain.loo_.log_density[order], atol=1e-6)


def test_equal_weights_scale_like_repetition() -> None:
    X, y, Z = data()
    same(
        GPRegressor().fit(X, y, sample_weight=3),
        GPRegressor().fit(np.tile(X, (3, 1)), np.tile(y, 3)),
        Z,
    )


@pytest.mark.parametrize("basis", [None, "linear"])
def test_merging_changes_nothing(basis: object) -> None:
    """The merged fit against the dense one with every row for itself."""
    X, y, Z = data()
    kernel = 1.3 * RBF(0.9)
    model = GPRegressor(kernel, loss=Gaussian(0.2), search=None, basis=basis).fit(X, y)
    assert model.report_["rows"]["used"] == 40
    assert model.report_["rows"]["distinct"] == 30
    Ky = kernel(X, X) + 0.2 * np.eye(40)
    H = (None, None) if basis is None else tuple(np.c_[np.ones(len(A)), A] for A in (X, Z))
    mean, cov = gp.posterior(Ky, kernel(X, Z), kernel(Z), y, *H)
    np.testing.assert_allclose(model.predict(Z), mean, atol=1e-9)
    np.testing.assert_allclose(model.predict_latent(Z)[1] ** 2, np.diagonal(cov), atol=1e-9)
    assert model.log_evidence_ == pytest.approx(gp.log_evidence(Ky, y, H[0]), abs=1e-8)
    S = np.linalg.inv(Ky)
    if basis is None:
        df = np.trace(kernel(X, X) @ S)
        assert model.report_["degrees_of_freedom"] == pytest.approx(df, abs=1e-8)


def test_both_zeros_are_one_input() -> None:
    X, y = np.array([[0.0], [-0.0], [1.0]]), np.array([1.0, 2.0, 3.0])
    model = GPRegressor(1.0 * RBF(), loss=Gaussian(0.1), search=None).fit(X, y)
    assert model.report_["rows"]["distinct"] == 2


def test_weights_without_meaning_are_refused() -> None:
    X, y, _ = data()
    for kernel, loss in ((RBF() + White(0.1), Gaussian(0.1)), (RBF(), Gaussian(np.ones(40)))):
        model = GPRegressor(kernel, loss=loss, search=None)
        model.fit(X, y, sample_weight=np.ones(40))
        with pytest.raises(ValueError, match="described by its inputs alone"):
            model.fit(X, y, sample_weight=WEIGHTS)


@pytest.mark.parametrize("machine", [GPRegressor, GPClassifier])
def test_a_weighted_row_has_no_noise_of_its_own(machine) -> None:
    """Copies of a row have a draw of the noise part each, a weighted row would have one."""
    X, y, _ = data()
    model = machine(RBF() + White(0.1), search=None)
    with pytest.raises(ValueError, match="noise part in the kernel"):
        model.fit(X, y > 0.0, sample_weight=np.full(40, 2.0))
    assert not hasattr(model, "posteriors_")
    model.fit(X, y > 0.0, sample_weight=np.ones(40))
