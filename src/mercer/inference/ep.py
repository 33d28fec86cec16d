"""Expectation propagation: Gaussian sites that match the moments of the true ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from mercer.arrays import Array
from mercer.inference.anderson import Anderson
from mercer.inference.base import Evidence
from mercer.inference.sites import SiteInference, Sites, Task, cavity
from mercer.linalg.errors import NotPositiveDefiniteError
from mercer.linalg.gram import Factor
from mercer.losses import power
from mercer.losses.base import Loss
from mercer.losses.sensitivity import slopes

WIDEST = 100.0  # prior variances that a cavity may have; only sites with W < 0 make it exceed one
NARROWEST = 1e-14  # of the largest prior variance: stands for v = 0, where a kernel pins f down
MEMORY = 4  # differences that the acceleration keeps
NEAR = 1.0  # residual below which steps are accelerated: q moves by less than its own width
STALE, SHORTEST = 8, 0.02  # sweeps without progress until they are damped, and how far at most
FAR, GROWTH = 100.0, 3.0  # a step may leave a residual of GROWTH times the best so far, or FAR


class EP(SiteInference):
    """Expectation propagation, all sites in parallel, accelerated.

    The site of point i is exp(h f - W f^2 / 2), f measured from the prior mean. With the cavity
    N(m, v), q without the site, and L = log int exp(-g(y_i, f)) N(f | m, v) df, b = L', c = L'':

        W <- -c / (1 + v c),    h <- (b - m c) / (1 + v c)          until nothing moves.

    The evidence, in a form without differences of large numbers (a_i = h_i - W_i mu_i),

        E = sum_i [ L_i + 1/2 log(1 + W_i v_i) + 1/2 v_i a_i^2 ] - 1/2 log|I + K W| - 1/2 a'K a,

    is stationary in the sites at the fixed point, so that U V' = 0 in formula (3). It is exact for
    one point, and very accurate for many, but no bound. Sites of losses that are not log-concave
    may have W < 0.

    Sample weights: a row of weight w is one site for exp(-w g), so that a row given twice and
    merged into one of weight two is treated exactly where two sites would be two approximations.

    Steps are accelerated (:class:`~mercer.inference.anderson.Anderson`); one that makes K^-1 + W
    indefinite or a cavity improper (v < 0, or v > 100 K_ii), or lets the residual grow, is
    replaced by a plain and then by a shorter one. Posteriors of several modes (narrow StudentT
    noise with many outliers) may have no fixed point with proper cavities: that is reported. Where
    the kernel leaves no variance (K_ii = 0) the moments are taken at v = 1e-14 of the largest K_ii.

    Parameters
    ----------
    tol : stop when no site would move q by more than this: changes of W in units of 1/Sigma_ii and
        of h - W mu in units of Sigma_ii^-1/2. E errs by about tol^2, its gradient by tol.
    max_iter : sweeps at most; reaching it is reported, not raised.

    Reference: Minka (2001); Seeger's thesis, section 5.2; GPML section 3.6, (3.65).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import RBF
    >>> from mercer.linalg import DenseGram
    >>> from mercer.losses import Probit
    >>> gram, y = DenseGram(3.0 * RBF(), np.zeros((1, 1)), keep=True), np.ones((1, 1))
    >>> solution = EP().solve(gram, y, Probit())
    >>> np.exp(EP().evidence(gram, y, Probit(), solution).value).round(12)  # by symmetry
    np.float64(0.5)
    """

    abstract: ClassVar[bool] = False
    needs: ClassVar[tuple[str, ...]] = ("tilted",)
    frugal: ClassVar[bool] = True
    link: ClassVar[str] = "probit"  # its tilted moments are closed

    def __init__(self, tol: float = 1e-6, max_iter: int = 200) -> None:
        self.tol = tol
        self.max_iter = max_iter

    def check(self, loss: Loss) -> None:
        """Refuse several latent functions per point as well."""
        if loss.response == "multiclass":
            raise ValueError(
                f"EP inference knows one latent function per target, and {type(loss).__name__} has "
                "one per class; use inference='laplace', or one binary problem per class"
            )
        super().check(loss)

    def sites(self, task: Task, start: Sites | None) -> Sites:
        """See :meth:`SiteInference.sites`; a start that leads nowhere is followed by a cold one."""
        sweeps = Sweeps(task)
        state, iterations, cause = self._settle(sweeps, sweeps.begin(start))
        if start is not None and state.residual > self.tol:
            state, iterations, cause = self._settle(sweeps, sweeps.begin(None))
        if state.factor is None:
            found = sweeps.look(state.x, needed=True)
            assert found is not None  # these sites were looked at before
            state = found
        assert state.factor is not None
        report = self._report(state.residual, iterations, sweeps.factorisations, cause)
        report |= state.factor.report
        return Sites(state.a, state.x[1], state.f, state.factor, report)

    def _settle(self, sweeps: Sweeps, state: State) -> tuple[State, int, str]:
        """Return the last state, the number of sweeps, and what was in the way.

        If no state is good enough it is the one of least residual, without its factor.
        """
        mixer, rho, patience, iterations = Anderson(MEMORY), 1.0, 0, 0
        longest, stale = 1.0, 0
        best = replace(state, factor=None)
        while state.residual > self.tol:
            if iterations == self.max_iter:
                return best, iterations, ""
            if rho < 1e-6:
                return best, iterations, " (no step keeps the posterior and its cavities proper)"
            iterations += 1
            plain = ahead = state.x + rho * state.r
            mixed = patience == 0 and state.residual < NEAR
            if mixed:
                ahead = mixer.step(state.x, state.r, state.weigh, rho)
                if sweeps.task.loss.convex:  # W < 0 is no site of a log-concave factor
                    ahead = np.where(ahead[1] < 0.0, plain, ahead)
            if state.factor is not None:
                state.factor.release()  # its memory serves the next
            state, following = replace(state, factor=None), None
            following = sweeps.look(ahead)
            if following is not None and following.residual <= max(GROWTH * best.residual, FAR):
                state, rho, patience = following, min(longest, 1.5 * rho), max(patience - 1, 0)
                stale = 0 if state.residual < 0.9 * best.residual else stale + 1
                if state.residual < best.residual:
                    best = replace(state, factor=None)
                if stale == STALE:  # sweeps that swing about the fixed point: damp them for good
                    longest, stale = max(0.5 * longest, SHORTEST), 0
                    rho = min(rho, longest)
                    mixer.forget()
                continue
            mixer.forget()
            rho = rho if mixed else 0.5 * rho
            patience = 2  # plain steps before the next accelerated one
        return state, iterations, ""

    def _report(
        self, residual: float, iterations: int, factorisations: int, cause: str
    ) -> dict[str, Any]:
        report: dict[str, Any] = {
            "converged": bool(residual <= self.tol),
            "iterations": iterations,
            "factorisations": factorisations,
            "residual": float(residual),
        }
        if not report["converged"]:
            report["message"] = (
                f"EP stopped after {iterations} sweeps with a residual of {residual:.2g} > tol = "
                f"{self.tol:g}{cause}: raise max_iter, bound the "
                "kernel's variance, or use Laplace or Variational inference"
            )
        return report

    def score(self, task: Task, sites: Sites) -> Evidence:
        """See :meth:`SiteInference.score`."""
        var = sites.factor.cov_diag()
        m, v = cavity(sites.f, var, sites.a, sites.W, 1.0)
        v = np.maximum(v, NARROWEST * _largest(task))

        def tilted(loss: Loss) -> float:
            return float(power.tilted(loss, task.y, m, v, task.w)[0].sum())

        rest = 0.5 * (np.log1p(sites.W * v) + v * np.square(sites.a))
        value = tilted(task.loss) + float(rest.sum()) - 0.5 * sites.factor.logdet()
        value -= 0.5 * float(sites.a @ (sites.f - task.mean))
        return Evidence(value, loss_gradient=slopes(task.loss, tilted))


@dataclass(frozen=True)
class State:
    """Sites, and what they should be. x and r are (2, n): h and W, and their change.

    ``factor`` is None for the prior, whose sites are zero.
    """

    x: Array
    r: Array
    factor: Factor | None
    a: Array
    f: Array
    shift: Array
    var: Array

    def weigh(self, change: Array) -> Array:
        """A change of the sites (2, n) in units of the posterior: means, then precisions (2n,)."""
        dh, dW = change
        return np.concatenate([np.sqrt(self.var) * (dh - dW * self.shift), self.var * dW])

    @property
    def residual(self) -> float:
        """How much a plain step would change q, in units of its own spread."""
        return float(np.abs(self.weigh(self.r)).max())


class Sweeps:
    """From sites to the sites that match the moments: one factorisation each."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.K_diag = task.gram.diag()
        self.factorisations = 0

    def begin(self, start: Sites | None) -> State:
        """Sites nearby, or the prior, which needs no factorisation."""
        n, task = len(self.task.y), self.task
        if start is not None:
            h = start.a + start.W * (start.f - task.mean)
            near = self.look(np.array([h, start.W]))
            if near is not None:
                return near
        zero = np.zeros(n)
        state = self._state(np.zeros((2, n)), None, zero, task.mean, self.K_diag)
        if state is None:
            raise ValueError(
                f"{type(task.loss).__name__} is so narrow beside the prior variance "
                f"({_largest(task):.3g}) that its moments are lost to rounding; widen its noise, "
                "lower the kernel's variance, or use exact inference where the loss is Gaussian"
            )
        return state

    def look(self, x: Array, needed: bool = False) -> State | None:
        """The state at sites x (2, n), or None where there is no proper posterior or cavity."""
        task = self.task
        h, W = x
        if not np.all(np.isfinite(x)):
            return None
        self.factorisations += 1
        try:
            factor = task.gram.factor(W)
        except NotPositiveDefiniteError:
            if needed or not np.any(W < 0.0):
                raise  # not the fault of the sites
            return None
        # a = C z for the sites with a mean z = h / W, and (I - C K) h for those without
        sure = np.abs(W) * self.K_diag > 1e-6
        z, rest = np.where(sure, h, 0.0) / np.where(sure, W, 1.0), np.where(sure, 0.0, h)
        if np.any(rest):
            z = z - np.asarray(task.gram @ rest[:, None])[:, 0]
        a = factor.solve(z[:, None])[:, 0] + rest
        f = task.mean + np.asarray(task.gram @ a[:, None])[:, 0]
        return self._state(x, factor, a, f, factor.cov_diag())

    def _state(
        self, x: Array, factor: Factor | None, a: Array, f: Array, var: Array
    ) -> State | None:
        task = self.task
        with np.errstate(divide="ignore", invalid="ignore"):
            m, v = cavity(f, var, a, x[1], 1.0)
        largest = _largest(task)
        if not np.all((v >= 0.0) & (v <= WIDEST * np.maximum(self.K_diag, NARROWEST * largest))):
            return None
        v = np.maximum(v, NARROWEST * largest)
        _, b, c = power.tilted(task.loss, task.y, m, v, task.w)
        narrowed = 1.0 + v * c  # tilted variance over cavity variance, > 0
        if not np.all((narrowed > 0.0) & np.isfinite(b)):
            return None
        W = -c / narrowed
        h = (b - (m - task.mean) * c) / narrowed
        return State(x, np.array([h, W]) - x, factor, a, f, f - task.mean, var)


def _largest(task: Task) -> float:
    """The largest prior variance, 1 if all are zero."""
    return float(np.max(task.gram.diag(), initial=0.0)) or 1.0
