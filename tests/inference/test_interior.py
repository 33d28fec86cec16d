"""Interior points: the optimum of programmes that steps along pairs do not reach."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.inference.mode.interior import interior
from mercer.inference.mode.programme import Programme, dual_of, violations
from mercer.inference.smo import SMO
from mercer.kernels import RBF, Linear
from mercer.linalg.rows import RowCache
from mercer.losses import EpsilonInsensitive, Hinge, Pinball

N = 80


def table(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, 4))
    f = X[:, 0] + 0.5 * X[:, 1] * X[:, 2]
    return X, np.where(f + 0.5 * rng.normal(size=N) > 0, 1.0, -1.0), f + 0.2 * rng.normal(size=N)


def violation_of(P: Programme, K: np.ndarray, beta: np.ndarray) -> float:
    columns = P.columns()
    return violations(P, beta, P.linear - (K @ np.bincount(columns, beta, len(K)))[columns])


def objective(P: Programme, K: np.ndarray, beta: np.ndarray) -> float:
    b = np.bincount(P.columns(), beta, len(K))
    return float(P.linear @ beta - P.kink @ np.abs(beta) - 0.5 * b @ K @ b)


LOSSES = {
    "hinge": (Hinge(), 1),
    "tube": (EpsilonInsensitive(2.0, 0.1), 2),
    "absolute": (EpsilonInsensitive(2.0, 0.0), 2),
    "pinball": (Pinball(0.2, 0.5), 2),
}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", LOSSES)
def test_easy_programmes_end_where_smo_ends(name: str, bias: bool) -> None:
    loss, target = LOSSES[name]
    data = table()
    X, y = data[0], data[target]
    K = RBF(1.5)(X)
    P = dual_of(loss, y, np.ones(N), bias=bias)
    beta, steps = interior(P, K, 1e-9, features=False)
    found = SMO(tol=1e-10).climb(P, RowCache(RBF(1.5), X, 1e6, single=False))
    assert steps < 40
    assert violation_of(P, K, beta) < 1e-8
    np.testing.assert_allclose(K @ beta, K @ found.beta, atol=1e-7)
    assert objective(P, K, beta) == pytest.approx(found.report.details["objective"], rel=1e-10)


@pytest.mark.parametrize("features", [True, False])
@pytest.mark.parametrize("C", [1.0, 1e4, 1e10])
@pytest.mark.parametrize("scale", [1.0, 1e3, 1e-3])
def test_hard_programmes_end_at_the_resolution_of_doubles(
    features: bool, C: float, scale: float
) -> None:
    X, y, t = table(1)
    X = X * [1.0, scale, 1.0, 1.0]
    K = X @ X.T
    for P in (
        dual_of(Hinge(), y, np.full(N, C), bias=True),
        dual_of(EpsilonInsensitive(C, 0.1), t, np.ones(N), bias=True),
    ):
        beta, _ = interior(P, X if features else K, 1e-6, features=features)
        assert np.all((beta >= P.low) & (beta <= P.high))
        assert abs(beta.sum()) <= 1e-12 * np.abs(beta).sum()
        resolution = 1e-15 * C * N * K.diagonal().max()  # of a slope, at the most
        assert violation_of(P, K, beta) <= 1e-6 + resolution


def test_two_variables_of_a_point_and_two_sums() -> None:
    """The programme of nu-regression: a and a* of every point, two fixed sums."""
    X, _, t = table(2)
    K = RBF(1.0)(X)
    top, half = 5.0 / N, 0.25 * 5.0
    start = np.concatenate([np.full(N, half / N), np.full(N, -half / N)])
    P = Programme(
        linear=np.concatenate([t, t]),
        low=np.repeat([0.0, -top], N),
        high=np.repeat([top, 0.0], N),
        kink=np.zeros(2 * N),
        start=start,
        segments=np.array([[0, N, 0], [N, 2 * N, 0]]),
    )
    beta, _ = interior(P, K, 1e-9, features=False)
    assert violation_of(P, K, beta) < 1e-8
    np.testing.assert_allclose([beta[:N].sum(), beta[N:].sum()], [half, -half], rtol=1e-12)
    found = SMO(tol=1e-10).climb(P, RowCache(RBF(1.0), X, 1e6, single=False))
    assert objective(P, K, beta) == pytest.approx(objective(P, K, found.beta), rel=1e-10)


def test_rows_of_a_pair_stay_while_the_step_is_made() -> None:
    """A full cache whose rows are all equally old must not drop the row of i when j's comes."""
    rng = np.random.default_rng(0)
    n = 400
    X = rng.normal(size=(n, 2))
    y = np.where(rng.uniform(size=n) < 0.5, 1.0, -1.0)
    P = dual_of(Hinge(), y, np.full(n, 1.0), bias=True)
    P.start = 0.3 * y * np.where(y > 0, 1.0 / (y > 0).sum(), 1.0 / (y < 0).sum()) * (y < 0).sum()
    rows = RowCache(RBF(1.0), X, 4 * n * 70, single=True)
    found = SMO(tol=1e-4).climb(P, rows)
    exact = P.linear - RBF(1.0)(X) @ found.beta
    np.testing.assert_allclose(found.slope, exact, atol=1e-5)


def test_linear_kernel_by_its_features() -> None:
    X, y, _ = table(3)
    P = dual_of(Hinge(), y, np.full(N, 100.0), bias=True)
    by_features, _ = interior(P, X, 1e-8, features=True)
    by_gram, _ = interior(P, Linear()(X), 1e-8, features=False)
    np.testing.assert_allclose(X.T @ by_features, X.T @ by_gram, atol=1e-6)
