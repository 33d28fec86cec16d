"""MEDClassifier and the classifiers on graphs: one process, one report, one summary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import mercer
from mercer import LapLSClassifier, LapMEDClassifier, LapSVC, MEDClassifier
from mercer.kernels import RBF, Linear
from mercer.persist.format1 import translated
from mercer.process import Process
from mercer.process.features import FeatureProcess

RNG = np.random.default_rng(5)
X = RNG.normal(size=(60, 2))
Y = np.where(X[:, 0] + X[:, 1] ** 2 > 0.5, "b", "a")
THREE = np.where(X[:, 1] > 0.7, "c", Y)
NEW = RNG.normal(size=(9, 2))
WORDS = {"rows", "standardize", "search", "inference", "gram", "degrees_of_freedom", "left_out"}
MODELS = [
    MEDClassifier(),
    MEDClassifier(kernel="linear"),
    LapMEDClassifier(),
    LapMEDClassifier(beta=0.0),
    LapSVC(),
    LapLSClassifier(),
]
each = pytest.mark.parametrize("model", MODELS, ids=repr)


@each
@pytest.mark.parametrize("y", [Y, THREE], ids=["two", "three"])
def test_it_predicts_through_one_process(model: Any, y: np.ndarray) -> None:
    fitted = model.fit(X, y)
    (process,) = fitted.posteriors_
    assert isinstance(process, Process)
    mean = process.mean(NEW)
    assert mean.shape == (9, len(fitted.intercept_))
    np.testing.assert_array_equal(fitted.decision_function(NEW), np.squeeze(mean))
    assert process.cov(NEW).shape == (9, 9)
    np.testing.assert_allclose(process.diag(NEW), np.diagonal(process.cov(NEW)), atol=1e-12)


@each
def test_report_and_summary(model: Any) -> None:
    fitted = type(model)(**model.get_params()).fit(X, Y)
    report = fitted.report_
    assert set(report) >= WORDS
    assert all(key.isidentifier() for key in report)
    ended = report["inference"]
    assert set(ended) >= {"name", "converged", "iterations", "gap", "message"}
    assert ended["converged"]
    assert ended["name"] == {"LapSVC": "SMO", "LapLSClassifier": "Exact"}.get(
        type(model).__name__, "MED"
    )
    assert fitted.left_out_ is None
    assert fitted.loo_ is None
    assert "cross_val_predict" in report["left_out"]
    sections = [section for section, _, _ in fitted.summary().rows()]
    assert sections == sorted(sections, key=["Data", "Model", "Quality", "Numerics"].index)


@each
def test_nothing_is_there_before_fit(model: Any) -> None:
    bare = type(model)(**model.get_params())
    for name in ("posteriors_", "left_out_", "loo_"):
        assert not hasattr(bare, name)
    with pytest.raises(NotFittedError):
        bare.summary()


def test_the_covariance_of_a_graph_is_that_of_the_next_prior() -> None:
    y = np.where(np.arange(60) < 20, Y, None)
    model = LapMEDClassifier(beta=0.5).fit(X, y)
    process = model.posteriors_[0]
    np.testing.assert_array_equal(process.cov(NEW), model.process_.cov(NEW))
    assert np.all(process.diag(NEW) < model.kernel_.diag(NEW))
    np.testing.assert_allclose(
        process.mean(NEW), model.process_.mean(NEW) + model.intercept_, atol=1e-12
    )


def test_features_and_their_kernel_are_the_same_process() -> None:
    linear = MEDClassifier(kernel="linear").fit(X, Y)
    assert isinstance(linear.posteriors_[0], FeatureProcess)
    plain = MEDClassifier(kernel=Linear() + 1e-300 * RBF()).fit(X, Y)  # has no finite map
    assert not isinstance(plain.posteriors_[0], FeatureProcess)
    for one in ("mean", "cov", "diag"):
        a, b = (getattr(m.posteriors_[0], one)(NEW) for m in (linear, plain))
        np.testing.assert_allclose(a, b, atol=1e-7)


def test_phrases_in_reports_of_older_files_are_words() -> None:
    memory = {"form": "landmarks", "let go": 3}
    report = {"converged": True, "iterations": 4, "C k(x, x)": 2.0, "memory": memory, "C": 9.0}
    state = {"params": {}, "n_features": 1, "feature_names": None, "kernel": {}, "support": []}
    state |= {"iterations": 4, "report": report, "extra": {}}
    found = translated(state, {})["report_"]
    assert found["inference"]["iterations"] == 4
    assert found["margin_scale"] == 2.0
    assert found["memory"]["dropped_support_vectors"] == 3
    assert found["C"] == 9.0


@each
def test_files_keep_the_report(model: Any, tmp_path: Any) -> None:
    fitted = type(model)(**model.get_params()).fit(X, THREE)
    mercer.save(fitted, tmp_path / "model.mercer")
    again = mercer.load(tmp_path / "model.mercer")
    assert again.report_ == fitted.report_
    assert str(again.summary()) == str(fitted.summary())
    np.testing.assert_array_equal(again.decision_function(NEW), fitted.decision_function(NEW))
