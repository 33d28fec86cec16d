"""SVC with one hinge over all classes; theory (S10), (S11)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from mercer.inference.base import Solution
from mercer.inference.mode.hinges import SHAPES, JointHinge

if TYPE_CHECKING:
    from mercer.estimators.support_vector.classifier import SVC
    from mercer.estimators.support_vector.dual import SupportProblem

LEFT_OUT = (
    "none: the span of the free vectors leaves a row out of one function, and a joint hinge ties "
    "all of them; sklearn.model_selection.cross_val_predict fits again"
)
BIAS = "a constant for each class, penalised like a weight: the kernel is k + 1"


def check(model: SVC) -> None:
    """Refuse what a joint hinge cannot have."""
    given = f"multi_class={model.multi_class!r}"
    if model.multi_class not in SHAPES:
        raise ValueError(
            f"multi_class must be 'ovr', {' or '.join(map(repr, SHAPES))}, not "
            f"{model.multi_class!r}; for all pairs of classes wrap SVC(probability='loo') into "
            "sklearn.multiclass.OneVsOneClassifier, and couple the probabilities by "
            "mercer.losses.pairwise_proba"
        )
    if np.inf == model.C:
        raise ValueError(f"{given} has no hard margin: choose a finite C, or multi_class='ovr'")
    if model.inference is not None:
        raise ValueError(
            f"{given} is not a likelihood that an inference could use: leave inference=None, or "
            "use GPClassifier(), whose softmax is one joint likelihood of all classes"
        )
    if model.probability == "loo":
        raise ValueError(f"{given} leaves no row out without fitting again: use probability='cv'")
    if not model._takes_all_rows():
        raise ValueError(f"{given} has no landmarks: leave gram='auto', or use multi_class='ovr'")


def solved(model: SVC, problem: SupportProblem) -> tuple[JointHinge, Solution]:
    """Return the solver and what it found; of two classes the difference of their functions."""
    shape, bias = model.multi_class, bool(model.bias)
    solver = JointHinge(shape, model.tol, model.max_iter, model.cache_size, bias)
    codes, k = problem.values[problem.first].astype(np.intp), len(model.classes_)
    found = solver.solve(problem.gram, codes, float(model.C) * problem.total, k)
    if k > 2:
        return solver, found
    assert found.beta is not None
    one = [
        np.ascontiguousarray(np.diff(part, axis=1)) for part in (found.alpha, found.z, found.beta)
    ]
    return solver, replace(found, alpha=one[0], z=one[1], beta=one[2], W=found.W[:, 0])
