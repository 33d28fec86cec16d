"""One eigendecomposition for all multiples of the weights, against one factorisation for each."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.kernels import RBF, Linear
from mercer.linalg import DenseGram, Projected
from mercer.linalg.eigen import EigenGram


def setting(rng, kernel):
    X, w = rng.normal(size=(12, 2)), rng.uniform(0.2, 3.0, 12)
    return EigenGram(kernel, X, w), DenseGram(kernel, X), w


@pytest.mark.parametrize("kernel", [1.7 * RBF(), Linear()])
@pytest.mark.parametrize("lam", [1e-4, 0.3, 50.0])
def test_factor_is_the_dense_one(rng, kernel, lam):
    eigen, dense, w = setting(rng, kernel)
    a, b = eigen.factor(w / lam), dense.factor(w / lam)
    V = rng.normal(size=(12, 3))
    for name in ("diag", "cov_diag", "logdet", "logdet_noisy"):
        np.testing.assert_allclose(getattr(a, name)(), getattr(b, name)(), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(a.solve(V), b.solve(V), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(a.quad(V, V), b.quad(V, V), rtol=1e-7)
    np.testing.assert_allclose(a.quad_diag(V), b.quad_diag(V), rtol=1e-7)
    H = np.column_stack([np.ones(12), rng.normal(size=12)])
    for name in ("diag", "logdet_noisy"):
        left, right = getattr(Projected(a, H), name)(), getattr(Projected(b, H), name)()
        np.testing.assert_allclose(left, right, rtol=1e-6, atol=1e-8)


def test_other_weights_are_refused(rng):
    eigen, _, w = setting(rng, RBF())
    with pytest.raises(ValueError, match="multiples of its weights only"):
        eigen.factor(w + 1.0)
    factor = eigen.factor(2.0 * w)
    with pytest.raises(NotImplementedError, match="no inverse"):
        factor.gradient_weights(np.ones((12, 1)), 1.0)
    with pytest.raises(NotImplementedError, match="path of lam"):
        factor.operator()
