"""Chain: one Markov chain from warm-up to its last draw, readable while it runs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from mercer.arrays import Array
from mercer.search.nuts import Density, Flow, transition
from mercer.search.warmup import StepSize, first_size, learned, unlearned, windows


@dataclass
class Chain:
    """What a chain has drawn so far; warm-up left out.

    Attributes
    ----------
    draws : positions (p,), one after the other.
    values : their log densities.
    acceptance, depths : of the transitions behind them.
    divergences : transitions that lost the energy.
    step_size, inverse_mass : as the warm-up left them.
    warm : the warm-up is over.
    """

    draws: list[Array] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    acceptance: list[float] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    divergences: int = 0
    step_size: float = 0.0
    inverse_mass: Array = field(default_factory=lambda: np.zeros(0))
    warm: bool = False

    def run(
        self,
        density: Density,
        start: Array,
        scale: Array,
        bounds: Array,
        *,
        warmup: int,
        samples: int,
        rng: np.random.Generator,
        target: float = 0.8,
        max_depth: int = 8,
    ) -> Chain:
        """Draw from a log density inside bounds (p, 2).

        Parameters
        ----------
        density : u (p,) -> log density and gradient (p,); -inf where it is zero.
        start : (p,) where the density is positive.
        scale : (p,) a guess of the deviation of each coordinate: the first mass.
        warmup : transitions that adapt step size and mass, and are thrown away.
        samples : draws after it.
        target : mean acceptance that the step size aims at.
        max_depth : doublings of a trajectory at most.

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
            if not ends or i < unlearned(warmup):
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
