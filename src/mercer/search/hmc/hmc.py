"""HMC: many hyperparameters instead of the best, drawn from their posterior; theory (H1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, TypeVar

import numpy as np
from joblib import Parallel, delayed

from mercer.core.arrays import Array
from mercer.inference.base import Solution
from mercer.sampling.nuts import Chain, Density, Random
from mercer.search.criteria.evidence import HOPELESS, Criterion, Watch, bare
from mercer.search.hmc.diagnostics import report
from mercer.search.optimize import Optimize, Result, Watched
from mercer.search.progress import Progress
from mercer.search.space import Space

T = TypeVar("T")
CLIMB = 50  # iterations of the climb: the chains only need a good neighbourhood
DISPERSED = 2.0  # the chains start so many deviations about the top, so that R-hat can see
WIDEST = 3.0  # a deviation in u that is believed of a direction in which the top is flat


class HMC(Watched):
    """Draw hyperparameters from their posterior: a committee in place of one best machine.

    The density in the coordinate u (log theta for a positive parameter) is

        p(u | data) = exp(evidence(u)) p(theta(u)) |d theta / d u| / const,

    the hyperprior with its Jacobian, as the whole search takes it (:mod:`mercer.search.priors`):
    only with it do draws of u, taken back to theta, follow the hyperprior that was stated. A
    parameter without a hyperprior is uniform in u between its bounds, which the report says; one
    with neither is refused. Outside the bounds the density is zero, hyperprior or not.

    First a climb to the maximum, then chains of the no-U-turn sampler that start dispersed about
    it, with steps and masses learned in the warm-up. Maxima far apart, which no chain crosses
    between, are not found this way. The machine keeps ``keep`` draws, best first, each with a
    posterior of its own, and its predictions average over them. An evidence that fails counts as
    zero density. A keyboard interrupt keeps what was drawn so far. An inference that iterates must
    be accurate to 1e-6 of the evidence, or its error adds to that of the steps.

    Parameters
    ----------
    samples, warmup : draws of each chain, after so many transitions that are thrown away.
    chains : independent chains.
    keep : draws that become posteriors, evenly from all chains.
    criterion : "evidence"; or "loo", the leave-one-out density in its place (a pseudo-posterior).
    target : mean acceptance that the step size aims at, between 0 and 1; higher for divergences.
    max_depth : a trajectory has at most 2^max_depth steps, each one evaluation.
    balance : see :class:`Optimize`.
    n_jobs : chains run in parallel threads (joblib's meaning; None is one). The draws do not depend
        on it.
    progress : as for :class:`Optimize`; stages are also "warm-up" and "sampling".

    Reference: Hoffman & Gelman (2014), The no-U-turn sampler; Williams & Barber (1998), section 4,
    for committees of Gaussian processes by hybrid Monte Carlo.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import GPRegressor
    >>> from mercer.kernels import RBF
    >>> from mercer.search import LogNormal
    >>> x = np.linspace(0, 6, 12)[:, None]
    >>> kernel = (1.0 * RBF()).prior(variance=LogNormal(), kernel__length_scale=LogNormal())
    >>> search = HMC(samples=10, warmup=10, chains=2, keep=5)
    >>> model = GPRegressor(kernel, search=search).fit(x, np.sin(x[:, 0]))
    >>> len(model.posteriors_)
    5
    """

    samples_many: ClassVar[bool] = True

    def __init__(
        self,
        samples: int = 200,
        warmup: int = 100,
        chains: int = 4,
        keep: int = 24,
        criterion: str = "evidence",
        target: float = 0.8,
        max_depth: int = 8,
        balance: bool = True,
        n_jobs: int | None = None,
        progress: bool | Progress = False,
    ) -> None:
        self.samples, self.warmup = samples, warmup
        self.chains, self.keep = chains, keep
        self.criterion, self.balance = criterion, balance
        self.target, self.max_depth = target, max_depth
        self.n_jobs, self.progress = n_jobs, progress
        if criterion not in ("evidence", "loo"):
            raise ValueError(f"unknown criterion {criterion!r} of a density; known: evidence, loo")
        if min(samples, chains, keep, max_depth) < 1 or warmup < 0:
            raise ValueError(
                "samples, chains, keep and max_depth must be at least 1, and warmup at least 0"
            )
        if not 0.0 < target < 1.0:
            raise ValueError(f"target is a mean acceptance between 0 and 1, got {target!r}")

    def run(self, criterion: Criterion, space: Space, rng: np.random.Generator) -> list[Result]:
        flat = flat_names(space)  # refuses a density that has no finite mass
        climb = Optimize(self.criterion, 0, max_iter=CLIMB, tol=1e-9, progress=self.progress)
        top = climb.run(criterion, space, rng)[0]
        if not len(space) or top.report["interrupted"]:
            return [top]
        watch = Watch(criterion, self.progress)
        watch.best, watch.stage = (top.value, top.u), "warm-up"
        watch.evaluations = top.report["evaluations"]
        watch.failures = top.report["failed_evaluations"]
        chains = [Chain() for _ in range(self.chains)]
        try:
            scale = curvature_scale(density_of(watch), top.u, space.bounds)
            Parallel(n_jobs=self.n_jobs, prefer="threads")(
                delayed(self._draw)(watch, chain, space.bounds, top.u, scale, own)
                for chain, own in zip(chains, rng.spawn(self.chains), strict=True)
            )
        except KeyboardInterrupt:
            watch.stop.set()
        # a chain appends its draw last: if a thread is still at it, the shorter list is complete
        drawn = [p for c in chains for p in zip(list(c.draws), c.values, strict=False)]
        kept = evenly(drawn, self.keep)
        found = {
            "criterion": self.criterion,
            "warmup": self.warmup,
            "kept": len(kept),
            "evaluations": watch.evaluations,
            "failed_evaluations": watch.failures,
            "uniform_between_bounds": flat,
            **watch.work(),
            **report(space, chains, self.samples, watch.stop.is_set()),
        }
        if not kept:  # interrupted in the warm-up: the best point so far is all there is
            value, u = watch.best
            return [Result(u, value, found)]
        results = [Result(u, value) for u, value in sorted(kept, key=lambda pair: -pair[1])]
        results[0].report = found
        return results

    def _draw(
        self, watch: Watch, chain: Chain, bounds: Array, top: Array, scale: Array, rng: Random
    ) -> None:
        """Run one chain; an interrupt ends it, and all others, and leaves what they have."""
        density = density_of(watch, chain)
        try:
            start = dispersed(density, top, scale, bounds, rng)
            limits: dict[str, Any] = {"target": self.target, "max_depth": self.max_depth}
            limits |= {"warmup": self.warmup, "samples": self.samples}
            chain.run(density, start, scale, bounds, rng=rng, **limits)
        except KeyboardInterrupt:
            watch.stop.set()


def flat_names(space: Space) -> list[str]:
    """Names of the parameters uniform in u between bounds; refuses one without bounds and prior."""
    flat = [entry for entry in space.entries if entry.prior is None]
    for entry in flat:
        if not np.all(np.isfinite(space.bounds[entry.where])):
            raise ValueError(
                f"{entry.name} has neither a hyperprior nor bounds, so that there is no posterior "
                f"to draw it from; give it one with .prior({entry.path}=...), or .bound("
                f"{entry.path}=(low, high)), or fix it"
            )
    return [entry.name for entry in flat]


def evenly(draws: Sequence[T], keep: int) -> list[T]:
    """Return ``keep`` of the draws at equal distances, or all if there are fewer.

    Examples
    --------
    >>> evenly(range(10), 2), evenly(range(3), 5)
    ([2, 7], [0, 1, 2])
    """
    n = len(draws)
    return list(draws) if n <= keep else [draws[int((i + 0.5) * n / keep)] for i in range(keep)]


def density_of(watch: Watch, chain: Chain | None = None) -> Density:
    """Return the log density and its gradient for one chain, -inf where the criterion fails.

    Each evaluation begins at the posterior of the chain's last one, and no other chain's.
    """
    last: Solution | None = None

    def density(u: Array) -> tuple[float, Array]:
        nonlocal last
        stage = "sampling" if chain is not None and chain.warm else None
        if not np.all(np.isfinite(u)):  # a step far too long, where nothing walls it in
            return -np.inf, np.zeros(len(u))
        value, gradient, solution = watch(u, last, stage)
        if value >= HOPELESS:
            return -np.inf, np.zeros(len(u))
        last = None if solution is None else bare(solution)
        return -value, -gradient

    return density


def curvature_scale(density: Density, top: Array, bounds: Array, step: float = 1e-3) -> Array:
    """Deviations (p,) at a maximum: 1/sqrt of minus the second derivative in each coordinate.

    By differences of the gradient, away from the nearer wall; flat or failed directions get
    :data:`WIDEST`, and none gets more, nor more than a quarter of the box.
    """
    _, here = density(top)
    low, high = bounds.T
    quarter = 0.25 * (high - low)
    scale = np.empty(len(top))
    for j in range(len(top)):
        h = -step if high[j] - top[j] < top[j] - low[j] else step
        value, there = density(top + h * np.eye(len(top))[j])
        bend = -(there[j] - here[j]) / h if np.isfinite(value) else 0.0
        scale[j] = min(1.0 / np.sqrt(max(bend, WIDEST**-2)), quarter[j])
    return scale


def dispersed(density: Density, top: Array, scale: Array, bounds: Array, rng: Random) -> Array:
    """Return a start of a chain about the maximum, nearer to it where the density fails."""
    move = DISPERSED * scale * rng.standard_normal(len(top))
    for _ in range(10):
        start = np.clip(top + move, bounds[:, 0], bounds[:, 1])
        if np.isfinite(density(start)[0]):
            return start
        move = 0.5 * move
    return top
