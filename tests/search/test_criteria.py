"""Criteria: the values themselves, against dense formulas and brute force."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.inference import Exact
from mercer.kernels import RBF, White
from mercer.losses import Gaussian
from mercer.search import EvidenceCriterion, LogNormal, LooCriterion, Problem, Space, simple_problem
from tests.reference import gp

KERNEL = 1.7 * RBF(np.array([0.8, 1.9]))


def data(rng: np.random.Generator, n: int = 11) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, 2))
    return X, np.sin(X[:, :1]) + 0.5 * rng.normal(size=(n, 1))


def space(kernel: object = KERNEL, noise: float = 0.3) -> Space:
    return Space({"kernel": kernel, "loss": Gaussian(noise=noise)})


@pytest.mark.parametrize("basis", [False, True])
def test_values_are_those_of_the_definition(rng: np.random.Generator, basis: bool) -> None:
    X, y = data(rng)
    H = np.column_stack([np.ones(11), X]) if basis else None
    problem = simple_problem(X, y, H)
    Ky = KERNEL(X) + 0.3 * np.eye(11)
    start = space().start
    evidence = EvidenceCriterion(space(), problem, Exact())(start)[0]
    assert evidence == pytest.approx(gp.log_evidence(Ky, y[:, 0], H), abs=1e-10)
    loo = LooCriterion(space(), problem, Exact())(start)[0]
    assert loo == pytest.approx(gp.leave_one_out(Ky, y[:, 0], H)[2].sum(), abs=1e-9)


@pytest.mark.parametrize("basis", [False, True])
def test_loo_of_merged_rows_leaves_out_single_rows(rng: np.random.Generator, basis: bool) -> None:
    """Also with weights: a weight of two is two rows, of which one is left out at a time."""
    X = rng.normal(size=(6, 2))
    group = np.array([0, 0, 1, 2, 2, 2, 3, 4, 5])
    w = np.array([1.0, 2.0, 3.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0])
    rows = np.sin(X[group, :1]) + 0.5 * rng.normal(size=(9, 1))
    total = np.bincount(group, w)
    mean = np.array([w[group == i] @ rows[group == i] / total[i] for i in range(6)])
    spread = np.array([w[group == i] @ (rows[group == i] - mean[i]) ** 2 for i in range(6)])
    H = np.column_stack([np.ones(6), X]) if basis else None
    problem = Problem(X, mean, total, spread, H, group, rows, w)
    value = LooCriterion(space(), problem, Exact())(space().start)[0]
    every = np.repeat(np.arange(9), w.astype(int))
    full = X[group][every]
    Ky = KERNEL(full, full) + 0.3 * np.eye(len(every))
    Hf = None if H is None else H[group][every]
    density = gp.leave_one_out(Ky, rows[every, 0], Hf)[2]
    assert value == pytest.approx(density.sum(), abs=1e-8)


def test_loo_leaves_out_of_centring_too(rng: np.random.Generator) -> None:
    X = rng.normal(size=(6, 2))
    group = np.array([0, 0, 1, 2, 2, 2, 3, 4, 5])
    w = np.array([1.0, 2.0, 3.0, 1.0, 1.0, 2.0, 1.0, 1.0, 1.0])
    rows = 3.0 + np.sin(X[group, :1]) + 0.5 * rng.normal(size=(9, 1))
    every = np.repeat(np.arange(9), w.astype(int))  # each is left out, the others centred on theirs
    Ky = KERNEL(X[group][every], X[group][every]) + 0.3 * np.eye(len(every))
    y, density = rows[every, 0], []
    for i in range(len(every)):
        rest = np.arange(len(every)) != i
        solved = np.linalg.solve(Ky[np.ix_(rest, rest)], np.column_stack([y[rest], Ky[rest, i]]))
        by_mean = np.linalg.solve(Ky[np.ix_(rest, rest)], np.full(rest.sum(), y[rest].mean()))
        m = y[rest].mean() + Ky[i, rest] @ (solved[:, 0] - by_mean)
        v = Ky[i, i] - Ky[i, rest] @ solved[:, 1]
        density.append(-0.5 * (np.log(2 * np.pi * v) + (y[i] - m) ** 2 / v))
    rows = rows - w @ rows / w.sum()
    total = np.bincount(group, w)
    mean = np.array([w[group == i] @ rows[group == i] / total[i] for i in range(6)])
    spread = np.array([w[group == i] @ (rows[group == i] - mean[i]) ** 2 for i in range(6)])
    problem = Problem(X, mean, total, spread, None, group, rows, w)
    criterion = LooCriterion(space(), problem, Exact())
    criterion.centred = True
    u = space().start
    value, gradient = criterion(u)
    assert value == pytest.approx(np.sum(density), abs=1e-8)
    for i, step in enumerate(1e-5 * np.eye(len(u))):
        slope = (criterion(u + step)[0] - criterion(u - step)[0]) / 2e-5
        assert gradient[i] == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_noise_in_the_kernel_equals_noise_in_the_loss(rng: np.random.Generator) -> None:
    X, y = data(rng)
    problem = simple_problem(X, y)
    for kind in (EvidenceCriterion, LooCriterion):
        split = space(KERNEL + White(0.2), 0.1)
        together = kind(space(), problem, Exact())(space().start)[0]
        assert kind(split, problem, Exact())(split.start)[0] == pytest.approx(together, rel=1e-12)


def test_prior_is_added_in_the_search_coordinate(rng: np.random.Generator) -> None:
    X, y = data(rng)
    problem = simple_problem(X, y)
    marked = space(KERNEL.prior(variance=LogNormal(0.5, 0.2)))
    for kind in (EvidenceCriterion, LooCriterion):
        plain = kind(space(), problem, Exact())(space().start)[0]
        t = (np.log(1.7) - 0.5) / 0.2
        normal = -0.5 * t**2 - np.log(0.2) - 0.5 * np.log(2 * np.pi)
        assert kind(marked, problem, Exact())(marked.start)[0] == pytest.approx(plain + normal)


def test_evaluating_leaves_the_parts_alone(rng: np.random.Generator) -> None:
    X, y = data(rng)
    kernel = 1.7 * RBF(np.array([0.8, 1.9]))
    at = space(kernel)
    before = X.copy(), y.copy()
    for kind in (EvidenceCriterion, LooCriterion):
        kind(at, simple_problem(X, y), Exact())(at.start + 0.5)
    assert kernel == KERNEL
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(y, before[1])
