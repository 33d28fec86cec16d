"""The mode of several latent functions with kernels of their own; theory (A21), (A22).

The objective is sum_i w_i g(y_i, f_i) + 1/2 sum_c a_c'K_c a_c with f_c = K_c a_c. Where
the loss is not convex its Hessian H may be no precision, and W, the Fisher information, stands for
it: steps solve (I + H K) da = s by conjugate gradients, with (I + W K)^-1 = I - C K before it, and
end at the first direction along which the objective does not bend upward (Steihaug 1983). So they
go downhill anywhere, converge as Newton's do, and a factorisation serves many of them.
"""

from __future__ import annotations

import numpy as np

from mercer.core.arrays import Array
from mercer.inference.mode.descent import Local, Step
from mercer.linalg.dense.coupled import CoupledFactor, blocked
from mercer.linalg.gram import Gram
from mercer.losses.several.base import SeveralLatents

RANGE = 10.0  # times the information, the most that is taken for a curvature
STALE = 10  # products for one step, beyond which the next is worth a factorisation
PRODUCTS = 200  # at most, for one step
FORCING = 0.1  # of the residual: where a step far from the mode ends
ENOUGH = 1e-12  # posterior deviations left of a step, less than which no mode is known
SLACK = 1e-11  # a bound on the change of log |I + K W| up to which a factor is that of the mode


def pairs(loss: SeveralLatents, y: Array, w: Array) -> Local:
    """Return f (n, m) -> the weighted loss, its slope (n, m), and W and H as one (n, 2, m, m)."""

    def local(f: Array) -> tuple[float, Array, Array]:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            H = loss.hessian(y, f)
            both = np.empty((len(f), 2, *H.shape[1:]))
            both[:, 0], both[:, 1] = H if loss.convex else loss.information(f), H
            value = float(w @ loss.value(y, f))
            slope = w[:, None] * loss.gradient(y, f)
            return value, slope, (w[:, None] * both.reshape(len(f), -1)).reshape(both.shape)

    return local


def apart(curvature: Array) -> Array:
    """Return sites (n, 1, m, m) of the functions by themselves, near a mode that is known.

    They bend as H does along each function, within a range about the information: the less H
    differs from them, the fewer products to the mode.
    """
    W, H = (np.einsum("nii->ni", one) for one in np.moveaxis(curvature, 1, 0))
    own = np.clip(H, W / RANGE, RANGE * W)
    return np.asarray((own[:, :, None] * np.eye(W.shape[1]))[:, None])


class JointSteps:
    """Steps to the mode from the newest factor, of which there is one at a time; counts them."""

    def __init__(self, gram: Gram, convex: bool) -> None:
        self.gram, self.convex = gram, convex
        self.factor: CoupledFactor | None = None
        self.at: Array | None = None
        self.hessian: Array | None = None
        self.count = self.products = 0

    def exact(self, curvature: Array) -> CoupledFactor:
        """Return the factor of this very W; the one at hand if nothing has changed."""
        self.hessian = curvature[:, 1]
        if self.factor is not None and self.at is not None:
            change = np.abs(self.at[:, 0] - curvature[:, 0]).sum(axis=2)
            if float((self.gram.diag() * change).sum()) <= SLACK:
                return self.factor
            self.factor.release()  # its memory serves the next
        self.factor = self.at = None
        self.factor = blocked(self.gram, curvature[:, 0])
        self.count += len(self.factor.factors) + (self.factor.shared is not None)
        self.at = curvature
        return self.factor

    def fits(self, curvature: Array) -> bool:
        """Make the factor of this curvature, which is a precision."""
        self.exact(curvature)
        return True

    def __call__(self, curvature: Array) -> Step:
        """Return the step for this Hessian, by the factor at hand unless it has become dear."""
        if self.factor is None or self.products > STALE:
            self.exact(curvature)
        self.hessian = curvature[:, 1]
        return self.step

    def step(self, s: Array, a: Array) -> tuple[Array, Array]:
        """About (I + H K)^-1 s for the residual s (n, m), downhill; and no basis."""
        assert self.factor is not None
        assert self.hessian is not None
        found, self.products = tilted_solve(self.gram, self.factor, self.hessian, s)
        return found, np.zeros((0, s.shape[1]))


def tilted_solve(
    gram: Gram, factor: CoupledFactor, H: Array, s: Array, accuracy: float | None = None
) -> tuple[Array, int]:
    """Return (I + H K)^-1 s for s (n, m) and H (n, m, m), and how many products it took.

    Conjugate gradients on K + K H K, by residuals r before the product with K; (I + W K)^-1
    preconditions, in the inner product of K. Without ``accuracy``, relative, as a Newton step: the
    closer the nearer the mode, and cut off where the curvature is not positive.
    """
    z, r = np.zeros_like(s), s
    y, Ky = factor.spread(gram, r)
    rho = first = float(np.vdot(r, Ky))
    if not first > 0.0:  # nothing is left beyond rounding
        return z, 0
    goal = min(FORCING, first**0.5) if accuracy is None else accuracy
    least = ENOUGH**2 if accuracy is None else 0.0
    d, Kd = y, Ky
    for count in range(1, PRODUCTS + 1):
        q = d + np.einsum("nij,nj->ni", H, Kd)
        bend = float(np.vdot(Kd, q))
        if bend <= 1e-12 * abs(float(np.vdot(d, Kd))):
            if accuracy is not None:
                break
            return (d if count == 1 else z), PRODUCTS
        step = rho / bend
        z, r = z + step * d, r - step * q
        y, Ky = factor.spread(gram, r)
        before, rho = rho, float(np.vdot(r, Ky))
        if rho <= max(goal**2 * first, least):
            break
        d, Kd = y + (rho / before) * d, Ky + (rho / before) * Kd
    return z, count
