"""One state of a relevance search: which functions are in, their precisions, the posterior."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

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
    F : (p, n) the functions at the rows.
    mu, variances : (p,) posterior mean and variance of the weights.
    factor : of the posterior precision F'BF + diag(0, prior).
    b, a : (n,) precision that each row gives to the latent value, and the derivative of its log
        likelihood there.
    misfit : beta times the weighted sum of squares about the fit; 0 where the loss has no noise.
    evidence : float, to be maximised.
    """

    active: tuple[int, ...]
    prior: Array
    beta: float
    F: Array
    mu: Array
    variances: Array
    factor: WeightFactor
    b: Array
    a: Array
    misfit: float
    evidence: float

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

    def row(self, i: int) -> Array:
        """Return the row of candidate i, (width,)."""
        if self._place[i] < 0:
            self._form(i)
        return np.asarray(self._rows[self._place[i]])

    def rows(self, active: tuple[int, ...]) -> Array:
        """Return the rows of several candidates, (M, width), as a copy."""
        places = self._places(active)  # may move the rows
        return np.asarray(self._rows[places])

    def block(self, active: tuple[int, ...]) -> Array:
        """Return the columns ``active`` of the rows of these candidates, (M, M)."""
        places = self._places(active)
        return np.asarray(self._rows[places[:, None], list(active)])

    def _places(self, active: tuple[int, ...]) -> Index:
        """Where the rows of these candidates are kept, (M,); formed if they are not."""
        index = list(active)
        places = self._place[index]
        if len(index) and places.min() < 0:
            for i in index:
                self.row(i)
            places = self._place[index]
        return np.asarray(places)

    def _form(self, i: int) -> None:
        row = self._make(i)
        if self._count == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._rows[self._count] = row
        self._place[i] = self._count
        self._count += 1
