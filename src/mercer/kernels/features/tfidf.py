"""TFIDF: the kernel of word counts."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from scipy.sparse import csr_array

from mercer.core.arrays import Array, is_sparse
from mercer.core.component import Names
from mercer.kernels.base import positive
from mercer.kernels.features.fourier import Mapped, not_frozen, rows_of


class TFIDF(Mapped):
    """Kernel of counts: k(x, z) = phi(x)'phi(z), phi(x) = log(1 + x) idf, at unit length.

    Many like words count less than many different ones (the logarithm), words that are everywhere
    less than rare ones (the inverse document frequency), and the length of the text not at all. It
    approximates the Fisher kernel of the Dirichlet compound multinomial, a model in which a word
    that occurred once is likely to occur again.

        idf_j = log((1 + n) / (1 + n_j)) + 1,   n rows, of which n_j hold word j

    A row of zeros carries no information: phi = 0, and k is zero, with itself as well. X may be
    sparse where an estimator takes sparse rows.

    Parameters
    ----------
    idf : float, array (d,) or None, default=None
        Positive inverse document frequencies. None computes them from the first rows seen (in a
        stream the first batch), and keeps them.

    References
    ----------
    Elkan, Deriving TF-IDF as a Fisher kernel (2005); Jaakkola and Haussler, Exploiting generative
    models in discriminative classifiers (1999). The smoothed idf is scikit-learn's.

    Examples
    --------
    >>> X = np.array([[2.0, 0.0, 1.0], [0.0, 3.0, 1.0], [0.0, 0.0, 0.0]])
    >>> kernel = TFIDF().frozen(X)
    >>> kernel.idf.round(3)
    array([1.693, 1.693, 1.288])
    >>> kernel(X).round(3)
    array([[1.   , 0.154, 0.   ],
           [0.154, 1.   , 0.   ],
           [0.   , 0.   , 0.   ]])
    """

    names: ClassVar[Names] = {}  # by itself it does not describe a table

    def __init__(self, idf: float | Array | None = None) -> None:
        self.idf = idf

    @classmethod
    def example(cls) -> Self:
        return cls(np.array([1.2, 2.0, 1.0, 1.7]))

    def example_inputs(self, rng: np.random.Generator, n: int) -> Array:
        return rng.poisson(0.8, size=(n, 4)).astype(float)

    @property
    def takes_sparse(self) -> bool:
        return True

    def frozen(self, X: Any, weights: Array | None = None) -> Self:
        if self.idf is not None:
            return self
        X = counts(X, "TFIDF")
        w = np.ones(X.shape[0]) if weights is None else weights
        return self._restated(idf=np.log((1.0 + w.sum()) / (1.0 + (X > 0).T @ w)) + 1.0)

    def features(self, X: Any) -> Any:
        if self.idf is None:
            raise not_frozen(self, "idf")
        X = counts(X, "TFIDF")
        idf = positive(self, "idf", X.shape[1])
        F = X.log1p() if is_sparse(X) else np.log1p(X)
        F = F * idf
        square = np.asarray((F * F).sum(axis=1), dtype=np.float64).ravel()
        length = np.sqrt(np.where(square > 0.0, square, 1.0))[:, None]
        return csr_array(F / length) if is_sparse(F) else F / length


def counts(X: Any, who: str) -> Any:
    """Return X (n, d), none of it negative; sparse rows as a CSR array."""
    X = csr_array(X, dtype=np.float64) if is_sparse(X) else rows_of(X)
    low = X.data.min(initial=0.0) if is_sparse(X) else X.min(initial=0.0)
    if low < 0.0:
        raise ValueError(
            f"{who} is for counts, and the inputs reach down to {low:.6g}; give the counts "
            "themselves, neither standardised nor transformed"
        )
    return X
