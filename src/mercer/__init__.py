"""mercer: probabilistic kernel machines.

A model is a kernel (what is smooth), a loss (what is observed), an inference (how a posterior comes
out) and a search (which hyperparameters). Names are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mercer import (
        basis,
        export,
        inference,
        kernels,
        losses,
        persist,
        plots,
        process,
        rkhs,
        search,
        testing,
    )
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
    from mercer.estimators.online.river import RiverClassifier
    from mercer.estimators.relevance_vector.classifier import RVClassifier
    from mercer.estimators.relevance_vector.regressor import RVRegressor
    from mercer.estimators.shared.summary import compare
    from mercer.estimators.spline.estimator import SmoothingSpline
    from mercer.estimators.support_vector.classifier import SVC
    from mercer.estimators.support_vector.nu import NuSVC, NuSVR, OneClassSVM
    from mercer.estimators.support_vector.regressor import SVR
    from mercer.estimators.thin_plate.estimator import ThinPlateSpline
    from mercer.export import to_onnx
    from mercer.persist import load, save
    from mercer.tables.fit import fit
    from mercer.tables.model import TableModel

__version__ = "0.1.0"

_HOMES = {
    "GPClassifier": "mercer.estimators.gaussian_process.classifier",
    "GPRegressor": "mercer.estimators.gaussian_process.regressor",
    "KernelClassifier": "mercer.estimators.kernel.classifier",
    "KernelRegressor": "mercer.estimators.kernel.regressor",
    "LapLSClassifier": "mercer.estimators.graph.classifiers",
    "LapMEDClassifier": "mercer.estimators.graph.classifiers",
    "LapSVC": "mercer.estimators.graph.classifiers",
    "LeastSquaresClassifier": "mercer.estimators.least_squares.classifiers",
    "MEDClassifier": "mercer.estimators.discrimination.estimator",
    "NuSVC": "mercer.estimators.support_vector.nu",
    "NuSVR": "mercer.estimators.support_vector.nu",
    "OneClassSVM": "mercer.estimators.support_vector.nu",
    "OnlineLogisticClassifier": "mercer.estimators.online.estimator",
    "ProbabilisticLeastSquaresClassifier": "mercer.estimators.least_squares.classifiers",
    "RiverClassifier": "mercer.estimators.online.river",
    "RVClassifier": "mercer.estimators.relevance_vector.classifier",
    "RVRegressor": "mercer.estimators.relevance_vector.regressor",
    "SVC": "mercer.estimators.support_vector.classifier",
    "SVR": "mercer.estimators.support_vector.regressor",
    "SmoothingSpline": "mercer.estimators.spline.estimator",
    "ThinPlateSpline": "mercer.estimators.thin_plate.estimator",
    "TableModel": "mercer.tables.model",
    "compare": "mercer.estimators.shared.summary",
    "fit": "mercer.tables.fit",
    "load": "mercer.persist",
    "save": "mercer.persist",
    "to_onnx": "mercer.export",
}
_ROOMS = (
    "basis",
    "export",
    "inference",
    "kernels",
    "losses",
    "persist",
    "plots",
    "process",
    "rkhs",
    "search",
    "testing",
)

__all__ = [
    "SVC",
    "SVR",
    "GPClassifier",
    "GPRegressor",
    "KernelClassifier",
    "KernelRegressor",
    "LapLSClassifier",
    "LapMEDClassifier",
    "LapSVC",
    "LeastSquaresClassifier",
    "MEDClassifier",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
    "OnlineLogisticClassifier",
    "ProbabilisticLeastSquaresClassifier",
    "RVClassifier",
    "RVRegressor",
    "RiverClassifier",
    "SmoothingSpline",
    "TableModel",
    "ThinPlateSpline",
    "__version__",
    "basis",
    "compare",
    "export",
    "fit",
    "inference",
    "kernels",
    "load",
    "losses",
    "persist",
    "plots",
    "process",
    "rkhs",
    "save",
    "search",
    "testing",
    "to_onnx",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in _ROOMS:
        value = import_module(f"mercer.{name}")
    else:
        raise AttributeError(f"module 'mercer' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
