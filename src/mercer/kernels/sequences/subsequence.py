"""Subsequences with gaps: what two sequences share in order, but not side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np

from mercer.core.arrays import Array
from mercer.core.component import UNIT, Domains, Words
from mercer.kernels.base import Gradient, finite, whole
from mercer.kernels.sequences.base import OfSequences

ENTRIES = 1 << 21  # of the tables of pairs that are filled at a time


class Subsequence(OfSequences):
    """Gappy subsequence kernel: all subsequences of ``length`` symbols, gaps counted by a decay.

        k(x, z) = sum_w phi_w(x) phi_w(z),   phi_w(x) = sum over places of w in x of decay^span

    where span is the number of symbols from the first to the last place. It is computed without the
    words, in O(length |x| |z|) for a pair. With ``normalize`` k is divided by
    sqrt(k(x, x) k(z, z)); a sequence shorter than ``length`` has k = 0.

    Parameters
    ----------
    length : int, default=3; of a subsequence, 1 or more; not searched.
    decay : float, default=0.5; in (0, 1): small values count words without gaps alone.
    alphabet : str or list of symbols, default="ACGT".
    longest : int, default=100; most symbols of a sequence.
    normalize : bool, default=True; whether k(x, x) = 1.

    References
    ----------
    Lodhi, Saunders, Shawe-Taylor, Cristianini and Watkins, Text classification using string kernels
    (2002), section 2 and definition 2.

    Examples
    --------
    >>> Subsequence(2, 0.5, "cart", normalize=False)(["cat"], ["cart"])  # ca + ct + at
    array([[0.1015625]])
    """

    domains: ClassVar[Domains] = {"decay": UNIT}
    words: ClassVar[Words] = {"decay": "how much of a word is left for each symbol that it spans"}

    def __init__(
        self,
        length: int = 3,
        decay: float = 0.5,
        alphabet: str | Sequence[Any] = "ACGT",
        longest: int = 100,
        normalize: bool = True,
    ) -> None:
        self.length, self.decay, self.alphabet = length, decay, alphabet
        self.longest, self.normalize = longest, normalize

    @classmethod
    def example(cls) -> Self:
        return cls(2, 0.6, "abc", longest=7)

    def __call__(self, X: Any, Z: Any = None) -> Array:
        return self._normalised(X, Z)[0]

    def diag(self, X: Any) -> Array:
        own = self._own(self.codes(X))[0]
        return (own > 0.0).astype(float) if self.normalize else own

    def _value_and_pullback(self, X: Any, Z: Any, Q: Array) -> tuple[float, Gradient]:
        K, slope = self._normalised(X, Z)
        return float(np.vdot(Q, K)), {"decay": float(np.vdot(Q, slope))}

    def _normalised(self, X: Any, Z: Any) -> tuple[Array, Array]:
        """Return k(X, Z) and its derivative by the decay."""
        x = self.codes(X)
        z = x if Z is None else self.codes(Z)
        K, slope = np.zeros((2, len(x), len(z)))
        size = max(1, ENTRIES // max(1, len(z) * x.shape[1] * z.shape[1]))
        for i in range(0, len(x), size):
            start = i if Z is None else 0  # the rest is symmetric
            rows, columns = slice(i, i + size), slice(start, len(z))
            found = self._pairs(x[rows, None], z[None, columns])
            K[rows, columns], slope[rows, columns] = found
        if Z is None:
            for M in (K, slope):
                i, j = np.tril_indices(len(M), -1)
                M[i, j] = M[j, i]
        if not self.normalize:
            return K, slope
        own = self._own(x)
        other = own if Z is None else self._own(z)
        root = np.sqrt(np.outer(own[0], other[0]))
        root = np.where(root > 0.0, root, 1.0)
        relative = [part[1] / np.where(part[0] > 0.0, part[0], 1.0) for part in (own, other)]
        K /= root
        slope = slope / root - 0.5 * K * np.add.outer(*relative)
        return K, np.asarray(slope)

    def _own(self, x: Any) -> tuple[Array, Array]:
        """Return k(x, x) before it is normalised, and its derivative, (n,) each."""
        size = max(1, ENTRIES // max(1, x.shape[1] ** 2))
        parts = [self._pairs(x[i : i + size], x[i : i + size]) for i in range(0, len(x), size)]
        none = np.zeros(0)
        return (
            np.concatenate([none, *(part[0] for part in parts)]),
            np.concatenate([none, *(part[1] for part in parts)]),
        )

    def _pairs(self, x: Any, z: Any) -> tuple[Array, Array]:
        """Return the sums of pairs of rows (.., L), which are broadcast, and their derivatives.

        With E_ab = [x_a = z_b] and K'_0 = 1: R_i = decay^2 E K'_{i-1} one place before,
        K''_i = decay K''_i at b - 1 + R_i, K'_i = decay K'_i at a - 1 + K''_i, k = sum R_length.
        """
        from scipy.signal import lfilter

        g = float(finite(self, "decay"))
        if not 0.0 < g <= 1.0:
            raise ValueError(f"Subsequence: decay must lie in (0, 1], got {self.decay!r}")
        E = ((x[..., :, None] == z[..., None, :]) & (x[..., :, None] >= 0)).astype(float)
        R, dR = g**2 * E, 2.0 * g * E
        for _ in range(whole(self, "length", 1) - 1):
            for axis in (-1, -2):
                R = lfilter([1.0], [1.0, -g], R, axis=axis)
                dR = lfilter([1.0], [1.0, -g], dR + _later(R, (axis,)), axis=axis)
            before, slope = _later(R, (-1, -2)), _later(dR, (-1, -2))
            R, dR = g**2 * E * before, E * (2.0 * g * before + g**2 * slope)
        return R.sum(axis=(-1, -2)), dR.sum(axis=(-1, -2))


def _later(A: Array, axes: tuple[int, ...]) -> Array:
    """Return A one place later along the axes, zeros in front."""
    B = np.zeros_like(A)
    to = tuple(slice(1, None) if k - A.ndim in axes else slice(None) for k in range(A.ndim))
    of = tuple(slice(None, -1) if k - A.ndim in axes else slice(None) for k in range(A.ndim))
    B[to] = A[of]
    return B
