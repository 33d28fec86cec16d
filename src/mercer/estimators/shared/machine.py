"""KernelMachine: the data flow from a table to a posterior, written once.

validate -> merge repeated rows -> standardise -> search -> condition -> report
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array, as_columns
from mercer.core.basis import Basis
from mercer.core.rows import location_scale
from mercer.estimators.shared import ard
from mercer.estimators.shared.left_out import cavity_loo, mode_loo
from mercer.estimators.shared.parameters import Draw, find_parameters
from mercer.estimators.shared.parts import Parts, resolve
from mercer.estimators.shared.record import MachineRecord
from mercer.estimators.shared.summary import warn_inference
from mercer.estimators.shared.table import (
    Table,
    UnlessItFails,
    build_table,
    check_repeats,
    check_target,
    check_weights,
    read_inputs,
    read_rows,
)
from mercer.estimators.shared.units import (
    Units,
    basis_inside,
    loo_outside,
    no_units,
    problem_inside,
    told_rows,
    told_units,
)
from mercer.inference.base import Solution
from mercer.kernels.base import Kernel
from mercer.kernels.convert import is_pairwise
from mercer.left_out.figures import Loo
from mercer.linalg.dense.coupled import CoupledFactor
from mercer.linalg.gram import Gram
from mercer.linalg.line import LineFactor
from mercer.losses.base import Loss
from mercer.process.process import Posterior, Prior, Process
from mercer.search import Problem
from mercer.search.criteria.left_out import Left


class KernelMachine(MachineRecord, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """The machine behind every estimator; see the presets for what the parameters mean."""

    posteriors_: list[Process]
    losses_: list[Loss]
    units_: Units
    basis_: Basis | None
    report_: dict[str, Any]
    loo_: Any  # Loo, MarginLoo or None: what the inference can say of rows left out
    flat_: bool

    def __init__(
        self,
        kernel: Any = None,
        *,
        loss: Any = "gaussian",
        inference: Any = "auto",
        search: Any = "evidence",
        gram: str = "auto",
        basis: Any = None,
        standardize: bool | str = "auto",
        random_state: Any = None,
    ) -> None:
        self.kernel = kernel
        self.loss = loss
        self.inference = inference
        self.search = search
        self.gram = gram
        self.basis = basis
        self.standardize = standardize
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_pairwise(self.kernel)
        return tags

    # ------------------------------------------------------------------ fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from X (n, d) and y (n,) or (n, m).

        ``sample_weight`` (n,): a row of weight w counts as w equal rows. If anything fails, the
        machine stays as it was.
        """
        with UnlessItFails(self):
            return self._fit(X, y, sample_weight)

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        check_target(y)
        X, y = read_rows(self, X, y, multi_output=True, y_numeric=True)
        weights = check_weights(sample_weight, len(X))
        parts = self._resolve(getattr(self, "feature_names_in_", None), X.shape[1])
        if len(X) < 2 and parts.search is not None:
            raise ValueError(
                "Found 1 sample (n_samples=1): hyperparameters cannot be learned from one row; "
                "give more rows, or a kernel and a loss with search=None"
            )
        if parts.by_row and np.any(weights != 1.0):
            raise ValueError(
                "sample weights need rows that are their inputs: a noise part in the kernel, a "
                "precomputed matrix or a noise per row has no meaning for a weighted row; use one "
                "noise in the loss"
            )
        Y = as_columns(parts.loss.check_targets(as_columns(y)))
        check_repeats(X, getattr(parts.loss, "noise", None))
        flat = np.ndim(y) == 1
        alike = "quadratic" not in parts.inference.needs  # only a quadratic averages targets
        table = build_table(X, Y, weights, parts.by_row, flat, parts.arrays, alike)
        units = _units(parts, table)
        problem = _problem(parts, table, units)
        parts.start(problem.points, problem.y, problem.weights, units)
        draws, report = find_parameters(parts, problem, generator(self.random_state))
        self._finish(parts, table, units, problem, draws, report)
        return self

    def _resolve(self, names: Any, d: int) -> Parts:
        given = ("kernel", "loss", "inference", "search", "gram", "basis", "standardize")
        return resolve(names, d, **{name: getattr(self, name) for name in given})

    def _finish(
        self,
        parts: Parts,
        table: Table,
        units: Units,
        problem: Problem,
        draws: list[Draw],
        report: dict[str, Any],
    ) -> None:
        posteriors: list[Process] = []
        values = []
        for draw in draws:
            kernel, loss, solved = draw.kernel, draw.loss, draw.solve(parts, problem)
            gram, solution = solved.gram, solved.solution
            warn_inference(parts.inference, solution.report)
            values.append(solved.value)
            prior = Prior(kernel, problem.y.shape[1])
            posterior = prior.condition(problem.points, solution, basis_inside(parts.basis, units))
            if not posteriors:
                loo = _left_out(parts, problem, gram, loss, solution, posterior, table, units)
                report.update(describe(parts, kernel, units, problem, solution))
            posteriors.append(posterior)
        k = 0 if problem.basis is None else problem.basis.shape[1]
        total = float(problem.row_weights.sum())
        self.posteriors_ = posteriors
        self.losses_ = [draw.loss.for_new() for draw in draws]
        self.units_ = units
        self.flat_ = table.flat
        self.basis_ = parts.basis
        self.kernel_ = units.kernel_outside(draws[0].kernel)
        self.loss_ = units.loss_outside(draws[0].loss)
        self.log_evidence_: float | None = None
        if parts.inference.has_evidence:
            self.log_evidence_ = units.evidence_outside(max(values), total, parts.basis, k)
        self.loo_ = loo
        self.relevance_ = ard.relevance(draws[0].kernel, problem.points, problem.weights)
        self.report_ = report

    def _parameter_words(self) -> dict[str, str]:
        """Return what parameters of this estimator's parts mean, where that is not the usual."""
        return {}

    def _inputs(self, X: Any) -> Array:
        """Validate inputs of a prediction and return them in inside units."""
        check_is_fitted(self, "posteriors_")
        return self.units_.inside(read_inputs(self, X))


def _units(parts: Parts, table: Table) -> Units:
    if not parts.standardize:
        return no_units(table.X.shape[1], table.Y.shape[1])
    x_shift, x_scale = location_scale(table.points, table.total)
    if not hasattr(parts.loss, "in_units"):  # the target as it is: counts, or scales in its units
        m = table.Y.shape[1]
        return Units(x_shift, x_scale, np.zeros(m), np.ones(m))
    y_shift, y_scale = location_scale(table.mean, table.total, table.spread)
    if not np.all((y_scale > 1e-140) & (y_scale < 1e140)):
        raise ValueError(
            f"the targets have deviation {y_scale.max():.3g}: their squares leave the range of "
            "floating-point numbers; give y in other units"
        )
    return Units(x_shift, x_scale, y_shift, y_scale)


def _problem(parts: Parts, table: Table, units: Units) -> Problem:
    points = units.inside(table.points)
    function = basis_inside(parts.basis, units)
    H = None if function is None else function(points)
    if H is not None and H.shape[1] >= len(points):
        raise ValueError(
            f"{H.shape[1]} basis functions need more than {len(points)} distinct inputs: nothing "
            "would be left to learn from; choose a smaller basis"
        )
    return problem_inside(table, units, points, H)


def _left_out(
    parts: Parts,
    problem: Problem,
    gram: Gram,
    loss: Loss,
    solution: Solution,
    posterior: Posterior,
    table: Table,
    units: Units,
) -> Loo | None:
    """Leave-one-out in the way of the posterior: a mode, Gaussian noise, or approximate."""
    if not posterior.has_spread:
        return mode_loo(problem, loss, solution, posterior, table, units)
    if "quadratic" not in parts.inference.needs:
        return cavity_loo(problem, gram, loss, solution, posterior, table, units)
    return _leave_one_out(problem, loss, solution, posterior, table, units)


def _leave_one_out(
    problem: Problem,
    loss: Loss,
    solution: Solution,
    posterior: Posterior,
    table: Table,
    units: Units,
    extra: Array | None = None,
) -> Loo:
    """Every row from the others; a row of weight zero is predicted from all that count.

    ``extra`` (n,) is variance of the function at the points that the factor knows nothing of.
    """
    left = Left(problem, solution, loss.quadratic(problem.y)[1])
    if extra is not None:
        left.variance = left.variance + extra[problem.group]
    mean, variance, density = (np.empty(table.Y.shape) for _ in range(3))
    mean[table.keep] = problem.rows - left.residual
    variance[table.keep] = left.variance[:, None]
    density[table.keep] = left.log_density()
    unused = table.weights == 0
    if np.any(unused):
        inside = units.inside(table.X[unused])
        y, latent = units.y_inside(table.Y[unused]), posterior.var(inside)[:, None]
        mean[unused], variance[unused] = loss.predict(posterior.mean(inside), latent)
        density[unused] = loss.log_predictive(y, posterior.mean(inside), latent)
    return loo_outside(mean, variance, density, table, units)


def describe(
    parts: Parts, kernel: Kernel, units: Units, problem: Problem, solution: Solution
) -> dict[str, Any]:
    """What was done to the numbers, as plain values."""
    return {
        "standardize": {"on": parts.standardize} | told_units(units),
        "rows": told_rows(problem, problem.row_weights),
        "inference": {"name": type(parts.inference).__name__, **solution.report.plain()},
        "gram": "markov" if isinstance(solution.factor, LineFactor) else "dense",
        "degrees_of_freedom": _degrees_of_freedom(kernel, problem, solution)
        if parts.inference.has_evidence
        else None,
    }


def _degrees_of_freedom(kernel: Kernel, problem: Problem, solution: Solution) -> float | None:
    """Trace of the smoother y -> fitted signal: tr(K C) (+ k with a basis).

    None for several latent functions, and where the kernel has noise parts and a loss its own.
    """
    if isinstance(solution.factor, CoupledFactor):
        return None
    signal = kernel.noise_free()
    if signal is kernel:  # tr(K C) = tr(Sigma W), K C = I - W^-1 C
        W = solution.W
        if np.all(W > 0.0):
            return float((1.0 - solution.factor.diag() / W).sum())
        return float(W @ solution.factor.cov_diag())
    assert signal is not None
    C = solution.factor.solve(np.eye(len(problem.points)))
    k = 0 if problem.basis is None else problem.basis.shape[1]
    return float(np.einsum("ij,ij->", signal(problem.points), C)) + k


def generator(random_state: Any) -> np.random.Generator:
    """Return a random generator; None is a fixed seed, so that fits repeat."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    seed = check_random_state(0 if random_state is None else random_state)
    return np.random.default_rng(seed.randint(2**31 - 1))
