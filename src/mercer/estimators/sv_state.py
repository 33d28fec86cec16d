"""State of a support vector machine for model files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, cast

import numpy as np

from mercer.arrays import Array
from mercer.estimators.packing import Resolve, finite, packed, packed_param, unpacked
from mercer.estimators.stored import packed_classes, unpacked_classes

ARRAYS = ("support_vectors_", "dual_coef_", "intercept_")


class SupportState:
    """The two directions between a fitted machine and (manifest, arrays)."""

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        machine = cast(Any, self)
        arrays: dict[str, Array] = {}
        params = machine.get_params(deep=False)
        manifest: dict[str, Any] = {
            "params": {k: packed_param(v, f"params.{k}", arrays) for k, v in params.items()},
            "kernel": packed(machine.kernel_, "kernel", arrays),
            "n_features": int(machine.n_features_in_),
            "feature_names": None,
            "support": [int(i) for i in machine.support_],
            "report": finite(machine.report_),
            "iterations": int(machine.n_iter_),
            "extra": {},
        }
        if hasattr(machine, "feature_names_in_"):
            manifest["feature_names"] = [str(name) for name in machine.feature_names_in_]
        for name in ARRAYS:
            arrays[name] = np.ascontiguousarray(getattr(machine, name), dtype=np.float64)
        if hasattr(machine, "classes_"):
            manifest["classes"] = packed_classes(machine.classes_)
        for name in self._extra_names():
            manifest["extra"][name] = packed(getattr(machine, name), f"extra.{name}", arrays)
        return manifest, arrays

    @classmethod
    def _from_state(
        cls, manifest: Mapping[str, Any], arrays: Mapping[str, Array], resolve: Resolve
    ) -> Self:
        params = {k: unpacked(v, arrays, resolve) for k, v in manifest["params"].items()}
        machine = cast(Any, cls)(**params)
        machine.kernel_ = unpacked(manifest["kernel"], arrays, resolve)
        machine.n_features_in_ = manifest["n_features"]
        if manifest["feature_names"] is not None:
            machine.feature_names_in_ = np.array(manifest["feature_names"], dtype=object)
        machine.support_ = np.array(manifest["support"], dtype=np.intp)
        machine.report_ = manifest["report"]
        machine.n_iter_ = manifest["iterations"]
        for name in ARRAYS:
            setattr(machine, name, arrays[name])
        n, d = len(machine.support_), machine.n_features_in_
        k = len(machine.intercept_)
        shapes = [machine.support_vectors_.shape == (n, d), machine.dual_coef_.shape == (k, n)]
        finite = all(bool(np.all(np.isfinite(arrays[name]))) for name in ARRAYS)
        if not (all(shapes) and finite):
            raise ValueError("the arrays of the model do not belong together")
        if "classes" in manifest:
            machine.classes_ = unpacked_classes(manifest["classes"])
            if len(machine.classes_) != (2 if k == 1 else k):
                raise ValueError("the classes of the model do not fit its coefficients")
        for name, value in manifest["extra"].items():
            if name not in cls._extra_names():
                raise ValueError(f"the model has an unknown part {name!r}")
            setattr(machine, name, unpacked(value, arrays, resolve))
        return cast(Self, machine)

    @classmethod
    def _extra_names(cls) -> tuple[str, ...]:
        """Names of further fitted attributes that a child stores."""
        return ()
