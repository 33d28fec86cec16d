"""Searches over one parameter, the smoothing parameter of a linear smoother.

:func:`highest` for a curve that is cheap at sixteen places together, as those of the O(n) spline
are; :func:`find_lam` on the spectrum of a smoother, theory (P13); :func:`ridge_path` for left-out
predictions from one eigendecomposition, theory (Q2), (Q3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from mercer.core.arrays import Array
from mercer.inference.base import Problem
from mercer.inference.exact import Exact
from mercer.left_out.cavity import Left
from mercer.linalg.eigen import EigenGram
from mercer.linalg.gram import Covariance
from mercer.losses.real.gaussian import Gaussian

LANES = 16  # values that one call costs no more than one
COARSE = 5.5  # largest distance on the first grid
PEAKS = 4  # that are looked at more closely
FINE = 1.0  # distance from which on only the best of them is
ROUNDS = 100  # far more than halving a distance takes
NARROW = 0.1  # distance at which a quartic through five points takes over
# tests/statistics/test_coverage.py: curves of known shape, noise of a third of their height
GCV_BANDS = (
    "bands are too narrow where GCV follows the noise: 90 % ones of a cubic spline hold 69 % of "
    "the curve at 20 rows, 81 % at 50 and 87 % at 100 (by the evidence 83, 90 and 91 %)"
)


def highest(
    curve: Callable[[Array], Array], low: float, high: float
) -> tuple[float, dict[str, Any]]:
    """Return where ``curve`` is highest on [low, high] or at infinity, and a report.

    ``curve`` maps (k,) places, of which one may be infinite, to (k,) values; NaN counts as lowest.
    Where values at the upper end do not fall below the best, the answer is the limit, infinity.
    """

    def values(u: Array) -> Array:
        found = np.asarray(curve(u), dtype=np.float64)
        return np.where(np.isnan(found), -np.inf, found)

    many = int(np.ceil((high - low) / (COARSE * LANES))) * LANES
    U = np.linspace(low, high, many - 1)
    first = values(np.append(U, np.inf))
    V, limit, calls = first[:-1], float(first[-1]), many
    report = {"converged": True, "evaluations": calls, "starts": 1, "at_bounds": []}
    if limit == np.inf:
        return np.inf, report | {"at_bounds": ["largest"]}
    for _ in range(ROUNDS):
        peaks = _peaks(V)[:PEAKS]
        ends = [(U[max(i - 1, 0)], U[min(i + 1, len(U) - 1)]) for i in peaks]
        wide = [(a, b) for a, b in ends if b - a > 2.0 * FINE]
        if not wide:  # the heights can be compared now: the best alone is looked at more closely
            wide = [(a, b) for a, b in ends[:1] if b - a > 2.0 * NARROW]
        if not wide:
            break
        each = LANES // len(wide)
        more = np.sort(np.concatenate([np.linspace(a, b, each + 2)[1:-1] for a, b in wide]))
        apart = 1e-6 * NARROW  # of the new places from each other, and from those that are known
        more = more[np.diff(more, prepend=-np.inf) > apart]
        more = more[np.abs(more[:, None] - U).min(axis=1) > apart]
        U, V = np.append(U, more), np.append(V, values(more))
        order = np.argsort(U)
        U, V, calls = U[order], V[order], calls + len(more)
    else:
        report["converged"] = False
    best = peaks[0]
    report["evaluations"] = calls
    if limit >= V[best] - 1e-12 * max(1.0, abs(V[best])) or best == len(U) - 1:
        return np.inf, report | {"at_bounds": ["largest"]}
    if best == 0:
        return float(U[0]), report | {"at_bounds": ["smallest"]}
    return _top(U, V, best), report


def _peaks(V: Array) -> list[int]:
    """Places that no neighbour exceeds, highest first."""
    padded = np.concatenate([[-np.inf], V, [-np.inf]])
    found = np.flatnonzero((padded[:-2] <= V) & (padded[2:] <= V))
    return [int(i) for i in found[np.argsort(-V[found], kind="stable")]]


def _top(U: Array, V: Array, best: int) -> float:
    """Highest point of the polynomial through the five nearest values, within the neighbours."""
    low, high = U[best - 1], U[best + 1]
    near = slice(max(best - 2, 0), best + 3)
    u, v = (U[near] - U[best]) / (high - low), V[near] - V[best]
    if not np.all(np.isfinite(v)):
        return float(U[best])
    fit = np.polynomial.Polynomial.fit(u, v, len(u) - 1)
    roots = fit.deriv().roots()
    real = roots[np.abs(roots.imag) < 1e-9].real
    ends = (low - U[best]) / (high - low), (high - U[best]) / (high - low)
    inside = real[(real > ends[0]) & (real < ends[1])]
    if not len(inside):
        return float(U[best])
    return float(U[best] + (high - low) * inside[np.argmax(fit(inside))])


GRID = 81  # values of log lam before the best is refined
ALIKE = 1e-10  # differences of a criterion that are rounding
SMOOTHEST = 1e10  # largest lam of the grid, times the largest eigenvalue
LIMIT = 1e30  # the same, where nothing but the unpenalised functions is left in any digit


@dataclass(frozen=True)
class Spectrum:
    """What a smoother of one parameter needs to know of the data.

    In coordinates in which prior covariance and noise are both diagonal, v d_j and v lam, every
    ratio lam costs O(n); the variance v that maximises the evidence is known, GCV and degrees of
    freedom are sums.
    """

    d: Array  # (r,) eigenvalues of the prior covariance on contrasts, for v = 1; others are zero
    squares: Array  # (r,) squared targets along them, summed over m outputs
    rest: float  # the same for all other contrasts together
    n: int  # points
    k: int  # unpenalised functions
    m: int  # outputs
    total: float  # N, the weight of all observations
    within: float  # sum of squares of repeated observations about their means, over all outputs
    lost: float = 0.0  # sum of w_i times the prior variance that a low-rank form leaves out, v = 1
    floor: float = 0.0  # smallest lam that d supports

    def variance(self, lam: float) -> float:
        """Return the v that maximises the evidence at lam, methods of GPML 2.7 and 5.4."""
        quadratic = float((self.squares / (self.d + lam)).sum())
        if lam > 0.0:
            quadratic += (self.rest + self.within) / lam
        return quadratic / (self.m * (self.total - self.k))

    def evidence(self, lam: float) -> float:
        """Log evidence at lam and the best v, up to a constant: REML, GPML (2.45).

        A lower bound of it where the form is of low rank.
        """
        idle = self.total - self.k - len(self.d)  # observations that only show the noise
        v = self.variance(lam)
        logs = float(np.log(self.d + lam).sum()) + idle * np.log(lam)
        value = -0.5 * self.m * ((self.total - self.k) * np.log(v) + logs)
        return float(value - 0.5 * self.m * self.lost / lam)

    def degrees(self, lam: float) -> float:
        """Return the effective degrees of freedom, the trace of the smoother."""
        return self.k + float((self.d / (self.d + lam)).sum())

    def left(self, lam: float) -> float:
        """Return N less the degrees of freedom, without cancellation."""
        return self.total - self.k - len(self.d) + float((lam / (self.d + lam)).sum())

    def residual(self, lam: float) -> float:
        """Weighted sum of squared residuals, over all outputs."""
        shrunk = lam / (self.d + lam)
        return float((self.squares * shrunk**2).sum()) + self.rest + self.within

    def gcv(self, lam: float) -> float:
        """Generalised cross-validation, N wrss / (N - edf)^2 per output: to be minimised."""
        return self.total * self.residual(lam) / (self.m * self.left(lam) ** 2)

    def log_gcv(self, lam: float) -> float:
        """Log of :meth:`gcv` up to a constant, by factors: both ends tend to 0 / 0."""
        return float(np.log(self.residual(lam)) - 2.0 * np.log(self.left(lam)))

    def noise(self, lam: float) -> float:
        """Return the noise variance that goes with GCV: wrss / (N - edf), for each output."""
        return self.residual(lam) / (self.m * self.left(lam))


def find_lam(spectrum: Spectrum, criterion: str) -> tuple[float, dict[str, Any]]:
    """Return the best lam by "evidence" or "gcv", and a report.

    A grid over all orders of magnitude, then Brent's method about its best value: the criteria
    may have several maxima. Of values that are equal but for rounding the largest lam is taken.
    ``at_bounds`` says if the unpenalised functions alone (the largest lam), or observations that
    are met to rounding (the smallest), are as good as any.
    """

    def cost(log_lam: float) -> float:
        lam = float(np.exp(log_lam))
        return float(-spectrum.evidence(lam) if criterion == "evidence" else spectrum.log_gcv(lam))

    def found(lam: float, converged: bool, calls: int, *at: str) -> tuple[float, dict[str, Any]]:
        report = {"converged": converged, "evaluations": calls, "starts": 1}
        return lam, report | {"criterion": criterion, "at_bounds": [f"lam ({end})" for end in at]}

    top = float(spectrum.d.max(initial=0.0)) or 1.0
    low, high = np.log(max(spectrum.floor, 1e-14 * top)), np.log(SMOOTHEST * top)
    if spectrum.variance(top) == 0.0:  # the unpenalised functions meet every target
        return found(LIMIT * top, True, 0, "largest")
    grid = np.linspace(low, high, GRID)
    values = np.array([cost(u) for u in grid])
    alike = values <= values.min() + ALIKE * max(1.0, abs(values.min()))
    best = int(np.flatnonzero(alike)[-1])
    at = [name for name, end in (("smallest", 0), ("largest", -1)) if alike[end]]
    if "largest" in at:
        return found(LIMIT * top, True, GRID, *at)
    ends = grid[max(best - 1, 0)], grid[min(best + 1, GRID - 1)]
    fine = minimize_scalar(cost, bounds=ends, method="bounded", options={"xatol": 1e-10})
    u = float(fine.x) if fine.fun < values[best] else float(grid[best])
    return found(float(np.exp(u)), bool(fine.success), GRID + int(fine.nfev), *at)


def default_lams(kernel: Covariance, problem: Problem) -> Array:
    """Return 20 values (largest first) from 1000 to 1e-6 times the mean of k(x, x)."""
    return np.asarray(
        np.logspace(3.0, -6.0, 20) * (float(kernel.diag(problem.points).mean()) or 1.0)
    )


def ridge_path(kernel: Covariance, problem: Problem, lams: Array) -> Iterator[tuple[float, Array]]:
    """Yield (lam, leave-one-out mean (N, m) of every observation) for each lam > 0.

    f minimises sum_i w_i (y_i - f(x_i))^2 + lam |f|^2_k, with the basis of the problem free of
    penalty. mean_i = y_i - alpha_i / P_ii with P of ``linalg.basis`` (C without a basis), for rows
    that share a point as in :class:`~mercer.left_out.cavity.Left`. One eigendecomposition in all,
    then O(n^2) for each lam, whatever the number m of outputs.

    Reference: Rifkin & Lippert (2007), Notes on regularized least squares; GPML (5.12).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.search import simple_problem
    >>> X = np.array([[-1.0], [-0.5], [0.5], [1.0]])
    >>> path = ridge_path(Linear(), simple_problem(X, np.sign(X)), np.array([10.0, 0.1]))
    >>> [(lam, mean[:, 0].round(2).tolist()) for lam, mean in path]
    [(10.0, [-0.17, -0.1, 0.1, 0.17]), (0.1, [-1.25, -0.53, 0.53, 1.25])]
    """
    p, gram = problem, EigenGram(kernel, problem.points, problem.weights)
    for lam in lams:
        loss = Gaussian(noise=float(lam))
        solution = Exact().solve(gram, p.y, loss, basis=p.basis, weights=p.weights)
        left = Left(p, solution, loss.quadratic(p.y)[1])
        yield float(lam), p.rows - left.residual
