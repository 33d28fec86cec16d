"""to_onnx: a fitted estimator as an ONNX model with named inputs and outputs."""

from __future__ import annotations

import json
import os
from typing import Any

import numpy as np

from mercer.core.errors import ExportError
from mercer.export.expression import OnnxGraph, Value, where

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
    from mercer.export.inputs import entered, machine_of
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

    if "mean" in outputs:
        return None
    if not hasattr(model, "classes_"):  # outlier detection: +1 inside, -1 outside
        side = where(outputs["decision"].expand(1) < 0.0, np.int64(-1), np.int64(1))
        return side.squeeze(1), TensorProto.INT64
    scores = outputs.get("probabilities", outputs.get("decision"))
    assert scores is not None
    graph = scores.graph
    if "probabilities" in outputs or _shape(model, "decision") != [None]:
        index = graph.add("ArgMax", scores, axis=1, keepdims=0)
    else:
        index = where(scores.expand(1) > 0.0, np.int64(1), np.int64(0)).squeeze(1)
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
    return [None] if flat else [None, len(model.units_.y_scale)]


def _about(whole: Any, estimator: Any) -> dict[str, str]:
    """Return the metadata of the file."""
    import mercer
    from mercer.export.inputs import of_table

    about = {"mercer": mercer.__version__, "estimator": type(estimator).__name__}
    if hasattr(estimator, "classes_"):
        about["classes"] = json.dumps([str(c) for c in estimator.classes_])
    if hasattr(whole, "feature_names_in_"):
        about["feature_names"] = json.dumps([str(name) for name in whole.feature_names_in_])
    table = of_table(whole)
    return about if table is None else about | table.about
