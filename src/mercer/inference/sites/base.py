"""Site methods: the posterior of each latent function is Gaussian, one Gaussian site per point.

q(f) = N(mu, Sigma), Sigma = (K^-1 + W)^-1, mu = mean + K a. Laplace, EP, the variational Gaussian
and the quadratic bound differ only in how they pick a and W. Theory (A1), (A2), (A7).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from mercer.core.arrays import Array
from mercer.inference.base import Evidence, Inference, Report, Solution, joined_report
from mercer.inference.base import Task as Task
from mercer.kernels.base import Gradient
from mercer.linalg.dense.coupled import CoupledFactor
from mercer.linalg.gram import Factor, Gram
from mercer.losses.base import Loss
from mercer.losses.numbers.special import LOG_2PI


@dataclass(frozen=True)
class Sites:
    """The posterior of one latent function.

    Attributes
    ----------
    a, f : (n,) weights, and the posterior mean mu = mean + K a at the points.
    W, factor : (n,) site precisions, sample weights included, maybe negative; and C for them.
    report : how it ended; ``details`` has factorisations and residual.
    """

    a: Array
    W: Array
    f: Array
    factor: Factor
    report: Report


class SiteInference(Inference):
    """A child states ``sites`` and ``score`` for one latent function."""

    abstract: ClassVar[bool] = True
    factors_repeatedly: ClassVar[bool] = True
    reports: ClassVar[tuple[str, ...]] = ("converged", "iterations", "factorisations")
    needs_likelihood: ClassVar[bool] = True

    def sites(self, task: Task, start: Sites | None) -> Sites:
        """Return the posterior of one latent function; ``start`` is that of a nearby problem."""
        raise NotImplementedError

    def score(self, task: Task, sites: Sites) -> Evidence:
        """Return the log evidence of one latent function; U and V, where needed, are (n, 1)."""
        raise NotImplementedError

    def infer(self, task: Task, start: Solution | None) -> Solution:
        H, mean, m = task.H, task.mean, task.y.shape[1]
        begun = [None] * m if start is None else list(columns(start))
        if H.shape[1]:
            if start is None:
                self.check_basis(task.loss, task.y, H)
            task = replace(task, gram=beside(task.gram, H, task.y, task.loss))
        found = [self.sites(task.column(j), begun[j]) for j in range(m)]
        solution = joined(found, task.w)
        if not H.shape[1]:
            return solution
        rest = solution.z - mean - np.asarray(task.gram @ solution.alpha)  # H beta
        return replace(solution, beta=np.asarray(np.linalg.lstsq(H, rest, rcond=None)[0]))

    def check_basis(self, loss: Loss, y: Array, H: Array) -> None:
        from mercer.inference.sites.flat import (
            check_classes,
            check_proper,
        )  # a basis is rare, and so is its LP

        for column in y.T:
            (check_classes if loss.response == "multiclass" else check_proper)(loss, column, H)

    def evidence(
        self, gram: Gram, y: Array, loss: Loss, solution: Solution, *, spread: Array | None = None
    ) -> Evidence:
        scores = []
        if solution.beta is not None:
            H = next(columns(solution)).factor.H  # type: ignore[attr-defined]  # it was projected
            gram = beside(gram, H, y, loss)
        for j, sites in enumerate(columns(solution)):
            mean = gram.unpenalised(sites.f, sites.a)
            scores.append(self.score(Task(gram, y[:, j], loss, solution.weights, mean), sites))
        gradient: Gradient = {}
        for score in scores:
            for name, slope in score.loss_gradient.items():
                gradient[name] = gradient.get(name, 0.0) + slope
        # flat functions of the Gram have a unit density: (2 pi)^(1/2) each
        value = sum(s.value for s in scores) + 0.5 * gram.flat * len(scores) * LOG_2PI
        U = [s.U for s in scores if s.U is not None]
        V = [s.V for s in scores if s.V is not None]
        return Evidence(value, np.hstack(U) if U else None, np.hstack(V) if V else None, gradient)


def beside(gram: Gram, H: Array, y: Array, loss: Loss) -> Gram:
    """Return a Gram with functions H (n, k) of a flat prior, for targets y (n, m) of a loss."""
    from mercer.inference.sites.flat import prior_width
    from mercer.linalg.dense.projected import FlatGram

    return FlatGram(gram, H, prior_width(loss, y))


def joined(found: list[Sites], w: Array) -> Solution:
    """Return latent functions with sites of their own as one solution."""
    a, f = np.column_stack([s.a for s in found]), np.column_stack([s.f for s in found])
    report = joined_report([s.report for s in found], "factorisations")
    if len(found) == 1:
        return Solution(a, found[0].W, f, found[0].factor, None, w, report)
    W, factor = np.column_stack([s.W for s in found]), CoupledFactor([s.factor for s in found])
    return Solution(a, W, f, factor, None, w, report)


def columns(solution: Solution) -> Iterator[Sites]:
    """Yield the latent functions of a solution one by one: the inverse of :func:`joined`."""
    alpha, z, whole = solution.alpha, solution.z, solution.factor
    W = solution.W.reshape(len(alpha), -1)
    # a start for another problem has forgotten its factor
    factors = whole.factors if isinstance(whole, CoupledFactor) else [whole] * alpha.shape[1]
    for j, (factor, report) in enumerate(zip(factors, solution.report.each(), strict=True)):
        yield Sites(alpha[:, j], W[:, j], z[:, j], factor, report)


def cavity(f: Array, var: Array, a: Array, W: Array, share: Array | float) -> tuple[Array, Array]:
    """Mean and variance (n,) of f_i after a share of its own site is taken away.

    1/v = 1/Sigma_ii - share W_i and m = f_i - share v a_i: the cavity of EP (GPML 3.56), written
    with a = h - W mu so that W_i = 0 is an ordinary value.
    """
    v = var / (1.0 - share * W * var)
    return f - share * v * a, v


def averages(task: Task, m: Array, v: Array) -> tuple[float, Array, Array]:
    """Sum of nu_i = w_i E[g(y_i, f_i)] at means m and variances v (n,), d nu/dm and d2 nu/dm2."""
    value, dm, dv = task.loss.expected(task.y, m, v)
    return float(task.w @ value), task.w * dm, 2.0 * task.w * dv
