"""The reduced prior: functions that are known through their values at m inducing points Z.

With Kzz = L L' and the features phi(x) = L^-1 k(Z, x), the rows of F (n, m) are phi(x_i)' and

    Q = F F' <= K,      res_i = k(x_i, x_i) - |phi_i|^2 >= 0                    prior: Q + diag(lam)

lam are the noise parts of the kernel, and for a ``corrected`` prior also res: its variances at the
rows are those of the kernel. Without, the evidence of a Gaussian noise less the trace

    -1/2 sum_i W_i res_i

is a lower bound of that of K, and so are the bounds of variational sites. Everything a factor
answers costs O(n m^2), and O(m^2) memory where the rows pass by in blocks.

Theory (I1), (I2), (I3), (I5). Reference: Titsias (2009), Quinonero-Candela and Rasmussen (2005).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, ClassVar, TypeAlias

import numpy as np
from scipy.linalg import blas, lapack, solve_triangular

from mercer.core.arrays import Array, Index
from mercer.core.memory import available_bytes
from mercer.kernels.base import Gradient, Kernel, added, scaled, zero_gradient
from mercer.linalg.dense.coupled import CoupledFactor
from mercer.linalg.dense.factor import solve_rows
from mercer.linalg.gram import Factor, Gram
from mercer.linalg.operators import PosteriorOperator
from mercer.linalg.reduced.factor import ReducedFactor
from mercer.linalg.reduced.triangle import folded, triangle

BLOCK = 1 << 21  # numbers of a block of rows: memory of this size is handed back for the next
SHARE = 0.25  # of the memory that is available, up to which the features of all rows are kept
MILD = 1e-5  # reciprocal condition of L down to which features are formed in single precision

PartOfRows: TypeAlias = Callable[[slice], Array]


class ReducedGram(Gram):
    """Q + diag(lam) on n rows, by m inducing points.

    Parameters
    ----------
    kernel : the covariance; its noise parts count as lam.
    points, inducing : (n, d) and Z (m, d); points that the others determine are dropped.
    corrected : whether the residual variances are part of the prior, for EP and Laplace.
    keep : whether the features of all rows are kept; None: if a quarter of the memory holds them.
    single : keep them rounded to single precision: half the memory, products twice as fast.
    room : an array from a Gram before this one, to be written over (see :meth:`give_back`).

    Attributes
    ----------
    L : (m, m) lower triangle, L L' = Kzz, after ``jitter`` was added to each variance, relatively.
    residual : (n,) res, the prior variance at each row that the inducing points do not explain.
    used : (m,) which of the points given are the ``support``.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import RBF
    >>> gram = ReducedGram(RBF(), np.array([[0.0], [0.5], [1.0]]), np.array([[0.0], [1.0]]))
    >>> np.round(gram.residual, 4)
    array([0.    , 0.0305, 0.    ])
    """

    name = "inducing"
    exact: ClassVar[bool] = False
    few: ClassVar[bool] = True

    def __init__(
        self,
        kernel: Kernel,
        points: Array,
        inducing: Array,
        *,
        corrected: bool = False,
        keep: bool | None = None,
        single: bool = False,
        block: int | None = None,
        room: list[Array] | None = None,
    ) -> None:
        signal = kernel.signal()
        self.kernel, self.signal, self.corrected = kernel, signal, corrected
        self.L, self.used, self.jitter = triangle(signal(inducing))
        self.inducing = np.ascontiguousarray(inducing[self.used])
        self.block = max(256, BLOCK // self.m) if block is None else block
        self.single = single
        # what L^-1 makes of rounding is small enough
        mild = single and lapack.dtrcon(self.L, norm="1", uplo="L")[0] > MILD
        self._rough = self.L.astype(np.float32) if mild else None
        self.room = [] if room is None else room
        if keep is None:
            keep = (4 if single else 8) * len(points) * self.m <= SHARE * available_bytes()
        self._stand(points, keep)

    def at(self, points: Array) -> ReducedGram:
        """Return the Gram of the same inducing points at other rows (n, d), features not kept."""
        found = copy(self)
        found.room = []
        found._stand(points, False)
        return found

    def _stand(self, points: Array, keep: bool) -> None:
        """Find what is known of each row."""
        n, signal, kernel = len(points), self.signal, self.kernel
        self.points, self.prior = points, signal.diag(points)
        self.noise = np.zeros(n) if signal is kernel else kernel.diag(points) - self.prior
        self._features: Array | None = self._taken(n, self.m) if keep else None
        self.residual = np.empty(n)
        if self._features is not None:
            for rows in self.blocks():
                self._formed(rows, self._features[rows])
        self._known = keep  # whether residual is there; else the first factor finds it on its way

    @property
    def support(self) -> Array:
        return self.inducing

    @property
    def m(self) -> int:
        """How many features a row has."""
        return len(self.inducing)

    def _taken(self, n: int, m: int) -> Array:
        """Return room for the features: fresh memory costs as much as what fills it."""
        old = self.room.pop() if self.room else None
        if old is not None and old.shape == (n, m):
            return old
        return np.empty((n, m), dtype=np.float32 if self.single else np.float64)

    def give_back(self) -> None:
        """Let the next Gram have the memory of the features; this one is of no use afterwards."""
        if self._features is not None:
            self.room[:] = [self._features]
            self._features = None

    # ------------------------------------------------------------------ features, block by block
    def blocks(self) -> Iterator[slice]:
        """Yield the rows in portions."""
        return (slice(i, i + self.block) for i in range(0, len(self.points), self.block))

    def kept(self, stride: int = 1) -> Array | None:
        """F of every ``stride``-th row where that is kept, else None."""
        return None if self._features is None else self._features[::stride]

    def cross(self, rows: slice | Index) -> Array:
        """k(x_i, Z) of some rows, (q, m)."""
        return np.asarray(self.signal(self.points[rows], self.support))

    def _formed(self, rows: slice | Index, out: Array | None = None) -> Array:
        """Form phi' = k(x, Z) L^-T of some rows, in ``out`` if given, and what it leaves."""
        if out is None or self.single:
            F = self.cross(rows)
        else:
            F = self.signal.written(self.points[rows], out, Z=self.support)
        # whitened before anything is summed, or digits are lost
        explained = np.empty(len(F))
        if self._rough is not None:
            F = solve_rows(self._rough, F.astype(np.float32), explained)
        else:
            solve_rows(self.L, F, explained)
        if out is not None and F is not out:
            out[:] = F
        # rounding can leave -1e-16 of the prior variance
        self.residual[rows] = np.maximum(self.prior[rows] - explained, 0.0)
        return F

    def features(self, rows: slice | Index) -> Array:
        """F of some rows, (q, m)."""
        if self._features is not None:
            return np.asarray(self._features[rows], dtype=np.float64)
        F = self._formed(rows)
        if isinstance(rows, slice) and rows.indices(len(self.points))[1] == len(self.points):
            self._known = True  # blocks come in their order
        return F

    def known(self) -> Array:
        """The residual variances (n,)."""
        if not self._known:
            for rows in self.blocks():
                self.features(rows)
        return self.residual

    @property
    def lam(self) -> Array:
        """What stands on the diagonal beside Q, (n,)."""
        return np.asarray(self.noise + self.known() if self.corrected else self.noise)

    def unexplained(self) -> Array:
        """The variance (n,) that a bound is charged for: none where it is part of the prior."""
        return np.zeros(len(self.points)) if self.corrected else self.known()

    def report(self) -> dict[str, Any]:
        """Return what was done to the points, and how much of the prior variance they explain."""
        return {
            "points": len(self.support),
            "dropped": int((~self.used).sum()),
            "explained": float(1.0 - self.known().sum() / self.prior.sum()),
            "jitter": self.jitter,
        }

    def project(self, V: Array) -> Array:
        """F'V for V (n, r): (m, r)."""
        if self._features is not None:
            if not self.single:
                return np.asarray(self._features.T @ V)
            return np.asarray(sum(self.features(rows).T @ V[rows] for rows in self.blocks()))
        found = np.asarray(sum(self.cross(rows).T @ V[rows] for rows in self.blocks()))
        return np.asarray(solve_triangular(self.L, found, lower=True))

    def expand(self, B: Array) -> Array:
        """F B for B (m, r): (n, r)."""
        if self._features is not None:
            if not self.single:
                return np.asarray(self._features @ B)
            return np.concatenate([self.features(rows) @ B for rows in self.blocks()])
        inner = solve_triangular(self.L, B, lower=True, trans="T")
        return np.concatenate([self.cross(rows) @ inner for rows in self.blocks()])

    # ------------------------------------------------------------------ the contract
    def __matmul__(self, V: Array) -> Array:
        return self.expand(self.project(V)) + self.lam[:, None] * V

    def diag(self) -> Array:
        if self.corrected:
            return np.asarray(self.prior + self.noise)
        return np.asarray(self.prior - self.known() + self.noise)

    def rows(self, index: Index) -> Array:
        out = self.expand(self._formed(index).T).T
        out[np.arange(len(index)), index] += self.lam[index]
        return np.asarray(out)

    def factor(self, W: Array) -> ReducedFactor:
        return ReducedFactor(self, W + 0.0)

    def smoothed(self, factor: Factor, s: Array) -> tuple[Array, Array]:
        assert isinstance(factor, ReducedFactor)
        return factor.smoothed(s)

    def stands(
        self, alpha: Array, factor: Factor, beta: Array | None, z: Array
    ) -> tuple[Array, Array, PosteriorOperator]:
        return self.support, self.carry(alpha), factor.operator()

    def carry(self, alpha: Array) -> Array:
        """alpha_Z = L^-T F'alpha (m, r), with which k(x, Z) alpha_Z is the mean; theory (I1)."""
        return np.asarray(solve_triangular(self.L, self.project(alpha), lower=True, trans="T"))

    # ------------------------------------------------------------------ gradients
    def pullback(
        self, alpha: Array, factor: Factor, U: Array | None = None, V: Array | None = None
    ) -> Gradient:
        return self.slopes(alpha, factor, U, V)[0]

    def contract(self, Q: Array) -> Gradient:
        # d<Q, F F' + diag(lam)>: as (I2) with Gamma = Q
        s = np.diagonal(Q).copy() if self.corrected else np.zeros(len(Q))
        F = self.features(slice(None))
        QF = Q @ F - s[:, None] * F
        T = solve_triangular(self.L, QF.T, lower=True, trans="T").T
        inner = folded(self.L, self.project(QF))
        return self._assembled(lambda rows: 2.0 * T[rows], -inner, (s, np.diagonal(Q)), False)[0]

    def slopes(
        self,
        alpha: Array,
        factor: Factor,
        U: Array | None = None,
        V: Array | None = None,
        *,
        moved: bool = False,
        carried: Array | None = None,
    ) -> tuple[Gradient, Array | None]:
        """The gradient in the kernel's parameters and, if ``moved``, in Z (m, d); theory (I2).

        ``carried`` is F'[alpha, V, U] of all rows, where these are some of many; what goes through
        Kzz is then the part of the Gram that has no rows.

        With Gamma = (alpha alpha' - count C)/2 + sym(U V'), T = F L^-1, and s_i the slope in res_i:

            dE/dKxz = 2 (Gamma - diag(s)) T,    dE/dKzz = -T'(Gamma - diag(s)) T,    dE/dk_ii = s_i
        """
        if isinstance(factor, CoupledFactor):  # functions with sites of their own
            return self._slopes_of_each(alpha, factor, U, V, moved)
        assert isinstance(factor, ReducedFactor)
        count, E, H = float(alpha.shape[1]), factor.E, factor.H
        left = alpha if U is None or V is None else np.hstack([alpha, U, V])
        right = alpha if U is None or V is None else np.hstack([alpha, V, U])
        R = self.project(right) if carried is None else carried  # F'[alpha, V, U]
        LF = R if right is left else self.project(left)
        # C F = E [F, H] S with S the first m columns of (I + [F, H]'E [F, H])^-1
        S = factor.inverse()
        m, Sz, Sh = len(self.support), S[: len(self.support)], S[len(self.support) :]
        # F'(Gamma - diag(s)) F = (F'alpha alpha'F - count (I - Sz)) / 2 + F'sym(U V')F - F'diag(s)F
        inner = count * Sz
        inner[np.diag_indices(m)] -= count
        inner += LF @ R.T
        inner *= 0.5
        if self.corrected:
            slope = 0.5 * ((alpha**2).sum(axis=1) - count * factor.diag())
            if U is not None and V is not None:
                slope = slope + np.einsum("ij,ij->i", U, V)
            noise, weighted = slope, self._gathered(slope)  # F'diag(s)F
            inner -= weighted

            def one(rows: slice) -> Array:
                F = self.features(rows)
                G = left[rows] @ R.T - count * E[rows, None] * (F @ Sz + H[rows] @ Sh)
                G -= 2.0 * slope[rows, None] * F
                return solve_rows(self.L, G, back=True)

        else:  # s = -count E / 2: one product with F in all
            slope = -0.5 * count * E
            noise = 0.5 * ((alpha**2).sum(axis=1) - count * factor.diag()) if self._noisy else slope
            if self._noisy:
                noise = noise + 0.5 * count * E**2 * self.known()
                if U is not None and V is not None:
                    noise = noise + np.einsum("ij,ij->i", U, V)
            inner += 0.5 * count * factor.gathered()
            near = -Sz
            near[np.diag_indices(m)] += 1.0
            solve_rows(self.L, near, back=True)
            kept = self._features is not None
            if not kept:  # from k(x, Z) = F L' itself: whitening it once more would cost as much
                near = np.asarray(solve_triangular(self.L, near, lower=True, trans="T"))
            # [H, alpha, U, V] and what they are multiplied by
            few = np.hstack([-count * E[:, None] * H, left])
            across = solve_rows(self.L, np.vstack([Sh, R.T]), back=True)
            near *= count if factor.even is None else count * factor.even
            room = np.empty((min(self.block, len(E)), m))

            def one(rows: slice) -> Array:
                F = self.features(rows) if kept else self.cross(rows)
                if factor.even is None:
                    F = E[rows, None] * F
                G = np.matmul(F, near, out=room[: len(F)])
                # G += few across, in place: BLAS's columns are our rows
                for a, b in zip(few[rows].T, across, strict=True):
                    blas.dger(1.0, b, np.ascontiguousarray(a), a=G.T, overwrite_a=1)
                return G

        Gzz = -folded(self.L, inner) if carried is None or not len(E) else None
        return self._assembled(one, Gzz, (slope, noise), moved)

    def _slopes_of_each(
        self, alpha: Array, factor: CoupledFactor, U: Array | None, V: Array | None, moved: bool
    ) -> tuple[Gradient, Array | None]:
        gradient: Gradient = {}
        points = np.zeros_like(self.support) if moved else None
        for j, own in enumerate(factor.factors):
            u, v = (None if part is None else part[:, j : j + 1] for part in (U, V))
            slope, shift = self.slopes(alpha[:, j : j + 1], own, u, v, moved=moved)
            gradient = added(gradient, slope) if gradient else slope
            points = None if points is None or shift is None else points + shift
        return gradient, points

    @property
    def _noisy(self) -> bool:
        """Whether the kernel has noise parts."""
        return self.signal is not self.kernel

    def _gathered(self, s: Array) -> Array:
        """F'diag(s) F (m, m)."""
        total = np.zeros((len(self.support),) * 2)
        for rows in self.blocks():
            F = self.features(rows)
            total += F.T @ (s[rows, None] * F)
        return total

    def _assembled(
        self, one: PartOfRows, Gzz: Array | None, own: tuple[Array, Array], moved: bool
    ) -> tuple[Gradient, Array | None]:
        """Contract dE/dKxz (by blocks of rows), dE/dKzz and dE/dk_ii with the kernel's own.

        ``own`` (n,) are those of the diagonal of the signal, and of its noise parts.
        """
        k, Z = self.kernel, self.support  # with both arguments given a kernel has no noise parts
        gradient, points = zero_gradient(k), np.zeros_like(Z) if moved else None
        if Gzz is not None:
            gradient = k.pullback(Z, Z.copy(), Gzz)
            points = 2.0 * self.signal.pullback_points(Z, Z, Gzz) if moved else None
        if not len(self.points):
            return gradient, points
        for rows in self.blocks():
            X, G = self.points[rows], one(rows)
            gradient = added(gradient, k.pullback(X, Z, G))
            if points is not None:
                points += self.signal.pullback_points(X, Z, G)
        X, (slope, noise) = self.points, own
        gradient = added(gradient, k.diag_pullback(X, slope, noise=False))
        if self._noisy:
            gradient = added(gradient, k.diag_pullback(X, noise))
            gradient = added(gradient, scaled(k.diag_pullback(X, noise, noise=False), -1.0))
        return gradient, points
