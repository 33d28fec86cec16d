"""Steps towards the best Gaussian posterior: its free energy, fixed-point and Newton steps.

The Gaussian is N(mean + K a, Sigma) with Sigma = (K^-1 + W)^-1 and a = h - W K a: the 2n site
parameters (h, W) are the unknowns. Per point, nu_i = w_i E[g(y_i, f_i)] under the Gaussian.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse.linalg import LinearOperator, gmres

from mercer.core.arrays import Array
from mercer.core.errors import NotPositiveDefiniteError
from mercer.inference.sites.base import Task
from mercer.linalg.gram import Factor

FORCING = 1e-3  # relative accuracy of the linear system while far from the solution
FAR = 10.0  # factor by which a fixed-point step changes W at most, where W > 0
CACHE = 2**16  # numbers squared at a time
KRYLOV = 60  # products with its matrix at most; what is left is made up by the next step


@dataclass
class Point:
    """A Gaussian on the way, and what the losses say about it.

    Attributes
    ----------
    h, W : (n,) site parameters.
    factor : C for W.
    a, shift, var : (n,) weights, K a, and the diagonal of Sigma.
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


def averages(task: Task, m: Array, v: Array) -> tuple[float, Array, Array]:
    """Sum of nu at means m and variances v (n,), with d nu/dm and d2 nu/dm2."""
    value, dm, dv = task.loss.expected(task.y, m, v)
    return float(task.w @ value), task.w * dm, 2.0 * task.w * dv


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
    var = factor.cov_diag()
    if not np.all(var > 0.0):
        factor.release()
        return None
    a = h - factor.solve(np.asarray(task.gram @ h[:, None]))[:, 0]
    shift = np.asarray(task.gram @ a[:, None])[:, 0]
    with np.errstate(over="ignore", invalid="ignore"):
        total, slope, bend = averages(task, task.mean + shift, var)
        free = total + 0.5 * float(a @ shift + factor.logdet() - W @ var)
        mean_off, bend_off = (a + slope) * np.sqrt(var), (bend - W) * var
    residual = max(float(np.abs(mean_off).max()), float(np.abs(bend_off).max()))
    if not (np.isfinite(free) and np.isfinite(residual)):
        factor.release()
        return None
    return Point(h, W, factor, a, shift, var, free, slope, bend, residual)


def mixed(task: Task, point: Point, rate: float) -> tuple[Array, Array]:
    """Sites after a fixed-point step of length ``rate`` <= 1 towards thesis (5.2)-(5.3).

    The mean's part is Newton's step for the mean. W goes straight to 2 d nu/dv (a natural gradient
    step); where it stays positive, for convex losses, it goes along the logarithm and by a factor
    of ten at most: W spans many decades there.
    """
    if task.loss.convex:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.clip(point.bend / point.W, 1.0 / FAR, FAR)
        new = np.where(point.W > 0.0, point.W * ratio**rate, rate * point.bend)
    else:
        new = point.W + rate * (point.bend - point.W)
    return point.h + rate * (-point.slope - point.a) + point.shift * (new - point.W), new


def newton(task: Task, point: Point, damping: float = 0.0) -> tuple[Array, Array]:
    """Sites after a Newton step on the fixed-point equations, shortened where it goes far.

    With r_W = bend - W, r_p = -slope - a, T3 and T4 the third and fourth derivatives of nu in m,
    Q = Sigma o Sigma (elementwise) and c = 1 + damping,

        [c I + 1/2 T4 Q - 1/(2c) T3 Sigma T3 Q] dW = r_W + T3 o (Sigma r_p) / c
        dh = (r_p + 1/2 T3 o (Q dW)) / c + K a o dW

    from dm = Sigma (dh - K a o dW) and dSigma_ii = -(Q dW)_i. Damping > 0 is an implicit Euler step
    of length 1/damping along the natural gradient flow of F, and so goes downhill if it is large
    enough. GMRES solves the system in the free-of-scale unknown Sigma_ii dW_i: products with one
    n x n array in place of two more and a factorisation. dW is kept to a factor of four of W
    for convex losses, to 0.75 of |W| or 1/Sigma_ii otherwise (the fixed point is never cut off),
    and dh follows from it.
    """
    if point.higher is None:
        m = task.mean + point.shift
        third, fourth = task.loss.expected_higher(task.y, m, point.var)
        point.higher = task.w * third, task.w * fourth
    third, fourth = point.higher
    sigma = point.factor.cov()
    c = 1.0 + damping
    r_W, r_p = point.bend - point.W, -point.slope - point.a

    def product(x: Array) -> Array:
        u = 0.5 * _squared(sigma, x / point.var)
        return np.asarray(c * x + point.var * (fourth * u - third * (sigma @ (third * u)) / c))

    n = len(r_W)
    right = point.var * (r_W + third * (sigma @ r_p) / c)
    system = LinearOperator((n, n), matvec=product, dtype=np.float64)
    accuracy = max(min(FORCING, 0.1 * point.residual), 1e-10)
    x, _ = gmres(system, right, rtol=accuracy, restart=min(n, KRYLOV), maxiter=1)
    dW = _kept(task, point, x / point.var)
    p = (r_p + 0.5 * third * _squared(sigma, dW)) / c
    task.gram.give(sigma)  # its memory serves the next factor
    return point.h + p + point.shift * dW, point.W + dW


def _squared(sigma: Array, x: Array) -> Array:
    """(Sigma o Sigma) x, some rows at a time: the squares stay in the cache."""
    rows = max(1, CACHE // len(x))
    parts = [np.square(sigma[i : i + rows]) @ x for i in range(0, len(x), rows)]
    return np.concatenate(parts)


def _kept(task: Task, point: Point, dW: Array) -> Array:
    W = point.W
    if task.loss.convex:
        low, high = W / 4.0, 4.0 * W
    else:
        reach = 0.75 * np.maximum(np.abs(W), 1.0 / point.var)
        low, high = W - reach, W + reach
    new = np.clip(W + dW, np.minimum(low, point.bend), np.maximum(high, point.bend))
    return np.asarray(new - W)
