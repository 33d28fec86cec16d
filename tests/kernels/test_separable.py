"""Separable: products over the columns; their limits, gradients and what names begin with."""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import GPRegressor, testing
from mercer.kernels import RBF, Kernel, Matern, Separable


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, np.inf])
@pytest.mark.parametrize("share", [None, 0.4, np.array([0.1, 0.5, 0.9])], ids=["none", "one", "3"])
def test_contract(nu, share):
    testing.check_kernel(Separable(nu, np.array([0.5, 1.0, 2.0]), share))
    testing.check_kernel(2.0 * Separable(nu, 0.7, share).on([2, 0, 1]) + RBF())


def test_limits(rng):
    X = rng.standard_normal((9, 3))
    np.testing.assert_allclose(Separable(np.inf, 0.7)(X), RBF(0.7)(X), rtol=1e-12)
    np.testing.assert_allclose(Separable(0.5, share=1.0)(X), Separable(0.5)(X), rtol=1e-12)
    np.testing.assert_allclose(Separable(share=0.0)(X), 1.0)
    one = X[:, :1]
    np.testing.assert_allclose(Separable(1.5, 0.7)(one), Matern(1.5, 0.7)(one), rtol=1e-12)
    # small shares: a sum over the columns, up to the square of the share
    share, each = 1e-4, [Matern(1.5).on(j)(X) for j in range(3)]
    additive = 1.0 + share * sum(k - 1.0 for k in each)
    np.testing.assert_allclose(Separable(1.5, share=share)(X), additive, atol=10 * share**2)


def test_many_columns_and_distances_beyond_all_numbers():
    X = np.vstack([np.zeros(300), np.full(300, 1e200), np.full(300, 50.0)])
    for nu in (0.5, 1.5, 2.5):
        K = Separable(nu)(X)
        np.testing.assert_array_equal(K, np.eye(3))
        slopes = Separable(nu, np.ones(300), 0.5).pullback(X, None, np.ones((3, 3)))
        assert all(np.isfinite(slope).all() for slope in slopes.values())


@pytest.mark.parametrize("wrong", [{"nu": 1.0}, {"share": 1.5}, {"length_scale": 0.0}])
def test_refusals(wrong):
    with pytest.raises(ValueError, match=f"Separable: {next(iter(wrong))} must"):
        Separable(**wrong)(np.zeros((2, 2)))


def test_by_name_each_column_has_its_scale(rng, tmp_path):
    X = rng.uniform(-1.0, 1.0, size=(120, 4))
    y = np.where(X[:, 0] > 0.2, 3.0, 0.0) + X[:, 1] + 0.4 * rng.standard_normal(120)
    model = GPRegressor("anova12").fit(X, y)
    scales = model.kernel_.kernel.length_scale
    assert scales.shape == (4,)
    assert max(scales[:2]) < min(scales[2:])  # the others say nothing
    assert model.log_evidence_ > GPRegressor("rbf").fit(X, y).log_evidence_
    mercer.save(model, tmp_path / "edges.mercer")
    again = mercer.load(tmp_path / "edges.mercer")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_noise_is_not_taken_for_a_function(rng):
    X = rng.standard_normal((60, 3))
    y = rng.standard_normal(60)
    assert GPRegressor("laplacian").fit(X, y).loss_.noise >= 0.0099 * y.var()


def test_names():
    assert Kernel.by_name("laplacian") == Separable(0.5)
    assert Kernel.by_name("anova") == Separable(np.inf, share=0.5)
