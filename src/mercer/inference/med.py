"""MED: maximum entropy discrimination by a primal-dual interior point, then a polish.

    maximise  D(a) = -1/2 a'YKYa + a'(1 - Y f0) + sum_i w_i log(1 - a_i / (w_i C)),
              y'a = 0,  0 <= a_i < w_i C                                  (Hou & Hero, Theorem 1)
    minimise  P(f, b) = 1/2 |f - f0|^2 + sum_i w_i g_C(y_i (f_i + b)),    g_C = losses.Margin

f = f0 + K (y a); b is the multiplier of y'a = 0. A row of weight w is w equal rows.
Theory (M1), (M3).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mercer.core.arrays import Array, back_solve, cholesky, half_solve
from mercer.core.errors import NotPositiveDefiniteError
from mercer.inference.base import Report, Solution, ones_if_none
from mercer.inference.mode.newton import ModeInference
from mercer.linalg.gram import Gram, NoSpread
from mercer.losses.base import Loss
from mercer.losses.binary.margins import Margin

NEAR = 0.995  # share of the way to a bound that a step may go
PATIENCE = 30  # steps after which the residual must have been halved: rounding ends it earlier
ROUNDS = 40  # how often the polish may change its mind about which rows are support vectors
ALL_AT_ONCE = 6  # and how often about many of them


@dataclass(frozen=True)
class Batch:
    """K (n, n), y (n,), c = 1 - y f0 (n,), C and the weights w (n,); b is free, or zero."""

    K: Array
    y: Array
    c: Array
    C: float
    w: Array
    free: bool = True

    @property
    def share(self) -> Array:
        """Products a s of the central path: bounded coefficients grow with w, free ones do not."""
        return np.sqrt(self.w)

    @cached_property
    def level(self) -> float:
        """The kernel's amplitude, by which coefficients are compared with margins."""
        return max(float(np.mean(np.diagonal(self.K))), 1e-300)

    def unit(self, a: Array) -> float:
        """What a coefficient is measured by: the one that moves f by 1, or the largest if less."""
        return min(1.0 / self.level, float(a.max()))

    def forces(self, a: Array) -> Array:
        """Return c - YKYa (n,): one minus the margins without bias."""
        return np.asarray(self.c - self.y * (self.K @ (self.y * a)))

    def latent(self, a: Array) -> Array:
        """Return f0 + K (y a) (n,)."""
        return np.asarray(self.y * (1.0 - self.forces(a)))

    def gap(self, a: Array, latent: Array, bias: float) -> float:
        """P - D, as the sum of g + g* - a u over the rows, none of which is negative."""
        loss, y, w = Margin(self.C), self.y, self.w
        dual = loss.value(y, latent + bias) + loss.conjugate(y, -y * a / w) + a / w
        rows = w * dual - a * (1.0 - y * (latent + bias))
        return float(np.sum(rows) + abs(bias * (y @ a)))


class Bordered:
    """The equations (YKY + diag(d)) x + y m = right, y'x = defect, d > 0.

    Factored as I + d^-1/2 YKY d^-1/2, whose eigenvalues are at least 1. Where K has no full rank
    and d is small, rounding can make one negative; then d is raised by the rounding of K, by
    ``jitter`` in units of the largest value of K. That turns the step, and not where the steps end.
    Without a free bias m = 0.
    """

    def __init__(self, batch: Batch, d: Array) -> None:
        self.y, self.free = batch.y, batch.free
        largest = float(np.abs(batch.K).max())
        for more in (0.0, 1.0, 100.0, 1e4):
            self.jitter = more * len(d) * float(np.finfo(np.float64).eps)
            self.scale = 1.0 / np.sqrt(d + self.jitter * largest)
            root = batch.y * self.scale
            self.factor = root[:, None] * batch.K * root
            self.factor[np.diag_indices(len(d))] += 1.0
            if not cholesky(self.factor):
                break
        else:
            raise NotPositiveDefiniteError(
                "the kernel matrix has negative eigenvalues, so that there is no optimum: "
                "use a positive semidefinite kernel"
            )
        self.z = self._inner(batch.y)

    def solve(self, right: Array, defect: float) -> tuple[Array, float]:
        """Return x (n,) and m."""
        x = self._inner(right)
        if not self.free:
            return x, 0.0
        m = (self.y @ x - defect) / (self.y @ self.z)
        return x - m * self.z, float(m)

    def _inner(self, right: Array) -> Array:
        column = (self.scale * right)[:, None]
        solved = back_solve(self.factor, half_solve(self.factor, column))
        return np.asarray(self.scale * solved[:, 0])


class _Point(NamedTuple):
    """A point of the interior: a and its multipliers s, the room t = C - a/w and v, the bias."""

    a: Array
    s: Array
    t: Array
    v: Array
    b: float

    def direction(
        self, batch: Batch, equations: Bordered, aim: float, second: Array, third: Array
    ) -> tuple[tuple[Array, Array, Array, Array], float, float]:
        """Newton to a s = aim share, t v = max(1, aim): changes of a, s, t, v; of b; the step."""
        a, s, t, v, goal = self.a, self.s, self.t, self.v, max(1.0, aim)
        force = batch.forces(a) - self.b * batch.y
        right = force + (aim * batch.share - second) / a - (goal - third) / t
        da, db = equations.solve(right, -float(batch.y @ a))
        ds, dt = (aim * batch.share - second - s * da) / a - s, -da / batch.w
        dv = (goal - third - v * dt) / t - v
        return (da, ds, dt, dv), db, room([a, s, t, v], [da, ds, dt, dv])

    def residual(self, batch: Batch) -> float:
        """How far the point is from the optimum, in units of what is subtracted."""
        force = batch.forces(self.a) - self.b * batch.y
        unit = max(1.0, float(np.abs(force).max()), batch.level * float(self.a.sum()))
        return max(
            float(np.max(self.a * self.s)) / batch.unit(self.a),
            float(np.abs(force - self.v + self.s).max()) / unit,
            float(np.abs(self.v * self.t - 1.0).max()),
            abs(float(batch.y @ self.a)) / float(self.a.sum()) if batch.free else 0.0,
        )


def interior(batch: Batch, max_iter: int) -> tuple[Array, Array, float, int, float]:
    """Mehrotra's predictor-corrector; return a, the multipliers s of a >= 0, b, steps, jitter.

    v = 1 / (C - a/w) is a separate variable: its product with the room t = C - a/w is driven to
    one as a s is driven to zero, so that neither end of the interval stops the steps.
    """
    w, C, none, whole = batch.w, batch.C, np.zeros(len(batch.w)), float(batch.share.sum())
    a = 0.5 * C * w
    s = np.full(len(w), max(1.0, float(np.abs(batch.forces(a)).max())))
    p = _Point(a, s, C - a / w, s, 0.0)
    best, since, jitter = np.inf, 0, 0.0
    for step in range(max_iter):
        left = p.residual(batch)
        best, since = (left, step) if left < 0.5 * best else (best, since)
        if left < 1e-10 or step - since > PATIENCE:
            return p.a, p.s, p.b, step, jitter
        equations = Bordered(batch, p.v / (w * p.t) + p.s / p.a)
        jitter = max(jitter, equations.jitter)
        (da, ds, dt, dv), db, size = p.direction(batch, equations, 0.0, none, none)
        mu = float(p.a @ p.s) / whole
        least = 1e-13 * batch.unit(p.a) / float(batch.share.max())
        ahead = float((p.a + size * da) @ (p.s + size * ds)) / whole
        aim = max(mu * min(1.0, max(ahead / mu, 0.0)) ** 3, least)
        second, third = da * ds, np.minimum(dt * dv, 0.9)
        changes, db, size = p.direction(batch, equations, aim, second, third)
        size = _near_path(p, changes, size)
        if size < 0.1:  # a shorter way down the middle, without a corrector
            changes, db, size = p.direction(batch, equations, 0.2 * mu, none, none)
            size = _near_path(p, changes, size)
        da, ds, _, dv = (size * change for change in changes)
        a = p.a + da
        p = _Point(a, p.s + ds, C - a / w, p.v + dv, p.b + size * db)
    return p.a, p.s, p.b, max_iter, jitter


def _near_path(p: _Point, changes: tuple[Array, ...], size: float) -> float:
    """Shorten a step that takes a product t v far below one, from where it hardly returns."""
    dt, dv = changes[2:]
    low = min(0.1, float(np.min(p.t * p.v)))
    while size > 1e-12 and np.min((p.t + size * dt) * (p.v + size * dv)) < low:
        size *= 0.7
    return size


def room(values: list[Array], changes: list[Array]) -> float:
    """The longest step, at most 1, after which all values stay positive."""
    size = 1.0
    for value, change in zip(values, changes, strict=True):
        down = change < 0.0
        size = min(size, NEAR * float(np.min(-value[down] / change[down], initial=np.inf)))
    return size


def feasible_bias(y: Array, f: Array, C: float, previous: float = 0.0) -> float | None:
    """Return the bias nearest to ``previous`` for which no row misses the margin 1 - 1/C, or None.

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


class MED(ModeInference):
    """Maximum entropy discrimination: the minimum of 1/2 |f - f0|^2 + sum_i w_i g_C(y_i (f_i + b)).

    g_C is :class:`mercer.losses.Margin`, f0 the mean of the prior. b is free if the basis is a
    constant, and zero without a basis. Each column of y is a separate problem. The answer is
    certified by the duality gap P - D.

    Parameters
    ----------
    tol : > 0, default 1e-8. Stop at a gap of tol * max(1, |D|), D the dual value.
    max_iter : >= 1, default 200. Steps of the interior point at most; reaching it is reported.
    bias : "exact" (default), the optimal b, or "median", the paper's: the median of y - f over the
        support vectors.
    near : default 0. Where the optimal b is not unique (rows of one class only) it is the one
        nearest to this: a number, or one for each column of y.

    ``report.details`` has ``objective``, the dual value of each column, which is the divergence of
    the posterior from the prior, and ``jitter``, the largest share of the kernel's largest value
    that was added to the diagonal of the equations of a step (mostly 0).

    Reference: Hou & Hero (2018), Theorem 1 with the exact bias; Mehrotra (1992) for the steps.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.linalg import DenseGram
    >>> gram, y = DenseGram.given(np.eye(2)), np.array([[1.0], [-1.0]])
    >>> solution = MED().solve(gram, y, Margin(C=10.0), basis=np.ones((2, 1)))
    >>> solution.alpha.ravel().round(6)  # a = 1 - 1/(10 - a)
    array([ 0.890228, -0.890228])
    """

    needs: ClassVar[tuple[str, ...]] = ("conjugate", "derivatives")

    def __init__(
        self, tol: float = 1e-8, max_iter: int = 200, bias: str = "exact", near: Any = 0.0
    ) -> None:
        self.tol, self.max_iter, self.bias, self.near = tol, max_iter, bias, near

    def check(self, loss: Loss) -> None:
        """Refuse another loss than :class:`mercer.losses.Margin`, whose dual this maximises."""
        super().check(loss)
        if not isinstance(loss, Margin):
            raise ValueError(
                f"MED inference maximises the dual of losses.Margin and not of "
                f"{type(loss).__name__}; inference='dual' takes any convex loss"
            )
        if self.bias not in ("exact", "median"):
            raise ValueError(f"bias must be 'exact' or 'median', got {self.bias!r}")

    def solve(
        self,
        gram: Gram,
        y: Array,
        loss: Loss,
        *,
        mean: Array | None = None,
        basis: Array | None = None,
        weights: Array | None = None,
        start: Solution | None = None,
    ) -> Solution:
        self.check(loss)
        assert isinstance(loss, Margin)
        n, m = y.shape
        w, free = ones_if_none(weights, n), basis is not None and basis.shape[1] > 0
        if basis is not None and free and not (basis.shape[1] == 1 and np.all(basis == 1.0)):
            raise ValueError("MED takes no basis but a constant: give a column of ones, or None")
        f0 = np.zeros((n, m)) if mean is None else mean
        K = gram.matrix
        if not np.all(np.abs(y) == 1.0):
            raise ValueError("y must be -1 or +1 in every row")
        if not (np.all(w > 0.0) and np.isfinite(w).all()):
            raise ValueError("weights must be positive and finite; leave rows of weight zero out")
        if not (np.isfinite(f0).all() and np.isfinite(K).all()):  # the steps would end nowhere
            raise ValueError(
                "the kernel or the scores before the batch have values that are not finite: scale "
                "the columns, or use a kernel that is finite on them"
            )
        near = np.broadcast_to(np.asarray(self.near, dtype=np.float64), (m,))
        alpha, z, beta, reports = np.empty((n, m)), np.empty((n, m)), np.zeros((1, m)), []
        for j in range(m):
            labels = np.ascontiguousarray(y[:, j])
            batch = Batch(K, labels, 1.0 - labels * f0[:, j], float(loss.C), w, free)
            a, latent, beta[0, j], report = self._maximise(batch, f0[:, j], float(near[j]))
            alpha[:, j], z[:, j] = labels * a, latent + beta[0, j]
            reports.append(report)
        W, kept = w[:, None] * loss.derivatives(y, z)[1], beta if free else None
        objective = [one.details["objective"] for one in reports]
        jitter = max(one.details["jitter"] for one in reports)
        report = Report(
            all(one.converged for one in reports),
            max(one.iterations or 0 for one in reports),
            max(one.gap or 0.0 for one in reports),
            details={"objective": objective, "jitter": jitter},
            columns=tuple(reports) if m > 1 else (),
        )
        W = W[:, 0] if m == 1 else W
        return Solution(alpha, W, z, NoSpread(gram.diag()), kept, w, report)

    def _maximise(self, batch: Batch, f0: Array, near: float) -> tuple[Array, Array, float, Report]:
        """Solve for one column: a (n,), f (n,) without the bias, b, and how it ended."""
        y, w, C = batch.y, batch.w, batch.C
        bias = 0.0 if np.all(batch.c <= 1.0 / C) else None  # no row misses the margin 1 - 1/C
        if batch.free:
            bias = feasible_bias(y, f0, C, near)
        steps, a, jitter = 0, np.zeros(len(y)), 0.0
        if bias is None:
            a, multipliers, bias, steps, jitter = interior(batch, self.max_iter)
            a, bias, more = _polished(batch, a, multipliers, bias)
            jitter = max(jitter, more)
        latent = batch.latent(a)
        gap = batch.gap(a, latent, bias)
        with np.errstate(divide="ignore"):
            value = float(0.5 * a @ (batch.c + batch.forces(a)) + w @ np.log1p(-a / (w * C)))
        solved = bool(gap <= self.tol * max(1.0, abs(value)))
        report = Report(solved, steps, gap, details={"objective": value, "jitter": jitter})
        held = a > 0.0
        if self.bias == "median" and batch.free and held.any():
            bias = float(np.median((y - latent)[held]))
        return a, latent, bias, report


def _polished(batch: Batch, a: Array, s: Array, b: float) -> tuple[Array, float, float]:
    """Newton steps on c - YKYa - b y = 1/(C - a/w) over the support vectors alone.

    Which rows those are is read off the interior point (a against its multiplier s) and corrected:
    a coefficient that would be negative leaves, a row that misses the margin enters; all such rows
    at first, then one at a time, since exchanges of many can go in circles. The best gap counts,
    that of the interior point included. Returns a, b and the jitter.
    """
    y, w, C, jitter = batch.y, batch.w, batch.C, 0.0
    inside = a > s * batch.unit(a)
    best, best_b = _balanced(batch, np.where(inside, a, 0.0)), b
    best_gap = batch.gap(best, batch.latent(best), b)
    for turn in range(ROUNDS):
        S = np.flatnonzero(inside)
        if not (np.any(y[S] > 0.0) and np.any(y[S] < 0.0) if batch.free else len(S)):
            break
        part = Batch(batch.K[np.ix_(S, S)], y[S], batch.c[S], C, w[S], batch.free)
        x, bias, more = _newton(part, a[S], b)
        jitter = max(jitter, more)
        if np.any(x < 0.0):
            inside[S[x < 0.0] if turn < ALL_AT_ONCE else S[np.argmin(x)]] = False
            continue
        full = np.zeros(len(y))
        full[S] = x
        full = _balanced(batch, full)
        latent = batch.latent(full)
        gap = batch.gap(full, latent, bias)
        if gap < max(best_gap, 1e-12 * a.sum()):  # below that gaps differ by rounding only
            best, best_gap, best_b = full, gap, bias
        excess = np.where(inside, 0.0, 1.0 - y * (latent + bias) - 1.0 / C)
        if excess.max() <= 1e-12:
            break
        inside[excess > 1e-12 if turn < ALL_AT_ONCE else np.argmax(excess)] = True
    return best, best_b, jitter


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


def _balanced(batch: Batch, a: Array) -> Array:
    """Move the rounding in y'a = 0 to the coefficient with most room on either side."""
    if not batch.free:
        return a
    a = a.copy()
    i = int(np.argmax(np.minimum(a, batch.w * batch.C - a)))
    a[i] -= batch.y[i] * float(batch.y @ a)
    return a
