"""Warped: columns bent by powers; scikit-learn's transform, limits, gradients, and what pays."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.preprocessing import PowerTransformer

import mercer
from mercer import GPClassifier, GPRegressor
from mercer.kernels import RBF, ArcSine, Linear, Matern, Separable, Warped
from mercer.kernels.inputs.warp import skewed
from mercer.kernels.stationary.base import bending
from mercer.testing import check_kernel

PLACE = np.array([0.2, -0.1, 0.0]), np.array([0.7, 1.5, 0.9])  # centre and unit


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, np.inf])
@pytest.mark.parametrize("share", [None, 0.4], ids=["product", "mixed"])
def test_products_inside(nu, share):
    powers = np.array([-0.9, 1e-9, 2.0])
    check_kernel(Warped(Separable(nu, np.array([0.5, 1.0, 2.0]), share), powers, *PLACE))


@pytest.mark.parametrize(
    "inside", [Matern(nu=2.5), Linear(), 2.0 * RBF(0.7).on([2, 0]) + Linear().on(1)], ids=str
)
def test_contract(inside):
    check_kernel(Warped(inside, 0.3, *PLACE))
    check_kernel(
        1.5 * Warped(inside, np.array([0.5, 2.9, 1.0]), PLACE[0], np.array([0.5, 1, np.inf]))
    )


def test_the_transform_is_that_of_scikit_learn(rng):
    X = rng.standard_normal((20, 3)) * [1.0, 4.0, 0.2]
    other = PowerTransformer(standardize=False).fit(X)
    other.lambdas_ = np.array([-0.7, 0.0, 2.0])
    ours = Warped(RBF(), other.lambdas_, np.zeros(3), np.ones(3))(X)
    np.testing.assert_allclose(ours, RBF()(other.transform(X)), rtol=1e-10, atol=1e-300)


def test_limits(rng):
    X = rng.standard_normal((9, 3))
    for kernel in (Warped(RBF(), 1.0, *PLACE), Warped(RBF(), -0.5, PLACE[0], np.full(3, np.inf))):
        np.testing.assert_allclose(kernel(X), RBF()(X), rtol=1e-13)
    far = Warped(RBF(), np.array([3.0, -1.0, 0.0]), *PLACE)
    values = far(np.vstack([X, np.full(3, 1e300), np.full(3, -1e300)]))
    assert np.isfinite(values).all()
    np.testing.assert_allclose(np.diag(values), 1.0)


def test_points_can_move(rng):
    kernel = Warped(Separable(1.5, 0.8, 0.4), np.array([0.0, 0.4, 2.3]), *PLACE)
    X, Z, Q = rng.standard_normal((8, 3)), rng.standard_normal((4, 3)), rng.standard_normal((8, 4))
    moved = kernel.pullback_points(X, Z, Q)
    for j, d in np.ndindex(Z.shape):
        step = np.zeros_like(Z)
        step[j, d] = 1e-6
        slope = ((kernel(X, Z + step) - kernel(X, Z - step)) * Q).sum() / 2e-6
        assert moved[j, d] == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_what_is_taken_from_rows(rng):
    X = np.column_stack([np.exp(rng.normal(size=200)), rng.normal(size=200), np.arange(200) > 190])
    kernel = Warped(RBF()).frozen(X)
    assert skewed(X).tolist() == [0]  # the others are symmetric, or have two values
    assert bending(kernel) == {"power": 1}
    assert np.isinf(kernel.unit).tolist() == [False, True, True]
    low, centre, _ = np.quantile(X[:, 0], [0.25, 0.5, 0.75], method="inverted_cdf")
    assert (kernel.centre[0], kernel.unit[0]) == (centre, centre - low)
    weights = rng.integers(1, 4, size=200).astype(float)
    again = Warped(RBF()).frozen(np.repeat(X, weights.astype(int), axis=0))
    np.testing.assert_allclose(Warped(RBF()).frozen(X, weights).unit, again.unit)
    order = np.array([2, 0, 1])
    np.testing.assert_allclose(kernel.reordered(order)(X[:9, order]), kernel(X[:9]), rtol=1e-13)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({}, "power"),
        ({"power": 4.0, "centre": np.zeros(3), "unit": np.ones(3)}, "between -1 and 3"),
        ({"power": 1.0, "centre": np.zeros(2), "unit": np.ones(2)}, "3 columns"),
        ({"power": 1.0, "centre": np.zeros(3), "unit": np.zeros(3)}, "unit positive"),
    ],
)
def test_refusals(given, match):
    with pytest.raises(ValueError, match=match):
        Warped(RBF(), **given)(np.zeros((2, 3)))


def test_a_kernel_that_does_not_know_its_slopes():
    with pytest.raises(NotImplementedError, match="powers cannot be learned"):
        Warped(ArcSine(), 1.0, *PLACE).pullback(np.zeros((2, 3)), None, np.ones((2, 2)))


def test_a_power_is_found_where_it_pays(rng, tmp_path):
    x = np.exp(1.5 * rng.normal(size=(100, 1)))
    wave = np.sin(3.0 * np.log(x[:, 0])) + 0.1 * rng.normal(size=100)
    plain, model = (GPRegressor(name).fit(x, wave) for name in ("rbf", "warped_rbf"))
    told = model.report_["powers"]
    assert told["kept"]
    assert told["gain"] > told["needed"] == pytest.approx(0.5 * np.log(100))
    assert model.kernel_.kernel.power[0] < 0.3
    assert model.log_evidence_ > plain.log_evidence_ + 20.0
    assert "columns bent by powers" in str(model.summary())
    mercer.save(model, tmp_path / "bent.mercer")
    np.testing.assert_array_equal(
        mercer.load(tmp_path / "bent.mercer").predict(x), model.predict(x)
    )
    straight = GPRegressor("warped_rbf").fit(x, 0.3 * x[:, 0] + rng.normal(size=100))
    assert not straight.report_["powers"]["kept"]
    assert straight.kernel_.kernel.power.tolist() == [1.0]
    labels = GPClassifier("warped_rbf").fit(x, wave > 0.0)
    assert labels.kernel_.parts[0].kernel.power[0] < 0.6
