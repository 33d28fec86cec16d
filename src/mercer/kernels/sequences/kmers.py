"""Kernels that count the short words which two sequences share; theory (F19)."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import Any, Self

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.sparse import csr_array

from mercer.core.arrays import Array
from mercer.kernels.parameters import whole
from mercer.kernels.sequences.base import OfSequences

FEW = 1024  # words of an alphabet up to which there is an explicit map
BLOCK = 1024  # words that are compared with all others at a time


class Kmers(OfSequences):
    """Spectrum and mismatch kernels: the words of ``length`` symbols that two sequences share.

        k(x, z) = sum_w phi_w(x) phi_w(z),    phi_w(x) = number of words in x near w

    over all words w of the alphabet, near if they differ in at most m places; m = 0 is the spectrum
    kernel. With ``normalize`` k is divided by sqrt(k(x, x) k(z, z)); a sequence shorter than a word
    has k = 0. What two words contribute depends on the number of places in which they differ alone,
    so that only words of the data are looked at.

    Parameters
    ----------
    length : int, default=3; of a word, 1 or more.
    mismatches : int, default=0; m, below ``length``.
    alphabet : str or list of symbols, default="ACGT".
    longest : int, default=100; most symbols of a sequence.
    normalize : bool, default=True; whether k(x, x) = 1.

    References
    ----------
    Leslie, Eskin and Noble, The spectrum kernel (2002); Leslie, Eskin, Cohen, Weston and Noble,
    Mismatch string kernels for discriminative protein classification (2004).

    Examples
    --------
    >>> Kmers(2, normalize=False)(["ACAC", "CA"])  # AC twice, CA once
    array([[5., 1.],
           [1., 1.]])
    """

    def __init__(
        self,
        length: int = 3,
        mismatches: int = 0,
        alphabet: str | Sequence[Any] = "ACGT",
        longest: int = 100,
        normalize: bool = True,
    ) -> None:
        self.length, self.mismatches, self.alphabet = length, mismatches, alphabet
        self.longest, self.normalize = longest, normalize

    @classmethod
    def example(cls) -> Self:
        return cls(3, 1, "abc", longest=9)

    def __call__(self, X: Any, Z: Any = None) -> Array:
        if Z is None:
            (C,), words = self._counts(self.codes(X))
            left = self._shared(C, words)
            K = _dense(left @ C.T)
            K = 0.5 * (K + K.T)
            root = np.sqrt(np.diagonal(K))
            return K / self._divisor(root, root) if self.normalize else K
        (A, B), words = self._counts(self.codes(X), self.codes(Z))
        left = self._shared(A, words)
        K = _dense(left @ B.T)
        if not self.normalize:
            return K
        own = np.sqrt(_rows(left, A)), np.sqrt(_rows(self._shared(B, words), B))
        return np.asarray(K / self._divisor(*own))

    def diag(self, X: Any) -> Array:
        (C,), words = self._counts(self.codes(X))
        own = _rows(self._shared(C, words), C)
        return (own > 0.0).astype(float) if self.normalize else own

    def features(self, X: Any) -> Any:
        size, A = self._length(), len(self.alphabet)
        if A**size > FEW:
            return None
        codes = self.codes(X)
        numbers, valid = self._words(codes)
        F = np.zeros((len(codes), A**size))
        for column in range(numbers.shape[1]):
            rows = np.flatnonzero(valid[:, column])
            F[rows, numbers[rows, column]] += 1.0
        if self.mismatches:
            every = (np.arange(A**size)[:, None] // A ** np.arange(size)) % A
            F = F @ (self._differences(every, every) <= self.mismatches).astype(float)
        if not self.normalize:
            return F
        own = np.sqrt((F**2).sum(axis=1, keepdims=True))
        return F / np.where(own > 0.0, own, 1.0)

    # ------------------------------------------------------------------ words
    def _length(self) -> int:
        size, m, A = whole(self, "length", 1), whole(self, "mismatches", 0), len(self.alphabet)
        if m >= size:
            raise ValueError(f"Kmers: mismatches must be below length={size}, got {m}")
        if size * np.log2(max(A, 2)) >= 62.0:
            raise ValueError(f"Kmers: there are more than 2^62 words of {size} symbols; shorten it")
        return size

    def _words(self, codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the number of the word at each place (n, p), and whether there is one."""
        size, A = self._length(), len(self.alphabet)
        if codes.shape[1] < size:
            none = np.zeros((len(codes), 0))
            return none.astype(np.int64), none.astype(bool)
        windows = sliding_window_view(codes, size, axis=1)
        powers = np.int64(A) ** np.arange(size, dtype=np.int64)
        return windows @ powers, np.asarray((windows >= 0).all(axis=2))

    def _counts(self, *sets: NDArray[np.int64]) -> tuple[list[csr_array], NDArray[np.int64]]:
        """Return how often each sequence of each set has each word that occurs, and the words."""
        found = [self._words(codes) for codes in sets]
        words = np.unique(np.concatenate([numbers[valid] for numbers, valid in found]))
        counted = []
        for numbers, valid in found:
            rows, _ = np.nonzero(valid)
            places = np.searchsorted(words, numbers[valid])
            shape = (len(numbers), len(words))
            counted.append(csr_array((np.ones(len(rows)), (rows, places)), shape=shape))
        size, A = self._length(), len(self.alphabet)
        return counted, (words[:, None] // np.int64(A) ** np.arange(size)) % A

    def _shared(self, C: csr_array, words: NDArray[np.int64]) -> Any:
        """Return C M, M the number of words near both of two words (u, u)."""
        if not self.mismatches or not len(words):
            return C
        near = self._near_both()
        parts = [
            C @ near[self._differences(words, words[i : i + BLOCK])]
            for i in range(0, len(words), BLOCK)
        ]
        return np.hstack(parts)

    def _differences(self, one: NDArray[np.int64], two: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return in how many places words (u, length) and (v, length) differ, (u, v)."""
        symbols = np.arange(len(self.alphabet))
        flat = [(w[:, :, None] == symbols).reshape(len(w), -1).astype(float) for w in (one, two)]
        return np.asarray(self.length - flat[0] @ flat[1].T).round().astype(np.int64)

    def _near_both(self) -> Array:
        """Return, for two words that differ in h places, how many are within m of both."""
        size, m, A = self.length, self.mismatches, len(self.alphabet)
        near = np.zeros(size + 1)
        for h in range(size + 1):
            for a in range(h + 1):  # of the places that differ: as in the first word
                for b in range(h - a + 1):  # as in the second, and as in neither
                    ways = comb(h, a) * comb(h - a, b) * (A - 2) ** (h - a - b)
                    for t in range(size - h + 1):  # of the others: changed
                        if max(h - a, h - b) + t <= m:
                            near[h] += ways * comb(size - h, t) * (A - 1) ** t
        return near

    @staticmethod
    def _divisor(a: Array, b: Array) -> Array:
        product = np.outer(a, b)
        return np.where(product > 0.0, product, 1.0)


def _dense(K: Any) -> Array:
    return np.ascontiguousarray(K.toarray() if hasattr(K, "toarray") else K, dtype=np.float64)


def _rows(left: Any, C: csr_array) -> Array:
    """Return the sums of left o C by row."""
    return np.asarray(C.multiply(left).sum(axis=1), dtype=np.float64).ravel()
