"""``model.propose``: greedy picks against exhaustive refits, and what cannot be answered."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.exceptions import NotFittedError

from mercer import (
    SVC,
    GPClassifier,
    GPRegressor,
    KernelClassifier,
    LapLSClassifier,
    LeastSquaresClassifier,
    OnlineLogisticClassifier,
    RVRegressor,
    SmoothingSpline,
)
from mercer.kernels import RBF
from mercer.losses import Gaussian
from mercer.search import HMC

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, size=(15, 2))
Y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * RNG.normal(size=15)
POOL = RNG.uniform(-2, 2, size=(12, 2))
LABELS = np.where(Y > 0, "high", "low")


def regressor(noise=0.05):
    return GPRegressor(1.3 * RBF(0.9), loss=Gaussian(noise), search=None).fit(X, Y)


def refit(rows):
    """The same machine with some rows of the pool observed, whatever they say."""
    both = np.concatenate([X, POOL[rows]])
    y = np.concatenate([Y, np.zeros(len(rows))])
    return GPRegressor(1.3 * RBF(0.9), loss=Gaussian(0.05), search=None).fit(both, y)


def test_a_batch_by_information_or_variance_is_that_of_exhaustive_refits():
    for by in ("information", "variance"):
        found, rows = regressor().propose(POOL, 4, by), []
        for k in range(4):
            v = refit(rows).predict_latent(POOL)[1] ** 2 if rows else None
            v = regressor().predict_latent(POOL)[1] ** 2 if v is None else v
            score = 0.5 * np.log1p(v / 0.05) if by == "information" else v
            score[rows] = -np.inf
            assert found.indices[k] == score.argmax()
            assert found.scores[k] == pytest.approx(score.max(), rel=1e-8)
            rows.append(int(score.argmax()))


def test_the_error_that_falls_most_is_that_of_exhaustive_refits():
    found, rows = regressor().propose(POOL, 3, "error", at=X), []
    for k in range(3):
        before = np.mean((refit(rows) if rows else regressor()).predict_latent(X)[1] ** 2)
        falls = np.array(
            [before - np.mean(refit([*rows, i]).predict_latent(X)[1] ** 2) for i in range(12)]
        )
        falls[rows] = -np.inf
        assert found.indices[k] == falls.argmax()
        assert found.scores[k] == pytest.approx(falls.max(), rel=1e-7)
        rows.append(int(falls.argmax()))


@pytest.mark.parametrize("maximize", [False, True])
def test_improvement_and_bound_are_their_closed_forms(maximize):
    model, sign = regressor(), 1.0 if maximize else -1.0
    mean, std = model.predict_latent(POOL)
    known = model.predict_latent(X)[0]
    best = known.max() if maximize else known.min()
    u = sign * (mean - best) / std
    brute = std * (u * norm.cdf(u) + norm.pdf(u))
    found = model.propose(POOL, 12, "improvement", maximize=maximize)
    np.testing.assert_allclose(found.alone, brute[found.indices], rtol=1e-9)
    assert found.indices[0] == brute.argmax()
    given = model.propose(POOL, 1, "ei", maximize=maximize, best=0.3)
    u = sign * (mean - 0.3) / std
    assert given.scores[0] == pytest.approx((std * (u * norm.cdf(u) + norm.pdf(u))).max())
    bound = model.propose(POOL, 1, "ucb", maximize=maximize, kappa=1.5)
    assert bound.scores[0] == pytest.approx(sign * (sign * mean + 1.5 * std).max())


def test_a_batch_by_improvement_adds_up_to_that_of_all_its_rows():
    model = regressor()
    found = model.propose(POOL, 3, "improvement")
    mean, cov = model.predict_latent(POOL)[0], model.posteriors_[0].cov(POOL)
    draws = np.random.default_rng(0).multivariate_normal(mean, cov, size=150_000)
    best = model.predict_latent(X)[0].min()
    whole = np.maximum(best - draws[:, found.indices].min(axis=1), 0.0).mean()
    assert found.scores.sum() == pytest.approx(whole, rel=0.03)
    # and no other second row adds more, by the same draws
    first = np.minimum(draws[:, found.indices[0]], best)
    adds = np.maximum(first[:, None] - draws, 0.0).mean(axis=0)
    assert adds[found.indices[1]] > 0.97 * adds.max()


def test_scores_are_in_the_units_of_the_target():
    plain = GPRegressor(random_state=0).fit(X, Y)
    other = GPRegressor(random_state=0).fit(X, 100.0 * Y + 7.0)
    a, b = (m.propose(POOL, 3, "improvement") for m in (plain, other))
    np.testing.assert_array_equal(a.indices, b.indices)
    np.testing.assert_allclose(b.scores, 100.0 * a.scores, rtol=1e-3)
    a, b = (m.propose(POOL, 2, "variance") for m in (plain, other))
    np.testing.assert_allclose(b.scores, 1e4 * a.scores, rtol=1e-3)


def test_two_targets_have_twice_the_information_and_no_minimum():
    one = regressor()
    two = GPRegressor(1.3 * RBF(0.9), loss=Gaussian(0.05), search=None).fit(X, np.c_[Y, -Y])
    np.testing.assert_allclose(
        two.propose(POOL, 3, "information").scores, 2 * one.propose(POOL, 3, "information").scores
    )
    with pytest.raises(ValueError, match="one quantity, and 2 targets have none"):
        two.propose(POOL, 1, "improvement")


def test_a_committee_averages_over_its_members():
    model = GPRegressor(search=HMC(samples=4, warmup=5, chains=1, keep=3)).fit(X, Y)
    found = model.propose(POOL, 2, "improvement")
    assert found.report["members"] == len(model.posteriors_) > 1
    assert model.propose(POOL, 2, "variance").scores[0] == pytest.approx(
        np.max(model.predict_latent(POOL)[1] ** 2)
    )


def test_the_label_that_lowers_the_error_most_by_a_joint_integral():
    model = GPClassifier(4.0 * RBF(0.9), search=None, inference="laplace").fit(X, LABELS)
    found = model.propose(POOL, 12, "error", at=POOL[:5])
    process, loss = model.posteriors_[0], model.losses_[0]
    m, S = process.mean(POOL)[:, 0], process.cov(POOL)
    z, w = np.polynomial.hermite_e.hermegauss(60)
    w = w / w.sum()
    score = np.zeros(12)
    for i in range(12):
        fi = m[i] + np.sqrt(S[i, i]) * z
        for j in range(5):
            rest = max(S[j, j] - S[i, j] ** 2 / S[i, i], 0.0)
            fj = m[j] + S[i, j] / S[i, i] * (fi - m[i])[:, None] + np.sqrt(rest) * z
            p_i = np.exp(-loss.value(np.ones_like(fi), fi))
            p_j = np.exp(-loss.value(np.ones_like(fj), fj)) @ w
            both, other = w @ (p_i * p_j), w @ ((1 - p_i) * p_j)
            total = w @ p_i
            after = min(both, total - both) + min(other, 1 - total - other)
            now = w @ p_j
            score[i] += (min(now, 1 - now) - after) / 5
    # f_j given a label is not quite Gaussian: its moments are those of the integral
    np.testing.assert_allclose(found.alone, score[found.indices], atol=2e-3)


@pytest.mark.parametrize("by", ["information", "variance", "error", "margin"])
@pytest.mark.parametrize("k", [2, 3])
def test_classes_by_every_criterion(by, k):
    y = np.digitize(Y, [0.0] if k == 2 else [-0.4, 0.4])
    for model in (GPClassifier(search=None), OnlineLogisticClassifier()):
        found = model.fit(X, y).propose(POOL, 3, by)
        assert len(set(found)) == 3
        assert np.all(np.isfinite(found.scores))


def test_a_batch_of_labels_does_not_ask_the_same_twice():
    twice = np.repeat(POOL, 2, axis=0) + 1e-6 * np.arange(24)[:, None]
    model = GPClassifier(4.0 * RBF(0.9), search=None).fit(X, LABELS)
    alone = np.argsort(-model.propose(twice, 24, "information").alone)
    assert len(set(model.propose(twice, 4, "information").indices // 2)) == 4
    assert len(alone) == 24


def test_machines_without_a_spread_ask_by_margin():
    for model in (SVC(), KernelClassifier(), LapLSClassifier()):
        found = model.fit(X, LABELS).propose(POOL, 2)
        assert found.by == "margin"
        f = np.abs(model.decision_function(POOL))
        np.testing.assert_array_equal(found.indices, np.argsort(f)[:2])
        with pytest.raises(ValueError, match="no spread of f, and by='variance' needs it: propose"):
            model.propose(POOL, 1, "variance")


def test_least_squares_on_labels_ask_by_the_noise_by_which_they_learn():
    model = LeastSquaresClassifier(RBF(0.9)).fit(X, LABELS)
    v, noise = model.predict_latent(POOL)[1] ** 2, float(model.loss_.get_params()["noise"])
    found = model.propose(POOL, 12, "information")
    np.testing.assert_allclose(found.every, 0.5 * np.log1p(v / noise), rtol=1e-8)


def test_a_support_vector_machine_with_a_posterior_asks_by_it():
    model = SVC(inference="ep", search=None).fit(X, LABELS)
    found, inner = (one.propose(POOL, 2, "information") for one in (model, model.bayes_))
    np.testing.assert_array_equal(found.indices, inner.indices)


def test_partly_labelled_rows_ask_for_the_next_label():
    y = np.array([None] * 15, dtype=object)
    y[:4] = ["high", "low", "high", "low"]
    model = LapLSClassifier().fit(X, y)
    found = model.propose(X[4:], 3)
    assert len(set(found)) == 3


def test_curves_and_relevance_vectors_propose():
    x = np.linspace(0, 6, 30)[:, None]
    grid = np.linspace(-1, 7, 25)[:, None]
    curve = SmoothingSpline().fit(x, np.sin(x[:, 0])).propose(grid, 2, "variance")
    assert set(curve) == {0, 24}  # both ends, not one end twice
    relevance = RVRegressor().fit(x, np.sin(x[:, 0]) + 0.1 * np.cos(9 * x[:, 0]))
    assert len(relevance.propose(grid, 2, "information")) == 2


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"by": "luck"}, "unknown criterion 'luck'; by is one of 'variance', 'information'"),
        ({"by": 3}, "unknown criterion 3"),
        ({"n": 13}, "13 rows are asked for, and there are 12 candidates"),
        ({"n": 0}, "n must be a number of rows, at least 1, not 0"),
        ({"n": True}, "n must be a number of rows"),
        ({"by": "margin"}, "GPRegressor has no classes, and by='margin' needs it"),
        ({"best": np.nan, "by": "ei"}, "best must be a finite number or None"),
        ({"kappa": -1.0, "by": "ucb"}, "kappa must be a number of deviations"),
    ],
)
def test_what_cannot_be_answered_is_said(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        regressor().propose(POOL, **given)


def test_bad_candidates_are_named():
    bad = POOL.copy()
    bad[3, 1] = np.nan
    with pytest.raises(ValueError, match="contains NaN in column 1, row 3"):
        regressor().propose(bad)
    with pytest.raises(ValueError, match="3 features"):
        regressor().propose(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="an observation without noise says everything"):
        GPRegressor(RBF(), loss=Gaussian(0.0), search=None).fit(X, Y).propose(
            POOL, 1, "information"
        )
    with pytest.raises(ValueError, match="by='ei' looks for the best value of one quantity"):
        GPClassifier(search=None).fit(X, LABELS).propose(POOL, 1, "ei")
    with pytest.raises(NotFittedError):
        GPRegressor().propose(POOL)


def test_a_proposal_reads_as_a_table():
    text = str(regressor().propose(POOL, 2, "improvement"))
    lines = text.splitlines()
    assert lines[0] == "2 of 12 rows by improvement: expected improvement"
    assert lines[1].startswith("  best: ")
    assert lines[-3].split() == ["row", "score", "alone"]
