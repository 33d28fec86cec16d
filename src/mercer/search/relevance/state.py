"""The state of a relevance search: candidates, which of them are in, precisions, posterior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import blas, lapack

from mercer._native import relevance as native
from mercer.core.arrays import Array, Index

ROWS = 4096  # that are multiplied at a time
SAME = 1e-12  # largest difference between columns that are one function


@dataclass(frozen=True)
class Design:
    """Candidate functions at the training rows, used as columns of unit length.

    With weights w the length of a column is sqrt(sum_i w_i phi_im^2). Unit length makes the
    precisions of functions of different size comparable; the evidence does not depend on it.
    """

    Phi: Array  # (n, m) one column for each candidate
    flat: Array  # (n, k) with a flat prior, always in the model: a column of ones, or none
    weights: Array  # (n,) what each row counts, > 0

    @property
    def count(self) -> int:
        """The number m of candidates."""
        return int(self.Phi.shape[1])

    @cached_property
    def inner(self) -> Array | None:
        """None: the columns are Phi itself; see :class:`Spanned`."""
        return None

    @cached_property
    def lengths(self) -> Array:
        """Weighted length of every column, shape (m,)."""
        return np.asarray(np.sqrt(self._weighted(self.weights)))

    @cached_property
    def usable(self) -> Array:
        """Whether a column differs from zero and from those before it, (m,), boolean.

        Of columns that are multiples of each other the first is kept.
        """
        fine = self._nonzero.copy()
        # equal functions have equal products with any vector: only those are compared
        keys = np.abs(self.dots(np.cos(1.0 + np.arange(len(self.weights)))))
        order = np.argsort(keys, kind="stable")
        run = np.cumsum(np.diff(keys[order], prepend=0.0) > SAME * len(self.weights))
        for which in np.flatnonzero(np.bincount(run) > 1):
            kept: list[Array] = []
            for i in np.sort(order[run == which]):
                column = self.column(i)
                if fine[i] and any(  # the same function, or its negative
                    min(np.abs(column - other).max(), np.abs(column + other).max()) < SAME
                    for other in kept
                ):
                    fine[i] = False
                elif fine[i]:
                    kept.append(column)
        return fine

    @cached_property
    def _nonzero(self) -> Array:
        top = float(self.lengths.max(initial=0.0))
        return np.asarray(self.lengths > max(1e-12 * top, 1e-140))

    @cached_property
    def inverse(self) -> Array:
        """One over the length of every column, 0 for one that is zero, shape (m,)."""
        return np.where(self._nonzero, 1.0 / np.where(self._nonzero, self.lengths, 1.0), 0.0)

    def column(self, i: int) -> Array:
        """Return the candidate i, of unit length, shape (n,)."""
        return np.asarray(self.Phi[:, i] * self.inverse[i])

    def some(self, which: Index) -> Callable[[slice], Array]:
        """Return a reader of several candidates, of unit length: some rows of them, (rows, c)."""
        scales = self.inverse[which]

        def read(rows: slice) -> Array:
            found = np.take(self.Phi[rows], which, axis=1, mode="clip")  # no bounds checked
            found *= scales
            return found

        return read

    def dots(self, V: Array, out: Array | None = None) -> Array:
        """Inner products of V (n,) or (p, n) with every candidate: (m,) or (p, m)."""
        found = np.matmul(V, self.Phi, out=out)
        found *= self.inverse
        return np.asarray(found)

    def products(self) -> Array:
        """phi_i'W phi_m of all columns of unit length, (m, m)."""
        total = self._products(slice(0, ROWS))
        for first in range(ROWS, len(self.Phi), ROWS):
            total += self._products(slice(first, first + ROWS))
        total *= self.inverse
        total *= self.inverse[:, None]
        return total

    def _products(self, rows: slice) -> Array:
        part, w = self.Phi[rows], self.weights[rows]
        if np.any(w != 1.0):
            part = part * np.sqrt(w)[:, None]
        return np.asarray(part.T @ part)  # one array twice: half the work

    def unit_squares(self, b: Array) -> Array:
        """sum_i b_i phi_im^2 of the columns of unit length, shape (m,)."""
        return np.asarray(self._weighted(b) * self.inverse**2)

    def _weighted(self, b: Array) -> Array:
        """sum_i b_i phi_im^2 of the columns as they are, shape (m,)."""
        out = np.zeros(self.count)
        native.weighted_squares(np.ascontiguousarray(self.Phi), b, out)
        return out


@dataclass(frozen=True)
class Spanned(Design):
    """Candidates that r < n functions span: the columns are L L' (n, n), and Phi is L (n, r).

    A product with all of them takes 2 n r steps where n^2 would be taken.
    """

    @property
    def count(self) -> int:
        return len(self.Phi)

    @cached_property
    def inner(self) -> Array:
        """L'WL (r, r)."""
        return self._inner(self.weights)

    def _inner(self, b: Array) -> Array:
        """L' diag(b) L (r, r) for b >= 0."""
        half = self.Phi * np.sqrt(b)[:, None]
        return np.asarray(half.T @ half)  # one array twice: half the work

    def column(self, i: int) -> Array:
        return np.asarray(self.Phi @ self.Phi[i] * self.inverse[i])

    def some(self, which: Index) -> Callable[[slice], Array]:
        chosen = (self.Phi[which] * self.inverse[which, None]).T
        return lambda rows: np.asarray(self.Phi[rows] @ chosen)

    def dots(self, V: Array, out: Array | None = None) -> Array:
        found = np.matmul(V @ self.Phi, self.Phi.T, out=out)
        found *= self.inverse
        return np.asarray(found)

    def _weighted(self, b: Array) -> Array:
        inner = self.inner if b is self.weights else self._inner(b)
        # x'Sx = x'(D + 2U)x, D the diagonal of S and U what is above it: half the work.
        U = 2.0 * np.triu(inner)
        np.fill_diagonal(U, inner.diagonal())
        product = blas.dtrmm(1.0, U.T, self.Phi.T, lower=1).T  # Phi (D + 2U)
        return np.asarray(np.einsum("ij,ij->i", product, self.Phi))


# Below this share of its diagonal a pivot has lost too many digits to the square of the condition.
PIVOT = 1e-9


@dataclass(frozen=True)
class WeightFactor:
    """R (p, p), upper triangular, with R'R = F'BF + diag(prior); p functions, the flat ones first.

    R^-1 and R^-T are applied one after the other: an explicit inverse loses the digits that the
    differences between near-collinear functions are made of.
    """

    R: Array

    def half(self, V: Array) -> Array:
        """R^-T V for V (p,) or (p, m)."""
        return self._solved(V, 1)

    def back(self, V: Array) -> Array:
        """R^-1 V for V (p,) or (p, m)."""
        return self._solved(V, 0)

    def _solved(self, V: Array, transposed: int) -> Array:
        if V.ndim == 1:
            return np.asarray(blas.dtrsv(self.R, V, trans=transposed)) if len(V) else V
        return self.in_place(V.copy(), 1.0, transposed)

    def in_place(self, V: Array, scale: float, transposed: int = 1) -> Array:
        """Write scale R^-T V, or R^-1 if not ``transposed``, over V (p, m), row-major."""
        if V.size:  # for BLAS, which counts by columns, the rows of V are columns: V'R^-1
            blas.dtrsm(scale, self.R, V.T, side=1, trans_a=1 - transposed, overwrite_b=1)
        return V

    def logdet(self) -> float:
        """log |F'BF + diag(prior)|."""
        return 2.0 * float(np.log(np.abs(np.diagonal(self.R))).sum())


def factor(normal: Array, F: Callable[[], Array], b: Array, prior: Array) -> WeightFactor:
    """Factor F'BF + diag(prior): ``normal`` (p, p) is that sum, F() (p, n) one function a row.

    ``normal``, if column-major, is written over. By Cholesky where its pivots keep their digits,
    else by the QR of the stacked rows [B^1/2 F; prior^1/2], which does not square the condition
    (methods of GPML 2.7 and A.4).
    """
    if not len(normal):
        return WeightFactor(normal)
    least = PIVOT * np.diagonal(normal)
    R, info = lapack.dpotrf(normal, lower=0, clean=1, overwrite_a=1)
    if info == 0 and np.all(np.diagonal(R) ** 2 > least):
        return WeightFactor(R)
    stacked = np.concatenate([F() * np.sqrt(b), np.diag(np.sqrt(prior))], axis=1).T
    R = np.linalg.qr(stacked, mode="r")
    return WeightFactor(np.asfortranarray(R * np.where(np.diagonal(R) < 0.0, -1.0, 1.0)[:, None]))


@dataclass(frozen=True)
class SparseState:
    """A model with p = k + M functions: k flat ones first, then M with a precision each."""

    active: tuple[int, ...]  # the M candidates in the model, in the order they came
    prior: Array  # (M,) precisions of their weights (functions of unit length)
    beta: float  # noise precision of a row of weight one; 1 where the loss has none
    functions: Callable[[], Array]  # gives F (p, n), the functions at the rows, where asked
    mu: Array  # (p,) posterior mean of the weights
    factor: WeightFactor  # of the posterior precision F'BF + diag(0, prior)
    b: Array  # (n,) precision that each row gives to the latent value
    a: Array  # (n,) derivative of each row's log likelihood there
    misfit: float  # beta times the weighted squares about the fit; 0 where the loss has no noise
    evidence: float  # to be maximised

    @cached_property
    def F(self) -> Array:
        """(p, n) the functions at the rows, the flat ones first."""
        return self.functions()

    @cached_property
    def variances(self) -> Array:
        """(p,) posterior variances of the weights, sums of squares in the rows of R^-1."""
        R = self.factor.R
        inverse = lapack.dtrtri(R)[0] if len(R) else R
        return np.asarray(np.einsum("ij,ij->i", inverse, inverse))

    @property
    def flat(self) -> int:
        """The number k of flat functions."""
        return len(self.mu) - len(self.active)

    def inside(self) -> tuple[Array, Array]:
        """s and q (M,) of the functions in the model: each as if it alone were out.

        Sigma_ii = 1 / (alpha_i + s_i) and mu_i = Sigma_ii q_i (Tipping & Faul 2003, eq. 23, in
        the form that does not subtract S from alpha).
        """
        v = self.variances[self.flat :]
        return 1.0 / v - self.prior, self.mu[self.flat :] / v

    def gamma(self) -> float:
        """How many weights the data determine: k + sum (1 - alpha_i Sigma_ii)."""
        return float(len(self.mu) - self.prior @ self.variances[self.flat :])


class Pool:
    """Rows that belong to candidates, kept for as long as a search lasts: each is formed once."""

    def __init__(self, make: Callable[[int], Array]) -> None:
        self._make = make
        self._rows: dict[int, Array] = {}

    def row(self, i: int) -> Array:
        """Return the row of candidate i, (width,)."""
        if i not in self._rows:
            self._rows[i] = self._make(i)
        return self._rows[i]
