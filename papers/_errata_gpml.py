"""Evidence for the errata of GPML chapter 6: R1 to R20 of docs/papers/errata.md."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from _errata_check import Check, evidence
from scipy import integrate, special
from scipy.interpolate import make_smoothing_spline

from mercer import SVC, GPRegressor, SmoothingSpline
from mercer.kernels import RBF, Linear, Spline
from mercer.losses import Gaussian, hinge_normaliser


@evidence
def r1() -> Check:
    return Check(
        "12 errors of 773, in per cent", 100 * np.mean(np.arange(773) < 12), 0.0155, 1.55, 5e-3
    )


@evidence
def r2() -> Check:
    at = np.linspace(-12, 12, 241)
    x, y = np.meshgrid(at, at)

    def penalty(angle: float, mixed: float) -> float:
        c, s = np.cos(angle), np.sin(angle)
        R = np.array([[c, -s], [s, c]])
        A = R @ np.diag([1.0, 0.2]) @ R.T
        f = np.exp(-(A[0, 0] * x**2 + 2 * A[0, 1] * x * y + A[1, 1] * y**2) / 2)
        u, v = A[0, 0] * x + A[0, 1] * y, A[0, 1] * x + A[1, 1] * y
        second = (u * u - A[0, 0]) ** 2 + mixed * (u * v - A[0, 1]) ** 2 + (v * v - A[1, 1]) ** 2
        return float(np.sum(second * f**2))

    printed, found = (penalty(np.pi / 4, m) / penalty(0.0, m) for m in (1.0, 2.0))
    return Check("penalty, m = 2, after a turn of 45 degrees / before", 1.0, printed, found, 1e-8)


@evidence
def r3() -> Check:
    rng = np.random.default_rng(0)
    x, a = np.sort(rng.uniform(0, 4, 8)), rng.normal(size=8)
    H = np.column_stack([np.ones(8), x])
    meets = a - H @ np.linalg.lstsq(H, a, rcond=None)[0]

    def curvature(coefficients: np.ndarray) -> float:
        return float(np.abs([6 * coefficients @ np.maximum(at - x, 0) for at in (5.0, 6.0)]).max())

    what = "largest second derivative right of the data (natural: 0)"
    return Check(what, 0.0, curvature(a), curvature(meets), 1e-9)


@evidence
def r4() -> Check:
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 4, 8))[:, None]
    model = SmoothingSpline(order=2, lam=0.01).fit(x, np.sin(2 * x[:, 0]))
    inner = model.predict(np.linspace(x[3, 0], x[4, 0], 9)[:, None])
    degree = max(k for k in range(1, 7) if np.abs(np.diff(inner, k)).max() > 1e-9)
    what = "degree between knots, m = 2 (a spline 'of order 3' is of degree 2)"
    return Check(what, degree, 2.0, 3.0)


@evidence
def r6() -> Check:
    z = np.random.default_rng(0).normal(size=(200, 4000))
    least = np.cumsum(z**2, axis=1)[:, -1].min() / 4000
    return Check("least sum of 4000 squares over 200 draws, / 4000", least, None, 1.0, 0.1)


@evidence
def r7() -> Check:
    x = np.array([[0.0], [0.0], [1.0]])
    K = RBF(1.0)(x)
    a = np.linalg.solve(K + 0.1 * np.eye(3), np.array([1.0, 1.0, -1.0]))
    other = a + np.array([0.5, -0.5, 0.0])
    assert np.abs(K @ (a - other)).max() < 1e-12  # the same function
    what = "distance of two coefficient vectors of the same minimiser, a row given twice"
    return Check(what, float(np.linalg.norm(a - other)), 0.0, None)


@evidence
def r8() -> Check:
    x = np.linspace(0, 2, 6)[:, None]
    y, lam = np.cos(3 * x[:, 0]), 0.3
    K = RBF(0.5)(x)
    a = np.linalg.solve(K + lam * np.eye(6), y)
    slope = (K @ a - y)[0]
    return Check("first coefficient, squared loss, lam = 0.3", a[0], -slope, -slope / lam, 1e-9)


@evidence
def r9() -> Check:
    x = np.linspace(0, 3, 12)
    y, lam = np.sin(3 * x), 0.05
    truth = float(make_smoothing_spline(x, y, lam=lam)(1.3))

    def at(noise_over_variance: float) -> float:
        model = SmoothingSpline(lam=noise_over_variance).fit(x[:, None], y)
        return float(model.predict(np.array([[1.3]]))[0])

    what = "smoothing spline (6.26) at a point, lam = 0.05: noise / variance = lam / 2, lam"
    return Check(what, truth, at(lam / 2), at(lam), 1e-9)


@evidence
def r10() -> Check:
    points = np.random.default_rng(0).normal(size=(5, 2))
    least = np.linalg.eigvalsh(Linear()(points)).min()
    return Check(
        "smallest eigenvalue, linear kernel, 5 points of the plane", least, None, 0.0, 1e-12
    )


@evidence
def r11() -> Check:
    def product(u: float) -> float:
        return max(1.5 - u, 0.0) * max(2.0 - u, 0.0)

    truth = integrate.quad(product, 0, 3, points=[1.5, 2.0])[0]
    printed = integrate.quad(product, 0, 1)[0]
    found = Spline(2, origin=0.0)(np.array([[1.5]]), np.array([[2.0]]))[0, 0]
    return Check("k(1.5, 2), the integral over all u", truth, printed, float(found), 1e-9)


@evidence
def r12() -> Check:
    X = np.array([[0.0], [0.0], [1.0], [2.0]])
    y = np.array([1, -1, 1, -1])
    wrong = np.sum(SVC(C=1e4, kernel=RBF(1.0)).fit(X, y).predict(X) != y)
    what = "training errors of a machine with infinitely many features, one row with both labels"
    return Check(what, float(wrong), 0.0, None)


@evidence
def r14() -> Check:
    one, zero = (sum(np.exp(-max(1 - t * f, 0.0)) for t in (-1, 1)) for f in (1.0, 0.0))
    found = float(hinge_normaliser(1.0) / hinge_normaliser(0.0))
    assert abs(found - np.cosh(1.0)) < 1e-12
    return Check("mass at f = 1 over mass at f = 0, C = 1", one / zero, 1.0, found)


@evidence
def r16() -> Check:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 3, (8, 1))
    y, noise = np.sin(X[:, 0]), 0.2
    Ky = RBF(1.0)(X) + noise * np.eye(8)
    total = 1 / np.linalg.inv(Ky)[0, 0]
    left = GPRegressor(RBF(1.0), loss=Gaussian(noise), search=None).fit(X[1:], y[1:])
    truth = float(left.predict_latent(X[:1])[1][0] ** 2)
    return Check("variance of f_1 given the others", truth, total, total - noise, 1e-8)


@evidence
def r17() -> Check:
    y, mu, s, be = 1.0, 0.4, 0.3, 0.1

    def log_p(al: float) -> float:
        return float(special.log_ndtr(y * (al * mu + be) / np.sqrt(1 + al * al * s)))

    al, h = 1.2, 1e-6
    truth = (log_p(al + h) - log_p(al - h)) / (2 * h)
    D = 1 + al * al * s
    r = (al * mu + be) / np.sqrt(D)
    rho = y * np.exp(-r * r / 2) / np.sqrt(2 * np.pi) / special.ndtr(y * r)
    found = rho * (mu - be * al * s) / D**1.5
    return Check("derivative (6.44) with N the standard normal density", truth, None, found, 1e-8)


@evidence
def r18() -> Check:
    stored = json.loads((Path(__file__).parent / "usps_3v5.json").read_text(encoding="utf-8"))
    bits = stored["noise"]["bits"]
    return Check("bits at the optimum of (6.42)", bits, float(stored["book"]["bits"]), None)


@evidence
def r19() -> Check:
    B = np.random.default_rng(0).normal(size=(6, 6))
    root = np.diag([0.0, 1, 1, 1, 1, 1])
    rank = np.linalg.matrix_rank(root @ (B @ B.T + 0.1 * np.eye(6)) @ root)
    what = "eigenfunctions with an eigenvalue above 0, n = 6, one point of mass 0"
    return Check(what, float(rank), 6.0, 5.0)


@evidence
def r20() -> Check:
    x = np.linspace(-3, 3, 20)[:, None]
    F = RBF(1.0)(x, x[[3, 9, 15]])
    rank = np.linalg.matrix_rank(F @ np.diag([1.0, 0.5, 2.0]) @ F.T)
    return Check("rank of (6.45) on 20 points, 3 functions", float(rank), None, 3.0)
