"""Weights of any sign, and the explicit covariance, against dense inverses."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.kernels import RBF
from mercer.linalg import DenseGram, NotPositiveDefiniteError, SignedFactor

N = 40


def weights(kind: str, rng: np.random.Generator) -> np.ndarray:
    some = rng.uniform(-0.05, 3.0, N)
    if kind == "positive":
        return np.abs(some) + 0.01
    if kind == "none and tiny":
        return np.r_[np.zeros(5), -np.zeros(5), np.full(5, 1e-9), np.abs(some[15:])]
    if kind == "mixed":
        return np.r_[np.full(6, -0.03), np.zeros(4), some[10:]]
    return -0.01 * rng.random(N)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("kind", ["positive", "none and tiny", "mixed", "negative"])
def test_everything_a_factor_answers(kind: str, keep: bool) -> None:
    """The kernel is smooth: K has no Cholesky factor in floating point, and none is needed."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 1))
    gram = DenseGram(2.0 * RBF(1.0), X, keep=keep)
    K, W = 2.0 * RBF(1.0)(X), weights(kind, rng)
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(K)
    factor = gram.factor(W)
    assert isinstance(factor, SignedFactor) == bool(np.any(W < 0))
    S = K @ np.linalg.inv(np.eye(N) + W[:, None] * K)
    C = np.diag(W) - W[:, None] * S * W
    A, a = rng.normal(size=(N, 3)), rng.normal(size=(N, 1))
    for _ in range(2):  # what was computed once is kept
        np.testing.assert_allclose(factor.cov(), S, atol=1e-10)
        np.testing.assert_allclose(factor.cov_diag(), np.diagonal(S), atol=1e-10)
        np.testing.assert_allclose(factor.solve(A), C @ A, atol=1e-10)
        np.testing.assert_allclose(factor.quad(A, A), A.T @ C @ A, atol=1e-9)
        np.testing.assert_allclose(factor.quad_diag(A), np.diagonal(A.T @ C @ A), atol=1e-9)
        np.testing.assert_allclose(factor.diag(), np.diagonal(C), atol=1e-10)
        assert factor.logdet() == pytest.approx(np.linalg.slogdet(np.eye(N) + K * W)[1], abs=1e-10)
    Q = factor.gradient_weights(a, 2.0)
    np.testing.assert_allclose(Q, 0.5 * (a @ a.T) - C, atol=1e-10)
    np.testing.assert_allclose(factor.operator().reduce(A, A, None, None), A.T @ C @ A, atol=1e-9)


def test_too_negative_is_refused() -> None:
    X = np.random.default_rng(0).normal(size=(N, 1))
    gram = DenseGram(2.0 * RBF(1.0), X, keep=True)
    highest = np.linalg.eigvalsh(gram.matrix)[-1]
    gram.factor(np.full(N, -0.999 / highest))
    with pytest.raises(NotPositiveDefiniteError, match="shorten the step"):
        gram.factor(np.full(N, -1.001 / highest))
