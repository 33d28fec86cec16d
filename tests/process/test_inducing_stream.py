"""A stream on few points against the formulas of all its rows at once."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.kernels import RBF, Kernel
from mercer.process.inducing import InducedStream
from mercer.testing import check_process

NOISE = 0.05


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 / 2 + np.sqrt(NOISE) * rng.normal(size=90)
    return np.exp(0.3) * RBF(np.array([0.8, 1.2])), X, y


def streamed(kernel: Kernel, X, y, d, Z, size=7) -> tuple[InducedStream, float]:
    """The stream on Z given rows in batches, and the rest of (O14)."""
    stream, rest = InducedStream.empty(kernel, X.shape[1]).grown(Z), 0.0
    for i in range(0, len(X), size):
        part = slice(i, i + size)
        stream, more = stream.given(stream.ahead(X[part]), y[part], d[part])
        rest += more
    return stream, rest


def bound(kernel, X, y, d, Z) -> float:
    """(S3) by dense formulas: log N(y | 0, Q + D) less half the trace of (K - Q) D^-1."""
    Q = kernel(X, Z) @ np.linalg.solve(kernel(Z), kernel(Z, X))
    S = Q + np.diag(d)
    value = -0.5 * (y @ np.linalg.solve(S, y) + np.linalg.slogdet(2 * np.pi * S)[1])
    return float(value - 0.5 * np.sum((kernel.diag(X) - np.diag(Q)) / d))


def evidence(stream: InducedStream, rest: float, d) -> float:
    roots = np.log(np.abs(np.diag(stream.R))).sum()
    return float(-0.5 * np.log(2 * np.pi * d).sum() - roots - 0.5 * rest - 0.5 * stream.tau)


def test_equals_the_batch_bound(data):
    kernel, X, y = data
    rng = np.random.default_rng(1)
    for d in (np.full(90, NOISE), NOISE / rng.uniform(0.2, 3.0, 90)):
        stream, rest = streamed(kernel, X, y, d, X[:12])
        expected = bound(kernel, X, y, d, X[:12])
        assert evidence(stream, rest, d) == pytest.approx(expected, rel=1e-12)
    stream, rest = streamed(kernel, X, y, np.full(90, NOISE), X[:12])
    # reference values of an independent implementation
    assert evidence(stream, rest, np.full(90, NOISE)) == pytest.approx(-302.0839898791, abs=1e-9)
    np.testing.assert_allclose(stream.alpha[:2, 0], [15.48007719, -5.21783005], atol=1e-7)


def test_all_rows_as_points_is_the_dense_posterior(data):
    kernel, X, y = data
    X, y = X[:30], y[:30]
    stream, _ = streamed(kernel, X, y, np.full(30, NOISE), X)
    new = np.random.default_rng(2).normal(size=(9, 2))
    S = kernel(X) + NOISE * np.eye(30)
    expected = kernel(new, X) @ np.linalg.solve(S, y)
    np.testing.assert_allclose(stream.mean(new)[:, 0], expected, atol=1e-10)
    cov = kernel(new) - kernel(new, X) @ np.linalg.solve(S, kernel(X, new))
    np.testing.assert_allclose(stream(new), cov, atol=1e-10)
    check_process(stream, new)


def test_growth_is_exact(data):
    kernel, X, y = data
    stream, _ = streamed(kernel, X, y, np.full(90, NOISE), X[:12])
    for after, rest in ((stream.grown(X[12:20]), 0.0), stream.on(X[:20])):
        assert len(after.points) == 20
        np.testing.assert_allclose(after.mean(X), stream.mean(X), atol=1e-11)
        np.testing.assert_allclose(after.diag(X), stream.diag(X), atol=1e-10)
        assert after.tau == pytest.approx(stream.tau, rel=1e-12)
        assert rest == pytest.approx(0.0, abs=1e-10)
    assert stream.grown(X[:12]) is stream  # these say nothing new


def test_other_points_are_the_bound_given_the_old_values(data):
    kernel, X, y = data
    stream, _ = streamed(kernel, X, y, np.full(90, NOISE), X[:12])
    Z = np.random.default_rng(3).normal(size=(9, 2))
    after, _ = stream.on(Z)
    L, Ln = np.linalg.cholesky(kernel(X[:12])), np.linalg.cholesky(kernel(Z))
    J = np.linalg.solve(L, kernel(X[:12], Z)) @ np.linalg.inv(Ln).T
    T = stream.R.T @ stream.R - np.eye(12)
    R = np.triu(after.R)
    np.testing.assert_allclose(R.T @ R, np.eye(9) + J.T @ T @ J, rtol=1e-9)
    np.testing.assert_allclose(R.T @ after.v, J.T @ (np.triu(stream.R).T @ stream.v), rtol=1e-9)
    assert after.tau - stream.tau == pytest.approx(np.trace(T) - np.trace(J.T @ T @ J), rel=1e-9)
    assert after.tau >= stream.tau


def test_charge_of_a_point_is_what_deleting_it_costs(data):
    kernel, X, y = data
    stream, _ = streamed(kernel, X, y, np.full(90, NOISE), X[:12])
    for j, charge in enumerate(stream.charges()):
        after, _ = stream.without(np.array([j]))
        assert after.tau - stream.tau == pytest.approx(charge, rel=1e-8)


def test_forgetting_is_weights_by_age_and_ends_at_the_prior(data):
    kernel, X, y = data
    gamma, stream, rest = 0.97, InducedStream.empty(kernel, 2).grown(X[:12]), 0.0
    for i in range(0, 90, 9):
        stream, more = stream.forget(gamma**9)
        rest = gamma**9 * rest + more
        d = NOISE / gamma ** np.arange(8.0, -1.0, -1.0)
        stream, more = stream.given(stream.ahead(X[i : i + 9]), y[i : i + 9], d)
        rest += more
    d = NOISE / gamma ** np.arange(89.0, -1.0, -1.0)
    whole, all_rest = streamed(kernel, X, y, d, X[:12], size=90)
    np.testing.assert_allclose(stream.mean(X), whole.mean(X), atol=1e-12)
    np.testing.assert_allclose(stream.diag(X), whole.diag(X), atol=1e-12)
    assert stream.tau == pytest.approx(whole.tau, rel=1e-12)
    assert rest == pytest.approx(all_rest, rel=1e-11)
    for _ in range(40):
        stream, _ = stream.forget(0.3)
    np.testing.assert_allclose(stream.mean(X), 0.0, atol=1e-8)
    np.testing.assert_allclose(stream.diag(X), kernel.diag(X), rtol=1e-12)


def test_drift_mixes_with_the_prior(data):
    kernel, X, y = data
    stream, _ = streamed(kernel, X, y, np.full(90, NOISE), X[:12])
    after = stream.drift(0.3)
    np.testing.assert_allclose(after.mean(X), np.sqrt(0.7) * stream.mean(X), atol=1e-12)
    expected = 0.7 * stream.diag(X) + 0.3 * kernel.diag(X)
    np.testing.assert_allclose(after.diag(X), expected, rtol=1e-12)


@pytest.mark.slow
def test_a_million_updates_stay_positive_definite():
    rng = np.random.default_rng(0)
    kernel = 1.0 * RBF(0.3)
    Z = rng.uniform(0.0, 1.0, size=(40, 1))
    stream = InducedStream.empty(kernel, 1).grown(Z)
    total = np.zeros((len(stream.points),) * 2)
    for _ in range(2000):
        X = rng.uniform(0.0, 1.0, size=(500, 1))
        ahead = stream.ahead(X)
        stream, _ = stream.given(ahead, np.sin(6.0 * X[:, 0]), np.full(500, 1e-4))
        total += ahead.features @ ahead.features.T / 1e-4
    assert np.all(np.isfinite(stream.A))
    R = np.triu(stream.R)
    assert np.abs(np.diag(R)).min() >= 1.0 - 1e-9  # R'R >= I, the prior
    np.testing.assert_allclose(R.T @ R, np.eye(len(R)) + total, rtol=1e-9, atol=1e-3)
    assert stream.diag(X).min() > 0.0
