"""Two coupled functions one after the other, against dense blocks, at weak and singular sites."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.core.errors import NotPositiveDefiniteError
from mercer.inference import Laplace
from mercer.kernels import RBF, Matern, Several
from mercer.linalg.dense.coupled import blocked
from mercer.linalg.dense.paired import PairedFactor
from mercer.linalg.dense.several import several_gram
from mercer.losses import Heteroscedastic, ZeroInflatedPoisson
from mercer.losses.several.base import SeveralLatents

N = 14
X = np.linspace(0.0, 6.0, N)[:, None]
KERNEL = Several([1.5 * RBF(1.2), 0.6 * Matern(nu=1.5, length_scale=2.0)])


def precisions(kind: str) -> np.ndarray:
    L = np.random.default_rng(1).normal(size=(N, 2, 2))
    if kind == "singular":
        L[:, :, 1] = 0.0
    elif kind == "mixed":  # of the first alone, of the second alone, of none, of g alone; faint
        L[::5, 1], L[1::5, 0], L[2::5], L[3::5, :, 1] = 0.0, 0.0, 0.0, 0.0
        L[4] *= 1e-5
    return L @ np.swapaxes(L, 1, 2)


@pytest.fixture(params=["regular", "singular", "mixed"])
def case(request):
    W = precisions(request.param)
    gram = several_gram(KERNEL, X, scratch=False)
    K = np.zeros((2, N, 2, N))
    B = np.zeros((2, N, 2, N))
    for c in range(2):
        K[c, :, c] = KERNEL.parts[c](X)
        for e in range(2):
            B[c, :, e] = np.diag(W[:, c, e])
    K, B = K.reshape(2 * N, -1), B.reshape(2 * N, -1)
    return gram, blocked(gram, W), K, B, B @ np.linalg.inv(np.eye(2 * N) + K @ B)


def test_products_and_determinant(case, rng):
    gram, factor, K, B, C = case
    assert isinstance(factor, PairedFactor)
    assert factor.logdet() == pytest.approx(np.linalg.slogdet(np.eye(2 * N) + K @ B)[1], abs=1e-9)
    V = rng.normal(size=(N, 2))
    wanted = (C @ V.T.ravel()).reshape(2, N).T
    np.testing.assert_allclose(factor.solve(V), wanted, atol=1e-10)
    y = np.linalg.solve(np.eye(2 * N) + B @ K, V.T.ravel())
    for found, wanted in zip(factor.spread(gram, V), (y, K @ y), strict=True):
        np.testing.assert_allclose(found, wanted.reshape(2, N).T, atol=1e-9)


def test_covariances_weights_and_what_is_kept(case, rng):
    gram, factor, K, _, C = case
    Sigma = (K - K @ C @ K).reshape(2, N, 2, N)
    wanted = np.einsum("cnen->nce", Sigma)
    np.testing.assert_allclose(factor.point_blocks(gram), wanted, rtol=1e-8, atol=1e-9)
    V = rng.normal(size=(N, 2))  # solves after the inverse go by that
    np.testing.assert_allclose(factor.solve(V).T.ravel(), C @ V.T.ravel(), atol=1e-10)
    parts = C.reshape(2, N, 2, N)
    for j in range(2):
        a = rng.normal(size=(N, 1))
        np.testing.assert_allclose(
            factor.weights_of(j, a), 0.5 * (a @ a.T - parts[j, :, j]), atol=1e-10
        )
        A = rng.normal(size=(N, 3))
        kept = factor.operator().reduce_of(j, A)
        np.testing.assert_allclose(kept, A.T @ parts[j, :, j] @ A, atol=1e-9)


def test_no_precision_is_refused():
    W = np.tile([[1.0, 2.0], [2.0, 1.0]], (N, 1, 1))
    with pytest.raises(NotPositiveDefiniteError, match="no precision"):
        blocked(several_gram(KERNEL, X, scratch=False), W)


def test_slope_of_the_information_is_that_of_differences(rng):
    loss, f = ZeroInflatedPoisson(), rng.normal(size=(40, 2)) * [1.5, 3.0]
    found, wanted = (kind.curvature_slope(loss, None, f) for kind in (type(loss), SeveralLatents))
    np.testing.assert_allclose(found, wanted, atol=1e-9)
    far = np.array([[700.0, 0.0], [-700.0, 3.0], [3.0, -700.0], [3.0, 700.0]])
    assert not np.isnan(loss.curvature_slope(None, far)).any()


def test_a_mode_that_rounding_hides_is_no_mode():
    """A line of variance 1e6 beside noise of 1e-8: no step lowers a residual of 1e6."""
    kernel = Several([1e6 * RBF(1.4e5), 1.6e4 * RBF(1e6)])
    gram, y = several_gram(kernel, X[:9], scratch=False), np.linspace(-1.349, 1.349, 9)
    found = Laplace().solve(gram, y[:, None], Heteroscedastic(1e-8))
    lost = found.report.details["residual"] > 1.0
    assert found.report.converged != lost
