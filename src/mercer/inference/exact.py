"""Exact inference for a quadratic loss: Gaussian process regression; theory (G2), (G5), (G9)."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np

from mercer.core.arrays import Array
from mercer.inference.base import Evidence, Inference, Report, Solution, Task
from mercer.linalg.gram import Factor, Gram
from mercer.losses.base import Loss
from mercer.losses.numbers.special import LOG_2PI


class Exact(Inference):
    """The closed-form posterior of a quadratic loss.

    With C = (K + W^-1)^-1, W = weights / noise, and P = C or, with a basis, P of ``linalg.basis``:

        alpha = P z,    E = -1/2 z'P z - 1/2 log|K + W^-1| - 1/2 log|A| - (n - k)/2 log 2 pi

    GPML (2.30), (2.45). A weight w_i raises the likelihood of point i to the power w_i.

    Reference: GPML sections 2.2, 2.7.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import kernels, linalg, losses
    >>> gram = linalg.DenseGram(kernels.RBF(), np.array([[0.0], [1.0]]))
    >>> y = np.array([[1.0], [0.0]])
    >>> solution = Exact().solve(gram, y, losses.Gaussian(noise=1.0))
    >>> np.round(solution.alpha.ravel(), 4)
    array([ 0.5506, -0.167 ])
    """

    needs: ClassVar[tuple[str, ...]] = ("quadratic", "quadratic_pullback")
    works_in_linear_time: ClassVar[bool] = True
    inverse_in_place: ClassVar[bool] = True
    bounds_evidence: ClassVar[bool] = True
    serves_device: ClassVar[bool] = True
    reports: ClassVar[tuple[str, ...]] = ("jitter",)

    def infer(self, task: Task, start: Solution | None) -> Solution:
        z, precision = task.loss.quadratic(task.y)
        z, W = z - task.mean, task.w * precision
        factor: Factor = task.gram.factor(W)
        beta = None
        if task.H.shape[1]:
            factor = factor.projected(task.H)
            beta = factor.basis_coefficients(z)
        alpha, report = factor.solve(z), factor.report
        solved = bool(report.pop("solved", True))
        told = Report(solved, report.pop("rounds", None), details=report)
        if not solved:
            certain = report.get("mean_error", np.inf)
            message = (
                f"conjugate gradients ended at rho^2 = {report['rho2']:.3g}, not at their tol: "
                f"means are certain within {certain:.3g} (of targets as they are standardised), "
                f"the evidence within {0.5 * report['rho2']:.3g}; raise rank or tol of Iterative, "
                "or the noise"
            )
            told = replace(told, message=message)
        return Solution(alpha, W, z, factor, beta, task.w, told)

    def evidence(
        self, gram: Gram, y: Array, loss: Loss, solution: Solution, *, spread: Array | None = None
    ) -> Evidence:
        # merged duplicates and weights: N(y | f, s)^w = N(y | f, s/w) (2 pi s)^{-(w-1)/2} w^{-1/2}
        n, m = y.shape
        counts, alpha = solution.weights, solution.alpha
        single = bool(np.all(counts == 1.0))
        precision = solution.W if single else loss.quadratic(y)[1]
        k = 0 if solution.beta is None else len(solution.beta)
        value = -0.5 * float((alpha * solution.z).sum())
        value -= 0.5 * m * (solution.factor.logdet_noisy() + (n - k) * LOG_2PI)
        charge = None if solution.factor.exact else solution.factor.charge()
        value -= 0.0 if charge is None else m * charge.value
        extra = np.zeros(n)  # dE/d precision_i beyond what goes through K + W^-1
        within = np.zeros(n) if spread is None else spread.sum(axis=1)
        if not single or np.any(within != 0.0):
            if np.any(np.isinf(precision) & ((counts != 1.0) | (within != 0.0))):
                raise ValueError(
                    "repeated inputs need noise: with zero noise they are either redundant or "
                    "contradictory; give the Gaussian loss a positive noise"
                )
            value += 0.5 * m * float(((counts - 1.0) * (np.log(precision) - LOG_2PI)).sum())
            value -= 0.5 * m * float(np.log(counts).sum()) + 0.5 * float(precision @ within)
            extra = 0.5 * m * (counts - 1.0) / precision - 0.5 * within
        if charge is not None:
            extra = extra - m * counts * charge.slope
        # dE/dD_ii = (sum alpha_i^2 - m P_ii) / 2 with D = W^-1 = 1 / (counts * precision)
        if not solution.factor.has_diagonal:
            return Evidence(value)
        squares, shared = (alpha**2).sum(axis=1), np.ndim(getattr(loss, "noise", ())) == 0
        with np.errstate(divide="ignore"):
            if shared and charge is not None:  # only the sum counts, which needs no diagonal
                d_precision = extra - 0.5 * squares / (counts * precision**2)
                d_precision += 0.5 * m * charge.freedom / (n * precision)
            else:
                slope = 0.5 * (squares - m * solution.factor.diag())
                d_precision = extra - slope / (counts * precision**2)
        return Evidence(value, loss_gradient=loss.quadratic_pullback(y, d_precision))
