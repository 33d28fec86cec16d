"""mercer: probabilistic kernel machines.

A model is a kernel (what is smooth), a loss (what is observed), an inference (how a posterior comes
out) and a search (which hyperparameters). Names are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mercer import basis, inference, kernels, losses, persist, process, rkhs, search, testing
    from mercer.estimators.compare import compare
    from mercer.estimators.discrimination import MEDClassifier
    from mercer.estimators.gaussian_process import GPRegressor
    from mercer.estimators.generic import KernelRegressor
    from mercer.estimators.gp_classifier import GPClassifier
    from mercer.estimators.kernel_classifier import KernelClassifier
    from mercer.estimators.least_squares import (
        LeastSquaresClassifier,
        ProbabilisticLeastSquaresClassifier,
    )
    from mercer.estimators.nu import NuSVC, NuSVR, OneClassSVM
    from mercer.estimators.online import OnlineLogisticClassifier
    from mercer.estimators.support_vector import SVC
    from mercer.estimators.sv_regression import SVR
    from mercer.persist import load, save

__version__ = "0.1.0"

_HOMES = {
    "GPClassifier": "mercer.estimators.gp_classifier",
    "GPRegressor": "mercer.estimators.gaussian_process",
    "KernelClassifier": "mercer.estimators.kernel_classifier",
    "KernelRegressor": "mercer.estimators.generic",
    "LeastSquaresClassifier": "mercer.estimators.least_squares",
    "MEDClassifier": "mercer.estimators.discrimination",
    "NuSVC": "mercer.estimators.nu",
    "NuSVR": "mercer.estimators.nu",
    "OneClassSVM": "mercer.estimators.nu",
    "OnlineLogisticClassifier": "mercer.estimators.online",
    "ProbabilisticLeastSquaresClassifier": "mercer.estimators.least_squares",
    "SVC": "mercer.estimators.support_vector",
    "SVR": "mercer.estimators.sv_regression",
    "compare": "mercer.estimators.compare",
    "load": "mercer.persist",
    "save": "mercer.persist",
}
_ROOMS = (
    "basis",
    "inference",
    "kernels",
    "losses",
    "persist",
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
    "LeastSquaresClassifier",
    "MEDClassifier",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
    "OnlineLogisticClassifier",
    "ProbabilisticLeastSquaresClassifier",
    "__version__",
    "basis",
    "compare",
    "inference",
    "kernels",
    "load",
    "losses",
    "persist",
    "process",
    "rkhs",
    "save",
    "search",
    "testing",
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
