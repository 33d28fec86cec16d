"""KernelMachine: the data flow from a table to a posterior, written once.

    validate -> standardise -> merge repeated rows -> search -> condition -> report
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from mercer import inference as inferences
from mercer import losses
from mercer import search as searches
from mercer.arrays import Array, as_columns
from mercer.basis import Basis, as_basis
from mercer.component import Component
from mercer.estimators import ard
from mercer.estimators.state import Stateful
from mercer.estimators.table import (
    check_finite,
    check_weights,
    distinct_at_least,
    group_rows,
    merge,
)
from mercer.estimators.units import Units, location_scale, no_units
from mercer.inference.base import Inference, Solution
from mercer.kernels import as_kernel
from mercer.kernels.base import Kernel
from mercer.linalg.dense import DenseGram
from mercer.linalg.gram import Gram
from mercer.linalg.memory import require_memory
from mercer.losses.base import Loss
from mercer.process import Loo, Posterior, Prior
from mercer.search import Criterion, EvidenceCriterion, LooCriterion, Problem, Search, Space
from mercer.search.loo import Left

# Noise of a loss given by name: where it starts and how far it may go, relative to var(y).
NOISE_START, NOISE_BOUNDS = 0.1, (1e-8, 1e2)


@dataclass
class Parts:
    """The resolved parts of a fit: in inside units, with what was left to the defaults."""

    kernel: Kernel
    loss: Loss
    inference: Inference
    search: Search | None
    basis: Basis | None
    standardize: bool
    own_kernel: bool
    bounds: dict[str, tuple[float, float]]


@dataclass
class Table:
    """The validated table in the user's units: X (n, d), Y (n, m), weights (n,)."""

    X: Array
    Y: Array
    weights: Array
    units: Units
    flat: bool


class KernelMachine(Stateful, BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """The machine behind every estimator; see the presets for what the parameters mean."""

    posteriors_: list[Posterior]
    report_: dict[str, Any]

    def __init__(
        self,
        kernel: Any = None,
        *,
        loss: Any = "gaussian",
        inference: Any = "exact",
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

    # ------------------------------------------------------------------ fit
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from X (n, d) and y (n,) or (n, m).

        ``sample_weight`` (n,): a row of weight w counts as w equal rows.
        """
        X, y = validate_data(
            self,
            X,
            y,
            dtype=np.float64,
            order="C",
            multi_output=True,
            y_numeric=True,
            ensure_all_finite=False,
        )
        names = getattr(self, "feature_names_in_", None)
        check_finite(X, "X", names)
        check_finite(y, "y")
        weights = check_weights(sample_weight, len(X))
        parts = self._resolve(X.shape[1], names)
        if len(X) < 2 and parts.search is not None:
            raise ValueError(
                "Found 1 sample (n_samples=1): hyperparameters cannot be learned from one row; "
                "give more rows, or a kernel and loss with search=None"
            )
        make_gram = self._gram_maker()
        Y = parts.loss.check_targets(as_columns(y))
        units = self._units(parts, X, Y, weights)
        table = Table(X, Y, weights, units, flat=np.ndim(y) == 1)
        problem = self._problem(parts, table)
        self._start(parts, problem)
        draws, report = self._search(parts, problem, make_gram, generator(self.random_state))
        self._finish(parts, table, problem, draws, report)
        return self

    def _resolve(self, d: int, names: Any) -> Parts:
        """Turn strings into parts and check that they fit together, before any work."""
        by_string = self.kernel is None or isinstance(self.kernel, str)
        kernel = as_kernel("rbf" if self.kernel is None else self.kernel)
        kernel = cast(Kernel, kernel.__sklearn_clone__()).resolve(
            None if names is None else list(names), d
        )
        positional = _any_positional(kernel)
        if by_string and not positional:
            kernel = 1.0 * kernel
        if self.standardize not in (True, False, "auto"):
            raise ValueError(f"standardize must be True, False or 'auto', not {self.standardize!r}")
        auto = by_string and not positional
        standardize = auto if self.standardize == "auto" else bool(self.standardize)
        loss = losses.by_name(self.loss) if isinstance(self.loss, str) else self.loss
        if not isinstance(loss, Loss):
            raise TypeError(f"loss must be a Loss or the name of one, not {loss!r}")
        inference = inferences.by_name(self.inference)
        search = searches.by_name(self.search)
        inference.check(loss)
        return Parts(
            kernel,
            loss.__sklearn_clone__(),
            inference,
            search,
            as_basis(self.basis),
            standardize,
            not by_string,
            {},
        )

    def _units(self, parts: Parts, X: Array, Y: Array, weights: Array) -> Units:
        if not parts.standardize:
            return no_units(X.shape[1], Y.shape[1])
        shift, scale = location_scale(X, weights)
        y_shift, y_scale = location_scale(Y, weights)
        return Units(shift, scale, y_shift, y_scale)

    def _problem(self, parts: Parts, table: Table) -> Problem:
        units, keep = table.units, table.weights > 0
        inside, y = units.inside(table.X[keep]), units.y_inside(table.Y[keep])
        n, weights = len(inside), table.weights[keep]
        if _any_positional(parts.kernel):
            if np.any(weights != 1.0):
                raise ValueError(
                    "sample weights need a kernel of the inputs alone: a noise part or a "
                    "precomputed matrix has no meaning for a weighted row; use the loss's noise "
                    "instead of a noise part in the kernel"
                )
            first = group = np.arange(n)
        elif np.ndim(getattr(parts.loss, "noise", 0.0)):
            first = group = np.arange(n)  # noise per row: rows stay as they are
        else:
            require_memory(min(n, distinct_at_least(inside)), arrays=3)
            first, group = group_rows(inside)
        require_memory(len(first), arrays=3)
        mean, total, spread = merge(group, len(first), y, weights)
        points = np.ascontiguousarray(inside[first])
        return Problem(
            points,
            mean,
            total,
            spread,
            _basis_at(parts.basis, units, points),
            group,
            y,
            weights,
        )

    def _start(self, parts: Parts, problem: Problem) -> None:
        """Put the start values of what the user left open at the data's own scale."""
        variance = float(np.var(problem.rows, axis=0).mean()) or 1.0
        if isinstance(self.loss, str) and "noise" in parts.loss.domains:
            parts.loss.set_params(noise=NOISE_START * variance)
            low, high = NOISE_BOUNDS
            parts.bounds["loss__noise"] = (low * variance, high * variance)
        if not parts.own_kernel:
            for owner in ard.tied_scales(parts.kernel):
                owner.set_params(length_scale=float(np.sqrt(problem.points.shape[1])))

    def _gram_maker(self) -> Any:
        if self.gram not in ("auto", "dense"):
            raise ValueError(f"unknown gram {self.gram!r}; known are auto, dense")
        return DenseGram

    # ------------------------------------------------------------------ search
    def _search(
        self, parts: Parts, problem: Problem, make_gram: Any, rng: np.random.Generator
    ) -> tuple[list[tuple[Kernel, Loss]], dict[str, Any]]:
        if parts.search is None:
            return [(parts.kernel, parts.loss)], {"search": None}
        results = self._run(parts, parts.kernel, problem, make_gram, rng)
        report: dict[str, Any] = {"search": results[0][2].report}
        d = problem.points.shape[1]
        tied = [] if parts.own_kernel else ard.tied_scales(parts.kernel)
        interrupted = results[0][2].report.get("interrupted", False)
        if tied and d > 1 and not interrupted:
            untied = ard.untied(results[0][0], d)
            others = self._run(parts, untied, problem, make_gram, rng, restarts=0)
            kept, report["ard"] = ard.worth_it(
                results[0][2].value,
                others[0][2].value,
                (d - 1) * len(tied),
                float(problem.row_weights.sum()),
            )
            report["ard"]["search"] = others[0][2].report
            if kept:
                results = others
        return [(kernel, loss) for kernel, loss, _ in results], report

    def _run(
        self,
        parts: Parts,
        kernel: Kernel,
        problem: Problem,
        make_gram: Any,
        rng: np.random.Generator,
        restarts: int | None = None,
    ) -> list[tuple[Kernel, Loss, searches.Result]]:
        search = cast(Search, parts.search).__sklearn_clone__()
        if restarts is not None and "restarts" in search.parameter_names():
            search.set_params(restarts=restarts)
        space = Space({"kernel": kernel, "loss": parts.loss}, parts.bounds)
        kind: type[Criterion] = EvidenceCriterion
        if search.get_params().get("criterion") == "loo":
            kind = LooCriterion
        criterion = kind(space, problem, parts.inference, make_gram)
        found = []
        for result in search.run(criterion, space, rng):
            at = space.parts_at(result.u)
            found.append((cast(Kernel, at["kernel"]), cast(Loss, at["loss"]), result))
        return found

    # ------------------------------------------------------------------ condition and report
    def _finish(
        self,
        parts: Parts,
        table: Table,
        problem: Problem,
        draws: list[tuple[Kernel, Loss]],
        report: dict[str, Any],
    ) -> None:
        posteriors, values, units = [], [], table.units
        for kernel, loss in draws:
            gram: Gram = self._gram_maker()(kernel, problem.points)
            solution = parts.inference.solve(
                gram, problem.y, loss, basis=problem.basis, weights=problem.weights
            )
            evidence = parts.inference.evidence(
                gram, problem.y, loss, solution, spread=problem.spread
            )
            values.append(evidence.value)
            prior = Prior(kernel, problem.y.shape[1])
            posterior = prior.condition(
                problem.points, solution, basis_inside(parts.basis, units)
            )
            if not posteriors:
                loo = self._leave_one_out(problem, loss, solution, posterior, table)
                report.update(self._describe(parts, units, problem, solution))
            posteriors.append(posterior)
        k = 0 if problem.basis is None else problem.basis.shape[1]
        total = float(problem.row_weights.sum())
        # Everything is computed: only now the estimator changes.
        self.posteriors_ = posteriors
        self.losses_ = [loss for _, loss in draws]
        self.units_ = units
        self.flat_ = table.flat
        self.basis_ = parts.basis
        self.kernel_ = units.kernel_outside(draws[0][0])
        self.loss_ = units.loss_outside(draws[0][1])
        self.log_evidence_ = units.evidence_outside(max(values), total, parts.basis, k)
        self.loo_ = loo
        self.relevance_ = _relevance(draws[0][0], problem.points.shape[1])
        self.report_ = report

    def _leave_one_out(
        self,
        problem: Problem,
        loss: Loss,
        solution: Solution,
        posterior: Posterior,
        table: Table,
    ) -> Loo:
        """Every row from the others; a row of weight zero is predicted from all that count."""
        units, keep = table.units, table.weights > 0
        left = Left(problem, solution, loss.quadratic(problem.y)[1])
        mean, variance, density = (np.empty(table.Y.shape) for _ in range(3))
        mean[keep] = problem.rows - left.residual
        variance[keep] = left.variance[:, None]
        density[keep] = left.log_density()
        if not np.all(keep):
            inside = units.inside(table.X[~keep])
            y, latent = units.y_inside(table.Y[~keep]), posterior.var(inside)[:, None]
            mean[~keep], variance[~keep] = loss.predict(posterior.mean(inside), latent)
            density[~keep] = loss.log_predictive(y, posterior.mean(inside), latent)
        shaped = (
            units.y_outside(mean),
            variance * units.y_scale**2,
            density - np.log(units.y_scale),
        )
        return Loo(*(a[:, 0] if table.flat else a for a in shaped), table.weights)

    def _describe(
        self, parts: Parts, units: Units, problem: Problem, solution: Solution
    ) -> dict[str, Any]:
        with np.errstate(invalid="ignore"):
            share = solution.factor.diag() / solution.W
        return {
            "standardize": {
                "on": parts.standardize,
                "x_shift": units.x_shift.tolist(),
                "x_scale": units.x_scale.tolist(),
                "y_shift": units.y_shift.tolist(),
                "y_scale": units.y_scale.tolist(),
            },
            "rows": {
                "used": len(problem.rows),
                "distinct": len(problem.points),
                "weight": float(problem.row_weights.sum()),
            },
            "inference": {"name": type(parts.inference).__name__, **solution.report},
            "gram": "dense",
            "degrees_of_freedom": float(len(share) - share.sum()),
        }

    # ------------------------------------------------------------------ shared by predictions
    def _inputs(self, X: Any) -> Array:
        check_is_fitted(self, "posteriors_")
        X = validate_data(
            self, X, dtype=np.float64, order="C", reset=False, ensure_all_finite=False
        )
        check_finite(X, "X", getattr(self, "feature_names_in_", None))
        return self.units_.inside(X)


def _any_positional(kernel: Component) -> bool:
    """Whether some part of the kernel depends on which row it is, not only on the inputs."""
    if getattr(kernel, "positional", False):
        return True
    return any(_any_positional(child) for child in kernel.children().values())


def basis_inside(basis: Basis | None, units: Units) -> Any:
    """Return the basis as a function of the inputs in inside units."""
    if basis is None or not basis.raw:
        return basis
    return lambda X: basis(units.outside(X))


def _basis_at(basis: Basis | None, units: Units, points: Array) -> Array | None:
    function = basis_inside(basis, units)
    return None if function is None else cast(Array, function(points))


def _relevance(kernel: Kernel, d: int) -> Array | None:
    """1 / length scale of each column in inside units, where the kernel has such scales."""
    scales = [
        np.asarray(getattr(owner, name), dtype=np.float64)
        for _, owner, name in kernel.differentiable()
        if name == "length_scale"
    ]
    if len(scales) != 1 or scales[0].size not in (1, d):
        return None
    return np.asarray(1.0 / np.broadcast_to(scales[0], (d,)))


def generator(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, np.random.Generator):
        return random_state
    seed = check_random_state(0 if random_state is None else random_state)
    return np.random.default_rng(seed.randint(2**31 - 1))
