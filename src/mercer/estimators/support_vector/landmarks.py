"""SVC and SVR on landmarks: few points that stand for very many rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.estimators.shared.parts import inducing_of
from mercer.kernels import Kernel
from mercer.linalg.reduced.gram import ReducedGram
from mercer.linalg.representation import Inducing, landmarks

KEPT = 1 << 29  # bytes of features that are kept; kernel values are formed anew beyond


def given(gram: Any) -> Inducing:
    """Return the landmarks that a user asked for; refuse what does not ask for any."""
    found = inducing_of(gram)
    if found is not None:
        return found
    raise ValueError(
        "gram must be 'auto' (all rows, exactly), 'inducing' or mercer.linalg.Inducing(m=...), not "
        f"{gram!r}"
    )


def chosen(
    kernel: Kernel,
    points: Array,
    classes: Array | None,
    weights: Array,
    rule: Inducing,
    rng: np.random.Generator,
) -> Array:
    """Return landmarks (m, d) of the points (n, d), chosen in each class; or those given."""
    rule.check(points.shape[1])
    if rule.move is True:
        raise ValueError("landmarks are not moved: leave move='auto'")
    if kernel.pairwise or kernel.positional:
        raise ValueError(
            "landmarks need a kernel of the inputs alone, without a precomputed matrix or noise "
            "parts: use gram='auto'"
        )
    if isinstance(rule.m, (str, int, np.integer)):
        m = landmarks(rule, len(points))
        return rule.chosen(kernel, points, weights, m, rng, classes)
    return np.ascontiguousarray(rule.given())


def reduced(
    kernel: Kernel,
    points: Array,
    classes: Array | None,
    weights: Array,
    rule: Inducing,
    rng: np.random.Generator,
    single: bool,
) -> ReducedGram:
    """Return the prior of a kernel on landmarks of the points (n, d)."""
    Z = chosen(kernel, points, classes, weights, rule, rng)
    keep = (4 if single else 8) * len(points) * len(Z) <= KEPT
    return ReducedGram(kernel, points, Z, keep=keep, single=single)
