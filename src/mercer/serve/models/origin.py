"""Where a model comes from: made as a learner, or read from a model file."""

from __future__ import annotations

from sklearn.pipeline import Pipeline

import mercer
from mercer.app.stream.rows import text_of
from mercer.persist import ModelFileError
from mercer.serve.limits import bad
from mercer.serve.messages import Creation
from mercer.serve.models.learner import LEARNERS, State, fresh, loaded
from mercer.tables import TableModel


def begun(about: Creation) -> State:
    """Return the state of a learner before its first batch."""
    names = about.inputs
    if names is not None and (about.target in names or len(set(names)) < len(names)):
        raise bad("an input cannot be named twice, nor be the target too")
    if about.classes is not None:
        if about.learner == "quantity":
            raise bad("a quantity has no classes")
        texts = [None if label is None else text_of(label) for label in about.classes]
        if None in texts or len(set(texts)) < len(texts):
            raise bad("classes are labels, each of them once")
    fresh(about)
    return State(about, None, names, [], about.target)


def uploaded(body: bytes) -> State:
    """Return the state of a model file; it learns on if it holds a stream."""
    try:
        model = loaded(body, mercer.load)
    except (ModelFileError, MemoryError) as error:
        reason = str(error).partition("cannot be loaded: ")[2]  # the path is none of theirs
        raise bad(f"the model file cannot be loaded: {reason or error}") from None
    if isinstance(model, TableModel):
        names = list(model.used_)
        return State(None, model, names, [], model.target_)
    machine = model.steps[-1][1] if isinstance(model, Pipeline) else model
    if not hasattr(model, "n_features_in_") or not hasattr(machine, "predict"):
        raise bad(f"a {type(machine).__name__} is not served: it does not predict rows")
    known = [f"x{j}" for j in range(int(model.n_features_in_))]
    names = [str(name) for name in getattr(model, "feature_names_in_", known)]
    if not isinstance(machine, LEARNERS):
        return State(None, model, names, [], None)
    first = model.steps[0][1] if isinstance(model, Pipeline) else model
    vars(first).pop("feature_names_in_", None)  # a stream is given arrays, in order
    told = machine.report_.get("table", {})
    return State(None, model, names, list(told.get("words", [])), told.get("target") or "y")
