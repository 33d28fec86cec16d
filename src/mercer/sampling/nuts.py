"""The no-U-turn sampler: chains of draws that follow a gradient, with nothing to tune by hand.

Positions u (p,), momenta r (p,) with a diagonal mass; H(u, r) = -log density(u) + r' M^-1 r / 2 is
kept by the flow up to the error of the leapfrog steps, and draws are chosen along a trajectory with
probability e^-H. Theory (H4). During warm-up the step size is set by dual averaging, the mass by
the variances seen so far.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from mercer.core.arrays import Array

Density = Callable[[Array], tuple[float, Array]]  # u (p,) -> log density, gradient (p,)
Random = np.random.Generator
DIVERGENT = 1000.0  # an energy error from which no trajectory comes back (as in Stan)
# Step sizes, in units of the deviations that the mass states. Leapfrog steps beyond 2 are unstable
# for a Gaussian; where a density is flat between walls nothing else would hold them.
SMALLEST, LARGEST = 1e-8, 2.0
UNLEARNED = 0.15  # share of the warm-up, on the way to where the mass is, that teaches nothing
PRIOR_DRAWS = 5  # the mass before a window counts as so many draws of it (as in Stan)


@dataclass(frozen=True)
class ChainState:
    """A point of a trajectory: position, momentum, log density and its gradient there."""

    u: Array
    r: Array
    value: float
    gradient: Array


@dataclass(frozen=True)
class Flow:
    """Leapfrog steps for a log density inside a box, at whose walls the path is reflected.

    A wall turns the sign of one momentum. With a diagonal mass this keeps the energy, the volume
    and the way back, so that draws are exact for a density that is zero outside.

    Reference: Neal (2011), MCMC using Hamiltonian dynamics, sections 2.3 and 5.1.
    """

    density: Density  # (-inf, anything) where it is zero
    bounds: Array  # (p, 2); -inf and inf where there is no wall
    inverse_mass: Array  # (p,) diagonal of M^-1; good is the variance of each coordinate

    def refreshed(self, state: ChainState, rng: Random) -> ChainState:
        """Return the state with a new momentum r ~ N(0, M)."""
        r = rng.standard_normal(len(state.u)) / np.sqrt(self.inverse_mass)
        return replace(state, r=r)

    def at(self, u: Array) -> ChainState:
        """Return the state at rest at u."""
        return ChainState(u, np.zeros(len(u)), *self.density(u))

    def step(self, state: ChainState, size: float) -> ChainState:
        """Return the state one leapfrog step later (earlier, if size < 0)."""
        r = state.r + 0.5 * size * state.gradient
        u = state.u + size * self.inverse_mass * r
        if self.walled:
            u, r = self.reflected(u, r)
        value, gradient = self.density(u)
        return ChainState(u, r + 0.5 * size * gradient, value, gradient)

    @cached_property
    def walled(self) -> bool:
        """Whether there is a wall at all."""
        return bool(np.any(np.isfinite(self.bounds)))

    def reflected(self, u: Array, r: Array) -> tuple[Array, Array]:
        """Fold u back into the box, as often as it takes; an odd number of walls turns r."""
        low, high = self.bounds.T
        both = np.isfinite(low) & np.isfinite(high) & np.isfinite(u)
        width = np.where(both, high - low, 1.0)
        base = np.where(both, low, 0.0)
        walls = np.floor((u - base) / width)
        turned = np.where(both, walls % 2 == 1, (u < low) | (u > high))
        rest = u - base - walls * width
        u_both = base + np.where(turned, width - rest, rest)
        u_one = np.where(u < low, 2.0 * low - u, np.where(u > high, 2.0 * high - u, u))
        inside = np.where(both, np.clip(u_both, low, high), u_one)  # clip: the last bit of rounding
        return inside, np.where(turned, -r, r)

    def energy(self, state: ChainState) -> float:
        """H = -log density + r' M^-1 r / 2; inf where the density is zero."""
        if not np.isfinite(state.value):
            return float("inf")
        return -state.value + 0.5 * float(self.inverse_mass @ state.r**2)

    def turns(self, total: Array, first: ChainState, last: ChainState) -> bool:
        """Whether the ends of a path with summed momentum ``total`` move towards each other.

        Betancourt (2017), A conceptual introduction to Hamiltonian Monte Carlo, (A.4.2): r' M^-1
        total <= 0 at one of the ends.
        """
        way = self.inverse_mass * total
        return bool(first.r @ way <= 0.0 or last.r @ way <= 0.0)


class Path(NamedTuple):
    """A piece of a trajectory, first to last in time."""

    first: ChainState
    last: ChainState
    chosen: ChainState  # a state of it, drawn with probability e^-H
    log_weight: float  # log sum e^(H0 - H) over its states
    total: Array  # (p,) sum of the momenta
    going: bool  # neither an end that turns nor a divergence
    acceptance: float  # sum of min(1, e^(H0 - H)) over the states
    steps: int  # leapfrog steps made
    divergent: bool  # the energy was lost


class Move(NamedTuple):
    """A transition: the new state, mean acceptance, depth of the tree, divergence."""

    state: ChainState
    acceptance: float
    depth: int
    divergent: bool


def transition(flow: Flow, state: ChainState, size: float, max_depth: int, rng: Random) -> Move:
    """Draw the next state: double the trajectory, forwards or backwards, until it turns.

    Hoffman & Gelman (2014), algorithm 3, with Betancourt's multinomial choice (2017, A.3.2) in
    place of the slice.
    """
    state = flow.refreshed(state, rng)
    start = flow.energy(state)
    path = Path(state, state, state, 0.0, state.r, True, 0.0, 0, False)
    depth = 0
    while path.going and depth < max_depth:
        forwards = bool(rng.random() < 0.5)
        end = path.last if forwards else path.first
        new = _grown(flow, end, size if forwards else -size, depth, start, rng)
        # the new half is preferred: min(1, its weight / the old weight)
        path = _joined(flow, path, new, forwards, path.log_weight, rng)
        depth += 1
    return Move(path.chosen, path.acceptance / path.steps, depth, path.divergent)


def _grown(flow: Flow, end: ChainState, size: float, depth: int, start: float, rng: Random) -> Path:
    """Return the path of 2^depth steps from an end; shorter if it turns or diverges."""
    if depth == 0:
        state = flow.step(end, size)
        gain = start - flow.energy(state)
        gain = gain if not np.isnan(gain) else -np.inf
        lost = gain < -DIVERGENT
        accepted = float(np.exp(min(gain, 0.0)))
        return Path(state, state, state, gain, state.r, not lost, accepted, 1, lost)
    near = _grown(flow, end, size, depth - 1, start, rng)
    if not near.going:
        return near
    far = _grown(flow, near.last if size > 0 else near.first, size, depth - 1, start, rng)
    both = float(np.logaddexp(near.log_weight, far.log_weight))
    return _joined(flow, near, far, size > 0, both, rng)


def _joined(flow: Flow, old: Path, new: Path, forwards: bool, against: float, rng: Random) -> Path:
    """Join two neighbours; the new one's choice is taken with probability weight / e^against."""
    early, late = (old, new) if forwards else (new, old)
    total = early.total + late.total
    chosen, going = old.chosen, False
    if new.going:
        if np.log(rng.random()) < new.log_weight - against:
            chosen = new.chosen
        # also between the halves: a path that turned inside may end in the first direction again
        going = not (
            flow.turns(total, early.first, late.last)
            or flow.turns(early.total + late.first.r, early.first, late.first)
            or flow.turns(late.total + early.last.r, early.last, late.last)
        )
    weight, steps = float(np.logaddexp(old.log_weight, new.log_weight)), old.steps + new.steps
    accepted, lost = old.acceptance + new.acceptance, old.divergent or new.divergent
    return Path(early.first, late.last, chosen, weight, total, going, accepted, steps, lost)


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
