"""Newton steps on features: f = F b + H beta, of one latent function for :class:`Primal`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from mercer.core.arrays import Array
from mercer.core.deadline import check_time
from mercer.inference.base import Task
from mercer.inference.mode.prox import Bend, Rounded, conjugate
from mercer.linalg.reduced.features import Features

ENOUGH = 8  # rows a landmark from which the curvature is taken at the first width
EXACT = 1e-2  # of its slope at the beginning: where a line search ends
SETTLED = 1e-10  # of sum |a|: how far from zero H'a may be


@dataclass
class Descent:
    """One latent function on every s-th row; ``b``, ``beta`` and f (n,) move."""

    task: Task  # of these rows
    features: Features
    b: Array
    beta: Array
    kappa: Array | None = None  # widths (n,) of what is rounded off
    center: Array | float = 0.0  # the last a

    def __post_init__(self) -> None:
        self.H, self.f, self.steps = self.task.H, np.zeros(0), 0
        self.f = self.task.mean + self.features.expand(self.b) + self.H @ self.beta
        self.past: list[tuple[Array, Array, float]] = []  # b, beta and width of earlier centres
        self.envelope = Rounded(self.task.loss, self.task.y, self.task.w)

    def bend(self, f: Array) -> Bend:
        """Return slope and curvature of the loss at f (n,)."""
        return self.envelope.bend(f, self.kappa, self.center)

    def objective(self, f: Array, b: Array) -> float:
        """P, of the loss itself."""
        return float(self.task.w @ self.task.loss.value(self.task.y, f) + 0.5 * np.vdot(b, b))

    def along(self, f: Array, df: Array) -> tuple[float, float]:
        """Return slope and curvature of the loss at f in the direction df."""
        at = self.bend(f)
        return -float(at.a @ df), float(at.E @ (df * df))

    def search(self, df: Array, flat: float = 0.0, along: float = 0.0) -> float:
        """Return where the objective is least along df, like f: the root of its rising slope.

        The penalty adds the slope ``flat`` + t ``along``.
        """
        first = flat + self.along(self.f, df)[0]
        low, high, t = 0.0, np.inf, 1.0
        for _ in range(100):
            with np.errstate(invalid="ignore", over="ignore"):
                slope, rise = self.along(self.f + t * df, df)
            slope, rise = flat + t * along + slope, along + rise
            if abs(slope) <= EXACT * abs(first):
                break
            low, high = (t, high) if slope < 0.0 else (low, t)  # beyond all numbers is too far
            step = t - slope / rise if rise > 0.0 and np.isfinite(slope) else np.inf
            inside = low < step < high
            t = step if inside else (0.5 * (low + high) if high < np.inf else 4.0 * t)
            if high - low <= 1e-14 * high:
                break
        return t

    def settle(self) -> None:
        """Move beta to its best, the rest as it is: then H'a = 0. No product with F."""
        if not self.H.shape[1]:
            return
        for _ in range(50):
            at = self.bend(self.f)
            slope = self.H.T @ at.a
            if np.abs(slope).max() <= SETTLED * float(np.abs(self.H).max() * np.abs(at.a).sum()):
                break
            inner = self.H.T @ (at.E[:, None] * self.H)
            down = np.linalg.lstsq(inner, slope, rcond=1e-12)[0]
            if not down @ slope > 1e-8 * np.linalg.norm(down) * np.linalg.norm(slope):
                down = slope  # flat there: on, until it rises
            df = self.H @ down
            t = self.search(df)
            self.beta, self.f = self.beta + t * down, self.f + t * df

    def descend(self, enough: float, loose: float, limit: int, rough: bool) -> float:
        """Newton steps until |b - F'a|^2 / 2 is at most ``enough``; return the gap of b and a.

        It need not be less than ``loose`` times what is due to the width. With a ``rough``
        curvature where that is good enough.
        """
        m, k, last = self.features.m, self.H.shape[1], self.steps + limit
        while True:
            check_time()
            at = self.bend(self.f)
            g = np.concatenate([self.b - self.features.down(at.a), -(self.H.T @ at.a)])
            off, wide = 0.5 * float(g[:m] @ g[:m]), self.rounded(at.a)
            if off <= max(enough, loose * wide) or self.steps >= last:
                return off + wide
            E = thinned(at.E, ENOUGH * m) if rough else at.E
            M = self.features.curved(E, self.H)
            M[np.arange(m), np.arange(m)] += 1.0
            if k:  # where no row is active beta does not bend: a little, so that there is a step
                tilt = 1e-10 * float(np.abs(at.a).max() + np.max(at.E)) + 1e-300
                M[m:, m:] += tilt * (self.H.T @ self.H)
            step = -cho_solve(cho_factor(M, lower=True, check_finite=False), g, check_finite=False)
            df = self.features.expand(step[:m]) + self.H @ step[m:]
            t = self.search(df, float(self.b @ step[:m]), float(step[:m] @ step[:m]))
            self.b, self.beta = self.b + t * step[:m], self.beta + t * step[m:]
            self.f = self.f + t * df
            self.steps += 1
            self.settle()

    def rounded(self, a: Array) -> float:
        """Return the part of the gap that is due to the width of what is rounded off."""
        t = self.task
        if self.kappa is None:
            return 0.0
        return float(t.w @ (t.loss.value(t.y, self.f) + self._star(a)) + a @ self.f)

    def _star(self, a: Array) -> Array:
        w = self.task.w.reshape(-1, *[1] * (a.ndim - 1))
        return conjugate(self.task.loss, self.task.y, -a / w)

    def certified(self, features: Features) -> Certified:
        """Return a with the function that it stands for, b = F'a, and their duality gap."""
        t, a = self.task, self.bend(self.f).a
        b = features.down(a)
        smooth = t.mean + features.expand(b)
        f = smooth + self.H @ self.beta
        value = float(t.w @ t.loss.value(t.y, f))
        gap = value + float(t.w @ self._star(a)) + float(np.vdot(a, smooth))
        return Certified(a, self.beta, f, max(gap, 0.0), value + 0.5 * float(np.vdot(b, b)))


class Certified(NamedTuple):
    """A dual variable a (n,), the function F'a + H beta of it at the rows, and what it is worth."""

    a: Array
    beta: Array
    f: Array
    gap: float
    objective: float


def thinned(E: Array, most: int) -> Array:
    """Return curvatures (n,) of which about ``most`` are not zero and stand for all.

    Examples
    --------
    >>> thinned(np.ones(6), 3)
    array([2., 0., 2., 0., 2., 0.])
    """
    active = np.flatnonzero(E)
    if len(active) < 2 * most:
        return E
    some = active[:: len(active) // most]
    few = np.zeros(len(E))
    few[some] = E[some] * (E[active].sum() / E[some].sum())
    return few
