"""Products k(X, Z) V of points on a device, by square tiles of k that are not kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.core.device import accelerator
from mercer.core.device.array import DeviceArray, together, unboxed


def tiled_matmul(
    k: Callable[[Any, Any], Any], X: DeviceArray, Z: DeviceArray, V: Array, *, single: bool = False
) -> Array:
    """Return k(X, Z) @ V (n, r) in the memory of the CPU, for X (n, d), Z (m, d) and V (m, r).

    ``single``: points, values and the product within a tile in single precision, for V scaled to
    one; tiles are summed in double.
    """
    top = np.maximum(np.abs(V).max(axis=0), np.finfo(float).tiny)  # single precision ends at 1e-38
    scaled = together(V / top, Z)[0]
    A, B, W = (DeviceArray(each.data.float()) if single else each for each in (X, Z, scaled))
    size = max(1, int(accelerator.TILE**0.5))
    total = X.zeros(len(X), V.shape[1])
    for i in range(0, len(X), size):
        for j in range(0, len(Z), size):
            K = unboxed(k(A[i : i + size], B[j : j + size]))
            total[i : i + size] += DeviceArray((K @ W[j : j + size]).data.double())
    return np.asarray(total.fetched() * top)
