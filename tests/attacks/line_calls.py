"""How the compiled algebra on a line is called: splines and Matern kernels."""

from __future__ import annotations

import numpy as np

from mercer._native import averages, markov
from mercer.linalg.spline import hermite, unit_cholesky
from tests.attacks.native_draws import PROFILES, Arguments, Case, empty, size


def line(rng: np.random.Generator) -> tuple[Arguments, int]:
    """A spline's observations, at least as many as its order."""
    m = int(rng.integers(1, 7))
    n = size(rng, m + 1) if m < 4 else m + 2
    given = {"L1": unit_cholesky(m), "gaps": rng.uniform(0.5, 1.5, n - 1)}
    return given | {"W": rng.uniform(0.5, 2.0, n), "y": rng.normal(size=n)}, m


def dense(given: Arguments, m: int, sf: float) -> tuple[np.ndarray, np.ndarray]:
    """Posterior mean and covariance of g at the points, with a prior of 1e7 on the polynomial.

    Built from the state's own steps, forward: nothing of the filter is used.
    """
    n, powers = len(given["W"]), np.arange(m)
    K, cov, rows = np.zeros((n, n)), np.diag(np.full(m, 1e7)), []
    for t in range(n):
        if t:
            d = given["gaps"][t - 1]
            A = np.triu([[d ** max(j - i, 0) for j in powers] for i in powers])  # m is 1 or 2
            L = sf * np.diag(d ** (m - 0.5 - powers)) @ given["L1"]
            cov = A @ cov @ A.T + L @ L.T
            rows = [A @ c for c in rows]
        rows.append(cov)
        for i, c in enumerate(rows):
            K[t, i] = K[i, t] = c[0, 0]
    gain = np.linalg.solve((K + np.diag(1.0 / given["W"])).T, K.T).T
    return gain @ given["y"], K - gain @ K


def sweep(rng: np.random.Generator) -> Case:
    given, _ = line(rng)
    k = int(rng.choice([0, 1, 5, 17]))
    given |= {
        "sf": rng.uniform(0.1, 2.0, k),
        "logdet": empty(k),
        "rss": empty(k),
        "slope": empty(2, k),
    }
    one = [np.empty((2, 1)) for _ in range(k)]
    figures = [(np.empty(1), np.empty(1)) for _ in range(k)]
    for sf, (a, b), c in zip(given["sf"], figures, one, strict=True):
        markov.sweep(*(given[n] for n in ("L1", "gaps", "W", "y")), np.array([sf]), a, b, c)
    expected = {"logdet": [f[0][0] for f in figures], "rss": [f[1][0] for f in figures]}
    return given, expected | {"slope": np.column_stack(one) if k else np.empty((2, 0))}


def smooth(rng: np.random.Generator) -> Case:
    given, m = line(rng)
    n, pairs = len(given["W"]), m * (m + 1) // 2
    expected: Arguments = {}
    if m < 3 and len(given["W"]) < 9:
        mean, cov = dense(given, m, 0.7)
        expected = {"mean": (mean, 0), "cov": (np.diag(cov), 0)}
    given |= {"sf": 0.7, "mean": empty(n, m), "cov": empty(n, pairs), "root": empty(m, m)}
    return given | {"back": empty(n - 1, markov.room(m)), "pulls": empty(n, m)}, expected


def others(rng: np.random.Generator) -> Case:
    given, m = line(rng)
    n, expected = len(given["W"]), {}
    if m < 3 and len(given["W"]) < 9:
        mean, cov = dense(given, m, 0.7)
        v, w = np.diag(cov), given["W"]
        rest = 1.0 - w * v
        expected = {"mean": (mean - w * v * given["y"]) / rest, "variance": v / rest}
    return given | {"sf": 0.7, "mean": empty(n), "variance": empty(n)}, expected


def draws(rng: np.random.Generator) -> Case:
    m, n = int(rng.integers(1, 7)), size(rng, 1)
    root, z = rng.normal(size=(m, m)), rng.normal(size=(n, m))
    back = rng.normal(size=(n - 1, markov.room(m)))
    expected, x = z.copy(), np.zeros(m)
    back[:, : m * m] *= 0.3  # the sums stay small
    for t in range(n - 1, -1, -1):
        if t == n - 1:
            x = root @ z[t]
        else:
            G, N = back[t, : 2 * m * m].reshape(2, m, m)
            x = G @ x + N @ z[t]
        expected[t] = x
    return {"root": root, "back": back, "z": z}, {"z": expected}


def matmul(rng: np.random.Generator) -> Case:
    m, n = int(rng.integers(1, 3)), size(rng)
    gaps, v = rng.uniform(0.5, 1.5, n), rng.normal(size=n)
    x = np.cumsum(gaps)
    low, high = np.minimum.outer(x, x), np.maximum.outer(x, x)
    K = low if m == 1 else low**2 * (3 * high - low) / 6
    return {"L1": unit_cholesky(m), "gaps": gaps, "v": v, "Kv": empty(n)}, {"Kv": K @ v}


def at(rng: np.random.Generator) -> Case:
    m, n, q = int(rng.integers(1, 7)), size(rng, 1), size(rng)
    x, order = np.cumsum(rng.uniform(0.5, 1.5, n)), int(rng.integers(0, 2 * m))
    mean, queries = rng.normal(size=(n, m)), rng.uniform(-1.0, x[-1] + 2.0, q)
    given = {"x": x, "unit": 1.0, "variance": 1.0, "mean": mean}
    given |= {
        "cov": rng.normal(size=(n, m * (m + 1) // 2)),
        "back": rng.normal(size=(n - 1, markov.room(m))),
    }
    given |= {
        "order": order,
        "weights": hermite(m, order),
        "bridge": rng.normal(size=2 * m),
        "outside": 1.0,
    }
    queries[: q // 2] = rng.choice(x, q // 2)
    expected = {}
    if order == 0:
        expected = {"value": (mean[np.searchsorted(x, queries[: q // 2]), 0], slice(q // 2))}
    spread = empty(q) if order < m else None
    return given | {"queries": queries, "value": empty(q), "spread": spread}, expected


def matern(rng: np.random.Generator) -> tuple[Arguments, np.ndarray]:
    count = int(rng.integers(1, 4))
    n = size(rng, 1)
    orders = rng.integers(1, 4, count).astype(np.int32)
    length, variances = rng.uniform(0.5, 3.0, count), rng.uniform(0.5, 2.0, count)
    gaps = rng.uniform(0.1, 1.0, n - 1)
    x = np.concatenate([[0.0], np.cumsum(gaps)])
    s = np.subtract.outer(x, x) ** 2
    K = sum(v * PROFILES[p](s / e**2) for p, e, v in zip(orders, length, variances, strict=True))
    given = {"orders": orders, "rates": np.sqrt(2.0 * orders - 1) / length, "variances": variances}
    return given | {"gaps": gaps}, K


def logdet(rng: np.random.Generator) -> Case:
    given, K = matern(rng)
    W = rng.uniform(0.5, 2.0, len(K))
    value = np.linalg.slogdet(K + np.diag(1.0 / W))[1]
    count = len(given["orders"]) if rng.random() < 0.7 else 0
    return given | {"W": W, "gradient": empty(2, count)}, {"return": value}


def wave_smooth(rng: np.random.Generator) -> Case:
    given, K = matern(rng)
    n, W = len(K), rng.uniform(0.5, 2.0, len(K))
    Z = rng.normal(size=(n, int(rng.integers(0, 3))))
    C = np.linalg.inv(K + np.diag(1.0 / W))
    given |= {"W": W, "Z": Z, "solved": empty(*Z.shape), "inverse": empty(n), "variance": empty(n)}
    expected = {"solved": C @ Z, "inverse": np.diag(C), "variance": np.diag(K - K @ C @ K)}
    return given, expected


def times(rng: np.random.Generator) -> Case:
    given, K = matern(rng)
    V = rng.normal(size=(len(K), int(rng.integers(0, 3))))
    return given | {"V": V, "out": empty(*V.shape)}, {"out": K @ V}


def slope(rng: np.random.Generator) -> Case:
    given, K = matern(rng)
    U, V = rng.normal(size=(2, len(K), int(rng.integers(0, 3))))
    gradient = np.zeros((2, len(given["orders"])))
    total = np.sum(U * (K @ V))  # of all log variances together
    return given | {"U": U, "V": V, "gradient": gradient}, {"gradient": (total, "variances")}


def conditional(rng: np.random.Generator) -> Case:
    n, k = size(rng, 1), size(rng, 1)
    given = {"own": 0.3, "lean": rng.normal(size=n), "m": rng.normal(size=k)}
    table = rng.normal(size=(5, averages.TERMS))
    return given | {"shift": rng.normal(size=(k, n)), "table": table, "rate": 2.0}, {}
