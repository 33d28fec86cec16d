"""Automatic relevance: one length scale first, one per column only if the evidence pays for it.

Theory (G13).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.core.component import Component
from mercer.kernels import Stationary
from mercer.kernels.base import Kernel

# What each extra length scale must gain in log evidence, in units of log(number of observations).
PRICE = 0.5


def tied_scales(kernel: Component) -> list[Component]:
    """Return the parts of the kernel that have one tied, free length scale."""
    return [
        owner
        for _, owner, name in kernel.differentiable()
        if name == "length_scale"
        and np.ndim(getattr(owner, name)) == 0
        and not owner.mark(name).fixed
    ]


def untied(kernel: Kernel, d: int) -> Kernel:
    """Return a copy in which every tied length scale is repeated for each of d columns."""
    clone = copy.deepcopy(kernel)
    for owner in tied_scales(clone):
        owner.set_params(length_scale=np.full(d, owner.get_params()["length_scale"]))
    return clone


def worth_it(
    tied: float, ard: float, extra: int, observations: float
) -> tuple[bool, dict[str, Any]]:
    """Whether ARD gains more than (log n)/2 per extra parameter, and the figures."""
    needed = PRICE * extra * float(np.log(max(observations, 2.0)))
    gain = ard - tied
    kept = bool(gain > needed)
    report = {"kept": kept, "gain": float(gain), "needed": needed, "extra_parameters": extra}
    return kept, report


def relevance(kernel: Kernel, points: Array, weights: Array) -> Array | None:
    """Return deviation / length scale of each column (d,): zero where the kernel does not look.

    None if the kernel has no length scales or several sets of them. points is (n, d).
    """
    d = points.shape[1]
    found = list(_scales(kernel, list(range(d))))
    if len(found) != 1 or np.size(found[0][1]) not in (1, len(found[0][0])):
        return None
    columns, scales = found[0]
    centred = points[:, columns] - weights @ points[:, columns] / weights.sum()
    result = np.zeros(d)
    result[columns] = np.sqrt(weights @ centred**2 / weights.sum()) / scales
    return result


def _scales(kernel: Component, columns: list[int]) -> Iterator[tuple[list[int], Any]]:
    """Yield the length scales in a kernel with the columns they belong to."""
    if isinstance(kernel, Stationary):
        yield columns, getattr(kernel, "length_scale")  # noqa: B009  # only some kernels have it
    chosen = getattr(kernel, "columns", None)
    inner = columns if chosen is None else [columns[i] for i in chosen]
    for child in kernel.children().values():
        yield from _scales(child, inner)
