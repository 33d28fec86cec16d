"""Which estimators can be exported, and how: mean and deviation, probabilities, margins.

A child of one that is entered here predicts as its parent does, unless it overrides something that
the parent's prediction uses: then it is refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import reduce
from operator import add
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import expit

from mercer.core.arrays import Array
from mercer.core.errors import ExportError
from mercer.estimators.discrimination.estimator import MEDClassifier
from mercer.estimators.gaussian_process.classifier import GPClassifier
from mercer.estimators.gaussian_process.regressor import GPRegressor
from mercer.estimators.graph.classifiers import LapLSClassifier, LapMEDClassifier, LapSVC
from mercer.estimators.kernel.classifier import KernelClassifier
from mercer.estimators.kernel.regressor import KernelRegressor
from mercer.estimators.least_squares.classifiers import (
    LeastSquaresClassifier,
    ProbabilisticLeastSquaresClassifier,
)
from mercer.estimators.online.estimator import OnlineLogisticClassifier
from mercer.estimators.quantile.estimator import QuantileRegressor
from mercer.estimators.relevance_vector.classifier import RVClassifier
from mercer.estimators.relevance_vector.regressor import RVRegressor
from mercer.estimators.shared.units import Units
from mercer.estimators.spline.estimator import SmoothingSpline
from mercer.estimators.spline.thin_plate.estimator import ThinPlateSpline
from mercer.estimators.support_vector.classifier import SVC
from mercer.estimators.support_vector.nu import NuSVC, NuSVR, OneClassSVM
from mercer.estimators.support_vector.regressor import SVR
from mercer.export.expression import OnnxGraph, Value, evaluated, stack, value_of
from mercer.export.functions import averaged, ndtr, probability, softmax, softmax_averaged
from mercer.export.kernels import cross, explicit, features, written
from mercer.export.processes import Traced, TracedSparse, TracedSpline
from mercer.inference.stream import Growing
from mercer.losses import Logistic, NormalizedHinge
from mercer.process.features import Sparse
from mercer.process.spline import SplinePosterior

TRIED = np.array([[-0.7], [0.4]]), np.array([[0.3], [1.2]])  # means and variances of f
Outputs = dict[str, Value]
Writer = Callable[[Any, Value, bool], Outputs]  # of (model, X (q, d), whether std is wanted)


def regression(model: Any, X: Value, std: bool) -> Outputs:
    """Return "mean" (q,) or (q, m) and, where there is a spread and it is asked for, "std".

    Of a quantile loss "mean" is the quantile, as in ``predict``.
    """
    units, inside = model.units_, in_units(model.units_, X)
    traces = [
        (traced(p, inside), loss) for p, loss in zip(model.posteriors_, model.losses_, strict=True)
    ]
    spread = all(p.has_spread for p in model.posteriors_)

    def shaped(value: Value) -> Value:
        return value.squeeze(1) if model.flat_ else value

    at_f = all(loss.latent_is_mean or loss.latent_is_answer for loss in model.losses_)
    if not spread or (not std and at_f):
        mean = _average([_at_mode(loss, t.mean()) for t, loss in traces])
        return {"mean": shaped(mean * units.y_scale + units.y_shift)}
    pairs = [_stated(loss, "predict", t.mean(), t.var() + t.noise()) for t, loss in traces]
    mean = _average([m for m, _ in pairs])
    asked = model.losses_[0].latent_is_answer
    location = _average([t.mean() for t, _ in traces]) if asked else mean
    found = {"mean": shaped(location * units.y_scale + units.y_shift)}
    if std:
        within = _average([v for _, v in pairs])
        between = _average([np.square(m - mean) for m, _ in pairs])
        variance = within if len(pairs) == 1 else within + between
        found["std"] = shaped(np.sqrt(variance + 0.0 * mean) * units.y_scale)
    return found


def quantiles(model: Any, X: Value, std: bool) -> Outputs:
    """Return "quantiles" (q, p), or (q,), of a QuantileRegressor, put in order."""
    units, inside = model.units_, in_units(model.units_, X)
    found = [traced(posterior, inside).mean() for posterior in model.posteriors_]
    for last in range(len(found) - 1, 0, -1):  # neighbours change places: the largest is last
        for j in range(last):
            low, high = np.minimum(found[j], found[j + 1]), np.maximum(found[j], found[j + 1])
            found[j], found[j + 1] = low, high
    stated = stack(found) * units.y_scale + units.y_shift
    return {"quantiles": stated.squeeze(1) if model.flat_ else stated}


def traced(posterior: Any, X: Value) -> Any:
    """Return the process at rows that are not known yet: ``mean``, ``var`` and ``noise``."""
    if isinstance(posterior, Sparse):
        return TracedSparse(posterior, X)
    return (TracedSpline if isinstance(posterior, SplinePosterior) else Traced)(posterior, X)


def in_units(units: Units, X: Value) -> Value:
    """Return the rows in the units inside the machine."""
    if not np.any(units.x_shift) and np.all(units.x_scale == 1.0):
        return X
    return (X - units.x_shift) / units.x_scale


def _at_mode(loss: Any, f: Value) -> Value:
    """Mean of y given f; f itself for a loss without moments, or if f is asked for."""
    if loss.latent_is_mean or loss.latent_is_answer or not loss.offers("moments"):
        return f
    return _stated(loss, "moments", f)[0]


def _stated(loss: Any, method: str, *values: Value) -> tuple[Value, Value]:
    """Return what a method makes of values, if its graph agrees with it at some numbers."""
    function = getattr(loss, method)
    try:
        graph = OnnxGraph()
        inside = [Value(graph, f"X{j}") for j in range(len(values))]
        found = [value_of(each) for each in function(*inside)]
        feed = {each.name: array for each, array in zip(inside, TRIED, strict=False)}
        wanted = np.broadcast_arrays(*function(*feed.values()))
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
    total = reduce(add, values)
    return total if len(values) == 1 else total / float(len(values))


def gaussian_process(model: Any, X: Value, std: bool) -> Outputs:
    """Return "probabilities" (q, k) of a GPClassifier, averaged over its committee."""
    inside = in_units(model.units_, X)
    pairs = zip(model.posteriors_, model.losses_, strict=True)
    return {"probabilities": _average([_probabilities(p, loss, inside) for p, loss in pairs])}


def kernel_machine(model: Any, X: Value, std: bool) -> Outputs:
    """Return "decision" and, of a likelihood, "probabilities" of a KernelClassifier."""
    inside = in_units(model.units_, X)
    posterior, loss = model.posteriors_[0], model.losses_[0]
    f = Traced(posterior, inside).mean()
    if posterior.alpha.shape[1] == 1:
        f = f.squeeze(1)
    elif len(model.classes_) == 2:  # softmax of two classes
        f = (f.take([1]) - f.take([0])).squeeze(1)
    found = {"decision": f}
    if loss.normalised:
        found["probabilities"] = _probabilities(posterior, loss, inside)
    return found


def least_squares(model: Any, X: Value, std: bool) -> Outputs:
    """Return "decision" of a LeastSquaresClassifier."""
    f = Traced(model.posteriors_[0], in_units(model.units_, X)).mean() - model._threshold()
    return {"decision": f.squeeze(1) if model.flat_ else f}


def probabilistic_least_squares(model: Any, X: Value, std: bool) -> Outputs:
    """Return "probabilities" by GPML (6.42)."""
    trace, loss = Traced(model.posteriors_[0], in_units(model.units_, X)), model.loss_
    s = trace.var() + trace.noise() + (0.0 if loss.latent else float(loss.noise))
    r = (trace.mean() + np.asarray(loss.offset)) / np.sqrt(np.square(loss.tau) + s)
    p = ndtr(r)
    return {"probabilities": stack([ndtr(-r), p]) if model.flat_ else p / p.sum()}


def relevance(model: Any, X: Value, std: bool) -> Outputs:
    """Return "probabilities" of an RVClassifier."""
    traces = [traced(process, in_units(model.units_, X)) for process in model.posteriors_]
    each = [averaged(model.loss_, trace.mean(), trace.var()) for trace in traces]
    return {"probabilities": _normalised(each)}


def online(model: Any, X: Value, std: bool) -> Outputs:
    """Return "probabilities" of an OnlineLogisticClassifier in its current state."""
    stream, inside = model.stream_, in_units(model.units_, X)
    if model.grows_:  # the last function is of no class
        own = np.arange(len(stream.latents) - 1)
        stream = stream.reordered(own, np.ones(len(own)))
    if stream.weighs:
        phi, each = explicit(stream.kernel, inside, stream.d), []
        for latent, level in zip(stream.latents, stream.level, strict=True):
            half = phi @ solve_triangular(latent.R, np.eye(len(latent.v)))
            m = phi @ latent.weights[:, None] + float(level)
            each.append(averaged(Logistic(), m, np.square(half).sum()))
        return {"probabilities": _normalised(_sharpened(model, each))}
    K, prior = cross(stream.kernel, inside, stream.points), written(stream.kernel, inside, None)
    each = []
    for latent, level in zip(stream.latents, stream.level, strict=True):
        if isinstance(latent, Growing):
            T = K @ np.asarray(latent.whiten(np.eye(len(stream.points)))).T
            m, reduced = T @ np.asarray(latent.v)[:, None], np.square(T).sum()
        else:
            whole = latent.settled()
            m, reduced = K @ whole.alpha[:, None], ((K @ whole.C) * K).sum()
        m = m + float(level) if level else m
        each.append(averaged(Logistic(), m, np.maximum(prior - reduced, 0.0)))
    return {"probabilities": _normalised(_sharpened(model, each))}


def _sharpened(model: Any, each: list[Value]) -> list[Value]:
    """Probabilities (q, 1) of several classes, raised to the power that was learned."""
    power = 1.0 if model.sharpening_ is None else model.sharpening_.power
    return each if power == 1.0 else [np.exp(power * np.log(p)) for p in each]


def _probabilities(posterior: Any, loss: Any, X: Value) -> Value:
    """The probabilities (q, k) of one posterior; see ``estimators.class_probabilities``."""
    trace, m = Traced(posterior, X), posterior.alpha.shape[1]
    mean = trace.mean()
    if not posterior.has_spread:
        if loss.response == "multiclass":
            return softmax(mean)
        return _normalised([probability(loss, mean.take([c])) for c in range(m)])
    if m == 1:
        return _normalised([averaged(loss, mean, trace.var() + trace.noise())])
    blocks, noise = trace.blocks(), trace.noise()
    if loss.response == "multiclass":
        return softmax_averaged(mean, blocks, noise, m)
    spreads = [np.maximum(blocks[c][c] + noise, 0.0) for c in range(m)]
    return _normalised([averaged(loss, mean.take([c]), spreads[c]) for c in range(m)])


def _normalised(each: list[Value]) -> Value:
    """(q, k): one probability (q, 1) is that of the second of two classes, several are shares."""
    if len(each) == 1:
        return stack([1.0 - each[0], each[0]])
    p = stack(each)
    return p / p.sum()


def margins(model: Any, X: Value) -> Value:
    """f (q, k): the expansion plus the intercept."""
    bias, coefficients = model.intercept_, model.dual_coef_.T
    if model._precomputed():  # the columns of X are the training rows
        return X.take(model.support_) @ coefficients + bias
    weights: Array = getattr(model, "feature_weights_", np.zeros((0, 0)))
    if weights.shape[1]:  # of a kernel whose map is written down: f = w'phi(x)
        return features(model.kernel_, X) @ weights.T + bias
    if not len(model.support_vectors_):
        return 0.0 * X.take([0]) + bias
    return cross(model.kernel_, X, model.support_vectors_) @ coefficients + bias


def classification(model: Any, X: Value, std: bool) -> Outputs:
    """Return "decision" and, with a sigmoid or a posterior, "probabilities" (q, k)."""
    if getattr(model, "bayes_", None) is not None:
        if model.discriminant == "mean":
            return gaussian_process(model.bayes_, X, std)
        f = margins(model, X)
        p = probability(NormalizedHinge(), f)
        pair = stack([1.0 - p, p]) if len(model.intercept_) == 1 else p / p.sum()
        return {"decision": _flat(model, f), "probabilities": pair}
    return _calibrated(model, margins(model, X), np.zeros(1))


def _calibrated(model: Any, f: Value, bias: Any) -> Outputs:
    """Return "decision" and, where a sigmoid was fitted, "probabilities"."""
    if not len(getattr(model, "slope_", ())):
        return {"decision": _flat(model, f)}
    return with_sigmoid(f - bias, model.slope_, model.offsets_)


def _scaled(model: Any, f: Value) -> Outputs:
    """Return "decision" and, where a slope was fitted, "probabilities" that do not move it."""
    decision, slope = {"decision": _flat(model, f)}, getattr(model, "slope_", np.zeros(0))
    if not len(slope):
        return decision
    z = f * float(slope[0])
    p = expit(z)
    several = len(model.intercept_) > 1
    return decision | {"probabilities": softmax(z) if several else stack([1.0 - p, p])}


def with_sigmoid(f: Value, slope: Any, offsets: Any) -> Outputs:
    """Return what :mod:`mercer.losses.calibration` makes of outputs f (q, k)."""
    rate = float(slope[0])
    d = f + offsets / rate if rate > 0.0 else 0.0 * f + offsets
    scaled = d * (rate or 1.0)
    if len(offsets) > 1:
        return {"decision": d, "probabilities": softmax(scaled)}
    p = expit(scaled)
    return {"decision": d.squeeze(1), "probabilities": stack([1.0 - p, p])}


def _flat(model: Any, f: Value) -> Value:
    return f.squeeze(1) if len(model.intercept_) == 1 else f


PREDICTIONS = ("predict", "predict_proba", "decision_function")
REGRESSORS = (KernelRegressor, GPRegressor, RVRegressor, SmoothingSpline, ThinPlateSpline)
MARGINS = (NuSVC, OneClassSVM, LapSVC, LapLSClassifier, LapMEDClassifier)
WRITERS: dict[type, Writer] = {
    **dict.fromkeys(REGRESSORS, regression),
    **dict.fromkeys(MARGINS, lambda model, X, std: _scaled(model, margins(model, X))),
    **dict.fromkeys((SVR, NuSVR), lambda model, X, std: {"mean": margins(model, X).squeeze(1)}),
    GPClassifier: gaussian_process,
    KernelClassifier: kernel_machine,
    LeastSquaresClassifier: least_squares,
    # its sigmoid takes the place of the bias
    MEDClassifier: lambda model, X, std: _calibrated(model, margins(model, X), model.intercept_),
    OnlineLogisticClassifier: online,
    ProbabilisticLeastSquaresClassifier: probabilistic_least_squares,
    QuantileRegressor: quantiles,
    RVClassifier: relevance,
    SVC: classification,
}


def writer_of(model: Any) -> Writer:
    """Return the function that writes the predictions of ``model``, or refuse it by name."""
    order, what = type(model).__mro__, f"{type(model).__name__} cannot be exported:"
    parent = next((cls for cls in order if cls in WRITERS), None)
    if parent is None:
        taken = "fitted estimators of mercer, and pipelines that end in one"
        raise ExportError(f"{what} to_onnx takes {taken}")
    own = {name for cls in order[: order.index(parent)] for name in vars(cls)}
    changed = sorted(own & (_used_in_predictions(parent) | set(PREDICTIONS)))
    if changed:
        raise ExportError(
            f"{what} it overrides {', '.join(changed)} of {parent.__name__}, whose predictions "
            "alone can be written in ONNX"
        )
    return WRITERS[parent]


def _used_in_predictions(cls: type) -> set[str]:
    """Return the attributes of a class that its predictions use, as their code names them."""
    used: set[str] = set()
    waiting = [name for name in PREDICTIONS if hasattr(cls, name)]
    while waiting:
        name = waiting.pop()
        if name not in used:
            used.add(name)
            function = _function(inspect.getattr_static(cls, name))
            names = set() if function is None else set(_names(function))
            waiting += [n for n in names if hasattr(cls, n) and not n.startswith("__")]
    return used


def _function(attribute: Any) -> FunctionType | None:
    """Return the function of a method or a property, decorated or not."""
    for inside in ("fget", "__func__", "fn"):  # fn: of scikit-learn's available_if
        attribute = getattr(attribute, inside, attribute)
    attribute = inspect.unwrap(attribute) if callable(attribute) else attribute
    return attribute if isinstance(attribute, FunctionType) else None


def _names(function: FunctionType, depth: int = 2) -> Iterator[str]:
    """Yield the names that a function, and functions of its module that it calls, refer to."""
    for name in _in_code(function.__code__):
        yield name
        helper = function.__globals__.get(name)
        if depth and isinstance(helper, FunctionType):
            yield from _names(helper, depth - 1)


def _in_code(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _in_code(inner)
