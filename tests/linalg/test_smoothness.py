"""The conditioned kernel: against the plain formula, for any weight, on singular matrices."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from tests.reference.manifold import conditioned

from mercer.core.errors import NotPositiveDefiniteError
from mercer.kernels import RBF, Linear
from mercer.linalg.graph import RootOperator, Smoothness, SmoothnessPath, neighbour_graph
from mercer.process import Posterior, Prior


@pytest.mark.parametrize(
    ("beta", "tolerance"), [(0.5, 1e-13), (100.0, 1e-11), (1e4, 1e-9), (1e8, 1e-5)]
)
@pytest.mark.parametrize("kernel", [RBF(1.0), RBF(10.0), Linear()], ids=["rbf", "wide", "linear"])
def test_equals_the_formula(
    rng: np.random.Generator, kernel: RBF, beta: float, tolerance: float
) -> None:
    X = rng.normal(size=(60, 2))
    X[30:] += 50.0  # two components: M is singular twice
    X -= X.mean(axis=0)
    X *= 0.05
    K, M = kernel(X), 2.0 * beta * neighbour_graph(X, 5).laplacian
    smooth = Smoothness(K, M)
    assert smooth.rank == 58
    Q = smooth.root()
    P = conditioned(K, M.toarray())
    level = max(1.0, np.abs(K).max())
    np.testing.assert_allclose(K @ Q.T @ Q @ K, K @ P @ K, atol=tolerance * level)
    new = K - K @ Q.T @ Q @ K
    assert np.linalg.eigvalsh(new)[0] > -1e-11 * level * np.sqrt(beta)  # still a kernel


def test_halves_are_the_root(rng: np.random.Generator) -> None:
    X = rng.normal(size=(40, 3))
    K, M = RBF(1.0)(X), 3.0 * neighbour_graph(X, 4).laplacian
    smooth, V = Smoothness(K, M), rng.normal(size=(40, 7))
    Q = smooth.root()
    np.testing.assert_allclose(smooth.half(V)[: smooth.rank], Q @ V, atol=1e-12)
    np.testing.assert_array_equal(smooth.half(V)[smooth.rank :], 0.0)
    np.testing.assert_allclose(smooth.back(smooth.half(V)), Q.T @ (Q @ V), atol=1e-12)


def test_arguments_stay_as_they_are(rng: np.random.Generator) -> None:
    X = rng.normal(size=(20, 3))
    K, M = RBF(1.0)(X), csr_array(neighbour_graph(X, 4).laplacian)
    before, graph = K.copy(), M.toarray()
    Smoothness(K, M)
    np.testing.assert_array_equal(K, before)
    np.testing.assert_array_equal(M.toarray(), graph)


def test_no_graph_changes_nothing() -> None:
    smooth = Smoothness(np.eye(3), csr_array((3, 3)))
    assert smooth.rank == 0
    assert smooth.root().shape == (0, 3)
    np.testing.assert_array_equal(smooth.half(np.ones((3, 2))), 0.0)


def test_indefinite_kernel_is_refused(rng: np.random.Generator) -> None:
    M = 10.0 * neighbour_graph(rng.normal(size=(10, 2)), 3).laplacian
    with pytest.raises(NotPositiveDefiniteError, match="positive semidefinite kernel"):
        Smoothness(-np.eye(10), M)
    with pytest.raises(ValueError, match="scale the columns"):
        Smoothness(np.full((10, 10), np.inf), M)


def test_smoothing_is_conditioning(rng: np.random.Generator) -> None:
    """The prior given observations 0 of B'f with unit noise, M = B B', is the same process."""
    X, Z = rng.normal(size=(15, 2)), rng.normal(size=(4, 2))
    kernel, M = RBF(1.0), 4.0 * neighbour_graph(X, 4).laplacian
    operator = RootOperator(Smoothness(kernel(X), M).root)
    process = Posterior(Prior(kernel), X, np.zeros((15, 1)), operator)
    values, U = np.linalg.eigh(M.toarray())
    B = U * np.sqrt(np.maximum(values, 0.0))
    A = B.T @ kernel(X, Z)
    expected = kernel(Z) - A.T @ np.linalg.solve(np.eye(15) + B.T @ kernel(X) @ B, A)
    np.testing.assert_allclose(process(Z), expected, atol=1e-12)
    np.testing.assert_allclose(process.diag(Z), expected.diagonal(), atol=1e-12)
    np.testing.assert_array_equal(process.mean(Z), 0.0)
    C = operator.Q.T @ operator.Q
    np.testing.assert_allclose(C, conditioned(kernel(X), M.toarray()), atol=1e-12)


# ---------------------------------------------------------------------- all weights at once
@pytest.mark.parametrize("n", [1, 2, 30])
def test_a_path_is_the_factor_of_each_weight(rng: np.random.Generator, n: int) -> None:
    """k_new and log |I + 2 beta L K| of every beta, a row with two labels among them."""
    X = rng.normal(size=(n, 2))
    K, L = RBF(0.8)(X), neighbour_graph(X, 4).laplacian
    at = np.array([0, n - 1, n - 1, n // 2])
    before = K.copy()
    path = SmoothnessPath(K, L, at)
    np.testing.assert_array_equal(K, before)
    for beta in (0.0, 1e-4, 0.5, 30.0, 1e5):
        M = 2.0 * beta * L.toarray()
        slow = K - K @ np.linalg.solve(np.eye(n) + M @ K, M @ K)
        np.testing.assert_allclose(path.covariance(beta), slow[np.ix_(at, at)], atol=1e-11)
        sign, logdet = np.linalg.slogdet(np.eye(n) + M @ K)
        assert sign == 1.0
        assert path.logdet(beta) == pytest.approx(logdet, abs=1e-9)


def test_a_path_refuses_a_kernel_that_is_none(rng: np.random.Generator) -> None:
    X = rng.normal(size=(20, 2))
    path = SmoothnessPath(-np.eye(20), neighbour_graph(X, 4).laplacian, np.arange(3))
    with pytest.raises(NotPositiveDefiniteError, match="positive semidefinite kernel"):
        path.covariance(10.0)
    with pytest.raises(ValueError, match="not finite"):
        SmoothnessPath(np.full((20, 20), np.inf), neighbour_graph(X, 4).laplacian, np.arange(3))
