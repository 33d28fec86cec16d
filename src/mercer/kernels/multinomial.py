"""MultinomialFisher: the Fisher kernel of counts."""
# ruff: noqa: D102 - the methods of the contract are described in base.py

from __future__ import annotations

from typing import Any, Self

import numpy as np

from mercer.arrays import Array, as_matrix
from mercer.kernels.base import Kernel
from mercer.kernels.fisher import ScoreKernel
from mercer.kernels.mapped import not_frozen
from mercer.kernels.text import counts


class MultinomialFisher(ScoreKernel):
    """Fisher kernel of counts under a multinomial model.

        k(x, z) = sum_j (x_j - |x| p_j) (z_j - |z| p_j) / p_j,     |x| = sum_j x_j

    The score of the logits is x - |x| p and the information of one word diag(p) - p p', used as it
    is: nothing is approximated. A row of zeros has k = 0 with every row. Long texts weigh more; see
    :class:`TFIDF` for a kernel of unit length.

    Parameters
    ----------
    probabilities : None or array (d,)
        p, positive, of sum one. None: from the first rows seen, (1 + counts of the word) /
        (d + all counts), and kept.

    References
    ----------
    Jaakkola and Haussler, Exploiting generative models in discriminative classifiers (1999);
    Hofmann, Learning the similarity of documents (2000).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import MultinomialFisher
    >>> MultinomialFisher(np.array([0.5, 0.25, 0.25]))(np.array([[2.0, 1.0, 1.0], [4.0, 0, 0]]))
    array([[ 0.,  0.],
           [ 0., 16.]])
    """

    def __init__(self, probabilities: Array | None = None) -> None:
        self.probabilities = probabilities

    @classmethod
    def example(cls) -> Self:
        return cls(np.array([0.4, 0.3, 0.2, 0.1]))

    def example_inputs(self, rng: np.random.Generator, n: int) -> Array:
        return rng.poisson(1.5, size=(n, 4)).astype(float)

    def frozen(self, X: Any, weights: Array | None = None) -> Kernel:
        if self.probabilities is not None:
            return self
        X = counts(as_matrix(X), "MultinomialFisher")
        totals = (np.ones(len(X)) if weights is None else weights) @ X
        return self._restated(probabilities=(1.0 + totals) / (X.shape[1] + totals.sum()))

    def scores(self, X: Any) -> Array:
        X = counts(as_matrix(X), "MultinomialFisher")
        return np.asarray(X - X.sum(axis=1, keepdims=True) * self._p(X.shape[1]))

    def features(self, X: Any) -> Any:
        # on scores, which sum to zero, the pseudo-inverse of diag(p) - p p' is diag(1/p)
        X = as_matrix(X)
        return self.scores(X) / np.sqrt(self._p(X.shape[1]))

    def _p(self, d: int) -> Array:
        if self.probabilities is None:
            raise not_frozen(self, "probabilities")
        p = np.asarray(self.probabilities, dtype=np.float64)
        if p.shape != (d,) or not (p > 0.0).all() or abs(p.sum() - 1.0) > 1e-8:
            raise ValueError(
                f"MultinomialFisher: probabilities must be {d} positive numbers of sum one, one "
                f"for each of the columns, got {self.probabilities!r}"
            )
        return p
