"""How every compiled function is called, and what NumPy says that it must answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack
from scipy.spatial.distance import cdist

from mercer._native import averages, blocked, core, machines, markov, relevance, sequential, waves
from tests.attacks.line_calls import (
    at,
    conditional,
    draws,
    logdet,
    matmul,
    others,
    slope,
    smooth,
    sweep,
    times,
    wave_smooth,
)
from tests.attacks.native_draws import PROFILES, Case, empty, size


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
