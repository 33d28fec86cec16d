"""The variational Gaussian from sums over blocks: the one of rows in memory, and differences."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from mercer import GPClassifier
from mercer.core.arrays import Array
from mercer.core.basis import PolynomialBasis
from mercer.inference import Variational
from mercer.inference.blocks.collapsed import gaussian, gaussian_slopes
from mercer.inference.blocks.prepared import Prepared
from mercer.inference.blocks.sites import variational, variational_slopes
from mercer.kernels import RBF, Kernel, White
from mercer.linalg import Inducing
from mercer.linalg.blocks.engine import Answer, Part
from mercer.linalg.blocks.local import LocalEngine
from mercer.linalg.reduced.gram import ReducedGram
from mercer.losses import Gaussian, Logistic, NormalizedHinge, Poisson, Probit, Softmax, StudentT
from mercer.process.process import Posterior, Prior

KERNEL = 1.4 * RBF(length_scale=np.array([0.8, 1.2]))
SHARP = Variational(tol=1e-9, max_iter=500)


def table(n: int = 120) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    y = np.sin(2.0 * X[:, :1]) + X[:, 1:] ** 2 / 2.0 + 0.3 * rng.normal(size=(n, 1))
    return X, y, np.linspace(0.5, 2.0, n)


def labels(y: Array) -> Array:
    return np.sign(y - 0.5)


def counts(y: Array) -> Array:
    return np.random.default_rng(1).poisson(np.exp(0.5 * y)).astype(float)


def same(y: Array) -> Array:
    return y


def plain(basis: Any = None, **given: Any) -> Prepared:
    return Prepared(np.zeros(2), np.ones(2), basis=basis, **given)


CASES: list[tuple[Any, Any]] = [
    (labels, Logistic()),
    (labels, Probit()),
    (labels, NormalizedHinge()),
    (counts, Poisson()),
    (same, StudentT(scale=0.3, df=4.0)),
    (same, Gaussian(0.05)),
]


@pytest.mark.parametrize(("targets", "loss"), CASES)
@pytest.mark.parametrize("basis", [None, PolynomialBasis(0)])
def test_blocks_are_the_rows_in_memory(targets: Any, loss: Any, basis: Any) -> None:
    X, y, w = table()
    y, Z = targets(y), X[:12] + 0.01
    H = None if basis is None else basis(X)
    gram = ReducedGram(KERNEL, X, Z)
    found = SHARP.solve(gram, y, loss, basis=H, weights=w)
    evidence = SHARP.evidence(gram, y, loss, found)
    engine, prepared = LocalEngine.of_arrays(X, y, w, size=50), plain(basis)
    blocks = variational(engine, prepared, KERNEL, loss, Z, tol=1e-8)
    assert blocks.report.converged, blocks.report
    assert blocks.value == pytest.approx(evidence.value, rel=1e-8)
    assert blocks.alpha == pytest.approx(gram.carry(found.alpha), rel=1e-5, abs=1e-6)
    assert blocks.operator.root == pytest.approx(found.factor.R, rel=1e-6, abs=1e-6)
    if basis is not None:
        assert blocks.beta == pytest.approx(found.beta, rel=1e-5, abs=1e-7)
    degrees = blocks.report.details["degrees_of_freedom"]
    assert degrees == pytest.approx(float(found.W @ found.factor.cov_diag()), rel=1e-6)
    free = np.array(blocks.report.details["free_energies"])
    assert np.all(np.diff(free) <= 1e-8)
    slopes, points = gram.slopes(found.alpha, found.factor, moved=True)
    by_part = variational_slopes(engine, prepared, loss, blocks, moved=True)
    for path, slope in slopes.items():
        assert by_part["kernel"][path] == pytest.approx(slope, rel=1e-5, abs=1e-5)
    for path, slope in evidence.loss_gradient.items():
        assert by_part["loss"][path] == pytest.approx(slope, rel=1e-5, abs=1e-6)
    top = np.abs(points).max()
    assert by_part["inducing"]["points"] == pytest.approx(points, abs=1e-5 * top)


def test_gaussian_noise_is_the_collapsed_bound() -> None:
    X, y, w = table()
    engine, prepared = LocalEngine.of_arrays(X, y, w, size=50), plain(PolynomialBasis(1))
    given: Any = (engine, prepared, KERNEL, Gaussian(0.05), X[:12])
    one, other = gaussian(*given), variational(*given)
    assert other.value == pytest.approx(one.value, rel=1e-10)
    assert other.alpha == pytest.approx(one.alpha, rel=1e-7)
    slopes = gaussian_slopes(engine, prepared, Gaussian(0.05), one)
    again = variational_slopes(engine, prepared, Gaussian(0.05), other)
    assert again["loss"]["noise"] == pytest.approx(slopes["loss"]["noise"], rel=1e-7)


def test_gradients_are_differences() -> None:
    X, y, w = table()
    y, Z, h = labels(y), X[:8] + 0.03, 1e-4
    engine, prepared = LocalEngine.of_arrays(X, y, w, size=40), plain(PolynomialBasis(0))

    def value(kernel: Kernel = KERNEL, Z: Array = Z) -> float:
        return variational(engine, prepared, kernel, Logistic(), Z, tol=1e-9).value

    solved = variational(engine, prepared, KERNEL, Logistic(), Z, tol=1e-9)
    found = variational_slopes(engine, prepared, Logistic(), solved, moved=True)
    ends = [value(KERNEL.replaced({"variance": 1.4 + t})) for t in (h, -h)]
    assert found["kernel"]["variance"] == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-5)
    step = np.zeros_like(Z)
    step[3, 1] = h
    slope = (value(Z=Z + step) - value(Z=Z - step)) / (2 * h)
    assert found["inducing"]["points"][3, 1] == pytest.approx(slope, rel=1e-5)


def test_one_against_the_rest_is_the_classifier() -> None:
    X, y, _ = table(200)
    y = np.array(["a", "b", "c"])[np.digitize(y[:, 0], [0.0, 0.8])]
    Z, kernel = X[:15], 3.0 * RBF(0.9)
    machine = GPClassifier(
        kernel, loss="logistic", inference="variational", gram=Inducing(Z), search=None
    )
    machine.set_params(standardize=False).fit(X, y)
    engine = LocalEngine.of_arrays(X, y, None, size=64)
    prepared = plain(classes=np.array(["a", "b", "c"]), coding="rest")
    found = variational(engine, prepared, kernel, Logistic(), Z)
    assert found.value == pytest.approx(machine.log_evidence_, rel=1e-6)
    assert found.alpha.shape == (15, 3)
    other = machine.posteriors_[0]
    own = Posterior(Prior(kernel, 3), found.support, found.alpha, found.operator)
    T = np.random.default_rng(1).normal(size=(30, 2))
    assert own.mean(T) == pytest.approx(other.mean(T), abs=1e-5)
    assert own.blocks(T) == pytest.approx(other.blocks(T), abs=1e-5)
    machine.posteriors_ = [own]
    assert machine.predict_proba(T).shape == (30, 3)


def test_a_start_nearby_saves_passes_and_bits_do_not_depend_on_workers() -> None:
    X, y, w = table(300)
    y, Z = labels(y), X[:10]
    engines = [LocalEngine.of_arrays(X, y, w, size=23, workers=k) for k in (1, 3)]
    one, three = (variational(e, plain(), KERNEL, Logistic(), Z) for e in engines)
    assert (one.value, one.alpha.tobytes()) == (three.value, three.alpha.tobytes())
    slopes = [variational_slopes(e, plain(), Logistic(), one, moved=True) for e in engines]
    assert slopes[0]["inducing"]["points"].tobytes() == slopes[1]["inducing"]["points"].tobytes()
    again = variational(engines[0], plain(), KERNEL, Logistic(), Z, start=one)
    assert again.report.details["passes"] == 1
    assert again.value == one.value
    near = KERNEL.replaced({"variance": 1.5})
    passes = variational(engines[0], plain(), near, Logistic(), Z, start=one).report.details
    assert passes["passes"] < one.report.details["passes"]


class Elsewhere(LocalEngine):
    """Tasks, broadcasts and answers go through pickles, as they do between processes."""

    def _merged(self, task: Any, broadcast: Part, merge: Any) -> Answer:
        there, given = pickle.loads(pickle.dumps((task, broadcast)))
        return super()._merged(
            lambda block, _: pickle.loads(pickle.dumps(there(block, given))), {}, merge
        )


def test_passes_travel() -> None:
    X, y, w = table(80)
    for loss, targets in ((Gaussian(0.05), y), (Logistic(), labels(y))):
        values = []
        for kind in (LocalEngine, Elsewhere):
            engine, prepared = kind.of_arrays(X, targets, w, size=30), plain(PolynomialBasis(0))
            given: Any = (engine, prepared, KERNEL, loss, X[:8])
            solve, slopes = (variational, variational_slopes)
            if targets is y:
                solve, slopes = gaussian, gaussian_slopes  # type: ignore[assignment]  # as they are called here
            found = solve(*given)
            points = slopes(engine, prepared, loss, found, moved=True)["inducing"]["points"]
            values.append((found.value, points.tobytes()))
        assert values[0] == values[1]


def test_empty_blocks_and_limits() -> None:
    X, y, w = table()
    y, w = labels(y), np.where(np.arange(120) < 40, 0.0, w)
    Z = X[-12:]
    engines = LocalEngine.of_arrays(X, y, w, size=40), LocalEngine.of_arrays(X[40:], y[40:], w[40:])
    one, other = (variational(e, plain(), KERNEL, Logistic(), Z) for e in engines)
    assert one.value == pytest.approx(other.value, rel=1e-10)
    slopes = variational_slopes(engines[0], plain(), Logistic(), one)["kernel"]["variance"]
    others = variational_slopes(engines[1], plain(), Logistic(), other)["kernel"]["variance"]
    assert slopes == pytest.approx(others, rel=1e-6)
    short = variational(engines[0], plain(), KERNEL, Logistic(), Z, max_iter=2)
    assert not short.report.converged
    assert "max_iter" in short.report.message
    assert short.value < one.value


def test_refuses_what_it_cannot_do() -> None:
    X, y, w = table(20)
    engine = LocalEngine.of_arrays(X, labels(y), w)
    with pytest.raises(ValueError, match="a noise part of the kernel"):
        variational(engine, plain(), KERNEL + White(0.1), Logistic(), X[:3])
    with pytest.raises(ValueError, match="one per class"):
        variational(engine, plain(), KERNEL, Softmax(), X[:3])
