"""Sweeps of expectation propagation: from Gaussian sites to those that match the moments.

Of each site a share ``power`` is taken away and put back by the true factor to the same power: 1 is
EP, less is power EP, milder where a posterior has several modes. Reference: Minka (2004), Power EP.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mercer.core.arrays import Array
from mercer.core.errors import NotPositiveDefiniteError
from mercer.inference.sites.base import Sites, Task, cavity
from mercer.linalg.gram import Factor
from mercer.losses.numbers import power as powers

WIDEST = 100.0  # prior variances that a cavity may have; only sites with W < 0 make it exceed one
NARROWEST = 1e-14  # of the largest prior variance: stands for v = 0, where a kernel pins f down


@dataclass(frozen=True)
class SweepState:
    """Sites x (2, n), h and W, and their change r; ``factor`` is None for the prior, x = 0."""

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

    def __init__(self, task: Task, power: float = 1.0) -> None:
        self.task, self.power = task, power
        self.K_diag, self.factorisations = task.gram.diag(), 0

    def begin(self, start: Sites | None) -> SweepState:
        """Sites nearby, or the prior, which needs no factorisation."""
        task, zero = self.task, np.zeros((2, len(self.task.y)))
        if start is not None:
            h = start.a + start.W * (start.f - task.mean)
            near = self.look(np.array([h, start.W]))
            if near is not None:
                return near
        state = self.state(zero, None, zero[0], task.mean, self.K_diag)
        if state is None:
            raise ValueError(
                f"{type(task.loss).__name__} is so narrow beside the prior variance "
                f"({np.max(self.K_diag):.3g}) that its moments are lost to rounding; widen its "
                "noise, lower the kernel's variance, or use exact inference where the loss is "
                "Gaussian"
            )
        return state

    def look(self, x: Array, needed: bool = False) -> SweepState | None:
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
        shift, a = task.gram.placed(factor, z, rest)
        return self.state(x, factor, a, task.mean + shift, factor.cov_diag())

    def state(
        self, x: Array, factor: Factor | None, a: Array, f: Array, var: Array
    ) -> SweepState | None:
        """The state at sites x (2, n) whose posterior has weights a, means f and variances (n,)."""
        task = self.task
        with np.errstate(divide="ignore", invalid="ignore"):
            m, v = cavity(f, var, a, x[1], self.power)
        lowest = narrowest(task)
        if not np.all((v >= 0.0) & (v <= WIDEST * np.maximum(self.K_diag, lowest))):
            return None
        v = np.maximum(v, lowest)
        _, b, c = powers.tilted(task.loss, task.y, m, v, self.power * task.w)
        narrowed = 1.0 + v * c  # tilted variance over cavity variance, > 0
        if not np.all((narrowed > 0.0) & np.isfinite(b)):
            return None
        W = -c / (self.power * narrowed)
        h = (b - (m - task.mean) * c) / (self.power * narrowed)
        return SweepState(x, np.array([h, W]) - x, factor, a, f, f - task.mean, var)


def narrowest(task: Task) -> float:
    """The variance that stands for none, relative to the largest of the prior (1 if all are 0)."""
    return NARROWEST * (float(np.max(task.gram.diag(), initial=0.0)) or 1.0)


class Anderson:
    """The next point from the last few, as if G were linear.

    With r = G(x) - x and differences dX, dR over the history, gamma = argmin |T(r - dR gamma)| for
    a linear T that says what counts, the next point is x + rho r - (dX + rho dR) gamma, rho = 1
    unless damped. It has the fixed points of G and no others; the caller accepts the point or not.
    ``memory`` differences are kept. Reference: Walker & Ni (2011), SIAM J. Numer. Anal. 49.
    """

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self._history: list[tuple[Array, Array]] = []

    def forget(self) -> None:
        """Begin anew."""
        self._history = []

    def step(
        self, x: Array, r: Array, weigh: Callable[[Array], Array] = np.ravel, rho: float = 1.0
    ) -> Array:
        """Return the next point for x and r of one shape; ``weigh`` is T, its values (q,)."""
        self._history = [*self._history, (x, r)][-self.memory - 1 :]
        if len(self._history) == 1:
            return x + rho * r
        X, R = (np.array(part) for part in zip(*self._history, strict=True))
        dX, dR = np.diff(X, axis=0), np.diff(R, axis=0)
        A = np.column_stack([weigh(d) for d in dR])
        gamma = np.linalg.lstsq(A, weigh(r), rcond=1e-10)[0]
        return np.asarray(x + rho * r - np.tensordot(gamma, dX + rho * dR, axes=1))
