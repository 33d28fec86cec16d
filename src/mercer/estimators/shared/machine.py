"""KernelMachine: the way from a table to a posterior, written once.

read -> targets -> merge -> units -> prior -> search -> condition -> left out -> calibrate -> report

Each step is a method; an estimator states the steps in which it differs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from mercer.core.arrays import Array, as_columns, group_rows, location_scale
from mercer.estimators.shared.design.propose import Proposes
from mercer.estimators.shared.labels import NO_LABELS, Labelled
from mercer.estimators.shared.parameters import Draw, Solved, find_parameters
from mercer.estimators.shared.parts import Parts, resolve
from mercer.estimators.shared.predictions import Predicts, infinite_variance
from mercer.estimators.shared.record import MachineRecord, Observed
from mercer.estimators.shared.represent import accelerate
from mercer.estimators.shared.summary import Summarised
from mercer.estimators.shared.table import (
    Table,
    build_table,
    check_target,
    check_weights,
    read_rows,
    restored_on_error,
)
from mercer.estimators.shared.units import (
    Units,
    describe_rows,
    describe_units,
    described_density,
    flat_words,
    measure,
    no_units,
    standardised_basis,
    standardised_problem,
    target_units,
    up_to,
)
from mercer.inference.base import Problem
from mercer.kernels.base import Kernel
from mercer.kernels.convert import is_pairwise
from mercer.kernels.equality import Several
from mercer.kernels.stationary.base import relevance
from mercer.left_out.cavity import left_out_figures, predicted
from mercer.left_out.figures import LeftOut
from mercer.linalg.dense.coupled import CoupledFactor
from mercer.linalg.reduced.gram import ReducedGram
from mercer.losses.base import Loss
from mercer.process.process import Posterior, Prior, Process

LANDMARKS = (
    "a mode on landmarks has no coefficient for each row: "
    "sklearn.model_selection.cross_val_predict fits again"
)
Figures: TypeAlias = LeftOut | str  # of left-out rows, or why there are none


@dataclass(frozen=True)
class Given:
    """The rows of a fit as they were read."""

    X: Array  # (N, d)
    y: Any  # the targets as given
    weights: Array  # (N,) how much each row counts
    names: Any  # of the columns, or None
    labels: Labelled = NO_LABELS  # what y says as classes; empty for a regression


@dataclass
class Fit:
    """A fit on its way: the rows, the parts, the problem that they pose, and what was found."""

    given: Given
    parts: Parts
    table: Table
    units: Units
    problem: Problem
    draws: list[Draw] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=dict)


class KernelMachine(Summarised, Predicts, Proposes, MachineRecord, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """The machine behind every estimator; see the presets for what the parameters mean."""

    posteriors_: list[Process]

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
        self.kernel, self.loss, self.inference, self.search = kernel, loss, inference, search
        self.gram, self.basis, self.standardize = gram, basis, standardize
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel is not None and is_pairwise(self.kernel)
        return tags

    @property
    def loo_(self) -> LeftOut | None:
        """Another name of ``left_out_``."""
        return self.left_out_

    @property
    def feature_importances_(self) -> Array:
        """``relevance_`` as shares of 1 (d,), for scikit-learn's selection of features."""
        found = self.relevance_
        if found is None:
            raise AttributeError(
                "this kernel has no length scales that say how relevant each column is; use "
                "sklearn.inspection.permutation_importance"
            )
        return np.asarray(found / (found.sum() or 1.0))

    # ------------------------------------------------------------------ fit
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from X (n, d) and y (n,) or (n, m).

        ``sample_weight`` (n,): a row of weight w counts as w equal rows. If anything fails, the
        estimator stays as it was. On inducing points X may be a path, a Dask collection or a
        :class:`~mercer.BlockTable`, which is read block by block.
        """
        with restored_on_error(self):
            return self._fit(X, y, sample_weight)

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Self:
        given = self._given(X, y, sample_weight)
        parts = self._resolve(given)
        self._check(given, parts)
        table = self._merge(given, parts, self._targets(given, parts))
        if given.labels is NO_LABELS:  # labels are not centred
            parts.free_constant(len(table.points))
        units = self._units(given, parts, table)
        fit = Fit(given, parts, table, units, self._pose(given, parts, table, units))
        self._begin(fit)
        self._search(fit)
        self._condition(fit)
        self._calibrate(fit)
        return self

    def _fit_blocks(self, table: Any) -> Self:
        own = type(self)._fit is KernelMachine._fit and "gram" in self.get_params(deep=False)
        if not own:  # a child that goes its own way, or cannot do without a dense matrix
            super()._fit_blocks(table)
        from mercer.estimators.blocks.fit import learned

        learned(self, table)
        return self

    def _given(self, X: Any, y: Any, sample_weight: Any) -> Given:
        """Validate the rows."""
        check_target(y)
        X, y = read_rows(self, X, y, multi_output=True, y_numeric=True)
        weights = check_weights(sample_weight, len(X))
        return Given(X, y, weights, getattr(self, "feature_names_in_", None))

    def _resolve(self, given: Given) -> Parts:
        """Return the parts that the parameters name."""
        return self._resolved(given)

    def _resolved(self, given: Given, **changed: Any) -> Parts:
        """Return the parts of the parameters, but for those that are ``changed``."""
        names = ("kernel", "loss", "inference", "search", "gram", "basis", "standardize")
        own = {name: getattr(self, name) for name in names if hasattr(self, name)}
        parts = resolve(given.names, given.X.shape[1], **(own | changed))
        parts.weigh(given.X)
        device = getattr(self, "device", "cpu")
        if device != "cpu":
            accelerate(parts, device, (own | changed).get("gram"), len(given.X))
        return parts

    def _check(self, given: Given, parts: Parts) -> None:
        """Refuse rows from which these parts cannot learn."""
        if len(given.X) < 2 and parts.search is not None:
            raise ValueError(
                "Found 1 sample (n_samples=1): hyperparameters cannot be learned from one row; "
                "give more rows, or a kernel and a loss with search=None"
            )
        if parts.loss.latents and np.ndim(given.y) > 1 and np.shape(given.y)[1] > 1:
            raise ValueError(
                f"{type(parts.loss).__name__} has several latent functions for one target, and y "
                f"has {np.shape(given.y)[1]} columns: fit these one by one, e.g. by "
                "sklearn.multioutput.MultiOutputRegressor"
            )
        if parts.by_row and np.any(given.weights != 1.0):
            raise ValueError(
                "sample_weight works only if a row is described by its inputs alone: a noise part "
                "in the kernel, a precomputed matrix or a noise per row also depends on the row "
                "number; use one noise in the loss"
            )

    def _targets(self, given: Given, parts: Parts) -> Array:
        """Return the targets (N, m) as the loss wants them."""
        Y = as_columns(parts.loss.check_targets(as_columns(given.y)))
        noise = np.asarray(getattr(parts.loss, "noise", 0.0))
        if noise.shape == (len(given.X),):  # one for each row
            exact = given.X[noise == 0.0]
            if len(group_rows(exact)[0]) < len(exact):
                raise ValueError(
                    "repeated inputs need noise: with zero noise they are either redundant or "
                    "contradictory; give these rows a positive noise"
                )
        return Y

    def _merge(self, given: Given, parts: Parts, Y: Array) -> Table:
        """Return the table, repeated rows merged."""
        alike = "quadratic" not in parts.inference.needs  # only a quadratic averages targets
        flat = np.ndim(given.y) == 1
        beyond = parts.beyond if "gram" in self.get_params(deep=False) else tuple
        return build_table(
            given.X, Y, given.weights, parts.by_row, flat, parts.arrays, alike, beyond
        )

    def _units(self, given: Given, parts: Parts, table: Table) -> Units:
        """Return the units in which the fit works."""
        labelled = given.labels is not NO_LABELS
        joint = labelled and parts.loss.response == "multiclass"  # a function for each class number
        outputs = len(given.labels.classes) if joint else table.Y.shape[1]
        units = no_units(table.X.shape[1], outputs)
        if not parts.standardize:
            top = 0.0 if labelled else float(np.abs(table.mean).max(initial=0.0))
            if top > 1e140:
                raise ValueError(
                    f"the targets reach {top:.3g}: their squares leave the range of floating-point "
                    "numbers; give y in other units"
                )
            return units
        x_shift, x_scale = location_scale(table.points, table.total)
        units = replace(units, x_shift=x_shift, x_scale=x_scale)
        if labelled:
            return units
        y_shift, y_scale = target_units(parts.loss, table)
        return replace(units, y_shift=y_shift, y_scale=y_scale)

    def _pose(self, given: Given, parts: Parts, table: Table, units: Units) -> Problem:
        """Return the problem in these units, the basis at its points included."""
        points = units.standardised(table.points)
        function = standardised_basis(parts.basis, units)
        H = None if function is None else function(points)
        if H is not None:
            self._check_basis(H)
        problem = standardised_problem(table, units, points, H)
        if H is not None:
            parts.inference.check_basis(parts.loss, problem.y, H)
        return problem

    def _check_basis(self, H: Array) -> None:
        """Refuse a basis H (n, k) that leaves nothing to the kernel."""
        n, k = H.shape
        if k >= n:
            raise ValueError(
                f"{k} basis functions need more than {n} distinct inputs: nothing would be left to "
                "learn from; choose a smaller basis"
            )

    def _begin(self, fit: Fit) -> None:
        """State the prior: convert the parts to the units of the fit, initialise the defaults."""
        p = fit.problem
        fit.parts.start(p.points, p.y, p.weights, fit.units)

    def _search(self, fit: Fit) -> None:
        """Find the hyperparameters: ``fit.draws`` and ``fit.report``."""
        parts, rng = fit.parts, generator(self.random_state)
        parts.offset = self._in_user_units(fit, 0.0)
        fit.draws, fit.report = find_parameters(parts, fit.problem, rng)

    @staticmethod
    def _in_user_units(fit: Fit, value: float) -> float:
        """Return a log evidence of the standardised problem in the user's units."""
        H, total = fit.problem.basis, float(fit.problem.row_weights.sum())
        # coefficients scale with y, unless f is its logarithm
        scaled = H is not None and fit.parts.loss.response != "positive"
        k = H.shape[1] if H is not None and scaled else 0
        joint = fit.parts.loss.response == "multiclass"  # contrasts of the classes are free
        free = len(fit.units.y_scale) - joint
        return fit.units.evidence_in_user_units(value, total, fit.parts.basis, k, free)

    def _condition(self, fit: Fit) -> None:
        """Set the fitted attributes: the posterior of each draw, and what follows from them."""
        first, p, basis = fit.draws[0], fit.problem, fit.parts.basis
        posteriors: list[Process] = []
        losses: list[Loss] = []
        values = []
        for draw in fit.draws:
            solved = draw.solve(fit.parts, p)
            fit.parts.inference.warn(solved.solution.report)
            values.append(solved.value)
            posterior = self._posterior(fit, draw, solved)
            if draw is first:
                first_solved = solved
                left = self._left_out(fit, draw, solved, posterior)
                fit.report |= self._describe(fit, draw, solved)
                if isinstance(solved.gram, ReducedGram) and not solved.gram.exact:
                    fit.report["inducing"] |= solved.gram.report()
            members = self._discriminant(fit, draw, solved, posterior).members()
            posteriors += members
            losses += [draw.loss.for_new()] * len(members)
        self.posteriors_, self.losses_ = posteriors, losses
        self.units_, self.basis_, self.flat_ = fit.units, basis, fit.table.flat
        self.observed_ = None  # a quadratic loss says its targets by alpha and W
        if "quadratic" not in fit.parts.inference.needs:
            self.observed_ = Observed.of(p, first_solved.gram.support)
        self.kernel_ = self._stated_kernel(fit, first)
        self.loss_ = fit.units.loss_in_user_units(first.loss)
        self.log_evidence_ = None
        if fit.parts.inference.has_evidence and first.scored and first.loss.normalised:
            self.log_evidence_ = self._in_user_units(fit, max(values))
        self.left_out_ = None if isinstance(left, str) else left
        if isinstance(left, str):
            fit.report["left_out"] = left
        if not first_solved.solution.factor.exact:
            low, high = first_solved.bounds()
            both = [None if b is None else self._in_user_units(fit, b) for b in (low, high)]
            fit.report["evidence_bounds"] = None if low is None else both
        fit.report["density"] = self._density(fit, first.loss)
        self.relevance_ = relevance(first.kernel, p.points, p.weights)
        self.report_ = fit.report
        if said := infinite_variance(self.loss_):
            self.report_["variance"] = said

    @property
    def evidence_bounds_(self) -> tuple[float | None, float | None] | None:
        """Between which numbers the log evidence of the exact model lies; None if not known."""
        found = self.report_.get("evidence_bounds")
        return None if found is None else (found[0], found[1])

    def _posterior(self, fit: Fit, draw: Draw, solved: Solved) -> Posterior:
        """Return the posterior process of a draw."""
        solution, p = solved.solution, fit.problem
        prior = Prior(draw.kernel, solution.alpha.shape[1])
        basis = standardised_basis(fit.parts.basis, fit.units)
        return prior.condition(p.points, solution, basis, solved.gram)

    def _discriminant(self, fit: Fit, draw: Draw, solved: Solved, posterior: Posterior) -> Process:
        """Return the process that predicts; this is the posterior."""
        return posterior

    def _left_out(self, fit: Fit, draw: Draw, solved: Solved, posterior: Posterior) -> Figures:
        """Return every row from the others, in the user's units; or why that is not known."""
        if not posterior.has_spread and not solved.gram.exact:
            return LANDMARKS
        kind = {
            "spread": posterior.has_spread,
            "quadratic": "quadratic" in fit.parts.inference.needs,
            "centred": fit.parts.centred,
        }
        if not solved.solution.factor.has_diagonal:
            return (
                "an iterative solution has no diagonal of the inverse, which leave-one-out figures "
                "need: use gram='inducing' or 'dense'"
            )
        found = left_out_figures(fit.problem, solved.gram, draw.loss, solved.solution, **kind)
        if isinstance(found, str):
            return found
        return of_all_rows(found, fit.table, fit.units, draw.loss, posterior)

    def _describe(self, fit: Fit, draw: Draw, solved: Solved) -> dict[str, Any]:
        """Return what was done to the numbers, as plain values."""
        degrees = None
        if fit.parts.inference.has_evidence:
            degrees = _degrees_of_freedom(draw.kernel, fit.problem, solved)
        told = {"gram": solved.gram.name, "degrees_of_freedom": degrees}
        if getattr(self, "device", "cpu") != "cpu":
            told["device"] = "cpu" if fit.parts.device is None else fit.parts.device.name
        return described(fit, solved) | told

    def _density(self, fit: Fit, loss: Loss) -> dict[str, Any]:
        """Return what evidence and left-out figures are densities of."""
        given, table, machines = fit.given, fit.table, 1
        y, left = table.Y, self.left_out_
        if given.labels is not NO_LABELS:
            left = None if left is None or left.codes is None else left  # labels taken for numbers
            y = given.labels.codes[:, None].astype(np.float64)
            machines = 1 if loss.response == "multiclass" else table.Y.shape[1]
        flat = up_to(flat_words(fit.parts.basis, table.points, table.total))
        evidence, left_out = self._measures(loss, machines)
        return described_density(given.X, y, given.weights, evidence + flat, left_out, left)

    def _measures(self, loss: Loss, machines: int) -> tuple[str, str]:
        """Return what evidence and left-out densities measure, of so many ``machines``."""
        return measure(loss, machines), measure(loss)  # classes left out have one probability each

    def _stated_kernel(self, fit: Fit, draw: Draw) -> Kernel:
        """Return the fitted kernel in the user's units."""
        units, kernel = fit.units, draw.kernel
        if draw.loss.latents:
            each = [units.of_latent(draw.loss, j) for j in range(len(draw.loss.latents))]
            parts = kernel.get_params(deep=False)["parts"]
            both = zip(each, parts, strict=True)
            return Several([one.kernel_in_user_units(part) for one, part in both])
        return units.of_latent(draw.loss).kernel_in_user_units(kernel)

    def _calibrate(self, fit: Fit) -> None:
        """Add what follows from the figures of left-out rows: nothing here."""

    # ------------------------------------------------------------------ what was fitted
    def _parameter_words(self) -> dict[str, str]:
        """Return what parameters of this estimator's parts mean, where that is not the usual."""
        return {}


def of_all_rows(
    found: LeftOut, table: Table, units: Units, loss: Loss, posterior: Posterior
) -> LeftOut:
    """Return figures of the rows that count as those of all rows, in the user's units."""
    unused, others = table.weights == 0, None
    if np.any(unused):
        y = units.y_standardised(table.Y[unused])
        others = predicted(loss, posterior, units.standardised(table.X[unused]), y)
    return units.left_out_in_user_units(found.among(table.keep, others, table.weights), table.flat)


def described(fit: Fit, solved: Solved) -> dict[str, Any]:
    """Return what every fit says of its rows, units and inference."""
    name = type(fit.parts.inference).__name__
    return {
        "standardize": {"on": fit.parts.standardize} | describe_units(fit.units),
        "rows": describe_rows(fit.problem, fit.problem.row_weights),
        "inference": {"name": name, **solved.solution.report.plain()},
    }


def _degrees_of_freedom(kernel: Kernel, problem: Problem, solved: Solved) -> float | None:
    """Trace of the smoother y -> fitted signal: tr(K C) (+ k with a basis).

    None for several latent functions, and where the kernel has noise parts and a loss its own.
    """
    W, factor = solved.solution.W, solved.solution.factor
    if isinstance(factor, CoupledFactor) or not factor.has_diagonal:
        return None
    signal = kernel.noise_free()
    if signal is kernel:  # tr(K C) = tr(Sigma W), K C = I - W^-1 C
        if np.all(W > 0.0):
            return float((1.0 - factor.diag() / W).sum())
        return float(W @ factor.cov_diag())
    if signal is None or not solved.gram.exact:
        return None
    k = 0 if problem.basis is None else problem.basis.shape[1]
    if solved.gram.few:
        F = signal.explicit(problem.points)
        return float(np.einsum("ij,ij->", F, factor.solve(F))) + k
    C = factor.solve(np.eye(len(problem.points)))
    return float(np.einsum("ij,ij->", signal(problem.points), C)) + k


def generator(random_state: Any) -> np.random.Generator:
    """Return a random generator; None is a fixed seed, so that fits repeat."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    seed = check_random_state(0 if random_state is None else random_state)
    return np.random.default_rng(seed.randint(2**31 - 1))
