"""Rows left out: figures against the obvious computations, machines against real refits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import foldnorm, norm

import mercer
from mercer.kernels import RBF
from mercer.left_out import span as sv_loo
from mercer.left_out.figures import predicted_class, reliability_bins
from mercer.tables.choose.calibrated import SigmoidClassifier
from mercer.tables.choose.left_out import by_folds, of_classes, of_quantity, own_left_out
from mercer.tables.choose.notes import influence
from mercer.tables.judge.simple import constant


def _classes(n=60, k=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    f = X[:, 0] + 0.5 * rng.normal(size=n)
    return X, np.digitize(f, [0.0] if k == 2 else [-0.5, 0.5]).astype(float)


def test_figures_of_a_quantity(rng):
    y, mean, std = rng.normal(size=200), 0.1 * rng.normal(size=200), rng.uniform(0.5, 2.0, 200)
    left = of_quantity(y, mean, std, norm.logpdf(y, mean, std), "leave-one-out")
    assert left.error == pytest.approx(np.sqrt(np.mean((y - mean) ** 2)))
    shares = []
    for level in np.arange(1, 10) / 10:
        low, high = norm.interval(level, mean, std)
        shares.append(abs(np.mean((y >= low) & (y <= high)) - level))
    assert left.calibration == pytest.approx(np.mean(shares))


def test_figures_of_classes():
    p = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.3, 0.7]])
    left = of_classes(np.array([0.0, 1.0, 1.0, 1.0]), p, "leave-one-out")
    assert left.score == pytest.approx(np.log([0.9, 0.4, 0.8, 0.7]).mean())
    assert left.error == 0.25
    assert left.calibration == pytest.approx((0.1 + 0.6 + 0.2 + 0.3) / 4)


def test_a_constant(rng):
    y = rng.normal(2.0, 3.0, 30)
    left = constant(y, 0)
    others = np.delete(y, 4)
    expected = norm.logpdf(y[4], others.mean(), others.std())
    assert left.log_density[4] == pytest.approx(expected)
    shares = constant(np.array([0.0, 0.0, 1.0]), 2).proba
    np.testing.assert_allclose(shares, [[0.6, 0.4]] * 3)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize(
    "make",
    [
        lambda: mercer.SVC(C=3.0, probability="loo"),
        lambda: mercer.KernelClassifier(loss=mercer.losses.Logistic()),
        lambda: mercer.GPClassifier(mercer.kernels.RBF(), inference="laplace", search=None),
    ],
    ids=["SVC", "logistic", "GP"],
)
def test_left_out_rows_are_those_of_refits(make, k):
    """Without refitting the probabilities come out near those of as many fits as rows."""
    X, y = _classes(k=k)
    machine = make().fit(X, y)
    left = own_left_out(machine, X, y, k)
    some = range(0, len(y), 4)
    exact = np.empty((len(some), k))
    for j, i in enumerate(some):
        others = np.arange(len(y)) != i
        exact[j] = make().fit(X[others], y[others]).predict_proba(X[i : i + 1])[0]
    # a support vector machine's sigmoid is fitted once, to all rows left out
    worst, usual = (0.3, 0.04) if isinstance(machine, mercer.SVC) else (0.1, 0.02)
    np.testing.assert_allclose(left.proba[some], exact, atol=worst)
    assert np.mean(np.abs(left.proba[some] - exact)) < usual
    np.testing.assert_allclose(left.proba.sum(axis=1), 1.0)


def test_equal_rows_of_a_support_vector_machine():
    X, y = _classes()
    twice, labels = np.vstack([X, X[::-1]]), np.concatenate([y, y[::-1]])
    left = own_left_out(mercer.SVC(probability="loo").fit(twice, labels), twice, labels, 2)
    np.testing.assert_array_equal(left.proba[:60], left.proba[:59:-1])


def test_least_squares_and_machines_that_say_nothing():
    X, y = _classes()
    machine = mercer.ProbabilisticLeastSquaresClassifier(search=None).fit(X, y)
    left = own_left_out(machine, X, y, 2)
    assert left.score == pytest.approx(machine.loo_log_probability_ / len(y))
    assert own_left_out(mercer.RVClassifier().fit(X, y), X, y, 2) is None
    folds = by_folds(mercer.RVClassifier(), X, y, y, 2, seed=0)
    assert folds.by == "5 folds"
    assert folds.error < 0.35
    quantity = by_folds(mercer.RVRegressor(), X, X[:, 0], X[:, 0], 0, seed=0)
    assert quantity.error < 0.1
    with pytest.raises(ValueError, match="one row only"):
        by_folds(mercer.RVClassifier(), X, y, np.r_[2.0, y[1:]], 3, seed=0)


def test_least_squares_of_several_classes_against_refits():
    X, y = _classes(k=3)
    machine = mercer.ProbabilisticLeastSquaresClassifier(search=None).fit(X, y)
    left = own_left_out(machine, X, y, 3)
    np.testing.assert_allclose(left.proba.sum(axis=1), 1.0)
    for i in range(0, len(y), 9):
        others = np.arange(len(y)) != i
        again = mercer.ProbabilisticLeastSquaresClassifier(search=None).fit(X[others], y[others])
        np.testing.assert_allclose(left.proba[i], again.predict_proba(X[i : i + 1])[0], atol=0.03)


def test_sigmoid_on_hidden_labels():
    X, y = _classes(90)
    labels = np.array([None if i % 3 else ["no", "yes"][int(c)] for i, c in enumerate(y)], object)
    machine = SigmoidClassifier(mercer.LapSVC()).fit(X, labels)
    p = machine.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert machine.predict(X).tolist() == machine.classes_[p.argmax(axis=1)].tolist()
    left = own_left_out(machine, X, y[::3], 2)
    assert left.proba.shape == (30, 2)
    assert left.by == "5 folds"
    # what a label says is hidden from its own prediction: turning it does not raise its probability
    turned = labels.copy()
    turned[0] = "yes" if labels[0] == "no" else "no"
    other = own_left_out(SigmoidClassifier(mercer.LapSVC()).fit(X, turned), X, y[::3], 2)
    assert abs(other.proba[0, 0] - left.proba[0, 0]) < 0.25


@pytest.mark.parametrize(
    "machine",
    [mercer.GPRegressor(search=None), mercer.RVRegressor(), mercer.SVC(), mercer.RVClassifier()],
    ids=lambda m: type(m).__name__,
)
def test_influence_is_a_share_of_the_coefficients(machine):
    X, y = _classes(40)
    X = np.vstack([X, X[:3]])  # equal rows share
    y = np.concatenate([y, y[:3]])
    found = influence(machine.fit(X, y), X)
    assert found.shape == (43,)
    assert np.all(found >= 0)
    assert found.sum() == pytest.approx(1.0)
    if isinstance(machine, mercer.GPRegressor):
        alpha = np.abs(machine.posteriors_[0].alpha).sum()
        inside = machine.units_.standardised(X[5:6])
        row = np.flatnonzero((machine.posteriors_[0].points == inside).all(axis=1))[0]
        expected = np.abs(machine.posteriors_[0].alpha[row]).sum() / alpha
        assert found[5] == pytest.approx(expected)
        assert found[0] == pytest.approx(found[40])


def test_the_only_free_support_vector_has_a_span():
    """Beside a bias 1 / [M^-1]_ii divides by zero there; it moves as one without any free one."""
    X, y = np.array([[0.0], [1.0], [3.0]]), np.array([1.0, -1.0, -1.0])
    lam, bound, f = (
        np.array([0.5, 0.3, 0.2]),
        np.array([1.0, 0.3, 0.2]),
        np.array([0.4, -0.2, -1.0]),
    )
    for bias in (True, False):
        left, estimates = sv_loo.left_out(RBF(1.0), X, lam, f, y, bound, bias, least=np.inf)
        assert np.isfinite(left).all()
        assert estimates == 3
        assert np.isfinite(sv_loo.left_out(RBF(1.0), X, lam, f, y, bound, bias)[0]).all()
        np.testing.assert_allclose(left[0], 0.4 - 0.5)


def _categories(seed, columns, n):
    """Return cells {0, 1}^columns, how probable the second class is in each, and n rows of them."""
    rng = np.random.default_rng(seed)
    slopes, pairs = 1.2 * rng.normal(size=columns), 0.5 * rng.normal(size=(columns, columns))
    cells = np.array(np.meshgrid(*[[0.0, 1.0]] * columns)).reshape(columns, -1).T
    log_odds = (cells - 0.5) @ slopes + np.einsum("ni,ij,nj->n", cells - 0.5, pairs, cells - 0.5)
    p = 1.0 / (1.0 + np.exp(-log_odds))
    which = rng.integers(0, len(cells), n)
    return cells, p, cells[which], (rng.random(n) < p[which]).astype(float)


@pytest.mark.parametrize(
    ("columns", "n", "kernel"),
    [
        pytest.param(4, 800, 4.0 * RBF(1.5), id="follows the labels"),
        pytest.param(4, 800, 0.3 * RBF(4.0), id="far too smooth"),
        pytest.param(3, 300, 4.0 * RBF(1.5), id="few rows"),
    ],
)
def test_calibration_where_rows_share_inputs(columns, n, kernel):
    """Leaving a row out moves its probability against its own label; the figure is not misled.

    Its standard error is at most that of the share of hits, sqrt(mean p (1 - p) / n): each figure
    lies within three of it of what is true of new rows, and their mean within two of its own.
    """
    off, bound, blind = [], [], []
    for seed in range(12):
        cells, p, X, y = _categories(seed, columns, n)
        machine = mercer.GPClassifier(kernel, inference="laplace", search=None).fit(X, y)
        left, stated = own_left_out(machine, X, y, 2), machine.predict_proba(cells)
        likely = stated.argmax(axis=1)
        # as many new rows as one likes: each cell by what is true of it
        truth = reliability_bins(stated.max(axis=1), np.where(likely == 1, p, 1.0 - p)).error
        off.append(left.calibration - truth)
        bound.append(np.sqrt(np.mean(p * (1.0 - p)) / n))
        blind.append(of_classes(y, left.proba, "leave-one-out").calibration - truth)
        if seed == 1 and n == 800 and kernel.variance > 1.0:
            folds = by_folds(machine, X, y, y, 2, seed=0, folds=2)
            assert abs(folds.calibration - truth) < 0.03  # of half the rows
    assert np.all(np.abs(off) < 3.0 * np.array(bound))
    assert abs(np.mean(off)) < 2.0 * np.sqrt(np.sum(np.square(bound))) / len(off)
    if kernel.variance > 1.0:
        assert np.mean(blind) > 0.04  # what was said before


def test_equal_rows_are_judged_together():
    """By hand: ten equal rows of which six are hits, each predicted by the other nine."""
    hit = np.r_[np.ones(6), np.zeros(4)]
    p = np.where(hit == 1.0, 5 / 9, 6 / 9)
    bins = reliability_bins(p, hit, same=np.zeros(10, dtype=int))
    assert bins.predicted == pytest.approx(bins.observed)
    # the expected square on new rows is the variance of a mean of ten, v / 10 with v = 0.24 * 10/9;
    # of pairs left out it is exact to first order in 1/9
    square, variance = 0.24 / 9.0 * (2 * 10 / 9 - 1.0), 0.24 / 9.0
    mean = np.sqrt(square - variance)
    expected = foldnorm(mean / np.sqrt(variance), scale=np.sqrt(variance)).mean()
    assert bins.error == pytest.approx(expected, rel=1e-12)
    alone = reliability_bins(p, hit, same=np.arange(10))
    assert alone.error == pytest.approx(reliability_bins(p, hit).error)


def test_equal_rows_are_taken_for_one_class():
    proba = np.array([[0.45, 0.55], [0.55, 0.45], [0.56, 0.44]])
    p, right = predicted_class(proba, np.array([0, 1, 1]), same=np.zeros(3, dtype=int))
    np.testing.assert_array_equal(p, proba[:, 0])
    np.testing.assert_array_equal(right, [True, False, False])
