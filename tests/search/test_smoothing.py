"""The choice of a smoothing parameter on a spectrum, against explicit matrices."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.basis import PolynomialBasis
from mercer.kernels import ThinPlate
from mercer.kernels.thin_plate import green
from mercer.linalg.contrasts import Contrasts
from mercer.search.one_parameter import Spectrum, find_lam
from tests.reference import contrasts as slow
from tests.reference import gp


@pytest.fixture
def case(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray, Spectrum]:
    X = rng.uniform(-1, 1, (40, 2))
    y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * rng.normal(size=40)
    H = PolynomialBasis(1)(X)
    c = Contrasts(green(X, X, 2), H, np.ones(40))
    squares = (c.V.T @ y) ** 2
    return X, y, H, Spectrum(c.d, squares, 0.0, 40, 3, 1, 40.0, 0.0, floor=c.floor)


@pytest.mark.parametrize("lam", [1e-4, 0.01, 1.0])
def test_profile_of_the_evidence(
    lam: float, case: tuple[np.ndarray, np.ndarray, np.ndarray, Spectrum]
) -> None:
    X, y, H, s = case
    K = ThinPlate.anchored(X)(X)

    def value(lam: float, v: float) -> float:
        return gp.log_evidence(v * (K + lam * np.eye(40)), y, H)

    v = s.variance(lam)
    assert value(lam, v) > max(value(lam, 1.01 * v), value(lam, 0.99 * v))
    change = value(lam, v) - value(0.1, s.variance(0.1))
    assert s.evidence(lam) - s.evidence(0.1) == pytest.approx(change, abs=1e-7)


@pytest.mark.parametrize("lam", [1e-4, 0.01, 1.0])
def test_gcv(lam: float, case: tuple[np.ndarray, np.ndarray, np.ndarray, Spectrum]) -> None:
    X, y, H, s = case
    A = slow.smoother(green(X, X, 2), np.full(40, lam), H)
    residual = y - A @ y
    assert s.degrees(lam) == pytest.approx(np.trace(A), rel=1e-9)
    assert s.residual(lam) == pytest.approx(residual @ residual, rel=1e-8)
    assert s.gcv(lam) == pytest.approx(np.mean(residual**2) / (1 - np.trace(A) / 40) ** 2, rel=1e-8)
    assert s.noise(lam) == pytest.approx(residual @ residual / (40 - np.trace(A)), rel=1e-8)


@pytest.mark.parametrize("criterion", ["evidence", "gcv"])
def test_the_best_is_found(
    criterion: str, case: tuple[np.ndarray, np.ndarray, np.ndarray, Spectrum]
) -> None:
    s = case[3]
    lam, report = find_lam(s, criterion)
    grid = np.exp(np.linspace(np.log(1e-9), np.log(1e6), 2001))
    values = [s.evidence(u) if criterion == "evidence" else -s.gcv(u) for u in grid]
    best = s.evidence(lam) if criterion == "evidence" else -s.gcv(lam)
    assert best >= max(values)
    assert report["converged"]
    assert report["at_bounds"] == []
    assert report["criterion"] == criterion


def test_the_highest_of_several_maxima_is_found(rng: np.random.Generator) -> None:
    grid = np.exp(np.linspace(np.log(1e-11), np.log(1e3), 3001))
    d, several = np.exp(np.linspace(np.log(1e-6), 0.0, 30)), 0
    for _ in range(20):
        s = Spectrum(d, 10.0 ** rng.uniform(-8, 0, 30), 0.0, 32, 2, 1, 32.0, 0.0)
        values = np.array([s.evidence(u) for u in grid])
        several += np.sum((values[1:-1] > values[:-2]) & (values[1:-1] > values[2:])) > 1
        assert s.evidence(find_lam(s, "evidence")[0]) >= values.max() - 1e-7
    assert several > 0


def test_gcv_near_interpolation(
    case: tuple[np.ndarray, np.ndarray, np.ndarray, Spectrum],
) -> None:
    """Both factors vanish with lam; their ratio does not."""
    s = case[3]
    limit = (s.squares / s.d**2).sum() / (1.0 / s.d).sum() ** 2 * s.total
    assert s.gcv(1e-13) == pytest.approx(limit, rel=1e-8)


def test_a_polynomial_is_reported(rng: np.random.Generator) -> None:
    X = rng.uniform(-1, 1, (60, 1))
    c = Contrasts(green(X, X, 2), PolynomialBasis(1)(X), np.ones(60))
    r = len(c.d)
    # noise that is white on contrasts but for the smooth ones, which show none
    squares = np.where(np.arange(r) < r - 20, 1.0, 1e-3)
    s = Spectrum(c.d, squares, 0.0, 60, 2, 1, 60.0, 0.0, floor=c.floor)
    _, report = find_lam(s, "evidence")
    assert report["at_bounds"] == ["lam (largest)"]
