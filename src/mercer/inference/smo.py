"""SMO: the mode of a loss of straight lines; :mod:`mercer.inference.programme` makes the steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from mercer.core.arrays import Array
from mercer.inference.base import Report, Solution, ones_if_none
from mercer.inference.mode.newton import ModeInference
from mercer.inference.programme import Ascent, Mask, Programme, directions, dual_of
from mercer.linalg.gram import Gram, NoSpread
from mercer.linalg.rows import RowCache
from mercer.losses.base import Loss, is_number

SINGLE_TOL = 1e-5  # below this tolerance the rows of K are kept in double precision
UNLIMITED = 1 << 62
RETURNS = 5  # of variables that were set aside, before none is set aside any more


class SMO(ModeInference):
    """Sequential minimal optimisation: the mode of a loss of straight lines (hinge, tube, pinball).

    It computes rows of K as it needs them, and keeps most coefficients at zero or at their bound.

    Parameters
    ----------
    tol : > 0, default 1e-3. Largest violation of optimality, in units of f. Below 1e-5 rows of K
        are kept in double precision, otherwise in single.
    max_iter : >= -1, default -1, no limit. Most steps; reaching it is reported, not raised.
    cache_size : > 0, default 1000. Megabytes for rows of K.

    References
    ----------
    Fan, Chen & Lin (2005); GPML section 6.4. Theory (S3), (S4).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.kernels import Linear
    >>> from mercer.linalg.rows import RowGram
    >>> from mercer.losses import Hinge
    >>> X, y = np.array([[-3.0], [-1.0], [1.0], [2.0]]), np.array([[-1.0], [-1.0], [1.0], [1.0]])
    >>> found = SMO(tol=1e-9).solve(RowGram(Linear(), X), y, Hinge(), basis=np.ones((4, 1)))
    >>> found.z[:, 0].round(6) + 0.0
    array([-3., -1.,  1.,  2.])
    """

    needs: ClassVar[tuple[str, ...]] = ("pieces",)
    factors_repeatedly: ClassVar[bool] = False

    def __init__(self, tol: float = 1e-3, max_iter: int = -1, cache_size: float = 1000.0) -> None:
        self.tol = tol
        self.max_iter = max_iter
        self.cache_size = cache_size

    @classmethod
    def example(cls) -> Self:
        """Return one whose answer is exact to nine digits."""
        return cls(tol=1e-9)

    def check(self, loss: Loss) -> None:
        if not is_number(self.cache_size, 0.0, np.inf):
            raise ValueError(f"SMO needs a positive finite cache_size, not {self.cache_size!r}")
        limit = self.max_iter
        if isinstance(limit, bool) or not isinstance(limit, (int, np.integer)) or limit < -1:
            raise ValueError(f"SMO needs a whole number max_iter, or -1 for no limit: {limit!r}")
        super(SMO, SMO(self.tol, 1)).check(loss)  # others have no "no limit"

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
        w, unit = ones_if_none(weights, len(y)), _constant(basis)
        before = np.zeros(y.shape) if mean is None else mean
        programmes = []
        for j, (column, offset) in enumerate(zip(y.T, before.T, strict=True)):
            P = dual_of(loss, column, w, bias=unit is not None)
            P.linear = P.linear - offset
            if start is not None:
                near = np.clip(start.alpha[:, j], P.low, P.high)
                # with a bias only a start whose coefficients sum to zero is feasible
                balanced = abs(near.sum()) <= 1e-14 * np.abs(near).sum()
                P.start = near if balanced or not P.bias else P.start
            programmes.append(P)
        found = self.ascend(gram, programmes)
        beta = None if unit is None or found.beta is None else found.beta / unit
        return replace(found, z=found.z + before, beta=beta, weights=w)

    def ascend(self, gram: Gram, programmes: Sequence[Programme]) -> Solution:
        """Maximise the programmes, one for each of m functions on the n points of ``gram``.

        ``alpha`` (n, m) are the sums of each point's variables, ``beta`` (g, m) the multipliers of
        the g segments, ``z`` (n, m) is K alpha, plus the multiplier where there is one; ``W`` is
        infinite where a function is held at a kink of its loss.
        """
        n, single = len(gram.points), self.tol >= SINGLE_TOL
        alpha, z, W = (np.zeros((n, len(programmes))) for _ in range(3))
        rows: RowCache | None = None
        levels, reports = [], []
        for j, P in enumerate(programmes):
            if rows is None or P.order is not None:
                kernel, points = gram.source(P.order)
                rows = RowCache(kernel, points, 1e6 * self.cache_size, single=single)
            optimum = self.climb(P, rows)
            columns = P.columns()
            at = columns if P.order is None else P.order[columns]
            alpha[:, j] = np.bincount(at, optimum.beta, n)
            f = P.linear - optimum.slope
            z[at, j] = f + optimum.level[0] if len(P.segments) == 1 else f
            W[at[optimum.free], j] = np.inf
            levels.append(optimum.level)
            reports.append(optimum.report)
        each = [report.details for report in reports]
        joined = Report(
            all(report.converged for report in reports),
            sum(report.iterations or 0 for report in reports),
            sum(report.gap or 0.0 for report in reports),
            "; ".join(sorted({report.message for report in reports})),
            {name: join([details[name] for details in each]) for name, join in JOINED.items()},
            tuple(reports) if len(reports) > 1 else (),
        )
        W, beta = W[:, 0] if len(programmes) == 1 else W, np.column_stack(levels)
        return Solution(alpha, W, z, NoSpread(gram.diag()), beta, np.ones(n), joined)

    def climb(self, programme: Programme, rows: RowCache) -> Optimum:
        """Maximise until no pair (or variable) violates optimality by more than ``tol``."""
        tol, ascent = self.tol, Ascent(programme, rows)
        reached = _objective(programme, ascent.beta, ascent.slope)
        limit, steps = (self.max_iter if self.max_iter >= 0 else UNLIMITED), 0
        spell = max(20_000, 20 * len(ascent.beta))  # steps in which the objective must have grown
        since, grown, shrinking, returns, narrowest = 0, 0.0, True, 0, len(ascent.beta)
        while True:
            budget = min(limit - steps, spell - since)
            if shrinking:
                budget = min(budget, ascent.pause)
            made, violation, gained, again = ascent.climb(tol, budget)
            steps, since, grown = steps + made, since + made, grown + gained
            narrowest = min(narrowest, len(ascent.now_beta))
            if again:
                continue
            stuck = violation > tol and made < budget  # rounding: no step lowers the violation
            if since >= spell:
                reached += grown
                stuck = stuck or grown <= 1e-12 * abs(reached)  # the tolerance cannot be reached
                since, grown = 0, 0.0
            if steps >= limit or (ascent.kept is None and (violation <= tol or stuck)):
                break
            if violation <= tol or stuck:
                violation = ascent.restore()
                if violation <= tol:
                    break
                returns += 1
                shrinking = shrinking and not stuck and returns < RETURNS
                ascent.widen(again=shrinking)
            elif shrinking and ascent.pause <= 0:
                ascent.shrink()
        if ascent.kept is not None:
            violation = ascent.restore()
            rows.reset()  # whoever uses the rows next means all points
        beta, slope = ascent.beta, ascent.slope
        level, free = _levels(programme, beta, slope), programme.free(beta)
        converged, limited = bool(violation <= tol), bool(violation > tol and steps >= limit)
        ended = "iteration limit" if limited else "no step lowers the violation further"
        details = {
            "violation": float(violation),
            "objective": _objective(programme, beta, slope),
            "rows_computed": int(rows.computed),
            "fewest_active": int(narrowest),
            "returns": returns,
            "precision": str(rows.table.dtype),
            "limited": limited,
            "free": int(np.count_nonzero(free & (beta != 0.0))),
            "bounded": int(np.count_nonzero(~free & (beta != 0.0))),
        }
        gap, message = _gap(programme, beta, slope, level), "converged" if converged else ended
        return Optimum(
            beta, slope, level, free, Report(converged, int(steps), gap, message, details)
        )


class Optimum(NamedTuple):
    """Where one programme of N variables ended."""

    beta: Array  # (N,) the variables
    slope: Array  # (N,) p - K b
    level: Array  # (g,) the multiplier of each segment: slope -+ eps of its free variables
    free: Mask  # (N,) which variables lie between their bounds, and not at a kink
    report: Report  # with the duality gap; the details are those of JOINED


# How the details of several programmes are joined: the violation and the objective, rows of K
# computed and their precision, the fewest variables that were active at a time, how often those
# set aside came back, whether max_iter ended it, and how many variables that are not zero are free
# and at a bound.
JOINED: dict[str, Callable[[list[Any]], Any]] = {
    "violation": max,
    "objective": list,
    "rows_computed": max,
    "fewest_active": min,
    "returns": max,
    "precision": max,
    "limited": any,
    "free": list,
    "bounded": list,
}


def _constant(basis: Array | None) -> float | None:
    """Return the value of a constant basis (n, 1), None if there is no basis."""
    if basis is None or not basis.shape[1]:
        return None
    value = float(basis[0, 0])
    if basis.shape[1] > 1 or value == 0.0 or np.any(basis != value):
        raise ValueError(
            "SMO inference takes a constant as unpenalised basis, and no other; use "
            "inference='dual', or basis='constant'"
        )
    return value


def _objective(P: Programme, beta: Array, slope: Array) -> float:
    """p'b - sum eps |b| - 1/2 b'K b, with K b = p - slope."""
    return float(0.5 * beta @ (P.linear + slope) - P.kink @ np.abs(beta))


def _gap(P: Programme, beta: Array, slope: Array, level: Array) -> float:
    """How much the objective can lie below its maximum: that of its tangent, over the box.

    With u = slope - level it is sum_t max_c (u_t c - eps_t |c|) - (u_t b_t - eps_t |b_t|), at least
    0 (up to rounding); the sums over the segments are fixed, and their levels drop out.
    """
    u = slope.copy()
    if P.bias:
        for (begin, end, _), value in zip(P.segments, level, strict=True):
            u[begin:end] -= value
    ends = np.maximum(u * P.high - P.kink * P.high, u * P.low + P.kink * P.low)
    return float((np.maximum(ends, 0.0) - (u * beta - P.kink * np.abs(beta))).sum())


def _levels(P: Programme, beta: Array, slope: Array) -> Array:
    """The multiplier of each segment: mean over free variables, else the middle of its bounds."""
    if not P.bias:
        return np.zeros(1)
    up, down = directions(P, beta, slope)
    free = P.free(beta)
    levels = np.empty(len(P.segments))
    for g, (begin, end, _) in enumerate(P.segments):
        inside = slice(begin, end)
        if np.any(free[inside]):
            shifted = slope[inside] - np.sign(beta[inside]) * P.kink[inside]
            levels[g] = shifted[free[inside]].mean()
        else:
            levels[g] = 0.5 * (up[inside].max() + down[inside].min())
    return levels
