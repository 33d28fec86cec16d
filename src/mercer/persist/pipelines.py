"""Pipelines in model files: a closed list of scikit-learn's preprocessors before a machine.

A step is one of

    {"machine": name, "state": ...}           an estimator of mercer
    {"own": name, "state": ...}               a transformer of the caller's, passed in by name
    {"sklearn": name, "params": ..., "fitted": ...}     one of :mod:`mercer.persist.preprocessors`
    {"word": "drop" | "passthrough"}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mercer.core.errors import ModelFileError
from mercer.core.kinds import Kind, Resolve, Sizes
from mercer.persist import preprocessors, registry
from mercer.persist.values import from_plain, to_plain

Own = Mapping[str, type]
WORDS = ("drop", "passthrough")


def packed_step(step: Any, own: Own) -> dict[str, Any]:
    """Return a fitted step as plain values with arrays among them.

    Parameters
    ----------
    step : a scikit-learn pipeline or preprocessor, an estimator of mercer, or one of ``own``.
    own : further classes with ``_state`` and ``_from_state``, by name.
    """
    if isinstance(step, str) and step in WORDS:
        return {"word": step}
    cls = type(step)
    if own.get(cls.__name__) is cls:
        return {"own": cls.__name__, "state": step._state()}
    if hasattr(step, "_state"):
        name = registry.estimator_name(cls)
        if "." in name:
            raise TypeError(
                f"{cls.__name__} is an estimator of your own, and a pipeline in a model file holds "
                "mercer's only; save the last step alone"
            )
        registry.check_parts(step.get_params(deep=False).values())
        return {"machine": name, "state": step._state()}
    name = preprocessors.name_of(step)
    params, fitted = preprocessors.parts_of(step)

    def inner(value: Any) -> Any:
        return packed_step(value, own)

    return {
        "sklearn": name,
        "version": preprocessors.version(),
        "params": {k: to_plain(v, k, inner) for k, v in params.items()},
        "fitted": {k: to_plain(v, k, inner) for k, v in fitted.items()},
    }


def unpacked_step(stored: Any, own: Own, resolve: Resolve) -> Any:
    """Return the step of :func:`packed_step`, or refuse what it cannot have written."""
    match stored:
        case {"word": str(word), **rest} if not rest and word in WORDS:
            return word
        case {"own": str(name), "state": dict(state), **rest} if not rest and name in own:
            made: Any = own[name]
            return made._from_state(state, resolve)
        case {"machine": str(name), "state": dict(state), **rest} if not rest and "." not in name:
            return registry.estimator_class(name, {})._from_state(state, resolve)
        case {
            "sklearn": str(name),
            "version": str(version),
            "params": dict(params),
            "fitted": dict(fitted),
            **rest,
        } if not rest:

            def inner(value: Any) -> Any:
                return unpacked_step(value, own, resolve)

            return preprocessors.built(
                name,
                version,
                {k: from_plain(v, inner) for k, v in params.items()},
                {k: from_plain(v, inner) for k, v in fitted.items()},
            )
    raise ModelFileError("a step of its pipeline is not one that mercer writes")


class Step(Kind):
    """A step of a pipeline in a record; ``whole``: a pipeline of named steps."""

    def __init__(self, own: Own | None = None, *, whole: bool = False) -> None:
        self.own, self.whole = own or {}, whole

    def write(self, value: Any) -> Any:
        return packed_step(value, self.own)

    def check(self, stored: Any, sizes: Sizes, place: str) -> None:
        if type(stored) is not dict:
            raise ValueError(f"{place} is a {type(stored).__name__}")

    def read(self, stored: Any, resolve: Resolve) -> Any:
        step = unpacked_step(stored, self.own, resolve)
        return check_pipeline(step) if self.whole else step

    def told(self) -> str:
        return "a pipeline" if self.whole else "a step of a pipeline"


class StoredPipeline:
    """A scikit-learn pipeline whose steps are all on the list, as a model file sees it."""

    def __init__(self, pipeline: Any) -> None:
        self.pipeline = pipeline

    def _state(self) -> dict[str, Any]:
        return {"pipeline": packed_step(self.pipeline, {})}

    @classmethod
    def _from_state(cls, state: Any, resolve: Resolve) -> Any:
        if set(state) != {"pipeline"}:
            raise ModelFileError("its state does not consist of a pipeline")
        return check_pipeline(unpacked_step(state["pipeline"], {}, resolve))


def check_pipeline(step: Any) -> Any:
    """Return a pipeline of named steps, or refuse what stands in its place."""
    from sklearn.pipeline import Pipeline

    fine = type(step) is Pipeline and isinstance(step.steps, list) and step.steps
    if not fine or not all(
        isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)
        for pair in step.steps
    ):
        raise ModelFileError("where a pipeline of named steps is wanted stands something else")
    return step
