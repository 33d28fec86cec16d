"""Leave-one-out of kernel classifiers: a bound, and a much closer estimate; theory (K7)-(K9)."""

from __future__ import annotations

import numpy as np

from mercer.core.arrays import Array
from mercer.core.errors import NotPositiveDefiniteError
from mercer.inference.base import Problem, Solution
from mercer.inference.mode.descent import TINY
from mercer.linalg.gram import Gram

FREE_BIAS = (
    "the bound holds without a free bias only (with one, leaving out a row moves the bias by any "
    "amount); give basis=None and a kernel with a constant part, kernel + Constant()"
)
JOINT = (
    "for a joint model of several classes the bound does not bound the error; use one machine per "
    "class: loss=losses.Logistic() in place of its name"
)
NOT_CONVEX = "the bound needs a convex loss, and this one is not"


def margin_bound(
    margin: Array, lam: Array, variance: Array, gap: float, share: Array | float = 1.0
) -> Array:
    """Lemma 1: the margin (n,) that a row has at least when it is left out.

        b = y f - lam K_ii - gap / lam,       b = y f - sqrt(2 gap K_ii)  where lam = 0

    for a convex, decreasing loss of the margin and no free bias. ``lam`` (n,) = y alpha >= 0; the
    last terms make it hold for solutions that are optimal up to a duality gap. If a row is left
    out with a ``share`` of its weight, lam is multiplied by it.

    Reference: Jaakkola & Haussler (1999), Lemma 1 and (5), corrected for inexact solutions.
    """
    part = np.maximum(share * lam, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        slack = np.where(part > 0.0, gap / part, np.sqrt(2.0 * gap * variance))
    slack = slack if gap > 0.0 else np.zeros_like(part)
    return np.asarray(margin - part * variance - slack)


def cavity_variance(gram: Gram, W: Array, basis: Array | None = None) -> Array | None:
    """Variance (n,) of each f_i given all other points at the mode with curvature W (n,).

    V_i = 1/C_ii - 1/W_i: with it, f_i without its own row is about f_i - alpha_i V_i. W_i = inf (a
    kink holds f_i) and W_i = 0 are allowed. None if K is singular on the points of infinite W.

    Reference: Opper & Winther (2000); Vapnik & Chapelle (2000), whose span it is for the hinge.
    """
    W = np.where(W < TINY, 0.0, W)
    try:
        factor = gram.factor(W)
        if basis is not None and basis.shape[1]:
            factor = factor.projected(basis)
        with np.errstate(divide="ignore", invalid="ignore"):
            V = 1.0 / factor.diag() - 1.0 / W
    except (NotPositiveDefiniteError, ValueError):
        return None
    weak = np.flatnonzero(W * gram.diag() < 1e-6)
    if len(weak) and gram.few:
        A = factor.cov_diag()[weak]
        V[weak] = A / (1.0 - W[weak] * A)
    elif len(weak):
        rows = gram.rows(weak).T
        h = None if basis is None else basis[weak]
        A = gram.diag()[weak] - factor.operator().reduce_diag(rows, h)
        V[weak] = A / (1.0 - W[weak] * A)
    return np.maximum(V, 0.0)


def bounded_margins(problem: Problem, gram: Gram, solution: Solution) -> Array:
    """Lemma 1 for every row and machine: (N, m) lower bounds of the left-out margins."""
    g, t, variance = problem.group, problem.shares, gram.diag()
    result = np.empty(problem.rows.shape)
    for j, report in enumerate(solution.report.each()):
        S = problem.rows[:, j]
        margin, lam = S * solution.z[g, j], S * solution.alpha[g, j]
        if report.gap is None:
            raise ValueError(
                "the leave-one-out bound needs the duality gap of the mode, which this inference "
                "does not report; use inference='newton' or 'dual'"
            )
        result[:, j] = margin_bound(margin, lam, variance[g], report.gap, t)
    return result


def left_out_latent(problem: Problem, gram: Gram, solution: Solution) -> Array | None:
    """f (N, m) of each row without it, f_i - t alpha_i V_i; None where V is not known.

    A row takes a share t of the weight at its point with it.
    """
    W = solution.W if solution.W.ndim == 2 else solution.W[:, None]
    found = [cavity_variance(gram, np.ascontiguousarray(w), problem.basis) for w in W.T]
    if any(V is None for V in found):
        return None
    g, t = problem.group, problem.shares[:, None]
    V, w = np.column_stack([v for v in found if v is not None])[g], W[g]
    with np.errstate(invalid="ignore"):
        # of the curvature w a share t goes: the rest, (1 - t) w, still holds f
        V = np.where(t == 1.0, V, V / (1.0 + (1.0 - t) * w * V))
    V = np.where(np.isinf(w) & (t < 1.0), 0.0, V)
    return np.asarray(solution.z[g] - t * solution.alpha[g] * V)
