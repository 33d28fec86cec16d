"""Cross-validation on request: the chosen machine, encoder included, fitted anew in each fold."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from mercer.core.arrays import Array, Index
from mercer.search.optimize import interrupted
from mercer.tables.choose.left_out import LeftOutTable, in_turn
from mercer.tables.choose.refit import Resumed, parameters_of
from mercer.tables.choose.screen import reporter
from mercer.tables.data.encode import encoded, fit_encoder
from mercer.tables.data.frame import as_frame
from mercer.tables.data.target import Target, read_target
from mercer.tables.data.weights import fitted, read_weights


def cross_validate(model: Any, table: Any, folds: int, progress: Any) -> LeftOutTable:
    """Return predictions of each row with a target by a pipeline that did not see it."""
    frame = model.frame_ if table is None else as_frame(table)
    if frame is None:
        raise ValueError("a model file does not hold the training table: give it as table=...")
    if not isinstance(folds, int) or folds < 2:
        raise ValueError(f"folds must be a whole number, at least 2, not {folds!r}")
    weights = _weights(model, frame)
    if weights is not None:
        frame, weights = frame.take(weights > 0.0), weights[weights > 0.0]
    kind = "regression" if model.classes_ is None else "classification"
    target = replace(read_target(frame, model.target_, kind), weights=weights)
    known, k = np.flatnonzero(target.known), target.k
    y = target.values[known]
    if k and int(np.bincount(y.astype(np.intp)).min()) < folds:
        raise ValueError(f"a class has fewer than {folds} rows: choose fewer folds")
    tell = reporter(progress) or (lambda event: None)
    steps = itertools.count()

    def part(train: Index, test: Index) -> tuple[Any, Array]:
        i = next(steps)
        tell({"stage": f"fold {i + 1} of {folds}", "step": i, "steps": folds})
        machine, step = _fitted(model, frame, target, known[test])
        return machine, encoded(step, frame.take(known[test]), model.columns_)

    return in_turn(part, y, k, 0, folds, target.counts(known))


def _weights(model: Any, frame: Any) -> Any:
    """Return the weights of the table: of its column, or those that were given in ``fit``."""
    if model.weighted_by_ is not None:
        return read_weights(frame, model.weighted_by_)
    if model.weights_ is not None and len(model.weights_) != frame.n:
        raise ValueError(
            f"the model was fitted to {len(model.weights_)} weighted rows, and this table has "
            f"{frame.n}: give the training table, whose weights are known"
        )
    return model.weights_


def _fitted(model: Any, frame: Any, target: Target, hidden: Any) -> tuple[Any, Any]:
    """Return machine and encoder, fitted without the targets of the hidden rows."""
    machine = clone(model.machine_)
    params, found = machine.get_params(deep=False), parameters_of(model.machine_)
    search = params.get("search")
    criterion = getattr(search, "criterion", search)
    if isinstance(criterion, str) and "gram" in params and found:  # the others search as they do
        balance = getattr(search, "balance", True)
        machine.set_params(search=Resumed(found, criterion, balance=balance))
    rows = np.setdiff1d(np.arange(frame.n), hidden)
    if not model.learns_unlabelled_:
        rows = rows[target.known[rows]]
    weights = target.counts(rows)
    step, X = fit_encoder(frame.take(rows), model.columns_, weights)
    fitted(machine, X, target.labels(rows), weights)
    if interrupted(getattr(machine, "report_", None)):
        raise KeyboardInterrupt  # its search has taken it for a wish to end early
    return machine, step
