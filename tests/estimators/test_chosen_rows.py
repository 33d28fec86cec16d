"""Inducing points of kernels that have no space: a set of rows, never centres, never moved."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import mercer
from mercer import GPClassifier, GPRegressor
from mercer.core.arrays import Array
from mercer.kernels import RBF, Categorical, Columns, Function, Kernel, Precomputed
from mercer.linalg.representation import Inducing

N = 60
RNG = np.random.default_rng(0)
WORDS = ["".join(RNG.choice(list("abc"), size=RNG.integers(4, 9))) for _ in range(N)]
ROWS = np.arange(N, dtype=float)[:, None]
PLACES = RNG.normal(size=(N, 2))


def shared(a: str, b: str) -> float:
    """How many pairs of neighbouring letters two words have in common, of all lengths as one."""
    pairs = [list(pairwise(word)) for word in (a, b)]
    return sum(x == y for x in pairs[0] for y in pairs[1]) / np.sqrt(len(a) * len(b))


def diffusion() -> Array:
    """The heat kernel of a graph of near neighbours."""
    far = np.linalg.norm(PLACES[:, None] - PLACES, axis=2)
    A = (far < 0.8).astype(float) - np.eye(N)
    values, vectors = np.linalg.eigh(np.diag(A.sum(axis=1)) - A)
    return np.asarray((vectors * np.exp(-0.5 * values)) @ vectors.T)


WORD_KERNEL = np.array([[shared(a, b) for b in WORDS] for a in WORDS]) + 0.3 * np.eye(N)


def looked_up(X: Array, Z: Array) -> Array:
    """A function of row numbers: a number between two rows would be read as one of them."""
    return WORD_KERNEL[np.ix_(X[:, 0].astype(int), Z[:, 0].astype(int))]


KERNELS: dict[str, Kernel] = {
    "given": 1.5 * Precomputed(RBF()(PLACES)),
    "graph": 2.0 * Precomputed(diffusion()),
    "strings": 1.0 * Function(looked_up),
}


def targets() -> Array:
    return np.sin(2.0 * PLACES[:, 0]) + np.array([word.count("ab") for word in WORDS])


@pytest.mark.parametrize("name", KERNELS)
def test_all_rows_are_the_dense_model(name: str) -> None:
    kernel, y = KERNELS[name], targets()
    dense = GPRegressor(kernel, search=None).fit(ROWS, y)
    few = GPRegressor(kernel, search=None, gram=Inducing(m=ROWS)).fit(ROWS, y)
    assert few.log_evidence_ == pytest.approx(dense.log_evidence_, rel=1e-7)
    for found, wanted in zip(
        few.predict(ROWS, return_std=True), dense.predict(ROWS, return_std=True), strict=True
    ):
        assert found == pytest.approx(wanted, rel=1e-6, abs=1e-6)
    c = (y > np.median(y)).astype(int)
    sure = GPClassifier(kernel, search=None, inference="ep").fit(ROWS, c)
    like = GPClassifier(kernel, search=None, inference="ep", gram=Inducing(m=ROWS)).fit(ROWS, c)
    assert like.predict_proba(ROWS) == pytest.approx(sure.predict_proba(ROWS), abs=1e-5)


@pytest.mark.parametrize("choose", ["kmeans", "pivots", "random_pivots", "uniform"])
@pytest.mark.parametrize("name", KERNELS)
def test_points_are_rows(name: str, choose: str) -> None:
    for machine, y in ((GPRegressor, targets()), (GPClassifier, targets() > 1.0)):
        model: Any = machine(KERNELS[name], search=None, gram=Inducing(m=20, choose=choose))
        model.fit(ROWS, y)
        points = model.posteriors_[0].points
        assert len(points) == len(np.unique(points)) <= 20
        assert np.isin(points, ROWS).all()
        said = "random_pivots" if choose == "kmeans" else choose
        assert model.report_["inducing"]["chosen"] == said


def test_what_a_row_cannot_do_is_said() -> None:
    with pytest.raises(ValueError, match=r"move=True.* cannot move the points of this kernel"):
        GPRegressor(KERNELS["graph"], gram=Inducing(m=10, move=True)).fit(ROWS, targets())
    K = RBF()(PLACES)
    with pytest.raises(ValueError, match=r"Precomputed\(matrix\)"):
        GPRegressor(Precomputed(), gram=Inducing(m=10)).fit(K, targets())


def test_categories_are_not_averaged() -> None:
    codes = RNG.integers(0, 5, size=(N, 1)).astype(float)
    X = np.hstack([PLACES, codes])
    kernel = 1.0 * Columns(RBF(), [0, 1]) * Columns(Categorical(), [2])
    model = GPRegressor(kernel, search=None, gram=Inducing(m=15)).fit(X, targets())
    assert np.isin(model.posteriors_[0].points[:, 2], codes).all()


@pytest.mark.parametrize("machine", [GPRegressor, GPClassifier])
def test_search_and_files(machine: Any, tmp_path: Any) -> None:
    y = targets() if machine is GPRegressor else targets() > 1.0
    model = machine(KERNELS["graph"], gram=Inducing(m=20, rows=30, max_iter=5)).fit(ROWS, y)
    assert "moved" not in model.report_["inducing"]["chosen"]
    mercer.save(model, tmp_path / "model.mercer")
    twin = mercer.load(tmp_path / "model.mercer")
    assert np.array_equal(twin.predict(ROWS), model.predict(ROWS))
