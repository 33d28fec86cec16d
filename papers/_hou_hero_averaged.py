"""The approximate kernel of Hou & Hero, section 3.2: the batches of the past as averaged vectors.

From the third batch on the prior is

    k~(x, z) = k(x, z) - k(x, V) (I + D k(V, V))^-1 D k(V, z),    D = 2 beta (t - 1) diag(s^2 d)

with unit vectors V in place of rows, and the current batch is then absorbed exactly. The paper
leaves open what V, s and d are; these are three readings. It is shown for comparison only: k~ is no
approximation of the kernel that it stands for, and the library does not offer it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from _hou_hero_data import Stream

from mercer.inference import MED
from mercer.kernels import Kernel
from mercer.linalg import DenseGram
from mercer.linalg.graph import neighbour_graph
from mercer.losses import Margin

Past = list[tuple[np.ndarray, np.ndarray]]  # inputs (n, d) and Laplacian (n, n) of each batch
Function = Callable[[np.ndarray, np.ndarray], np.ndarray]


def vectors(past: Past, reading: str) -> tuple[np.ndarray, np.ndarray]:
    """V (r, d) in rows and s^2 d (r,).

    "moment": eigenvectors v and eigenvalues s^2 of the mean X'X, d = v'(mean X'LX) v / s^2.
    "smallest", "largest": right singular vectors (largest entry positive) and singular values of
    each X, averaged in their order, with the smallest or largest eigenvalues of L, averaged too.
    """
    if reading == "moment":
        _, V = np.linalg.eigh(np.mean([X.T @ X for X, _ in past], axis=0))
        smooth = np.mean([X.T @ (L @ X) for X, L in past], axis=0)
        return _upright(V.T), np.einsum("ij,jk,ki->i", V.T, smooth, V, optimize=True)
    r = min(min(X.shape) for X, _ in past)
    found = []
    for X, L in past:
        _, s, V = np.linalg.svd(X, full_matrices=False)
        d = np.linalg.eigvalsh(L)
        found.append((_upright(V)[:r], s[:r], d[:r] if reading == "smallest" else d[::-1][:r]))
    V, s, d = (np.mean([one[i] for one in found], axis=0) for i in range(3))
    return V, s**2 * d


def _upright(V: np.ndarray) -> np.ndarray:
    """Vectors in rows, turned so that the largest entry of each is positive."""
    return V * np.sign(V[np.arange(len(V)), np.abs(V).argmax(axis=1)])[:, None]


def _less(kernel: Function, Z: np.ndarray, M: np.ndarray) -> Function:
    """The kernel k - k(., Z) (I + M K)^-1 M k(Z, .)."""
    P = np.linalg.solve(np.eye(len(Z)) + M @ kernel(Z, Z), M)
    P = 0.5 * (P + P.T)
    return lambda A, B: kernel(A, B) - kernel(A, Z) @ P @ kernel(Z, B)


def averaged(
    kernel: Kernel, reading: str, *, C: float, beta: float, n_neighbors: int, heat: float
) -> Callable[[Stream, set[int]], list[float | None]]:
    """Sequential LapMED with the approximate kernel: accuracies after the batches ``wanted``."""

    def run(stream: Stream, wanted: set[int]) -> list[float | None]:
        Z, truth = stream.test
        found: list[float | None] = []
        for t, f in enumerate(
            decisions(kernel, reading, stream, C, beta, n_neighbors, heat, Z), start=1
        ):
            found.append(float(np.mean(np.where(f > 0.0, 1, -1) == truth)) if t in wanted else None)
        return found

    return run


def decisions(
    kernel: Kernel,
    reading: str,
    stream: Stream,
    C: float,
    beta: float,
    n_neighbors: int,
    heat: float,
    new: np.ndarray,
) -> Any:
    """Yield f + b at ``new`` (q, d) after each batch: (q,)."""
    rows, coef, past, b = np.zeros((0, new.shape[1])), np.zeros(0), Past(), 0.0
    for X, y, known in stream.batches:
        L = neighbour_graph(X, n_neighbors, heat).laplacian.toarray()
        base: Function = kernel
        if len(past) == 1:  # one batch is its own average: exact
            base = _less(kernel, past[0][0], 2.0 * beta * past[0][1])
        elif past:
            V, weight = vectors(past, reading)
            base = _less(kernel, V, np.diag(2.0 * beta * len(past) * weight))
        now = _less(base, X, 2.0 * beta * L)
        own, labels = X[known], y[known].astype(float)
        f0 = now(own, rows) @ coef if len(rows) else np.zeros(len(own))
        K = now(own, own)
        solved = MED(near=b).solve(
            DenseGram.given(0.5 * (K + K.T)),
            labels[:, None],
            Margin(C),
            mean=f0[:, None],
            basis=np.ones((len(labels), 1)),
        )
        rows, coef = np.concatenate([rows, own]), np.append(coef, solved.alpha[:, 0])
        past.append((X, L))
        b = float(solved.beta[0, 0])
        yield now(new, rows) @ coef + b
