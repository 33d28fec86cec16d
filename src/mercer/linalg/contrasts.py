"""Contrasts: the combinations of observations in which an unpenalised basis cancels.

For a K that is positive on contrasts only (a thin-plate Green's function), or huge along the
basis, neither K nor K + W^-1 can be factored. With S = diag(sqrt(w)) and the QR decomposition
S H = [Q1 Q2] [R; 0] the columns of S Q2 annihilate H, and one eigendecomposition

    Q2' S G S Q2 = U diag(d) U',      V = S Q2 U,      z = V'y

serves K = v G with noise lam v / w for every variance v and ratio lam (methods of GPML 2.7):

    P = V diag(1 / (v (d + lam))) V',     log |K_y| + log |A| = (n - k) log v + sum log(d + lam)
                                                               + 2 log |det R| - sum log w.

Those of a few points can stand for all. With r = p - k contrasts of the inducing points Z,
L L' = Q2'G(Z, Z) Q2 and c(x) = G(Z, x) - G(Z, Z) J h(x) (``linalg.operators``), the features

    phi(x) = L^-1 Q2'c(x),         phi(x)'phi(z) <= the covariance of the contrasts at x and z,

turn the model into y = phi'b + h'beta + noise, b ~ N(0, v I), beta flat: the posterior that is
closest to the exact one among those that know f at Z only (Titsias 2009). It costs O(n p^2) time
and O(p^2) memory: the rows pass by in blocks, which a QR decomposition takes in,

    [S H, S phi, S y] = Q [[R, B, a], [0, D, e], [0, 0, s]],     D = O diag(sqrt(d)) U'.

Theory (P10), (P11), (P12), (P14).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.linalg import cholesky, eigh, solve_triangular
from scipy.linalg.lapack import dgeqrf, dormqr

from mercer.core.arrays import Array, Index
from mercer.linalg.gram import Covariance, Factor
from mercer.linalg.operators import ContrastOperator


class Null:
    """The QR decomposition of S H (n, k), H of full rank: what of y is basis, and what is not."""

    def __init__(self, H: Array, weights: Array) -> None:
        n, k = H.shape
        self.root = np.sqrt(weights)
        self._reflectors, self._tau, _, _ = dgeqrf(np.asfortranarray(self.root[:, None] * H))
        self.R = np.triu(self._reflectors[:k])
        lengths = np.linalg.norm(self.R, axis=0)
        if n < k or np.any(np.abs(np.diagonal(self.R)) <= 1e-10 * lengths):
            raise ValueError(
                f"the {k} unpenalised functions are linearly dependent on the {n} distinct inputs: "
                "give points that are not all on one line or surface, drop columns that depend on "
                "others, or choose a lower order"
            )
        first = np.zeros((n, k))
        first[:k] = np.eye(k)
        self.Q1 = self.rotate(first, "N")

    def rotate(self, A: Array, trans: str, side: str = "L") -> Array:
        """Return Q'A ("T") or Q A ("N"), or with side "R" A Q, for the full Q of n reflections."""
        lwork = 64 * A.shape[1] if side == "L" else 64 * len(A)
        out, _, info = dormqr(side, trans, self._reflectors, self._tau, A, lwork=max(1, lwork))
        assert info == 0
        return np.asarray(out)

    def lift(self, B: Array) -> Array:
        """Return R^-1 B (k, m)."""
        return np.asarray(solve_triangular(self.R, B))

    @property
    def anchor(self) -> Array:
        """J = S Q1 R^-T (n, k): J h(x) are the weights by which data give the basis part at x."""
        J = solve_triangular(self.R, self.Q1.T).T
        return np.asarray(self.root[:, None] * J)

    def logdet(self) -> float:
        """2 log |det R| - sum log w."""
        pivots = np.abs(np.diagonal(self.R))
        return 2.0 * float(np.log(pivots).sum()) - 2.0 * float(np.log(self.root).sum())


class Contrasts:
    """One eigendecomposition of G (n, n) on the contrasts of H (n, k), under weights (n,).

    Attributes
    ----------
    d : (n - k,) eigenvalues, ascending, not below zero.
    V : (n, n - k), with H'V = 0 and V'(G + lam / w) V = diag(d + lam).
    floor : float, the rounding error of d: smaller differences mean nothing.

    Reference: Wahba, Spline models for observational data (1990), sections 1.3 and 4.5.
    """

    def __init__(self, G: Array, H: Array, weights: Array) -> None:
        self.null = null = Null(H, weights)
        k, S = H.shape[1], null.root
        M = null.rotate(np.asfortranarray(S[:, None] * G * S), "T")
        M = null.rotate(M, "N", "R")[k:, k:]
        values, U = eigh(0.5 * (M + M.T), driver="evd", overwrite_a=True)
        self.floor = len(G) * float(np.finfo(float).eps) * float(np.abs(values).max(initial=0.0))
        self.d = np.maximum(values, 0.0)  # negative ones are of the size of the floor
        padded = np.zeros((len(G), len(values)), order="F")
        padded[k:] = U
        self.V = S[:, None] * null.rotate(padded, "N")


class VagueFactor(Factor):
    """P with the basis projected out, whose logdet_noisy() is log |K + W^-1| + log |A|.

    That is the determinant of the vague evidence, GPML (2.45). Nothing is added to a diagonal.
    """

    W: Array

    @property
    def report(self) -> dict[str, Any]:
        return {"jitter": 0.0}

    def logdet(self) -> float:
        """log |I + K W| + log |A|."""
        return self.logdet_noisy() + float(np.log(self.W).sum())


class ContrastFactor(VagueFactor):
    """P for K = variance * G and noise variances lam * variance / w; lam = 0 interpolates.

    ``G`` (n, n) is needed for the coefficients of the basis and for the operator.
    """

    def __init__(self, contrasts: Contrasts, G: Array, variance: float, lam: float) -> None:
        if lam <= 0.0 and contrasts.d[0] <= contrasts.floor:
            raise np.linalg.LinAlgError(
                "the points are too close to each other to interpolate in double precision; "
                "smooth a little: lam > 0"
            )
        self.contrasts, self.G = contrasts, G
        self.variance, self.lam = variance, lam
        self.shrunk = 1.0 / (variance * (contrasts.d + lam))
        with np.errstate(divide="ignore"):
            self.W = contrasts.null.root**2 / np.float64(variance * lam)

    def solve(self, V: Array) -> Array:
        T = self.contrasts.V
        return np.asarray(T @ (self.shrunk[:, None] * (T.T @ V)))

    def diag(self) -> Array:
        return np.asarray(self.contrasts.V**2 @ self.shrunk)

    def cov_diag(self) -> Array:
        """Posterior variance at the points, shape (n,): W^-1 - W^-1 P W^-1."""
        if self.lam == 0.0:
            return np.zeros(len(self.W))
        return np.asarray((1.0 - self.diag() / self.W) / self.W)

    def logdet_noisy(self) -> float:
        return self.contrasts.null.logdet() - float(np.log(self.shrunk).sum())

    def coefficients(self, y: Array, alpha: Array) -> Array:
        """Beta = R^-1 Q1'S (y - K alpha) (k, m); the noise part of K_y alpha is orthogonal to H."""
        null = self.contrasts.null
        rest = y - self.variance * (self.G @ alpha)
        return null.lift(null.Q1.T @ (null.root[:, None] * rest))

    def operator(self) -> ContrastOperator:
        null, J = self.contrasts.null, self.contrasts.null.anchor
        cross = self.variance * (self.G @ J)
        inverse = null.lift(np.eye(J.shape[1]))
        noise = self.variance * self.lam * (inverse @ inverse.T)
        half = np.sqrt(self.shrunk)[:, None] * self.contrasts.V.T
        return ContrastOperator(half, J, cross, J.T @ cross + noise)


class InducingContrasts:
    """The spectrum of n weighted observations seen through r contrasts of p inducing points.

    ``green`` is G(X, Z), zero at distance zero, ``basis`` h(X), ``knots`` (p, d) are the inducing
    points Z; the data are ``points`` (n, d), ``y`` (n, m) and ``weights`` (n,).

    Attributes
    ----------
    d : (r,) eigenvalues, ascending.
    z : (r, m) the targets along their eigenvectors.
    rest : float, sum of squares of the targets along no feature.
    unexplained : (n,) prior variance of f at each point given f at Z, for v = 1.

    Reference: Titsias, Variational learning of inducing variables in sparse Gaussian processes
    (2009), equations (9)-(10); Wood, Thin plate regression splines (2003), section 5.
    """

    def __init__(
        self,
        green: Covariance,
        basis: Callable[[Array], Array],
        knots: Array,
        points: Array,
        y: Array,
        weights: Array,
    ) -> None:
        self.green, self.basis, self.knots = green, basis, knots
        self.points, self.weights = points, weights
        self._start(green(knots, knots), basis(knots))
        self.unexplained = np.empty(len(points))
        top = np.zeros((0, self.k + self.r + y.shape[1]))
        for rows in self.blocks():
            h, phi, prior = self.features(points[rows])
            self.unexplained[rows] = np.maximum(prior - np.einsum("ij,ij->i", phi, phi), 0.0)
            S = np.sqrt(weights[rows])[:, None]
            stacked = np.vstack([top, S * np.hstack([h, phi, y[rows]])])
            top = np.asarray(np.linalg.qr(stacked, mode="r"))
        k, r = self.k, self.r
        self.R, self.B, self.a = top[:k, :k], top[:k, k : k + r], top[:k, k + r :]
        left, roots, right = np.linalg.svd(top[k : k + r, k : k + r])
        self.d, self.U = roots[::-1] ** 2, right[::-1].T
        self.z = left[:, ::-1].T @ top[k : k + r, k + r :]
        self.rest = float((top[k + r :, k + r :] ** 2).sum())

    def _start(self, G: Array, H: Array) -> None:
        null = Null(H, np.ones(len(H)))
        self.k, self.r = H.shape[1], len(H) - H.shape[1]
        self.J, self.GJ = null.anchor, G @ null.anchor
        self.JGJ = self.J.T @ self.GJ
        M = null.rotate(null.rotate(np.asfortranarray(G), "T"), "N", "R")[self.k :, self.k :]
        try:
            L = cholesky(0.5 * (M + M.T), lower=True)
        except np.linalg.LinAlgError:
            raise np.linalg.LinAlgError(
                "the inducing points are too close to each other for double precision: choose "
                "fewer, or further apart"
            ) from None
        padded = np.zeros((self.r, len(H)))
        padded[:, self.k :] = solve_triangular(L, np.eye(self.r), lower=True)
        self.F = null.rotate(np.asfortranarray(padded.T), "N").T  # L^-1 Q2', (r, p)

    def blocks(self) -> Iterator[slice]:
        """Yield the rows in portions."""
        size = max(4 * (self.k + self.r), 2048)
        return (slice(i, i + size) for i in range(0, len(self.points), size))

    def features(self, X: Array) -> tuple[Array, Array, Array]:
        """Return h (q, k), phi (q, r) and the prior variance of the contrast (q,), for v = 1."""
        h, A = self.basis(X), self.green(X, self.knots)
        prior = np.einsum("ij,ij->i", h @ self.JGJ - 2.0 * (A @ self.J), h)
        return h, (A - h @ self.GJ.T) @ self.F.T, prior

    def coefficients(self, lam: float) -> tuple[Array, Array]:
        """Return a (p, m), with H(Z)'a = 0, and beta (k, m): f = G(., Z) a + h'beta."""
        b = self.U @ ((np.sqrt(self.d) / (self.d + lam))[:, None] * self.z)
        a = self.F.T @ b
        beta = solve_triangular(self.R, self.a - self.B @ b)
        return a, beta - self.GJ.T @ a

    def operator(self, variance: float, lam: float) -> ContrastOperator:
        """Return what is subtracted from the prior covariance variance * G."""
        root = np.sqrt(variance)
        N = (np.sqrt(lam) / np.sqrt(self.d + lam))[:, None] * self.U.T
        inverse = solve_triangular(self.R, np.eye(self.k))
        block = variance * (self.JGJ + lam * (inverse @ inverse.T))
        tilt, cross = -root * (N @ (inverse @ self.B).T), variance * self.GJ
        return ContrastOperator(self.F / root, self.J, cross, block, (N @ self.F) / root, tilt)


def spread_out(X: Array, count: int) -> Index:
    """Return ``count`` rows of X (n, d), each as far as can be from those before it.

    The first is the row nearest to the mean; O(n count). The choice does not depend on chance.
    """
    chosen = [int(np.argmin(((X - X.mean(axis=0)) ** 2).sum(axis=1)))]
    near = ((X - X[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < count:
        chosen.append(int(np.argmax(near)))
        np.minimum(near, ((X - X[chosen[-1]]) ** 2).sum(axis=1), out=near)
    return np.asarray(chosen, dtype=np.intp)


class InducedFactor(VagueFactor):
    """P for K = variance * phi phi', noise variances lam * variance / w and the basis: O(n p) each.

    The smoother S y -> S f is T T' + N N' with T = S H R^-1 and N = (S phi - T B) U (d + lam)^-1/2,
    and P = S (I - T T' - N N') S / (lam variance).
    """

    def __init__(self, seen: InducingContrasts, variance: float, lam: float) -> None:
        self.seen, self.variance, self.lam, self.noise = seen, variance, lam, variance * lam
        self.W, self.leverages = seen.weights / self.noise, np.empty(len(seen.weights))
        for rows in seen.blocks():
            self.leverages[rows] = np.einsum("ij,ij->i", *(2 * [self._smoother(rows)]))

    def _smoother(self, rows: slice) -> Array:
        """Return rows of [T, N], (q, k + r)."""
        seen = self.seen
        h, phi, _ = seen.features(seen.points[rows])
        t = solve_triangular(seen.R, h.T, trans="T").T
        known = (phi - t @ seen.B) @ (seen.U / np.sqrt(seen.d + self.lam))
        return np.asarray(np.sqrt(seen.weights[rows])[:, None] * np.hstack([t, known]))

    def solve(self, V: Array) -> Array:
        S = np.sqrt(self.seen.weights)[:, None]
        SV, blocks = S * V, list(self.seen.blocks())
        inner = np.asarray(sum(self._smoother(rows).T @ SV[rows] for rows in blocks))
        for rows in blocks:
            SV[rows] -= self._smoother(rows) @ inner
        return np.asarray(S * SV / self.noise)

    def diag(self) -> Array:
        return np.asarray(self.W * (1.0 - self.leverages))

    def cov_diag(self) -> Array:
        """Posterior variance at the points of what the features can be, shape (n,)."""
        return np.asarray(self.leverages / self.W)

    def logdet_noisy(self) -> float:
        seen, free = self.seen, len(self.W) - self.seen.k
        pivots = 2.0 * float(np.log(np.abs(np.diagonal(seen.R))).sum())
        value = free * np.log(self.variance) + (free - seen.r) * np.log(self.lam)
        value += np.log(seen.d + self.lam).sum() - np.log(seen.weights).sum()
        return float(value + pivots)
