"""The logistic averaged over a Gaussian: against the general quadrature, in tails and in blocks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, log_expit

from mercer.losses import Logistic
from mercer.losses.numbers import averages as module
from mercer.losses.numbers.averages import averaged, log_averaged


def cases(rng: np.random.Generator, n: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances over many orders of magnitude, both sides of every switch."""
    m = rng.normal(size=n) * 10 ** rng.uniform(-2, 3, n)
    v = 10 ** rng.uniform(-8, 4, n)
    m[:50], v[:50] = -v[:50] * rng.uniform(0.9, 1.1, 50), 10 ** rng.uniform(0, 3, 50)
    v[50:60] = module.WIDE
    return m, v


def test_agrees_with_the_quadrature_of_every_loss(rng: np.random.Generator) -> None:
    m, v = cases(rng)
    for y in (-1.0, 1.0):
        expected = Logistic().tilted(np.full(len(m), y), m, v)[0]
        found = Logistic().log_predictive(np.asarray(y), m, v)
        np.testing.assert_allclose(found, expected, rtol=2e-9, atol=1e-13)
    np.testing.assert_allclose(averaged(m, v) + averaged(-m, v), 1.0, atol=1e-14)


def test_both_tails_keep_their_digits() -> None:
    # sigma(z) = e^z (1 - e^z + ...) left of -40, so that log P = m + v/2 to all digits
    m, v = np.array([-60.0, -500.0, -80.0]), np.array([1.0, 9.0, 0.0])
    np.testing.assert_allclose(log_averaged(m, v), m + 0.5 * v, rtol=1e-14)
    np.testing.assert_allclose(log_averaged(-m, v), -np.exp(m + 0.5 * v), rtol=1e-9, atol=1e-200)


def test_no_variance_is_the_logistic_itself(rng: np.random.Generator) -> None:
    m = 20.0 * rng.normal(size=50)
    np.testing.assert_allclose(averaged(m, 0.0), expit(m), rtol=1e-13)
    np.testing.assert_allclose(log_averaged(m, 0.0), log_expit(m), rtol=1e-13)
    np.testing.assert_allclose(Logistic().predict(m, np.zeros(50)), expit(m), rtol=1e-13)


def test_shapes_broadcast() -> None:
    m, v = np.array([[-3.0], [0.5]]), np.array([0.1, 3.0, 50.0])
    found = log_averaged(m, v)
    assert found.shape == (2, 3)
    assert np.shape(log_averaged(-3.0, 50.0)) == ()
    assert found[0, 2] == pytest.approx(float(log_averaged(-3.0, 50.0)), rel=1e-14)
    assert log_averaged(np.empty(0), np.empty(0)).shape == (0,)


def test_a_value_is_its_own_whatever_the_others_and_the_blocks(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    m, v = cases(rng, 200)
    together = log_averaged(m, v)
    alone = np.array([float(log_averaged(a, b)) for a, b in zip(m, v, strict=True)])
    np.testing.assert_allclose(together, alone, rtol=1e-14)
    monkeypatch.setattr(module, "BLOCK", 500)
    np.testing.assert_allclose(log_averaged(m, v), together, rtol=1e-14)
