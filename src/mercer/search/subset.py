"""Subset: a search that begins on some of the rows, and what it learns there for all of them.

The maximum on half of the rows is a few deviations from that on all, and the curvature of the
criterion, known from few rows, leads from the one to the other in few evaluations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Protocol, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from mercer.core.arrays import Array
from mercer.inference.base import Problem, Solution
from mercer.kernels.base import Kernel
from mercer.losses.base import Loss
from mercer.search.criteria.evidence import Criterion, bare
from mercer.search.scan import rows_of
from mercer.search.space import Space

FIRST = (300, 1000)  # least and most rows on which all starts are tried, else a quarter
SECOND = 4000  # most rows on which the best two climb on, else a half
MORE = 1.5  # times the fewest rows that these should be
EACH = 20  # rows of a class on the fewest rows, below which its labels are left to chance
APART = 1.0  # in a logarithm: two climbs are to different maxima
ROUGH, FINE = 1e-7, 1e-9  # relative change at which a climb ends, on some rows and on all
LEFT = 1e-5  # nats that may be left to gain, by the curvature
SETTLED = 1e-3  # and at a bound, or where rounding ends a climb
STEP = 1e-2  # of the differences of gradients, in u
ROUNDED = 1.0  # curvature below which a direction counts as flat: a unit of u gains half a nat
ASLEEP = (4.0, 6.0)  # from home, in u, where a parameter that did not matter is tried again
FARTHER = (6.0, 8.0)  # and at the end, where those are tried alone whose slope leads home
STEPS = 8  # evaluations on all rows that decide between two maxima of some of them
MANY = 100  # parameters from which their curvature costs more than it saves
REACH = 1e6  # of white coordinates: their bounds are those of u


class Evaluated(Protocol):
    """A criterion to be minimised, of so many rows."""

    @property
    def rows(self) -> int:
        """How many."""

    def __call__(
        self, u: Array, start: Solution | None
    ) -> tuple[float, Array, Solution | None]: ...


class Ended(Protocol):
    """The end of a climb."""

    u: Array
    value: float
    report: dict[str, Any]


Mask: TypeAlias = NDArray[np.bool_]
End = TypeVar("End", bound=Ended)


def nested(criterion: Criterion, space: Space) -> list[Problem]:
    """Return the problems of ever more of the points; none where all are to be searched together.

    The points come in an order by what they hold, so that these depend on the order neither of
    the rows nor of the columns. A kernel or a noise that knows its rows by number stays with all.
    """
    problem, n = criterion.problem, len(criterion.problem.points)
    kernel, loss = cast(Kernel, space.parts["kernel"]), cast(Loss, space.parts["loss"])
    by_number = kernel.positional or kernel.pairwise or loss.of_rows
    if by_number or criterion.rivals:
        return []
    order = np.random.default_rng(n).permutation(n)
    sizes = [int(np.clip(n // 4, *FIRST)), min(n // 2, SECOND)]
    if sizes[1] <= MORE * sizes[0]:
        del sizes[1]
    problems = [rows_of(problem, np.sort(order[:size])) for size in sizes]
    if loss.response in ("binary", "multiclass"):
        counts = np.unique(problems[0].rows, axis=0, return_counts=True)[1]
        if len(counts) < len(np.unique(problem.rows, axis=0)) or counts.min() < EACH:
            return []
    return problems


def best_two(ends: Sequence[End]) -> list[End]:
    """Return the best end and the best of those that are at another maximum, if any."""
    ranked = sorted(ends, key=lambda end: -end.value)
    others = [one for one in ranked[1:] if np.abs(one.u - ranked[0].u).max() > APART]
    return ranked[:1] + others[:1]


def from_subsets(
    ever_more: Sequence[Evaluated],
    bounds: Array,
    screened: list[End],
    climb: Callable[..., End],
    home: Array,
    tol: float = FINE,
) -> list[End]:
    """Return the outcome on the most rows, from the better of the two ends on fewer of them.

    ``ever_more`` are the criteria of some of the rows and, unless the search is to end there, of
    all; ``screened`` the ends on the fewest. ``climb`` (criterion, bounds, start, budget, tol) goes
    on from there. ``home`` (p,) is a point at which all parameters matter; ``tol`` is for the end.
    Nothing is returned if the fewest rows led to where no parameter matters: they tell nothing.
    """
    ends = [climb(ever_more[0], bounds, end.u, None, ROUGH) for end in best_two(screened)]
    away = np.abs(ends[0].u - home).max() > ASLEEP[0]
    if away and unit_curvature(ever_more[0], ends[0].u, bounds)[1].all():
        return []
    for few, more in pairwise(ever_more):
        begun = []
        for end, S, flat in _at_different_maxima(few, best_two(ends), bounds, more.rows / few.rows):
            u, last = awake(more, end.u, flat, home)
            begun.append(WhiteCoordinates(more, bounds, u, S, last))
        ending = more is ever_more[-1]
        if ending:
            begun = [_chosen(begun, climb)]
        ends = [white.climbed(climb, tol if ending else ROUGH) for white in begun]
        if ending:
            ends = [_roused(begun[0], ends[0], climb, home, tol)]
    return best_two(ends)[:1]


def _roused(
    white: WhiteCoordinates, end: End, climb: Callable[..., End], home: Array, tol: float
) -> End:
    """Return the end of a climb, or of one more with what it had left asleep.

    At an infinite length scale the evidence has a slope in 1 / length_scale^2, whose sign is that
    of the slope in u however small this is; where it leads home, no maximum has been reached.
    What leads away stays where it is. Before the climb :func:`awake` may have missed one whose best
    place is just beyond where it was tried: there the slope leads away, too.
    """
    if np.all(np.abs(end.u - home) <= FARTHER[0]):
        return end
    _, slope, last = white.watch(end.u, None)
    leads = slope * (end.u - home) > 0.0
    start = None if last is None else bare(last)
    u, last = awake(white.watch, end.u, leads, home, FARTHER, SETTLED, start)
    if np.array_equal(u, end.u):
        return end
    again = WhiteCoordinates(white.watch, white.bounds, u, white.given, last).climbed(climb, tol)
    return max(again, end, key=lambda one: one.value)


def _chosen(begun: list[WhiteCoordinates], climb: Callable[..., End]) -> WhiteCoordinates:
    """Return the start to climb from on all rows; the first was the better one on fewer.

    Where the other is higher on all rows, a few steps from each of them decide: what fits with
    little noise is low at parameters that are slightly wrong.
    """
    if len(begun) > 1 and begun[1].first[0] < begun[0].first[0]:
        begun = [white.after(climb, STEPS) for white in begun]
    return min(begun, key=lambda white: white.first[0])


def _at_different_maxima(
    few: Evaluated, ends: list[End], bounds: Array, times: float
) -> list[tuple[End, Array, Mask]]:
    """Return one or two ends with their curvatures; one where they differ in what is flat alone."""
    known = [(end, *unit_curvature(few, end.u, bounds, times)) for end in ends]
    if len(known) == 2:
        (one, _, flat), (other, _, also_flat) = known
        if np.all((flat & also_flat) | (np.abs(one.u - other.u) <= APART)):
            return known[:1]
    return known


def unit_curvature(
    criterion: Evaluated, u: Array, bounds: Array, times: float = 1.0
) -> tuple[Array, Mask]:
    """Return S (p, p), S S' the inverse Hessian at u (p,), and which parameters are without any.

    By differences of gradients, for a criterion of so many ``times`` the rows. S is zero for a
    parameter at its bound, which stays there.
    """
    p = len(u)
    if p > MANY:
        return np.eye(p), np.zeros(p, dtype=bool)
    _, here, last = criterion(u, None)
    H = np.empty((p, p))
    for i in range(p):
        moved = u.copy()
        moved[i] += STEP if u[i] + STEP <= bounds[i, 1] else -STEP
        H[i] = times * (criterion(moved, last)[1] - here) / (moved[i] - u[i])
    flat, free = np.abs(np.diagonal(H)) < ROUNDED, within(u, bounds)
    curvature, Q = np.linalg.eigh(0.5 * (H + H.T) * np.outer(free | flat, free | flat))
    S = (free | flat)[:, None] * Q / np.sqrt(np.maximum(np.abs(curvature), ROUNDED))
    return np.asarray(S), flat


def awake(
    criterion: Evaluated,
    u: Array,
    flat: Mask,
    home: Array,
    distances: tuple[float, ...] = ASLEEP,
    least: float = 0.0,
    last: Solution | None = None,
) -> tuple[Array, Solution | None]:
    """Return u (p,), those without curvature nearer home if the criterion of more rows leads there.

    They are tried at ever larger ``distances`` from home; a slope of more than ``least`` leads
    there. The posterior where that was tried, if it was, is a start for the next.

    Few rows tell little of a column that matters a little: its length scale goes to infinity, and
    from there no gradient leads back.
    """
    away = u - home
    for distance in distances:
        flat = flat & (np.abs(away) > distance)
        if not flat.any():
            break
        near = np.where(flat, home + distance * np.sign(away), u)
        _, slope, found = criterion(near, last)
        last = None if found is None else bare(found)
        back = flat & (slope * np.sign(away) > least)
        u, flat = np.where(back, near, u), flat & ~back
    return u, last


def within(u: Array, bounds: Array) -> Mask:
    """Return which of u (p,) are not at a bound."""
    return (u > bounds[:, 0]) & (u < bounds[:, 1])


class WhiteCoordinates:
    """A criterion in coordinates v about a start in which its curvature is about one.

    u = start + S v: the first step of a quasi-Newton method, the gradient in v, is Newton's; at
    most one in u. The unit of v and that of the criterion make a gradient at most one long of it,
    which L-BFGS-B takes as it is.
    """

    def __init__(
        self,
        watch: Evaluated,
        bounds: Array,
        start: Array,
        S: Array,
        last: Solution | None = None,
    ) -> None:
        self.watch, self.bounds, self.start = watch, bounds, start
        self.first = watch(start, last)
        newton = S.T @ self.first[1]
        length = max(1.0, float(np.linalg.norm(newton)))
        self.unit = 1.0 / (max(1.0, float(np.abs(S @ newton).max())) * length**2)
        self.S, self.given = length * S, S
        self.flat = self.unit * length * np.sqrt(2.0 * LEFT)  # gradient at which a climb ends

    def at(self, v: Array) -> Array:
        """Return u (p,) within its bounds."""
        return np.clip(self.start + self.S @ v, self.bounds[:, 0], self.bounds[:, 1])

    def __call__(self, v: Array, start: Solution | None) -> tuple[float, Array, Solution | None]:
        """Value and gradient (p,) in v, and the posterior; where a bound is reached it holds."""
        u = self.at(v)
        value, gradient, solution = self.watch(u, start) if v.any() else self.first
        slope = self.S.T @ (within(u, self.bounds) * gradient)
        return self.unit * value, self.unit * slope, solution

    def after(self, climb: Callable[..., End], evaluations: int) -> WhiteCoordinates:
        """Return the coordinates about where a climb is after so many evaluations."""
        end = self._climb(climb, evaluations, ROUGH)
        return WhiteCoordinates(self.watch, self.bounds, end.u, self.given)

    def climbed(self, climb: Callable[..., End], tol: float) -> End:
        """Return the end of a climb; of one in u itself where a bound is met, or this one fails.

        Unless nothing is to be gained there, either.
        """
        end = self._climb(climb, None, tol)
        inside = np.all(within(end.u, self.bounds)) and end.report["converged"]
        if inside or self.left(end.u) < SETTLED:
            return end
        return climb(self.watch, self.bounds, end.u, None, tol)

    def _climb(self, climb: Callable[..., End], budget: int | None, tol: float) -> End:
        wide = np.full_like(self.bounds, REACH) * [-1.0, 1.0]
        end = climb(self, wide, np.zeros(len(self.start)), budget, tol)
        end.u, end.value = self.at(end.u), end.value / self.unit
        return end

    def left(self, u: Array) -> float:
        """Return the nats left to gain at u (p,): by the curvature, and inward of bounds."""
        _, slope, _ = self.watch(u, None)
        newton = self.given.T @ (within(u, self.bounds) * slope)
        low, high = self.bounds.T
        inward = np.where(u >= high, np.maximum(slope, 0.0), 0.0)
        inward += np.where(u <= low, np.minimum(slope, 0.0), 0.0)
        return 0.5 * float(newton @ newton + inward @ inward / ROUNDED)


def continued(first: dict[str, Any], last: dict[str, Any]) -> dict[str, Any]:
    """Return the report of a search in two phases."""
    kept = {key: first[key] for key in ("starts", "scan", "subsets") if key in first}
    counts = [*kept["subsets"]["evaluations"]]
    counts[-1] += last["subsets"]["evaluations"][-1]
    return last | kept | {"subsets": kept["subsets"] | {"evaluations": counts}}
