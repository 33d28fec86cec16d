"""Landmarked: a function learned on graphs in bounded memory, its smoothness on landmarks.

With phi(x) = R^-1 k(Z, x), R R' = k(Z, Z) for m landmarks Z, the smoothness of a batch X counts
for the part of f that the landmarks see:

    G <- G + phi(X) M phi(X)',    h <- h + sum_i phi(x_i) c_i
    k_t(x, z) = phi(x)'G^-1 phi(z) + [k(x, z) - phi(x)'phi(z)]
    f(x) = phi(x)'G^-1 h + sum_i [k(x, x_i) - phi(x)'phi(x_i)] c_i

The brackets are the residual: without them the landmarks are all there is. Both kernels are
positive semidefinite by construction, and with all rows as landmarks it is the exact method.
Theory (M10), (M11).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from mercer.core.arrays import Array, Index
from mercer.core.memory import require_bytes
from mercer.inference.graph.exact import Manifold, Smoothed, Whole, between
from mercer.kernels.features.nystroem import pivots
from mercer.linalg.graph import RootOperator

__all__ = ["Landmarked", "landmarked"]


@dataclass(frozen=True, eq=False)
class Landmarked(Manifold):
    """Landmarks Z = points[place]; the other points are support vectors.

    Attributes
    ----------
    place : (m,) the landmarks, in the order in which they were taken.
    R, G : (m, m) as above, R lower triangular.
    h : (m, k) over all labelled rows, those included whose support vectors were dropped.
    phi : (m, p) of the points.
    residual : whether k_t has the brackets.
    per_batch, most, support : limits of the new landmarks of a batch, of all landmarks, and of the
        support vectors that are kept.
    gone : support vectors that were dropped: the landmarks alone represent them since.
    """

    place: Index
    R: Array
    G: Array
    h: Array
    phi: Array
    residual: bool
    per_batch: int
    most: int
    support: int
    gone: int = 0

    def smooth(self, X: Array, rows: Index, M: Any, at: Index) -> LandmarkSmoothed:
        room = min(self.per_batch, self.most - len(self.place))
        m, n, p = len(self.place) + max(room, 0), len(X), len(self.points)
        require_bytes(  # R, G, their factors; phi of the batch, as it is made; phi of all points
            8 * m * (5 * m + 4 * n + 3 * (n + p)),
            f"a batch of {n} rows on {m} landmarks",
            "give fewer rows at a time, or lower max_landmarks or max_support",
        )
        here = _solve(self.R, between(self.kernel, self.points[self.place], X))
        chosen, more = pivots(self.kernel, X, room, here)
        here = np.concatenate([here, more])
        m, p = len(self.R), len(chosen)
        R, G = np.zeros((m + p, m + p)), np.eye(m + p)
        R[:m, :m], R[m:] = self.R, np.tril(here[:, chosen].T, m)
        G[:m, :m] = self.G
        G += _symmetric(here @ (M @ here.T))
        # the support vectors count in full for the landmarks that are new as well
        apart = between(self.kernel, X[chosen], self.points) - R[m:, :m] @ self.phi
        old = np.concatenate([self.phi, _solve(R[m:, m:], apart)])
        h = np.concatenate([self.h, old[m:] @ self.coef])
        coef = np.concatenate([self.coef, np.zeros((len(X), h.shape[1]))])
        after = replace(
            self,
            points=np.concatenate([self.points, X]),
            rows=np.concatenate([self.rows, rows]),
            coef=coef,
            weights=np.zeros_like(coef),  # computed when the labels are known
            place=np.concatenate([self.place, len(self.points) + chosen]),
            R=R,
            G=G,
            h=h,
            phi=np.concatenate([old, here], axis=1),
        )
        return LandmarkSmoothed(after, len(self.points) + at, cholesky(G, lower=True))

    def operator(self) -> RootOperator:
        if not self.residual:
            raise ValueError(
                "without the residual the covariance is that of the landmarks alone, and not the "
                "kernel less a part of it; use residual=True"
            )
        values, V = np.linalg.eigh(self.G)
        shrunk = np.sqrt(np.maximum(1.0 - 1.0 / values, 0.0))  # rounding: eigenvalues are >= 1
        root = np.zeros((len(self.G), len(self.points)))
        root[:, self.place] = _back(self.R, V * shrunk).T
        return RootOperator(root)

    def describe(self) -> dict[str, Any]:
        held = int(np.count_nonzero(np.any(self.coef != 0.0, axis=1)))
        kept = {"residual": self.residual, "support": held, "dropped_support_vectors": self.gone}
        return {"form": "landmarks", "landmarks": len(self.place)} | kept


@dataclass(frozen=True, eq=False)
class LandmarkSmoothed(Smoothed):
    """``manifold`` with a batch in its kernel; its points ``at`` (l,) have the labels; U U' = G."""

    manifold: Landmarked
    at: Index
    U: Array

    def covariance(self) -> Array:
        part, phi = self.manifold, self.manifold.phi[:, self.at]
        half = _solve(self.U, phi)
        K = half.T @ half
        if part.residual and len(self.at):
            K += part.kernel(part.points[self.at]) - phi.T @ phi
        return np.asarray(K)

    def latent(self) -> Array:
        part = self.manifold
        f = part.phi[:, self.at].T @ (_twice(self.U, part.h) - part.phi @ part.coef)
        held = np.flatnonzero(np.any(part.coef != 0.0, axis=1))
        if len(held):
            f += part.kernel(part.points[self.at], part.points[held]) @ part.coef[held]
        return np.asarray(f)

    def learn(self, c: Array) -> Landmarked:
        part = self.manifold
        h, coef = part.h + part.phi[:, self.at] @ c, part.coef.copy()
        if part.residual:
            np.add.at(coef, self.at, c)
        return _pruned(replace(part, h=h, coef=coef), self.U)


def landmarked(
    whole: Whole, residual: bool, per_batch: int, most: int, support: int, count: int
) -> Landmarked:
    """Return an exact manifold on ``count`` of its rows as landmarks, at most."""
    place, phi = pivots(whole.kernel, whole.points, min(count, most))
    R = np.ascontiguousarray(np.tril(phi[:, place].T))
    G = np.eye(len(place)) + _symmetric(phi @ (whole.graph @ phi.T))
    coef = whole.coef if residual else np.zeros_like(whole.coef)
    start = (whole.kernel, whole.points, whole.rows, coef, np.zeros_like(coef))
    own = (place, R, G, phi @ whole.coef, phi)
    part = Landmarked(*start, *own, residual, per_batch, most, support)
    return _pruned(part, cholesky(G, lower=True))


def _pruned(part: Landmarked, U: Array) -> Landmarked:
    """Return the manifold with its weights, and without what it need not keep; U U' = G.

    Of too many support vectors those go whose residual part in f is smallest,
    [k(x_i, x_i) - |phi(x_i)|^2] |c_i|^2: it is the squared norm of what is lost. What is then
    neither landmark nor support vector goes as well.
    """
    phi, coef, size = part.phi, part.coef, np.einsum("ij,ij->i", part.coef, part.coef)
    held = np.flatnonzero(size)
    over = max(0, len(held) - part.support)
    if over:
        left = part.kernel.diag(part.points[held]) - np.einsum("ij,ij->j", phi, phi)[held]
        coef = coef.copy()
        coef[held[np.argsort(left * size[held], kind="stable")[:over]]] = 0.0
    weights = coef.copy()
    weights[part.place] += _back(part.R, _twice(U, part.h) - phi @ coef)
    use = np.any(coef != 0.0, axis=1)
    use[part.place] = True
    return replace(
        part,
        points=np.ascontiguousarray(part.points[use]),
        rows=part.rows[use],
        coef=np.ascontiguousarray(coef[use]),
        weights=np.ascontiguousarray(weights[use]),
        phi=np.ascontiguousarray(phi[:, use]),
        place=(np.cumsum(use) - 1)[part.place].astype(np.intp),
        gone=part.gone + over,
    )


def _solve(R: Array, V: Array) -> Array:
    """R^-1 V, also for no landmarks."""
    if not len(R):
        return np.zeros((0, V.shape[1]))
    return np.asarray(solve_triangular(R, V, lower=True, check_finite=False))


def _back(R: Array, V: Array) -> Array:
    """R^-T V."""
    if not len(R):
        return np.zeros((0, V.shape[1]))
    return np.asarray(solve_triangular(R, V, lower=True, trans="T", check_finite=False))


def _twice(U: Array, V: Array) -> Array:
    """(U U')^-1 V."""
    return _back(U, _solve(U, V))


def _symmetric(A: Array) -> Array:
    return np.asarray(0.5 * (A + A.T))
