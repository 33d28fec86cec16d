"""The gradient of the evidence and of the leave-one-out criterion against differences.

Every kernel that is exported, nested combinations, basis, weights, duplicates, several outputs.
"""

from __future__ import annotations

import numpy as np
import pytest

from mercer import kernels
from mercer.inference import Exact
from mercer.kernels import (
    RBF,
    ArcSine,
    Constant,
    Cosine,
    Kernel,
    Linear,
    Matern,
    Noise,
    Periodic,
    Polynomial,
    RationalQuadratic,
    White,
)
from mercer.losses import Gaussian
from mercer.search import (
    EvidenceCriterion,
    GammaPrior,
    HalfNormal,
    LogNormal,
    LooCriterion,
    Problem,
    Space,
    simple_problem,
)
from tests.reference.gp import richardson

EXPORTED = [
    cls
    for name in kernels.__all__
    if isinstance(cls := getattr(kernels, name), type)
    and issubclass(cls, Kernel)
    and not cls.abstract
]
ARD = np.array([0.7, 1.4, 2.2])
NESTED = {
    "sum": 1.3 * RBF(ARD) + 0.4 * Matern(nu=1.5, length_scale=0.6) + Constant(0.5),
    "product": RBF(ARD) * RationalQuadratic(length_scale=1.2, alpha=0.7) * Linear(0.3),
    "power": (0.8 * Matern(nu=2.5, length_scale=1.1) + 0.2 * Linear()) ** 3,
    "columns": 1.1 * RBF(np.array([0.5, 1.5])).on([2, 0]) + 0.3 * Linear().on(1),
    "product of columns": RBF(0.9).on(0) * Periodic(1.7, 0.8).on(1) + Cosine(2.3).on(2),
    "scale of scale": 2.0 * (0.7 * (RBF(1.2) + 0.4 * Polynomial(degree=2))),
    "noise parts": 1.2 * RBF(ARD) + White(0.3) + Noise(0.2 * Matern(nu=0.5, length_scale=0.4)),
    "scaled noise": 1.5 * (RBF(0.8) + White(0.2)) + 0.1 * ArcSine(),
    "noise on columns": RBF(1.1) + Noise(0.4 * RBF(0.3).on([1])).on([0, 1]),
}


def check(criterion: EvidenceCriterion | LooCriterion, tol: float = 1e-6) -> None:
    u = criterion.space.start
    value, gradient = criterion(u)
    assert np.isfinite(value)
    assert len(gradient) == len(u) > 0
    numeric = richardson(lambda at: criterion(at)[0], u)
    scale = np.abs(numeric).max()
    assert scale > 1e-3, "nothing is tested where the gradient is zero"
    np.testing.assert_allclose(gradient, numeric, rtol=tol, atol=tol * max(scale, 1.0))


def problem(rng: np.random.Generator, X: np.ndarray, outputs: int = 1, basis: str = "") -> Problem:
    y = np.sin(X.sum(axis=1, keepdims=True) + np.arange(outputs)) + rng.normal(
        size=(len(X), outputs)
    )
    H = None if not basis else np.column_stack([np.ones(len(X)), X])
    return simple_problem(X, y, H)


def grouped(rng: np.random.Generator, outputs: int = 1, basis: bool = False) -> Problem:
    """Seven points with one to four observations each, of weights between 0.3 and 3."""
    X = rng.normal(size=(7, 2))
    group = np.sort(np.concatenate([np.arange(7), rng.integers(0, 6, 9)]))
    w = rng.uniform(0.3, 3.0, len(group))
    w[:4] = 1.0
    rows = np.sin(X[group].sum(axis=1, keepdims=True) + np.arange(outputs))
    rows = rows + 0.5 * rng.normal(size=(len(group), outputs))
    total = np.bincount(group, w)
    mean = np.array([w[group == i] @ rows[group == i] / total[i] for i in range(7)])
    spread = np.array([w[group == i] @ (rows[group == i] - mean[i]) ** 2 for i in range(7)])
    H = np.column_stack([np.ones(7), X]) if basis else None
    return Problem(X, mean, total, spread, H, group, rows, w)


def space(kernel: Kernel, noise: float = 0.4) -> Space:
    return Space({"kernel": kernel, "loss": Gaussian(noise=noise)})


@pytest.mark.parametrize("cls", EXPORTED, ids=lambda c: c.__name__)
def test_evidence_of_every_kernel(rng: np.random.Generator, cls: type[Kernel]) -> None:
    kernel = 1.3 * cls.example()
    X = kernel.example_inputs(rng, 11)
    check(EvidenceCriterion(space(kernel), problem(rng, X), Exact()))


@pytest.mark.parametrize("name", NESTED)
def test_evidence_of_combinations(rng: np.random.Generator, name: str) -> None:
    X = rng.normal(size=(12, 3))
    check(EvidenceCriterion(space(NESTED[name]), problem(rng, X), Exact()))


@pytest.mark.parametrize("name", NESTED)
def test_leave_one_out_of_combinations(rng: np.random.Generator, name: str) -> None:
    X = rng.normal(size=(12, 3))
    check(LooCriterion(space(NESTED[name]), problem(rng, X), Exact()))


@pytest.mark.parametrize("kind", [EvidenceCriterion, LooCriterion])
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("basis", ["", "linear"])
def test_basis_and_outputs(rng: np.random.Generator, kind: type, outputs: int, basis: str) -> None:
    X = rng.normal(size=(12, 2))
    data = problem(rng, X, outputs, basis)
    check(kind(space(1.7 * RBF(np.array([0.8, 1.9]))), data, Exact()))


@pytest.mark.parametrize("kind", [EvidenceCriterion, LooCriterion])
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("basis", [False, True])
def test_duplicates_and_weights(
    rng: np.random.Generator, kind: type, outputs: int, basis: bool
) -> None:
    data = grouped(rng, outputs, basis)
    assert np.any(data.spread > 0.1)
    check(kind(space(1.7 * Matern(nu=1.5, length_scale=1.2)), data, Exact()))


@pytest.mark.parametrize("kind", [EvidenceCriterion, LooCriterion])
def test_hyperpriors(rng: np.random.Generator, kind: type) -> None:
    kernel = (1.5 * RBF(np.array([0.8, 1.9]))).prior(
        variance=GammaPrior(2.0, 0.5), kernel__length_scale=LogNormal(0.2, 0.4)
    )
    loss = Gaussian(noise=0.4).prior(noise=HalfNormal(0.3))
    both = Space({"kernel": kernel, "loss": loss})
    data = problem(rng, rng.normal(size=(10, 2)))
    check(kind(both, data, Exact()))
    plain = kind(space(1.5 * RBF(np.array([0.8, 1.9]))), data, Exact())(both.start)[0]
    assert kind(both, data, Exact())(both.start)[0] == pytest.approx(
        plain + both.log_prior(both.start)[0]
    )


@pytest.mark.parametrize("kind", [EvidenceCriterion, LooCriterion])
def test_noise_per_row_and_zero_noise(rng: np.random.Generator, kind: type) -> None:
    X = rng.normal(size=(8, 2))
    data = problem(rng, X)
    for noise in (rng.uniform(0.1, 1.0, 8), 0.0):
        only = Space({"kernel": 1.7 * Matern(nu=0.5), "loss": Gaussian(noise=noise)})
        check(kind(only, data, Exact()))


@pytest.mark.parametrize("n", [1, 127, 129])
def test_sizes_of_the_compiled_tiles(rng: np.random.Generator, n: int) -> None:
    X = rng.uniform(0, 10, (n, 2))
    y = np.sin(X[:, :1]) + 0.3 * rng.normal(size=(n, 1))
    check(EvidenceCriterion(space(1.3 * RBF(ARD[:2])), simple_problem(X, y), Exact()))
