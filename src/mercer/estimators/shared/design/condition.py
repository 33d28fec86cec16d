"""Further rows without a new search: ``model.condition(X, y)``. Theory (D5).

Gaussian noise on a dense Gram: the Cholesky factor gets new rows, O(n^2) for each. Otherwise the
posterior of all rows is solved for again with the hyperparameters found, from the old one.
"""

from __future__ import annotations

from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.special import softmax
from sklearn.base import is_classifier
from sklearn.utils.validation import check_consistent_length, column_or_1d

from mercer.core.arrays import Array, Index
from mercer.core.errors import NotPositiveDefiniteError
from mercer.estimators.shared.labels import NO_LABELS, Labelled, row_weights
from mercer.estimators.shared.machine import Fit, Given, KernelMachine
from mercer.estimators.shared.parameters import Draw, Solved
from mercer.estimators.shared.parts import Parts
from mercer.estimators.shared.record import Observed
from mercer.estimators.shared.table import build_table, check_target, check_weights, read_inputs
from mercer.estimators.shared.units import standardised_basis
from mercer.inference.base import Problem, Report, Solution
from mercer.linalg.gram import NoSpread
from mercer.linalg.operators import (
    REPEATED,
    CholeskyOperator,
    PosteriorOperator,
    SeveralOperator,
)
from mercer.losses.base import Loss
from mercer.losses.numbers.special import LOG_2PI
from mercer.process.process import Posterior, Prior

LEFT_OUT = "rows were added by condition: fit all of them for figures of rows left out"
EXTENDED = "the Cholesky factor was extended: O(n^2) for each row"
SOLVED = "the posterior of all rows was solved for again, begun from the old one"


@dataclass(frozen=True)
class NewRows:
    """Distinct new points in the units of the fit, with what was observed there."""

    points: Array  # (q, d)
    y: Array  # (q, m)
    weights: Array  # (q,)
    spread: Array  # (q, m) sum of squares about y


def conditioned(model: Any, X: Any, y: Any, sample_weight: Any) -> Any:
    """Do :meth:`~mercer.estimators.shared.design.propose.Proposes.condition`."""
    if hasattr(model, "partial_fit"):
        return deepcopy(model).partial_fit(X, y, sample_weight=sample_weight)
    _check(model)
    given = _given(model, X, y, sample_weight)
    twin = copy(model)
    for name, value in model.get_params(deep=False).items():
        setattr(twin, name, deepcopy(value))
    parts = twin._resolve(given)
    parts.basis, units = model.basis_, model.units_
    table = twin._merge(given, parts, twin._targets(given, parts))
    points = units.standardised(table.points)
    if given.labels is not NO_LABELS:
        rows = NewRows(points, table.mean, table.total, table.spread)
    else:
        spread = table.spread / units.y_scale**2
        rows = NewRows(points, units.y_standardised(table.mean), table.total, spread)
    gaussian = "quadratic" in parts.inference.needs
    if gaussian and all(p.operator.grows for p in model.posteriors_):
        twin.posteriors_ = [
            p.observing(points, rows.y, _noise(p, g, rows)) for p, g in _members(model)
        ]
        evidence, solution, how = None, None, EXTENDED
    else:
        evidence, solution = _solve_again(twin, given, parts, rows)
        how = SOLVED
    if gaussian and model.log_evidence_ is not None:  # log p(all) = log p(old) + log p(new | old)
        change = _gain(*_members(model)[0], rows)
        change -= float(rows.weights.sum()) * float(np.log(units.y_scale).sum())
        evidence = model.log_evidence_ + change
    twin.log_evidence_ = evidence if len(model.posteriors_) == 1 else None
    twin.left_out_ = None
    twin.report_ = _report(model, twin, len(given.X), float(rows.weights.sum()), how, solution)
    return twin


def _members(model: Any) -> list[tuple[Any, Loss]]:
    return list(zip(model.posteriors_, model.losses_, strict=True))


# ---------------------------------------------------------------------- what comes in
def _check(model: Any) -> None:
    """Refuse a model that does not keep what new rows would need."""
    name = type(model).__name__
    plain = (
        model._keeps_rows
        and isinstance(model, KernelMachine)
        and all(isinstance(p, Posterior) and isinstance(p.parent, Prior) for p in model.posteriors_)
    )
    if not plain:
        raise ValueError(
            f"{name} does not keep what new rows need to be added: fit all rows together; "
            "GPRegressor and GPClassifier take new rows, OnlineLogisticClassifier, MEDClassifier "
            "and LapMEDClassifier learn streams"
        )
    if model.posteriors_[0].parent.kernel.pairwise:
        raise ValueError(
            "a precomputed kernel says nothing of new rows among themselves: give "
            "Precomputed(matrix) of all rows, and row numbers of it as X"
        )
    if np.ndim(getattr(model.loss_, "noise", 0.0)):
        raise ValueError(
            "the noise was given for each training row, and that of new rows is not known: fit all "
            "rows with their noise"
        )
    kept = model.observed_ is not None
    if not kept and any(_precision(p) is None for p in model.posteriors_):
        other = ", or fit with gram='dense'" if "gram" in model.get_params(deep=False) else ""
        raise ValueError(
            f"this {name} ({model.report_.get('gram', 'its')} representation) does not keep what "
            f"new rows need to be added: fit all rows together{other}"
        )
    if is_classifier(model) and not kept:
        raise ValueError(
            f"{name} learns its probabilities from rows left out, is a committee that keeps its "
            "supports alone, or was written by an earlier version of mercer: fit all rows together"
        )


def _given(model: Any, X: Any, y: Any, sample_weight: Any) -> Given:
    """Validate new rows: columns as in the fit, targets or known labels."""
    X, names = read_inputs(model, X), getattr(model, "feature_names_in_", None)
    check_consistent_length(X, y)
    weights = check_weights(sample_weight, len(X))
    if not is_classifier(model):
        check_target(y)
        y = np.asarray(y, dtype=np.float64)
        m = len(model.units_.y_scale)
        if (1 if y.ndim == 1 else y.shape[1]) != m:
            raise ValueError(f"y has shape {y.shape}, and the model has {m} targets")
        return Given(X, y[:, 0] if model.flat_ and y.ndim == 2 else y, weights, names)
    classes, values = model.classes_, column_or_1d(y)
    codes = np.minimum(np.searchsorted(classes, values), len(classes) - 1)
    odd = np.flatnonzero(classes[codes] != values)
    if len(odd):
        raise ValueError(
            f"y has the label {values.tolist()[odd[0]]!r} in row {odd[0]}, and the model knows "
            f"{classes.tolist()}: fit all rows to learn another class"
        )
    if isinstance(model.class_weight, str):
        raise ValueError(
            "class_weight='balanced' weighs all rows by how many there are of each class, which "
            "new rows change: fit all rows together, or give class_weight as a dict"
        )
    counted = row_weights(model.class_weight, classes, codes, sample_weight)
    return Given(X, y, counted, names, Labelled(classes, codes, weights, counted))


# ---------------------------------------------------------------------- Gaussian noise
def _noise(posterior: Posterior, loss: Loss, rows: NewRows) -> Array:
    """Return the covariance (q, q) of new observations given f."""
    with np.errstate(divide="ignore"):
        own = np.diag(1.0 / (rows.weights * loss.quadratic(rows.y)[1]))
    part = posterior.noise_cov(rows.points)
    return own if part is None else own + part


def _gain(posterior: Posterior, loss: Loss, rows: NewRows) -> float:
    """Return the log density of the new observations given the old, in the units of the fit."""
    (q, m), w = rows.y.shape, rows.weights
    rest = rows.y - posterior.mean(rows.points)
    S = posterior(rows.points) + _noise(posterior, loss, rows)
    try:
        L = cholesky(0.5 * (S + S.T), lower=True)
    except LinAlgError:
        raise NotPositiveDefiniteError(REPEATED) from None
    value: float = -0.5 * float(np.square(solve_triangular(L, rest, lower=True)).sum())
    value -= m * (float(np.log(np.diagonal(L)).sum()) + 0.5 * q * LOG_2PI)
    if np.any(w != 1.0):  # as in Exact.evidence: several observations at one point
        precision = loss.quadratic(rows.y)[1]
        value += 0.5 * m * float(((w - 1.0) * (np.log(precision) - LOG_2PI)).sum())
        value -= 0.5 * m * float(np.log(w).sum())
        value -= 0.5 * float(precision @ rows.spread.sum(axis=1))
    return value


def _precision(posterior: Posterior) -> Array | None:
    """Return W (n,) or (n, m) of the points of a posterior, None if the operator hides it."""
    kernel = posterior.parent.kernel  # type: ignore[attr-defined]  # a Prior has it

    def of(operator: PosteriorOperator) -> Array | None:
        if isinstance(operator, CholeskyOperator):  # scale^-2 = K_ii + 1/W_i
            with np.errstate(divide="ignore"):
                own = 1.0 / np.square(operator.scale)
                return np.asarray(1.0 / (own - kernel.diag(posterior.points)))
        return getattr(operator, "W", None)

    if isinstance(posterior.operator, SeveralOperator):
        each = [of(operator) for operator in posterior.operator.operators]
        return None if any(W is None for W in each) else np.column_stack(each)  # type: ignore[arg-type]  # none is None
    return of(posterior.operator)


# ---------------------------------------------------------------------- all rows again
def _solve_again(
    twin: Any, given: Given, parts: Parts, rows: NewRows
) -> tuple[float | None, Solution]:
    """Solve for the posterior of all rows with the hyperparameters found; set what follows."""
    if parts.inducing is not None or parts.iterative is not None:
        raise ValueError(
            "a representation by few points or by iterations does not keep the rows: fit all of "
            "them together"
        )
    posteriors, values, solutions = [], [], []
    for posterior, loss in _members(twin):
        problem, old = _problem(twin, posterior, parts, loss, rows)
        gram = parts.make_gram(posterior.parent.kernel, problem.points, scratch=False)
        start = _start(posterior, loss, problem, old)
        found = parts.inference.solve(
            gram, problem.y, loss, basis=problem.basis, weights=problem.weights, start=start
        )
        parts.inference.warn(found.report)
        value = -np.inf
        if parts.inference.has_evidence:
            value = parts.inference.evidence(gram, problem.y, loss, found).value
        table = build_table(problem.points, problem.y, problem.weights, True, twin.flat_)
        fit = Fit(given, parts, table, twin.units_, problem, report={})
        solved, draw = Solved(problem, gram, found, value), Draw(posterior.parent.kernel, loss)
        after = twin._posterior(fit, draw, solved)
        posteriors.append(twin._discriminant(fit, draw, solved, after))
        solutions.append(found)
        values.append(twin._in_user_units(fit, value))
        if twin.observed_ is not None:
            twin.observed_ = Observed(problem.y, problem.weights)
    twin.posteriors_ = posteriors
    return (values[0] if parts.inference.has_evidence else None), solutions[0]


def _problem(
    model: Any, posterior: Posterior, parts: Parts, loss: Loss, rows: NewRows
) -> tuple[Problem, Index]:
    """Return the problem of old and new rows, and the place of each old point in it."""
    kept, P = model.observed_, posterior.points
    if kept is not None:
        y, weights, alike = kept.y, kept.weights, True
    else:  # y = f + alpha / W, and W = weight / noise
        W = _precision(posterior)
        assert W is not None
        y = posterior.mean(P) + posterior.alpha / W[:, None]
        weights, alike = W / loss.quadratic(y)[1], False
    points, Y = np.concatenate([P, rows.points]), np.concatenate([y, rows.y])
    total = np.concatenate([weights, rows.weights])
    table = build_table(points, Y, total, parts.by_row, model.flat_, parts.arrays, alike)
    basis = standardised_basis(parts.basis, model.units_)
    H = None if basis is None else basis(table.points)
    spread = np.zeros_like(table.mean)  # what repeated rows add to an evidence is counted elsewhere
    return (
        Problem(table.points, table.mean, table.total, spread, H, table.group, Y, total),
        table.group[: len(P)],
    )


def _start(posterior: Posterior, loss: Loss, problem: Problem, old: Index) -> Solution | None:
    """Return the old posterior as a beginning for all rows: the new ones say nothing yet."""
    known = _precision(posterior)
    if known is None or not np.all(np.isfinite(known)):
        return None
    alpha = np.zeros((len(problem.points), posterior.alpha.shape[1]))
    W = np.zeros((len(problem.points), *known.shape[1:]))
    np.add.at(alpha, old, posterior.alpha)
    np.add.at(W, old, known)
    f = posterior.mean(problem.points)
    if loss.response == "multiclass":  # D = w p of a row is never all zero
        W = np.where(W.any(axis=1, keepdims=True), W, problem.weights[:, None] * softmax(f, axis=1))
    columns = tuple(Report() for _ in range(alpha.shape[1])) if alpha.shape[1] > 1 else ()
    report = Report(columns=columns)
    return Solution(alpha, W, f, NoSpread(np.empty(0)), None, problem.weights, report)


def _report(
    model: Any, twin: Any, rows: int, weight: float, how: str, solution: Solution | None
) -> dict[str, Any]:
    """Return the report of the model with what was done added, and without what no longer holds."""
    report: dict[str, Any] = deepcopy(model.report_)
    before = report.get("conditioned", {"rows": 0})
    report["conditioned"] = {"rows": before["rows"] + rows, "how": how}
    if len(model.posteriors_) > 1:
        report["conditioned"]["members"] = (
            "each was given the rows; they keep equal shares, and no evidence is stated"
        )
    counted = report.get("rows")
    if counted is not None:
        report["rows"] = {
            "used": counted["used"] + rows,
            "distinct": len(twin.posteriors_[0].points),
            "weight": counted["weight"] + weight,
        }
    if solution is not None:
        report["inference"] = {"name": report["inference"]["name"], **solution.report.plain()}
    report |= {"left_out": LEFT_OUT, "density": None, "degrees_of_freedom": None}
    return report
