"""The graph Laplacian: reference values, the naive formula, limits, degenerate tables."""

from __future__ import annotations

import numpy as np
import pytest
from tests.reference import manifold, med

from mercer.linalg.graph import neighbour_graph


def dense(X: np.ndarray, *args: object) -> np.ndarray:
    return neighbour_graph(X, *args).laplacian.toarray()  # type: ignore[arg-type]  # of the test


def test_reference_values() -> None:
    L = dense(med.batch(0)[0], 4, 0.5)
    np.testing.assert_allclose(L[0], manifold.FIRST_ROW, atol=1e-9)
    np.testing.assert_allclose(np.linalg.eigvalsh(L), manifold.EIGENVALUES, atol=1e-10)


@pytest.mark.parametrize(("k", "h"), [(1, 0.3), (5, 0.02), (7, 4.0), (100, 1.0)])
def test_equals_the_naive_formula(rng: np.random.Generator, k: int, h: float) -> None:
    X = rng.normal(size=(40, 3))
    graph = neighbour_graph(X, k, h)
    L = graph.laplacian.toarray()
    np.testing.assert_allclose(L, manifold.laplacian(X, k, h), atol=1e-14)
    np.testing.assert_array_equal(L, L.T)
    assert graph.n_neighbors == min(k, 39)
    assert graph.edges == np.count_nonzero(np.triu(L, 1))


def test_weights_of_one(rng: np.random.Generator) -> None:
    X = rng.normal(size=(30, 2))
    np.testing.assert_allclose(dense(X, 4, np.inf), manifold.laplacian(X, 4, 1e12), atol=1e-10)


def test_nothing_underflows(rng: np.random.Generator) -> None:
    X = rng.normal(size=(30, 2))
    L = dense(X, 5, 1e-6)  # the naive weights are exp(-10000) and less
    assert np.isfinite(L).all()
    values = np.linalg.eigvalsh(L)
    assert values[0] > -1e-12
    assert values[-1] < 2.0 + 1e-12
    # a row's nearest neighbour has all the weight there is
    assert np.all(-np.min(L - 2.0 * np.eye(30), axis=1) <= 1.0 + 1e-12)


def test_null_vector_is_the_root_of_the_degrees(rng: np.random.Generator) -> None:
    X = np.concatenate([rng.normal(size=(20, 2)), 100.0 + rng.normal(size=(15, 2))])
    h = 0.7
    L = dense(X, 6, h)
    W = -manifold.laplacian(X, 6, h)
    assert np.sum(np.linalg.eigvalsh(L) < 1e-10) == 2  # two components
    d2 = np.sum((X[:, None] - X[None]) ** 2, axis=2)
    degrees = (np.exp(-d2 / (4 * h)) * ((W > 0) & ~np.eye(35, dtype=bool))).sum(axis=1)
    one = np.where(np.arange(35) < 20, np.sqrt(degrees), 0.0)
    np.testing.assert_allclose(L @ one, 0.0, atol=1e-12)


def test_default_heat_is_the_median_distance(rng: np.random.Generator) -> None:
    X = rng.normal(size=(25, 3))
    d2 = np.sort(np.sum((X[:, None] - X[None]) ** 2, axis=2), axis=1)
    graph = neighbour_graph(X, 4)
    assert graph.heat == pytest.approx(np.median(d2[:, 4]), rel=1e-12)
    # a scale of the inputs is a scale of the heat, and the graph is the same
    scaled = neighbour_graph(1000.0 * X, 4)
    np.testing.assert_allclose(scaled.laplacian.toarray(), graph.laplacian.toarray(), atol=1e-12)


def test_one_row_has_no_penalty() -> None:
    graph = neighbour_graph(np.zeros((1, 2)), 10)
    assert graph.laplacian.toarray() == 0.0
    assert (graph.edges, graph.n_neighbors) == (0, 0)


def test_two_rows() -> None:
    np.testing.assert_allclose(dense(np.array([[0.0], [3.0]]), 5), [[1.0, -1.0], [-1.0, 1.0]])


def test_repeated_rows(rng: np.random.Generator) -> None:
    X = np.repeat(rng.normal(size=(5, 2)), 4, axis=0)
    graph = neighbour_graph(X, 3)  # the nearest are all copies: the median distance is zero
    assert graph.heat > 0.0
    assert np.isfinite(graph.laplacian.data).all()
    assert neighbour_graph(np.ones((6, 2)), 3).heat == np.inf


def test_rows_too_far_for_a_distance() -> None:
    X = np.array([[0.0], [1.0], [1e200]])
    L = dense(X, 1, 1.0)
    np.testing.assert_allclose(L[:2, :2], [[1.0, -1.0], [-1.0, 1.0]])
    np.testing.assert_array_equal(L[2], 0.0)
    assert np.isfinite(dense(X, 1)).all()
    assert np.isfinite(dense(1e200 * X[:2], 1)).all()
