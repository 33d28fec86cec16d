"""SVC and SVR on landmarks of a table in blocks: the mode of the loss, by passes over all rows."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from sklearn.base import clone

from mercer.core.arrays import Array
from mercer.estimators.blocks.facts import find_facts
from mercer.estimators.blocks.fit import (
    labelled_sample,
    named,
    points_for,
    require_targets,
    sample_size,
    seed_of,
)
from mercer.estimators.blocks.result import adopt, described, described_points
from mercer.estimators.blocks.table import BlockTable
from mercer.estimators.shared.machine import LANDMARKS, generator
from mercer.estimators.shared.table import merged
from mercer.estimators.support_vector import landmarks
from mercer.estimators.support_vector.base import NAMED, OneAgainstRest, one_constant
from mercer.estimators.support_vector.dual import LARGEST, DualMachine
from mercer.inference.blocks.landmarks import mode
from mercer.inference.blocks.prepared import Prepared
from mercer.kernels.base import Kernel
from mercer.linalg.blocks.engine import Engine
from mercer.linalg.representation import Inducing
from mercer.losses.base import Loss


def supported(machine: DualMachine, table: BlockTable) -> None:
    """Fit a support vector machine; refuse parameters before anything is read."""
    rule = points_for(machine)
    learner = cast(DualMachine, clone(machine).set_params(gram=rule))
    learner._check_params()
    loss = cast(Loss, learner._loss())
    learner._solver().check(loss)
    require_targets(table)
    engine, source = table.opened()
    with table.kept(engine, source, machine) as engine:
        _learn(learner, rule, loss, table, engine, source)
        learner.report_["blocks"] |= described(engine, machine.gram)
    adopt(machine, learner)


def _learn(
    learner: DualMachine,
    rule: Inducing,
    loss: Loss,
    table: BlockTable,
    engine: Engine,
    source: Any,
) -> None:
    labelled, solver = isinstance(learner, OneAgainstRest), learner._solver()
    size, seed = sample_size(table, rule, solver), seed_of(learner)
    facts = find_facts(engine, labels=labelled, rows=size, seed=seed)
    named(learner, source.names, source.width)
    s, weights, factors = facts.sample, facts.sample.w, None
    coding: dict[str, Any] = {}
    values = np.asarray(s.y, dtype=np.float64) if not labelled else s.w
    if labelled:
        labels, factors = labelled_sample(learner, facts)
        labels.check_two()
        learner.classes_ = facts.classes
        values, weights = labels.codes.astype(np.float64), labels.weights
        kind = "signed" if len(facts.classes) == 2 else "rest"
        coding = {"classes": facts.classes, "coding": kind, "class_weights": factors}
    elif s.y.ndim > 1 and s.y.shape[1] > 1:
        raise ValueError(f"y has {s.y.shape[1]} columns: fit them one by one")
    elif facts.y_top > LARGEST:
        raise ValueError(
            f"the targets reach {facts.y_top:.3g}: their squares leave the range of floating-point "
            "numbers; give y in other units"
        )
    learner._learned_kernel(None, None, None)  # there is no inference that could learn it
    mean, scale, varies = facts.x.location_scale(factors)
    kernel = _kernel(learner, s.X, weights, mean, np.where(varies, scale, 0.0))
    first, total, _ = merged(s.X, values.ravel(), weights)
    points, classes = np.ascontiguousarray(s.X[first]), values[first] if labelled else None
    rng = generator(getattr(learner, "random_state", None))
    Z = landmarks.chosen(kernel, points, classes, total, rule, rng)
    basis = one_constant if getattr(learner, "bias", True) else None
    d = source.width
    prepared = Prepared(np.zeros(d), np.ones(d), basis=basis, **coding)
    found = mode(engine, prepared, kernel, loss, Z, solver.tol, solver.max_iter)
    learner.kernel_, k = kernel, found.alpha.shape[1]
    learner.support_, learner.support_vectors_ = np.zeros(0, dtype=np.intp), found.support
    learner.dual_coef_ = np.ascontiguousarray(found.alpha.T)
    learner.intercept_ = np.zeros(k) if found.beta is None else found.beta[0].copy()
    told: dict[str, Any] = {"gram": "inducing", "left_out": LANDMARKS}
    chosen = rule.described(kernel.signal(), labelled)
    told["inducing"] = {"chosen": chosen} | described_points(found)
    constant = np.flatnonzero(~varies)
    if len(constant):
        names = source.names
        told["constant_columns"] = [int(j) if names is None else str(names[j]) for j in constant]
    told["blocks"] = {"rows": facts.rows, "sample": len(facts.sample.X)}
    rows = {"used": facts.used, "weight": facts.weight}
    learner._tell(solver, found.report, rows, **told)
    learner._conclude(None, None, None)


def _kernel(
    learner: DualMachine, X: Array, weights: Array, mean: Array, deviation: Array
) -> Kernel:
    """Return the kernel; gamma="scale" is of the variance of all entries of all rows.

    ``mean`` and ``deviation`` (d,) are those of all rows, X and ``weights`` a sample.
    """
    by_name = isinstance(learner.kernel, str) and learner.kernel in NAMED
    if not (by_name and isinstance(learner.gamma, str) and learner.gamma == "scale"):
        return learner._resolved(X, weights)
    variance = float(np.mean(deviation**2 + (mean - mean.mean()) ** 2))
    gamma = 1.0 / (len(mean) * variance) if variance > 0.0 else 1.0
    scaled = cast(DualMachine, clone(learner).set_params(gamma=gamma))
    return scaled._resolved(X, weights)
