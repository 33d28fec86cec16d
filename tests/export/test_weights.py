"""Posteriors of weights as ONNX graphs: phi(x)'b, and the squares of R^-T phi(x)."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import GPClassifier, GPRegressor, KernelClassifier, OnlineLogisticClassifier
from mercer.kernels import Linear, Polynomial

ort = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
Y = X @ [1.0, -2.0, 0.5] + 0.3 * RNG.normal(size=300)
LINE = 1.0 * Linear() + 1.0
MODELS = {
    "regression": (GPRegressor(LINE, search=None), Y),
    "polynomial, basis": (GPRegressor(Polynomial(2).on([0, 2]), basis=1, search=None), Y),
    "classes": (GPClassifier(LINE, inference="laplace", search=None), np.digitize(Y, [-1.0, 1.0])),
    "one by one": (
        GPClassifier(LINE, loss="probit", inference="ep", search=None),
        np.digitize(Y, [-1.0, 1.0]),
    ),
    "mode": (KernelClassifier(LINE), np.digitize(Y, [-1.0, 1.0])),
    "stream": (OnlineLogisticClassifier(Polynomial(2), mean=0.5), Y > 0.0),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_graph_answers_as_the_model(name, tmp_path):
    model, y = MODELS[name]
    model.fit(X, y)
    assert model.report_["gram"] == "weights"
    mercer.to_onnx(model, tmp_path / "m.onnx")
    session = ort.InferenceSession(tmp_path / "m.onnx")
    outputs = [one.name for one in session.get_outputs()]
    found = dict(
        zip(outputs, session.run(None, {session.get_inputs()[0].name: X[:5]}), strict=True)
    )
    if isinstance(model, GPRegressor):
        mean, std = model.predict(X[:5], return_std=True)
        np.testing.assert_allclose(found["mean"], mean, rtol=1e-10)
        np.testing.assert_allclose(found["std"], std, rtol=1e-10)
    else:
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(X[:5]), atol=1e-9)
