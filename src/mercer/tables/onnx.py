"""Table models in ONNX: an input for each column, features of dates, a calibrating sigmoid."""

from __future__ import annotations

import json
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.core.errors import ExportError
from mercer.export.expression import Value, stack, where
from mercer.export.machines import WRITERS, with_sigmoid, writer_of
from mercer.export.model import TableInputs, present, step_of
from mercer.tables.choose.calibrated import SigmoidClassifier
from mercer.tables.data.encode import WEEK, YEAR, DateFeatures
from mercer.tables.stack.machine import StackedClassifier, StackedRegressor, members_of

if TYPE_CHECKING:
    from mercer.tables.model import TableModel


def taken_apart(model: TableModel) -> TableInputs:
    """Return the columns in use, the encoder and the estimator of a table model."""
    used = [c for c in model.columns_ if c.used]
    about = {
        "target": str(model.target_),
        "feature_names": json.dumps(model.used_),
        "columns": json.dumps([{"name": c.name, "kind": c.kind, "rule": c.rule} for c in used]),
    }
    return TableInputs(
        [c.name for c in used],
        [c.kind in ("categorical", "text") for c in used],
        model.pipeline_.named_steps["columns"],
        model.machine_,
        about,
    )


@step_of(DateFeatures)
def _dates(step: Any, columns: list[Value]) -> Value:
    features = []
    for j, column in enumerate(columns):
        there = present(column)
        day = where(there, column, np.full((1, 1), step.middle_[j]))
        features.append(day)
        for on, period in zip(step.cycles_[j], (YEAR, WEEK, 1.0), strict=True):
            if on:
                turn = (2.0 * np.pi) * day / period
                features += [np.cos(turn), np.sin(turn)]
        if step.gaps_[j]:
            features.append(where(there, 0.0, 1.0))
    return stack(features)


def _sigmoid(model: Any, X: Value, std: bool) -> dict[str, Value]:
    inner = writer_of(model.machine_)(model.machine_, X, std)["decision"]
    f = inner.expand(1) if len(model.classes_) == 2 else inner
    return {"probabilities": with_sigmoid(f, model.slope_, model.offsets_)["probabilities"]}


def _mixture(model: Any, X: Value, std: bool) -> dict[str, Value]:
    """Return the moments of a mixture, or its probabilities, from the graphs of its members."""
    parts = [(w, writer_of(member)(member, X, std)) for w, member in members_of(model)]
    name = "probabilities" if hasattr(model, "classes_") else "mean"
    if not all(name in outputs for _, outputs in parts):
        raise ExportError(
            f"a member of the combination has no {name} in ONNX: fit with single=True"
        )
    middle = reduce(add, [w * outputs[name] for w, outputs in parts])
    found = {name: middle}
    if name == "mean" and all("std" in outputs for _, outputs in parts):
        squares = [
            w * (np.square(outputs["std"]) + np.square(outputs["mean"] - middle))
            for w, outputs in parts
        ]
        found["std"] = np.sqrt(reduce(add, squares))
    return found


WRITERS[SigmoidClassifier] = _sigmoid
WRITERS[StackedClassifier] = WRITERS[StackedRegressor] = _mixture
