"""Splines of counts and labels against sampling: the posterior itself, not an approximation."""

from math import factorial

import numpy as np
import pytest
from scipy.special import gammaln, log_ndtr

from mercer import SmoothingSpline
from tests.reference.spline import kernel

LAM, NU, DRAWS = 0.3, 6.0, 40000


def targets(loss, x, rng):
    wave = np.sin(2.0 * x)
    if loss == "poisson":
        return rng.poisson(np.exp(1.0 + wave)).astype(float)
    return (rng.random(len(x)) < 0.5 + 0.4 * wave).astype(float)


def log_likelihood(loss, y, f):
    """Sum of log p(y given f) for draws f (n, r), from the definitions."""
    sign = (2.0 * y - 1.0)[:, None]
    if loss == "poisson":
        return (y[:, None] * f - np.exp(f) - gammaln(y + 1.0)[:, None]).sum(axis=0)
    if loss == "logistic":
        return -np.logaddexp(0.0, -sign * f).sum(axis=0)
    return log_ndtr(sign * f).sum(axis=0)


def log_prior(x, f, m, wide=1e5):
    """The process and polynomials of variance ``wide``, a flat unit density in the limit."""
    K = np.array([[kernel(a - x[0], b - x[0], m) for b in x] for a in x]) / LAM
    H = np.array([(x - x[0]) ** j / factorial(j) for j in range(m)]).T
    size, axes = np.linalg.eigh(K + wide * H @ H.T)
    inside = axes.T @ f
    value = -0.5 * (inside**2 / size[:, None]).sum(axis=0)
    return value - 0.5 * np.log(2.0 * np.pi * size).sum() + 0.5 * m * np.log(2.0 * np.pi * wide)


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("loss", ["poisson", "logistic", "probit"])
@pytest.mark.parametrize(("inference", "near", "off"), [("ep", 0.06, 0.06), ("laplace", 0.3, 0.8)])
def test_moments_and_evidence_by_importance_sampling(loss, m, inference, near, off):
    """Draws of a t about the posterior that was found, weighted by prior and likelihood."""
    rng = np.random.default_rng(3)
    x = np.sort(rng.uniform(0.0, 3.0, 25))
    y = targets(loss, x, rng)
    model = SmoothingSpline(m, loss=loss, inference=inference, lam=LAM).fit(x[:, None], y)
    mean, std = model.predict_latent(x[:, None])
    cov = model.posteriors_[0](x[:, None])
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), std, rtol=1e-8)
    n, L = len(x), np.linalg.cholesky(cov + 1e-10 * np.eye(len(x)))
    z = rng.standard_normal((n, DRAWS)) * np.sqrt(NU / rng.chisquare(NU, DRAWS))
    f = mean[:, None] + L @ z
    proposal = gammaln((NU + n) / 2) - gammaln(NU / 2) - 0.5 * n * np.log(NU * np.pi)
    proposal = proposal - np.log(np.diag(L)).sum()
    proposal = proposal - 0.5 * (NU + n) * np.log1p((z**2).sum(axis=0) / NU)
    log_weight = log_likelihood(loss, y, f) + log_prior(x, f, m) - proposal
    value = np.logaddexp.reduce(log_weight) - np.log(DRAWS)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    assert 1.0 / np.sum(weight**2) > 5000.0  # the draws cover the posterior
    assert model.log_evidence_ == pytest.approx(value, abs=near)
    true = f @ weight
    assert np.abs((mean - true) / std).max() < off
    spread = np.sqrt(((f - true[:, None]) ** 2) @ weight)
    np.testing.assert_allclose(std, spread, rtol=0.06 if inference == "ep" else 0.35)
