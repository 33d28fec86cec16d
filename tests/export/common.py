"""Running an exported model, and how far it is from mercer."""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import mercer


def run(proto, X, check=True):
    """Return the outputs of a checked ONNX model by name."""
    if check:
        onnx.checker.check_model(proto, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    kind = {"tensor(double)": np.float64, "tensor(float)": np.float32}[session.get_inputs()[0].type]
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": np.ascontiguousarray(X, kind)}), strict=True))


def run_graph(graph, value, X):
    """Return a value of a graph whose only input is X (q, d)."""
    graph.keep([value.name])
    graph.nodes.append(helper.make_node("Identity", [value.name], ["y"]))
    info = helper.make_tensor_value_info
    inputs = [info("X", TensorProto.DOUBLE, [None, X.shape[1]])]
    outputs = [info("y", TensorProto.DOUBLE, None)]
    body = helper.make_graph(graph.nodes, "test", inputs, outputs, graph.constants)
    opsets = [helper.make_opsetid("", 18)]
    return run(helper.make_model(body, opset_imports=opsets, ir_version=8), X, check=False)["y"]


def assert_same(model, X, tol=1e-9, expected=None, **options):
    """Every output of the exported model is mercer's, at the rows X."""
    found = run(mercer.to_onnx(model, **options), X)
    if expected is not None:
        assert list(found) == expected
    wanted = {
        "mean": lambda: model.predict(X),
        "quantiles": lambda: model.predict(X),
        "std": lambda: model.predict(X, return_std=True)[1],
        "probabilities": lambda: model.predict_proba(X),
        "decision": lambda: model.decision_function(X),
    }
    for name, value in found.items():
        if name == "label":
            np.testing.assert_array_equal(value, model.predict(X))
            continue
        truth = np.asarray(wanted[name]())
        assert value.shape == truth.shape
        np.testing.assert_allclose(value, truth, rtol=tol, atol=tol * max(1.0, np.abs(truth).max()))
    return found
