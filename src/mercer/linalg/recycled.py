"""Dense Grams one after the other, in the same memory."""

from __future__ import annotations

from mercer.arrays import Array
from mercer.linalg.dense import DenseGram
from mercer.linalg.gram import Covariance


class RecycledGrams:
    """Makes the dense Grams of one search: each is written over the last.

    Fresh memory has to be cleared by the system before it is given out, which takes a tenth of the
    time that it takes to form K. Between two evaluations one n x n array is kept. Of Grams that
    threads work on at the same time one gets it, and the others have memory of their own.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import RBF
    >>> make, points = RecycledGrams(), np.array([[0.0], [1.0]])
    >>> gram = make(RBF(), points, scratch=True)
    >>> gradient = gram.pullback(np.ones((2, 1)), gram.factor(np.ones(2)))
    >>> len(make.spare)
    1
    """

    def __init__(self) -> None:
        self.spare: list[Array] = []

    def __call__(self, kernel: Covariance, points: Array, *, scratch: bool) -> DenseGram:
        """Return the Gram of a kernel at points (n, d)."""
        return DenseGram(kernel, points, scratch=scratch, spare=self.spare)
