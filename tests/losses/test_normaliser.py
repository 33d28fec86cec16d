"""The mass of the hinge over the labels, and the weights between hinge and logistic loss."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from mercer import losses
from mercer.losses import Hinge, Logistic, NormalizedHinge, hinge_normaliser, reweight

F = np.linspace(-6.0, 6.0, 241)


@pytest.mark.parametrize("C", [0.1, 0.5, np.log(2.0), 1.0, 3.0, 20.0])
def test_mass_is_the_sum_over_both_labels(C):
    # GPML (6.39), by the loss itself
    bracket = np.exp(-Hinge(C).value(1.0, F)) + np.exp(-Hinge(C).value(-1.0, F))
    kappa = 1.0 / (1.0 + np.exp(-2.0 * C))
    np.testing.assert_allclose(hinge_normaliser(F, C), kappa * bracket, rtol=1e-13)


@pytest.mark.parametrize("C", [0.1, 0.5, 1.0, 3.0, 20.0])
def test_landmarks(C):
    kappa = 1.0 / (1.0 + np.exp(-2.0 * C))
    at = hinge_normaliser(np.array([-1.0, 1.0, 0.0, 1e6, -np.inf]), C)
    np.testing.assert_allclose(at, [1.0, 1.0, 1.0 / np.cosh(C), kappa, kappa], rtol=1e-14)
    assert np.all(hinge_normaliser(F, C) <= 1.0 + 1e-15)
    low = min(kappa, 1.0 / np.cosh(C))
    np.testing.assert_allclose(low, kappa if np.log(2.0) > C else 1.0 / np.cosh(C))
    assert hinge_normaliser(np.linspace(-300, 300, 60001), C).min() == pytest.approx(low, rel=1e-9)


def test_divided_by_the_mass_the_hinge_is_a_likelihood():
    C = 1.7
    kappa = 1.0 / (1.0 + np.exp(-2.0 * C))
    p = kappa * np.exp(-Hinge(C).value(1.0, F)) / hinge_normaliser(F, C)
    np.testing.assert_allclose(p, np.exp(-NormalizedHinge(C).value(1.0, F)), rtol=1e-12)


@pytest.mark.parametrize("C", [1e-3, 1e-6])
def test_a_small_weight_and_a_large_function_are_the_logistic_loss(C):
    # y C f = v is v + C sign(v) beyond the margin: C and the variance of f are one shape, not two
    for y in (-1.0, 1.0):
        given = NormalizedHinge(C).value(y, F / C)
        np.testing.assert_allclose(given, Logistic().value(y, F), atol=1.001 * C)


@pytest.mark.parametrize("C", [1e3, 1e6])
def test_a_large_weight_and_a_small_function_are_the_logistic_loss(C):
    for y in (-1.0, 1.0):
        given = NormalizedHinge(C).value(y, F / (2.0 * C))
        np.testing.assert_allclose(given, Logistic().value(y, F), rtol=1e-12)


def test_no_overflow_and_refusals():
    assert hinge_normaliser(np.array([0.0]), 1e4)[0] == 0.0
    assert hinge_normaliser(0.5).shape == ()
    with pytest.raises(ValueError, match="positive C"):
        hinge_normaliser(F, 0.0)


def test_weighted_logistic_loss_is_the_hinge(rng):
    u = rng.normal(0.0, 3.0, 500)
    weighted = reweight(u) * Logistic().value(1.0, u)
    np.testing.assert_allclose(weighted, Hinge().value(1.0, u), rtol=1e-13, atol=0.0)  # (2.38)


def test_shape_of_the_weight():
    best = minimize_scalar(lambda u: -float(reweight(u)), bounds=(-3, 1), method="bounded")
    assert -best.fun == pytest.approx(1.5422, abs=5e-5)
    assert best.x == pytest.approx(-0.6121, abs=1e-3)
    assert np.all(reweight(np.array([1.0, 1.5, 50.0, 1e6])) == 0.0)
    np.testing.assert_allclose(reweight(np.array([-1e8])), 1.0, atol=1e-7)


def test_functions_are_no_losses_by_name():
    with pytest.raises(ValueError, match="no loss 'reweight'"):
        losses.by_name("reweight")
