"""How every compiled function is called, and what NumPy says that it must answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack
from scipy.spatial.distance import cdist

from mercer._native import averages, blocked, core, machines, markov, relevance, sequential, waves
from mercer.linalg.spline import hermite, unit_cholesky

Arguments = dict[str, Any]
Case = tuple[
    Arguments, Arguments
]  # what is given; what written arrays must hold ("return": answer)
RIGHT = {"rtol": 1e-9, "atol": 1e-9}
PROFILES = (
    lambda s: np.exp(-0.5 * s),
    lambda s: np.exp(-np.sqrt(s)),
    lambda s: (1 + np.sqrt(3 * s)) * np.exp(-np.sqrt(3 * s)),
    lambda s: (1 + np.sqrt(5 * s) + 5 * s / 3) * np.exp(-np.sqrt(5 * s)),
)
SIZES = (0, 1, 2, 3, 7, 130)


def size(rng: np.random.Generator, least: int = 0) -> int:
    return max(least, int(rng.choice(SIZES)))


def empty(*shape: int) -> np.ndarray:
    return np.full(shape, np.nan)


def points(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, int, np.ndarray]:
    d = int(rng.integers(0, 4))
    X, Z = rng.normal(size=(size(rng), d)), rng.normal(size=(size(rng), d))
    return (
        X,
        Z,
        int(rng.integers(4)),
        cdist(X, Z, "sqeuclidean") if d else np.zeros((len(X), len(Z))),
    )


def threads(rng: np.random.Generator) -> int:
    return int(rng.integers(1, 4))


def stationary(rng: np.random.Generator) -> Case:
    X, Z, profile, s = points(rng)
    given = {
        "profile": profile,
        "X": X,
        "Z": Z,
        "same": False,
        "out": empty(*s.shape),
        "factor": 2.5,
        "threads": threads(rng),
    }
    return given, {"out": 2.5 * PROFILES[profile](s)}


def stationary_same(rng: np.random.Generator) -> Case:
    X, _, profile, _ = points(rng)
    s = cdist(X, X, "sqeuclidean") if X.shape[1] else np.zeros((len(X), len(X)))
    given = {"profile": profile, "X": X, "Z": X, "same": True, "out": empty(*s.shape)}
    given |= {"factor": 1.0, "threads": threads(rng)}
    return given, {"out": PROFILES[profile](s)}


def stationary_matmul(rng: np.random.Generator) -> Case:
    X, Z, profile, s = points(rng)
    V = rng.normal(size=(int(rng.integers(0, 4)), len(Z)))
    given = {
        "profile": profile,
        "X": X,
        "Z": Z,
        "V": V,
        "out": empty(len(X), len(V)),
        "factor": 0.5,
        "threads": threads(rng),
    }
    return given, {"out": 0.5 * PROFILES[profile](s) @ V.T}


def stationary_pullback(rng: np.random.Generator) -> Case:
    X, Z, _, s = points(rng)
    Q = rng.normal(size=s.shape)
    sums = np.einsum("ij,ijd->d", -0.5 * Q * np.exp(-0.5 * s), (X[:, None] - Z) ** 2)
    given = {"profile": 0, "X": X, "Z": Z, "same": False, "Q": Q, "sums": empty(X.shape[1])}
    given |= {"threads": threads(rng)}
    return given, {"sums": sums, "return": np.sum(Q * np.exp(-0.5 * s))}


def weighted_spread(rng: np.random.Generator) -> Case:
    X, Z, _, s = points(rng)
    M = rng.normal(size=s.shape)
    given = {"X": X, "Z": Z, "M": M, "sums": empty(X.shape[1]), "threads": threads(rng)}
    return given, {"sums": np.einsum("ij,ijd->d", M, (X[:, None] - Z) ** 2)}


def square(rng: np.random.Generator) -> np.ndarray:
    n = size(rng)
    return rng.normal(size=(n, n))


def mirror_upper(rng: np.random.Generator) -> Case:
    A = square(rng)
    return {"A": A}, {"A": np.triu(A) + np.triu(A, 1).T}


def swap_triangles(rng: np.random.Generator) -> Case:
    A = square(rng)
    return {"A": A}, {"A": A.T.copy()}


def add_scaled_upper(rng: np.random.Generator) -> Case:
    A, M = square(rng), None
    s, M = rng.normal(size=len(A)), rng.normal(size=A.shape)
    return {"A": A, "s": s, "M": M, "threads": threads(rng)}, {"M": M + np.triu(A * np.outer(s, s))}


def scale_upper(rng: np.random.Generator) -> Case:
    A = square(rng)
    s, out = rng.normal(size=len(A)), rng.normal(size=A.shape)
    expected = np.tril(out, -1) + np.triu(A * np.outer(s, s), 1) + 3.0 * np.eye(len(A))
    given = {"A": A, "s": s, "diagonal": 3.0, "out": out, "threads": threads(rng)}
    return given, {"out": expected}


def gradient_weights(rng: np.random.Generator) -> Case:
    A = square(rng)
    A = A + A.T
    s, a = rng.normal(size=len(A)), rng.normal(size=(len(A), int(rng.integers(0, 3))))
    given = {"A": A, "s": s, "a": a, "count": 2.0, "threads": threads(rng)}
    return given, {"A": 0.5 * (a @ a.T - 2.0 * np.outer(s, s) * A)}


def definite(rng: np.random.Generator) -> np.ndarray:
    A = square(rng)
    return A @ A.T + len(A) * np.eye(len(A))


def cholesky(rng: np.random.Generator) -> Case:
    A = definite(rng)
    L = np.linalg.cholesky(A) if len(A) else A
    return {"A": A.copy()}, {"A": np.triu(L.T) + np.tril(A, -1), "return": 0}


def half_inverse(rng: np.random.Generator) -> Case:
    A = definite(rng)
    L = np.linalg.cholesky(A) if len(A) else A
    return {"A": np.ascontiguousarray(L.T)}, {"A": np.linalg.inv(L).T if len(A) else A}


def inverse_of_half(rng: np.random.Generator) -> Case:
    H = np.triu(definite(rng))
    whole = H @ H.T
    return {"A": H.copy()}, {"A": np.triu(whole)}


def row_squares(rng: np.random.Generator) -> Case:
    A = square(rng)
    return {"A": A, "out": empty(len(A))}, {"out": (np.triu(A) ** 2).sum(axis=1)}


def rbf_rows(rng: np.random.Generator) -> Case:
    X, Z, _, _ = points(rng)
    X, columns = X.astype(np.float32), np.ascontiguousarray(Z.T, dtype=np.float32)
    slots, out = rng.permutation(len(X)), np.zeros((len(X) + 1, len(Z)), dtype=np.float32)
    expected = out.copy()
    s = cdist(X, columns.T, "sqeuclidean") if X.shape[1] else np.zeros((len(X), len(Z)))
    expected[slots] = np.exp(-0.5 * s)
    given = {"X": X, "columns": columns, "slots": slots, "out": out, "threads": threads(rng)}
    return given, {"out": expected}


def rbf_expand(rng: np.random.Generator) -> Case:
    X, Z, _, _ = points(rng)
    X, columns = X.astype(np.float32), np.ascontiguousarray(Z.T, dtype=np.float32)
    alpha = rng.normal(size=(int(rng.choice([0, 1, 2, 8, 17])), len(Z)))
    s = cdist(X, columns.T, "sqeuclidean") if X.shape[1] else np.zeros((len(X), len(Z)))
    given = {"X": X, "columns": columns, "alpha": alpha, "out": empty(len(X), len(alpha))}
    given |= {"threads": threads(rng)}
    return given, {"out": np.exp(-0.5 * s) @ alpha.T}


def compact(rng: np.random.Generator) -> Case:
    width, rows = size(rng, 1), size(rng, 1)
    memory = rng.normal(size=rows * width)
    slots = np.flatnonzero(rng.random(rows) < 0.5)
    columns = np.flatnonzero(rng.random(width) < 0.5)
    expected = memory.copy()
    expected[: len(slots) * len(columns)] = memory.reshape(rows, width)[slots][:, columns].ravel()
    return {"memory": memory, "width": width, "slots": slots, "columns": columns}, {
        "memory": expected
    }


# ------------------------------------------------------------------------------------- on a line
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


def plain(rng: np.random.Generator) -> Case:
    n, k = size(rng, 1), size(rng, 1)
    m, shift = rng.normal(size=k), rng.normal(size=(k, n))
    both = np.exp(m[:, None] + np.concatenate([shift, -shift], axis=1))
    return {"m": m, "shift": shift, "out": empty(k)}, {
        "out": (both / both.sum(axis=0)).mean(axis=1)
    }


def settle(rng: np.random.Generator) -> Case:
    p = size(rng)
    M = int(rng.integers(0, p + 1))
    F = rng.normal(size=(p, 2 * p + 3))
    t = rng.normal(size=2 * p + 3)
    given = {
        "room": relevance.Room(),
        "gram": F @ F.T,
        "right": F @ t,
        "alpha": np.ones(M),
        "beta": 1.0,
    }
    given |= {
        "square": float(t @ t),
        "total": float(len(t)),
        "learns": True,
        "cap": 1e6,
        "tol": 1e-6,
    }
    return given | {"limit": 5}, {}


def exchanges(rng: np.random.Generator) -> Case:
    m, M = size(rng), size(rng)
    T, (v, mu) = rng.normal(size=(m, M)), rng.uniform(0.5, 2.0, (2, M))
    S, Q = rng.uniform(0.5, 2.0, (2, m))
    s, q = S[:, None] + T**2 / v, Q[:, None] + T * mu / v
    top = (q**2 / s).max(axis=0, initial=0.0)
    given = {"T": T, "v": v, "mu": mu, "S": S, "Q": Q, "least": np.zeros(m)}
    return given | {"best": empty(M), "ratio": empty(M)}, {"ratio": top}


def mix(rng: np.random.Generator) -> Case:
    R, m, M = size(rng, 1), size(rng), size(rng)
    rows, places, c = rng.normal(size=(R, m)), rng.integers(0, R, M), rng.normal(size=M)
    given = {"rows": rows, "places": places, "c": c, "out": np.ones(m)}
    return given, {"out": 1.0 + c @ rows[places]}


def gather(rng: np.random.Generator) -> Case:
    R, m, q, M = size(rng, 1), size(rng, 1), size(rng), size(rng)
    rows, places, columns = rng.normal(size=(R, m)), rng.integers(0, R, q), rng.integers(0, m, M)
    given = {"rows": rows, "places": places, "columns": columns, "out": empty(q, M)}
    return given, {"out": rows[places][:, columns]}


def best(rng: np.random.Generator) -> Case:
    S, Q = rng.uniform(0.5, 2.0, (2, size(rng)))
    ratio = Q**2 / S
    answer = (int(np.argmax(ratio)), float(ratio.max())) if len(S) else (-1, 0.0)
    return {"S": S, "Q": Q, "least": np.zeros(len(S))}, {"return": answer}


def take_in(rng: np.random.Generator) -> Case:
    m, M = size(rng, 1), size(rng, 1)
    p, i = int(rng.integers(0, M)), int(rng.integers(0, m))
    V, products, (S, Q) = rng.normal(size=(M, m)), rng.normal(size=m), rng.uniform(1.0, 2.0, (2, m))
    row = (products - V[:p, i] @ V[:p]) / np.sqrt(2.0 + S[i])
    after = V.copy()
    after[p] = row
    expected = {"V": after, "S": S - row**2, "Q": Q - Q[i] / np.sqrt(2.0 + S[i]) * row}
    return {"products": products, "V": V, "p": p, "i": i, "alpha": 2.0, "S": S, "Q": Q}, expected


def posterior(rng: np.random.Generator) -> Case:
    p = size(rng)
    M, right, precisions = rng.normal(size=(p, p + 3)), rng.normal(size=p), rng.uniform(1.0, 2.0, p)
    whole = 2.0 * M @ M.T + np.diag(precisions)
    given = {"room": relevance.Room(), "gram": M @ M.T, "right": right, "precisions": precisions}
    given |= {"beta": 2.0, "least": 1e-9, "R": empty(p, p), "mu": empty(p)}
    expected = {"R": np.linalg.cholesky(whole), "mu": np.linalg.solve(whole, 2.0 * right)}
    return given, expected | {"return": True}


def absorb(rng: np.random.Generator) -> Case:
    b = size(rng)
    M = rng.normal(size=(b, b + 1))
    given = {"mean": rng.normal(size=b), "cov": M @ M.T, "S": rng.choice([-1.0, 1.0], b)}
    given |= {"w": rng.uniform(0.5, 2.0, b), "R": empty(b, b), "found": empty(4, b)}
    return given, {"R": (M @ M.T, "factor")}


TABLE: dict[Callable[..., Any], tuple[Callable[..., Any], str, str]] = {
    # the case: the function, which arrays it writes, which axes may have any length
    stationary: (core.stationary, "out", ""),
    stationary_same: (core.stationary, "out", ""),
    stationary_matmul: (core.stationary_matmul, "out", ""),
    stationary_pullback: (core.stationary_pullback, "sums", ""),
    weighted_spread: (core.weighted_spread, "sums", ""),
    mirror_upper: (core.mirror_upper, "A", ""),
    swap_triangles: (core.swap_triangles, "A", ""),
    add_scaled_upper: (core.add_scaled_upper, "M", ""),
    scale_upper: (core.scale_upper, "out", ""),
    gradient_weights: (core.gradient_weights, "A", "a1"),
    cholesky: (blocked.cholesky, "A", ""),
    half_inverse: (blocked.half_inverse, "A", ""),
    inverse_of_half: (blocked.inverse_of_half, "A", ""),
    row_squares: (blocked.row_squares, "A out", ""),
    rbf_rows: (machines.rbf_rows, "X columns out", "out0"),
    rbf_expand: (machines.rbf_expand, "X columns out", ""),
    compact: (machines.compact, "memory", "memory0 slots0 columns0"),
    sweep: (markov.sweep, "logdet rss slope", ""),
    smooth: (markov.smooth, "mean cov root back pulls", ""),
    others: (markov.others, "mean variance", ""),
    draws: (markov.draws, "z", ""),
    matmul: (markov.matmul, "Kv", ""),
    at: (markov.at, "value spread", "bridge0"),
    logdet: (waves.logdet, "gradient", ""),
    wave_smooth: (waves.smooth, "solved inverse variance", ""),
    times: (waves.times, "out", ""),
    slope: (waves.slope, "gradient", ""),
    conditional: (averages.conditional, "", "table0"),
    plain: (averages.plain, "out", "shift1"),
    settle: (relevance.settle, "", "alpha0"),
    exchanges: (relevance.exchanges, "", ""),
    mix: (relevance.mix, "", "rows0"),
    gather: (relevance.gather, "", "rows0 rows1"),
    best: (relevance.best, "", ""),
    posterior: (relevance.posterior, "R mu", ""),
    take_in: (relevance.take_in, "", "V0"),
    absorb: (sequential.absorb, "", ""),
}
NUMBERS = {  # of numbers alone, or that take their rows from a caller that is tested as a whole
    "connect", "room", "Room", "climb", "curvature", "curvature_slope", "best_xi", "log_bound",
}  # fmt: skip
HAVE_BLOCKED = blocked.connect(cython_blas.__pyx_capi__, cython_lapack.__pyx_capi__)
