"""Which estimators can be exported, and how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mercer.estimators.discrimination import MEDClassifier
from mercer.estimators.generic import KernelRegressor
from mercer.estimators.gp_classifier import GPClassifier
from mercer.estimators.kernel_classifier import KernelClassifier
from mercer.estimators.lap_base import GraphMachine
from mercer.estimators.least_squares import (
    LeastSquaresClassifier,
    ProbabilisticLeastSquaresClassifier,
)
from mercer.estimators.nu import NuSVC, NuSVR, OneClassSVM
from mercer.estimators.online import OnlineLogisticClassifier
from mercer.estimators.relevance_vector_classifier import RVClassifier
from mercer.estimators.support_vector import SVC
from mercer.estimators.sv_regression import SVR
from mercer.export import classes, moments, support
from mercer.export.errors import ExportError
from mercer.export.value import Value

Writer = Callable[[Any, Value, bool], dict[str, Value]]

# a child of an estimator predicts as its parent does
WRITERS: dict[type, Writer] = {
    GPClassifier: classes.gaussian_process,
    GraphMachine: support.decision,
    KernelClassifier: classes.kernel_machine,
    KernelRegressor: moments.regression,
    LeastSquaresClassifier: classes.least_squares,
    MEDClassifier: support.discrimination,
    NuSVC: support.decision,
    NuSVR: support.regression,
    OneClassSVM: support.decision,
    OnlineLogisticClassifier: classes.online,
    ProbabilisticLeastSquaresClassifier: classes.probabilistic_least_squares,
    RVClassifier: classes.relevance,
    SVC: support.classification,
    SVR: support.regression,
}


def writer_of(model: Any) -> Writer:
    """Return the function that writes the predictions of ``model``, or refuse it by name."""
    for cls in type(model).__mro__:
        if cls in WRITERS:
            return WRITERS[cls]
    raise ExportError(
        f"{type(model).__name__} cannot be exported: to_onnx takes mercer's estimators, already "
        "fitted, and pipelines that end in one"
    )
