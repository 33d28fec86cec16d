"""The learner of a stream: made by name, fed batches, kept in checkpoints."""

from __future__ import annotations

import copy
import math
from dataclasses import asdict, astuple, dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer.app.stream.rows import StreamRows, check_labels, text_of, values_of
from mercer.app.terminal import AppError
from mercer.core.arrays import Array
from mercer.tables.data.frame import objects


@dataclass(frozen=True)
class Figures:
    """Sums over labelled rows that were predicted before they were learned."""

    rows: int = 0
    wrong: int = 0
    told: int = 0  # rows for which there were probabilities
    log_loss: float = 0.0  # the sum of -log P(label), or of the density of a quantity
    square: float = 0.0  # the sum of squared errors of a quantity

    def __add__(self, other: Figures) -> Figures:
        return Figures(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def means(self) -> dict[str, float | None]:
        """Return error rate and mean log loss; None without rows.

        Examples
        --------
        >>> (Figures(4, 1, 4, 2.0) + Figures(4, 0, 0, 0.0)).means()
        {'error': 0.125, 'log_loss': 0.5}
        """
        return {
            "error": self.wrong / self.rows if self.rows else None,
            "log_loss": self.log_loss / self.told if self.told else None,
        }

    def of_quantity(self) -> dict[str, float | None]:
        """Return root mean squared error and mean negative log density; None without rows."""
        return {
            "rmse": math.sqrt(self.square / self.rows) if self.rows else None,
            "nlpd": self.log_loss / self.told if self.told else None,
        }


BUDGET = 300  # points that the logistic learner keeps unless told otherwise
KINDS = {
    "logistic": ("budget", "forget", "drift", "kernel"),
    "med": ("kernel",),
    "lapmed": ("budget", "kernel"),
    "regressor": ("budget", "forget", "drift", "kernel"),
}
PARAMETERS = {"forget": "rho"}  # options with another name than the parameter


def make(kind: str, given: dict[str, Any], batch: int = 1) -> Any:
    """Return the unfitted model; ``given`` are those of budget, forget, drift, kernel not None."""
    if kind == "regressor":
        own = dict(given)
        if "forget" in own:  # what remains after a batch, and after each of its rows
            own["forget"] = own["forget"] ** (1.0 / batch)
        return mercer.OnlineRegressor(**({"budget": BUDGET} | own))
    options = {PARAMETERS.get(name, name): value for name, value in given.items()}
    if kind == "logistic":
        return mercer.OnlineLogisticClassifier(**({"budget": BUDGET} | options))
    if kind == "med":
        machine: Any = mercer.MEDClassifier(calibration="sigmoid", **options)
    else:
        machine = mercer.LapMEDClassifier(**options)
    # distances count in all columns alike; the logistic learner standardises by itself
    return Pipeline([("scale", StandardScaler()), ("machine", machine)])


@dataclass(frozen=True)
class Learner:
    """A model that learns batches of rows with labels as text."""

    model: Any
    classes: list[str] | None = None  # all labels of the stream; None: those of the first batch
    other: Any = None  # the unfitted model that learns the target if it is a quantity

    @property
    def quantity(self) -> bool:
        """Whether it learns a quantity."""
        return isinstance(self.machine, mercer.OnlineRegressor)

    @property
    def machine(self) -> Any:
        """The sequential learner itself, the last step of a pipeline."""
        return self.model.steps[-1][1] if isinstance(self.model, Pipeline) else self.model

    @property
    def begun(self) -> bool:
        """Whether it has learned a batch."""
        return hasattr(self.machine, "posteriors_" if self.quantity else "classes_")

    @property
    def partly(self) -> bool:
        """Whether it learns from rows without a label."""
        return isinstance(self.machine, mercer.LapMEDClassifier)

    @property
    def points(self) -> int:
        """How many points it keeps."""
        if isinstance(self.machine, mercer.OnlineLogisticClassifier | mercer.OnlineRegressor):
            return len(self.machine.stream_.points)
        return len(self.machine.support_vectors_)

    @property
    def informed(self) -> bool:
        """Whether a label has been learned: until then there is nothing to be right about."""
        parts = ("dual_coef_", "feature_weights_", "intercept_")
        return self.begun and any(np.any(getattr(self.machine, part, 0.0)) for part in parts)

    def learn(self, rows: StreamRows) -> Figures:
        """Learn b rows and return their figures.

        After an error the learner is as it was; the sentence says where the rows stand.
        """
        if self.quantity:
            return self._learn_values(rows)
        grows = self._grows
        if self.begun:  # the classes, as text and as the learner has them
            value = {text_of(label): label for label in self.machine.classes_.tolist()}
        else:
            seen = {label for label in rows.labels if label is not None}
            value = values_of(self.classes or sorted(seen))
        if self.begun and grows:
            seen = {label for label in rows.labels if label is not None} - set(value)
            whole = all(isinstance(label, int) for label in value.values())
            value |= values_of(sorted(seen)) if whole else {label: label for label in seen}
        check_labels(rows, list(value), self.begun, self.classes is not None)
        y = objects(None if label is None else value[label] for label in rows.labels)
        try:
            X = self._scaled(rows.X)
            before = self._before(X, y) if self.informed else Figures()
            machine = self.machine
            classes: Any = None if self.begun else list(value.values())
            if grows and not self.begun:
                classes = "grow"
            old = getattr(machine, "prequential_", None)
            machine.partial_fit(X, y if self.partly else np.array(y.tolist()), classes=classes)
        except (ValueError, TypeError, ArithmeticError, MemoryError) as error:
            raise AppError(f"{rows.place}: {error}") from error
        new = getattr(machine, "prequential_", None)
        if new is None:
            return before
        wrong, log_loss = new.weight - new.right, new.log_loss_sum
        if old is not None:
            wrong, log_loss = wrong - (old.weight - old.right), log_loss - old.log_loss_sum
        return Figures(len(y), round(wrong), len(y), log_loss)

    @property
    def _grows(self) -> bool:
        """Whether classes that come later are taken up: none were named."""
        machine = self.machine
        if not isinstance(machine, mercer.OnlineLogisticClassifier):
            return False
        return machine.grows_ if self.begun else self.classes is None

    @property
    def grown(self) -> list[str]:
        """The classes that came after the first batch."""
        if self.quantity or not self.begun:
            return []
        report = getattr(self.machine, "report_", {})
        return [text_of(label) for label in report.get("classes", {}).get("grown", [])]

    def _learn_values(self, rows: StreamRows) -> Figures:
        """Learn b rows of a quantity."""
        try:
            X, machine = self._scaled(rows.X), self.machine
            before = _sums(machine)
            machine.partial_fit(X, rows.values)
        except (ValueError, TypeError, ArithmeticError, MemoryError) as error:
            raise AppError(f"{rows.place}: {error}") from error
        weight, density, square = (b - a for a, b in zip(before, _sums(machine), strict=True))
        return Figures(round(weight), 0, round(weight), -density, square)

    @property
    def renewed(self) -> float | None:
        """Which share of the function the last batch renewed; None if changes are not looked for.

        More than 0 is a change that was found.
        """
        if getattr(self.machine, "drift", None) != "auto":
            return None
        return float(self.machine.report_["drift"]["share"]) if self.begun else 0.0

    @property
    def changes(self) -> int | None:
        """How many changes were found; None if they are not looked for."""
        if self.quantity:
            return len(self.changed_at)
        return None if self.renewed is None else int(self.machine.report_["drift"]["changes"])

    @property
    def changed_at(self) -> list[int]:
        """After how many rows learned changes were found, the latest of them."""
        found = self.machine.report_["drift"].get("rows", []) if self.begun and self.looks else []
        return [int(row) for row in found]

    @property
    def looks(self) -> bool:
        """Whether it looks for changes."""
        return self.quantity or self.renewed is not None

    def remarks(self) -> list[str]:
        """Return what the machine itself says that its user should know."""
        report = self.machine.report_
        found = [report.get("scales", {}).get("message"), report.get("slack")]
        return [text for text in [*found, report.get("schedule")] if text is not None]

    def _scaled(self, X: Array) -> Array:
        if not isinstance(self.model, Pipeline):
            return X
        before = self.model[:-1]
        return np.asarray(before.transform(X) if self.begun else before.fit_transform(X))

    def _before(self, X: Array, y: Any) -> Figures:
        """Figures of a machine that does not keep its own, as the logistic learner does."""
        has = np.array([label is not None for label in y])
        if not has.any():
            return Figures()
        X, y, machine = X[has], y[has], self.machine
        wrong = int(np.count_nonzero(machine.predict(X) != y.astype(machine.classes_.dtype)))
        if not len(getattr(machine, "slope_", ())):
            return Figures(len(X), wrong)
        code = {label: i for i, label in enumerate(machine.classes_.tolist())}
        p = machine.predict_proba(X)[np.arange(len(X)), [code[label] for label in y.tolist()]]
        with np.errstate(divide="ignore"):  # a class that was ruled out costs infinitely much
            return Figures(len(X), wrong, len(X), float(-np.log(p).sum()))


LEARNERS = (
    mercer.OnlineLogisticClassifier,
    mercer.OnlineRegressor,
    mercer.MEDClassifier,
    mercer.LapMEDClassifier,
)


@dataclass(frozen=True)
class Position:
    """How far a stream has come."""

    size: int  # --batch
    drop: bool  # --drop-missing
    batches: int = 0
    read: int = 0
    rows: int = 0  # of those read that were learned
    digest: str = ""  # SHA-256 of all that was read: a stream given again is recognised by it
    figures: Figures = Figures()


class StoredStream(NamedTuple):
    """What a model file says: position and target are None if no stream has written it."""

    learner: Learner
    names: list[str] | None
    words: list[str]
    target: str | None
    position: Position | None


def write(
    path: str, learner: Learner, target: str, names: list[str], words: list[str], position: Position
) -> None:
    """Write the learner with the names of its inputs; an older file is replaced in one step.

    The learner itself has no names: it is given arrays, whose columns are already in order.
    """
    told = {"target": target, "rows": position.rows, "words": words}
    machine = copy.copy(learner.machine)
    machine.report_ = machine.report_ | {"table": told | {"stream": asdict(position)}}
    model: Any = machine
    if isinstance(learner.model, Pipeline):
        steps = [(name, copy.copy(step)) for name, step in learner.model.steps[:-1]]
        model = Pipeline([*steps, (learner.model.steps[-1][0], machine)])
    _first(model).feature_names_in_ = np.array(names, dtype=object)
    mercer.save(model, path)


def read(path: str) -> StoredStream:
    """Return the learner in a model file; refuse what cannot go on learning."""
    model = mercer.load(path)
    learner = Learner(model)
    if not isinstance(learner.machine, LEARNERS):
        others = ", ".join(cls.__name__ for cls in LEARNERS)
        raise AppError(
            f"{path} holds a {type(learner.machine).__name__}, which does not learn from streams; "
            f"{others} do"
        )
    first = _first(model)
    names = getattr(first, "feature_names_in_", None)
    if names is not None:
        del first.feature_names_in_
    told, position = learner.machine.report_.get("table", {}), None
    if "stream" in told:
        figures = dict(told["stream"]["figures"])
        if figures["log_loss"] is None:  # a report writes what is not finite as None
            figures["log_loss"] = math.inf
        position = Position(**(told["stream"] | {"figures": Figures(**figures)}))
    known = None if names is None else [str(name) for name in names]
    return StoredStream(learner, known, list(told.get("words", [])), told.get("target"), position)


def _sums(machine: Any) -> tuple[float, float, float]:
    """Weight, log densities and squared errors of rows of a quantity that were foreseen so far."""
    found = getattr(machine, "prequential_", None)
    return (found.weight, found.log_density_sum, found.square_sum) if found else (0.0, 0.0, 0.0)


def _first(model: Any) -> Any:
    return model.steps[0][1] if isinstance(model, Pipeline) else model
