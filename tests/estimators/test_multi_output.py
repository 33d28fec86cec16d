"""Several outputs: one kernel, each output with its own scale."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import GPRegressor
from mercer.kernels import RBF
from mercer.losses import Gaussian

SCALES = np.array([1.0, 1e6, 1e-4])
SHIFTS = np.array([0.0, -3e6, 50.0])


def data(n: int = 30) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, 2))
    f = np.column_stack([np.sin(X[:, 0]), np.cos(X[:, 0] + 1), X[:, 0] ** 2 / 2])
    return X, f + 0.1 * rng.normal(size=(n, 3)), rng.normal(size=(6, 2))


def test_shapes() -> None:
    X, Y, Z = data()
    model = GPRegressor().fit(X, Y)
    mean, std = model.predict(Z, return_std=True)
    assert mean.shape == std.shape == (6, 3)
    assert model.predict(Z, return_cov=True)[1].shape == (6, 6, 3)
    assert model.predict_interval(Z)[0].shape == (6, 3)
    assert model.predict_latent(Z)[1].shape == (6, 3)
    assert model.sample_y(Z, 5).shape == (6, 3, 5)
    assert model.loo_.log_density.shape == (30, 3)
    assert model.predictive_log_density(Z, np.zeros((6, 3))).shape == (6, 3)
    assert GPRegressor().fit(X, Y[:, :1]).predict(Z).shape == (6, 1)
    assert GPRegressor().fit(X, Y[:, 0]).predict(Z).shape == (6,)
    str(model.summary())


def test_one_output_as_a_column_is_one_output() -> None:
    X, Y, Z = data()
    column = GPRegressor().fit(X, Y[:, :1])
    flat = GPRegressor().fit(X, Y[:, 0])
    np.testing.assert_array_equal(column.predict(Z)[:, 0], flat.predict(Z))
    assert column.log_evidence_ == flat.log_evidence_
    assert column.kernel_ == flat.kernel_


@pytest.mark.parametrize("basis", [None, "linear"])
def test_every_output_has_its_own_scale(basis: object) -> None:
    """Rescaling one output changes nothing for the others, nor for itself beyond the units."""
    X, Y, Z = data()
    plain = GPRegressor(basis=basis).fit(X, Y)
    moved = GPRegressor(basis=basis).fit(X, Y * SCALES + SHIFTS)
    tolerance = 1e-3 * Y.std(axis=0)
    for a, b in (
        (plain.predict(Z), (moved.predict(Z) - SHIFTS) / SCALES),
        (plain.predict(Z, return_std=True)[1], moved.predict(Z, return_std=True)[1] / SCALES),
        (plain.predict_interval(Z)[1], (moved.predict_interval(Z)[1] - SHIFTS) / SCALES),
        (plain.loo_.mean, (moved.loo_.mean - SHIFTS) / SCALES),
    ):
        assert np.all(np.abs(a - b) < tolerance)
    k = 0 if basis is None else 3
    change = -(30 - k) * np.log(SCALES).sum()
    assert moved.log_evidence_ - plain.log_evidence_ == pytest.approx(change, abs=1e-3)


def test_outputs_are_single_fits_that_share_the_kernel() -> None:
    X, Y, Z = data()
    kernel, loss = 1.3 * RBF(0.9), Gaussian(0.05)
    both = GPRegressor(kernel, loss=loss, search=None, basis="constant").fit(X, Y)
    total = 0.0
    cov = both.predict(Z, return_cov=True)[1]
    for j in range(3):
        one = GPRegressor(kernel, loss=loss, search=None, basis="constant").fit(X, Y[:, j])
        mean, single = one.predict(Z, return_cov=True)
        np.testing.assert_allclose(both.predict(Z)[:, j], mean, atol=1e-11)
        np.testing.assert_allclose(cov[:, :, j], single, atol=1e-11)
        total += one.log_evidence_
    assert both.log_evidence_ == pytest.approx(total, abs=1e-9)


def test_the_search_maximises_the_sum() -> None:
    X, Y, _ = data()
    model = GPRegressor(1.0 * RBF()).fit(X, Y)
    for factor in (0.9, 1.1):
        moved = model.kernel_.variance * factor * RBF(model.kernel_.kernel.length_scale)
        other = GPRegressor(moved, loss=model.loss_, search=None).fit(X, Y)
        assert other.log_evidence_ < model.log_evidence_


def test_duplicates_and_weights() -> None:
    X, Y, Z = data()
    X[20:] = X[:10]
    w = np.tile([1, 2, 3], 10)
    every = np.repeat(np.arange(30), w)
    a, b = GPRegressor().fit(X, Y, w), GPRegressor().fit(X[every], Y[every])
    np.testing.assert_allclose(a.predict(Z), b.predict(Z), atol=1e-7)
    assert a.log_evidence_ == pytest.approx(b.log_evidence_, abs=1e-6)


def test_one_constant_output() -> None:
    X, Y, Z = data()
    Y[:, 1] = 7.0
    model = GPRegressor().fit(X, Y)
    np.testing.assert_allclose(model.predict(Z)[:, 1], 7.0, atol=1e-6)
    assert np.all(np.isfinite(model.predict(Z, return_std=True)[1]))


def test_a_loss_in_user_units_needs_equal_scales() -> None:
    X, Y, _ = data()
    with pytest.raises(ValueError, match="outputs have different scales"):
        GPRegressor(loss=Gaussian(0.1)).fit(X, Y * SCALES)
