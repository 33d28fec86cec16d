"""How smooth a named kernel is: a multiple of its length scale, chosen once, by the evidence."""

from __future__ import annotations

import copy

import numpy as np

from mercer.arrays import Array
from mercer.estimators import ard
from mercer.inference.stream import Stream
from mercer.kernels.base import Kernel

FACTORS = (1.0, 0.5, 0.25, 0.125)
PRICE = 1.0  # nats that each halving must gain: few rows do not outvote the default
ROWS = 128  # that are asked, at most


def likely_length(kernel: Kernel, X: Array, S: Array, w: Array) -> tuple[Kernel, float]:
    """Return the kernel whose length scales suit the labels S (n, m) at X (n, d), and the factor.

    By the sequential evidence of at most 128 rows, evenly spread over those given. A kernel
    without tied length scales is returned as it is.
    """
    best, chosen = -np.inf, (kernel, 1.0)
    if not ard.tied_scales(kernel) or len(X) < 2:
        return chosen
    rows = np.unique(np.linspace(0, len(X) - 1, min(len(X), ROWS)).astype(np.intp))
    for factor in FACTORS:
        other = copy.deepcopy(kernel)
        for owner in ard.tied_scales(other):
            owner.set_params(length_scale=factor * owner.get_params()["length_scale"])
        _, blocks = Stream.empty(other, X.shape[1], S.shape[1]).absorb(X[rows], S[rows], w[rows])
        value = sum(block.log_q for block in blocks) + PRICE * np.log2(factor)
        if value > best:
            best, chosen = value, (other, factor)
    return chosen
