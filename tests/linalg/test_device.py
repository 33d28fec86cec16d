"""The dense algebra on arrays of Torch: that of NumPy, in place, and nothing large moves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mercer.core.device import panels
from mercer.core.device.accelerator import Accelerator, accelerator
from mercer.core.device.array import DeviceArray
from mercer.core.errors import NotPositiveDefiniteError
from mercer.inference import EP, Exact, Laplace, Variational
from mercer.kernels import RBF, Constant, Linear, Matern, RationalQuadratic, Stationary, Wendland
from mercer.linalg import DenseGram
from mercer.linalg.dense.gram import RecycledGrams
from mercer.losses import Gaussian, Logistic, Probit

N = 130


@pytest.fixture(autouse=True)
def _small_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panels, "WIDTH", 16)
    monkeypatch.setattr("mercer.core.device.accelerator.TILE", 40 * N)


def opened(device: str) -> Accelerator:
    found = accelerator(device)
    assert found is not None
    return found


class Logarithmic(Stationary):
    """A kernel of one's own, k = 1 / (1 + log(1 + s)): only its formula is known."""

    def profile(self, s):
        return 1.0 / (1.0 + np.log1p(s))

    def slope(self, s):
        return -1.0 / (1.0 + np.log1p(s)) ** 2 / (1.0 + s)


def test_triangles_by_panels(device, rng) -> None:
    """Factor, inverse, its square and products; below the diagonal nothing is read or written."""
    A = rng.normal(size=(77, 77))
    A = A @ A.T + 77.0 * np.eye(77)
    on, B = opened(device), rng.normal(size=(77, 3))
    T = on.put(A)
    assert T.cholesky() == 0
    L = np.linalg.cholesky(A)
    np.testing.assert_allclose(np.triu(T.fetched()), L.T, rtol=1e-12, atol=1e-12)
    for how, expected in (("half_solve", L), ("back_solve", L.T)):
        np.testing.assert_allclose(T.solved(how, B), np.linalg.solve(expected, B), atol=1e-12)

    marks = np.tril(rng.normal(size=(77, 77)), -1)  # something else that lies there
    T = on.put(L.T + marks)
    T.half_inverse()
    inverse = np.linalg.inv(L)
    np.testing.assert_allclose(T.fetched(), inverse.T + marks, atol=1e-13)
    np.testing.assert_allclose(T.half_product(B), inverse @ B, atol=1e-13)
    np.testing.assert_allclose(T.back_product(B), inverse.T @ B, atol=1e-13)
    np.testing.assert_allclose(T.inverse_diag(), np.diagonal(np.linalg.inv(A)), rtol=1e-12)
    T.inverse_of_half()
    np.testing.assert_allclose(np.triu(T.fetched()), np.triu(np.linalg.inv(A)), atol=1e-14)
    np.testing.assert_array_equal(np.tril(T.fetched(), -1), marks)
    T.swap_triangles()
    np.testing.assert_array_equal(np.triu(T.fetched(), 1), marks.T)

    A[40, 40] = -1.0
    assert on.put(A).cholesky() == 41


KERNELS = [
    2.0 * RBF(np.array([1.0, 2.0, 0.7])),
    Matern(nu=0.5) + 0.3 * RBF().on([1]),
    1.5 * Matern(nu=1.5) * Matern(nu=2.5, length_scale=2.0).on([0, 2]),
    RationalQuadratic(0.7) + Constant(2.0) + 0.2 * Linear(),
    Constant(1.0) + Matern(nu=3.5) ** 2,
    1.3 * Logarithmic(1.4) + Wendland(dims=3, length_scale=4.0),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_evidence_and_gradient(kernel, device, rng) -> None:
    X = rng.normal(size=(N, 3))
    X[7] = X[90] + 1e-9  # differences, not a difference of squares
    y, H = np.sin(X[:, :1]) + 0.1 * rng.normal(size=(N, 1)), np.column_stack([np.ones(N), X])
    loss, found = Gaussian(0.05), []
    for on in (None, opened(device)):
        gram = DenseGram(kernel, X, scratch=True, device=on)
        solution = Exact().solve(gram, y, loss, basis=H)
        evidence = Exact().evidence(gram, y, loss, solution)
        slopes = gram.pullback(solution.alpha, solution.factor) | evidence.loss_gradient
        found.append({"value": evidence.value, "beta": solution.beta, **slopes})
    for name, expected in found[0].items():
        np.testing.assert_allclose(found[1][name], expected, rtol=1e-8, atol=1e-10, err_msg=name)


@pytest.mark.parametrize(
    ("inference", "loss"),
    [(Laplace(), Logistic()), (EP(), Probit()), (Variational(), Logistic())],
    ids=["laplace", "ep", "variational"],
)
def test_sites(inference, loss, device, rng) -> None:
    """The inferences of labels do not see where K is; the extra term of Laplace included."""
    X = rng.normal(size=(N, 2))
    y = np.where(X[:, :1] + 0.3 * rng.normal(size=(N, 1)) > 0, 1.0, -1.0)
    found: list[dict[str, Any]] = []
    for on in (None, opened(device)):
        gram = DenseGram(3.0 * RBF(1.5) + Constant(1.0), X, keep=True, scratch=True, device=on)
        solution = inference.solve(gram, y, loss)
        evidence = inference.evidence(gram, y, loss, solution)
        slopes = gram.pullback(solution.alpha, solution.factor, evidence.U, evidence.V)
        found.append({"value": evidence.value, "W": solution.W, **slopes})
    for name, expected in found[0].items():
        np.testing.assert_allclose(found[1][name], expected, rtol=1e-8, atol=1e-10, err_msg=name)


def test_one_array_and_no_large_transfer(device, rng, monkeypatch) -> None:
    """A search holds one n x n array there, and brings back columns of n numbers at most."""
    moved, made = [], []
    fetched, empty = DeviceArray.fetched, Accelerator.empty
    monkeypatch.setattr(DeviceArray, "fetched", lambda T: moved.append(T.size) or fetched(T))
    monkeypatch.setattr(Accelerator, "empty", lambda on, *s: made.append(s) or empty(on, *s))
    X = rng.normal(size=(N, 3))
    y, loss, grams = np.sin(X[:, :1]), Gaussian(0.1), RecycledGrams(opened(device))
    for scale in (0.8, 1.0, 1.3):
        gram = grams(2.0 * RBF(scale), X, scratch=True)
        solution = Exact().solve(gram, y, loss)
        Exact().evidence(gram, y, loss, solution)
        gram.pullback(solution.alpha, solution.factor)
    assert made == [(N, N)]
    assert 0 < max(moved) <= N


@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_products_by_tiles(kernel, precision, device, rng, monkeypatch) -> None:
    """k(X, Z) V with points on a device: to the precision that is said, whatever V's columns are.

    An entry of the result is compared with the sum of the sizes of its terms.
    """
    monkeypatch.setattr("mercer.core.device.accelerator.TILE", 60)
    X, Z, V = rng.normal(size=(23, 3)), rng.normal(size=(40, 3)), rng.normal(size=(40, 4))
    V *= np.array([1.0, 0.0, 1e-60, 1e60])  # single precision has no such numbers
    put, K = opened(device).put, kernel(X, Z)
    allowed = {"double": 1e-13, "single": 2e-6}[precision] * (np.abs(K) @ np.abs(V))
    for left in (put(X), X):
        found = kernel.matmul(left, put(Z), V, precision=precision)
        assert found.dtype == np.float64
        assert np.all(np.abs(found - K @ V) <= allowed)


def test_tiles_are_all_that_is_held(device, rng, monkeypatch) -> None:
    """No distances of more entries than a tile has, and n x r numbers come back, no more."""
    monkeypatch.setattr("mercer.core.device.accelerator.TILE", 100)
    formed, moved = [], []
    squares, fetched = DeviceArray.squares, DeviceArray.fetched

    def watched(T: DeviceArray, Z: DeviceArray) -> DeviceArray:
        s = squares(T, Z)
        formed.append((s.size, str(s.data.dtype)))
        return s

    monkeypatch.setattr(DeviceArray, "squares", watched)
    monkeypatch.setattr(DeviceArray, "fetched", lambda T: moved.append(T.shape) or fetched(T))
    P = opened(device).put(rng.normal(size=(35, 3)))
    KERNELS[2].matmul(P, P, np.ones((35, 2)), precision="single")
    assert max(size for size, _ in formed) == 100
    assert {kind for _, kind in formed} == {"torch.float32"}
    assert moved == [(35, 2)]


def test_the_same_sentence_where_k_is_not_positive(device, rng) -> None:
    X = rng.normal(size=(30, 2))
    for on in (None, opened(device)):
        with pytest.raises(NotPositiveDefiniteError, match="smallest eigenvalue is -"):
            DenseGram(NotAKernel(), X, device=on).factor(np.full(30, 1e6))


class NotAKernel(Stationary):
    """A function of the distance that is not positive definite."""

    def profile(self, s):
        return 1.0 - 0.5 * s
