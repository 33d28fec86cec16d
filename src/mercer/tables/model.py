"""TableModel: what is fitted to a table says: predictions, and how the machine was chosen."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from mercer.core.arrays import Array, Index
from mercer.core.kinds import Labels, Numbers, Plain, PlainReport, Record, Resolve, Rows, finite
from mercer.core.record import Each, Fields, Later, Maybe, One, Recorded
from mercer.core.words import shown
from mercer.estimators.additive.terms import Coefficient
from mercer.estimators.shared.design.propose import Proposal, proposed
from mercer.left_out.check import FitCheck
from mercer.persist import save
from mercer.persist.pipelines import Step
from mercer.tables.choose.calibrated import SigmoidClassifier
from mercer.tables.choose.left_out import LeftOutTable
from mercer.tables.choose.notes import representation
from mercer.tables.choose.ranking import FIGURES, Listing, Row
from mercer.tables.choose.refit import cross_validate
from mercer.tables.data.columns import Column
from mercer.tables.data.encode import DateFeatures, encoded
from mercer.tables.data.frame import Frame, as_frame
from mercer.tables.data.inputs import inputs_of
from mercer.tables.data.reading import READ, Reading
from mercer.tables.judge.bounds import check_bound
from mercer.tables.judge.check import check_table, slopes_of
from mercer.tables.judge.verdict import STORED, Verdict
from mercer.tables.stack.machine import StackedClassifier, StackedRegressor, members_of

OWN: dict[str, type] = {
    cls.__name__: cls
    for cls in (DateFeatures, SigmoidClassifier, StackedClassifier, StackedRegressor)
}
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
    "charge": Later(Plain(float, 0.0), 0.0),
    "below": Later(Maybe(Numbers("l", 0.0))),
}


class TableModel(Recorded):
    """What :func:`mercer.fit` returns: the best machine for a table, ready to predict tables.

    It is a :class:`~mercer.TableRegressor` or a :class:`~mercer.TableClassifier`, which are fitted
    to X and y as well; this is what they have in common.

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
    report_ : a dictionary of plain values; "time" has the "budget", what was
        "expected" before the search began and what was "used", in seconds, and "bound": what the
        budget has changed. Where that is empty, a fit to the same
        rows gives the same model, however fast the machine is. "target" says what no prediction is
        below ("at_least"): zero, if no target was.
    influence_ : (n,) the share of each of ``rows_`` in the coefficients of the machine.
    weights_ : (given_,) how often each row of the table counts; None: once.
    verdict_ : :class:`mercer.tables.judge.verdict.Verdict`, the model beside the simplest ones and
        beside trees; None in files of older versions.
    weighted_by_ : the column that the weights came from; None: there are none, or an array.
    grouped_by_, ordered_by_ : the columns of groups, and of times, by which rows were left out;
        None where each row stands for itself. ``groups_beside_``: whether the groups came beside
        the table, as an array.
    inputs_ : how new rows are read: "table", columns are found by name, others do not matter; "X",
        the same columns in the same order; "array", as many columns.
    n_features_in_ : the number of input columns; ``feature_names_in_`` (d,) their names, if any.
    interrupted_ : whether a person ended the fit early; a model file does not hold it.
    reading_ : what the file was taken for that the table was read from; None: it came from
        elsewhere. Where another file leaves its decimal mark or the order of its dates open, they
        are as they were here.
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
    report_: dict[str, Any]
    influence_: Array
    frame_: Frame | None
    weights_: Array | None
    weighted_by_: str | None
    grouped_by_: str | None
    groups_beside_: bool
    ordered_by_: str | None
    inputs_: str
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    interrupted_: bool
    verdict_: Verdict | None
    reading_: Reading | None
    _lacks: ClassVar[dict[str, str]] = {}  # what a child cannot do, and what to do instead

    # ------------------------------------------------------------------ what it is
    @property
    def machine_(self) -> Any:
        """The fitted machine, the last step of the pipeline."""
        return self.pipeline_.named_steps["machine"]

    @property
    def learns_unlabelled_(self) -> bool:
        """Whether the machine learned from rows without a label, too."""
        return any(hasattr(m, "held_out_proba") for _, m in members_of(self.machine_))

    @property
    def representation_(self) -> dict[str, Any]:
        """How the machine knows its rows: "form", "rows", "points", "bounds", ..., and "words"."""
        return representation(self.machine_, len(self.rows_), self.given_)

    @property
    def chosen_(self) -> Row:
        """The row of the ranking that was refitted."""
        return next(row for row in self.ranking_ if row.chosen)

    @property
    def used_(self) -> list[str]:
        """The names of the columns that the machine uses, in order."""
        return [c.name for c in self.columns_ if c.used]

    def __sklearn_is_fitted__(self) -> bool:
        return "pipeline_" in vars(self)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        if not self.__sklearn_is_fitted__():
            return str(super().__repr__(N_CHAR_MAX))  # type: ignore[call-arg]  # scikit-learn's
        size = f"{len(self.used_)} columns and {len(self.rows_)} rows"
        what = f"{self.kind_} of '{shown(self.target_)}' by {self.chosen_.name}"
        return f"<{type(self).__name__}: {what} from {size}>"

    def __getattr__(self, name: str) -> Any:
        odd = f"'{type(self).__name__}' object has no attribute '{name}'"
        raise AttributeError(type(self)._lacks.get(name, odd))

    # ------------------------------------------------------------------ predictions
    def encode(self, table: Any) -> Array:
        """Return the rows of a table as the machine sees them, (n, d)."""
        check_is_fitted(self)
        frame = as_frame(table) if self.inputs_ == "table" else inputs_of(self, table)
        lost = [name for name in self.used_ if name not in frame.columns]
        lost = [name for name in lost if name != self.grouped_by_]  # all groups are new
        if lost:
            names = ", ".join(f"'{shown(n, 40)}'" for n in lost[:8])
            raise ValueError(f"the table lacks {len(lost)} columns of the model: {names}")
        for column in (c for c in self.columns_ if c.used and c.kind != "group"):
            stored = frame.kind(column.name)
            wanted = {"numeric": "number", "date": "date"}.get(column.kind, "text")
            if stored != wanted and not bool(frame.missing(column.name).all()):
                raise ValueError(
                    f"column '{shown(column.name)}' holds {stored}s here and {wanted}s in training"
                )
        X: Array = encoded(self.pipeline_.named_steps["columns"], frame, self.columns_)
        return X

    def propose(self, table: Any, n: int = 1, by: str = "auto", **wanted: Any) -> Proposal:
        """Return the n rows of a table to observe next; see ``GPRegressor.propose``.

        Of a combination the member of the greatest weight proposes.
        """
        if wanted.get("at") is not None:
            wanted["at"] = self.encode(wanted["at"])
        machine = max(members_of(self.machine_), key=lambda pair: pair[0])[1]
        return proposed(machine, self.encode(table), n, by, **wanted)

    def _target_in(self, table: Any) -> Any:
        """Return the values of the target in a table, which has them under its name."""
        frame = as_frame(table)
        if self.target_ not in frame.columns:
            raise ValueError(f"the table has no column '{shown(self.target_)}': give y")
        return frame.columns[self.target_]

    # ------------------------------------------------------------------ accounts
    def cross_validate(
        self, table: Any = None, folds: int = 5, progress: Any = False
    ) -> LeftOutTable:
        """Return the figures of the chosen machine by cross-validation, everything fitted anew.

        ``table`` is the training table, needed after loading; hyperparameters are searched again
        in each fold, from those found. Weights are those of the fit.
        """
        return cross_validate(self, table, folds, progress)

    def check(self, table: Any = None) -> FitCheck:
        """Return what the residuals of rows left out say of the model, in words and in a picture.

        Whether its deviations are honest, whether residuals of neighbours are alike along any
        column, which rows it leans on, and whether the search ended well: see
        :meth:`GPRegressor.check`; ``plot("check")`` draws it. ``table`` is the training table,
        needed after loading.
        """
        return check_table(self, table)

    def coefficients(self) -> list[Coefficient]:
        """Return the slopes, with errors, of a model that is a straight line; else an empty list.

        What the target, or the log odds of the second class, gains when a number grows by one
        deviation of its column, or for a category against the average of its column.
        """
        return slopes_of(self)

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
    @classmethod
    def _from_state(cls, stored: Any, resolve: Resolve) -> Self:
        if cls is not TableModel:
            return super()._from_state(stored, resolve)
        # as files of earlier versions name it
        from mercer.tables.estimators import TableClassifier, TableRegressor

        quantity = isinstance(stored, dict) and stored.get("kind_") == "regression"
        child: Any = TableRegressor if quantity else TableClassifier
        return child._from_state(stored, resolve)  # type: ignore[no-any-return]  # one of the two

    def _stored_params(self) -> dict[str, Any]:
        return {**super()._stored_params(), "progress": False}  # a bar is not part of a model

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
            "grouped_by_": Later(_TEXT),
            "groups_beside_": Later(Plain(bool), False),
            "ordered_by_": Later(_TEXT),
            "verdict_": STORED,
            "inputs_": Later(Plain(str, among=("table", "X", "array")), "table"),
            "report_": Later(PlainReport(), {}),
            "reading_": READ,
        }

    def _restored(self) -> None:
        self.frame_, self.interrupted_ = None, False  # a model file does not hold them
        self._name_inputs()

    def _name_inputs(self) -> None:
        """Say how many columns a new table has, and their names, from those of the fit."""
        every = [c.name for c in self.columns_ if not (self.groups_beside_ and c.kind == "group")]
        self.n_features_in_ = len(every)
        if self.inputs_ != "array":
            self.feature_names_in_ = np.array(every, dtype=object)

    def _check_fitted(self) -> None:
        check_bound(self.report_)
        if self.groups_beside_ and self.grouped_by_ is None:
            raise ValueError("groups that came beside the table have no name")
        if (self.classes_ is None) != (self.kind_ == "regression"):
            raise ValueError("a quantity has no classes, and everything else has some")
        if [name for name, _ in self.pipeline_.steps] != ["columns", "machine"]:
            raise ValueError("the steps of the pipeline are not columns and machine")
        encoder, machine = (step for _, step in self.pipeline_.steps)
        columns = getattr(encoder, "n_features_in_", None)
        if not isinstance(encoder, ColumnTransformer) or columns != len(self.used_):
            raise ValueError("the encoder is not one of the columns that the model uses")
        places: list[Any] = []
        for _, _, where in encoder.transformers_:
            places += where if isinstance(where, list) else [where]
        if not all(type(j) is int for j in places) or sorted(places) != list(range(columns)):
            raise ValueError("the encoder does not take every column once")
        if not (hasattr(machine, "predict") and any(row.chosen for row in self.ranking_)):
            raise ValueError("the machine cannot predict, or none of the ranking was chosen")
        if self.classes_ is not None and not np.array_equal(machine.classes_, self.classes_):
            raise ValueError("the classes of the model are not those of its machine")
