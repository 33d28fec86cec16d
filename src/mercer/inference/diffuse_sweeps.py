"""Expectation propagation for a curve with a flat prior on its polynomials."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from mercer.arrays import Array
from mercer.inference.diffuse_mode import fitted, raised, ratio
from mercer.inference.sites import SiteInference, Sites, Task
from mercer.inference.sweeps import State, Sweeps

WIDE = 1e4  # of the largest posterior variance: stands for the infinite prior variance


class DiffuseSweeps(Sweeps):
    """Sweeps whose posterior mean is the smoothing spline of the sites, not K a.

    Parameters
    ----------
    task : with a log-concave loss, whose sites have W > 0.
    """

    def __init__(self, task: Task) -> None:
        super().__init__(task)

    def begin(self, start: Sites | None) -> State:
        """Return the state at sites nearby; the prior itself has no moments."""
        assert start is not None
        factor = fitted(self.task, start.W, start.f + ratio(start.a, start.W))[0]
        cast(Any, self.task.gram).wide = WIDE * float(factor.cov_diag().max())
        self.K_diag = self.task.gram.diag()
        state = self.look(np.array([start.a + start.W * start.f, start.W]))
        if state is None:
            raise ValueError(
                f"{type(self.task.loss).__name__} has no proper cavities at the mode: a row alone "
                "determines the curve where it is; give more rows, a smaller order, or use "
                "inference='laplace'"
            )
        return state

    def look(self, x: Array, needed: bool = False) -> State | None:
        """See :meth:`Sweeps.look`; W <= 0 is no site of a log-concave loss."""
        if not np.all(np.isfinite(x)) or np.any(x[1] < 0.0) or not np.any(x[1] > 0.0):
            return None
        self.factorisations += 1
        W = raised(x[1], x[0])
        factor, f, a = fitted(self.task, W, ratio(x[0], W))
        return self._state(np.array([x[0], W]), factor, a, f, factor.cov_diag())


def fixed_point(ep: SiteInference, task: Task, start: Sites) -> Sites:
    """Return the sites that match the moments, from sites nearby.

    ``ep`` is the inference whose steps, tolerance and report are used.
    """
    method, sweeps = cast(Any, ep), DiffuseSweeps(task)
    state, iterations, cause = method._settle(sweeps, sweeps.begin(start))
    if state.factor is None:
        state = sweeps.look(state.x)
        assert state is not None  # these sites were looked at before
    report = method._report(state.residual, iterations, sweeps.factorisations, cause)
    return Sites(state.a, state.x[1], state.f, state.factor, report)
