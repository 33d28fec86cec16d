"""The variational Gaussian by its sites, and the closed-form steps of the natural gradient.

The unknowns are the 2n site parameters (h, W): Sigma = (K^-1 + W)^-1 and a = h - W K a. On few
inducing points f_i has beside Sigma_ii the variance res_i that the points leave unexplained, and
both are in the variance that the loss sees. One step is O(n m^2), and no step lowers the bound

    E = -sum_i nu_i(mu_i, Sigma_ii + res_i) - KL(q(u) | p(u)),   nu_i = w_i E[g(y_i, f_i)]     (I6)

With a noise part of variance lam_i in the kernel, f_i + e_i follows f_i by the share
1 / (1 + W_i lam_i); the square of that is the share of res_i that the loss sees. Theory (I6).

Reference: Hensman, Matthews and Ghahramani (2015); Khan and Lin (2017) for the steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np

from mercer.core.arrays import Array
from mercer.core.deadline import check_time
from mercer.core.errors import NotPositiveDefiniteError
from mercer.inference.base import ended
from mercer.inference.sites.base import Sites, Task, averages
from mercer.inference.sites.sweeps import Anderson
from mercer.linalg.gram import Factor

HIDDEN = 1e-10  # relative rounding error of F that a step is forgiven: Kzz may be near singular
MEMORY = 4  # differences that the acceleration keeps
NEAR = 1.0  # residual below which steps are accelerated: q moves by less than its own width
SHORTEST = 1e-6  # a step below which nothing moves any more


class Place(Protocol):
    """A Gaussian that was visited, in coordinates x that are linear in its sites."""

    @property
    def x(self) -> Array:
        """Where it is."""

    @property
    def ahead(self) -> Array:
        """The x that the losses ask for there."""

    @property
    def free(self) -> float:
        """F, to be minimised."""

    @property
    def residual(self) -> float:
        """How far x is from ``ahead``, free of scale."""

    def weighed(self, change: Array) -> Array:
        """Return a change of x in units of the Gaussian, as a vector."""


P = TypeVar("P", bound=Place)


class NaturalSteps(Generic[P]):
    """Natural gradient steps, from x towards what the losses ask for there, for rows or for sums.

    A step is halved where the bound falls, and lengthened again after a success. Near the optimum
    steps are accelerated; one that would lower the bound is replaced by a plain one. ``best`` is
    the Gaussian so far, ``path`` the F on the way and ``used`` counts what was tried.
    """

    def __init__(self, enough: float, max_iter: int) -> None:
        self.enough, self.max_iter = enough, max_iter
        self.mixer, self.rate, self.plain, self.faster = Anderson(MEMORY), 1.0, 0, False
        self.best: P | None = None
        self.used = 0
        self.path: list[float] = []

    @property
    def done(self) -> bool:
        """Whether nothing is left to try."""
        if self.best is None:
            return False
        return bool(
            self.best.residual <= self.enough or self.used >= self.max_iter or self.rate <= SHORTEST
        )

    def proposed(self) -> Array:
        """Return the x to try next."""
        assert self.best is not None
        best, x = self.best, self.best.x
        step = self.rate * (best.ahead - x)
        self.faster = self.plain == 0 and best.residual < NEAR
        return self.mixer.step(x, step, best.weighed) if self.faster else x + step

    def take(self, trial: P | None) -> None:
        """Go on from a Gaussian that was tried if it is better, or refuse the step."""
        if trial is None or not self._better(trial):
            self.refuse()
            return
        if self.best is not None:
            self.rate, self.plain = min(1.0, 1.5 * self.rate), max(self.plain - 1, 0)
        self.best = trial
        self.path.append(trial.free)

    def refuse(self) -> None:
        """Make the next step a plain one, and a shorter one if this was plain."""
        self.mixer.forget()
        self.rate, self.plain = (self.rate if self.faster else 0.5 * self.rate), 2

    def _better(self, trial: P) -> bool:
        """Whether F fell; where rounding hides that a faster step must lower the residual."""
        if self.best is None:
            return True
        rise, rounding = trial.free - self.best.free, HIDDEN * (1.0 + abs(self.best.free))
        lower = not self.faster or trial.residual < self.best.residual
        return rise < -rounding or (rise <= rounding and lower)


def climb(task: Task, start: Sites | None, tol: float, max_iter: int) -> Sites:
    """Return the optimum on few inducing points, from ``start`` or from the prior."""
    steps = NaturalSteps[Point](tol, max_iter)
    point, steps.used = begin(task, start)
    steps.take(point)
    while not steps.done:
        check_time()
        x, point = steps.proposed(), steps.best or point
        if steps.faster and task.loss.convex:  # W < 0 is not a site of a log-concave factor
            x = np.where(x[1] < 0.0, point.x + steps.rate * (point.ahead - point.x), x)
        steps.used += 1
        steps.take(place(task, *x))
    return settled(task, steps.best or point, steps.used, steps.path, tol)


def settled(task: Task, point: Point, used: int, path: list[float], tol: float) -> Sites:
    """Return the sites where a descent of ``used`` factorisations ended, with its report."""
    message = (
        f"the variational Gaussian stopped at a residual of {point.residual:.2g}, not {tol:g}: "
        "raise max_iter, or lower the kernel's variance; a bound it is all the same"
    )
    spent = {"factorisations": used, "residual": point.residual, "free_energies": path}
    report = ended(point.residual <= tol, len(path) - 1, message, point.factor, **spent)
    return Sites(point.a, point.W, task.mean + point.shift, point.factor, report)


def seen(factor: Factor, W: Array) -> tuple[Array, float]:
    """Return the variance (n,) of f that the loss sees, and what KL(q | prior) is beyond 1/2 a'K a.

    That is 1/2 log|I + K W| - 1/2 sum_i W_i Sigma_ii, and what noise that follows f costs.
    """
    var = factor.cov_diag()
    rest = 0.5 * (factor.logdet() - float(W @ var))
    charge = None if factor.exact else factor.charge()
    if charge is None:
        return var, rest
    return var + 2.0 * charge.slope, rest + charge.value - float(W @ charge.slope)


def begin(task: Task, start: Sites | None) -> tuple[Point, int]:
    """The Gaussian to begin with, and the factorisations it took.

    Cold: the sites that the losses ask for when f_i has the variance max(K_ii, 1)^1/2, less where
    the loss is steep (an exponential would overflow), about the prior mean or, for other than
    binary targets, a place between it and the loss's centre.
    """
    used = 0 if start is None else 1
    if start is not None:
        point = place(task, start.a + start.W * (start.f - task.mean), start.W)
        if point is not None:
            return point, used
    prior = task.gram.diag()
    m, v = task.mean, np.sqrt(np.maximum(prior, 1.0))
    if task.loss.response != "binary":
        center = np.asarray(task.loss.centers(task.y), dtype=np.float64).mean(axis=0)
        m = m + (center - m) * prior / (prior + np.square(task.loss.width(task.y)))
    bend = averages(task, m, v)[2]
    v = np.where(v * bend > 4.0, np.sqrt(v / np.maximum(bend, 1e-300)), v)
    _, slope, bend = averages(task, m, np.maximum(v, 1e-8))
    W = np.maximum(bend, 0.0)
    for _ in range(40):
        used += 1
        point = place(task, W * (m - task.mean) - slope, W)
        if point is not None:
            return point, used
        slope, W = 0.25 * slope, 0.25 * W  # towards the prior, where every loss is finite
    raise ValueError(
        "the variational Gaussian finds no place to begin: the average loss is infinite under the "
        "prior; make the kernel's variance smaller, or check the targets"
    )


@dataclass
class Point:
    """A Gaussian on the way, and what the losses say about it.

    Attributes
    ----------
    h, W, factor : (n,) site parameters, and C for W.
    a, shift, var : (n,) weights, K a, and the variances, the diagonal of Sigma and res.
    free : F, the free energy: to be minimised.
    slope, bend : (n,) d nu/dm and d2 nu/dm2 = 2 d nu/dv; at the optimum -a and W.
    residual : largest of |a + slope| sqrt(var) and |bend - W| var, free of scale.
    higher : third and fourth derivatives of nu in m, once asked for.
    """

    h: Array
    W: Array
    factor: Factor
    a: Array
    shift: Array
    var: Array
    free: float
    slope: Array
    bend: Array
    residual: float
    higher: tuple[Array, Array] | None = None

    @property
    def x(self) -> Array:
        """The sites (2, n), the coordinates of natural gradient steps."""
        return np.array([self.h, self.W])

    @property
    def ahead(self) -> Array:
        """The sites (2, n) that the losses ask for, thesis (5.2)-(5.3)."""
        return np.array([self.bend * self.shift - self.slope, self.bend])

    def weighed(self, change: Array) -> Array:
        """A change of the sites (2, n) in units of the posterior: means, then precisions (2n,)."""
        dh, dW = change
        return np.concatenate([np.sqrt(self.var) * (dh - dW * self.shift), self.var * dW])


def place(task: Task, h: Array, W: Array) -> Point | None:
    """Return the Gaussian with sites (h, W), or None if there is none; one factorisation.

    F = sum nu + 1/2 a'K a + 1/2 log|I + K W| - 1/2 sum_i W_i Sigma_ii, thesis (4.7) without K^-1.
    """
    if not (np.all(np.isfinite(h)) and np.all(np.isfinite(W))):
        return None
    try:
        factor = task.gram.factor(W)
    except NotPositiveDefiniteError:
        return None
    var, rest = seen(factor, W)
    if not np.all(var > 0.0):
        factor.release()
        return None
    shift, a = task.gram.smoothed(factor, h)
    with np.errstate(over="ignore", invalid="ignore"):
        total, slope, bend = averages(task, task.mean + shift, var)
        free = total + 0.5 * float(a @ shift) + rest
        mean_off, bend_off = (a + slope) * np.sqrt(var), (bend - W) * var
    residual = max(float(np.abs(mean_off).max()), float(np.abs(bend_off).max()))
    if not (np.isfinite(free) and np.isfinite(residual)):
        factor.release()
        return None
    return Point(h, W, factor, a, shift, var, free, slope, bend, residual)
