"""What goes into a graph: rows X of numbers, or columns by their names; preprocessors in ONNX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import preprocessing
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline

from mercer.core.errors import ExportError
from mercer.export.expression import OnnxGraph, Value, stack, where

Step = Callable[[Any, list[Value]], Value]  # columns (q, 1) each -> numbers (q, k)
STEPS: dict[type, Step] = {}


def transformed(step: Any, columns: list[Value]) -> Value:
    """Return what a fitted preprocessor makes of columns, (q, 1) each: (q, k)."""
    if type(step) not in STEPS:
        known = ", ".join(sorted(cls.__name__ for cls in STEPS))
        raise ExportError(
            f"the preprocessor {type(step).__name__} cannot be exported; those that can are "
            f"{known}: do without it, or export the estimator alone and convert the rest with "
            "skl2onnx"
        )
    return STEPS[type(step)](step, columns)


def step_of(cls: type) -> Callable[[Step], Step]:
    """Enter the form of a preprocessor of class ``cls``."""

    def enter(function: Step) -> Step:
        STEPS[cls] = function
        return function

    return enter


def present(X: Value) -> Value:
    """Return where there is a value, which a NaN is not equal to."""
    return X == X  # a NaN is not equal to itself


@step_of(Pipeline)
def _pipeline(step: Any, columns: list[Value]) -> Value:
    for _, inner in step.steps:
        if not isinstance(inner, str):
            columns = [transformed(inner, columns)]
    return stack(columns)


@step_of(ColumnTransformer)
def _column_transformer(step: Any, columns: list[Value]) -> Value:
    if step.transformer_weights:
        raise ExportError("the weights of a ColumnTransformer cannot be exported; scale before")
    parts = []
    for name, inner, _ in step.transformers_:
        chosen = [columns[j] for j in step._transformer_to_input_indices[name]]
        if chosen and not (isinstance(inner, str) and inner == "drop"):
            parts.append(stack(chosen) if isinstance(inner, str) else transformed(inner, chosen))
    return stack(parts)


@step_of(SimpleImputer)
def _imputer(step: Any, columns: list[Value]) -> Value:
    _refuse(step.missing_values == step.missing_values, "SimpleImputer of other gaps than NaN")
    X, kept = stack(columns), np.flatnonzero(~np.isnan(step.statistics_.astype(float)))
    filled = where(present(X), X, step.statistics_.astype(float)[None, :])
    parts = [filled if len(kept) == len(step.statistics_) else filled.take(kept)]
    if step.add_indicator and len(step.indicator_.features_):
        absent = where(present(X), 0.0, 1.0)
        parts.append(absent.take(step.indicator_.features_))
    return stack(parts)


@step_of(preprocessing.MinMaxScaler)
def _between(step: Any, columns: list[Value]) -> Value:
    X = stack(columns) * step.scale_[None, :] + step.min_[None, :]
    return np.clip(X, *step.feature_range) if step.clip else X


@step_of(PCA)
def _principal(step: Any, columns: list[Value]) -> Value:
    scale = np.sqrt(step.explained_variance_) if step.whiten else np.ones(len(step.components_))
    return _affine(stack(columns), step.mean_, None) @ (step.components_.T / scale)


@step_of(preprocessing.FunctionTransformer)
def _identity(step: Any, columns: list[Value]) -> Value:
    _refuse(step.func is not None, "FunctionTransformer with a function of Python")
    return stack(columns)


@step_of(preprocessing.OneHotEncoder)
def _indicators(step: Any, columns: list[Value]) -> Value:
    _refuse(step.drop is not None, "OneHotEncoder that drops a category")
    _refuse(step._infrequent_enabled, "OneHotEncoder that groups rare categories")
    _refuse(len(columns) != len(step.categories_), "OneHotEncoder after another step")
    return stack([_one_hot(c, k) for c, k in zip(columns, step.categories_, strict=True)])


def _one_hot(column: Value, categories: Any) -> Value:
    """(q, k): one where the value is the category; an unknown value has none."""
    if all(isinstance(c, str) for c in categories):
        words = [c.encode() for c in categories]
        found = column.graph.add(
            "OneHotEncoder", column, domain="ai.onnx.ml", cats_strings=words, zeros=1
        )
        return found.squeeze(1).cast(np.float64)
    numbers = np.asarray(categories, dtype=np.float64)
    return where(column == numbers[None, :], 1.0, 0.0)


def _affine(X: Value, shift: Any, scale: Any) -> Value:
    X = X if shift is None else X - np.asarray(shift)[None, :]
    return X if scale is None else X / np.asarray(scale)[None, :]


STEPS |= {
    preprocessing.MaxAbsScaler: lambda step, columns: _affine(stack(columns), None, step.scale_),
    preprocessing.RobustScaler: lambda step, columns: _affine(
        stack(columns), step.center_, step.scale_
    ),
    preprocessing.StandardScaler: lambda step, columns: _affine(
        stack(columns), step.mean_ if step.with_mean else None, step.scale_
    ),
    TruncatedSVD: lambda step, columns: stack(columns) @ step.components_.T,
}


def _refuse(odd: Any, what: str) -> None:
    if odd:
        raise ExportError(f"a {what} cannot be exported")


OUTPUTS = ("label", "mean", "std", "probabilities", "decision")


@dataclass(frozen=True)
class TableInputs:
    """A table model taken apart."""

    names: list[str]  # of the columns in use
    texts: list[bool]  # whether each holds text
    encoder: Any  # the fitted preprocessor of these columns
    machine: Any  # what comes after it
    about: dict[str, str]  # further metadata


def of_table(model: Any) -> TableInputs | None:
    """Return a table model taken apart; None for anything else.

    Such a model stands above this package: it is asked for its inputs by ``_onnx_inputs``.
    """
    return model._onnx_inputs() if hasattr(model, "_onnx_inputs") else None


def machine_of(model: Any) -> Any:
    """Return what makes the predictions: the model itself, or the end of its pipeline."""
    table = of_table(model)
    if table is not None:
        return table.machine
    return model.steps[-1][1] if type(model) is Pipeline else model


def entered(model: Any, graph: OnnxGraph, dtype: Any) -> tuple[Any, Value, list[Any]]:
    """Return the estimator of a model, its rows in doubles (q, d), and the inputs of the graph."""
    from onnx import TensorProto, helper

    kind = int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def number(name: str) -> Value:
        value = Value(graph, name)
        return value if np.dtype(dtype) == np.float64 else value.cast(np.float64)

    table = of_table(model)
    if table is not None:
        clash = [name for name in table.names if name in OUTPUTS or name[:1] == "/"]
        if clash:
            reason = f"a column is called {clash[0]!r}, a name that the graph uses: rename it"
            raise ExportError(reason)
        columns, infos = [], []
        for name, text in zip(table.names, table.texts, strict=True):
            columns.append(Value(graph, name) if text else number(name))
            code = int(TensorProto.STRING) if text else kind
            infos.append(helper.make_tensor_value_info(name, code, [None, 1]))
        return table.machine, transformed(table.encoder, columns), infos
    d = int(model.n_features_in_)
    infos = [helper.make_tensor_value_info("X", kind, [None, d])]
    if type(model) is not Pipeline:
        return model, number("X"), infos
    X, steps = number("X"), model.steps
    columns = [X.take([j]) for j in range(d)]
    return steps[-1][1], _pipeline(Pipeline(steps[:-1]), columns), infos
