"""mercer: probabilistic kernel machines.

A model is a kernel (what is smooth), a loss (what is observed), an inference (how a posterior comes
out) and a search (which hyperparameters). Names are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mercer import basis as basis
    from mercer import export as export
    from mercer import inference as inference
    from mercer import kernels as kernels
    from mercer import losses as losses
    from mercer import persist as persist
    from mercer import plots as plots
    from mercer import process as process
    from mercer import referee as referee
    from mercer import rkhs as rkhs
    from mercer import search as search
    from mercer import testing as testing
    from mercer.estimators.additive.estimator import AdditiveRegressor as AdditiveRegressor
    from mercer.estimators.blocks.table import BlockTable as BlockTable
    from mercer.estimators.discrimination.estimator import MEDClassifier as MEDClassifier
    from mercer.estimators.features.components import KernelPCA as KernelPCA
    from mercer.estimators.features.estimator import KernelFeatures as KernelFeatures
    from mercer.estimators.gaussian_process.classifier import GPClassifier as GPClassifier
    from mercer.estimators.gaussian_process.outputs import (
        MultiOutputGPRegressor as MultiOutputGPRegressor,
    )
    from mercer.estimators.gaussian_process.regressor import GPRegressor as GPRegressor
    from mercer.estimators.graph.classifiers import LapLSClassifier as LapLSClassifier
    from mercer.estimators.graph.classifiers import LapMEDClassifier as LapMEDClassifier
    from mercer.estimators.graph.classifiers import LapSVC as LapSVC
    from mercer.estimators.graph.folds import LabelledKFold as LabelledKFold
    from mercer.estimators.kernel.classifier import KernelClassifier as KernelClassifier
    from mercer.estimators.kernel.regressor import KernelRegressor as KernelRegressor
    from mercer.estimators.least_squares.classifiers import (
        LeastSquaresClassifier as LeastSquaresClassifier,
    )
    from mercer.estimators.least_squares.classifiers import (
        ProbabilisticLeastSquaresClassifier as ProbabilisticLeastSquaresClassifier,
    )
    from mercer.estimators.online.estimator import (
        OnlineLogisticClassifier as OnlineLogisticClassifier,
    )
    from mercer.estimators.online.regressor import OnlineRegressor as OnlineRegressor
    from mercer.estimators.online.river import RiverClassifier as RiverClassifier
    from mercer.estimators.online.river import RiverRegressor as RiverRegressor
    from mercer.estimators.quantile.estimator import QuantileRegressor as QuantileRegressor
    from mercer.estimators.relevance_vector.classifier import RVClassifier as RVClassifier
    from mercer.estimators.relevance_vector.regressor import RVRegressor as RVRegressor
    from mercer.estimators.shared.compare import compare as compare
    from mercer.estimators.shared.design.query import QueryRule as QueryRule
    from mercer.estimators.spline.estimator import SmoothingSpline as SmoothingSpline
    from mercer.estimators.spline.thin_plate.estimator import ThinPlateSpline as ThinPlateSpline
    from mercer.estimators.support_vector.classifier import SVC as SVC
    from mercer.estimators.support_vector.nu import NuSVC as NuSVC
    from mercer.estimators.support_vector.nu import NuSVR as NuSVR
    from mercer.estimators.support_vector.nu import OneClassSVM as OneClassSVM
    from mercer.estimators.support_vector.regressor import SVR as SVR
    from mercer.export import to_onnx as to_onnx
    from mercer.persist import load as load
    from mercer.persist import save as save
    from mercer.referee.check import check_inference_on as check_inference_on
    from mercer.tables.estimators import TableClassifier as TableClassifier
    from mercer.tables.estimators import TableRegressor as TableRegressor
    from mercer.tables.files.read import read_table as read_table
    from mercer.tables.fit import fit as fit
    from mercer.tables.model import TableModel as TableModel

__version__ = "0.1.0"

_HOMES = {
    "AdditiveRegressor": "mercer.estimators.additive.estimator",
    "BlockTable": "mercer.estimators.blocks.table",
    "GPClassifier": "mercer.estimators.gaussian_process.classifier",
    "GPRegressor": "mercer.estimators.gaussian_process.regressor",
    "KernelClassifier": "mercer.estimators.kernel.classifier",
    "KernelFeatures": "mercer.estimators.features.estimator",
    "KernelPCA": "mercer.estimators.features.components",
    "KernelRegressor": "mercer.estimators.kernel.regressor",
    "LabelledKFold": "mercer.estimators.graph.folds",
    "LapLSClassifier": "mercer.estimators.graph.classifiers",
    "LapMEDClassifier": "mercer.estimators.graph.classifiers",
    "LapSVC": "mercer.estimators.graph.classifiers",
    "LeastSquaresClassifier": "mercer.estimators.least_squares.classifiers",
    "MEDClassifier": "mercer.estimators.discrimination.estimator",
    "MultiOutputGPRegressor": "mercer.estimators.gaussian_process.outputs",
    "NuSVC": "mercer.estimators.support_vector.nu",
    "NuSVR": "mercer.estimators.support_vector.nu",
    "OneClassSVM": "mercer.estimators.support_vector.nu",
    "OnlineLogisticClassifier": "mercer.estimators.online.estimator",
    "OnlineRegressor": "mercer.estimators.online.regressor",
    "ProbabilisticLeastSquaresClassifier": "mercer.estimators.least_squares.classifiers",
    "QueryRule": "mercer.estimators.shared.design.query",
    "QuantileRegressor": "mercer.estimators.quantile.estimator",
    "RiverClassifier": "mercer.estimators.online.river",
    "RiverRegressor": "mercer.estimators.online.river",
    "RVClassifier": "mercer.estimators.relevance_vector.classifier",
    "RVRegressor": "mercer.estimators.relevance_vector.regressor",
    "SVC": "mercer.estimators.support_vector.classifier",
    "SVR": "mercer.estimators.support_vector.regressor",
    "SmoothingSpline": "mercer.estimators.spline.estimator",
    "ThinPlateSpline": "mercer.estimators.spline.thin_plate.estimator",
    "TableClassifier": "mercer.tables.estimators",
    "TableModel": "mercer.tables.model",
    "TableRegressor": "mercer.tables.estimators",
    "check_inference_on": "mercer.referee.check",
    "compare": "mercer.estimators.shared.compare",
    "fit": "mercer.tables.fit",
    "load": "mercer.persist",
    "read_table": "mercer.tables.files.read",
    "save": "mercer.persist",
    "to_onnx": "mercer.export",
}
_ROOMS = (
    "basis", "export", "inference", "kernels", "losses", "persist", "plots", "process",
    "referee", "rkhs", "search", "testing",
)  # fmt: skip

_PUBLIC = ["__version__", *sorted([*_HOMES, *_ROOMS])]
if not TYPE_CHECKING:  # type checkers read the imports above
    __all__ = _PUBLIC


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
    return sorted(_PUBLIC)
