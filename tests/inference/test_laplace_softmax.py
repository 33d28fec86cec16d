"""Laplace for several classes: one joint posterior, against dense algebra of all functions."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from mercer.inference import Laplace, Newton
from mercer.kernels import RBF, White
from mercer.linalg import DenseGram
from mercer.linalg.dense.coupled import coupled
from mercer.losses import Logistic, Softmax
from mercer.search import EvidenceCriterion, Space, simple_problem
from mercer.testing import check_inference
from tests.reference.gp import slope
from tests.reference.laplace import softmax_evidence

LOSS = Softmax()


def data(n=12, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(n, 2)), rng.uniform(0.3, 2.5, n)
    y = (np.arange(n) % classes).astype(float)[:, None]
    return X, y, w, 0.5 * rng.normal(size=(n, classes))


def test_against_dense_algebra():
    X, y, w, mean = data()
    gram = DenseGram(2.0 * RBF(0.9) + White(0.05), X, keep=True)
    found = Laplace().solve(gram, y, LOSS, mean=mean, weights=w)
    value, f, Sigma = softmax_evidence(gram.matrix, y[:, 0], w, mean, 3)
    assert found.report.converged
    assert Laplace().evidence(gram, y, LOSS, found).value == pytest.approx(value, abs=1e-9)
    np.testing.assert_allclose(found.z, f, atol=1e-9)
    blocks = found.factor.point_blocks(gram)
    for i in range(12):
        np.testing.assert_allclose(blocks[i], Sigma.reshape(3, 12, 3, 12)[:, i, :, i], atol=1e-9)


@pytest.mark.parametrize("variance", [3.3, 50.0])
def test_gradient(variance):
    X, y, _, _ = data()
    space = Space({"kernel": variance * RBF(np.array([0.9, 1.3])), "loss": LOSS})
    make = partial(DenseGram, keep=True)
    function = EvidenceCriterion(space, simple_problem(X, y), Laplace(), make)
    _, gradient = function(space.start)
    numeric = slope(lambda u: function(u)[0], space.start)
    np.testing.assert_allclose(gradient, numeric, atol=1e-7)
    check_inference(Laplace(), LOSS, X, y, variance * RBF())


def test_gradient_with_weights_and_prior_mean():
    X, y, w, mean = data(seed=3)

    def evaluate(log_variance):
        gram = DenseGram(np.exp(log_variance) * RBF(), X, keep=True)
        found = Laplace().solve(gram, y, LOSS, mean=mean, weights=w)
        return gram, found, Laplace().evidence(gram, y, LOSS, found)

    numeric = slope(lambda u: evaluate(u[0])[2].value, np.array([1.0]))[0]
    gram, found, evidence = evaluate(1.0)
    Q = found.factor.gradient_weights(found.alpha, 3.0) + evidence.U @ evidence.V.T
    assert np.vdot(Q, gram.matrix) == pytest.approx(numeric, abs=1e-7)


def test_two_classes_are_logistic_with_twice_the_kernel():
    X, y, w, mean = data(n=20, classes=2)
    gram, double = DenseGram(3.0 * RBF(), X, keep=True), DenseGram(6.0 * RBF(), X, keep=True)
    two = Laplace().solve(gram, y, LOSS, mean=mean, weights=w)
    shift = (mean[:, 1] - mean[:, 0])[:, None]
    one = Laplace().solve(double, 2.0 * y - 1.0, Logistic(), mean=shift, weights=w)
    np.testing.assert_allclose(two.z[:, 1] - two.z[:, 0], one.z[:, 0], atol=1e-9)
    S = two.factor.point_blocks(gram)
    variance = S[:, 0, 0] + S[:, 1, 1] - 2.0 * S[:, 0, 1]
    np.testing.assert_allclose(variance, one.factor.cov_diag(), atol=1e-9)
    first = Laplace().evidence(gram, y, LOSS, two)
    second = Laplace().evidence(double, 2.0 * y - 1.0, Logistic(), one)
    assert first.value == pytest.approx(second.value, abs=1e-9)
    a = gram.pullback(two.alpha, two.factor, first.U, first.V)["kernel__length_scale"]
    b = double.pullback(one.alpha, one.factor, second.U, second.V)["kernel__length_scale"]
    assert a == pytest.approx(b, abs=1e-9)


def test_weight_two_is_two_rows():
    X, y, _, _ = data()
    w = np.array([2.0, 3.0] + [1.0] * 10)
    many = np.repeat(np.arange(12), w.astype(int))
    short, long = DenseGram(3.0 * RBF(), X, keep=True), DenseGram(3.0 * RBF(), X[many], keep=True)
    one = Laplace().solve(short, y, LOSS, weights=w)
    two = Laplace().solve(long, y[many], LOSS)
    np.testing.assert_allclose(one.z[many], two.z, atol=1e-9)
    first = Laplace().evidence(short, y, LOSS, one).value
    assert first == pytest.approx(Laplace().evidence(long, y[many], LOSS, two).value, abs=1e-9)


def test_the_mode_is_newtons():
    X, y, w, _ = data(n=40, classes=4)
    gram = DenseGram(8.0 * RBF(0.8), X, keep=True)
    found = Laplace().solve(gram, y, LOSS, weights=w)
    np.testing.assert_allclose(found.z, Newton().solve(gram, y, LOSS, weights=w).z, atol=1e-6)
    np.testing.assert_allclose(found.W.sum(axis=1), w, atol=1e-12)


@pytest.mark.parametrize("variance", [1e3, 1e5])
def test_large_variance_and_separable_classes(variance):
    X = np.linspace(-3, 3, 30)[:, None]
    for y in (np.digitize(X, [-1.0, 1.0]).astype(float), data(n=30)[1]):
        gram = DenseGram(variance * RBF(0.7), X, keep=True)
        found = Laplace().solve(gram, y, LOSS)
        evidence = Laplace().evidence(gram, y, LOSS, found)
        assert found.report.converged
        assert np.isfinite(evidence.value)
        assert evidence.value < 0.0
        assert np.all(np.linalg.eigvalsh(found.factor.point_blocks(gram)) > 0.0)


def test_a_start_nearby_saves_factorisations():
    X, y, _, mean = data(n=40)
    old = Laplace().solve(DenseGram(20.0 * RBF(0.9), X, keep=True), y, LOSS, mean=mean)
    gram = DenseGram(22.0 * RBF(0.85), X, keep=True)
    cold = Laplace().solve(gram, y, LOSS, mean=mean)
    warm = Laplace().solve(gram, y, LOSS, mean=mean, start=old)
    np.testing.assert_allclose(warm.z, cold.z, atol=1e-8)
    assert warm.report.details["factorisations"] < cold.report.details["factorisations"]
    assert warm.report.details["factorisations"] <= 3 * 4  # three rounds of c + 1
    again = Laplace().solve(gram, y, LOSS, mean=mean, start=warm)
    assert again.report.details["factorisations"] == 4


def test_a_start_with_other_classes_is_passed_over():
    X, y, _, _ = data(n=40)
    gram = DenseGram(3.0 * RBF(), X, keep=True)
    cold = Laplace().solve(gram, y, LOSS)
    other = Laplace().solve(gram, np.minimum(y, 1.0), LOSS)
    np.testing.assert_allclose(Laplace().solve(gram, y, LOSS, start=other).z, cold.z, atol=1e-10)


def test_an_iteration_limit_reports():
    X, y, _, _ = data(n=30)
    gram = DenseGram(1e4 * RBF(0.3), X, keep=True)
    found = Laplace(max_iter=1).solve(gram, y, LOSS)
    assert not found.report.converged
    assert "raise max_iter" in found.report.message
    assert np.isfinite(Laplace().evidence(gram, y, LOSS, found).value)


def test_memory_of_evidence_and_gradient():
    """K, a factor (its inverse in the other triangle) for each class, their sum, narrow rest."""
    import tracemalloc

    n, classes = 500, 3
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = rng.integers(classes, size=(n, 1)).astype(float)
    space = Space({"kernel": 2.0 * RBF(np.ones(2)), "loss": LOSS})
    make = partial(DenseGram, keep=True)
    function = EvidenceCriterion(space, simple_problem(X, y), Laplace(), make)
    function(space.start)  # what is imported and cached
    tracemalloc.start()
    function(space.start)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < (classes + 2 + 0.7) * 8 * n * n  # 0.5 are some 32 columns at a time, at this n


def test_a_factor_that_is_released_serves_the_next():
    X = data()[0]
    gram = DenseGram(2.0 * RBF(), X, keep=True)
    D = np.abs(np.random.default_rng(0).normal(size=(len(X), 3))) + 0.1
    first = coupled(gram, D)
    expected = first.solve(D)
    held = [first.shared, *(factor.cholesky for factor in first.factors)]
    first.release()
    again = coupled(gram, D)
    assert not gram.room
    arrays = [again.shared, *(factor.cholesky for factor in again.factors)]
    assert {id(A) for A in arrays} == {id(A) for A in held}
    np.testing.assert_array_equal(again.solve(D), expected)
