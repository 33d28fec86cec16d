"""Regression in ONNX: mean and deviation of a new observation from those of the function."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.core.arrays import Array
from mercer.core.errors import ExportError
from mercer.estimators.shared.units import Units
from mercer.export.expression import OnnxGraph, Value, evaluated, value_of
from mercer.export.processes.process import Traced, TracedSparse, TracedSpline
from mercer.process.features import Sparse
from mercer.process.spline import SplinePosterior

Pair = tuple[Value, Value]


def regression(model: Any, X: Value, std: bool) -> dict[str, Value]:
    """Return "mean" (q,) or (q, m) and, where there is a spread and it is asked for, "std"."""
    inside = in_units(model.units_, X)
    traces = [traced(p, inside) for p in model.posteriors_]
    spread = all(p.has_spread for p in model.posteriors_)
    units = model.units_
    if not spread or not (std or not all(loss.latent_is_mean for loss in model.losses_)):
        means = [
            t.mean() if loss.latent_is_mean else _at_mode(loss, t.mean())
            for t, loss in zip(traces, model.losses_, strict=True)
        ]
        return {"mean": _shaped(model, _average(means) * units.y_scale + units.y_shift)}
    pairs = [
        _observed(loss, t.mean(), t.var() + t.noise())
        for t, loss in zip(traces, model.losses_, strict=True)
    ]
    mean = _average([m for m, _ in pairs])
    found = {"mean": _shaped(model, mean * units.y_scale + units.y_shift)}
    if std:
        within = _average([v for _, v in pairs])
        between = _average([np.square(m - mean) for m, _ in pairs])
        variance = within if len(pairs) == 1 else within + between
        found["std"] = _shaped(model, np.sqrt(variance + 0.0 * mean) * units.y_scale)
    return found


def traced(posterior: Any, X: Value) -> Any:
    """Return the process at rows that are not known yet: ``mean``, ``var`` and ``noise``."""
    if isinstance(posterior, Sparse):
        return TracedSparse(posterior, X)
    if isinstance(posterior, SplinePosterior):
        return TracedSpline(posterior, X)
    return Traced(posterior, X)


def in_units(units: Units, X: Value) -> Value:
    """Return the rows in the units inside the machine."""
    if not np.any(units.x_shift) and np.all(units.x_scale == 1.0):
        return X
    return (X - units.x_shift) / units.x_scale


def _observed(loss: Any, m: Value, v: Value) -> Pair:
    """Mean and variance of a new y for f ~ N(m, v), by the loss's own formulas."""
    means, variances = np.array([[-0.7], [0.4]]), np.array([[0.3], [1.2]])
    return _stated(loss, "predict", (m, v), (means, variances))


def _at_mode(loss: Any, f: Value) -> Value:
    """Mean of y given f; f itself for a loss without moments."""
    if not loss.offers("moments"):
        return f
    return _stated(loss, "moments", (f,), (np.array([[-0.7], [0.4]]),))[0]


def _stated(loss: Any, method: str, values: tuple[Value, ...], numbers: tuple[Array, ...]) -> Pair:
    """Return what a method makes of values, if its graph agrees with it at some numbers."""
    function = getattr(loss, method)
    try:
        graph = OnnxGraph()
        inside = [Value(graph, f"X{j}") for j in range(len(numbers))]
        found = [value_of(each) for each in function(*inside)]
        feed = {each.name: array for each, array in zip(inside, numbers, strict=True)}
        wanted = np.broadcast_arrays(*function(*numbers))
        for ours, theirs in zip(wanted, evaluated(graph, found, feed), strict=True):
            if not np.allclose(ours, theirs, rtol=1e-10, atol=0.0):
                raise ExportError("the graph of its mean and variance has other values than it")
        mean, variance = (value_of(each) for each in function(*values))
    except (ExportError, AttributeError, IndexError, TypeError, ValueError) as error:
        raise ExportError(
            f"the loss {type(loss).__name__} cannot be exported: its mean over a Gaussian is not a "
            f"formula that can be written in ONNX ({error})"
        ) from error
    return mean, variance if isinstance(variance, Value) else 0.0 * mean + variance


def _average(values: list[Value]) -> Value:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total if len(values) == 1 else total / float(len(values))


def _shaped(model: Any, value: Value) -> Value:
    return value.squeeze(1) if model.flat_ else value
