"""TableRegressor and TableClassifier beside scikit-learn: X and y, folds, grids, pipelines."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline

import mercer
from mercer import TableClassifier, TableRegressor

RNG = np.random.default_rng(0)
N = 60
TABLE = {
    "x": np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(size=N)),
    "town": [str(t) for t in RNG.choice(["Ulm", "Bonn"], N)],
    "when": [datetime.datetime(2024, 1, 1) + datetime.timedelta(days=i) for i in range(N)],
    "same": [1.0] * N,
}
Y = np.nan_to_num(TABLE["x"]) + (np.array(TABLE["town"]) == "Ulm") + 0.1 * RNG.normal(size=N)
LINEAR = {"candidates": ["linear"]}


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, dict])
def test_tables_with_text_dates_and_gaps(frame):
    model = TableRegressor(**LINEAR).fit(frame(TABLE), Y)
    assert model.score(frame(TABLE), Y) > 0.9
    assert model.feature_names_in_.tolist() == list(TABLE)
    assert model.n_features_in_ == 4
    assert model.used_ == ["x", "town", "when"]
    by_target = mercer.fit({**TABLE, "y": Y}, target="y", **LINEAR)
    np.testing.assert_array_equal(by_target.predict(TABLE), model.predict(frame(TABLE)))
    assert by_target.score({**TABLE, "y": Y}) == model.score(frame(TABLE), Y)


def test_fit_takes_x_and_y_and_returns_an_estimator():
    X = np.column_stack([np.nan_to_num(TABLE["x"]), RNG.normal(size=N)])
    quantity, classes = mercer.fit(X, Y, **LINEAR), mercer.fit(X, Y > 0.5, **LINEAR)
    assert is_regressor(quantity)
    assert is_classifier(classes)
    np.testing.assert_array_equal(
        quantity.predict(X), TableRegressor(**LINEAR).fit(X, Y).predict(X)
    )
    assert classes.classes_.dtype == bool
    assert classes.predict(X).dtype == bool
    assert isinstance(classes, mercer.TableModel)
    assert not hasattr(classes, "predict_interval")
    assert not hasattr(quantity, "predict_proba")
    named = mercer.fit(X, pd.Series(Y, name="height"), **LINEAR)
    assert named.target_ == "height"
    with pytest.raises(TypeError, match="names of columns"):
        mercer.fit(X, Y, features=["x0"])


def test_the_order_of_named_columns_matters_as_elsewhere():
    frame = pd.DataFrame(TABLE)
    model = TableRegressor(**LINEAR).fit(frame, Y)
    with pytest.raises(ValueError, match="in the same order"):
        model.predict(frame[["town", "x", "when", "same"]])
    by_target = mercer.fit(frame.assign(y=Y), target="y", **LINEAR)
    np.testing.assert_array_equal(
        by_target.predict(frame[["town", "x", "when"]]), model.predict(frame)
    )


def test_folds_by_group_grids_pipelines_and_clones():
    frame, groups = pd.DataFrame(TABLE), np.arange(N) // 10
    model = TableRegressor(**LINEAR)
    scores = cross_val_score(model, frame, Y, cv=GroupKFold(3), groups=groups)
    np.testing.assert_array_equal(
        scores, cross_val_score(clone(model), frame, Y, cv=GroupKFold(3), groups=groups)
    )
    grid = GridSearchCV(TableClassifier(), {"candidates": [["linear"], ["logistic"]]}, cv=2).fit(
        frame, np.where(Y > 0.5, "high", "low")
    )
    assert grid.score(frame, np.where(Y > 0.5, "high", "low")) > 0.8
    filled = SimpleImputer().set_output(transform="pandas")
    piped = make_pipeline(filled, model).fit(frame[["x", "same"]], Y)
    assert piped[-1].feature_names_in_.tolist() == ["x", "same"]
    assert "TableRegressor" in piped._repr_html_()


def test_labels_that_are_missing_are_partly_labelled():
    X = np.concatenate([RNG.normal(-2, 0.5, (20, 2)), RNG.normal(2, 0.5, (20, 2))])
    y = np.array([0] * 20 + [1] * 20, dtype=object)
    y[5:] = np.where(np.arange(5, 40) % 4 == 0, y[5:], None)
    model = TableClassifier(candidates=["manifold support vectors"]).fit(X, y)
    assert model.kind_ == "partly"
    assert np.mean(model.predict(X) == np.repeat([0, 1], 20)) == 1.0


def test_a_file_of_x_and_y(tmp_path):
    X = RNG.normal(size=(N, 2))
    for table, names in ((X, []), (pd.DataFrame(X, columns=["a", "b"]), ["a", "b"])):
        model = TableRegressor(kernel="rbf", time_budget=5.0).fit(table, Y)
        model.save(tmp_path / "model.mercer")
        again = mercer.load(tmp_path / "model.mercer")
        assert type(again) is TableRegressor
        assert again.get_params()["kernel"] == "rbf"
        np.testing.assert_array_equal(again.predict(table), model.predict(table))
        assert list(getattr(again, "feature_names_in_", [])) == names
        wrong = np.hstack([X, X]) if not names else pd.DataFrame(X, columns=["b", "a"])
        with pytest.raises(ValueError, match=r"features|same order"):
            again.predict(wrong)


def test_a_budget_that_binds_is_said():
    X = RNG.normal(size=(N, 2))
    model = TableRegressor(**LINEAR).fit(X, Y)
    assert model.report_["time"]["bound"] == []
    assert model.report_["time"]["budget"] == 60.0
    hurried = TableRegressor(time_budget=0.01).fit(X, Y)
    assert any("not tried" in what for what in hurried.report_["time"]["bound"])
