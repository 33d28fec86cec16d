"""A model at one version: immutable, so that predictions go on while the next one is learned."""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
from sklearn.pipeline import Pipeline

import mercer
from mercer.app.fit import check_kernel
from mercer.app.stream.learner import KINDS, PARAMETERS, make
from mercer.app.stream.rows import text_of, values_of, with_words
from mercer.app.terminal import AppError, quoted
from mercer.core.arrays import Array
from mercer.core.words import shown
from mercer.serve.limits import RefusedError, bad
from mercer.serve.messages import Cell, Creation
from mercer.serve.models.figures import NOTHING, Sums, before_classes, before_quantity, own_figures
from mercer.serve.rows.read import SentColumns, labels, matrix, numbers, word_columns
from mercer.tables import TableModel
from mercer.tables.data.frame import objects

LEARNERS = (
    mercer.OnlineLogisticClassifier,
    mercer.OnlineRegressor,
    mercer.MEDClassifier,
    mercer.LapMEDClassifier,
)
_REFUSED = (ValueError, TypeError, ArithmeticError, MemoryError, AppError)


class LoggedBatch(msgspec.Struct, frozen=True):
    """Rows as they stand in the log: the learner is given exactly these."""

    inputs: list[str]
    words: list[str]
    shape: tuple[int, int]
    X: bytes  # float64, or the JSON of objects if there are words
    y: bytes  # float64 of a quantity, or the JSON of labels as text, null for none

    def matrix(self) -> Any:
        """Return the inputs (n, d)."""
        if not self.words:
            return np.frombuffer(self.X, dtype="<f8").reshape(self.shape).copy()
        rows = msgspec.json.decode(self.X, type=list[list[float | str]])
        X = np.empty(self.shape, dtype=object)
        for i, row in enumerate(rows):
            X[i] = row
        return X

    def labels(self) -> list[str | None]:
        """Return the labels as text."""
        return msgspec.json.decode(self.y, type=list[str | None])

    def targets(self) -> Array:
        """Return the values of a quantity (n,)."""
        return np.frombuffer(self.y, dtype="<f8").copy()


class KeptState(msgspec.Struct, frozen=True):
    """A checkpoint."""

    inputs: list[str] | None
    words: list[str]
    sums: Sums
    model: bytes | None  # a model file; None before the first batch


@dataclass(frozen=True)
class State:
    """A model at one version."""

    about: Creation | None  # how the learner was made; None: uploaded or fitted
    model: Any  # None of a learner before its first batch
    inputs: list[str] | None
    words: list[str]
    target: str | None
    sums: Sums = NOTHING

    # ------------------------------------------------------------------ what it is
    @property
    def machine(self) -> Any:
        """The estimator itself, the last step of a pipeline."""
        if isinstance(self.model, TableModel):
            return self.model.machine_
        return self.model.steps[-1][1] if isinstance(self.model, Pipeline) else self.model

    @property
    def learns(self) -> bool:
        """Whether it takes further batches."""
        if self.model is None:
            return True
        table = isinstance(self.model, TableModel)
        return not table and isinstance(self.machine, LEARNERS)

    @property
    def quantity(self) -> bool:
        """Whether it predicts a quantity, not a class."""
        if self.model is None:
            return self.about is not None and self.about.learner == "quantity"
        return not hasattr(self.machine, "classes_")

    @property
    def partly(self) -> bool:
        """Whether it learns from rows without a label."""
        if self.model is None:
            return self.about is not None and self.about.learner == "lapmed"
        return isinstance(self.machine, mercer.LapMEDClassifier)

    @property
    def classes(self) -> list[Cell] | None:
        """The labels; None of a quantity, and where they are not known yet."""
        if self.model is None:
            return None if self.about is None else self.about.classes
        return None if self.quantity else self.machine.classes_.tolist()

    @property
    def points(self) -> int | None:
        """How many points a stream keeps."""
        machine = self.machine
        for kept in (getattr(machine, "stream_", None), *getattr(machine, "posteriors_", ())):
            if hasattr(kept, "points"):
                return len(kept.points)
        kept = getattr(machine, "support_vectors_", None)
        return None if kept is None else len(kept)

    @property
    def change(self) -> float | None:
        """Which share of the function the last batch renewed; None if drift is not looked for."""
        if getattr(self.machine, "drift", None) != "auto":
            return None
        share = self.machine.report_["drift"].get("share")
        return None if share is None else float(share)

    @property
    def notes(self) -> list[str]:
        """What the machine itself says that its user should know."""
        report = None if self.model is None else getattr(self.machine, "report_", None)
        if not isinstance(report, dict):
            return []
        scales = report.get("scales")
        found = [scales.get("message") if isinstance(scales, dict) else None]
        found += [report.get("slack"), report.get("schedule")]
        return [text for text in found if isinstance(text, str)]

    # ------------------------------------------------------------------ learning
    def batch(self, columns: SentColumns) -> LoggedBatch:
        """Return the rows of a request as they would be learned, or refuse them."""
        if self.target is None or not self.learns:
            raise RefusedError(
                409, "fixed", "this model does not learn from streams: it predicts only"
            )
        names = self.inputs or [name for name in columns.values if name != self.target]
        columns.check([*names, self.target])
        words = word_columns(columns, names) if self.model is None else self.words
        X = matrix(columns, names, words)
        if self.quantity:
            y = numbers(columns.values[self.target], self.target, columns.texts).tobytes()
        else:
            texts = labels(columns, self.target, self.partly)
            self._check(texts)
            y = msgspec.json.encode(texts)
        packed = msgspec.json.encode(X.tolist()) if words else X.tobytes()
        return LoggedBatch(names, words, (len(X), len(names)), packed, y)

    def _check(self, texts: Sequence[str | None]) -> None:
        """Refuse a label that is none of the classes, and a first batch of one class."""
        given = self.classes
        if given is None:
            if len({text for text in texts if text is not None}) < 2:
                raise bad(
                    "the first batch has fewer than two classes: give more rows, or name all "
                    "classes when the model is created",
                    column=self.target,
                )
            return
        if getattr(self.machine, "new_classes", None) in ("extend", "grow", True):
            return
        known = {text_of(label) for label in given}
        for i, text in enumerate(texts):
            if text is not None and text not in known:
                raise bad(
                    f"row {i + 1}: the label '{shown(text, 40)}' is none of the classes "
                    f"{quoted(sorted(known))}",
                    row=i + 1,
                    column=self.target,
                )

    def learned(self, batch: LoggedBatch) -> State:
        """Return the state after a batch; this one stays as it is, whatever happens."""
        begun = self.model is not None
        if (self.inputs or batch.inputs) != batch.inputs or (begun and batch.words != self.words):
            raise RefusedError(
                409,
                "again",
                f"the inputs are {quoted(self.inputs or [])} by the first batch, which was learned "
                "while this one was on its way: send it again",
                retry=1,
            )
        model = _twin(self.model) if begun else self._fresh(batch)
        machine = model.steps[-1][1] if isinstance(model, Pipeline) else model
        X: Any = batch.matrix()
        try:
            if isinstance(model, Pipeline):
                front = model[:-1]
                X = np.asarray(front.transform(X) if begun else front.fit_transform(X))
            if self.quantity:
                y: Any = batch.targets()
                sums = before_quantity(machine, X, y) if begun else Sums()
                machine.partial_fit(X, y)
            else:
                y, classes = self._coded(batch.labels(), begun)
                sums = before_classes(machine, X, y) if begun else Sums()
                old = getattr(machine, "prequential_", None)
                given = y if self.partly else np.array(y.tolist())
                machine.partial_fit(X, given, classes=classes)
                sums = own_figures(machine, old, sums)
        except _REFUSED as error:
            raise bad(f"rows 1 to {len(X)}: {error}") from None
        counted = msgspec.structs.replace(sums, rows=batch.shape[0])
        return replace(
            self,
            model=model,
            inputs=batch.inputs,
            words=batch.words,
            sums=self.sums + counted,
        )

    def _fresh(self, batch: LoggedBatch) -> Any:
        about = self.about
        assert about is not None
        model = fresh(about)
        return with_words(model, batch.inputs, batch.words) if batch.words else model

    def _coded(self, texts: list[str | None], begun: bool) -> tuple[Any, list[Any] | None]:
        """Return the labels (n,) as the learner has them, and at first all classes."""
        given = self.classes
        if given is None:
            value = values_of(sorted({text for text in texts if text is not None}))
        elif begun:
            value = {text_of(label): label for label in given}
        else:
            value = values_of([text_of(label) for label in given])
        y = objects(None if text is None else value.get(text, text) for text in texts)
        return y, None if begun else list(value.values())

    # ------------------------------------------------------------------ predictions
    def rows(self, columns: SentColumns) -> Any:
        """Return what :meth:`predict` is given for the rows of a request, or refuse them."""
        if self.model is None:
            raise RefusedError(409, "empty", "this model has not learned a batch yet")
        names = self.inputs or []
        columns.check(names, [] if self.target is None else [self.target])
        if isinstance(self.model, TableModel):
            kinds = {c.name: c.kind for c in self.model.columns_ if c.used}
            return _encoded(self.model, columns, names, kinds)
        return matrix(columns, names, self.words)

    def predict(self, X: Any, coverage: float = 0.9) -> dict[str, list[Cell]]:
        """Return the predictions for X (n, d) as columns, those of ``mercer predict``."""
        machine = self.machine
        if isinstance(machine, mercer.OnlineLogisticClassifier) and self.model is machine:
            p = machine.predict_proba(X)
            names = [f"p_{label}" for label in machine.classes_.tolist()]
            chosen = machine.classes_[p.argmax(axis=1)].tolist()
            return {"prediction": chosen, **dict(zip(names, p.T.tolist(), strict=True))}
        if isinstance(machine, mercer.OnlineRegressor) and self.model is machine:
            mean, std = machine.predict(X, return_std=True)
            low, high = machine.predict_interval(X, coverage=coverage)
            each = {"prediction": mean, "std": std, "low": low, "high": high}
            return {name: values.tolist() for name, values in each.items()}
        from mercer.app.predict import predictions

        fitted = machine if isinstance(self.model, TableModel) else self.model
        try:
            found = predictions(fitted, X, np.ones(len(X), dtype=bool), coverage)
        except _REFUSED as error:
            raise bad(str(error)) from None
        return {name: np.asarray(values).tolist() for name, values in found.items()}

    # ------------------------------------------------------------------ files
    def kept(self) -> bytes:
        """Return the checkpoint of this state."""
        model = None if self.model is None else _file_of(self.model)
        return msgspec.msgpack.encode(KeptState(self.inputs, self.words, self.sums, model))

    def exported(self) -> bytes:
        """Return a model file, which ``mercer predict`` and ``mercer stream --from`` take."""
        if self.model is None:
            raise RefusedError(409, "empty", "this model has not learned a batch yet")
        if not self.learns:
            return _file_of(self.model)
        model, told = _twin(self.model), {"target": self.target, "words": self.words}
        machine = model.steps[-1][1] if isinstance(model, Pipeline) else model
        machine.report_ = machine.report_ | {"table": told | {"rows": self.sums.rows}}
        first = model
        if isinstance(model, Pipeline):
            first = copy.copy(model.steps[0][1])
            model.steps[0] = (model.steps[0][0], first)
        first.feature_names_in_ = np.array(self.inputs, dtype=object)
        return _file_of(model)

    def restored(self, kept: bytes) -> State:
        """Return the state that a checkpoint holds."""
        stored = msgspec.msgpack.decode(kept, type=KeptState)
        model = None if stored.model is None else loaded(stored.model, mercer.load)
        return replace(
            self, model=model, inputs=stored.inputs, words=stored.words, sums=stored.sums
        )


def fresh(about: Creation) -> Any:
    """Return the unfitted model; refuse options that are not those of the learner."""
    given = about.options.given()
    try:
        if "kernel" in given:
            check_kernel(given["kernel"])
        if about.learner != "quantity":
            odd = next((name for name in given if name not in KINDS[about.learner]), None)
            if odd is not None:
                raise bad(f"'{odd}' is not an option of the learner {about.learner}")
            return make(about.learner, given)
        known = mercer.OnlineRegressor._get_param_names()
        options = {
            name if name in known else PARAMETERS.get(name, name): v for name, v in given.items()
        }
        return mercer.OnlineRegressor(**options)
    except _REFUSED as error:
        raise bad(str(error)) from None


# ---------------------------------------------------------------------- within
def _twin(model: Any) -> Any:
    """Return a model whose machine can learn while the given one stays as it is.

    A batch replaces the attributes of a machine and writes to none of their arrays.
    """
    if isinstance(model, Pipeline):
        *before, (name, machine) = model.steps
        return Pipeline([*before, (name, copy.copy(machine))])
    return copy.copy(model)


def _encoded(
    model: TableModel, columns: SentColumns, names: list[str], kinds: dict[str, str]
) -> Any:
    """Return the rows of a table model, encoded by its own rules for gaps and words."""
    from mercer.tables.files import FileTable, frame_of

    try:
        if columns.texts:
            places = [f"row {i + 1}" for i in range(columns.n)]
            texts: dict[str, Any] = {name: list(columns.values[name]) for name in names}
            return model.encode(frame_of(FileTable("the body", texts, places), names, kinds))
        return model.encode({name: plain(columns.values[name]) for name in names})
    except _REFUSED as error:
        raise bad(str(error)) from None


def plain(column: Any) -> Any:
    """Return numbers as an array, NaN where there is none; anything else as it is."""
    if isinstance(column, np.ndarray):
        return column
    if all(value is None or type(value) in (int, float) for value in column):
        return np.array([np.nan if value is None else value for value in column], dtype=float)
    return objects(column)


def _file_of(model: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.mercer")
        mercer.save(model, path)
        with open(path, "rb") as file:
            return file.read()


def loaded(body: bytes, by: Any) -> Any:
    """Return what ``by`` reads from a model file with these bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "upload.mercer")
        with open(path, "wb") as file:
            file.write(body)
        return by(path)
