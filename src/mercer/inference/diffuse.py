"""Laplace and EP for curves on a line with a flat prior on their polynomials, in O(n).

The function f has the prior of :class:`~mercer.linalg.line.MarkovGram`: integrated white
noise and, beside it, polynomials of degree m - 1 about which nothing is known. For sites of
precision W and mean z one pass of its filter gives f, its variances and log |I + K W| + log |A|;
K a is never formed, since the flat part makes it a difference of large numbers: with P of
:mod:`mercer.linalg.dense.projected`, a = P z = W (z - f), and the penalty is a'f.

Beside the methods for any Gram there is where they begin (a flat prior has no moments), and that
the filter takes no negative precisions. Newton's steps are smoothing splines of working targets
z = f - g'/W (GPML 3.4 and 6.3).
"""

from __future__ import annotations

from copy import copy
from typing import Any, ClassVar

import numpy as np

from mercer.core.arrays import Array
from mercer.inference.base import Inference, Report
from mercer.inference.mode.descent import Local, Mode, further
from mercer.inference.mode.newton import weighted
from mercer.inference.mode.prox import has_kinks
from mercer.inference.sites.base import Sites, Task
from mercer.inference.sites.ep import EP
from mercer.inference.sites.laplace import Laplace
from mercer.inference.sites.sweeps import Sweeps, SweepState
from mercer.kernels.base import Gradient
from mercer.linalg.gram import Factor
from mercer.linalg.line import MarkovFactor, MarkovGram
from mercer.losses.base import Loss

FAR = 1e9  # how far a working target may lie, in 1 / sqrt(max W): beyond, digits are lost
WIDE = 1e4  # of the largest posterior variance: stands for the infinite prior variance


class DiffuseGram(MarkovGram):
    """A :class:`MarkovGram` whose prior variance, the flat part included, is as good as infinite.

    ``wide`` stands for that variance; nothing but checks depend on it.
    """

    def __init__(
        self, points: Array, order: int = 2, variance: float = 1.0, wide: float = 1.0
    ) -> None:
        super().__init__(points, order, variance)
        self.flat, self.wide = order, wide

    def diag(self) -> Array:
        return np.full(len(self.points), self.wide)

    def with_variance(self, variance: float) -> DiffuseGram:
        """Return the same points with another variance of the process."""
        twin = copy(self)
        twin.variance = variance
        return twin

    def fitted(self, W: Array, z: Array) -> tuple[MarkovFactor, Array, Array]:
        factor = self.factor(W)
        f = factor.fitted(z[:, None])[:, 0]
        return factor, f, np.asarray(W * (z - f))

    def unpenalised(self, f: Array, a: Array) -> Array:
        """Return a constant (m = 1) or line (n,) near f: a'f = a'(f - line), with more digits."""
        x, middle = self.points[:, 0], float(f.mean())
        if self.order == 1:
            return np.full(len(f), middle)
        d = x - x.mean()
        return np.asarray(middle + d * (float(d @ (f - middle)) / float(d @ d)))

    def smoothed(self, factor: Factor, s: Array) -> tuple[Array, Array]:
        assert isinstance(factor, MarkovFactor)
        _, q, z = self.fitted(factor.W, ratio(s, factor.W))
        return q, z

    def slope(self, alpha: Array, factor: MarkovFactor, U: Array | None = None) -> float:
        """Return dE / d log variance for a (n, 1), its factor, and U (n, 1) of formula (3), V = a.

        tr(P K) = edf - m, and K a is f but for polynomials, to which a and U are orthogonal:

            dE / d log variance = (a'f - edf + m) / 2 + U'f
        """
        f = self.restored(factor.states().mean[:, 0])
        f = f - self.unpenalised(f, alpha[:, 0])
        slope = 0.5 * (float(alpha[:, 0] @ f) - factor.edf() + self.order)
        return slope if U is None else slope + float(U[:, 0] @ f)

    def pullback(
        self, alpha: Array, factor: Factor, U: Array | None = None, V: Array | None = None
    ) -> Gradient:
        assert isinstance(factor, MarkovFactor)
        return {"variance": self.slope(alpha, factor, U) / self.variance}


def diffuse(inference: Inference) -> Laplace | EP:
    """Return Laplace or EP, whichever ``inference`` is, for a :class:`DiffuseGram`."""
    given = inference.get_params()
    kind = DiffuseEP if "tilted" in inference.needs else DiffuseLaplace
    return kind(tol=given["tol"], max_iter=given["max_iter"])


class DiffuseLaplace(Laplace):
    """Laplace's approximation on a :class:`DiffuseGram`; see :class:`Laplace`.

    It ends when a step moves no latent value by more than tol * (1 + max |f|), f without its level.
    """

    abstract: ClassVar[bool] = True  # not a part that users name

    def derivatives(self, loss: Loss, y: Array, f: Array) -> tuple[Array, Array, Array]:
        """Where g is not convex, its expected curvature (the Fisher information) replaces g''.

        Hartmann & Vanhatalo (2019), Laplace approximation and natural gradient for Gaussian process
        regression with heteroscedastic Student-t model.
        """
        d1, d2, d3 = loss.derivatives(y, f)
        if loss.convex:
            return d1, d2, d3
        expected = loss.expected_curvature()  # type: ignore[attr-defined]  # asked for before the fit
        return d1, np.full(len(f), expected), np.zeros(len(f))

    def sites(self, task: Task, start: Sites | None) -> Sites:
        local, none = weighted(task.loss, task.y, task.w), np.zeros((0, 1))
        assert isinstance(task.gram, DiffuseGram)
        state, still, bent = _begin(task, local, start), False, task.gram.variance > 0.0
        if not bent:  # polynomials have no penalty: what rounding makes of it must not be followed
            state = _at(task, local, state.f[:, 0], np.zeros(len(state.f)))
        while not still and state.steps < self.max_iter:
            _, f, a = task.gram.fitted(*_working(task, state))
            df, da = f[:, None] - state.f, a[:, None] - state.a
            if bent:
                Kda = df - task.gram.unpenalised(df[:, 0], da[:, 0])[:, None]
            else:
                da, Kda = 0.0 * da, 0.0 * df
            state = further(state, local, da, none, Kda, df)
            f = state.f[:, 0]
            # a move that does not count beside the shape of f, nor beside the rounding of f itself
            shape = float(np.abs(f - task.gram.unpenalised(f, f)).max())
            rounding = 16.0 * float(np.finfo(float).eps * np.abs(f).max())
            still = state.moved <= self.tol * (1.0 + shape) + rounding
            still = still or state.decrement <= 1e-15 * max(1.0, abs(state.objective))
        f, slope = state.f[:, 0], state.slope[:, 0]
        raw = task.w * self.derivatives(task.loss, task.y, f)[1]
        W = raised(raw, slope)
        factor, f, a = task.gram.fitted(W, f - ratio(slope, W))
        residual = float(np.abs(state.residual).max()) if bent else float(abs(slope.sum()))
        details: dict[str, Any] = {"factorisations": state.steps + 2, "residual": residual}
        details["curvature"] = "observed" if task.loss.convex else "expected"
        if np.any(raw < W):
            details["raised_curvature"] = int((raw < W).sum())
        message = (
            f"the mode was not reached in max_iter = {self.max_iter} Newton steps; raise max_iter, "
            "or give a larger lam"
        )
        message = "" if still else message
        return Sites(a, W, f, factor, Report(bool(still), state.steps, None, message, details))


def raised(W: Array, pull: Array) -> Array:
    """Return W (n,), raised where the target pull / W would lie too far for the digits there are.

    A loss that is straight where it is steep (a wrong label far away) has no curvature.
    """
    return np.asarray(np.maximum(W, np.abs(pull) * np.sqrt(float(W.max(initial=0.0))) / FAR))


def ratio(pull: Array, W: Array) -> Array:
    """Return pull / W (n,), zero where W is: such a row says nothing."""
    return np.divide(pull, W, out=np.zeros(len(W)), where=W > 0.0)


def _working(task: Task, state: Mode) -> tuple[Array, Array]:
    """W = w g'' > 0 of a step downhill, w g'/(f - y) where it is not, and targets f - w g'/W."""
    f, slope, W = state.f[:, 0], state.slope[:, 0], state.curvature[:, 0]
    if not task.loss.convex:
        with np.errstate(divide="ignore", invalid="ignore"):
            W = np.where(W > 0.0, W, slope / (f - task.y))
    W = raised(W, slope)
    return W, f - ratio(slope, W)


def _at(task: Task, local: Local, f: Array, a: Array) -> Mode:
    """The state at latent values f and a, (n,) each: the penalty is a'f = a'(f - line)."""
    F, bent = f[:, None], f - task.gram.unpenalised(f, a)
    return Mode(a[:, None], np.zeros((0, 1)), bent[:, None], F, *local(F))


def _begin(task: Task, local: Local, start: Sites | None) -> Mode:
    """The sites of ``start`` under this prior; or those of the curvature at each loss's centre."""
    if start is not None and start.W.shape == task.y.shape:
        near = _at(task, local, *task.gram.fitted(start.W, start.f + ratio(start.a, start.W))[1:])
        if np.isfinite(near.objective):
            return near
    middle = _at(
        task, local, np.asarray(task.loss.centers(task.y)).mean(axis=0), np.zeros(len(task.y))
    )
    state = _at(task, local, *task.gram.fitted(*_working(task, middle))[1:])
    if not np.isfinite(state.objective):
        raise ValueError(
            "the loss is not finite at the start of the search for the mode; check the scale of "
            "the targets"
        )
    return state


class DiffuseEP(EP):
    """EP on a :class:`DiffuseGram`, for log-concave losses, whose sites have W > 0."""

    abstract: ClassVar[bool] = True  # not a part that users name

    def sweeps(self, task: Task) -> DiffuseSweeps:
        return DiffuseSweeps(task)


class DiffuseSweeps(Sweeps):
    """Sweeps whose posterior mean is the smoothing spline of the sites; all have W > 0."""

    def begin(self, start: Sites | None) -> SweepState:
        """Begin at sites nearby, those of Laplace if none are given: the prior has no moments."""
        task = self.task
        if start is None and not has_kinks(task.loss):
            start = DiffuseLaplace(1e-6).sites(task, None)
        elif start is None:  # at the centre of each loss, as narrow as the loss is wide
            middle = np.asarray(task.loss.centers(task.y)).mean(axis=0)
            width = np.broadcast_to(task.loss.width(task.y), middle.shape)
            W = np.asarray(task.w / np.square(width))
            factor, f, a = task.gram.fitted(W, middle)
            start = Sites(a, W, f, factor, Report())
        factor = task.gram.fitted(start.W, start.f + ratio(start.a, start.W))[0]
        assert isinstance(task.gram, DiffuseGram)
        task.gram.wide = WIDE * float(factor.cov_diag().max())
        self.K_diag = task.gram.diag()
        state = self.look(np.array([start.a + start.W * start.f, start.W]))
        if state is None:
            raise ValueError(
                f"{type(task.loss).__name__} has no proper cavities at the mode: a row alone "
                "determines the curve where it is; give more rows, a smaller order, or use "
                "inference='laplace'"
            )
        return state

    def look(self, x: Array, needed: bool = False) -> SweepState | None:
        if not np.all(np.isfinite(x)) or np.any(x[1] < 0.0) or not np.any(x[1] > 0.0):
            return None
        self.factorisations += 1
        W = raised(x[1], x[0])
        factor, f, a = self.task.gram.fitted(W, ratio(x[0], W))
        return self.state(np.array([x[0], W]), factor, a, f, factor.cov_diag())
