"""Rejection, margins, criteria along a path, sums of predictions, lists of inputs: by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from sklearn.linear_model import SGDClassifier

import mercer
from mercer import kernels, losses, plots


def axes():
    return Figure().add_subplot()


@pytest.mark.parametrize("classes", [2, 3])
def test_errors_among_the_rows_that_are_answered(rng, classes):
    p = np.round(rng.dirichlet(np.ones(classes), size=80), 1) + 1e-3
    p /= p.sum(axis=1, keepdims=True)
    y = np.array([rng.choice(classes, p=row) for row in p])
    w = rng.integers(1, 4, size=80).astype(float)
    found = plots.ErrorRejectDisplay.from_predictions(
        y, p, classes=np.arange(classes), weights=w, ax=axes()
    )
    sure, wrong = p.max(axis=1), p.argmax(axis=1) != y
    levels = np.unique(sure)
    slow = [
        (w[sure < c].sum() / w.sum(), np.average(wrong[sure >= c], weights=w[sure >= c]))
        for c in levels
    ]
    np.testing.assert_allclose(np.column_stack([found.rejected, found.error]), slow, atol=1e-12)
    assert found.error[0] == pytest.approx(np.average(wrong, weights=w))
    assert 0.0 <= found.area <= 1.0


def test_honest_probabilities_reject_their_errors_first(rng):
    p = rng.uniform(size=5000)
    y = (rng.uniform(size=5000) < p).astype(int)
    honest = plots.ErrorRejectDisplay.from_predictions(y, p, ax=axes())
    # |p - 1/2| above c/2 with c the share rejected: the error among the others is (1 - c) / 4
    at = np.searchsorted(honest.rejected, [0.0, 0.4, 0.8])
    np.testing.assert_allclose(honest.error[at], [0.25, 0.15, 0.05], atol=0.02)
    shuffled = plots.ErrorRejectDisplay.from_predictions(y[::-1], p, ax=axes())
    assert shuffled.area > 2 * honest.area


def test_scores_take_the_place_of_probabilities(rng):
    X = rng.normal(size=(60, 2))
    label = np.where(X[:, 0] + 0.5 * rng.normal(size=60) > 0, "b", "a")
    machine = mercer.SVC().fit(X, label)
    f = machine.decision_function(X)
    found = plots.ErrorRejectDisplay.from_estimator(machine, X, label, ax=axes())
    wrong = (f > 0) != (label == "b")
    order = np.argsort(np.abs(f))
    np.testing.assert_allclose(found.error[5], wrong[order[5:]].mean())
    three = np.array(["a", "b", "c"])[np.digitize(X[:, 1], [-0.4, 0.4])]
    several = mercer.SVC().fit(X, three)
    found = plots.ErrorRejectDisplay.from_estimator(several, X, three, ax=axes())
    assert found.error[0] == pytest.approx(np.mean(several.predict(X) != three))


def test_margins_are_those_of_the_rows(rng):
    X = rng.normal(size=(50, 2))
    label = np.where(X[:, 0] > 0, "b", "a")
    machine = mercer.KernelClassifier(kernels.RBF(1.0), basis=None, search=None).fit(X, label)
    y = np.where(label == "b", 1.0, -1.0)
    found = plots.MarginDisplay.from_estimator(machine, X, label, ax=axes())
    np.testing.assert_array_equal(found.margins, np.sort(y * machine.decision_function(X)))
    assert found.shares[-1] == pytest.approx(1.0)
    left = plots.MarginDisplay.from_loo(machine, ax=axes())
    assert left.error == pytest.approx(machine.loo_.cavity_error)
    scores = rng.normal(size=(40, 3))
    codes = rng.integers(0, 3, size=40)
    found = plots.MarginDisplay.from_predictions(codes, scores, classes=range(3), ax=axes())
    slow = [
        s[c] - max(s[j] for j in range(3) if j != c) for s, c in zip(scores, codes, strict=True)
    ]
    np.testing.assert_allclose(found.margins, np.sort(slow))
    assert found.error == np.mean(np.array(slow) <= 0)


def test_both_criteria_along_a_path(rng):
    X = rng.uniform(0, 5, size=(30, 1))
    y = 7 + np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=30)
    model = mercer.GPRegressor("rbf").fit(X, y)
    scale = float(np.ravel(model.kernel_.kernel.length_scale)[0])
    name, values = "kernel__kernel__length_scale", scale * np.array([0.5, 1.0, 2.0])
    found = plots.CriteriaDisplay.from_estimator(model, X, y, name, values=values, ax=axes())
    assert found.evidence[1] == pytest.approx(model.log_evidence_, abs=1e-6)
    assert found.best[0] == pytest.approx(scale)
    half = kernels.Scale(kernels.RBF(0.5 * scale), variance=model.kernel_.variance)
    by_hand = mercer.GPRegressor(half, loss=model.loss_, search=None).fit(X, y - y.mean())
    assert found.left_out[0] == pytest.approx(by_hand.loo_.total, abs=1e-6)


def test_predictions_in_order_sum_to_the_evidence(rng):
    X = rng.normal(size=(25, 2))
    y = 3 + X[:, 0] + 0.3 * rng.normal(size=25)
    model = mercer.GPRegressor("matern52", random_state=0).fit(X, y)
    found = plots.PrequentialDisplay.from_estimator(model, X, y, ax=axes())
    assert found.total == pytest.approx(model.log_evidence_, abs=1e-6)
    centre = model.units_.y_shift[0]
    for t in (1, 7, 24):
        before = mercer.GPRegressor(model.kernel_, loss=model.loss_, search=None)
        before.fit(X[:t], y[:t] - centre)
        density = before.predictive_log_density(X[t : t + 1], y[t : t + 1] - centre)
        assert found.terms[t] == pytest.approx(float(density[0]), abs=1e-8)


def test_a_stream_is_predicted_before_it_is_learned(rng):
    X = rng.normal(size=(60, 2))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=60) > 0, "b", "a")
    kernel = 4.0 * kernels.RBF(1.0)
    learner = mercer.OnlineLogisticClassifier(kernel)
    found = plots.PrequentialDisplay.from_estimator(learner, X, y, batch=10, ax=axes())
    assert not hasattr(learner, "posteriors_")
    whole = mercer.OnlineLogisticClassifier(kernel)
    for i in range(0, 60, 10):
        whole.partial_fit(X[i : i + 10], y[i : i + 10], classes=["a", "b"])
    assert found.total == pytest.approx(-whole.prequential_.log_loss_sum)
    assert found.rows.tolist() == [10, 20, 30, 40, 50, 60]
    counts, each = {"a": 1, "b": 1}, []
    for t, label in enumerate(y):
        each.append(np.log(counts[label] / (t + 2)))
        counts[label] += 1
    np.testing.assert_allclose(found.constant, np.add.reduceat(each, range(0, 60, 10)))
    other = SGDClassifier(loss="log_loss", random_state=0)
    found = plots.PrequentialDisplay.from_estimator(other, X, y, batch=20, ax=axes())
    copy = SGDClassifier(loss="log_loss", random_state=0).partial_fit(X[:20], y[:20], ["a", "b"])
    own = copy.predict_proba(X[20:40])[np.arange(20), (y[20:40] == "b").astype(int)]
    assert found.terms[0] == pytest.approx(20 * np.log(0.5))
    tiny = np.finfo(float).tiny
    assert found.terms[1] == pytest.approx(np.log(np.maximum(own, tiny)).sum())


def test_inputs_that_are_kept(rng):
    X = rng.normal(size=(60, 3)) * [1.0, 10.0, 0.1]
    y = np.sin(2 * X[:, 0]) + 10 * X[:, 2] + 0.05 * rng.normal(size=60)
    table = pd.DataFrame(X, columns=["left", "unused", "right"])
    model = mercer.GPRegressor("rbf", random_state=0).fit(table, y)
    found = plots.LengthScaleDisplay.from_estimator(model, ax=axes())
    assert sorted(found.kept) == ["left", "right"]
    np.testing.assert_array_equal(found.relevance, model.relevance_)
    none = plots.LengthScaleDisplay.from_estimator(model, names="abc", least=1e9, ax=axes())
    assert none.kept == []
    corr = kernels.RBF(1 / found.least)(np.array([[0.0]]), np.array([[2.0]]))[0, 0]
    assert corr == pytest.approx(0.998, abs=5e-4)  # what the docstring says of the default
    fixed = mercer.GPRegressor(kernels.RBF(2.0), loss=losses.Gaussian(0.1), search=None).fit(X, y)
    assert len(plots.LengthScaleDisplay.from_estimator(fixed, ax=axes()).names) == 3
