"""TableRegressor and TableClassifier beside scikit-learn: X and y, folds, grids, pipelines."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score, cross_validate
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


@pytest.mark.usefixtures("unjudged")
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


@pytest.mark.usefixtures("unjudged")
def test_the_order_of_named_columns_matters_as_elsewhere():
    frame = pd.DataFrame(TABLE)
    model = TableRegressor(**LINEAR).fit(frame, Y)
    with pytest.raises(ValueError, match="in the same order"):
        model.predict(frame[["town", "x", "when", "same"]])
    by_target = mercer.fit(frame.assign(y=Y), target="y", **LINEAR)
    np.testing.assert_array_equal(
        by_target.predict(frame[["town", "x", "when"]]), model.predict(frame)
    )


@pytest.mark.usefixtures("unjudged")
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


@pytest.mark.usefixtures("unjudged")
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


WHO = np.array([f"p{i}" for i in range(12)]).repeat(5)
GROUPED = pd.DataFrame(
    {"a": RNG.normal(size=N), "who": WHO, "b": np.arange(12.0).repeat(5) + 0.1 * RNG.normal(size=N)}
)
HEIGHT = GROUPED["a"].to_numpy() + RNG.normal(size=12).repeat(5) + 0.2 * RNG.normal(size=N)
EFFECT = {"candidates": ["linear, groups"]}


@pytest.mark.usefixtures("unjudged")
def test_groups_in_a_column_or_beside_x_are_the_same_groups(tmp_path):
    named = TableRegressor(**EFFECT, group="who").fit(GROUPED, HEIGHT)
    assert named.left_out_.by.startswith("leave-group-out")
    assert named.feature_names_in_.tolist() == ["a", "who", "b"]
    counted = clone(named).set_params(group=1).fit(GROUPED, HEIGHT)
    inputs, unknown = GROUPED[["a", "b"]], GROUPED.assign(who="new")
    apart = TableRegressor(**EFFECT).fit(inputs, HEIGHT, groups=WHO)
    array = mercer.fit(inputs.to_numpy(), HEIGHT, group=pd.Series(WHO), **EFFECT)
    table = mercer.fit(inputs.assign(y=HEIGHT), "y", group=list(WHO), **EFFECT)
    for model in (counted, apart, array, table):
        np.testing.assert_array_equal(model.left_out_.log_density, named.left_out_.log_density)
    np.testing.assert_array_equal(counted.predict(GROUPED), named.predict(GROUPED))
    expected = named.predict(unknown, return_std=True)
    assert np.all(expected[1] > named.predict(GROUPED, return_std=True)[1])
    for model, X in (
        (named, unknown),
        (apart, inputs),
        (array, inputs.to_numpy()),
        (table, inputs),
    ):
        np.testing.assert_array_equal(model.predict(X, return_std=True), expected)
        assert model.n_features_in_ == X.shape[1]
        model.save(tmp_path / "m.mercer")
        again = mercer.load(tmp_path / "m.mercer")
        np.testing.assert_array_equal(again.predict(X, return_std=True), expected)
        assert again.n_features_in_ == X.shape[1]
    assert apart.cross_validate(folds=3).by == "leave-group-out"


@pytest.mark.usefixtures("unjudged")
def test_folds_hand_groups_to_the_fit():
    X, model = GROUPED[["a", "b"]], TableRegressor(**EFFECT)
    given = {"cv": GroupKFold(2), "return_estimator": True}
    plain = cross_validate(model, X, HEIGHT, groups=WHO, params={"groups": WHO}, **given)
    with sklearn.config_context(enable_metadata_routing=True):
        asked = clone(model).set_fit_request(groups=True)
        routed = cross_validate(asked, X, HEIGHT, params={"groups": WHO}, **given)
        grid = GridSearchCV(asked, {"single": [True, False]}, cv=GroupKFold(2))
        best = grid.fit(X, HEIGHT, groups=WHO).best_estimator_
    np.testing.assert_array_equal(plain["test_score"], routed["test_score"])
    for one in (*plain["estimator"], *routed["estimator"], best):
        assert one.left_out_.by.startswith("leave-group-out")


@pytest.mark.usefixtures("unjudged")
def test_times_by_number():
    X = np.column_stack([RNG.normal(size=N), np.arange(N)])
    model = TableRegressor(**LINEAR, time=1).fit(X, X[:, 1] + RNG.normal(size=N))
    assert (model.left_out_.by, model.ordered_by_) == ("rows of later times", "x1")


@pytest.mark.parametrize(
    ("params", "groups", "message"),
    [
        ({"group": "whom"}, None, "no column 'whom'; did you mean 'who'"),
        ({"group": 3}, None, "no column 3: the table has 3, counted from 0"),
        ({"time": True}, None, "no column 'True'"),
        ({"group": "who"}, WHO, "given twice"),
        ({}, WHO[1:], "inconsistent numbers of samples"),
        ({}, np.repeat(["x", "y"], N // 2), "'groups' has 2 groups: at least 5"),
        ({}, np.where(np.arange(N) == 0, None, WHO), "1 rows have no value of 'groups'"),
    ],
)
def test_groups_that_are_refused(params, groups, message):
    model = TableRegressor(**params)
    with pytest.raises(ValueError, match=message):
        model.fit(GROUPED, HEIGHT, groups=groups)
    assert not hasattr(model, "feature_names_in_")
