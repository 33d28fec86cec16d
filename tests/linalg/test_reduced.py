"""The reduced prior against the dense one, differences, and stored reference values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mercer.core.arrays import Array
from mercer.inference import EP, Exact, Laplace
from mercer.kernels import RBF, Kernel, Linear, Matern, Periodic, White
from mercer.linalg import DenseGram
from mercer.linalg.reduced.gram import ReducedGram
from mercer.losses import Gaussian, Logistic, Probit
from mercer.process.process import Prior
from mercer.testing import check_gram, check_process

KERNEL = np.exp(0.3) * RBF(length_scale=np.array([0.8, 1.2]))


def table() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] ** 2 / 2.0 + np.sqrt(0.05) * rng.normal(size=90)
    return X, y[:, None]


def evaluated(
    gram: Any, y: Array, loss: Any, inference: Any, **given: Any
) -> tuple[float, dict[str, Any], Any]:
    found = inference.solve(gram, y, loss, **given)
    evidence = inference.evidence(gram, y, loss, found)
    slopes = gram.pullback(found.alpha, found.factor, evidence.U, evidence.V)
    return (
        evidence.value,
        {**slopes, **{f"loss_{k}": v for k, v in evidence.loss_gradient.items()}},
        found,
    )


def test_the_table_of_the_reference() -> None:
    assert np.allclose(table()[1][:3, 0], [0.21181196, 0.73056928, -0.67536849], atol=1e-8)


def test_collapsed_bound_reference() -> None:
    X, y = table()
    gram = ReducedGram(KERNEL, X, X[:12])
    value, slopes, found = evaluated(gram, y, Gaussian(0.05), Exact())
    assert value == pytest.approx(-302.0839898791, rel=1e-10)
    l1, l2 = slopes["kernel__length_scale"] * np.array([0.8, 1.2])
    assert np.exp(0.3) * slopes["variance"] == pytest.approx(-120.31765709, rel=1e-8)
    assert l1 == pytest.approx(547.67183275, rel=1e-8)
    assert l2 == pytest.approx(274.73418632, rel=1e-8)
    assert 0.05 * slopes["loss_noise"] == pytest.approx(274.22006976, rel=1e-8)
    assert gram.carry(found.alpha)[:2, 0] == pytest.approx([15.48007719, -5.21783005], rel=1e-8)
    assert 2.0 * found.factor.charge().value == pytest.approx(258.4479533037, rel=1e-10)


def test_collapsed_bound_with_a_basis_reference() -> None:
    X, y = table()
    H = np.column_stack([np.ones(90), X[:, 0]])
    value, _, found = evaluated(ReducedGram(KERNEL, X, X[:12]), y, Gaussian(0.05), Exact(), basis=H)
    assert value == pytest.approx(-234.1381940796, rel=1e-10)
    assert found.beta[:, 0] == pytest.approx([2.13672368, -0.44999202], rel=1e-7)


@pytest.mark.parametrize(
    ("inference", "loss", "value", "slope"),
    [
        (Laplace(), Logistic(), -44.7239477713, [4.37938759, -3.04052395, 2.45984322]),
        (EP(tol=1e-10), Probit(), -40.2601148223, [3.37068747, -0.54600526, 2.20844076]),
    ],
)
def test_sites_on_the_corrected_prior_reference(
    inference: Any, loss: Any, value: float, slope: list[float]
) -> None:
    X, y = table()
    labels = np.sign(y - 0.5)
    found, slopes, _ = evaluated(
        ReducedGram(KERNEL, X, X[:12], corrected=True), labels, loss, inference
    )
    assert found == pytest.approx(value, rel=1e-8)
    each = [np.exp(0.3) * slopes["variance"], *(slopes["kernel__length_scale"] * [0.8, 1.2])]
    assert each == pytest.approx(slope, rel=1e-6)


KERNELS = [
    KERNEL,
    0.7 * Matern(nu=1.5, length_scale=0.9) + 0.2 * Linear(),
    1.3 * (RBF(0.8).on(0) * Matern(nu=2.5).on(1)) + White(0.1),
]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("corrected", [False, True])
@pytest.mark.parametrize("basis", [False, True])
def test_gradients_are_differences(kernel: Kernel, corrected: bool, basis: bool) -> None:
    X, y = table()
    y = np.hstack([y, np.cos(y)])  # two outputs
    w = np.linspace(0.5, 2.0, 90)
    given: dict[str, Any] = {
        "weights": w,
        "basis": np.column_stack([np.ones(90), X[:, 0]]) if basis else None,
    }

    def value(kernel: Kernel, noise: float = 0.05) -> float:
        gram = ReducedGram(kernel, X, X[:12], corrected=corrected)
        return evaluated(gram, y, Gaussian(noise), Exact(), **given)[0]

    gram = ReducedGram(kernel, X, X[:12], corrected=corrected, block=37, keep=False)
    _, slopes, _ = evaluated(gram, y, Gaussian(0.05), Exact(), **given)
    h = 1e-5
    for path, owner, name in kernel.differentiable():
        for i in np.ndindex(np.shape(getattr(owner, name))):
            ends = []
            for sign in (1.0, -1.0):
                moved = np.array(getattr(owner, name), dtype=float)
                moved[i] *= 1.0 + sign * h
                ends.append(value(kernel.replaced({path: moved if moved.ndim else float(moved)})))
            scale = float(np.asarray(getattr(owner, name))[i])
            expected = (ends[0] - ends[1]) / (2.0 * h * scale)
            assert np.asarray(slopes[path])[i] == pytest.approx(expected, rel=2e-6, abs=1e-5)
    expected = (value(kernel, 0.05 * (1 + h)) - value(kernel, 0.05 * (1 - h))) / (0.1 * h)
    assert slopes["loss_noise"] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("kernel", [*KERNELS, KERNEL + 0.1 * White()])
def test_gradient_in_the_inducing_points(kernel: Kernel) -> None:
    X, y = table()
    Z = X[:7] + 0.05
    loss, inference = Gaussian(0.05), Exact()
    gram = ReducedGram(kernel, X, Z)
    found = inference.solve(gram, y, loss)
    slope = gram.slopes(found.alpha, found.factor, moved=True)[1]
    assert slope is not None
    for i, j in [(0, 0), (3, 1), (6, 0)]:
        ends = []
        for h in (1e-5, -1e-5):
            moved = Z.copy()
            moved[i, j] += h
            ends.append(evaluated(ReducedGram(kernel, X, moved), y, loss, inference)[0])
        assert slope[i, j] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize(
    "kernel", [KERNEL, 1.3 * Matern(nu=0.5), 0.5 * Periodic().on(0) + RBF(0.5)]
)
@pytest.mark.parametrize("corrected", [False, True])
def test_all_points_are_the_dense_model(kernel: Kernel, corrected: bool) -> None:
    X, y = table()
    X, y = X[:40], y[:40]
    H = np.ones((40, 1))
    for loss, inference, basis in [(Gaussian(0.05), Exact(), None), (Gaussian(0.05), Exact(), H)]:
        gram = ReducedGram(kernel, X, X, corrected=corrected)
        value, slopes, found = evaluated(gram, y, loss, inference, basis=basis)
        dense = DenseGram(kernel, X, keep=True)
        exact, steps, other = evaluated(dense, y, loss, inference, basis=basis)
        assert value == pytest.approx(exact, rel=1e-8)
        for path, slope in steps.items():
            assert slopes[path] == pytest.approx(slope, rel=1e-6, abs=1e-6)
        for name in ("diag", "cov_diag"):
            if basis is None or name == "diag":
                assert getattr(found.factor, name)() == pytest.approx(
                    getattr(other.factor, name)(), rel=1e-6, abs=1e-9
                )
        h = None if basis is None else (lambda x: np.ones((len(x), 1)))
        new = np.random.default_rng(1).normal(size=(9, 2))
        few = Prior(kernel).condition(X, found, h, gram)
        all_ = Prior(kernel).condition(X, other, h)
        assert few.mean(new) == pytest.approx(all_.mean(new), rel=1e-6, abs=1e-8)
        assert few.var(new) == pytest.approx(all_.var(new), rel=1e-6, abs=1e-8)
        assert few(new, new[:3]) == pytest.approx(all_(new, new[:3]), rel=1e-6, abs=1e-8)


def test_it_is_a_lower_bound() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n, m = int(rng.integers(20, 150)), int(rng.integers(2, 15))
        X, y = rng.normal(size=(n, 2)), rng.normal(size=(n, 1))
        w, H = rng.uniform(0.3, 3.0, n), np.ones((n, 1))
        given: dict[str, Any] = {"weights": w, "basis": H if seed % 2 else None}
        loss = Gaussian(float(rng.uniform(0.01, 1.0)))
        bound = evaluated(ReducedGram(KERNEL, X, X[:m]), y, loss, Exact(), **given)[0]
        exact = evaluated(DenseGram(KERNEL, X, keep=True), y, loss, Exact(), **given)[0]
        assert bound <= exact + 1e-8


def test_blocks_do_not_matter() -> None:
    X, y = table()
    given = [
        evaluated(ReducedGram(KERNEL, X, X[:12], block=b, keep=k), y, Gaussian(0.05), Exact())
        for b, k in [(37, False), (37, True), (None, True), (1000, False)]
    ]
    for value, slopes, _ in given[1:]:
        assert value == pytest.approx(given[0][0], rel=1e-12)
        for path, slope in slopes.items():
            assert slope == pytest.approx(given[0][1][path], rel=1e-9)


def test_repeated_points_are_dropped() -> None:
    X, y = table()
    gram = ReducedGram(KERNEL, X, np.vstack([X[:12], X[:3]]))
    assert gram.used.sum() == 12
    once = evaluated(ReducedGram(KERNEL, X, X[:12]), y, Gaussian(0.05), Exact())[0]
    assert evaluated(gram, y, Gaussian(0.05), Exact())[0] == pytest.approx(once, rel=1e-12)


def test_tiny_noise_by_reflections() -> None:
    X, _ = table()
    gram = ReducedGram(KERNEL, X, X[:12])
    factor = gram.factor(np.full(90, 1e12))
    assert factor.reflected
    F = gram.features(slice(0, 90))
    B = np.eye(12) + 1e12 * F.T @ F
    assert pytest.approx(B, rel=1e-9) == factor.R.T @ factor.R


def test_bound_holds_where_points_are_close_to_dependent() -> None:
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(-1.7, 1.7, (600, 2)), axis=0)
    kernel = 88.0 * RBF(length_scale=np.array([1.6, 4.1]))
    gram = ReducedGram(kernel, X, X[::3])
    F = gram.features(slice(0, 600))
    assert np.all(88.0 - (F**2).sum(axis=1) > -1e-9)
    exact = np.linalg.slogdet(kernel(X) + 0.02 * np.eye(600))[1]
    assert gram.factor(np.full(600, 50.0)).logdet_noisy() <= exact + 1e-5


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("corrected", [False, True])
def test_contracts(kernel: Kernel, corrected: bool) -> None:
    X, y = table()
    gram = ReducedGram(kernel, X[:30], X[:6] + 0.02, corrected=corrected, block=7, keep=False)
    check_gram(gram)
    found = Exact().solve(gram, y[:30], Gaussian(0.05))
    check_process(Prior(kernel).condition(X[:30], found, None, gram), X[40:48])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("corrected", [False, True])
def test_contraction_is_a_difference(kernel: Kernel, corrected: bool) -> None:
    X, _ = table()
    X = X[:30]
    A = np.random.default_rng(1).normal(size=(30, 30))
    Q = A + A.T

    def value(kernel: Kernel) -> float:
        return float((Q * ReducedGram(kernel, X, X[:6], corrected=corrected).matrix).sum())

    slopes = ReducedGram(kernel, X, X[:6], corrected=corrected).contract(Q)
    for path, owner, name in kernel.differentiable():
        for i in np.ndindex(np.shape(getattr(owner, name))):
            ends = []
            for step in (1e-5, -1e-5):
                moved = np.array(getattr(owner, name), dtype=float)
                moved[i] += step
                ends.append(value(kernel.replaced({path: moved if moved.ndim else float(moved)})))
            expected = (ends[0] - ends[1]) / 2e-5
            assert np.asarray(slopes[path])[i] == pytest.approx(expected, rel=1e-6, abs=1e-5)
