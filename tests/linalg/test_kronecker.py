"""Complete grids by the eigenvectors of their factors, against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import GPRegressor
from mercer.core.arrays import Array
from mercer.kernels import RBF, Kernel, Matern
from mercer.linalg import DenseGram
from mercer.linalg.structured.kronecker import KroneckerGram

KERNEL: Kernel = 1.7 * (
    RBF(np.array([0.8, 1.5])).on([0, 2]) * (0.6 * Matern(nu=1.5).on(1)) * Matern(0.5).on([3])
)


def grid(seed: int = 0) -> tuple[Array, Array]:
    """All combinations of 6 places, 5 times and 3 doses, in a random order."""
    rng = np.random.default_rng(seed)
    places, times, doses = rng.normal(size=(6, 2)), rng.normal(size=5), rng.normal(size=3)
    X = np.array([[p[0], t, p[1], z] for p in places for t in times for z in doses])
    X = X[rng.permutation(len(X))]
    return X, np.sin(X[:, 0] + X[:, 1]) + X[:, 3] + 0.1 * rng.normal(size=len(X))


def test_factor_against_dense() -> None:
    X, y = grid()
    W = np.full(len(X), 8.0)
    gram, dense = KroneckerGram(KERNEL, X), DenseGram(KERNEL, X)
    V = np.random.default_rng(1).normal(size=(len(X), 3))
    assert gram @ V == pytest.approx(KERNEL(X) @ V, abs=1e-11)
    one, two = gram.factor(W), dense.factor(W)
    assert one.solve(V) == pytest.approx(two.solve(V), abs=1e-10)
    assert one.diag() == pytest.approx(two.diag(), abs=1e-10)
    assert one.cov_diag() == pytest.approx(two.cov_diag(), abs=1e-10)
    assert one.logdet() == pytest.approx(two.logdet(), abs=1e-9)
    assert one.logdet_noisy() == pytest.approx(two.logdet_noisy(), abs=1e-9)
    alpha = two.solve(np.column_stack([y, y**2]))
    U, T = V[:, :2], V[:, 1:]
    for extra in ((), (U, T)):
        left, right = gram.pullback(alpha, one, *extra), dense.pullback(alpha, two, *extra)
        assert set(left) == set(right)
        for name in left:
            assert left[name] == pytest.approx(right[name], rel=1e-9, abs=1e-9), name


def test_machine_against_dense(tmp_path: object) -> None:
    X, y = grid()
    one = GPRegressor(KERNEL, gram="kronecker").fit(X, y)
    two = GPRegressor(KERNEL, gram="dense").fit(X, y)
    assert one.report_["gram"] == "kronecker"
    assert one.log_evidence_ == pytest.approx(two.log_evidence_, abs=1e-4)
    one.set_params(kernel=two.kernel_, loss=two.loss_, search=None).fit(X, y)
    assert one.log_evidence_ == pytest.approx(two.log_evidence_, abs=1e-7)
    new = X[:7] + 0.1
    for a, b in zip(
        one.predict(new, return_std=True), two.predict(new, return_std=True), strict=True
    ):
        assert a == pytest.approx(b, abs=1e-7)
    assert one.left_out_.mean == pytest.approx(two.left_out_.mean, abs=1e-7)
    mercer.save(one, f"{tmp_path}/grid.mercer")
    again = mercer.load(f"{tmp_path}/grid.mercer")
    assert np.array_equal(again.predict(new, return_std=True)[1], one.predict(new, True)[1])


def test_refusals() -> None:
    X, y = grid()
    for kernel, rows, given, words in (
        (RBF(), slice(None), {}, "product of kernels on columns of their own"),
        (KERNEL, slice(1, None), {}, "complete grid"),
        (KERNEL, slice(None), {"basis": "constant"}, "unpenalised basis"),
        (KERNEL, slice(None), {"loss": "student_t"}, "Gaussian noise"),
    ):
        with pytest.raises(ValueError, match=words):
            GPRegressor(kernel, gram="kronecker", **given).fit(X[rows], y[rows])
    w = np.arange(1.0, len(y) + 1.0)
    with pytest.raises(ValueError, match="one noise level"):
        GPRegressor(KERNEL, gram="kronecker").fit(X, y, sample_weight=w)
