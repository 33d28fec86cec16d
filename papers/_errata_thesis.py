"""Evidence for the errata of Seeger's thesis: T1 to T34 of docs/papers/errata.md."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import numpy as np
import skilling_bounds
from _errata_check import Check, evidence
from scipy import integrate, optimize, special

from mercer import GPClassifier, KernelClassifier
from mercer.kernels import RBF
from mercer.losses import Flip, Hinge, Logistic, NormalizedHinge, hinge_normaliser, reweight

logistic = Logistic()


def problem(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return inputs (n, 2), labels of two overlapping classes, and the matrix of a unit RBF."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y, RBF(1.0)(X)


def slope(function, at: float, h: float = 1e-5) -> float:
    """Central difference of a function of one number."""
    return float((function(at + h) - function(at - h)) / (2 * h))


def average(function, m: float, v: float) -> float:
    """The mean of a function of f ~ N(m, v) by adaptive quadrature."""
    s = np.sqrt(v)

    def weighted(z: float) -> float:
        return float(function(m + s * z) * np.exp(-z * z / 2) / np.sqrt(2 * np.pi))

    return integrate.quad(weighted, -12, 12, epsabs=1e-12, epsrel=1e-12, limit=200)[0]


@evidence
def t1() -> Check:
    found = float(np.exp(-logistic.value(1.0, 2.0)))
    truth = np.exp(2) / (np.exp(2) + 1)
    return Check("P(+1) at log odds 2", truth, float(special.expit(-2.0)), found)


@evidence
def t2() -> Check:
    kept = np.random.default_rng(0).uniform(size=200_000) < 0.9
    found = float(np.exp(-Flip(eps=0.1).value(1.0, 5.0)))
    return Check("P(+1) for y > 0, label kept with 0.9", kept.mean(), 0.9 + 1 - 1.8, found, 5e-3)


@evidence
def t4() -> Check:
    X, y, K = problem(6)
    Q = K * np.outer(y, y)
    model = KernelClassifier(RBF(1.0), loss=Hinge(1.0), basis=None, search=None).fit(X, y)
    f = model.decision_function(X)
    primal = 0.5 * f @ np.linalg.solve(K, f) + np.maximum(1 - y * f, 0).sum()

    def dual(a: np.ndarray) -> float:
        return float(a.sum() - 0.5 * a @ Q @ a)

    most = -optimize.minimize(
        lambda a: (-dual(a), Q @ a - 1), np.full(6, 0.5), jac=True, bounds=[(0, 1)] * 6, tol=1e-12
    ).fun
    least = min(dual(np.array(corner)) for corner in itertools.product((0.0, 1.0), repeat=6))
    return Check("value of the dual, without a bias", primal, least, most, 1e-5)


@evidence
def t5() -> Check:
    X, y, R = problem(8)
    lam = 0.05

    def smoothing(c: np.ndarray) -> float:  # (2.7)
        return float(np.logaddexp(0, -y * (R @ c)).mean() + lam * c @ R @ c)

    def slopes(c: np.ndarray) -> np.ndarray:
        return R @ (-y * special.expit(-y * (R @ c)) / 8 + 2 * lam * c)

    c = optimize.minimize(smoothing, np.zeros(8), jac=slopes, tol=1e-14, method="BFGS").x

    def first(variance: float) -> float:
        machine = KernelClassifier(variance * RBF(1.0), loss="logistic", basis=None, search=None)
        return float(machine.fit(X, y).decision_function(X[:1])[0])

    C = 1 / (2 * 8 * lam)
    return Check("minimiser at the first row", (R @ c)[0], first(C / 2), first(C), 1e-4)


@evidence
def t6() -> Check:
    C, y, t = 1.5, -0.4, -1.0
    xi = np.random.default_rng(0).exponential(1 / C, size=200_000)
    truth = float(np.exp(-Hinge(C).value(t, y)))
    printed, corrected = np.mean(t * (y + xi) > 1), np.mean(t * y + xi > 1)
    return Check("P(t = -1) at y = -0.4, C = 1.5", truth, printed, corrected, 5e-3)


@evidence
def t7() -> Check:
    truth = sum(np.exp(-Hinge().value(t, 0.5)) for t in (-1.0, 1.0))
    found = hinge_normaliser(0.5) * (1 + np.exp(-2.0))
    return Check(
        "mass of the two labels at y = 1/2", truth, np.exp(0.5) + np.exp(1.5), float(found)
    )


@evidence
def t8() -> Check:
    loss, h = NormalizedHinge(), 1e-6
    right, left = (loss.value(1.0, -1.0 + s * h) for s in (1, -1))
    truth = float((right - 2 * loss.value(1.0, -1.0) + left) / h)
    found = -special.expit(2.0)
    return Check("jump of the slope at t y = -1 (convex: >= 0)", truth, 0.0, float(found), 1e-5)


@evidence
def t9() -> Check:
    trials = np.random.default_rng(0).geometric(0.3, size=200_000).mean()
    return Check("mean number of trials, N = 0.3", trials, 0.7 / 0.3, 1 / 0.3, 0.02)


@evidence
def t10() -> Check:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, size=200_000)  # y(0) = 0, y(1) = 2
    mass = hinge_normaliser(np.array([0.0, 2.0]))
    kept = rng.uniform(size=len(x)) < mass[x]
    return Check("share of the input with y = 2", x[kept].mean(), None, mass[1] / mass.sum(), 5e-3)


@evidence
def t11() -> Check:
    u = 0.01
    found = 1 - np.log(2) + np.log1p(np.exp(-2 * u))
    return Check("exp(-0.01)", np.exp(-u), np.log1p(np.exp(-u)), found)


@evidence
def t14() -> Check:
    mode, a = 0.8, 0.3
    w = logistic.derivatives(1.0, mode)[1]

    def second_order(mu: float) -> float:
        d1 = logistic.derivatives(1.0, mu)[0]
        return float(logistic.value(1.0, mu) + d1 * (a - mu) + w / 2 * (a - mu) ** 2)

    what = "derivative in mu at mu = -0.8, where g'' = w again, a = 0.3"
    return Check(what, slope(second_order, -mode), None, 0.0, 1e-8)


def laplace() -> tuple[float, float, int]:
    """Return -log evidence of a Laplace fit, the same by (4.16) without its + n, and n."""
    X, y, K = problem(20)
    model = GPClassifier(RBF(1.0), loss="logistic", inference="laplace", search=None).fit(X, y)
    f = model.predict_latent(X)[0]
    d2 = logistic.derivatives(y, f)[1]
    joint = logistic.value(y, f).sum() + 0.5 * f @ np.linalg.solve(K, f)
    joint += 0.5 * np.linalg.slogdet(2 * np.pi * K)[1]
    inner = 0.5 * np.linalg.slogdet(np.linalg.inv(K) + np.diag(d2))[1]
    return -model.log_evidence_, float(joint + inner - 10 * np.log(2 * np.pi)), 20


@evidence
def t15() -> Check:
    truth, found, n = laplace()
    return Check("-log evidence of Laplace, n = 20", truth, found + n, found, 1e-5)


@evidence
def t16() -> Check:
    _, y, K = problem(5)
    inverse, rng = np.linalg.inv(K + 1e-3 * np.eye(5)), np.random.default_rng(0)

    def free_energy(mu: np.ndarray, L: np.ndarray) -> float:
        S = L @ L.T
        nu = logistic.expected(y, mu, np.diag(S))[0].sum()
        kl = 0.5 * mu @ inverse @ mu + 0.5 * np.sum(inverse * S) - np.log(np.diag(L)).sum()
        return float(nu + kl)

    def random() -> tuple[np.ndarray, np.ndarray]:
        L = np.tril(rng.normal(size=(5, 5)))
        np.fill_diagonal(L, np.abs(np.diag(L)) + 0.1)
        return 2 * rng.normal(size=5), L

    broken = 0
    for _ in range(200):
        (m0, L0), (m1, L1) = random(), random()
        middle = free_energy((m0 + m1) / 2, (L0 + L1) / 2)
        broken += middle > 0.5 * (free_energy(m0, L0) + free_energy(m1, L1))
    return Check("midpoints above the chord, of 200 in (mu, Cholesky factor)", broken, None, 0.0)


@evidence
def t17() -> Check:
    X, _, K = problem(10)
    W = np.diag(np.linspace(0.0, 0.25, 10))
    new = RBF(1.0)(X, np.zeros((1, 2)))[:, 0]
    truth = 1 - new @ np.linalg.solve(np.eye(10) + W @ K, W @ new)
    S = np.sqrt(W)
    half = np.linalg.solve(np.linalg.cholesky(np.eye(10) + S @ K @ S), S @ new)
    return Check("variance at a new point", truth, None, 1 - half @ half, 1e-12)


@evidence
def t18() -> Check:
    _, y, K = problem(20)
    K = 4 * K

    def step(mu: np.ndarray, sign: float) -> tuple[np.ndarray, float]:
        _, pi, dv = logistic.expected(y, mu, np.full(20, 0.5))
        B = np.diag(2 * dv)
        a = np.linalg.solve(np.eye(20) + B @ K, B @ mu + sign * pi)
        mu = K @ a
        return mu, float(np.abs(a + logistic.expected(y, mu, np.full(20, 0.5))[1]).max())

    mu, residual = np.zeros(20), np.inf
    for _ in range(8):
        mu, residual = step(mu, -1.0)
    away = mu
    for _ in range(8):
        away, printed = step(away, 1.0)
    what = "gradient after 8 steps (as printed: from the solution)"
    return Check(what, 0.0, printed, residual, 1e-9)


def free_energy_of_sites(y: np.ndarray, K: np.ndarray, W: np.ndarray) -> float:
    """F at mean 0 for Sigma = (K^-1 + diag W)^-1, up to a constant."""
    S = np.linalg.inv(np.linalg.inv(K) + np.diag(W))
    nu = logistic.expected(y, np.zeros(len(y)), np.diag(S))[0].sum()
    return float(nu + 0.5 * np.sum(np.linalg.inv(K) * S) - 0.5 * np.linalg.slogdet(S)[1])


@evidence
def t19() -> Check:
    _, y, K = problem(8)
    K = 3 * K + 1e-2 * np.eye(8)
    W = np.linspace(0.1, 0.5, 8)
    S = np.linalg.inv(np.linalg.inv(K) + np.diag(W))
    by_variance = logistic.expected(y, np.zeros(8), np.diag(S))[2] - W / 2

    def at(value: float) -> float:
        return free_energy_of_sites(y, K, np.r_[value, W[1:]])

    printed, found = -S[0] @ by_variance, -(S[0] ** 2) @ by_variance
    return Check("dF/dd_1", slope(at, W[0]), printed, found, 1e-6)


@evidence
def t20() -> Check:
    _, _, K = problem(8)
    K = 3 * K + 1e-2 * np.eye(8)
    W = np.linspace(0.1, 0.5, 8)

    def variance(value: float) -> float:
        inside = np.linalg.inv(K) + np.diag(np.r_[value, W[1:]])
        return float(np.linalg.inv(inside)[0, 0])

    s2 = variance(W[0])
    return Check("d sigma_1^2 / d d_1", slope(variance, W[0]), -s2, -(s2**2), 1e-6)


@evidence
def t21() -> Check:
    _, _, K = problem(12)
    C = K + 0.5 * np.eye(12)
    b = np.sin(np.arange(12.0))
    x = np.linalg.solve(C, b)
    left = b * (b @ b) / (b @ C @ b) - x  # after one step of conjugate gradients
    ratio = (left @ C @ left) / (x @ C @ x)
    factor = 1 + np.linalg.eigvalsh(C) * np.linspace(-3, 0, 31)[:, None]
    printed, found = np.sum(factor.max(axis=1) < ratio), np.sum((factor**2).max(axis=1) < ratio)
    what = "constants P, of 31, whose 'bound' is below E(y_1) / E(y_0)"
    return Check(what, 0.0, float(printed), float(found))


@evidence
def t23() -> Check:
    _, _, K = problem(40)
    a, b = 0.05, np.sin(np.arange(40.0))
    values, U = np.linalg.eigh(K + a * np.eye(40))
    exact = np.log(values) @ (U.T @ b) ** 2
    main, side = skilling_bounds.lanczos(K, b, 10)
    above = below = 0
    for r in range(1, 11):
        T = np.diag(main[:r]) + np.diag(side[: r - 1], 1) + np.diag(side[: r - 1], -1)
        nodes, vectors = np.linalg.eigh(T)
        gauss = (b @ b) * float(vectors[0] ** 2 @ np.log(nodes + a))
        radau = (b @ b) * skilling_bounds._radau(T, side[r - 1], a, np.log)
        above, below = above + (gauss > exact), below + (radau > exact)
    return Check("'lower bounds' on r'log(C)r above it, 10 steps", 0.0, above, below)


@evidence
def t24() -> Check:
    def spread(n: int) -> tuple[float, np.ndarray]:
        K = RBF(0.5)(np.linspace(0, 1, n)[:, None])
        off = np.sum(K**2) - np.sum(np.diag(K) ** 2)
        return float(np.sqrt(2 * off) / np.trace(K)), K

    small, (found, K) = spread(100)[0], spread(400)
    z = np.random.default_rng(0).choice([-1.0, 1.0], size=(400, 2000))
    truth = np.std(np.sum(z * (K @ z), axis=0)) / 400
    what = "relative error of one probe, n = 400 (printed: half of that at n = 100)"
    return Check(what, truth, small / 2, found, 0.03)


@evidence
def t25() -> Check:
    _, _, K = problem(6)
    K = K + 0.1 * np.eye(6)
    S = np.linalg.inv(np.linalg.inv(K) + np.diag(np.linspace(0.1, 0.6, 6)))
    G = K * np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))
    inverse = np.linalg.inv(K)
    truth = np.trace(inverse @ (S @ inverse - np.eye(6)) @ G)
    printed = corrected = 0.0
    for u in np.eye(6):  # all of them: no sampling error
        v, w = inverse @ u, inverse @ S @ u
        printed, corrected = printed + w @ G @ v, corrected + (w - u) @ G @ v
    return Check("tr K^-1 (Sigma K^-1 - I) G", truth, printed, corrected, 1e-9)


@evidence
def t26() -> Check:
    _, y, K = problem(6)
    K, n = K + 0.1 * np.eye(6), 6
    factor = 0.3 * np.random.default_rng(0).normal(size=(6, 2))
    inverse = np.linalg.inv(K)

    def covariance(alpha: float) -> np.ndarray:
        return alpha / n * np.eye(n) + factor @ factor.T

    def energy(alpha: float) -> float:
        S = covariance(alpha)
        nu = logistic.expected(y, np.zeros(n), np.diag(S))[0].sum()
        return float(nu + 0.5 * np.sum(inverse * S) - 0.5 * np.linalg.slogdet(S)[1])

    S = covariance(2.0)
    W = logistic.expected(y, np.zeros(n), np.diag(S))[2].sum()
    half = 0.5 * np.trace(inverse - np.linalg.inv(S))
    return Check("n dF/dalpha", slope(energy, 2.0), (W - half) / n, (W + half) / n, 1e-6)


@evidence
def t29() -> Check:
    m, v = 0.3, 0.8

    def loss(f: float) -> float:
        return float(logistic.value(1.0, f))

    truth = slope(lambda s2: average(loss, m, s2), v, 1e-4)
    printed = average(lambda f: -loss(f) * (f - m) ** 2 / v**1.5, m, v)
    found = average(lambda f: loss(f) * ((f - m) ** 2 / (2 * v**2) - 1 / (2 * v)), m, v)
    return Check("d E[g] / d sigma^2, Bernoulli noise", truth, printed, found, 1e-6)


@evidence
def t30() -> Check:
    C, mu, s2 = 1.0, 0.4, 0.8
    s = np.sqrt(s2)

    def cdf(x: float, m: float) -> float:
        return float(special.ndtr((x - m) / s))

    def small(m: float) -> float:  # e^{-A1}, and e^{-A3} at -m
        return float(np.exp(C * (m - 1) + C**2 * s2 / 2) * cdf(-1 - C * s2, m))

    def third(m: float) -> float:
        p = cdf(-1, -m)
        return float(p * np.log1p(small(-m) / p))

    def g(x: float, m: float) -> float:
        return float(-np.exp(-((x - m) ** 2) / (2 * s2)) / np.sqrt(2 * np.pi * s2) / cdf(x, m))

    lam = 1 / (1 + small(-mu) / cdf(-1, -mu))
    inner = C + g(-1 - C * s2, -mu) - g(-1, -mu)

    def gradient(e: float) -> float:
        return -(g(-1, -mu) * third(mu) + lam * e * inner)

    return Check("dB_3/dmu", slope(third, mu), gradient(small(mu)), gradient(small(-mu)), 1e-8)


@evidence
def t31() -> Check:
    truth = average(lambda f: float(logistic.derivatives(1.0, f)[1]), 0.3, 0.8)
    dv = float(logistic.expected(1.0, np.array([0.3]), np.array([0.8]))[2][0])
    return Check("E[g''], and d E[g] / d sigma^2 without the factor 2", truth, dv, 2 * dv, 1e-8)


def waveform_error(peaks: tuple[tuple[int, int], tuple[int, int]]) -> float:
    """Error in per cent of the best linear rule between two waveform classes, 40 000 draws."""
    rng, at = np.random.default_rng(0), np.arange(1, 22)
    n = 20_000
    rows = []
    for a, b in peaks:
        bumps = [np.maximum(6 - np.abs(at - peak), 0) for peak in (a, b)]
        u = rng.uniform(size=(n, 1))
        rows.append(u * bumps[0] + (1 - u) * bumps[1] + rng.normal(size=(n, 21)))
    X, y = np.vstack(rows), np.repeat([1.0, -1.0], n)
    Z = np.column_stack([X, np.ones(2 * n)])
    coefficients = np.linalg.solve(Z.T @ Z, Z.T @ y)
    return float(100 * np.mean(np.sign(Z @ coefficients) != y))


@evidence
def t32() -> Check:
    # the thesis itself has 220 linear errors of 2504
    truth = 100 * 220 / 2504
    printed, found = waveform_error(((7, 11), (15, 11))), waveform_error(((7, 15), (7, 11)))
    return Check(
        "linear error in per cent (truth: the thesis' own 220 of 2504)", truth, printed, found, 1.2
    )


@evidence
def t33() -> Check:
    truth = np.nan
    folder = os.environ.get("MERCER_DATA")
    if folder:
        with np.load(Path(folder) / "raetsch_ringnorm" / "ringnorm.npz") as file:
            X, y = file["X"].astype(float), file["t"].astype(float)
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        truth = abs(float(X[y > 0].mean() - X[y < 0].mean())) / 2

    def mean(a: float) -> float:  # of a class after standardising the mixture of N(0, 4), N(a, 1)
        return a / 2 / np.sqrt(2.5 + a * a / 4)

    one = 1 / np.sqrt(20)
    return Check("class means after standardising", truth, mean(one), mean(2 * one), 5e-3)


@evidence
def t34() -> Check:
    best = optimize.minimize_scalar(
        lambda u: -float(reweight(u)), bounds=(-3, 0.9), method="bounded"
    )
    return Check("largest weight of a row, in C", -best.fun, 1.6, 1.5422, 1e-4)
