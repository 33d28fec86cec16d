"""Which estimators can be exported, and how.

A child of one that is entered here predicts as its parent does, unless it overrides something that
the parent's prediction uses: then it is refused.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

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
from mercer.estimators.relevance_vector.classifier import RVClassifier
from mercer.estimators.relevance_vector.regressor import RVRegressor
from mercer.estimators.spline.estimator import SmoothingSpline
from mercer.estimators.support_vector.classifier import SVC
from mercer.estimators.support_vector.nu import NuSVC, NuSVR, OneClassSVM
from mercer.estimators.support_vector.regressor import SVR
from mercer.estimators.thin_plate.estimator import ThinPlateSpline
from mercer.export.expression import Value
from mercer.export.machines import classes, moments, support

Writer = Callable[[Any, Value, bool], dict[str, Value]]

PREDICTIONS = ("predict", "predict_proba", "decision_function")
REGRESSORS: list[type] = [
    KernelRegressor,
    GPRegressor,
    RVRegressor,
    SmoothingSpline,
    ThinPlateSpline,
]
MARGINS: list[type] = [NuSVC, OneClassSVM, LapSVC, LapLSClassifier, LapMEDClassifier]
WRITERS: dict[type, Writer] = {
    **dict.fromkeys(REGRESSORS, moments.regression),
    **dict.fromkeys(MARGINS, support.decision),
    GPClassifier: classes.gaussian_process,
    KernelClassifier: classes.kernel_machine,
    LeastSquaresClassifier: classes.least_squares,
    MEDClassifier: support.discrimination,
    NuSVR: support.regression,
    OnlineLogisticClassifier: classes.online,
    ProbabilisticLeastSquaresClassifier: classes.probabilistic_least_squares,
    RVClassifier: classes.relevance,
    SVC: support.classification,
    SVR: support.regression,
}


def writer_of(model: Any) -> Writer:
    """Return the function that writes the predictions of ``model``, or refuse it by name."""
    order = type(model).__mro__
    parent = next((cls for cls in order if cls in WRITERS), None)
    if parent is None:
        raise ExportError(
            f"{type(model).__name__} cannot be exported: to_onnx takes fitted estimators of "
            "mercer, and pipelines that end in one"
        )
    own = {name for cls in order[: order.index(parent)] for name in vars(cls)}
    changed = sorted(own & (_used_in_predictions(parent) | set(PREDICTIONS)))
    if changed:
        raise ExportError(
            f"{type(model).__name__} cannot be exported: it overrides {', '.join(changed)} of "
            f"{parent.__name__}, whose predictions alone can be written in ONNX"
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
