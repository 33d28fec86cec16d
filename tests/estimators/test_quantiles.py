"""Quantiles: a pinball loss answers the quantile asked for, QuantileRegressor several at once."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import GPRegressor, KernelRegressor, SmoothingSpline
from mercer.kernels import RBF
from mercer.losses import Pinball
from mercer.search import HMC


def line(n=30, seed=0):
    rng = np.random.default_rng(seed)
    x = np.linspace(0, 1, n)[:, None]
    return x, np.sin(6 * x[:, 0]) + 0.1 * rng.normal(size=n)


MACHINES = {
    "mode": KernelRegressor(RBF(0.3), loss=Pinball(0.9, 0.1), search=None),
    "ep": GPRegressor(RBF(0.3), loss=Pinball(0.9, 0.1), inference="ep", search=None),
    "variational": GPRegressor((1.0 * RBF(0.3)).fix(), loss=Pinball(0.9, 0.1)),
    "committee": GPRegressor(
        RBF(0.3), loss=Pinball(0.9, 0.1), search=HMC(samples=4, warmup=4, chains=1, keep=3)
    ),
    "spline": SmoothingSpline(loss=Pinball(0.9, 0.1)),
}


@pytest.mark.filterwarnings("ignore")  # a committee of four draws
@pytest.mark.parametrize("model", MACHINES.values(), ids=list(MACHINES))
def test_predict_of_a_pinball_loss_is_the_quantile(model):
    x, t = line()
    model.fit(x[::2], t[::2])
    new = np.array([[0.11], [0.52]])
    quantile = model.predict(new)
    np.testing.assert_array_equal(quantile, model.predict_latent(new)[0])
    assert 0.75 < (t <= model.predict(x)).mean() <= 1.0
    if model.posteriors_[0].has_spread:
        # the quantile beside the deviation of an observation, which is that of the noise and f
        with_std, std = model.predict(new, return_std=True)
        np.testing.assert_allclose(with_std, quantile, rtol=1e-12)
        low, high = model.predict_interval(new, coverage=0.8)
        density = model.predictive_log_density(new, low)
        assert np.all((low < quantile) & (quantile < high + std) & np.isfinite(density))
    left_out = model.left_out_.mean
    assert 0.5 < (t[::2] <= left_out)[np.isfinite(left_out)].mean() <= 1.0
    assert model.loss_.level == 0.9


def test_a_level_is_asked_for_and_never_learned():
    assert set(Pinball(0.9).free) == {"scale"}
    x, t = line()
    model = GPRegressor((1.0 * RBF(0.3)).fix(), loss=Pinball(0.9, 0.1)).fit(x[::2], t[::2])
    assert model.loss_.level == 0.9
    assert model.loss_.scale != 0.1
