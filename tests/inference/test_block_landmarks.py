"""Landmark machines on blocks of rows: against the machine that has all rows, and the gap."""

from __future__ import annotations

import pickle
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mercer import losses
from mercer.core.arrays import Array
from mercer.estimators.support_vector.base import one_constant
from mercer.inference import Primal
from mercer.inference.blocks import landmarks
from mercer.inference.blocks.collapsed import broadcast, standing
from mercer.inference.blocks.landmarks import mode
from mercer.inference.blocks.looks import Ask, answers, looked, sums
from mercer.inference.blocks.prepared import BlockRows, BlockSolution, Prepared
from mercer.inference.mode.prox import conjugate
from mercer.kernels import RBF, White
from mercer.linalg.blocks.checkpoint import Checkpointed
from mercer.linalg.blocks.cluster import DaskEngine
from mercer.linalg.blocks.engine import Answer, RowBlock
from mercer.linalg.blocks.local import LocalEngine
from mercer.linalg.reduced.features import Features
from mercer.linalg.reduced.gram import ReducedGram

N, M, SIZE = 400, 20, 130
KERNEL = RBF(length_scale=0.8)
RNG = np.random.default_rng(5)
X = RNG.normal(size=(N, 2))
SIGNAL = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] ** 2
Y = SIGNAL + 0.3 * RNG.standard_t(3, size=N)
LABELS = np.where(Y > 0.5, 1.0, -1.0)
COUNTS = RNG.poisson(np.exp(0.5 * SIGNAL)).astype(float)
WEIGHTS = RNG.uniform(0.3, 2.0, N)
Z = X[:M]
LOSSES: list[tuple[Any, Array]] = [
    (losses.Hinge(2.0), LABELS),
    (losses.SquaredHinge(2.0), LABELS),
    (losses.EpsilonInsensitive(3.0, 0.2), Y),
    (losses.Pinball(0.8, 0.3), Y),
    (losses.LaplaceNoise(0.5), Y),
    (losses.Huber(0.2, 0.5), Y),
    (losses.Logistic(), LABELS),
    (losses.Gaussian(0.1), Y),
    (losses.Poisson(), COUNTS),
]
EACH = pytest.mark.parametrize(("loss", "y"), LOSSES, ids=lambda p: type(p).__name__)
HINGE, TUBE = LOSSES[0], LOSSES[2]


class LogCosh(losses.Loss):
    """A user's loss, by its value alone."""

    def value(self, y: Array, f: Array) -> Array:
        return np.logaddexp(y - f, f - y)


def one(X: Array) -> Array:
    return np.ones((len(X), 1))


def straight(X: Array) -> Array:
    return np.column_stack([np.ones(len(X)), X])


def curved(X: Array) -> Array:
    return np.column_stack([straight(X), X**2])


def prepared(basis: Any = one, **given: Any) -> Prepared:
    return Prepared(np.zeros(2), np.ones(2), basis=basis, **given)


def engine(y: Any, w: Array | None = WEIGHTS, size: int = SIZE, workers: int = 1) -> LocalEngine:
    return LocalEngine.of_arrays(X, y, w, size=size, workers=workers)


def in_memory(loss: Any, y: Array, basis: Any = one, tol: float = 1e-9) -> Any:
    H = None if basis is None else basis(X)
    return Primal(tol).solve(ReducedGram(KERNEL, X, Z), y[:, None], loss, basis=H, weights=WEIGHTS)


def fitted(found: BlockSolution, basis: Any = one) -> Array:
    smooth = KERNEL(X, found.support) @ found.alpha
    return smooth if found.beta is None else smooth + basis(X) @ found.beta


def objective(loss: Any, y: Array, found: BlockSolution, basis: Any = one) -> float:
    alpha = found.alpha[:, 0]
    penalty = 0.5 * alpha @ KERNEL(found.support) @ alpha
    return float(penalty + WEIGHTS @ loss.value(y, fitted(found, basis)[:, 0]))


@pytest.fixture(autouse=True)
def small_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fourth row is looked at first."""
    monkeypatch.setattr(landmarks, "EACH", N // (4 * M))


@EACH
@pytest.mark.parametrize("basis", [one, None], ids=["constant", "none"])
def test_it_is_the_mode_of_all_rows(loss: Any, y: Array, basis: Any) -> None:
    least = in_memory(loss, y, basis).report.details["objective"]
    floor = float(WEIGHTS @ conjugate(loss, y, np.zeros(N)))
    for tol in (1e-1, 1e-3) if basis is one else (1e-2,):
        found = mode(engine(y), prepared(basis), KERNEL, loss, Z, tol=tol)
        gap, reached = found.report.gap, found.report.details["objective"]
        assert found.report.converged
        assert gap is not None
        assert reached == pytest.approx(objective(loss, y, found, basis), rel=1e-9)
        assert reached - least <= gap + 1e-9 * abs(least)
        assert gap <= tol * (reached + floor)
        assert found.value == -reached
    assert found.operator is None
    assert found.report.details["passes"] <= 60


@EACH
def test_the_gap_bounds_the_distance_of_functions(loss: Any, y: Array) -> None:
    """1/2 |b - b*|^2 <= P(b) - P(b*), and |phi(x)| <= 1."""
    found = mode(engine(y), prepared(None), KERNEL, loss, Z, tol=1e-5)
    assert found.report.converged
    apart = np.abs(fitted(found, None) - in_memory(loss, y, None).z).max()
    assert apart <= np.sqrt(2.0 * (found.report.gap or 0.0)) + 1e-4


@pytest.mark.parametrize("basis", [straight, curved], ids=["3 columns", "5 columns"])
@pytest.mark.parametrize(("loss", "y"), [HINGE, TUBE, LOSSES[6]], ids=lambda p: type(p).__name__)
def test_a_basis_of_several_columns(loss: Any, y: Array, basis: Any) -> None:
    found = mode(engine(y), prepared(basis), KERNEL, loss, Z, tol=1e-5)
    least = in_memory(loss, y, basis).report.details["objective"]
    assert found.report.converged
    assert -1e-9 * least <= objective(loss, y, found, basis) - least <= 1e-5 * least


def test_a_loss_of_the_users_own() -> None:
    found = mode(engine(Y), prepared(), KERNEL, LogCosh(), Z, tol=1e-5)
    assert found.report.converged
    assert np.abs(fitted(found) - in_memory(LogCosh(), Y, tol=1e-6).z).max() < 5e-3


def of_a_point(loss: Any, y: Array, basis: Any, width: float) -> tuple[Any, Array, Array, Array]:
    """What is seen at a point about a centre; features, basis, and f there."""
    gram = ReducedGram(KERNEL, X, Z, keep=True)
    H, rng = basis(X), np.random.default_rng(2)
    points = 0.3 * rng.normal(size=(M + H.shape[1], 2))
    line = rng.normal(size=len(points))
    ask = Ask(0, points, np.array([4.0, 1.0]) * width, line, np.array([-0.1, 0.0, 0.2]))
    part = sums(loss, Features(gram), BlockRows(X, y[:, None], WEIGHTS, H), [ask])
    F = gram.features(slice(None))
    return looked(part, [ask], M)[0], F, H, np.hstack([F, H]) @ points


@pytest.mark.parametrize("basis", [one, straight], ids=["1 column", "3 columns"])
@pytest.mark.parametrize(("loss", "y"), [HINGE, TUBE, LOSSES[3]], ids=lambda p: type(p).__name__)
def test_sums_at_a_point_by_differences(loss: Any, y: Array, basis: Any) -> None:
    """The slope is that of the envelope, whose minimum over z is found by brute force."""
    width = 0.1
    look, F, H, f = of_a_point(loss, y, basis, width)
    z = np.linspace(-6.0, 9.0, 300_001)
    rows, kappa = slice(0, 12), [s * width * loss.width(y) / WEIGHTS for s in (4.0, 1.0)]
    a = np.zeros(12)
    for k in range(2):  # the centre is the slope at the first point
        c = f[rows, k] - kappa[k][rows] * a
        value = WEIGHTS[rows, None] * loss.value(y[rows, None], z)
        best = z[np.argmin(value + (z - c[:, None]) ** 2 / (2.0 * kappa[k][rows, None]), axis=1)]
        a = (best - c) / kappa[k][rows]
    gram = ReducedGram(KERNEL, X[rows], Z, keep=True)
    ask = Ask(0, look_points(M + H.shape[1]), width * np.array([4.0, 1.0]), look.point, np.zeros(1))
    few = BlockRows(X[rows], y[rows, None], WEIGHTS[rows], H[rows])
    seen = looked(sums(loss, Features(gram), few, [ask]), [ask], M)[0]
    minus = np.hstack([F, H])[rows].T @ a
    expected = np.concatenate([seen.point[:M], np.zeros(H.shape[1])]) - minus
    assert seen.slope == pytest.approx(expected, abs=1e-2)


def look_points(size: int) -> Array:
    return 0.3 * np.random.default_rng(2).normal(size=(size, 2))


@EACH
def test_curvature_and_slopes_along_a_line(loss: Any, y: Array) -> None:
    gram, rng = ReducedGram(KERNEL, X, Z, keep=True), np.random.default_rng(3)
    widths = np.array([0.5]) if landmarks.has_kinks(loss) else np.zeros(0)
    point, line, h = 0.2 * rng.normal(size=M + 1), rng.normal(size=M + 1), 1e-5
    rows = BlockRows(X, y[:, None], WEIGHTS, one(X))

    def seen(at: Array) -> Any:
        ask = Ask(0, at[:, None], widths, line, np.array([-h, h]))
        return looked(sums(loss, Features(gram), rows, [ask]), [ask], M)[0]

    look = seen(point)
    bend = line @ look.curve @ line
    assert np.diff(look.along)[0] / (2.0 * h) == pytest.approx(bend, rel=2e-2)
    slope = look.slope @ line - point[:M] @ line[:M]
    assert look.along.mean() == pytest.approx(slope, rel=1e-4, abs=1e-4)


@EACH
@pytest.mark.parametrize("basis", [one, straight], ids=["1 column", "3 columns"])
def test_the_gap_is_one_of_a_feasible_dual_variable(loss: Any, y: Array, basis: Any) -> None:
    """P - D(a) >= P - max D: no point may be certified better than it is."""
    least = in_memory(loss, y, basis).report.details["objective"]
    for width in (1.0, 0.1):
        look = of_a_point(loss, y, basis, width)[0]
        assert look.gap >= look.objective - least - 1e-8 * abs(least)
        assert look.wide >= -1e-9 * abs(look.objective)


@pytest.mark.parametrize(("loss", "y"), [HINGE, LOSSES[6]], ids=lambda p: type(p).__name__)
def test_bits_do_not_depend_on_the_workers(loss: Any, y: Array) -> None:
    first, other = (
        mode(engine(y, workers=workers), prepared(), KERNEL, loss, Z) for workers in (1, 3)
    )
    assert first.beta is not None
    assert other.beta is not None
    assert np.array_equal(first.alpha, other.alpha)
    assert np.array_equal(first.beta, other.beta)
    assert first.report == other.report


def test_bits_are_those_of_a_cluster_and_of_a_fit_that_is_continued(
    client: Any, tmp_path: Path
) -> None:
    loss, y = HINGE
    rows, given = engine(y).readers, prepared(one_constant)
    here = mode(engine(y), given, KERNEL, loss, Z)
    there = mode(DaskEngine(rows, client), given, KERNEL, loss, Z)
    broken = Checkpointed(Breaking(engine(y), 7), tmp_path, {"fit": 1})
    with pytest.raises(KeyboardInterrupt):
        mode(broken, given, KERNEL, loss, Z)
    continued = Checkpointed(engine(y), tmp_path, {"fit": 1})
    again = mode(continued, given, KERNEL, loss, Z)
    assert continued.replayed == 7
    for other in (there, again):
        assert np.array_equal(here.alpha, other.alpha)
        assert here.report == other.report


class Breaking(LocalEngine):
    """One that breaks off after some passes."""

    def __init__(self, engine: LocalEngine, after: int) -> None:
        super().__init__(engine.readers)
        self.left = after

    def _merged(self, *given: Any) -> Answer:
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        return super()._merged(*given)


def test_neither_blocks_nor_their_order_matter() -> None:
    loss, y = HINGE
    whole = fitted(mode(engine(y, size=N), prepared(), KERNEL, loss, Z, tol=1e-6))
    blocks = fitted(mode(engine(y, size=64), prepared(), KERNEL, loss, Z, tol=1e-6))
    turned = engine(y)
    turned.readers = turned.readers[::-1]
    backwards = fitted(mode(turned, prepared(), KERNEL, loss, Z, tol=1e-6))
    assert np.abs(blocks - whole).max() < 5e-3
    assert np.abs(backwards - whole).max() < 5e-3


@pytest.mark.parametrize(("loss", "y"), [HINGE, LOSSES[6]], ids=lambda p: type(p).__name__)
def test_weights_are_repetitions(loss: Any, y: Array) -> None:
    often = np.random.default_rng(0).integers(0, 3, N)
    twice = np.repeat(np.arange(N), often)
    weighted = mode(engine(y, often.astype(float)), prepared(), KERNEL, loss, Z, tol=1e-6)
    rows = LocalEngine.of_arrays(X[twice], y[twice], None, size=SIZE)
    repeated = mode(rows, prepared(), KERNEL, loss, Z, tol=1e-6)
    assert np.abs(fitted(weighted) - fitted(repeated)).max() < 5e-3
    assert weighted.value == pytest.approx(repeated.value, rel=1e-6)


def test_blocks_of_one_class_of_one_row_and_of_none() -> None:
    loss, y = HINGE
    order = np.argsort(LABELS, kind="stable")
    cuts = [0, 1, 2, 40, 200, 390, N]
    readers = [
        lambda i=i, a=a, b=b: RowBlock(i, X[order[a:b]], y[order[a:b]], WEIGHTS[order[a:b]])
        for i, (a, b) in enumerate(pairwise(cuts))
    ]
    nothing = [lambda: RowBlock(len(cuts), X[:5], y[:5], np.zeros(5))]
    found = mode(LocalEngine(readers + nothing), prepared(), KERNEL, loss, Z, tol=1e-6)
    least = in_memory(loss, y).report.details["objective"]
    assert found.report.converged
    assert -1e-9 * least <= objective(loss, y, found) - least <= 1e-6 * least


@pytest.mark.parametrize("basis", [one, None], ids=["constant", "none"])
def test_one_class_in_all(basis: Any) -> None:
    found = mode(engine(np.ones(N)), prepared(basis), KERNEL, losses.Hinge(), Z, tol=1e-6)
    assert found.report.converged
    least = in_memory(losses.Hinge(), np.ones(N), basis, 1e-7).report.details["objective"]
    assert found.report.details["objective"] <= least + 1e-6 * (1.0 + least)


def test_a_constant_without_bound_does_not_take_passes_for_ever() -> None:
    """One class alone: the logistic loss falls to nothing as the constant grows."""
    found = mode(engine(np.ones(N)), prepared(), KERNEL, losses.Logistic(), Z)
    assert found.report.details["objective"] < 1e-9
    assert found.report.details["passes"] < 50


def test_no_row_on_what_is_rounded_off() -> None:
    """Far from all kinks nothing bends; the constant has to find them again."""
    loss = losses.EpsilonInsensitive(3.0, 0.2)
    found = mode(engine(Y + 1e4), prepared(), KERNEL, loss, Z, tol=1e-4)
    near = mode(engine(Y), prepared(), KERNEL, loss, Z, tol=1e-4)
    assert found.report.converged
    assert found.value == pytest.approx(near.value, rel=1e-4)


@pytest.mark.parametrize(("loss", "y"), [HINGE, TUBE, LOSSES[6]], ids=lambda p: type(p).__name__)
def test_a_sample_of_all_rows_is_certified_at_once(
    loss: Any, y: Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landmarks, "EACH", 64)
    found = mode(engine(y), prepared(), KERNEL, loss, Z)
    assert found.report.details["sample"] == N
    assert found.report.converged
    assert found.report.details["passes"] <= 4


def test_the_sample_is_bounded() -> None:
    found = mode(engine(LABELS), prepared(), KERNEL, losses.Hinge(), Z)
    assert found.report.details["sample"] <= N // 4 + N // SIZE + 1


def classes() -> tuple[NDArray[Any], Prepared]:
    y = np.array(["a", "b", "c"])[np.digitize(SIGNAL, [0.0, 0.8])]
    return y, prepared(classes=np.array(["a", "b", "c"]), coding="rest")


def test_several_columns_in_the_same_passes() -> None:
    y, three = classes()
    loss = losses.Hinge(2.0)
    found = mode(engine(y), three, KERNEL, loss, Z)
    most = 0
    for j, label in enumerate("abc"):
        own = np.where(y == label, 1.0, -1.0)
        alone = mode(engine(own), prepared(), KERNEL, loss, Z)
        assert np.abs(found.alpha[:, j] - alone.alpha[:, 0]).max() < 1e-8
        assert found.report.columns[j].gap == pytest.approx(alone.report.gap, rel=1e-5)
        most = max(most, alone.report.details["passes"])
    assert found.report.details["passes"] == most
    assert found.report.converged


def test_landmarks_that_say_nothing_new_are_dropped() -> None:
    loss, y = HINGE
    double = np.vstack([Z, Z[:3]])
    found = mode(engine(y), prepared(), KERNEL, loss, double)
    assert found.used.sum() == len(found.support) == M
    assert found.alpha.shape == (M, 1)
    assert found.report.details["dropped"] == 3


def test_the_task_travels() -> None:
    loss, y = HINGE
    fixed = Prepared(np.zeros(2), np.ones(2), basis=one)
    shared = broadcast(fixed, standing(KERNEL, loss, Z), loss)
    ask = Ask(0, look_points(M + 1), np.array([1.0, 0.5]), np.ones(M + 1), np.zeros(2))
    block, given = RowBlock(0, X, y, WEIGHTS), shared | {"asks": [ask]}
    here = answers(block, given)
    for name, value in answers(block, pickle.loads(pickle.dumps(given))).items():
        assert np.array_equal(here[name], value)


def test_what_it_refuses() -> None:
    with pytest.raises(ValueError, match="noise parts"):
        mode(engine(Y), prepared(), KERNEL + White(0.1), losses.Huber(), Z)
    with pytest.raises(ValueError, match="not convex"):
        mode(engine(Y), prepared(), KERNEL, losses.StudentT(), Z)
    with pytest.raises(ValueError, match="one binary problem per class"):
        mode(engine(np.zeros(N)), prepared(), KERNEL, losses.Softmax(), Z)
    short = mode(engine(LABELS), prepared(), KERNEL, losses.Hinge(), Z, tol=1e-9, max_iter=2)
    assert not short.report.converged
    assert short.report.message
