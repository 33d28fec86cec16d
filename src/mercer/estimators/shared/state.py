"""State: what a fitted machine writes to a model file and builds itself from again.

The manifest holds plain values and parts by name; every array goes beside it under a key.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Self, TypeVar, cast

import numpy as np
from sklearn.base import is_classifier

from mercer.core.arrays import Array
from mercer.core.basis import Basis
from mercer.core.component import Component
from mercer.estimators.shared.schema import (
    Resolve,
    check_state,
    finite,
    packed,
    packed_classes,
    packed_frame,
    packed_loo,
    packed_units,
    unpacked,
    unpacked_frame,
    unpacked_loo,
    unpacked_units,
)
from mercer.estimators.shared.units import basis_inside
from mercer.kernels.base import Kernel
from mercer.linalg.line import LineOperator, state_space_of
from mercer.linalg.operators import PosteriorOperator, operator_from
from mercer.losses.base import Loss
from mercer.process.process import Posterior, Prior

P = TypeVar("P", bound=Component)


class Stateful:
    """The two directions between a fitted machine and (manifest, arrays)."""

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the JSON-able manifest and the arrays of a fitted machine."""
        machine = cast(Any, self)
        arrays: dict[str, Array] = {}
        labels = getattr(machine, "classes_", None)
        manifest = packed_frame(machine, arrays) | {
            "kernel": packed(machine.kernel_, "kernel", arrays),
            "loss": packed(machine.loss_, "loss", arrays),
            "basis": packed(machine.basis_, "basis", arrays),
            "classes": None if labels is None else packed_classes(labels),
            "flat": bool(machine.flat_),
            "log_evidence": None if machine.log_evidence_ is None else float(machine.log_evidence_),
            "report": finite(machine.report_),
            "draws": [],
        }
        arrays |= packed_units(machine.units_) | packed_loo(machine.left_out_)
        if machine.relevance_ is not None:
            arrays["relevance"] = machine.relevance_
        draws = zip(machine.posteriors_, machine.losses_, strict=True)
        for i, (posterior, loss) in enumerate(draws):
            manifest["draws"].append(
                {
                    "kernel": packed(posterior.parent.kernel, f"{i}.kernel", arrays),
                    "loss": packed(loss, f"{i}.loss", arrays),
                }
            )
            arrays[f"{i}.points"] = posterior.points
            arrays[f"{i}.alpha"] = posterior.alpha
            if posterior.beta is not None:
                arrays[f"{i}.beta"] = posterior.beta
            for key, value in posterior.operator.state().items():
                arrays[f"{i}.operator.{key}"] = value
        # in the order they have, row-major or column-major: BLAS rounds differently for the two
        arrays = {k: np.asarray(v, dtype=np.float64) for k, v in arrays.items()}
        check_state(manifest, arrays, set(manifest["params"]))  # what is written can be read
        return manifest, arrays

    @classmethod
    def _from_state(
        cls, manifest: Mapping[str, Any], arrays: Mapping[str, Array], resolve: Resolve
    ) -> Self:
        """Build the fitted machine again; predictions are bit-identical."""
        make = cast(Any, cls)
        check_state(manifest, arrays, set(make._get_param_names()))
        machine = unpacked_frame(make, manifest, arrays, resolve)
        units = unpacked_units(arrays)
        basis = None
        if manifest["basis"] is not None:
            basis = part_of(Basis, manifest["basis"], arrays, resolve)
            _check_basis(basis, manifest["n_features"], len(arrays["0.beta"]))
        machine.units_, machine.basis_ = units, basis
        machine.kernel_ = part_of(Kernel, manifest["kernel"], arrays, resolve)
        machine.loss_ = part_of(Loss, manifest["loss"], arrays, resolve)
        machine.flat_ = manifest["flat"]
        machine.log_evidence_ = manifest["log_evidence"]
        machine.report_ = manifest["report"]
        machine.left_out_ = unpacked_loo(arrays, machine.report_)
        machine.relevance_ = arrays.get("relevance")
        machine.posteriors_, machine.losses_ = [], []
        for i, draw in enumerate(manifest["draws"]):
            kernel = part_of(Kernel, draw["kernel"], arrays, resolve)
            machine.losses_.append(part_of(Loss, draw["loss"], arrays, resolve))
            alpha, points = arrays[f"{i}.alpha"], arrays[f"{i}.points"]
            head = f"{i}.operator."
            stored = {k[len(head) :]: v for k, v in arrays.items() if k.startswith(head)}
            machine.posteriors_.append(
                Posterior(
                    Prior(kernel, alpha.shape[1]),
                    points,
                    alpha,
                    _operator(stored, kernel, points),
                    beta=arrays.get(f"{i}.beta"),
                    basis=basis_inside(basis, units),
                )
            )
        machine._check_state()
        return cast(Self, machine)

    def _check_state(self) -> None:
        """Refuse parts that do not fit the arrays: predict one point, and write the summary."""
        machine = cast(Any, self)
        m = len(machine.units_.y_scale)
        for posterior, loss in zip(machine.posteriors_, machine.losses_, strict=True):
            point = posterior.points[:1]
            mean = posterior.mean(point)
            fine = mean.shape == (1, m) and np.isfinite(mean).all()
            if posterior.has_spread and not posterior.parent.kernel.pairwise:
                blocks = posterior.blocks(point)
                fine &= blocks.shape == (1, m, m) and np.isfinite(blocks).all()
                joint = loss.response == "multiclass"
                loss.predict(mean, blocks if joint else np.diagonal(blocks, axis1=1, axis2=2))
            if not fine:
                raise ValueError("the parts of the model do not belong to its arrays")
        if is_classifier(machine):
            classes = getattr(machine, "classes_", None)
            if classes is None or len(classes) != max(2, m):
                raise ValueError("the classes do not belong to the arrays of the model")
            units = machine.units_
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # this row has no column names
                machine.predict(units.outside(machine.posteriors_[0].points[:1]))
        str(machine.summary())


def part_of(kind: type[P], value: Any, arrays: Mapping[str, Array], resolve: Resolve) -> P:
    """Build a part that must be of a certain kind."""
    part = unpacked(value, arrays, resolve)
    if not isinstance(part, kind):
        raise ValueError(f"a {type(part).__name__} stands where a {kind.__name__} is wanted")
    return part


def _check_basis(basis: Basis, d: int, k: int) -> None:
    """Refuse a basis of another size than its coefficients, before its functions are formed."""
    size = basis.size(d)
    if size is not None and size != k:
        raise ValueError(f"{basis!r} does not have {k} functions of {d} columns")


def _operator(stored: Mapping[str, Array], kernel: Kernel, points: Array) -> PosteriorOperator:
    """Build the operator C of a posterior from its arrays; on a line it is the weights alone."""
    if "weights" not in stored:
        return operator_from(stored)
    states = state_space_of(kernel, points.shape[1])
    if states is None:
        raise ValueError("weights of an O(n) posterior belong to a Matern kernel on one column")
    return LineOperator.restored(states, points, stored)
