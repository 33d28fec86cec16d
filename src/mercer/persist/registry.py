"""The closed registry: which classes a model file may name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from mercer.core.component import Component
from mercer.core.errors import ModelFileError

PIPELINE = "Pipeline"  # scikit-learn's, of steps that are on the list
ROOMS = ("kernels", "losses", "inference", "search", "basis")


def part_class(name: Any, own: Mapping[str, type]) -> type[Component]:
    """Return the class of the part ``name``: mercer's (``kernels.RBF``) or one of ``own``."""
    if not isinstance(name, str):
        raise ModelFileError("its manifest names a class by something that is not text")
    found: Any = _exported(name) if _reserved(name) else own.get(name.rpartition(".")[2])
    if not (isinstance(found, type) and issubclass(found, Component)):
        raise ModelFileError(_unknown("a part", name))
    return found


def estimator_class(name: str, own: Mapping[str, type]) -> Any:
    """Return the estimator's class: one of ``mercer.__all__``, or with a dotted name of ``own``."""
    import mercer

    found: Any = None
    if name == PIPELINE:
        found = import_module("mercer.persist.pipelines").StoredPipeline
    elif "." in name:
        found = own.get(name.rpartition(".")[2])
    elif name in mercer.__all__:
        found = getattr(mercer, name)
    if not (isinstance(found, type) and hasattr(found, "_from_state")):
        raise ModelFileError(_unknown("an estimator", name))
    return found


def storable(estimator: Any) -> Any:
    """Return what can be asked for its state: the estimator, or a pipeline in its stored form."""
    from sklearn.pipeline import Pipeline

    if type(estimator) is Pipeline:
        return import_module("mercer.persist.pipelines").StoredPipeline(estimator)
    if not hasattr(estimator, "_state"):
        inside = "; save its .learner" if hasattr(estimator, "learner") else ""
        raise TypeError(
            f"{type(estimator).__name__} is not a mercer estimator: a model file holds one, or a "
            f"scikit-learn Pipeline that ends in one{inside}"
        )
    return estimator


def estimator_name(cls: type) -> str:
    """Return the name under which :func:`estimator_class` finds ``cls``."""
    import mercer

    if cls.__module__ == "mercer.persist.pipelines":
        return PIPELINE
    name = cls.__name__
    own = name in mercer.__all__ and getattr(mercer, name) is cls
    return name if own else f"{cls.__module__}.{cls.__qualname__}"


def check_parts(values: Iterable[Any]) -> None:
    """Refuse, before writing, bare functions and parts whose name would be another class's."""
    for value in values:
        if isinstance(value, (list, tuple)):
            check_parts(value)
        elif isinstance(value, Component):
            name = value.part_name()
            if _reserved(name) and _exported(name) is not type(value):
                raise TypeError(
                    f"{type(value).__name__} would be written as {name!r}, a name reserved for "
                    "mercer's own parts: define it in a module of another name"
                )
            check_parts(_written(value))
        elif callable(value):
            raise TypeError(
                "a bare function cannot be written to a model file; wrap it in a Component "
                "subclass and pass that class to load(path, parts=[...])"
            )


def _written(part: Component) -> Iterable[Any]:
    """Return the parameters that reach the file; a part may leave functions out of its form."""
    values = part.get_params(deep=False).values()
    try:
        part.to_dict()
    except TypeError:
        return values
    return [v for v in values if isinstance(v, Component) or not callable(v)]


def _reserved(name: str) -> bool:
    return name.partition(".")[0] in ROOMS


def _exported(name: str) -> type[Component] | None:
    room, _, cls = name.partition(".")
    module = import_module(f"mercer.{room}")
    found = getattr(module, cls) if cls in module.__all__ else None
    part = isinstance(found, type) and issubclass(found, Component) and found.part_name() == name
    return found if part else None


def _unknown(what: str, name: str) -> str:
    last = name.rpartition(".")[2][:40]
    return (
        f"it contains {what} {name[:80]!r}, which mercer does not have; "
        f"if it is a class of yours, pass it: load(path, parts=[{last}])"
    )
