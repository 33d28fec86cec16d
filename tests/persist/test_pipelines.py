"""Pipelines in model files: a closed list of preprocessors, to the last bit, and nothing else."""

from __future__ import annotations

import contextlib
import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn import preprocessing
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

import mercer
from mercer.kernels import RBF
from mercer.losses import Gaussian
from mercer.persist import ModelFileError
from mercer.persist.pipelines import HOMES, from_plain, packed_step, to_plain, unpacked_step
from tests.persist.common import forged, with_manifest

RNG = np.random.default_rng(0)
N = 40
NUMBERS = RNG.normal(size=(N, 3)) * [1.0, 10.0, 0.1]
GAPS = np.where(RNG.random((N, 3)) < 0.2, np.nan, NUMBERS)
TOWNS = RNG.choice(["Ulm", "Bonn", "Rom", "Nîmes"], (N, 2))
TEXTS = np.array([" ".join(RNG.choice(["cat", "dog", "mouse", "the"], 4)) for _ in range(N)])
Y = RNG.normal(size=N)


def machine():
    return mercer.GPRegressor(RBF(1.3), loss=Gaussian(0.1), search=None)


def mixed():
    rare = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=8)
    known = OneHotEncoder(categories=[np.array(["Bonn", "Ulm"], object)], handle_unknown="ignore")
    words = Pipeline([("words", TfidfVectorizer()), ("topics", TruncatedSVD(2, random_state=0))])
    numbers = Pipeline([("fill", SimpleImputer(add_indicator=True)), ("scale", StandardScaler())])
    return ColumnTransformer(
        [
            ("numbers", numbers, [0, 1, 2]),
            ("rare", rare, [3]),
            ("known", known, [3]),
            ("codes", OrdinalEncoder(), [3, 4]),
            ("words", words, 5),
            ("as it is", "passthrough", [0 + 6]),
            ("not used", "drop", [4]),
        ],
        sparse_threshold=0.0,
    )


TABLE = np.empty((N, 7), dtype=object)
TABLE[:, :3], TABLE[:, 3:5], TABLE[:, 5], TABLE[:, 6] = GAPS, TOWNS, TEXTS, Y + 1.0

CASES = {
    "ColumnTransformer": (mixed(), TABLE),
    "CountVectorizer": (make_pipeline(CountVectorizer(), TruncatedSVD(2, random_state=0)), TEXTS),
    "FunctionTransformer": (preprocessing.FunctionTransformer(), NUMBERS),
    "MaxAbsScaler": (preprocessing.MaxAbsScaler(), NUMBERS),
    "MinMaxScaler": (preprocessing.MinMaxScaler((-1, 1), clip=True), NUMBERS),
    "MissingIndicator": (MissingIndicator(features="all"), GAPS),
    "Normalizer": (preprocessing.Normalizer("l1"), NUMBERS),
    "OneHotEncoder": (OneHotEncoder(drop="if_binary", sparse_output=False), TOWNS),
    "OrdinalEncoder": (OrdinalEncoder(dtype=np.float32), TOWNS),
    "PCA": (PCA(2, whiten=True), NUMBERS),
    "Pipeline": (make_pipeline(SimpleImputer(), StandardScaler()), GAPS),
    "PolynomialFeatures": (preprocessing.PolynomialFeatures(2), NUMBERS),
    "PowerTransformer": (preprocessing.PowerTransformer(), NUMBERS),
    "QuantileTransformer": (preprocessing.QuantileTransformer(n_quantiles=10), NUMBERS),
    "RobustScaler": (preprocessing.RobustScaler(quantile_range=(10.0, 90.0)), NUMBERS),
    "SimpleImputer": (SimpleImputer(strategy="constant", fill_value=-1.0), GAPS),
    "StandardScaler": (StandardScaler(with_mean=False), NUMBERS),
    "TfidfTransformer": (
        make_pipeline(
            CountVectorizer(ngram_range=(1, 2), stop_words=["the"]),
            TfidfTransformer(sublinear_tf=True),
            TruncatedSVD(3, random_state=0),
        ),
        TEXTS,
    ),
    "TfidfVectorizer": (
        make_pipeline(TfidfVectorizer(analyzer="char", max_features=9), TruncatedSVD(2)),
        TEXTS,
    ),
    "TruncatedSVD": (TruncatedSVD(2, algorithm="arpack", random_state=0), NUMBERS),
}


def test_the_list_is_tested():
    assert set(CASES) == set(HOMES)


@pytest.mark.parametrize("name", CASES)
def test_round_trip(name, tmp_path):
    step, X = CASES[name]
    if name == "TfidfVectorizer":
        step.set_params(truncatedsvd__random_state=1)
    model = Pipeline([("before", step), ("machine", machine())]).fit(X, Y)
    mercer.save(model, tmp_path / "pipe.mercer")
    again = mercer.load(tmp_path / "pipe.mercer")
    for mine, theirs in zip(
        model.predict(X, return_std=True), again.predict(X, return_std=True), strict=True
    ):
        assert mine.tobytes() == theirs.tobytes()
    assert repr(again) == repr(model)
    mercer.save(again, tmp_path / "again.mercer")
    assert (tmp_path / "again.mercer").read_bytes() == (tmp_path / "pipe.mercer").read_bytes()
    assert mercer.persist.describe(tmp_path / "pipe.mercer")["estimator"] == "Pipeline"


def test_named_columns(tmp_path):
    frame = pd.DataFrame({"size": NUMBERS[:, 0], "town": TOWNS[:, 0], "age": NUMBERS[:, 1]})
    before = ColumnTransformer(
        [("n", StandardScaler(), ["age", "size"]), ("t", OneHotEncoder(), ["town"])]
    )
    model = Pipeline([("before", before), ("machine", mercer.SVC(probability="loo"))])
    model.fit(frame, np.where(Y > 0, "yes", "no"))
    mercer.save(model, tmp_path / "pipe.mercer")
    again = mercer.load(tmp_path / "pipe.mercer")
    other = frame[["town", "age", "size"]]  # columns are found by their names
    assert again.predict_proba(other).tobytes() == model.predict_proba(frame).tobytes()
    assert again.classes_.tolist() == ["no", "yes"]
    assert list(again.feature_names_in_) == ["size", "town", "age"]


def test_a_pipeline_can_be_fitted_again(tmp_path):
    model = make_pipeline(StandardScaler(), machine()).fit(NUMBERS, Y)
    mercer.save(model, tmp_path / "pipe.mercer")
    again = mercer.load(tmp_path / "pipe.mercer").fit(NUMBERS[:20], Y[:20])
    wanted = make_pipeline(StandardScaler(), machine()).fit(NUMBERS[:20], Y[:20])
    np.testing.assert_array_equal(again.predict(NUMBERS), wanted.predict(NUMBERS))


class Mine(StandardScaler):
    pass


class Own(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return X


class OwnMachine(mercer.GPRegressor):
    pass


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (preprocessing.FunctionTransformer(np.abs), "func=<ufunc 'absolute'> cannot"),
        (Mine(), "a Mine cannot be written"),
        (Own(), "an Own cannot be written|a Own cannot be written"),
        (FeatureUnion([("a", StandardScaler())]), "a FeatureUnion cannot be written"),
        (Pipeline([("a", StandardScaler())], memory="cache"), "memory='cache' cannot be part"),
        (TruncatedSVD(2, random_state=np.random.RandomState(0)), "random_state=RandomState"),
        (
            OneHotEncoder(feature_name_combiner=max, sparse_output=False),
            "feature_name_combiner=<built",
        ),
    ],
)
def test_others_are_refused(step, reason, tmp_path):
    model = Pipeline([("before", step), ("machine", machine())]).fit(NUMBERS, Y)
    with pytest.raises(TypeError, match=reason):
        mercer.save(model, tmp_path / "pipe.mercer")
    assert not any(path.suffix == ".mercer" for path in tmp_path.iterdir())


def test_functions_of_words_and_file_names_are_refused(tmp_path):
    for odd, reason in (({"tokenizer": str.split, "token_pattern": None}, "tokenizer=<method"),):
        words = make_pipeline(TfidfVectorizer(**odd), TruncatedSVD(2, random_state=0), machine())
        with pytest.raises(TypeError, match=reason):
            mercer.save(words.fit(TEXTS, Y), tmp_path / "pipe.mercer")
    files = []
    for i, text in enumerate(TEXTS):
        (tmp_path / f"{i}.txt").write_text(text)
        files.append(str(tmp_path / f"{i}.txt"))
    read = make_pipeline(TfidfVectorizer(input="filename"), TruncatedSVD(2), machine())
    with pytest.raises(TypeError, match="input='filename' cannot be part of a model file"):
        mercer.save(read.fit(files, Y), tmp_path / "pipe.mercer")


def test_other_machines_are_refused(tmp_path):
    from sklearn.linear_model import Ridge

    with pytest.raises(TypeError, match="a Ridge cannot be written"):
        mercer.save(make_pipeline(StandardScaler(), Ridge()).fit(NUMBERS, Y), tmp_path / "p")
    own = OwnMachine(RBF(), loss=Gaussian(0.1), search=None)
    with pytest.raises(TypeError, match="OwnMachine is an estimator of your own"):
        mercer.save(make_pipeline(StandardScaler(), own).fit(NUMBERS, Y), tmp_path / "p")
    with pytest.raises(NotFittedError):
        mercer.save(make_pipeline(StandardScaler(), machine()), tmp_path / "p")
    with pytest.raises(TypeError, match="StandardScaler is not a mercer estimator"):
        mercer.save(StandardScaler().fit(NUMBERS), tmp_path / "p")
    with pytest.raises(TypeError, match=r"save its \.learner"):
        mercer.save(mercer.RiverClassifier(), tmp_path / "p")


# ---------------------------------------------------------------------- forged files
@pytest.fixture
def pipe(tmp_path):
    model = Pipeline([("scale", StandardScaler()), ("machine", machine())]).fit(NUMBERS, Y)
    mercer.save(model, tmp_path / "pipe.mercer")
    return tmp_path / "pipe.mercer"


def scaler(manifest):
    return manifest["state"]["pipeline"]["params"]["steps"][0]["tuple"][1]["step"]


def rename(manifest, value):
    scaler(manifest)["sklearn"] = value


def set_param(manifest, name, value):
    manifest["state"]["pipeline"]["params"][name] = value


def set_fitted(manifest, name, value):
    scaler(manifest)["fitted"][name] = value


def nest(manifest, odd):
    """Put the scaler into a pipeline inside the pipeline, and beside it what is no named step."""
    whole = manifest["state"]["pipeline"]
    steps = [{"tuple": ["scale", {"step": scaler(manifest)}]}, odd]
    inner = {**whole, "params": {**whole["params"], "steps": steps}, "fitted": {}}
    whole["params"]["steps"][0]["tuple"][1] = {"step": inner}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: nest(m, 1.0), "named steps is wanted"),
        (lambda m: nest(m, {"tuple": ["a", "a", None]}), "named steps is wanted"),
        (lambda m: nest(m, {"tuple": ["a", 1.0]}), "named steps is wanted"),
        (lambda m: rename(m, "FeatureUnion"), "not on the list"),
        (lambda m: rename(m, "os.system"), "not on the list"),
        (lambda m: rename(m, "MinMaxScaler"), "parameters are not those of a MinMaxScaler"),
        (lambda m: rename(m, 3), "not one that mercer writes"),
        (lambda m: set_param(m, "memory", "/tmp/cache"), "memory='/tmp/cache' cannot be part"),
        (lambda m: set_param(m, "extra", 1), "parameters are not those of a Pipeline"),
        (lambda m: set_fitted(m, "transform", 1), "no fitted attribute 'transform'"),
        (lambda m: set_fitted(m, "__class__", 1), "no fitted attribute '__class__'"),
        (lambda m: set_fitted(m, "a b", 1), "no fitted attribute 'a b'"),
        (lambda m: set_fitted(m, "odd_", {"type": "os"}), "not one that mercer writes"),
        (lambda m: set_fitted(m, "odd_", {"objects": [[1]]}), "not one that mercer writes"),
        (lambda m: set_fitted(m, "odd_", {"texts": ["long"], "width": 1}), "not one that mercer"),
        (lambda m: set_fitted(m, "odd_", {"step": {}, "at": "elsewhere"}), "not one that mercer"),
        (lambda m: set_fitted(m, "mean_", None), "'pipeline/.*/mean_' is not part of such a model"),
        (lambda m: m["state"].update(more=1), "does not consist of a pipeline"),
    ],
)
def test_forged_files_are_refused(pipe, change, reason):
    def changed(manifest):
        change(manifest)

    with pytest.raises(ModelFileError, match=reason):
        mercer.load(with_manifest(pipe, changed))


def test_another_version_of_scikit_learn(pipe):
    def changed(manifest):
        text = json.dumps(manifest)
        manifest.update(json.loads(text.replace('"version": "', '"version": "0.')))

    with pytest.raises(ModelFileError, match=r"was written with scikit-learn 0\..*fit again"):
        mercer.load(with_manifest(pipe, changed))


@pytest.fixture(scope="module")
def mixed_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("pipe") / "pipe.mercer"
    mercer.save(Pipeline([("before", mixed()), ("machine", machine())]).fit(TABLE, Y), path)
    return path.read_bytes()


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_forged_bytes_get_no_further(mixed_file, tmp_path, data):
    """Digests that fit, a few characters of the header changed: a pipeline, or a sentence."""
    path = forged(mixed_file, data.draw, tmp_path / "forged.mercer")
    with contextlib.suppress(ModelFileError):
        assert isinstance(mercer.load(path), Pipeline)


# ---------------------------------------------------------------------- values
def no_steps(value):
    raise AssertionError(value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        2.5,
        "é",
        [1, ("a", None)],
        (),
        {"a": 1, 2: [3]},
        slice(1, None, 2),
        np.float64,
        np.dtype("float32"),
        np.arange(3),
        np.arange(6.0).reshape(2, 3).astype(np.float32),
        np.array(["a", "long"]),
        np.array([], dtype="<U1"),
        np.array(["a", None, 2.5, True], dtype=object),
    ],
    ids=repr,
)
def test_values(value):
    again = from_plain(to_plain(value, "x", no_steps), no_steps)
    assert type(again) is type(value)
    if isinstance(value, np.ndarray):
        assert again.dtype == value.dtype
        assert again.tolist() == value.tolist()
    else:
        assert again == value


@pytest.mark.parametrize(
    "value", [len, object(), {1.5: 2}, np.array([[None]]), np.ones(1, complex), Mine, {1, 2}]
)
def test_other_values_are_refused(value):
    with pytest.raises(TypeError, match="cannot be"):
        to_plain(value, "x", no_steps)


def test_steps_of_the_caller():
    """What :mod:`mercer.tables` builds on: transformers of one's own, handed over by name."""

    class Shift(TransformerMixin, BaseEstimator):
        def fit(self, X, y=None):
            self.low_ = X.min(axis=0)
            return self

        def transform(self, X):
            return X - self.low_

        def _state(self):
            return {"low": self.low_}

        @classmethod
        def _from_state(cls, state, resolve):
            made = cls()
            made.low_ = state["low"]
            return made

    model = Pipeline([("shift", Shift()), ("machine", machine())]).fit(NUMBERS, Y)
    stored = packed_step(model, {"Shift": Shift})
    from mercer.persist import part_class

    again = unpacked_step(stored, {"Shift": Shift}, lambda name: part_class(name, {}))
    np.testing.assert_array_equal(again.predict(NUMBERS), model.predict(NUMBERS))
    with pytest.raises(ModelFileError, match="not one that mercer writes"):
        unpacked_step(stored, {}, None)
