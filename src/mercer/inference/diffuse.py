"""Expectation propagation for a curve with a flat prior on its polynomials.

The mode of a curve with a flat prior on its polynomials, and the Laplace evidence there.

Newton's steps are smoothing splines of working targets z = f - g'/W with precisions W
(methods of GPML 3.4 and 6.3). Along a step the penalty is a quadratic, known from its two ends,
so that a shorter step costs no further pass.

Curves on a line with a flat prior on their polynomials, for losses that are no quadratic.

The function f has the prior of :class:`~mercer.linalg.spline.gram.MarkovGram`: integrated white
noise and, beside it, polynomials of degree m - 1 about which nothing is known. For sites of
precision W and mean z one pass of its filter gives f, its variances and log |I + K W| + log |A|;
K f = a is never formed, since the flat part makes it a difference of large numbers: with P of
:mod:`mercer.linalg.dense.projected`, a = P z = W (z - f), and the penalty is a'f.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from mercer.core.arrays import Array
from mercer.inference.base import Evidence, Inference, Report, Solution
from mercer.inference.mode.descent import longer, shorter
from mercer.inference.mode.prox import has_kinks
from mercer.inference.sites.base import SiteInference, Sites, Task, columns, joined
from mercer.inference.sites.sweeps import Sweeps, SweepState
from mercer.linalg.gram import Factor
from mercer.linalg.spline.gram import MarkovFactor, MarkovGram
from mercer.losses.base import Loss
from mercer.losses.numbers.defaults import slopes

FAR = 1e9  # how far a working target may lie, in 1 / sqrt(max W): beyond, digits are lost


@dataclass(frozen=True)
class CurveState:
    """A curve: latent values f (n,), a = P z (n,), loss and its slope, weights included."""

    f: Array
    a: Array
    total: float
    slope: Array

    @property
    def objective(self) -> float:
        """The loss plus half the penalty a'f."""
        return self.total + 0.5 * float(self.a @ self.f)


def fitted(task: Task, W: Array, z: Array) -> tuple[MarkovFactor, Array, Array]:
    """Return the factor of precisions W (n,), and f and a of targets z (n,)."""
    factor = task.gram.factor(W)
    assert isinstance(factor, MarkovFactor)
    f = factor.fitted(z[:, None])[:, 0]
    return factor, f, np.asarray(W * (z - f))


def level(task: Task, f: Array) -> Array:
    """Return a constant (m = 1) or line (n,) near f: a'f = a'(f - line), with fewer digits lost."""
    x, middle = task.gram.points[:, 0], float(f.mean())
    if cast(MarkovGram, task.gram).order == 1:
        return np.full(len(f), middle)
    d = x - x.mean()
    return np.asarray(middle + d * (float(d @ (f - middle)) / float(d @ d)))


def raised(W: Array, pull: Array) -> Array:
    """Return W (n,), raised where the target pull / W would lie too far for the digits there are.

    Losses that are straight where they are steep (a wrong label far away) have no curvature; where
    both vanish (a right one) there is nothing to raise.
    """
    return np.asarray(np.maximum(W, np.abs(pull) * np.sqrt(float(W.max(initial=0.0))) / FAR))


def ratio(pull: Array, W: Array) -> Array:
    """Return pull / W (n,), zero where W is: such a row says nothing."""
    return np.divide(pull, W, out=np.zeros(len(W)), where=W > 0.0)


def curvature(loss: Loss, y: Array, f: Array) -> Array:
    """Return the precision W / w of a Laplace site, g'', or its mean over y if g is not convex.

    The O(n) filter knows no negative information. Where g is not convex its expected curvature (the
    Fisher information) takes the place of g'': Hartmann & Vanhatalo (2019), Laplace approximation
    and natural gradient for Gaussian process regression with heteroscedastic Student-t model.
    """
    if loss.convex:
        return np.asarray(loss.derivatives(y, f)[1])
    return np.full(len(f), loss.expected_curvature())  # type: ignore[attr-defined]  # asked for before the fit


def _descent(task: Task, f: Array) -> Array:
    """Positive precisions for a step downhill: w g'', or w g'/(f - y) where that is negative."""
    d1, d2, _ = task.loss.derivatives(task.y, f)
    if not task.loss.convex:
        with np.errstate(divide="ignore", invalid="ignore"):
            d2 = np.where(d2 > 0.0, d2, d1 / (f - task.y))
    return raised(task.w * d2, task.w * d1)


def _place(task: Task, f: Array, a: Array) -> CurveState:
    total = float(task.w @ task.loss.value(task.y, f))
    return CurveState(f, a, total, task.w * task.loss.derivatives(task.y, f)[0])


def mode(task: Task, start: Sites | None, tol: float, max_iter: int) -> Sites:
    """Return the mode, its curvature as sites, and the factor of it.

    Ends when a step moves no latent value by more than tol * (1 + max |f|), f without its level.
    """
    place = _begin(task, start)
    moved, steps, still = np.inf, 0, False
    while not still and steps < max_iter:
        W = _descent(task, place.f)
        _, f, a = fitted(task, W, place.f - ratio(place.slope, W))
        df, da = f - place.f, a - place.a
        moved, steps = float(np.abs(df).max()), steps + 1
        gain = 0.5 * abs(float((place.slope + place.a) @ df))
        place = _along(task, place, df, da)
        still = moved <= _enough(task, place.f, tol)
        still = still or gain <= 1e-15 * max(1.0, abs(place.objective))
    raw = task.w * curvature(task.loss, task.y, place.f)
    W = raised(raw, place.slope)
    factor, f, a = fitted(task, W, place.f - ratio(place.slope, W))
    details: dict[str, Any] = {
        "factorisations": steps + 2,
        "residual": float(np.abs(place.a + place.slope).max()),
        "curvature": "observed" if task.loss.convex else "expected",
    }
    if np.any(raw < W):
        details["raised_curvature"] = int((raw < W).sum())
    message = ""
    if not still:
        message = (
            f"the mode was not reached in max_iter = {max_iter} Newton steps; raise max_iter, or "
            "give a larger lam"
        )
    report = Report(bool(still), steps, message=message, details=details)
    return Sites(a, W, f, factor, report)


def _enough(task: Task, f: Array, tol: float) -> float:
    """A move that does not count, beside the shape of f; not below the rounding of f itself."""
    shape = float(np.abs(f - level(task, f)).max())
    return tol * (1.0 + shape) + 16.0 * float(np.finfo(float).eps * np.abs(f).max())


def center(task: Task) -> Sites:
    """Return sites at the centre of each loss, as narrow as the loss is wide."""
    middle = np.asarray(task.loss.centers(task.y)).mean(axis=0)
    W = np.asarray(task.w / np.square(np.broadcast_to(task.loss.width(task.y), middle.shape)))
    factor, f, a = fitted(task, W, middle)
    return Sites(a, W, f, factor, Report())


def _begin(task: Task, start: Sites | None) -> CurveState:
    """The sites of ``start`` under this prior; or those of the curvature at each loss's centre."""
    if start is not None and start.W.shape == task.y.shape:
        near = _place(task, *fitted(task, start.W, start.f + ratio(start.a, start.W))[1:])
        if np.isfinite(near.objective):
            return near
    middle = np.asarray(task.loss.centers(task.y)).mean(axis=0)
    W = _descent(task, middle)
    z = middle - ratio(task.w * task.loss.derivatives(task.y, middle)[0], W)
    place = _place(task, *fitted(task, W, z)[1:])
    if not np.isfinite(place.objective):
        raise ValueError(
            "the loss is not finite at the start of the search for the mode; check the scale of "
            "the targets"
        )
    return place


def _along(task: Task, place: CurveState, df: Array, da: Array) -> CurveState:
    """The best place found on the way along (df, da): the whole of it, less or more."""
    bend, tilt = float(da @ df), float(place.a @ df)

    def at(t: float) -> tuple[float, float, Any]:
        with np.errstate(over="ignore", invalid="ignore"):
            there = _place(task, place.f + t * df, place.a + t * da)
            value = there.total - place.total + t * tilt + 0.5 * t**2 * bend
            slope = float(there.slope @ df) + tilt + t * bend
        return (value if np.isfinite(value) else np.inf), slope, there

    start = float(place.slope @ df) + tilt  # < 0: the objective falls
    value, slope, found = at(1.0)
    noise = 1e-13 * max(1.0, abs(place.objective))
    if not (value <= noise and slope <= 0.5 * abs(start) + noise):
        _, found = shorter(at, start, slope, value)
    elif slope < -0.5 * abs(start) and abs(start) > noise:
        _, found = longer(at, start, value, found)
    assert isinstance(found, CurveState)
    return found


def mode_score(task: Task, sites: Sites, variance: Array) -> tuple[Evidence, Array]:
    """Return E without the constant of the flat part, and q (n,), the pull of W on the mode.

    ``task.mean`` is any polynomial of the flat part.

    E = -sum w g - a'f / 2 - log(|I + K W| |A|) / 2 (GPML 3.32). W moves with the mode by g''', of
    which s = Sigma_ii w g''' / 2 is the price and q = Sigma s what it does to f (GPML 5.22-5.24).
    """
    y, w, f = task.y, task.w, sites.f
    factor: Factor = sites.factor
    value = -float(w @ task.loss.value(y, f)) - 0.5 * factor.logdet()
    value -= 0.5 * float(sites.a @ (f - task.mean))
    q = np.zeros(len(y))
    if task.loss.convex:  # Sigma s is the spline of targets s / W
        s = 0.5 * variance * w * task.loss.derivatives(y, f)[2]
        q = fitted(task, sites.W, ratio(s, sites.W))[1]

    def total(loss: Loss) -> float:
        d1 = loss.derivatives(y, f)[0]
        bent = curvature(loss, y, f)
        return float(w @ (-loss.value(y, f) - 0.5 * variance * bent + q * d1))

    return Evidence(value, loss_gradient=slopes(task.loss, total)), q


WIDE = 1e4  # of the largest posterior variance: stands for the infinite prior variance


class DiffuseSweeps(Sweeps):
    """Sweeps whose posterior mean is the smoothing spline of the sites, not K a.

    Parameters
    ----------
    task : with a log-concave loss, whose sites have W > 0.
    """

    def __init__(self, task: Task) -> None:
        super().__init__(task)

    def begin(self, start: Sites | None) -> SweepState:
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

    def look(self, x: Array, needed: bool = False) -> SweepState | None:
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


LOG_2PI = float(np.log(2.0 * np.pi))


class DiffuseGram(MarkovGram):
    """A :class:`MarkovGram` whose prior variance, the flat part included, is as good as infinite.

    Parameters
    ----------
    points, order, variance : see :class:`MarkovGram`.
    wide : the number that stands for the prior variance; nothing but checks depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> DiffuseGram(np.array([[0.0], [1.0]]), wide=9.0).diag()
    array([9., 9.])
    """

    wide = 1.0

    def __init__(
        self, points: Array, order: int = 2, variance: float = 1.0, wide: float = 1.0
    ) -> None:
        super().__init__(points, order, variance)
        self.wide = wide

    def diag(self) -> Array:
        """Return the stand-in for the prior variance, (n,)."""
        return np.full(len(self.points), self.wide)

    def with_variance(self, variance: float) -> DiffuseGram:
        """Return the same points with another variance of the process."""
        twin = copy(self)
        twin.variance = variance
        return twin


def solve_diffuse(
    inference: Inference, gram: DiffuseGram, y: Array, loss: Loss, w: Array, start: Solution | None
) -> Solution:
    """Return the posterior of targets y (n,) of weights w (n,), by Laplace or EP.

    ``z`` of the solution is f, as of every site method. EP begins with the sites of ``start``, of
    Laplace, or for losses with kinks of their widths: a flat prior has no moments to begin with.
    """
    begun = None if start is None else next(columns(start))
    task = Task(gram, y, loss, w, np.zeros(len(y)))
    given = inference.get_params()
    averages = "tilted" in inference.needs
    if not averages:
        return joined([mode(task, begun, given["tol"], given["max_iter"])], w)
    assert isinstance(inference, SiteInference)
    if begun is None:
        begun = center(task) if has_kinks(loss) else mode(task, None, 1e-6, 100)
    return joined([fixed_point(inference, task, begun)], w)


def diffuse_evidence(
    inference: Inference, gram: DiffuseGram, y: Array, loss: Loss, solution: Solution
) -> tuple[Evidence, float]:
    """Return the log evidence, and its slope in the logarithm of the process's variance.

    With a flat unit density on the coefficients of (x - x0)^j / j!, as for Gaussian noise: a factor
    (2 pi)^(m/2) |A|^(-1/2) besides what a proper prior has. By formula (3), tr(P K) = edf - m,

        dE / d log variance = (a'f - edf + m) / 2 - q'a,      q the shift of the mode with W.
    """
    (sites,) = columns(solution)
    task = Task(gram, y, loss, solution.weights, np.zeros(len(y)))
    task = replace(task, mean=level(task, sites.f))
    m = gram.order
    variance = sites.factor.cov_diag()
    if "tilted" in inference.needs:
        assert isinstance(inference, SiteInference)
        found, shift = inference.score(task, sites), np.zeros(len(y))
    else:
        found, shift = mode_score(task, sites, variance)
    slope = 0.5 * (float(sites.a @ (sites.f - task.mean)) - float(sites.W @ variance) + m)
    slope -= float(shift @ sites.a)
    value = found.value + 0.5 * m * LOG_2PI
    return Evidence(value, loss_gradient=found.loss_gradient), slope
