"""The two forms of a thin-plate spline, all contrasts of the points or those of a few.

Variance and smoothing parameter are given, or found on the spectrum of the form.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np

from mercer.core.arrays import Array
from mercer.core.basis import PolynomialBasis
from mercer.inference.base import Report, Solution
from mercer.inference.exact import Exact
from mercer.kernels.base import Kernel
from mercer.linalg.contrasts import ContrastFactor, Contrasts, InducedFactor, InducingContrasts
from mercer.losses.real.gaussian import Gaussian
from mercer.process.process import Posterior, Prior
from mercer.search import Problem, balanced
from mercer.search.one_parameter import GCV_BANDS, LIMIT, Spectrum, find_lam

# n x n arrays of an exact fit: G, its contrasts, eigenvectors, their workspace, the operator
ARRAYS = 7
# Noise variance, in units of var(y), of targets that a polynomial meets exactly: their rounding.
LEAST_NOISE = float((4.0 * np.finfo(float).eps) ** 2)


class Form(ABC):
    """How the spline of a problem is computed, for every variance and lam.

    G, the covariance of unit variance on contrasts, is ``size`` times the kernel.
    """

    extra: Array | None = None  # (n,) variance at the points that the form leaves out, of unit size

    def __init__(
        self, problem: Problem, basis: PolynomialBasis, kernel: Kernel, size: float = 1.0
    ) -> None:
        self.problem, self.basis, self.kernel, self.size = problem, basis, kernel, size

    @abstractmethod
    def spectrum(self) -> Spectrum:
        """Return what the search needs."""

    @abstractmethod
    def solve(self, variance: float, lam: float) -> tuple[Solution, Posterior]:
        """Return the posterior: on the observations, and as a process."""

    def evidence(self, solution: Solution, variance: float, lam: float) -> float:
        """Return the log evidence (or a lower bound), GPML (2.45), standardised units.

        The bound has less the variance left out, in units of the noise: Titsias (2009), (9).
        """
        loss, no_gram = Gaussian(noise=variance * lam), cast(Any, None)  # the factor says it all
        p = self.problem
        value = Exact().evidence(no_gram, p.y, loss, solution, spread=p.spread).value
        if self.extra is None:
            return value
        return float(value - 0.5 * p.y.shape[1] * float(p.weights @ self.extra) / lam)

    def report(self) -> dict[str, Any]:
        """Return what is said of the form."""
        return {"gram": "contrasts"}

    def _prior(self, variance: float) -> Prior:
        return Prior((variance * self.size) * self.kernel, self.problem.y.shape[1])

    def _spectrum(self, d: Array, squares: Array, rest: float, floor: float) -> Spectrum:
        p = self.problem
        assert p.basis is not None
        (n, k), m = p.basis.shape, p.y.shape[1]
        total, within = float(p.row_weights.sum()), float(p.spread.sum())
        lost = 0.0 if self.extra is None else float(p.weights @ self.extra)
        return Spectrum(d, squares, rest, n, k, m, total, within, lost, floor)


class AllContrasts(Form):
    """Exact: O(n^3) once, then O(n) for every lam."""

    def __init__(
        self, problem: Problem, basis: PolynomialBasis, kernel: Kernel, size: float = 1.0
    ) -> None:
        super().__init__(problem, basis, kernel, size)
        assert problem.basis is not None
        self.G = kernel(problem.points)
        self.G *= size
        self.contrasts = Contrasts(self.G, problem.basis, problem.weights)

    def spectrum(self) -> Spectrum:
        c = self.contrasts
        return self._spectrum(c.d, ((c.V.T @ self.problem.y) ** 2).sum(axis=1), 0.0, c.floor)

    def solve(self, variance: float, lam: float) -> tuple[Solution, Posterior]:
        p = self.problem
        factor = ContrastFactor(self.contrasts, self.G, variance, lam)
        alpha = factor.solve(p.y)
        beta = factor.coefficients(p.y, alpha)
        report = Report(details=factor.report)
        solution = Solution(alpha, factor.W, p.y, factor, beta, p.weights, report)
        return solution, self._prior(variance).condition(p.points, solution, self.basis)


class FewContrasts(Form):
    """Low rank: the posterior that knows the function at ``knots`` (p, d) only; O(n p^2)."""

    def __init__(
        self, problem: Problem, basis: PolynomialBasis, kernel: Kernel, knots: Array
    ) -> None:
        super().__init__(problem, basis, kernel)
        p = problem
        self.seen = InducingContrasts(kernel, basis, knots, p.points, p.y, p.weights)
        self.extra = self.seen.unexplained

    def spectrum(self) -> Spectrum:
        s = self.seen
        floor = len(s.knots) * float(np.finfo(float).eps * s.d[-1])
        return self._spectrum(s.d, (s.z**2).sum(axis=1), s.rest, floor)

    def solve(self, variance: float, lam: float) -> tuple[Solution, Posterior]:
        p, (a, beta) = self.problem, self.seen.coefficients(lam)
        factor = InducedFactor(self.seen, variance, lam)
        alpha, report = factor.solve(p.y), Report(details=factor.report)
        solution = Solution(alpha, factor.W, p.y, factor, beta, p.weights, report)
        operator, prior = self.seen.operator(variance, lam), self._prior(variance)
        points = self.seen.knots
        return solution, Posterior(
            prior, points, a / variance, operator, beta=beta, basis=self.basis
        )

    def report(self) -> dict[str, Any]:
        return {"gram": "inducing", "knots": len(self.seen.knots), "evidence_is_bound": True}


class ThinPlateSmoothing(NamedTuple):
    """What was chosen, in standardised units, and what is reported of it."""

    variance: float
    lam: float
    report: dict[str, Any]


def choose(form: Form, lam: float | None, criterion: str, unit: float) -> ThinPlateSmoothing:
    """Return variance and lam; ``lam`` is given in the user's units, lam = unit * inside.

    The search sees weights that are scaled as in :func:`mercer.search.balanced`, so that copies of
    a table do not pretend to be new observations of its noise.
    """
    own = form.spectrum()
    scaled, c = balanced(form.problem)
    total, within = float(scaled.row_weights.sum()), float(scaled.spread.sum())
    sizes = {name: c * getattr(own, name) for name in ("d", "squares", "rest", "lost", "floor")}
    spectrum = replace(own, total=total, within=within, **sizes)
    largest = LIMIT * float(own.d.max(initial=0.0))
    if lam is None:
        inside, search = find_lam(spectrum, criterion)
        search["search_weight_factor"] = c
        variance = spectrum.variance(inside)
        if criterion == "gcv":
            variance = spectrum.noise(inside) / inside
            search["gcv"], search["bands"] = spectrum.gcv(inside), GCV_BANDS
    else:
        inside, search = min(lam / unit, largest), None
        variance = spectrum.variance(c * inside)
    report: dict[str, Any] = {"search": search}
    least = LEAST_NOISE / max(inside, float(spectrum.d.max(initial=0.0)) * 1e-16)
    if not variance > least:
        variance = least
        report["least_noise"] = variance * inside
    report["lam"] = unit * inside if inside < 0.5 * min(c, 1.0) * largest else np.inf
    report["degrees_of_freedom"] = own.degrees(inside)
    return ThinPlateSmoothing(variance, inside, report)
