"""to_onnx: a fitted estimator, and preprocessors before it, with named inputs and outputs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from sklearn import preprocessing
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline

from mercer.core.errors import ExportError
from mercer.estimators.features.components import KernelPCA
from mercer.estimators.features.estimator import KernelFeatures
from mercer.export.expression import OnnxGraph, Value, stack, where
from mercer.export.kernels import cross, features

# Scores of a graph that are closer than this are equal but for its rounding.
TIE = 1e-12

OLDEST = 18  # the opset since which axes are inputs of every reduction
IR_VERSION = 8
CATEGORIES = "ai.onnx.ml"  # the part of the standard that knows texts
DTYPES = ("float64", "float32")


def to_onnx(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    input_dtype: str = "float64",
    std: bool = True,
    opset: int = OLDEST,
) -> Any:
    """Return a fitted estimator as an ONNX model, and write it to ``path`` if one is given.

    The graph has one input, ``X`` (q, d), in the units of ``fit``; that of a model of
    :func:`mercer.fit` has one for each column, (q, 1), by its name: numbers (NaN where missing),
    texts ("" where missing), dates as days since 1970. Outputs follow from the kind of estimator:

    ============= ===================================================================
    output        of
    ============= ===================================================================
    mean, std     regressors: (q,), or (q, m); std of a new observation, where known
    quantiles     QuantileRegressor: (q, p), or (q,) of one level
    label         classifiers: (q,), the class as ``predict`` gives it
    probabilities classifiers with probabilities: (q, k), in the order of ``classes_``
    decision      estimators with a margin: (q,), or (q, k)
    ============= ===================================================================

    It calculates in double precision with operators of the standard alone, and agrees with mercer
    to about 1e-12 (estimators that predict in single precision: 1e-6). Where mercer would refuse a
    row, outputs are NaN or meaningless: check the inputs first.

    Parameters
    ----------
    model : a fitted mercer estimator, a scikit-learn Pipeline that ends in one, or what
        :func:`mercer.fit` returns. A kernel or preprocessor that
        cannot be written in ONNX is refused by name, and so is a subclass that predicts in its own
        way.
    path : the file, by convention ``*.onnx``; written completely or not at all.
    input_dtype : "float64" or "float32", of X and of all outputs but the labels.
    std : False leaves the deviation of a regressor out; then the file grows with n, not n^2.
    opset : version of the operators, 18 or more.

    Returns
    -------
    onnx.ModelProto; ``SerializeToString()`` is what onnxruntime reads.

    References
    ----------
    ONNX, Open neural network exchange, https://onnx.ai.

    Examples
    --------
    >>> import mercer, numpy as np
    >>> X = np.linspace(0, 1, 8)[:, None]
    >>> model = mercer.GPRegressor().fit(X, np.sin(6 * X[:, 0]))
    >>> [output.name for output in mercer.to_onnx(model).graph.output]
    ['mean', 'std']
    """
    from sklearn.utils.validation import check_is_fitted

    try:
        from onnx import helper
    except ImportError:
        raise ImportError("to_onnx needs the package onnx: pip install 'mercer[onnx]'") from None
    from mercer.export.machines import writer_of
    from mercer.persist import replacing

    if input_dtype not in DTYPES:
        raise ValueError(f"input_dtype must be 'float64' or 'float32', not {input_dtype!r}")
    if not isinstance(opset, int) or opset < OLDEST:
        raise ValueError(f"opset must be a whole number from {OLDEST} on, not {opset!r}")
    dtype = np.dtype(input_dtype)
    write = writer_of(machine_of(model))
    if hasattr(model, "fit"):  # a table model is made fitted
        check_is_fitted(model)
    whole, graph = model, OnnxGraph()
    model, X, inputs = entered(whole, graph, dtype)
    outputs = write(model, X, bool(std))
    labels = _labels(model, outputs)
    if dtype == np.float32:
        outputs = {name: value.cast(np.float32) for name, value in outputs.items()}
    kind = int(helper.np_dtype_to_tensor_dtype(dtype))
    named = [(name, value, kind, _shape(model, name)) for name, value in outputs.items()]
    if labels is not None:
        named.insert(0, ("label", *labels, [None]))
    graph.keep([value.name for _, value, _, _ in named])
    for name, value, _, _ in named:
        graph.nodes.append(helper.make_node("Identity", [value.name], [name]))
    opsets = {"": opset}
    if any(node.domain == CATEGORIES for node in graph.nodes):
        opsets[CATEGORIES] = 3
    info, name = helper.make_tensor_value_info, type(whole).__name__
    ends = [info(output, code, shape) for output, _, code, shape in named]
    proto = helper.make_model(
        helper.make_graph(graph.nodes, name, inputs, ends, graph.constants),
        opset_imports=[helper.make_opsetid(name, n) for name, n in opsets.items()],
        ir_version=IR_VERSION,
        producer_name="mercer",
        doc_string=f"{type(model).__name__} of mercer",
    )
    helper.set_model_props(proto, _about(whole, model))
    if path is not None:
        with replacing(path) as temporary, open(temporary, "wb") as file:
            file.write(proto.SerializeToString())
    return proto


def _labels(model: Any, outputs: dict[str, Value]) -> tuple[Value, int] | None:
    """Return the label (q,) with its type in ONNX; None for a regressor."""
    from onnx import TensorProto

    if "mean" in outputs or "quantiles" in outputs:
        return None
    if not hasattr(model, "classes_"):  # outlier detection: +1 inside, -1 outside
        side = where(outputs["decision"].expand(1) < 0.0, np.int64(-1), np.int64(1))
        return side.squeeze(1), TensorProto.INT64
    scores = outputs.get("probabilities", outputs.get("decision"))
    assert scores is not None
    graph = scores.graph
    if "probabilities" in outputs or _shape(model, "decision") != [None]:
        near = scores >= scores.max() - TIE  # the first of those that are equal but for rounding
        index = graph.add("ArgMax", near.cast(np.int64), axis=1, keepdims=0)
    else:
        index = where(scores.expand(1) > TIE, np.int64(1), np.int64(0)).squeeze(1)
    classes = np.asarray(model.classes_)
    if classes.dtype.kind == "O" and not all(isinstance(c, str) for c in classes):
        raise ExportError("labels that are neither texts nor numbers cannot be exported")
    types = {"U": TensorProto.STRING, "O": TensorProto.STRING, "f": TensorProto.DOUBLE}
    kind = (types | {"b": TensorProto.BOOL}).get(classes.dtype.kind, TensorProto.INT64)
    return graph.add("Gather", classes, index, axis=0), kind


def _shape(model: Any, name: str) -> list[int | None]:
    """Shape of an output, None for the number of rows."""
    k = len(getattr(model, "classes_", ()))
    if name == "probabilities":
        return [None, k]
    if name == "decision":
        return [None] if k <= 2 else [None, k]
    flat = getattr(model, "flat_", True)
    if name == "quantiles":
        return [None] if flat else [None, len(model.losses_)]
    return [None] if flat else [None, len(model.units_.y_scale)]


def _about(whole: Any, estimator: Any) -> dict[str, str]:
    """Return the metadata of the file."""
    import mercer

    about = {"mercer": mercer.__version__, "estimator": type(estimator).__name__}
    if hasattr(estimator, "classes_"):
        about["classes"] = json.dumps([str(c) for c in estimator.classes_])
    if hasattr(whole, "feature_names_in_"):
        about["feature_names"] = json.dumps([str(name) for name in whole.feature_names_in_])
    table = of_table(whole)
    return about if table is None else about | table.about


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


@step_of(KernelFeatures)
def _kernel_features(step: KernelFeatures, columns: list[Value]) -> Value:
    X = stack(columns)
    if step.points_ is None:
        return features(step.kernel_, X)
    inverse = solve_triangular(step._root, np.eye(len(step._root)), lower=True)
    return cross(step.kernel_, X, step.points_) @ inverse.T


@step_of(KernelPCA)
def _kernel_components(step: KernelPCA, columns: list[Value]) -> Value:
    X, P = stack(columns), step.points_
    base = features(step.kernel_, X) if P is None else cross(step.kernel_, X, P)
    return base @ step.coefficients_ - step.level_[None, :]


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
