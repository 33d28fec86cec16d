"""Ordered categories: a latent value between cutpoints, with logistic or normal noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from scipy import special

from mercer.core.arrays import Array
from mercer.core.component import POSITIVE, REAL, Domains, Words
from mercer.losses.base import Loss, examples, is_number, refuse_rows
from mercer.losses.numbers.special import LOG_2PI, exp, log_cdf_difference


class CumulativeLink(Loss):
    """P(y = j | f) = F(b_{j+1} - f) - F(b_j - f), b_0 = -inf, b_J = inf; a child states the b.

    F is the logistic or the normal distribution function, by ``link``.
    """

    abstract: ClassVar[bool] = True
    response: ClassVar[str] = "ordinal"
    normalised: ClassVar[bool] = True
    link: str

    def cuts(self) -> Array:
        """Return the J - 1 cut points, increasing, between the J categories 0 .. J-1."""
        raise NotImplementedError

    def _check_link(self, link: str) -> None:
        if link not in ("logit", "probit"):
            who = type(self).__name__
            raise ValueError(f"{who} knows the links 'logit' and 'probit', not {link!r}")

    def _ends(self, y: Array) -> tuple[Array, Array]:
        """b_y and b_{y+1}, infinite at the first and last category."""
        b = np.concatenate([[-np.inf], self.cuts(), [np.inf]])
        j = np.asarray(y).astype(np.intp)
        return b[j], b[j + 1]

    def value(self, y: Array, f: Array) -> Array:
        low, high = self._ends(y)
        if self.link == "probit":
            return -log_cdf_difference(low - f, high - f)
        # F(b) - F(a) = (1 - e^{-(b - a)}) F(b) F(-a)
        gap = np.log(-np.expm1(-(high - low)))
        return np.asarray(-gap - special.log_expit(high - f) - special.log_expit(f - low))

    def derivatives(self, y: Array, f: Array) -> tuple[Array, Array, Array]:
        low, high = self._ends(y)
        if self.link == "probit":
            return _probit_derivatives(low - f, high - f)
        a, b = special.expit(f - high), special.expit(low - f)
        a2, b2 = a * special.expit(high - f), b * special.expit(f - low)
        return np.asarray(a - b), a2 + b2, a2 * (1.0 - 2.0 * a) - b2 * (1.0 - 2.0 * b)

    def centers(self, y: Array) -> Array:
        """Return the two cutpoints around y (the same one twice at the ends)."""
        low, high = self._ends(y)
        return np.array([np.where(np.isinf(low), high, low), np.where(np.isinf(high), low, high)])

    def tilted(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        if self.link == "logit":
            return super().tilted(y, m, v)
        y, m, v = np.broadcast_arrays(y, m, v)
        low, high = self._ends(y)
        s = np.sqrt(1.0 + v)
        low, high = (low - m) / s, (high - m) / s
        d1, d2, _ = _probit_derivatives(low, high)
        return log_cdf_difference(low, high), -d1 / s, -d2 / s**2

    def conditional_cdf(self, y: Array, f: Array) -> Array:
        edge = self._ends(y)[1] - f
        return np.asarray(special.expit(edge) if self.link == "logit" else special.ndtr(edge))

    def cdf(self, y: Array, m: Array, v: Array) -> Array:
        y = np.minimum(y, len(self.cuts()))
        if self.link == "logit":
            return super().cdf(y, m, v)
        return np.asarray(special.ndtr((self._ends(y)[1] - m) / np.sqrt(1.0 + np.asarray(v))))

    def probabilities(self, m: Array, v: Array) -> Array:
        """Return P(y = j) for f ~ N(m, v), with one more axis for the J categories."""
        m, v = np.broadcast_arrays(np.asarray(m, dtype=np.float64), v)
        j = np.arange(len(self.cuts()) + 1.0)
        return exp(self.tilted(j, m[..., None], v[..., None])[0])

    def moments(self, f: Array) -> tuple[Array, Array]:
        j = np.arange(len(self.cuts()) + 1.0)
        return _mean_and_variance(exp(-self.value(j, np.asarray(f, dtype=np.float64)[..., None])))

    def predict(self, m: Array, v: Array) -> tuple[Array, Array]:
        return _mean_and_variance(self.probabilities(m, v))

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        u = np.maximum(rng.random(np.shape(f)), 2.0**-54)
        noise = special.logit(u) if self.link == "logit" else special.ndtri(u)
        return np.searchsorted(self.cuts(), np.asarray(f) + noise).astype(np.float64)

    def check_targets(self, y: Any) -> Array:
        values = super().check_targets(y)
        last, remedy = len(self.cuts()), "give more cutpoints"
        who = type(self).__name__
        refuse_rows(values, values <= last, who, f"a category 0 .. {last}", remedy)
        return values

    def example_targets(self, rng: np.random.Generator, n: int) -> Array:
        return examples(self.response, rng, n, classes=len(self.cuts()) + 1)


class Ordinal(CumulativeLink):
    """Cumulative link model: P(y = j | f) = F(b_{j+1} - f) - F(b_j - f), b_0 = -inf, b_J = inf.

    F is the logistic or the normal distribution function.
    Reference: Jaakkola & Haussler (1999), Theorem 1; Chu & Ghahramani (2005).

    Parameters
    ----------
    cutpoints : array (J - 1,); increasing, between the J categories 0 .. J-1, in the units of f.
    link : {"logit", "probit"}, default="logit"; distribution of the noise: logistic or normal.

    Examples
    --------
    >>> Ordinal(cutpoints=[-1.0, 1.0]).probabilities(0.0, 0.5).round(4)
    array([0.2884, 0.4231, 0.2884])
    """

    def __init__(self, cutpoints: Sequence[float] | Array, link: str = "logit") -> None:
        b = np.asarray(cutpoints, dtype=np.float64)
        if b.ndim != 1 or not len(b) or not np.all(np.isfinite(b)) or np.any(np.diff(b) <= 0.0):
            raise ValueError("Ordinal needs cutpoints that are finite and strictly increasing")
        self._check_link(link)
        self.cutpoints, self.link = cutpoints, link

    @classmethod
    def example(cls) -> Self:
        return cls(cutpoints=[-1.0, 0.2, 1.5])

    def cuts(self) -> Array:
        return np.asarray(self.cutpoints, dtype=np.float64)


class LearnedOrdinal(CumulativeLink):
    """:class:`Ordinal` with cut points that are found with the kernel: b = first + sums of gaps.

    Reference: Chu & Ghahramani (2005), Gaussian processes for ordinal regression, section 2.

    Parameters
    ----------
    first : float, default=0.0; b_1, between the categories 0 and 1, in the units of f.
    gaps : array (J - 2,), default=(1.0,); positive distances to the next cut points.
    link : {"logit", "probit"}, default="probit"; distribution of the noise: logistic or normal.

    Examples
    --------
    >>> LearnedOrdinal(first=-1.0, gaps=[2.0], link="logit").cutpoints
    array([-1.,  1.])
    """

    domains: ClassVar[Domains] = {"first": REAL, "gaps": POSITIVE}
    words: ClassVar[Words] = {"first": "first cut point", "gaps": "distances of the cut points"}

    def __init__(
        self, first: float = 0.0, gaps: Sequence[float] | Array = (1.0,), link: str = "probit"
    ) -> None:
        d = np.asarray(gaps, dtype=np.float64)
        if not is_number(first, -np.inf, np.inf) or d.ndim != 1 or not len(d):
            raise ValueError(
                "LearnedOrdinal needs a finite first cut point and gaps, one less than cut points"
            )
        if not (np.all(np.isfinite(d)) and np.all(d > 0.0)):
            raise ValueError(f"LearnedOrdinal needs positive gaps, not {gaps!r}")
        self._check_link(link)
        self.first, self.gaps, self.link = first, gaps, link

    @classmethod
    def example(cls) -> Self:
        return cls(first=-1.0, gaps=np.array([1.2, 1.3]))

    @property
    def cutpoints(self) -> Array:
        """The cut points (J - 1,) as :class:`Ordinal` states them."""
        return self.cuts()

    def cuts(self) -> Array:
        return np.cumsum(np.append(self.first, np.asarray(self.gaps, dtype=np.float64)))


def _mean_and_variance(p: Array) -> tuple[Array, Array]:
    """Mean and variance of the category numbers 0 .. J-1, whose probabilities are the last axis."""
    j = np.arange(float(p.shape[-1]))
    mean = p @ j
    return mean, np.sum(p * np.square(j - mean[..., None]), axis=-1)


def _probit_derivatives(low: Array, high: Array) -> tuple[Array, Array, Array]:
    """Derivatives in f of -log(Phi(high) - Phi(low)), low and high falling with f at slope -1."""
    log_p = log_cdf_difference(low, high) + 0.5 * LOG_2PI
    a, b = exp(-0.5 * np.square(high) - log_p), exp(-0.5 * np.square(low) - log_p)
    high = np.where(np.isfinite(high), high, 0.0)  # there the density a (or b) is zero
    low = np.where(np.isfinite(low), low, 0.0)
    d1 = a - b
    d2 = a * (high + d1) - b * (low + d1)
    d3 = a * (high**2 - 1.0 + high * d1) - b * (low**2 - 1.0 + low * d1) + 2.0 * d1 * d2
    return d1, d2, d3
