"""``model.condition``: the same numbers as a refit with the hyperparameters found."""

import pickle

import numpy as np
import pytest

import mercer
from mercer import (
    SVC,
    GPClassifier,
    GPRegressor,
    KernelClassifier,
    LeastSquaresClassifier,
    MEDClassifier,
    OnlineLogisticClassifier,
    QuantileRegressor,
    SmoothingSpline,
)
from mercer.kernels import RBF, White
from mercer.losses import Gaussian
from mercer.search import HMC

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(30, 2))
Y = 5.0 + np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * RNG.normal(size=30)
NEW = RNG.uniform(-2.5, 2.5, size=(9, 2))
FRESH = 5.0 + np.sin(2 * NEW[:, 0]) + 0.5 * NEW[:, 1]
POOL = RNG.uniform(-2, 2, size=(12, 2))


def check_same(model, reference, shift=0.0, atol=1e-10):
    (mean, std), (m, s) = (one.predict(POOL, return_std=True) for one in (model, reference))
    np.testing.assert_allclose(mean - shift, m, atol=atol)
    np.testing.assert_allclose(std, s, atol=atol)
    assert model.log_evidence_ == pytest.approx(reference.log_evidence_, abs=1e-9)


@pytest.mark.parametrize("basis", [None, "constant", "linear"])
@pytest.mark.parametrize("kernel", [1.3 * RBF(0.9), RBF([0.8, 2.0]) + White(0.03)])
def test_gaussian_noise_is_that_of_a_refit(basis, kernel):
    given = {"kernel": kernel, "loss": Gaussian(0.02), "search": None, "basis": basis}
    model = GPRegressor(**given).fit(X, Y)
    before = model.predict(POOL)
    after = model.condition(NEW[:5], FRESH[:5]).condition(NEW[5:], FRESH[5:])
    both = GPRegressor(**given).fit(np.concatenate([X, NEW]), np.concatenate([Y, FRESH]))
    check_same(after, both)
    np.testing.assert_array_equal(model.predict(POOL), before)  # the old one is as it was
    assert len(model.posteriors_[0].points) == 30
    assert after.report_["conditioned"]["rows"] == 9
    assert after.report_["rows"]["used"] == 39
    assert after.left_out_ is None
    assert "condition" in after.report_["left_out"]
    assert "added by condition" in str(after.summary())


def test_the_centring_and_the_units_are_those_of_the_fit():
    model = GPRegressor().fit(X, Y)
    after = model.condition(NEW, FRESH)
    shift = float(model.units_.y_shift[0])
    given = {"kernel": model.kernel_, "loss": model.loss_, "search": None, "standardize": False}
    both = np.concatenate([X, NEW]), np.concatenate([Y, FRESH]) - shift
    check_same(after, GPRegressor(**given).fit(*both), shift, atol=1e-9)


def test_repeated_rows_and_weights_count_as_in_a_fit():
    given = {"kernel": 1.3 * RBF(0.9), "loss": Gaussian(0.02), "search": None}
    rows = np.concatenate([NEW, NEW[:3], X[:2]])
    y = np.concatenate([FRESH, FRESH[:3] + 0.1, Y[:2] - 0.1])
    w = np.linspace(0.5, 3.0, len(y))
    after = GPRegressor(**given).fit(X, Y).condition(rows, y, sample_weight=w)
    both = GPRegressor(**given).fit(
        np.concatenate([X, rows]), np.concatenate([Y, y]), np.concatenate([np.ones(30), w])
    )
    check_same(after, both)


def test_several_targets_and_committees():
    given = {"kernel": 1.3 * RBF(0.9), "loss": Gaussian(0.02), "search": None}
    two = GPRegressor(**given).fit(X, np.c_[Y, -Y]).condition(NEW, np.c_[FRESH, FRESH])
    both = np.concatenate([X, NEW]), np.concatenate([np.c_[Y, -Y], np.c_[FRESH, FRESH]])
    check_same(two, GPRegressor(**given).fit(*both))
    committee = GPRegressor(search=HMC(samples=3, warmup=5, chains=1, keep=3)).fit(X, Y)
    after = committee.condition(NEW, FRESH)
    assert len(after.posteriors_) == len(committee.posteriors_)
    assert after.log_evidence_ is None
    assert "equal shares" in after.report_["conditioned"]["members"]


def test_the_line_is_solved_again():
    x = np.sort(RNG.uniform(0, 9, size=40))[:, None]
    y = np.sin(x[:, 0]) + 0.1 * RNG.normal(size=40)
    given = {"kernel": "matern32", "gram": "markov"}
    model = GPRegressor(**given).fit(x[::2], y[::2])
    after = model.condition(x[1::2], y[1::2])
    shift = float(model.units_.y_shift[0])
    fixed = {"kernel": model.kernel_, "loss": model.loss_, "search": None, "standardize": False}
    both = GPRegressor(**fixed).fit(
        np.concatenate([x[::2], x[1::2]]), np.concatenate([y[::2], y[1::2]]) - shift
    )
    grid = np.linspace(0, 9, 20)[:, None]
    np.testing.assert_allclose(after.predict(grid) - shift, both.predict(grid), atol=1e-8)
    assert after.log_evidence_ == pytest.approx(both.log_evidence_, abs=1e-7)


@pytest.mark.parametrize("inference", ["laplace", "ep", "variational", "bound"])
def test_labels_are_solved_for_again_from_the_old_posterior(inference):
    labels, fresh = Y > 5.0, FRESH > 5.0
    given = {"kernel": 4.0 * RBF(0.9), "inference": inference, "search": None}
    model = GPClassifier(**given).fit(X, labels)
    after = model.condition(NEW, fresh)
    both = GPClassifier(**given).fit(np.concatenate([X, NEW]), np.concatenate([labels, fresh]))
    np.testing.assert_allclose(after.predict_proba(POOL), both.predict_proba(POOL), atol=2e-6)
    assert after.log_evidence_ == pytest.approx(both.log_evidence_, abs=1e-5)
    assert "solved for again" in after.report_["conditioned"]["how"]
    again = after.condition(NEW[:1] + 0.3, fresh[:1])
    assert len(again.posteriors_[0].points) == 40


@pytest.mark.parametrize("loss", ["softmax", "probit"])
def test_several_classes(loss):
    labels, fresh = (np.digitize(y, [4.6, 5.4]) for y in (Y, FRESH))
    given = {"kernel": 4.0 * RBF(0.9), "loss": loss, "search": None}
    after = GPClassifier(**given).fit(X, labels).condition(NEW, fresh)
    both = GPClassifier(**given).fit(np.concatenate([X, NEW]), np.concatenate([labels, fresh]))
    np.testing.assert_allclose(after.predict_proba(POOL), both.predict_proba(POOL), atol=2e-6)


@pytest.mark.parametrize("loss", ["poisson", "student_t", "gamma"])
def test_other_losses(loss):
    y, fresh = np.round(np.exp(Y - 4.0)) + 1.0, np.round(np.exp(FRESH - 4.0)) + 1.0
    given = {"kernel": 1.3 * RBF(0.9), "loss": loss, "search": None}
    after = GPRegressor(**given).fit(X, y).condition(NEW, fresh)
    both = GPRegressor(**given).fit(np.concatenate([X, NEW]), np.concatenate([y, fresh]))
    np.testing.assert_allclose(after.predict(POOL), both.predict(POOL), rtol=1e-5)


def test_a_mode_takes_rows():
    given = {"kernel": RBF(0.9), "C": 5.0}
    model = KernelClassifier(**given).fit(X, Y > 5.0)
    after = model.condition(NEW, FRESH > 5.0)
    both = KernelClassifier(**given).fit(
        np.concatenate([X, NEW]), np.concatenate([Y > 5.0, FRESH > 5.0])
    )
    np.testing.assert_allclose(
        after.decision_function(POOL), both.decision_function(POOL), atol=1e-5
    )


def test_streams_learn_one_more_batch():
    for learner in (OnlineLogisticClassifier(), MEDClassifier()):
        model = learner.partial_fit(X, Y > 5.0)
        before = model.decision_function(POOL)
        after = model.condition(NEW, FRESH > 5.0)
        np.testing.assert_array_equal(model.decision_function(POOL), before)
        model.partial_fit(NEW, FRESH > 5.0)
        np.testing.assert_array_equal(after.decision_function(POOL), model.decision_function(POOL))


@pytest.mark.parametrize("machine", ["regressor", "classifier"])
def test_files_hold_conditioned_models(machine, tmp_path):
    if machine == "regressor":
        model = GPRegressor(1.3 * RBF(0.9), search=None, basis="linear").fit(X, Y)
        after = model.condition(NEW, FRESH)
    else:
        model = GPClassifier(search=None).fit(X, Y > 5.0)
        after = model.condition(NEW, FRESH > 5.0)
    for one in (model, after):
        mercer.save(one, tmp_path / "model.mercer")
        loaded = mercer.load(tmp_path / "model.mercer")
        np.testing.assert_array_equal(loaded.predict(POOL), one.predict(POOL))
        more = loaded.condition(POOL[:2], one.predict(POOL[:2]))
        np.testing.assert_array_equal(
            more.predict(POOL), one.condition(POOL[:2], one.predict(POOL[:2])).predict(POOL)
        )
    assert pickle.loads(pickle.dumps(after)).report_ == after.report_  # our own


def test_what_cannot_be_conditioned_is_said():
    x, y = X, Y > 5.0
    cases = [
        (SVC().fit(x, y), (NEW, FRESH > 5.0), "SVC does not keep what new rows need"),
        (SmoothingSpline().fit(x[:, :1], Y), (NEW[:, :1], FRESH), "does not keep what new rows"),
        (QuantileRegressor(search=None).fit(x, Y), (NEW, FRESH), "does not keep what new rows"),
        (LeastSquaresClassifier().fit(x, y), (NEW, FRESH > 5.0), "from rows left out"),
        (
            GPRegressor(RBF(), loss=Gaussian(np.full(30, 0.1)), search=None).fit(x, Y),
            (NEW, FRESH),
            "the noise was given for each training row",
        ),
        (
            GPRegressor(gram="inducing", search=None).fit(x, Y),
            (NEW, FRESH),
            "does not keep what new rows need",
        ),
        (GPClassifier(search=None).fit(x, y), (NEW[:2], ["a", "b"]), "the model knows"),
        (
            GPClassifier(search=None, class_weight="balanced").fit(x, y),
            (NEW, FRESH > 5.0),
            "class_weight='balanced' weighs all rows",
        ),
        (GPRegressor(search=None).fit(x, Y), (NEW, FRESH[:3]), "inconsistent numbers of samples"),
        (GPRegressor(search=None).fit(x, Y), (NEW, np.c_[FRESH, FRESH]), "the model has 1 targets"),
        (
            GPRegressor(RBF(), loss=Gaussian(0.0), search=None).fit(x, Y),
            (x[:1], Y[:1] + 1.0),
            "repeat what the model knows exactly",
        ),
    ]
    for model, rows, sentence in cases:
        with pytest.raises(ValueError, match=sentence):
            model.condition(*rows)
