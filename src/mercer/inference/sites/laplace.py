"""Laplace: a Gaussian about the mode, with the curvature there; theory (A4), (A5), (A6).

Several classes have one joint posterior of all latent functions. At point i the sites have the
precision W_i = w_i (diag(p_i) - p_i p_i') (c, c); their factor is ``linalg.dense.coupled``.
Reference: Williams & Barber (1998); GPML section 3.5, algorithm 3.3, with a line search and an
evidence gradient.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.special import softmax

from mercer.core.arrays import Array
from mercer.inference.base import Evidence, Solution, check_limits, ones_if_none
from mercer.inference.mode.descent import TINY, Local
from mercer.inference.mode.newton import weighted
from mercer.inference.mode.softmax import shared
from mercer.inference.sites.base import SiteInference, Sites, Task, refuse_basis
from mercer.inference.sites.settle import ModeStart, Steps, settle
from mercer.linalg.dense.coupled import CoupledFactor, coupled
from mercer.linalg.gram import Factor, Gram
from mercer.losses.base import Loss
from mercer.losses.numbers.defaults import slopes


def joint_solution(
    gram: Gram,
    y: Array,
    loss: Loss,
    mean: Array | None,
    w: Array,
    start: Solution | None,
    tol: float,
    max_iter: int,
) -> Solution:
    """Return alpha (n, c), W = w p (n, c), z = f (n, c) for class numbers y (n, 1)."""
    n, classes = len(y), int(y.max()) + 1
    offset = np.zeros((n, classes)) if mean is None else mean
    starts = []
    if start is not None and start.W.shape == offset.shape:
        h = start.alpha + times(start.W, start.z - offset)
        starts = [ModeStart(start.W, h)]
    steps = Steps(gram, lambda D: coupled(gram, D), lambda D: D, cost=classes + 1)
    local = shared(loss, y[:, 0], w, classes)
    state, factor, D, report = settle(gram, local, offset, steps, starts, tol, max_iter)
    return Solution(state.a, D, state.f, factor, None, w, report)


def times(D: Array, f: Array) -> Array:
    """W f for D = w p and f, both (n, c)."""
    return np.asarray(D * f - D * ((D * f).sum(axis=1) / D.sum(axis=1))[:, None])


def joint_evidence(gram: Gram, y: Array, loss: Loss, solution: Solution) -> Evidence:
    """Return E and U, V (n, c) of formula (3).

    E = -sum_i w_i g - 1/2 sum_c a_c'K a_c - 1/2 log|I + K W| (GPML 3.44). With Sigma_i the (c, c)
    posterior covariance at point i, s = 1/2 d log|I + K W| / df at fixed Sigma:

        s_ic = w_i p_c / 2 [Sigma_cc - sum_k p_k Sigma_kk - 2 ((Sigma p)_c - p'Sigma p)]
    """
    a, f, w, factor = solution.alpha, solution.z, solution.weights, solution.factor
    assert isinstance(factor, CoupledFactor)
    value = -float(w @ loss.value(y[:, 0], f)) - 0.5 * float(np.vdot(a, np.asarray(gram @ a)))
    value -= 0.5 * factor.logdet()
    p, Sigma = softmax(f, axis=1), factor.point_blocks(gram)
    own = np.diagonal(Sigma, axis1=1, axis2=2)
    Sp = np.einsum("ice,ie->ic", Sigma, p)
    inner = own - 2.0 * Sp
    s = 0.5 * w[:, None] * p * (inner - (p * inner).sum(axis=1, keepdims=True))
    z = s - factor.solve(np.asarray(gram @ s))
    return Evidence(value, -z, a)


class Laplace(SiteInference):
    """The Laplace approximation: q(f) = N(mode, (K^-1 + W)^-1), W = w g'' at the mode.

    With a = -w g' and f = mean + K a at the mode,

        E = -sum_i w_i g(y_i, f_i) - 1/2 a'K a - 1/2 log|I + K W|       (GPML 3.32, 5.20)

    which is neither an upper nor a lower bound of the log evidence. Its gradient has an extra term
    U V' = -z a' in formula (3), because W moves with the mode: z = (I - C K) s,
    s_i = 1/2 Sigma_ii w_i g'''_i (GPML 5.22-5.24). A loss that is not convex (StudentT) gives W of
    both signs; the mode is then a local one. Softmax has one joint posterior over its classes.

    The probabilities are under-confident where the posterior is skewed, as it is for labels and a
    large kernel variance: EP is the better choice for two classes.

    Parameters
    ----------
    tol : stop when a step moves no latent value by more than tol * (1 + max |f|).
    max_iter : Newton steps at most; reaching it is reported, not raised.

    Reference: Williams & Barber (1998); GPML sections 3.4, 3.5 and 5.5.1.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import RBF
    >>> from mercer.linalg import DenseGram
    >>> from mercer.losses import Logistic
    >>> gram, y = DenseGram(RBF(), np.array([[0.0], [1.0]]), keep=True), np.array([[1.0], [-1.0]])
    >>> solution = Laplace().solve(gram, y, Logistic())
    >>> np.round(solution.alpha.ravel(), 4)
    array([ 0.4553, -0.4553])
    >>> round(Laplace().evidence(gram, y, Logistic(), solution).value, 4)
    -1.511
    """

    abstract: ClassVar[bool] = False
    needs: ClassVar[tuple[str, ...]] = ("derivatives",)
    inverse_in_place: ClassVar[bool] = True
    works_in_linear_time: ClassVar[bool] = True
    takes_classes: ClassVar[bool] = True
    takes_kinks: ClassVar[bool] = False

    def __init__(self, tol: float = 1e-10, max_iter: int = 100) -> None:
        check_limits("Laplace", tol, max_iter)
        self.tol = tol
        self.max_iter = max_iter

    def sites(self, task: Task, start: Sites | None) -> Sites:
        """See :meth:`SiteInference.sites`."""
        mean, local = task.mean[:, None], weighted(task.loss, task.y, task.w)
        starts = [_center(task, local)]
        if start is not None and start.W.shape == task.mean.shape:
            h = start.a + start.W * (start.f - task.mean)
            starts.insert(0, ModeStart(start.W[:, None], h[:, None]))
        state, factor, W, report = settle(
            task.gram,
            local,
            mean,
            Steps(task.gram, lambda W: _factor(task.gram, W), _raised),
            starts,
            self.tol,
            self.max_iter,
        )
        return Sites(state.a[:, 0], W[:, 0], state.f[:, 0], factor, report)

    def derivatives(self, loss: Loss, y: Array, f: Array) -> tuple[Array, Array, Array]:
        """Slope, curvature and its slope (n,) of the loss at f (n,), as the sites take them."""
        return loss.derivatives(y, f)

    def score(self, task: Task, sites: Sites) -> Evidence:
        """See :meth:`SiteInference.score`."""
        gram, y, w, f, a, factor = task.gram, task.y, task.w, sites.f, sites.a, sites.factor
        variance = factor.cov_diag()
        value = -float(w @ task.loss.value(y, f)) - 0.5 * float(a @ (f - task.mean))
        value -= 0.5 * factor.logdet()
        q, z = gram.smoothed(factor, 0.5 * variance * w * self.derivatives(task.loss, y, f)[2])

        def total(loss: Loss) -> float:
            """The part of E that moves with the loss at the fixed mode, plus q'(change of f).

            df/d theta = -Sigma w dg'/d theta and dE/df = -s, so that the mode adds s'Sigma w g'.
            """
            d1, d2, _ = self.derivatives(loss, y, f)
            return float(w @ (-loss.value(y, f) - 0.5 * variance * d2 + q * d1))

        return Evidence(value, -z[:, None], a[:, None], slopes(task.loss, total))

    def solve(
        self,
        gram: Gram,
        y: Array,
        loss: Loss,
        *,
        mean: Array | None = None,
        basis: Array | None = None,
        weights: Array | None = None,
        start: Solution | None = None,
    ) -> Solution:
        """See :meth:`Inference.solve`; Softmax takes class numbers y (n, 1) and gives a (n, c)."""
        if loss.response != "multiclass":
            return super().solve(
                gram, y, loss, mean=mean, basis=basis, weights=weights, start=start
            )
        refuse_basis(self, basis)
        w = ones_if_none(weights, len(y))
        return joint_solution(gram, y, loss, mean, w, start, self.tol, self.max_iter)

    def evidence(
        self,
        gram: Gram,
        y: Array,
        loss: Loss,
        solution: Solution,
        *,
        spread: Array | None = None,
    ) -> Evidence:
        """See :meth:`Inference.evidence`."""
        if loss.response != "multiclass":
            return super().evidence(gram, y, loss, solution, spread=spread)
        return joint_evidence(gram, y, loss, solution)


def _center(task: Task, local: Local) -> ModeStart:
    """Sites of the curvature at the centre of each loss, for real responses the target itself.

    There even a loss that is not convex bends upward; outliers are discounted on the way.
    """
    center = np.asarray(task.loss.centers(task.y)).mean(axis=0)[:, None]
    _, slope, curvature = local(center)
    W = np.maximum(curvature, 0.0)
    return ModeStart(W, W * (center - task.mean[:, None]) - slope)


def _factor(gram: Gram, curvature: Array) -> Factor:
    """C for a curvature (n, 1) of any sign."""
    W = curvature[:, 0]
    return gram.factor(np.where(np.abs(W) < TINY, 0.0, W))


def _raised(curvature: Array) -> Array:
    """The curvature without its negative part: a step with it goes downhill."""
    return np.maximum(curvature, 0.0) if np.any(curvature < 0.0) else curvature
