"""One batch of maximum entropy discrimination: optimality, the bias, limits, hard cases."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.core.errors import NotPositiveDefiniteError
from mercer.inference import MED, Dual
from mercer.inference.med import Batch, Bordered, feasible_bias
from mercer.kernels import RBF
from mercer.linalg import DenseGram
from mercer.losses import Hinge, Loss, Margin
from tests.reference import med
from tests.reference.med import discriminate


def problem(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=n) > 0.7, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return X, y


def test_reference_stream() -> None:
    kernel = RBF(1.0)
    seen: list[tuple[np.ndarray, np.ndarray]] = []
    for t, (alpha, bias, value) in enumerate(med.STREAM):
        X, y = med.batch(t)
        f0 = sum((kernel(X, Z) @ c for Z, c in seen), np.zeros(10))
        found = discriminate(kernel(X), y, 10.0, offset=f0)
        np.testing.assert_allclose(found.alpha, alpha, atol=1e-9)
        assert found.bias == pytest.approx(bias, abs=1e-12)
        assert found.report["objective"] == pytest.approx(value, abs=1e-11)
        seen.append((X, y * found.alpha))
    decision = sum(kernel(med.NEW, Z) @ c for Z, c in seen) + found.bias
    np.testing.assert_allclose(decision, med.DECISION, atol=1e-9)


@pytest.mark.parametrize("amplitude", [1e-4, 0.01, 1.0, 100.0])
@pytest.mark.parametrize("C", [1.01, 1.5, 10.0, 100.0, 1e3, 1e5])
@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_optimality(
    rng: np.random.Generator, amplitude: float, C: float, linear: bool, weighted: bool
) -> None:
    X, y = problem(rng, 120)
    K = amplitude * (X @ X.T if linear else RBF(1.0)(X))
    w = np.exp(rng.normal(size=120)) if weighted else np.ones(120)
    f0 = 0.3 * rng.normal(size=120)
    found = discriminate(K, y, C, weights=w, offset=f0)
    a, u = found.alpha, 1.0 - y * (found.latent + found.bias)
    assert found.report["converged"]
    assert found.report["iterations"] <= 40
    assert np.all((a >= 0.0) & (a < w * C))
    assert abs(y @ a) <= 1e-12 * a.sum()
    np.testing.assert_allclose(found.latent, f0 + K @ (y * a), rtol=1e-12, atol=1e-12)
    # KKT: u = 1/(C - a/w) on the support, u <= 1/C elsewhere
    size = max(1.0, float(np.abs(K @ (y * a)).max()), float(np.diagonal(K).max() * a.max()))
    held = a > 0.0
    np.testing.assert_allclose(u[held] * (C - a / w)[held], 1.0, atol=1e-7 * size * C)
    np.testing.assert_allclose(u[held], 1.0 / (C - a / w)[held], atol=1e-10 * size)
    assert np.all(u[~held] <= 1.0 / C + 1e-10 * size)
    # strong duality, both sides written down anew
    upper = med.primal(y * a, found.bias, K, y, C, w, f0)
    lower = med.dual(a, K, y, C, w, f0)
    rounding = 1e-14 * size * a.sum()
    assert upper - lower <= 1e-8 * max(1.0, abs(lower)) + rounding
    assert found.report["objective"] == pytest.approx(lower, rel=1e-9, abs=1e-9 + rounding)


@pytest.mark.parametrize("C", [1.5, 10.0])
def test_against_a_generic_optimiser(rng: np.random.Generator, C: float) -> None:
    X, y = problem(rng, 25)
    K, w, f0 = RBF(1.0)(X), np.exp(0.5 * rng.normal(size=25)), 0.3 * rng.normal(size=25)
    found = discriminate(K, y, C, weights=w, offset=f0)
    np.testing.assert_allclose(found.alpha, med.by_trust_region(K, y, C, w, f0), atol=2e-4)
    f, b = med.by_primal(K, y, C, w, f0)
    np.testing.assert_allclose(found.latent, f, atol=1e-5)
    assert found.bias == pytest.approx(b, abs=1e-5)


def test_the_value_is_the_slope_of_what_is_lost(rng: np.random.Generator) -> None:
    """dD/df0 = -y a by the envelope theorem, against central differences."""
    X, y = problem(rng, 30)
    K, f0 = RBF(1.0)(X), 0.2 * rng.normal(size=30)
    found, step = discriminate(K, y, 5.0, offset=f0), 1e-5
    for i in range(0, 30, 5):
        shift = step * np.eye(30)[i]
        up, down = (
            discriminate(K, y, 5.0, offset=f0 + s).report["objective"] for s in (shift, -shift)
        )
        slope = (up - down) / (2.0 * step)
        assert slope == pytest.approx(-y[i] * found.alpha[i], abs=1e-6)


def test_weights_are_repeated_rows(rng: np.random.Generator) -> None:
    X, y = problem(rng, 20)
    times = rng.integers(1, 4, size=20)
    rows = np.repeat(np.arange(20), times)
    K = RBF(1.0)(X)
    one = discriminate(K, y, 7.0, weights=times.astype(float))
    many = discriminate(K[np.ix_(rows, rows)], y[rows], 7.0)
    np.testing.assert_allclose(np.bincount(rows, many.alpha), one.alpha, atol=1e-8)
    assert many.bias == pytest.approx(one.bias, abs=1e-9)


def test_bias_is_the_limit_of_a_proper_prior(rng: np.random.Generator) -> None:
    """b ~ N(0, s2) is a constant s2 in the kernel; its posterior mean s2 y'a tends to b."""
    X, y = problem(rng, 40)
    K = RBF(1.0)(X)
    found = discriminate(K, y, 5.0)
    off = []
    for s2 in (1e2, 1e4):
        f, b = _penalised(K, y, 5.0, s2)
        np.testing.assert_allclose(f, found.latent, atol=2.0 / s2 * 40)
        off.append(abs(b - found.bias))
    assert off[1] < 0.05 * off[0] + 1e-6
    assert off[1] < 1e-4


def _penalised(K: np.ndarray, y: np.ndarray, C: float, s2: float) -> tuple[np.ndarray, float]:
    from scipy import optimize

    values, vectors = np.linalg.eigh(K)
    R = np.column_stack([vectors * np.sqrt(np.maximum(values, 0.0)), np.full(len(y), s2**0.5)])

    def value(z: np.ndarray) -> tuple[float, np.ndarray]:
        u = 1.0 - y * (R @ z)
        on = C * u > 1.0
        slope = -y * np.where(on, C - 1.0 / np.where(on, u, 1.0), 0.0)
        return 0.5 * z @ z + med.loss(u, C).sum(), z + R.T @ slope

    z = np.zeros(R.shape[1])
    for _ in range(3):
        z = optimize.minimize(value, z, jac=True, method="BFGS", options={"gtol": 1e-10}).x
    return R[:, :-1] @ z[:-1], float(s2**0.5 * z[-1])


# ---------------------------------------------------------------------- where nothing is held
def test_one_class_moves_the_bias_only() -> None:
    y, f0 = np.ones(3), np.array([0.1, 0.5, 2.0])
    found = discriminate(np.eye(3), y, 10.0, offset=f0, previous=-1.0)
    assert not found.alpha.any()
    assert found.bias == pytest.approx(0.8)
    nothing = dict.fromkeys(("iterations", "objective", "gap", "jitter"), 0.0)
    assert found.report == {"converged": True, "message": ""} | nothing
    assert discriminate(np.eye(3), y, 10.0, offset=f0, previous=3.0).bias == 3.0
    assert discriminate(np.eye(3), -y, 10.0, offset=f0, previous=3.0).bias == pytest.approx(-2.9)


def test_rows_beyond_the_margin_leave_all_as_it_was() -> None:
    y, f0 = np.array([1.0, -1.0]), np.array([2.0, -2.0])
    for previous, bias in ((0.0, 0.0), (5.0, 1.1), (-5.0, -1.1)):
        found = discriminate(np.eye(2), y, 10.0, offset=f0, previous=previous)
        assert not found.alpha.any()
        assert found.bias == pytest.approx(bias)
    assert feasible_bias(y, -f0, 10.0) is None


def test_too_few_steps_are_reported(rng: np.random.Generator) -> None:
    X, y = problem(rng, 300)
    report = discriminate(100.0 * RBF(1.0)(X), y, 1000.0, max_iter=1).report
    assert not report["converged"]
    assert report["gap"] > 1e-6


def test_equal_rows_and_opposite_labels() -> None:
    K, y = np.ones((4, 4)), np.array([1.0, 1.0, 1.0, -1.0])
    found = discriminate(K, y, 10.0)
    assert found.report["converged"]
    np.testing.assert_allclose(found.latent, 0.0, atol=1e-12)


def test_an_indefinite_kernel_is_refused() -> None:
    K = np.array([[1.0, 5.0, 5.0], [5.0, 1.0, 5.0], [5.0, 5.0, 1.0]])
    with pytest.raises(NotPositiveDefiniteError, match="positive semidefinite"):
        discriminate(-K, np.array([1.0, -1.0, 1.0]), 10.0)


@pytest.mark.parametrize("seed", range(60))
def test_hard_cases(seed: int) -> None:
    """Few rows, repeated rows, unequal classes and weights over many decades, all scales."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 60))
    X = rng.normal(size=(n, int(rng.integers(1, 5)))).round(int(rng.integers(0, 3)))
    y = np.where(rng.random(n) < rng.choice([0.5, 0.1]), 1.0, -1.0)
    C, amplitude = float(1.0 + 10 ** rng.uniform(-3, 4)), float(10 ** rng.uniform(-5, 3))
    K = X @ X.T if rng.random() < 0.4 else RBF(float(10 ** rng.uniform(-2, 2)))(X)
    w = np.exp(rng.choice([0.0, 1.0, 4.0]) * rng.normal(size=n))
    f0 = rng.choice([0.0, 0.3, 3.0]) * rng.normal(size=n)
    report = discriminate(amplitude * K, y, C, weights=w, offset=f0).report
    assert report["converged"], report
    assert report["iterations"] < 80


def test_what_rounding_adds_to_a_diagonal_is_reported() -> None:
    n, y = 6, np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
    rounding = n * np.finfo(float).eps
    lean = np.eye(n)[0] - np.eye(n)[1]
    K = 4.0 * (np.ones((n, n)) - 0.1 * rounding * np.outer(lean, lean))  # one value is negative
    for d, want in ((1e-25, rounding), (1.0, 0.0)):
        batch = Batch(K, y, np.ones(n), 10.0, np.ones(n))
        equations = Bordered(batch, np.full(n, d))
        assert equations.jitter == want
        x, m = equations.solve(np.arange(n), 0.5)
        left = (y[:, None] * K * y) @ x + (d + 4.0 * want) * x + m * y - np.arange(n)
        np.testing.assert_allclose(left, 0.0, atol=1e-9 * max(1.0, np.abs(x).max()))
        assert y @ x == pytest.approx(0.5, abs=1e-9 * np.abs(x).max())


def test_the_report_has_the_largest_jitter(rng: np.random.Generator) -> None:
    X, y = problem(rng, 20)
    assert discriminate(RBF(1.0)(X), y, 10.0).report["jitter"] == 0.0
    K = RBF(3.0)(np.repeat(X[:5], 4, axis=0))  # of rank five
    report = discriminate(K, y, 1e8).report
    steps = report["jitter"] / (20 * np.finfo(float).eps)
    assert steps in (1.0, 100.0, 1e4)


# ---------------------------------------------------------------------- as an inference
def test_it_is_the_mode_of_its_loss(rng: np.random.Generator) -> None:
    """With and without a bias, several columns, weights, a mean: as the general solver says."""
    X, y = problem(rng, 40)
    Y = np.column_stack([y, np.roll(y, 7)])
    gram, loss = DenseGram(RBF(1.0), X, keep=True), Margin(8.0)
    options = {"mean": 0.3 * rng.normal(size=(40, 2)), "weights": np.exp(rng.normal(size=40))}
    for basis in (None, np.ones((40, 1))):
        found = MED().solve(gram, Y, loss, basis=basis, **options)
        other = Dual(tol=1e-12).solve(gram, Y, loss, basis=basis, **options)
        np.testing.assert_allclose(found.z, other.z, atol=1e-5)
        np.testing.assert_allclose(found.alpha, other.alpha, atol=1e-3)
        assert (found.beta is None) == (basis is None)
        assert found.report.converged
        assert found.report.gap is not None
        assert found.report.gap <= 1e-8 * sum(found.report.details["objective"])


def test_rows_that_keep_their_margin_have_no_weight_without_a_bias() -> None:
    y, f0 = np.array([[1.0], [-1.0]]), np.array([[0.95], [-2.0]])
    found = MED().solve(DenseGram.given(np.eye(2)), y, Margin(10.0), mean=f0)
    assert not found.alpha.any()
    np.testing.assert_array_equal(found.z, f0)


@pytest.mark.parametrize(
    ("inference", "loss", "basis", "words"),
    [
        (MED(), Hinge(), None, "losses.Margin"),
        (MED(), Margin(2.0), np.arange(2.0)[:, None], "column of ones"),
        (MED(), Margin(2.0), np.ones((2, 2)), "column of ones"),
        (MED(bias="mean"), Margin(2.0), None, "'exact' or 'median'"),
        (MED(tol=0.0), Margin(2.0), None, "tol"),
        (MED(max_iter=0), Margin(2.0), None, "max_iter"),
    ],
)
def test_what_it_does_not_take(inference: MED, loss: Loss, basis: object, words: str) -> None:
    y = np.array([[1.0], [-1.0]])
    with pytest.raises(ValueError, match=words):
        inference.solve(DenseGram.given(np.eye(2)), y, loss, basis=basis)
