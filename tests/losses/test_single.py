"""What holds for one loss: limits, identities and published numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from mercer import losses
from mercer.losses.numbers.special import mills
from tests.reference import losses as reference

NUMBERS = st.floats(-20, 20)


def same(a, b, y, f, v, rtol):
    np.testing.assert_allclose(a.value(y, f), b.value(y, f), rtol=rtol)
    for method in ("tilted", "expected"):
        for x, z in zip(getattr(a, method)(y, f, v), getattr(b, method)(y, f, v), strict=True):
            np.testing.assert_allclose(x, z, rtol=rtol, atol=rtol)


@pytest.mark.parametrize(
    ("general", "special_case", "rtol"),
    [
        (losses.StudentT(scale=0.5, df=1e8), losses.Gaussian(0.25), 1e-6),
        (losses.Huber(noise=0.3, delta=30.0), losses.Gaussian(0.3), 1e-9),
        (losses.NegativeBinomial(size=1e10), losses.Poisson(), 1e-7),
        (losses.StudentThreshold(scale=0.7, df=1e8), losses.Probit(0.7), 1e-6),
        (
            losses.LearnedOrdinal(-1.0, [0.5, 2.0], "logit"),
            losses.Ordinal([-1.0, -0.5, 1.5]),
            1e-12,
        ),
        (losses.EpsilonInsensitive(C=2.0, epsilon=0.0), losses.LaplaceNoise(0.5), 1e-10),
        (losses.Pinball(level=0.5, scale=0.25), losses.LaplaceNoise(0.5), 1e-10),
        (losses.Flip(losses.Logistic(), eps=1e-12), losses.Logistic(), 1e-8),
        (losses.Flip(losses.Probit(1e-9), eps=0.1), losses.Flip(eps=0.1), 1e-6),
    ],
)
def test_limits(general, special_case, rtol, rng):
    y = special_case.example_targets(rng, 12)
    f, v = rng.normal(size=12), rng.gamma(1.0, size=12)
    same(general, special_case, y, f, v, rtol)


def test_two_categories_are_a_binary_loss(rng):
    f, v = rng.normal(size=6), rng.gamma(1.0, size=6)
    y = rng.integers(0, 2, 6).astype(float)
    same(losses.Ordinal([0.0]), _Relabelled(losses.Logistic()), y, f, v, 1e-10)
    same(losses.Ordinal([0.0], "probit"), _Relabelled(losses.Probit()), y, f, v, 1e-10)


class _Relabelled:
    def __init__(self, loss):
        self.loss = loss

    def __getattr__(self, method):
        return lambda y, *rest: getattr(self.loss, method)(2 * y - 1, *rest)


@settings(max_examples=50, deadline=None)
@given(xi=NUMBERS, f=NUMBERS, y=st.sampled_from([-1.0, 1.0]))
def test_quadratic_bound(xi, f, y):
    loss = losses.Logistic()
    lam, z, c = loss.quadratic_bound(np.float64(y), np.float64(xi))
    assert lam * (f - z) ** 2 + c >= loss.value(y, np.float64(f)) - 1e-11
    for touch in (xi, -xi):
        gap = lam * (touch - z) ** 2 + c - loss.value(y, np.float64(touch))
        assert abs(gap) < 1e-11
    assert 0 < lam <= 0.125
    assert z == pytest.approx(y / (4 * lam))


def test_quadratic_bound_near_zero_and_far():
    lam, _, c = losses.Logistic().quadratic_bound(1.0, np.array([0.0, 0.009999, 0.010001, 1e3]))
    assert lam[0] == 0.125
    assert abs(lam[1] - lam[2]) < 1e-9
    np.testing.assert_allclose(lam[3], 1 / 4e3)
    assert np.all(np.isfinite(c))


def test_gaussian_quadratic_form(rng):
    y, f = rng.normal(size=7), rng.normal(size=7)
    for noise in (0.3, rng.gamma(1.0, size=7)):
        loss = losses.Gaussian(noise=noise)
        z, W = loss.quadratic(y)
        rest = loss.value(y, f) - 0.5 * W * (z - f) ** 2
        np.testing.assert_allclose(rest, 0.5 * np.log(2 * np.pi / W))
        assert W.shape == (7,)
    dW = rng.normal(size=7)
    h = 1e-6
    slope = (
        losses.Gaussian(0.3 + h).quadratic(y)[1] - losses.Gaussian(0.3 - h).quadratic(y)[1]
    ) / (2 * h)
    np.testing.assert_allclose(
        losses.Gaussian(0.3).quadratic_pullback(y, dW)["noise"], dW @ slope, rtol=1e-8
    )


def test_gaussian_noise_that_is_not_learned(rng):
    known = losses.Gaussian(noise=np.array([0.1, 0.2]))
    assert known.free == {}
    assert known.quadratic_pullback(np.zeros(2), np.ones(2)) == {}
    assert losses.Gaussian(0.1).fix().free == {}
    assert list(losses.Gaussian(0.1).free) == ["noise"]
    np.testing.assert_array_equal(known.predict(np.zeros(2), np.ones(2))[1], [1.1, 1.2])
    with pytest.raises(ValueError, match="2 training targets only"):
        known.predict(np.zeros(3), np.ones(3))
    exact = losses.Gaussian(noise=0.0)
    assert exact.free == {}
    z, W = exact.quadratic(np.ones((3, 2)))
    assert np.all(np.isinf(W))
    assert z.shape == (3, 2)
    assert W.shape == (3,)
    assert np.isfinite(exact.log_predictive(1.0, 0.0, 1.0))
    with pytest.raises(ValueError, match="zero noise"):
        exact.value(np.ones(2), np.zeros(2))


def test_probit_deep_in_the_tail():
    z = np.array([-29.999999, -30.000001, -100.0, -1e3])
    d1, d2, d3 = losses.Probit().derivatives(1.0, z)
    x = -z
    np.testing.assert_allclose(-d1, x + 1 / x - 2 / x**3 + 10 / x**5, rtol=1e-9)
    np.testing.assert_allclose(d2, 1 - 1 / x**2 + 6 / x**4 - 50 / x**6, rtol=1e-9)
    np.testing.assert_allclose(d3, -(2 / x**3 - 24 / x**5 + 300 / x**7), rtol=1e-5)


@pytest.mark.parametrize("z", [-4.0, -8.0, -15.0, -25.0, -29.99, -30.01, -100.0, -1e3])
def test_mills_ratio(z):
    got = mills(np.array(z))
    for a, b, rtol in zip(got, reference.mills(z), (1e-14, 1e-12, 1e-7), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol)


def test_margin_is_the_discrimination_dual(rng):
    """a = max(0, C - 1/u), u = 1 - y f: the KKT conditions of maximum entropy discrimination."""
    C, f = 10.0, rng.uniform(-2, 2, 30)
    d1 = losses.Margin(C).derivatives(1.0, f)[0]
    with np.errstate(divide="ignore"):
        want = np.where(C * (1 - f) > 1, C - 1 / (1 - f), 0.0)
    np.testing.assert_allclose(-d1, want, atol=1e-12)


def test_normalised_hinge_may_bend_down():
    loss = losses.NormalizedHinge()
    curvature = 2 * loss.expected(np.ones(1), np.array([-1.0]), np.array([0.09]))[2]
    assert curvature[0] < -0.5
    u = np.linspace(-3, 3, 41)
    hinge = losses.Hinge()
    ratio = special.log_expit(hinge.value(-1.0, u) - hinge.value(1.0, u))
    np.testing.assert_allclose(-loss.value(1.0, u), ratio, atol=1e-14)


def test_softmax_derivatives(rng):
    loss, n, c, h = losses.Softmax(), 4, 3, 1e-5
    f, y = rng.normal(size=(n, c)), np.array([0.0, 2.0, 1.0, 0.0])
    d1, d2, d3 = loss.derivatives(y, f)
    for j in range(c):
        e = h * np.eye(c)[j]
        up, down = loss.derivatives(y, f + e), loss.derivatives(y, f - e)
        slope = (loss.value(y, f + e) - loss.value(y, f - e)) / (2 * h)
        np.testing.assert_allclose(d1[:, j], slope, atol=1e-9)
        np.testing.assert_allclose(d2[..., j], (up[0] - down[0]) / (2 * h), atol=1e-9)
        np.testing.assert_allclose(d3[..., j], (up[1] - down[1]) / (2 * h), atol=1e-9)
    gap = loss.value(y, f) + loss.conjugate(y, d1) - np.sum(d1 * f, axis=1)
    np.testing.assert_allclose(gap, 0.0, atol=1e-13)
    assert np.all(loss.conjugate(y, d1 + np.array([0.1, 0.0, 0.0])) == np.inf)
    far = np.array([[1e3, -1e3, 0.0]])
    assert np.all(np.isfinite(loss.value(np.array([1.0]), far)))


def test_tilted_mean_many_deviations_away():
    """A label contradicted by 100 standard deviations: the mode is far from N(m, v)."""
    loss, m, v = losses.Logistic(), np.array([-1000.0]), np.array([100.0])
    log_z, first, second = loss.tilted(np.ones(1), m, v)
    np.testing.assert_allclose(log_z, m + v / 2, rtol=1e-12)  # the loss is -f there
    np.testing.assert_allclose(first, 1.0, rtol=1e-12)
    np.testing.assert_allclose(second, 0.0, atol=1e-12)
