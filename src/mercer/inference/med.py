"""Maximum entropy discrimination of one batch: a primal-dual interior point, then a polish.

    maximise  D(a) = -1/2 a'YKYa + a'(1 - Y f0) + sum_i w_i log(1 - a_i / (w_i C)),
              y'a = 0,  0 <= a_i < w_i C                                  (Hou & Hero, Theorem 1)
    minimise  P(f, b) = 1/2 |f - f0|^2 + sum_i w_i g_C(y_i (f_i + b)),    g_C = losses.Margin

f = f0 + K (y a); b is the multiplier of y'a = 0. A row of weight w is w equal rows.
Theory (M1), (M3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.arrays import Array
from mercer.inference.med_interior import (
    Batch,
    Bordered,
    coefficient_unit,
    interior,
    level_of,
    room,
)
from mercer.losses.margins import Margin

__all__ = ["Discrimination", "discriminate", "feasible_bias"]

ROUNDS = 40  # how often the polish may change its mind about which rows are support vectors
ALL_AT_ONCE = 6  # and how often about many of them


@dataclass(frozen=True)
class Discrimination:
    """The optimum of one batch.

    Attributes
    ----------
    alpha : (n,) dual coefficients, 0 <= alpha < w C, with y'alpha = 0 up to rounding.
    bias : the free offset b.
    latent : (n,) f without the bias.
    report : converged, iterations, objective (the dual value, which is the divergence from the
        prior), gap = P - D, a bound on how far both are from the optimum, and jitter, the largest
        share of the kernel's largest value that was added to the diagonal of the equations of a
        step (mostly 0): it turns a step, and the optimum is that of K itself.
    """

    alpha: Array
    bias: float
    latent: Array
    report: dict[str, Any]


def feasible_bias(y: Array, f: Array, C: float, previous: float = 0.0) -> float | None:
    """Return the bias nearest to ``previous`` for which no row misses the margin 1 - 1/C.

    None if there is no such bias. With rows of one class only there always is.

    Examples
    --------
    >>> import numpy as np
    >>> feasible_bias(np.array([1.0, 1.0]), np.array([0.5, 0.2]), 10.0)
    0.7
    """
    margin = 1.0 - 1.0 / C
    low = np.max((margin - f)[y > 0.0], initial=-np.inf)
    high = np.min((-margin - f)[y < 0.0], initial=np.inf)
    return float(min(max(previous, low), high)) if low <= high else None


def discriminate(
    K: Array,
    y: Array,
    C: float,
    *,
    weights: Array | None = None,
    offset: Array | None = None,
    previous: float = 0.0,
    tol: float = 1e-8,
    max_iter: int = 200,
) -> Discrimination:
    """Solve one batch.

    Parameters
    ----------
    K : (n, n) kernel matrix, not changed.
    y : (n,) labels -1 and +1; rows of one class only leave f as it was.
    C : slack parameter > 1.
    weights : (n,) positive, all one if None.
    offset : (n,) f0, the scores before the batch, without bias; 0 if None.
    previous : the bias before; decides only where the optimal one is not unique.
    tol : the batch has converged at a gap of tol * max(1, |D|).
    max_iter : steps of the interior point at most; reaching it is reported.

    References
    ----------
    Hou & Hero (2018), Theorem 1 with the exact bias; Mehrotra (1992) for the steps.

    Examples
    --------
    >>> import numpy as np
    >>> found = discriminate(np.eye(2), np.array([1.0, -1.0]), 10.0)
    >>> found.alpha.round(6), round(found.bias, 6)  # a = 1 - 1/(10 - a)
    (array([0.890228, 0.890228]), 0.0)
    """
    n = len(y)
    w = np.ones(n) if weights is None else weights
    f0 = np.zeros(n) if offset is None else offset
    _check(K, y, C, w, f0)
    batch = Batch(K, y, 1.0 - y * f0, float(C), w)
    bias = feasible_bias(y, f0, C, previous)
    steps, a, jitter = 0, np.zeros(n), 0.0
    if bias is None:
        a, multipliers, bias, steps, jitter = interior(batch, max_iter)
        a, bias, more = _polished(batch, a, multipliers, bias)
        jitter = max(jitter, more)
    latent = _latent(batch, a)
    gap = _gap(batch, a, latent, bias)
    with np.errstate(divide="ignore"):
        value = float(0.5 * a @ (batch.c + batch.forces(a)) + w @ np.log1p(-a / (w * C)))
    report = {
        "converged": bool(gap <= tol * max(1.0, abs(value))),
        "iterations": steps,
        "objective": value,
        "gap": gap,
        "jitter": jitter,
    }
    return Discrimination(a, bias, latent, report)


def _check(K: Array, y: Array, C: float, w: Array, f0: Array) -> None:
    """Refuse what has no optimum: with values that are not finite the steps end nowhere."""
    if not np.all(np.abs(y) == 1.0):
        raise ValueError("y must be -1 or +1 in every row")
    if not 1.0 < C < np.inf:
        raise ValueError(
            f"C must be a finite number above 1, got {C!r}: at C <= 1 nothing is learned"
        )
    if not (np.all(w > 0.0) and np.isfinite(w).all()):
        raise ValueError("weights must be positive and finite; leave rows of weight zero out")
    if not (np.isfinite(f0).all() and np.isfinite(K).all()):
        raise ValueError(
            "the kernel or the scores before the batch have values that are not finite: scale the "
            "columns, or use a kernel that is finite on them"
        )


def _gap(batch: Batch, a: Array, latent: Array, bias: float) -> float:
    """P - D, as the sum of g + g* - a u over the rows, none of which is negative."""
    loss, w = Margin(batch.C), batch.w
    u = 1.0 - batch.y * (latent + bias)
    rows = w * (
        loss.value(batch.y, latent + bias) + loss.conjugate(batch.y, -batch.y * a / w) + a / w
    )
    return float(np.sum(rows - a * u) + abs(bias * (batch.y @ a)))


def _polished(batch: Batch, a: Array, s: Array, b: float) -> tuple[Array, float, float]:
    """Newton steps on c - YKYa - b y = 1/(C - a/w) over the support vectors alone.

    Which rows those are is read off the interior point (a against its multiplier s) and corrected:
    a coefficient that would be negative leaves, a row that misses the margin enters; all such rows
    at first, then one at a time, since exchanges of many can go in circles. The best gap counts,
    that of the interior point included. Returns the coefficients, the bias and the jitter.
    """
    y, w, C, jitter = batch.y, batch.w, batch.C, 0.0
    inside = a > s * coefficient_unit(a, level_of(batch))
    best, best_b = _balanced(np.where(inside, a, 0.0), y, w * C), b
    best_gap = _gap(batch, best, _latent(batch, best), b)
    for turn in range(ROUNDS):
        S = np.flatnonzero(inside)
        if not (np.any(y[S] > 0.0) and np.any(y[S] < 0.0)):
            break
        part = Batch(batch.K[np.ix_(S, S)], y[S], batch.c[S], C, w[S])
        x, bias, more = _newton(part, a[S], b)
        jitter = max(jitter, more)
        if np.any(x < 0.0):
            inside[S[x < 0.0] if turn < ALL_AT_ONCE else S[np.argmin(x)]] = False
            continue
        full = np.zeros(len(y))
        full[S] = x
        full = _balanced(full, y, w * C)
        latent = _latent(batch, full)
        gap = _gap(batch, full, latent, bias)
        if gap < max(best_gap, 1e-12 * a.sum()):  # below that gaps differ by rounding only
            best, best_gap, best_b = full, gap, bias
        excess = np.where(inside, 0.0, 1.0 - y * (latent + bias) - 1.0 / C)
        if excess.max() <= 1e-12:
            break
        inside[excess > 1e-12 if turn < ALL_AT_ONCE else np.argmax(excess)] = True
    return best, best_b, jitter


def _latent(batch: Batch, a: Array) -> Array:
    """Return f0 + K (y a) (n,)."""
    return np.asarray(batch.y * (1.0 - batch.forces(a)))


def _newton(part: Batch, a: Array, b: float) -> tuple[Array, float, float]:
    """Solve the equations of the support vectors; steps stop short of the bound a = w C."""
    y, w, C, jitter = part.y, part.w, part.C, 0.0
    for _ in range(30):
        t = C - a / w
        right = part.forces(a) - b * y - 1.0 / t
        equations = Bordered(part, 1.0 / (w * t * t))
        jitter = max(jitter, equations.jitter)
        da, db = equations.solve(right, -float(y @ a))
        size = room([t], [-da / w])
        a, b = a + size * da, b + size * db
        if size == 1.0 and np.abs(da).max() <= 1e-9 * np.abs(a).max():
            break  # the error is the square of this step
    return a, b, jitter


def _balanced(a: Array, y: Array, high: Array) -> Array:
    """Move the rounding in y'a = 0 to the coefficient with most room on either side."""
    a = a.copy()
    i = int(np.argmax(np.minimum(a, high - a)))
    a[i] -= y[i] * float(y @ a)
    return a
