"""Variances of draws, and what single losses predict; the rest is in the shipped contract."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import losses
from tests.reference import losses as reference

from .cases import SCALAR, name

ORDERED = [loss for loss in SCALAR if loss.offers("cdf")]


@pytest.mark.parametrize("loss", ORDERED, ids=name)
def test_moments_against_draws(loss, rng):
    n, m, v = 400_000, 0.3, 0.2
    y = loss.sample(m + np.sqrt(v) * rng.standard_normal(n), rng)
    mean, variance = loss.predict(np.array([m]), np.array([v]))
    assert mean.shape == variance.shape == (1,)
    np.testing.assert_allclose(y.mean(), mean[0], atol=6 * np.sqrt(variance[0] / n))
    if not isinstance(loss, losses.StudentT) or loss.df > 4:
        np.testing.assert_allclose(y.var(), variance[0], rtol=0.04)


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
