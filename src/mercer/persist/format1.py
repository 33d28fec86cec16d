"""Files of format 1, of version 0.1.0, in the layout of format 2: the keys of each family.

There, arrays lay beside the state under keys with dots, and a part inside ``{"part": ...}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mercer.core.errors import ModelFileError

State = dict[str, Any]
Arrays = dict[str, Any]


def translated(state: State, arrays: Arrays) -> State:
    """Return the state in the layout of format 2; what it uses is taken from ``arrays``."""
    given = {k.removeprefix("arrays/"): arrays.pop(k) for k in list(arrays) if "/" in k}
    found = _pipeline(state, given) if "pipeline" in state else _estimator(state, given)
    if given:
        raise ModelFileError(f"the array {min(given)[:60]!r} is not part of such a model")
    return found


def _estimator(state: State, arrays: Arrays) -> State:
    for key, family in FAMILIES.items():
        if key in state:
            state = _placed(state, arrays)
            renamed = {"n_features_in_": "n_features", "feature_names_in_": "feature_names"}
            head = {new: state.pop(old) for new, old in renamed.items()}
            if state.get("classes") is not None:
                head["classes_"] = state["classes"]
            state.pop("classes", None)
            return {"params": state.pop("params"), **head, **family(state, arrays)}
    raise ModelFileError("its state is not one of format 1")


def _placed(value: Any, arrays: Arrays, inside: bool = False) -> Any:
    """Put arrays in the place of their names; a part that is not a parameter loses its frame."""
    if isinstance(value, list):
        return [_placed(v, arrays, inside) for v in value]
    if not isinstance(value, Mapping):
        return value
    if set(value) == {"array"} and isinstance(value["array"], str):
        return arrays.pop(value["array"])
    if set(value) == {"part"} and not inside:
        return _placed(value["part"], arrays)
    return {k: _placed(v, arrays, inside or k == "params") for k, v in value.items()}


def _under(head: str, arrays: Arrays) -> Arrays:
    return {k.removeprefix(head): arrays.pop(k) for k in list(arrays) if k.startswith(head)}


def _machine(state: State, arrays: Arrays) -> State:
    draws = state.pop("draws")
    left_out = _under("loo.", arrays) or None
    posteriors = []
    for i, draw in enumerate(draws):
        own = _under(f"{i}.", arrays)
        operator = _operator(_under("operator.", own))
        posterior = {"kernel": draw["kernel"], "beta": None, **own, "operator": operator}
        posteriors.append(posterior)
    if left_out is not None:
        left_out = _left_out(left_out, state["report"])
    return {
        "units_": _under("units.", arrays),
        **{f"{name}_": value for name, value in state.items()},
        "loo_": left_out,
        "relevance_": arrays.pop("relevance", None),
        "posteriors_": posteriors,
        "losses_": [draw["loss"] for draw in draws],
    }


def _left_out(figures: State, report: State) -> State:
    if "codes" not in figures:
        return {"Loo": figures}
    if "proba" in figures:
        return {"ClassLoo": figures}
    missing = {"bound": None, "cavity": None, "reason": report.get("loo_bound")}
    return {"MarginLoo": missing | figures}


def _operator(arrays: Arrays) -> State:
    renamed = {"matrix": "C", "basis_q": "Q", "basis_r": "R", "weights": "W"}
    certain = arrays.pop("certain", None)
    if certain is not None:
        arrays["weights"] = np.where(certain > 0.0, np.inf, arrays["weights"])
    numbers = sorted({int(k.partition("_")[0]) for k in arrays if k[0].isdigit()})
    if numbers:
        single = [_operator(_under(f"{j}_", arrays)) for j in numbers]
        return {"coupled" if arrays else "several": {"operators": single, **arrays}}
    forms = {"Q": "basis", "cholesky": "cholesky", "gain": "inducing", "half": "contrast"}
    forms |= {"C": "matrix", "W": "line"}
    stored = {renamed.get(k, k): a for k, a in arrays.items()}
    return {next((form for key, form in forms.items() if key in stored), "zero"): stored}


FAMILIES = {"draws": _machine}


def _pipeline(state: State, arrays: Arrays) -> State:
    return {"pipeline": _step(state["pipeline"], "pipeline", arrays)}


def _step(stored: Any, key: str, arrays: Arrays) -> Any:
    """Return a step with the arrays of the estimators in it, which lay under its key."""
    if isinstance(stored, list):
        return [_step(v, key, arrays) for v in stored]
    if not isinstance(stored, Mapping):
        return stored
    if "machine" in stored:
        own = _under(f"{key}.", arrays)
        return {"machine": stored["machine"], "state": _estimator(stored["state"], own)}
    if "step" in stored and "at" in stored:
        return {"step": _step(stored["step"], f"{key}.{stored['at']}", arrays)}
    return {k: _step(v, key, arrays) for k, v in stored.items()}
