"""Probabilities of MEDClassifier on request: folds, scores before each batch, files, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold

import mercer
from mercer import MEDClassifier
from mercer.estimators.discrimination import estimator as med_calibration
from mercer.kernels import RBF
from mercer.losses.calibration import fit_platt


def noisy(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Inputs, labels, and the true probability of the second."""
    X = rng.normal(size=(n, 2))
    p = 1.0 / (1.0 + np.exp(-2.0 * X[:, 0] - X[:, 1]))
    return X, np.where(rng.random(n) < p, "yes", "no"), p


def test_absent_unless_asked_for(rng: np.random.Generator) -> None:
    X, y, _ = noisy(rng, 40)
    assert not hasattr(MEDClassifier().fit(X, y), "predict_proba")
    model = MEDClassifier(calibration="sigmoid")
    assert hasattr(model, "predict_proba")
    p = model.fit(X, y).predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert p.min() > 0.0


def test_fit_is_platt_on_five_folds(rng: np.random.Generator) -> None:
    """The same by hand: clones on the folds, then the sigmoid."""
    X, y, _ = noisy(rng, 60)
    order = np.lexsort(X.T)  # in which rows are dealt out to the folds, whatever that of the table
    X, y = X[order], y[order]
    plain = MEDClassifier(kernel=RBF(1.0))
    held = np.empty(60)
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        part = clone(plain).fit(X[train], y[train])
        held[test] = part.decision_function(X[test]) - part.intercept_
    A, B = fit_platt(held, np.where(y == "yes", 1.0, -1.0))
    model = MEDClassifier(kernel=RBF(1.0), calibration="sigmoid").fit(X, y)
    f = plain.fit(X, y).decision_function(X) - plain.intercept_
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(A * f + B)), atol=1e-6)
    assert model.report_["calibration"]["by"] == "folds"


def test_stream_is_platt_on_scores_before_each_batch(rng: np.random.Generator) -> None:
    batches = [noisy(rng, 30)[:2] for _ in range(4)]
    plain = MEDClassifier(kernel=RBF(1.0))
    model = MEDClassifier(kernel=RBF(1.0), calibration="sigmoid")
    scores, labels = [], []
    for t, (X, y) in enumerate(batches):
        if t:
            scores.append(plain.decision_function(X) - plain.intercept_)
            labels.append(y)
        plain.partial_fit(X, y)
        model.partial_fit(X, y)
    first = model._held[:30]  # those of the first batch are from folds
    held = np.concatenate([first[:, 0], *scores])
    signs = np.concatenate(
        [2.0 * first[:, 1] - 1.0, np.where(np.concatenate(labels) == "yes", 1.0, -1.0)]
    )
    A, B = fit_platt(held, signs)
    f = plain.decision_function(X) - plain.intercept_
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(A * f + B)), atol=1e-6)
    assert model.report_["calibration"]["scores"] == 120


def test_probabilities_are_near_the_truth(rng: np.random.Generator) -> None:
    X, y, _ = noisy(rng, 400)
    Z, _, truth = noisy(rng, 2000)
    model = MEDClassifier(kernel="linear", calibration="sigmoid").fit(X, y)
    assert np.abs(model.predict_proba(Z)[:, 1] - truth).mean() < 0.05
    stream = MEDClassifier(kernel="linear", calibration="sigmoid")
    for _ in range(20):
        stream.partial_fit(*noisy(rng, 50)[:2])
    assert np.abs(stream.predict_proba(Z)[:, 1] - truth).mean() < 0.05


@pytest.mark.parametrize("three", [False, True])
def test_predictions_agree_with_the_probabilities(three: bool) -> None:
    X, y = load_iris(return_X_y=True)
    X, y = (X[:, 1:3], y) if three else (X[50:, 2:3], y[50:])
    model = MEDClassifier(calibration="sigmoid").fit(X, y)
    p = model.predict_proba(X)
    np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(X))
    d = model.decision_function(X)
    np.testing.assert_array_equal(
        d.argmax(axis=1) if three else (d > 0).astype(int), p.argmax(axis=1)
    )
    shares = np.log(1 / len(model.classes_))
    assert log_loss(y, p) < -0.8 * shares


def test_equal_rows_are_never_on_both_sides(rng: np.random.Generator) -> None:
    X, y, _ = noisy(rng, 40)
    times = rng.integers(1, 4, 40)
    one = MEDClassifier(kernel=RBF(1.0), calibration="sigmoid").fit(X, y, sample_weight=times)
    two = MEDClassifier(kernel=RBF(1.0), calibration="sigmoid")
    two.fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-7)


def test_labels_of_chance_give_their_shares(rng: np.random.Generator) -> None:
    """Where held-out scores run the wrong way the slope is zero, and the shares remain."""
    X = np.repeat(np.arange(20.0), 2)[:, None]
    X[1::2] += 0.01
    y = np.tile([0, 1], 20)  # a neighbour has always the other label
    model = MEDClassifier(1000.0, amplitude=1.0, kernel=RBF(0.05), calibration="sigmoid").fit(X, y)
    assert model.slope_[0] == 0.0
    np.testing.assert_allclose(model.predict_proba(X), 0.5)
    assert "say nothing" in str(model.summary())


# ---------------------------------------------------------------------- streams
def test_memory_is_a_window(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    monkeypatch.setattr(med_calibration, "WINDOW", 50)
    model = MEDClassifier(kernel="linear", calibration="sigmoid")
    for _ in range(4):
        model.partial_fit(*noisy(rng, 30)[:2])
    assert model._held.shape == (50, 3)
    X, y, _ = noisy(rng, 400)
    order = np.argsort(y)
    model.partial_fit(X[order], y[order])  # of a batch beyond the window: rows from all over it
    assert len(model._held) == 50
    assert 0.3 < model._held[:, 1].mean() < 0.7


def test_no_score_no_probability(rng: np.random.Generator) -> None:
    model = MEDClassifier(calibration="sigmoid")
    X, y, _ = noisy(rng, 30)
    model.partial_fit(X[:1], y[:1], classes=["no", "yes"])
    assert model.predict(X[:3]).shape == (3,)
    with pytest.raises(ValueError, match="learn one more batch"):
        model.predict_proba(X)
    assert model.report_["calibration"]["slope"] is None
    assert "none yet" in str(model.summary())
    model.partial_fit(X, y)
    assert model.predict_proba(X).shape == (30, 2)


def test_fit_then_stream_keeps_the_scores(rng: np.random.Generator) -> None:
    model = MEDClassifier(calibration="sigmoid").fit(*noisy(rng, 40)[:2])
    model.partial_fit(*noisy(rng, 30)[:2])
    assert len(model._held) == 70
    assert len(model.fit(*noisy(rng, 20)[:2])._held) == 20


# ---------------------------------------------------------------------- files and refusals
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_a_saved_calibration_continues(
    kernel: str, tmp_path: object, rng: np.random.Generator
) -> None:
    batches = [noisy(rng, 30)[:2] for _ in range(4)]
    model = MEDClassifier(kernel=kernel, calibration="sigmoid")
    for X, y in batches[:2]:
        model.partial_fit(X, y)
    mercer.save(model, f"{tmp_path}/m.mercer")
    again = mercer.load(f"{tmp_path}/m.mercer")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    for X, y in batches[2:]:
        model.partial_fit(X, y)
        again.partial_fit(X, y)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.report_ == model.report_


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("slope_", np.ones(2)),
        ("slope_", np.array([-1.0])),
        ("offsets_", np.zeros(0)),
        ("_held", np.zeros((3, 2))),
        ("_held", np.array([[0.1, 2.0, 1.0]])),
        ("_held", np.array([[0.1, 1.0, 0.0]])),
        ("_held", np.zeros((0, 3))),
    ],
)
def test_a_strange_calibration_is_refused(
    name: str, value: np.ndarray, rng: np.random.Generator
) -> None:
    model = MEDClassifier(calibration="sigmoid").fit(*noisy(rng, 20)[:2])
    setattr(model, name, value)
    with pytest.raises(ValueError, match=r"slope_|scores|_held"):
        model._state()


def test_refusals(rng: np.random.Generator) -> None:
    X, y, _ = noisy(rng, 20)
    with pytest.raises(ValueError, match="None or 'sigmoid'"):
        MEDClassifier(calibration="isotonic").fit(X, y)
    model = MEDClassifier(calibration="sigmoid").fit(X, y)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="two different rows of each class"):
        model.fit(X[:3], ["no", "yes", "yes"])
    assert vars(model) == before
