"""The factor of a reduced prior: one triangle at the inducing points; theory (I1), (I3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.linalg import blas, lapack

from mercer.core.arrays import Array, mirror
from mercer.core.errors import NotPositiveDefiniteError
from mercer.linalg.dense.factor import cholesky, half_inverse, inverse_of_half, solve_rows
from mercer.linalg.gram import Charge, Factor
from mercer.linalg.operators import InducedOperator

if TYPE_CHECKING:
    from mercer.linalg.reduced.gram import ReducedGram

NONE = np.empty((0, 0))
GONE = 1e-6  # nats that rounding of R'R may cost before the rows are taken in by reflections
MANY = 1e6  # rows: of more it is as many nats a row, or every large table would take reflections


class ReducedFactor(Factor):
    """C = (Q + diag(lam) + W^-1)^-1 with H (n, c) projected out, by one triangle R (m + c, m + c).

    E_i = W_i / (1 + W_i lam_i),   R'R = [I 0; 0 0] + [F, H]'E [F, H],   and

        C = E - E [F, H] (R'R)^-1 [F, H]'E

    Eigenvalues of the first block are not below one: nothing is added to a diagonal.
    """

    exact: ClassVar[bool] = False

    def __init__(self, gram: ReducedGram, W: Array, H: Array | None = None) -> None:
        self._weigh(gram, W, H)
        B, m = self.collected(), gram.m
        self._gathered = B[:m, :m].copy()
        R = root(B, m, signed=bool(np.any(self.E < 0.0)), rows=len(self.E))
        self.R, self.reflected = (self._reflections(), True) if R is None else (R, False)

    @classmethod
    def among(
        cls,
        gram: ReducedGram,
        W: Array,
        H: Array | None,
        R: Array = NONE,
        inverse: Array | None = None,
        gathered: Array = NONE,
    ) -> ReducedFactor:
        """Return the factor at rows of a Gram that are some of many.

        R, its :meth:`inverse` and F'E F are those of all of them, where they are known.
        """
        found = cls.__new__(cls)
        found._weigh(gram, W, H)
        found.R, found.reflected = R, False
        found._inverse, found._gathered = inverse, gathered
        return found

    def _weigh(self, gram: ReducedGram, W: Array, H: Array | None) -> None:
        """Find E of each row."""
        self.gram, self.W, self.jitter = gram, W, gram.jitter
        self.H = np.zeros((len(W), 0)) if H is None else H
        if not gram.corrected:
            self._check(W)
        lam = gram.lam
        if np.any(W * lam <= -1.0):  # an infinite W is not below
            raise NotPositiveDefiniteError("a site takes away more than the prior has of noise")
        with np.errstate(divide="ignore"):
            self.E = np.where(
                np.isinf(W), 1.0 / lam, W / (1.0 + np.where(np.isinf(W), 0.0, W) * lam)
            )
        # the number that all of E are, or None; nothing needs to be multiplied by it row by row
        first = float(self.E[0]) if len(self.E) else 0.0
        self.even = first if first > 0.0 and np.all(first == self.E) else None
        self._leverage: Array | None = None
        self._inverse: Array | None = None

    def _check(self, W: Array) -> None:
        if np.any(np.isinf(W) & (self.gram.noise == 0.0)):
            raise ValueError(
                "inducing points need noise: a function that is known through few of its values "
                "does not pass through all rows; give the loss a positive noise"
            )

    def _stacked(self, rows: slice) -> Array:
        F = self.gram.features(rows)
        return F if not self.H.shape[1] else np.hstack([F, self.H[rows]])

    def collected(self) -> Array:
        """[F, H]'E [F, H]."""
        p, E = self.gram.m + self.H.shape[1], self.E
        total, signed = np.zeros((p, p)), bool(np.any(E < 0.0))
        for rows in self.gram.blocks():
            gather(total, self._stacked(rows), E[rows], self.even, signed)
        return total if signed else mirror(total)

    def _reflections(self) -> Array:
        """R by QR decompositions of the rows, for noise that is tiny beside the signal."""
        top = self.reflections(np.eye(self.gram.m, self.gram.m + self.H.shape[1]))
        return np.asarray(np.sign(np.diagonal(top))[:, None] * top)

    def reflections(self, top: Array) -> Array:
        """Return the triangle of the rows of ``top`` (q, m + c) and E^1/2 [F, H]."""
        for rows in self.gram.blocks():
            top = reflected(top, np.sqrt(self.E[rows, None]) * self._stacked(rows))
        return top

    def projected(self, H: Array) -> Factor:
        """Return the factor with the basis H (n, c) projected out."""
        return type(self)(self.gram, self.W, H)

    def _gather(self, V: Array) -> Array:
        """[F, H]'E V (m + c, r)."""
        EV = self.E[:, None] * V
        return np.vstack([self.gram.project(EV), self.H.T @ EV])

    def solve(self, V: Array) -> Array:
        b, m = self.lift(self._gather(V)), self.gram.m
        fitted = self.gram.expand(b[:m])
        if self.H.shape[1]:
            fitted += self.H @ b[m:]
        return np.asarray(self.E[:, None] * (V - fitted))

    def lift(self, T: Array) -> Array:
        """(R'R)^-1 T."""
        return np.asarray(lapack.dpotrs(self.R, T, lower=0)[0])

    def basis_coefficients(self, z: Array) -> Array:
        return self.lift(self._gather(z))[self.gram.m :]

    def sites(self, h: Array, off: Array | float = 0.0) -> tuple[Array, Array]:
        a, b = self._settled(h, off)[:2]
        return a, b[self.gram.m :]

    def smoothed(self, s: Array) -> tuple[Array, Array]:
        """f = (Q + lam) a + H beta (n,) and a (n,) of natural parameters s (n,).

        By F b, b = F'a: of F (F'a) rounding would leave less, as s may be large beside a.
        """
        a, _, fitted = self._settled(s[:, None])
        return np.asarray(fitted[:, 0] + self.gram.lam * a[:, 0]), a[:, 0]

    def _settled(self, h: Array, off: Array | float = 0.0) -> tuple[Array, Array, Array]:
        """Weights a (n, r) of natural parameters h (n, r), [b; beta], and F b + H beta."""
        # E z for z = h / W, without the quotient
        r, m = h / (1.0 + self.W * self.gram.lam)[:, None], self.gram.m
        b = self.lift(np.vstack([self.gram.project(r), self.H.T @ r + off]))
        fitted = self.gram.expand(b[:m]) + self.H @ b[m:]
        return np.asarray(r - self.E[:, None] * fitted), b, np.asarray(fitted)

    def inverse(self) -> Array:
        """The first m columns of (R'R)^-1, (m + c, m)."""
        if self._inverse is None:
            whole = self.R.copy()
            half_inverse(whole)
            inverse_of_half(whole)
            self._inverse = np.ascontiguousarray(mirror(whole)[:, : self.gram.m])
        return self._inverse

    def gathered(self) -> Array:
        """F'E F (m, m)."""
        return self._gathered

    def leverage(self) -> Array:
        """|R^-T [phi_i; h_i]|^2, (n,)."""
        if self._leverage is None:
            found, L = np.empty(len(self.W)), np.ascontiguousarray(self.R.T)
            for rows in self.gram.blocks():
                solve_rows(L, np.array(self._stacked(rows)), found[rows])
            self._leverage = found
        return self._leverage

    def diag(self) -> Array:
        return np.asarray(self.E - self.E**2 * self.leverage())

    def cov_diag(self) -> Array:
        keeps = 1.0 + np.where(np.isinf(self.W), 0.0, self.W) * self.gram.lam
        return np.asarray(self.gram.lam / keeps + self.leverage() / keeps**2)

    def charge(self) -> Charge | None:
        if self.gram.corrected:
            return None
        res = self.gram.known()
        keeps = 1.0 + np.where(np.isinf(self.W), np.inf, self.W) * self.gram.lam
        free = len(self.W) - len(self.R) + float(np.trace(self.inverse()))
        if np.any(self.gram.lam):
            free = float((self.diag() / self.W).sum())
        return Charge(0.5 * float(self.E @ res), 0.5 * res / keeps**2, free)

    @property
    def unexplained(self) -> Array:
        return self.gram.unexplained()

    def logdet(self) -> float:
        """log |I + (Q + lam) W|, with a basis plus log |A|."""
        lam = self.gram.lam
        return float(2.0 * np.log(np.diagonal(self.R)).sum() + np.log1p(self.W * lam).sum())

    def logdet_noisy(self) -> float:
        return float(2.0 * np.log(np.diagonal(self.R)).sum() - np.log(self.E).sum())

    @property
    def report(self) -> dict[str, Any]:
        told = {"jitter": self.jitter, "inducing_points": len(self.gram.support)}
        given = len(self.gram.used)
        told |= {"reflections": True} if self.reflected else {}
        return told | (
            {"dropped": given - int(self.gram.used.sum())} if not self.gram.used.all() else {}
        )

    def operator(self) -> InducedOperator:
        return InducedOperator(np.ascontiguousarray(self.gram.L.T), self.R)


def gather(total: Array, A: Array, E: Array, even: float | None, signed: bool) -> None:
    """Add A'diag(E) A of rows A (q, p) to ``total`` (p, p), of which one triangle counts.

    ``even`` is the number that all of E are, if there is one; ``signed`` if some may be negative.
    """
    if signed:
        total += A.T @ (E[:, None] * A)
        return
    if even is None:
        A = np.sqrt(E[:, None]) * A
    # one triangle is computed; BLAS's columns are our rows
    blas.dsyrk(even or 1.0, A.T, 1.0, total.T, lower=1, overwrite_c=1)


def root(B: Array, m: int, *, signed: bool, rows: float = 0.0) -> Array | None:
    """Return R, R'R = [I 0; 0 0] + B, for the sums B (m + c, m + c) of so many ``rows``.

    B is written over. None where rounding of R'R costs too much, and rows are to be taken in by
    reflections.
    """
    B[np.arange(m), np.arange(m)] += 1.0
    top = float(np.abs(np.diagonal(B)[:m]).max(initial=1.0))
    if not signed and np.finfo(float).eps * top * m > GONE * max(1.0, rows / MANY):
        return None
    if cholesky(B):
        raise NotPositiveDefiniteError(
            "the posterior precision at the inducing points is not positive: the loss is not "
            "convex enough there"
            if signed
            else "the basis functions are linearly dependent on these rows"
        )
    return np.triu(B)


def reflected(top: Array, A: Array) -> Array:
    """Return the triangle of the rows of ``top`` and A, by a QR decomposition."""
    return np.asarray(np.linalg.qr(np.vstack([top, A]), mode="r"))
