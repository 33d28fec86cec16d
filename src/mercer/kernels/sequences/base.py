"""Sequences as inputs: strings, or lists of symbols, of any length up to one that is stated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mercer.core.arrays import Array, as_matrix
from mercer.kernels.base import Kernel
from mercer.kernels.parameters import whole

END = -1.0  # stands in a row after the last symbol


def encoded(sequences: Any, alphabet: Sequence[Any], longest: int) -> Array:
    """Return the numbers of the symbols in the alphabet, (n, longest), and -1 after the end.

    Examples
    --------
    >>> encoded(["ba", "c"], "abc", 3)
    array([[ 1.,  0., -1.],
           [ 2., -1., -1.]])
    """
    place = {symbol: i for i, symbol in enumerate(alphabet)}
    if not place or len(place) < len(alphabet):
        raise ValueError(f"an alphabet must have symbols, each of them once, got {alphabet!r}")
    rows = np.full((len(sequences), longest), END)
    for i, sequence in enumerate(sequences):
        if len(sequence) > longest:
            raise ValueError(
                f"sequence {i} has {len(sequence)} symbols, more than longest={longest}; give the "
                f"kernel longest={len(sequence)} or more"
            )
        try:
            rows[i, : len(sequence)] = [place[symbol] for symbol in sequence]
        except KeyError as error:
            raise ValueError(
                f"sequence {i} has the symbol {error.args[0]!r}, which is not in the alphabet "
                f"{alphabet!r}"
            ) from None
    return rows


class OfSequences(Kernel, abstract=True):
    """A kernel of sequences over an ``alphabet``, of at most ``longest`` symbols.

    It takes them as strings (or lists of symbols), and so do estimators with such a kernel; inside
    they are rows of numbers, :func:`encoded`, which may be given as well.
    """

    alphabet: str | Sequence[Any]
    longest: int
    spatial = False

    def read(self, X: Any) -> Any:
        if isinstance(X, np.ndarray) and X.dtype.kind in "fiu" and X.ndim == 2:
            return X
        if isinstance(X, str):
            raise TypeError("sequences come as a list of strings, and X is one string; give [X]")
        if hasattr(X, "to_numpy"):
            X = X.to_numpy()
        if not all(hasattr(one, "__len__") for one in X):
            raise TypeError(
                f"{type(self).__name__} takes a list of sequences: strings, or lists of symbols"
            )
        return encoded(X, self.alphabet, whole(self, "longest", 1))

    def in_units(self, shift: Array, scale: Array) -> Kernel:
        if np.any(shift != 0.0) or np.any(scale != 1.0):
            return super().in_units(shift, scale)
        return self

    def codes(self, X: Any) -> NDArray[np.int64]:
        """Return the symbols (n, L) as integers, -1 after the end, or refuse other numbers."""
        X, longest = as_matrix(self.read(X)), whole(self, "longest", 1)
        if X.shape[1] != longest:
            raise ValueError(
                f"{type(self).__name__}: rows of numbers must have longest={longest} columns, and "
                f"they have {X.shape[1]}; give strings, which are turned into such rows"
            )
        found: NDArray[np.int64] = X.astype(np.int64)
        after = found < 0
        fine = (found == X).all() and found.max(initial=-1) < len(self.alphabet)
        if not fine or found.min(initial=0) < END or (after[:, :-1] & ~after[:, 1:]).any():
            raise ValueError(
                f"{type(self).__name__}: a row of numbers must hold places in the alphabet, 0 to "
                f"{len(self.alphabet) - 1}, and -1 after the end; give strings, which are turned "
                "into such rows"
            )
        return found

    def example_inputs(self, rng: np.random.Generator, n: int) -> Array:
        rows = rng.integers(0, len(self.alphabet), size=(n, self.longest)).astype(float)
        ends = rng.integers(max(1, self.longest // 2), self.longest + 1, size=n)
        rows[np.arange(self.longest) >= ends[:, None]] = END
        return rows
