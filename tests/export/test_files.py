"""The ONNX file: types, names, what it says of itself, and what is refused."""

import builtins
import json

import numpy as np
import onnx
import pandas
import pytest
from sklearn.exceptions import NotFittedError

import mercer
from mercer.export import ExportError
from mercer.export import expression as graph
from mercer.kernels import RBF
from mercer.losses import Gaussian
from tests.export.common import assert_same, run

X = np.random.default_rng(0).normal(size=(30, 2))
Y = X[:, 0] + X[:, 1] ** 2


def gp(**options):
    return mercer.GPRegressor(RBF(1.1), loss=Gaussian(0.1), search=None, **options)


def test_path(tmp_path):
    model, path = gp().fit(X, Y), tmp_path / "model.onnx"
    path.write_text("something older")
    proto = mercer.to_onnx(model, path)
    stored = onnx.load(path)
    assert stored == proto
    np.testing.assert_array_equal(run(stored, X)["mean"], run(proto, X)["mean"])
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]


def test_failure_leaves_the_file(tmp_path):
    path = tmp_path / "model.onnx"
    path.write_text("as it was")
    model = mercer.GPRegressor(lambda a, b: a @ b.T, loss=Gaussian(0.1), search=None).fit(X, Y)
    with pytest.raises(ExportError):
        mercer.to_onnx(model, path)
    assert path.read_text() == "as it was"


def test_single_precision_inputs():
    model = gp().fit(X, Y)
    found = assert_same(model, X.astype(np.float32), 1e-6, input_dtype="float32")
    assert {value.dtype for value in found.values()} == {np.dtype(np.float32)}
    labels = mercer.SVC().fit(X, Y > 1.0)
    found = run(mercer.to_onnx(labels, input_dtype="float32"), X.astype(np.float32))
    assert found["label"].dtype == np.bool_


@pytest.mark.parametrize(
    "classes", [["no", "yes"], [3, 7], [False, True], [1.0, 2.0], np.array(["a", "b"], object)]
)
def test_labels(classes):
    y = np.asarray(classes)[(Y > 1.0).astype(int)]
    found = run(mercer.to_onnx(mercer.SVC().fit(X, y)), X)
    assert found["label"].tolist() == mercer.SVC().fit(X, y).predict(X).tolist()


def test_shapes_are_told():
    proto = mercer.to_onnx(mercer.KernelClassifier().fit(X, np.arange(30) % 3))
    told = {o.name: [d.dim_value for d in o.type.tensor_type.shape.dim] for o in proto.graph.output}
    assert told == {"label": [0], "decision": [0, 3], "probabilities": [0, 3]}
    assert [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim] == [0, 2]


def test_what_it_says_of_itself():
    table = pandas.DataFrame(X, columns=["age", "weight"])
    proto = mercer.to_onnx(mercer.SVC().fit(table, np.where(Y > 1, "b", "a")))
    about = {p.key: p.value for p in proto.metadata_props}
    assert about["estimator"] == "SVC"
    assert about["mercer"] == mercer.__version__
    assert json.loads(about["feature_names"]) == ["age", "weight"]
    assert json.loads(about["classes"]) == ["a", "b"]


def test_opset():
    proto = mercer.to_onnx(gp().fit(X, Y), opset=20)
    assert proto.opset_import[0].version == 20
    assert np.isfinite(run(proto, X)["mean"]).all()
    for bad in (17, "18", 18.5):
        with pytest.raises(ValueError, match="opset must be a whole number from 18 on"):
            mercer.to_onnx(gp().fit(X, Y), opset=bad)


def test_wrong_options():
    with pytest.raises(ValueError, match="input_dtype must be"):
        mercer.to_onnx(gp().fit(X, Y), input_dtype="float16")
    with pytest.raises(NotFittedError):
        mercer.to_onnx(gp())


def test_nothing_is_stored_twice():
    """Mean and deviation share k(X, P): the rows are there once, and no node is unused."""
    proto = mercer.to_onnx(gp().fit(X, Y))
    used = {name for node in proto.graph.node for name in node.input}
    used |= {output.name for output in proto.graph.output}
    assert all(set(node.output) & used for node in proto.graph.node)
    assert {c.name for c in proto.graph.initializer} <= used
    assert sum(node.op_type == "Exp" for node in proto.graph.node) == 1


def test_too_large(monkeypatch):
    monkeypatch.setattr(graph, "LARGEST", 3000)
    model = gp().fit(X, Y)
    with pytest.raises(ExportError, match=r"std=False"):
        mercer.to_onnx(model)
    assert_same(model, X, 1e-9, ["mean"], std=False)


def test_without_onnx(monkeypatch):
    real = builtins.__import__

    def missing(name, *rest):
        if name.partition(".")[0] == "onnx":
            raise ImportError(name)
        return real(name, *rest)

    model = gp().fit(X, Y)
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ImportError, match=r"pip install 'mercer\[onnx\]'"):
        mercer.to_onnx(model)
