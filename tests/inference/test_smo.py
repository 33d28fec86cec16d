"""The quadratic programme: optimality, precision, cache and limits."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.inference import Dual
from mercer.inference.mode.programme import Programme, directions
from mercer.inference.smo import SMO, Optimum
from mercer.kernels import RBF, Linear, Matern
from mercer.linalg import DenseGram
from mercer.linalg.rows import RowCache, RowGram
from mercer.losses import EpsilonInsensitive, Hinge, Logistic, Pinball
from mercer.losses.base import Loss
from mercer.testing import check_gram
from tests.inference.indefinite import Indefinite


def maximise(P: Programme, rows: RowCache, tol: float, max_iter: int = -1) -> Optimum:
    return SMO(tol=tol, max_iter=max_iter).climb(P, rows)


def classifier(rng: np.random.Generator, n: int, C: float) -> tuple[np.ndarray, Programme]:
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=n) > 0.7, 1.0, -1.0)
    low, high = np.minimum(0, C * y), np.maximum(0, C * y)
    segments = np.array([[0, n, 0]])
    return X, Programme(y, low, high, np.zeros(n), np.zeros(n), segments)


@pytest.mark.parametrize("kernel", [RBF(1.3), 2.5 * RBF(1.3), Matern(nu=1.5), Linear()])
@pytest.mark.parametrize("single", [True, False])
def test_optimality(rng: np.random.Generator, kernel: object, single: bool) -> None:
    X, P = classifier(rng, 300, 2.0)
    tol = 1e-3 if single else 1e-8
    found = maximise(P, RowCache(kernel, X, 1e9, single=single), tol=tol)  # type: ignore[arg-type]
    assert found.report.converged
    K = kernel(X)  # type: ignore[operator]
    slope = P.linear - K @ found.beta
    np.testing.assert_allclose(found.slope, slope, atol=1e-4 if single else 1e-10)
    up, down = directions(P, found.beta, slope)
    assert up.max() - down.min() <= tol + (1e-4 if single else 1e-10)
    assert abs(found.beta.sum()) < 1e-9
    assert np.all((found.beta >= P.low) & (found.beta <= P.high))
    objective = P.linear @ found.beta - 0.5 * found.beta @ K @ found.beta
    assert found.report.details["objective"] == pytest.approx(objective, rel=1e-6)


def test_small_cache_gives_the_same_answer(rng: np.random.Generator) -> None:
    X, P = classifier(rng, 400, 10.0)
    for kernel in (RBF(1.0), Matern(nu=2.5)):
        large = maximise(P, RowCache(kernel, X, 1e9, single=False), tol=1e-9)
        tiny = RowCache(kernel, X, 1.0, single=False)
        assert tiny.capacity == 64
        small = maximise(P, tiny, tol=1e-9)
        np.testing.assert_allclose(small.slope, large.slope, atol=1e-7)
        assert tiny.computed > 400


def test_without_bias(rng: np.random.Generator) -> None:
    X, P = classifier(rng, 200, 3.0)
    P.bias = False
    found = maximise(P, RowCache(RBF(1.0), X, 1e9, single=False), tol=1e-8)
    up, down = directions(P, found.beta, found.slope)
    assert found.report.converged
    assert up.max() <= 1e-7
    assert down.min() >= -1e-7


def test_kinks_are_respected(rng: np.random.Generator) -> None:
    """Support vector regression against its optimality conditions."""
    n, C, eps = 150, 4.0, 0.1
    X = rng.uniform(-3, 3, (n, 1))
    y = np.sinc(X[:, 0]) + 0.1 * rng.normal(size=n)
    P = Programme(
        y, np.full(n, -C), np.full(n, C), np.full(n, eps), np.zeros(n), np.array([[0, n, 0]])
    )
    found = maximise(P, RowCache(RBF(1.0), X, 1e9, single=False), tol=1e-9)
    f = RBF(1.0)(X) @ found.beta + found.level[0]
    r, b = y - f, found.beta
    assert np.all(np.abs(r[b == 0]) <= eps + 1e-7)
    free = (np.abs(b) > 0) & (np.abs(b) < C)
    np.testing.assert_allclose(r[free], np.sign(b[free]) * eps, atol=1e-7)
    assert np.all(np.sign(b[np.abs(b) == C]) * r[np.abs(b) == C] >= eps - 1e-7)


def test_limit_is_reported(rng: np.random.Generator) -> None:
    X, P = classifier(rng, 300, 100.0)
    found = maximise(P, RowCache(RBF(1.0), X, 1e9, single=False), tol=1e-6, max_iter=50)
    assert found.report.iterations == 50
    assert not found.report.converged
    assert found.report.message == "iteration limit"


def test_impossible_tolerance_ends(rng: np.random.Generator) -> None:
    X, P = classifier(rng, 100, 1.0)
    found = maximise(P, RowCache(RBF(1.0), X, 1e9, single=False), tol=1e-300)
    assert found.report.details["violation"] < 1e-10


def test_indefinite_kernel_ends(rng: np.random.Generator) -> None:
    X, P = classifier(rng, 120, 1.0)
    found = maximise(P, RowCache(Indefinite(), X, 1e9, single=False), tol=1e-3, max_iter=20_000)
    assert found.report.message
    assert np.all(np.isfinite(found.beta))


def test_warm_start_needs_fewer_steps(rng: np.random.Generator) -> None:
    X, P = classifier(rng, 300, 1.0)
    cold = maximise(P, RowCache(RBF(1.0), X, 1e9, single=False), tol=1e-6)
    P.start = cold.beta
    warm = maximise(P, RowCache(RBF(1.0), X, 1e9, single=False), tol=1e-6)
    assert warm.report.iterations < 5


@pytest.mark.parametrize(
    "loss", [Hinge(C=2.0), EpsilonInsensitive(C=3.0, epsilon=0.2), Pinball(0.3)]
)
@pytest.mark.parametrize("bias", [True, False])
def test_it_is_the_mode_that_the_dual_finds(
    rng: np.random.Generator, loss: Loss, bias: bool
) -> None:
    X, (n, m) = rng.normal(size=(60, 2)), (60, 2)
    y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1]]) + 0.3 * rng.normal(size=(n, m))
    y = np.sign(y) if isinstance(loss, Hinge) else y
    given = {
        "mean": 0.2 * rng.normal(size=(n, m)),
        "weights": rng.uniform(0.5, 2.0, n),
        "basis": np.full((n, 1), 2.0) if bias else None,
    }
    kernel = 1.5 * RBF(0.8)
    gram = DenseGram(kernel, X, keep=True)
    smo = SMO(tol=1e-10)
    smo.check(loss)
    found, other = smo.solve(gram, y, loss, **given), Dual(tol=1e-12).solve(gram, y, loss, **given)
    np.testing.assert_allclose(found.alpha, other.alpha, atol=1e-4)
    np.testing.assert_allclose(found.z, other.z, atol=1e-5)
    latent = given["mean"] + gram @ found.alpha
    if bias:
        np.testing.assert_allclose(found.beta, other.beta, atol=1e-5)
        latent = latent + given["basis"] @ found.beta
    np.testing.assert_allclose(found.z, latent, atol=1e-9)
    np.testing.assert_array_equal(np.isinf(found.W), np.isinf(other.W))
    assert found.report.converged
    assert 0.0 <= found.report.gap < 1e-6
    lazy = smo.solve(RowGram(kernel, X), y, loss, **given)
    np.testing.assert_allclose(lazy.alpha, found.alpha, atol=1e-6)
    again = smo.solve(gram, y, loss, **given, start=found)
    assert again.report.iterations <= found.report.iterations
    np.testing.assert_allclose(again.z, found.z, atol=1e-6)


def test_the_gap_bounds_what_is_missing(rng: np.random.Generator) -> None:
    X, P = classifier(rng, 300, 5.0)
    best = maximise(P, RowCache(RBF(1.0), X, 1e9, single=False), tol=1e-10)
    for steps in (20, 100, 400):
        rows = RowCache(RBF(1.0), X, 1e9, single=False)
        early = maximise(P, rows, tol=1e-10, max_iter=steps)
        missing = best.report.details["objective"] - early.report.details["objective"]
        assert -1e-9 <= missing <= early.report.gap + 1e-9


def test_what_it_cannot_do_is_refused(rng: np.random.Generator) -> None:
    X = rng.normal(size=(5, 1))
    with pytest.raises(ValueError, match="Logistic does not offer"):
        SMO().check(Logistic())
    with pytest.raises(ValueError, match="positive finite tol"):
        SMO(tol=0.0).check(Hinge())
    with pytest.raises(ValueError, match="max_iter"):
        SMO(max_iter=-2).check(Hinge())
    with pytest.raises(ValueError, match="constant as unpenalised basis"):
        SMO().solve(RowGram(RBF(), X), np.sign(X), Hinge(), basis=X)
    found = SMO().solve(RowGram(RBF(), X), np.sign(X), Hinge())
    with pytest.raises(ValueError, match="no spread and therefore no evidence"):
        SMO().evidence(RowGram(RBF(), X), np.sign(X), Hinge(), found)


def test_rows_on_demand_are_a_gram(rng: np.random.Generator) -> None:
    for kernel in (2.0 * RBF(0.7), Linear() + 0.5):
        check_gram(RowGram(kernel, rng.normal(size=(12, 2))))
