"""The record of a relevance vector machine: predictions are bit-identical."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin

from mercer.core.arrays import Array, Index
from mercer.core.basis import Basis
from mercer.core.kinds import Kind, Labels, Numbers, PartOf, Plain, PlainReport, Record, Rows
from mercer.core.record import COLUMNS, Each, Fields, Maybe, One
from mercer.estimators.relevance_vector.fit import Functions
from mercer.estimators.shared.record import LEFT_OUT, UNITS, MachineRecord, check_left_out
from mercer.estimators.shared.units import Units
from mercer.kernels.base import Kernel
from mercer.linalg.operators import CholeskyOperator
from mercer.losses.base import Loss
from mercer.process.features import Augmentation, Augmented, Sparse

_BIAS: dict[str, Kind] = {"bias": Plain(bool)}
_KERNEL: dict[str, Kind] = {"kernel": PartOf(Kernel), "centres": Numbers("q d")}
_COLUMNS: dict[str, Kind] = {"columns": Rows("q")}
_FORMS = {
    "kernel": Fields(Functions, _BIAS | _KERNEL),
    "columns": Fields(Functions, _BIAS | _COLUMNS),
    "own": Fields(Functions, {**_BIAS, "own": PartOf(Basis), **_COLUMNS}),
}


def _form(functions: Functions) -> str:
    if functions.kernel is not None:
        return "kernel"
    return "columns" if functions.own is None else "own"


def _sparse(functions: Functions, mu: Array, spread: CholeskyOperator) -> Sparse:
    count = len(functions.columns if functions.centres is None else functions.centres)
    if len(mu) != count + functions.bias:
        raise ValueError("there is not one weight for each function")
    return Sparse(functions, mu, spread)


def _augmented(a: Array, b: Array, variance: float, **given: Any) -> Augmented:
    sparse: Any = _sparse(**given)
    rows: Any = None  # the training rows are set by _augmented_rows
    added = Augmentation(sparse.functions.kernel, rows, rows, a, b, variance)
    return Augmented(sparse, added)


def _parts(process: Any) -> dict[str, Any]:
    found = {name: getattr(process, name) for name in ("functions", "mu", "spread")}
    if not isinstance(process, Augmented):
        return found
    return found | {name: getattr(process.added, name) for name in ("a", "b", "variance")}


_SPARSE = {
    "functions": One(_FORMS, _form),
    "mu": Numbers("p"),
    "spread": Fields(
        CholeskyOperator,
        {
            "cholesky": Numbers("p p", upper=True, diagonal="positive"),
            "scale": Numbers("p", 0.0),
        },
    ),
}
_ADDED = {"a": Numbers("n"), "b": Numbers("n"), "variance": Plain(float, 0.0, above=True)}
# q functions, with a bias p = q + 1; n training rows
SPARSE = One(
    {
        "Sparse": Fields(_sparse, _SPARSE, own="p q", parts=_parts),
        "Augmented": Fields(_augmented, _SPARSE | _ADDED, own="p q", parts=_parts),
    }
)


class RelevanceRecord(MachineRecord):
    """k machines (one for two classes) with M relevance vectors in all."""

    kernel_: Any  # a Kernel, or None
    relevance_rows_: Index
    relevance_vectors_: Array

    @classmethod
    def _record(cls) -> Record:
        classes: Record = {"classes_": Labels()} if issubclass(cls, ClassifierMixin) else {}
        k = "k" if classes else "1"
        return {
            **COLUMNS,
            **classes,
            "units_": UNITS,
            "kernel_": Maybe(PartOf(Kernel)),
            "losses_": Each(PartOf(Loss), "1"),
            "relevance_rows_": Rows("M"),
            "relevance_vectors_": Numbers("M d | 0 d"),
            "weights_": Numbers(f"{k} M"),
            "precisions_": Numbers(f"{k} M", 0.0, finite=False),
            "intercept_": Numbers(k),
            "n_iter_": Plain(int, 1),
            "log_evidence_": Plain(float),
            "left_out_": Maybe(LEFT_OUT),
            "report_": PlainReport(),
            "posteriors_": Each(SPARSE, k),
            "_augmented_rows": Maybe(Numbers("n d")),
        }

    @property
    def _augmented_rows(self) -> Array | None:
        """The training rows (n, d) of augmented predictions, which all machines share."""
        added = getattr(self.posteriors_[0], "added", None)
        return None if added is None else added.points

    @_augmented_rows.setter
    def _augmented_rows(self, points: Array | None) -> None:
        for process in self.posteriors_:
            if isinstance(process, Augmented) == (points is None):
                raise ValueError("augmented predictions, and they alone, need the training rows")
            if points is not None:
                F = process.functions(points).T
                process.added = replace(process.added, points=points, F=F)

    def _stored_params(self) -> dict[str, Any]:
        params = super()._stored_params()
        given, own = params["functions"], self.posteriors_[0].functions.own
        if own is None or isinstance(given, Basis) or given in (None, "columns"):
            return params
        return params | {"functions": own}  # a bare function is refused there, with the remedy

    def _settled(self, processes: list[Any], loss: Loss, units: Units) -> None:
        """Keep what the predictions need."""
        self.posteriors_, self.losses_, self.units_ = processes, [loss], units
        self.basis_, self.flat_ = None, len(processes) == 1
        self.loss_ = units.loss_in_user_units(loss)

    def _restored(self) -> None:
        self._settled(self.posteriors_, self.losses_[0], self.units_)

    def _check_fitted(self) -> None:
        kernels = {process.functions.kernel is None for process in self.posteriors_}
        if kernels != {self.kernel_ is None}:
            raise ValueError(
                "there must be a kernel, inside and outside, or functions of one's own"
            )
        rows = 0 if self.kernel_ is None else len(self.relevance_rows_)
        if len(self.relevance_vectors_) != rows:
            raise ValueError("relevance_vectors_ are the rows of a kernel's functions")
        check_left_out(self.left_out_, flat=True)
        if rows:
            point = self.units_.standardised(self.relevance_vectors_[:1])
            if not all(np.isfinite(p.mean(point)).all() for p in self.posteriors_):
                raise ValueError("the parts of the model do not belong to its arrays")
