"""The mode of sum_i l_i(f_i) + 1/2 a'K a, f = mean + K a + H b, by damped Newton steps in (a, b).

The losses enter through a function ``Local``, the linear algebra through a function ``Prepare``, so
that one loop serves one latent function and several that share K. The line search costs O(n) for
each trial, where the step itself cost O(n^3). Theory (K5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from mercer.core.arrays import Array
from mercer.core.deadline import check_time
from mercer.linalg.dense.gram import DenseGram
from mercer.linalg.gram import Gram
from mercer.linalg.gram import NoSpread as NoSpread

# f (n, m) -> the total loss, its slope (n, m), its curvature (n, m) or (n, m, m)
Local: TypeAlias = Callable[[Array], tuple[float, Array, Array]]
# residual s = -slope - a, and a, both (n, m) -> the changes of a and of b
Step: TypeAlias = Callable[[Array, Array], tuple[Array, Array]]
# the share t of a step -> the change of the objective, its slope in t, and what ``Local`` found
Line: TypeAlias = Callable[[float], tuple[float, float, Any]]

FLOOR = 1e-2  # curvature in units of 1/variance where the loss is too straight for the basis
SPARSE = 0.8  # share of points with curvature below which only these are factored
TINY = 1e-200  # a curvature below is none: its inverse would overflow
FAR = 5.0  # a linear part beyond this is asked whether it still pays to grow


def longer(at: Line, start: float, value: float, found: Any) -> tuple[float, Any]:
    """A step t > 1, doubled while the objective falls steeply: the curvature was too large."""
    t = 1.0
    for _ in range(60):
        further, slope, there = at(2.0 * t)
        if not (further < value and slope <= 0.5 * abs(start)):
            break
        t, value, found = 2.0 * t, further, there
        if slope > -0.3 * abs(start):
            break
    return t, found


def shorter(at: Line, start: float, slope: float, value: float) -> tuple[float, Any]:
    """A step t in (0, 1) where the slope has fallen to a tenth and the objective too.

    Regula falsi (Illinois) on the slope, every third step a bisection; O(n) for each trial.
    """
    low, high, at_low, at_high = 0.0, 1.0, start, slope if np.isfinite(value) else np.inf
    best: tuple[float, float, Any] | None = None
    for k in range(60):
        secant = high - at_high * (high - low) / (at_high - at_low) if at_high > at_low else np.nan
        t = secant if low < secant < high and k % 3 != 2 else 0.5 * (low + high)
        value, slope, found = at(t)
        if value < 0.0 and (best is None or value < best[0]):
            best = value, t, found
        if value < 0.0 and abs(slope) <= 0.1 * abs(start):
            break
        if np.isfinite(value) and slope < 0.0 and value < 0.0:
            low, at_low, at_high = t, slope, 0.5 * at_high
        else:
            high, at_high, at_low = t, slope if np.isfinite(value) else np.inf, 0.5 * at_low
    if best is None:  # rounding: no point on the way is better than where it began
        return 0.0, at(0.0)[2]
    return best[1], best[2]


@dataclass
class Mode:
    """Where the search stands.

    Attributes
    ----------
    a, b : (n, m) and (k, m) coefficients.
    Ka, f : (n, m) K a, and the latent values mean + K a + H b.
    total, slope, curvature : sum of the losses at f, and their derivatives.
    steps : Newton steps made, one factorisation each.
    decrement, moved : what the last step could gain, and the largest change of f it proposed.
    """

    a: Array
    b: Array
    Ka: Array
    f: Array
    total: float
    slope: Array
    curvature: Array
    steps: int = 0
    decrement: float = np.inf
    moved: float = np.inf

    @property
    def objective(self) -> float:
        """The total loss plus 1/2 a'K a."""
        return self.total + 0.5 * float(np.vdot(self.a, self.Ka))

    @property
    def residual(self) -> Array:
        """What stationarity a = -slope still lacks, (n, m)."""
        return np.asarray(-self.slope - self.a)

    @property
    def at_rounding(self) -> bool:
        """Whether the last step could gain no more than the rounding of the objective."""
        return self.decrement <= 1e-15 * max(1.0, abs(self.objective))


# curvature -> the Newton step with its factor; whether to stop
Prepare: TypeAlias = Callable[[Array], Step]
Done: TypeAlias = Callable[[Mode], bool]


def single(gram: Gram, H: Array) -> Prepare:
    """Newton steps for one latent function, curvature W (n, 1); H is (n, k), k = 0 for no basis.

    (I + W K)^-1 = I - C K with C = (K + W^-1)^-1, so that from the residual s

        da = s - C K s - C H db,    (H'C H) db = H'(a + s - C K s)      (thesis 1.4, GPML 3.18)

    and H'(a + da) = 0. W_i = 0 is allowed; if the points with W_i > 0 do not determine the basis,
    W is raised to 0.01 / variance (0.01, if that is less), and the step still goes downhill.
    """

    def prepare(curvature: Array) -> Step:
        W = np.where(curvature[:, 0] < TINY, 0.0, curvature[:, 0])
        solve, rest = _operator(gram, W, H)
        G = solve(H) if H.shape[1] else H

        def step(s: Array, a: Array) -> tuple[Array, Array]:
            da = rest(s)
            if not H.shape[1]:
                return da, np.zeros((0, 1))
            db = np.asarray(np.linalg.lstsq(H.T @ G, H.T @ (a + da), rcond=None)[0])
            return da - G @ db, db.astype(np.float64)

        return step

    return prepare


def _operator(
    gram: Gram, W: Array, H: Array
) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """Return V -> C V and s -> (I - C K) s.

    Where few W_i are positive, from the factor of those points alone.
    """
    active = np.flatnonzero(W > 0.0)
    if H.shape[1] and np.linalg.matrix_rank(H[active]) < H.shape[1]:
        W = np.maximum(W, FLOOR / max(float(gram.diag().mean()), 1.0))
    elif len(active) < SPARSE * len(W) and not gram.few:
        K = np.ascontiguousarray(gram.rows(active)[:, active])
        part = DenseGram.given(K).factor(W[active]) if len(active) else None

        def embedded(V: Array) -> Array:
            result = np.zeros_like(V)
            if part is not None:
                result[active] = part.solve(V[active])
            return result

        return embedded, lambda s: s - embedded(np.asarray(gram @ s))
    factor = gram.factor(W)
    return factor.solve, lambda s: gram.step(factor, s, s)[0]


@dataclass(frozen=True)
class Landscape:
    """What is minimised: K, the losses, the prior mean (n, m), and the basis H (n, k).

    ``again`` is for how many more steps each factorisation is used at once, ``beyond`` for how many
    when done: they take the convergence to the rounding of the arithmetic where a step is O(n^2).
    """

    gram: Gram
    local: Local
    mean: Array
    H: Array
    again: int = 0
    beyond: int = 4

    def at(self, a: Array, b: Array) -> Mode:
        """Return the state at coefficients a (n, m) and b (k, m)."""
        Ka = np.asarray(self.gram @ a)
        f = self.mean + Ka + self.H @ b
        return Mode(a, b, Ka, f, *self.local(f))

    def descend(
        self, state: Mode, prepare: Prepare, done: Done, max_iter: int, step: Step | None = None
    ) -> Mode:
        """Newton steps, each as long as it lowers the objective, until ``done`` or ``max_iter``.

        Where rounding hides what is left to gain, the last factorisation is used until ``done``,
        and then for ``beyond`` more. ``step``, one that is there already, is used before all.
        """
        if step is not None:
            state = self._polish(state, step, self.again, done)
        stuck = 0
        while not done(state) and state.steps < max_iter:
            check_time()
            step, before = prepare(state.curvature), state.f
            state = self.along(state, *step(state.residual, state.a))
            stuck = stuck + 1 if np.array_equal(state.f, before) else 0
            if state.at_rounding or stuck > 1:  # the same step again would do no better
                break
            state = self._polish(state, step, self.again, done)
        if step is None:
            return state
        if not self.beyond:
            return self._polish(state, step, 4, done)
        return self._polish(state, step, self.beyond, lambda _: False)

    def _polish(self, state: Mode, step: Step, count: int, done: Done) -> Mode:
        """At most ``count`` steps with a factorisation at hand, while each halves the residual."""
        for _ in range(count):
            if done(state):
                break
            da, db = step(state.residual, state.a)
            Kda = np.asarray(self.gram @ da)
            df = Kda + self.H @ db
            f, moved = state.f + df, float(np.abs(df).max())
            new = Mode(state.a + da, state.b + db, state.Ka + Kda, f, *self.local(f))
            if not np.abs(new.residual).max() < 0.5 * np.abs(state.residual).max():
                state.moved = min(state.moved, moved)  # at the rounding, if it is tiny
                break
            new.steps, new.decrement, new.moved = state.steps, state.decrement, moved
            state = new
        return state

    def along(self, state: Mode, da: Array, db: Array) -> Mode:
        """The best point found on the way along (da, db): the whole of it, less or more."""
        Kda = np.asarray(self.gram @ da)
        return further(state, self.local, da, db, Kda, Kda + self.H @ db)

    def check_bounded(self, state: Mode) -> None:
        """Refuse a basis whose coefficients would grow without end, the loss still falling."""
        linear = self.H @ state.b
        if not self.H.shape[1] or np.abs(linear).max() < FAR:
            return
        rest = state.f - linear
        with np.errstate(over="ignore", invalid="ignore"):
            further = [self.local(rest + t * linear)[0] for t in (2.0, 10.0, 1000.0)]
        if all(value < state.total for value in further):
            raise ValueError(
                "the unpenalised basis alone separates the data: its coefficients grow without "
                f"bound (they reach {np.abs(state.b).max():.3g}) while the loss still falls, and "
                "there is no optimum; drop the basis (basis=None) and put its functions into the "
                "kernel, e.g. kernel + Constant() or kernel + Linear(), where they have a prior"
            )


def further(state: Mode, local: Local, da: Array, db: Array, Kda: Array, df: Array) -> Mode:
    """See :meth:`Landscape.along`, with K da and the change df of f (n, m) given."""
    bend, tilt = float(np.vdot(da, Kda)), float(np.vdot(state.a, Kda))

    def at(t: float) -> tuple[float, float, Any]:
        with np.errstate(over="ignore", invalid="ignore"):
            found = local(state.f + t * df)
            value = found[0] - state.total + t * tilt + 0.5 * t**2 * bend
            slope = float(np.vdot(found[1], df)) + tilt + t * bend
        return (value if np.isfinite(value) else np.inf), slope, found

    start = float(np.vdot(state.slope, df)) + tilt  # < 0: the objective falls
    t, (value, slope, found) = 1.0, at(1.0)
    noise = 1e-13 * max(1.0, abs(state.objective))
    if not (value <= noise and slope <= 0.5 * abs(start) + noise):
        t, found = shorter(at, start, slope, value)
    elif slope < -0.5 * abs(start) and abs(start) > noise:
        t, found = longer(at, start, value, found)
    a, b, Ka = state.a + t * da, state.b + t * db, state.Ka + t * Kda
    new = Mode(a, b, Ka, state.f + t * df, *found)
    new.steps, new.decrement = state.steps + 1, 0.5 * abs(start)
    new.moved = float(np.abs(df).max())
    return new
