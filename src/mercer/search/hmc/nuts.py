"""The no-U-turn sampler: draws from a density by following its gradient, nothing to tune by hand.

Positions u (p,), momenta r (p,) with a diagonal mass; H(u, r) = -log density(u) + r' M^-1 r / 2 is
kept by the flow up to the error of the leapfrog steps, and draws are chosen along a trajectory with
probability e^-H. Theory (H4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from mercer.core.arrays import Array

Density = Callable[[Array], tuple[float, Array]]  # u (p,) -> log density, gradient (p,)
Random = np.random.Generator
DIVERGENT = 1000.0  # an energy error from which no trajectory comes back (as in Stan)


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

    Parameters
    ----------
    density : log density and gradient; (-inf, anything) where it is zero.
    bounds : (p, 2); -inf and inf where there is no wall.
    inverse_mass : (p,) diagonal of M^-1; good is the variance of each coordinate.

    Reference: Neal (2011), MCMC using Hamiltonian dynamics, sections 2.3 and 5.1.
    """

    density: Density
    bounds: Array
    inverse_mass: Array

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
        u, r = self.reflected(state.u + size * self.inverse_mass * r, r)
        value, gradient = self.density(u)
        return ChainState(u, r + 0.5 * size * gradient, value, gradient)

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
    """A transition: the new state, mean acceptance, depth of the tree, steps, divergence."""

    state: ChainState
    acceptance: float
    depth: int
    steps: int
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
    return Move(path.chosen, path.acceptance / path.steps, depth, path.steps, path.divergent)


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
    return Path(
        early.first,
        late.last,
        chosen,
        float(np.logaddexp(old.log_weight, new.log_weight)),
        total,
        going,
        old.acceptance + new.acceptance,
        old.steps + new.steps,
        old.divergent or new.divergent,
    )
