"""Which methods of a loss an inference calls, compared with what it says in ``needs``."""

from __future__ import annotations

import copy
from typing import Any

from mercer.core.arrays import Array
from mercer.inference.base import Inference
from mercer.kernels.base import Kernel
from mercer.linalg import DenseGram
from mercer.losses.base import Loss
from mercer.testing.clauses import holds

# What a loss may lack, or what costs more than its value: an inference says that it calls it.
WATCHED = (
    "derivatives",
    "tilted",
    "expected",
    "expected_higher",
    "conjugate",
    "quadratic",
    "quadratic_pullback",
    "quadratic_bound",
    "predict",
    "cdf",
    "quantile",
    "sample",
)


def check_needs(inference: Inference, loss: Loss, X: Array, y: Array, kernel: Kernel) -> None:
    """Every method of the loss that is called must be named in ``needs``, or asked for before."""
    for name in inference.needs:
        exists = hasattr(Loss, name) or hasattr(loss, name)
        holds("needs", exists, f"{name!r} is no method of a loss")
    watched, called, asked = watch(loss)
    gram = DenseGram(kernel, X, keep=True)
    found = inference.solve(gram, y, watched)
    if inference.has_evidence:
        inference.evidence(gram, y, watched, found)
    missing = sorted(called - asked - set(inference.needs))
    text = f"{', '.join(missing)} of the loss is called: name it in `needs`, or ask offers() first"
    holds("needs", not missing, text)


def watch(loss: Loss) -> tuple[Loss, set[str], set[str]]:
    """Return a copy of the loss, what is called on it, and what it is asked for with offers().

    Only calls from outside count: a default that stands on another method is the loss's own affair.
    """
    watched: Any = copy.deepcopy(loss)
    called: set[str] = set()
    asked: set[str] = set()
    depth = [0]

    def wrap(name: str, method: Any) -> Any:
        def seen(*args: Any, **kwargs: Any) -> Any:
            if depth[0] == 0:
                called.add(name)
            depth[0] += 1
            try:
                return method(*args, **kwargs)
            finally:
                depth[0] -= 1

        return seen

    def offers(name: str) -> bool:
        asked.add(name)
        return type(loss).offers(name)

    for name in WATCHED:
        setattr(watched, name, wrap(name, getattr(watched, name)))
    watched.offers = offers
    return watched, called, asked
