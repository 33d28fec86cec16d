"""Bad input: a clear error of the right type, and what was fitted before stays as it was."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from mercer import GPRegressor, KernelRegressor
from mercer.kernels import RBF, Function, Matern
from mercer.linalg import NotPositiveDefiniteError
from mercer.losses import Gaussian, Hinge
from mercer.search import Optimize


def table(n: int = 12) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 2))
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)


X, Y = table()


def with_value(A: np.ndarray, at: tuple, value: float) -> np.ndarray:
    B = A.copy()
    B[at] = value
    return B


NAMED = pd.DataFrame(with_value(X, (3, 1), np.nan), columns=["age", "bmi"])
OTHER = np.column_stack([X, X[:, 0]])

Case = tuple[dict, Callable[[], tuple], type[Exception], str]
CASES: dict[str, Case] = {
    "X is a vector": ({}, lambda: (X[:, 0], Y), ValueError, "Expected 2D array, got 1D"),
    "X has three axes": ({}, lambda: (X[None], Y), ValueError, "dim 3"),
    "lengths differ": ({}, lambda: (X, Y[:-1]), ValueError, "inconsistent numbers of samples"),
    "no rows": ({}, lambda: (X[:0], Y[:0]), ValueError, r"0 sample\(s\)"),
    "no columns": ({}, lambda: (X[:, :0], Y), ValueError, r"0 feature\(s\)"),
    "no targets": ({}, lambda: (X, None), ValueError, "requires y"),
    "one row": ({}, lambda: (X[:1], Y[:1]), ValueError, "cannot be learned from one row"),
    "NaN in X": (
        {}, lambda: (with_value(X, (5, 1), np.nan), Y), ValueError,
        r"Input X contains NaN in column 1, row 5 \(1 value not finite",
    ),
    "inf in X": (
        {}, lambda: (with_value(X, (0, 0), -np.inf), Y), ValueError,
        r"Input X contains infinity .* column 0, row 0",
    ),
    "NaN in a named column": ({}, lambda: (NAMED, Y), ValueError, "NaN in column 'bmi', row 3"),
    "NaN in y": (
        {}, lambda: (X, with_value(Y, (7,), np.nan)), ValueError, "Input y contains NaN in row 7",
    ),
    "inf in y of two outputs": (
        {}, lambda: (X, with_value(np.column_stack([Y, Y]), (2, 1), np.inf)), ValueError,
        "Input y contains infinity .* column 1, row 2",
    ),
    "text in X": ({}, lambda: (X.astype(str).astype(object) + "a", Y), ValueError, "convert"),
    "text in y": ({}, lambda: (X, np.array(["a"] * 12)), ValueError, "text in row 0: 'a'"),
    "complex": ({}, lambda: (X + 1j, Y), ValueError, "Complex data not supported"),
    "unknown kernel": ({"kernel": "rfb"}, lambda: (X, Y), ValueError, "no kernel 'rfb'.*rbf"),
    "kernel class": ({"kernel": RBF}, lambda: (X, Y), TypeError, r"write RBF\(\)"),
    "kernel is a number": ({"kernel": 3}, lambda: (X, Y), TypeError, "the names are: .*rbf"),
    "unknown loss": ({"loss": "gausian"}, lambda: (X, Y), ValueError, "'gausian'.*gaussian"),
    "loss is a number": ({"loss": 3}, lambda: (X, Y), TypeError, "loss must be a Loss"),
    "unknown inference": (
        {"inference": "exakt"}, lambda: (X, Y), ValueError, "no inference 'exakt'; .*'exact'",
    ),
    "unknown search": ({"search": "hmmc"}, lambda: (X, Y), ValueError, "did you mean 'hmc'"),
    "unknown gram": ({"gram": "sparse"}, lambda: (X, Y), ValueError, "known are 'auto', 'dense'"),
    "unknown basis": (
        {"basis": "lineer"}, lambda: (X, Y), ValueError, "unknown basis 'lineer'; known are consta",
    ),
    "basis of negative degree": ({"basis": -1}, lambda: (X, Y), ValueError, "degree"),
    "basis of the wrong type": ({"basis": 1.5}, lambda: (X, Y), TypeError, "basis must be"),
    "unknown standardize": (
        {"standardize": "yes"}, lambda: (X, Y), ValueError, "True, False or 'auto', not 'yes'",
    ),
    "standardize a kernel object": (
        {"kernel": RBF(), "standardize": True}, lambda: (X, Y), ValueError, "StandardScaler",
    ),
    "a loss that is not a likelihood": (
        {"loss": Hinge()}, lambda: (X, Y), ValueError, "Hinge",
    ),
    "noise of the wrong length": (
        {"kernel": RBF(), "loss": Gaussian(np.ones(5))}, lambda: (X, Y), ValueError, "5 training",
    ),
    "negative weight": (
        {}, lambda: (X, Y, with_value(np.ones(12), (4,), -1.0)), ValueError, "row 4 has -1",
    ),
    "NaN weight": (
        {}, lambda: (X, Y, with_value(np.ones(12), (4,), np.nan)), ValueError, "row 4 has nan",
    ),
    "weights all zero": ({}, lambda: (X, Y, np.zeros(12)), ValueError, "all sample weights are z"),
    "weights of the wrong length": (
        {}, lambda: (X, Y, np.ones(11)), ValueError, r"shape \(11,\), expected \(12,\)",
    ),
    "column that is not there": (
        {"kernel": RBF().on([2])}, lambda: (X, Y), ValueError, "column 2, but .* 2 columns",
    ),
    "length scales of the wrong number": (
        {"kernel": RBF(np.ones(3))}, lambda: (X, Y), ValueError, "length_scale",
    ),
    "negative length scale": ({"kernel": RBF(-1.0)}, lambda: (X, Y), ValueError, "length_scale"),
    "noise only": (
        {"kernel": "white"}, lambda: (X, Y), ValueError, "no kernel 'white'",
    ),
    "indefinite kernel": (
        {"kernel": Function(lambda A, B: -np.exp(A @ B.T)), "search": None,
         "loss": Gaussian(1e-3)},
        lambda: (X, Y), NotPositiveDefiniteError, "must be positive",
    ),
    "basis with too many functions": (
        {"basis": 4}, lambda: (X, Y), ValueError, "linearly dependent|basis functions need more",
    ),
    "dependent basis": (
        {"basis": lambda A: np.column_stack([A, A])}, lambda: (X, Y), ValueError,
        "linearly dependent",
    ),
    "basis and a constant column": (
        {"basis": "linear"}, lambda: (with_value(X, (slice(None), 1), 3.0), Y), ValueError,
        "3 basis functions .* 12 training inputs: those with number 0, 2, .* are constant",
    ),
    "basis and a column twice": (
        {"basis": "linear"}, lambda: (np.column_stack([X, X[:, 0]]), Y), ValueError,
        "number 3, counted from 0, is a combination",
    ),
    "noise set below zero": (
        {"kernel": RBF(), "loss": Gaussian().set_params(noise=-1.0)}, lambda: (X, Y), ValueError,
        "noise must be positive, got -1.0",
    ),
    "noise set to text": (
        {"kernel": RBF(), "loss": Gaussian().set_params(noise="low")}, lambda: (X, Y), ValueError,
        "numeric noise variance, not 'low'",
    ),
    "precomputed, not square": (
        {"kernel": "precomputed"}, lambda: (X, Y), ValueError, r"square matrix.*shape \(12, 2\)",
    ),
    "precomputed, not symmetric": (
        {"kernel": "precomputed"}, lambda: (with_value(np.eye(12), (3, 5), 0.5), Y), ValueError,
        r"not symmetric: k\(3, 5\) = 0.5 but k\(5, 3\) = 0",
    ),
    "a function that is not symmetric": (
        {"kernel": lambda A, B: A[:, :1] + 0.0 * B[:, :1].T}, lambda: (X, Y), ValueError,
        "not symmetric",
    ),
    "basis of the wrong shape": (
        {"basis": lambda A: np.ones((3, 1))}, lambda: (X, Y), ValueError, r"shape \(12, k\)",
    ),
    "repeats without noise": (
        {"kernel": RBF(), "loss": Gaussian(0.0), "search": None},
        lambda: (np.vstack([X, X[:1]]), np.append(Y, 9.0)), ValueError, "repeated inputs need noi",
    ),
    "repeats without noise, per row": (
        {"kernel": RBF(), "loss": Gaussian(np.zeros(13)), "search": None},
        lambda: (np.vstack([X, X[:1]]), np.append(Y, 9.0)), ValueError, "noise",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_refusal_and_the_old_model_stays(name: str) -> None:
    options, arguments, kind, message = CASES[name]
    model = GPRegressor(1.0 * RBF(), search=None).fit(OTHER, Y)
    before, names = model.predict(OTHER, return_std=True), sorted(vars(model))
    state = {k: v for k, v in vars(model).items() if k.endswith("_")}
    model.set_params(kernel=None, search=Optimize(restarts=0))
    model.set_params(**options)
    with pytest.raises(kind, match=message):
        model.fit(*arguments())
    assert sorted(vars(model)) == names
    assert model.n_features_in_ == 3
    assert all(vars(model)[k] is v for k, v in state.items())
    for a, b in zip(before, model.predict(OTHER, return_std=True), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_new_model_stays_unfitted() -> None:
    model = GPRegressor()
    with pytest.raises(ValueError, match="NaN"):
        model.fit(NAMED, Y)
    assert not [k for k in vars(model) if k.endswith("_")]


@pytest.mark.parametrize(
    "method", ["predict", "predict_latent", "predict_interval", "sample_y", "summary"]
)
def test_unfitted(method: str) -> None:
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        getattr(GPRegressor(), method)(*([] if method == "summary" else [X]))


def test_bad_new_inputs() -> None:
    model = GPRegressor(1.0 * RBF(), search=None).fit(X, Y)
    with pytest.raises(ValueError, match=r"1 features, but .* expecting 2"):
        model.predict(X[:, :1])
    with pytest.raises(ValueError, match="NaN in column 1, row 3"):
        model.predict(NAMED.to_numpy())
    with pytest.raises(ValueError, match="Expected 2D"):
        model.predict(X[0])


def test_bad_inputs_of_a_prior() -> None:
    model = GPRegressor()
    with pytest.raises(ValueError, match="Expected 2D array, got 1D"):
        model.sample_prior(X[:, 0])
    with pytest.raises(ValueError, match="NaN in column 'bmi', row 3"):
        model.sample_prior(NAMED)
    with pytest.raises(MemoryError, match="a joint draw"):
        model.sample_prior(np.zeros((1_000_000, 1)))
    assert model.sample_prior(X, 3).shape == (12, 3)


def test_noise_is_checked_where_it_is_used() -> None:
    loss = Gaussian().set_params(noise=-1.0)
    for ask in (
        lambda: loss.predict(0.0, 1.0),
        lambda: loss.quadratic(Y),
        lambda: loss.value(Y, Y),
    ):
        with pytest.raises(ValueError, match="noise variance >= 0"):
            ask()


def test_one_row_without_search() -> None:
    model = GPRegressor(2.0 * RBF(), loss=Gaussian(0.5), search=None).fit(X[:1], [3.0])
    assert model.predict(X[:1])[0] == pytest.approx(3.0 * 2.0 / 2.5)
    assert model.loo_.mean[0] == pytest.approx(0.0, abs=1e-12)
    assert model.loo_.variance[0] == pytest.approx(2.5)
    GPRegressor(search=None).fit(X[:1], [3.0]).predict(X)


@pytest.mark.parametrize("value", [0.0, 1.0, -3.7, 1e9, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
def test_constant_columns_do_not_matter(value: float, weighted: bool) -> None:
    A, y = table(40)
    A = A[:, :1]
    weights = np.random.default_rng(0).uniform(0.1, 3.0, 40) if weighted else None
    wide = np.column_stack([A, np.full(40, value)])
    plain = GPRegressor("rbf", search=Optimize(restarts=0)).fit(A, y, weights)
    model = GPRegressor("rbf", search=Optimize(restarts=0)).fit(wide, y, weights)
    np.testing.assert_allclose(model.predict(wide), plain.predict(A), atol=2e-2)
    assert np.all(np.isfinite(model.predict(wide + 1e-9, return_std=True)[1]))


def test_constant_targets() -> None:
    for value in (0.0, 5.0, -1e-8):
        model = GPRegressor().fit(X, np.full(12, value))
        mean, std = model.predict(X, return_std=True)
        np.testing.assert_allclose(mean, value, atol=1e-6 * abs(value) + 1e-12)
        assert np.all(np.isfinite(std))


def test_too_many_rows_are_refused_before_allocating() -> None:
    n = 300_000
    A = np.random.default_rng(0).normal(size=(n, 2))
    start = time.perf_counter()
    with pytest.raises(
        MemoryError, match=r"300000 rows needs .*GiB.*GiB are available; gram=.*or fit a"
    ):
        GPRegressor().fit(A, A[:, 0])
    assert time.perf_counter() - start < 3.0  # 0.5 s on an idle machine


def test_many_repeated_rows_are_few_points() -> None:
    """The need is counted in distinct rows."""
    A = np.random.default_rng(0).integers(0, 4, (200_000, 1)).astype(float)
    model = GPRegressor(search=Optimize(restarts=0)).fit(A, A[:, 0] ** 2)
    assert model.report_["rows"]["distinct"] == 4
    np.testing.assert_allclose(model.predict([[3.0]]), 9.0, atol=1e-2)


def test_indefinite_kernel_names_its_eigenvalue() -> None:
    def bad(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        distance = np.abs(A[:, None] - B[None]).sum(axis=2)
        return np.where(distance == 0, 1.0, 0.9 * np.cos(3 * distance))

    with pytest.raises(NotPositiveDefiniteError, match=r"smallest eigenvalue is -[0-9.]+"):
        KernelRegressor(Function(bad), loss=Gaussian(1e-6), search=None).fit(X, Y)
    assert issubclass(NotPositiveDefiniteError, ValueError)


def test_jitter_is_reported() -> None:
    A = np.linspace(0, 1, 40)[:, None]
    model = GPRegressor(RBF(10.0), loss=Gaussian(0.0), search=None).fit(A, np.sin(A[:, 0]))
    jitter = model.report_["inference"]["jitter"]
    assert 0 < jitter <= 1e-8
    assert f"{jitter:.1g}" in str(model.summary())
    fine = GPRegressor(Matern(nu=0.5), loss=Gaussian(0.1), search=None).fit(A, np.sin(A[:, 0]))
    assert fine.report_["inference"]["jitter"] == 0.0
    assert ("Numerics", "jitter", "none") in fine.summary().rows()
