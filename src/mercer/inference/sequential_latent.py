"""A latent function in a stream: mean k(x, P) alpha, covariance k - k(x, P) C k(P, z).

Two forms of the same: a factor of C^-1 that grows by rows (``sequential_growing``), for a stream
that is kept whole, and C itself (``sequential_explicit``), for one that forgets, drifts or is
projected onto fewer points. Both are values: absorbing examples returns another one, and the old
one stays as it was. Theory (O3), (O4).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

from mercer.arrays import Array
from mercer.inference.sequential import Block

if TYPE_CHECKING:
    from mercer.inference.sequential_explicit import Explicit


class Latent(ABC):
    """What both forms do.

    ``gain`` is -log|I - C K|, the log of |prior| / |posterior|, as if no point had been dropped:
    with what :meth:`Explicit.information` finds, it says what the projections cost.
    """

    gain: float

    @abstractmethod
    def moments(self, K: Array) -> tuple[Array, Array]:
        """Return mean (q,) and reduction of the variance (q,) for K = k(P, X) (n, q)."""

    @abstractmethod
    def joint(self, K: Array) -> tuple[Array, Array]:
        """Return mean (b,) and reduction of the whole covariance (b, b) for K = k(P, X) (n, b)."""

    @abstractmethod
    def absorb(self, K: Array, prior: Array, S: Array, w: Array) -> tuple[Self, Block]:
        """Absorb b examples: K = k(P, X) (n, b), prior = k(X, X) (b, b), labels, weights (b,)."""

    @abstractmethod
    def settled(self) -> Self:
        """Return the same with nothing left to be done later."""

    @abstractmethod
    def explicit(self) -> Explicit:
        """Return the same with C itself."""
