"""The factor-analysed variational Gaussian: Sigma = D + C_f C_f', D diagonal, C_f (n, M).

White noise in Sigma is charged at diag K^-1, so that for smooth kernels D is forced to nearly
nothing and only M directions keep any posterior variance: the bound is looser by tens of nats than
the best Gaussian's, and depends on the jitter that K^-1 needs.

F is not convex in C_f. The descent begins at the best Gaussian of the same problem: its mean, and
the M directions in which its covariance most exceeds a diagonal one. Newton's method in a trust
region goes on from there, with exact products with the Hessian, so that the averages of the losses,
which cost most, are needed once for each step. F, gradient and Hessian cost O(n^2 M); the inverse
of Sigma and its changes O(M^2 n), thesis (C.5) by Woodbury.

The energy is well conditioned in other coordinates: mu = mean + A m, C_f = A C^ and
log d_i = log scale_i + sqrt(2) e_i, where A A' = (K^-1 + W_0)^-1 for weights W_0 near those of the
solution, scale_i = 1 / (K^-1 + W_0)_ii. In (m, C^, e) the Hessian is near the identity: A whitens
the mean and the directions of C_f, and 1/2 (d_i / scale_i - log d_i) has unit curvature in e_i
where it is smallest. None is bounded.
Reference: M. Seeger's thesis, section 4.3 and appendix C.1, (C.3); the Hessian follows from it.
Theory (A11).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np
from scipy.linalg import cho_solve, eigh, lapack, solve_triangular

from mercer.core.arrays import Array
from mercer.core.errors import NotPositiveDefiniteError
from mercer.core.memory import require_memory
from mercer.inference.base import ended
from mercer.inference.sites.base import Sites, Task, averages
from mercer.inference.variational.trust_region import minimise
from mercer.linalg.gram import Factor, NoSpread

LEVEL = 0.05  # least d_i / scale_i to begin with,
KEPT = 1e-3  # or at a nearby problem: where d_i is nearly 0, F does not depend on log d_i any more
FAR = 3.0  # most that a step changes log d_i by: beyond, F is flat and the way back long
SPLIT = 1.01  # least ratio of the variance with a factor to that without: off the saddle at none
PATIENCE = 15  # evaluations after which the start at a nearby problem is given up
UNIT = np.sqrt(2.0)  # log d_i in units of this has unit curvature

Best: TypeAlias = Callable[[], Sites]


def sites(
    task: Task, start: Sites | None, best: Best, M: int, tol: float, max_iter: int, jitter: float
) -> Sites:
    """Minimise F over mu, D and C_f jointly.

    It begins at ``start``, a factor-analysed posterior of a problem nearby, if that leads to the
    end in a few steps; otherwise at the ``best`` Gaussian of this one.
    """
    M = min(M, len(task.y))
    if start is not None and continues(start, len(task.y), M):
        found = _descend(task, start, M, tol, min(PATIENCE, max_iter), jitter)
        if found.report.converged:
            return found
    return _descend(task, best(), M, tol, max_iter, jitter)


def continues(start: Sites, n: int, M: int) -> bool:
    """Whether ``start`` is a factor-analysed posterior of n points with M factors."""
    white = getattr(start.factor, "whitened", None)
    return white is not None and white.shape == (n, M)


def _descend(task: Task, begun: Sites, M: int, tol: float, max_iter: int, jitter: float) -> Sites:
    family = Family(task, jitter, begun.W)
    Z = begin(task, family, begun, M)
    limits = np.full_like(Z, np.inf)
    limits[:, -1] = FAR / UNIT
    region = (Z.ravel(), limits.ravel(), np.sqrt(len(Z)))
    x, found, count = minimise(partial(at, family), *region, tol, max_iter)
    factor = FactoredFactor(family, found, x)
    residual = float(np.abs(found.gradient).max())
    before = 0 if continues(begun, len(Z), M) else begun.report.details["factorisations"]
    message = (
        f"the factor-analysed Gaussian stopped at a gradient of {residual:.2g}, not {tol:g}: "
        "raise max_iter or tol, or use factors=None, which is faster and tighter"
    )
    spent = {"factorisations": 2 + before}  # K and K^-1 + W_0
    spent |= {"evaluations": count.evaluations, "products": count.products}
    report = ended(residual <= tol, count.steps, message, factor, **spent, residual=residual)
    a = cho_solve((family.L, True), found.shift)
    return Sites(a, found.bend, task.mean + found.shift, factor, report)


def begin(task: Task, family: Family, begun: Sites, M: int) -> Array:
    """The coordinates (n, M + 2) to begin with: columns m, C^ and e.

    The mean is that of the sites of ``begun`` under this prior. Given D and W_0, the best C_f is
    known: D^1/2 V (1/lambda - 1)^1/2 with the eigenvectors V of D^1/2 (K^-1 + W_0) D^1/2 that
    belong to the M smallest eigenvalues lambda; they are the largest of the inverse's.
    """
    h = begun.a + family.W * (begun.f - task.mean)
    m = family.A.T @ h  # A^-1 mu for mu = (K^-1 + W_0)^-1 h
    white = getattr(begun.factor, "whitened", None)
    if white is not None:
        shares: Array = begun.factor.shares  # type: ignore[attr-defined]  # beside ``whitened``
        shares = np.maximum(shares, np.log(KEPT) / UNIT)
    else:
        n = len(m)
        # on average d_i / scale_i is 1 less the share M / n that the factors take
        shares = np.full(n, np.log(max(1.0 - M / n, LEVEL)) / UNIT)
        scaled = family.A / np.sqrt(family.variances(shares))[:, None]
        values, vectors = eigh(scaled.T @ scaled, subset_by_index=[n - M, n - 1])
        white = vectors * np.sqrt(1.0 - 1.0 / np.maximum(values, SPLIT))
    return np.column_stack([m, white, shares])


class Family:
    """The prior K + jitter diag K = L L', whitened by A for the weights W_0 >= 0.

    Attributes
    ----------
    L, A, logdet : (n, n) Cholesky factor, A with A A' = (K^-1 + W_0)^-1, and log|K|.
    own, scale : (n,) diagonal of K^-1, and 1 / (K^-1 + W_0)_ii.
    """

    def __init__(self, task: Task, jitter: float, W: Array) -> None:
        self.task, self.jitter, self.W = task, jitter, np.maximum(W, 0.0)
        n = len(task.y)
        require_memory(n, 5, "a factor-analysed posterior")
        K = np.array(task.gram.rows(np.arange(n)), order="F")
        K.flat[:: n + 1] += jitter * task.gram.diag()
        self.L, failed = lapack.dpotrf(K, lower=1, clean=1, overwrite_a=1)
        if failed:
            raise NotPositiveDefiniteError(
                f"a factor-analysed covariance needs K^-1, and with a jitter of {jitter:g} K is "
                "not positive definite: raise Variational(jitter=...), or use factors=None, which "
                "needs none"
            )
        # A = L R^-T with R R' = I + L'W L, a matrix >= I
        B = np.sqrt(self.W)[:, None] * self.L
        B = B.T @ B
        B.flat[:: n + 1] += 1.0
        R = np.linalg.cholesky(B)
        del B
        self.A = np.ascontiguousarray(solve_triangular(R, self.L.T, lower=True).T)
        del R
        inverse = lapack.dtrtri(self.L, lower=1)[0]
        self.own = np.square(inverse).sum(axis=0)
        self.scale = 1.0 / (self.own + self.W)
        self.logdet = 2.0 * float(np.log(np.diagonal(self.L)).sum())

    def inverse(self) -> Array:
        """K^-1, in a fresh (n, n) array."""
        half = lapack.dpotri(self.L, lower=1)[0]
        return np.asarray(np.tril(half) + np.tril(half, -1).T)

    def variances(self, e: Array) -> Array:
        """The diagonal of D."""
        return np.asarray(self.scale * np.exp(UNIT * e))


class Precision:
    """What is needed of Sigma^-1 for D = diag(d), d > 0, and C (n, M).

    Attributes
    ----------
    logdet, solved : log|Sigma|, and S = Sigma^-1 C (n, M).
    level : (n,) 1 - d_i (Sigma^-1)_ii, between 0 and 1: the share that the factors take.
    """

    def __init__(self, d: Array, C: Array) -> None:
        self.d, self.C = d, C
        self._scaled = C / d[:, None]
        inner = C.T @ self._scaled
        inner.flat[:: len(inner) + 1] += 1.0  # A = I + C'D^-1 C
        root = np.linalg.cholesky(inner)
        # what is not finite is found out by whoever asked
        self._inner = cho_solve((root, True), np.eye(len(root)), check_finite=False)
        half = solve_triangular(root, self._scaled.T, lower=True, check_finite=False)
        self._rows = half * np.sqrt(d)
        self.logdet = float(np.log(d).sum()) + 2.0 * float(np.log(np.diagonal(root)).sum())
        self.level = np.asarray(np.square(self._rows).sum(axis=0))
        back = solve_triangular(root, half, lower=True, trans=1, check_finite=False)
        self.solved = np.asarray(back.T)

    def change(self, log_d: Array, dC: Array) -> tuple[Array, Array]:
        """Derivatives of ``solved`` and ``level`` when log d and C move by log_d (n,), dC (n, M).

        From d Sigma^-1 = -Sigma^-1 dSigma Sigma^-1, dSigma = diag(d o log_d) + dC C' + C dC' and
        I - C'S = A^-1. All is in ratios to d, which may be tiny.
        """
        S = self.solved
        Y = dC / self.d[:, None] - S @ (self._scaled.T @ dC)  # Sigma^-1 dC
        part = log_d[:, None] * S
        solved = Y @ self._inner - part + S @ (self.C.T @ part - dC.T @ S)
        # sum_j d_i (Sigma^-1)_ij^2 d_j log_d_j less its diagonal, with rows r_i'r_j off it
        gathered = (self._rows * log_d) @ self._rows.T
        mixed = np.einsum("ki,ki->i", self._rows, gathered @ self._rows)
        own = 2.0 * self.d * np.einsum("ij,ij->i", Y, S)
        return solved, np.asarray(mixed + own - log_d * self.level)


def at(family: Family, x: Array) -> FreeEnergy | None:
    """F at x, the ravelled (n, M + 2) array of the columns m, C^ and e; None if not finite."""
    Z = x.reshape(len(family.own), -1)
    try:
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            found = FreeEnergy(family, Z)
    except np.linalg.LinAlgError:  # a step so long that D or C_f is infinite
        return None
    finite = np.isfinite(found.value) and np.all(np.isfinite(found.gradient))
    return found if finite else None


class FreeEnergy:
    """F, to be minimised, and its derivatives at one point.

    Attributes
    ----------
    shift, loadings, d : (n,) mu - mean, C_f (n, M), and (n,) diagonal of D.
    value, gradient : F and its gradient in x.
    divergence, logdet_ratio : KL(q || prior), F without the loss; log|K| - log|Sigma|.
    bend : (n,) 2 d nu_i/dSigma_ii.
    """

    def __init__(self, family: Family, Z: Array) -> None:
        self.family, n = family, len(Z)
        both = family.A @ Z[:, :-1]
        self.shift, C = both[:, 0], both[:, 1:]
        self.d, self.loadings = family.variances(Z[:, -1]), C
        task, W, d = family.task, family.W, self.d
        squares = np.square(C).sum(axis=1)
        self.m, self.v = task.mean + self.shift, d + squares
        total, slope, self.bend = averages(task, self.m, self.v)
        self.precision = Precision(d, C)
        # mu'K^-1 mu = |m|^2 - mu'W mu, and the same for C_f: no solve with K is needed
        quadratic = float(np.square(Z[:, :-1]).sum() - W @ (np.square(self.shift) + squares))
        self.logdet_ratio = family.logdet - self.precision.logdet
        self.divergence = 0.5 * (quadratic + float(d @ family.own) + self.logdet_ratio - n)
        self.value = total + self.divergence
        # (C.3), with bend = 2 d nu/dv, in the whitened variables
        extra = self.bend - W
        out = np.column_stack([slope - W * self.shift, extra[:, None] * C - self.precision.solved])
        in_e = 0.5 * UNIT * (d * (self.bend + family.own) - 1.0 + self.precision.level)
        self.gradient = np.column_stack([family.A.T @ out + Z[:, :-1], in_e]).ravel()
        self._higher: tuple[Array, Array] | None = None

    def product(self, v: Array) -> Array:
        """The Hessian of F times v: the directional derivative of every line of the gradient."""
        family, C, d = self.family, self.loadings, self.d
        if self._higher is None:  # d bend/dm and 2 d bend/dv
            third, fourth = family.task.loss.expected_higher(family.task.y, self.m, self.v)
            self._higher = family.task.w * third, family.task.w * fourth
        third, fourth = self._higher
        V = v.reshape(len(d), -1)
        both, log_d = family.A @ V[:, :-1], UNIT * V[:, -1]
        shift, dC = both[:, 0], both[:, 1:]
        var = d * log_d + 2.0 * np.einsum("ij,ij->i", C, dC)
        slope = self.bend * shift + 0.5 * third * var
        bend = third * shift + 0.5 * fourth * var
        solved, level = self.precision.change(log_d, dC)
        extra = (self.bend - family.W)[:, None]
        out = np.column_stack([slope - family.W * shift, extra * dC + bend[:, None] * C - solved])
        in_e = 0.5 * UNIT * (d * (log_d * (self.bend + family.own) + bend) + level)
        return np.column_stack([family.A.T @ out + V[:, :-1], in_e]).ravel()


class FactoredStart(NoSpread):
    """The covariance in coordinates that a nearby problem shares: C^ (n, M) and e (n,)."""

    def __init__(self, whitened: Array, shares: Array) -> None:
        super().__init__(np.empty(0))
        self.whitened, self.shares = whitened, shares


class FactoredFactor(Factor):
    """C = K^-1 - K^-1 Sigma K^-1 for K with jitter on its diagonal; W plays no part.

    ``divergence`` is KL(q || prior); ``whitened`` and ``shares`` as for :class:`FactoredStart`.
    """

    jitter: float

    def __init__(self, family: Family, found: FreeEnergy, x: Array) -> None:
        Z = x.reshape(len(found.d), -1)
        self.d, self.loadings, self.jitter = found.d, found.loadings, family.jitter
        self.whitened, self.shares = Z[:, 1:-1].copy(), Z[:, -1].copy()
        inverse = family.inverse()
        T = cho_solve((family.L, True), self.loadings)
        scaled = inverse * np.sqrt(self.d)
        self.C = inverse - scaled @ scaled.T - T @ T.T
        self.divergence, self._logdet = found.divergence, found.logdet_ratio

    def solve(self, V: Array) -> Array:
        return np.asarray(self.C @ V)

    def diag(self) -> Array:
        return np.diagonal(self.C).copy()

    def cov_diag(self) -> Array:
        return np.asarray(self.d + np.square(self.loadings).sum(axis=1))

    def cov(self) -> Array:
        return np.asarray(np.diag(self.d) + self.loadings @ self.loadings.T)

    def logdet(self) -> float:
        """Return log|K| - log|Sigma|, which is log|I + K W| where Sigma = (K^-1 + W)^-1."""
        return self._logdet

    def gradient_weights(self, a: Array, count: float) -> Array:
        """(a a' - count C)/2, thesis (C.4), its diagonal times 1 + jitter: that moves with K_ii."""
        Q = np.asarray(0.5 * (a @ a.T - count * self.C))
        Q.flat[:: len(Q) + 1] *= 1.0 + self.jitter
        return Q

    def beginning(self) -> FactoredStart:
        return FactoredStart(self.whitened, self.shares)
