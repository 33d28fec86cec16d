"""Newton: the mode against a general minimiser, its certificate, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from mercer import losses
from mercer.inference import Exact, Newton, by_name, for_loss
from mercer.inference.mode.prox import has_kinks
from mercer.kernels import RBF
from mercer.linalg import DenseGram
from mercer.losses import Loss
from tests.reference import modes

SMOOTH = [
    losses.Logistic(),
    losses.Probit(),
    losses.LaplaceProbit(C=2.0),
    losses.SquaredHinge(C=3.0),
    losses.Margin(C=4.0),
    losses.Exponential(),
    losses.Poisson(),
    losses.NegativeBinomial(size=2.0),
    losses.Gamma(shape=2.0),
    losses.Ordinal(cutpoints=[-1.0, 0.5]),
    losses.Ordinal(cutpoints=[-1.0, 0.5], link="probit"),
    losses.Huber(noise=0.3, delta=0.8),
    losses.Gaussian(noise=0.4),
]
KERNEL = 2.0 * RBF(0.9)


class Censored(Loss):
    """A loss of one's own: only its value; observations above one are known to be above one."""

    def value(self, y, f):
        r = np.logaddexp(0.0, -(f - 1.0) * 4.0)
        return np.where(np.asarray(y) >= 1.0, r, 0.5 * (np.asarray(y) - f) ** 2)


def data(loss, n=30, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = loss.example_targets(rng, n)
    return X, y[:, None], rng.uniform(0.3, 2.5, n), np.column_stack([np.ones(n), X[:, 0]])


@pytest.mark.parametrize("basis", [False, True])
@pytest.mark.parametrize("loss", [*SMOOTH, Censored()], ids=repr)
def test_mode_is_the_minimum(loss, basis):
    X, y, w, H = data(loss)
    H = H if basis else None
    gram = DenseGram(KERNEL, X, keep=True)
    found = Newton().solve(gram, y, loss, basis=H, weights=w)
    objective, f, _ = modes.mode(gram.matrix, loss, y[:, 0], w, H)
    assert found.report.converged
    assert found.report.details["objective"] <= objective + 1e-9 * max(1.0, abs(objective))
    assert found.report.details["objective"] == pytest.approx(objective, rel=1e-7)
    np.testing.assert_allclose(found.z[:, 0], f, atol=2e-3)
    latent = gram @ found.alpha
    if H is not None:
        np.testing.assert_allclose(H.T @ found.alpha, 0.0, atol=1e-9)
        latent = latent + H @ found.beta
    np.testing.assert_allclose(found.z, latent, atol=1e-9)


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
def test_stationarity_and_gap(loss):
    X, y, w, H = data(loss, seed=1)
    gram = DenseGram(KERNEL, X, keep=True)
    found = Newton().solve(gram, y, loss, basis=H, weights=w)
    slope = loss.derivatives(y[:, 0], found.z[:, 0])[0]
    np.testing.assert_allclose(found.alpha[:, 0], -w * slope, atol=1e-8 * (1 + np.abs(slope).max()))
    assert 0.0 <= found.report.gap <= 1e-10 * max(1.0, abs(found.report.details["objective"]))
    assert found.report.iterations <= 15


def test_gap_bounds_the_distance_to_the_minimum():
    loss = losses.Logistic()
    X, y, _, _ = data(loss)
    gram = DenseGram(50.0 * RBF(0.9), X, keep=True)
    best = Newton().solve(gram, y, loss).report.details["objective"]
    for steps in range(1, 4):
        report = Newton(max_iter=steps, tol=0.0).solve(gram, y, loss).report
        assert report.details["objective"] - best <= report.gap + 1e-12


def test_an_iteration_limit_reports():
    X, y, _, _ = data(losses.Poisson())
    gram = DenseGram(100.0 * RBF(0.5), X, keep=True)
    report = Newton(max_iter=1).solve(gram, 50.0 * y, losses.Poisson()).report
    assert report.iterations == 1
    assert not report.converged


def test_quadratic_loss_is_exact(rng):
    X, y = rng.normal(size=(20, 2)), rng.normal(size=(20, 3))
    H, w = np.ones((20, 1)), rng.uniform(0.5, 2.0, 20)
    gram, loss = DenseGram(KERNEL, X, keep=True), losses.Gaussian(noise=0.3)
    mean = rng.normal(size=(20, 3))
    exact = Exact().solve(gram, y, loss, basis=H, weights=w, mean=mean)
    mode = Newton().solve(gram, y, loss, basis=H, weights=w, mean=mean)
    np.testing.assert_allclose(mode.alpha, exact.alpha, atol=1e-10)
    np.testing.assert_allclose(mode.beta, exact.beta, atol=1e-10)
    assert mode.report.columns[0].iterations == 1


def test_weight_two_is_two_rows():
    loss = losses.Logistic()
    X, y, _, _ = data(loss, n=12)
    w = np.array([2.0, 3.0] + [1.0] * 10)
    many = np.repeat(np.arange(12), w.astype(int))
    short = Newton().solve(DenseGram(KERNEL, X, keep=True), y, loss, weights=w)
    long = Newton().solve(DenseGram(KERNEL, X[many], keep=True), y[many], loss)
    np.testing.assert_allclose(short.z[many], long.z, atol=1e-9)


def test_a_start_nearby_saves_steps():
    loss = losses.Logistic()
    X, y, _, H = data(loss)
    gram = DenseGram(30.0 * RBF(0.9), X, keep=True)
    cold = Newton().solve(gram, y, loss, basis=H)
    warm = Newton().solve(gram, y, loss, basis=H, start=cold)
    assert warm.report.iterations == 0
    np.testing.assert_allclose(warm.alpha, cold.alpha, atol=1e-9)


def test_a_mode_has_no_spread_and_no_evidence():
    loss = losses.Logistic()
    X, y, _, _ = data(loss)
    gram = DenseGram(KERNEL, X, keep=True)
    found = Newton().solve(gram, y, loss)
    assert found.factor.operator().C is None
    assert np.all(found.factor.solve(np.ones((30, 2))) == 0.0)
    with pytest.raises(ValueError, match="no evidence"):
        Newton().evidence(gram, y, loss, found)


def test_student_noise_finds_a_local_mode():
    loss = losses.StudentT(scale=0.2, df=3.0)
    rng = np.random.default_rng(3)
    X = np.linspace(0, 3, 25)[:, None]
    y = np.sin(X) + 0.1 * rng.normal(size=X.shape)
    y[5] = 8.0
    found = Newton().solve(DenseGram(RBF(), X, keep=True), y, loss)
    slope = loss.derivatives(y[:, 0], found.z[:, 0])[0]
    assert found.report.gap is None
    assert found.report.converged
    np.testing.assert_allclose(found.alpha[:, 0], -slope, atol=1e-6)
    assert abs(found.z[5, 0] - np.sin(X[5, 0])) < 0.3


# ---------------------------------------------------------------------- no optimum
@pytest.mark.parametrize("loss", [losses.Logistic(), losses.Probit()], ids=repr)
def test_separating_basis_is_refused(loss):
    X = np.linspace(-2, 2, 20)[:, None]
    y = np.where(X > 0.1, 1.0, -1.0)
    H = np.column_stack([np.ones(20), X])
    gram = DenseGram(KERNEL, X, keep=True)
    with pytest.raises(ValueError, match=r"grow without bound.*basis=None"):
        Newton().solve(gram, y, loss, basis=H)
    assert Newton().solve(gram, y, loss, basis=H[:, :1]).report.converged


def test_counts_of_zero_with_a_free_level_are_refused():
    X = np.linspace(0, 1, 10)[:, None]
    gram = DenseGram(RBF(), X, keep=True)
    with pytest.raises(ValueError, match="grow without bound"):
        Newton().solve(gram, np.zeros((10, 1)), losses.Poisson(), basis=np.ones((10, 1)))
    assert Newton().solve(gram, np.zeros((10, 1)), losses.Poisson()).report.converged


def test_separating_basis_of_softmax_is_refused():
    X = np.linspace(-3, 3, 21)[:, None]
    y = np.digitize(X, [-1.0, 1.0]).astype(float)
    gram = DenseGram(KERNEL, X, keep=True)
    H = np.column_stack([np.ones(21), X])
    with pytest.raises(ValueError, match="grow without bound"):
        Newton().solve(gram, y, losses.Softmax(), basis=H)


# ---------------------------------------------------------------------- several classes
@pytest.mark.parametrize("basis", [False, True])
def test_softmax_is_stationary(basis):
    rng = np.random.default_rng(4)
    X, w = rng.normal(size=(40, 2)), rng.uniform(0.5, 2.0, 40)
    y = rng.integers(0, 4, size=(40, 1)).astype(float)
    H = np.column_stack([np.ones(40), X[:, 0]]) if basis else None
    gram = DenseGram(8.0 * RBF(0.8), X, keep=True)
    found = Newton().solve(gram, y, losses.Softmax(), basis=H, weights=w)
    p = softmax(found.z, axis=1)
    np.testing.assert_allclose(
        found.alpha, w[:, None] * (np.eye(4)[y[:, 0].astype(int)] - p), atol=1e-8
    )
    np.testing.assert_allclose(found.alpha.sum(axis=1), 0.0, atol=1e-9)
    assert found.report.gap <= 1e-8
    assert found.report.iterations <= 15
    if H is not None:
        np.testing.assert_allclose(H.T @ found.alpha, 0.0, atol=1e-8)
        np.testing.assert_allclose(found.beta.sum(axis=1), 0.0, atol=1e-8)


@pytest.mark.parametrize("basis", [False, True])
def test_softmax_of_two_classes_is_logistic_with_twice_the_kernel(basis):
    loss = losses.Logistic()
    X, y, w, H = data(loss)
    H = H if basis else None
    two = Newton().solve(
        DenseGram(KERNEL, X, keep=True), (y + 1) / 2, losses.Softmax(), basis=H, weights=w
    )
    one = Newton().solve(DenseGram(2.0 * KERNEL, X, keep=True), y, loss, basis=H, weights=w)
    np.testing.assert_allclose(two.z[:, 1] - two.z[:, 0], one.z[:, 0], atol=1e-9)
    assert two.report.details["objective"] == pytest.approx(
        one.report.details["objective"], abs=1e-10
    )


# ---------------------------------------------------------------------- the choice
@pytest.mark.parametrize(
    ("loss", "name"),
    [
        (losses.Gaussian(), "Exact"),
        (losses.Softmax(), "Newton"),
        (losses.StudentT(), "Newton"),
        (losses.Hinge(C=7.0), "Dual"),
        (losses.Pinball(level=0.9, scale=0.1), "Dual"),
        (losses.LaplaceNoise(scale=10.0), "Dual"),
        (losses.EpsilonInsensitive(C=100.0, epsilon=0.0), "Dual"),
        *((loss, "Newton") for loss in SMOOTH[:-1]),
    ],
    ids=repr,
)
def test_auto_chooses_by_what_the_loss_offers(loss, name):
    assert type(by_name("auto", loss)).__name__ == name
    assert has_kinks(loss) == (name == "Dual")


def test_choices_that_are_refused():
    with pytest.raises(ValueError, match="neither smooth nor convex"):
        for_loss(losses.NormalizedHinge())
    with pytest.raises(ValueError, match=r"slope of Hinge jumps.*dual"):
        Newton().check(losses.Hinge())
    with pytest.raises(
        ValueError,
        match=r"there is no inference 'newtn'; did you mean 'newton'\? Known are: auto, bound",
    ):
        by_name("newtn")
