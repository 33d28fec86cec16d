"""Expectation propagation: sites with the moments of the true ones; theory (A8), (A9), (A10)."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import ClassVar, TypeAlias

import numpy as np

from mercer.core.deadline import check_time
from mercer.inference.base import Evidence, check_limits, ended
from mercer.inference.sites.base import SiteInference, Sites, Task, cavity
from mercer.inference.sites.sweeps import Anderson, Sweeps, SweepState, narrowest
from mercer.losses.base import Loss
from mercer.losses.numbers import power as powers
from mercer.losses.numbers.defaults import slopes

POWERS = (0.8, 0.5)  # that take over where EP finds no proper cavities
SEARCHING = 1e-5  # the tolerance that a search for hyperparameters needs
ROUGHER = 100.0  # times that of one on some of the rows
MEMORY = 4  # differences that the acceleration keeps
NEAR = 1.0  # residual below which steps are accelerated: q moves by less than its own width
STALE, SHORTEST = 8, 0.02  # sweeps without progress until they are damped, and how far at most
FAR, GROWTH = 100.0, 3.0  # a step may leave a residual of GROWTH times the best so far, or FAR

# where the sweeps ended, how many, what was in the way
Settled: TypeAlias = tuple[SweepState, int, str]


class EP(SiteInference):
    """Expectation propagation, all sites in parallel, accelerated.

    The site of point i is exp(h f - W f^2 / 2), f measured from the prior mean. With the cavity
    N(m, v), q without the site, and L = log int exp(-g(y_i, f)) N(f | m, v) df, b = L', c = L'':

        W <- -c / (1 + v c),    h <- (b - m c) / (1 + v c)          until nothing moves.

    The evidence, in a form without differences of large numbers (a_i = h_i - W_i mu_i),

        E = sum_i [ L_i + 1/2 log(1 + W_i v_i) + 1/2 v_i a_i^2 ] - 1/2 log|I + K W| - 1/2 a'K a,

    is stationary in the sites at the fixed point, so that U V' = 0 in formula (3). It is exact for
    one point, and very accurate for many, but no bound. Sites of losses that are not log-concave
    may have W < 0. A row of weight w is one site for exp(-w g), exact for a repeated row.

    Steps are accelerated; one that makes K^-1 + W indefinite or a cavity improper (v < 0, or
    v > 100 K_ii), or lets the residual grow, is replaced by a plain and then by a shorter one.
    Where K_ii = 0 the moments are taken at v = 1e-14 of the largest K_ii.

    Posteriors of several modes (narrow StudentT noise with many outliers) may have no fixed point
    with proper cavities, or none within reach of the prior. If EP fails for a loss that is not
    convex, power EP with p = 0.8, then 0.5, goes first: a share p of a site is taken away, L is of
    exp(-p g), and h and W are 1/p times the above. EP continues from its fixed point; where that
    fails too the result is that of power EP (``report.details["power"]``), whose evidence is

        E = sum_i [ (L_i + 1/2 log(1 + p W_i v_i)) / p + 1/2 p v_i a_i^2 ] - ... as above.

    Parameters
    ----------
    tol : stop when no site would move q by more than this: changes of W in units of 1/Sigma_ii and
        of h - W mu in units of Sigma_ii^-1/2. E errs by about tol^2, its gradient by tol.
    max_iter : sweeps at most; reaching it is reported, not raised.

    Reference: Minka (2001, 2004); Seeger's thesis, section 5.2; GPML section 3.6, (3.65).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import kernels, linalg, losses
    >>> gram = linalg.DenseGram(3.0 * kernels.RBF(), np.zeros((1, 1)), keep=True)
    >>> y = np.ones((1, 1))
    >>> solution = EP().solve(gram, y, losses.Probit())
    >>> np.exp(EP().evidence(gram, y, losses.Probit(), solution).value).round(12)  # by symmetry
    np.float64(0.5)
    """

    abstract: ClassVar[bool] = False
    needs: ClassVar[tuple[str, ...]] = ("tilted",)
    works_in_linear_time: ClassVar[bool] = True
    inverse_in_place: ClassVar[bool] = True
    serves_device: ClassVar[bool] = True
    link: ClassVar[str] = "probit"  # its tilted moments are closed

    def __init__(self, tol: float = 1e-6, max_iter: int = 200) -> None:
        check_limits("EP", tol, max_iter)
        self.tol, self.max_iter = tol, max_iter

    def searching(self, rough: bool = False) -> EP:
        """Return EP with ten times ``tol``, at most 1e-5 (1e-3 if ``rough``); E errs by its square.

        ``rough`` times a hundred again.
        """
        more = ROUGHER if rough else 1.0
        tol = max(self.tol, min(10.0 * more * self.tol, more * SEARCHING))
        return self if tol == self.tol else copy(self).set_params(tol=tol)

    def sweeps(self, task: Task) -> Sweeps:
        """Return the sweeps over the sites of a task."""
        if not task.gram.flat:
            return Sweeps(task)
        from mercer.inference.sites.flat import FlatSweeps

        return FlatSweeps(task)

    def sites(self, task: Task, start: Sites | None) -> Sites:
        sweeps = self.sweeps(task)
        if start is not None:
            sweeps.power = start.report.details.get("power", 1.0)
        state, iterations, cause = self._settle(sweeps, sweeps.begin(start))
        if start is not None and state.residual > self.tol:
            sweeps.power = 1.0
            state, iterations, cause = self._settle(sweeps, sweeps.begin(None))
        if state.residual > self.tol and not task.loss.convex:
            state, iterations, cause = self._milder(sweeps, (state, iterations, cause))
        if state.factor is None:
            found = sweeps.look(state.x, needed=True)
            assert found is not None  # these sites were looked at before
            state = found
        assert state.factor is not None
        message = (
            f"EP stopped after {iterations} sweeps with a residual of {state.residual:.2g} > tol = "
            f"{self.tol:g}{cause}: raise max_iter, bound the kernel's variance, or use Laplace or "
            "Variational inference"
        )
        spent = {"factorisations": sweeps.factorisations, "residual": state.residual}
        done = state.residual <= self.tol
        report = ended(done, iterations, message, state.factor, **spent)
        if sweeps.power < 1.0:
            report.details["power"] = sweeps.power
        return Sites(state.a, state.x[1], state.f, state.factor, report)

    def _milder(self, sweeps: Sweeps, failed: Settled) -> Settled:
        """By power EP to its fixed point, and from there to that of EP, if it has one.

        Leaves the power that was needed in ``sweeps``; ``failed`` and 1 if none helps.
        """
        for power in POWERS:
            sweeps.power = power
            found, iterations, _ = self._settle(sweeps, sweeps.begin(None))
            if found.residual > self.tol:
                continue
            sweeps.power = 1.0
            if found.factor is not None:
                found.factor.release()
            whole = sweeps.look(found.x)
            settled = None if whole is None else self._settle(sweeps, whole)
            if settled is not None and settled[0].residual <= self.tol:
                return settled
            sweeps.power = power
            return replace(found, factor=None), iterations, ""
        sweeps.power = 1.0
        return failed

    def _settle(self, sweeps: Sweeps, state: SweepState) -> Settled:
        """Return the last state, the number of sweeps, and what was in the way.

        If no state is good enough it is the one of least residual, without its factor.
        """
        mixer, rho, longest = Anderson(MEMORY), 1.0, 1.0
        patience = iterations = stale = 0
        best = replace(state, factor=None)
        while state.residual > self.tol:
            if iterations == self.max_iter:
                return best, iterations, ""
            if rho < 1e-6:
                return best, iterations, " (no step keeps the posterior and its cavities proper)"
            check_time()
            iterations += 1
            plain = ahead = state.x + rho * state.r
            mixed = patience == 0 and state.residual < NEAR
            if mixed:
                ahead = mixer.step(state.x, state.r, state.weigh, rho)
                if sweeps.task.loss.convex:  # W < 0 is not a site of a log-concave factor
                    ahead = np.where(ahead[1] < 0.0, plain, ahead)
            if state.factor is not None:
                state.factor.release()  # its memory serves the next
            state = replace(state, factor=None)
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

    def score(self, task: Task, sites: Sites) -> Evidence:
        power, var = float(sites.report.details.get("power", 1.0)), sites.factor.cov_diag()
        m, v = cavity(sites.f, var, sites.a, sites.W, power)
        v = np.maximum(v, narrowest(task))

        def tilted(loss: Loss) -> float:
            return float(powers.tilted(loss, task.y, m, v, power * task.w)[0].sum()) / power

        rest = 0.5 * (np.log1p(power * sites.W * v) / power + power * v * np.square(sites.a))
        value = tilted(task.loss) + float(rest.sum()) - 0.5 * sites.factor.logdet()
        value -= 0.5 * float(sites.a @ (sites.f - task.mean))
        return Evidence(value, loss_gradient=slopes(task.loss, tilted))
