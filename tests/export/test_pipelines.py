"""Pipelines and table models in onnxruntime: from raw columns to the prediction."""

import datetime
import json
from importlib import import_module

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from sklearn import preprocessing
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import mercer
from mercer.export import ExportError
from mercer.export.model import STEPS
from mercer.kernels import RBF
from mercer.losses import Gaussian
from tests.export.common import assert_same

pytestmark = pytest.mark.usefixtures("unjudged")  # what is asked here is something else

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 1.0]
GAPS = np.where(RNG.random((40, 3)) < 0.2, np.nan, X)
CODES = RNG.integers(0, 4, (40, 2)).astype(float)
Y = X[:, 0] + 0.1 * RNG.normal(size=40)


def machine():
    return mercer.GPRegressor(RBF(1.3), loss=Gaussian(0.1), search=None)


CASES = {
    "ColumnTransformer": (
        ColumnTransformer(
            [("a", StandardScaler(), [2, 0]), ("b", "passthrough", slice(1, 2)), ("c", "drop", [0])]
        ),
        X,
    ),
    "FunctionTransformer": (preprocessing.FunctionTransformer(), X),
    "KernelFeatures": (mercer.KernelFeatures(m=6), X),
    "KernelPCA": (mercer.KernelPCA(n_components=3), X),
    "KernelPCA, of features": (mercer.KernelPCA("linear", n_components=2), X),
    "KernelFeatures, of the kernel": (mercer.KernelFeatures("linear", m=None), X),
    "MaxAbsScaler": (preprocessing.MaxAbsScaler(), X),
    "MinMaxScaler": (preprocessing.MinMaxScaler((-1, 2)), X),
    "MinMaxScaler, clipped": (preprocessing.MinMaxScaler(clip=True), X),
    "OneHotEncoder": (OneHotEncoder(sparse_output=False, handle_unknown="ignore"), CODES),
    "PCA": (PCA(2, whiten=True), X),
    "Pipeline": (make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), GAPS),
    "RobustScaler": (preprocessing.RobustScaler(), X),
    "SimpleImputer": (SimpleImputer(strategy="constant", fill_value=-1.0), GAPS),
    "SimpleImputer, most frequent": (SimpleImputer(strategy="most_frequent"), GAPS),
    "StandardScaler": (StandardScaler(), X),
    "StandardScaler, no mean": (StandardScaler(with_mean=False), X),
    "StandardScaler, no scale": (StandardScaler(with_std=False), X),
    "TruncatedSVD": (TruncatedSVD(2, random_state=0), X),
}


def test_every_step_is_tested():
    own = {"DateFeatures"}  # of the room of tables
    assert {cls.__name__ for cls in STEPS} - own <= {name.partition(",")[0] for name in CASES}


@pytest.mark.parametrize("name", CASES)
def test_step(name):
    step, rows = CASES[name]
    model = Pipeline([("before", step), ("machine", machine())]).fit(rows, Y)
    new = rows[:9] + 1.0  # some codes are unknown, some values beyond those of training
    assert_same(model, new, 1e-9, ["mean", "std"])


def test_no_step_before_the_machine():
    assert_same(make_pipeline(mercer.SVC(tol=1e-6)).fit(X, Y > 0), X, 1e-9, ["label", "decision"])


def test_single_precision():
    model = make_pipeline(StandardScaler(), machine()).fit(X, Y)
    assert_same(model, X.astype(np.float32), 1e-5, input_dtype="float32")


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (preprocessing.QuantileTransformer(n_quantiles=5), "QuantileTransformer cannot be"),
        (preprocessing.FunctionTransformer(np.abs), "function of Python"),
        (OneHotEncoder(drop="first", sparse_output=False), "drops a category"),
        (OneHotEncoder(min_frequency=5, sparse_output=False), "groups rare categories"),
        (
            ColumnTransformer([("a", StandardScaler(), [0])], transformer_weights={"a": 2.0}),
            "weights of a ColumnTransformer",
        ),
    ],
)
def test_others_are_refused(step, reason):
    rows = CODES if isinstance(step, OneHotEncoder) else X
    model = make_pipeline(step, machine()).fit(rows, Y)
    with pytest.raises(ExportError, match=reason):
        mercer.to_onnx(model)


# ---------------------------------------------------------------------- tables
def table(n=60, seed=1):
    rng = np.random.default_rng(seed)
    start = datetime.date(2020, 1, 1)
    frame = pd.DataFrame(
        {
            "size": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "town": rng.choice(["Ulm", "Bonn", "Nîmes"], n),
            "when": [start + datetime.timedelta(days=int(i)) for i in rng.integers(0, 900, n)],
            "age": rng.uniform(20.0, 60.0, n),
        }
    )
    frame.loc[frame.index[3], "town"] = None
    frame["y"] = frame["age"] / 10 + (frame["town"] == "Ulm") + 0.1 * rng.normal(size=n)
    return frame


def columns(frame, names):
    """Return the inputs of the graph for a table."""
    days = np.array([(d - datetime.date(1970, 1, 1)).days for d in frame["when"]], dtype=float)
    found = {
        "size": frame["size"].to_numpy(float)[:, None],
        "town": np.array(["" if pd.isna(t) else t for t in frame["town"]], dtype=object)[:, None],
        "when": days[:, None],
        "age": frame["age"].to_numpy()[:, None],
    }
    return {name: found[name] for name in names}


def session(proto):
    onnx.checker.check_model(proto, full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def fitted(target, candidates=None):
    frame = table()
    frame["kind"] = np.where(frame["y"] > 4.5, "high", "low")
    other = {"y": "kind", "kind": "y"}[target]
    return mercer.fit(
        frame.drop(columns=other), target=target, time_budget=5.0, candidates=candidates
    )


def test_table_of_numbers_categories_and_dates():
    model = fitted("y")
    proto = mercer.to_onnx(model)
    graph, new = session(proto), table(20, seed=2)
    inputs = columns(new, [i.name for i in graph.get_inputs()])
    assert set(inputs) == {"size", "town", "when", "age"}
    mean, std = graph.run(["mean", "std"], inputs)
    wanted = model.predict(new.drop(columns="y"), return_std=True)
    np.testing.assert_allclose(mean, wanted[0], rtol=1e-6)
    np.testing.assert_allclose(std, wanted[1], rtol=1e-5)
    about = {p.key: p.value for p in proto.metadata_props}
    assert about["target"] == "y"
    assert {c["kind"] for c in json.loads(about["columns"])} == {"numeric", "categorical", "date"}


def test_table_of_classes():
    model = fitted("kind")
    graph, new = session(mercer.to_onnx(model)), table(20, seed=3)
    inputs = columns(new, [i.name for i in graph.get_inputs()])
    label, p = graph.run(["label", "probabilities"], inputs)
    np.testing.assert_allclose(p, model.predict_proba(new.drop(columns="y")), atol=1e-5)
    np.testing.assert_array_equal(label, model.predict(new.drop(columns="y")))


def test_sigmoid_of_a_machine_without_probabilities():
    from mercer.tables.choose.calibrated import SigmoidClassifier

    y = np.where(np.arange(40) < 25, np.where(Y > 0, "up", "down"), None)
    model = SigmoidClassifier(mercer.LapSVC(tol=1e-6)).fit(X, y)
    import_module("mercer.tables.onnx")  # as to_onnx does for a table model
    assert_same(model, X, 1e-8, ["label", "probabilities"])


def test_names_that_the_graph_uses():
    frame = table().rename(columns={"age": "mean"})
    model = mercer.fit(frame[["mean", "y"]], target="y", time_budget=3.0)
    with pytest.raises(ExportError, match="a column is called 'mean'"):
        mercer.to_onnx(model)
