"""TableState: a fitted table model as plain values and arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Self, cast

import numpy as np

from mercer.estimators.shared.schema import finite, packed_classes, unpacked_classes
from mercer.persist.pipelines import check_pipeline, packed_step, unpacked_step
from mercer.tables.choose.calibrated import SigmoidClassifier
from mercer.tables.choose.left_out import LeftOutTable
from mercer.tables.choose.ranking import Row
from mercer.tables.data.columns import Column
from mercer.tables.data.encode import DateFeatures

OWN: dict[str, type] = {"DateFeatures": DateFeatures, "SigmoidClassifier": SigmoidClassifier}
_LEFT = ("y", "log_density", "mean", "std", "proba", "weights")
KINDS = ("regression", "binary", "multiclass", "partly")


class TableState:
    """The two directions between a table model and (manifest, arrays)."""

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return nothing: a table model has no parameters, its pipeline has."""
        return {}

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        model = cast(Any, self)
        arrays: dict[str, Any] = {
            "rows": np.asarray(model.rows_, dtype=np.int64),
            "influence": np.asarray(model.influence_, dtype=np.float64),
            "left.rows": np.asarray(model.left_rows_, dtype=np.int64),
        }
        left = {n: getattr(model.left_out_, n) for n in _LEFT}
        arrays |= {f"left.{n}": a for n, a in left.items() if a is not None}
        state = {
            "pipeline": packed_step(model.pipeline_, "pipeline", arrays, OWN),
            "kind": model.kind_,
            "target": model.target_,
            "classes": None if model.classes_ is None else packed_classes(model.classes_),
            "columns": [asdict(c) for c in model.columns_],
            "ranking": [finite(asdict(r)) for r in model.ranking_],
            "by": model.left_out_.by,
            "given": int(model.given_),
            "notes": list(model.notes_),
            "seconds": float(model.seconds_),
            "weighted_by": model.weighted_by_,
        }
        if model.weights_ is not None:
            arrays["weights"] = np.asarray(model.weights_, dtype=np.float64)
        return state, arrays

    @classmethod
    def _from_state(cls, state: Mapping[str, Any], arrays: Mapping[str, Any], resolve: Any) -> Self:
        if state["kind"] not in KINDS:
            raise ValueError(f"the kind {state['kind']!r} is unknown")
        make: Any = cls
        left: dict[str, Any] = {n: arrays.get(f"left.{n}") for n in _LEFT}
        classes = state["classes"]
        model = make(
            check_pipeline(unpacked_step(state["pipeline"], "pipeline", arrays, OWN, resolve)),
            kind=state["kind"],
            target=state["target"],
            classes=None if classes is None else unpacked_classes(classes),
            columns=[Column(**c) for c in state["columns"]],
            ranking=[Row(**r) for r in state["ranking"]],
            left_out=LeftOutTable(**left, by=state["by"]),
            left_rows=arrays["left.rows"],
            rows=arrays["rows"],
            given=state["given"],
            notes=list(state["notes"]),
            seconds=state["seconds"],
            influence=arrays["influence"],
            weights=arrays.get("weights"),
            weighted_by=state.get("weighted_by"),  # files of the first versions have none
        )
        return cast(Self, model)
