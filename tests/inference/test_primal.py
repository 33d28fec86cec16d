"""Landmark machines: against libsvm and the dual at Z = X, the duality gap, blocks and levels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.svm import SVC as LibSVC
from sklearn.svm import SVR as LibSVR

from mercer import losses
from mercer.core.arrays import Array
from mercer.inference import Dual, Newton, Primal, primal
from mercer.kernels import RBF, White
from mercer.linalg import DenseGram
from mercer.linalg.reduced.gram import ReducedGram
from mercer.process.process import Prior

N = 120
KERNEL = RBF(length_scale=0.8)
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 2))
SIGNAL = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] ** 2
Y = (SIGNAL + 0.3 * RNG.standard_t(3, size=N))[:, None]
LABELS = np.where(Y > 0.5, 1.0, -1.0)
WEIGHTS = RNG.uniform(0.3, 2.0, N)
ONES = np.ones((N, 1))
SOFTMAX = losses.Softmax()
COUNTS = RNG.poisson(np.exp(0.5 * SIGNAL))[:, None].astype(float)
LOSSES: list[tuple[Any, Array]] = [
    (losses.Hinge(2.0), LABELS),
    (losses.EpsilonInsensitive(3.0, 0.2), Y),
    (losses.Pinball(0.8, 0.3), Y),
    (losses.LaplaceNoise(0.5), Y),
    (losses.Huber(0.2, 0.5), Y),
    (losses.Logistic(), LABELS),
    (losses.SquaredHinge(2.0), LABELS),
    (losses.Poisson(), COUNTS),
]
EACH = pytest.mark.parametrize(("loss", "y"), LOSSES, ids=lambda p: type(p).__name__)


class LogCosh(losses.Loss):
    """A user's loss, by its value alone."""

    def value(self, y: Array, f: Array) -> Array:
        return np.logaddexp(y - f, f - y)


def objective(loss: Any, y: Array, b: Array, f: Array, w: Array) -> float:
    return float(0.5 * b @ b + w @ loss.value(y[:, 0], f[:, 0]))


def at_all_rows() -> ReducedGram:
    return ReducedGram(KERNEL, X, X)


def test_hinge_is_that_of_libsvm() -> None:
    theirs = LibSVC(C=2.0, kernel="precomputed", tol=1e-8)
    theirs.fit(KERNEL(X), LABELS[:, 0], sample_weight=WEIGHTS)
    found = Primal(1e-6).solve(
        at_all_rows(), LABELS, losses.Hinge(2.0), basis=ONES, weights=WEIGHTS
    )
    assert np.abs(found.z[:, 0] - theirs.decision_function(KERNEL(X))).max() < 5e-3


def test_insensitive_tube_is_that_of_libsvm() -> None:
    theirs = LibSVR(C=3.0, epsilon=0.2, kernel="precomputed", tol=1e-8)
    theirs.fit(KERNEL(X), Y[:, 0], sample_weight=WEIGHTS)
    loss = losses.EpsilonInsensitive(3.0, 0.2)
    found = Primal(1e-6).solve(at_all_rows(), Y, loss, basis=ONES, weights=WEIGHTS)
    assert np.abs(found.z[:, 0] - theirs.predict(KERNEL(X))).max() < 5e-3


@EACH
def test_at_all_rows_it_is_the_dual(loss: Any, y: Array) -> None:
    given: dict[str, Any] = {"basis": ONES, "weights": WEIGHTS}
    exact = Dual().solve(DenseGram(KERNEL, X, keep=True), y, loss, **given)
    found = Primal(1e-6).solve(at_all_rows(), y, loss, **given)
    assert found.report.converged
    assert np.abs(found.z - exact.z).max() < 5e-3
    assert abs(float(found.alpha.sum())) < 1e-8 * float(np.abs(found.alpha).sum())


def test_a_loss_of_the_users_own() -> None:
    exact = Dual(tol=1e-6).solve(DenseGram(KERNEL, X, keep=True), Y, LogCosh())
    found = Primal(1e-5).solve(at_all_rows(), Y, LogCosh())
    assert np.abs(found.z - exact.z).max() < 5e-3


@EACH
def test_the_gap_bounds_what_is_missing(loss: Any, y: Array) -> None:
    gram = ReducedGram(KERNEL, X, X[:20])
    F = gram.features(slice(None))
    given: dict[str, Any] = {"basis": ONES, "weights": WEIGHTS}
    best = Primal(1e-10).solve(gram, y, loss, **given)
    least = objective(loss, y, F.T @ best.alpha[:, 0], best.z, WEIGHTS)
    assert best.report.details["objective"] == pytest.approx(least, rel=1e-12)
    for tol in (0.3, 1e-2, 1e-4):
        found = Primal(tol).solve(gram, y, loss, **given)
        b = F.T @ found.alpha[:, 0]
        assert found.z == pytest.approx(F @ b[:, None] + np.ones((N, 1)) @ found.beta, abs=1e-9)
        missing = objective(loss, y, b, found.z, WEIGHTS) - least
        gap = found.report.gap
        assert gap is not None
        assert missing <= gap + 1e-9 * abs(least)
        least_loss = -float(WEIGHTS @ losses.base.Loss.conjugate(loss, y[:, 0], np.zeros(N)))
        assert gap <= tol * (objective(loss, y, b, found.z, WEIGHTS) - least_loss) * (1.0 + 1e-6)


@EACH
def test_blocks_do_not_matter(loss: Any, y: Array) -> None:
    whole = Primal().solve(ReducedGram(KERNEL, X, X[:20], keep=True), y, loss, basis=ONES)
    parts = Primal().solve(
        ReducedGram(KERNEL, X, X[:20], keep=False, block=37), y, loss, basis=ONES
    )
    assert np.abs(whole.z - parts.z).max() < 1e-10


@pytest.mark.parametrize(("loss", "y"), LOSSES[:3], ids=lambda p: type(p).__name__)
def test_a_first_look_at_few_rows_ends_at_the_same(
    loss: Any, y: Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    gram = ReducedGram(KERNEL, X, X[:20])
    direct = Primal(1e-8).solve(gram, y, loss, basis=ONES, weights=WEIGHTS)
    monkeypatch.setattr(primal, "levels", lambda n, m: [4, 1])
    looked = Primal(1e-8).solve(gram, y, loss, basis=ONES, weights=WEIGHTS)
    assert looked.report.converged
    assert np.abs(looked.z - direct.z).max() < 1e-3
    assert primal.levels.__name__ == "<lambda>"


def test_levels_of_many_rows() -> None:
    assert primal.levels(20_000, 500) == [1]
    assert primal.levels(10**6, 500) == [31, 1]


def test_several_outputs_and_their_function() -> None:
    gram = ReducedGram(KERNEL, X, X[:25])
    both = np.hstack([LABELS, LABELS[::-1]])
    found = Primal(1e-8).solve(gram, both, losses.Hinge(2.0), basis=ONES)
    assert len(found.report.columns) == 2
    for j in range(2):
        one = Primal(1e-8).solve(gram, both[:, [j]], losses.Hinge(2.0), basis=ONES)
        assert np.abs(one.z[:, 0] - found.z[:, j]).max() < 1e-8
    process = Prior(KERNEL, 2).condition(X, found, lambda points: np.ones((len(points), 1)), gram)
    assert len(process.points) == 25
    assert not process.has_spread
    assert np.abs(process.mean(X) - found.z).max() < 1e-8


def test_one_class_of_labels_and_no_basis() -> None:
    found = Primal(1e-8).solve(ReducedGram(KERNEL, X, X[:20]), np.ones((N, 1)), losses.Hinge())
    assert found.report.converged


def test_what_it_refuses() -> None:
    noisy = ReducedGram(KERNEL + White(0.1), X, X[:9])
    with pytest.raises(ValueError, match="noise parts"):
        Primal().solve(noisy, Y, losses.Huber())
    with pytest.raises(ValueError, match="not convex"):
        Primal().check(losses.StudentT())
    with pytest.raises(ValueError, match="positive"):
        Primal(tol=0.0).check(losses.Hinge())
    short = Primal(1e-9, max_iter=2).solve(ReducedGram(KERNEL, X, X[:20]), LABELS, losses.Hinge())
    assert not short.report.converged


CLASSES = np.digitize(SIGNAL, [0.0, 0.8])[:, None].astype(float)
CLASSES[:4, 0] = 3.0


@pytest.mark.parametrize("basis", [None, ONES, np.hstack([ONES, X[:, :1]])], ids=["", "1", "1 x"])
def test_a_softmax_on_all_rows_is_the_exact_one(basis: Array | None) -> None:
    mean = 0.3 * np.random.default_rng(0).normal(size=(N, 4))
    given: dict[str, Any] = {"basis": basis, "weights": WEIGHTS, "mean": mean}
    exact = Newton(tol=1e-14).solve(DenseGram(KERNEL, X, keep=True), CLASSES, SOFTMAX, **given)
    for gram in (at_all_rows(), DenseGram(KERNEL, X, keep=True)):
        ours = Primal(tol=1e-15).solve(gram, CLASSES, SOFTMAX, **given)
        np.testing.assert_allclose(ours.z, exact.z, atol=1e-8)
        np.testing.assert_allclose(ours.alpha, exact.alpha, atol=1e-8)
        np.testing.assert_allclose(ours.W, exact.W, atol=1e-8)
        assert ours.report.details["objective"] == pytest.approx(
            exact.report.details["objective"], abs=1e-8
        )
        again = Primal(tol=1e-10).solve(gram, CLASSES, SOFTMAX, **given, start=ours)
        assert (again.report.iterations or 0) <= 1


def test_a_softmax_in_blocks_and_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    Z = X[:20]
    given: dict[str, Any] = {"basis": ONES, "weights": WEIGHTS}
    whole = Primal(tol=1e-12).solve(ReducedGram(KERNEL, X, Z), CLASSES, SOFTMAX, **given)
    assert 0.0 <= (whole.report.gap or 0.0) <= 1e-12 * whole.report.details["objective"]
    monkeypatch.setattr(primal, "levels", lambda n, m: [4, 1])
    blocks = ReducedGram(KERNEL, X, Z, keep=False, block=37)
    found = Primal(tol=1e-12).solve(blocks, CLASSES, SOFTMAX, **given)
    np.testing.assert_allclose(found.z, whole.z, atol=1e-7)
    rough = Primal().solve(ReducedGram(KERNEL, X, Z, single=True), CLASSES, SOFTMAX, **given)
    assert rough.report.details["features"] == "float32"
    assert (rough.report.gap or 0.0) <= 1e-3 * rough.report.details["objective"]
    np.testing.assert_allclose(rough.z, whole.z, atol=0.1)
