"""How smooth: one number, from the spectrum of a linear smoother.

In coordinates in which prior covariance and noise are both diagonal, v d_j and v lam, every ratio
lam costs O(n): the variance v that maximises the evidence is known, GCV and degrees of freedom
are sums. Theory (P13).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from mercer.arrays import Array

GRID = 81  # values of log lam before the best is refined
ALIKE = 1e-10  # differences of a criterion that are rounding
SMOOTHEST = 1e10  # largest lam of the grid, times the largest eigenvalue
LIMIT = 1e30  # the same, where nothing but the unpenalised functions is left in any digit


@dataclass(frozen=True)
class Spectrum:
    """What a smoother of one parameter needs to know of the data.

    Attributes
    ----------
    d : (r,) eigenvalues of the prior covariance on contrasts, for v = 1; the others are zero.
    squares : (r,) squared targets along them, summed over m outputs.
    rest : the same for all other contrasts together.
    n, k, m : points, unpenalised functions, outputs.
    total : N, the weight of all observations.
    within : sum of squares of repeated observations about their means, over all outputs.
    lost : sum of w_i times the prior variance that a low-rank form leaves out, for v = 1.
    floor : smallest lam that d supports.
    """

    d: Array
    squares: Array
    rest: float
    n: int
    k: int
    m: int
    total: float
    within: float
    lost: float = 0.0
    floor: float = 0.0

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
        """Return the logarithm of :meth:`gcv`, each factor by itself: both ends tend to 0 / 0."""
        return float(np.log(self.residual(lam)) - 2.0 * np.log(self.left(lam)))

    def noise(self, lam: float) -> float:
        """Return the noise variance that goes with GCV: wrss / (N - edf), for each output."""
        return self.residual(lam) / (self.m * self.left(lam))


def find_lam(spectrum: Spectrum, criterion: str) -> tuple[float, dict[str, Any]]:
    """Return the best lam by "evidence" or "gcv", and a report.

    A grid over all orders of magnitude, then Brent's method about its best value: the criteria
    may have several maxima. Of values that are equal but for rounding the largest lam is taken. At
    the largest of all, ``LIMIT`` times the largest eigenvalue, nothing but the unpenalised
    functions is left, at the smallest the observations are met to rounding: ``at_bounds`` says if
    one of them is as good as any.
    """

    def cost(log_lam: float) -> float:
        lam = float(np.exp(log_lam))
        return float(-spectrum.evidence(lam) if criterion == "evidence" else spectrum.log_gcv(lam))

    top = float(spectrum.d.max(initial=0.0)) or 1.0
    low, high = np.log(max(spectrum.floor, 1e-14 * top)), np.log(SMOOTHEST * top)
    if spectrum.variance(top) == 0.0:  # the unpenalised functions meet every target
        return LIMIT * top, _report(criterion, True, 0, ["largest"])
    grid = np.linspace(low, high, GRID)
    values = np.array([cost(u) for u in grid])
    alike = values <= values.min() + ALIKE * max(1.0, abs(values.min()))
    best = int(np.flatnonzero(alike)[-1])
    at = [name for name, end in (("smallest", 0), ("largest", -1)) if alike[end]]
    if "largest" in at:
        return LIMIT * top, _report(criterion, True, GRID, at)
    ends = grid[max(best - 1, 0)], grid[min(best + 1, GRID - 1)]
    found = minimize_scalar(cost, bounds=ends, method="bounded", options={"xatol": 1e-10})
    u = float(found.x) if found.fun < values[best] else float(grid[best])
    return float(np.exp(u)), _report(criterion, bool(found.success), GRID + int(found.nfev), at)


def _report(criterion: str, converged: bool, evaluations: int, at: list[str]) -> dict[str, Any]:
    return {
        "converged": converged,
        "evaluations": evaluations,
        "starts": 1,
        "criterion": criterion,
        "at_bounds": [f"lam ({name})" for name in at],
    }
