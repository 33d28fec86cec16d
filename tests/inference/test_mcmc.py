"""Draws of latent values against sums over grids, closed forms and the estimators that use them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from mercer import GPClassifier, GPRegressor, KernelClassifier, KernelRegressor, load, save
from mercer.inference import MCMC, Exact
from mercer.inference.base import Task
from mercer.kernels import RBF
from mercer.linalg import DenseGram
from mercer.losses import Gaussian, Hinge, LaplaceNoise, Logistic, Pinball, Poisson, Softmax
from mercer.process import Prior
from mercer.sampling.mixing import mean_error
from tests.reference.latents import brute, brute_classes

KERNEL = 2.0 * RBF(1.0)
TWO = np.array([[0.0], [0.7]])
CASES = {
    "logistic": (Logistic(), np.array([1.0, -1.0]), "hmc"),
    "logistic-slice": (Logistic(), np.array([1.0, -1.0]), "slice"),
    "poisson": (Poisson(), np.array([3.0, 1.0]), "hmc"),
    "hinge": (Hinge(2.0), np.array([1.0, -1.0]), "slice"),
    "hinge-hmc": (Hinge(2.0), np.array([1.0, -1.0]), "hmc"),
    "pinball": (Pinball(0.8, 0.3), np.array([1.0, 0.2]), "slice"),
}


def task_of(X, y, loss, w=None, mean=None, kernel=KERNEL):
    n = len(X)
    w = np.ones(n) if w is None else w
    shift = np.zeros(n) if mean is None else mean
    return Task(DenseGram(kernel, X, keep=True), y, loss, w, shift)


def moments(draws):
    """Mean and variance of each latent value with their errors."""
    series = draws.averages
    return [tuple(a[:, 0] for a in mean_error(s)) for s in (series.mean, series.variance)]


@pytest.mark.parametrize("case", CASES)
def test_two_latent_values_are_those_of_a_grid(case):
    loss, y, sampler = CASES[case]
    w, shift = np.array([1.0, 2.0]), np.array([0.3, -0.2])
    method = MCMC(sampler=sampler, samples=60 if sampler == "slice" else 150, warmup=30)
    draws = method.draw(task_of(TWO, y, loss, w, shift))
    _, m, S = brute(KERNEL(TWO), y, loss, w, shift)
    (mean, mean_err), (var, var_err) = moments(draws)
    assert np.all(np.abs(mean - m) < 4.0 * mean_err + 2e-3)
    assert np.all(np.abs(var - np.diag(S)) < 4.0 * var_err + 4e-3)
    raw, err = mean_error(draws.f[..., 0])  # and without what is known to average to zero
    assert np.all(np.abs(raw - m) < 4.0 * err + 2e-3)
    assert draws.report["rhat"] < 1.1


@pytest.mark.parametrize("case", ["logistic", "poisson"])
def test_evidence_is_that_of_a_grid(case):
    loss, y, _ = CASES[case]
    gram = DenseGram(KERNEL, TWO, keep=True)
    value = brute(KERNEL(TWO), y, loss)[0]
    for by in ("bridge", "annealed"):
        found = MCMC(samples=100, warmup=40, by=by).solve(gram, y[:, None], loss)
        error = found.report.details["log_evidence_error"]
        assert abs(MCMC().evidence(gram, y[:, None], loss, found).value - value) < 4.0 * error
        assert error < 0.15


@pytest.mark.slow
def test_three_latent_values():
    X, y = np.array([[0.0], [0.5], [1.6]]), np.array([1.0, 1.0, -1.0])
    draws = MCMC(samples=200, warmup=50).draw(task_of(X, y, Logistic()))
    value, m, S = brute(KERNEL(X), y, Logistic())
    (mean, mean_err), (var, var_err) = moments(draws)
    assert np.all(np.abs(mean - m) < 4.0 * mean_err)
    assert np.all(np.abs(var - np.diag(S)) < 4.0 * var_err)
    found, error = draws.bridged(np.random.default_rng(0))
    assert abs(found - value) < 4.0 * error < 0.1


def test_classes_have_several_latent_values():
    y = np.array([0.0, 1.0])
    gram = DenseGram(KERNEL, TWO, keep=True)
    task = Task(gram, y[:, None], Softmax(), np.ones(2), np.zeros((2, 2)))
    value, m = brute_classes(KERNEL(TWO), y, Softmax(), 2)
    draws = MCMC(samples=80, warmup=30).draw(task)
    mean, error = mean_error(draws.averages.mean)
    assert np.all(np.abs(mean - m) < 4.0 * error + 1e-3)
    found, error = draws.bridged(np.random.default_rng(0))
    assert abs(found - value) < 4.0 * error + 1e-3


def test_gaussian_noise_is_exact():
    X = np.linspace(0.0, 3.0, 12)[:, None]
    y = np.sin(2.0 * X)
    gram, loss = DenseGram(KERNEL, X, keep=True), Gaussian(0.2)
    exact = Exact().solve(gram, y, loss)
    found = MCMC(samples=60, warmup=40).solve(gram, y, loss)
    # averages have no error where the guess is the posterior
    assert np.allclose(gram @ found.alpha, gram @ exact.alpha, atol=1e-6)
    assert np.allclose(found.factor.cov_diag(), exact.factor.cov_diag(), rtol=1e-6)
    value = Exact().evidence(gram, y, loss, exact).value
    assert abs(MCMC().evidence(gram, y, loss, found).value - value) < 1e-6
    # the draws themselves have one
    f = found.factor.f[:, :, 0]
    error = np.sqrt(exact.factor.cov_diag() / len(f))
    assert np.all(np.abs(f.mean(axis=0) - (gram @ exact.alpha)[:, 0]) < 5.0 * error)
    assert np.all(np.abs(f.var(axis=0) / exact.factor.cov_diag() - 1.0) < 0.5)


def test_the_posterior_is_the_mixture_of_its_members():
    X = np.linspace(0.0, 2.0, 6)[:, None]
    y = np.array([1.0, 1.0, -1.0, 1.0, -1.0, -1.0])[:, None]
    gram, new = DenseGram(KERNEL, X, keep=True), np.array([[0.1], [1.0], [5.0]])
    solution = MCMC(samples=20, warmup=10, keep=16).solve(gram, y, Logistic())
    whole = Prior(KERNEL).condition(X, solution)
    members = whole.members()
    assert len(members) == 16
    means = np.array([p.mean(new)[:, 0] for p in members])
    given = members[0].cov(new)
    assert np.allclose(members[5].cov(new), given)
    apart = means - means.mean(axis=0)
    assert np.allclose(whole.cov(new), given + apart.T @ apart / 16)
    assert np.allclose(whole.diag(new), np.diag(whole.cov(new)))
    # a member knows the latent values: they are those of its draw
    at_rows = np.array([p.mean(X)[:, 0] for p in members])
    assert np.all(
        [np.abs(solution.factor.f[:, :, 0] - f).max(axis=1).min() < 1e-8 for f in at_rows]
    )
    assert members[0].var(X).max() < 1e-6


def test_predictions_are_those_of_a_grid(tmp_path):
    y, new = np.array([1.0, -1.0]), np.array([[0.3], [2.0]])
    both = np.vstack([TWO, new[:1]])
    joint = KERNEL(both)
    value = brute(KERNEL(TWO), y, Logistic())[0]
    p = np.exp(brute(joint, np.append(y, 1.0), Logistic())[0] - value)
    method = MCMC(samples=100, warmup=40, keep=100)
    model = GPClassifier(KERNEL, loss="logistic", inference=method, search=None)
    model.fit(TWO, np.array(["b", "a"]))
    assert len(model.posteriors_) == 100
    assert abs(model.predict_proba(new)[0, 1] - p) < 0.03
    save(model, tmp_path / "m.mercer")
    again = load(tmp_path / "m.mercer")
    assert np.array_equal(again.predict_proba(new), model.predict_proba(new))
    assert np.array_equal(
        pickle.loads(pickle.dumps(again)).predict_proba(new), model.predict_proba(new)
    )
    assert again.posteriors_[7].operator.of is again.posteriors_[0].operator


def test_rows_left_out_are_those_of_a_grid():
    X, y = np.array([[0.0], [0.5], [1.6]]), np.array([1.0, 1.0, -1.0])
    method = MCMC(samples=100, warmup=40)
    model = GPClassifier(KERNEL, loss="logistic", inference=method, search=None).fit(X, y)
    K, whole = KERNEL(X), brute(KERNEL(X), y, Logistic())[0]
    wanted = []
    for i in range(3):
        rest = np.delete(np.arange(3), i)
        wanted.append(whole - brute(K[np.ix_(rest, rest)], y[rest], Logistic())[0])
    found = np.log(model.left_out_.proba[np.arange(3), model.left_out_.codes.astype(int)])
    assert np.all(np.abs(found - wanted) < 0.1)
    assert model.report_["inference"]["left_out_worth"] > 50


def test_several_outputs_are_drawn_one_by_one(tmp_path):
    X = np.linspace(0.0, 3.0, 8)[:, None]
    Y = np.column_stack([np.sin(2.0 * X[:, 0]), np.cos(X[:, 0])])
    method = MCMC(samples=60, warmup=40, keep=100)
    model = GPRegressor(KERNEL, loss=Gaussian(0.1), inference=method, search=None).fit(X, Y)
    exact = GPRegressor(KERNEL, loss=Gaussian(0.1), search=None).fit(X, Y)
    new = np.array([[0.2], [1.7], [4.0]])
    mean, std = exact.predict(new, return_std=True)
    drawn, spread = model.predict(new, return_std=True)
    assert np.all(np.abs(drawn - mean) < 4.0 * std / np.sqrt(100))
    assert np.allclose(spread, std, rtol=0.2)
    assert np.allclose(model.left_out_.mean, exact.left_out_.mean, atol=0.15)
    assert model.log_evidence_ == pytest.approx(exact.log_evidence_, abs=1e-6)
    assert model.sample_y(X, 3, random_state=0).shape == (8, 2, 3)
    save(model, tmp_path / "m.mercer")
    assert np.array_equal(load(tmp_path / "m.mercer").predict(X), model.predict(X))
    means = np.array([p.mean(new) for p in model.posteriors_])
    assert abs(np.corrcoef(means[:, 2, 0], means[:, 2, 1])[0, 1]) < 0.3


def test_counts(tmp_path):
    X, y = np.linspace(0.0, 3.0, 8)[:, None], np.array([2.0, 3, 5, 4, 2, 1, 0, 1])
    method = MCMC(samples=100, warmup=40, keep=40)
    model = GPRegressor(KERNEL, loss="poisson", inference=method, search=None).fit(X, y)
    low, high = model.predict_interval(X, 0.9)
    assert np.mean((y >= low) & (high >= y)) > 0.8
    assert np.isfinite(model.predictive_log_density(X, y)).all()
    assert "R-hat" in str(model.summary())


def test_a_search_runs_on_the_approximation_and_its_result_is_drawn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(15, 1))
    y = np.where(X[:, 0] + 0.4 * rng.normal(size=15) > 0.0, 1, 0)
    method = MCMC(samples=100, warmup=40, keep=20)
    drawn = GPClassifier(1.0 * RBF(), loss="logistic", inference=method).fit(X, y)
    ep = GPClassifier(1.0 * RBF(), loss="logistic", inference="ep").fit(X, y)
    assert drawn.kernel_.variance == pytest.approx(ep.kernel_.variance, rel=1e-3)
    assert drawn.report_["search"]["inference"] == "EP"
    error = drawn.report_["inference"]["log_evidence_error"]
    assert abs(drawn.log_evidence_ - ep.log_evidence_) < 0.3 + 4.0 * error


def test_a_loss_that_is_no_likelihood_has_draws_and_no_evidence():
    X, y = np.linspace(0.0, 3.0, 8)[:, None], np.array([0, 0, 1, 0, 1, 1, 1, 1])
    method = MCMC(samples=30, warmup=20, keep=20)
    model = KernelClassifier(KERNEL, loss="hinge", inference=method, basis=None).fit(X, y)
    assert model.log_evidence_ is None
    assert model.predict([[3.0]])[0] == 1


def test_an_interrupt_keeps_what_was_drawn():
    told = []

    def stop(event):
        told.append(event)
        if event["done"] >= 30:
            raise KeyboardInterrupt

    y = np.array([1.0, -1.0])
    for sampler in ("hmc", "slice"):
        method = MCMC(sampler, samples=5000, warmup=5, chains=1, progress=stop)
        draws = method.draw(task_of(TWO, y, LaplaceNoise(0.5)))
        assert draws.report["interrupted"]
        assert 10 < draws.report["draws"] < 5000
        assert "interrupted" in draws.complaint()
    assert told[0].keys() == {"stage", "done", "total"}


def test_bad_settings_are_refused():
    for bad in ({"sampler": "gibbs"}, {"chains": 0}, {"samples": 1}, {"target": 1.0}, {"by": "x"}):
        with pytest.raises(ValueError, match=r"MCMC|sampler|target|evidence"):
            MCMC(**bad)
    gram = DenseGram(KERNEL, TWO, keep=True)
    with pytest.raises(ValueError, match=r"kernel \+ Constant"):
        MCMC().solve(gram, np.ones((2, 1)), Logistic(), basis=np.ones((2, 1)))
    with pytest.raises(ValueError, match="not a likelihood"):
        KernelRegressor(KERNEL, loss="hinge", inference="mcmc").fit(TWO, [-1.0, 1.0])


def test_moments_of_the_posterior_are_the_gradient_of_its_evidence():
    """Theory (T2): dE/dK = (a a' - C) / 2 with C = K^-1 - cov(alpha), no further term."""
    y, loss, K = np.array([1.0, -1.0]), Logistic(), KERNEL(TWO)
    _, m, S = brute(K, y, loss)
    inverse = np.linalg.inv(K)
    a, C = inverse @ m, inverse - inverse @ S @ inverse
    wanted, step = 0.5 * (np.outer(a, a) - C), 1e-4
    for i, j in ((0, 0), (0, 1)):
        move = np.zeros((2, 2))
        move[i, j] = move[j, i] = step
        ahead, back = (brute(K + sign * move, y, loss)[0] for sign in (1.0, -1.0))
        slope = (wanted[i, j] + (wanted[j, i] if i != j else 0.0)) * 2.0 * step
        assert ahead - back == pytest.approx(slope, rel=1e-3)
