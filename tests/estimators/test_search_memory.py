"""Memory of a whole search: n x n arrays that live at the same time, from the first step to LOO."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from mercer import GPClassifier, GPRegressor, LeastSquaresClassifier
from mercer.core import memory
from mercer.inference import EP, Laplace, Variational
from mercer.kernels import RBF, Linear
from mercer.losses import Logistic, NormalizedHinge, Probit
from mercer.search import Optimize

N = 700  # n^2 is large beside what a loss takes for its averages, some blocks of rows


def fitted(n, inference, loss):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 3))
    f = np.sin(1.5 * X[:, 0]) + 0.5 * X[:, 1] * X[:, 2] + 0.3 * rng.logistic(size=n)
    y = np.where(f > 0.0, 1, 0)
    kernel = 1.0 * RBF(length_scale=np.ones(3))
    search = Optimize(restarts=0, max_iter=1)
    return GPClassifier(
        kernel, loss=loss, inference=inference, search=search, standardize=False
    ).fit(X, y)


def peak(n, *given):
    """n x n arrays of doubles at the peak of the fit; libraries are loaded by a small one."""
    fitted(60, *given)
    tracemalloc.start()
    try:
        model = fitted(n, *given)
        return tracemalloc.get_traced_memory()[1] / (8.0 * n * n), model
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("inference", "loss", "arrays"),
    [
        (Variational(), Logistic(), 4.0),  # K, the factor that is kept and the next, and averages
        (Laplace(), Logistic(), 4.0),
        (EP(), Probit(), 4.0),
    ],
    ids=["variational", "laplace", "ep"],
)
def test_arrays_of_a_search(inference, loss, arrays):
    most, model = peak(N, inference, loss)
    assert model.report_["search"]["evaluations"] >= 2
    assert most < arrays


@pytest.mark.slow
def test_arrays_of_a_search_with_signed_weights():
    """They keep two (k, n) arrays for k negative ones."""
    assert peak(N, Variational(), NormalizedHinge())[0] < 5.0


def test_a_refusal_names_what_would_serve(monkeypatch):
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**6)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 2))
    y = X[:, 0] + 0.1 * rng.standard_normal(400)
    with pytest.raises(MemoryError, match=r"gram='iterative' .*gram='inducing' .*at most"):
        GPRegressor().fit(X, y)
    with pytest.raises(MemoryError, match=r"available; gram='inducing' .*or fit a random sample"):
        GPClassifier().fit(X, y > 0.0)
    with pytest.raises(MemoryError, match="available; fit a random sample of at most"):
        GPClassifier(loss="softmax").fit(X, np.arange(400) % 3)
    with pytest.raises(MemoryError, match="available; fit a random sample of at most"):
        LeastSquaresClassifier().fit(X, y > 0.0)


@pytest.mark.parametrize(
    ("kernel", "asked"),
    [("rbf", 2), ("matern52", 2), (1.0 * RBF() + 1.0 * Linear(), 5)],
    ids=["rbf", "matern52", "sum"],
)
def test_a_regression_takes_no_more_than_is_asked_for(monkeypatch, kernel, asked):
    """What is refused and what is used are the same: K, factor and inverse in one array."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 3))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(N)
    model = GPRegressor(kernel, search=Optimize(restarts=1, screen=2, max_iter=2))
    model.fit(X[:60], y[:60])
    tracemalloc.start()
    try:
        model.fit(X, y).summary()
        assert tracemalloc.get_traced_memory()[1] < 8.0 * asked * N**2
    finally:
        tracemalloc.stop()
    monkeypatch.setattr(memory, "available_bytes", lambda: 8 * asked * N**2 - 1)
    with pytest.raises(MemoryError, match=f"{asked} matrices of"):
        model.fit(X, y)
