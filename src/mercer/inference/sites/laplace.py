"""Laplace: a Gaussian about the mode, with the curvature there; theory (A4), (A5), (A6).

Several classes have one joint posterior of all latent functions. At point i the sites have the
precision W_i = w_i (diag(p_i) - p_i p_i') (c, c); their factor is ``linalg.dense.coupled``. The
Newton steps of ``mode`` begin, end, and leave saddles of the posterior as is decided here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, cast

import numpy as np

from mercer.core.arrays import Array
from mercer.core.errors import NotPositiveDefiniteError
from mercer.inference.base import Evidence, Report, Solution, check_limits, ended
from mercer.inference.mode.descent import TINY, Landscape, Mode
from mercer.inference.mode.joint import JointSteps, apart, pairs, tilted_solve
from mercer.inference.mode.newton import refuse_basis, shared, weighted
from mercer.inference.sites.base import SiteInference, Sites, Task
from mercer.linalg.dense.coupled import CoupledFactor, coupled
from mercer.linalg.gram import Factor, Gram
from mercer.losses.base import Loss
from mercer.losses.numbers.defaults import slopes
from mercer.losses.numbers.special import LOG_2PI
from mercer.losses.several.base import SeveralLatents

AGAIN = 8  # more steps with each factorisation: a step costs O(n^2) and gains a digit or so
SLACK = 1e-11  # a bound on the change of log |B| up to which a factor is still that of the mode
EXACTLY = 1e-9  # relative accuracy of how the mode moves, where conjugate gradients find it
ESCAPES = 5  # saddles left before giving up
LOST = 1e-3  # residual, relative to the slope of the loss, of steps that rounding made useless
ROUNDED = (
    "the mode was not found: the kernel's variance is so large beside the noise that rounding "
    "hides where it is; bound the variance, or raise the noise"
)


class Steps:
    """Newton steps from the newest factor, of which there is one at a time; counts them."""

    def __init__(self, gram: Gram) -> None:
        self.gram = gram
        self.factor: Factor | None = None
        self.at: Array | None = None
        self.count = 0

    def exact(self, curvature: Array) -> Factor:
        """Return the factor of this very curvature; the one at hand if nothing has changed."""
        if self.factor is not None and self.at is not None:
            change, prior = np.abs(self.at - curvature), self.gram.diag()
            if prior.ndim > 1:  # kernels of their own
                change, prior = (prior * change), np.ones(len(change))
            if float(prior @ change.sum(axis=1)) <= SLACK:
                return self.factor
            self.factor.release()  # its memory serves the next
        self.factor = self.at = None
        classes = curvature.shape[1]
        self.count += 1 if classes == 1 else classes + 1
        if classes > 1:
            self.factor = self.gram.joined(coupled(self.gram, curvature))
        else:
            W = curvature[:, 0]
            self.factor = self.gram.factor(np.where(np.abs(W) < TINY, 0.0, W))
        self.at = curvature
        return self.factor

    def fits(self, curvature: Array) -> bool:
        """Make the factor of this curvature; False if only its positive part has one."""
        try:
            self.exact(curvature)
        except NotPositiveDefiniteError:
            if not np.any(curvature < 0.0):
                raise
            return False
        return True

    def __call__(self, curvature: Array) -> Callable[[Array, Array], tuple[Array, Array]]:
        """Return the step for this curvature; downhill by its positive part where not concave."""
        if not self.fits(curvature):
            self.exact(np.maximum(curvature, 0.0))
        return self.step

    def step(self, s: Array, a: Array) -> tuple[Array, Array]:
        """The step from the residual s at a, both (n, m)."""
        assert self.factor is not None
        return self.gram.step(self.factor, s, a)


def settle(
    landscape: Landscape,
    starts: list[tuple[Array, Array]],
    tol: float,
    max_iter: int,
    steps: Steps | JointSteps | None = None,
) -> tuple[Mode, Factor, Array, Report]:
    """Return the mode, the factor of the curvature there, that curvature and the report.

    Begins with the first of ``starts`` that is better than f = mean: sites by their curvature W and
    natural parameter h = a + W (f - mean), both (n, m), kept under the new K: a = h - C K h. Ends
    when a step moves no latent value by more than tol * (1 + max |f|).
    """
    steps, zero = steps or Steps(landscape.gram), np.zeros_like(landscape.mean)
    state, step = landscape.at(zero, np.zeros((landscape.H.shape[1], zero.shape[1]))), None
    for start in starts:
        found = _begun(landscape, steps, *start)
        if found is not None and found.objective < state.objective:
            state, step = found, steps.step
            break

    def done(state: Mode) -> bool:
        return state.moved <= tol * (1.0 + float(np.abs(state.f).max()))

    message = (
        f"the mode was not reached in max_iter = {max_iter} Newton steps; raise max_iter, or "
        "look for a kernel variance far beyond the scale of the data"
    )
    for attempt in range(ESCAPES + 1):
        state = landscape.descend(state, steps, done, max_iter, step)
        step = None
        converged = done(state) or state.at_rounding
        if steps.fits(state.curvature):
            break
        if attempt < ESCAPES and converged:
            state = _leave(state, landscape)
            continue
        converged = False
        message = (
            "the posterior is not concave where the search for its mode stopped, and the curvature "
            "of the points that bend the wrong way was taken as zero; raise max_iter, or use EP or "
            "Variational inference"
        )
        steps.exact(np.maximum(state.curvature, 0.0))
        break
    assert steps.factor is not None
    assert steps.at is not None
    spent = {"factorisations": steps.count, "residual": float(np.abs(state.residual).max())}
    report = ended(converged, state.steps, message, steps.factor, **spent)
    return state, steps.factor, steps.at, report


def _begun(
    landscape: Landscape, steps: Steps | JointSteps, curvature: Array, h: Array
) -> Mode | None:
    """The state that the sites have under K, None if they have none."""
    try:
        steps.exact(curvature)
    except NotPositiveDefiniteError:
        return None
    state = landscape.at(*steps.step(h, np.zeros_like(h)))
    return state if np.all(np.isfinite(state.residual)) else None


def _leave(state: Mode, landscape: Landscape) -> Mode:
    """A point below a saddle, along the direction of the most negative curvature; O(n^3).

    With K = V S^2 V' the curvature along f = V S u is u'(I + S V'W V S) u. At its lowest
    eigenvalue lam < 0 the coefficients are a = V S^-1 u = W f / (lam - 1).
    """
    root, H = landscape.gram.square_root(), landscape.H
    if H.shape[1]:  # a prior so wide stands for the flat one
        wide = 1e3 * (float(np.max(landscape.gram.diag())) or 1.0)
        root = np.hstack([root, np.sqrt(wide) * H])
    lam, u = np.linalg.eigh(np.eye(root.shape[1]) + root.T @ (state.curvature * root))
    da = state.curvature * (root @ u[:, :1]) / (lam[0] - 1.0)
    if float(np.vdot(state.residual, root @ (root.T @ da))) < 0.0:
        da = -da
    below = landscape.along(state, da, wide * (H.T @ da) if H.shape[1] else np.zeros((0, 1)))
    return replace(below, steps=state.steps, moved=np.inf, decrement=np.inf)  # no Newton step


class Laplace(SiteInference):
    """The Laplace approximation: q(f) = N(mode, (K^-1 + W)^-1), W = w g'' at the mode.

    With a = -w g' and f = mean + K a at the mode,

        E = -sum_i w_i g(y_i, f_i) - 1/2 a'K a - 1/2 log|I + K W|       (GPML 3.32, 5.20)

    which is neither an upper nor a lower bound of the log evidence. Its gradient has an extra term
    U V' = -z a' in formula (3), because W moves with the mode: z = (I - C K) s,
    s_i = 1/2 Sigma_ii w_i g'''_i (GPML 5.22-5.24). A loss that is not convex (StudentT) gives W of
    both signs; the mode is then a local one. Softmax has one joint posterior over its classes, and
    so has a loss of several latent functions; where that is not convex, W is w times the Fisher
    information at the mode, which is always a precision.
    Probabilities are under-confident for labels and a large kernel variance: EP is better for two
    classes.

    Parameters
    ----------
    tol : stop when a step moves no latent value by more than tol * (1 + max |f|).
    max_iter : Newton steps at most; reaching it is reported, not raised.

    Reference: Williams & Barber (1998); GPML sections 3.4, 3.5 and 5.5.1.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import kernels, linalg, losses
    >>> gram = linalg.DenseGram(kernels.RBF(), np.array([[0.0], [1.0]]), keep=True)
    >>> y = np.array([[1.0], [-1.0]])
    >>> solution = Laplace().solve(gram, y, losses.Logistic())
    >>> np.round(solution.alpha.ravel(), 4)
    array([ 0.4553, -0.4553])
    >>> round(Laplace().evidence(gram, y, losses.Logistic(), solution).value, 4)
    -1.511
    """

    abstract: ClassVar[bool] = False
    needs: ClassVar[tuple[str, ...]] = ("derivatives",)
    inverse_in_place: ClassVar[bool] = True
    serves_device: ClassVar[bool] = True
    works_in_linear_time: ClassVar[bool] = True
    takes_classes: ClassVar[bool] = True
    takes_latents: ClassVar[bool] = True
    takes_kinks: ClassVar[bool] = False

    def __init__(self, tol: float = 1e-10, max_iter: int = 100) -> None:
        check_limits("Laplace", tol, max_iter)
        self.tol, self.max_iter = tol, max_iter

    def sites(self, task: Task, start: Sites | None) -> Sites:
        local = weighted(task.loss, task.y, task.w)
        # at the centre of each loss (the target of a real response) even one that is not convex
        # bends upward; outliers are discounted on the way
        center = np.asarray(task.loss.centers(task.y)).mean(axis=0)[:, None]
        _, slope, curvature = local(center)
        W = np.maximum(curvature, 0.0)
        starts = [(W, W * (center - task.mean[:, None]) - slope)]
        if start is not None and start.W.shape == task.mean.shape:
            h = start.a + start.W * (start.f - task.mean)
            starts.insert(0, (start.W[:, None], h[:, None]))
        landscape = Landscape(task.gram, local, task.mean[:, None], task.H, AGAIN)
        state, factor, W, report = settle(landscape, starts, self.tol, self.max_iter)
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

    def infer(self, task: Task, start: Solution | None) -> Solution:
        if not task.loss.joint:
            return super().infer(task, start)
        if task.loss.latents:
            refuse_basis(task)
            return self._together(task, start)
        mean, starts, H = task.mean, [], task.H
        if H.shape[1]:
            from mercer.linalg.dense.contrasted import ContrastedGram

            if start is None:
                self.check_basis(task.loss, task.y, H)
            task = replace(task, gram=ContrastedGram(task.gram, H, 0.0))
        if start is not None and start.W.shape == mean.shape:
            D, f = start.W, start.z - mean
            Wf = D * f - D * ((D * f).sum(axis=1) / D.sum(axis=1))[:, None]
            starts = [(D, start.alpha + Wf)]
        local = shared(task.loss, task.y[:, 0], task.w, mean.shape[1])
        landscape = Landscape(task.gram, local, mean, task.H, AGAIN)
        state, factor, D, report = settle(landscape, starts, self.tol, self.max_iter)
        beta = state.b if H.shape[1] else None
        return Solution(state.a, D, state.f, factor, beta, task.w, report)

    def _together(self, task: Task, start: Solution | None) -> Solution:
        """Several latent functions with kernels of their own."""
        loss, y, sites = cast(SeveralLatents, task.loss), task.y[:, 0], []
        local = pairs(loss, y, task.w)
        if start is not None and start.alpha.shape == task.mean.shape:
            sites = [(start.z, start.alpha, apart(local(start.z)[2]))]
        begin = loss.start(y)
        _, slope, both = local(begin)
        sites.append((begin, -slope, both[:, :1]))
        # on the way to the mode the functions apart are factor enough, see JointSteps
        alone = np.eye(task.mean.shape[1])
        natural = [
            (np.hstack([W * alone, W]), a + np.einsum("nij,nj->ni", W[:, 0], f - task.mean))
            for f, a, W in sites
        ]
        landscape = Landscape(task.gram, local, task.mean, task.H, beyond=0)
        steps = JointSteps(task.gram, loss.convex)
        state, factor, at, report = settle(landscape, natural, self.tol, self.max_iter, steps)
        if np.abs(state.residual).max() > LOST * max(1.0, float(np.abs(state.slope).max())):
            report = replace(report, converged=False, message=report.message or ROUNDED)
        W = np.einsum("nii->ni", at[:, 0])
        return Solution(state.a, W, state.f, factor, None, task.w, report)

    def evidence(
        self, gram: Gram, y: Array, loss: Loss, solution: Solution, *, spread: Array | None = None
    ) -> Evidence:
        """See :meth:`Inference.evidence`; for several latent functions U, V are (n, m).

        E = -sum_i w_i g - 1/2 sum_c a_c'K_c a_c - 1/2 log|I + K W| (GPML 3.44). With Sigma_i the
        (m, m) posterior covariance at point i, s = 1/2 d log|I + K W| / df at fixed Sigma: the loss
        states it as the slope of tr(Sigma W); the mode moves by its own Hessian H, which is W
        where the loss is convex: z = (I + H K)^-1 s. Theory (A23).
        """
        if not loss.joint:
            return super().evidence(gram, y, loss, solution, spread=spread)
        a, f, w, factor = solution.alpha, solution.z, solution.weights, solution.factor
        assert isinstance(factor, CoupledFactor)
        value = -float(w @ loss.value(y[:, 0], f)) - 0.5 * float(np.vdot(a, np.asarray(gram @ a)))
        value -= 0.5 * factor.logdet()
        if solution.beta is not None:  # contrasts of unit density
            value += 0.5 * solution.beta[:, 1:].size * LOG_2PI
        Sigma, joint = factor.point_blocks(gram), cast(SeveralLatents, loss)
        s = 0.5 * w[:, None] * joint.trace_slope(y[:, 0], f, Sigma)
        if not loss.latents:
            if solution.beta is None:
                z = gram.step(factor, s, a)[0]
            else:
                z, _ = factor.sites(s)
            return Evidence(value, -z, a)
        H = w[:, None, None] * joint.hessian(y[:, 0], f)
        z, _ = tilted_solve(gram, factor, H, s, EXACTLY)
        q = np.asarray(gram @ z)

        def total(given: Loss) -> float:
            """As for one latent function: see :meth:`score`."""
            one = cast(SeveralLatents, given)
            bend = np.einsum("nij,nij->n", Sigma, one.curvature(y[:, 0], f))
            moved = (q * one.gradient(y[:, 0], f)).sum(axis=1)
            return float(w @ (-one.value(y[:, 0], f) - 0.5 * bend + moved))

        return Evidence(value, -z, a, slopes(loss, total))
