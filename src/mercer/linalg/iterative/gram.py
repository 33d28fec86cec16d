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

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mercer._native import machines
from mercer.core.arrays import Array, Index, threads
from mercer.core.memory import available_bytes
from mercer.kernels.base import Gradient, Kernel
from mercer.linalg.gram import Factor, Gram
from mercer.linalg.iterative.determinant import LogDet, quadrature
from mercer.linalg.iterative.solver import Enough, SolvedColumns, apart, together
from mercer.linalg.operators import PosteriorOperator
from mercer.linalg.reduced.factor import ReducedFactor
from mercer.linalg.reduced.gram import ReducedGram

ROUGHLY = 0.5  # of tol, at which rough products end: beginning again costs many rounds
AGAIN = 3  # times that what a solution leaves is solved for, in double precision
WIDTH = 16  # columns of a product where K is computed anew: one tile of the compiled line
HELD_AFTER = 16  # products that compute K anew cost as much as the fresh memory to hold it
SHARE = 0.25  # of the memory that is available, up to which K is held
ENTRIES = 1 << 24  # kernel values of a block of rows


class IterativeGram(Gram):
    """K = k(P, P) by products alone: nothing of it is factored.

    Parameters
    ----------
    kernel, points : the covariance, and (n, d).
    centres : (m, d) of the preconditioner.
    tol : rho^2 at which a solution is good enough.
    single : products in single precision, residuals in double; K is held where a quarter of the
        memory that is available has room for it: a product then reads it, rather than compute it.
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
        self._held: NDArray[np.float32] | None = None  # K / amplitude
        self._amplitude = 1.0

    @property
    def holds(self) -> bool:
        """Whether K fits in single precision."""
        return self.single and 4 * len(self.points) ** 2 <= SHARE * available_bytes()

    def product(self, V: Array, *, exact: bool = False) -> Array:
        """k(P, P) V without noise parts, for V (n, r)."""
        self.products += 1
        if exact or not self.single:
            return self.signal.matmul(self.points, self.points, V)
        if self.products > HELD_AFTER:
            self.hold()
        if self._held is None:
            return self.signal.matmul(self.points, self.points, V, precision="single")
        top = np.abs(V).max(axis=0)
        top = np.where(top > 0.0, top, 1.0)  # single precision ends at 1e-38
        return np.asarray((self._held @ (V / top).astype(np.float32)) * (self._amplitude * top))

    def _formed(self) -> NDArray[np.float32]:
        X, n = self.points, len(self.points)
        K = np.empty((n, n), dtype=np.float32)
        centre = X.mean(axis=0)
        form = self.signal.single_form(X, centre)
        if form is not None:  # compiled, and in single precision from the start
            rows, self._amplitude = np.ascontiguousarray(form[0], dtype=np.float32), form[1]
            columns = np.ascontiguousarray(rows.T)
            machines.rbf_rows(rows, columns, np.arange(n), K, threads(n * n))
            return K
        self._amplitude = 1.0
        for part in parts(n, max(1, ENTRIES // n)):
            K[part] = self.signal(X[part], X)
        return K

    @property
    def how(self) -> str:
        """Where a product takes K from, in words."""
        if self._held is not None:
            return f"held in single precision, {self._held.nbytes / 2**30:.2g} GiB"
        return f"computed anew in {'single' if self.single else 'double'} precision"

    def hold(self) -> None:
        """Hold K from now on, if it fits."""
        if self._held is None and self.holds:
            self._held = self._formed()

    def let_go(self) -> None:
        """Hold K no longer; the next product forms it again."""
        self._held = None

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
        self.found: SolvedColumns | None = None
        self._logdet: LogDet | None = None

    @property
    def tau(self) -> float:
        """tr D^-1 (K - Q)."""
        return float((self.gram.reduced.known() / self.D).sum())

    # ------------------------------------------------------------------ solutions
    def solved(
        self, Y: Array, tol: float | None = None, *, limit: int | None = None
    ) -> SolvedColumns:
        """Solve (K + D) V = Y (n, r) until each rho^2 <= tol, by the residual in double precision.

        What is left of a solution by rough products is solved for again.
        """
        tol, limit = self.gram.tol if tol is None else tol, self._limit(limit)
        return self._finished(
            Y,
            self._climb(Y, None, (ROUGHLY if self.gram.single else 1.0) * tol, limit),
            lambda low, rho2: rho2 <= tol,
            lambda R, low, left: self._climb(R, None, ROUGHLY * tol, left),
            limit,
        )

    def shared(self, Y: Array, enough: Enough) -> SolvedColumns:
        """Solve (K + D) V = Y until ``enough`` of each column, which share what they find."""

        def climb(R: Array, low: Array, left: int) -> SolvedColumns:
            return together(
                self._apply,
                self.P.solve,
                R,
                lambda more, rho2: enough(low + more, 2.0 * rho2),
                left,
            )

        limit, single = self._limit(None), self.gram.single
        self.gram.hold()  # whatever was solved before: an answer does not depend on it
        first = together(self._apply, self.P.solve, Y, enough, limit)
        found = self._finished(Y, first, enough, climb, limit)
        self.gram.single = single
        return found

    def _finished(
        self,
        Y: Array,
        found: SolvedColumns,
        enough: Enough,
        again: Callable[[Array, Array, int], SolvedColumns],
        limit: int,
    ) -> SolvedColumns:
        """Return the solution with its true residual; what rough products left is solved again."""
        for turn in range(AGAIN + 1):
            found.residual = Y - self._apply(found.V, exact=True)
            found.rho2 = np.einsum("ij,ij->j", found.residual, self.P.solve(found.residual))
            low = np.einsum("ij,ij->j", found.V, Y + found.residual)
            found.converged = bool(np.all(enough(low, found.rho2)))
            if found.converged or found.rounds >= limit or turn == AGAIN:
                break
            if turn and self.gram.single:  # rough products do not come nearer
                self.gram.single = False
                self.gram.let_go()
            more = again(found.residual, low, limit - found.rounds)
            found.V += more.V
            found.rounds += more.rounds
        return found

    def _limit(self, limit: int | None) -> int:
        return int(10.0 * np.sqrt(len(self.D))) + 10 if limit is None else limit

    def _apply(self, V: Array, *, exact: bool = False) -> Array:
        return self.gram.product(V, exact=exact) + self.D[:, None] * V

    def _climb(
        self, Y: Array, start: Array | None, tol: float | Array, limit: int
    ) -> SolvedColumns:
        return apart(self._apply, self.P.solve, Y, tol, limit, start)

    def solve(self, V: Array) -> Array:
        found = [self.solved(V[:, part]) for part in parts(V.shape[1], WIDTH)]
        self.found = _joined(found)
        worst = float(self.found.rho2.max(initial=0.0))
        self.told = {
            "mean_error": float(np.sqrt(self.gram.signal.diag(self.gram.points).max() * worst)),
            "rounds": self.found.rounds,
            "rho2": worst,
            "solved": self.found.converged,
            "products": self.gram.products,
            "matrix": self.gram.how,
        }
        return self.found.V

    # ------------------------------------------------------------------ bounds
    def quadratic_bounds(
        self, y: Array, v: Array, r: Array | None = None
    ) -> tuple[float, float, float]:
        """Bounds on y'C y from any v (n,), and rho^2; theory (I8), (I4) at v = 0.

        ``r`` is y - (K + D) v, where that is known.
        """
        if r is None:
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
        known = self.found is not None and alpha is self.found.V
        rest = self.found.residual.T if known and self.found is not None else [None] * m
        pairs = [self.quadratic_bounds(z[:, j], alpha[:, j], rest[j])[:2] for j in range(m)]
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
            found = self._climb(self.half(z), None, 1e-4 * n, self._limit(None))
            pairs = np.array([quadrature(found.steps, j) for j in range(z.shape[1])])
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
        from mercer.linalg.iterative.operator import IterativeOperator

        self.gram.let_go()
        return IterativeOperator(self)


def parts(count: int, width: int) -> Iterator[slice]:
    """Yield the columns by so many at a time."""
    return (slice(i, i + width) for i in range(0, count, width))


def _joined(found: list[SolvedColumns]) -> SolvedColumns:
    """Return columns that were solved in parts as one."""
    V, R = (np.hstack([getattr(one, name) for one in found]) for name in ("V", "residual"))
    rho2 = np.concatenate([one.rho2 for one in found])
    rounds, converged = max(one.rounds for one in found), all(one.converged for one in found)
    return SolvedColumns(V, R, rho2, rounds, converged)
