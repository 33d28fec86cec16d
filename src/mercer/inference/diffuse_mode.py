"""The mode of a curve with a flat prior on its polynomials, and the Laplace evidence there.

Newton's steps are smoothing splines of working targets z = f - g'/W with precisions W
(methods of GPML 3.4 and 6.3). Along a step the penalty is a quadratic, known from its two ends,
so that a shorter step costs no further pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from mercer.arrays import Array
from mercer.inference.base import Evidence
from mercer.inference.line_search import longer, shorter
from mercer.inference.sites import Sites, Task
from mercer.linalg.gram import Factor
from mercer.linalg.markov import MarkovFactor, MarkovGram
from mercer.losses.base import Loss
from mercer.losses.sensitivity import slopes

FAR = 1e9  # how far a working target may lie, in 1 / sqrt(max W): beyond, digits are lost


@dataclass(frozen=True)
class Place:
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


def _place(task: Task, f: Array, a: Array) -> Place:
    total = float(task.w @ task.loss.value(task.y, f))
    return Place(f, a, total, task.w * task.loss.derivatives(task.y, f)[0])


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
    report: dict[str, Any] = {
        "converged": bool(still),
        "iterations": steps,
        "factorisations": steps + 2,
        "residual": float(np.abs(place.a + place.slope).max()),
        "curvature": "observed" if task.loss.convex else "expected",
    }
    if np.any(raw < W):
        report["raised_curvature"] = int((raw < W).sum())
    if not still:
        report["message"] = (
            f"the mode was not reached in max_iter = {max_iter} Newton steps; raise max_iter, or "
            "give a larger lam"
        )
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
    return Sites(a, W, f, factor, {})


def _begin(task: Task, start: Sites | None) -> Place:
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


def _along(task: Task, place: Place, df: Array, da: Array) -> Place:
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
    assert isinstance(found, Place)
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
