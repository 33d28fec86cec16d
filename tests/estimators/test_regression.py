"""Predictions of the regressors against dense formulas, for every kind of noise."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from scipy.stats import norm

import mercer.core.memory
import mercer.process.process
from mercer import GPRegressor, KernelRegressor
from mercer.kernels import RBF, Linear, Matern, Noise, White
from mercer.losses import Gaussian
from mercer.process import Posterior
from tests.reference import gp

KERNEL = 1.7 * RBF(np.array([0.8, 1.9])) + 0.2 * Linear()


def data(rng: np.random.Generator, n: int = 20) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, 2))
    return X, np.sin(X[:, 0]) + 0.4 * rng.normal(size=n), rng.normal(size=(6, 2))


def plain(kernel: object = KERNEL, noise: object = 0.3, **options: object) -> GPRegressor:
    return GPRegressor(kernel, loss=Gaussian(noise), search=None, **options)


@pytest.mark.parametrize("noise", [0.3, "per row"])
def test_known_noise(rng: np.random.Generator, noise: object) -> None:
    X, y, Z = data(rng)
    noise = rng.uniform(0.1, 1.0, 20) if noise == "per row" else noise
    model = plain(noise=noise).fit(X, y)
    Ky = KERNEL(X) + np.diag(np.broadcast_to(noise, 20))
    mean, cov = gp.posterior(Ky, KERNEL(X, Z), KERNEL(Z), y)
    latent, std = model.predict_latent(Z)
    np.testing.assert_allclose(model.predict(Z), mean, atol=1e-10)
    np.testing.assert_allclose(latent, mean, atol=1e-10)
    np.testing.assert_allclose(std, np.sqrt(np.diagonal(cov)), atol=1e-9)
    assert model.log_evidence_ == pytest.approx(gp.log_evidence(Ky, y), abs=1e-9)
    if np.ndim(noise) == 0:
        predicted = model.predict(Z, return_std=True)[1]
        np.testing.assert_allclose(predicted**2, np.diagonal(cov) + noise, atol=1e-9)


def test_coloured_noise(rng: np.random.Generator) -> None:
    X, y, Z = data(rng)
    coloured = 0.5 * Matern(nu=0.5, length_scale=0.4)
    model = plain(KERNEL + White(0.2) + Noise(coloured), 0.1).fit(X, y)
    Ky = KERNEL(X) + coloured(X) + 0.3 * np.eye(20)
    mean, cov = gp.posterior(Ky, KERNEL(X, Z), KERNEL(Z), y)
    np.testing.assert_allclose(model.predict(Z), mean, atol=1e-10)
    np.testing.assert_allclose(model.predict_latent(Z)[1], np.sqrt(np.diagonal(cov)), atol=1e-9)
    observed = cov + coloured(Z) + 0.3 * np.eye(6)
    np.testing.assert_allclose(model.predict(Z, return_cov=True)[1], observed, atol=1e-9)
    std = np.sqrt(np.diagonal(observed))
    np.testing.assert_allclose(model.predict(Z, return_std=True)[1], std, atol=1e-9)
    low, high = model.predict_interval(Z, 0.8)
    np.testing.assert_allclose(high - low, 2 * norm.ppf(0.9) * std, rtol=1e-9)
    density = model.predictive_log_density(Z, np.zeros(6))
    np.testing.assert_allclose(density, norm(mean, std).logpdf(0.0), atol=1e-9)


def test_white_noise_in_the_kernel_is_noise_in_the_loss(rng: np.random.Generator) -> None:
    X, y, Z = data(rng)
    inside = plain(KERNEL + White(0.25), 0.05).fit(X, y)
    outside = plain(KERNEL, 0.3).fit(X, y)
    for name in ("predict_latent", "predict_interval"):
        pairs = zip(getattr(inside, name)(Z), getattr(outside, name)(Z), strict=True)
        for a, b in pairs:
            np.testing.assert_allclose(a, b, atol=1e-10)
    assert inside.log_evidence_ == pytest.approx(outside.log_evidence_, abs=1e-10)
    np.testing.assert_allclose(inside.loo_.variance, outside.loo_.variance, atol=1e-10)
    assert inside.report_["degrees_of_freedom"] == pytest.approx(
        outside.report_["degrees_of_freedom"]
    )


def test_zero_noise_interpolates(rng: np.random.Generator) -> None:
    X, y, _ = data(rng)
    model = plain(1.7 * Matern(nu=1.5), 0.0).fit(X, y)
    np.testing.assert_allclose(model.predict(X), y, atol=1e-9)
    np.testing.assert_allclose(model.predict(X, return_std=True)[1], 0.0, atol=1e-6)
    np.testing.assert_allclose(model.predict_latent(X)[1], 0.0, atol=1e-6)


def test_noise_is_learned() -> None:
    rng = np.random.default_rng(3)
    X = rng.uniform(0, 10, (150, 1))
    y = np.sin(X[:, 0]) + 0.5 * rng.normal(size=150)
    model = GPRegressor(1.0 * RBF()).fit(X, y)
    assert model.loss_.noise == pytest.approx(0.25, rel=0.35)


@pytest.mark.parametrize("cls", [GPRegressor, KernelRegressor])
def test_standard_deviation_is_that_of_a_new_observation(
    rng: np.random.Generator, cls: type
) -> None:
    X, y, Z = data(rng)
    model = cls().fit(X, y)
    mean, std = model.predict(Z, return_std=True)
    latent, narrow = model.predict_latent(Z)
    np.testing.assert_allclose(mean, latent)
    np.testing.assert_allclose(std**2 - narrow**2, model.loss_.noise, rtol=1e-8)
    cov = model.predict(Z, return_cov=True)[1]
    np.testing.assert_allclose(np.diagonal(cov), std**2, rtol=1e-10)
    np.testing.assert_allclose(cov, cov.T, atol=1e-12)
    assert np.linalg.eigvalsh(cov)[0] > 0


def test_both_at_once_is_refused(rng: np.random.Generator) -> None:
    X, y, Z = data(rng)
    with pytest.raises(RuntimeError, match="return_std or return_cov, not both"):
        plain().fit(X, y).predict(Z, return_std=True, return_cov=True)


def test_intervals(rng: np.random.Generator) -> None:
    X, y, Z = data(rng)
    model = GPRegressor().fit(X, y)
    mean, std = model.predict(Z, return_std=True)
    last = np.zeros(6)
    for coverage in (0.1, 0.5, 0.9, 0.99):
        low, high = model.predict_interval(Z, coverage)
        np.testing.assert_allclose((low + high) / 2, mean, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(high - low, 2 * std * norm.ppf(0.5 + coverage / 2), rtol=1e-9)
        assert np.all(high - low > last)
        last = high - low
    for wrong in (0.0, 1.0, -0.1, 90, float("nan")):
        with pytest.raises(ValueError, match="coverage must lie between 0 and 1"):
            model.predict_interval(Z, wrong)


def test_log_density(rng: np.random.Generator) -> None:
    X, y, Z = data(rng)
    model = GPRegressor().fit(X, 7.0 * y)
    mean, std = model.predict(Z, return_std=True)
    target = rng.normal(size=6)
    density = model.predictive_log_density(Z, target)
    np.testing.assert_allclose(density, norm(mean, std).logpdf(target), rtol=1e-9)
    for wrong in (target[:1], target[:4]):
        with pytest.raises(ValueError):  # noqa: PT011  # any clear refusal of a wrong length
            model.predictive_log_density(Z, wrong)


def test_no_variance_unless_asked(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y, Z = data(rng)
    model = GPRegressor().fit(X, y)
    calls = []
    for name in ("var", "cov", "diag"):
        original = getattr(Posterior, name)

        def counted(self, X, original=original, name=name):
            calls.append(name)
            return original(self, X)

        monkeypatch.setattr(Posterior, name, counted)
    reduced = type(model.posteriors_[0].operator)
    monkeypatch.setattr(reduced, "half", lambda *a: calls.append("half"), raising=False)
    model.predict(Z)
    model.score(Z, np.zeros(6))
    assert calls == []
    monkeypatch.undo()
    model.predict(Z, return_std=True)


def test_batches_equal_all_at_once(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, y, _ = data(rng)
    Z = rng.normal(size=(53, 2))
    model = GPRegressor(basis="linear").fit(X, y)
    mean, std = model.predict(Z, return_std=True)
    single = [model.predict(z[None], return_std=True) for z in Z]
    np.testing.assert_allclose(np.ravel([s[0] for s in single]), mean, atol=1e-10)
    np.testing.assert_allclose(np.ravel([s[1] for s in single]), std, atol=1e-10)
    monkeypatch.setattr(mercer.process.process, "BATCH_BYTES", 8 * 20 * 7)
    again = model.predict(Z, return_std=True)
    np.testing.assert_allclose(again[0], mean, atol=1e-11)
    np.testing.assert_allclose(again[1], std, atol=1e-11)


def test_noise_per_row_is_known_at_the_training_rows_only(rng: np.random.Generator) -> None:
    """As many new rows as training rows are still new rows: no noise is invented for them."""
    X, y, Z = data(rng)
    model = plain(noise=rng.uniform(0.1, 1.0, 20)).fit(X, y)
    for new in (Z, rng.normal(size=(20, 2))):
        mean, std = model.predict(new, return_std=True)
        latent, deviation = model.predict_latent(new)
        np.testing.assert_allclose(mean, latent, atol=1e-12)
        np.testing.assert_allclose(std, deviation, atol=1e-12)
        with pytest.raises(ValueError, match="of a new observation is not known"):
            model.predict_interval(new)
        with pytest.raises(ValueError, match="of a new observation is not known"):
            model.predictive_log_density(new, np.zeros(len(new)))


def test_samples(rng: np.random.Generator) -> None:
    X, y, Z = data(rng)
    model = GPRegressor().fit(X, 50 + 9 * y)
    draws = model.sample_y(Z, 8000, random_state=0)
    assert draws.shape == (6, 8000)
    mean, std = model.predict_latent(Z)
    assert np.abs((draws.mean(axis=1) - mean) / std).max() < 5 / np.sqrt(8000)
    np.testing.assert_allclose(draws.std(axis=1), std, rtol=0.05)
    np.testing.assert_array_equal(draws[:, :1], model.sample_y(Z, 8000, random_state=0)[:, :1])
    assert np.any(draws != model.sample_y(Z, 8000, random_state=1))


def test_prior_samples(rng: np.random.Generator) -> None:
    Z = np.array([[0.0], [0.5], [9.0]])
    draws = GPRegressor(3.0 * RBF() + White(0.5)).sample_prior(Z, 20_000, random_state=1)
    assert draws.shape == (3, 20_000)
    np.testing.assert_allclose(np.cov(draws), (3.0 * RBF())(Z), atol=0.15)


def test_what_is_fitted_does_not_see_later_changes(rng: np.random.Generator) -> None:
    X, y, Z = data(rng)
    kernel = 1.7 * RBF(np.array([0.8, 1.9]))
    model = GPRegressor(kernel, loss=Gaussian(0.3), search=None).fit(X, y)
    before = model.predict(Z, return_std=True)
    X[:], y[:] = 0.0, 0.0
    kernel.set_params(variance=99.0)
    kernel.kernel.length_scale[:] = 1e-3
    for a, b in zip(before, model.predict(Z, return_std=True), strict=True):
        np.testing.assert_array_equal(a, b)


def test_own_kernels_may_return_any_order_and_precision(rng: np.random.Generator) -> None:
    """The compiled core works in place; it must not work on a hidden copy."""

    class Columnwise(RBF):
        def __call__(self, X: np.ndarray, Z: np.ndarray | None = None) -> np.ndarray:
            return np.asfortranarray(super().__call__(X, Z))

    class Single(RBF):
        def __call__(self, X: np.ndarray, Z: np.ndarray | None = None) -> np.ndarray:
            return super().__call__(X, Z).astype(np.float32)

    X, y, Z = data(rng)
    expected = plain(RBF()).fit(X, y)
    for kernel in (Columnwise(), Single()):
        model = plain(kernel).fit(X, y)
        np.testing.assert_allclose(model.predict(Z), expected.predict(Z), atol=1e-5)
        assert model.log_evidence_ == pytest.approx(expected.log_evidence_, abs=1e-4)


def test_relevance_is_in_standardised_units(rng: np.random.Generator) -> None:
    X = rng.normal(size=(60, 3)) * [1.0, 1000.0, 1e-3]
    y = np.sin(X[:, 0]) + np.sin(X[:, 1] / 1000)
    model = GPRegressor().fit(X, y)
    scale = model.kernel_.get_params()["kernel__length_scale"]
    np.testing.assert_allclose(model.relevance_, X.std(axis=0) / scale, rtol=1e-6)
    assert model.relevance_[2] < 0.1 * model.relevance_[:2].min()
    own = plain(1.0 * RBF(np.array([1.0, 2000.0, 1e-3]))).fit(X, y)
    np.testing.assert_allclose(own.relevance_, X.std(axis=0) / [1.0, 2000.0, 1e-3], rtol=1e-6)


def test_relevance_of_columns_the_kernel_does_not_see(rng: np.random.Generator) -> None:
    X, y, _ = data(rng)
    relevance = plain(1.0 * RBF(1.0).on([0])).fit(X, y).relevance_
    assert relevance is None or relevance[1] == 0.0


def test_memory_of_a_joint_prediction_is_predicted(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A covariance of q new rows is q x q: refused before allocating, like a fit."""
    X, y, _ = data(rng)
    model = plain().fit(X, y)
    Z = rng.normal(size=(2000, 2))
    monkeypatch.setattr(mercer.core.memory, "available_bytes", lambda: 1 << 20)
    assert model.predict(Z).shape == (2000,)
    with pytest.raises(MemoryError, match="2000"):
        model.predict(Z, return_cov=True)
    with pytest.raises(MemoryError, match="2000"):
        model.sample_y(Z)


def _sine(X: np.ndarray) -> np.ndarray:
    return np.sin(X)


@pytest.mark.parametrize("basis", [None, "linear", _sine])
def test_fitted_models_can_be_copied_and_pickled(rng: np.random.Generator, basis: object) -> None:
    """joblib and cross_validate(return_estimator=True) need it."""
    X, y, Z = data(rng)
    model = GPRegressor(basis=basis).fit(X, y)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(twin.predict(Z), model.predict(Z))
