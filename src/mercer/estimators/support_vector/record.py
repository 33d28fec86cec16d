"""The record of a support vector machine: what a model file holds of it."""

from __future__ import annotations

from types import NoneType
from typing import Any, ClassVar, cast

import numpy as np
from sklearn.base import ClassifierMixin

from mercer.core.kinds import Labels, Numbers, PartOf, Plain, PlainReport, Record, Rows
from mercer.core.record import COLUMNS, Recorded
from mercer.estimators.shared.stream import freeze, frozen
from mercer.inference.base import Inference
from mercer.kernels.base import Kernel
from mercer.search.optimize import Search

_NUMBER = (int, float)
_PRECISIONS = ("float32", "float64")


class SupportRecord(Recorded):
    """k machines (one for two classes) on s support vectors of d columns."""

    _freezes: ClassVar[tuple[str, ...]] = ()  # parameters that a stream does not let go of
    _param_types: ClassVar[dict[str, tuple[type, ...]]] = {
        **dict.fromkeys(("C", "nu", "epsilon", "tol", "cache_size", "coef0", "degree"), _NUMBER),
        "gamma": (str, *_NUMBER),
        "kernel": (str, Kernel),
        "bias": (bool, int),
        "max_iter": (int,),
        "probability": (str, NoneType),
        "calibration": (str, NoneType),
        "inference": (str, Inference, NoneType),
        "search": (str, Search, NoneType),
        "discriminant": (str,),
        "class_weight": (str, dict, NoneType),
        "random_state": (int, NoneType),
    }

    @classmethod
    def _record(cls) -> Record:
        classes: Record = {"classes_": Labels()} if issubclass(cls, ClassifierMixin) else {}
        k = "k" if classes else "1"
        return {
            **COLUMNS,
            **classes,
            "kernel_": PartOf(Kernel),
            "intercept_": Numbers(k),
            "support_": Rows("s"),
            "support_vectors_": Numbers("s d"),
            "dual_coef_": Numbers(f"{k} s"),
            "n_iter_": Plain(int, 1),
            "report_": PlainReport(),
        }

    def _stored_params(self) -> dict[str, Any]:
        return super()._stored_params() | frozen(self)

    def _restored(self) -> None:
        freeze(self)

    def _check_fitted(self) -> None:
        """Refuse a kernel that does not fit the arrays: predict one of the support vectors."""
        machine = cast(Any, self)
        machine._check_params()
        if not str(machine.report_.get("precision")).startswith(_PRECISIONS):
            raise ValueError(f"the precision in the report is none of {', '.join(_PRECISIONS)}")
        if machine._precomputed():
            rows = machine.support_
            if not machine.kernel_.pairwise or rows.max(initial=-1) >= machine.n_features_in_:
                raise ValueError("a precomputed kernel has a column for each training row")
            return
        if machine.kernel_.pairwise:
            raise ValueError("the kernel is a precomputed one, and the parameter kernel is not")
        self._check_kernel()

    def _check_kernel(self) -> None:
        machine = cast(Any, self)
        if not np.isfinite(machine.posteriors_[0].mean(machine.support_vectors_[:1])).all():
            raise ValueError("the kernel of the model does not belong to its support vectors")


def check_sigmoid(slope: Any, offsets: Any, k: int, calibrated: bool) -> None:
    """Refuse a slope and offsets of other sizes than those of k calibrated machines."""
    wanted = ((1,), (k,)) if calibrated else ((0,), (0,))
    if (slope.shape, offsets.shape) != wanted:
        raise ValueError(
            f"slope_ and offsets_ have shapes {slope.shape} and {offsets.shape}, expected "
            f"{wanted[0]} and {wanted[1]}"
        )
