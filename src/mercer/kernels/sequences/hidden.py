"""The Fisher kernel of a hidden Markov model; theory (F18)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from mercer.core.arrays import Array
from mercer.kernels.base import Kernel
from mercer.kernels.features.fisher import ScoreKernel
from mercer.kernels.sequences.base import OfSequences


class Expected(NamedTuple):
    """What a model expects of each sequence: starts (n, S), moves (n, S, S), symbols (n, S, A)."""

    starts: Array
    moves: Array
    symbols: Array
    log_likelihood: Array  # (n,)


class HMMFisher(OfSequences, ScoreKernel):
    """Fisher kernel of a hidden Markov model: k(x, z) = u(x)' I^-1 u(z).

    The score u is the gradient of log p(x) by the logits of the starts, the moves and the symbols:

        starts   gamma_1(s) - start_s
        moves    sum_t xi_t(s, r) - (sum_t gamma_t(s)) move_sr      t before the last symbol
        symbols  sum_t gamma_t(s) [x_t = a] - (sum_t gamma_t(s)) symbol_sa

    with gamma and xi the probabilities of states and pairs of states given x, by the forward and
    backward recursions over all sequences at once.

    Parameters
    ----------
    starts : array (S,); probabilities of the first state.
    moves : array (S, S); from each state to the next, rows of sum one.
    symbols : array (S, A); of each symbol in each state, rows of sum one.
    alphabet : str or list of A symbols, default="ACGT".
    longest : int, default=100; most symbols of a sequence.
    information : None, "empirical", array (p,) or (p, p), default="empirical"
        The identity; the mean of u^2 over the first rows seen; its diagonal; positive definite.

    References
    ----------
    Jaakkola, Diekhans and Haussler, A discriminative framework for detecting remote protein
    homologies (2000); Jaakkola and Haussler (1999); Rabiner (1989) for the recursions.

    Examples
    --------
    >>> kernel = HMMFisher.of(["AAACC", "AACCC", "GGTTT", "GTGTG"], states=2, random_state=0)
    >>> U = kernel.scores(["AAACC", "GGTTT"])
    >>> U.shape  # 2 starts, 4 moves, 8 symbols
    (2, 14)
    """

    def __init__(
        self,
        starts: Array,
        moves: Array,
        symbols: Array,
        alphabet: str | Sequence[Any] = "ACGT",
        longest: int = 100,
        information: Any = "empirical",
    ) -> None:
        self.starts, self.moves, self.symbols = starts, moves, symbols
        self.alphabet, self.longest, self.information = alphabet, longest, information

    @classmethod
    def example(cls) -> Self:
        moves = np.array([[0.8, 0.2], [0.3, 0.7]])
        symbols = np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]])
        return cls(np.array([0.6, 0.4]), moves, symbols, "abc", 8, information=None)

    @classmethod
    def of(
        cls,
        sequences: Any,
        states: int = 4,
        alphabet: str | Sequence[Any] = "ACGT",
        longest: int = 100,
        *,
        iterations: int = 50,
        prior: float = 0.1,
        random_state: int | None = None,
    ) -> Self:
        """Return the kernel of a model that is fitted to sequences by Baum and Welch's method.

        Parameters
        ----------
        sequences : list of strings, or what else the kernel takes.
        states : S.
        alphabet, longest : as for the kernel.
        iterations : of expectation and maximisation.
        prior : added to every expected count, so that no probability is zero.
        random_state : seed of the start.
        """
        rng, A = np.random.default_rng(random_state), len(alphabet)
        given = [
            rng.dirichlet(np.full(size, 5.0), n) for n, size in ((1, states), (states, states))
        ]
        model = cls(
            given[0][0], given[1], rng.dirichlet(np.full(A, 5.0), states), alphabet, longest
        )
        codes = model.codes(sequences)
        for _ in range(iterations):
            found = model.expected(codes)
            each = [found.starts.sum(axis=0), found.moves.sum(axis=0), found.symbols.sum(axis=0)]
            starts, moves, symbols = (
                (total + prior) / (total + prior).sum(axis=-1, keepdims=True) for total in each
            )
            model = cls(starts, moves, symbols, alphabet, longest)
        return model

    def read(self, X: Any) -> Any:
        return OfSequences.read(self, X)

    def __call__(self, X: Any, Z: Any = None) -> Array:
        return super().__call__(self.read(X), None if Z is None else self.read(Z))

    def diag(self, X: Any) -> Array:
        return super().diag(self.read(X))

    def frozen(self, X: Any, weights: Array | None = None) -> Kernel:
        return super().frozen(self.read(X), weights)

    def features(self, X: Any) -> Any:
        return super().features(self.read(X))

    def scores(self, X: Any) -> Array:
        starts, moves, symbols = self._checked()
        found = self.expected(self.codes(X))
        left, spent = found.moves.sum(axis=2), found.symbols.sum(axis=2)
        begun = found.starts.sum(axis=1, keepdims=True)  # 0 for a sequence without symbols
        parts = [
            found.starts - begun * starts,
            found.moves - left[:, :, None] * moves,
            found.symbols - spent[:, :, None] * symbols,
        ]
        return np.hstack([part.reshape(len(part), int(np.prod(part.shape[1:]))) for part in parts])

    def log_likelihood(self, X: Any) -> Array:
        """Return log p(x) of each sequence, (n,)."""
        return self.expected(self.codes(X)).log_likelihood

    def expected(self, codes: NDArray[np.int64]) -> Expected:
        """Return what the model expects of sequences (n, L), in O(n L S^2)."""
        starts, moves, symbols = self._checked()
        n, L, S = len(codes), codes.shape[1], len(starts)
        there = codes >= 0
        B = np.where(there[:, :, None], symbols.T[codes], 1.0)  # (n, L, S)
        forward, scale = np.empty((n, L, S)), np.ones((n, L))
        state = np.broadcast_to(starts, (n, S))
        for t in range(L):
            state = (state @ moves if t else state) * B[:, t]
            # after the end nothing is seen: the scale stays one
            scale[:, t] = np.where(there[:, t], state.sum(axis=1), 1.0)
            state = state / scale[:, t, None]
            forward[:, t] = state
        expected = np.zeros((n, S, S)), np.zeros((n, S, symbols.shape[1]))
        back, first = np.ones((n, S)), np.zeros((n, S))
        for t in range(L - 1, -1, -1):
            gamma = np.where(there[:, t, None], forward[:, t] * back, 0.0)
            expected[1][np.arange(n), :, codes[:, t]] += gamma  # of no symbol zero
            first = gamma
            if t:
                ahead = B[:, t] * back / scale[:, t, None]
                pairs = forward[:, t - 1, :, None] * moves * ahead[:, None, :]
                expected[0][...] += np.where(there[:, t, None, None], pairs, 0.0)
                back = np.where(there[:, t, None], ahead @ moves.T, 1.0)
        return Expected(first, *expected, np.log(scale).sum(axis=1))

    def _checked(self) -> tuple[Array, Array, Array]:
        given = (np.asarray(a, dtype=float) for a in (self.starts, self.moves, self.symbols))
        starts, moves, symbols = given
        S, A = starts.size, len(self.alphabet)
        if starts.shape != (S,) or moves.shape != (S, S) or symbols.shape != (S, A):
            raise ValueError(
                f"HMMFisher: for {S} states and {A} symbols starts must be ({S},), moves "
                f"({S}, {S}) and symbols ({S}, {A}); they are {starts.shape}, {moves.shape} and "
                f"{symbols.shape}"
            )
        for name, part in (("starts", starts), ("moves", moves), ("symbols", symbols)):
            if not (part >= 0.0).all() or not np.allclose(part.sum(axis=-1), 1.0, atol=1e-8):
                raise ValueError(f"HMMFisher: {name} must be probabilities, rows of sum one")
        return starts, moves, symbols
