"""EP: against a sequential version, exact integrals, differences; and what it reports."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate
from scipy.special import ndtr

from mercer import losses
from mercer.inference import EP, Exact, by_name
from mercer.inference.sites.sweeps import Anderson
from mercer.kernels import RBF, Constant, Linear
from mercer.linalg import DenseGram
from mercer.losses.numbers import power, quadrature
from mercer.testing import check_evidence_gradient
from tests.reference import ep as reference

BINARY = [
    losses.Probit(scale=0.8),
    losses.Logistic(),
    losses.LaplaceProbit(C=2.0),
    losses.NormalizedHinge(C=1.3),
    losses.Flip(losses.Probit(), eps=0.1),
    losses.Flip(None, eps=0.1),
    losses.StudentThreshold(scale=0.6, df=3.0),
]
REAL = [
    losses.Gaussian(noise=0.3),
    losses.StudentT(scale=0.5, df=4.0),
    losses.LaplaceNoise(scale=0.4),
    losses.LogisticNoise(scale=0.3),
    losses.Huber(noise=0.2, delta=0.4),
    losses.EpsilonInsensitive(C=3.0, epsilon=0.2),
    losses.Pinball(level=0.7, scale=0.3),
]
OTHER = [
    losses.Poisson(),
    losses.NegativeBinomial(size=3.0),
    losses.Binomial(trials=40),
    losses.Gamma(shape=2.0),
    losses.LogGaussian(noise=0.3),
    losses.BoxCox(power=0.4, noise=0.3, unit=0.8),
    losses.Ordinal(cutpoints=[-1.0, 0.5]),
    losses.Ordinal(cutpoints=[-1.0, 0.5], link="probit"),
    losses.LearnedOrdinal(first=-1.0, gaps=[1.5]),
]
ALL = [*BINARY, *REAL, *OTHER]
CONVEX = [loss for loss in ALL if loss.convex]
TIGHT = EP(tol=1e-9)


class OwnLoss(losses.Loss):
    """A loss of one's own: only its value, logistic noise."""

    normalised = True
    abstract = True  # known to this file only

    def value(self, y, f):
        r = np.abs(np.asarray(y - f))
        return r + 2.0 * np.log1p(np.exp(-r))


def data(loss, n=25, seed=0, d=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    f = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, -1]
    if loss.response == "binary":
        y = np.where(f + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)
    elif loss.response == "real":
        y = f + 0.3 * rng.normal(size=n)
    elif loss.response == "count":
        y = rng.poisson(np.exp(f)).astype(float)
    elif loss.response == "positive":
        y = rng.gamma(2.0, np.exp(f) / 2.0)
    else:
        y = np.digitize(f, [-0.5, 0.5]).astype(float)
    return X, y[:, None]


def evidence(inference, kernel, X, y, loss, **given):
    gram = DenseGram(kernel, X, keep=True)
    solution = inference.solve(gram, y, loss, **given)
    return inference.evidence(gram, y, loss, solution).value, solution


# ---------------------------------------------------------------------- against other integrals
@pytest.mark.parametrize("weight", [1.0, 0.4, 3.0])
@pytest.mark.parametrize("loss", [*ALL, OwnLoss()], ids=repr)
def test_one_point_is_exact(loss, weight):
    X, y = data(loss, n=3)
    X, y, variance, mean = X[:1], y[:1], 2.5, np.array([[0.3]])
    value, solution = evidence(
        EP(tol=1e-12), variance * RBF(), X, y, loss, mean=mean, weights=np.array([weight])
    )

    def density(f, k=0):
        g = float(loss.value(y[0, 0], np.asarray(f)))
        return f**k * np.exp(-weight * g - 0.5 * (f - 0.3) ** 2 / variance)

    edges = np.unique([-1.0, 0.0, 1.0, *np.ravel(loss.kinks(y[0])), y[0, 0]])
    moments = [
        integrate.quad(density, -14, 14, args=(k,), points=edges, epsabs=0, epsrel=1e-12, limit=500)
        for k in range(2)
    ]
    mass, first = moments[0][0], moments[1][0]
    assert value == pytest.approx(np.log(mass / np.sqrt(2 * np.pi * variance)), abs=1e-9)
    assert solution.z[0, 0] == pytest.approx(first / mass, abs=1e-8)


@pytest.mark.parametrize("loss", [losses.Probit(), losses.Flip(None, eps=0.1)], ids=repr)
def test_one_point_closed_form_to_ten_digits(loss):
    value, _ = evidence(EP(tol=1e-12), 2.5 * RBF(), np.zeros((1, 1)), np.ones((1, 1)), loss)
    assert value == pytest.approx(np.log(0.5), abs=1e-12)


@pytest.mark.parametrize(
    ("loss", "exact", "ep"),
    [
        (losses.Logistic(), 1.92445, 1.92449),
        (losses.Probit(), 2.13777, 2.13582),
        (losses.NormalizedHinge(), 2.10788, 2.10942),
    ],
    ids=["logit", "probit", "normalised hinge"],
)
def test_two_points(loss, exact, ep):
    X, y = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[1.0], [-1.0]])
    K = np.array([[9.0, 7.0], [7.0, 8.0]])

    class Given(Linear):
        def __call__(self, X, Z=None):
            return K.copy()

        def diag(self, X):
            return np.diag(K)

    value, _ = evidence(EP(), Given(), X, y, loss)
    assert -value == pytest.approx(ep, abs=6e-6)
    assert -reference.exact_two(K, y[:, 0], loss) == pytest.approx(exact, abs=6e-6)


@pytest.mark.parametrize("loss", ALL, ids=repr)
def test_agrees_with_sequential_ep(loss):
    X, y = data(loss, n=9, seed=2)
    kernel, mean = 2.0 * RBF(0.7), 0.2 * X[:, :1]
    value, solution = evidence(EP(tol=1e-11), kernel, X, y, loss, mean=mean)
    K = kernel(X)
    h, W, mu, Sigma = reference.sequential(K, y[:, 0], loss, mean[:, 0], damp=0.8)
    slow = reference.log_evidence(K, y[:, 0], loss, mean[:, 0], h, W, mu, Sigma)
    np.testing.assert_allclose(solution.W, W, atol=2e-7 * max(1.0, np.abs(W).max()))
    np.testing.assert_allclose(solution.z[:, 0], mu + mean[:, 0], atol=2e-7)
    np.testing.assert_allclose(solution.factor.cov_diag(), np.diag(Sigma), atol=2e-7)
    assert value == pytest.approx(slow, abs=1e-7)


@pytest.mark.parametrize("variance", [1.0, 30.0])
@pytest.mark.parametrize(
    "loss",
    [losses.Logistic(), losses.Probit(), losses.NormalizedHinge(), losses.StudentT(0.5, 4.0)],
    ids=repr,
)
def test_evidence_is_near_the_exact_one(loss, variance):
    X, y = data(loss, n=20, seed=3)
    kernel = variance * RBF(1.0)
    value, solution = evidence(EP(), kernel, X, y, loss)
    K = kernel(X) + 1e-7 * variance * np.eye(20)
    mu, W = solution.z[:, 0], solution.W
    Sigma = np.linalg.inv(np.linalg.inv(K) + np.diag(W))
    exact, error = reference.importance(
        K, y[:, 0], loss, mu, 0.5 * (Sigma + Sigma.T), np.random.default_rng(0)
    )
    assert error < 0.03
    assert abs(value - exact) < 0.15 + 4.0 * error


# ---------------------------------------------------------------------- the gradient
# 3.3 is that of tests/agreement/test_bayesian_acceptance.py, for every pair; here a few every day
@pytest.mark.parametrize(
    ("loss", "variance"),
    [
        pytest.param(loss, v, id=f"{loss!r}-{v}", marks=() if few else pytest.mark.slow)
        for i, loss in enumerate(ALL)
        for v, few in ((3.3, False), (50.0, i % 4 == 0))
    ],
)
def test_gradient(loss, variance):
    X, y = data(loss, n=14)
    check_evidence_gradient(TIGHT, loss, X, y, variance * RBF([0.9, 1.4]), tol=1e-6)


def test_gradient_of_every_normalised_loss_is_covered():
    from tests.losses.cases import CLASSES

    needed = {
        c.__name__
        for c in CLASSES
        if c.normalised and c.response != "multiclass" and c.offers("tilted")
    }
    assert needed <= {type(loss).__name__ for loss in ALL}


def test_gradient_with_weights_and_mean():
    loss = losses.StudentT(scale=0.5, df=4.0)
    X, y = data(loss)
    rng = np.random.default_rng(1)
    weights, mean = rng.uniform(0.3, 2.5, 25), rng.normal(size=(25, 1))

    def at(log_variance, scale):
        kernel, twin = np.exp(log_variance) * RBF(0.9), losses.StudentT(scale=scale, df=4.0)
        gram = DenseGram(kernel, X, keep=True)
        solution = TIGHT.solve(gram, y, twin, weights=weights, mean=mean)
        found = TIGHT.evidence(gram, y, twin, solution)
        slope = gram.pullback(solution.alpha, solution.factor)
        return found.value, slope, found.loss_gradient

    _, kernel_slope, loss_slope = at(1.0, 0.5)
    h = 1e-4
    (name,) = [k for k in kernel_slope if "length" not in k]
    numeric = (at(1.0 + h, 0.5)[0] - at(1.0 - h, 0.5)[0]) / (2 * h)
    assert kernel_slope[name] * np.e == pytest.approx(numeric, rel=1e-6)
    numeric = (at(1.0, 0.5 + h)[0] - at(1.0, 0.5 - h)[0]) / (2 * h)
    assert loss_slope["scale"] == pytest.approx(numeric, rel=1e-6)


# ---------------------------------------------------------------------- special cases
def test_gaussian_loss_is_exact_regression(rng):
    X, y = rng.normal(size=(20, 2)), rng.normal(size=(20, 3))
    weights, mean = rng.uniform(0.3, 2.5, 20), rng.normal(size=(20, 3))
    gram, loss = DenseGram(4.0 * RBF(), X, keep=True), losses.Gaussian(noise=0.2)
    exact = Exact().solve(gram, y, loss, weights=weights, mean=mean)
    ep = EP().solve(gram, y, loss, weights=weights, mean=mean)
    np.testing.assert_allclose(ep.alpha, exact.alpha, atol=1e-8)
    np.testing.assert_allclose(ep.W[:, 0], exact.W, rtol=1e-8)
    expected = Exact().evidence(gram, y, loss, exact)
    found = EP().evidence(gram, y, loss, ep)
    assert found.value == pytest.approx(expected.value, abs=1e-8)
    assert found.loss_gradient["noise"] == pytest.approx(expected.loss_gradient["noise"], rel=1e-8)


def test_gaussian_noise_known_by_row(rng):
    X, y = rng.normal(size=(15, 1)), rng.normal(size=(15, 1))
    weights = rng.uniform(0.3, 2.5, 15)
    gram, loss = DenseGram(RBF(), X, keep=True), losses.Gaussian(rng.uniform(0.1, 0.5, 15))
    exact = Exact().solve(gram, y, loss, weights=weights)
    ep = EP().solve(gram, y, loss, weights=weights)
    np.testing.assert_allclose(ep.alpha, exact.alpha, atol=1e-8)
    value = Exact().evidence(gram, y, loss, exact).value
    assert EP().evidence(gram, y, loss, ep).value == pytest.approx(value, abs=1e-8)


@pytest.mark.parametrize("loss", [*BINARY[:5], losses.StudentT(0.5), losses.Poisson()], ids=repr)
def test_weight_two_is_two_rows(loss):
    """A row of weight w is one site: two rows at a point are two, which is a little less exact."""
    X, y = data(loss, n=14)
    w = np.array([2.0, 3.0, 2.0] + [1.0] * 11)
    many = np.repeat(np.arange(14), w.astype(int))
    short, a = evidence(TIGHT, 4.0 * RBF(), X, y, loss, weights=w)
    long, b = evidence(TIGHT, 4.0 * RBF(), X[many], y[many], loss)
    assert short == pytest.approx(long, abs=0.05)
    np.testing.assert_allclose(a.z[many], b.z, atol=0.1)
    np.testing.assert_allclose(a.factor.cov_diag()[many], b.factor.cov_diag(), rtol=0.2)


def test_heavy_and_light_weights_converge():
    X, y = data(losses.Probit(), n=40)
    w = np.where(y[:, 0] > 0, 1000.0, 1e-4)
    solution = EP().solve(DenseGram(10.0 * RBF(), X, keep=True), y, losses.Probit(), weights=w)
    assert solution.report.converged


def test_small_weights_are_continuous_and_vanish():
    loss = losses.Probit()
    X, y = data(loss, n=15)
    values = []
    for w in (1.0 - 1e-6, 1.0, 1.0 + 1e-6):
        weights = np.ones(15)
        weights[:5] = w
        values.append(evidence(TIGHT, 4.0 * RBF(), X, y, loss, weights=weights)[0])
    assert 0.0 < values[0] - values[1] < 3e-6  # less data, more evidence; no jump at w = 1
    assert 0.0 < values[1] - values[2] < 3e-6
    weights = np.ones(15)
    weights[:5] = 1e-9
    without, a = evidence(TIGHT, 4.0 * RBF(), X[5:], y[5:], loss)
    nearly, b = evidence(TIGHT, 4.0 * RBF(), X, y, loss, weights=weights)
    assert nearly == pytest.approx(without, abs=1e-7)
    np.testing.assert_allclose(b.z[5:], a.z, atol=1e-7)


@pytest.mark.parametrize("loss", [*ALL, OwnLoss()], ids=repr)
def test_powers_of_a_loss(loss, rng):
    """Power one is ``tilted``; the derivatives of other powers are those of log Z."""
    _, y = data(loss, n=12)
    y, m, v = y[:, 0], rng.normal(size=12), rng.uniform(0.2, 5.0, 12)
    p = rng.uniform(0.1, 0.9, 12)
    p[:3] = 1.0
    log_z, first, second = power.tilted(loss, y, m, v, p)
    plain = loss.tilted(y, m, v)
    np.testing.assert_allclose(log_z[:3], plain[0][:3], atol=1e-9)
    h = 1e-3 * np.sqrt(v)
    up, down = (power.tilted(loss, y, m + s * h, v, p) for s in (1.0, -1.0))
    np.testing.assert_allclose(first, (up[0] - down[0]) / (2 * h), atol=1e-5)
    np.testing.assert_allclose(second, (up[1] - down[1]) / (2 * h), atol=1e-5)
    if not isinstance(loss, losses.Gaussian):
        for i in (5, 9):
            grid = m[i] + np.sqrt(v[i]) * np.linspace(-12, 12, 400_001)
            dense = np.exp(-p[i] * loss.value(y[i], grid) - (grid - m[i]) ** 2 / (2 * v[i]))
            mass = integrate.trapezoid(dense, grid) / np.sqrt(2 * np.pi * v[i])
            if isinstance(loss, losses.Flip) and loss.base is None:  # trapezoids err at a step
                low, high = loss.eps ** p[i], (1.0 - loss.eps) ** p[i]
                mass = low + (high - low) * ndtr(y[i] * m[i] / np.sqrt(v[i]))
            assert log_z[i] == pytest.approx(np.log(mass), abs=1e-7)


def test_many_rows_of_small_weight_are_worked_on_in_blocks(monkeypatch, rng):
    y, m, v = np.ones(30), rng.normal(size=30), rng.uniform(0.2, 5.0, 30)
    p = rng.uniform(0.1, 0.9, 30)
    whole = power.tilted(losses.Logistic(), y, m, v, p)
    monkeypatch.setattr(quadrature, "BLOCK", 7)
    for a, b in zip(whole, power.tilted(losses.Logistic(), y, m, v, p), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-11)


def test_points_without_prior_variance():
    X, y = np.array([[0.0], [1.0], [-2.0], [0.5]]), np.array([[1.0], [1.0], [-1.0], [-1.0]])
    value, solution = evidence(TIGHT, Linear(), X, y, losses.Logistic())
    rest, _ = evidence(TIGHT, Linear(), X[1:], y[1:], losses.Logistic())
    assert value == pytest.approx(rest + np.log(0.5), abs=1e-9)
    assert solution.report.converged


# ---------------------------------------------------------------------- convergence
@pytest.mark.parametrize("length", [0.5, 2.0])
@pytest.mark.parametrize("loss", BINARY[:4], ids=repr)
def test_converges_at_a_large_variance(loss, length):
    X, y = data(loss, n=100)
    value, solution = evidence(EP(), 1000.0 * RBF(length), X, y, loss)
    assert solution.report.converged
    assert solution.report.details["factorisations"] <= 40
    assert -100.0 < value < 0.0


@pytest.mark.parametrize("loss", CONVEX, ids=repr)
def test_log_concave_losses_have_positive_sites(loss):
    X, y = data(loss, n=60, seed=5)
    _, solution = evidence(EP(), 30.0 * RBF(), X, y, loss)
    assert solution.report.converged
    assert np.all(solution.W > -1e-10)


@pytest.mark.parametrize("loss", [losses.NormalizedHinge(), losses.StudentT(0.2)], ids=repr)
def test_negative_sites_on_a_singular_gram(loss):
    X, y = data(loss, n=80)
    X, y = np.vstack([X, X[:20]]), np.vstack([y, -y[:20] if loss.response == "binary" else y[:20]])
    y[::17] += 4.0 if loss.response == "real" else 0.0
    value, solution = evidence(EP(), 10.0 * RBF(2.0), X, y, loss)
    assert solution.report.converged
    assert np.any(solution.W < 0.0)
    assert np.isfinite(value)
    assert np.all(solution.factor.cov_diag() > 0.0)


def test_separable_data_have_a_finite_evidence():
    X = np.linspace(-2, 2, 40)[:, None]
    y = np.where(X > 0.1, 1.0, -1.0)
    for variance in (1.0, 1e3, 1e6):
        value, solution = evidence(EP(), variance * RBF(2.0), X, y, losses.Probit())
        assert solution.report.converged
        assert -40.0 < value < 0.0


def test_one_class_only():
    X, _ = data(losses.Probit(), n=30)
    kernel = 10.0 * RBF() + Constant(100.0)
    value, solution = evidence(EP(), kernel, X, np.ones((30, 1)), losses.Probit())
    assert solution.report.converged
    assert np.all(solution.z > 0.0)
    assert -5.0 < value < 0.0


@pytest.mark.parametrize("loss", [losses.Probit(), losses.NormalizedHinge()], ids=repr)
def test_warm_start(loss):
    X, y = data(loss, n=100)
    _, before = evidence(EP(), 30.0 * RBF(0.9), X, y, loss)
    gram = DenseGram(33.0 * RBF(1.0), X, keep=True)
    cold, warm = EP().solve(gram, y, loss), EP().solve(gram, y, loss, start=before)
    assert warm.report.details["factorisations"] < cold.report.details["factorisations"]
    np.testing.assert_allclose(warm.alpha, cold.alpha, atol=1e-5)
    again = EP().solve(gram, y, loss, start=warm)
    assert again.report.iterations == 0
    assert again.report.details["factorisations"] == 1


def test_a_start_that_is_no_posterior_is_dropped():
    loss = losses.NormalizedHinge()
    X, y = data(loss, n=20)
    gram = DenseGram(10.0 * RBF(), X, keep=True)
    good = EP().solve(gram, y, loss)
    from dataclasses import replace

    for W in (np.full(20, -50.0), np.full(20, np.nan)):
        found = EP().solve(gram, y, loss, start=replace(good, W=W))
        assert found.report.converged
        np.testing.assert_allclose(found.alpha, good.alpha, atol=1e-5)


def test_residual_is_the_error_of_the_moments():
    loss = losses.Logistic()
    X, y = data(loss, n=40)
    kernel = 20.0 * RBF()
    sharp, solution = evidence(EP(tol=1e-11), kernel, X, y, loss)
    for tol in (1e-2, 1e-4):
        value, rough = evidence(EP(tol=tol), kernel, X, y, loss)
        assert rough.report.details["residual"] <= tol
        assert abs(value - sharp) < 40 * tol**2  # E is stationary
        assert np.abs(rough.z - solution.z).max() < 40 * tol


def test_an_iteration_limit_is_reported():
    X, y = data(losses.Probit(), n=40)
    value, solution = evidence(EP(max_iter=2), 100.0 * RBF(), X, y, losses.Probit())
    assert not solution.report.converged
    assert solution.report.iterations == 2
    assert "raise max_iter" in solution.report.message
    assert np.isfinite(value)


def test_no_proper_fixed_point_is_reported():
    loss = losses.StudentT(scale=0.1, df=2.0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 2))
    y = (np.sin(1.5 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_t(2, size=100))[:, None]
    value, solution = evidence(EP(), RBF(0.5), X, y, loss)
    assert not solution.report.converged
    assert "Laplace" in solution.report.message
    assert np.isfinite(value)
    assert np.all(np.isfinite(solution.alpha))


def test_no_iteration_at_all_is_the_prior():
    X, y = data(losses.Probit(), n=5)
    value, solution = evidence(EP().set_params(max_iter=0), RBF(), X, y, losses.Probit())
    assert np.all(solution.alpha == 0.0)
    assert np.all(solution.W == 0.0)
    assert value == pytest.approx(5 * np.log(0.5))


# ---------------------------------------------------------------------- refusals
def test_what_ep_refuses():
    assert isinstance(by_name("ep"), EP)
    with pytest.raises(ValueError, match=r"not a likelihood.*NormalizedHinge"):
        EP().check(losses.Hinge())
    with pytest.raises(ValueError, match="one per class"):
        EP().check(losses.Softmax())
    gram = DenseGram(RBF(), np.zeros((1, 1)), keep=True)
    with pytest.raises(ValueError, match="separates the labels"):
        EP().solve(gram, np.ones((1, 1)), losses.Probit(), basis=np.ones((1, 1)))
    with pytest.raises(ValueError, match="lost to rounding"):
        EP().solve(gram, np.ones((1, 1)), losses.Gaussian(noise=1e-20))


def test_acceleration_solves_a_linear_iteration(rng):
    A = rng.normal(size=(4, 4))
    A *= 0.95 / np.abs(np.linalg.eigvals(A)).max()
    b, mixer, x = rng.normal(size=4), Anderson(memory=5), np.zeros(4)
    for _ in range(6):
        x = mixer.step(x, A @ x + b - x)
    np.testing.assert_allclose(x, np.linalg.solve(np.eye(4) - A, b), atol=1e-7)
