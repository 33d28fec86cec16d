"""A latent function as a triangular factor that grows by rows: nothing is forgotten or dropped.

Theory (O6).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from mercer.arrays import Array
from mercer.inference.sequential import Block, absorb
from mercer.inference.sequential_explicit import Explicit
from mercer.inference.sequential_latent import Latent

PANEL = 256  # rows of a panel: growth copies nothing, and half of the square is never stored


@dataclass(frozen=True, eq=False)
class Growing(Latent):
    """R in panels of rows, R R' = K + diag(1/(2 w l)), and v = R^-1 y (n,).

    Panel i holds rows i PANEL ... of R and has a column for each row up to its own last. The rows
    after the n-th are spare; ``taken`` (one number, shared by all who hold the last panel) says how
    many rows someone has written, so that two continuations of one state do not meet.
    """

    panels: tuple[Array, ...]
    v: Array
    gain: float
    taken: list[int]

    @classmethod
    def empty(cls) -> Growing:
        """Return the latent function before any example."""
        return cls((), np.zeros(0), 0.0, [0])

    @classmethod
    def of(cls, R: Array, v: Array, gain: float) -> Growing:
        """Return the state of a whole factor R (n, n)."""
        return cls.empty()._with(R, v, gain)

    def rows(self, i: int) -> Array:
        """Return the used rows of panel i, all its columns."""
        return self.panels[i][: len(self.v) - i * PANEL]

    def whiten(self, K: Array) -> Array:
        """Return R^-1 K for K (n, q)."""
        T = np.empty(K.shape)
        for i in range(len(self.panels)):
            rows, a = self.rows(i), i * PANEL
            z = a + len(rows)
            rest = K[a:z] - rows[:, :a] @ T[:a]
            T[a:z] = solve_triangular(rows[:, a:z], rest, lower=True, check_finite=False)
        return T

    def moments(self, K: Array) -> tuple[Array, Array]:
        """See :meth:`Latent.moments`."""
        T = self.whiten(K)
        return np.asarray(T.T @ self.v), np.einsum("ij,ij->j", T, T)

    def joint(self, K: Array) -> tuple[Array, Array]:
        """See :meth:`Latent.joint`."""
        T = self.whiten(K)
        return np.asarray(T.T @ self.v), np.asarray(T.T @ T)

    def absorb(self, K: Array, prior: Array, S: Array, w: Array) -> tuple[Growing, Block]:
        """See :meth:`Latent.absorb`: one triangular solve, one product, and b rows more."""
        T = self.whiten(K)
        block = absorb(T.T @ self.v, prior - T.T @ T, S, w)
        return self._with(np.hstack([T.T, block.R]), block.v, self.gain + block.gain), block

    def settled(self) -> Growing:
        """See :meth:`Latent.settled`: nothing waits."""
        return self

    def explicit(self) -> Explicit:
        """See :meth:`Latent.explicit`: C = R^-T R^-1."""
        G = self.whiten(np.eye(len(self.v)))
        return Explicit(G.T @ G, G.T @ self.v, self.gain)

    def _with(self, rows: Array, v: Array, gain: float) -> Growing:
        """Return the state with further rows of R (b, n + b)."""
        n, panels, taken = len(self.v), list(self.panels), self.taken
        if panels and taken[0] != n:  # someone else wrote the spare rows of the last panel
            panels[-1], taken = panels[-1].copy(), [n]
        done = 0
        while done < len(rows):
            i, k = divmod(n + done, PANEL)
            if i == len(panels):
                taken[0] = n + done
                panels.append(np.zeros((PANEL, (i + 1) * PANEL)))
                taken = [n + done]
            part = rows[done : done + PANEL - k, : (i + 1) * PANEL]
            panels[i][k : k + len(part), : part.shape[1]] = part
            done += len(part)
        taken[0] = n + len(rows)
        return Growing(tuple(panels), np.concatenate([self.v, v]), gain, taken)
