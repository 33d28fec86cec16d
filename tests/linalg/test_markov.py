"""The O(n) spline against dense matrices, and against eighty digits where those fail."""

from __future__ import annotations

import numpy as np
import pytest
from tests.reference.spline import dense, exactly

from mercer._native import markov
from mercer.kernels import Spline
from mercer.linalg import MarkovGram
from mercer.linalg.spline import mean_gap, smooth, unit_cholesky

ORDERS = [1, 2, 3]


def data(rng, n=30):
    """Unsorted inputs with repeated ones, some points without weight."""
    x = rng.uniform(0.0, 8.0, n)
    x[5] = x[3]
    W = rng.uniform(0.3, 3.0, n)
    return x, np.sin(x) + 0.2 * rng.normal(size=n), W


def gram_of(x, m, variance, **options):
    return MarkovGram(x[:, None], m, variance, **options)


@pytest.mark.parametrize("m", ORDERS)
def test_factor_equals_dense(rng, m):
    x, y, W = data(rng)
    lam = 0.4
    _, var, logdet, q, P = dense(x, y, W, m, lam)
    factor = gram_of(x, m, 1.0 / lam).factor(W)
    V = np.column_stack([y, rng.normal(size=len(x))])
    np.testing.assert_allclose(factor.solve(V), P @ V, atol=1e-8)
    np.testing.assert_allclose(factor.quad(V, V), V.T @ P @ V, atol=1e-8)
    np.testing.assert_allclose(factor.quad_diag(V), np.diag(V.T @ P @ V), atol=1e-8)
    np.testing.assert_allclose(factor.diag(), np.diag(P), atol=1e-8)
    np.testing.assert_allclose(factor.cov_diag(), var, atol=1e-8)
    assert factor.logdet_noisy() == pytest.approx(logdet, abs=1e-8)
    assert factor.logdet() == pytest.approx(logdet + np.log(W).sum(), abs=1e-8)
    assert factor.quad(y[:, None], y[:, None])[0, 0] == pytest.approx(q, rel=1e-9)


@pytest.mark.parametrize("m", ORDERS)
def test_a_point_without_weight_says_nothing_and_is_predicted(rng, m):
    x, y, W = data(rng)
    silent = np.arange(len(x)) % 4 == 1
    W[silent] = 0.0
    factor = gram_of(x, m, 2.0).factor(W)
    fitted = factor.fitted(y[:, None])[:, 0]
    mean, var, logdet, _, _ = dense(
        x[~silent], y[~silent], W[~silent], m, 0.5, origin=x.min(), at=x
    )
    np.testing.assert_allclose(fitted, mean, atol=1e-8)
    np.testing.assert_allclose(factor.cov_diag(), var, atol=2e-8)
    assert factor.logdet_noisy() == pytest.approx(logdet, abs=1e-8)
    assert np.all(factor.solve(y[:, None])[silent] == 0.0)


@pytest.mark.parametrize("m", ORDERS)
def test_gram_is_the_kernel(rng, m):
    x, _, _ = data(rng)
    gram = gram_of(x, m, 1.7, origin=-0.5)
    K = 1.7 * Spline(m, -0.5)(x[:, None])
    V = rng.normal(size=(len(x), 2))
    np.testing.assert_allclose(gram @ V, K @ V, rtol=1e-11, atol=1e-11 * np.abs(K).max())
    np.testing.assert_allclose(gram.diag(), np.diag(K), rtol=1e-12)
    np.testing.assert_array_equal(gram.rows(np.array([2, 7])), K[[2, 7]])


@pytest.mark.parametrize("m", ORDERS)
def test_coefficients_complete_the_mean(rng, m):
    x, y, W = data(rng)
    gram = gram_of(x, m, 3.0, origin=-1.0)
    factor = gram.factor(W)
    alpha, origin = factor.solve(y[:, None]), np.array([-1.0])
    beta = np.array([factor.states().derivative(origin, k, False)[0] for k in range(m)])
    H = np.array([(x + 1.0) ** j / max(1, j) for j in range(m)]).T  # j! for j <= 2
    np.testing.assert_allclose(H.T @ alpha, 0.0, atol=1e-8)
    np.testing.assert_allclose(gram @ alpha + H @ beta, factor.fitted(y[:, None]), atol=1e-7)


def evidence(x, y, W, m, variance):
    factor = gram_of(x, m, variance).factor(W)
    alpha = factor.solve(y[:, None])
    return -0.5 * float(y @ alpha[:, 0]) - 0.5 * factor.logdet_noisy(), alpha, factor


@pytest.mark.parametrize("m", ORDERS)
def test_pullback_by_differences(rng, m):
    x, y, W = data(rng)
    v, h = 1.3, 1e-4
    _, alpha, factor = evidence(x, y, W, m, v)
    slope = factor.gram.pullback(alpha, factor)["variance"]
    high, low = evidence(x, y, W, m, v + h)[0], evidence(x, y, W, m, v - h)[0]
    assert slope == pytest.approx((high - low) / (2 * h), rel=1e-6)
    U, V = rng.normal(size=(2, len(x), 1))
    K = Spline(m, float(x.min()))(x[:, None])
    extra = factor.gram.pullback(alpha, factor, U, V)["variance"] - slope
    assert extra == pytest.approx(float((U.T @ K @ V)[0, 0]), rel=1e-9)
    Q = rng.normal(size=K.shape)
    assert factor.gram.contract(Q + Q.T)["variance"] == pytest.approx(((Q + Q.T) * K).sum())


# name: inputs and lam over the mean gap to the power 2m - 1 (methods: nasty designs)
def nasty(rng, n):
    uniform = np.arange(n, dtype=float)
    uneven = np.cumsum(10.0 ** rng.uniform(-8.0, 0.0, n))
    leading = np.concatenate([[0.0, 1e-9, 2e-9], 1.0 + np.arange(n - 3)])
    pair = np.sort(np.append(np.arange(n - 1.0), n / 2 + 1e-10))
    return {
        "uniform": (uniform, (1e4, 1e8, 1e12)),
        "random": (np.sort(rng.uniform(0.0, n, n)), (1e4, 1e8, 1e12)),
        "log-uniform gaps": (uneven, (1e-2, 8e3)),
        "three leading points together": (leading, (1.0, 1e4)),
        "an inner pair together": (pair, (1.0, 1e4)),
        "one huge gap": (
            np.concatenate([uniform[: n // 2], 1e9 + uniform[n // 2 :]]),
            (1e-30, 1e-6, 1.0),
        ),
    }


@pytest.mark.parametrize("m", ORDERS)
@pytest.mark.parametrize("design", list(nasty(np.random.default_rng(0), 6)))
def test_nasty_designs_against_eighty_digits(rng, design, m):
    n = 36
    x, lams = nasty(rng, n)[design]
    y = np.sin(np.linspace(0.0, 6.0, n)) + 0.1 * rng.normal(size=n)
    w = rng.uniform(0.5, 2.0, n)
    unit = mean_gap(x)
    for scaled in lams:
        lam = scaled * unit ** (2 * m - 1)
        fit, var, logdet, q = exactly(x, y, w, m, lam, digits=160)
        states = smooth(x, w, y, m, 1.0 / scaled, unit)
        assert np.linalg.norm(states.mean[:, 0] - fit) < 1e-11 * np.linalg.norm(fit)
        np.testing.assert_allclose(states.cov[:, 0], var, rtol=1e-9)
        noisy = 2.0 * states.logdet + m * (m - 1) * np.log(unit) - np.log(w).sum()
        assert noisy == pytest.approx(logdet, rel=1e-12, abs=1e-10)
        assert states.rss == pytest.approx(q, rel=1e-11)


@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("ratio", [1e6, 1e12, 1e24])
def test_a_cluster_far_from_the_rest(rng, m, ratio):
    """Rows of the filter differ by powers of the ratio: each keeps its own digits."""
    x = np.append(np.arange(12.0) / ratio, [1.0, 1.5])
    y, w = rng.normal(size=14), rng.uniform(0.5, 2.0, 14)
    unit = mean_gap(x)
    for local in (1e-4, 1.0, 1e4):  # lam over the power of the gaps in the cluster
        lam = local / ratio ** (2 * m - 1)
        fit, var, logdet, q = exactly(x, y, w, m, lam, digits=400)
        scaled = lam / unit ** (2 * m - 1)
        states = smooth(x, w, y, m, 1.0 / scaled, unit)
        np.testing.assert_allclose(states.mean[:, 0], fit, atol=1e-12)
        np.testing.assert_allclose(states.cov[:, 0], var, rtol=1e-9)
        noisy = 2.0 * states.logdet + m * (m - 1) * np.log(unit) - np.log(w).sum()
        assert noisy == pytest.approx(logdet, rel=1e-12)
        # many values at a time: the same, whichever way they are computed
        values, rss, slope = np.empty(20), np.empty(20), np.empty((2, 20))
        sf = scaled**-0.5 * np.geomspace(1.0, 1e-3, 20)
        markov.sweep(unit_cholesky(m), np.diff(x) / unit, w, y, sf, values, rss, slope)
        assert values[0] == pytest.approx(states.logdet, rel=1e-11)
        assert rss[0] == pytest.approx(q, rel=1e-9)
        edf = m + 2.0 * slope[0, 0]
        assert edf == pytest.approx(w @ states.cov[:, 0], rel=1e-9)


def test_reference_in_eighty_digits_is_the_dense_one(rng):
    x, y, w = np.sort(rng.uniform(0.0, 6.0, 12)), rng.normal(size=12), rng.uniform(0.5, 2.0, 12)
    mean, var, logdet, q, _ = dense(x, y, w, 2, 0.3)
    fit, variance, value, quadratic = exactly(x, y, w, 2, 0.3)
    np.testing.assert_allclose(fit, mean, atol=1e-9)
    np.testing.assert_allclose(variance, var, atol=1e-9)
    assert value == pytest.approx(logdet, abs=1e-9)
    assert quadratic == pytest.approx(q, rel=1e-9)


@pytest.mark.parametrize("m", [4, 5, 6])
def test_high_orders_against_eighty_digits(rng, m):
    x, y, w = np.sort(rng.uniform(0.0, 20.0, 20)), rng.normal(size=20), np.ones(20)
    states = smooth(x, w, y, m, 1e-3, mean_gap(x))
    fit, var, _, q = exactly(x, y, w, m, 1e3 * mean_gap(x) ** (2 * m - 1))
    np.testing.assert_allclose(states.mean[:, 0], fit, atol=1e-9)
    np.testing.assert_allclose(states.cov[:, 0], var, rtol=1e-8)
    assert states.rss == pytest.approx(q, rel=1e-9)


def test_negative_precisions_and_too_few_points_are_refused(rng):
    x, _, W = data(rng)
    gram = gram_of(x, 3, 1.0)
    for bad in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="finite and not negative"):
            gram.factor(np.where(np.arange(len(x)) == 4, bad, W))
    with pytest.raises(ValueError, match="needs 3 distinct inputs"):
        gram.factor(np.where(np.isin(np.arange(len(x)), [3, 5, 7]), W, 0.0))


def test_memory_is_foreseen():
    from mercer.linalg.spline import require_states

    with pytest.raises(MemoryError, match="fit a random sample of at most"):
        require_states(10**13, 2)
