"""The variational Gaussian on few inducing points: the bound, its limits, and its gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mercer.core.arrays import Array
from mercer.core.basis import PolynomialBasis
from mercer.inference import Exact, Variational
from mercer.inference.blocks.prepared import Prepared
from mercer.inference.blocks.sites import variational
from mercer.kernels import RBF, Kernel, Matern, White
from mercer.linalg import DenseGram
from mercer.linalg.blocks.local import LocalEngine
from mercer.linalg.reduced.gram import ReducedGram
from mercer.losses import Gaussian, Logistic, Poisson, Probit, StudentT
from tests.linalg.test_reduced import KERNEL, evaluated, table

SHARP = Variational(tol=1e-9, max_iter=500)
NOISY = 0.8 * RBF(length_scale=np.array([0.8, 1.2])) + White(0.3)


def labels() -> tuple[Array, Array]:
    X, y = table()
    return X, np.sign(y - 0.5)


def counts() -> tuple[Array, Array]:
    X, y = table()
    return X, np.random.default_rng(1).poisson(np.exp(0.5 * y)).astype(float)


def test_reference() -> None:
    X, y = labels()
    value, slopes, found = evaluated(ReducedGram(KERNEL, X, X[:12]), y, Logistic(), SHARP)
    assert value == pytest.approx(-45.8163133453, rel=1e-10)
    each = [np.exp(0.3) * slopes["variance"], *(slopes["kernel__length_scale"] * [0.8, 1.2])]
    assert each == pytest.approx([3.51797924, -1.31900392, 3.80877473], rel=1e-7)
    free = np.array(found.report.details["free_energies"])
    assert np.all(np.diff(free) <= 1e-10)
    assert free[-1] == pytest.approx(-value, rel=1e-12)


@pytest.mark.parametrize("kernel", [KERNEL, NOISY])
def test_gaussian_noise_is_the_collapsed_bound(kernel: Kernel) -> None:
    X, y = table()
    w = np.linspace(0.5, 2.0, 90)
    made = [ReducedGram(kernel, X, X[:12], block=b, keep=b is None) for b in (None, 37)]
    value, slopes, found = evaluated(made[0], y, Gaussian(0.05), SHARP, weights=w)
    # of weighted rows Exact gives the density of their means and what their copies add, as here
    exact, steps, other = evaluated(made[1], y, Gaussian(0.05), Exact(), weights=w)
    assert value == pytest.approx(exact, rel=1e-8)
    for path, slope in steps.items():
        assert slopes[path] == pytest.approx(slope, rel=1e-7)
    assert found.alpha == pytest.approx(other.alpha, rel=1e-7, abs=1e-9)


CASES: list[tuple[Any, Any]] = [
    (labels, Logistic()),
    (labels, Probit()),
    (counts, Poisson()),
    (table, StudentT(scale=0.3, df=4.0)),
]


@pytest.mark.parametrize(("data", "loss"), CASES)
@pytest.mark.parametrize("kernel", [KERNEL, NOISY])
def test_all_points_are_the_dense_model(data: Any, loss: Any, kernel: Kernel) -> None:
    X, y = (part[:40] for part in data())
    w = np.linspace(0.5, 2.0, 40)
    value, slopes, found = evaluated(ReducedGram(kernel, X, X), y, loss, SHARP, weights=w)
    dense = DenseGram(kernel, X, keep=True)
    exact, steps, other = evaluated(dense, y, loss, Variational(tol=1e-9), weights=w)
    assert found.report.converged
    assert value == pytest.approx(exact, rel=1e-8)
    for path, slope in steps.items():
        assert slopes[path] == pytest.approx(slope, rel=1e-6, abs=1e-6)
    assert pytest.approx(other.W, rel=1e-5, abs=1e-7) == found.W


ROUGH = 0.7 * Matern(nu=1.5, length_scale=np.array([0.9, 1.4])) + 0.2 * RBF(3.0)


@pytest.mark.parametrize(
    ("data", "loss", "kernel"),
    [(*case, kernel) for case, kernel in zip(CASES, [NOISY, ROUGH] * 2, strict=True)],
)
def test_gradients_are_differences(data: Any, loss: Any, kernel: Kernel) -> None:
    X, y = data()
    Z, w = X[:8] + 0.05, np.linspace(0.5, 2.0, 90)

    def solved(kernel: Kernel, Z: Array, loss: Any) -> Any:
        gram = ReducedGram(kernel, X, Z)
        found = SHARP.solve(gram, y, loss, weights=w)
        return gram, found, SHARP.evidence(gram, y, loss, found)

    gram, found, evidence = solved(kernel, Z, loss)
    slopes, points = gram.slopes(found.alpha, found.factor, moved=True)
    h = 1e-5
    for path, owner, name in kernel.differentiable():
        for i in np.ndindex(np.shape(getattr(owner, name))):
            ends = []
            for sign in (1.0, -1.0):
                moved = np.array(getattr(owner, name), dtype=float)
                moved[i] *= 1.0 + sign * h
                given = moved if moved.ndim else float(moved)
                ends.append(solved(kernel.replaced({path: given}), Z, loss)[2].value)
            scale = float(np.asarray(getattr(owner, name))[i])
            expected = (ends[0] - ends[1]) / (2.0 * h * scale)
            assert np.asarray(slopes[path])[i] == pytest.approx(expected, rel=1e-6, abs=1e-5)
    for i, j in [(0, 0), (5, 1)]:
        ends = []
        for step in (h, -h):
            shifted = Z.copy()
            shifted[i, j] += step
            ends.append(solved(kernel, shifted, loss)[2].value)
        assert points[i, j] == pytest.approx((ends[0] - ends[1]) / (2.0 * h), rel=1e-5, abs=1e-5)
    for name, slope in evidence.loss_gradient.items():
        at = float(getattr(loss, name))
        ends = [solved(kernel, Z, loss.replaced({name: at * (1.0 + s)}))[2].value for s in (h, -h)]
        assert slope == pytest.approx((ends[0] - ends[1]) / (2.0 * h * at), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(("data", "loss"), CASES)
def test_it_is_a_lower_bound_that_rises_with_the_points(data: Any, loss: Any) -> None:
    X, y = (part[:60] for part in data())
    values = [
        evaluated(ReducedGram(NOISY, X, X[:m]), y, loss, Variational())[0] for m in (3, 9, 27, 60)
    ]
    dense = evaluated(DenseGram(NOISY, X, keep=True), y, loss, Variational())[0]
    assert np.all(np.diff(values) > -1e-6)
    assert values[-1] == pytest.approx(dense, rel=1e-7)


@pytest.mark.parametrize(("data", "loss"), CASES[:3])
def test_weights_are_repeated_rows(data: Any, loss: Any) -> None:
    X, y = (part[:50] for part in data())
    times = np.random.default_rng(2).integers(1, 4, 50)
    rows = np.repeat(np.arange(50), times)
    Z = X[:9]
    value, slopes, found = evaluated(
        ReducedGram(KERNEL, X, Z), y, loss, SHARP, weights=times.astype(float)
    )
    gram = ReducedGram(KERNEL, X[rows], Z)
    other, steps, all_ = evaluated(gram, y[rows], loss, SHARP)
    assert value == pytest.approx(other, rel=1e-8)
    for path, slope in steps.items():
        assert slopes[path] == pytest.approx(slope, rel=1e-6, abs=1e-7)
    few = ReducedGram(KERNEL, X, Z).carry(found.alpha)
    assert few == pytest.approx(gram.carry(all_.alpha), rel=1e-6, abs=1e-8)


def test_a_start_nearby_saves_passes() -> None:
    X, y = labels()
    gram, near = (ReducedGram(k, X, X[:12]) for k in (KERNEL, 1.02 * KERNEL))
    cold = Variational().solve(near, y, Logistic())
    warm = Variational().solve(near, y, Logistic(), start=Variational().solve(gram, y, Logistic()))
    assert warm.report.details["factorisations"] < cold.report.details["factorisations"]
    assert warm.alpha == pytest.approx(cold.alpha, abs=1e-5)


def test_two_outputs_add_up() -> None:
    X, y = labels()
    both = np.hstack([y, np.sign(X[:, :1])])
    gram = ReducedGram(KERNEL, X, X[:12])
    value, slopes, found = evaluated(gram, both, Logistic(), SHARP)
    each = [evaluated(gram, both[:, j : j + 1], Logistic(), SHARP) for j in (0, 1)]
    assert value == pytest.approx(each[0][0] + each[1][0], rel=1e-12)
    for path, slope in slopes.items():
        assert slope == pytest.approx(each[0][1][path] + each[1][1][path], rel=1e-9)
    assert found.factor.charge() is not None


@pytest.mark.parametrize(("variance", "scale"), [(1.0, 1.0), (9.0, 1.0), (100.0, 3.0)])
@pytest.mark.parametrize("basis", [None, PolynomialBasis(0)])
def test_large_counts_end_where_passes_over_blocks_do(
    variance: float, scale: float, basis: Any
) -> None:
    """Sites of counts are large beside the weights a, and K a must not be found from them."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, (600, 2))
    y = rng.poisson(np.exp(np.sin(X[:, 0]) + 0.5 * X[:, 1])).astype(float)
    kernel, Z = variance * RBF(scale), X[:40]
    H = None if basis is None else basis(X)
    gram, given = ReducedGram(kernel, X, Z), Variational()
    found = given.solve(gram, y[:, None], Poisson(), basis=H)
    assert found.report.converged
    assert found.report.iterations < 20
    value = given.evidence(gram, y[:, None], Poisson(), found).value
    prepared = Prepared(np.zeros(2), np.ones(2), basis=basis)
    engine = LocalEngine.of_arrays(X, y, None, size=200)
    assert value == pytest.approx(variational(engine, prepared, kernel, Poisson(), Z).value, 1e-9)
