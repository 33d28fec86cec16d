"""Support vector machines in ONNX: a sum over support vectors, and Platt's sigmoid."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from mercer.core.arrays import Array
from mercer.export.expression import Value, stack
from mercer.export.functions import softmax
from mercer.export.kernels.forms import cross, features
from mercer.export.processes.averages import probability
from mercer.losses import NormalizedHinge


def margins(model: Any, X: Value) -> Value:
    """f (q, k): the expansion plus the intercept."""
    bias: Array = model.intercept_
    coefficients: Array = model.dual_coef_.T
    if model._precomputed():  # the columns of X are the training rows
        return X.take(model.support_) @ coefficients + bias
    weights: Array = getattr(model, "feature_weights_", np.zeros((0, 0)))
    if weights.shape[1]:  # of a kernel whose map is written down: f = w'phi(x)
        return features(model.kernel_, X) @ weights.T + bias
    if not len(model.support_vectors_):
        return 0.0 * X.take([0]) + bias
    return cross(model.kernel_, X, model.support_vectors_) @ coefficients + bias


def regression(model: Any, X: Value, std: bool) -> dict[str, Value]:
    """Return "mean" (q,)."""
    return {"mean": margins(model, X).squeeze(1)}


def decision(model: Any, X: Value, std: bool) -> dict[str, Value]:
    """Return "decision" (q,) or (q, k)."""
    return {"decision": _flat(model, margins(model, X))}


def classification(model: Any, X: Value, std: bool) -> dict[str, Value]:
    """Return "decision" and, with a sigmoid or a posterior, "probabilities" (q, k)."""
    if getattr(model, "bayes_", None) is not None:
        if model.discriminant == "mean":
            from mercer.export.machines.classes import gaussian_process

            return gaussian_process(model.bayes_, X, std)
        f = margins(model, X)
        p = probability(NormalizedHinge(), f)
        pair = stack([1.0 - p, p]) if f_is_one(model) else p / p.sum()
        return {"decision": _flat(model, f), "probabilities": pair}
    return _calibrated(model, margins(model, X), np.zeros(1))


def discrimination(model: Any, X: Value, std: bool) -> dict[str, Value]:
    """Return those of a machine whose sigmoid takes the place of its bias."""
    return _calibrated(model, margins(model, X), model.intercept_)


def _calibrated(model: Any, f: Value, bias: Any) -> dict[str, Value]:
    """Return "decision" and, where a sigmoid was fitted, "probabilities"."""
    if not len(getattr(model, "slope_", ())):
        return {"decision": _flat(model, f)}
    return with_sigmoid(f - bias, model.slope_, model.offsets_)


def with_sigmoid(f: Value, slope: Any, offsets: Any) -> dict[str, Value]:
    """Return what :mod:`mercer.losses.calibration` makes of outputs f (q, k)."""
    rate = float(slope[0])
    d = f + offsets / rate if rate > 0.0 else 0.0 * f + offsets
    scaled = d * (rate or 1.0)
    if len(offsets) > 1:
        return {"decision": d, "probabilities": softmax(scaled)}
    p = expit(scaled)
    return {"decision": d.squeeze(1), "probabilities": stack([1.0 - p, p])}


def f_is_one(model: Any) -> bool:
    """Whether one function tells two classes apart."""
    return len(model.intercept_) == 1


def _flat(model: Any, f: Value) -> Value:
    return f.squeeze(1) if f_is_one(model) else f
