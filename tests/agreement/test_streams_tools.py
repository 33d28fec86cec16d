"""Streams as they are used: checkpoints, adapters, pipelines, searches, tables and own scores."""

import os
import signal
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer import (
    LapMEDClassifier,
    LapSVC,
    MEDClassifier,
    OnlineLogisticClassifier,
    RiverClassifier,
)
from mercer.kernels import RBF, TFIDF, Fisher, MixtureFisher, MultinomialFisher, RandomFourier

LEARNERS = {
    "online": OnlineLogisticClassifier,
    "online on a budget": lambda: OnlineLogisticClassifier(budget=25),
    "online that forgets": lambda: OnlineLogisticClassifier(budget=30, rho=0.9, drift="auto"),
    "med": MEDClassifier,
    "med, linear": lambda: MEDClassifier(kernel="linear"),
    "med, random features": lambda: MEDClassifier(kernel=RandomFourier(size=20)),
    "med, calibrated": lambda: MEDClassifier(calibration="sigmoid"),
    "lap": LapMEDClassifier,
    "lap on landmarks": lambda: LapMEDClassifier(budget=0, landmarks=6, max_support=20),
    "lap without residual": lambda: LapMEDClassifier(budget=30, landmarks=6, residual=False),
}
ALL = pytest.mark.parametrize("name", LEARNERS)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 2))
KINDS = {
    2: np.where(X[:, 0] * X[:, 1] > 0.0, "same", "different"),
    3: np.array(["left", "middle", "right"])[np.digitize(X[:, 0], [-0.5, 0.5])],
}
NEW = RNG.normal(size=(20, 2))


def said(model):
    """All that a learner says of new rows, and of itself."""
    found = [model.decision_function(NEW)]
    if hasattr(model, "predict_proba"):
        found.append(model.predict_proba(NEW))
    if hasattr(model, "predict_latent"):
        found += list(model.predict_latent(NEW))
    if hasattr(model, "log_evidence_"):
        found += [model.log_evidence_, model.prequential_.log_loss, model.prequential_.accuracy]
    return np.concatenate([np.ravel(each) for each in found]).tobytes()


# ---------------------------------------------------------------------- checkpoints
@ALL
@pytest.mark.parametrize("k", [2, 3])
def test_stopped_after_every_batch_it_goes_on_bit_for_bit(name, k, tmp_path):
    y = KINDS[k]
    going, stopped = LEARNERS[name](), LEARNERS[name]()
    for i in range(0, 120, 24):
        going.partial_fit(X[i : i + 24], y[i : i + 24], classes=np.unique(y))
        stopped.partial_fit(X[i : i + 24], y[i : i + 24], classes=np.unique(y))
        mercer.save(stopped, tmp_path / "stream.mercer")
        stopped = mercer.load(tmp_path / "stream.mercer")
        assert said(stopped) == said(going)
    assert str(stopped.summary()) == str(going.summary())
    assert stopped.report_.keys() == going.report_.keys()


def test_rows_that_wait_are_in_the_checkpoint(tmp_path):
    y = KINDS[2]
    going = LapMEDClassifier(n_neighbors=8).partial_fit(X[:40], y[:40]).partial_fit(X[40:44])
    mercer.save(going, tmp_path / "stream.mercer")
    again = mercer.load(tmp_path / "stream.mercer")
    for model in (going, again):
        model.partial_fit(X[44:60])
    assert said(again) == said(going)
    assert again.report_["waiting"] == 0


SCRIPT = """
import os, signal, sys
import numpy as np, mercer
model = mercer.load(sys.argv[1])
data = np.load(sys.argv[2])
model.partial_fit(data["X"], data["y"])
def killed(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)
os.replace = killed
mercer.save(model, sys.argv[1])
"""


@pytest.mark.slow  # tests/estimators/test_online_checkpoint.py asks the same of one learner
@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("name", ["med", "lap"])
def test_a_kill_in_the_middle_of_writing(name, tmp_path):
    y = (KINDS[2] == "same").astype(int)
    model = LEARNERS[name]().partial_fit(X[:60], y[:60])
    path = tmp_path / "stream.mercer"
    mercer.save(model, path)
    np.savez(tmp_path / "next.npz", X=X[60:], y=y[60:])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path), str(tmp_path / "next.npz")],
        check=False,
        capture_output=True,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    again = mercer.load(path)
    assert said(again) == said(model)
    assert said(again.partial_fit(X[60:], y[60:])) == said(model.partial_fit(X[60:], y[60:]))


# ---------------------------------------------------------------------- scikit-learn
@ALL
def test_clones_are_fresh_and_parameters_stay(name):
    model = LEARNERS[name]().partial_fit(X, KINDS[2])
    other = clone(model)
    assert repr(other) == repr(model)
    assert not hasattr(other, "classes_")
    assert said(other.partial_fit(X, KINDS[2])) == said(model)


@pytest.mark.parametrize("name", ["online", "med", "lap"])
def test_pipelines_and_cross_validation(name):
    wide = X * [1.0, 1000.0] + [0.0, 5.0]
    pipe = make_pipeline(StandardScaler(), LEARNERS[name]())
    scores = cross_val_score(pipe, wide, KINDS[3], cv=3)
    assert scores.mean() > 0.75


def test_a_search_over_partly_labelled_rows():
    """With ``unlabelled=-1`` and a scorer that leaves the unlabelled rows out."""
    y = np.where(np.arange(120) % 3 == 0, (X[:, 0] > 0.0).astype(int), -1)

    def known(truth, found):
        return accuracy_score(truth[truth != -1], found[truth != -1])

    search = GridSearchCV(
        LapMEDClassifier(unlabelled=-1),
        {"beta": [0.0, 0.5], "kernel": ["rbf", RBF(0.7)]},
        scoring=make_scorer(known),
        cv=3,
    ).fit(X, y)
    assert search.best_score_ > 0.8
    assert search.best_estimator_.classes_.tolist() == [0, 1]


@pytest.mark.parametrize("name", ["online", "med", "lap"])
def test_tables_with_names(name):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b"])
    model = LEARNERS[name]().partial_fit(frame[:60], pandas.Series(KINDS[2][:60]))
    model.partial_fit(frame[60:], pandas.Series(KINDS[2][60:]))
    plain = LEARNERS[name]().partial_fit(X[:60], KINDS[2][:60]).partial_fit(X[60:], KINDS[2][60:])
    found = model.decision_function(pandas.DataFrame(NEW, columns=["a", "b"]))
    np.testing.assert_array_equal(found, plain.decision_function(NEW))
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(frame[["b", "a"]], KINDS[2])
    np.testing.assert_array_equal(
        model.decision_function(pandas.DataFrame(NEW, columns=["a", "b"])), found
    )


# ---------------------------------------------------------------------- one example at a time
def test_the_adapter_is_the_learner():
    model = RiverClassifier(OnlineLogisticClassifier(budget=40), first=30, batch=10)
    for x, label in zip(X, KINDS[2], strict=True):
        model.learn_one({"a": x[0], "b": x[1]}, label)
    direct = OnlineLogisticClassifier(budget=40).partial_fit(X[:30], KINDS[2][:30])
    for i in range(30, 120, 10):
        direct.partial_fit(X[i : i + 10], KINDS[2][i : i + 10])
    found = model.predict_proba_one({"b": NEW[0, 1], "a": NEW[0, 0]})
    expected = dict(zip(direct.classes_.tolist(), direct.predict_proba(NEW[:1])[0], strict=True))
    assert found == expected
    assert model.predict_one({"a": NEW[0, 0], "b": NEW[0, 1]}) == direct.predict(NEW[:1])[0]


def test_rivers_own_evaluation():
    pytest.importorskip("river")
    from river import evaluate, metrics, preprocessing, stream

    rows = stream.iter_array(X, KINDS[2], feature_names=["a", "b"])
    model = preprocessing.StandardScaler() | RiverClassifier(
        OnlineLogisticClassifier(budget=40), classes=["same", "different"], first=20
    )
    assert evaluate.progressive_val_score(rows, model, metrics.Accuracy()).get() > 0.6


# ---------------------------------------------------------------------- kernels of models
def test_the_kernel_of_a_multinomial_is_its_score_and_information():
    p = np.array([0.5, 0.3, 0.2])
    C = RNG.poisson(2.0, size=(6, 3)).astype(float)
    U = C - C.sum(axis=1, keepdims=True) * p  # d log prod p^x / d logits
    info = np.diag(p) - np.outer(p, p)
    expected = U @ np.linalg.pinv(info) @ U.T
    np.testing.assert_allclose(MultinomialFisher(p)(C), expected, atol=1e-10)


def test_the_kernel_of_a_mixture_has_the_scores_of_its_density():
    """Features before whitening are the derivatives of log p, by differences."""
    mixture = GaussianMixture(2, covariance_type="diag", random_state=0).fit(X)
    kernel = MixtureFisher.of(mixture)
    pi, means, var = mixture.weights_, mixture.means_, mixture.covariances_

    def log_p(x, logits, shift, growth):
        w = np.exp(logits) / np.exp(logits).sum()
        centre, v = means + shift * np.sqrt(var), var * (1.0 + growth)
        each = -0.5 * ((x - centre) ** 2 / v + np.log(2 * np.pi * v)).sum(axis=1)
        return np.log(w @ np.exp(each))

    scores, step = kernel.scores(NEW), 1e-6
    for i, x in enumerate(NEW[:5]):
        found = []
        zeros = (np.log(pi), np.zeros((2, 2)), np.zeros((2, 2)))
        for which, base in enumerate(zeros):
            for at in np.ndindex(base.shape):
                ends = []
                for sign in (1.0, -1.0):
                    moved = [each.copy() for each in zeros]
                    moved[which][at] += sign * step
                    ends.append(log_p(x, *moved))
                found.append((ends[0] - ends[1]) / (2.0 * step))
        np.testing.assert_allclose(np.sort(scores[i]), np.sort(found), atol=1e-6)


def test_scores_of_your_own_and_kernels_of_models_in_a_stream():
    own = Fisher(lambda A: np.hstack([A, A**2 - 1.0, A[:, :1] * A[:, 1:2]]), "empirical")
    model = MEDClassifier(kernel=own, amplitude=1.0)
    for i in range(0, 120, 40):
        model.partial_fit(X[i : i + 40], KINDS[2][i : i + 40])
    assert model.feature_weights_.shape == (1, 5)
    assert model.score(X, KINDS[2]) > 0.9
    U = np.hstack([X, X**2 - 1.0, X[:, :1] * X[:, 1:2]])
    info = (U[:40] ** 2).mean(axis=0)  # of the first batch
    np.testing.assert_allclose(model.kernel_(X), (U / info) @ U.T, atol=1e-10)
    counts = RNG.poisson(1.0 + 2.0 * (np.arange(60) % 2)[:, None] * [1, 0, 0], size=(60, 3))
    for kernel in (TFIDF(), MultinomialFisher()):
        text = MEDClassifier(kernel=kernel, amplitude=1.0)
        text.partial_fit(counts[:30], np.arange(30) % 2).partial_fit(counts[30:], np.arange(30) % 2)
        assert text.feature_weights_.shape == (1, 3)


@pytest.mark.parametrize("machine", [LapSVC, LapMEDClassifier])
def test_a_graph_machine_needs_five_matrices(machine):
    """As it predicts: 6000 rows are then 1.4 GB, well within 4 GiB."""
    n = 700
    rows = RNG.normal(size=(n, 30))
    labels = [0, 1] * 20 + [None] * (n - 40)
    machine(n_neighbors=5).fit(rows[:50], labels[:50])  # whatever is imported on the way
    tracemalloc.start()
    try:
        machine(n_neighbors=5).fit(rows, labels)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5.0 * 8 * n * n + 8 * n * 30 * 10
