"""EP where the posterior has several modes: power EP leads to it, or takes its place."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import GPRegressor
from mercer.inference import EP, Variational
from mercer.inference.sites import ep as module
from mercer.inference.sites.base import Task
from mercer.inference.sites.sweeps import Sweeps
from mercer.kernels import RBF, Kernel
from mercer.linalg import DenseGram
from mercer.losses import Gaussian, Logistic, Loss, Probit, StudentT


def outliers(seed: int, d: int, scale: float, df: float) -> tuple[np.ndarray, np.ndarray]:
    """100 points of a smooth function in t noise, ten of them 20 scales away."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3.0, 3.0, size=(100, d))
    y = np.sin(1.5 * X[:, 0]) + (0.5 * X[:, 1] if d > 1 else 0.0)
    y = y + scale * rng.standard_t(df, size=100)
    y[rng.choice(100, 10, replace=False)] += 20.0 * scale * rng.choice([-1.0, 1.0], 10)
    return X, y[:, None]


def solved(kernel: Kernel, X: np.ndarray, y: np.ndarray, loss: Loss, **params: object):
    gram = DenseGram(kernel, X, keep=True)
    solution = EP(**params).solve(gram, y, loss)
    return EP().evidence(gram, y, loss, solution).value, solution


@pytest.mark.parametrize("df", [3.0, pytest.param(4.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize(("d", "kernel"), [(1, RBF(1.0)), (2, 4.0 * RBF(0.5))], ids=["1", "2"])
def test_outliers_of_twenty_deviations(df: float, seed: int, d: int, kernel: Kernel) -> None:
    loss = StudentT(scale=0.1, df=df)
    X, y = outliers(seed, d, 0.1, df)
    value, solution = solved(kernel, X, y, loss)
    assert solution.report.converged, solution.report.message
    assert solution.report.details["residual"] <= 1e-6
    gram = DenseGram(kernel, X, keep=True)
    bound = Variational().solve(gram, y, loss)
    lower = Variational().evidence(gram, y, loss, bound).value
    assert lower - 0.1 < value < lower + 30.0  # EP is no bound, but it is close to one


def at_power(monkeypatch: pytest.MonkeyPatch, power: float) -> None:
    """Let every inference be power EP."""
    start = Sweeps.__init__

    def init(self: Sweeps, task: Task, given: float = 1.0) -> None:
        start(self, task, power)

    monkeypatch.setattr(module.Sweeps, "__init__", init)


@pytest.mark.parametrize("power", [0.5, 0.8])
def test_power_does_not_matter_where_sites_are_exact(
    monkeypatch: pytest.MonkeyPatch, power: float
) -> None:
    X, y = outliers(0, 1, 0.1, 4.0)
    loss = Gaussian(noise=0.3)
    expected, exact = solved(RBF(), X, y, loss)
    at_power(monkeypatch, power)
    value, solution = solved(RBF(), X, y, loss)
    assert solution.report.details["power"] == power
    assert value == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(solution.alpha, exact.alpha, rtol=1e-5, atol=1e-7)


def test_power_goes_over_into_the_variational_gaussian(monkeypatch: pytest.MonkeyPatch) -> None:
    """Power EP with p -> 0 minimises the variational free energy (Minka 2004)."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20, 2))
    y = np.where(X[:, :1] + rng.normal(size=(20, 1)) > 0.0, 1.0, -1.0)
    gram = DenseGram(9.0 * RBF(), X, keep=True)
    q = Variational().solve(gram, y, Logistic())
    limit = Variational().evidence(gram, y, Logistic(), q).value
    gaps = []
    for power in (0.4, 0.04, 0.004):
        with monkeypatch.context() as patch:
            at_power(patch, power)
            gaps.append(solved(9.0 * RBF(), X, y, Logistic())[0] - limit)
    assert gaps[0] > gaps[1] > gaps[2] > 0.0
    assert gaps[2] == pytest.approx(0.01 * gaps[0], rel=0.2)  # of first order in p


@pytest.mark.parametrize("loss", [StudentT(scale=0.3, df=4.0), Probit()], ids=repr)
def test_evidence_of_power_ep_is_stationary(loss: Loss, monkeypatch: pytest.MonkeyPatch) -> None:
    """Formula (3) holds: differences in a length scale against the pullback."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(15, 1))
    y = np.sin(2.0 * X) + 0.3 * rng.standard_t(4, size=(15, 1))
    y = np.sign(y) if loss.response == "binary" else y
    at_power(monkeypatch, 0.5)
    step = 1e-4
    scales = (1.0 - step, 1.0 + step)
    values = [solved(2.0 * RBF(scale), X, y, loss, tol=1e-8)[0] for scale in scales]
    gram = DenseGram(2.0 * RBF(1.0), X, keep=True)
    solution = EP(tol=1e-8).solve(gram, y, loss)
    slope = gram.pullback(solution.alpha, solution.factor)["kernel__length_scale"]
    assert slope == pytest.approx((values[1] - values[0]) / (2.0 * step), rel=1e-5)


def test_a_start_hands_its_power_on() -> None:
    loss, kernel = StudentT(scale=0.1, df=3.0), 4.0 * RBF(0.5)
    X, y = outliers(2, 2, 0.1, 3.0)
    gram = DenseGram(kernel, X, keep=True)
    cold = EP().solve(gram, y, loss)
    warm = EP().solve(gram, y, loss, start=cold)
    assert warm.report.details.get("power") == cold.report.details.get("power")
    assert warm.report.details["factorisations"] == 1


def test_a_regressor_with_outliers_is_fitted_and_says_what_it_did() -> None:
    X, y = outliers(3, 2, 0.1, 4.0)
    loss = StudentT(scale=0.1, df=4.0).fix()
    model = GPRegressor((4.0 * RBF(0.5)).fix(), loss=loss, inference="ep", search=None)
    model.fit(X, y[:, 0])
    assert model.report_["inference"]["converged"]
    assert np.all(np.isfinite(model.loo_.log_density))
    assert np.all(model.loo_.variance > 0.0)
    lost = model.report_["inference"].get("improper_cavities", 0)
    assert 0 < lost < 10  # rows whose site is all that holds f down
