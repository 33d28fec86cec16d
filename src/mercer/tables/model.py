"""TableModel: a pipeline fitted to a table, with the account of how it was chosen."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from html import escape
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline

from mercer.core.arrays import Array, Index
from mercer.core.kinds import Labels, Numbers, Plain, Record, Rows, finite
from mercer.core.record import Each, Fields, Later, Maybe, One, Recorded
from mercer.core.words import shown
from mercer.estimators.shared.design.propose import Proposal, proposed
from mercer.losses.base import ONE
from mercer.persist import save
from mercer.persist.pipelines import Step
from mercer.tables.choose.calibrated import SigmoidClassifier
from mercer.tables.choose.left_out import LeftOutTable
from mercer.tables.choose.notes import representation
from mercer.tables.choose.ranking import FIGURES, Row
from mercer.tables.choose.refit import cross_validate
from mercer.tables.data.columns import Column
from mercer.tables.data.encode import DateFeatures, encoded
from mercer.tables.data.frame import Frame, as_frame
from mercer.tables.judge.verdict import STORED, Verdict

OWN: dict[str, type] = {"DateFeatures": DateFeatures, "SigmoidClassifier": SigmoidClassifier}
_TEXT = Plain(str)
_COLUMN = {
    **dict.fromkeys(("name", "kind", "rule"), _TEXT),
    **dict.fromkeys(("low", "middle", "high"), Later(Plain(float))),
    "levels": Later(Each(_TEXT), []),
}
_RANKED = {
    "name": _TEXT,
    "sentence": _TEXT,
    "chosen": Plain(bool),
    **dict.fromkeys(FIGURES, Maybe(Plain(float))),
    "seconds": Plain(float, 0.0),
    "size": Maybe(Plain(int, 0)),
    "by": _TEXT,
    "doubts": Later(_TEXT, ""),
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
    "same": Later(Rows("l", rising=False)),
}

CAPTION = "ranked by the log density of rows left out, per row"


@dataclass(eq=False, repr=False)
class Listing:
    """The ranking of a :class:`TableModel`, best first; ``rows()`` gives plain dictionaries."""

    ranking: list[Row]
    kind: str

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries, e.g. for a data frame."""
        return [row.plain() for row in self.ranking]

    def head(self) -> list[str]:
        """Return the column names; the error is named by what it is."""
        quantity = self.kind == "regression"
        own = ("log density", "RMSE") if quantity else ("log probability", "error")
        return ["machine", *own, "calibration", "evidence", "LOO bound", "seconds", "size", "by"]

    def cells(self) -> list[list[str]]:
        """Return the rows as text."""
        return [row.cells() for row in self.ranking]

    def __str__(self) -> str:
        cells = [self.head(), *self.cells()]
        widths = [max(len(row[j]) for row in cells) for j in range(len(cells[0]))]
        sides = ["<", *[">"] * (len(widths) - 2), "<"]  # words left, numbers right
        lines = [
            "  ".join(f"{c:{s}{w}}" for c, s, w in zip(row, sides, widths, strict=True)).rstrip()
            for row in cells
        ]
        return "\n".join([CAPTION, *lines, *self.notes()])

    def notes(self) -> list[str]:
        """Return what makes the figures of a row doubtful; "!" marks the row."""
        return [f"! {row.name}: {row.doubts}" for row in self.ranking if row.doubts]

    __repr__ = __str__

    def _repr_html_(self) -> str:
        def line(cells: list[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{escape(c)}</{tag}>" for c in cells) + "</tr>"

        body = line(self.head(), "th") + "".join(line(row, "td") for row in self.cells())
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes())
        return f"<table><caption>{CAPTION}</caption>{body}</table>{notes}"


@dataclass(eq=False, repr=False)
class TableModel(Recorded):
    """What :func:`mercer.fit` returns: the best machine for a table, ready to predict tables.

    Attributes
    ----------
    pipeline_ : scikit-learn Pipeline with the steps "columns" (the encoder) and "machine".
    kind_ : "regression", "binary", "multiclass" or "partly" (labelled).
    target_ : the name of the target column.
    classes_ : (k,) the labels, or None for a quantity.
    columns_ : list of :class:`Column`: name, kind and rule of each input.
    ranking_ : list of :class:`Row`, best first: the candidates and their figures.
    left_out_ : :class:`LeftOutTable`, every training row predicted from the others.
    left_rows_ : (l,) which rows of the table these are.
    rows_ : (n,) the rows of the table that the machine was fitted to; ``given_``: how many it had.
    notes_ : list of str, what a reader should know.
    seconds_ : what the fit took.
    influence_ : (n,) the share of each of ``rows_`` in the coefficients of the machine.
    weights_ : (given_,) how often each row of the table counts; None: once.
    verdict_ : :class:`mercer.tables.judge.verdict.Verdict`, the model beside the simplest ones and
        beside trees; None in files of older versions.
    weighted_by_ : the column that the weights came from; None: there are none, or an array.
    interrupted_ : whether a person ended the fit early; a model file does not hold it.
    frame_ : the table itself; None after loading: a model file does not hold it.
    """

    pipeline_: Pipeline
    kind_: str
    target_: str
    classes_: NDArray[Any] | None
    columns_: list[Column]
    ranking_: list[Row]
    left_out_: LeftOutTable
    left_rows_: Index
    rows_: Index
    given_: int
    notes_: list[str]
    seconds_: float
    influence_: Array
    frame_: Frame | None = None
    weights_: Array | None = None
    weighted_by_: str | None = None
    interrupted_: bool = False
    verdict_: Verdict | None = None

    # ------------------------------------------------------------------ what it is
    @property
    def machine_(self) -> Any:
        """The fitted machine, the last step of the pipeline."""
        return self.pipeline_.named_steps["machine"]

    @property
    def learns_unlabelled_(self) -> bool:
        """Whether the machine learned from rows without a label, too."""
        return hasattr(self.machine_, "held_out_proba")

    @property
    def representation_(self) -> dict[str, Any]:
        """How the machine knows its rows: "form", "rows", "points", "bounds", ..., and "words"."""
        return representation(self.machine_, len(self.rows_), self.given_)

    @property
    def chosen_(self) -> Row:
        """The row of the ranking that was refitted."""
        return next(row for row in self.ranking_ if row.chosen)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the columns that the machine uses, in order."""
        return np.array([c.name for c in self.columns_ if c.used], dtype=object)

    def __repr__(self) -> str:
        size = f"{len(self.feature_names_in_)} columns and {len(self.rows_)} rows"
        what = f"{self.kind_} of '{shown(self.target_)}' by {self.chosen_.name}"
        return f"<TableModel: {what} from {size}>"

    # ------------------------------------------------------------------ predictions
    def encode(self, table: Any) -> Array:
        """Return the rows of a table as the machine sees them, (n, d)."""
        frame = as_frame(table)
        lost = [name for name in self.feature_names_in_ if name not in frame.columns]
        if lost:
            names = ", ".join(f"'{shown(n, 40)}'" for n in lost[:8])
            raise ValueError(f"the table lacks {len(lost)} columns of the model: {names}")
        for column in (c for c in self.columns_ if c.used):
            stored = frame.kind(column.name)
            wanted = {"numeric": "number", "date": "date"}.get(column.kind, "text")
            if stored != wanted and not bool(frame.missing(column.name).all()):
                raise ValueError(
                    f"column '{shown(column.name)}' holds {stored}s here and {wanted}s in training"
                )
        X: Array = encoded(self.pipeline_.named_steps["columns"], frame, self.columns_)
        return X

    def predict(self, table: Any, return_std: bool = False) -> Any:
        """Return the prediction of each row (n,): a quantity, or the most probable class.

        With ``return_std`` also the standard deviation of a new observation, for a quantity.
        """
        X = self.encode(table)
        if not return_std:
            return self.machine_.predict(X)
        self._must(self.classes_ is None, "a class has no standard deviation: use predict_proba")
        return self.machine_.predict(X, return_std=True)

    def predict_proba(self, table: Any) -> Array:
        """Return the probability of each class (n, k), in the order of ``classes_``."""
        self._must(self.classes_ is not None, "a quantity has no classes: use predict_interval")
        return np.asarray(self.machine_.predict_proba(self.encode(table)))

    def predict_interval(self, table: Any, coverage: float = 0.9) -> Any:
        """Return (low, high), (n,) each: the central interval of a new observation."""
        self._must(self.classes_ is None, "a class has no interval: use predict_proba")
        return self.machine_.predict_interval(self.encode(table), coverage=coverage)

    def predict_spread(self, table: Any) -> Array:
        """Return half the width of the central 68 % interval of a new observation, (n,).

        A standard deviation where the noise is Gaussian; finite where that is infinite.
        """
        low, high = self.predict_interval(table, ONE)
        return np.asarray(0.5 * (high - low))

    def propose(self, table: Any, n: int = 1, by: str = "auto", **wanted: Any) -> Proposal:
        """Return the n rows of a table to observe next; see ``GPRegressor.propose``."""
        if wanted.get("at") is not None:
            wanted["at"] = self.encode(wanted["at"])
        return proposed(self.machine_, self.encode(table), n, by, **wanted)

    def _must(self, fine: bool, sentence: str) -> None:
        if not fine:
            raise AttributeError(sentence)

    # ------------------------------------------------------------------ accounts
    def check(self, table: Any = None, folds: int = 5, progress: Any = False) -> LeftOutTable:
        """Return the figures of the chosen machine by cross-validation, everything fitted anew.

        ``table`` is the training table, needed after loading; hyperparameters are searched again
        in each fold, from those found. Weights are those of the fit.
        """
        return cross_validate(self, table, folds, progress)

    def compare(self) -> Listing:
        """Return the ranking as a table: text, or HTML in a notebook."""
        return Listing(self.ranking_, self.kind_)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write the report, one HTML file that opens without a network (needs ``mercer[report]``).

        It shows the training rows, so that it is there after fitting, not after loading.
        """
        from mercer.tables.report import table_report, write_report

        write_report(os.fspath(path), table_report(self))

    def plot(self, what: str = "auto", ax: Any = None) -> Any:
        """Draw the model with matplotlib and return the display (needs ``mercer[report]``).

        ``what`` is one of the pictures of the report; an unknown name is answered with the list.
        """
        from mercer.tables.report import draw

        return draw(self, what, ax)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, as :func:`mercer.save` does."""
        save(self, path)

    def _onnx_inputs(self) -> Any:
        """Return the columns, the encoder and the estimator, for :func:`mercer.to_onnx`."""
        from mercer.tables.onnx import taken_apart

        return taken_apart(self)

    # ------------------------------------------------------------------ model files
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
        # n rows were used of the g that the table had
        return {
            "pipeline_": Step(OWN, whole=True),
            "kind_": Plain(str, among=("regression", "binary", "multiclass", "partly")),
            "target_": _TEXT,
            "classes_": Maybe(Labels()),
            "columns_": Each(Fields(Column, _COLUMN)),
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
            "verdict_": STORED,
        }

    def _restored(self) -> None:
        self.frame_, self.interrupted_ = None, False  # a model file does not hold them

    def _check_fitted(self) -> None:
        if (self.classes_ is None) != (self.kind_ == "regression"):
            raise ValueError("a quantity has no classes, and everything else has some")
        if [name for name, _ in self.pipeline_.steps] != ["columns", "machine"]:
            raise ValueError("the steps of the pipeline are not columns and machine")
        encoder, machine = (step for _, step in self.pipeline_.steps)
        columns = getattr(encoder, "n_features_in_", None)
        if not isinstance(encoder, ColumnTransformer) or columns != len(self.feature_names_in_):
            raise ValueError("the encoder is not one of the columns that the model uses")
        if not (hasattr(machine, "predict") and any(row.chosen for row in self.ranking_)):
            raise ValueError("the machine cannot predict, or none of the ranking was chosen")
        if self.classes_ is not None and not np.array_equal(machine.classes_, self.classes_):
            raise ValueError("the classes of the model are not those of its machine")
