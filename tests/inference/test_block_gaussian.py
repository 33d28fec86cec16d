"""The collapsed bound from sums over blocks against the one of rows in memory, and differences."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from mercer.core.arrays import Array
from mercer.core.basis import PolynomialBasis
from mercer.estimators.shared.inducing import Reduced
from mercer.inference import Exact
from mercer.inference.blocks.collapsed import gaussian, gaussian_slopes
from mercer.inference.blocks.prepared import Prepared
from mercer.kernels import RBF, Kernel, Linear, Matern, Precomputed, White
from mercer.linalg.blocks.engine import RowBlock
from mercer.linalg.blocks.local import LocalEngine
from mercer.losses import Gaussian

KERNEL = 1.4 * RBF(length_scale=np.array([0.8, 1.2]))
KERNELS: list[Kernel] = [
    KERNEL,
    0.7 * Matern(nu=1.5, length_scale=0.9) + 0.2 * Linear(),
    0.9 * RBF(0.8) + White(0.1),
]


def table(n: int = 90, outputs: int = 2) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = np.sin(2.0 * X[:, :1]) + X[:, 1:] ** 2 / 2.0 + 0.2 * rng.normal(size=(n, outputs))
    return X, y, np.linspace(0.5, 2.0, n)


def plain(basis: Any = None) -> Prepared:
    return Prepared(np.zeros(2), np.ones(2), np.zeros(1), np.ones(1), basis=basis)


def by_rows(
    kernel: Kernel, loss: Any, Z: Array, basis: Any, X: Array, y: Array, w: Array
) -> tuple[Any, ...]:
    """Value, gradients, solution and Gram of rows that are in memory."""
    gram = Reduced(Z, False)(kernel, X, scratch=False)
    H = None if basis is None else basis(X)
    found = Exact().solve(gram, y, loss, basis=H, weights=w)
    evidence = Exact().evidence(gram, y, loss, found)
    slopes, points = gram.slopes(found.alpha, found.factor, moved=True)
    return evidence, slopes, points, found, gram


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("basis", [None, PolynomialBasis(0), PolynomialBasis(1)])
@pytest.mark.parametrize("size", [90, 37, 4])
def test_blocks_are_the_rows_in_memory(kernel: Kernel, basis: Any, size: int) -> None:
    X, y, w = table()
    loss, Z = Gaussian(0.05), X[:12] + 0.01
    engine, prepared = LocalEngine.of_arrays(X, y, w, size=size), plain(basis)
    blocks = gaussian(engine, prepared, kernel, loss, Z)
    evidence, slopes, points, found, gram = by_rows(kernel, loss, Z, basis, X, y, w)
    assert blocks.value == pytest.approx(evidence.value, rel=1e-10)
    assert blocks.alpha == pytest.approx(gram.carry(found.alpha), rel=1e-9, abs=1e-10)
    assert blocks.operator.root == pytest.approx(found.factor.R, rel=1e-10, abs=1e-12)
    if basis is not None:
        assert blocks.beta == pytest.approx(found.beta, rel=1e-10)
    assert blocks.report.details["explained"] == pytest.approx(gram.report()["explained"])
    assert blocks.report.details["passes"] == 1
    free = blocks.report.details["degrees_of_freedom"]
    if gram.signal is kernel:
        assert free == pytest.approx((1.0 - found.factor.diag() / found.W).sum(), rel=1e-8)
    else:
        assert free is None
    by_part = gaussian_slopes(engine, prepared, loss, blocks, moved=True)
    for path, slope in slopes.items():
        assert by_part["kernel"][path] == pytest.approx(slope, rel=1e-10)
    assert by_part["loss"]["noise"] == pytest.approx(evidence.loss_gradient["noise"], rel=1e-10)
    top = np.abs(points).max()
    assert by_part["inducing"]["points"] == pytest.approx(points, rel=1e-9, abs=1e-10 * top)


def test_gradients_are_differences() -> None:
    X, y, w = table()
    Z, basis, h = X[:8] + 0.03, PolynomialBasis(0), 1e-5
    engine, prepared = LocalEngine.of_arrays(X, y, w, size=40), plain(basis)

    def value(kernel: Kernel = KERNEL, noise: float = 0.05, Z: Array = Z) -> float:
        return gaussian(engine, prepared, kernel, Gaussian(noise), Z).value

    def difference(at: Any) -> float:
        return (at(h) - at(-h)) / (2.0 * h)

    loss = Gaussian(0.05)
    found = gaussian_slopes(
        engine, prepared, loss, gaussian(engine, prepared, KERNEL, loss, Z), moved=True
    )
    slope = difference(lambda t: value(KERNEL.replaced({"variance": 1.4 + t})))
    assert found["kernel"]["variance"] == pytest.approx(slope, rel=1e-6)
    assert found["loss"]["noise"] == pytest.approx(
        difference(lambda t: value(noise=0.05 + 0.01 * t)) / 0.01, rel=1e-6
    )
    step = np.zeros_like(Z)
    step[3, 1] = 1.0
    slope = difference(lambda t: value(Z=Z + t * step))
    assert found["inducing"]["points"][3, 1] == pytest.approx(slope, rel=1e-5)


def test_tiny_noise_by_reflections() -> None:
    X, y, w = table(200, 1)
    y = KERNEL(X, X[:12]) @ np.linspace(-1.0, 1.0, 12)[:, None]
    loss, Z = Gaussian(1e-11), X[:12]
    engine = LocalEngine.of_arrays(X, y, w, size=60)
    blocks = gaussian(engine, plain(PolynomialBasis(0)), KERNEL, loss, Z)
    evidence, *_ = by_rows(KERNEL, loss, Z, PolynomialBasis(0), X, y, w)
    assert blocks.report.details["reflections"]
    assert blocks.report.details["passes"] == 2
    assert blocks.value == pytest.approx(evidence.value, rel=1e-6)
    assert KERNEL(X, Z) @ blocks.alpha + blocks.beta[0] == pytest.approx(y, abs=1e-6)


def test_bits_do_not_depend_on_workers_and_rows_without_weight_are_none() -> None:
    X, y, w = table(300)
    loss, Z, prepared = Gaussian(0.05), X[:10], plain(PolynomialBasis(0))
    engines = [LocalEngine.of_arrays(X, y, w, size=23, workers=k) for k in (1, 3)]
    one, three = (gaussian(e, prepared, KERNEL, loss, Z) for e in engines)
    assert (one.value, one.alpha.tobytes()) == (three.value, three.alpha.tobytes())
    slopes = [gaussian_slopes(e, prepared, loss, one, moved=True) for e in engines]
    assert slopes[0]["inducing"]["points"].tobytes() == slopes[1]["inducing"]["points"].tobytes()
    more = np.vstack([X, 5.0 + X[:46]]), np.vstack([y, y[:46]]), np.append(w, np.zeros(46))
    engine = LocalEngine.of_arrays(*more, size=23)
    again = gaussian(engine, prepared, KERNEL, loss, Z)
    assert again.value == pytest.approx(one.value, rel=1e-13)
    slope = gaussian_slopes(engine, prepared, loss, again)["kernel"]["variance"]
    assert slope == pytest.approx(slopes[0]["kernel"]["variance"], rel=1e-11)


def test_repeated_points_are_dropped_and_stay_where_they_are() -> None:
    X, y, w = table()
    Z = np.vstack([X[:8], X[:2]])
    engine, prepared, loss = LocalEngine.of_arrays(X, y, w, size=40), plain(), Gaussian(0.05)
    found = gaussian(engine, prepared, KERNEL, loss, Z)
    assert found.used.tolist() == [True] * 8 + [False] * 2
    assert found.value == pytest.approx(
        gaussian(engine, prepared, KERNEL, loss, X[:8]).value, rel=1e-12
    )
    slopes = gaussian_slopes(engine, prepared, loss, found, moved=True)["inducing"]["points"]
    assert np.all(slopes[8:] == 0.0)
    assert np.all(slopes[:8] != 0.0)


def test_refuses_what_is_of_rows_in_memory() -> None:
    X, y, w = table(10)
    engine = LocalEngine.of_arrays(X, y, w)
    with pytest.raises(ValueError, match="described by their inputs alone"):
        gaussian(engine, plain(), Precomputed(), Gaussian(0.1), X[:2])
    with pytest.raises(ValueError, match="described by their inputs alone"):
        gaussian(engine, plain(), KERNEL, Gaussian(np.full(10, 0.1)), X[:2])


def test_prepared_rows() -> None:
    X, labels = np.array([[1.0, 0.0], [3.0, 2.0], [5.0, 4.0]]), np.array(["b", "a", "c"])
    kept: dict[str, Any] = {"classes": np.array(["a", "b", "c"]), "basis": PolynomialBasis(1)}
    given = Prepared(np.ones(2), np.full(2, 2.0), **kept, coding="rest")
    given = pickle.loads(pickle.dumps(given))
    rows = given(RowBlock(3, X, labels, np.array([1.0, 0.0, 2.0])))
    assert rows.X.tolist() == [[0.0, -0.5], [2.0, 1.5]]
    assert rows.y.tolist() == [[-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]]
    assert rows.w.tolist() == [1.0, 2.0]
    assert rows.H is not None
    assert rows.H.shape == (2, 3)
    codes = Prepared(np.ones(2), np.ones(2), **kept, coding="codes", class_weights=np.arange(3.0))
    rows = codes(RowBlock(0, X, labels, np.ones(3)))
    assert rows.y.tolist() == [[1.0], [2.0]]
    assert rows.w.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="row 1 of block 7"):
        codes(RowBlock(7, X, np.array(["a", "z", "b"]), np.ones(3)))
