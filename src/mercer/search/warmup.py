"""Warm-up of a chain: step size by dual averaging, mass by the variances seen so far."""

from __future__ import annotations

import numpy as np

from mercer.arrays import Array
from mercer.search.nuts import Flow, State

# Step sizes, in units of the deviations that the mass states. Leapfrog steps beyond 2 are unstable
# for a Gaussian; where a density is flat between walls nothing else would hold them.
SMALLEST, LARGEST = 1e-8, 2.0
PRIOR_DRAWS = 5  # the mass before a window counts as so many draws of it (as in Stan)


class StepSize:
    """Dual averaging: the step size at which the mean acceptance is ``target``.

    Reference: Hoffman & Gelman (2014), section 3.2, with their constants.
    """

    def __init__(self, size: float, target: float) -> None:
        self.target = target
        self.size = size
        self.restart()

    def restart(self) -> None:
        """Forget what was seen, e.g. when the mass has changed; go on from the size now."""
        self.centre = np.log(10.0 * self.size)
        self.error, self.log_mean, self.count = 0.0, 0.0, 0

    def update(self, acceptance: float) -> None:
        """Take the mean acceptance of one transition."""
        self.count += 1
        t = self.count
        share = 1.0 / (t + 10.0)
        self.error = (1.0 - share) * self.error + share * (self.target - acceptance)
        log_size = min(self.centre - np.sqrt(t) / 0.05 * self.error, np.log(LARGEST))
        weight = t**-0.75
        self.log_mean = weight * log_size + (1.0 - weight) * self.log_mean
        self.size = float(np.exp(log_size))

    def settle(self) -> None:
        """Fix the size at the average."""
        if self.count:
            self.size = float(np.exp(self.log_mean))


def unlearned(warmup: int) -> int:
    """Return the transitions at the start, on the way to where the mass is, that teach nothing."""
    return round(0.15 * warmup)


def windows(warmup: int) -> list[int]:
    """Return the counts of transitions at which the mass is learned anew.

    A start without learning, windows that double, and an end for the step size alone: up to 50
    transitions, but no more than a quarter.

    Examples
    --------
    >>> windows(100), windows(1000), windows(12)
    ([27, 75], [175, 225, 325, 525, 950], [])
    """
    begin, end = unlearned(warmup), warmup - min(50, warmup // 4)
    if end - begin < 10:
        return []
    ends, size = [], min(25, warmup // 8)
    while begin < end:
        # a window that would leave less than the next one's length takes the rest
        stop = end if begin + 3 * size > end else begin + size
        ends.append(stop)
        begin, size = stop, 2 * size
    return ends


def learned(seen: list[Array], before: Array) -> Array:
    """Return the variances (p,) of the draws of a window, shrunk towards those before it.

    The shrinkage is that of logarithms: the first guess may be wrong by orders of magnitude.
    """
    n = len(seen)
    variance = np.var(seen, axis=0, ddof=1) if n > 1 else before
    variance = np.where(variance > 0.0, variance, before)  # a coordinate that has not moved yet
    share = PRIOR_DRAWS / (n + PRIOR_DRAWS)
    return np.asarray(variance ** (1.0 - share) * before**share)


def first_size(flow: Flow, state: State, rng: np.random.Generator) -> float:
    """Return a step size at which one step is accepted about half of the time.

    Hoffman & Gelman (2014), algorithm 4.
    """
    state = flow.refreshed(state, rng)
    start, size = flow.energy(state), 0.5

    def good(size: float) -> bool:
        return bool(start - flow.energy(flow.step(state, size)) > np.log(0.5))

    if good(size):
        while 2.0 * size <= LARGEST and good(2.0 * size):
            size *= 2.0
    else:
        while size > SMALLEST and not good(size):
            size *= 0.5
    return size
