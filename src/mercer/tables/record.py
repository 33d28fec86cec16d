"""The record of a fitted table model: what a model file holds of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Self

from mercer.core.kinds import Labels, Numbers, Plain, Record, Rows, finite
from mercer.core.record import Each, Fields, Maybe, One, Recorded
from mercer.persist.pipelines import Step
from mercer.tables.choose.calibrated import SigmoidClassifier
from mercer.tables.choose.left_out import LeftOutTable
from mercer.tables.choose.ranking import Row
from mercer.tables.data.columns import Column
from mercer.tables.data.encode import DateFeatures

OWN: dict[str, type] = {"DateFeatures": DateFeatures, "SigmoidClassifier": SigmoidClassifier}
_TEXT, _FIGURE = Plain(str), Maybe(Plain(float))
_FIGURES = ("score", "error", "loss", "calibration", "evidence", "loo_bound")
_RANKED = {
    "name": _TEXT,
    "sentence": _TEXT,
    "chosen": Plain(bool),
    **dict.fromkeys(_FIGURES, _FIGURE),
    "seconds": Plain(float, 0.0),
    "size": Maybe(Plain(int, 0)),
    "by": _TEXT,
}
# of l rows that were left out
_LEFT_OUT = {
    "y": One(
        {"codes": Rows("l", rising=False), "values": Numbers("l")},
        lambda y: "values" if y.dtype.kind == "f" else "codes",
    ),
    "log_density": Numbers("l", finite=False),
    "mean": Maybe(Numbers("l", finite=False)),
    "std": Maybe(Numbers("l", finite=False)),
    "proba": Maybe(Numbers("l c", finite=False)),
    "by": _TEXT,
    "weights": Maybe(Numbers("l", 0.0)),
}


class TableRecord(Recorded):
    """n rows were used of the g that the table had."""

    kind_: str
    classes_: Any
    frame_: Any

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return nothing: a table model has no parameters, its pipeline has."""
        return {}

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return []

    @classmethod
    def _made(cls, params: dict[str, Any]) -> Self:
        return cls.__new__(cls)

    @classmethod
    def _record(cls) -> Record:
        return {
            "pipeline_": Step(OWN, whole=True),
            "kind_": Plain(str, among=("regression", "binary", "multiclass", "partly")),
            "target_": _TEXT,
            "classes_": Maybe(Labels()),
            "columns_": Each(Fields(Column, dict.fromkeys(("name", "kind", "rule"), _TEXT))),
            "ranking_": Each(Fields(Row, _RANKED, parts=lambda row: finite(asdict(row)))),
            "left_out_": Fields(LeftOutTable, _LEFT_OUT),
            "left_rows_": Rows("l", rising=False),
            "rows_": Rows("n", rising=False),
            "given_": Plain(int, 0, size="g"),
            "notes_": Each(_TEXT),
            "seconds_": Plain(float, 0.0),
            "influence_": Numbers("n", finite=False),
            "weights_": Maybe(Numbers("g", 0.0)),
            "weighted_by_": Maybe(_TEXT),
        }

    def _restored(self) -> None:
        self.frame_, self.interrupted_ = None, False  # a model file does not hold them

    def _check_fitted(self) -> None:
        if (self.classes_ is None) != (self.kind_ == "regression"):
            raise ValueError("a quantity has no classes, and everything else has some")
