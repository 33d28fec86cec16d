"""Annealed importance sampling: the log evidence with its error, from prior to posterior and back.

Along powers 0 = t_0 < ... < t_T = 1 of the likelihood, a run begins with a draw of the prior,
collects log weight += (t_j - t_(j-1)) log likelihood, and moves by a transition that leaves prior
times likelihood^t_j as it is. The mean of the weights is the evidence, whatever the number of
powers and however well the transitions mix: theory (T5). Neal (2001), Annealed importance
sampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import logsumexp

from mercer.core.arrays import Array
from mercer.sampling.bridge import bridged
from mercer.sampling.elliptical import Random, elliptical
from mercer.sampling.told import Tell, teller

FIRST = 100  # powers of the first path, which places those of the next
BEND = 4.0  # t_j = (j/T)^BEND of the first path: most of the change is near the prior
LENGTHENED = 1.3  # more powers than the first path's spread asks for, which is a guess


class Tempered(Protocol):
    """A Gaussian prior of mean zero, and a likelihood."""

    def prior(self, rng: Random, b: int) -> Array:
        """Return b draws of the prior, (b, ...)."""

    def likelihood(self, states: Array) -> Array:
        """Return the log likelihood (b,) of states (b, ...)."""


@dataclass(frozen=True)
class Annealed:
    """A log evidence by annealed importance sampling.

    Attributes
    ----------
    value, error : the log evidence and its standard error: by both ways where there is a way back
        (Bennett's acceptance ratio), else the log mean weight.
    below, below_error : mean log weight from prior to posterior, and its error: below the log
        evidence on average (Jensen's inequality).
    above, above_error : the same from posterior to prior: above it on average. None where no draws
        of the posterior were given.
    log_weights : (runs,) from prior to posterior.
    powers : (T + 1,) of the likelihood along the path.
    """

    value: float
    error: float
    below: float
    below_error: float
    above: float | None
    above_error: float | None
    log_weights: Array
    powers: Array


class Walk(NamedTuple):
    """Log weights (runs,) of a path, and the spread (T,) of the log likelihood on it."""

    log_weights: Array
    spread: Array


def walked(target: Tempered, states: Array, powers: Array, rng: Random, tell: Tell) -> Walk:
    """Return the log weights of runs that begin at ``states`` and move along ``powers``."""
    value = target.likelihood(states)
    weights, spread = np.zeros(len(states)), []
    for j, (before, after) in enumerate(pairwise(powers)):
        weights = weights + (after - before) * value
        low, high = np.quantile(value, [0.16, 0.84])  # a prior's far tails say nothing of the rest
        spread.append(0.5 * (high - low))
        if j + 2 < len(powers):
            draw = target.prior(rng, len(states))
            states, value = elliptical(states, value, draw, target.likelihood, rng, power=after)
        tell("annealing", j + 1, len(powers) - 1)
    return Walk(weights, np.array(spread))


def annealed(
    target: Tempered,
    rng: Random,
    *,
    runs: int = 32,
    spread: float = 0.3,
    most: int = 4000,
    posterior: Array | None = None,
    tell: Tell | None = None,
) -> Annealed:
    """Return the log evidence of prior and likelihood, with its error.

    A first path of a hundred powers says where the log likelihood varies. If its log weights spread
    by more than ``spread`` nats, the powers of a second one are placed at equal steps of
    thermodynamic length and are as many as that spread asks for, at most ``most``.

    Parameters
    ----------
    runs : independent runs, all moved at once.
    posterior : (b, ...) draws of the posterior; as many runs go back from them.

    Reference: Neal (2001); Bennett (1976) and Grosse, Ancha & Roy (2016) for the way back; Gelman &
    Meng (1998) for the length.

    Examples
    --------
    >>> import numpy as np
    >>> class Normal:  # f ~ N(0, 1), y = 1 with unit noise
    ...     def prior(self, rng, b):
    ...         return rng.standard_normal((b, 1))
    ...     def likelihood(self, f):
    ...         return -0.5 * (1.0 - f[:, 0]) ** 2 - 0.5 * np.log(2 * np.pi)
    >>> found = annealed(Normal(), np.random.default_rng(0))
    >>> exact = -0.25 - 0.5 * np.log(4 * np.pi)
    >>> bool(abs(found.value - exact) < 4 * found.error), bool(found.error < 0.1)
    (True, True)
    """
    tell = teller(False) if tell is None else tell
    powers = np.linspace(0.0, 1.0, FIRST + 1) ** BEND
    walk = walked(target, target.prior(rng, runs), powers, rng, tell)
    wide = float(np.std(walk.log_weights, ddof=1))
    if wide > spread or not np.isfinite(wide):
        share = (wide / spread) ** 2 * LENGTHENED if np.isfinite(wide) else np.inf
        powers = spaced(powers, walk.spread, int(min(most, max(FIRST, FIRST * share))))
        walk = walked(target, target.prior(rng, runs), powers, rng, tell)
    there = walk.log_weights
    value, error = log_mean(there)
    above, above_error = None, None
    if posterior is not None:
        begin = posterior[np.linspace(0, len(posterior) - 1, runs).astype(int)]
        back = -walked(target, begin, powers[::-1], rng, tell).log_weights
        above, above_error = float(back.mean()), _error(back)
        value, error = bridged(back[None], there, independent=True)
    return Annealed(
        value, error, float(there.mean()), _error(there), above, above_error, there, powers
    )


def _error(values: Array) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def spaced(powers: Array, spread: Array, count: int) -> Array:
    """Return count + 1 powers at equal distances of the length, the integral of spread dt.

    Gelman & Meng (1998), section 4.2: at equal lengths the log weight varies least.
    """
    fine = np.where(np.isfinite(spread), spread, np.nanmax(spread[np.isfinite(spread)], initial=1))
    along = np.concatenate([[0.0], np.cumsum(np.maximum(fine, 1e-3) * np.diff(powers))])
    placed = np.interp(np.linspace(0.0, along[-1], count + 1), along, powers)
    placed[0], placed[-1] = 0.0, 1.0
    return np.asarray(placed)


def log_mean(log_weights: Array) -> tuple[float, float]:
    """Return the log of the mean weight, and its standard error.

    The error is the larger of two: sd(w) / (mean(w) sqrt(runs)), and what weights with this spread
    of logarithms have if these are normal, sqrt((e^(s^2) - 1) / runs). Few runs that miss the
    largest weights look better by the first than they are.
    """
    runs = len(log_weights)
    value = float(logsumexp(log_weights) - np.log(runs))
    share = np.exp(log_weights - value)
    own = float(np.std(share, ddof=1)) / np.sqrt(runs)
    normal = float(np.sqrt(np.expm1(min(float(np.var(log_weights, ddof=1)), 700.0)) / runs))
    return value, max(own, normal)
