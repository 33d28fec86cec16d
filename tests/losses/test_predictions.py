"""Predictive moments, distribution functions, quantiles and draws."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import losses
from tests.reference import losses as reference

from .cases import ALL, SCALAR, name

ORDERED = [loss for loss in SCALAR if loss.offers("cdf")]
BINARY = [loss for loss in SCALAR if loss.response == "binary" and loss.normalised]
DISCRETE = ("count", "ordinal")


@pytest.mark.parametrize("loss", BINARY, ids=name)
def test_probability_of_plus_one(loss):
    m, v = np.array([-2.0, 0.0, 0.3, 5.0]), np.array([0.01, 4.0, 1.0, 100.0])
    p = loss.predict(m, v)
    want = [np.exp(reference.tilted(loss, 1.0, *point)[0]) for point in zip(m, v, strict=True)]
    np.testing.assert_allclose(p, want, rtol=1e-9)
    np.testing.assert_allclose(p + loss.predict(-m, v), 1.0, rtol=1e-11)


@pytest.mark.parametrize("loss", [x for x in ALL if x.normalised], ids=name)
def test_draws_have_the_right_probabilities(loss, rng):
    n = 100_000
    if loss.response == "multiclass":
        f = np.array([0.3, -1.0, 1.2])
        y = loss.sample(np.broadcast_to(f, (n, 3)), rng)
        want = np.exp(-loss.value(np.arange(3.0), np.broadcast_to(f, (3, 3))))
        np.testing.assert_allclose(np.bincount(y.astype(int)) / n, want, atol=0.01)
        return
    f = np.full(n, 0.4)
    y = loss.sample(f, rng)
    np.testing.assert_array_equal(loss.check_targets(y), y)
    if loss.response == "binary":
        np.testing.assert_allclose(np.mean(y == 1), np.exp(-loss.value(1.0, f[0])), atol=0.01)
        return
    for t in np.quantile(y, [0.1, 0.5, 0.9]):
        np.testing.assert_allclose(np.mean(y <= t), loss.conditional_cdf(t, f[0]), atol=0.01)


@pytest.mark.parametrize("loss", ORDERED, ids=name)
def test_moments_against_draws(loss, rng):
    n, m, v = 400_000, 0.3, 0.2
    y = loss.sample(m + np.sqrt(v) * rng.standard_normal(n), rng)
    mean, variance = loss.predict(np.array([m]), np.array([v]))
    assert mean.shape == variance.shape == (1,)
    np.testing.assert_allclose(y.mean(), mean[0], atol=6 * np.sqrt(variance[0] / n))
    if not isinstance(loss, losses.StudentT) or loss.df > 4:
        np.testing.assert_allclose(y.var(), variance[0], rtol=0.04)


@pytest.mark.parametrize("loss", ORDERED, ids=name)
def test_cdf_is_the_sum_of_the_predictive_density(loss):
    m, v = 0.3, 0.7
    if loss.response in DISCRETE:
        y = np.arange(4.0)
        want = np.cumsum(np.exp(loss.log_predictive(y, m, v)))
        np.testing.assert_allclose(loss.cdf(y, m, v), want, atol=1e-10)
        return
    y = np.linspace(0.4, 1.6, 4001)
    density = np.exp(loss.log_predictive(y, m, v))
    area = np.trapezoid(density, y)
    np.testing.assert_allclose(np.diff(loss.cdf(y[[0, -1]], m, v))[0], area, atol=1e-7)


@pytest.mark.parametrize("loss", ORDERED, ids=name)
def test_quantiles_invert_the_cdf(loss):
    q = np.array([0.001, 0.05, 0.5, 0.9, 0.999])[:, None]
    m, v = np.array([-1.0, 0.4, 2.0]), np.array([0.01, 1.0, 3.0])
    y = loss.quantile(q, m, v)
    assert y.shape == (5, 3)
    assert np.all(np.diff(y, axis=0) >= 0)
    if loss.response in DISCRETE:
        # an ordinal loss with m at a cutpoint has P(Y <= 0) = 1/2, a tie up to rounding
        assert np.all(loss.cdf(y, m, v) >= q - 1e-13)
        below = loss.cdf(np.maximum(y - 1, 0), m, v)
        assert np.all((below < q + 1e-13) | (y == 0))
    else:
        np.testing.assert_allclose(loss.cdf(y, m, v), np.broadcast_to(q, y.shape), rtol=1e-9)
    with pytest.raises(ValueError, match="strictly between"):
        loss.quantile(1.0, 0.0, 1.0)


@pytest.mark.parametrize(
    "loss", [x for x in ORDERED if isinstance(x, losses.Huber | losses.Pinball)], ids=name
)
def test_noise_quantile_inverts_noise_cdf(loss):
    p = np.array([1e-9, 0.01, 0.3, 0.5, 0.7, 0.99, 1 - 1e-9])
    np.testing.assert_allclose(loss.noise_cdf(loss.noise_quantile(p)), p, rtol=1e-9)


def test_ordinal_probabilities_sum_to_one():
    for link in ("logit", "probit"):
        loss = losses.Ordinal([-1.0, 0.1, 2.0], link=link)
        p = loss.probabilities(np.array([-2.0, 0.5]), np.array([0.1, 9.0]))
        assert p.shape == (2, 4)
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-11)


@pytest.mark.parametrize(
    ("deviation", "tolerance"), [(0.3, 1e-4), (1.0, 1e-4), (3.0, 1e-4), (10.0, 1e-4), (30.0, 1e-4)]
)
@pytest.mark.parametrize("c", [2, 3, 5, 10])
def test_softmax_probabilities(c, deviation, tolerance, rng):
    rows = 3 if c < 10 else 1  # ten classes take a second each
    m = rng.normal(size=(rows, c)) * deviation
    v = (deviation * rng.uniform(0.5, 1.0, size=(rows, c))) ** 2
    p = losses.Softmax().predict(m, v)
    want = [reference.softmax_probabilities(*row) for row in zip(m, v, strict=True)]
    np.testing.assert_allclose(np.sum(want, axis=1), 1.0, atol=1e-8)
    np.testing.assert_allclose(p, want, atol=tolerance)
    full = losses.Softmax().predict(m, v[:, :, None] * np.eye(c))
    np.testing.assert_allclose(full, want, atol=tolerance)
    shifted = losses.Softmax().predict(m, v[:, :, None] * np.eye(c) + 50.0 * deviation**2)
    np.testing.assert_allclose(shifted, want, atol=tolerance)  # all latents together: not seen
    y = np.zeros(rows)
    np.testing.assert_allclose(losses.Softmax().log_predictive(y, m, v), np.log(p[:, 0]))
