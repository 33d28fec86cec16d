"""Probabilities of machines on graphs: a sigmoid of labels left out, by refits; streams; files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import mercer
from mercer import LapLSClassifier, LapMEDClassifier, LapSVC
from mercer.kernels import RBF
from mercer.losses.calibration import fit_slope

MACHINES = [LapMEDClassifier, LapSVC, LapLSClassifier]
OPTIONS: dict[str, Any] = {"C": 10.0, "beta": 1.0, "kernel": RBF(0.8), "n_neighbors": 4}
SMALL = {LapSVC: {"tol": 1e-9}}


def table(
    rng: np.random.Generator, k: int = 2, n: int = 40, known: int = 14
) -> tuple[np.ndarray, np.ndarray]:
    """Rows, and their classes with None after the first rows."""
    X = rng.normal(size=(n, 2))
    side = np.arange(n) % k
    X[:, 0] += 1.5 * side
    y = np.array(["a", "b", "c"], dtype=object)[side]
    y[known:] = None
    return X, y


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("machine", MACHINES)
def test_left_out_figures_are_those_of_refits(
    rng: np.random.Generator, machine: Any, k: int
) -> None:
    """Each label hidden in turn, its row still in the graph, and the machine fitted again."""
    X, y = table(rng, k)
    given = OPTIONS | SMALL.get(machine, {})
    model = machine(calibration="sigmoid", **given).fit(X, y)
    scores = np.empty((14, 1 if k == 2 else k))
    for i in range(14):
        hidden = y.copy()
        hidden[i] = None
        part = machine(**given).fit(X, hidden)
        scores[i] = part.decision_function(X[i : i + 1])
    codes = np.arange(14) % k
    own = codes[:, None] == (np.ones(1) if k == 2 else np.arange(k))
    figures = model.left_out_
    np.testing.assert_allclose(figures.margin, np.where(own, 1.0, -1.0) * scores, atol=1e-6)
    np.testing.assert_array_equal(figures.codes, codes)
    slope = fit_slope(scores, codes, np.ones(14), k)
    assert model.slope_[0] == pytest.approx(slope, rel=1e-4)
    # and the probabilities are the sigmoid of the decision values
    plain = machine(**given).fit(X, y).decision_function(X).reshape(40, -1)
    np.testing.assert_array_equal(model.decision_function(X).reshape(40, -1), plain)
    z = slope * plain
    e = np.exp(np.column_stack([-0.5 * z, 0.5 * z]) if k == 2 else z)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p, e / e.sum(axis=1, keepdims=True), atol=1e-5)
    np.testing.assert_array_equal(model.predict(X), model.classes_[p.argmax(axis=1)])
    assert figures.error == pytest.approx(np.mean(figures.proba.argmax(axis=1) != codes))
    assert "probabilities" in str(model.summary())


@pytest.mark.parametrize("machine", MACHINES)
def test_rows_and_weights_of_the_figures(rng: np.random.Generator, machine: Any) -> None:
    """In the order of the labelled rows; copies alike, a row of weight zero from all others."""
    X, y = table(rng)
    X[20], y[20] = X[3], y[3]  # a copy
    w = np.ones(40)
    w[5] = 0.0
    model = machine(calibration="sigmoid", **OPTIONS).fit(X, y, sample_weight=w)
    figures = model.left_out_
    rows = np.flatnonzero(y != None)  # noqa: E711  # elementwise
    assert len(figures.margin) == len(rows) == 15
    np.testing.assert_array_equal(figures.weights, w[rows])
    np.testing.assert_array_equal(figures.margin[-1], figures.margin[3])
    f = model.posteriors_[0].mean(X[5:6])[0]
    np.testing.assert_allclose(figures.margin[5], f if y[5] == "b" else -f)
    order = np.random.default_rng(1).permutation(40)
    other = machine(calibration="sigmoid", **OPTIONS).fit(
        X[order], y[order], sample_weight=w[order]
    )
    np.testing.assert_allclose(other.slope_, model.slope_, rtol=1e-5)


@pytest.mark.parametrize("machine", MACHINES)
def test_many_labels_are_left_out_in_folds(rng: np.random.Generator, machine: Any) -> None:
    X, y = table(rng, n=90, known=80)
    model = machine(calibration="sigmoid", **OPTIONS).fit(X, y)
    assert model.left_out_.proba.shape == (80, 2)
    p = model.predict_proba(np.array([[-1.0, 0.0], [2.5, 0.0]]))
    assert p[0, 0] > 0.6
    assert p[1, 1] > 0.6
    # ten folds of fits without them are near those without a single one
    parts = []
    for i in range(0, 80, 13):
        hidden = y.copy()
        hidden[i] = None
        parts.append(machine(**OPTIONS).fit(X, hidden).decision_function(X[i : i + 1])[0])
    own = np.where(np.arange(0, 80, 13) % 2 == 1, 1.0, -1.0)
    folds = own * model.left_out_.margin[::13, 0]
    assert np.corrcoef(folds, parts)[0, 1] > 0.9


@pytest.mark.parametrize("machine", MACHINES)
def test_without_calibration_nothing_changes(rng: np.random.Generator, machine: Any) -> None:
    X, y = table(rng)
    model = machine(**OPTIONS).fit(X, y)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="calibration='sigmoid'"):
        _ = model.predict_proba
    assert model.left_out_ is None
    with pytest.raises(ValueError, match="calibration must be"):
        machine(calibration="isotonic", **OPTIONS).fit(X, y)
    y[3:] = None  # two labels of "a", one of "b"
    with pytest.raises(ValueError, match="two different labelled rows of each class"):
        machine(calibration="sigmoid", **OPTIONS).fit(X, y)
    assert machine(**OPTIONS).fit(X, y).predict(X).shape == (40,)


@pytest.mark.parametrize("machine", MACHINES)
def test_files_keep_the_sigmoid(rng: np.random.Generator, machine: Any, tmp_path: Any) -> None:
    X, y = table(rng)
    model = machine(calibration="sigmoid", kernel=RBF(0.8), n_neighbors=4).fit(X, y)
    mercer.save(model, tmp_path / "model.mercer")
    again = mercer.load(tmp_path / "model.mercer")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(again.choice_, model.choice_)
    assert again.left_out_ is None  # not part of a file


def test_a_stream_is_judged_before_it_is_learned(rng: np.random.Generator, tmp_path: Any) -> None:
    """The first batch by labels left out, each later one by the scores before its labels."""
    batches = [table(rng) for _ in range(3)]
    model, plain = (LapMEDClassifier(calibration=c, **OPTIONS) for c in ("sigmoid", None))
    scores, codes = [], []
    for t, (X, y) in enumerate(batches):
        if t == 0:
            first = LapMEDClassifier(calibration="sigmoid", **OPTIONS).fit(X, y)
            own = np.where(np.arange(14) % 2 == 1, 1.0, -1.0)
            scores.append(first.left_out_.margin[:, 0] * own)
        else:  # its graph is known, its labels are not
            bare = mercer.load(tmp_path / "plain.mercer").partial_fit(X)
            scores.append(bare.decision_function(X[:14]))
        codes.append(np.arange(14) % 2)
        model.partial_fit(X, y)
        plain.partial_fit(X, y)
        mercer.save(plain, tmp_path / "plain.mercer")
        slope = fit_slope(
            np.concatenate(scores)[:, None], np.concatenate(codes), np.ones(14 * (t + 1)), 2
        )
        assert model.slope_[0] == pytest.approx(slope, rel=1e-5)
    assert model.report_["calibration"]["scores"] == 42
    assert model.left_out_ is None
    early = LapMEDClassifier(calibration="sigmoid", **OPTIONS)
    early.partial_fit(batches[0][0], ["a"] * 3 + [None] * 37, classes=["a", "b"])
    with pytest.raises(ValueError, match="learn one more batch"):
        early.predict_proba(batches[0][0])


@parametrize_with_checks(
    [LapLSClassifier(calibration="sigmoid")],
    expected_failed_checks=lambda machine: {
        "check_sample_weight_equivalence_on_dense_data": "its classes have single rows, which "
        "cannot be left out; test_rows_and_weights_of_the_figures has others"
    },
)
def test_conventions(estimator: Any, check: Any) -> None:
    check(estimator)
