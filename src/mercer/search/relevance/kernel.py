"""Which parameters the functions have: length scales of the kernel, by the same evidence.

A coarse ladder of common length scales first, a search on each rung; from the best rung the set of
functions is held while the parameters climb, and then searched again. Only what is better is kept.

The evidence alone prefers short scales, down to one function for each row: the choice of functions
is free. Kernels are compared by the log evidence less (log m)/2 for each function chosen of m; and
no length scale below the median distance between neighbours is tried. That price is too high for
many small functions, where few rows see each: if what it chooses is no more than noise, or far
behind another kernel in that respect, kernels are compared by what noise does not gain, the
log evidence less the charge of :mod:`mercer.search.relevance.null`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
from scipy.linalg import lapack
from scipy.optimize import minimize
from scipy.spatial import cKDTree

from mercer.core.arrays import Array
from mercer.core.memory import keep_pages
from mercer.kernels.base import Kernel
from mercer.kernels.features.nystroem import pivots
from mercer.search.relevance.climb import RelevanceClimb, climb
from mercer.search.relevance.machines import Machine
from mercer.search.relevance.null import ONCE, charge, price
from mercer.search.relevance.state import Design, Spanned, SparseState
from mercer.search.space import Space


def slope_in_functions(machine: Machine, state: SparseState) -> Array:
    """dE / d(columns as given) (n, M) of the functions with a precision.

    With precisions and noise held, and the weights at their posterior mean (or mode),

        dE/dF' = a mu' - B F'Sigma  +  (c - B F'h) mu' + a h',
             c = -1/2 w g''' diag(F'Sigma F),    h = Sigma F c

    The second part is the change of the curvature at a mode: zero for a Gaussian loss, where the
    first part is (8.4) of Tipping (2001), beta [(t - F'mu) mu' - F'Sigma]. The search sees columns
    of unit length, phi / |phi|: what only changes the length of a column changes nothing.
    """
    F, mu, a, b = state.F, state.mu, state.a, state.b
    weighted = state.factor.back(state.factor.half(F))  # Sigma F
    slope = np.outer(mu, a) - weighted * b
    bend = machine.bend(state)
    if bend is not None:
        c, h = bend
        slope += np.outer(mu, c - b * (h @ F)) + np.outer(h, a)
    k = state.flat
    slope, unit = slope[k:], F[k:]
    along = np.einsum("ij,ij->i", slope, unit)
    slope -= along[:, None] * unit * machine.design.weights
    lengths = machine.design.lengths[list(state.active)]
    return np.ascontiguousarray((slope / lengths[:, None]).T)


Makers: TypeAlias = Sequence[Callable[[Design], Machine]]  # a likelihood on a design
LADDER: Array = 2.0 ** np.arange(-4.0, 2.0)
NEAR = LADDER[-2:]  # enough around scales that were searched before: columns can only drop out
ROUNDS, ENOUGH = 3, 0.1  # of climbing, while the evidence gains that much
ROUGH = 0.1  # tolerance on the rungs, in log evidence
MISSED = 10.0  # by how much another kernel may gain more, in log evidence above noise


@dataclass(frozen=True)
class Setting:
    """The data of a search over kernels; ``flat`` and ``weights`` are those of a Design."""

    points: Array  # (n, d) the rows
    centres: Array  # (m, d) where the candidates sit
    flat: Array
    weights: Array
    makers: Makers  # one for each target; all share the kernel
    tol: float = 1e-2  # of each climb
    max_iter: int = 10000

    def climbs(self, design: Design, tol: float) -> list[RelevanceClimb]:
        """Search among the candidates of a design, for each target."""
        return [climb(make(design), tol=tol, max_iter=self.max_iter) for make in self.makers]

    def run(self, kernel: Kernel, tol: float) -> list[RelevanceClimb]:
        """Search with the functions of a kernel at all centres."""
        keep_pages()
        same = self.centres is self.points
        half = spanning(kernel, self.points) if same else None
        if half is not None:
            return self.climbs(Spanned(half, self.flat, self.weights), tol)
        Phi = kernel(self.points, None if same else self.centres)
        return self.climbs(Design(Phi, self.flat, self.weights), tol)


# A smooth kernel on few columns has far fewer functions than rows, but for rounding. From MANY rows
# on they are looked for, up to n / FULL; not if as many rows, spread over the table, have as many.
MANY, FULL, ROUNDING = 400, 8, 1e-13


def spanning(kernel: Kernel, points: Array) -> Array | None:
    """Return L (n, r) with k(X, X) = L L' to rounding, or None if r is not small beside n."""
    n = len(points)
    if n < MANY or getattr(kernel, "native", None) is None:  # those are known to be definite
        return None
    some = n // FULL
    sample = kernel(points[np.linspace(0, n - 1, some).astype(np.intp)])
    if lapack.dpstrf(sample, tol=ROUNDING)[2] == some:
        return None
    chosen, L = pivots(kernel, points, some, relative=False, least=ROUNDING)
    return None if len(chosen) == some else np.ascontiguousarray(L.T)


def score_of(runs: list[RelevanceClimb]) -> float:
    """The log evidence of all targets together, less the price of the functions."""
    return sum(run.state.evidence - price(run.machine, run.state) for run in runs)


def above_noise(runs: list[RelevanceClimb]) -> float:
    """What all targets together gain over no functions at all, less what noise gains."""
    return sum(
        run.state.evidence - run.machine.null().evidence - charge(run.machine, run.state)
        for run in runs
    )


Tried: TypeAlias = list[tuple[Kernel, list[RelevanceClimb]]]
Figure: TypeAlias = Callable[[list[RelevanceClimb]], float]


def figure_for(tried: Tried) -> Figure:
    """By which figure kernels are compared: the score, unless its choice misses what is there."""
    chosen = above_noise(max((runs for _, runs in tried), key=score_of))
    best = max(above_noise(runs) for _, runs in tried)
    # far behind counts where the evidence is exact: Laplace's rises with functions of few rows each
    exact = all(run.machine.exact for _, runs in tried for run in runs)
    behind = MISSED if exact else np.inf
    missed = best > chosen and (chosen < ONCE + np.log(len(tried)) or best > chosen + behind)
    return above_noise if missed else score_of


def tuned(
    setting: Setting, kernel: Kernel, ladder: Array = LADDER
) -> tuple[Kernel, list[RelevanceClimb], dict[str, Any]]:
    """Return the kernel of highest score that was found, its searches, and a report."""
    tol, shortest = setting.tol, nearest_distance(setting.centres)
    rungs = [r for f in ladder if (r := scaled(kernel, float(f), shortest)) is not None]
    tried = [(rung, setting.run(rung, max(tol, ROUGH))) for rung in rungs or [kernel]]
    figure = figure_for(tried)
    best, runs = max(tried, key=lambda pair: figure(pair[1]))
    figures, steps, converged = [figure(pair[1]) for pair in tried], 0, False
    for _ in range(ROUNDS):
        moved, count = climbed(setting, best, runs, shortest)
        steps += count
        new = setting.run(moved, tol)
        gain = figure(new) - figure(runs)
        if gain > 0.0:
            best, runs = moved, new
        if gain < ENOUGH:
            converged = True
            break
    if runs[0].tol > tol:  # the rung was searched roughly
        runs = max(runs, setting.run(best, tol), key=figure)
    report = {"criterion": "evidence", "converged": converged, "starts": len(tried)}
    report["less"] = "the price of a choice" if figure is score_of else "what noise gains"
    return best, runs, report | {"evaluations": steps, "rungs": figures, "shortest": shortest}


def climbed(
    setting: Setting, kernel: Kernel, runs: list[RelevanceClimb], shortest: float
) -> tuple[Kernel, int]:
    """Climb the evidence in the kernel's free parameters, functions and precisions held."""
    bounds = {
        f"kernel__{path}": (shortest, 1e3 * float(np.max(getattr(owner, name))))
        for path, owner, name in kernel.differentiable()
        if name == "length_scale" and owner.mark(name).bounds is None
    }
    space = Space({"kernel": kernel}, bounds)
    states = [run.state for run in runs]
    if not len(space) or not any(state.active for state in states):
        return kernel, 0

    def negative(u: Array) -> tuple[float, Array]:
        moved = cast(Kernel, space.parts_at(u)["kernel"])
        value, slope = 0.0, np.zeros(len(u))
        for make, state in zip(setting.makers, states, strict=True):
            centres = setting.centres[list(state.active)]
            machine = make(Design(moved(setting.points, centres), setting.flat, setting.weights))
            there = machine.evaluate(tuple(range(len(centres))), state.prior, state.beta)
            Q = slope_in_functions(machine, there)
            by_part = moved.pullback(setting.points, centres, Q)
            value -= there.evidence
            slope -= space.gradient(u, {"kernel": by_part})
        return value, slope

    limits: dict[str, Any] = {"bounds": space.bounds, "options": {"maxiter": 30}}
    found = minimize(negative, space.start, jac=True, method="L-BFGS-B", **limits)
    return cast(Kernel, space.parts_at(found.x)["kernel"]), int(found.nfev)


def scaled(kernel: Kernel, factor: float, shortest: float) -> Kernel | None:
    """Return the kernel, its free length scales times ``factor``; None if that is not allowed."""
    clone = copy.deepcopy(kernel)
    moved = False
    for _, owner, name in clone.differentiable():
        mark = owner.mark(name)
        if name != "length_scale" or mark.fixed:
            continue
        low, high = mark.bounds or (shortest, np.inf)
        value = np.asarray(getattr(owner, name), dtype=np.float64) * factor
        if np.any(value < low) or np.any(value > high):
            return None
        setattr(owner, name, float(value) if value.ndim == 0 else value)
        moved = True
    return clone if moved else None


def nearest_distance(centres: Array) -> float:
    """Median distance of a centre (m, d) to its nearest neighbour; tiny for a single one."""
    if len(centres) < 2:
        return 1e-12
    sample = centres[:: max(1, len(centres) // 2000)]
    distance = np.asarray(cKDTree(centres).query(sample, k=2)[0])
    return max(float(np.median(distance[:, 1])), 1e-12)
