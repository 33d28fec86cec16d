"""Tilted averages of observations that count more or less than once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mercer.core.arrays import Array
from mercer.losses.numbers import quadrature

if TYPE_CHECKING:
    from mercer.losses.base import Loss


def tilted(loss: Loss, y: Array, m: Array, v: Array, power: Array) -> tuple[Array, Array, Array]:
    """Return log Z, d log Z/dm, d2 log Z/dm2 with Z = int exp(-power g(y, f)) N(f | m, v) df.

    All arguments (n,), power > 0. Rows of power one take ``loss.tilted``, which may have a closed
    form; a quadratic loss has one for every power; the other rows take the quadrature.
    """
    rows = np.flatnonzero(power != 1.0)
    if not len(rows):
        return loss.tilted(y, m, v)
    if loss.offers("quadratic"):
        z, precision = loss.quadratic(y)
        W, r = power * precision, z - m
        total = 1.0 + W * v
        log_z = -power * loss.value(y, z) - 0.5 * (np.log(total) + W * np.square(r) / total)
        return log_z, W * r / total, -W / total
    found = [np.array(part) for part in loss.tilted(y, m, v)]
    for start in range(0, len(rows), quadrature.BLOCK):
        block = rows[start : start + quadrature.BLOCK]
        parts = quadrature.tilted(loss, y[block], m[block], v[block], power[block])
        for whole, part in zip(found, parts, strict=True):
            whole[block] = part
    return found[0], found[1], found[2]
