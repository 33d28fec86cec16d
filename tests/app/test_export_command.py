"""``mercer export``: a model file becomes a graph that says the same, or a sentence."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import mercer
from mercer.app.main import main
from mercer.kernels import Function

pytestmark = pytest.mark.usefixtures("unjudged")  # what is asked here is something else

onnxruntime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    x = [None if i == 7 else float(v) for i, v in enumerate(rng.normal(size=60))]
    town = rng.choice(["Ulm", "Bonn"], 60)
    y = np.where(np.nan_to_num(np.array(x, dtype=float)) + (town == "Ulm") > 0.5, "yes", "no")
    return {"x": x, "town": town.tolist(), "y": y.tolist()}


@pytest.fixture(scope="module")
def model(tmp_path_factory, table):
    path = tmp_path_factory.mktemp("export") / "m.mercer"
    mercer.fit(table, "y", candidates=["linear"]).save(path)
    return path


def test_a_table_model_with_its_preprocessing(model, table, tmp_path, capsys):
    path = tmp_path / "m.onnx"
    path.write_text("older")  # an output takes the place of an older one, as with every command
    code, out, err = run(capsys, "export", model, path)
    assert (code, err) == (0, "")
    for word in ("Inputs", "town", "text", "rows x 1", "probabilities", "rows x 2", "m.onnx"):
        assert word in out
    session = onnxruntime.InferenceSession(str(path))
    given = {
        "x": np.array(table["x"], dtype=np.float64)[:, None],
        "town": np.array(table["town"], dtype=object)[:, None],
    }
    label, proba = session.run(["label", "probabilities"], given)
    fitted = mercer.load(model)
    np.testing.assert_allclose(proba, fitted.predict_proba(table), atol=1e-10)
    assert label.tolist() == fitted.predict(table).tolist()


def test_json_quiet_and_precision(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.linspace(0, 1, 8)[:, None]
    mercer.save(mercer.GPRegressor(search=None).fit(X, np.sin(6 * X[:, 0])), "m.mercer")
    assert run(capsys, "export", "m.mercer", "m.onnx", "--quiet") == (0, "", "")
    code, out, err = run(capsys, "export", "m.mercer", "s.onnx", "--json", "--single", "--no-std")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["inputs"] == [{"name": "X", "type": "float32", "shape": [None, 1]}]
    assert found["outputs"] == [{"name": "mean", "type": "float32", "shape": [None]}]
    assert found["bytes"] == (tmp_path / "s.onnx").stat().st_size


def test_what_cannot_be_exported_is_said(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.linspace(0, 1, 8)[:, None]
    fitted = mercer.GPRegressor(search=None).fit(X, X[:, 0])
    kernel = Function(lambda X, Z: X @ Z.T)
    monkeypatch.setattr("mercer.persist.load", lambda path: fitted)
    fitted.posteriors_[0].parent.kernel = kernel  # a Python function has no form in a graph
    (tmp_path / "old.onnx").write_text("as it was")
    code, out, err = run(capsys, "export", "m.mercer", "old.onnx")
    assert (code, out) == (1, "")
    assert err.startswith("mercer: m.mercer: ")
    assert "cannot be exported" in err
    assert err.count("\n") == 1
    assert (tmp_path / "old.onnx").read_text() == "as it was"


def test_mistakes_cost_one_sentence(model, tmp_path, capsys, monkeypatch):
    for output, message in (
        (model, "would overwrite"),
        (tmp_path / "nowhere" / "m.onnx", "does not exist"),
    ):
        code, out, err = run(capsys, "export", model, output)
        assert (code, out) == (1, "")
        assert message in err
    assert run(capsys, "export", model)[0] == 2
    code, _, err = run(capsys, "export", tmp_path / "none.mercer", tmp_path / "m.onnx")
    assert code == 1
    assert "No such file" in err
    monkeypatch.setitem(sys.modules, "onnx", None)
    code, _, err = run(capsys, "export", model, tmp_path / "m.onnx")
    assert code == 1
    assert 'pip install "mercer[onnx]"' in err
    assert not (tmp_path / "m.onnx").exists()
