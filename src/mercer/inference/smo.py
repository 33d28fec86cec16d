"""SMO: the mode of a loss of straight lines; ``inference.mode.programme`` makes the steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from mercer.core.arrays import Array
from mercer.core.deadline import CURRENT, check_time
from mercer.core.memory import fits
from mercer.inference.base import Report, Solution, ones_if_none
from mercer.inference.mode.interior import interior
from mercer.inference.mode.newton import ModeInference
from mercer.inference.mode.programme import Ascent, Mask, Programme, dual_of, gap_of, levels_of
from mercer.linalg.gram import Gram, NoSpread
from mercer.linalg.rows import RowCache
from mercer.losses.base import Loss, is_number

SINGLE_TOL = 1e-5  # below this tolerance the rows of K are kept in double precision
UNLIMITED = 1 << 62
CALL = 200_000_000  # variables that one call of compiled code passes over
DENSE = 12_000  # points up to which interior points are asked
RETURNS = 5  # of variables that were set aside, before none is set aside any more


class SMO(ModeInference):
    """Sequential minimal optimisation: the mode of a loss of straight lines (hinge, tube, pinball).

    It computes rows of K as it needs them, and keeps most coefficients at zero or at their bound.

    Parameters
    ----------
    tol : > 0, default 1e-3. Largest violation of optimality, in units of f. Below 1e-5 rows of K
        are kept in double precision, otherwise in single.
    max_iter : >= -1, default -1. Most steps along pairs; reaching it is reported, not raised. With
        -1 interior points take over when the steps have cost as much as those would; beyond 12,000
        points, where they do not, the limit is 1e7 steps, or 1000 a variable if that is more.
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
        """Maximise until no pair (or variable) violates optimality by more than ``tol``.

        Steps along pairs come first. Where they stall, or rounding of single rows spoils them,
        interior points take over (:mod:`mercer.inference.mode.interior`) and the steps go on from
        there in double precision. The slopes that decide are compared with those of the
        coefficients.
        """
        limit = self.max_iter if self.max_iter >= 0 else UNLIMITED
        patience, newton = _patience(programme, rows), 0
        end = self._pairs(Ascent(programme, rows), min(limit, patience))
        if end.ascent.drift() > max(0.25 * self.tol, end.resolution()):
            end = self._go_on(end, end.ascent.beta, limit - end.steps, patience)
        n, stalled = len(rows.all_points), end.violation > max(self.tol, end.resolution())
        stalled = stalled and end.objective() < programme.enough
        if stalled and end.steps < limit and n <= DENSE and fits(n, arrays=4):
            F = rows.kernel.features(rows.all_points)
            narrow = _narrow(F, n)
            P = replace(programme, start=end.ascent.beta)
            K = F if narrow else rows.kernel(rows.all_points)
            beta, newton = interior(P, K, self.tol, features=narrow)
            better = self._go_on(end, beta, limit - end.steps, patience // 10)
            end = better if better.gap() <= end.gap() else end
        return self._judged(end, newton, limit if n <= DENSE else min(limit, patience))

    def _go_on(self, end: _End, beta: Array, limit: int, patience: int) -> _End:
        """More steps from ``beta``, with rows in double precision."""
        rows = end.ascent.rows
        double = RowCache(rows.kernel, rows.all_points, 1e6 * self.cache_size, single=False)
        ascent = Ascent(replace(end.ascent.P, start=beta), double)
        more = self._pairs(ascent, min(limit, patience))
        narrowest, returns = min(end.narrowest, more.narrowest), end.returns + more.returns
        return _End(ascent, end.steps + more.steps, more.violation, narrowest, returns)

    def _pairs(self, ascent: Ascent, limit: int) -> _End:
        """Up to ``limit`` steps along pairs.

        Variables that cannot move are set aside on the way; the violation in the end is that of
        all variables.
        """
        tol, steps = self.tol, 0
        reached = _objective(ascent.P, ascent.beta, ascent.slope)
        spell = max(20_000, 20 * len(ascent.beta))  # steps in which the objective must have grown
        since, grown, shrinking, returns, narrowest = 0, 0.0, True, 0, len(ascent.beta)
        while True:
            if CURRENT.get() is not None:
                check_time()
            # a call of compiled code ends soon enough for an interrupt to be heard
            budget = min(limit - steps, spell - since, max(100, CALL // len(ascent.now_beta)))
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
            ascent.rows.reset()  # whoever uses the rows next means all points
        return _End(ascent, steps, float(violation), narrowest, returns)

    def _judged(self, end: _End, newton: int, limit: int) -> Optimum:
        """What came out, with its certificate."""
        P, beta, slope, rows = end.ascent.P, end.ascent.beta, end.ascent.slope, end.ascent.rows
        level, free = levels_of(P, beta, slope), P.free(beta)
        # double precision certifies no less; what is coarser than the default tol is no end
        tol = max(self.tol, min(end.resolution(), 1e-3))
        converged = bool(end.violation <= tol)
        limited = bool(not converged and end.steps >= limit)
        ended = "iteration limit" if limited else "no step lowers the violation further"
        details = {
            "violation": end.violation,
            "tol": float(tol),
            "objective": end.objective(),
            "method": "pairs, then interior points" if newton else "pairs",
            "newton_steps": newton,
            "rows_computed": int(rows.computed),
            "fewest_active": int(end.narrowest),
            "returns": end.returns,
            "precision": str(rows.table.dtype),
            "limited": limited,
            "free": int(np.count_nonzero(free & (beta != 0.0))),
            "bounded": int(np.count_nonzero(~free & (beta != 0.0))),
        }
        gap, message = gap_of(P, beta, slope, level), "converged" if converged else ended
        report = Report(converged, int(end.steps), gap, message, details)
        return Optimum(beta, slope, level, free, report)


class _End(NamedTuple):
    """Where a run of steps ended."""

    ascent: Ascent
    steps: int
    violation: float
    narrowest: int  # the fewest variables that were active at a time
    returns: int  # how often those set aside came back

    def gap(self) -> float:
        given = (self.ascent.P, self.ascent.beta, self.ascent.slope)
        return gap_of(*given, levels_of(*given))

    def objective(self) -> float:
        return _objective(self.ascent.P, self.ascent.beta, self.ascent.slope)

    def resolution(self) -> float:
        """What rounding leaves of a slope in double precision, in units of f."""
        size = float(self.ascent.diagonal.max(initial=0.0)) * float(np.abs(self.ascent.beta).sum())
        return 4.0 * float(np.finfo(np.float64).eps) * size


def _narrow(F: Any, n: int) -> bool:
    """Whether features of n points are few enough to be used in place of K."""
    return isinstance(F, np.ndarray) and 2 * F.shape[1] < n


def _patience(P: Programme, rows: RowCache) -> int:
    """Steps along pairs that cost as much as interior points would; many where those cannot be."""
    n, N = len(rows.all_points), len(P.linear)
    if n > DENSE:
        return max(10_000_000, 1000 * N)
    F = rows.kernel.features(rows.all_points[:1])
    newton = 25 * (n * F.shape[1] ** 2 if _narrow(F, n) else n**3 / 3) / 1e10  # seconds, about
    return max(20_000, 50 * N, int(newton / (2e-9 * N)))


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
    "tol": max,
    "objective": list,
    "method": max,
    "newton_steps": sum,
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
