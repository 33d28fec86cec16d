"""Triangle: a triangular factor in a model file, of which half an n x n array is written."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mercer.core.arrays import Array, host
from mercer.core.kinds import Kind, Numbers, Resolve, Sizes, check_type

PACKED, ORDER = "packed", "fortran"


class Triangle(Kind):
    """The upper triangle of an array (n, n) with a positive diagonal, row by row without gaps.

    ``fortran`` says in which order the array lies in memory, since BLAS rounds differently for the
    two. Files of earlier versions hold the whole array, and are read.

    Examples
    --------
    >>> import numpy as np
    >>> kind = Triangle("n n")
    >>> stored = kind.write(np.array([[1.0, 2.0], [9.0, 3.0]]))
    >>> stored["packed"]
    array([1., 2., 3.])
    >>> kind.read(stored, lambda name: None)
    array([[1., 2.],
           [0., 3.]])
    """

    def __init__(self, shape: str) -> None:
        self.whole = Numbers(shape, upper=True, diagonal="positive")

    def write(self, value: Any) -> Any:
        array = np.asarray(host(value), dtype=np.float64)
        fortran = bool(array.flags.f_contiguous and not array.flags.c_contiguous)
        return {PACKED: packed(array), ORDER: fortran}

    def check(self, stored: Any, sizes: Sizes, place: str) -> None:
        if not isinstance(stored, dict):
            self.whole.check(stored, sizes, place)
            return
        if set(stored) != {PACKED, ORDER}:
            raise ValueError(f"{place} does not consist of {PACKED} and {ORDER}")
        check_type(stored[ORDER], bool, f"{place}.{ORDER}")
        values = stored[PACKED]
        Numbers("values").check(values, {}, f"{place}.{PACKED}")
        n = _side(len(values))
        if n * (n + 1) // 2 != len(values):
            raise ValueError(f"{place}.{PACKED} has {len(values)} entries, which are no triangle")
        # the rest of what is asked of the whole: its shape, and its diagonal
        small = np.broadcast_to(np.ones(1), (n, n))
        Numbers(self.whole.shape).check(small, sizes, place)
        ends = np.arange(n) * n - np.arange(n) * (np.arange(n) - 1) // 2
        Numbers("n", 1e-100).check(values[ends], {}, f"the diagonal of {place}")

    def read(self, stored: Any, resolve: Resolve) -> Any:
        return unpacked(stored[PACKED], stored[ORDER]) if isinstance(stored, dict) else stored

    def told(self) -> str:
        return (
            f"{self.whole.told()}; `packed`: by rows, without what is below; `fortran`: its order"
        )


def _side(count: int) -> int:
    """Return n of n (n + 1) / 2 numbers, rounded."""
    return round((math.sqrt(8.0 * count + 1.0) - 1.0) / 2.0)


def packed(A: Array) -> Array:
    """Return the upper triangle of A (n, n), row by row, (n (n + 1) / 2,)."""
    n, start = len(A), 0
    out = np.empty(n * (n + 1) // 2)
    for i in range(n):
        out[start : start + n - i] = A[i, i:]
        start += n - i
    return out


def unpacked(values: Array, fortran: bool = False) -> Array:
    """Return the array (n, n) of :func:`packed`, zeros below the diagonal."""
    n, start = _side(len(values)), 0
    A = np.zeros((n, n), order="F" if fortran else "C")
    for i in range(n):
        A[i, i:] = values[start : start + n - i]
        start += n - i
    return A
