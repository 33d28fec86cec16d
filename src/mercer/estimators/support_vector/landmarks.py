"""SVC and SVR on landmarks: few points that stand for very many rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.estimators.shared.parts import inducing_of
from mercer.kernels import Kernel
from mercer.linalg.reduced.centres import CHOOSERS, by_class, rule_for
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


def reduced(
    kernel: Kernel,
    points: Array,
    classes: Array | None,
    weights: Array,
    rule: Inducing,
    rng: np.random.Generator,
) -> ReducedGram:
    """Return the prior of a kernel on landmarks of the points (n, d), chosen in each class."""
    rule.check(points.shape[1])
    if rule.move is True:
        raise ValueError("landmarks are not moved: leave move='auto'")
    if kernel.pairwise or kernel.positional:
        raise ValueError(
            "landmarks need a kernel of the inputs alone, without a precomputed matrix or noise "
            "parts: use gram='auto'"
        )
    if not isinstance(rule.m, (str, int, np.integer)):
        Z = np.ascontiguousarray(rule.given())
    else:
        m, chooser = landmarks(rule, len(points)), CHOOSERS[rule_for(kernel, rule.choose)]
        Z = by_class(chooser, kernel, points, weights, m, rng, classes)
    return ReducedGram(kernel, points, Z, keep=8 * len(points) * len(Z) <= KEPT)


def described(gram: ReducedGram, rule: Inducing, by: str) -> dict[str, Any]:
    """Return what ``report_["inducing"]`` says."""
    chosen = (
        "given"
        if not isinstance(rule.m, (str, int, np.integer))
        else rule_for(gram.signal, rule.choose) + by
    )
    return {"chosen": chosen} | gram.report()
