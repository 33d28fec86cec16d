"""The joint hinges of several classes against quadratic programmes and their optimality."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, minimize

from mercer._native import machines
from mercer.inference.mode.hinges import JointHinge
from mercer.inference.smo import SMO
from mercer.kernels import RBF, Constant, Linear
from mercer.linalg.rows import RowGram
from mercer.losses import Hinge

SHAPES = ("crammer_singer", "weston_watkins")


def table(n: int, k: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    codes = np.r_[np.arange(k), rng.integers(0, k, n - k)]
    return rng.normal(size=(n, 2)) + 0.8 * np.eye(k, 2)[codes], codes, rng.uniform(0.5, 2.0, n)


def primal(shape: str, f, codes, bound) -> float:
    """sum_i c_i xi_i, written as the papers do: over all classes, the row's own included."""
    total = 0.0
    for values, y, c in zip(f, codes, bound, strict=True):
        over = [1.0 - values[y] + v for r, v in enumerate(values) if r != y]
        terms = [max(v, 0.0) for v in over]
        total += c * (max(terms) if shape == "crammer_singer" else sum(terms))
    return total


def by_programme(shape: str, K, codes, bound):
    """The primal as a smooth programme in (beta, xi), by an algorithm that knows no dual."""
    n, k = len(codes), codes.max() + 1
    L = np.linalg.cholesky(K + 1e-12 * np.eye(n))
    pairs = [(i, r) for i in range(n) for r in range(k) if r != codes[i]]
    slack = {pair: t for t, pair in enumerate(pairs)}
    m = n if shape == "crammer_singer" else len(pairs)
    A, cost = np.zeros((len(pairs), n * k + m)), np.zeros(m)
    for (i, r), t in slack.items():  # f_iy - f_ir + xi >= 1 with f = L u
        A[t].reshape(-1)[: n * k].reshape(n, k)[:, codes[i]] += L[i]
        A[t].reshape(-1)[: n * k].reshape(n, k)[:, r] -= L[i]
        at = i if shape == "crammer_singer" else t
        A[t, n * k + at] = 1.0
        cost[at] = bound[i]

    def value(v):
        u = v[: n * k]
        return 0.5 * u @ u + cost @ v[n * k :], np.r_[u, cost]

    low = np.r_[np.full(n * k, -np.inf), np.zeros(m)]
    start = np.r_[np.zeros(n * k), np.ones(m)]
    found = minimize(
        value,
        start,
        jac=True,
        method="SLSQP",
        bounds=Bounds(low, np.inf),
        constraints=LinearConstraint(A, 1.0, np.inf),
        options={"ftol": 1e-13, "maxiter": 500},
    )
    return found.fun, L @ found.x[: n * k].reshape(n, k)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("bias", [False, True])
def test_it_is_the_minimum_of_the_primal(shape, bias) -> None:
    X, codes, bound = table(12, 3)
    kernel = RBF() + Constant(1.0) if bias else RBF()
    value, f = by_programme(shape, kernel(X), codes, bound)
    found = JointHinge(shape, tol=1e-9, bias=bias).solve(
        RowGram(RBF(), X), codes, bound, codes.max() + 1
    )
    z = found.z
    norm = 0.5 * float(np.vdot(found.alpha, kernel(X) @ found.alpha))
    assert norm + primal(shape, z, codes, bound) == pytest.approx(value, rel=1e-7)
    np.testing.assert_allclose(z, f, atol=1e-4)
    assert found.report.converged
    assert 0.0 <= found.report.gap < 1e-6
    np.testing.assert_allclose(found.beta[0], found.alpha.sum(axis=0) if bias else 0.0)
    np.testing.assert_allclose(z, RBF()(X) @ found.alpha + found.beta, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("k", [2, 3, 7])
def test_the_conditions_of_optimality_hold(shape, k) -> None:
    X, codes, w = table(80, k, seed=k)
    bound = 3.0 * w
    found = JointHinge(shape, tol=1e-8).solve(RowGram(RBF(0.7), X), codes, bound, codes.max() + 1)
    tau, own = found.alpha, np.eye(k, dtype=bool)[codes]
    a = np.where(own, 0.0, -tau)
    assert a.min() >= 0.0
    np.testing.assert_allclose(tau.sum(axis=1), 0.0, atol=1e-12)
    m = 1.0 - found.z[own][:, None] + found.z  # slope of the dual in a
    inside, c = 1e-6, bound[:, None]
    if shape == "weston_watkins":
        assert np.all(a <= c)
        assert np.all(np.abs(m[~own & (a > 0) & (a < c)]) < inside)
        assert np.all(m[~own & (a == 0)] < inside)
        assert np.all(m[~own & (a == c)] > -inside)
    else:
        s, xi = a.sum(axis=1), np.maximum(np.where(own, 0.0, m).max(axis=1), 0.0)
        assert np.all(s <= bound * (1 + 1e-12))
        assert np.all(xi[s < bound * (1 - 1e-9)] < inside)
        assert np.all((xi[:, None] - m)[~own & (a > 0)] < inside)
    gap = np.vdot(tau, found.z) - tau[own].sum() + primal(shape, found.z, codes, bound)
    assert found.report.gap == pytest.approx(gap, abs=1e-9)
    assert found.report.gap <= 1e-8 * bound.sum() * k


@pytest.mark.parametrize("shape", SHAPES)
def test_two_classes_are_the_hinge_at_twice_the_bound(shape) -> None:
    X, codes, w = table(60, 2)
    found = JointHinge(shape, tol=1e-9).solve(RowGram(RBF(), X), codes, 0.7 * w, codes.max() + 1)
    y = np.where(codes == 1, 1.0, -1.0)[:, None]
    one = SMO(tol=1e-9).solve(RowGram(RBF(), X), y, Hinge(1.4), weights=w)
    np.testing.assert_allclose(found.z[:, 1] - found.z[:, 0], one.z[:, 0], atol=1e-7)
    np.testing.assert_allclose(found.z.sum(axis=1), 0.0, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_step_minimises_its_block(shape) -> None:
    """min 1/2 q |a|^2 + 1/2 q (sum a)^2 - v'a over the block's set, by a grid of multipliers."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        k, q, c = rng.integers(1, 6), rng.uniform(0.2, 2.0), rng.uniform(0.1, 2.0)
        v = rng.normal(size=k) * rng.choice([0.3, 3.0])
        a = np.empty(k)
        machines.joint_block(shape == SHAPES[1], v, q, c, a)

        def value(x, q=q, v=v):
            return 0.5 * q * (x @ x + x.sum() ** 2) - v @ x

        top = LinearConstraint(np.ones((1, k)), -1.0, c if shape == SHAPES[0] else k * c + 1.0)
        other = minimize(
            value,
            np.full(k, 0.5 * c / k),
            method="SLSQP",
            bounds=Bounds(0.0, c),
            constraints=top,
            options={"ftol": 1e-14},
        )
        assert np.all(a >= 0.0)
        assert np.all(a <= c)
        assert shape != SHAPES[0] or a.sum() <= c * (1 + 1e-12)
        np.testing.assert_allclose(a, other.x, atol=2e-5)
        assert value(a) <= other.fun + 1e-10


@pytest.mark.parametrize("shape", SHAPES)
def test_a_row_that_the_kernel_does_not_see_is_no_obstacle(shape) -> None:
    """k(0, .) = 0 for a linear kernel: the loss of that row is what it is."""
    X, codes, bound = table(20, 3)
    X[4] = 0.0
    found = JointHinge(shape, tol=1e-8).solve(RowGram(Linear(), X), codes, bound, codes.max() + 1)
    rest = np.arange(20) != 4
    without = JointHinge(shape, tol=1e-8).solve(
        RowGram(Linear(), X[rest]), codes[rest], bound[rest], 3
    )
    assert found.report.converged
    assert found.report.gap < 1e-6
    np.testing.assert_allclose(found.z[rest], without.z, atol=1e-5)


def test_too_few_steps_are_reported() -> None:
    X, codes, bound = table(60, 3)
    report = (
        JointHinge("crammer_singer", max_iter=5)
        .solve(RowGram(RBF(), X), codes, bound, codes.max() + 1)
        .report
    )
    assert not report.converged
    assert report.details["limited"]
    assert report.iterations == 5
    assert report.gap > 0.0


@pytest.mark.parametrize("shape", SHAPES)
def test_a_tolerance_that_rounding_does_not_allow_is_raised_and_told(shape) -> None:
    X, codes, bound = table(30, 3)
    report = JointHinge(shape, tol=1e-18).solve(RowGram(RBF(), X), codes, bound, 3).report
    assert report.converged
    assert 1e-18 < report.details["tol"] < 1e-10


def test_rows_of_single_precision_end_within_the_tolerance() -> None:
    X, codes, bound = table(120, 4)
    gram = RowGram(RBF(), X)
    coarse = JointHinge("crammer_singer", tol=1e-3).solve(gram, codes, bound, codes.max() + 1)
    fine = JointHinge("crammer_singer", tol=1e-9).solve(gram, codes, bound, codes.max() + 1)
    assert coarse.report.details["precision"] == "float32"
    assert coarse.report.converged
    # strong convexity: 1/2 |f - f*|^2 <= gap
    far = coarse.alpha - fine.alpha
    assert 0.5 * np.vdot(far, RBF()(X) @ far) <= coarse.report.gap + 1e-7


def test_compiled_steps_refuse_arrays_that_do_not_fit() -> None:
    codes, bound, ones = np.array([0, 1, 2]), np.ones(3), np.ones(3)
    a, f, slots = np.zeros((3, 3)), np.zeros((3, 3)), np.arange(3)
    cache, used, more = np.eye(3), np.zeros(3, dtype=np.int64), (0.0, False, 1e-3, 10, 1)

    def climb(cache=cache, slots=slots, codes=codes, bound=bound, a=a):
        return machines.climb_joint(cache, slots, used, codes, bound, ones, a, f, *more)

    assert climb()[1] <= 1e-3
    for wrong in ({"codes": codes + 1}, {"bound": 0.0 * bound}, {"slots": slots + 1}):
        with pytest.raises(ValueError, match=r"column|positive|slot"):
            climb(**wrong)
    for wrong in ({"a": a[:2]}, {"codes": codes[:2]}, {"cache": np.eye(4)}):
        with pytest.raises(ValueError, match="shapes do not match"):
            climb(**wrong)
    with pytest.raises(ValueError, match="positive curvature"):
        machines.joint_block(False, np.ones(2), 0.0, 1.0, np.ones(2))
