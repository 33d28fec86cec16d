"""What a pass over rows tells a landmark machine: sums at a point, enough for the next step.

With f = F b + H beta, and the kinks of the loss rounded off about a centre (:class:`Rounded`), rows
answer F'a and H'a (minus the slope), [F, H]'E [F, H] (the curvature), the loss, and slopes along a
line. No row remembers anything: a centre is the slope at an earlier point, of another width and
about the centre before, and rows find it again from those points,

    a_k = -e'(f_k; kappa_k, a_{k-1}),    a_0 = 0,    f_k = F b_k + H beta_k.           theory (S12)

**Duality gap.** -a_i / w_i is a subgradient of g at z_i, so that w_i g*(-a_i / w_i) = -a_i z_i -
w_i g(z_i). A dual variable must have H'a = 0. Rows are told apart by the signs of a_i h_i, each of
these groups is scaled by a theta_g in [0, 1] such that sum_g theta_g H_g'a_g = 0, and as g* is
convex

    sum_i w_i g*(-theta a_i / w_i) <= theta sum_i w_i g*(-a_i / w_i) + (1 - theta) sum_i w_i g*(0):

sums over the groups are enough to certify a point in the pass that visits it. Theory (S13).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from mercer.core.arrays import Array
from mercer.inference.blocks.collapsed import packed, unpacked
from mercer.inference.blocks.prepared import BlockRows
from mercer.inference.mode.prox import Rounded, conjugate
from mercer.inference.mode.steps import SETTLED
from mercer.linalg.blocks.engine import Part, RowBlock, add
from mercer.linalg.reduced.features import Features, PassingFeatures
from mercer.losses.base import Loss

COLUMNS = 3  # of a basis up to which groups of rows make up for H'a


class Ask(NamedTuple):
    """Where one column of the targets looks."""

    column: int
    points: Array  # (m + c, q): [b; beta] of the centres, the oldest first, and of where it looks
    widths: Array  # (q,) over which kinks are rounded off, in widths of the loss; empty: smooth
    line: Array  # (m + c,) through the point
    lengths: Array  # (t,) in units of the line, at which slopes are asked for


def answers(block: RowBlock, given: Part) -> Part:
    """Answer the asks that were broadcast with sums over a block, few of its rows at a time."""
    rows, gram, asks = given["prepared"](block), given["gram"], given["asks"]
    room, total = np.empty((min(gram.block, len(rows.X)), gram.m)), None
    for i in range(0, max(1, len(rows.X)), gram.block):
        part = cut(rows, slice(i, i + gram.block))
        with np.errstate(over="ignore", invalid="ignore"):  # a step may be far too long
            found = sums(given["loss"], PassingFeatures(gram, part.X, room), part, asks)
        total = found if total is None else add(total, found)
    assert total is not None
    return total


def some(rows: BlockRows, number: int, every: int) -> BlockRows:
    """Return every so many rows of a block, which begin elsewhere in each block."""
    return cut(rows, slice(number % every, None, every))


def cut(rows: BlockRows, which: slice) -> BlockRows:
    """Return some of the rows."""
    X, y, w, H = rows
    return BlockRows(X[which], y[which], w[which], None if H is None else H[which])


def sums(loss: Loss, features: Features, rows: BlockRows, asks: Sequence[Ask]) -> Part:
    """Return the sums over some rows, for each ask."""
    m, n = features.m, len(rows.y)
    H = np.zeros((n, 0)) if rows.H is None else rows.H
    c, groups = H.shape[1], group_count(H.shape[1])
    lines = np.hstack([np.column_stack([ask.points, ask.line]) for ask in asks])
    F = features.expand(lines[:m]) + H @ lines[m:]
    found: Part = {
        "curve": np.zeros((len(asks), (m + c) * (m + c + 1) // 2)),
        "tilt": np.zeros((len(asks), c, c)),
        "reach": np.zeros((len(asks), c)),
        "along": np.zeros(sum(len(ask.lengths) for ask in asks)),
        "loss": np.zeros(len(asks)),
        "star": np.zeros((len(asks), groups)),
        "zero": np.zeros((len(asks), groups)),
        "active": np.zeros(len(asks)),
    }
    down, i, t = np.zeros((n, len(asks), groups)), 0, 0
    for j, ask in enumerate(asks):
        y, q = rows.y[:, ask.column], ask.points.shape[1]
        rounded, center, kappa = Rounded(loss, y, rows.w), np.zeros(n), None
        for k in range(q):
            f = F[:, i + k]
            if len(ask.widths):
                kappa = ask.widths[k] * loss.width(y) / rows.w
            at = rounded.bend(f, kappa, center)
            before, center = center, at.a
        df = F[:, i + q]
        i += q + 1
        of = np.zeros(n, dtype=np.intp) if groups == 1 else (at.a[:, None] * H > 0.0) @ POWERS[:c]
        down[np.arange(n), j, of] = at.a
        star = -at.a * at.z - rows.w * loss.value(y, at.z)
        zero = rows.w * conjugate(loss, y, np.zeros(n))
        found["star"][j] = np.bincount(of, star, groups)
        found["zero"][j] = np.bincount(of, zero, groups)
        found["loss"][j] = rows.w @ loss.value(y, f)
        found["active"][j] = np.count_nonzero(at.E)
        found["tilt"][j] = H.T @ (np.abs(at.a)[:, None] * H)
        found["reach"][j] = np.abs(at.a) @ np.abs(H)
        for s in ask.lengths:
            found["along"][t] = -(rounded.bend(f + s * df, kappa, before).a @ df)
            t += 1
        found["curve"][j] = packed(features.curved(at.E, H))
    slopes = down.reshape(n, len(asks) * groups)
    found["down"] = np.vstack([features.down(slopes), H.T @ slopes])
    return found


POWERS = 2 ** np.arange(COLUMNS)


def group_count(c: int) -> int:
    """Return into how many groups rows fall by the signs of a_i h_i (c,)."""
    return 2**c if c <= COLUMNS else 1


class Look(NamedTuple):
    """What one column sees at a point [b; beta]."""

    point: Array
    slope: Array  # (m + c,) of the objective, its kinks rounded off
    curve: Array  # (m + c, m + c) of the loss
    tilt: Array  # (c, c) sum_i |a_i| h_i h_i'
    along: Array  # (t,) slopes of the loss along the line
    objective: float  # P, of the loss as it is
    size: float  # the same above the least that the loss can be
    gap: float
    wide: float  # the part of the gap that is due to what is rounded off
    active: int  # rows on what is rounded off


def looked(part: Part, asks: Sequence[Ask], m: int) -> list[Look]:
    """Return what each column sees, from the sums over all rows."""
    found, groups, t = [], part["star"].shape[1], 0
    for j, ask in enumerate(asks):
        point, down = ask.points[:, -1], part["down"][:, j * groups : (j + 1) * groups]
        whole, star, zero = down.sum(axis=1), part["star"][j], part["zero"][j]
        loss, b, floor = float(part["loss"][j]), point[:m], float(zero.sum())
        objective = loss + 0.5 * float(b @ b)
        slope, along = -whole, part["along"][t : t + len(ask.lengths)]
        t += len(along)
        slope[:m] += b
        found.append(
            Look(
                point,
                slope,
                unpacked(part["curve"][j]),
                part["tilt"][j],
                along,
                objective,
                objective + floor if np.isfinite(floor) else abs(objective),
                max(objective - dual(down, star, zero, part["reach"][j], m), 0.0),
                loss + float(star.sum()) + float(whole @ point),
                round(float(part["active"][j])),
            )
        )
    return found


def dual(down: Array, star: Array, zero: Array, reach: Array, m: int) -> float:
    """Return D(a), of an a that is scaled in groups such that H'a = 0; see above.

    ``reach`` (c,) is sum_i |a_i h_i|. Where no scales do it the bound is -inf.
    """
    less = np.zeros(len(star))
    if len(reach):
        unit = down[m:] / (reach + np.finfo(float).tiny)[:, None]
        short = unit.sum(axis=1)
        if np.abs(short).max() > (SETTLED if len(star) == 1 else 0.0):
            less, rest = nnls(unit, short)
            if rest > SETTLED or less.max() > 1.0:
                return -np.inf
    more = 1.0 - less
    with np.errstate(invalid="ignore"):
        charged = np.where(less > 0.0, less * zero, 0.0) + more * star
    b = down[:m] @ more
    return -0.5 * float(b @ b) - float(charged.sum())
