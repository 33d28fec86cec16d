"""Sums of one-column kernels by O(n) products, against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.core.arrays import Array
from mercer.inference import Exact
from mercer.kernels import RBF, Kernel, Matern
from mercer.linalg import DenseGram
from mercer.linalg.structured.additive import AdditiveGram, SolvedBasis, columns_of
from mercer.losses import Gaussian

NOISE = 0.05
KERNEL: Kernel = (
    1.5 * Matern(nu=2.5, length_scale=0.8).on(0)
    + 0.7 * Matern(nu=1.5, length_scale=0.5).on(1)
    + 0.3 * Matern(nu=0.5, length_scale=2.0).on(2)
    + 0.2 * Matern(nu=0.5, length_scale=0.1).on(0)
)


def table(n: int = 120, seed: int = 0) -> tuple[Array, Array]:
    """Correlated columns, the second rounded: it has many ties."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X[:, 1] = np.round(0.8 * X[:, 0] + 0.6 * X[:, 1], 1)
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * rng.normal(size=n)
    return X, y[:, None]


def gram(X: Array, **given: object) -> AdditiveGram:
    return AdditiveGram(KERNEL, X, X[:15], **given)


def test_product_is_the_dense_one() -> None:
    X, _ = table()
    V = np.random.default_rng(1).normal(size=(len(X), 5))
    assert gram(X) @ V == pytest.approx(KERNEL(X) @ V, rel=1e-10, abs=1e-10)


def test_terms_of_one_column_share_a_walk() -> None:
    each = columns_of(KERNEL, 3)
    assert each is not None
    assert [(s.column, s.size) for s in each] == [(0, 4), (1, 2), (2, 1)]
    assert columns_of(KERNEL + RBF().on(1), 3) is None
    with pytest.raises(ValueError, match="each on one column"):
        AdditiveGram(KERNEL + RBF().on(1), table()[0], table()[0][:5])


@pytest.mark.parametrize("basis", [False, True])
def test_every_end_is_bracketed_and_the_last_is_exact(basis: bool) -> None:
    X, y = table()
    n = len(X)
    H = np.column_stack([np.ones(n), X[:, 2]]) if basis else None
    dense = DenseGram(KERNEL, X)
    exact = Exact().solve(dense, y, Gaussian(NOISE), basis=H)
    value = Exact().evidence(dense, y, Gaussian(NOISE), exact).value
    k = 0 if H is None else H.shape[1]
    value -= 0.5 * k * np.log(2.0 * np.pi)  # bounds are of the density of all n numbers
    W = np.full(n, 1.0 / NOISE)
    widths = []
    for tol in (10.0, 0.1, 1e-3, 1e-20):
        inner = gram(X, tol=tol).factor(W)
        factor = inner if H is None else inner.projected(H)
        alpha = factor.solve(y)
        low, high = factor.bounds(y, alpha)
        assert low - 1e-8 <= value <= high + 1e-8
        off = KERNEL(X) @ (alpha - exact.alpha)
        if H is None:
            assert np.abs(off).max() <= factor.report["mean_error"] + 1e-9
        elif exact.beta is not None:
            off += H @ (factor.basis_coefficients(y) - exact.beta)
        assert np.abs(off).max() <= factor.report["row_error"] + 1e-9
        assert factor.report["row_error"] <= 30.0 * np.sqrt(tol)
        widths.append(high - low)
        if isinstance(factor, SolvedBasis):
            assert np.linalg.eigvalsh(factor.high - factor.low).min() >= -1e-9
    assert alpha == pytest.approx(exact.alpha, abs=1e-8)
    assert widths[-1] < widths[0]
    if H is not None:
        assert exact.beta is not None
        assert factor.basis_coefficients(y) == pytest.approx(exact.beta, abs=1e-8)


@pytest.mark.parametrize("basis", [False, True])
def test_operator(basis: bool) -> None:
    X, y = table()
    H = np.ones((len(X), 1)) if basis else None
    W = np.random.default_rng(3).uniform(5.0, 30.0, len(X))
    inner = gram(X, tol=1e-20).factor(W)
    dense = DenseGram(KERNEL, X).factor(W)
    one = (inner if H is None else inner.projected(H)).operator()
    one.width = 1e-14
    two = (dense if H is None else dense.projected(H)).operator()
    new = table(40, seed=5)[0]
    A, h = KERNEL(X, new), None if H is None else np.ones((len(new), 1))
    assert one.reduce_diag(A, h) == pytest.approx(two.reduce_diag(A, h), abs=1e-8)
    assert one.reduce(A, A[:, :3], h, None if h is None else h[:3]) == pytest.approx(
        two.reduce(A, A[:, :3], h, None if h is None else h[:3]), abs=1e-8
    )
    assert one.mean_at(new, y) == pytest.approx(A.T @ y, rel=1e-10, abs=1e-10)


def test_determinant() -> None:
    X, _ = table()
    factor = gram(X, probes=64).factor(np.full(len(X), 1.0 / NOISE))
    truth = np.linalg.slogdet(KERNEL(X) + NOISE * np.eye(len(X)))[1]
    found = factor.determinant()
    assert abs(found.value - truth) <= 5.0 * found.error + 0.1
    low, high = factor.logdet_bounds()
    assert low <= truth <= high


def test_dependent_basis_is_refused() -> None:
    X, _ = table()
    with pytest.raises(ValueError, match="linearly dependent"):
        gram(X).factor(np.full(len(X), 20.0)).projected(np.ones((len(X), 2)))
