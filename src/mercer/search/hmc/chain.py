"""Chain: one Markov chain from warm-up to its last draw, readable while it runs.

During warm-up the step size is set by dual averaging, the mass by the variances seen so far.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mercer.core.arrays import Array
from mercer.search.hmc.nuts import ChainState, Density, Flow, Random, transition

# Step sizes, in units of the deviations that the mass states. Leapfrog steps beyond 2 are unstable
# for a Gaussian; where a density is flat between walls nothing else would hold them.
SMALLEST, LARGEST = 1e-8, 2.0
UNLEARNED = 0.15  # share of the warm-up, on the way to where the mass is, that teaches nothing
PRIOR_DRAWS = 5  # the mass before a window counts as so many draws of it (as in Stan)


class StepSize:
    """Dual averaging: the step size at which the mean acceptance is ``target``.

    Reference: Hoffman & Gelman (2014), section 3.2, with their constants.
    """

    def __init__(self, size: float, target: float) -> None:
        self.target, self.size = target, size
        self.restart()

    def restart(self) -> None:
        """Forget what was seen, e.g. when the mass has changed; go on from the size now."""
        self.centre = np.log(10.0 * self.size)
        self.error, self.log_mean, self.count = 0.0, 0.0, 0

    def update(self, acceptance: float) -> None:
        """Take the mean acceptance of one transition."""
        t = self.count = self.count + 1
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


def windows(warmup: int) -> list[int]:
    """Return the counts of transitions at which the mass is learned anew.

    A start without learning, windows that double, and an end for the step size alone: up to 50
    transitions, but no more than a quarter.

    Examples
    --------
    >>> windows(100), windows(1000), windows(12)
    ([27, 75], [175, 225, 325, 525, 950], [])
    """
    begin, end = round(UNLEARNED * warmup), warmup - min(50, warmup // 4)
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


def first_size(flow: Flow, state: ChainState, rng: Random) -> float:
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


@dataclass
class Chain:
    """What a chain has drawn so far; warm-up left out."""

    draws: list[Array] = field(default_factory=list)  # positions (p,), one after the other
    values: list[float] = field(default_factory=list)  # their log densities
    acceptance: list[float] = field(default_factory=list)  # of the transitions behind them
    depths: list[int] = field(default_factory=list)
    divergences: int = 0  # transitions that lost the energy
    step_size: float = 0.0  # as the warm-up left it
    inverse_mass: Array = field(default_factory=lambda: np.zeros(0))
    warm: bool = False  # the warm-up is over

    def run(
        self,
        density: Density,
        start: Array,
        scale: Array,
        bounds: Array,
        *,
        warmup: int,
        samples: int,
        rng: Random,
        target: float = 0.8,
        max_depth: int = 8,
    ) -> Chain:
        """Make ``warmup`` transitions that adapt step size and mass, then draw ``samples``.

        ``density`` is positive at ``start`` (p,), ``scale`` (p,) a guess of the deviation of each
        coordinate, the first mass; ``target`` is the mean acceptance that the step size aims at.

        Examples
        --------
        >>> import numpy as np
        >>> walls, rng = np.array([[-np.inf, np.inf]]), np.random.default_rng(0)
        >>> normal = lambda u: (float(-0.5 * u @ u), -u)
        >>> chain = Chain().run(
        ...     normal, np.zeros(1), np.ones(1), walls, warmup=50, samples=400, rng=rng
        ... )
        >>> bool(abs(np.mean(chain.draws)) < 0.2), bool(abs(np.std(chain.draws) - 1.0) < 0.2)
        (True, True)
        """
        flow = Flow(density, bounds, scale**2)
        state = flow.at(start)
        if not np.isfinite(state.value):
            raise ValueError("a chain must start where the density is positive")
        steps = StepSize(first_size(flow, state, rng), target)
        ends, seen = windows(warmup), []
        for i in range(warmup):
            move = transition(flow, state, steps.size, max_depth, rng)
            state = move.state
            steps.update(move.acceptance)
            if not ends or i < round(UNLEARNED * warmup):
                continue
            seen.append(state.u)
            if i + 1 == ends[0]:
                flow = Flow(density, bounds, learned(seen, flow.inverse_mass))
                steps.settle()
                steps.restart()
                ends, seen = ends[1:], []
        steps.settle()
        self.step_size, self.inverse_mass, self.warm = steps.size, flow.inverse_mass, True
        for _ in range(samples):
            move = transition(flow, state, steps.size, max_depth, rng)
            state = move.state
            self.values.append(state.value)
            self.acceptance.append(move.acceptance)
            self.depths.append(move.depth)
            self.divergences += move.divergent
            self.draws.append(state.u)  # last: whoever looks meanwhile counts the draws
        return self
