"""Space: the free parameters of some parts as one unconstrained vector u."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mercer.core.arrays import Array, Index
from mercer.core.component import Component, Domain
from mercer.kernels.base import Gradient
from mercer.search.priors import HyperPrior, Uniform

# A positive parameter without bounds of its own is searched within this factor of its start.
DEFAULT_FACTOR = 1e6


@dataclass(frozen=True)
class Entry:
    """One free parameter: where it sits in u, and in which coordinate."""

    part: str
    path: str
    where: slice
    shape: tuple[int, ...]
    domain: Domain
    prior: HyperPrior | None

    @property
    def name(self) -> str:
        """Full name, e.g. kernel__length_scale."""
        return f"{self.part}__{self.path}"

    def outward(self, u: Array) -> Array:
        """Parameter theta from u."""
        if self.domain.lower == 0.0 and np.isinf(self.domain.upper):
            return np.asarray(np.exp(u))
        if np.isinf(self.domain.upper):
            return u
        width = self.domain.upper - self.domain.lower
        return np.asarray(self.domain.lower + width / (1.0 + np.exp(-u)))

    def inward(self, theta: Array) -> Array:
        """u from the parameter theta."""
        with np.errstate(divide="ignore", invalid="ignore"):  # the edge of the domain is infinite
            if self.domain.lower == 0.0 and np.isinf(self.domain.upper):
                return np.asarray(np.log(theta))
            if np.isinf(self.domain.upper):
                return np.asarray(theta, dtype=np.float64)
            share = (theta - self.domain.lower) / (self.domain.upper - self.domain.lower)
            return np.asarray(np.log(share) - np.log1p(-share))

    def slopes(self, theta: Array) -> tuple[Array, Array]:
        """d theta / d u, and d log(d theta / d u) / d u."""
        if self.domain.lower == 0.0 and np.isinf(self.domain.upper):
            return theta, np.ones_like(theta)
        if np.isinf(self.domain.upper):
            return np.ones_like(theta), np.zeros_like(theta)
        width = self.domain.upper - self.domain.lower
        share = (theta - self.domain.lower) / width
        return width * share * (1.0 - share), 1.0 - 2.0 * share


def _limits(entry: Entry, chosen: tuple[float, float] | None, u: Array) -> tuple[Array, Array]:
    if chosen is None and isinstance(entry.prior, Uniform):
        chosen = (entry.prior.low, entry.prior.high)
    if chosen is None:
        reach = np.inf if np.isinf(entry.domain.lower) else np.log(DEFAULT_FACTOR)
        return u - reach, u + reach
    tiny = np.finfo(float).tiny
    low = entry.inward(np.asarray(max(chosen[0], entry.domain.lower + tiny)))
    high = entry.inward(np.asarray(min(chosen[1], entry.domain.upper)))
    return np.full(u.shape, low), np.full(u.shape, high)


class Space:
    """The free parameters of named parts, flattened.

    Parameters
    ----------
    parts : components by name, e.g. {"kernel": ..., "loss": ...}; they are not changed.
    bounds : natural bounds by full name, for parameters without bounds of their own.

    Examples
    --------
    >>> from mercer.kernels import RBF
    >>> space = Space({"kernel": 2.0 * RBF(length_scale=1.0)})
    >>> space.names
    ['kernel__variance', 'kernel__kernel__length_scale']
    >>> space.start.round(3)
    array([0.693, 0.   ])
    """

    def __init__(
        self,
        parts: Mapping[str, Component],
        bounds: Mapping[str, tuple[float, float]] | None = None,
    ) -> None:
        self.parts = dict(parts)
        self.entries: list[Entry] = []
        self.suggested: list[Array] = []
        self.data_scale: Array | None = None  # the last suggestion, even if close to the start
        self.columns: Index | None = None  # the columns as given, in the order that is searched in
        self.scanned: Array | None = None  # where a search before began, whose end is the start
        self._stated: set[str] = set()  # bounded or with a prior: not to be moved from outside
        start, limits, offset = [np.zeros(0)], [np.zeros((0, 2))], 0
        for part, component in parts.items():
            for path, owner, name in component.differentiable():
                mark = owner.mark(name)
                if mark.fixed:
                    continue
                value = np.asarray(getattr(owner, name), dtype=np.float64)
                prior = mark.prior
                if prior is not None and not isinstance(prior, HyperPrior):
                    raise TypeError(f"the prior of {part}__{path} is not a hyperprior: {prior!r}")
                where = slice(offset, offset + value.size)
                entry = Entry(part, path, where, value.shape, owner.domains[name], prior)
                offset += value.size
                u = np.atleast_1d(entry.inward(value)).ravel()
                if not np.all(np.isfinite(u)):
                    raise ValueError(
                        f"{entry.name} starts at {value}, on the edge of its domain "
                        f"({entry.domain.lower:g}, {entry.domain.upper:g}); start inside, or fix it"
                    )
                chosen = mark.bounds or (bounds or {}).get(entry.name)
                if chosen or prior is not None:
                    self._stated.add(entry.name)
                low, high = _limits(entry, chosen, u)
                self.entries.append(entry)
                start.append(np.clip(u, low, high))
                limits.append(np.column_stack([low, high]))
        self.start, self.bounds = np.concatenate(start), np.vstack(limits)

    def suggest(self, values: Mapping[str, float | Array]) -> None:
        """Add a start: parameters by full name, the others as given; bounds of the user hold.

        Bounds that nobody stated are widened to lie :data:`DEFAULT_FACTOR` beyond it, too.
        """
        u = self.start.copy()
        for entry in self.entries:
            if entry.name not in values or entry.name in self._stated:
                continue
            where, reach = entry.where, np.log(DEFAULT_FACTOR)
            u[where] = entry.inward(np.asarray(values[entry.name], dtype=np.float64))
            self.bounds[where, 0] = np.minimum(self.bounds[where, 0], u[where] - reach)
            self.bounds[where, 1] = np.maximum(self.bounds[where, 1], u[where] + reach)
        self.data_scale = np.clip(u, self.bounds[:, 0], self.bounds[:, 1])
        if np.any(np.abs(u - self.start) > 1.0):
            self.suggested.append(self.data_scale)

    @property
    def names(self) -> list[str]:
        """Full names of the free parameters."""
        return [entry.name for entry in self.entries]

    def __len__(self) -> int:
        return len(self.start)

    def parts_at(self, u: Array) -> dict[str, Component]:
        """Return the parts with the parameters of u; what u does not change is shared."""
        values: dict[str, dict[str, float | Array]] = {part: {} for part in self.parts}
        for entry in self.entries:
            theta = entry.outward(u[entry.where]).reshape(entry.shape)
            values[entry.part][entry.path] = theta if entry.shape else float(theta)
        return {name: part.replaced(values[name]) for name, part in self.parts.items()}

    def gradient(self, u: Array, by_part: Mapping[str, Gradient]) -> Array:
        """Chain rule: gradients by parameter name in each part -> gradient in u (p,)."""
        result = np.empty(len(u))
        for entry in self.entries:
            theta = entry.outward(u[entry.where])
            given = np.ravel(by_part[entry.part][entry.path])
            result[entry.where] = given * entry.slopes(theta)[0]
        return result

    def log_prior(self, u: Array) -> tuple[float, Array]:
        """Log density of the hyperpriors in the coordinate u, and its gradient (p,)."""
        value, gradient = 0.0, np.zeros(len(u))
        for entry in self.entries:
            if entry.prior is None:
                continue
            theta = entry.outward(u[entry.where])
            slope, log_slope = entry.slopes(theta)
            value += float((entry.prior.log_density(theta) + np.log(slope)).sum())
            gradient[entry.where] = entry.prior.slope(theta) * slope + log_slope
        return value, gradient

    def random(self, rng: np.random.Generator, spread: float = 2.5) -> Array:
        """Return a random start: the given one plus N(0, spread^2) in u, inside the bounds."""
        u = self.start + spread * rng.standard_normal(len(self.start))
        return np.clip(u, self.bounds[:, 0], self.bounds[:, 1])


# What each extra length scale must gain in log evidence, in units of log(number of observations).
PRICE = 0.5  # theory (G13)


def price_of_scales(points: Array, total: float, tied: int = 1) -> tuple[int, float]:
    """How many length scales are added if ``tied`` ones are untied, and what these must gain.

    In log evidence, on rows ``points`` (n, d) with ``total`` observations: theory (G13).
    """
    varying = int((np.ptp(points, axis=0) > 0).sum())
    extra = max(varying - 1, 1) * tied
    return extra, PRICE * extra * float(np.log(max(total, 2.0)))
