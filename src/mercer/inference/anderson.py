"""Anderson acceleration of a fixed-point iteration x <- G(x)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mercer.arrays import Array


class Anderson:
    """The next point from the last few, as if G were linear.

    With r = G(x) - x and differences dX, dR over the history, gamma = argmin |T(r - dR gamma)| for
    a linear T that says what counts, the next point is x + rho r - (dX + rho dR) gamma, rho = 1
    unless the iteration is damped. It has the fixed points of G and no others; whether to accept
    the point is left to the caller.

    Reference: Walker & Ni (2011), SIAM J. Numer. Anal. 49, algorithm AA.

    Parameters
    ----------
    memory : differences kept.

    Examples
    --------
    >>> import numpy as np
    >>> A, x = np.array([[0.9, 0.1], [0.0, 0.5]]), np.ones(2)
    >>> mixer = Anderson(memory=2)
    >>> for _ in range(3):
    ...     x = mixer.step(x, A @ x - x)
    >>> np.abs(x).max().round(12)
    np.float64(0.0)
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self._history: list[tuple[Array, Array]] = []

    def forget(self) -> None:
        """Begin anew."""
        self._history = []

    def step(
        self, x: Array, r: Array, weigh: Callable[[Array], Array] = np.ravel, rho: float = 1.0
    ) -> Array:
        """Return the next point for x and r of one shape; ``weigh`` is T, its values (q,)."""
        self._history = [*self._history, (x, r)][-self.memory - 1 :]
        if len(self._history) == 1:
            return x + rho * r
        X, R = (np.array(part) for part in zip(*self._history, strict=True))
        dX, dR = np.diff(X, axis=0), np.diff(R, axis=0)
        A = np.column_stack([weigh(d) for d in dR])
        gamma = np.linalg.lstsq(A, weigh(r), rcond=1e-10)[0]
        return np.asarray(x + rho * r - np.tensordot(gamma, dX + rho * dR, axes=1))
