"""Leave-one-out for kernel classifiers without refitting: a bound, and a much closer estimate.

Theory (K7), (K8), (K9).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.core.arrays import Array, Index
from mercer.core.errors import NotPositiveDefiniteError
from mercer.inference.mode.descent import TINY
from mercer.linalg.dense.gram import DenseFactor
from mercer.linalg.dense.projected import Projected
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


@dataclass(frozen=True)
class MarginLoo:
    """Leave-one-out figures of a kernel classifier, one row for each row given to ``fit``.

    A margin is y f(x), y = -1 or +1; with more than two classes there is a column for each class
    against the rest. A row is an error if its margin is not positive, or if its own class does not
    come out above every other one.

    Attributes
    ----------
    bound : (n, m) what each margin is at least when its row is left out, or None.
    cavity : (n, m) what it is approximately, or None.
    weights : (n,) how often each row counts.
    codes : (n,) the class of each row.
    reason : why there is no bound, if there is none.
    """

    bound: Array | None
    cavity: Array | None
    weights: Array
    codes: Array
    reason: str | None = None

    @property
    def error_bound(self) -> float:
        """Upper bound of the leave-one-out error rate (Jaakkola & Haussler, Lemma 1)."""
        if self.bound is None:
            raise ValueError(self.reason)
        return self._error(self.bound)

    @property
    def cavity_error(self) -> float:
        """The leave-one-out error rate by the cavity margins: an estimate, not a bound."""
        if self.cavity is None:
            raise ValueError(
                "there is no cavity estimate: the loss does not determine how the function bends "
                "at the training points"
            )
        return self._error(self.cavity)

    def _error(self, margins: Array) -> float:
        wrong = worst(margins, self.codes.astype(np.intp)) <= 0.0
        return float(self.weights @ wrong / self.weights.sum())


def worst(margins: Array, codes: Index) -> Array:
    """The smallest lead (n,) of a row's own class: its margin, or for columns f_y - f_j.

    With one machine per class, f_y >= b_y and f_j <= -b_j: the lead is at least b_y + b_j.
    """
    if margins.shape[1] == 1:
        return margins[:, 0]
    own = np.take_along_axis(margins, codes[:, None], axis=1)
    lead = own + margins
    np.put_along_axis(lead, codes[:, None], np.inf, axis=1)
    return np.asarray(lead.min(axis=1))


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
        inner = gram.factor(W)
        factor = inner
        if basis is not None and basis.shape[1]:
            assert isinstance(inner, DenseFactor)
            factor = Projected(inner, basis)
        with np.errstate(divide="ignore", invalid="ignore"):
            V = 1.0 / factor.diag() - 1.0 / W
    except (NotPositiveDefiniteError, ValueError):
        return None
    weak = np.flatnonzero(W * gram.diag() < 1e-6)
    if len(weak):
        rows = gram.rows(weak).T
        h = None if basis is None else basis[weak]
        A = gram.diag()[weak] - factor.operator().reduce_diag(rows, h)
        V[weak] = A / (1.0 - W[weak] * A)
    return np.maximum(V, 0.0)
