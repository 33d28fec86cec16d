"""What goes into a graph: rows X of numbers, or the columns of a table, each by its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from mercer.export.expression import OnnxGraph, Value, stack
from mercer.export.steps import names_of, split, transformed

OUTPUTS = ("label", "mean", "std", "probabilities", "decision")


@dataclass(frozen=True)
class TableInputs:
    """A table model taken apart.

    Attributes
    ----------
    names, texts : the columns in use, and whether each holds text.
    encoder, machine : the fitted preprocessor of these columns, and what comes after it.
    about : further metadata.
    """

    names: list[str]
    texts: list[bool]
    encoder: Any
    machine: Any
    about: dict[str, str]


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
        columns, infos = [], []
        for name, text in zip(names_of(table.names, OUTPUTS), table.texts, strict=True):
            columns.append(Value(graph, name) if text else number(name))
            code = int(TensorProto.STRING) if text else kind
            infos.append(helper.make_tensor_value_info(name, code, [None, 1]))
        return table.machine, transformed(table.encoder, columns), infos
    d = int(model.n_features_in_)
    infos = [helper.make_tensor_value_info("X", kind, [None, d])]
    if type(model) is not Pipeline:
        return model, number("X"), infos
    columns = split(number("X"), d)
    before = (
        transformed(Pipeline(model.steps[:-1]), columns) if len(model.steps) > 1 else stack(columns)
    )
    return machine_of(model), before, infos
