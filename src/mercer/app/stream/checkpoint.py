"""Checkpoints of a stream: the learner, and how far it has come, in one model file."""

from __future__ import annotations

import copy
import math
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

import mercer
from mercer.app.stream.learner import Figures, Learner
from mercer.app.terminal import AppError

LEARNERS = (
    mercer.OnlineLogisticClassifier,
    mercer.MEDClassifier,
    mercer.LapMEDClassifier,
)


@dataclass(frozen=True)
class Position:
    """How far a stream has come.

    Attributes
    ----------
    size, drop : the options --batch and --drop-missing.
    batches, read : batches and rows that were read, ``rows`` of these were learned.
    digest : SHA-256 of all that was read, by which a stream given again is recognised.
    figures : the sums so far.
    """

    size: int
    drop: bool
    batches: int = 0
    read: int = 0
    rows: int = 0
    digest: str = ""
    figures: Figures = field(default_factory=Figures)


@dataclass(frozen=True)
class StreamColumns:
    """The target, the inputs in their order, and those of them that are words."""

    target: str
    names: list[str]
    words: list[str]


@dataclass(frozen=True)
class StoredStream:
    """What a model file says: position and target are None if no stream has written it."""

    learner: Learner
    names: list[str] | None
    words: list[str]
    target: str | None
    position: Position | None


def write(path: str, learner: Learner, columns: StreamColumns, position: Position) -> None:
    """Write the learner with the names of its inputs; an older file is replaced in one step.

    The learner itself has no names: it is given arrays, whose columns are already in order.
    """
    told = {"target": columns.target, "rows": position.rows, "words": columns.words}
    machine = copy.copy(learner.machine)
    machine.report_ = machine.report_ | {"table": told | {"stream": asdict(position)}}
    model: Any = machine
    if isinstance(learner.model, Pipeline):
        steps = [(name, copy.copy(step)) for name, step in learner.model.steps[:-1]]
        model = Pipeline([*steps, (learner.model.steps[-1][0], machine)])
    _first(model).feature_names_in_ = np.array(columns.names, dtype=object)
    mercer.save(model, path)


def read(path: str) -> StoredStream:
    """Return the learner in a model file; refuse what cannot go on learning."""
    model = mercer.load(path)
    learner = Learner(model)
    if not isinstance(learner.machine, LEARNERS):
        known = ", ".join(cls.__name__ for cls in LEARNERS)
        raise AppError(
            f"{path} holds a {type(learner.machine).__name__}, which does not learn from streams; "
            f"{known} do"
        )
    first = _first(model)
    names = getattr(first, "feature_names_in_", None)
    if names is not None:
        del first.feature_names_in_
    told = learner.machine.report_.get("table", {})
    stream = told.get("stream")
    position = None
    if stream is not None:
        figures = stream["figures"]
        if figures["log_loss"] is None:  # a report writes what is not finite as None
            figures = figures | {"log_loss": math.inf}
        position = Position(**(stream | {"figures": Figures(**figures)}))
    known_names = None if names is None else [str(name) for name in names]
    words = list(told.get("words", []))
    return StoredStream(learner, known_names, words, told.get("target"), position)


def _first(model: Any) -> Any:
    return model.steps[0][1] if isinstance(model, Pipeline) else model
