"""Several latent functions: C of softmax sites and of sites of their own, against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
from tests.reference.laplace import softmax_sites

from mercer.kernels import RBF
from mercer.linalg import DenseGram
from mercer.linalg.dense import coupled as module
from mercer.linalg.dense.coupled import CoupledFactor, coupled
from mercer.process.record import OPERATOR

N, CLASSES = 9, 3


@pytest.fixture
def case(rng):
    """A Gram, D = w p, and C as one dense matrix (nc, nc), class by class."""
    X, f, w = rng.normal(size=(N, 2)), 2.0 * rng.normal(size=(N, CLASSES)), rng.uniform(0.3, 3.0, N)
    gram = DenseGram(2.5 * RBF(0.8), X, keep=True)
    p = np.exp(f) / np.exp(f).sum(axis=1, keepdims=True)
    K, W = np.kron(np.eye(CLASSES), gram.matrix), softmax_sites(f, w)
    return gram, w[:, None] * p, K, W


def apart(rng, gram):
    """Functions with sites of their own: the factor, K and W as dense matrices."""
    W = rng.uniform(0.1, 4.0, size=(N, CLASSES))
    factor = CoupledFactor([gram.factor(column) for column in W.T])
    return factor, np.kron(np.eye(CLASSES), gram.matrix), np.diag(W.T.ravel())


def dense(K, W):
    return W @ np.linalg.inv(np.eye(len(K)) + K @ W)


def stacked(V):
    return V.T.ravel()


def check(factor, gram, K, W, rng):
    C = dense(K, W)
    V = rng.normal(size=(N, CLASSES))
    np.testing.assert_allclose(stacked(factor.solve(V)), C @ stacked(V), atol=1e-10)
    logdet = np.linalg.slogdet(np.eye(len(K)) + K @ W)[1]
    assert factor.logdet() == pytest.approx(logdet, abs=1e-10)
    Sigma = (K - K @ C @ K).reshape(CLASSES, N, CLASSES, N)
    found = factor.point_blocks(gram)
    for i in range(N):
        np.testing.assert_allclose(found[i], Sigma[:, i, :, i], atol=1e-10)
    trace = sum(C.reshape(CLASSES, N, CLASSES, N)[c, :, c] for c in range(CLASSES))
    Q = factor.gradient_weights(V, float(CLASSES))
    np.testing.assert_allclose(Q, 0.5 * (V @ V.T - trace), atol=1e-10)
    A = rng.normal(size=(N, 5))
    expected = np.einsum("ip,ciej,jp->pce", A, C.reshape(CLASSES, N, CLASSES, N), A, optimize=True)
    for operator in (factor.operator(), OPERATOR.read(OPERATOR.write(factor.operator()), None)):
        np.testing.assert_allclose(operator.blocks(A), expected, atol=1e-10)
    assert factor.report["jitter"] == 0.0


def test_softmax_sites(case, rng):
    gram, D, K, W = case
    check(coupled(gram, D), gram, K, W, rng)


def test_points_in_batches(case, rng, monkeypatch):
    gram, D, K, W = case
    monkeypatch.setattr(module, "COLUMNS", 4)
    check(coupled(gram, D), gram, K, W, rng)


def test_sites_of_their_own(case, rng):
    gram = case[0]
    factor, K, W = apart(rng, gram)
    check(factor, gram, K, W, rng)


def test_functions_may_have_signed_sites(case, rng):
    gram = case[0]
    W = rng.uniform(0.1, 4.0, size=(N, CLASSES))
    W[2, 1] = -0.1
    factor = CoupledFactor([gram.factor(column) for column in W.T])
    K, W = np.kron(np.eye(CLASSES), gram.matrix), np.diag(W.T.ravel())
    check(factor, gram, K, W, rng)


def test_probabilities_that_underflow(rng):
    X, w = rng.normal(size=(N, 2)), rng.uniform(0.5, 2.0, N)
    gram = DenseGram(2.5 * RBF(0.8), X, keep=True)
    f = np.zeros((N, CLASSES))
    f[:, 1] = -800.0  # e^-800 is zero: the class is out, two are left
    f[:4, 2] = -500.0  # e^-500 is not, but its inverse is infinite for all purposes
    p = np.exp(f - f.max(axis=1, keepdims=True))
    D = w[:, None] * p / p.sum(axis=1, keepdims=True)
    K, W = np.kron(np.eye(CLASSES), gram.matrix), softmax_sites(f, w)
    check(coupled(gram, D), gram, K, W, rng)


def test_what_has_no_single_matrix_is_refused(case):
    factor = coupled(case[0], case[1])
    A = np.ones((N, 1))
    for call in (
        lambda: factor.quad(A, A),
        lambda: factor.quad_diag(A),
        factor.diag,
        lambda: factor.operator().reduce(A, A, None, None),
        lambda: factor.operator().reduce_diag(A, None),
    ):
        with pytest.raises(NotImplementedError, match="blocks"):
            call()
    with pytest.raises(NotImplementedError, match="point_blocks"):
        factor.cov_diag()
    with pytest.raises(NotImplementedError, match=r"log \|K"):
        factor.logdet_noisy()
