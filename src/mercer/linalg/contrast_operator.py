"""The operator of a posterior by contrasts: universal kriging; theory (G10)."""

from __future__ import annotations

import numpy as np

from mercer.arrays import Array
from mercer.linalg.operators import Operator


class ContrastOperator(Operator):
    """Formula (2) for a kernel that is positive on contrasts only.

    With w(x) = J h(x), which gives every basis function at x from its values at the points, the
    difference f(x) - w(x)'f(P) is a contrast. Its covariance with those at P is
    c(x) = k(P, x) - K w(x), and

        k(x, z) - reduce = [k(x, z) - w(x)'k(P, z) - k(x, P) w(z) + w(x)'K w(z)]
                           - c(x)'M'M c(z)  +  w(x)'(noise) w(z)

    For a posterior on inducing points the data say less than the values at these points would: the
    term |M c|^2 is what they would say, and (N c + T h) what stays unknown of it is added again.

    Parameters
    ----------
    half : M (r, n).
    anchor, cross : J and K J, (n, k).
    block : (k, k) J'K J plus the covariance of the basis coefficients from noise alone.
    gain, tilt : N (r, n) and T (r, k), or None.

    Reference: GPML (2.42); Wahba, Spline models for observational data (1990), section 1.5.
    """

    def __init__(
        self,
        half: Array,
        anchor: Array,
        cross: Array,
        block: Array,
        gain: Array | None = None,
        tilt: Array | None = None,
    ) -> None:
        self.half = half
        self.anchor = anchor
        self.cross = cross
        self.block = block
        self.gain = gain
        self.tilt = tilt

    def _known(self, A: Array, h: Array) -> tuple[Array, Array | None]:
        """Return M c, and N c + T h, for A (n, p) and h (p, k)."""
        c = A - self.cross @ h.T
        if self.gain is None or self.tilt is None:
            return self.half @ c, None
        return self.half @ c, self.gain @ c + self.tilt @ h.T

    def reduce(self, A: Array, B: Array, hA: Array | None, hB: Array | None) -> Array:
        """See :meth:`Operator.reduce`, shape (p, q)."""
        assert hA is not None
        assert hB is not None
        u, s = self._known(A, hA)
        v, t = (u, s) if B is A else self._known(B, hB)
        left, right = hA @ (self.anchor.T @ B), (A.T @ self.anchor) @ hB.T
        total = left + right - hA @ self.block @ hB.T + u.T @ v
        if s is not None and t is not None:
            total -= s.T @ t
        return np.asarray(total)

    def reduce_diag(self, A: Array, hA: Array | None) -> Array:
        """See :meth:`Operator.reduce_diag`, shape (p,)."""
        assert hA is not None
        u, s = self._known(A, hA)
        total = np.einsum("ij,ij->i", 2.0 * (A.T @ self.anchor) - hA @ self.block, hA)
        total += np.einsum("ij,ij->j", u, u)
        if s is not None:
            total -= np.einsum("ij,ij->j", s, s)
        return np.asarray(total)

    def state(self) -> dict[str, Array]:
        """Return the arrays to store."""
        arrays = {"half": self.half, "anchor": self.anchor, "cross": self.cross}
        arrays["block"] = self.block
        if self.gain is not None and self.tilt is not None:
            arrays |= {"gain": self.gain, "tilt": self.tilt}
        return arrays
