"""Dense Gram: the whole matrix in memory, or one after the other in the same; (G4), (G6).

On a device the n x n arrays are there, formed and contracted by tiles from the kernel's own
formula, and vectors of n numbers go to and fro: an inference does not see the difference.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from mercer.core.arrays import Array, Index, Matrix, host, mirror
from mercer.core.device.accelerator import Accelerator
from mercer.core.device.array import Distant
from mercer.core.memory import require_memory
from mercer.kernels.base import Gradient, added, blocks
from mercer.kernels.given import Precomputed
from mercer.linalg.dense.factor import ROWS, DenseFactor
from mercer.linalg.dense.signed import SignedFactor
from mercer.linalg.gram import Covariance, Factor, Gram

# Points up to which a Gram takes its memory without asking the system, 24 MB: a fit asks once
# before it begins, and a search makes a hundred of them.
SMALL = 1000


class DenseGram(Gram):
    """K = k(P, P) as an (n, n) array.

    Parameters
    ----------
    kernel, points : the covariance function, and (n, d).
    keep : keep K for repeated products and factorisations. If False it is formed for each
        factorisation and overwritten by it: one n x n array in all.
    scratch : let a Factor overwrite its Cholesky factor by the inverse once that is asked for: for
        one evaluation of the evidence, which solves before and not after.
    spare : n x n arrays that may be written over, from Grams before this one; with ``scratch`` it
        gets this one's at the end.
    device : where n x n arrays are held; None is the memory of the CPU.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import RBF
    >>> gram = DenseGram(RBF(), np.array([[0.0], [1.0]]))
    >>> np.round(gram.factor(np.array([1.0, 1.0])).logdet(), 4)
    np.float64(1.2898)
    """

    def __init__(
        self,
        kernel: Covariance,
        points: Array,
        *,
        keep: bool = False,
        scratch: bool = False,
        spare: list[Array] | None = None,
        device: Accelerator | None = None,
    ) -> None:
        if len(points) > SMALL and device is None:
            require_memory(len(points), arrays=3)
        self.device = device
        self.kernel, self.points, self.keep, self.scratch = kernel, points, keep, scratch
        self.spare = [] if spare is None else spare
        self._matrix: Array | None = None
        self.room: list[Array] = []  # n x n arrays of factors that are done with

    @classmethod
    def given(cls, K: Array) -> DenseGram:
        """Return the Gram of a symmetric matrix K (n, n), kept as it is; points are row numbers."""
        gram = cls(Precomputed(K), np.arange(len(K), dtype=np.float64)[:, None], keep=True)
        gram._matrix = K
        return gram

    @property
    def matrix(self) -> Array:
        """K (n, n); do not write to it."""
        if self._matrix is not None:
            return self._matrix
        K = self._formed()
        if self.keep:
            self._matrix = K
        return K

    def _formed(self) -> Array:
        """Form K, in a spare array if one fits and the kernel can write to it."""
        written = getattr(self.kernel, "written", None)
        try:  # in one step: threads may share the spare arrays
            out = None if written is None else self.spare.pop()
        except IndexError:
            out = None
        fits = out is not None and len(out) == len(self.points)
        if self.device is not None:
            return self._tiled(self.device, out if fits else None)
        if written is None or out is None or not fits:
            return self.kernel(self.points)
        return np.asarray(written(self.points, out))

    def _tiled(self, device: Accelerator, out: Array | None) -> Array:
        """Form K on a device: the upper triangle by tiles, of which the diagonal ones know it."""
        n, P = len(self.points), device.put(self.points)
        K: Matrix = device.empty(n, n) if out is None else out
        for rows, columns, _ in blocks(n, n, True, device.rows(n)):
            K[rows, columns] = self.kernel(P[rows], None if rows == columns else P[columns])
        return mirror(K)

    def __matmul__(self, V: Array) -> Array:
        return np.asarray(host(self.matrix @ V))

    def diag(self) -> Array:
        return self.kernel.diag(self.points)

    def take(self) -> Array:
        """Return an (n, n) array to be filled: fresh memory costs more than what fills it."""
        n = len(self.points)
        if self.room:
            return self.room.pop()
        return np.empty((n, n)) if self.device is None else self.device.empty(n, n)

    def give(self, *done: Array | None) -> None:
        """Keep (n, n) arrays that nobody reads any more for the next that ask."""
        if self.keep:
            self.room.extend(A for A in done if A is not None and A.size)

    def rows(self, index: Index) -> Array:
        return np.asarray(host(self.matrix[index]))

    def factor(self, W: Array) -> Factor:
        W = W + 0.0  # a weight of -0.0 is none, and 1/W must not be -inf
        return SignedFactor(self, W) if np.any(W < 0) else DenseFactor(self, W)

    def pullback(
        self, alpha: Array, factor: Factor, U: Array | None = None, V: Array | None = None
    ) -> Gradient:
        if self.scratch and self._matrix is not None:  # K has served: its memory for the rest
            self.give(self._matrix)
            self._matrix = None
        Q: Matrix = factor.gradient_weights(alpha, float(alpha.shape[1]))
        if U is not None and V is not None:
            # U V' + V U' as one product, by rows: no second n x n array; NumPy is slow at rank one
            left, right = np.hstack([U, V]), 0.5 * np.ascontiguousarray(np.hstack([V, U]).T)
            if Q.__class__ is Distant:
                Q.add_product(left, right)
            else:
                for i in range(0, len(Q), ROWS):
                    Q[i : i + ROWS] += left[i : i + ROWS] @ right
        if self.scratch:
            self.room.clear()  # no factor comes after this: let the kernel have the memory
        gradient = self.contract(Q)
        if self.scratch:
            self.spare[:] = [Q]
        return gradient

    def contract(self, Q: Array) -> Gradient:
        pullback = getattr(self.kernel, "pullback", None)
        if pullback is None:
            raise NotImplementedError(f"{type(self.kernel).__name__} has no parameters to learn")
        if self.device is not None:
            n, P = len(self.points), self.device.put(self.points)
            parts = [
                pullback(P[rows], None if rows == columns else P[columns], times * Q[rows, columns])
                for rows, columns, times in blocks(n, n, True, self.device.rows(n))
            ]
            return reduce(added, parts)
        gradient: Gradient = pullback(self.points, None, Q)
        return gradient


class RecycledGrams:
    """Makes the dense Grams of one search: each is written over the last.

    Fresh memory has to be cleared by the system, which takes a tenth of the time to form K. Between
    two evaluations one n x n array is kept; of several threads one gets it.
    """

    def __init__(self, device: Accelerator | None = None) -> None:
        self.spare: list[Array] = []
        self.device = device

    def __call__(self, kernel: Covariance, points: Array, *, scratch: bool) -> DenseGram:
        """Return the Gram of a kernel at points (n, d)."""
        return DenseGram(kernel, points, scratch=scratch, spare=self.spare, device=self.device)
