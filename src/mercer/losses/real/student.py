"""Student's t noise: outliers lose their pull."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from scipy import special

from mercer.core.arrays import Array
from mercer.core.component import POSITIVE, Domain
from mercer.losses.base import check_positive
from mercer.losses.real.base import LocationLoss

HEAVY = (0.5, 1.5, 5.0, 14.0, 36.0, 1e2, 3e2, 1e3, 3e3, 1e4, 3e4, 1e5)


class StudentT(LocationLoss):
    """Student's t noise: g = (df + 1)/2 log(1 + (y - f)^2 / (df s^2)) + constant.

    Not convex: posteriors may have several modes, and there is no dual. The variance is infinite
    for df <= 2. Reference: GPML section 9.3; Vanhatalo, Jylanki & Vehtari (2009).

    Parameters
    ----------
    scale : float, default=1.0
        s, positive, in the units of y; not the standard deviation.
    df : float, default=4.0
        Positive degrees of freedom; as they grow, the noise tends to the Gaussian of variance s^2.

    Examples
    --------
    >>> loss = StudentT(scale=0.5, df=4.0)
    >>> loss.predict(1.0, 0.2)[1].round(6)
    np.float64(0.7)
    """

    convex: ClassVar[bool] = False
    reach: ClassVar[tuple[float, ...]] = HEAVY
    domains: ClassVar[Mapping[str, Domain]] = {"scale": POSITIVE, "df": POSITIVE}
    words: ClassVar[Mapping[str, str]] = {
        "scale": "scale of the noise",
        "df": "degrees of freedom: the fewer, the heavier the tails",
    }

    def __init__(self, scale: float = 1.0, df: float = 4.0) -> None:
        check_positive("StudentT", scale=scale, df=df)
        self.scale = scale
        self.df = df

    def value(self, y: Array, f: Array) -> Array:
        """Return -log of the t density at y - f."""
        z2 = np.square((y - f) / self.scale)
        # B(df/2, 1/2) = Gamma(df/2) Gamma(1/2) / Gamma((df+1)/2), accurate for large df
        constant = special.betaln(0.5 * self.df, 0.5) + 0.5 * np.log(self.df) + np.log(self.scale)
        return np.asarray(0.5 * (self.df + 1.0) * np.log1p(z2 / self.df) + constant)

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        r, a, q = np.asarray(f - y), self.df + 1.0, self.df * self.scale**2
        below = q + np.square(r)
        return (
            a * r / below,
            a * (q - np.square(r)) / below**2,
            2.0 * a * r * (np.square(r) - 3.0 * q) / below**3,
        )

    def expected_curvature(self) -> float:
        """Return the mean of d2g/df2 over y, the Fisher information (df + 1) / ((df + 3) s^2)."""
        return float((self.df + 1.0) / ((self.df + 3.0) * self.scale**2))

    def width(self, y: Array) -> float:
        """Return the distance to the complex singularity, s sqrt(df), at most s."""
        return float(self.scale * np.sqrt(self.df / (1.0 + self.df)))

    def noise_moments(self) -> tuple[float, float]:
        """Return 0 (the centre, if df <= 1) and s^2 df / (df - 2), inf if df <= 2."""
        heavy = self.df <= 2.0
        return 0.0, np.inf if heavy else self.scale**2 * self.df / (self.df - 2.0)

    def noise_cdf(self, r: Array) -> Array:
        """Return Student's distribution function."""
        return np.asarray(special.stdtr(self.df, r / self.scale))

    def noise_quantile(self, p: Array) -> Array:
        """Return Student's quantile."""
        return np.asarray(self.scale * special.stdtrit(self.df, p))
