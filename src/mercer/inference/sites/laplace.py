"""Laplace: a Gaussian about the mode, with the curvature there; theory (A4), (A5), (A6).

Several classes have one joint posterior of all latent functions. At point i the sites have the
precision W_i = w_i (diag(p_i) - p_i p_i') (c, c); their factor is ``linalg.dense.coupled``.
Reference: Williams & Barber (1998); GPML section 3.5, algorithm 3.3, with a line search and an
evidence gradient.

The mode of a posterior together with the factor of its curvature, for the Laplace approximation.

The Newton steps are those of ``mode``; here it is decided where they begin, when they end, and
that they end in a maximum of the posterior, not in a saddle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import softmax

from mercer.core.arrays import Array
from mercer.core.errors import NotPositiveDefiniteError
from mercer.inference.base import Evidence, Report, Solution, check_limits, ones_if_none
from mercer.inference.mode.descent import TINY, Local, Mode, along, begin, descend
from mercer.inference.mode.newton import shared, weighted
from mercer.inference.sites.base import SiteInference, Sites, Task, refuse_basis
from mercer.linalg.dense.coupled import CoupledFactor, coupled
from mercer.linalg.gram import Factor, Gram
from mercer.losses.base import Loss
from mercer.losses.numbers.defaults import slopes

AGAIN = 8  # more steps with each factorisation: a step costs O(n^2) and gains a digit or so
SLACK = 1e-11  # a bound on the change of log |B| up to which a factor is still that of the mode
ESCAPES = 5  # saddles left before giving up


class Steps:
    """Newton steps from the newest factor, of which there is one at a time; counts them.

    Parameters
    ----------
    gram : K.
    make : curvature (n, m) -> factor; raises NotPositiveDefiniteError where K^-1 + W is not.
    tame : curvature -> a curvature nearby that has a factor, for a step downhill.
    cost : factorisations in one ``make``.
    """

    def __init__(
        self,
        gram: Gram,
        make: Callable[[Array], Factor],
        tame: Callable[[Array], Array],
        cost: int = 1,
    ) -> None:
        self.gram, self.make, self.tame, self.cost = gram, make, tame, cost
        self.factor: Factor | None = None
        self.at: Array | None = None
        self.count = 0

    def exact(self, curvature: Array) -> Factor:
        """Return the factor of this very curvature; the one at hand if nothing has changed."""
        if self.factor is not None and self.at is not None:
            change = np.abs(self.at - curvature).sum(axis=1)
            if float(self.gram.diag() @ change) <= SLACK:
                return self.factor
        if self.factor is not None:
            self.factor.release()  # its memory serves the next
        self.factor = self.at = None
        self.count += self.cost
        self.factor = self.make(curvature)
        self.at = curvature
        return self.factor

    def fits(self, curvature: Array) -> bool:
        """Make the factor of this curvature; False if there is none, but a tamer one nearby."""
        try:
            self.exact(curvature)
        except NotPositiveDefiniteError:
            if self.tame(curvature) is curvature:
                raise
            return False
        return True

    def __call__(self, curvature: Array) -> Callable[[Array, Array], tuple[Array, Array]]:
        """Return the step for this curvature, or a tamer one where the posterior is not concave."""
        if not self.fits(curvature):
            self.exact(self.tame(curvature))
        return self.step

    def step(self, s: Array, a: Array) -> tuple[Array, Array]:
        """da = (I + W K)^-1 s = s - C K s for the residual s, both (n, m)."""
        assert self.factor is not None
        return s - self.factor.solve(np.asarray(self.gram @ s)), np.zeros((0, s.shape[1]))


@dataclass(frozen=True)
class ModeStart:
    """Sites to begin with: curvature W (n, m) and natural parameter h = a + W (f - mean) (n, m)."""

    curvature: Array
    h: Array


def settle(
    gram: Gram,
    local: Local,
    mean: Array,
    steps: Steps,
    starts: list[ModeStart],
    tol: float,
    max_iter: int,
) -> tuple[Mode, Factor, Array, Report]:
    """Return the mode, the factor of the curvature there, that curvature and the report.

    Begins with the first of ``starts`` that is better than f = mean. A start keeps the sites and
    takes the new K: a = h - C K h. That is a Newton step from where the sites come from, and it is
    exact if the loss is quadratic. Ends when a step moves no latent value by more than
    tol * (1 + max |f|).
    """
    H, none = np.zeros((len(mean), 0)), np.zeros((0, mean.shape[1]))
    state, step = begin(gram, local, mean, H, np.zeros_like(mean), none), None
    for start in starts:
        found = _begun(gram, local, mean, steps, start)
        if found is not None and found.objective < state.objective:
            state, step = found, steps.step
            break

    def done(state: Mode) -> bool:
        return state.moved <= tol * (1.0 + float(np.abs(state.f).max()))

    message, converged = "", False
    for attempt in range(ESCAPES + 1):
        state = descend(state, gram, local, H, steps, done, max_iter, step=step, again=AGAIN)
        step = None
        still = state.decrement <= 1e-15 * max(1.0, abs(state.objective))
        converged = done(state) or still
        if steps.fits(state.curvature):
            break
        if attempt < ESCAPES and converged:
            state = _leave(state, gram, local, H)
            continue
        converged = False
        message = (
            "the posterior is not concave where the search for its mode stopped, and the curvature "
            "of the points that bend the wrong way was taken as zero; raise max_iter, or use EP or "
            "Variational inference"
        )
        steps.exact(steps.tame(state.curvature))
        break
    factor, curvature = steps.factor, steps.at
    assert factor is not None
    assert curvature is not None
    if not converged and not message:
        message = (
            f"the mode was not reached in max_iter = {max_iter} Newton steps; raise max_iter, or "
            "look for a kernel variance far beyond the scale of the data"
        )
    residual = float(np.abs(state.residual).max())
    details = {"factorisations": steps.count, "residual": residual, **factor.report}
    return state, factor, curvature, Report(bool(converged), state.steps, None, message, details)


def _begun(gram: Gram, local: Local, mean: Array, steps: Steps, start: ModeStart) -> Mode | None:
    """The state that the sites have under K, None if they have none."""
    try:
        steps.exact(start.curvature)
    except NotPositiveDefiniteError:
        return None
    a, none = steps.step(start.h, start.h)
    state = begin(gram, local, mean, np.zeros((len(mean), 0)), a, none)
    return state if np.all(np.isfinite(state.residual)) else None


def _leave(state: Mode, gram: Gram, local: Local, H: Array) -> Mode:
    """A point below a saddle, along the direction of the most negative curvature; O(n^3).

    With K = V S^2 V' the curvature along f = V S u is u'(I + S V'W V S) u. At its lowest
    eigenvalue lam < 0 the coefficients are a = V S^-1 u = W f / (lam - 1).
    """
    K = gram.rows(np.arange(len(state.f)))
    values, vectors = np.linalg.eigh(0.5 * (K + K.T))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    lam, u = np.linalg.eigh(np.eye(len(K)) + root.T @ (state.curvature * root))
    da = state.curvature * (root @ u[:, :1]) / (lam[0] - 1.0)
    if float(np.vdot(state.residual, np.asarray(gram @ da))) < 0.0:
        da = -da
    steps = state.steps
    state = along(state, gram, local, H, da, np.zeros((0, 1)))
    state.steps, state.moved, state.decrement = steps, np.inf, np.inf  # no Newton step
    return state


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
