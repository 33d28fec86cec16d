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
    from mercer.estimators.compare import compare
    from mercer.estimators.discrimination import MEDClassifier
    from mercer.estimators.gaussian_process import GPRegressor
    from mercer.estimators.generic import KernelRegressor
    from mercer.estimators.gp_classifier import GPClassifier
    from mercer.estimators.kernel_classifier import KernelClassifier
    from mercer.estimators.lap_least_squares import LapLSClassifier
    from mercer.estimators.lap_med import LapMEDClassifier
    from mercer.estimators.lap_svc import LapSVC
    from mercer.estimators.least_squares import (
        LeastSquaresClassifier,
        ProbabilisticLeastSquaresClassifier,
    )
    from mercer.estimators.nu import NuSVC, NuSVR, OneClassSVM
    from mercer.estimators.online import OnlineLogisticClassifier
    from mercer.estimators.relevance_vector import RVRegressor
    from mercer.estimators.relevance_vector_classifier import RVClassifier
    from mercer.estimators.river import RiverClassifier
    from mercer.estimators.splines import SmoothingSpline
    from mercer.estimators.support_vector import SVC
    from mercer.estimators.sv_regression import SVR
    from mercer.estimators.thin_plate import ThinPlateSpline
    from mercer.export import to_onnx
    from mercer.persist import load, save
    from mercer.tables.best import fit
    from mercer.tables.fitted import TableModel

__version__ = "0.1.0"

_HOMES = {
    "GPClassifier": "mercer.estimators.gp_classifier",
    "GPRegressor": "mercer.estimators.gaussian_process",
    "KernelClassifier": "mercer.estimators.kernel_classifier",
    "KernelRegressor": "mercer.estimators.generic",
    "LapLSClassifier": "mercer.estimators.lap_least_squares",
    "LapMEDClassifier": "mercer.estimators.lap_med",
    "LapSVC": "mercer.estimators.lap_svc",
    "LeastSquaresClassifier": "mercer.estimators.least_squares",
    "MEDClassifier": "mercer.estimators.discrimination",
    "NuSVC": "mercer.estimators.nu",
    "NuSVR": "mercer.estimators.nu",
    "OneClassSVM": "mercer.estimators.nu",
    "OnlineLogisticClassifier": "mercer.estimators.online",
    "ProbabilisticLeastSquaresClassifier": "mercer.estimators.least_squares",
    "RiverClassifier": "mercer.estimators.river",
    "RVClassifier": "mercer.estimators.relevance_vector_classifier",
    "RVRegressor": "mercer.estimators.relevance_vector",
    "SVC": "mercer.estimators.support_vector",
    "SVR": "mercer.estimators.sv_regression",
    "SmoothingSpline": "mercer.estimators.splines",
    "ThinPlateSpline": "mercer.estimators.thin_plate",
    "TableModel": "mercer.tables.fitted",
    "compare": "mercer.estimators.compare",
    "fit": "mercer.tables.best",
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
