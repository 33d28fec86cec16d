"""The interior point of maximum entropy discrimination: the programme of ``inference.med``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.arrays import Array, back_solve, cholesky, half_solve
from mercer.linalg.errors import NotPositiveDefiniteError

NEAR = 0.995  # share of the way to a bound that a step may go
PATIENCE = 30  # steps after which the residual must have been halved: rounding ends it earlier


@dataclass(frozen=True)
class Batch:
    """K (n, n), y (n,), c = 1 - y f0 (n,), C and the weights w (n,)."""

    K: Array
    y: Array
    c: Array
    C: float
    w: Array

    @property
    def share(self) -> Array:
        """How the products a s of unequal rows relate on the central path.

        Bounded coefficients grow with w and free ones do not: between the two.
        """
        return np.sqrt(self.w)

    def forces(self, a: Array) -> Array:
        """Return c - YKYa (n,): one minus the margins without bias."""
        return np.asarray(self.c - self.y * (self.K @ (self.y * a)))


class Bordered:
    """The equations (YKY + diag(d)) x + y m = right, y'x = defect, d > 0, factored once.

    Factored as I + d^-1/2 YKY d^-1/2, whose eigenvalues are at least 1, whatever d is. Where K has
    no full rank and d is small, rounding can make one negative; then d is raised by the rounding
    of K. That turns the step a little, and leaves alone where the steps end. ``jitter`` is by how
    much, in units of the largest value of K.
    """

    def __init__(self, batch: Batch, d: Array) -> None:
        self.y = batch.y
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
                "the kernel matrix has negative eigenvalues, so that the machine has no optimum: "
                "use a positive semidefinite kernel"
            )
        self.z = self._inner(batch.y)

    def solve(self, right: Array, defect: float) -> tuple[Array, float]:
        """Return x (n,) and m."""
        x = self._inner(right)
        m = (self.y @ x - defect) / (self.y @ self.z)
        return x - m * self.z, float(m)

    def _inner(self, right: Array) -> Array:
        column = (self.scale * right)[:, None]
        solved = back_solve(self.factor, half_solve(self.factor, column))
        return np.asarray(self.scale * solved[:, 0])


@dataclass(frozen=True)
class _Point:
    """A point of the interior: a and its multipliers s, the room t = C - a/w and v, the bias."""

    a: Array
    s: Array
    t: Array
    v: Array
    b: float

    def direction(
        self, batch: Batch, equations: Bordered, aim: float, second: Array, third: Array
    ) -> tuple[tuple[Array, Array, Array, Array], float, float]:
        """Newton towards a s = aim share, t v = max(1, aim).

        Returns the changes of a, s, t, v, that of b, and how far it may go.
        """
        a, s, t, v = self.a, self.s, self.t, self.v
        goal = max(1.0, aim)
        force = batch.forces(a) - self.b * batch.y
        right = force + (aim * batch.share - second) / a - (goal - third) / t
        da, db = equations.solve(right, -float(batch.y @ a))
        ds, dt = (aim * batch.share - second - s * da) / a - s, -da / batch.w
        dv = (goal - third - v * dt) / t - v
        return (da, ds, dt, dv), db, room([a, s, t, v], [da, ds, dt, dv])

    def residual(self, batch: Batch, level: float) -> float:
        """How far the point is from the optimum, in units of what is subtracted."""
        force = batch.forces(self.a) - self.b * batch.y
        unit = max(1.0, float(np.abs(force).max()), level * float(self.a.sum()))
        return max(
            float(np.max(self.a * self.s)) / coefficient_unit(self.a, level),
            float(np.abs(force - self.v + self.s).max()) / unit,
            float(np.abs(self.v * self.t - 1.0).max()),
            abs(float(batch.y @ self.a)) / float(self.a.sum()),
        )


def interior(batch: Batch, max_iter: int) -> tuple[Array, Array, float, int, float]:
    """Mehrotra's predictor-corrector; return a, the multipliers s of a >= 0, b, steps, jitter.

    v = 1 / (C - a/w) is a variable of its own: its product with the room t = C - a/w is driven to
    one as a s is driven to zero (both together while they are above one), so that neither end of
    the interval stops the steps.
    """
    w, C = batch.w, batch.C
    level, none = level_of(batch), np.zeros(len(w))
    whole = float(batch.share.sum())
    a = 0.5 * C * w
    s = np.full(len(w), max(1.0, float(np.abs(batch.forces(a)).max())))
    p = _Point(a, s, C - a / w, s, 0.0)
    best, since, jitter = np.inf, 0, 0.0
    for step in range(max_iter):
        left = p.residual(batch, level)
        best, since = (left, step) if left < 0.5 * best else (best, since)
        if left < 1e-10 or step - since > PATIENCE:
            return p.a, p.s, p.b, step, jitter
        equations = Bordered(batch, p.v / (w * p.t) + p.s / p.a)
        jitter = max(jitter, equations.jitter)
        (da, ds, dt, dv), db, size = p.direction(batch, equations, 0.0, none, none)
        mu = float(p.a @ p.s) / whole
        least = 1e-13 * coefficient_unit(p.a, level) / float(batch.share.max())
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
    _, _, dt, dv = changes
    low = min(0.1, float(np.min(p.t * p.v)))
    while size > 1e-12 and np.min((p.t + size * dt) * (p.v + size * dv)) < low:
        size *= 0.7
    return size


def level_of(batch: Batch) -> float:
    """The kernel's amplitude, by which coefficients are compared with margins."""
    return max(float(np.mean(np.diagonal(batch.K))), 1e-300)


def coefficient_unit(a: Array, level: float) -> float:
    """What a coefficient is measured by: the one that moves f by 1, or the largest if less."""
    return min(1.0 / level, float(a.max()))


def room(values: list[Array], changes: list[Array]) -> float:
    """The longest step, at most 1, after which all values stay positive."""
    size = 1.0
    for value, change in zip(values, changes, strict=True):
        down = change < 0.0
        size = min(size, NEAR * float(np.min(-value[down] / change[down], initial=np.inf)))
    return size
