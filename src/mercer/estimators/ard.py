"""Automatic relevance: one length scale first, one per column only if the evidence pays for it."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from mercer.component import Component
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
