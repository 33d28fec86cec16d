"""One state of a relevance search: which functions are in, their precisions, the posterior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mercer._native import relevance as native
from mercer.arrays import Array, Index
from mercer.search.relevance_factor import WeightFactor


@dataclass(frozen=True)
class State:
    """A model with p = k + M functions: k flat ones first, then M with a precision each.

    Attributes
    ----------
    active : the M candidates in the model, in the order they came.
    prior : (M,) precisions of their weights (functions of unit length).
    beta : noise precision of a row of weight one; 1 where the loss has none.
    functions : returns F (p, n), the functions at the rows; called when they are asked for.
    mu : (p,) posterior mean of the weights.
    factor : of the posterior precision F'BF + diag(0, prior).
    b, a : (n,) precision that each row gives to the latent value, and the derivative of its log
        likelihood there.
    misfit : beta times the weighted sum of squares about the fit; 0 where the loss has no noise.
    evidence : float, to be maximised.
    """

    active: tuple[int, ...]
    prior: Array
    beta: float
    functions: Callable[[], Array]
    mu: Array
    factor: WeightFactor
    b: Array
    a: Array
    misfit: float
    evidence: float

    @cached_property
    def F(self) -> Array:
        """(p, n) the functions at the rows, the flat ones first."""
        return self.functions()

    @cached_property
    def variances(self) -> Array:
        """(p,) posterior variances of the weights."""
        inverse = self.factor.inverse()
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
        k = self.flat
        v = self.variances[k:]
        return 1.0 / v - self.prior, self.mu[k:] / v

    def gamma(self) -> float:
        """How many weights the data determine: k + sum (1 - alpha_i Sigma_ii)."""
        k = self.flat
        return float(len(self.mu) - self.prior @ self.variances[k:])

    def precisions(self) -> Array:
        """(p,) prior precisions with the zeros of the flat functions."""
        return np.concatenate([np.zeros(self.flat), self.prior])


class Pool:
    """Rows that belong to candidates, kept for as long as a search lasts: each is formed once."""

    def __init__(self, make: Callable[[int], Array], candidates: int, width: int) -> None:
        self._make = make
        self._place = np.full(candidates, -1, dtype=np.intp)
        self._count = 0
        self._rows = np.empty((32, width))

    @classmethod
    def full(cls, rows: Array) -> Pool:
        """Return a pool whose rows (m, width) are all there."""
        pool = cls(rows.__getitem__, len(rows), rows.shape[1])
        pool._place = np.arange(len(rows), dtype=np.intp)
        pool._rows, pool._count = rows, len(rows)
        return pool

    def row(self, i: int) -> Array:
        """Return the row of candidate i, (width,)."""
        if self._place[i] < 0:
            self._form(i)
        return np.asarray(self._rows[self._place[i]])

    def rows(self, active: tuple[int, ...]) -> Array:
        """Return the rows of several candidates, (M, width), as a copy."""
        places = self._places(active)  # may move the rows
        return np.asarray(self._rows[places])

    def into(self, out: Array, active: tuple[int, ...]) -> None:
        """Copy the rows of several candidates to ``out`` (M, width)."""
        places = self._places(active)  # may move the rows; "clip" lets NumPy write without a copy
        np.take(self._rows, places, axis=0, out=out, mode="clip")

    def mix(self, active: tuple[int, ...], c: Array) -> Array:
        """Return the sum of c_i times the row of the i-th of these candidates, (width,)."""
        places = self._places(active)
        out = np.zeros(self._rows.shape[1])
        native.mix(self._rows, places, c, out)
        return out

    def block(self, active: tuple[int, ...]) -> Array:
        """Return the columns ``active`` of the rows of these candidates, (M, M)."""
        places, M = self._places(active), len(active)
        out = np.empty((M, M))
        native.gather(self._rows, places, np.array(active, dtype=np.intp), out)
        return out

    def _places(self, active: tuple[int, ...]) -> Index:
        """Where the rows of these candidates are kept, (M,); formed if they are not."""
        index = list(active)
        places = self._place[index]
        if len(index) and places.min() < 0:
            for i in np.flatnonzero(places < 0):
                self.row(index[i])
            places = self._place[index]
        return np.asarray(places)

    def _form(self, i: int) -> None:
        row = self._make(i)
        if self._count == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._rows[self._count] = row
        self._place[i] = self._count
        self._count += 1
