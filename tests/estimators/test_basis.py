"""Unpenalised basis functions as parameters of the estimator."""

from __future__ import annotations

import numpy as np
import pytest

from mercer import GPRegressor
from mercer.basis import FunctionBasis, PolynomialBasis, as_basis
from mercer.kernels import RBF
from mercer.losses import Gaussian
from mercer.search import Optimize
from mercer.testing import check_component


def data(n: int = 30) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(6)
    X = rng.uniform(0, 10, (n, 2))
    y = 4.0 + 2.0 * X[:, 0] - X[:, 1] + np.sin(X[:, 0]) + 0.2 * rng.normal(size=n)
    return X, y, rng.uniform(0, 10, (5, 2))


def test_names_and_degrees() -> None:
    assert as_basis(None) is None
    for name, degree in (("constant", 0), ("linear", 1), ("quadratic", 2), ("cubic", 3)):
        assert as_basis(name) == as_basis(degree) == PolynomialBasis(degree)
    own = FunctionBasis(np.sin)
    assert as_basis(own) is own
    assert as_basis(np.sin) == own
    with pytest.raises(TypeError, match="basis must be"):
        as_basis(True)
    check_component(PolynomialBasis(2))


def test_monomials() -> None:
    H = PolynomialBasis(2)(np.array([[2.0, 3.0]]))
    np.testing.assert_array_equal(H, [[1, 2, 3, 4, 6, 9]])
    assert PolynomialBasis(3)(np.ones((4, 3))).shape == (4, 20)


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_units_of_monomials(degree: int, rng: np.random.Generator) -> None:
    """log |det T| of h(x) = T h(x / scale)."""
    scale, X = np.array([3.0, 0.2]), rng.normal(size=(40, 2))
    basis = PolynomialBasis(degree)
    T = np.linalg.lstsq(basis(X / scale), basis(X))[0].T
    assert basis.logdet_units(scale) == pytest.approx(np.linalg.slogdet(T)[1], abs=1e-8)


@pytest.mark.parametrize("kernel", [None, 1.0 * RBF(2.0)])
def test_own_functions_see_the_users_columns(kernel: object) -> None:
    X, y, Z = data()
    seen = []

    def plane(A: np.ndarray) -> np.ndarray:
        seen.append(A.copy())
        return np.column_stack([np.ones(len(A)), A])

    search = Optimize(restarts=0)
    own = GPRegressor(kernel, basis=plane, search=search).fit(X, y)
    named = GPRegressor(kernel, basis="linear", search=search).fit(X, y)
    np.testing.assert_allclose(own.predict(Z), named.predict(Z), atol=1e-5)
    assert own.log_evidence_ == pytest.approx(named.log_evidence_, abs=1e-4)
    np.testing.assert_allclose(np.sort(seen[0], axis=0), np.sort(X, axis=0), rtol=1e-12)


def test_extrapolation_follows_the_line() -> None:
    X, y, _ = data()
    far = np.array([[1000.0, 0.0], [1001.0, 0.0]])
    with_line = GPRegressor(basis="linear").fit(X, y).predict(far)
    assert with_line[1] - with_line[0] == pytest.approx(2.0, abs=0.1)
    without = GPRegressor().fit(X, y).predict(far)
    np.testing.assert_allclose(without, y.mean(), atol=1e-3)


@pytest.mark.parametrize("shift", [0.0, 1e5])
@pytest.mark.parametrize("degree", [1, 2, 3])
def test_large_inputs_are_not_dependent(degree: int, shift: float) -> None:
    """Powers of 1e5 differ by many orders: full rank all the same, for kernel objects too."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0, 1e5, 40))
    y = 3 * (x / 1e5) ** degree + 0.01 * rng.normal(size=40)
    kernel = (1e-4 * RBF(1e4)).fix()
    model = GPRegressor(kernel, loss=Gaussian(1e-4), search=None, basis=degree)
    model.fit(x[:, None] + shift, y)
    assert model.score(x[:, None] + shift, y) > 0.999


def test_shifted_targets_shift_predictions_only() -> None:
    X, y, Z = data()
    kernel = 1.0 * RBF(2.0)
    a = GPRegressor(kernel, basis="constant").fit(X, y)
    b = GPRegressor(kernel, basis="constant").fit(X, y + 1e4)
    # the targets are almost linear: length scale and variance run up a flat ridge together
    np.testing.assert_allclose(b.predict(Z) - 1e4, a.predict(Z), atol=1e-3)
    assert b.log_evidence_ == pytest.approx(a.log_evidence_, abs=1e-3)


def test_basis_is_in_the_summary() -> None:
    X, y, _ = data()
    text = str(GPRegressor(basis="linear").fit(X, y).summary())
    assert "PolynomialBasis(degree=1)" in text


def test_degrees_of_freedom_count_the_basis() -> None:
    X, y, _ = data()
    kernel = 1e-10 * RBF()
    model = GPRegressor(kernel, loss=Gaussian(0.1), search=None, basis="linear").fit(X, y)
    assert model.report_["degrees_of_freedom"] == pytest.approx(3.0, abs=1e-6)
