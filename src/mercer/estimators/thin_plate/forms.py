"""The two forms of a thin-plate spline: all contrasts of the points, or those of a few.

Variance and smoothing parameter of a thin-plate spline: given, or found on its spectrum.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from mercer.core.arrays import Array
from mercer.core.basis import PolynomialBasis
from mercer.inference.base import Report, Solution
from mercer.inference.exact import Exact
from mercer.kernels.splines.thin_plate import ThinPlate, green
from mercer.linalg.contrasts.contrasts import ContrastFactor, Contrasts
from mercer.linalg.contrasts.inducing import InducedFactor, InducingContrasts
from mercer.linalg.gram import Factor
from mercer.losses.real.gaussian import Gaussian
from mercer.process.process import Posterior, Prior
from mercer.search import Problem, balanced
from mercer.search.one_parameter import LIMIT, Spectrum, find_lam


class Form(ABC):
    """How the spline of a problem is computed, for every variance and lam."""

    def __init__(self, problem: Problem, basis: PolynomialBasis, order: int) -> None:
        self.problem, self.basis, self.order = problem, basis, order

    @abstractmethod
    def spectrum(self) -> Spectrum:
        """Return what the search needs."""

    @abstractmethod
    def solve(self, variance: float, lam: float) -> tuple[Solution, Posterior]:
        """Return the posterior: on the observations, and as a process."""

    def evidence(self, solution: Solution, variance: float, lam: float) -> float:
        """Return the log evidence (or a lower bound), GPML (2.45), standardised units."""
        loss, no_gram = Gaussian(noise=variance * lam), cast(Any, None)  # the factor says it all
        y, spread = self.problem.y, self.problem.spread
        return Exact().evidence(no_gram, y, loss, solution, spread=spread).value

    @property
    def extra(self) -> Array | None:
        """Variance (n,) at the points that the form leaves out, for unit variance; None: none."""
        return None

    def report(self) -> dict[str, Any]:
        """Return what is said of the form."""
        return {"gram": "contrasts"}

    def _solution(self, factor: Factor, W: Array, alpha: Array, beta: Array) -> Solution:
        p = self.problem
        return Solution(alpha, W, p.y, factor, beta, p.weights, Report(details=factor.report))

    def _prior(self, variance: float) -> Prior:
        return Prior(variance * ThinPlate(self.order), self.problem.y.shape[1])


class AllContrasts(Form):
    """Exact: O(n^3) once, then O(n) for every lam."""

    def __init__(self, problem: Problem, basis: PolynomialBasis, order: int) -> None:
        super().__init__(problem, basis, order)
        assert problem.basis is not None
        self.G = green(problem.points, problem.points, order)
        self.contrasts = Contrasts(self.G, problem.basis, problem.weights)

    def spectrum(self) -> Spectrum:
        p, c = self.problem, self.contrasts
        squares = ((c.V.T @ p.y) ** 2).sum(axis=1)
        return _spectrum(p, c.d, squares, 0.0, floor=c.floor)

    def solve(self, variance: float, lam: float) -> tuple[Solution, Posterior]:
        p = self.problem
        factor = ContrastFactor(self.contrasts, self.G, variance, lam)
        alpha = factor.solve(p.y)
        beta = factor.coefficients(p.y, alpha)
        solution = self._solution(factor, factor.W, alpha, beta)
        return solution, self._prior(variance).condition(p.points, solution, self.basis)


class FewContrasts(Form):
    """Low rank: the posterior that knows the function at ``knots`` (p, d) only; O(n p^2)."""

    def __init__(self, problem: Problem, basis: PolynomialBasis, order: int, knots: Array) -> None:
        super().__init__(problem, basis, order)
        p = problem
        self.seen = InducingContrasts(
            lambda X, Z: green(X, Z, order), basis, knots, p.points, p.y, p.weights
        )

    def spectrum(self) -> Spectrum:
        p, s = self.problem, self.seen
        lost = float(p.weights @ s.unexplained)
        floor = len(s.knots) * float(np.finfo(float).eps * s.d[-1])
        return _spectrum(p, s.d, (s.z**2).sum(axis=1), s.rest, floor=floor, lost=lost)

    def solve(self, variance: float, lam: float) -> tuple[Solution, Posterior]:
        a, beta = self.seen.coefficients(lam)
        factor = InducedFactor(self.seen, variance, lam)
        solution = self._solution(factor, factor.W, factor.solve(self.problem.y), beta)
        operator = self.seen.operator(variance, lam)
        prior = self._prior(variance)
        posterior = Posterior(
            prior, self.seen.knots, a / variance, operator, beta=beta, basis=self.basis
        )
        return solution, posterior

    def evidence(self, solution: Solution, variance: float, lam: float) -> float:
        """Less the variance left out, in units of the noise: Titsias (2009), equation (9)."""
        value = super().evidence(solution, variance, lam)
        lost = float(self.problem.weights @ self.seen.unexplained)
        return value - 0.5 * int(self.problem.y.shape[1]) * lost / lam

    @property
    def extra(self) -> Array | None:
        return self.seen.unexplained

    def report(self) -> dict[str, Any]:
        return {"gram": "inducing", "knots": len(self.seen.knots), "evidence_is_bound": True}


def _spectrum(
    p: Problem, d: Array, squares: Array, rest: float, *, floor: float, lost: float = 0.0
) -> Spectrum:
    assert p.basis is not None
    (n, k), m = p.basis.shape, p.y.shape[1]
    total, within = float(p.row_weights.sum()), float(p.spread.sum())
    return Spectrum(d, squares, rest, n, k, m, total, within, lost, floor)


# Noise variance, in units of var(y), of targets that a polynomial meets exactly: their rounding.
LEAST_NOISE = float((4.0 * np.finfo(float).eps) ** 2)


@dataclass(frozen=True)
class ThinPlateSmoothing:
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
    spectrum = _times(own, c, total, within)
    largest = LIMIT * float(own.d.max(initial=0.0))
    if lam is None:
        inside, search = find_lam(spectrum, criterion)
        search["search_weight_factor"] = c
        variance = spectrum.variance(inside)
        if criterion == "gcv":
            variance = spectrum.noise(inside) / inside
            search["gcv"] = spectrum.gcv(inside)
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


def _times(s: Spectrum, c: float, total: float, within: float) -> Spectrum:
    """Return the spectrum for weights times c."""
    return replace(
        s,
        d=c * s.d,
        squares=c * s.squares,
        rest=c * s.rest,
        lost=c * s.lost,
        floor=c * s.floor,
        total=total,
        within=within,
    )
