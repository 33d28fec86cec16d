"""Rows left out by several machines, mixed: by a weight for each row and machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import ndtr

from mercer.core.arrays import Array, group_rows
from mercer.plots.rows import recorded
from mercer.tables.choose.left_out import LeftOutTable
from mercer.tables.stack.weights import nested, single


def densities(lefts: Sequence[LeftOutTable]) -> Array:
    """Return the log density (n, k) of each row by each machine, less what is charged.

    That of a quantity is none above what the steps allow in which it was written down.
    """
    each = [
        (left.log_density if left.proba is not None else recorded(left.log_density, left.y))
        - left.charge
        for left in lefts
    ]
    return np.column_stack(each)


def mixed_left_out(lefts: Sequence[LeftOutTable], weights: Array, by: str = "") -> LeftOutTable:
    """Return the figures of mixtures with weights (n, k), a row of them for each row left out.

    p_i = sum_k w_ik p_ik; mean and variance are those of the mixture, its distribution function at
    y is that of Gaussians with the members' moments. What is charged to a member is in the density.
    """
    first, W = lefts[0], np.broadcast_to(weights, (len(lefts[0].y), len(lefts)))
    with np.errstate(divide="ignore"):  # a weight of zero
        density = np.logaddexp.reduce(densities(lefts) + np.log(W), axis=1)
    by = by or first.by
    if first.proba is not None:
        proba = _average(W[:, :, None], np.stack([left.proba for left in lefts], axis=1))
        return LeftOutTable(first.y, density, None, None, proba, by, first.weights, first.same)
    mean, std, below = (
        np.column_stack(part)
        for part in zip(*((left.mean, left.std, _below(left)) for left in lefts), strict=True)
    )
    middle = _average(W, mean)
    variance = _average(W, std**2 + (mean - middle[:, None]) ** 2)
    return LeftOutTable(
        first.y,
        density,
        middle,
        np.sqrt(variance),
        None,
        by,
        first.weights,
        below=_average(W, below),
    )


def of_family(lefts: Sequence[LeftOutTable], X: Array) -> LeftOutTable:
    """Return the figures of the best machine of a family, chosen for each row by the others.

    X (n, d) are the inputs of the rows: those of equal inputs have the same choice.
    """
    if len(lefts) == 1:
        return lefts[0]
    same = group_rows(X)[1]
    return mixed_left_out(lefts, nested(densities(lefts), single, lefts[0].weights, same))


def _average(weights: Array, values: Array) -> Array:
    """Sum over the machines, axis 1; what has no weight is not looked at (it may be infinite)."""
    return np.asarray(np.where(weights > 0.0, weights * values, 0.0).sum(axis=1))


def _below(left: LeftOutTable) -> Any:
    """Return P(Y <= y), (n,), as central intervals of the figures have it."""
    return ndtr((left.y - left.mean) / left.std) if left.below is None else left.below
