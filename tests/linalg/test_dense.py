"""The dense factor against plain linear algebra, at every kind of weight."""

from __future__ import annotations

import re

import numpy as np
import pytest

from mercer.core.memory import require_memory
from mercer.kernels import RBF, Linear
from mercer.linalg import DenseGram, NotPositiveDefiniteError, Projected, SignedFactor
from mercer.process.record import OPERATOR
from mercer.testing import check_gram


def matrix(rng: np.random.Generator, n: int = 12) -> np.ndarray:
    return rng.normal(size=(n, 2))


@pytest.mark.parametrize("keep", [False, True])
def test_contract(rng: np.random.Generator, keep: bool) -> None:
    check_gram(DenseGram(1.7 * RBF(), matrix(rng), keep=keep))


def test_weights_from_zero_to_infinity(rng: np.random.Generator) -> None:
    X = matrix(rng)
    K = (1.7 * RBF())(X)
    W = np.array([0.0, 1e-9, 1e-3, 1.0, 10.0, 1e6, np.inf, 0.0, 2.0, 1e3, 1.0, np.inf])
    factor = DenseGram(1.7 * RBF(), X).factor(W)
    known = W > 0
    C = np.zeros_like(K)
    C[np.ix_(known, known)] = np.linalg.inv(K[np.ix_(known, known)] + np.diag(1 / W[known]))
    np.testing.assert_allclose(factor.solve(np.eye(12)), C, atol=1e-9 * np.abs(C).max())
    np.testing.assert_allclose(factor.cov_diag(), np.diagonal(K - K @ C @ K), atol=1e-7)
    stored = OPERATOR.read(OPERATOR.write(factor.operator()), None)
    V = rng.normal(size=(12, 3))
    np.testing.assert_allclose(stored.reduce(V, V, None, None), V.T @ C @ V, rtol=1e-8)


def test_log_determinants(rng: np.random.Generator) -> None:
    X = matrix(rng)
    K, W = (1.7 * RBF())(X), rng.uniform(0.1, 10, 12)
    factor = DenseGram(1.7 * RBF(), X).factor(W)
    noisy = np.linalg.slogdet(K + np.diag(1 / W))[1]
    assert factor.logdet_noisy() == pytest.approx(noisy, rel=1e-12)
    assert factor.logdet() == pytest.approx(np.linalg.slogdet(np.eye(12) + K * W)[1], rel=1e-12)


def test_projection_annihilates_the_basis(rng: np.random.Generator) -> None:
    X = matrix(rng)
    K, W = (1.7 * RBF())(X), rng.uniform(0.1, 10, 12)
    H = np.column_stack([np.ones(12), X])
    factor = Projected(DenseGram(1.7 * RBF(), X).factor(W), H)  # type: ignore[arg-type]
    Cy = np.linalg.inv(K + np.diag(1 / W))
    P = Cy - Cy @ H @ np.linalg.solve(H.T @ Cy @ H, H.T @ Cy)
    np.testing.assert_allclose(factor.solve(np.eye(12)), P, atol=1e-10)
    np.testing.assert_allclose(factor.diag(), np.diagonal(P), atol=1e-10)
    np.testing.assert_allclose(factor.solve(H), 0.0, atol=1e-10)
    a = rng.normal(size=(12, 2))
    np.testing.assert_allclose(factor.gradient_weights(a, 2.0), 0.5 * (a @ a.T - 2 * P), atol=1e-10)


def test_dependent_basis_is_refused(rng: np.random.Generator) -> None:
    X = matrix(rng)
    factor = DenseGram(RBF(), X).factor(np.ones(12))
    with pytest.raises(ValueError, match="linearly dependent"):
        Projected(factor, np.ones((12, 2)))  # type: ignore[arg-type]


def test_signed_weights(rng: np.random.Generator) -> None:
    X = matrix(rng, 6)
    K = RBF()(X)
    W = np.array([1.0, -0.1, 2.0, 0.0, -0.05, 3.0])
    factor = DenseGram(RBF(), X).factor(W)
    assert isinstance(factor, SignedFactor)
    C = np.diag(W) @ np.linalg.inv(np.eye(6) + K @ np.diag(W))
    np.testing.assert_allclose(factor.solve(np.eye(6)), C, atol=1e-10)
    np.testing.assert_allclose(factor.diag(), np.diagonal(C), atol=1e-10)
    assert factor.logdet() == pytest.approx(np.linalg.slogdet(np.eye(6) + K * W)[1])
    with pytest.raises(NotPositiveDefiniteError, match="shorten the step"):
        DenseGram(RBF(), X).factor(np.full(6, -50.0))


def test_jitter_is_minimal_and_reported() -> None:
    X = np.linspace(0, 1, 40)[:, None]
    factor = DenseGram(RBF(length_scale=10.0), X).factor(np.full(40, np.inf))
    assert 0 < factor.report["jitter"] <= 1e-8
    fine = DenseGram(RBF(length_scale=10.0), X).factor(np.full(40, 1e3))
    assert fine.report["jitter"] == 0.0


def test_indefinite_kernel_names_its_eigenvalue() -> None:
    class Bad(Linear):
        def __call__(self, X: np.ndarray, Z: np.ndarray | None = None) -> np.ndarray:
            return np.array([[1.0, 2.0], [2.0, 1.0]])

        def diag(self, X: np.ndarray) -> np.ndarray:
            return np.ones(2)

    with pytest.raises(NotPositiveDefiniteError, match=r"smallest eigenvalue is -0\.99"):
        DenseGram(Bad(), np.zeros((2, 1))).factor(np.full(2, 1e3))


def test_memory_is_predicted() -> None:
    with pytest.raises(MemoryError, match=r"needs .* GiB .* available; fit a random sample"):
        require_memory(10_000_000, arrays=3)
    with pytest.raises(MemoryError) as refused:
        require_memory(10_000_000, arrays=3, beyond=["iterative", "inducing"])
    expected = (
        r"an exact fit of 10000000 rows needs .* GiB \(3 matrices .* GiB are available; "
        r"gram='iterative' solves the same model in about [\d.]+ (s|min|h) \([\d.]+ GiB\), or "
        r"gram='inducing' approximates it with m = 1000 points in about [\d.]+ (s|min|h) "
        r"\([\d.]+ GiB\), or fit a random sample of at most \d+ rows, which is exact"
    )
    assert re.fullmatch(expected, str(refused.value))


def test_variances_of_a_factor_that_is_used_up(rng: np.random.Generator) -> None:
    X, W = matrix(rng), np.array([0.0, 1e-9, 1e-3, 1.0, 10.0, 1e6, 0.0, 2.0, 1e3, 1.0, 5.0, 0.1])
    whole = DenseGram(1.7 * RBF(), X, keep=True).factor(W)
    scratch = DenseGram(1.7 * RBF(), X, keep=True, scratch=True).factor(W)
    np.testing.assert_array_equal(scratch.cov_diag(), whole.cov_diag())
    scratch.cov_diag()[:] = 0.0  # what is handed out is the caller's
    np.testing.assert_array_equal(scratch.cov_diag(), whole.cov_diag())
    # L^-1 lies where L was: it serves as well, until the inverse is whole
    np.testing.assert_allclose(scratch.solve(np.eye(12)), whole.solve(np.eye(12)), rtol=1e-9)
    scratch.inverse()
    with pytest.raises(RuntimeError, match="used up"):
        scratch.solve(np.eye(12))


@pytest.mark.parametrize("n", [12, 300])
@pytest.mark.parametrize("scratch", [False, True])
def test_factor_and_inverse_share_an_array(rng: np.random.Generator, n: int, scratch: bool) -> None:
    X, W, V = rng.normal(size=(n, 3)), rng.uniform(0.0, 5.0, n), rng.normal(size=(n, 2))
    gram = DenseGram(2.0 * RBF(), X, keep=True, scratch=scratch)
    plain, factor = gram.factor(W), gram.factor(W)
    M = np.full((n, n), 0.5)
    factor.add_to(M)
    C = np.linalg.inv(gram.matrix + np.diag(1.0 / W))
    np.testing.assert_allclose(np.triu(M), np.triu(0.5 + C), atol=1e-9)
    np.testing.assert_array_equal(factor.solve(V), plain.solve(V))
    np.testing.assert_allclose(factor.diag(), np.diagonal(C), rtol=1e-8)
    factor.add_to(M)
    np.testing.assert_allclose(np.triu(M), np.triu(0.5 + 2.0 * C), atol=1e-9)
    np.testing.assert_allclose(factor.cov_diag(), plain.cov_diag(), rtol=1e-8)
    Q = factor.gradient_weights(V, 2.0)
    np.testing.assert_allclose(Q, 0.5 * (V @ V.T - 2.0 * C), atol=1e-9)
    if not scratch:
        np.testing.assert_array_equal(factor.solve(V), plain.solve(V))


@pytest.mark.parametrize("scratch", [False, True])
@pytest.mark.parametrize("sign", [1.0, -0.05])
def test_memory_of_a_factor_serves_the_next(
    rng: np.random.Generator, scratch: bool, sign: float
) -> None:
    X, W = matrix(rng), rng.uniform(0.1, 10, 12)
    W[0] *= sign
    gram = DenseGram(1.7 * RBF(), X, keep=True, scratch=scratch)
    K = gram.matrix.copy()
    before = gram.factor(2.0 * W)
    before.cov_diag()
    before.release()
    memory = list(gram.room)
    assert len(memory) == 1  # the inverse lies over the factor, or beside it in the same array
    factor = gram.factor(W)
    assert len(gram.room) == len(memory) - 1
    assert np.shares_memory(getattr(factor, "positive", factor).cholesky, memory[-1])
    np.testing.assert_allclose(
        factor.solve(np.eye(12)), np.linalg.inv(K + np.diag(1.0 / W)), atol=1e-10
    )
    np.testing.assert_array_equal(gram.matrix, K)


@pytest.mark.parametrize("n", [12, 300])
def test_variances_need_no_further_array(rng: np.random.Generator, n: int) -> None:
    X, W, V = rng.normal(size=(n, 3)), rng.uniform(0.1, 5.0, n), rng.normal(size=(n, 2))
    gram = DenseGram(2.0 * RBF(), X, keep=True)
    plain, factor = gram.factor(W), gram.factor(W)
    memory, before = factor.cholesky, np.triu(factor.cholesky)
    C = np.linalg.inv(gram.matrix + np.diag(1.0 / W))
    np.testing.assert_allclose(factor.diag(), np.diagonal(C), rtol=1e-8)
    assert factor.cholesky is memory
    np.testing.assert_array_equal(np.triu(factor.cholesky), before)
    np.testing.assert_array_equal(np.triu(factor.inverse()), np.triu(plain.inverse()))
    np.testing.assert_array_equal(factor.solve(V), plain.solve(V))
    np.testing.assert_allclose(factor.cov(), plain.cov(), atol=1e-13)


def test_many_points_without_weight_are_taken_in_parts(rng: np.random.Generator) -> None:
    n = 600  # more than are worked on at a time
    X, W = rng.normal(size=(n, 3)), np.r_[np.zeros(550), rng.uniform(0.1, 5.0, 50)]
    gram = DenseGram(2.0 * RBF(), X, keep=True)
    K, some = gram.matrix, np.arange(550, n)
    inner = K[np.ix_(some, some)] + np.diag(1.0 / W[some])
    S = K - K[:, some] @ np.linalg.solve(inner, K[some])
    np.testing.assert_allclose(gram.factor(W).cov(), S, atol=1e-11)
    np.testing.assert_allclose(gram.factor(W).cov_diag(), np.diagonal(S), atol=1e-11)
