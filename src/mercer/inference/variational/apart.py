"""The variational Gaussian of several latent functions, independent of each other given the data.

q(f_1) .. q(f_m): the m functions at n points are one function at mn points with a block diagonal K,
and the loss couples them through E[g(y_i, f_i1 .. f_im)] alone. Steps and bound are those of one
function: theory (A11), (A12).
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from mercer.core.arrays import Array
from mercer.inference.base import Evidence, Solution
from mercer.inference.sites.base import Sites, Task
from mercer.inference.variational.natural import climb, seen
from mercer.linalg.dense.coupled import CoupledFactor
from mercer.linalg.dense.several import StackedFactor, StackedGram
from mercer.linalg.gram import Gram
from mercer.losses.base import Loss
from mercer.losses.numbers.defaults import slopes
from mercer.losses.several.base import SeveralLatents


class Apart(Loss):
    """A loss of m functions at n points as one of a function at mn: E[g] counts at the first n."""

    abstract: ClassVar[bool] = True
    convex: ClassVar[bool] = False

    def __init__(self, loss: SeveralLatents, y: Array) -> None:
        self.loss, self.y, self.m = loss, y, len(loss.latents)

    def columns(self, values: Array) -> Array:
        """(mn,) as (n, m)."""
        return np.ascontiguousarray(values.reshape(self.m, -1).T)

    def expected(self, y: Array, m: Array, v: Array) -> tuple[Array, Array, Array]:
        value, dm, dv = self.loss.expected(self.y, self.columns(m), self.columns(v))
        rest = np.zeros((self.m - 1) * len(self.y))
        return np.concatenate([value, rest]), dm.T.ravel(), dv.T.ravel()

    def centers(self, y: Array) -> Array:
        return self.loss.start(self.y).T.ravel()[None]

    def width(self, y: Array) -> Array:
        first = np.broadcast_to(self.loss.width(self.y), self.y.shape)
        return np.concatenate([first, np.ones((self.m - 1) * len(self.y))])


def solved(task: Task, start: Solution | None, tol: float, max_iter: int) -> Solution:
    """Return the best such Gaussian, from a solution nearby or from the prior."""
    assert isinstance(task.loss, SeveralLatents)
    loss, m = Apart(task.loss, task.y[:, 0]), task.mean.shape[1]
    stack = StackedGram(task.gram.each(m))
    flat = Task(stack, np.tile(loss.y, m), loss, np.tile(task.w, m), task.mean.T.ravel())
    begun = None
    if start is not None and start.W.shape == task.mean.shape:
        a, W, f = (part.T.ravel() for part in (start.alpha, start.W, start.z))
        begun = Sites(a, W, f, start.factor, start.report)
    found = climb(flat, begun, tol, max_iter)
    assert isinstance(found.factor, StackedFactor)
    a, W, f = (loss.columns(part) for part in (found.a, found.W, found.f))
    return Solution(a, W, f, CoupledFactor(found.factor.factors), None, task.w, found.report)


def bound(gram: Gram, y: Array, loss: Loss, solution: Solution) -> Evidence:
    """Return the bound on the log evidence and its gradient in the loss; y is (n, 1)."""
    assert isinstance(solution.factor, CoupledFactor)
    columns = zip(solution.factor.factors, solution.W.T, strict=True)
    each = [seen(factor, W) for factor, W in columns]
    var, w, f = np.column_stack([v for v, _ in each]), solution.weights, solution.z
    rest = sum(r for _, r in each)
    rest += 0.5 * float(np.vdot(solution.alpha, np.asarray(gram @ solution.alpha)))

    def expected(given: Loss) -> float:
        return float(w @ given.expected(y[:, 0], f, var)[0])

    gradient = {name: -slope for name, slope in slopes(loss, expected).items()}
    return Evidence(-expected(loss) - rest, loss_gradient=gradient)
