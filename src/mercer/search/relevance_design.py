"""The functions a relevance search may choose from: columns of unit length, formed when asked for.

With weights w the length of a column is sqrt(sum_i w_i phi_im^2). Unit length makes the precisions
of functions of different size comparable; the evidence does not depend on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mercer.arrays import Array

ROWS = 4096  # that are multiplied at a time
SAME = 1e-12  # largest difference between columns that are one function


@dataclass(frozen=True)
class Design:
    """Candidate functions at the training rows.

    Attributes
    ----------
    Phi : (n, m) one column for each candidate.
    flat : (n, k) functions with a flat prior, always in the model: a column of ones, or none.
    weights : (n,) what each row counts, > 0.
    """

    Phi: Array
    flat: Array
    weights: Array

    @cached_property
    def lengths(self) -> Array:
        """Weighted length of every column, shape (m,)."""
        return np.sqrt(self.squares(self.weights))

    @cached_property
    def usable(self) -> Array:
        """Whether a column can be told from zero and from those before it, (m,), boolean.

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
                if fine[i] and any(_same(column, other) for other in kept):
                    fine[i] = False
                elif fine[i]:
                    kept.append(column)
        return fine

    @cached_property
    def _nonzero(self) -> Array:
        top = float(self.lengths.max(initial=0.0))
        return np.asarray(self.lengths > max(1e-12 * top, 1e-140))

    @cached_property
    def _inverse(self) -> Array:
        return np.where(self._nonzero, 1.0 / np.where(self._nonzero, self.lengths, 1.0), 0.0)

    def column(self, i: int) -> Array:
        """Return the candidate i, of unit length, shape (n,)."""
        return np.asarray(self.Phi[:, i] * self._inverse[i])

    def columns(self) -> Array:
        """Return all candidates, of unit length, one a row, shape (m, n)."""
        return np.multiply(self.Phi.T, self._inverse[:, None], order="C")

    def dots(self, V: Array) -> Array:
        """Inner products of V (n,) or (p, n) with every candidate: (m,) or (p, m)."""
        return np.asarray((V @ self.Phi) * self._inverse)

    def dots_into(self, out: Array, V: Array) -> None:
        """Write :meth:`dots` of V (p, n) to ``out`` (p, m)."""
        np.matmul(V, self.Phi, out=out)
        out *= self._inverse

    def products(self) -> Array:
        """phi_i'W phi_m of all columns of unit length, (m, m)."""
        total = self._products(slice(0, ROWS))
        for first in range(ROWS, len(self.Phi), ROWS):
            total += self._products(slice(first, first + ROWS))
        total *= self._inverse
        total *= self._inverse[:, None]
        return total

    def _products(self, rows: slice) -> Array:
        part, w = self.Phi[rows], self.weights[rows]
        if np.any(w != 1.0):
            part = part * np.sqrt(w)[:, None]
        return np.asarray(part.T @ part)  # one array twice: half the work

    def squares(self, b: Array) -> Array:
        """sum_i b_i phi_im^2 of the columns as given, shape (m,)."""
        return np.asarray(np.einsum("i,ij,ij->j", b, self.Phi, self.Phi))

    def unit_squares(self, b: Array) -> Array:
        """sum_i b_i phi_im^2 of the columns of unit length, shape (m,)."""
        return np.asarray(self.squares(b) * self._inverse**2)


def _same(a: Array, b: Array) -> bool:
    """Whether two columns are the same function, or one is the negative of the other."""
    return bool(min(np.abs(a - b).max(), np.abs(a + b).max()) < SAME)
