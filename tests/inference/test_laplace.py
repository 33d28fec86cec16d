"""Laplace: evidence and gradient against dense algebra and differences, and where it ends."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from mercer import losses
from mercer.inference import Exact, Laplace, by_name
from mercer.inference.sites import laplace as laplace_mode
from mercer.inference.sites.base import Sites, Task
from mercer.kernels import RBF, White
from mercer.linalg import DenseGram
from mercer.losses import Loss
from mercer.search import EvidenceCriterion, Space, simple_problem
from mercer.testing import check_component
from tests.reference import laplace as reference
from tests.reference.gp import slope

SMOOTH = [
    losses.Logistic(),
    losses.Probit(),
    losses.LaplaceProbit(C=2.0),
    losses.LogisticNoise(scale=0.4),
    losses.StudentThreshold(scale=0.6, df=3.0),
    losses.Flip(eps=0.05, base=losses.Logistic()),
    losses.Poisson(),
    losses.NegativeBinomial(size=2.0),
    losses.Gamma(shape=2.0),
    losses.Ordinal(cutpoints=[-1.0, 0.5]),
    losses.Ordinal(cutpoints=[-1.0, 0.5], link="probit"),
    losses.Huber(noise=0.3, delta=0.8),
    losses.StudentT(scale=0.4, df=3.0),
    losses.Gaussian(noise=0.4),
]


class Censored(Loss):
    """A loss of one's own: only its value, derivatives by differences."""

    normalised = True  # of no consequence here

    def value(self, y, f):
        return np.logaddexp(np.asarray(y) - f, f - np.asarray(y)) + np.log(np.pi / 2)


def data(loss, n=25, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = loss.example_targets(rng, n)
    if loss.response == "real":
        y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.standard_t(3, size=n)
    return X, y[:, None], rng.uniform(0.3, 2.5, n), rng.normal(size=(n, 1))


def criterion(loss, X, y, kernel, inference=None):
    space = Space({"kernel": kernel, "loss": loss})
    make = partial(DenseGram, keep=True)
    return space, EvidenceCriterion(space, simple_problem(X, y), inference or Laplace(), make)


# ---------------------------------------------------------------------- value and gradient
@pytest.mark.parametrize("loss", [*SMOOTH, Censored()], ids=repr)
def test_against_dense_algebra(loss):
    X, y, w, mean = data(loss)
    kernel = 2.0 * RBF(0.9) + White(0.05)
    gram = DenseGram(kernel, X, keep=True)
    found = Laplace().solve(gram, y, loss, mean=mean, weights=w)
    evidence = Laplace().evidence(gram, y, loss, found)
    K = gram.matrix
    value, f, Sigma = reference.evidence(K, loss, y[:, 0], found.z[:, 0], w, mean[:, 0])
    assert found.report.converged
    assert evidence.value == pytest.approx(value, abs=1e-8)
    np.testing.assert_allclose(found.z[:, 0], f, atol=1e-8)
    np.testing.assert_allclose(found.factor.cov_diag(), np.diagonal(Sigma), atol=1e-8)
    np.testing.assert_allclose(mean + K @ found.alpha, found.z, atol=1e-10)
    d1, d2, _ = loss.derivatives(y[:, 0], found.z[:, 0])
    np.testing.assert_allclose(found.alpha[:, 0], -w * d1, atol=1e-9)
    np.testing.assert_allclose(found.W, w * d2, atol=1e-8)


@pytest.mark.parametrize("variance", [3.3, 50.0])
@pytest.mark.parametrize("loss", [*SMOOTH, Censored()], ids=repr)
def test_gradient(loss, variance):
    X, y, _, _ = data(loss, seed=1)
    space, function = criterion(loss, X, y, variance * RBF(np.array([0.9, 1.3])))
    _, gradient = function(space.start)
    step = 1e-4 if loss.kinks(y).size else 2e-3  # W may jump between the points of a difference
    numeric = slope(lambda u: function(u)[0], space.start, step)
    np.testing.assert_allclose(gradient, numeric, atol=2e-5)


def test_the_extra_term_is_added_whole():
    """The pullback takes it by blocks of rows; n is not a multiple of their number."""
    rng = np.random.default_rng(0)
    X, a, U, V = rng.normal(size=(300, 1)), *rng.normal(size=(3, 300, 2))
    gram = DenseGram(2.0 * RBF(), X, keep=True)
    factor = gram.factor(np.ones(300))
    Q = factor.gradient_weights(a, 2.0) + 0.5 * (U @ V.T + V @ U.T)
    found, expected = gram.pullback(a, factor, U, V), gram.contract(Q)
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-10)


def test_gradient_needs_its_implicit_part():
    loss = losses.Logistic()
    X, y, _, _ = data(loss)
    gram = DenseGram(50.0 * RBF(), X, keep=True)
    found = Laplace().solve(gram, y, loss)
    evidence = Laplace().evidence(gram, y, loss, found)
    whole = gram.pullback(found.alpha, found.factor, evidence.U, evidence.V)
    part = gram.pullback(found.alpha, found.factor)
    assert max(abs(whole[name] - part[name]) for name in whole) > 1e-3


@pytest.mark.parametrize("loss", SMOOTH[:-1], ids=repr)
def test_gradient_with_weights_and_prior_mean(loss):
    X, y, w, mean = data(loss, seed=2)

    def evaluate(log_variance):
        gram = DenseGram(np.exp(log_variance) * RBF(), X, keep=True)
        found = Laplace().solve(gram, y, loss, mean=mean, weights=w)
        return gram, found, Laplace().evidence(gram, y, loss, found)

    h = 1e-3
    values = [evaluate(1.0 + k * h)[2].value for k in (-2, -1, 1, 2)]
    numeric = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h)
    gram, found, evidence = evaluate(1.0)
    # K is proportional to the variance: dE/d log variance = <dE/dK, K>
    Q = found.factor.gradient_weights(found.alpha, 1.0) + evidence.U @ evidence.V.T
    assert np.vdot(Q, gram.matrix) == pytest.approx(numeric, abs=2e-6)


def test_gaussian_loss_is_exact(rng):
    X, y, mean = rng.normal(size=(20, 2)), rng.normal(size=(20, 3)), rng.normal(size=(20, 3))
    w = rng.uniform(0.5, 2.0, 20)
    gram, loss = DenseGram(2.0 * RBF(), X, keep=True), losses.Gaussian(noise=0.3)
    exact = Exact().solve(gram, y, loss, weights=w, mean=mean)
    found = Laplace().solve(gram, y, loss, weights=w, mean=mean)
    np.testing.assert_allclose(found.alpha, exact.alpha, atol=1e-10)
    one, two = Exact().evidence(gram, y, loss, exact), Laplace().evidence(gram, y, loss, found)
    assert two.value == pytest.approx(one.value, abs=1e-8)
    assert two.loss_gradient["noise"] == pytest.approx(one.loss_gradient["noise"], abs=1e-8)
    np.testing.assert_allclose(
        gram.pullback(found.alpha, found.factor, two.U, two.V)["variance"],
        gram.pullback(exact.alpha, exact.factor)["variance"],
        atol=1e-8,
    )
    assert [c.details["factorisations"] for c in found.report.columns] == [1, 1, 1]


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
def test_weight_two_is_two_rows(loss):
    X, y, _, _ = data(loss, n=12)
    w = np.array([2.0, 3.0] + [1.0] * 10)
    many = np.repeat(np.arange(12), w.astype(int))
    short, long = DenseGram(3.0 * RBF(), X, keep=True), DenseGram(3.0 * RBF(), X[many], keep=True)
    one = Laplace().solve(short, y, loss, weights=w)
    two = Laplace().solve(long, y[many], loss)
    np.testing.assert_allclose(one.z[many], two.z, atol=1e-9)
    np.testing.assert_allclose(one.factor.cov_diag()[many], two.factor.cov_diag(), atol=1e-9)
    first = Laplace().evidence(short, y, loss, one)
    second = Laplace().evidence(long, y[many], loss, two)
    assert first.value == pytest.approx(second.value, abs=1e-9)
    for name, value in first.loss_gradient.items():
        np.testing.assert_allclose(value, second.loss_gradient[name], atol=1e-8)


# ---------------------------------------------------------------------- the way to the mode
@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
def test_large_variance(loss):
    X, y, _, _ = data(loss, n=60)
    gram = DenseGram(1000.0 * RBF(0.7), X, keep=True)
    found = Laplace().solve(gram, y, loss)
    assert found.report.converged
    assert np.isfinite(Laplace().evidence(gram, y, loss, found).value)
    d1 = loss.derivatives(y[:, 0], found.z[:, 0])[0]
    np.testing.assert_allclose(found.alpha[:, 0], -d1, atol=1e-8 * (1.0 + np.abs(d1).max()))
    assert np.all(found.factor.cov_diag() > 0.0)


@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Probit()], ids=repr)
def test_separable_data(loss):
    X = np.linspace(-2, 2, 40)[:, None]
    y = np.where(X > 0.03, 1.0, -1.0)
    for variance in (1.0, 1e3, 1e6):
        gram = DenseGram(variance * RBF(3.0), X, keep=True)
        found = Laplace().solve(gram, y, loss)
        evidence = Laplace().evidence(gram, y, loss, found)
        assert found.report.converged
        assert np.isfinite(evidence.value)
        assert evidence.value < 0.0
        gradient = gram.pullback(found.alpha, found.factor, evidence.U, evidence.V)
        assert np.isfinite(gradient["variance"])


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
def test_a_start_nearby_saves_factorisations(loss):
    X, y, _, mean = data(loss, n=40)
    old = Laplace().solve(DenseGram(20.0 * RBF(0.9), X, keep=True), y, loss, mean=mean)
    gram = DenseGram(22.0 * RBF(0.85), X, keep=True)
    cold = Laplace().solve(gram, y, loss, mean=mean)
    warm = Laplace().solve(gram, y, loss, mean=mean, start=old)
    assert warm.report.converged
    assert warm.report.details["factorisations"] <= (4 if loss.convex else 6)
    np.testing.assert_allclose(warm.z, cold.z, atol=1e-8)
    again = Laplace().solve(gram, y, loss, mean=mean, start=warm)
    assert again.report.details["factorisations"] <= 2  # one, and one more if rounding moved W


def test_a_useless_start_does_no_harm():
    loss = losses.Poisson()
    X, y, _, _ = data(loss)
    gram = DenseGram(2.0 * RBF(), X, keep=True)
    task = Task(gram, y[:, 0], loss, np.ones(25), np.zeros(25))
    cold = Laplace().sites(task, None)
    for a, W, f in ((1e4, 1.0, 1e4), (0.0, -5.0, 0.0), (1.0, 0.0, 800.0)):
        start = Sites(*(np.full(25, v) for v in (a, W, f)), cold.factor, {})
        found = Laplace().sites(task, start)
        assert found.report.converged
        np.testing.assert_allclose(found.f, cold.f, atol=1e-9)


def test_a_search_needs_few_factorisations():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(80, 3))
    y = np.where(np.sin(2 * X[:, :1]) + 0.4 * rng.normal(size=(80, 1)) > 0, 1.0, -1.0)
    space, function = criterion(losses.Logistic(), X, y, 1.0 * RBF(np.ones(3)))
    u, found, counts = space.start, None, []
    for _ in range(30):  # gradient ascent, as slow as can be
        _, gradient, found = function.evaluate(u, found)
        u = u + 0.05 * gradient
        counts.append(found.report.details["factorisations"])
    assert np.median(counts) <= 3
    assert max(counts) <= 5


def test_an_iteration_limit_reports():
    loss = losses.Logistic()
    X, y, _, _ = data(loss)
    gram = DenseGram(1e4 * RBF(0.5), X, keep=True)
    inference = Laplace(max_iter=1)
    found = inference.solve(gram, y, loss)
    assert not found.report.converged
    assert "raise max_iter" in found.report.message
    assert np.isfinite(inference.evidence(gram, y, loss, found).value)


def test_a_saddle_is_left(monkeypatch):
    """Two groups of targets far apart on the same point: half way between there is no maximum."""
    left = []
    leave = laplace_mode._leave
    monkeypatch.setattr(laplace_mode, "_leave", lambda *args: left.append(1) or leave(*args))
    loss = losses.StudentT(scale=0.1, df=2.0)
    X = np.repeat([[0.0], [0.3], [5.0]], 2, axis=0)
    y = np.array([[3.0], [-3.0]] * 3)
    gram = DenseGram(4.0 * RBF(), X, keep=True)
    found = Laplace().solve(gram, y, loss)
    assert found.report.converged
    assert left
    value = -loss.value(y[:, 0], found.z[:, 0]).sum() - 0.5 * np.vdot(found.alpha, found.z)
    assert value > -loss.value(y[:, 0], np.zeros(6)).sum() + 1.0
    assert np.all(found.factor.cov_diag() > 0.0)
    assert np.abs(found.z).max() > 2.0
    assert np.any(found.W < 0.0)
    precision = np.linalg.inv(gram.matrix + 1e-9 * np.eye(6)) + np.diag(found.W)
    assert np.linalg.eigvalsh(precision)[0] > 0.0


def test_no_maximum_within_reach_is_reported():
    """One step only, into a region where the posterior is not concave."""
    loss = losses.StudentT(scale=0.1, df=2.0)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 1)), 3.0 * rng.standard_t(1.5, size=(30, 1))
    gram = DenseGram(4.0 * RBF(), X, keep=True)
    found = Laplace().set_params(max_iter=0).solve(gram, y, loss)
    assert not found.report.converged
    assert found.report.message
    assert np.all(np.isfinite(found.factor.cov_diag()))
    assert np.isfinite(Laplace().evidence(gram, y, loss, found).value)


@pytest.mark.parametrize("loss", [losses.Logistic(), losses.StudentT(scale=0.3)], ids=repr)
def test_memory(loss):
    import tracemalloc

    n = 400
    X, y, _, _ = data(loss, n=n)
    gram = DenseGram(2.0 * RBF(), X, keep=True)
    tracemalloc.start()
    found = Laplace().solve(gram, y, loss)
    evidence = Laplace().evidence(gram, y, loss, found)
    gram.pullback(found.alpha, found.factor, evidence.U, evidence.V)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5.0 * 8 * n**2


# ---------------------------------------------------------------------- what is refused
def test_losses_that_are_refused():
    for loss in (losses.NormalizedHinge(), losses.LaplaceNoise(), losses.Flip(eps=0.1)):
        with pytest.raises(ValueError, match=r"twice differentiable.*jumps.*EP or Variational"):
            Laplace().check(loss)
    for loss in (losses.Hinge(), losses.Exponential()):
        with pytest.raises(ValueError, match="not a likelihood"):
            Laplace().check(loss)
    for loss in (*SMOOTH, losses.Softmax()):
        Laplace().check(loss)


def test_by_name():
    assert type(by_name("laplace")) is Laplace
    check_component(Laplace(tol=1e-8, max_iter=7))
