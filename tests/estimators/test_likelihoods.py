"""GPRegressor with likelihoods other than Gaussian noise: counts, positive numbers, outliers."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import GPRegressor, KernelRegressor, losses
from mercer.kernels import RBF
from mercer.search import Optimize

X = np.random.default_rng(3).uniform(0.0, 10.0, (60, 1))
SIGNAL = np.sin(X[:, 0])


def responses(rng: np.random.Generator) -> dict[str, tuple[losses.Loss, np.ndarray]]:
    return {
        "poisson": (losses.Poisson(), rng.poisson(np.exp(SIGNAL + 1.0))),
        "gamma": (losses.Gamma(shape=3.0), rng.gamma(3.0, np.exp(SIGNAL) / 3.0)),
        "student": (losses.StudentT(scale=0.2, df=3.0), SIGNAL + 0.2 * rng.standard_t(3, 60)),
        "absolute": (losses.LaplaceNoise(scale=0.2), SIGNAL + 0.2 * rng.laplace(size=60)),
        "huber": (losses.Huber(), SIGNAL + 0.2 * rng.standard_t(3, 60)),
        "ordinal": (losses.Ordinal([-0.7, 0.7]), np.digitize(SIGNAL, [-0.7, 0.7])),
    }


NAMES = list(responses(np.random.default_rng(0)))


@pytest.mark.parametrize("name", NAMES)
def test_posterior_mean_follows_the_signal(name, rng):
    loss, y = responses(rng)[name]
    model = GPRegressor(1.0 * RBF(1.5), loss=loss, search=None).fit(X, y)
    assert model.report_["inference"]["converged"]
    mean, std = model.predict_latent(X)
    assert np.corrcoef(mean, SIGNAL)[0, 1] > 0.85
    assert np.all(std > 0)
    assert np.all(std < 1.0)
    assert np.isfinite(model.log_evidence_)


@pytest.mark.parametrize("name", NAMES)
def test_leave_one_out_against_refitting(name, rng):
    loss, y = responses(rng)[name]
    make = GPRegressor(1.0 * RBF(1.5), loss=loss, search=None)
    model = make.fit(X, y)
    density = model.loo_.log_density.copy()
    for i in range(0, 60, 12):
        rest = np.arange(60) != i
        again = GPRegressor(1.0 * RBF(1.5), loss=loss, search=None).fit(X[rest], y[rest])
        want = again.predictive_log_density(X[i : i + 1], y[i : i + 1])[0]
        assert abs(density[i] - want) < 0.15


def test_gaussian_loss_through_every_inference_is_exact(rng):
    y = SIGNAL + 0.3 * rng.normal(size=60)
    loss = losses.Gaussian(noise=0.09)
    exact = GPRegressor(1.0 * RBF(1.5), loss=loss, search=None).fit(X, y)
    for name in ("laplace", "ep", "variational"):
        model = GPRegressor(1.0 * RBF(1.5), loss=loss, inference=name, search=None).fit(X, y)
        np.testing.assert_allclose(model.log_evidence_, exact.log_evidence_, rtol=1e-7)
        np.testing.assert_allclose(model.predict(X), exact.predict(X), atol=1e-6)
        np.testing.assert_allclose(model.loo_.log_density, exact.loo_.log_density, atol=1e-5)


def test_repeated_inputs_with_different_targets_through_laplace(rng):
    x = np.repeat(X[:20], 2, axis=0)
    y = np.repeat(SIGNAL[:20], 2) + 0.3 * rng.normal(size=40)
    loss = losses.Gaussian(noise=0.09)
    exact = GPRegressor(1.0 * RBF(1.5), loss=loss, search=None).fit(x, y)
    model = GPRegressor(1.0 * RBF(1.5), loss=loss, inference="laplace", search=None).fit(x, y)
    np.testing.assert_allclose(model.log_evidence_, exact.log_evidence_, rtol=1e-8)


def test_parameters_of_the_loss_are_learned(rng):
    y = rng.gamma(5.0, np.exp(SIGNAL) / 5.0)
    model = GPRegressor(1.0 * RBF(1.5), loss=losses.Gamma(), search=Optimize(restarts=0))
    model.fit(X, y)
    shape = model.loss_.shape
    assert 2.0 < shape < 12.0
    kernel = model.kernel_
    for factor in (0.9, 1.1):
        other = GPRegressor(kernel, loss=losses.Gamma(shape=factor * shape), search=None)
        assert other.fit(X, y).log_evidence_ < model.log_evidence_


def test_outliers_move_student_t_less(rng):
    y = SIGNAL + 0.1 * rng.normal(size=60)
    y[::10] += 5.0
    plain = GPRegressor().fit(X, y)
    robust = GPRegressor(loss="student_t", search=Optimize(restarts=0)).fit(X, y)
    errors = [np.sqrt(np.mean((m.predict_latent(X)[0] - SIGNAL) ** 2)) for m in (plain, robust)]
    assert errors[1] < 0.5 * errors[0]


def test_intervals_of_counts_cover(rng):
    loss, y = responses(rng)["poisson"]
    model = GPRegressor(loss=loss, search=Optimize(restarts=0)).fit(X, y)
    low, high = model.predict_interval(X, 0.9)
    assert np.mean((low <= y) & (y <= high)) > 0.85
    assert np.all(low >= 0.0)


def test_files(rng, tmp_path):
    loss, y = responses(rng)["poisson"]
    model = GPRegressor(1.0 * RBF(1.5), loss=loss, search=None).fit(X, y)
    mercer.save(model, tmp_path / "counts.mercer")
    again = mercer.load(tmp_path / "counts.mercer")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.loo_.log_density, model.loo_.log_density)


def test_kernel_regressor_takes_an_inference_with_spread(rng):
    loss, y = responses(rng)["poisson"]
    model = KernelRegressor(1.0 * RBF(1.5), loss=loss, inference="laplace", search=None).fit(X, y)
    assert model.predict(X, return_std=True)[1].shape == (60,)
    mode = KernelRegressor(1.0 * RBF(1.5), loss=loss, search=None).fit(X, y)
    np.testing.assert_allclose(model.predict_latent(X)[0], mode.predict_latent(X)[0], atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_a_covariance_of_observations_needs_noise_that_is_added(name, rng):
    """cov(f(x) + e, f(z) + e') = cov(f(x), f(z)); behind a link it is another one, and refused."""
    loss, y = responses(rng)[name]
    model = GPRegressor(1.0 * RBF(1.5), loss=loss, search=None).fit(X, y)
    at = X[:5]
    if name in ("poisson", "gamma", "ordinal"):
        with pytest.raises(ValueError, match=r"through a link.*predict_latent that of the"):
            model.predict(at, return_cov=True)
        return
    mean, cov = model.predict(at, return_cov=True)
    again, std = model.predict(at, return_std=True)
    np.testing.assert_array_equal(mean, again)
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), std)
    latent = model.posteriors_[0].cov(model.units_.standardised(at)) * model.units_.y_scale**2
    other = ~np.eye(5, dtype=bool)
    np.testing.assert_allclose(cov[other], latent[other], rtol=1e-12)
