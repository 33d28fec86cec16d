"""Squares to learn from labels, a cumulative normal to predict them: the loss of PLSC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from scipy import special

from mercer.core.arrays import Array
from mercer.core.component import POSITIVE, REAL, Domain
from mercer.losses.base import Loss, check_positive
from mercer.losses.numbers.special import mills
from mercer.losses.real.gaussian import Gaussian


class SquaredProbit(Loss):
    """Squared error on labels -1 / +1, and P(+1) = Phi((m + b) / sqrt(tau^2 + s)) for new ones.

    f is learned as if y = f + e, e ~ N(0, noise). That is not a distribution of labels, so a
    sigmoid Phi(a f + c) stands between f and the label. With f ~ N(m, s), its average is
    Phi((a m + c) / sqrt(1 + a^2 s)), GPML (6.42); here tau = 1/a and b = c/a, which stay finite
    where a does not. s is the variance v of f plus the noise, as in GPML, whose (5.12) is about the
    noisy y; with ``latent`` it is v alone.

    Reference: GPML section 6.5.1.

    Parameters
    ----------
    noise : float, default=0.1
        Positive variance of the labels about f while learning.
    tau : float or array (m,), default=0.1
        Positive width of the sigmoid, in the units of f; one for each of m outputs.
    offset : float or array (m,), default=0.0
        b, minus the value of f at which both labels are equally likely; one for each of m outputs.
    latent : bool, default=False
        Leave the noise out of the prediction.

    Examples
    --------
    >>> SquaredProbit(noise=1.0, tau=1.0).predict(1.0, 2.0).round(6)
    np.float64(0.691462)
    """

    response: ClassVar[str] = "binary"
    domains: ClassVar[Mapping[str, Domain]] = {"noise": POSITIVE, "tau": POSITIVE, "offset": REAL}
    words: ClassVar[Mapping[str, str]] = {
        "noise": "noise variance of one observation",
        "tau": "steepness of the step from one label to the other",
        "offset": "where the step lies",
    }

    def __init__(
        self,
        noise: float = 0.1,
        tau: float | Array = 0.1,
        offset: float | Array = 0.0,
        latent: bool = False,
    ) -> None:
        self.noise = noise
        self.tau = tau
        self.offset = offset
        if not isinstance(latent, (bool, np.bool_)):
            raise ValueError(f"SquaredProbit needs latent to be True or False, not {latent!r}")
        self.latent = latent
        check_positive("SquaredProbit", noise=noise)
        if not (
            np.all(np.asarray(tau) > 0.0)
            and np.all(np.isfinite(tau))
            and np.all(np.isfinite(offset))
        ):
            raise ValueError("SquaredProbit needs a positive tau and a finite offset")

    def value(self, y: Array, f: Array) -> Array:
        """Return (y - f)^2 / (2 noise) + log(2 pi noise) / 2."""
        return Gaussian(self.noise).value(y, f)

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        """Return (f - y) / noise, 1 / noise and 0."""
        return Gaussian(self.noise).derivatives(y, f)

    def tilted(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        """See :meth:`Loss.tilted`; that of the squares."""
        return Gaussian(self.noise).tilted(y, m, v)

    def quadratic(self, y: Array) -> tuple[Array, Array]:
        """Return y and 1 / noise (n,)."""
        return Gaussian(self.noise).quadratic(y)

    def quadratic_pullback(self, y: Array, dW: Array) -> dict[str, float | Array]:
        """Return {"noise": ...}; the sigmoid does not take part in learning f."""
        return Gaussian(self.noise).quadratic_pullback(y, dW)

    def score(self, m: Array, v: Array) -> Array:
        """Return r with P(+1) = Phi(r) for f ~ N(m, v); r > 0 where +1 is the likelier label."""
        return self.score_of_sum(m, v if self.latent else v + self.noise)

    def score_of_sum(self, m: Array, s: Array) -> Array:
        """Return (m + b) / sqrt(tau^2 + s), GPML (6.42) for f ~ N(m, s)."""
        return np.asarray((m + self.offset) / np.sqrt(np.square(self.tau) + s))

    def predict(self, m: Array, v: Array) -> Array:
        """Return P(+1) for f ~ N(m, v)."""
        return np.asarray(special.ndtr(self.score(m, v)))

    def log_probability(self, share: Array, m: Array, s: Array) -> tuple[Array, ...]:
        """Return share log P(+1) + (1 - share) log P(-1) for f ~ N(m, s), and its derivatives.

        ``share`` is 1 for the label +1, 0 for -1, between for the mean of several labels. The
        derivatives are in m, s, log tau and b: GPML (6.43), (6.44) in tau and b.
        """
        D = np.square(self.tau) + s
        r = self.score_of_sum(m, s)
        value = share * special.log_ndtr(r) + (1.0 - share) * special.log_ndtr(-r)
        rho = share * mills(r)[0] - (1.0 - share) * mills(-r)[0]  # d value / d r
        dm = rho / np.sqrt(D)
        ds = -0.5 * rho * r / D
        return value, dm, ds, 2.0 * np.square(self.tau) * ds, dm
