"""Files of format 1, of version 0.1.0: arrays lay beside the state, under keys with dots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mercer.core.basis import PolynomialBasis
from mercer.core.errors import ModelFileError
from mercer.kernels.compose import Scale
from mercer.kernels.operators.splines import Spline
from mercer.left_out.figures import LeftOut
from mercer.linalg.spline import SplineRows, merge_rows
from mercer.losses.real.gaussian import Gaussian

State = dict[str, Any]
Arrays = dict[str, Any]
NONE_KEPT = "the file of this model was written before left-out figures were kept"


def translated(state: State, arrays: Arrays) -> State:
    """Return the state in the layout of format 2; what it uses is taken from ``arrays``."""
    given = {k.removeprefix("arrays/"): arrays.pop(k) for k in list(arrays) if "/" in k}
    if "pipeline" not in state:
        found = _estimator(state, given)
    elif "kind" in state:
        found = _table(state, given)
    else:
        found = {"pipeline": _step(state["pipeline"], "pipeline", given)}
    if given:
        raise ModelFileError(f"the array {min(given)[:60]!r} is not part of such a model")
    return found


def _estimator(state: State, arrays: Arrays) -> State:
    family = next((FAMILIES[key] for key in FAMILIES if key in state), None)
    if family is None:
        raise ModelFileError("its state is not one of format 1")
    inner = {"bayes": state["bayes"]} if "bayes" in state else {}
    state = _placed({k: v for k, v in state.items() if k not in inner}, arrays) | inner
    head = {f"{name}_in_": state.pop(name) for name in ("n_features", "feature_names")}
    classes = state.pop("classes", None)
    if classes is not None:
        head["classes_"] = classes
    if isinstance(state.get("report"), dict):
        state["report"] = _renamed(state["report"])
    return {"params": state.pop("params"), **head, **family(state, arrays)}


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
    draws, figures, posteriors = state.pop("draws"), _under("loo.", arrays), []
    for i, draw in enumerate(draws):
        own = _under(f"{i}.", arrays)
        operator = _operator(_under("operator.", own))
        posteriors.append({"kernel": draw["kernel"], "beta": None, **own, "operator": operator})
    left_out = _left_out(figures, state["report"]) if figures else None
    own = {"left_out_": left_out}
    if "period" in state["report"]:  # of a spline, whose smoothing stands in the report
        posteriors = [{"Posterior": posterior} for posterior in posteriors]
        lam, edf = state["report"]["lam"], state["report"]["degrees_of_freedom"]
        own = {"_periodic_left_out": left_out, "edf_": float(edf)}
        own["lam_"] = np.inf if lam == "infinite" else float(lam)
    return {
        "units_": _under("units.", arrays),
        **{f"{name}_": value for name, value in state.items()},
        **own,
        "relevance_": arrays.pop("relevance", None),
        "posteriors_": posteriors,
        "losses_": [draw["loss"] for draw in draws],
    }


def _left_out(figures: State, report: State) -> State:
    names = ("mean", "variance", "log_density", "proba", "codes", "margin", "bound", "reason")
    found: State = dict.fromkeys(names) | figures
    if "proba" in figures:
        own = (figures[name] for name in ("proba", "codes", "weights"))
        found["log_density"] = LeftOut.of_classes(*own).log_density
    elif "codes" in figures:
        found["margin"], found["reason"] = found.pop("cavity", None), report.get("loo_bound")
    return found


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


def _support(state: State, arrays: Arrays) -> State:
    """A support vector machine, or one whose memory carries a stream on graphs."""
    extra = state.pop("extra")
    names = ("support_vectors_", "dual_coef_", "intercept_")
    found = {name: arrays.pop(name) for name in names if name in arrays}
    found |= {"kernel_": state["kernel"], "support_": _rows(state["support"])}
    found |= {"n_iter_": state["iterations"], "report_": _support_report(state["report"])}
    if "bayes" in state:
        own = _under("bayes.", arrays)
        found["bayes_"] = None if state["bayes"] is None else _estimator(state["bayes"], own)
    memory = {k.removeprefix("_memory_"): extra.pop(k) for k in [*extra] if k[:8] == "_memory_"}
    if memory:
        found["memory_"] = _memory(memory, found)
    return {**found, **extra}


def _support_report(report: State) -> State:
    """What the solver said had no entry of its own, and two names were phrases."""
    moved = {"converged", "iterations", "gap", "message", "violation", "objective", "jitter"}
    moved |= {"rows_computed", "fewest_active", "returns"}
    blank = {"name": None, "converged": True, "iterations": 0, "gap": None, "message": ""}
    inference = blank | {name: value for name, value in report.items() if name in moved}
    rest = {name: value for name, value in report.items() if name not in moved}
    frame = {"standardize": {"on": False}, "search": None, "inference": inference}
    return {**frame, "degrees_of_freedom": None, "left_out": NONE_KEPT, **rest}


def _renamed(report: State) -> State:
    names = {"C k(x, x)": "margin_scale", "let go": "dropped_support_vectors"}
    names["weights_times"] = "search_weight_factor"
    return {
        names.get(key, key): _renamed(value) if isinstance(value, dict) else value
        for key, value in report.items()
    }


def _memory(given: Arrays, found: State) -> State:
    weights = np.ascontiguousarray(found.pop("dual_coef_").T)
    points = {"points": found.pop("support_vectors_"), "rows": found.pop("support_")}
    points |= {"coef": given["coef"], "weights": weights}
    if given["R"].ndim == 2:
        residual, gone = given["state"]
        own = {name: given[name] for name in ("R", "G", "h", "phi")}
        own |= {"place": _rows(given["place"]), "residual": bool(residual), "gone": int(gone)}
        return {"Landmarked": points | own}
    root = given["root"] if given["root"].shape[1] == len(weights) else None
    graph = {"data": given["data"]} | {n: _rows(given[n]) for n in ("indices", "indptr")}
    return {"Whole": {**points, "graph": graph, "root": root, "extent": _rows(given["extent"])}}


def _rows(numbers: Any) -> Any:
    return np.asarray(numbers).astype(np.int64)


def _online(state: State, arrays: Arrays) -> State:
    latents = []
    for j, gain in enumerate(state["gains"]):
        own = _under(f"{j}.", arrays) | {"gain": gain}
        if state["form"] == "growing":
            own["panels"] = [{"rows": own.pop(f"panel{i}")} for i in range(len(own) - 2)]
        latents.append({state["form"].capitalize(): own})
    stream = {"kernel": state["inside"], "points": arrays.pop("points"), "latents": latents}
    stream |= {"S": arrays.pop("labels", None), "w": arrays.pop("weights", None)}
    seen = dict(zip(("weight", "log_loss_sum", "right"), state["prequential"], strict=True))
    return {
        "units_": _under("units.", arrays),
        "kernel_": state["kernel"],
        "posteriors_": [stream | {"moved": state["moved"]}],
        "log_evidence_": state["log_evidence"],
        "prequential_": seen,
        "_report": state["report"],
    }


def _relevance(state: State, arrays: Arrays) -> State:
    weights, relevance = arrays.pop("coefficients"), _rows(state["relevance"])
    precisions, processes = np.full(weights.shape, np.inf), []
    for j, places in enumerate(state["machines"]):
        own = _under(f"{j}.", arrays)
        precisions[j, places] = own.pop("precisions")
        spread = {name: own.pop(name) for name in ("cholesky", "scale")}
        functions: State = {"bias": state["bias"]}
        if state["inside"] is not None:
            form, functions = "kernel", functions | {"kernel": state["inside"]}
            functions["centres"] = own.pop("centres")
        else:
            form = "columns" if state["own"] is None else "own"
            functions["columns"] = relevance[places]
            functions |= {"own": state["own"]} if form == "own" else {}
        process = {"functions": {form: functions}, "mu": own.pop("mu"), "spread": spread}
        if state["healed"] is None:
            processes.append({"Sparse": process})
        else:
            processes.append({"Augmented": process | own | {"variance": state["healed"][j]}})
    return {
        "units_": _under("units.", arrays),
        "kernel_": state["kernel"],
        "losses_": [state["loss"]],
        "relevance_rows_": relevance,
        "relevance_vectors_": arrays.pop("relevance_vectors"),
        "weights_": weights,
        "precisions_": precisions,
        "intercept_": arrays.pop("intercept"),
        "n_iter_": state["iterations"],
        "log_evidence_": state["log_evidence"],
        "left_out_": None,
        "report_": {"left_out": NONE_KEPT} | state["report"],
        "posteriors_": processes,
        "_augmented_rows": arrays.pop("points", None),
    }


def _spline(state: State, arrays: Arrays) -> State:
    """The rows are merged again, and what follows from them is computed as the fit did."""
    given, stored = _under("rows.", arrays), _under("states.", arrays)
    stored |= {name: state[name] for name in ("variance", "logdet", "rss")}
    m, lam = state["order"], state["lam"]
    if "loss" in state:
        units = {"within": 0.0, "y_shift": 0.0, "y_scale": 1.0, "unit": state["unit"]}
        rows = SplineRows(**given, **_under("sites.", arrays), **units)
        noise, edf = 1.0, rows.total @ stored["cov"][:, 0]
        loss = inner = state["loss"]
    else:
        rows, noise, edf = merge_rows(**given), state["noise"], state["edf"]
        loss = Gaussian(noise=rows.y_scale**2 * noise).to_dict()
        inner = Gaussian(noise=noise).to_dict()
    variance = (1.0 if "loss" in state else rows.y_scale**2 * noise) / lam
    units = {"x_shift": 0.0, "x_scale": 1.0, "y_shift": rows.y_shift, "y_scale": rows.y_scale}
    curve = {"rows": vars(rows), "states": stored, "noise_variance": noise}
    return {
        "units_": {name: np.array([value]) for name, value in units.items()},
        "basis_": PolynomialBasis(m - 1).to_dict(),
        "kernel_": Scale(Spline(m, float(rows.points[0])), variance).to_dict(),
        "loss_": loss,
        "flat_": True,
        "log_evidence_": state["log_evidence"],
        "report_": state["report"],
        "relevance_": None,
        "losses_": [inner],
        "lam_": lam,
        "edf_": float(edf),
        "posteriors_": [{"SplinePosterior": curve}],
        "_periodic_left_out": None,
    }


FAMILIES = {"draws": _machine, "support": _support, "form": _online}
FAMILIES |= {"machines": _relevance, "lam": _spline}


def _table(state: State, arrays: Arrays) -> State:
    left_out = {n: arrays.pop(f"left.{n}", None) for n in ("log_density", "mean", "std", "proba")}
    y = arrays.pop("left.y")
    left_out["y"] = {"values": y} if y.dtype.kind == "f" else {"codes": _rows(y)}
    left_out |= {"weights": arrays.pop("left.weights", None), "by": state.pop("by")}
    return {
        "params": {},
        "weighted_by_": None,  # files of the first versions have none
        **{f"{name}_": value for name, value in state.items()},
        "pipeline_": _step(state["pipeline"], "pipeline", arrays),
        "left_out_": left_out,
        "left_rows_": arrays.pop("left.rows"),
        "rows_": arrays.pop("rows"),
        "influence_": arrays.pop("influence"),
        "weights_": arrays.pop("weights", None),
    }


def _step(stored: Any, key: str, arrays: Arrays) -> Any:
    """Return a step with the arrays of the estimators in it, which lay under its key."""
    if isinstance(stored, list):
        return [_step(v, key, arrays) for v in stored]
    if not isinstance(stored, Mapping):
        return stored
    for form, translate in (("machine", _estimator), ("own", _own)):
        if form in stored:
            state = translate(stored["state"], _under(f"{key}.", arrays))
            return {form: stored[form], "state": state}
    if "step" in stored and "at" in stored:
        return {"step": _step(stored["step"], f"{key}.{stored['at']}", arrays)}
    return {k: _step(v, key, arrays) for k, v in stored.items()}


def _own(state: State, arrays: Arrays) -> State:
    """A step of :func:`mercer.fit`: a sigmoid on an estimator, or the features of dates."""
    if "machine" in state:
        inner = _step(state["machine"], "machine", arrays)
        state = {"machine_": inner, "folds_": state["folds"]}
    else:
        state = dict.fromkeys(("middle_", "gaps_", "cycles_"))
    return {"params": {}, **state, **{f"{name}_": array for name, array in arrays.items()}}
