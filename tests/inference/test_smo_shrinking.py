"""Variables that are set aside: the answer is that of all variables, whatever left on the way."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from mercer.inference.mode import programme as active
from mercer.inference.mode.programme import Programme, directions, violations
from mercer.inference.smo import SMO, Optimum
from mercer.kernels import RBF, Matern
from mercer.kernels.base import Kernel
from mercer.linalg import rows as rows_module
from mercer.linalg.rows import RowCache
from tests.inference.indefinite import Indefinite


def points(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, 3))
    f = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    return X, f + 0.3 * rng.normal(size=n)


def maximise(P: Programme, rows: RowCache, tol: float, max_iter: int = -1) -> Optimum:
    return SMO(tol=tol, max_iter=max_iter).climb(P, rows)


def classifier(rng: np.random.Generator, n: int, C: float) -> tuple[np.ndarray, Programme]:
    X, f = points(rng, n)
    y = np.where(f > 0, 1.0, -1.0)
    low, high = np.minimum(0, C * y), np.maximum(0, C * y)
    return X, Programme(y, low, high, np.zeros(n), np.zeros(n), np.array([[0, n, 0]]))


def regression(rng: np.random.Generator, n: int, C: float) -> tuple[np.ndarray, Programme]:
    X, f = points(rng, n)
    box, segments = np.full(n, C), np.array([[0, n, 0]])
    return X, Programme(f, -box, box, np.full(n, 0.1), np.zeros(n), segments)


def two_segments(rng: np.random.Generator, n: int, C: float) -> tuple[np.ndarray, Programme]:
    """Both sums fixed apart from zero, as in the nu machines."""
    X, f = points(rng, n)
    X, y = X[np.argsort(f)], np.sign(np.sort(f))
    low, high = np.minimum(0, C * y), np.maximum(0, C * y)
    cut = int(np.sum(y < 0))
    segments = np.array([[0, cut, 0], [cut, n, cut]])
    return X, Programme(np.zeros(n), low, high, np.zeros(n), 0.3 * (low + high), segments)


def shared_columns(rng: np.random.Generator, n: int, C: float) -> tuple[np.ndarray, Programme]:
    """Two variables for each point, one that rises and one that falls."""
    X, f = points(rng, n)
    zero, box = np.zeros(n), np.full(n, C)
    segments = np.array([[0, n, 0], [n, 2 * n, 0]])
    start = np.concatenate([0.3 * box, -0.3 * box])
    low, high = np.concatenate([zero, -box]), np.concatenate([box, zero])
    return X, Programme(np.concatenate([f, f]), low, high, np.zeros(2 * n), start, segments)


PROBLEMS = [classifier, regression, two_segments, shared_columns]


def check(kernel: Kernel, X: np.ndarray, P: Programme, found: object, tol: float) -> None:
    """Optimality of all variables, with slopes from the whole matrix in double precision."""
    beta = found.beta  # type: ignore[attr-defined]
    columns = P.columns()
    K = kernel(X)
    slope = P.linear - K[columns] @ np.bincount(columns, beta, len(X))
    np.testing.assert_allclose(found.slope, slope, atol=1e-4)  # type: ignore[attr-defined]
    assert violations(P, beta, slope) <= tol + 2e-4
    assert np.all((beta >= P.low) & (beta <= P.high))
    if P.bias:
        for begin, end, _ in P.segments:
            assert beta[begin:end].sum() == pytest.approx(P.start[begin:end].sum(), abs=1e-8)


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("kernel", [RBF(1.0), 2.0 * RBF(1.0), Matern(nu=2.5)])
def test_answer_is_that_of_all_variables(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, problem: object, kernel: Kernel
) -> None:
    X, P = problem(rng, 1500, 1.0)  # type: ignore[operator]
    found = maximise(P, RowCache(kernel, X, 1e9, single=True), tol=1e-3)
    assert found.report.converged
    assert found.report.details["fewest_active"] < 0.8 * len(P.linear)
    check(kernel, X, P, found, 1e-3)
    monkeypatch.setattr(active, "SMALLEST", 1 << 40)
    whole = maximise(P, RowCache(kernel, X, 1e9, single=True), tol=1e-3)
    assert whole.report.details["fewest_active"] == len(P.linear)
    assert found.report.details["objective"] == pytest.approx(
        whole.report.details["objective"], rel=1e-5
    )


def test_without_bias(rng: np.random.Generator) -> None:
    X, P = classifier(rng, 1500, 1.0)
    P.bias = False
    found = maximise(P, RowCache(RBF(1.0), X, 1e9, single=False), tol=1e-5)
    assert found.report.converged
    assert found.report.details["fewest_active"] < 1500
    check(RBF(1.0), X, P, found, 1e-5)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_wrongly_set_aside_comes_back(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, problem: object
) -> None:
    """Half of what is needed leaves, and the maximum is reached all the same."""
    right = active._needed
    losses = np.random.default_rng(0)

    def wrong(P: Programme, beta: np.ndarray, slope: np.ndarray) -> np.ndarray:
        needed = right(P, beta, slope)
        needed &= losses.uniform(size=len(needed)) < 0.5
        needed[P.segments[:, 0]] = True  # no segment is empty
        return needed

    monkeypatch.setattr(active, "_needed", wrong)
    X, P = problem(rng, 1500, 1.0)  # type: ignore[operator]
    found = maximise(P, RowCache(RBF(1.0), X, 1e9, single=True), tol=1e-3)
    assert found.report.details["returns"] > 0
    assert found.report.converged
    check(RBF(1.0), X, P, found, 1e-3)


def test_limit_while_some_are_aside(rng: np.random.Generator) -> None:
    X, P = classifier(rng, 1500, 1.0)
    full = maximise(P, RowCache(RBF(1.0), X, 1e9, single=False), tol=1e-6)
    steps = full.report.iterations - 5
    found = maximise(P, RowCache(RBF(1.0), X, 1e9, single=False), tol=1e-6, max_iter=steps)
    assert found.report.details["fewest_active"] < 1500
    assert found.report.message == "iteration limit"
    slope = P.linear - RBF(1.0)(X) @ found.beta
    assert found.report.details["violation"] == pytest.approx(
        violations(P, found.beta, slope), abs=1e-9
    )
    np.testing.assert_allclose(found.slope, slope, atol=1e-9)


def test_restricted_rows_are_those_of_the_matrix(rng: np.random.Generator) -> None:
    X = rng.normal(size=(200, 3))
    for kernel, single in ((RBF(1.0), True), (Matern(nu=1.5), False)):
        K, cache = kernel(X), RowCache(kernel, X, 1e9, single=single)
        cache.fetch(np.array([3, 150, 20, 77]))
        computed = cache.computed
        keep = np.array([3, 10, 20, 60, 77, 130, 199])
        cache.restrict(keep)
        np.testing.assert_array_equal(np.flatnonzero(cache.slot_of >= 0), [0, 2, 4])
        for place in (0, 2, 4):
            row = cache.table[cache.slot_of[place]]
            np.testing.assert_allclose(row, K[keep[place], keep], rtol=1e-6)
        assert cache.computed == computed
        cache.restrict(np.array([1, 2, 5]))  # and once more
        np.testing.assert_allclose(cache.table[cache.slot_of[1]], K[20, [10, 20, 130]], rtol=1e-6)
        cache.fetch(np.array([0]))
        np.testing.assert_allclose(cache.table[cache.slot_of[0]], K[10, [10, 20, 130]], rtol=1e-6)
        beta = rng.normal(size=200) * (rng.uniform(size=200) < 0.5)
        np.testing.assert_allclose(
            cache.product_at(np.array([5, 5, 199]), beta), (K @ beta)[[5, 5, 199]], atol=1e-5
        )


def test_cache_opens_when_rows_are_wanted_again(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, P = classifier(rng, 600, 100.0)
    large = maximise(P, RowCache(RBF(1.0), X, 1e9, single=True), tol=1e-3)
    monkeypatch.setattr(rows_module, "OPENING", 600 * 4 * 70)
    growing = RowCache(RBF(1.0), X, 1e9, single=True)
    assert growing.capacity == 70
    found = maximise(P, growing, tol=1e-3)
    assert growing.capacity >= 140
    bounded = RowCache(RBF(1.0), X, 600 * 4 * 70, single=True)
    tiny = maximise(P, bounded, tol=1e-3)
    assert bounded.table.nbytes <= 600 * 4 * 70
    assert bounded.computed > growing.computed
    for other in (found, tiny):
        assert other.report.converged
        check(RBF(1.0), X, P, other, 1e-3)
        assert other.report.details["objective"] == pytest.approx(
            large.report.details["objective"], rel=1e-5
        )


def test_indefinite_kernel_with_shrinking_ends(rng: np.random.Generator) -> None:
    X, P = classifier(rng, 1200, 1.0)
    found = maximise(P, RowCache(Indefinite(), X, 1e9, single=False), tol=1e-3)
    slope = P.linear - Indefinite()(X) @ found.beta
    np.testing.assert_allclose(found.slope, slope, atol=1e-8)
    up, down = directions(P, found.beta, slope)
    assert found.report.converged == (up.max() - down.min() <= 1e-3)


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("problem", [*PROBLEMS, "no bias"])
def test_threads_change_nothing(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, problem: object, single: bool
) -> None:
    """Each step is the same, to the last bit, whatever the number of threads that make it."""
    monkeypatch.setattr(active, "PIECE", 64)
    X, P = classifier(rng, 701, 1.0) if problem == "no bias" else problem(rng, 701, 1.0)  # type: ignore[operator]
    P.bias = problem != "no bias"
    answers = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads, user_api="blas"):
            found = maximise(P, RowCache(2.0 * RBF(1.0), X, 1e9, single=single), tol=1e-3)
        answers.append(np.append(found.beta, found.report.iterations))
    np.testing.assert_array_equal(answers[1], answers[0])
    np.testing.assert_array_equal(answers[2], answers[0])
