"""Subsequences with gaps: shared in order, but not side by side; theory (F20)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mercer._native import strings
from mercer.core.arrays import Array
from mercer.core.component import UNIT, Domains, Words
from mercer.kernels.base import Gradient, finite
from mercer.kernels.parameters import whole
from mercer.kernels.sequences.base import OfSequences

Codes: TypeAlias = NDArray[np.int64]
DIAGONAL, HALF, ALL = 0, 1, 2  # which pairs of sequences are compared


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
        K, slope = self._pairs(x, z, HALF if Z is None else ALL)
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

    def _own(self, x: Codes) -> tuple[Array, Array]:
        """Return k(x, x) before it is normalised, and its derivative, (n,) each."""
        K, slope = self._pairs(x, x, DIAGONAL)
        return K[:, 0], slope[:, 0]

    def _pairs(self, x: Codes, z: Codes, which: int) -> tuple[Array, Array]:
        """Return the sums of pairs of rows (n, L) and (m, L), and their derivatives."""
        g = float(finite(self, "decay"))
        if not 0.0 < g <= 1.0:
            raise ValueError(f"Subsequence: decay must lie in (0, 1], got {self.decay!r}")
        K, slope = np.empty((2, len(x), 1 if which == DIAGONAL else len(z)))
        strings.subsequences(x, z, whole(self, "length", 1), g, which, K, slope)
        return K, slope
