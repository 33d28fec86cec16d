"""The PLSC criterion: value by refitting, gradient by differences and by the book's formulas."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from mercer.inference import Exact
from mercer.kernels import RBF, White
from mercer.losses import SquaredProbit
from mercer.search import Optimize, PlscCriterion, Problem, Space, simple_problem
from tests.reference import gp, plsc

KERNEL = 1.7 * RBF(np.array([0.8, 1.9]))


def data(rng, n=14):
    X = rng.normal(size=(n, 2))
    y = np.sign(X[:, 0] + 0.7 * rng.normal(size=n))
    y[:2] = 1.0, -1.0
    return X, y[:, None]


def loss(latent=False, **given):
    return SquaredProbit(**({"noise": 0.3, "tau": 0.4, "offset": -0.2} | given), latent=latent)


def space(latent=False, kernel=KERNEL, **given):
    return Space({"kernel": kernel, "loss": loss(latent, **given)})


@pytest.mark.parametrize("latent", [False, True])
@pytest.mark.parametrize("basis", [False, True])
def test_value_is_that_of_refitting(rng, latent, basis):
    X, y = data(rng)
    H = np.ones((14, 1)) if basis else None
    value = PlscCriterion(space(latent), simple_problem(X, y, H), Exact())(space().start)[0]
    expected = plsc.objective(KERNEL(X), y[:, 0], 0.3, 0.4, -0.2, H, latent)
    assert value == pytest.approx(expected, abs=1e-10)


def weighted(rng, H):
    """Six points, nine labels, weights: y is the mean label of each point."""
    X = rng.normal(size=(6, 2))
    group = np.array([0, 0, 1, 2, 2, 2, 3, 4, 5])
    w = np.array([1.0, 2.0, 3.0, 1.0, 0.4, 2.0, 1.0, 0.3, 1.0])
    labels = np.array([1.0, -1, 1, 1, 1, -1, -1, 1, -1])[:, None]
    total = np.bincount(group, w)
    mean = np.array([w[group == i] @ labels[group == i] / total[i] for i in range(6)])
    spread = np.array([w[group == i] @ (labels[group == i] - mean[i]) ** 2 for i in range(6)])
    basis = np.column_stack([np.ones(6), X[:, 0]]) if H else None
    return Problem(X, mean, total, spread, basis, group, labels, w)


def check_gradient(criterion, at, tolerance=1e-6):
    gradient = criterion(at)[1]
    numeric = gp.richardson(lambda u: criterion(u)[0], at)
    size = np.maximum(1.0, np.abs(numeric))
    np.testing.assert_allclose(gradient / size, numeric / size, atol=tolerance)
    return gradient


@pytest.mark.parametrize("latent", [False, True])
@pytest.mark.parametrize("basis", [False, True])
def test_gradient_by_differences(rng, latent, basis):
    X, y = data(rng)
    problem = simple_problem(X, y, np.ones((14, 1)) if basis else None)
    criterion = PlscCriterion(space(latent), problem, Exact())
    assert len(check_gradient(criterion, space().start)) == 6


@pytest.mark.parametrize("latent", [False, True])
@pytest.mark.parametrize("basis", [False, True])
def test_gradient_with_weights_and_copies(rng, latent, basis):
    check_gradient(PlscCriterion(space(latent), weighted(rng, basis), Exact()), space(latent).start)


@pytest.mark.parametrize("shared", [False, True])
def test_gradient_of_several_classes(rng, shared):
    X, y = data(rng)
    Y = np.hstack([y, -y, np.roll(y, 3, axis=0)])
    sigmoid = {} if shared else {"tau": np.array([0.3, 0.5, 0.9]), "offset": np.array([0.1, 0, -1])}
    at = space(**sigmoid)
    criterion = PlscCriterion(at, simple_problem(X, Y, np.ones((14, 1))), Exact())
    assert len(check_gradient(criterion, at.start)) == (6 if shared else 10)
    single = [
        PlscCriterion(space(), simple_problem(X, Y[:, [c]], np.ones((14, 1))), Exact())
        for c in range(3)
    ]
    if shared:
        total = sum(one(at.start)[0] for one in single)
        assert criterion(at.start)[0] == pytest.approx(total, rel=1e-12)


def test_gradient_with_noise_in_the_kernel(rng):
    X, y = data(rng)
    at = space(kernel=KERNEL + White(0.1))
    check_gradient(PlscCriterion(at, simple_problem(X, y), Exact()), at.start)


def test_gradient_is_the_books(rng):
    """(6.43), (6.44) with (5.13), one product per hyperparameter, against the adjoint."""
    X, y = data(rng)
    a, c = 1 / 0.4, -0.2 / 0.4
    K = KERNEL(X)
    step = 1e-5
    dK = [K]  # d/d log variance
    for j in range(2):
        up, down = np.array([0.8, 1.9]), np.array([0.8, 1.9])
        up[j] *= np.exp(step)
        down[j] *= np.exp(-step)
        dK.append(((1.7 * RBF(up))(X) - (1.7 * RBF(down))(X)) / (2 * step))
    dK.append(0.3 * np.eye(14))
    by_a, by_c, by_theta = plsc.book_gradient(K, dK, y[:, 0], 0.3, a, c)
    at = space()
    gradient = PlscCriterion(at, simple_problem(X, y), Exact())(at.start)[1]
    found = dict(zip(["variance", "l0", "l1", "noise", "tau", "offset"], gradient, strict=True))
    expected = dict(zip(["variance", "l0", "l1", "noise"], by_theta, strict=True))
    # alpha = 1/tau, beta = b/tau: d/d log tau = -(a d/da + c d/dc), d/db = a d/dc
    expected |= {"tau": -(a * by_a + c * by_c), "offset": a * by_c}
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-7, abs=1e-8), name


@pytest.mark.parametrize("a", [0.2, 1.0, 5.0])
def test_integral_by_quadrature(rng, a):
    for mu, s, c in [(0.3, 0.5, 0.1), (-2.0, 0.05, 1.0), (1.0, 4.0, -2.0), (0.0, 1e-3, 0.0)]:
        sigmoid = SquaredProbit(noise=0.1, tau=1 / a, offset=c / a, latent=True)
        for y in (-1.0, 1.0):
            expected = plsc.probability(y, mu, s, a, c)
            p = sigmoid.predict(mu, s)
            assert (p if y > 0 else 1 - p) == pytest.approx(expected, abs=1e-9)
            share = np.array(0.5 * (1 + y))
            assert np.exp(sigmoid.log_probability(share, mu, s)[0]) == pytest.approx(
                expected, rel=1e-9
            )


def test_noisy_and_latent_predictions_differ_by_the_noise():
    noisy, latent = SquaredProbit(0.3, 0.5), SquaredProbit(0.3, 0.5, latent=True)
    assert noisy.predict(0.7, 0.2) == pytest.approx(norm.cdf(0.7 / np.sqrt(0.25 + 0.5)))
    assert latent.predict(0.7, 0.2) == pytest.approx(norm.cdf(0.7 / np.sqrt(0.25 + 0.2)))
    assert latent.predict(0.7, 0.5) == pytest.approx(noisy.predict(0.7, 0.2))


def test_far_tails_stay_finite():
    values = SquaredProbit(1e-6, 1e-6).log_probability(
        np.array([1.0, 0.0, 0.5]), np.array([-30.0, 30.0, 30.0]), np.array([1e-3, 1e-3, 1e-3])
    )
    assert all(np.all(np.isfinite(v)) for v in values)


def test_copies_are_left_out_together(rng):
    """A table listed twice tells no answers: half the noise of the doubled one is the same fit."""
    X, y = data(rng)
    one = PlscCriterion(space(True), simple_problem(X, y), Exact())
    n = len(X)
    twice = Problem(
        X,
        y,
        np.full(n, 2.0),
        np.zeros_like(y),
        None,
        np.tile(np.arange(n), 2),
        np.vstack([y, y]),
        np.ones(2 * n),
    )
    at = space(True, noise=0.6)
    two = PlscCriterion(at, twice, Exact())
    assert two(at.start)[0] == pytest.approx(2 * one(space(True).start)[0], rel=1e-12)


def test_smooth_targets(rng):
    """Platt's targets: the value by hand, and the gradient by differences."""
    problem = weighted(rng, True)
    at = space()
    criterion = PlscCriterion(at, problem, Exact(), smooth=True)
    check_gradient(criterion, at.start)
    X, y = data(rng)
    mean, variance, _ = gp.leave_one_out(KERNEL(X) + 0.3 * np.eye(14), y[:, 0])
    r = (mean - 0.2) / np.sqrt(0.16 + variance)
    plus, minus = (y > 0).sum(), (y < 0).sum()
    t = np.where(y[:, 0] > 0, (plus + 1) / (plus + 2), 1 / (minus + 2))
    expected = (t * norm.logcdf(r) + (1 - t) * norm.logcdf(-r)).sum()
    found = PlscCriterion(at, simple_problem(X, y), Exact(), smooth=True)(at.start)[0]
    assert found == pytest.approx(expected, abs=1e-10)


def test_the_optimum_is_a_stationary_point(rng):
    X, y = data(rng, 40)
    at = space()
    criterion = PlscCriterion(at, simple_problem(X, y, np.ones((40, 1))), Exact())
    [found] = Optimize(criterion="plsc", restarts=2).run(criterion, at, rng)
    assert found.value > criterion(at.start)[0]
    inside = np.all(np.abs(found.u[:, None] - at.bounds) > 1e-3, axis=1)
    assert np.abs(criterion(found.u)[1][inside]).max() < 1e-3
    assert found.report["criterion"] == "plsc"
