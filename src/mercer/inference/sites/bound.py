"""The quadratic bound: a Gaussian posterior and a bound on the evidence; theory (A13), (A14)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mercer.core.arrays import Array
from mercer.inference.base import Evidence, check_limits, ended
from mercer.inference.sites.base import SiteInference, Sites, Task
from mercer.inference.sites.sweeps import Anderson
from mercer.linalg.gram import Factor
from mercer.losses.base import Loss
from mercer.losses.numbers.defaults import slopes

SMALLEST = 1e-8  # of xi: below it the bound is that of xi = 0 to the last digit
MEMORY = 10  # differences that the acceleration keeps


class Bound(SiteInference):
    """The best quadratic bound on the loss (Jaakkola; Gibbs and MacKay), all points at once.

    g(y, f) <= lam(xi) (f - z)^2 + c, equal at f = +-xi, turns every point into a Gaussian
    observation z of precision W = 2 w lam. With C = (K + W^-1)^-1 and a = C (z - mean),

        E(xi) = -sum_i w_i c_i - 1/2 a'(z - mean) - 1/2 log|I + K W|   <=   log evidence

    has one maximum, where xi_i^2 = mu_i^2 + Sigma_ii. Setting xi so is an EM step and never lowers
    E, but hundreds are needed where the kernel's variance is large. Here they are accelerated in
    log xi; an accelerated step that would lower E is replaced by the EM step.

    Parameters
    ----------
    tol : stop when an EM step would change no xi by more than this, relatively, and gain no more
        than this in E (sample weights may be huge). E errs by about tol^2, its gradient by tol.
    max_iter : steps at most; reaching it is reported, not raised. The value is a bound anyway.

    Reference: Jaakkola & Haussler (1999), (8) with its sign corrected, used for all points at once;
    Gibbs & MacKay (2000).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import kernels, linalg, losses
    >>> gram = linalg.DenseGram(3.0 * kernels.RBF(), np.zeros((1, 1)), keep=True)
    >>> y = np.ones((1, 1))
    >>> solution = Bound().solve(gram, y, losses.Logistic())
    >>> np.exp(Bound().evidence(gram, y, losses.Logistic(), solution).value).round(4)  # at most 0.5
    np.float64(0.4823)
    """

    abstract: ClassVar[bool] = False
    needs: ClassVar[tuple[str, ...]] = ("quadratic_bound",)
    takes_weights: ClassVar[bool] = True

    def __init__(self, tol: float = 1e-6, max_iter: int = 1000) -> None:
        check_limits("Bound", tol, max_iter)
        self.tol, self.max_iter = tol, max_iter

    def sites(self, task: Task, start: Sites | None) -> Sites:
        prior = _logarithm(np.square(task.mean) + task.gram.diag())
        x = prior if start is None else _behind(task, start.W)
        state, iterations, factorisations = look(task, x), 0, 1
        mixer = Anderson(MEMORY)
        while not self._done(state) and iterations < self.max_iter:
            iterations += 1
            ahead = look(task, mixer.step(state.x, state.r))
            factorisations += 1
            if not better(ahead, state):
                mixer.forget()
                del ahead  # its memory, before the next factorisation
                ahead = look(task, mixer.step(state.x, state.r))  # the EM step
                factorisations += 1
            state = ahead
        message = (
            f"Bound stopped after {iterations} steps with a residual of {state.residual:.2g} and "
            f"{state.gain:.2g} nats to gain in the next, tol = {self.tol:g}: the value is a lower "
            "bound, but not yet the best one; raise max_iter, bound the kernel's variance, or "
            "scale down sample weights that are very large (here up to "
            f"{float(task.w.max()):.3g}); EP and Laplace do not crawl there"
        )
        spent = {"factorisations": factorisations, "residual": state.residual}
        report = ended(self._done(state), iterations, message, state.factor, **spent)
        return Sites(state.a, state.W, state.f, state.factor, report)

    def _done(self, state: BoundState) -> bool:
        return bool(state.residual <= self.tol and state.gain <= self.tol)

    def score(self, task: Task, sites: Sites) -> Evidence:
        """See :meth:`SiteInference.score`; the bound of this q at its own best xi.

        E = -sum_i w_i (lam E[(f - z)^2] + c) - KL(q | prior); q maximises it at the fixed point.
        """
        var = sites.factor.cov_diag()
        xi = np.exp(_logarithm(np.square(sites.f) + var))

        def loss_part(loss: Loss) -> float:
            lam, z, c = loss.quadratic_bound(task.y, xi)
            return -float(task.w @ (lam * (np.square(sites.f - z) + var) + c))

        divergence = float(sites.a @ (sites.f - task.mean) - sites.W @ var) + sites.factor.logdet()
        value = loss_part(task.loss) - 0.5 * divergence
        return Evidence(value, loss_gradient=slopes(task.loss, loss_part))


@dataclass(frozen=True)
class BoundState:
    """The posterior at x = log xi (n,), and E; an EM step changes x by r and E by ``gain``."""

    x: Array
    r: Array
    value: float
    gain: float
    W: Array
    a: Array
    f: Array
    factor: Factor

    @property
    def residual(self) -> float:
        """The largest relative change of a xi."""
        return float(np.abs(self.r).max())


def better(ahead: BoundState, state: BoundState) -> bool:
    """Whether E rose; where rounding hides that, whether the residual fell."""
    gain, rounding = ahead.value - state.value, 1e-12 * max(1.0, abs(state.value))
    return gain > rounding or (gain >= -rounding and ahead.residual <= state.residual)


def look(task: Task, x: Array) -> BoundState:
    """Return the state at x = log xi: one factorisation."""
    lam, z, c = task.loss.quadratic_bound(task.y, np.exp(x))
    W = 2.0 * task.w * lam
    factor = task.gram.factor(W)
    centred = z - task.mean
    shift, a = task.gram.placed(factor, centred, np.zeros(len(z)))
    f = task.mean + shift
    value = -float(task.w @ c) - 0.5 * float(a @ centred) - 0.5 * factor.logdet()
    second = np.square(f) + factor.cov_diag()
    after = _logarithm(second)
    # dE/dxi = -w dlam/dxi (E[f^2] - xi^2): the bound touches at +-xi whatever xi is
    fall = lam - task.loss.quadratic_bound(task.y, np.exp(after))[0]
    gain = float(np.abs(task.w * fall * (second - np.exp(2.0 * x))).sum())
    return BoundState(x, after - x, value, gain, W, a, f, factor)


def _logarithm(second: Array) -> Array:
    """Log xi for xi^2 = second."""
    return np.asarray(np.log(np.maximum(np.sqrt(second), SMALLEST)))


def _behind(task: Task, W: Array) -> Array:
    """Log xi of sites W by bisection: lam falls as xi grows."""
    low, high = np.full(len(W), np.log(SMALLEST)), np.full(len(W), -np.log(SMALLEST))
    for _ in range(40):
        x = 0.5 * (low + high)
        over = 2.0 * task.w * task.loss.quadratic_bound(task.y, np.exp(x))[0] > W
        low, high = np.where(over, x, low), np.where(over, high, x)
    return np.asarray(0.5 * (low + high))
