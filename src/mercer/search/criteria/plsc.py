"""The criterion of probabilistic least-squares classification."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.inference.base import Inference, Problem
from mercer.kernels.base import Gradient
from mercer.left_out.cavity import Left
from mercer.losses.base import Loss
from mercer.losses.binary.probit import SquaredProbit
from mercer.search.criteria.evidence import GramMaker
from mercer.search.criteria.left_out import LooCriterion, Score
from mercer.search.space import Space


class PlscCriterion(LooCriterion):
    """sum_i log Phi(y_i (mu_i + b) / sqrt(tau^2 + s_i)), mu_i and s_i from all points but i.

    The log probability of the left-out labels, GPML (6.42): all hyperparameters, those of the
    kernel, the noise and the sigmoid, are trained on it together. Theory (Q5), (Q6).
    mu_i = y_i - alpha_i / P_ii and s_i = 1 / P_ii by GPML (5.12), the latter less the noise with
    ``latent`` in the loss. The gradient is that of the leave-one-out density: one adjoint product
    for all hyperparameters, in place of GPML (5.13) for each.

    Equal labels at one point are left out together: a copy would tell the answer. Where the labels
    of a point differ, they are observations of their own and left out one by one. Several columns
    are classes, each against the rest; their log probabilities add up.

    Where all left-out labels can be told, the sum has no maximum but grows towards 0 with ever more
    certain probabilities. ``smooth`` takes Platt's targets (n+ + 1)/(n+ + 2) and 1/(n- + 2) for the
    probability of +1 in place of 1 and 0, the cross-entropy to which has one.

    Reference: GPML section 6.5.1; Platt (1999) for the targets.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.inference import Exact
    >>> from mercer.kernels import RBF
    >>> from mercer.search import simple_problem
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([[1.0], [1.0], [-1.0]])
    >>> space = Space({"kernel": 1.0 * RBF(), "loss": SquaredProbit()})
    >>> value, gradient = PlscCriterion(space, simple_problem(X, y), Exact())(space.start)
    >>> round(value, 4), len(gradient)
    (-2.0219, 5)
    """

    def __init__(
        self,
        space: Space,
        problem: Problem,
        inference: Inference,
        make_gram: GramMaker | None = None,
        smooth: bool = False,
    ) -> None:
        g, one = problem.group, problem.left_out
        one = np.minimum(problem.row_weights, 1.0) if one is None else one
        mixed = np.any(problem.spread > 0.0, axis=1)[g]
        left_out = np.where(mixed, one, problem.weights[g])
        # gather equal labels of a point, in an order that does not depend on that of the rows
        keys = np.column_stack([g, problem.rows, left_out])
        kept, which = np.unique(keys, axis=0, return_inverse=True)
        weights = np.bincount(which.ravel(), problem.row_weights)
        problem = replace(
            problem,
            group=kept[:, 0].astype(np.intp),
            rows=np.ascontiguousarray(kept[:, 1:-1]),
            left_out=np.ascontiguousarray(kept[:, -1]),
            row_weights=np.asarray(weights, dtype=np.float64),
        )
        super().__init__(space, problem, inference, make_gram)
        self.share = 0.5 * (1.0 + problem.rows)
        if smooth:
            plus, minus = (problem.row_weights @ s for s in (self.share, 1.0 - self.share))
            likely, unlikely = (plus + 1.0) / (plus + 2.0), 1.0 / (minus + 2.0)
            self.share = np.where(self.share > 0.5, likely, unlikely)

    def score(self, left: Left, loss: Loss) -> Score:
        assert isinstance(loss, SquaredProbit)
        p = self.problem
        weights = p.row_weights[:, None]
        s = (left.signal if loss.latent else left.variance)[:, None]
        mean = p.rows - left.residual
        value, dm, ds, d_log_tau, db = loss.log_probability(self.share, mean, s)
        d_s = (weights * ds).sum(axis=1)
        own: Gradient = {
            "tau": _summed(weights * d_log_tau, loss.tau) / loss.tau,
            "offset": _summed(weights * db, loss.offset),
        }
        d_noise = np.zeros_like(d_s) if loss.latent else d_s
        return Score(float((weights * value).sum()), -weights * dm, d_s, d_noise, own)


def _summed(values: Array, like: float | Array) -> Any:
    """Sum (n, m) to the shape of the parameter: one for all outputs, or one for each."""
    return values.sum(axis=0) if np.ndim(like) else float(values.sum())
