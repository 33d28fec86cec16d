"""Pipelines in model files: a closed list of scikit-learn's preprocessors before a machine.

A step is one of

    {"machine": name, "state": ...}           an estimator of mercer
    {"own": name, "state": ...}               a transformer of the caller's, handed over by name
    {"sklearn": name, "params": ..., "fitted": ...}     one of :mod:`mercer.persist.preprocessors`
    {"word": "drop" | "passthrough"}

whose arrays, for the first two, lie beside it under its key and a dot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, Self

from mercer.core.errors import ModelFileError
from mercer.persist import preprocessors, registry
from mercer.persist.values import from_plain, to_plain

Arrays = Mapping[str, Any]
Own = Mapping[str, type]
WORDS = ("drop", "passthrough")


class HasState(Protocol):
    """What a machine or a transformer of the caller's must have."""

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]: ...

    @classmethod
    def _from_state(cls, state: Any, arrays: Any, resolve: Any) -> Self: ...


def packed_step(step: Any, key: str, arrays: dict[str, Any], own: Own) -> dict[str, Any]:
    """Return a fitted step as plain values; what it keeps in arrays is added to ``arrays``.

    Parameters
    ----------
    step : a scikit-learn pipeline or preprocessor, an estimator of mercer, or one of ``own``.
    key : the name under which its arrays are put.
    own : further classes with ``_state`` and ``_from_state``, by name.
    """
    if isinstance(step, str) and step in WORDS:
        return {"word": step}
    cls = type(step)
    if own.get(cls.__name__) is cls:
        return {"own": cls.__name__, "state": _leaf(step, key, arrays)}
    if hasattr(step, "_state"):
        name = registry.estimator_name(cls)
        if "." in name:
            raise TypeError(
                f"{cls.__name__} is an estimator of your own, and a pipeline in a model file holds "
                "mercer's only; save the last step alone"
            )
        registry.check_parts(step.get_params(deep=False).values())
        return {"machine": name, "state": _leaf(step, key, arrays)}
    name = preprocessors.name_of(step)
    params, fitted = preprocessors.parts_of(step)

    def inner(value: Any, place: str) -> Any:
        return packed_step(value, f"{key}.{place}", arrays, own)

    return {
        "sklearn": name,
        "version": preprocessors.version(),
        "params": {k: to_plain(v, k, inner) for k, v in params.items()},
        "fitted": {k: to_plain(v, k, inner) for k, v in fitted.items()},
    }


def unpacked_step(
    stored: Any, key: str, arrays: Arrays, own: Own, resolve: registry.Resolve
) -> Any:
    """Return the step of :func:`packed_step`, or refuse what it cannot have written."""
    match stored:
        case {"word": str(word), **rest} if not rest and word in WORDS:
            return word
        case {"own": str(name), "state": dict(state), **rest} if not rest and name in own:
            made: Any = own[name]
            return made._from_state(state, _under(key, arrays), resolve)
        case {"machine": str(name), "state": dict(state), **rest} if not rest and "." not in name:
            cls = registry.estimator_class(name, {})
            return cls._from_state(state, _under(key, arrays), resolve)
        case {
            "sklearn": str(name),
            "version": str(version),
            "params": dict(params),
            "fitted": dict(fitted),
            **rest,
        } if not rest:

            def inner(value: Any, place: str) -> Any:
                return unpacked_step(value, f"{key}.{place}", arrays, own, resolve)

            return preprocessors.built(
                name,
                version,
                {k: from_plain(v, k, inner) for k, v in params.items()},
                {k: from_plain(v, k, inner) for k, v in fitted.items()},
            )
    raise ModelFileError("a step of its pipeline is not one that mercer writes")


class StoredPipeline:
    """A scikit-learn pipeline whose steps are all on the list, as a model file sees it."""

    def __init__(self, pipeline: Any) -> None:
        self.pipeline = pipeline

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays: dict[str, Any] = {}
        return {"pipeline": packed_step(self.pipeline, "pipeline", arrays, {})}, arrays

    @classmethod
    def _from_state(cls, state: Any, arrays: Arrays, resolve: registry.Resolve) -> Any:
        if set(state) != {"pipeline"}:
            raise ModelFileError("its state does not consist of a pipeline")
        leaves = tuple(_leaves(state["pipeline"], "pipeline"))
        odd = [name for name in arrays if not name.startswith(leaves or ("\0",))]
        if odd:
            raise ModelFileError(f"the array {odd[0][:60]!r} belongs to no step")
        step = unpacked_step(state["pipeline"], "pipeline", arrays, {}, resolve)
        return check_pipeline(step)


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


def _leaf(step: HasState, key: str, arrays: dict[str, Any]) -> dict[str, Any]:
    state, given = step._state()
    arrays |= {f"{key}.{name}": array for name, array in given.items()}
    return state


def _under(key: str, arrays: Arrays) -> dict[str, Any]:
    head = f"{key}."
    return {k.removeprefix(head): a for k, a in arrays.items() if k.startswith(head)}


def _leaves(stored: Any, key: str) -> Iterator[str]:
    """Yield the keys, dot included, of the machines below a step."""
    if isinstance(stored, Mapping) and "machine" in stored:
        yield f"{key}."
    elif isinstance(stored, Mapping) and "step" in stored and "at" in stored:
        yield from _leaves(stored["step"], f"{key}.{stored['at']}")
    elif isinstance(stored, Mapping):
        for value in stored.values():
            yield from _leaves(value, key)
    elif isinstance(stored, list):
        for value in stored:
            yield from _leaves(value, key)
