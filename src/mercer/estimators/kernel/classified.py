"""From a table with classes to a problem, a search over it, and its leave-one-out figures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from mercer.core.arrays import Array, Index
from mercer.core.rows import location_scale
from mercer.estimators.shared import labels
from mercer.estimators.shared.left_out import cavities
from mercer.estimators.shared.parts import Parts, data_scales
from mercer.estimators.shared.predictions import latent, log_probabilities
from mercer.estimators.shared.table import Table, build_table
from mercer.estimators.shared.units import Units, basis_inside, no_units
from mercer.inference.base import Solution
from mercer.kernels import Constant
from mercer.kernels.base import Kernel
from mercer.left_out.figures import ClassLoo
from mercer.left_out.margins import FREE_BIAS, JOINT, NOT_CONVEX, MarginLoo
from mercer.linalg.gram import Gram
from mercer.losses.base import Loss
from mercer.process.process import Posterior
from mercer.search import LooBound, LooBoundCriterion, Problem, Space
from mercer.search.criteria.bound import bounded_margins, left_out_latent


@dataclass
class Classified:
    """A table with classes as a fit sees it.

    Attributes
    ----------
    table : the rows, merged where inputs and class are the same.
    units : of the columns; targets have none.
    problem : the data of the fit.
    codes, rows : (N,) the class and the sample weight of every row given.
    """

    table: Table
    units: Units
    problem: Problem
    codes: Index
    rows: Array

    def drop_basis(self, parts: Parts) -> None:
        """Put a constant into the kernel in place of the basis."""
        parts.kernel = parts.kernel + Constant(1.0).fix()
        parts.basis = None
        self.problem = replace(self.problem, basis=None)


def prepare(
    parts: Parts, X: Array, codes: Index, k: int, weights: Array, rows: Array
) -> Classified:
    """Encode the classes as the loss wants them, merge rows, standardise the columns."""
    joint = parts.loss.response == "multiclass"
    if joint:
        Y = codes[:, None].astype(np.float64)
    elif k == 2:
        Y = labels.binary_targets(codes)[:, None]
    else:
        Y = labels.one_vs_rest(codes, k)
    outputs = k if joint else Y.shape[1]
    table = build_table(X, Y, weights, parts.by_row, outputs == 1, parts.arrays, alike=True)
    units = no_units(X.shape[1], outputs)
    if parts.standardize:
        shift, scale = location_scale(table.points, table.total)
        units = Units(shift, scale, units.y_shift, units.y_scale)
    points = units.inside(table.points)
    function = basis_inside(parts.basis, units)
    H = None if function is None else function(points)
    if H is not None and np.linalg.matrix_rank(H) < H.shape[1]:
        raise ValueError(
            f"the {H.shape[1]} basis functions are linearly dependent on the {len(H)} distinct "
            "training rows; choose a smaller basis"
        )
    keep = table.keep
    left_out = weights[keep] * np.minimum(1.0, 1.0 / rows[keep])  # one row, with its class weight
    problem = Problem(
        points,
        table.mean,
        table.total,
        table.spread,
        H,
        table.group,
        table.Y[keep],
        rows[keep],
        left_out=left_out,
    )
    return Classified(table, units, problem, codes, rows)


def searched(parts: Parts, problem: Problem, rng: np.random.Generator) -> dict[str, Any] | None:
    """Search the kernel's parameters and take them; return the report."""
    if parts.search is None:
        return None
    figure = parts.search.get_params().get("figure", "bound")
    if not isinstance(parts.search, LooBound):
        raise ValueError(
            "a kernel classifier searches by 'loo_bound' or LooBound() only; GPClassifier searches "
            "by the evidence"
        )
    if parts.loss.response == "multiclass":
        raise ValueError(JOINT)
    if not parts.loss.convex:
        raise ValueError(NOT_CONVEX)
    space = Space({"kernel": parts.kernel, "loss": parts.loss.fix()})
    if not parts.named_kernel:
        latent = np.ones((len(problem.points), 1))
        space.suggest(data_scales(parts.kernel, problem.points, latent, problem.weights))
    criterion = LooBoundCriterion(space, problem, parts.inference, parts.make_gram, figure=figure)
    (found,) = parts.search.run(criterion, space, rng)
    parts.kernel = cast(Kernel, space.parts_at(found.u)["kernel"])
    return found.report


def class_loo(
    data: Classified,
    gram: Gram,
    loss: Loss,
    solution: Solution,
    posterior: Posterior,
    k: int,
) -> ClassLoo:
    """Every row from the others; a row of weight zero is predicted from all that count."""
    table, problem = data.table, data.problem
    proba = np.empty((len(table.X), k))
    pair = cavities(problem, gram, loss, solution)
    proba[table.keep] = np.exp(log_probabilities(loss, *pair))
    unused = np.ones(len(proba), dtype=bool)
    unused[table.keep] = False
    if np.any(unused):
        inside = data.units.inside(table.X[unused])
        proba[unused] = np.exp(log_probabilities(loss, *latent(posterior, loss, inside)))
    return ClassLoo(proba, data.codes.astype(np.float64), data.rows)


def left_out(
    parts: Parts, data: Classified, gram: Gram, solution: Solution, posterior: Posterior, k: int
) -> MarginLoo | ClassLoo:
    """Return the leave-one-out figures of every row given."""
    if posterior.has_spread:
        return class_loo(data, gram, parts.loss, solution, posterior, k)
    codes, rows = data.codes.astype(np.float64), data.rows
    if parts.loss.response == "multiclass":
        return MarginLoo(None, None, rows, codes, JOINT)
    table, problem = data.table, data.problem
    reason = None
    if not parts.loss.convex or solution.report.gap is None:
        reason = NOT_CONVEX
    elif problem.basis is not None:
        reason = FREE_BIAS
    plain = np.zeros(table.Y.shape)  # rows of weight zero are predicted by all others
    unused = np.ones(len(plain), dtype=bool)
    unused[table.keep] = False
    if np.any(unused):
        inside = data.units.inside(table.X[unused])
        plain[unused] = table.Y[unused] * posterior.mean(inside)
    bound, cavity = (None if reason else plain), None
    if bound is not None:
        bound = plain.copy()
        bound[table.keep] = bounded_margins(problem, gram, solution)
    latent = left_out_latent(problem, gram, solution)
    if latent is not None:
        cavity = plain.copy()
        cavity[table.keep] = problem.rows * latent
    return MarginLoo(bound, cavity, rows, codes, reason)
