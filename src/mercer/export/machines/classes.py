"""Classifiers on Gaussian latent functions in ONNX: probabilities averaged over the posterior."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.export.expression import Value, stack
from mercer.export.functions import ndtr, softmax
from mercer.export.kernels.forms import cross, diagonal
from mercer.export.machines.moments import in_units, traced
from mercer.export.processes.averages import averaged, probability, softmax_averaged
from mercer.export.processes.process import Traced
from mercer.inference.stream import Growing


def gaussian_process(model: Any, X: Value, std: bool) -> dict[str, Value]:
    """Return "probabilities" (q, k) of a GPClassifier, averaged over its committee."""
    inside = in_units(model.units_, X)
    each = [
        _probabilities(posterior, loss, inside)
        for posterior, loss in zip(model.posteriors_, model.losses_, strict=True)
    ]
    total = each[0]
    for p in each[1:]:
        total = total + p
    return {"probabilities": total if len(each) == 1 else total / float(len(each))}


def kernel_machine(model: Any, X: Value, std: bool) -> dict[str, Value]:
    """Return "decision" and, of a likelihood, "probabilities" of a KernelClassifier."""
    inside = in_units(model.units_, X)
    posterior, loss = model.posteriors_[0], model.losses_[0]
    f = Traced(posterior, inside).mean()
    found = {"decision": f}
    if posterior.alpha.shape[1] == 1:
        found["decision"] = f.squeeze(1)
    elif len(model.classes_) == 2:  # softmax of two classes
        found["decision"] = (f.take([1]) - f.take([0])).squeeze(1)
    if loss.normalised:
        found["probabilities"] = _probabilities(posterior, loss, inside)
    return found


def least_squares(model: Any, X: Value, std: bool) -> dict[str, Value]:
    """Return "decision" of a LeastSquaresClassifier."""
    f = Traced(model.posteriors_[0], in_units(model.units_, X)).mean() - model._threshold()
    return {"decision": f.squeeze(1) if model.flat_ else f}


def probabilistic_least_squares(model: Any, X: Value, std: bool) -> dict[str, Value]:
    """Return "probabilities" by GPML (6.42)."""
    trace, loss = Traced(model.posteriors_[0], in_units(model.units_, X)), model.loss_
    s = trace.var() + trace.noise() + (0.0 if loss.latent else float(loss.noise))
    r = (trace.mean() + np.asarray(loss.offset)) / np.sqrt(np.square(loss.tau) + s)
    p = ndtr(r)
    return {"probabilities": stack([ndtr(-r), p]) if model.flat_ else p / p.sum()}


def relevance(model: Any, X: Value, std: bool) -> dict[str, Value]:
    """Return "probabilities" of an RVClassifier."""
    inside = in_units(model.units_, X)
    traces = [traced(process, inside) for process in model.posteriors_]
    return {
        "probabilities": _normalised([averaged(model.loss_, t.mean(), t.var()) for t in traces])
    }


def online(model: Any, X: Value, std: bool) -> dict[str, Value]:
    """Return "probabilities" of an OnlineLogisticClassifier in its current state."""
    from mercer.losses import Logistic

    stream, inside = model.stream_, in_units(model.units_, X)
    K, prior = cross(stream.kernel, inside, stream.points), diagonal(stream.kernel, inside)
    each = []
    for latent in stream.latents:
        if isinstance(latent, Growing):
            T = K @ np.asarray(latent.whiten(np.eye(len(stream.points)))).T
            m, reduced = T @ np.asarray(latent.v)[:, None], np.square(T).sum()
        else:
            whole = latent.settled()
            m, reduced = K @ whole.alpha[:, None], ((K @ whole.C) * K).sum()
        each.append(averaged(Logistic(), m, np.maximum(prior - reduced, 0.0)))
    return {"probabilities": _normalised(each)}


def _probabilities(posterior: Any, loss: Any, X: Value) -> Value:
    """The probabilities (q, k) of one posterior; see ``estimators.class_probabilities``."""
    trace, m = Traced(posterior, X), posterior.alpha.shape[1]
    mean = trace.mean()
    if not posterior.has_spread:
        if loss.response == "multiclass":
            return softmax(mean)
        return _normalised([probability(loss, mean.take([c])) for c in range(m)])
    if loss.response == "multiclass":
        return softmax_averaged(mean, trace.blocks(), trace.noise(), m)
    if m == 1:
        return _normalised([averaged(loss, mean, trace.var() + trace.noise())])
    blocks = trace.blocks()
    spreads = [np.maximum(blocks[c][c] + trace.noise(), 0.0) for c in range(m)]
    return _normalised([averaged(loss, mean.take([c]), spreads[c]) for c in range(m)])


def _normalised(each: list[Value]) -> Value:
    """(q, k): one probability (q, 1) is that of the second of two classes, several are shares."""
    if len(each) == 1:
        return stack([1.0 - each[0], each[0]])
    p = stack(each)
    return p / p.sum()
