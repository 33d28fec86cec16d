"""How every compiled function is called, and what NumPy says that it must answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import cython_blas, cython_lapack
from scipy.spatial.distance import cdist

from mercer._native import (
    averages,
    blocked,
    core,
    machines,
    markov,
    rational,
    relevance,
    sequential,
    strings,
    waves,
)
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
from tests.attacks.process_calls import (
    process_gradient,
    process_logdet,
    process_smooth,
    process_times,
    subsequences,
)


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


def along_columns(X: np.ndarray, Z: np.ndarray, profile: int) -> tuple[np.ndarray, np.ndarray]:
    """Correlations m (n, m, d) at r = |x_d - z_d|, already in units of a profile, and -r dm/dr."""
    r = np.abs(X[:, None] - Z)
    e = np.exp(-0.5 * r**2 if profile == 0 else -r)
    steep = (r**2, r, r**2, r**2 * (1 + r) / 3)[profile]
    return (1.0, 1.0, 1 + r, 1 + r + r**2 / 3)[profile] * e, steep * e


def separable(rng: np.random.Generator, same: bool = False) -> Case:
    X, Z, profile, _ = points(rng)
    Z = X if same else Z
    shares = rng.uniform(size=int(rng.choice([0, X.shape[1]])))
    m, _ = along_columns(X, Z, profile)
    w = shares if len(shares) else np.ones(X.shape[1])
    given = {"profile": profile, "X": X, "Z": Z, "same": same, "shares": shares}
    given |= {"out": empty(len(X), len(Z)), "factor": 2.5, "threads": threads(rng)}
    return given, {"out": 2.5 * (1.0 - w + w * m).prod(axis=2)}


def separable_same(rng: np.random.Generator) -> Case:
    return separable(rng, True)


def separable_pullback(rng: np.random.Generator, same: bool = False) -> Case:
    X, Z, profile, _ = points(rng)
    Z, d = X if same else Z, X.shape[1]
    shares = rng.uniform(size=int(rng.choice([0, d])))
    Q = rng.normal(size=(len(X), len(Z)))
    Q = Q + Q.T if same else Q
    m, steep = along_columns(X, Z, profile)
    w = shares if len(shares) else np.ones(d)
    by = 1.0 - w + w * m
    by_scale, by_share = np.zeros(d), np.zeros(d)
    for c in range(d):
        rest = Q * np.delete(by, c, axis=2).prod(axis=2)
        by_scale[c] = np.sum(rest * w[c] * steep[:, :, c])
        if len(shares):  # without any there is nothing to differentiate by
            by_share[c] = np.sum(rest * (m[:, :, c] - 1.0))
    given = {"profile": profile, "X": X, "Z": Z, "same": same, "shares": shares, "Q": Q}
    given |= {"by_scale": empty(d), "by_share": empty(d), "threads": threads(rng)}
    expected = {"by_scale": by_scale, "by_share": by_share}
    return given, expected | {"return": np.sum(Q * by.prod(axis=2))}


def separable_pullback_same(rng: np.random.Generator) -> Case:
    return separable_pullback(rng, True)


def separable_moves(rng: np.random.Generator) -> Case:
    """The slope of sum_ij Q_ij k_ij by each number of X, where no two points meet."""
    X, Z, profile, _ = points(rng)
    d, Q = X.shape[1], rng.normal(size=(len(X), len(Z)))
    shares = rng.uniform(size=int(rng.choice([0, d])))
    m, steep = along_columns(X, Z, profile)
    w = shares if len(shares) else np.ones(d)
    by, slope = 1.0 - w + w * m, -w * steep / (X[:, None] - Z)
    moved = np.zeros((len(X), d))
    for c in range(d):
        rest = Q * np.delete(by, c, axis=2).prod(axis=2)
        moved[:, c] = np.sum(rest * slope[:, :, c], axis=1)
    given = {"profile": profile, "X": X, "Z": Z, "shares": shares, "Q": Q}
    return given | {"moved": empty(len(X), d), "threads": threads(rng)}, {"moved": moved}


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
    return {"A": A.copy(), "threads": threads(rng)}, {
        "A": np.triu(L.T) + np.tril(A, -1),
        "return": 0,
    }


def half_inverse(rng: np.random.Generator) -> Case:
    A = definite(rng)
    L = np.linalg.cholesky(A) if len(A) else A
    given = {"A": np.ascontiguousarray(L.T), "threads": threads(rng)}
    return given, {"A": np.linalg.inv(L).T if len(A) else A}


def inverse_of_half(rng: np.random.Generator) -> Case:
    H = np.triu(definite(rng))
    whole = H @ H.T
    return {"A": H.copy(), "threads": threads(rng)}, {"A": np.triu(whole)}


def solve_triangle(rng: np.random.Generator) -> Case:
    A, forward = definite(rng), bool(rng.integers(2))
    L = np.linalg.cholesky(A) if len(A) else A
    X = rng.normal(size=(int(rng.integers(0, 60)), len(L)))
    inverse = np.linalg.inv(L) if len(L) else L
    Y = X @ (inverse.T if forward else inverse)
    given = {"L": L, "X": X, "forward": forward, "squares": empty(len(X)), "threads": threads(rng)}
    return given, {"X": Y, "squares": (Y**2).sum(axis=1)}


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
    T, (v, mu, alpha) = rng.normal(size=(m, M)), rng.uniform(0.5, 2.0, (3, M))
    S, Q = rng.uniform(0.5, 2.0, (2, m))
    s, q = S[:, None] + T**2 / v, Q[:, None] + T * mu / v
    found, ratio = [], q**2 / s
    for j in range(M if m else 0):
        i, inside, own = int(ratio[:, j].argmax()), 1 / v[j] - alpha[j], alpha[j]
        lost = 0.5 * (np.log(own * v[j]) + mu[j] ** 2 / v[j])
        gain = 0.5 * (ratio[i, j] - 1 - np.log(ratio[i, j])) - lost
        if ratio[i, j] > 1 and gain >= 0.1 and inside < np.inf:
            best = s[i, j] ** 2 / (q[i, j] ** 2 - s[i, j])
            found.append((j, i, max(best, 0.01), gain))
    found.sort(key=lambda move: -move[3])
    given = {"T": T, "v": v, "mu": mu, "alpha": alpha, "S": S, "Q": Q, "least": np.zeros(m)}
    return given | {"tol": 0.1, "floor": 0.01}, {"return": found}


def weighted_squares(rng: np.random.Generator) -> Case:
    A = rng.normal(size=(size(rng), size(rng)))
    b = rng.normal(size=len(A))
    return {"A": A, "b": b, "sums": np.ones(A.shape[1])}, {"sums": 1.0 + b @ A**2}


def call_additions(products, S, Q, least, V, p, tol, part, limit, floor):
    given = S, Q, least, V, p, tol, part, limit, floor
    chosen, alphas, first = relevance.additions(
        lambda i: np.ascontiguousarray(products[:, i % products.shape[1]]), 2.0, *given
    )
    return [*chosen, *alphas, first]


def additions(rng: np.random.Generator) -> Case:
    m, spare, p = size(rng, 2), int(rng.integers(2, 5)), int(rng.integers(0, 3))
    half = rng.normal(size=(m, m + 2))
    products, V = half @ half.T, 0.1 * rng.normal(size=(p + spare, m))
    S = 2.0 * np.diagonal(products) - (V[:p] ** 2).sum(axis=0)
    Q = rng.uniform(2.0, 3.0, m) * np.sqrt(S)
    given = {"products": products, "S": S, "Q": Q, "least": np.zeros(m), "V": V.copy()}
    given |= {"p": p, "tol": 1e-3, "part": 0.1, "limit": spare, "floor": 0.0}
    chosen, alphas, first = [], [], 0.0
    S, Q = S.copy(), Q.copy()
    while len(chosen) < spare:
        ratio = np.where(np.isin(np.arange(m), chosen), 0.0, Q**2 / S)
        i = int(ratio.argmax())
        gain = 0.5 * (ratio[i] - 1 - np.log(ratio[i])) if ratio[i] > 1 else 0.0
        if gain < max(1e-3, 0.1 * first):
            break
        first = first if chosen else gain
        chosen.append(i)
        alphas.append(S[i] ** 2 / (Q[i] ** 2 - S[i]))
        V[p] = (2.0 * products[i] - V[:p, i] @ V[:p]) / np.sqrt(alphas[-1] + S[i])
        S, Q = S - V[p] ** 2, Q - Q[i] / np.sqrt(alphas[-1] + S[i]) * V[p]
        p += 1
    return given, {"return": [*chosen, *alphas, first]}


def call_candidates(
    Phi, inner, w, t, flat, products, targets, active, prior, R, mu, rest, V, S, Q, G
):
    inverse = np.ones(len(targets))
    held = relevance.Candidates(Phi, inner, inverse, w, t, flat, products, targets, 0.5, None)
    figures = held.evaluate(active, prior, 2.0, 1e-12, R, mu, rest)
    held.seen(active, R, mu, 2.0, V, S, Q)
    held.given(active, G, np.empty(len(mu)))
    k, M = len(flat), len(active)
    rows, columns = np.empty((k + M, len(targets))), np.empty((M, len(w)))
    held.products(active, rows)
    held.functions(active, columns)
    return [*figures, np.abs(rows).sum(), np.abs(columns).sum()]


def candidates(rng: np.random.Generator, spanned: bool = False) -> Case:
    n, k = size(rng, 1), int(rng.integers(0, 3))
    Phi, inner = rng.normal(size=(n, size(rng, 1))), None
    w, t, flat = rng.uniform(0.5, 2.0, n), rng.normal(size=n), rng.normal(size=(k, n))
    whole = Phi @ Phi.T if spanned else Phi
    if spanned:
        inner = Phi.T @ (w[:, None] * Phi)
    m = whole.shape[1]
    M = min(m, max(n - k, 0), 3)
    active, prior = rng.permutation(m)[:M], rng.uniform(1.0, 2.0, M)
    flat = flat[: max(n - 1, 0)]
    k = len(flat)
    F, p = np.vstack([flat, whole[:, active].T]), k + M
    gram = F * w @ F.T
    normal = 2.0 * gram + np.diag([*np.zeros(k), *prior])
    mu, L = np.linalg.solve(normal, 2.0 * F @ (w * t)), np.linalg.cholesky(normal)
    rest, rows = t - mu @ F, F * w @ whole
    V = 2.0 * np.linalg.solve(L, rows)
    cov = np.diag(0.5 / w) + F[k:].T / prior @ F[k:]
    misfit = 2.0 * (w @ rest**2 + 0.5)
    logs = w.sum() * np.log(1.0 / np.pi) + k * np.log(2 * np.pi) + np.log(prior).sum()
    evidence = 0.5 * (logs - np.linalg.slogdet(normal)[1] - misfit - prior @ mu[k:] ** 2)
    assert np.all(np.diagonal(cov) > 0)
    given = {"Phi": Phi, "inner": inner, "w": w, "t": t, "flat": flat}
    given |= {"products": flat * w @ whole, "targets": (w * t) @ whole}
    given |= {"active": active, "prior": prior, "R": empty(p, p), "mu": empty(p), "rest": empty(n)}
    given |= {"V": empty(p, m), "S": empty(m), "Q": empty(m), "G": empty(p, p)}
    expected = {"R": L, "mu": mu, "rest": rest, "V": V, "G": gram}
    expected |= {"S": 2.0 - (V**2).sum(axis=0), "Q": 2.0 * ((w * t) @ whole - mu @ rows)}
    sums = np.abs(rows).sum(), np.abs(F[k:]).sum()
    return given, expected | {"return": [misfit, evidence, *sums]}


def spanned(rng: np.random.Generator) -> Case:
    return candidates(rng, True)


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
    separable: (core.separable, "out", ""),
    separable_same: (core.separable, "out", ""),
    separable_pullback: (core.separable_pullback, "by_scale by_share", ""),
    separable_pullback_same: (core.separable_pullback, "by_scale by_share", ""),
    separable_moves: (core.separable_moves, "moved", ""),
    weighted_spread: (core.weighted_spread, "sums", ""),
    mirror_upper: (core.mirror_upper, "A", ""),
    swap_triangles: (core.swap_triangles, "A", ""),
    add_scaled_upper: (core.add_scaled_upper, "M", ""),
    scale_upper: (core.scale_upper, "out", ""),
    gradient_weights: (core.gradient_weights, "A", "a1"),
    cholesky: (blocked.cholesky, "A", ""),
    half_inverse: (blocked.half_inverse, "A", ""),
    inverse_of_half: (blocked.inverse_of_half, "A", ""),
    solve_triangle: (blocked.solve_triangle, "X squares", ""),
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
    process_logdet: (rational.logdet, "", ""),
    process_smooth: (rational.smooth, "solved inverse variance", ""),
    process_times: (rational.times, "out", ""),
    process_gradient: (rational.gradient, "dF dP", ""),
    subsequences: (strings.subsequences, "K slope", "X1 Z1"),
    conditional: (averages.conditional, "", "table0"),
    plain: (averages.plain, "out", "shift1"),
    settle: (relevance.settle, "", "alpha0"),
    exchanges: (relevance.exchanges, "", ""),
    weighted_squares: (relevance.weighted_squares, "sums", ""),
    additions: (call_additions, "V", "V0 products1"),
    candidates: (call_candidates, "R mu rest V S Q G", "V0"),
    spanned: (call_candidates, "R mu rest V S Q G", "V0"),
    absorb: (sequential.absorb, "", ""),
}
NUMBERS = {  # of numbers alone, or that take their rows from a caller that is tested as a whole
    "connect", "room", "Room", "Candidates", "additions", "climb",
    "curvature", "curvature_slope", "best_xi", "log_bound",
}  # fmt: skip
HAVE_BLOCKED = blocked.connect(cython_blas.__pyx_capi__, cython_lapack.__pyx_capi__)
