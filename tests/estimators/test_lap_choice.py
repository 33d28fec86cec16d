"""The automatic choice on graphs: evidence, left-out labels and partition function, slowly too."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.sparse import csr_array

from mercer.estimators.graph.choice import LabelProcess, log_partition
from mercer.inference import MED, Exact
from mercer.kernels import RBF
from mercer.linalg.dense.gram import DenseGram
from mercer.linalg.graph import SmoothnessPath, neighbour_graph
from mercer.losses import Gaussian
from mercer.losses.binary.margins import Margin

C, BETA = 7.0, 2.0


def deformed(rng: np.random.Generator, n: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """k_new (9, 9) by the plain formula, and labels."""
    X = rng.normal(size=(n, 2))
    K, M = RBF(0.8)(X), 2.0 * BETA * neighbour_graph(X, 5).laplacian.toarray()
    K_new = K - K @ np.linalg.solve(np.eye(n) + M @ K, M @ K)
    y = np.where(X[:9, 0] + 0.3 * rng.normal(size=9) > 0.0, 1.0, -1.0)
    y[:2] = -1.0, 1.0
    return K_new[:9, :9], y


def dense_evidence(K: np.ndarray, y: np.ndarray, noise: np.ndarray, flat: float) -> float:
    """log N(y; 0, K + diag(noise) + flat 1 1'), by a dense determinant and solve."""
    A = K + np.diag(noise) + flat
    sign, logdet = np.linalg.slogdet(A)
    assert sign == 1.0
    return float(-0.5 * y @ np.linalg.solve(A, y) - 0.5 * logdet - 0.5 * len(y) * np.log(2 * np.pi))


def test_evidence_is_that_of_a_dense_process(rng: np.random.Generator) -> None:
    """The GP with the deformed kernel and an offset of huge variance, at the best amplitude."""
    K, y = deformed(rng)
    process = LabelProcess(K, y[:, None], np.ones(9))
    huge = 1e7

    def dense(log_a: float) -> float:
        a = np.exp(log_a)
        plain = dense_evidence(a * K, y, np.full(9, a / (2 * C)), huge)
        return plain + 0.5 * np.log(2 * np.pi * huge)  # a flat prior has unit density

    best = minimize_scalar(lambda u: -dense(u), bounds=(-8, 8), options={"xatol": 1e-9})
    assert np.log(process.amplitude(C)) == pytest.approx(best.x, abs=1e-4)
    assert process.evidence(C) == pytest.approx(-best.fun, abs=1e-5)


def test_evidence_of_several_columns_and_weights_is_that_of_exact_inference(
    rng: np.random.Generator,
) -> None:
    K, y = deformed(rng)
    Y = np.column_stack([y, -y, np.where(np.arange(9) % 3 == 0, 1.0, -1.0)])
    w = rng.uniform(0.5, 3.0, size=9)
    process = LabelProcess(K, Y, w)
    a = process.amplitude(C)
    gram, loss, one = DenseGram.given(a * K), Gaussian(noise=a / (2 * C)), np.ones((9, 1))
    solution = Exact().solve(gram, Y, loss, basis=one, weights=w)
    assert process.evidence(C) == pytest.approx(
        Exact().evidence(gram, Y, loss, solution).value, rel=1e-11
    )


def test_a_weight_of_two_is_two_rows(rng: np.random.Generator) -> None:
    K, y = deformed(rng)
    copies = np.repeat(np.arange(9), [2, 1, 3, 1, 1, 1, 1, 2, 1])
    merged = LabelProcess(K, y[:, None], np.bincount(copies).astype(float))
    apart = LabelProcess(K[np.ix_(copies, copies)], y[copies, None], np.ones(len(copies)))
    for c in (0.3, 50.0):
        assert merged.evidence(c) == pytest.approx(apart.evidence(c), rel=1e-9)


def test_left_out_labels_are_those_of_refits(rng: np.random.Generator) -> None:
    """Mean and variance of each label from a dense fit of the others, offset included."""
    K, y = deformed(rng)
    w = rng.uniform(0.5, 3.0, size=9)
    process = LabelProcess(K, y[:, None], w)
    mean, variance = process.left_out(C)
    a = process.amplitude(C)
    for i in range(9):
        rest = np.delete(np.arange(9), i)
        A = np.zeros((9, 9))
        A[:8, :8] = a * K[np.ix_(rest, rest)] + np.diag(a / (2 * C * w[rest]))
        A[8, :8] = A[:8, 8] = 1.0
        k = np.append(a * K[i, rest], 1.0)
        found = np.linalg.solve(A, k)
        assert mean[i, 0] == pytest.approx(found[:8] @ y[rest], abs=1e-9)
        own = a * K[i, i] + a / (2 * C * w[i]) - k @ found
        assert variance[i] == pytest.approx(own, rel=1e-9)


# ---------------------------------------------------------------------- the partition function
def test_partition_function_is_the_integral() -> None:
    """Two rows and an edge: Z over f by quadrature, over the slacks in closed form."""
    K, L = np.array([[1.0, 0.4], [0.4, 1.3]]), np.array([[1.0, -1.0], [-1.0, 1.0]])
    y, slack, beta = np.array([[1.0], [-1.0]]), 6.0, 0.7
    path = SmoothnessPath(K, csr_array(L), np.arange(2))
    K_new = path.covariance(beta)
    found = MED().solve(
        DenseGram.given(K_new), y, Margin(slack), basis=np.ones((2, 1)), weights=np.ones(2)
    )
    a = np.abs(found.alpha[:, 0])
    assert a.min() > 0.1
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    root = np.linalg.cholesky(K)
    f = root @ np.array([[u, v] for u in nodes for v in nodes]).T  # N(0, K)
    mass = np.outer(weights, weights).ravel() / (2.0 * np.pi)
    exponent = (a * y[:, 0]) @ f - beta * np.einsum("ij,ij->j", f, L @ f)
    slacks = np.sum(a + np.log1p(-a / slack))
    slow = -np.log(mass @ np.exp(exponent)) + slacks
    fast = log_partition(K_new, y, np.ones(2), slack, path.logdet(beta))
    assert fast == pytest.approx(slow, rel=1e-10)


def test_partition_function_only_grows_with_beta(rng: np.random.Generator) -> None:
    """Its derivative is the expectation of f'L f under the posterior: no criterion for beta."""
    X = rng.normal(size=(25, 2))
    K, L = RBF(0.8)(X), neighbour_graph(X, 5).laplacian
    y = np.where(X[:8, :1] > 0.0, 1.0, -1.0)
    y[:2, 0] = -1.0, 1.0
    path, w = SmoothnessPath(K, L, np.arange(8)), np.ones(8)

    def value(beta: float) -> float:
        return log_partition(path.covariance(beta), y, w, 20.0, path.logdet(beta))

    for beta in (0.3, 5.0):
        M = 2.0 * beta * L.toarray()
        K_new = K - K @ np.linalg.solve(np.eye(25) + M @ K, M @ K)
        inner = path.covariance(beta)
        found = MED().solve(
            DenseGram.given(inner), y, Margin(20.0), basis=np.ones((8, 1)), weights=w
        )
        f = K_new[:, :8] @ found.alpha[:, 0]
        expected = np.trace(L @ K_new) + f @ (L @ f)
        step = 1e-4 * beta
        slope = (value(beta + step) - value(beta - step)) / (2.0 * step)
        assert slope == pytest.approx(expected, rel=1e-5)
        assert slope > 0.0
