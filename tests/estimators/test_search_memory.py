"""Memory of a whole search: n x n arrays that live at the same time, from the first step to LOO."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from mercer import GPClassifier
from mercer.inference import EP, Laplace, Variational
from mercer.kernels import RBF
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
