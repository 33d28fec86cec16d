"""State of a support vector machine for model files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self, cast

import numpy as np
from sklearn.base import ClassifierMixin

from mercer.core.arrays import Array
from mercer.estimators.shared.schema import (
    Resolve,
    finite,
    packed,
    packed_classes,
    packed_frame,
    unpacked,
    unpacked_frame,
)
from mercer.estimators.shared.state import part_of
from mercer.estimators.shared.stream import freeze, frozen
from mercer.estimators.support_vector.schema import check_support_state
from mercer.kernels.base import Kernel

ARRAYS = ("support_vectors_", "dual_coef_", "intercept_")


class SupportState:
    """The two directions between a fitted machine and (manifest, arrays)."""

    _freezes: ClassVar[tuple[str, ...]] = ()  # parameters that a stream does not let go of

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        machine = cast(Any, self)
        arrays: dict[str, Array] = {}
        manifest = packed_frame(machine, arrays, **frozen(machine)) | {
            "kernel": packed(machine.kernel_, "kernel", arrays),
            "support": [int(i) for i in machine.support_],
            "report": finite(machine.report_),
            "iterations": int(machine.n_iter_),
            "extra": {},
        }
        for name in ARRAYS:
            arrays[name] = np.ascontiguousarray(getattr(machine, name))
        if hasattr(machine, "classes_"):
            manifest["classes"] = packed_classes(machine.classes_)
        for name in self._extra_names():
            manifest["extra"][name] = packed(getattr(machine, name), f"extra.{name}", arrays)
        arrays = {k: np.asarray(v, dtype=np.float64) for k, v in arrays.items()}
        self._check_state(manifest, arrays)  # what is written can be read
        machine._check_params()
        return manifest, arrays

    @classmethod
    def _check_state(cls, manifest: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
        names = set(cast(Any, cls)._get_param_names())
        classes = issubclass(cls, ClassifierMixin)
        check_support_state(manifest, arrays, names, cls._extra_names(), classes)

    @classmethod
    def _from_state(
        cls, manifest: Mapping[str, Any], arrays: Mapping[str, Array], resolve: Resolve
    ) -> Self:
        cls._check_state(manifest, arrays)
        machine = unpacked_frame(cls, manifest, arrays, resolve)
        machine._check_params()
        freeze(machine)
        machine.kernel_ = part_of(Kernel, manifest["kernel"], arrays, resolve)
        machine.support_ = np.array(manifest["support"], dtype=np.intp)
        machine.report_ = manifest["report"]
        machine.n_iter_ = manifest["iterations"]
        for name in ARRAYS:
            setattr(machine, name, arrays[name])
        for name, value in manifest["extra"].items():
            setattr(machine, name, unpacked(value, arrays, resolve))
        machine._check_kernel()
        return cast(Self, machine)

    def _check_kernel(self) -> None:
        """Refuse a kernel that does not fit the arrays: predict one of the support vectors."""
        machine = cast(Any, self)
        rows = machine.support_
        if machine._precomputed():
            if not machine.kernel_.pairwise or rows.max(initial=-1) >= machine.n_features_in_:
                raise ValueError("a precomputed kernel has a column for each training row")
            return
        if machine.kernel_.pairwise:
            raise ValueError("the kernel is a precomputed one, and the parameter kernel is not")
        point = machine.support_vectors_[:1]
        if not np.isfinite(machine.posteriors_[0].mean(point)).all():
            raise ValueError("the kernel of the model does not belong to its support vectors")

    @classmethod
    def _extra_names(cls) -> tuple[str, ...]:
        """Names of further fitted attributes that a child stores."""
        return ()
