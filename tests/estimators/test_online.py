"""OnlineLogisticClassifier: streams, batches, forgetting, budgets, files and bad input."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import sklearn.datasets
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import mercer
from mercer import GPClassifier, OnlineLogisticClassifier
from mercer.inference import Bound
from mercer.kernels import RBF, Constant
from mercer.losses import Logistic
from mercer.process import Process
from tests.inference.test_sequential import NEW, twelve

TIGHT = Bound(tol=1e-10)


def table(n=90, k=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 1.0]
    f = np.sin(1.5 * X[:, 0]) + (X[:, 1] - 5.0) / 10.0 + 0.3 * rng.normal(size=n)
    edges = np.quantile(f, np.arange(1, k) / k)
    return X, np.array(["c0", "c1", "c2", "c3"])[np.searchsorted(edges, f)]


def learned(X, y, sizes, **params):
    model, at = OnlineLogisticClassifier(**params), 0
    for size in sizes:
        model.partial_fit(X[at : at + size], y[at : at + size], classes=np.unique(y))
        at += size
    assert at == len(X)
    return model


def figures(model, X):
    mean, std = model.predict_latent(X)
    return np.concatenate([np.ravel(mean), np.ravel(std), model.predict_proba(X).ravel()])


def everything(model, X):
    seen = model.prequential_
    extra = [model.log_evidence_, seen.log_loss, seen.accuracy, model.report_["rows"]["seen"]]
    return np.concatenate([figures(model, X), extra])


# ------------------------------------------------------------------ the mathematics
def test_reference_values():
    X, S, kernel = twelve()
    model = learned(X, S[:, 0], [5, 1, 6], kernel=kernel)
    assert model.log_evidence_ == pytest.approx(-7.294671293426741, abs=1e-11)
    mean, std = model.predict_latent(NEW)
    np.testing.assert_allclose(mean, [1.643013507799, -0.487356132577], atol=1e-10)
    np.testing.assert_allclose(std**2, [0.721410502386, 1.111630766148], atol=1e-10)
    p = model.predict_proba(NEW)[:, 1]
    np.testing.assert_allclose(p, [0.808588402153, 0.402076891757], atol=1e-10)
    log_odds = np.log(p / (1.0 - p))
    np.testing.assert_allclose(model.decision_function(NEW), log_odds, atol=1e-10)


def test_second_pass_reference_values():
    X, S, kernel = twelve()
    for model in (
        learned(X, S[:, 0], [12], kernel=kernel, inference=TIGHT).refine(),
        OnlineLogisticClassifier(kernel, inference=TIGHT).fit(X[::-1], S[::-1, 0]),
    ):
        assert model.log_evidence_ == pytest.approx(-7.26746298590828, abs=1e-10)
        mean, std = model.predict_latent(NEW)
        np.testing.assert_allclose(mean, [1.659324615098, -0.484032570556], atol=1e-9)
        np.testing.assert_allclose(std**2, [0.720978128667, 1.097272368379], atol=1e-9)


@pytest.mark.parametrize(
    ("load", "scale", "accuracy", "log_loss", "bound"),
    [
        ("load_wine", 26.0, 0.97714, 0.17758, -47.469),
        ("load_breast_cancer", 60.0, 0.97718, 0.14923, -107.341),
    ],
)
def test_accuracies(load, scale, accuracy, log_loss, bound):
    X, target = getattr(sklearn.datasets, load)(return_X_y=True)
    y = (target == 1).astype(int)
    kernel = 4.0 * RBF(np.sqrt(scale / 2.0)) + Constant(1.0)
    fold = np.arange(len(X)) % 5
    hits, logs, bounds = [], [], []
    for k in range(5):
        train, test = fold != k, fold == k
        mean, std = X[train].mean(axis=0), X[train].std(axis=0)
        model = OnlineLogisticClassifier(kernel).partial_fit((X[train] - mean) / std, y[train])
        p = model.predict_proba((X[test] - mean) / std)
        hits.append(np.mean(p.argmax(axis=1) == y[test]))
        logs.append(-np.mean(np.log(p[np.arange(len(p)), y[test]])))
        bounds.append(model.log_evidence_)
    assert np.mean(hits) == pytest.approx(accuracy, abs=6e-6)
    assert np.mean(logs) == pytest.approx(log_loss, abs=6e-6)
    assert np.mean(bounds) == pytest.approx(bound, abs=6e-4)


@pytest.mark.parametrize("k", [2, 3])
def test_one_batch_is_its_examples_one_by_one(k):
    X, y = table(300, k)
    kernel = 4.0 * RBF([1.0, 10.0, 1.0]) + Constant(1.0)
    given = {"kernel": kernel, "calibration": None}  # it learns from what was foreseen of a batch
    one = learned(X, y, [300], **given)
    for sizes in ([1] * 300, [130, 7, 163]):
        other = learned(X, y, sizes, **given)
        np.testing.assert_allclose(figures(other, X), figures(one, X), atol=1e-10)
        assert other.log_evidence_ == pytest.approx(one.log_evidence_, abs=1e-9)


def test_the_order_matters_little_and_fit_not_at_all():
    X, y = table(120)
    kernel = 4.0 * RBF([1.0, 10.0, 1.0]) + Constant(1.0)
    backward = slice(None, None, -1)
    a, b = (
        learned(X, y, [120], kernel=kernel),
        learned(X[backward], y[backward], [120], kernel=kernel),
    )
    gap = np.abs(a.predict_proba(X) - b.predict_proba(X)).max()
    assert 1e-6 < gap < 0.1  # documented: the sequential bounds depend on the order
    whole = OnlineLogisticClassifier(kernel, inference=TIGHT).fit(X, y)
    again = OnlineLogisticClassifier(kernel, inference=TIGHT).fit(X[backward], y[backward])
    np.testing.assert_array_equal(figures(whole, X), figures(again, X))
    assert a.log_evidence_ < whole.log_evidence_
    a.set_params(inference=TIGHT).refine()
    np.testing.assert_allclose(figures(a, X), figures(whole, X), atol=1e-8)


@pytest.mark.parametrize("k", [2, 3])
def test_fit_is_the_bound_of_the_process_classifier(k):
    X, y = table(60, k)
    kernel = 4.0 * RBF([1.0, 10.0, 1.0]) + Constant(1.0)
    ours = OnlineLogisticClassifier(kernel, inference=TIGHT).fit(X, y)
    other = GPClassifier(kernel, loss=Logistic(), inference=TIGHT, search=None).fit(X, y)
    assert ours.log_evidence_ == pytest.approx(other.log_evidence_, abs=1e-8)
    np.testing.assert_allclose(ours.predict_proba(X), other.predict_proba(X), atol=1e-8)


def test_fit_goes_on_as_a_stream():
    X, y = table(80)
    kernel = 4.0 * RBF([1.0, 10.0, 1.0])
    model = OnlineLogisticClassifier(kernel, inference=TIGHT).fit(X[:50], y[:50])
    model.partial_fit(X[50:], y[50:])
    assert model.report_["rows"]["seen"] == 80
    assert model.prequential_.weight == 30.0
    model.refine()
    whole = OnlineLogisticClassifier(kernel, inference=TIGHT).fit(X, y)
    np.testing.assert_allclose(figures(model, X), figures(whole, X), atol=1e-8)


def test_weights_of_zero_and_of_the_batch_bound():
    X, y = table(40)
    kernel = 4.0 * RBF([1.0, 10.0, 1.0])
    w = np.r_[np.zeros(5), np.full(35, 2.0)]
    model = OnlineLogisticClassifier(kernel).partial_fit(X, y, sample_weight=w)
    half = OnlineLogisticClassifier(kernel).partial_fit(X[5:], y[5:], sample_weight=w[5:])
    np.testing.assert_array_equal(figures(model, X), figures(half, X))
    twice = OnlineLogisticClassifier(kernel, inference=TIGHT).fit(np.r_[X, X], np.r_[y, y])
    once = OnlineLogisticClassifier(kernel, inference=TIGHT).fit(X, y, np.full(40, 2.0))
    np.testing.assert_allclose(figures(twice, X), figures(once, X), atol=1e-8)


# ------------------------------------------------------------------ forgetting and budget
def test_no_forgetting_and_no_budget_change_nothing():
    X, y = table()
    plain = everything(learned(X, y, [30, 60]), X)
    for params in ({"rho": 1.0}, {"budget": 90}, {"budget": np.inf}, {"rho": 1}):
        np.testing.assert_array_equal(everything(learned(X, y, [30, 60], **params), X), plain)


def test_a_budget_bounds_the_points_and_costs_little():
    X, y = table(400)
    whole, few = learned(X, y, [100] * 4), learned(X, y, [100] * 4, budget=60)
    kept = few.report_["budget"]
    assert kept["points"] <= 60
    assert kept["projections"] == 4
    assert 0.0 < kept["divergence_lost"] < 20.0
    assert np.abs(whole.predict_proba(X) - few.predict_proba(X)).mean() < 0.03
    tighter = learned(X, y, [100] * 4, budget=10)
    assert tighter.report_["budget"]["divergence_lost"] > kept["divergence_lost"]
    with pytest.raises(ValueError, match="forgotten some"):
        few.refine()


def test_forgetting_follows_a_change():
    rng = np.random.default_rng(0)
    last = {}
    for rho in (1.0, 0.8):
        model = OnlineLogisticClassifier(rho=rho, budget=40)
        for t in range(30):
            X = rng.normal(size=(30, 2))
            y = (X[:, 0] > 0) ^ (t >= 15)  # the labels turn round
            model.partial_fit(X, y)
        last[rho] = model.score(X, y)
    assert last[0.8] > 0.9
    assert last[1.0] < 0.8


def test_prequential_figures_are_those_before_each_update():
    X, y = table(120, 3)
    model, log_loss, hits = OnlineLogisticClassifier(), 0.0, 0.0
    model.partial_fit(X[:1], y[:1], classes=np.unique(y))
    assert model.prequential_.log_loss == pytest.approx(np.log(3.0), abs=1e-12)
    first = model.prequential_
    for i in range(1, 120, 17):
        part = slice(i, i + 17)
        p = model.predict_proba(X[part])
        codes = np.searchsorted(model.classes_, y[part])
        log_loss -= np.log(p[np.arange(len(p)), codes]).sum()
        hits += (p.argmax(axis=1) == codes).sum()
        model.partial_fit(X[part], y[part])
    seen = model.prequential_
    assert seen.weight == 120.0
    assert seen.log_loss_sum - first.log_loss_sum == pytest.approx(log_loss, abs=1e-9)
    assert seen.right - first.right == hits


# ------------------------------------------------------------------ units
def test_scales_come_from_the_first_batch_and_stay():
    X, y = table(80)
    model = OnlineLogisticClassifier().partial_fit(X[:40], y[:40])
    before = repr(model.kernel_), model.report_["scales"]
    np.testing.assert_allclose(before[1]["x_scale"], X[:40].std(axis=0))
    model.partial_fit(1000.0 * X[40:], y[40:])
    assert (repr(model.kernel_), model.report_["scales"]) == before
    assert "message" not in before[1]


def test_one_row_first_has_unit_scale_and_says_so():
    X, y = table(5)
    model = OnlineLogisticClassifier().partial_fit(X[:1], y[:1], classes=["c0", "c1"])
    scales = model.report_["scales"]
    assert scales["x_scale"] == [1.0, 1.0, 1.0]
    assert scales["x_shift"] == [0.0, 0.0, 0.0]
    assert "one row" in scales["message"]
    assert "one row" not in str(OnlineLogisticClassifier().fit(*table()).report_["scales"])


# ------------------------------------------------------------------ files and copies
@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("params", [{}, {"budget": 50}, {"rho": 0.9, "budget": 70}])
def test_a_saved_learner_continues_bit_for_bit(k, params, tmp_path):
    X, y = table(700, k)
    model = OnlineLogisticClassifier(**params).partial_fit(X[:290], y[:290])
    mercer.save(model, tmp_path / "stream.mercer")
    again = mercer.load(tmp_path / "stream.mercer")
    np.testing.assert_array_equal(everything(again, X), everything(model, X))
    for part in (slice(290, 300), slice(300, 301), slice(301, 700)):
        model.partial_fit(X[part], y[part])
        again.partial_fit(X[part], y[part])
    np.testing.assert_array_equal(everything(again, X), everything(model, X))
    assert again.report_ == model.report_
    assert str(again.summary()) == str(model.summary())


def test_copies_are_apart():
    X, y = table(60)
    model = learned(X[:40], y[:40], [40])
    twins = [copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    before = everything(model, X)
    for twin in twins:
        twin.partial_fit(X[40:], y[40:])
    np.testing.assert_array_equal(everything(model, X), before)
    model.partial_fit(X[40:], y[40:])
    for twin in twins:
        np.testing.assert_array_equal(everything(twin, X), everything(model, X))


def test_determinism():
    X, y = table(200, 3)
    params = {"rho": 0.95, "budget": 40}
    first, second = (everything(learned(X, y, [50] * 4, **params), X) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_clone_forgets_what_was_learned():
    X0, Y0 = table(30)
    model = clone(OnlineLogisticClassifier(rho=0.9).partial_fit(X0, Y0))
    assert model.rho == 0.9
    assert not hasattr(model, "stream_")
    with pytest.raises(NotFittedError):
        model.predict(X0)
    with pytest.raises(NotFittedError):
        model.refine()


def test_summary_says_what_was_learned():
    X0, Y0 = table(30)
    text = str(OnlineLogisticClassifier(budget=20).partial_fit(X0, Y0).summary())
    for word in ("30, batches: 1", "points kept", "before each update", "divergence lost"):
        assert word in text


def test_a_long_stream_stays_sound():
    rng = np.random.default_rng(0)
    model, errors = OnlineLogisticClassifier(budget=40), []
    T = rng.normal(size=(500, 2))
    truth = expit(3.0 * np.sin(2.0 * T[:, 0]) + 2.0 * T[:, 1])
    for t in range(100):
        X = rng.normal(size=(60, 2))
        y = rng.random(60) < expit(3.0 * np.sin(2.0 * X[:, 0]) + 2.0 * X[:, 1])
        model.partial_fit(X, y)
        if t % 33 == 0:
            errors.append(np.abs(model.predict_proba(T)[:, 1] - truth).mean())
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.05
    stream = model.stream_
    shares = np.linalg.eigvals(stream.latents[0].C @ stream.kernel(stream.points)).real
    assert shares.min() > 0.0
    assert shares.max() < 1.0  # the posterior has a variance in every direction
    assert stream.marginals(model.units_.standardised(T))[1].min() > 0.0


# ------------------------------------------------------------------ drift
def turning(t, rng, n=50):
    """Return a batch whose boundary turns at t = 15."""
    X = rng.normal(size=(n, 2))
    angle = 2.5 * (t >= 15)
    f = 4.0 * (np.cos(angle) * X[:, 0] + np.sin(angle) * X[:, 1])
    return X, (rng.random(n) < expit(f)).astype(int)


def test_drift_finds_a_change_and_only_that():
    accuracy, changes = {}, []
    for drift in (0.0, 0.1, "auto"):
        rng, model = np.random.default_rng(0), OnlineLogisticClassifier(drift=drift, budget=60)
        for t in range(30):
            model.partial_fit(*turning(t, rng), classes=[0, 1])
            if drift == "auto" and model.report_["drift"]["share"] > 0.0:
                changes.append(t)
        accuracy[drift] = model.prequential_.accuracy
    assert changes == [15]
    assert model.report_["drift"]["changes"] == 1
    assert accuracy["auto"] > accuracy[0.0] + 0.1
    assert accuracy[0.1] > accuracy[0.0] + 0.1


def test_an_unforeseen_change_does_not_help_the_figures_before_it():
    rng, model = np.random.default_rng(0), OnlineLogisticClassifier(drift="auto", budget=60)
    for t in range(15):
        model.partial_fit(*turning(t, rng), classes=[0, 1])
    X, y = turning(15, rng)
    before, value, log_p = model.prequential_, model.log_evidence_, model.predict_log_proba(X)
    model.partial_fit(X, y)
    seen = model.prequential_.log_loss_sum - before.log_loss_sum
    assert seen == pytest.approx(-log_p[np.arange(len(y)), y].sum(), abs=1e-9)
    assert model.log_evidence_ - value > -seen  # the change, at its prior price, explains more


def test_a_learner_that_drifted_refuses_a_second_pass():
    X, y = table(40)
    model = learned(X, y, [20, 20], drift=0.1)
    with pytest.raises(ValueError, match="drift"):
        model.refine()


@pytest.mark.parametrize("drift", [-0.1, 1.0, "often", True, None])
def test_drift_must_be_a_share(drift):
    X, y = table(20)
    for method in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match="drift must be"):
            getattr(OnlineLogisticClassifier(drift=drift), method)(X, y)


def test_a_saved_learner_that_drifts_continues_bit_for_bit(tmp_path):
    X, y = table(300)
    model = OnlineLogisticClassifier(drift="auto", budget=50).partial_fit(X[:100], y[:100])
    mercer.save(model, tmp_path / "stream.mercer")
    again = mercer.load(tmp_path / "stream.mercer")
    for one in (model, again):
        one.partial_fit(X[100:200], y[100:200][::-1]).partial_fit(X[200:], y[200:])
    np.testing.assert_array_equal(everything(again, X), everything(model, X))
    assert again.report_ == model.report_


def test_single_examples_share_a_projection():
    X, y = table(200)
    few = learned(X, y, [60] + [1] * 140, budget=50)
    assert few.report_["budget"]["points"] <= 50
    assert 140 / 5 <= few.report_["budget"]["projections"] <= 140 / 5 + 2  # a tenth of the budget
    together = learned(X, y, [60, 140], budget=50)
    assert np.abs(few.predict_proba(X) - together.predict_proba(X)).mean() < 0.02


def test_plain_arrays_and_others_are_the_same_batches():
    X, y = table(80)
    codes = (y == "c1").astype(int)
    plain = OnlineLogisticClassifier().partial_fit(X[:40], codes[:40])
    lists = copy.deepcopy(plain)
    plain.partial_fit(X[40:], codes[40:])
    lists.partial_fit(X[40:].tolist(), codes[40:].tolist())
    np.testing.assert_array_equal(everything(plain, X), everything(lists, X))
    for bad in (np.where(X[0, 0] == X, np.nan, X), X[:, :2], X[:0], X[0]):
        with pytest.raises(ValueError, match=r"NaN|features|minimum of 1|2D array"):
            plain.partial_fit(bad, codes[: len(bad)])
    with pytest.raises(ValueError, match="not one of the classes"):
        plain.partial_fit(X[:2], np.array([0, 7]))
    np.testing.assert_array_equal(everything(plain, X), everything(lists, X))


# ------------------------------------------------------------------ what every estimator answers
@pytest.mark.parametrize("k", [2, 3])
def test_predictions_are_those_of_the_process(k):
    X, y = table(80, k)
    model = learned(X, y, [40, 40], budget=50)
    (process,) = model.posteriors_
    assert isinstance(process, Process)
    inside = model.units_.standardised(X)
    mean, std = model.predict_latent(X)
    np.testing.assert_array_equal(process.mean(inside).reshape(mean.shape), mean)
    var = np.diagonal(process.blocks(inside), axis1=1, axis2=2).reshape(std.shape)
    np.testing.assert_array_equal(np.sqrt(var), std)


def test_nothing_is_left_out_and_the_report_says_why():
    X, y = table(40)
    for model in (learned(X, y, [40]), OnlineLogisticClassifier().fit(X, y)):
        assert model.left_out_ is None
        assert model.loo_ is None
        report = model.report_
        assert "prequential_" in report["left_out"]
        assert report["inference"]["converged"] is True
        assert report["standardize"]["on"] is True
        assert report["search"] is None
    with pytest.raises(NotFittedError):
        _ = OnlineLogisticClassifier().left_out_


def test_entries_of_the_caller_stay_and_the_others_go_on(tmp_path):
    X, y = table(60)
    model = learned(X[:40], y[:40], [40])
    before = model.report_
    model.report_ = before | {"table": {"name": "mine"}}
    assert model.report_ == before | {"table": {"name": "mine"}}
    mercer.save(model.partial_fit(X[40:], y[40:]), tmp_path / "m.mercer")
    again = mercer.load(tmp_path / "m.mercer")
    assert again.report_ == model.report_
    assert again.report_["rows"]["seen"] == 60
    assert again.report_["table"] == {"name": "mine"}


def test_a_warning_points_to_the_line_that_called():
    X, y = table(60)
    model = OnlineLogisticClassifier(inference=Bound(max_iter=1))
    begun = learned(X, y, [60], inference=Bound(max_iter=1))
    for call in (lambda: model.fit(X, y), begun.refine):
        with pytest.warns(ConvergenceWarning, match="Bound") as seen:
            call()
        assert seen[0].filename == __file__
