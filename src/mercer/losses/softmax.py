"""Several classes with one latent function each."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import special

from mercer.core.arrays import Array
from mercer.losses.base import Loss, absent
from mercer.losses.binary.logistic import Logistic
from mercer.losses.numbers.averages import softmax_average


class Softmax(Loss):
    """P(y = j | f) = e^{f_j} / sum_i e^{f_i}: g = log sum_i e^{f_i} - f_y, f of shape (n, c).

    Reference: Jaakkola & Haussler (1999) (65)-(71); GPML section 3.5.

    Examples
    --------
    >>> Softmax().value(np.array([0.0]), np.zeros((1, 4))).round(6)
    array([1.386294])
    """

    response: ClassVar[str] = "multiclass"
    normalised: ClassVar[bool] = True

    def value(self, y: Array, f: Array) -> Array:
        """Return g (n,) for y (n,) and f (n, c)."""
        chosen = np.take_along_axis(f, np.asarray(y).astype(np.intp)[..., None], axis=-1)
        return np.asarray(special.logsumexp(f, axis=-1) - chosen[..., 0])

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        """Return the gradient (n, c), the matrix (n, c, c) and the third derivatives (n, c, c, c).

        d1 = p - e_y, d2 = diag(p) - p p', d3_ijk = p_i (I_ij - p_j)(I_ik - p_k) - p_j d2_ik.
        """
        p = special.softmax(f, axis=-1)
        eye = np.eye(f.shape[-1])
        d2 = p[..., None] * eye - p[..., :, None] * p[..., None, :]
        near = eye - p[..., None, :]  # I_ij - p_j
        d3 = np.einsum("...i,...ij,...ik->...ijk", p, near, near)
        d3 -= np.einsum("...i,...jk->...ijk", p, d2)
        return p - eye[np.asarray(y).astype(np.intp)], d2, d3

    def curvature(self, y: Array, f: Array) -> Array:
        """Return d2g/df2, (n, c, c)."""
        return self.derivatives(y, f)[1]

    def trace_slope(self, y: Array, f: Array, Sigma: Array) -> Array:
        """Return d tr(Sigma W(f)) / df (n, c), W the second derivatives, for Sigma (n, c, c).

        p_c [Sigma_cc - sum_k p_k Sigma_kk - 2 ((Sigma p)_c - p'Sigma p)].
        """
        p = special.softmax(f, axis=1)
        own = np.diagonal(Sigma, axis1=1, axis2=2)
        inner = own - 2.0 * np.einsum("ice,ie->ic", Sigma, p)
        return np.asarray(p * (inner - (p * inner).sum(axis=1, keepdims=True)))

    def conjugate(self, y: Array, u: Array) -> Array:
        """Return sum w log w, w = u + e_y in the simplex (1e-9): Jaakkola & Haussler (66)-(69)."""
        w = u + np.eye(u.shape[-1])[np.asarray(y).astype(np.intp)]
        outside = (np.abs(w.sum(axis=-1) - 1.0) > 1e-9) | np.any(w < -1e-9, axis=-1)
        inside = np.maximum(w, 0.0)
        return np.where(outside, np.inf, special.xlogy(inside, inside).sum(axis=-1))

    @absent("the tilted integral has c dimensions; use the Laplace inference, or one-versus-rest")
    def tilted(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        raise NotImplementedError

    @absent("the average has c dimensions; use the Laplace inference, or one-versus-rest")
    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        raise NotImplementedError

    @absent("the average has c dimensions; use the Laplace inference, or one-versus-rest")
    def expected_higher(self, y: Array, m: Array, v: Array) -> tuple[Array, Array]:
        raise NotImplementedError

    def predict(self, m: Array, v: Array) -> Array:
        """Return class probabilities (n, c) for f ~ N(m, v), m (n, c).

        v is (n, c), variances of independent latents, or (n, c, c), covariances. Two classes: the
        average of one logistic, to 1e-10. More: a fixed rule of quasi-random points, with errors
        below 1e-4 (tested up to ten classes and latent deviations of 30).
        """
        m, v = np.asarray(m, dtype=np.float64), np.asarray(v, dtype=np.float64)
        c = m.shape[1]
        if v.ndim < 3:
            v = np.broadcast_to(v, m.shape)[:, :, None] * np.eye(c)
        if c == 2:  # the difference of the two is one Gaussian
            lead = m[:, 1] - m[:, 0]
            variance = v[:, 0, 0] + v[:, 1, 1] - 2.0 * v[:, 0, 1]
            p = Logistic().predict(lead, np.maximum(variance, np.finfo(float).tiny))
            return np.column_stack([1.0 - p, p])
        return softmax_average(m, v)

    def log_predictive(self, y: Array, m: Array, v: Array) -> Array:
        """Return the log of the predicted probability of class y (n,)."""
        rows = np.asarray(y).astype(np.intp)[:, None]
        return np.asarray(np.log(np.take_along_axis(self.predict(m, v), rows, axis=1)[:, 0]))

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Return class numbers (n,): the largest latent value after Gumbel noise."""
        winner = np.argmax(f + rng.gumbel(size=np.shape(f)), axis=-1)
        return np.asarray(winner, dtype=np.float64)
