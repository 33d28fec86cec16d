"""Evidence for the errata of Jaakkola and Haussler (J1 to J14) and of Hou and Hero (H1 to H19)."""

from __future__ import annotations

import json
from pathlib import Path

import _hou_hero_averaged
import numpy as np
from _errata_check import Check, evidence
from scipy import optimize, special
from scipy.sparse import csr_array

from mercer import SVC, KernelClassifier, MEDClassifier
from mercer.kernels import RBF, Constant
from mercer.linalg.graph import Smoothness, neighbour_graph
from mercer.losses import Hinge, Logistic, Margin


def lam(xi: np.ndarray | float) -> np.ndarray:
    """l(xi) = tanh(xi / 2) / (4 xi)."""
    return np.tanh(np.asarray(xi) / 2) / (4 * np.asarray(xi))


def problem(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs (n, 2) and labels of two overlapping classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)


@evidence
def j1() -> Check:
    z = np.linspace(-12, 12, 241)
    xi = np.array([0.5, 1.0, 2.0, 5.0])[:, None]

    def excess(sign: float) -> float:
        bound = np.log(special.expit(xi)) + (z - xi) / 2 + sign * lam(xi) * (z**2 - xi**2)
        return float(max((bound - np.log(special.expit(z))).max(), 0.0))

    what = "largest excess of the 'lower bound' over log sigma on [-12, 12]"
    return Check(what, 0.0, excess(1.0), excess(-1.0), 1e-12)


def potential(z: np.ndarray | float, share: float) -> np.ndarray:
    """What (27) minimises for the logistic loss: share z + log(1 + e^-z)."""
    return share * np.asarray(z) + np.logaddexp(0, -np.asarray(z))


@evidence
def j2() -> Check:
    truth = -0.3 * np.log(0.3) - 0.7 * np.log(0.7)
    printed = float(potential(np.array([-100.0, 100.0]), 0.3).max())
    found = optimize.minimize_scalar(
        lambda z: float(potential(z, 0.3)), bounds=(-9, 9), method="bounded"
    )
    what = "F(0.3), the binary entropy (printed: the maximum, over |Z| <= 100 only)"
    return Check(what, truth, printed, found.fun, 1e-9)


@evidence
def j3() -> Check:
    found = optimize.brentq(lambda z: 0.3 - special.expit(-z), -9, 9, xtol=1e-14)
    printed, corrected = -np.log(0.3) / 0.7, -np.log(0.3 / 0.7)
    return Check("Z at lambda = 0.3, S = 1", found, printed, corrected, 1e-9)


def row(order: int) -> np.ndarray:
    """The new row K_{s-1}(k, s) of (18), entries of each stage in the given direction."""
    X, _ = problem(12)
    K = 3.0 * RBF(1.0)(X)
    stored, c = np.zeros((12, 12)), np.zeros(12)
    for k in range(12):
        entries = K[k, : k + 1].copy()
        for s in range(k):
            stored[k, s] = entries[s]
            for j in range(s + 1, k + 1)[::order]:
                entries[j] -= c[s] * entries[s] * (stored[j, s] if j < k else entries[s])
        stored[k, k] = entries[k]
        c[k] = 1 / (entries[k] + 4.0)
    return stored


@evidence
def j4() -> Check:
    what = "difference between the rows updated in one order and in the other"
    return Check(what, float(np.abs(row(1) - row(-1)).max()), None, 0.0, 0.0)


@evidence
def j6() -> Check:
    X, y = problem(10)
    X[1], y[1] = X[0], y[0]
    Q = 4.0 * RBF(1.0)(X) * np.outer(y, y)

    def minus(a: np.ndarray) -> tuple[float, np.ndarray]:
        return float(0.5 * a @ Q @ a - a.sum()), Q @ a - 1

    first = optimize.minimize(minus, np.zeros(10), jac=True, bounds=[(0, 1)] * 10, tol=1e-14).x
    other, both = first.copy(), first[0] + first[1]
    other[:2] = min(both, 1.0), both - min(both, 1.0)  # all of it on one of the two copies
    assert minus(other)[0] <= minus(first)[0] + 1e-12  # as good, and the same f
    what = "distance of two optimal lambda of the hinge with the same f, a row given twice"
    return Check(what, float(np.linalg.norm(first - other)), 0.0, None)


@evidence
def j7() -> Check:
    X = np.array([[-0.81], [-0.57], [0.65], [-0.16], [-0.21], [-3.27], [-1.30], [-0.77]])
    y = np.array([1, -1, 1, -1, -1, 1, -1, 1])
    kernel = RBF(np.sqrt(0.5))

    def broken(machine) -> int:
        whole = machine().fit(X, y)
        lam_ = np.zeros(8)
        if hasattr(whole, "support_"):
            lam_[whole.support_] = np.abs(whole.dual_coef_[0])
            bound = y * whole.decision_function(X) - lam_ * 1.0
        else:
            bound = whole.loo_.bound[:, 0]
        left = [machine().fit(np.delete(X, i, 0), np.delete(y, i)) for i in range(8)]
        margin = [y[i] * m.decision_function(X[[i]])[0] for i, m in enumerate(left)]
        return int(np.sum(np.array(margin) < bound - 1e-3))

    printed = broken(lambda: SVC(C=2.0, kernel=kernel, tol=1e-8))
    found = broken(lambda: KernelClassifier(kernel, loss=Hinge(2.0), basis=None, search=None))
    what = "left-out margins below the bound, of 8: with a free bias, without"
    return Check(what, 0.0, printed, found)


@evidence
def j8() -> Check:
    mass = sum(np.exp(-Hinge().value(t, 0.0)) for t in (-1.0, 1.0))
    return Check("exp(-hinge) over both labels at f = 0", float(mass), 1.0, 2 * np.exp(-1.0))


@evidence
def j9() -> Check:
    slope = float(-Logistic().derivatives(1.0, -40.0)[0])
    return Check("slope of log sigma(z) at z = -40 (sublinear: 0)", slope, 0.0, 1.0, 1e-9)


@evidence
def j10() -> Check:
    return j6()._replace(what="as for Definition 1: distance of two optimal lambda with the same f")


@evidence
def j12() -> Check:
    kappa, mean, steps, xi = 1e4, 0.5, 0, 1.0
    while True:
        q = 1 / (1 + 2 * lam(xi) * kappa)
        new = float(np.sqrt(q * kappa + q**2 * (mean + kappa / 2) ** 2))
        steps += 1
        if abs(new - xi) < 1e-8 * xi:
            break
        xi = new
    what = "iterations of (15) to 1e-8 at a prior variance of 10 000"
    return Check(what, float(steps), None, None)


@evidence
def j13() -> Check:
    kappa, mean = 4.0, 0.5

    def log_q(S: float) -> float:
        def minus(xi: float) -> float:
            d = 1 + 2 * lam(xi) * kappa
            value = np.log(special.expit(xi)) - xi / 2 + lam(xi) * xi**2 - 0.5 * np.log(d)
            return float(-(value + (S * mean + kappa / 4 - 2 * lam(xi) * mean**2) / (2 * d)))

        return -optimize.minimize_scalar(minus, bounds=(1e-6, 20), method="bounded").fun

    bounds = np.exp(log_q(1.0)) + np.exp(log_q(-1.0))
    z = mean + np.sqrt(kappa) * np.linspace(-9, 9, 2001)
    weight = np.exp(-(np.linspace(-9, 9, 2001) ** 2) / 2)
    averages = sum(weight @ special.expit(s * z) / weight.sum() for s in (1, -1))
    what = "sum over the labels of the two bounds (14), and of the averaged probabilities"
    return Check(what, 1.0, bounds, averages, 1e-9)


@evidence
def h1() -> Check:
    X, y = problem(30)
    C = 10.0
    model = MEDClassifier(C, amplitude=1.0, kernel=RBF(1.0)).fit(X, y)
    K, a = RBF(1.0)(X), np.zeros(30)
    a[model.support_] = np.abs(model.dual_coef_[0])
    i = int(model.support_[np.argmin(y[model.support_])])  # of the class -1
    offset = float(model.intercept_[0])
    printed, found = (y[i] * (K[i] @ c + offset) for c in (a, y * a))
    what = "margin of a support vector (optimality: 1 - 1 / (C - alpha))"
    return Check(what, 1 - 1 / (C - a[i]), printed, found, 1e-4)


@evidence
def h3() -> Check:
    X, y = problem(12)
    Q, C = RBF(1.0)(X) * np.outer(y, y), 0.9

    def minus(a: np.ndarray) -> float:
        return float(0.5 * a @ Q @ a - np.sum(a + np.log(1 - a / C)))

    best = optimize.minimize(minus, np.full(12, 0.3), bounds=[(0, 0.89)] * 12, tol=1e-12)
    svm = SVC(C=C, kernel=RBF(1.0)).fit(X, y)
    what = "largest alpha at C = 0.9 (printed: the SVM's)"
    return Check(what, float(best.x.max()), float(np.abs(svm.dual_coef_).max()), 0.0, 1e-6)


def curve(figure: str, method: str) -> np.ndarray:
    """Stored accuracy after each batch, mean over the streams; NaN for batches left out."""
    lines = (Path(__file__).parent / "hou_hero.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [one for one in map(json.loads, lines) if one["figure"] == figure]
    found = [one["accuracy"] for one in rows if one["method"] == method]
    return np.array(found, dtype=np.float64).mean(axis=0)


def streams(figure: str, method: str) -> float:
    """Mean accuracy over streams and batches."""
    return float(np.nanmean(curve(figure, method)))


@evidence
def h4() -> Check:
    what = "mean accuracy in figure 1: amplitude 0.01; amplitude 1, C of the SVM's kind (printed)"
    return Check(what, streams("1", "med"), streams("1", "med-1"), None, 1e-3)


@evidence
def h6() -> Check:
    X, y = problem(30)
    truth = float(MEDClassifier(10.0, amplitude=1.0, kernel=RBF(1.0)).fit(X, y).intercept_[0])
    wide = 1e4
    machine = KernelClassifier(
        RBF(1.0) + Constant(wide), loss=Margin(10.0), basis=None, search=None
    )
    f = machine.fit(X, y).decision_function(X)
    alpha = -Margin(10.0).derivatives(y, f)[0]
    what = "offset: posterior mean for a prior of variance 1e4, and the multiplier"
    return Check(what, truth, 0.0, float(wide * alpha.sum()), 5e-3)


@evidence
def h8() -> Check:
    X, y = problem(30)
    C = 1.5
    model = MEDClassifier(C, amplitude=1.0, kernel=RBF(1.0)).fit(X, y)
    found = float(model.intercept_[0])
    f = model.decision_function(X) - found

    def primal(b: float) -> float:
        return float(Margin(C).value(y, f + b).sum())

    truth = optimize.minimize_scalar(
        primal, bounds=(-3, 3), method="bounded", options={"xatol": 1e-10}
    ).x
    printed = float(np.median((y - f)[model.support_]))
    return Check("offset that minimises the objective at f, C = 1.5", truth, printed, found, 1e-4)


@evidence
def h10() -> Check:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 3))
    L = neighbour_graph(X, 4).laplacian.toarray()
    beta, new = 1e8, np.array([[0.5, -0.2, 0.1]])
    G = np.eye(3) + 2 * beta * X.T @ L @ X  # explicit features of the linear kernel
    truth = float((new @ np.linalg.solve(G, new.T))[0, 0])
    K, k = X @ X.T, X @ new.T
    M = 2 * beta * L
    half = Smoothness(K, csr_array(M)).root() @ k
    found = new @ new.T - half.T @ half
    # the printed inverse does not exist; with L + 1e-9 I in its place rounding is all there is
    what = "k_new(x, x), linear kernel, beta = 1e8, times 1e8 (printed: inverts a singular L)"
    return Check(what, 1e8 * truth, None, 1e8 * found[0, 0], 0.02)


def partition() -> tuple[float, float, float, float]:
    """Return -log Z by quadrature and the three parts of its formula, for one weight."""
    g0, g1, h0, h1 = 1.5, 2.7, 0.8, -0.6
    theta = np.linspace(-12, 12, 200_001)
    density = np.exp(-g0 / 2 * (theta - h0 / g0) ** 2) * np.sqrt(g0 / (2 * np.pi))
    inside = density * np.exp((h1 - h0) * theta - (g1 - g0) / 2 * theta**2)
    return -np.log(np.sum(inside) * (theta[1] - theta[0])), np.log(g1 / g0), h1**2 / g1, h0**2 / g0


@evidence
def h12() -> Check:
    truth, logdet, new, old = partition()
    found = 0.5 * logdet - 0.5 * (new - old)
    return Check("-log Z_theta, one weight", truth, 0.5 * logdet - 0.5 * (new + old), found, 1e-8)


@evidence
def h13() -> Check:
    truth, logdet, new, old = partition()  # det k_t / det k_{t-1} is the inverse of that of G
    found = -0.5 * (-logdet + new - old)
    return Check("-log Z_omega, one point", truth, -0.5 * (-logdet - new + old), found, 1e-8)


@evidence
def h14() -> Check:
    rng = np.random.default_rng(0)
    batches = []
    for _ in range(6):
        X = ball(rng, 60)
        batches.append((X, neighbour_graph(X, 10, 0.05).laplacian.toarray()))
    kernel, beta, Z = RBF(1.0), 0.5, ball(rng, 40)
    M = _blocks([2 * beta * L for _, L in batches])
    exact = _hou_hero_averaged._less(kernel, np.vstack([X for X, _ in batches]), M)(Z, Z)
    *past, (X, L) = batches
    V, d = _hou_hero_averaged.vectors(past, "smallest")
    prior = _hou_hero_averaged._less(kernel, V, np.diag(2 * beta * len(past) * d))
    short = _hou_hero_averaged._less(prior, X, 2 * beta * L)(Z, Z)
    error = np.linalg.norm(short - exact) / np.linalg.norm(exact)
    return Check(
        "relative error of the approximate kernel after 6 batches", float(error), 0.0, None
    )


def ball(rng: np.random.Generator, n: int) -> np.ndarray:
    """Points of the unit ball with uniform radii, (n, 3)."""
    X = rng.normal(size=(n, 3))
    return X / np.linalg.norm(X, axis=1, keepdims=True) * rng.uniform(size=(n, 1))


def _blocks(parts: list[np.ndarray]) -> np.ndarray:
    sizes = [len(part) for part in parts]
    whole, at = np.zeros((sum(sizes), sum(sizes))), 0
    for part in parts:
        whole[at : at + len(part), at : at + len(part)] = part
        at += len(part)
    return whole


@evidence
def h16() -> Check:
    rng = np.random.default_rng(0)
    second = np.linalg.eigvalsh(neighbour_graph(ball(rng, 100), 20, 0.01).laplacian.toarray())[1]
    what = "second eigenvalue of the Laplacian at heat 0.01 (0: the graph falls apart)"
    return Check(what, float(second), None, 0.0, 0.05)


@evidence
def h17() -> Check:
    what = "mean accuracy in figure 1: C / sqrt(t); constant C (printed)"
    return Check(what, streams("1", "med"), streams("1", "med-constant"), None, 1e-4)


@evidence
def h18() -> Check:
    ahead = (curve("1", "med") - curve("1", "full"))[~np.isnan(curve("1", "full"))]
    what = f"batches, of {len(ahead)}, where the sequential machine is ahead of retraining"
    return Check(what, float(np.sum(ahead > 0)), 0.0, None)
