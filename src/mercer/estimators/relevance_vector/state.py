"""State of a relevance vector machine for model files: predictions are bit-identical."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, cast

import numpy as np
from sklearn.base import ClassifierMixin

from mercer.core.arrays import Array
from mercer.core.basis import Basis
from mercer.estimators.relevance_vector.fit import Functions
from mercer.estimators.relevance_vector.schema import check_relevance_state
from mercer.estimators.shared.schema import (
    Resolve,
    finite,
    packed,
    packed_classes,
    packed_frame,
    packed_loo,
    packed_units,
    unpacked_frame,
    unpacked_loo,
    unpacked_units,
)
from mercer.estimators.shared.state import part_of
from mercer.kernels.base import Kernel
from mercer.linalg.operators import CholeskyOperator
from mercer.losses.base import Loss
from mercer.process.sparse import Augmentation, Augmented, Sparse


class RelevanceState:
    """The two directions between a fitted machine and (manifest, arrays)."""

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        machine = cast(Any, self)
        processes: list[Sparse] = machine.posteriors_
        first = cast(Functions, processes[0].functions)
        augmented = [p for p in processes if isinstance(p, Augmented)]
        arrays: dict[str, Array] = {}
        given, own = machine.functions, first.own
        if own is None or isinstance(given, Basis) or given in (None, "columns"):
            own = given  # else a bare function, which is refused there, with the remedy
        manifest = packed_frame(machine, arrays, functions=own) | {
            "kernel": packed(machine.kernel_, "kernel", arrays),
            "inside": packed(first.kernel, "inside", arrays),
            "own": packed(first.own, "own", arrays),
            "loss": packed(machine.losses_[0], "loss", arrays),
            "classes": packed_classes(machine.classes_) if hasattr(machine, "classes_") else None,
            "relevance": [int(i) for i in machine.relevance_rows_],
            "bias": bool(first.bias),
            "machines": [],
            "healed": [float(p.added.variance) for p in augmented] or None,
            "log_evidence": float(machine.log_evidence_),
            "iterations": int(machine.n_iter_),
            "report": finite(machine.report_),
        }
        arrays |= packed_units(machine.units_) | packed_loo(machine.left_out_)
        arrays |= {
            "relevance_vectors": machine.relevance_vectors_,
            "coefficients": machine.weights_,
            "intercept": machine.intercept_,
        }
        for j, process in enumerate(processes):
            places = np.flatnonzero(np.isfinite(machine.precisions_[j]))
            manifest["machines"].append([int(i) for i in places])
            arrays[f"{j}.precisions"] = machine.precisions_[j, places]
            arrays[f"{j}.mu"] = process.mu
            arrays |= {f"{j}.{k}": v for k, v in process.spread.state().items()}
            functions = cast(Functions, process.functions)
            if functions.centres is not None:
                arrays[f"{j}.centres"] = functions.centres
        for j, process in enumerate(augmented):
            arrays |= {"points": process.added.points}
            arrays |= {f"{j}.a": process.added.a, f"{j}.b": process.added.b}
        arrays = {k: np.asarray(v, dtype=np.float64) for k, v in arrays.items()}
        names, labelled = set(manifest["params"]), manifest["classes"] is not None
        check_relevance_state(manifest, arrays, names, labelled)
        return manifest, arrays

    @classmethod
    def _from_state(
        cls, manifest: Mapping[str, Any], arrays: Mapping[str, Array], resolve: Resolve
    ) -> Self:
        make = cast(Any, cls)
        names = set(make._get_param_names())
        check_relevance_state(manifest, arrays, names, issubclass(cls, ClassifierMixin))
        machine = unpacked_frame(make, manifest, arrays, resolve)
        machine.relevance_rows_ = np.array(manifest["relevance"], dtype=np.intp)
        machine.relevance_vectors_ = arrays["relevance_vectors"]
        machine.weights_, machine.intercept_ = arrays["coefficients"], arrays["intercept"]
        machine.precisions_ = np.full(machine.weights_.shape, np.inf)
        machine.n_iter_ = manifest["iterations"]
        machine.log_evidence_, machine.report_ = manifest["log_evidence"], manifest["report"]
        machine.left_out_ = unpacked_loo(arrays, machine.report_)
        if machine.left_out_ is None:
            told = "the file of this model was written before left-out figures were kept"
            machine.report_ = {"left_out": told} | machine.report_
        units = unpacked_units(arrays)
        parts = {name: manifest[name] for name in ("kernel", "inside")}
        outside, inside = (
            None if value is None else part_of(Kernel, value, arrays, resolve)
            for value in parts.values()
        )
        own = None
        if manifest["own"] is not None:
            own = part_of(Basis, manifest["own"], arrays, resolve)
        machine.kernel_ = outside
        processes: list[Sparse] = []
        for j, places in enumerate(manifest["machines"]):
            machine.precisions_[j, places] = arrays[f"{j}.precisions"]
            columns = () if inside is not None else tuple(manifest["relevance"][i] for i in places)
            functions = Functions(
                manifest["bias"], inside, arrays.get(f"{j}.centres"), own, columns
            )
            spread = CholeskyOperator(arrays[f"{j}.cholesky"], arrays[f"{j}.scale"])
            mu = arrays[f"{j}.mu"]
            if manifest["healed"] is None or inside is None:
                processes.append(Sparse(functions, mu, spread))
                continue
            points = arrays["points"]
            F = functions(points).T
            a, b, variance = arrays[f"{j}.a"], arrays[f"{j}.b"], manifest["healed"][j]
            added = Augmentation(inside, points, F, a, b, variance)
            processes.append(Augmented(functions, mu, spread, added))
        machine._settled(processes, part_of(Loss, manifest["loss"], arrays, resolve), units)
        if inside is not None and len(machine.relevance_vectors_):
            point = units.inside(machine.relevance_vectors_[:1])
            if not all(np.isfinite(p.mean(point)).all() for p in processes):
                raise ValueError("the parts of the model do not belong to its arrays")
        str(machine.summary())
        return cast(Self, machine)
