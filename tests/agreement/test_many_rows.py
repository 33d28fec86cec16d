"""Representations of K for many rows through the estimators, against the matrices themselves.

The model on inducing points is written out with n x n matrices and repeated rows; solutions by
products are compared with the dense ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mercer import SVR, AdditiveRegressor, GPRegressor
from mercer.core.arrays import Array
from mercer.kernels import RBF, Categorical, Kernel, Matern, White
from mercer.linalg import Inducing, Iterative
from mercer.losses import Gaussian

N = 30
SIGNAL, EXTRA = 2.0 * RBF(0.9), 0.2
BASES: dict[str | None, Any] = {
    None: lambda X: np.zeros((len(X), 0)),
    "constant": lambda X: np.ones((len(X), 1)),
    "linear": lambda X: np.column_stack([np.ones(len(X)), X]),
}


def by_matrices(
    k: Kernel, Z: Array, X: Array, Y: Array, noise: Array, new: Array, basis: str | None
) -> tuple[float, Array, Array]:
    """The bound, and mean and variance of the function at new rows."""
    H, h = BASES[basis](X), BASES[basis](new)
    half = np.linalg.solve(k(Z), k(Z, X))
    Q, across = k(X, Z) @ half, k(new, Z) @ half
    C = np.linalg.inv(Q + np.diag(noise))
    A = H.T @ C @ H
    beta = np.linalg.solve(A, H.T @ C @ Y)
    alpha, (n, o), c = C @ (Y - H @ beta), Y.shape, H.shape[1]
    determinants = np.linalg.slogdet(A)[1] - np.linalg.slogdet(C)[1]
    charge = ((k.diag(X) - np.diag(Q)) / noise).sum()
    bound = -0.5 * ((Y - H @ beta) * alpha).sum()
    bound -= 0.5 * o * (determinants + (n - c) * np.log(2.0 * np.pi) + charge)
    rest = h - across @ C @ H
    var = k.diag(new) - np.einsum("ij,ij->i", across @ C, across)
    var += np.einsum("ij,ij->i", rest @ np.linalg.inv(A), rest)
    return float(bound), across @ alpha + h @ beta, var


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("rows", ["once", "weights", "twice", "noise part", "noise by row"])
def test_inducing_points_are_the_model_written_out(rows: str, outputs: int, basis: Any) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2))
    Y = 4.0 + X[:, :1] + rng.normal(size=(N, outputs))
    own: Any = rng.uniform(0.1, 0.5, N) if rows == "noise by row" else 0.3
    part = EXTRA if rows == "noise part" else 0.0
    kernel = SIGNAL + White(EXTRA) if part else SIGNAL
    weights, index = None, np.arange(N)
    if rows == "weights":
        weights = np.r_[0.0, 2.0, 3.0, np.ones(N - 3)]
        index = np.repeat(index, weights.astype(int))
    elif rows == "twice":
        X, Y = np.vstack([X, X[:4]]), np.vstack([Y, Y[:4] + 0.3])
        index = np.arange(N + 4)
    Z = X[:6] + 0.05
    given = Inducing(m=np.vstack([Z, Z[:1]]))  # a point that lies on another is dropped
    model = GPRegressor(kernel, loss=Gaussian(own), search=None, basis=basis, gram=given)
    model.fit(X, Y if outputs > 1 else Y[:, 0], weights)
    assert model.report_["inducing"]["dropped"] == 1
    noise, new = np.broadcast_to(own, len(X)) + part, rng.normal(size=(5, 2))
    bound, mean, var = by_matrices(SIGNAL, Z, X[index], Y[index], noise[index], new, basis)
    assert model.log_evidence_ == pytest.approx(bound, abs=1e-7)
    assert model.evidence_bounds_ == (model.log_evidence_, None)
    found, std = model.predict(new, return_std=True)
    # rows with noise of their own say nothing of that of a new one
    observed = var + part + (0.0 if np.ndim(own) else own)
    np.testing.assert_allclose(found.reshape(mean.shape), mean)
    np.testing.assert_allclose(
        std.reshape(mean.shape) ** 2, np.tile(observed[:, None], (1, outputs))
    )
    for i in (1, 10, N - 1):  # a row left out: one of its copies, if it counts more than once
        rest = np.delete(index, np.flatnonzero(index == i)[0])
        _, mean, var = by_matrices(SIGNAL, Z, X[rest], Y[rest], noise[rest], X[[i]], basis)
        if rows == "weights" and i == 1:
            continue  # what is left out there is the row with its weight
        np.testing.assert_allclose(np.ravel(model.left_out_.mean[i]), mean[0])
        np.testing.assert_allclose(np.ravel(model.left_out_.variance[i]), var[0] + noise[i])


def test_points_are_in_the_units_of_the_user() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 2)) * [1.0, 100.0]
    y = 50.0 + 10.0 * np.sin(X[:, 0]) + rng.normal(size=N)
    Z, new = X[::5], X[:4] + 0.1
    model = GPRegressor(search=None, gram=Inducing(m=Z)).fit(X, y)  # by name: standardised
    noise = np.full(N, model.loss_.noise)
    found = by_matrices(model.kernel_, Z, X, (y - y.mean())[:, None], noise, new, None)
    assert model.log_evidence_ == pytest.approx(found[0], abs=1e-7)
    np.testing.assert_allclose(model.predict(new), y.mean() + found[1][:, 0])


ADDED = (
    1.0 * Matern(nu=2.5, length_scale=1.0).on(0)
    + 2.0 * Matern(nu=1.5, length_scale=10.0).on(1)
    + 0.5 * Matern(nu=0.5, length_scale=100.0).on(2)
)
SETTINGS: dict[str, Any] = {"tol": 1e-12, "probes": 64}


@pytest.mark.parametrize("machine", ["iterative", "additive"])
@pytest.mark.parametrize("rows", ["once", "weights", "twice", "noise part", "noise by row"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_solutions_by_products_are_the_dense_ones(machine: str, rows: str, outputs: int) -> None:
    rng = np.random.default_rng(0)
    n, part = 60, rows == "noise part"
    X = rng.normal(size=(n, 3)).round(1) * [1.0, 10.0, 100.0]
    Y = 5.0 + np.sin(X[:, :1]) + 0.1 * rng.normal(size=(n, outputs))
    if rows == "twice":
        X, Y = np.vstack([X, X[:5]]), np.vstack([Y, Y[:5] + 0.3])
    if outputs == 1:
        Y = Y[:, 0]
    noise: Any = rng.uniform(0.05, 0.2, n) if rows == "noise by row" else 0.1
    weights = np.r_[0.0, 2.0, 3.0, np.ones(n - 3)] if rows == "weights" else None
    given: dict[str, Any] = {"loss": Gaussian(noise), "search": None}
    if machine == "iterative":
        kernel = 2.0 * RBF([1.0, 10.0, 100.0])
        kernel = kernel + White(0.05) if part else kernel
        gram = Iterative(rank=20, precision="double", **SETTINGS)
        few = GPRegressor(kernel, gram=gram, **given)
        dense = GPRegressor(kernel, gram="dense", **given)
    else:
        kernel = ADDED + White(0.05) if part else ADDED
        few = AdditiveRegressor(kernel, gram="iterative", rank=20, **SETTINGS, **given)
        dense = GPRegressor(kernel, gram="dense", basis="constant", **given)
    few.fit(X, Y, weights)
    dense.fit(X, Y, weights)
    new = rng.normal(size=(6, 3)) * [1.0, 10.0, 100.0]
    for found, wanted, error in zip(
        few.predict(new, return_std=True),
        dense.predict(new, return_std=True),
        (1e-5, 5e-3),
        strict=True,
    ):  # deviations within a hundredth of the noise
        np.testing.assert_allclose(found, wanted, rtol=error, atol=1e-5)
    low, high = few.evidence_bounds_
    assert low < dense.log_evidence_ < high
    # the determinant is an average over probes
    assert few.log_evidence_ == pytest.approx(dense.log_evidence_, abs=0.02 * n * outputs)
    assert few.left_out_ is None
    assert "gram=" in few.report_["left_out"]


def test_a_noise_part_is_in_nobodys_way() -> None:
    """Points move and are centres of rows, as they would with the noise in the loss."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.1 * rng.normal(size=60)
    for move, chosen in ((True, "kmeans, moved"), ("auto", "kmeans, moved"), (False, "kmeans")):
        gram = Inducing(m=6, move=move, max_iter=5)
        model = GPRegressor(RBF() + White(0.1), loss=Gaussian(0.01), gram=gram).fit(X, y)
        assert model.report_["inducing"]["chosen"] == chosen


def test_categories_have_no_centres() -> None:
    """The mean of two codes is a category of no row: points are rows, and are not moved."""
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.normal(size=60), rng.integers(0, 3, 60)])
    y = np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=60)
    kernel = 4.0 * RBF().on(0) * Categorical().on(1)
    model = GPRegressor(kernel, gram=Inducing(m=15, max_iter=5)).fit(X, y)
    assert model.report_["inducing"]["chosen"] == "random_pivots"
    assert set(model.posteriors_[0].points[:, 1]) == {0.0, 1.0, 2.0}
    machine = SVR(kernel=kernel, gram=Inducing(m=15)).fit(X, y)
    assert machine.report_["inducing"]["chosen"] == "random_pivots"
    assert set(machine.support_vectors_[:, 1]) == {0.0, 1.0, 2.0}
