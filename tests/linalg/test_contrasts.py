"""Contrasts, the factor and the operator built on them, and their low-rank form."""

from __future__ import annotations

import numpy as np
import pytest
from tests.reference import contrasts as slow
from tests.reference import gp

from mercer.basis import PolynomialBasis
from mercer.kernels import ThinPlate
from mercer.kernels.thin_plate import green
from mercer.linalg.contrasts import (
    ContrastFactor,
    Contrasts,
    InducedFactor,
    InducingContrasts,
    Null,
    spread_out,
)
from mercer.process.record import OPERATOR

M, V, LAM = 2, 1.7, 0.03


@pytest.fixture
def data(rng: np.random.Generator) -> dict[str, np.ndarray]:
    X, new = rng.uniform(-1, 1, (30, 2)), rng.uniform(-2, 2, (7, 2))
    w = rng.uniform(0.3, 3.0, 30)
    y = np.column_stack([np.sin(3 * X[:, 0]), X[:, 1] ** 2]) + 0.1 * rng.normal(size=(30, 2))
    basis = PolynomialBasis(M - 1)
    return {"X": X, "new": new, "w": w, "y": y, "H": basis(X), "h": basis(new)}


def exact(data: dict[str, np.ndarray], lam: float = LAM) -> ContrastFactor:
    G = green(data["X"], data["X"], M)
    return ContrastFactor(Contrasts(G, data["H"], data["w"]), G, V, lam)


def literal_P(data: dict[str, np.ndarray], lam: float = LAM) -> np.ndarray:
    """P of GPML 2.7 through the kernel that is anchored, hence proper."""
    K = V * ThinPlate.anchored(data["X"], M)(data["X"])
    Ci = np.linalg.inv(K + np.diag(V * lam / data["w"]))
    H = data["H"]
    return Ci - Ci @ H @ np.linalg.inv(H.T @ Ci @ H) @ H.T @ Ci


def test_eigenvectors_are_contrasts(data: dict[str, np.ndarray]) -> None:
    G = green(data["X"], data["X"], M)
    c = Contrasts(G, data["H"], data["w"])
    np.testing.assert_allclose(data["H"].T @ c.V, 0.0, atol=1e-13)
    np.testing.assert_allclose(c.V.T @ G @ c.V, np.diag(c.d), atol=1e-12)
    np.testing.assert_allclose(c.V.T @ (c.V / data["w"][:, None]), np.eye(27), atol=1e-12)
    assert np.all(np.diff(c.d) >= 0.0)
    assert c.d[0] > c.floor > 0.0


def test_factor_is_the_literal_projection(data: dict[str, np.ndarray]) -> None:
    factor, P, y = exact(data), literal_P(data), data["y"]
    np.testing.assert_allclose(factor.solve(y), P @ y, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(factor.diag(), np.diagonal(P), rtol=1e-9)
    np.testing.assert_allclose(factor.quad(y, y), y.T @ P @ y, rtol=1e-8)
    np.testing.assert_allclose(factor.quad_diag(y), np.diagonal(y.T @ P @ y), rtol=1e-8)
    W = data["w"] / (V * LAM)
    expected = 1.0 / W - np.diagonal(P) / W**2
    np.testing.assert_allclose(factor.cov_diag(), expected, rtol=1e-8)
    assert factor.report == {"jitter": 0.0}


def test_determinant_is_that_of_the_evidence(data: dict[str, np.ndarray]) -> None:
    factor, y = exact(data), data["y"][:, 0]
    Ky = V * ThinPlate.anchored(data["X"], M)(data["X"]) + np.diag(V * LAM / data["w"])
    value = -0.5 * (y @ factor.solve(y[:, None])[:, 0] + factor.logdet_noisy())
    value -= 0.5 * 27 * np.log(2 * np.pi)
    assert value == pytest.approx(gp.log_evidence(Ky, y, data["H"]), rel=1e-10)
    W = data["w"] / (V * LAM)
    assert factor.logdet() == pytest.approx(factor.logdet_noisy() + np.log(W).sum())


def test_operator_is_universal_kriging(data: dict[str, np.ndarray]) -> None:
    factor, X, new = exact(data), data["X"], data["new"]
    K, Ks, Kss = (V * green(a, b, M) for a, b in ((X, X), (X, new), (new, new)))
    mean, cov = slow.kriging(K, V * LAM / data["w"], data["H"], data["y"], Ks, Kss, data["h"])
    alpha = factor.solve(data["y"])
    beta = factor.coefficients(data["y"], alpha)
    np.testing.assert_allclose(Ks.T @ alpha + data["h"] @ beta, mean, rtol=1e-9)
    operator = factor.operator()
    found = Kss - operator.reduce(Ks, Ks, data["h"], data["h"])
    np.testing.assert_allclose(found, cov, rtol=1e-9, atol=1e-10)
    other = Kss[:3] - operator.reduce(Ks[:, :3], Ks, data["h"][:3], data["h"])
    np.testing.assert_allclose(other, cov[:3], rtol=1e-9, atol=1e-10)
    diagonal = -operator.reduce_diag(Ks, data["h"])
    np.testing.assert_allclose(diagonal, np.diagonal(cov), rtol=1e-9)
    again = OPERATOR.read(OPERATOR.write(operator), None)
    np.testing.assert_array_equal(again.reduce_diag(Ks, data["h"]), -diagonal)


def test_interpolation(data: dict[str, np.ndarray]) -> None:
    factor, y = exact(data, lam=0.0), data["y"]
    alpha = factor.solve(y)
    f = V * green(data["X"], data["X"], M) @ alpha + data["H"] @ factor.coefficients(y, alpha)
    np.testing.assert_allclose(f, y, atol=1e-11)
    np.testing.assert_array_equal(factor.cov_diag(), 0.0)


def test_too_close_to_interpolate() -> None:
    X = np.array([[0.0], [1.0], [1.0 + 1e-9], [2.0], [3.0]])
    G, H = green(X, X, 2), PolynomialBasis(1)(X)
    c = Contrasts(G, H, np.ones(5))
    with pytest.raises(np.linalg.LinAlgError, match="too close to each other"):
        ContrastFactor(c, G, 1.0, 0.0)
    ContrastFactor(c, G, 1.0, 1e-6)


def test_dependent_functions_are_refused() -> None:
    H = PolynomialBasis(1)(np.array([[0.0, 1.0], [1.0, 3.0], [2.0, 5.0], [7.0, 15.0]]))
    with pytest.raises(ValueError, match="3 unpenalised functions are linearly dependent on the 4"):
        Null(H, np.ones(4))
    with pytest.raises(ValueError, match="linearly dependent"):
        Null(np.ones((1, 2)), np.ones(1))


def seen(data: dict[str, np.ndarray], knots: np.ndarray) -> InducingContrasts:
    X, y, w = data["X"], data["y"], data["w"]
    return InducingContrasts(lambda A, B: green(A, B, M), PolynomialBasis(M - 1), knots, X, y, w)


def test_all_points_as_knots_are_exact(data: dict[str, np.ndarray]) -> None:
    few, all_ = seen(data, data["X"][::-1].copy()), exact(data)
    np.testing.assert_allclose(few.d, all_.contrasts.d, rtol=1e-7)
    np.testing.assert_allclose(few.unexplained, 0.0, atol=1e-10)
    factor = InducedFactor(few, V, LAM)
    y = data["y"]
    np.testing.assert_allclose(factor.solve(y), all_.solve(y), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(factor.diag(), all_.diag(), rtol=1e-8)
    np.testing.assert_allclose(factor.cov_diag(), all_.cov_diag(), rtol=1e-8)
    np.testing.assert_allclose(factor.quad(y, y), all_.quad(y, y), rtol=1e-8)
    np.testing.assert_allclose(factor.quad_diag(y), all_.quad_diag(y), rtol=1e-8)
    assert factor.logdet_noisy() == pytest.approx(all_.logdet_noisy(), rel=1e-9)
    assert factor.logdet() == pytest.approx(all_.logdet(), rel=1e-9)


def test_few_knots_are_the_best_that_knows_them_only(data: dict[str, np.ndarray]) -> None:
    """Titsias (2009), (6) and (10), with explicit matrices of the anchored kernel."""
    Z, X, new = data["X"][:12], data["X"], data["new"]
    few, n = seen(data, Z), len(X)
    kernel = V * ThinPlate.anchored(Z, M)
    K, Kz, Kzz, Kn = kernel(X), kernel(Z, X), kernel(Z), kernel(Z, new)
    inverse = np.linalg.pinv(Kzz, rcond=1e-13)
    Q, Qs = Kz.T @ inverse @ Kz, Kz.T @ inverse @ Kn
    noise, H, h = V * LAM / data["w"], data["H"], data["h"]
    y = data["y"]
    mean, cov = gp.posterior(Q + np.diag(noise), Qs, Kn.T @ inverse @ Kn, y, H, h)
    cov = cov + kernel(new) - Kn.T @ inverse @ Kn
    a, beta = few.coefficients(LAM)
    np.testing.assert_allclose(PolynomialBasis(M - 1)(Z).T @ a, 0.0, atol=1e-10)
    np.testing.assert_allclose(green(new, Z, M) @ a + h @ beta, mean, rtol=1e-8)
    operator = few.operator(V, LAM)
    A = V * green(Z, new, M)
    found = V * green(new, new, M) - operator.reduce(A, A, h, h)
    np.testing.assert_allclose(found, cov, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(-operator.reduce_diag(A, h), np.diagonal(cov), rtol=1e-7)
    np.testing.assert_allclose(V * few.unexplained, np.diagonal(K - Q), atol=1e-10)
    Ci = np.linalg.inv(Q + np.diag(noise))
    P = Ci - Ci @ H @ np.linalg.inv(H.T @ Ci @ H) @ H.T @ Ci
    factor = InducedFactor(few, V, LAM)
    np.testing.assert_allclose(factor.solve(np.eye(n)), P, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(factor.diag(), np.diagonal(P), rtol=1e-8)
    again = OPERATOR.read(OPERATOR.write(operator), None)
    np.testing.assert_array_equal(again.reduce(A, A, h, h), operator.reduce(A, A, h, h))


def test_rows_pass_in_blocks(data: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch) -> None:
    whole = seen(data, data["X"][:12])
    monkeypatch.setattr(
        InducingContrasts, "blocks", lambda self: (slice(i, i + 4) for i in range(0, 30, 4))
    )
    parts = seen(data, data["X"][:12])
    np.testing.assert_allclose(parts.d, whole.d, rtol=1e-9)
    np.testing.assert_allclose(parts.coefficients(LAM)[0], whole.coefficients(LAM)[0], rtol=1e-8)
    np.testing.assert_allclose(
        InducedFactor(parts, V, LAM).diag(), InducedFactor(whole, V, LAM).diag(), rtol=1e-9
    )


def test_knots_too_close_are_refused(data: dict[str, np.ndarray]) -> None:
    knots = np.vstack([data["X"][:6], data["X"][:1] + 1e-12])
    with pytest.raises(np.linalg.LinAlgError, match="choose fewer, or further apart"):
        seen(data, knots)


def test_spread_out_is_greedy(rng: np.random.Generator) -> None:
    X = rng.normal(size=(50, 2))
    rows = spread_out(X, 8)
    assert len(set(rows.tolist())) == 8
    for i in range(1, 8):
        far = np.linalg.norm(X[:, None] - X[rows[:i]], axis=2).min(axis=1)
        assert far[rows[i]] == far.max()
