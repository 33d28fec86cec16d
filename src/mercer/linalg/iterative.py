"""Exact solutions without a factor: conjugate gradients that know how far they are.

P = Q + D with Q from inducing centres is the preconditioner of K + D, and P <= K + D. Hence for any
v, with r = y - (K + D) v and rho^2 = r'P^-1 r,

    v'(y + r) + r'(Q + (1 + tau) D)^-1 r  <=  y'(K + D)^-1 y  <=  v'(y + r) + rho^2            (I8)
    log|P|  <=  log|K + D|  <=  log|P| + n log(1 + tau/n),      tau = tr D^-1 (K - Q)          (I9)
    |k(x, X)(v - alpha)|  <=  sqrt(k(x, x)) rho                                               (I10)

the pair of Skilling in the metric of P. With G G' = P the matrix M = G^-1 (K + D) G^-T >= I, so
that Gauss and Gauss-Radau quadrature with a node at one bracket z'log(M) z for every probe z.

References: Skilling (1993); Gibbs and MacKay (1997); Artemev, Burt and van der Wilk (2021); Golub
and Meurant (1994). Theory (I7), (I8), (I9), (I10), (I11).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import eigh_tridiagonal

from mercer.core.arrays import Array, Index
from mercer.kernels.base import Gradient, Kernel
from mercer.linalg.gram import Factor, Gram
from mercer.linalg.operators import PosteriorOperator
from mercer.linalg.reduced.factor import ReducedFactor
from mercer.linalg.reduced.gram import ReducedGram

FRESH = 50  # rounds after which residuals are computed anew
RISES = 20  # rounds in a row in which rho may rise before the solver gives up
WIDTH = 16  # columns that share a product of K


@dataclass
class SolvedColumns:
    """Columns V with (K + D) V = Y, as far as the solver came.

    ``rho2`` (r,) are r'P^-1 r; ``steps`` the coefficients (length, ratio) of each round, (r,) each.
    """

    V: Array
    residual: Array
    rho2: Array
    rounds: int
    converged: bool
    steps: list[tuple[Array, Array]] = field(default_factory=list)


class IterativeGram(Gram):
    """K = k(P, P) by products alone: n x n numbers are never held.

    Parameters
    ----------
    kernel, points : the covariance, and (n, d).
    centres : (m, d) of the preconditioner.
    tol : rho^2 at which a solution is good enough.
    single : products in single precision, residuals in double.
    probes, rng : for the log-determinant.
    """

    name = "iterative"
    exact: ClassVar[bool] = False

    def __init__(
        self,
        kernel: Kernel,
        points: Array,
        centres: Array,
        *,
        tol: float = 1e-2,
        single: bool = False,
        probes: int = 8,
        rng: np.random.Generator | None = None,
    ) -> None:
        self.kernel, self.signal, self.points, self.tol = kernel, kernel.signal(), points, tol
        self.single, self.probes = single, probes
        self.rng = np.random.default_rng(0) if rng is None else rng
        self.reduced = ReducedGram(kernel, points, centres)
        self.products = 0

    def product(self, V: Array, *, exact: bool = False) -> Array:
        """k(P, P) V without noise parts, for V (n, r)."""
        self.products += 1
        precision = "single" if self.single and not exact else "double"
        return self.signal.matmul(self.points, self.points, V, precision=precision)

    def __matmul__(self, V: Array) -> Array:
        return self.product(V, exact=True) + self.reduced.noise[:, None] * V

    def diag(self) -> Array:
        return self.kernel.diag(self.points)

    def rows(self, index: Index) -> Array:
        return self.kernel(self.points)[index]  # small problems and tests

    def factor(self, W: Array) -> IterativeFactor:
        return IterativeFactor(self, W)

    def pullback(
        self, alpha: Array, factor: Factor, U: Array | None = None, V: Array | None = None
    ) -> Gradient:
        raise NotImplementedError("an iterative solution has no gradient of its evidence")

    def contract(self, Q: Array) -> Gradient:
        return self.kernel.pullback(self.points, None, Q)


class IterativeFactor(Factor):
    """C = (K + D)^-1 by conjugate gradients, D = 1 / W plus the noise parts of the kernel."""

    exact: ClassVar[bool] = False
    has_diagonal: ClassVar[bool] = False

    def __init__(self, gram: IterativeGram, W: Array) -> None:
        if not np.all((W > 0.0) & np.isfinite(W)):
            raise ValueError("an iterative solution needs noise in every row: raise the noise")
        self.gram, self.W = gram, W
        self.P = ReducedFactor(gram.reduced, W)
        self.D = 1.0 / W + gram.reduced.noise
        self.jitter = gram.reduced.jitter
        self.told: dict[str, Any] = {}
        self._logdet: LogDet | None = None

    @property
    def tau(self) -> float:
        """tr D^-1 (K - Q)."""
        return float((self.gram.reduced.known() / self.D).sum())

    # ------------------------------------------------------------------ solutions
    def solved(
        self, Y: Array, tol: float | None = None, *, limit: int | None = None
    ) -> SolvedColumns:
        """Solve (K + D) V = Y (n, r) until each rho^2 <= tol; refine if products are rough."""
        tol = self.gram.tol if tol is None else tol
        found = self._climb(Y, np.zeros_like(Y), tol, limit)
        if not self.gram.single:
            return found
        for _ in range(3):  # the true residual, in double precision
            found.residual = Y - self._apply(found.V, exact=True)
            found.rho2 = np.einsum("ij,ij->j", found.residual, self.P.solve(found.residual))
            found.converged = bool(np.all(found.rho2 <= tol))
            if found.converged:
                break
            more = self._climb(found.residual, np.zeros_like(Y), 0.1 * tol, limit)
            found.V += more.V
            found.rounds += more.rounds
        return found

    def _apply(self, V: Array, *, exact: bool = False) -> Array:
        return self.gram.product(V, exact=exact) + self.D[:, None] * V

    def _climb(self, Y: Array, V: Array, tol: float, limit: int | None) -> SolvedColumns:
        """Preconditioned conjugate gradients, all columns at once; one that is done rests."""
        limit = int(10.0 * np.sqrt(len(Y))) + 10 if limit is None else limit
        R = Y.copy()
        Z = self.P.solve(R)
        S, g = Z.copy(), np.einsum("ij,ij->j", R, Z)
        best, rises, rounds, steps = g.copy(), 0, 0, []
        going = g > tol
        while np.any(going) and rounds < limit and rises < RISES:
            T = self._apply(S[:, going])
            t = g[going] / np.einsum("ij,ij->j", S[:, going], T)
            V[:, going] += S[:, going] * t
            rounds += 1
            if rounds % FRESH == 0:
                R[:, going] = Y[:, going] - self._apply(V[:, going])
            else:
                R[:, going] -= T * t
            Z = self.P.solve(R[:, going])
            new = np.einsum("ij,ij->j", R[:, going], Z)
            length, ratio = np.full(len(g), np.nan), np.full(len(g), np.nan)
            length[going], ratio[going] = t, new / g[going]
            steps.append((length, ratio))
            S[:, going] = Z + S[:, going] * (new / g[going])
            g[going] = new
            better = g < best
            rises = 0 if np.any(better & going) else rises + 1
            best = np.minimum(best, g)
            going = g > tol
        return SolvedColumns(V, R, g, rounds, bool(np.all(g <= tol)), steps)

    def solve(self, V: Array) -> Array:
        parts = [V[:, i : i + WIDTH] for i in range(0, V.shape[1], WIDTH)]
        found = [self.solved(part) for part in parts]
        worst = float(max(one.rho2.max(initial=0.0) for one in found))
        self.told = {
            "mean_error": float(np.sqrt(self.gram.signal.diag(self.gram.points).max() * worst)),
            "rounds": max(one.rounds for one in found),
            "rho2": worst,
            "solved": all(one.converged for one in found),
            "products": self.gram.products,
        }
        return np.hstack([one.V for one in found])

    # ------------------------------------------------------------------ bounds
    def quadratic_bounds(self, y: Array, v: Array) -> tuple[float, float, float]:
        """Bounds on y'C y from any v (n,), and rho^2; theory (I8), (I4) at v = 0."""
        r = y - self._apply(v[:, None], exact=True)[:, 0]
        rho2 = float(r @ self.P.solve(r[:, None])[:, 0])
        wide = ReducedFactor(self.gram.reduced, 1.0 / ((1.0 + self.tau) * self.D))
        middle = float(v @ (y + r))
        return middle + float(r @ wide.solve(r[:, None])[:, 0]), middle + rho2, rho2

    def logdet_bounds(self) -> tuple[float, float]:
        """Bounds on log|K + D|; theory (I9)."""
        n, low = len(self.D), self.P.logdet_noisy()
        return low, low + n * float(np.log1p(self.tau / n))

    def bounds(self, z: Array, alpha: Array) -> tuple[float, float]:
        """Lower and upper bound on the log density of targets z (n, m) with solutions alpha."""
        n, m = z.shape
        low, high = self.logdet_bounds()
        pairs = [self.quadratic_bounds(z[:, j], alpha[:, j])[:2] for j in range(m)]
        constant = m * n * float(np.log(2.0 * np.pi))
        least, most = (float(sum(pair[i] for pair in pairs)) for i in (0, 1))
        return -0.5 * (most + m * high + constant), -0.5 * (least + m * low + constant)

    # ------------------------------------------------------------------ determinant
    def half(self, Z: Array) -> Array:
        """G Z for Z (n, r), with G G' = P."""
        F, root = self.gram.reduced, np.sqrt(self.D)[:, None]
        s, U = np.linalg.eigh(self.P.gathered())  # A A' with A = F'D^-1/2
        s = np.maximum(s, 0.0)
        gain = np.where(s > 1e-12, (np.sqrt(1.0 + s) - 1.0) / np.where(s > 1e-12, s, 1.0), 0.5)
        inner = U @ (gain[:, None] * (U.T @ F.project(Z / root)))
        return np.asarray(root * (Z + F.expand(inner) / root))

    def determinant(self) -> LogDet:
        """Estimate log|K + D| from probes, each bracketed by two quadratures."""
        if self._logdet is None:
            n = len(self.D)
            z = self.gram.rng.choice([-1.0, 1.0], size=(n, self.gram.probes))
            found = self._climb(self.half(z), np.zeros_like(z), 1e-4 * n, None)
            pairs = np.array([_quadrature(found.steps, j) for j in range(z.shape[1])])
            self._logdet = LogDet(self.P.logdet_noisy() + n * pairs)
        return self._logdet

    def logdet_noisy(self) -> float:
        return self.determinant().value

    def logdet(self) -> float:
        return self.logdet_noisy() + float(np.log(self.W).sum())

    # ------------------------------------------------------------------ the rest of the contract
    def diag(self) -> Array:
        raise NotImplementedError(
            "an iterative solution has no diagonal of its inverse: leave-one-out figures need "
            "gram='dense' or gram='inducing'"
        )

    def cov_diag(self) -> Array:
        return self.diag()

    @property
    def report(self) -> dict[str, Any]:
        return {"jitter": self.jitter, "centres": len(self.gram.reduced.support), **self.told}

    def operator(self) -> PosteriorOperator:
        return IterativeOperator(self)


@dataclass
class LogDet:
    """log|K + D| by probes: ``pairs`` (s, 2) are the lower and upper value of each."""

    pairs: Array

    @property
    def value(self) -> float:
        """The mean over the probes."""
        return float(self.pairs.mean())

    @property
    def error(self) -> float:
        """The standard error of the mean."""
        middle = self.pairs.mean(axis=1)
        return float(middle.std(ddof=1) / np.sqrt(len(middle))) if len(middle) > 1 else np.inf

    @property
    def bracket(self) -> tuple[float, float]:
        """The means of the two quadratures: between them is the value for infinitely many steps."""
        low, high = self.pairs.mean(axis=0)
        return float(low), float(high)


def _quadrature(steps: list[tuple[Array, Array]], j: int) -> tuple[float, float]:
    """Return e1'log(T) e1 by Gauss-Radau with a node at one (lower), and by Gauss (upper).

    T comes from the coefficients of conjugate gradients: T_11 = 1/t_1 and, with ratios b,
    T_ii = 1/t_i + b_{i-1}/t_{i-1},  T_i,i+1 = sqrt(b_i)/t_i.
    """
    t = np.array([length[j] for length, _ in steps if np.isfinite(length[j])])
    b = np.array([ratio[j] for length, ratio in steps if np.isfinite(length[j])])
    if not len(t):
        return 0.0, 0.0
    main = 1.0 / t
    main[1:] += b[:-1] / t[:-1]
    side = np.sqrt(np.maximum(b, 0.0)) / t
    values, vectors = eigh_tridiagonal(main, side[:-1])
    high = float(vectors[0] ** 2 @ np.log(np.maximum(values, 1e-300)))
    # one more row whose diagonal puts an eigenvalue at one
    shifted = main - 1.0
    pivot = shifted[0]
    for i in range(1, len(main)):
        if not pivot > 1e-14:
            break
        pivot = shifted[i] - side[i - 1] ** 2 / pivot
    if not pivot > 1e-14:  # M is the identity on what was seen
        return high, high
    last = 1.0 + side[-1] ** 2 / pivot
    values, vectors = eigh_tridiagonal(np.append(main, last), side)
    low = float(vectors[0] ** 2 @ np.log(np.maximum(values, 1e-300)))
    return min(low, high), high


class IterativeOperator(PosteriorOperator):
    """C of a posterior by solutions: a variance costs as many products as the mean did.

    ``width`` is the half width of the bracket of a variance, in units of the smallest noise.
    """

    def __init__(self, factor: IterativeFactor, width: float = 0.01) -> None:
        self.factor, self.width = factor, width

    def state(self) -> dict[str, Any]:
        """Return what :meth:`restored` needs beside the kernel and the points."""
        gram = self.factor.gram
        told = {"tol": gram.tol, "single": gram.single, "width": self.width}
        centres = gram.reduced.support
        return told | {"centres": centres, "rank": len(centres), "W": self.factor.W}

    @classmethod
    def restored(cls, kernel: Kernel, points: Array, state: dict[str, Any]) -> IterativeOperator:
        """Return the operator of a state; the preconditioner is computed anew."""
        if len(state["centres"]) != state["rank"]:
            raise ValueError(f"there are {len(state['centres'])} centres, and not {state['rank']}")
        told = {"tol": state["tol"], "single": state["single"]}
        gram = IterativeGram(kernel, points, state["centres"], **told)
        return cls(gram.factor(state["W"]), state["width"])

    def __getstate__(self) -> dict[str, Any]:  # not the features of all rows
        gram = self.factor.gram
        return self.state() | {"kernel": gram.kernel, "points": gram.points}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= vars(self.restored(state["kernel"], state["points"], state))

    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        return np.asarray(A.T @ self._solved(B)[0])

    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        V, R, rho2 = self._solved(A)
        return np.asarray(np.einsum("ij,ij->j", V, A + R) + 0.5 * rho2)  # the middle of (I8)

    def _solved(self, A: Array) -> tuple[Array, Array, Array]:
        tol = 2.0 * self.width * float(self.factor.D.min())
        found = [self.factor.solved(A[:, i : i + WIDTH], tol) for i in range(0, A.shape[1], WIDTH)]
        V, R = (np.hstack([getattr(one, name) for one in found]) for name in ("V", "residual"))
        return V, R, np.concatenate([one.rho2 for one in found])
