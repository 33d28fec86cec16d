"""Factor and inverse by halves against LAPACK's, and against the definitions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from mercer._native import blocked as native
from mercer.core import arrays
from mercer.kernels import RBF
from mercer.linalg import DenseGram
from mercer.linalg.dense import factor as blocked

SIZES = [1, 2, 63, 64, 65, 127, 128, 129, 192, 200, 257, 513, 700]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    if not blocked._connected():
        pytest.skip("this processor or this SciPy has nothing to halve with")
    with threadpool_limits(limits=1):
        yield


def covariance(n: int, noise: float, seed: int = 0) -> np.ndarray:
    X = np.random.default_rng(seed).uniform(size=(n, 2))
    return RBF(0.5)(X) + noise * np.eye(n)


@pytest.mark.parametrize("n", SIZES)
def test_factor_and_inverse_are_what_they_are_called(n: int) -> None:
    A = covariance(n, 0.1)
    L = A.copy()
    assert native.cholesky(L) == 0
    R = np.triu(L)
    np.testing.assert_allclose(R.T @ R, A, atol=1e-13)
    native.half_inverse(L)
    np.testing.assert_allclose(np.triu(L).T @ R.T, np.eye(n), atol=1e-12)
    diagonal = blocked.inverse_diag(L)
    native.inverse_of_half(L)
    C = arrays.mirror(L)
    np.testing.assert_allclose(C @ A, np.eye(n), atol=1e-10)
    np.testing.assert_allclose(diagonal, np.diagonal(C), rtol=1e-13)


@pytest.mark.parametrize("noise", [1e-2, 1e-8, 1e-12])
def test_as_accurate_as_lapack_when_ill_conditioned(noise: float) -> None:
    A = covariance(1100, noise)  # condition number up to 1e15
    mine, theirs = A.copy(), A.copy()
    assert native.cholesky(mine) == arrays.cholesky(theirs) == 0
    errors = [np.abs(np.triu(B).T @ np.triu(B) - A).max() for B in (mine, theirs)]
    assert errors[0] <= 2 * errors[1]
    roots = [np.triu(B).T for B in (mine, theirs)]
    for room, B in ((native, mine), (arrays, theirs)):
        room.half_inverse(B)
        room.inverse_of_half(B)
    residuals = []
    for B, L in zip((mine, theirs), roots, strict=True):
        C = arrays.mirror(B)
        residuals.append(np.abs(L.T @ C @ L - np.eye(len(A))).max())
    assert residuals[0] <= 3 * residuals[1]


@pytest.mark.parametrize("bad", [0, 63, 64, 300, 512, 698, 699])
def test_first_minor_that_is_not_positive_is_named(bad: int) -> None:
    A = covariance(700, 0.1)
    A[bad, bad] = -1.0
    assert native.cholesky(A.copy()) == arrays.cholesky(A.copy()) == bad + 1


def test_what_is_not_a_number_shows_on_the_diagonal() -> None:
    A = covariance(600, 0.1)
    A[10, 400] = np.nan
    assert native.cholesky(A) == 0  # as OpenBLAS: only a pivot below zero is a failure
    assert np.all(np.isfinite(np.diagonal(A)[:400]))
    assert np.all(np.isnan(np.diagonal(A)[400:]))


def test_only_the_triangle_that_is_named_is_read() -> None:
    A = covariance(600, 0.1)
    whole, upper = A.copy(), np.triu(A) + np.tril(np.full_like(A, np.nan), -1)
    assert native.cholesky(whole) == native.cholesky(upper) == 0
    for A in (whole, upper):
        native.half_inverse(A)
        native.inverse_of_half(A)
    np.testing.assert_array_equal(np.triu(whole), np.triu(upper))


def test_dense_factor_agrees_at_every_kind_of_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    X, V = rng.uniform(size=(600, 2)), rng.normal(size=(600, 2))
    W = rng.choice([0.0, 1e-6, 1.0, 30.0], size=600)
    W[::100] = np.inf
    found = []
    for smallest in (1, 10**6):
        monkeypatch.setattr(blocked, "SMALLEST", smallest)
        factor = DenseGram(RBF(0.3), X).factor(W)
        found.append((factor.solve(V), factor.diag(), factor.logdet(), factor.cov_diag()))
    for mine, theirs in zip(*found, strict=True):
        # cov_diag is (1 - C_ii / W_i) / W_i: rounding is divided by the smallest weight, 1e-6
        np.testing.assert_allclose(mine, theirs, rtol=1e-8, atol=2e-9)


def test_memory_is_taken_over_only_when_allowed() -> None:
    X, W = np.random.default_rng(0).uniform(size=(300, 2)), np.full(300, 10.0)
    kept = DenseGram(RBF(0.5), X, keep=True).factor(W)
    before = kept.cholesky.copy()
    diagonal = kept.diag()
    np.testing.assert_array_equal(np.triu(kept.cholesky), np.triu(before))
    np.testing.assert_allclose(kept.scale**2 * np.diagonal(kept.inverse()), diagonal, rtol=1e-13)
    np.testing.assert_array_equal(np.triu(kept.cholesky), np.triu(before))
    spent = DenseGram(RBF(0.5), X, scratch=True).factor(W)
    memory = spent.cholesky
    np.testing.assert_array_equal(spent.diag(), diagonal)
    assert spent.inverse() is memory
    with pytest.raises(RuntimeError, match="used up"):
        spent.solve(np.ones((300, 1)))


@pytest.mark.parametrize("halved", [True, False])
@pytest.mark.parametrize(
    ("q", "m"),
    [(1, 1), (7, 5), (24, 31), (25, 32), (50, 64), (70, 100), (49, 256), (100, 300), (30, 700)],
)
def test_rows_are_solved_with_a_triangle(
    q: int, m: int, halved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not halved:
        monkeypatch.setattr(blocked, "_connected", lambda: False)
    L = np.linalg.cholesky(covariance(m, 0.1))
    X = np.random.default_rng(1).normal(size=(q, m))
    squares = np.full(q, np.nan)
    for back, triangle in ((False, L.T), (True, L)):
        found = blocked.solve_rows(L + np.triu(np.ones((m, m)), 1), X.copy(), squares, back=back)
        np.testing.assert_allclose(found @ triangle, X, atol=1e-12)
        np.testing.assert_allclose(squares, (found**2).sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("halved", [True, False])
def test_rows_of_a_triangle_that_is_close_to_singular(
    halved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # substitution leaves a residual of eps |X| |L| whatever the condition is; an inverse does not
    if not halved:
        monkeypatch.setattr(blocked, "_connected", lambda: False)
    L = np.linalg.cholesky(covariance(300, 1e-13))
    X = covariance(330, 1e-13)[300:, :300]
    found = blocked.solve_rows(L, np.ascontiguousarray(X))
    off = np.abs(found @ L.T - covariance(330, 1e-13)[300:, :300])
    assert np.all(off <= 1e-13 * (np.abs(found) @ np.abs(L.T)))


def team(A: np.ndarray) -> int:
    with blocked._team(A) as count:
        return count


def test_lapack_keeps_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    A = covariance(600, 0.1)
    assert team(A) == 1
    assert team(A[:100, :100].copy()) == 0
    assert team(A.T[:, ::-1]) == 0
    monkeypatch.setattr(blocked, "_connected", lambda: False)
    assert team(A) == 0


def test_threads_leave_every_bit_and_their_number() -> None:
    # more than one band of rows and columns, and no whole number of them
    n = 2300
    K = np.random.default_rng(0).normal(size=(n, 40))
    K = K @ K.T + np.eye(n)
    found = []
    for count in (1, 2, 3):
        with threadpool_limits(limits=count):
            A, allowed = K.copy(), [one.num_threads for one in blocked.arrays.blas_libraries()]
            assert team(A) == count
            assert blocked.cholesky(A) == 0
            rows, squares = np.ascontiguousarray(K[:5000:3]), np.empty(len(K[::3]))
            blocked.solve_rows(np.ascontiguousarray(np.triu(A).T), rows, squares)
            blocked.half_inverse(A)
            blocked.inverse_of_half(A)
            assert [one.num_threads for one in blocked.arrays.blas_libraries()] == allowed
        found.append((A, rows, squares))
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            np.testing.assert_array_equal(one, other)
    inverse = np.triu(found[0][0]) + np.triu(found[0][0], 1).T
    np.testing.assert_allclose(inverse @ K[:, :50], np.eye(n)[:, :50], atol=1e-9)


def test_a_matrix_that_is_not_positive_definite_gives_the_threads_back() -> None:
    A = np.eye(1500)
    A[1300, 1300] = -1.0
    with threadpool_limits(limits=2):
        assert blocked.cholesky(A) == 1301
        assert {one.num_threads for one in blocked.arrays.blas_libraries()} == {2}


def test_routines_of_another_kind_are_not_called() -> None:
    from scipy.linalg import cython_blas, cython_lapack

    tables = dict(cython_blas.__pyx_capi__), dict(cython_lapack.__pyx_capi__)
    assert not native.connect({**tables[0], "dgemm": tables[0]["sgemm"]}, tables[1])
    assert not native.connect({**tables[0], "dsyrk": None}, tables[1])
    assert not native.connect(tables[0], {})
    assert native.connect(*tables)


def test_a_matrix_that_is_not_square_is_refused() -> None:
    with pytest.raises(ValueError, match="square"):
        native.cholesky(np.ones((3, 4)))
