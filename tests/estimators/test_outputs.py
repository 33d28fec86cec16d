"""Several outputs that learn from each other, against dense matrices."""

from __future__ import annotations

import tempfile

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import mercer
from mercer import GPRegressor, MultiOutputGPRegressor
from mercer.kernels import RBF, Coregionalised, White
from mercer.linalg import DenseGram
from mercer.linalg.structured.outputs import OutputsGram, complete
from mercer.search import Optimize

SHORT = Optimize(restarts=0, max_iter=15)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, (40, 1))
    f, g = np.sin(X[:, 0]), np.cos(0.7 * X[:, 0])
    Y = np.column_stack([f, 5.0 - 20.0 * f + 3.0 * g, g])
    return X, Y + rng.normal(size=Y.shape) * [0.1, 1.0, 0.05], Y


def holes(Y):
    Y = Y.copy()
    Y[25:, 0], Y[:12, 2], Y[3] = np.nan, np.nan, np.nan
    return Y


def dense(model, X, Y, new):
    """Mean, variance (q, m), log evidence and left-out mean, by one matrix of all entries."""
    k = model.kernel_
    known = ~np.isnan(Y)
    i, t = np.nonzero(known)
    B, shift = k.covariance, model.units_.y_shift
    K = k.kernel(X[i], X[i].copy()) * B[np.ix_(t, t)] + np.diag(k.noise[t])
    r = (Y - shift)[known]
    C = np.linalg.inv(K)
    mean, variance = np.empty((len(new), len(B))), np.empty((len(new), len(B)))
    for j in range(len(B)):
        cross = k.kernel(new, X[i]) * B[j, t]
        mean[:, j] = shift[j] + cross @ C @ r
        prior = k.kernel.diag(new) * B[j, j] + k.noise[j]
        variance[:, j] = prior - np.einsum("qi,ij,qj->q", cross, C, cross)
    evidence = multivariate_normal(np.zeros(len(r)), K).logpdf(r)
    left = np.full(Y.shape, np.nan)
    left[known] = Y[known] - (C @ r) / np.diagonal(C)
    return mean, variance, evidence, left


@pytest.mark.parametrize("missing", [False, True])
def test_everything_is_that_of_one_dense_matrix(table, missing):
    X, Y, _ = table
    Y = holes(Y) if missing else Y
    model = MultiOutputGPRegressor(rank=1, search=SHORT).fit(X, Y)
    assert model.report_["gram"] == ("dense" if missing else "by output")
    new = np.array([[0.5], [4.2], [12.0]])
    mean, variance, evidence, left = dense(model, X, Y, new)
    found = model.predict(new, return_std=True)
    np.testing.assert_allclose(found[0], mean, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found[1] ** 2, variance, rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(model.predict(new), found[0])
    assert model.log_evidence_ == pytest.approx(evidence, abs=1e-5)
    known = ~np.isnan(Y)
    np.testing.assert_allclose(model.left_out_.mean[known], left[known], rtol=1e-5, atol=1e-5)
    assert np.isfinite(model.left_out_.mean).all()
    z = (Y - left)[known] / np.sqrt(model.left_out_.variance[known])
    density = -0.5 * (z**2 + np.log(2 * np.pi * model.left_out_.variance[known]))
    np.testing.assert_allclose(model.left_out_.log_density[known], density, atol=1e-4)
    assert model.left_out_.total == pytest.approx(density.sum(), abs=1e-3)
    wanted = -0.5 * ((Y[:3] - model.predict(X[:3])) / model.predict(X[:3], True)[1]) ** 2
    wanted -= np.log(np.sqrt(2 * np.pi) * model.predict(X[:3], True)[1])
    np.testing.assert_allclose(model.predictive_log_density(X[:3], Y[:3]), wanted, atol=1e-8)
    with tempfile.TemporaryDirectory() as folder:
        mercer.save(model, f"{folder}/m.mercer")
        loaded = mercer.load(f"{folder}/m.mercer")
    np.testing.assert_array_equal(loaded.predict(new), model.predict(new))
    np.testing.assert_array_equal(loaded.predict(new, True)[1], found[1])
    assert "correlation" in str(loaded.summary())


def test_outputs_by_output_are_the_dense_ones(rng):
    A = rng.normal(size=(3, 2))
    kernel = Coregionalised(1.3 * RBF(0.9), A, np.array([0.3, 0.1, 0.4]), np.array([0.1, 0.2, 0.3]))
    x = rng.normal(size=(8, 2))
    P = np.column_stack([np.repeat(x, 3, axis=0), np.tile(np.arange(3.0), 8)])
    assert complete(P, 3)
    assert not complete(P[1:], 3)
    assert not complete(P[::-1].copy(), 3)
    W, V = np.full(24, np.inf), rng.normal(size=(24, 2))
    fast, slow = OutputsGram(kernel, P, scratch=False), DenseGram(kernel, P, keep=True)
    one, other = fast.factor(W), slow.factor(W)
    np.testing.assert_allclose(one.solve(V), other.solve(V), atol=1e-10)
    np.testing.assert_allclose(one.diag(), other.diag(), atol=1e-10)
    np.testing.assert_allclose(fast @ V, slow @ V, atol=1e-12)
    np.testing.assert_allclose(fast.rows(np.array([2, 7])), slow.rows(np.array([2, 7])), atol=1e-12)
    assert one.logdet_noisy() == pytest.approx(other.logdet_noisy(), abs=1e-10)
    a = other.solve(V[:, :1])
    mine, theirs = fast.pullback(a, one), slow.pullback(a, other)
    assert mine.keys() == theirs.keys()
    for name, slope in theirs.items():
        np.testing.assert_allclose(mine[name], slope, atol=1e-9)
    with pytest.raises(ValueError, match="noise"):
        fast.factor(np.ones(24))


def test_a_missing_output_is_learned_from_the_others(table):
    X, Y, truth = table
    Y = Y.copy()
    Y[X[:, 0] > 5.0, 0] = np.nan
    far = X[:, 0] > 6.0
    model = MultiOutputGPRegressor(search=SHORT).fit(X, Y)
    alone = ~np.isnan(Y[:, 0])
    single = GPRegressor().fit(X[alone], Y[alone, 0])
    error = np.sqrt(np.mean((model.predict(X)[far, 0] - truth[far, 0]) ** 2))
    assert error < 0.25
    assert error < 0.3 * np.sqrt(np.mean((single.predict(X)[far] - truth[far, 0]) ** 2))
    assert model.rank_ >= 1
    assert model.output_correlation_[0, 1] < -0.9
    assert model.report_["rows"]["missing"] == int(np.isnan(Y).sum())
    low, high = model.predict_interval(X)
    assert np.mean((low < truth) & (truth < high)) > 0.85
    assert model.sample_y(X[:4], 3).shape == (4, 3, 3)
    mean, std = model.predict_latent(X[:4])
    np.testing.assert_allclose(mean, model.predict(X[:4]))
    total = np.sqrt(std**2 + model.noise_)
    np.testing.assert_allclose(total, model.predict(X[:4], return_std=True)[1])


def test_unrelated_outputs_share_nothing():
    rng = np.random.default_rng(3)
    X = rng.uniform(0.0, 10.0, (40, 1))
    Y = np.column_stack([np.sin(X[:, 0]), np.cos(2.0 * X[:, 0] + 1.0)]) + 0.2 * rng.normal(
        size=(40, 2)
    )
    model = MultiOutputGPRegressor(search=SHORT).fit(X, Y)
    assert model.rank_ == 0
    assert model.report_["rank"]["tried"][0]["gain"] < model.report_["rank"]["tried"][0]["needed"]


def test_one_output_is_a_gaussian_process(table):
    X, Y, _ = table
    model = MultiOutputGPRegressor().fit(X, Y[:, 0])
    plain = GPRegressor().fit(X, Y[:, 0])
    assert model.predict(X).shape == (40,)
    assert model.log_evidence_ == pytest.approx(plain.log_evidence_, abs=1e-3)
    np.testing.assert_allclose(model.predict(X), plain.predict(X), atol=1e-3)
    np.testing.assert_allclose(model.left_out_.total, plain.left_out_.total, atol=0.3)


def test_bad_input_is_refused(table):
    X, Y, _ = table
    nothing = Y.copy()
    nothing[1:, 2] = np.nan
    with pytest.raises(ValueError, match="output 2 of y has 1"):
        MultiOutputGPRegressor().fit(X, nothing)
    with pytest.raises(ValueError, match="from 0 to 2"):
        MultiOutputGPRegressor(rank=3).fit(X, Y)
    with pytest.raises(ValueError, match="noise parts"):
        MultiOutputGPRegressor(RBF() + White()).fit(X, Y)
    with pytest.raises(ValueError, match="NaN"):
        MultiOutputGPRegressor().fit(X, np.where(X > 5.0, np.nan, X))
    with pytest.raises(ValueError, match="outputs"):
        MultiOutputGPRegressor(search=None).fit(X, Y).predictive_log_density(X, Y[:, :2])
