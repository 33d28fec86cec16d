"""Rows of a spline: sorted along the line, equal inputs merged, targets standardised."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.core.arrays import Array, Index, group_rows, location_scale, merge
from mercer.linalg.spline.states import gaps_of, mean_gap


@dataclass(frozen=True)
class SplineRows:
    """Observations on a line: every row as given, and what is left of them after merging.

    Attributes
    ----------
    x, y, weights : (N,) the rows, in the user's units.
    points : (n,) distinct inputs of positive weight, ascending.
    target, total : (n,) weighted mean at each point, standardised, and total weight.
    within : weighted sum of squares about these means, standardised.
    y_shift, y_scale : y = y_shift + y_scale * standardised.
    unit : mean gap of the points.
    """

    x: Array
    y: Array
    weights: Array
    points: Array
    target: Array
    total: Array
    within: float
    y_shift: float
    y_scale: float
    unit: float

    @property
    def count(self) -> float:
        """Number of observations N: the sum of the weights."""
        return float(self.total.sum())

    def gaps(self) -> Array:
        """Return the gaps (n - 1,) in units of their mean."""
        return gaps_of(self.points, self.unit)

    def kept(self) -> tuple[Index, Index]:
        """Return the rows of positive weight, and the point of each."""
        keep = np.flatnonzero(self.weights > 0.0)
        return keep, np.searchsorted(self.points, self.x[keep])

    def inside(self, y: Array) -> Array:
        """Return targets in standardised units."""
        return np.asarray((y - self.y_shift) / self.y_scale)


def check_scale(scale: float) -> None:
    """Refuse targets whose squares are no floating-point numbers."""
    if not 1e-140 < scale < 1e140:
        raise ValueError(
            f"the targets have deviation {scale:.3g}: their squares leave the range of "
            "floating-point numbers; give y in other units"
        )


def merge_rows(x: Array, y: Array, weights: Array) -> SplineRows:
    """Sort and merge the rows x, y, weights (N,); rows of weight zero are left out.

    The points do not depend on the order of the rows, and two equal rows are one of weight two.
    """
    if np.all(x[1:] > x[:-1]) and np.all(weights > 0.0):
        points, mean, total, spread = x, y[:, None], weights, None
    else:
        keep = weights > 0.0
        first, group = group_rows(x[keep][:, None])
        points = x[keep][first]
        mean, total, spread = merge(group, len(first), y[keep][:, None], weights[keep])
    shift, scale = location_scale(mean, total, spread)
    check_scale(float(scale[0]))
    within = 0.0 if spread is None else float(spread.sum()) / float(scale[0]) ** 2
    target = (mean[:, 0] - shift[0]) / scale[0]
    return SplineRows(
        x,
        y,
        weights,
        points,
        target,
        total,
        within,
        float(shift[0]),
        float(scale[0]),
        mean_gap(points),
    )
