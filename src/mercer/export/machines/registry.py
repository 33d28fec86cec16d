"""Which estimators can be exported, and how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mercer.core.errors import ExportError
from mercer.estimators.discrimination.estimator import MEDClassifier
from mercer.estimators.gaussian_process.classifier import GPClassifier
from mercer.estimators.graph.base import GraphMachine
from mercer.estimators.kernel.classifier import KernelClassifier
from mercer.estimators.kernel.regressor import KernelRegressor
from mercer.estimators.least_squares.classifiers import (
    LeastSquaresClassifier,
    ProbabilisticLeastSquaresClassifier,
)
from mercer.estimators.online.estimator import OnlineLogisticClassifier
from mercer.estimators.relevance_vector.classifier import RVClassifier
from mercer.estimators.support_vector.classifier import SVC
from mercer.estimators.support_vector.nu import NuSVC, NuSVR, OneClassSVM
from mercer.estimators.support_vector.regressor import SVR
from mercer.export.expression import Value
from mercer.export.machines import classes, moments, support

Writer = Callable[[Any, Value, bool], dict[str, Value]]

# What a graph stands for: a child of your own that states one of these predicts something else.
PREDICTIONS = ("predict", "predict_proba", "decision_function", "predict_latent", "score_samples")
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
        own = [name for name in PREDICTIONS if name in vars(cls)]
        if own and not cls.__module__.startswith("mercer."):
            raise ExportError(
                f"{type(model).__name__} cannot be exported: it has a {own[0]} of its own, and "
                "ONNX would be given that of its parent"
            )
    raise ExportError(
        f"{type(model).__name__} cannot be exported: to_onnx takes mercer's estimators, already "
        "fitted, and pipelines that end in one"
    )
