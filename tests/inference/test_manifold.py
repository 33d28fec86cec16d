"""Sequential functions on graphs: the block form, the single formula, landmarks."""

from __future__ import annotations

import numpy as np
import pytest

from mercer.inference.graph import Landmarked, Manifold, Whole, at_once, landmarked
from mercer.kernels import RBF
from mercer.linalg.graph import neighbour_graph
from tests.reference.manifold import (
    AVERAGED,
    DECISION,
    MOMENT_D,
    MOMENT_S,
    arrays,
    averaged,
    block_diagonal,
    conditioned,
    reference_batches,
    stream,
)
from tests.reference.med import NEW

KERNEL = RBF(0.8)
LIMITS = {"per_batch": 50, "most": 500, "support": 500}


def batches(rng: np.random.Generator, sizes: tuple[int, ...]) -> list[np.ndarray]:
    return [rng.normal(size=(n, 2)) for n in sizes]


def absorbed(start: Manifold, tables: list[np.ndarray], beta: float = 2.0) -> Manifold:
    """Let a manifold learn fixed coefficients, two functions, at every second row."""
    for t, X in enumerate(tables):
        rows = np.arange(len(X)) + sum(map(len, tables[:t]))
        at = np.arange(0, len(X), 2)
        step = start.smooth(X, rows, 2.0 * beta * neighbour_graph(X, 4).laplacian, at)
        c = np.column_stack([np.cos(at + t), np.sin(at - t)])
        start = step.learn(c)
    return start


def empty_landmarks(residual: bool = True, **limits: int) -> Landmarked:
    nothing = Whole.empty(KERNEL, 2, 2)
    return landmarked(nothing, residual=residual, count=0, **(LIMITS | limits))


def values(manifold: Manifold, Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    A = manifold.operator().Q @ KERNEL(manifold.points, Z)
    return KERNEL(Z, manifold.points) @ manifold.weights, KERNEL(Z) - A.T @ A


def single_formula(tables: list[np.ndarray], Z: np.ndarray, beta: float = 2.0) -> tuple:
    X = np.concatenate(tables)
    M = block_diagonal([2.0 * beta * neighbour_graph(T, 4).laplacian.toarray() for T in tables])
    P = conditioned(KERNEL(X), M)
    coef = []
    for t, table in enumerate(tables):
        c = np.zeros((len(table), 2))
        at = np.arange(0, len(table), 2)
        c[at] = np.column_stack([np.cos(at + t), np.sin(at - t)])
        coef.append(c)
    c = np.concatenate(coef)
    f = (KERNEL(Z, X) - KERNEL(Z, X) @ P @ KERNEL(X)) @ c
    return f, KERNEL(Z) - KERNEL(Z, X) @ P @ KERNEL(X, Z), P


# one row, one batch larger than the blocks of the triangular products, many small ones
SIZES: list[tuple[int, ...]] = [(30,), (1, 1, 20), (300, 20, 40), (7,) * 12]


@pytest.mark.parametrize("sizes", SIZES)
def test_sequence_is_the_single_formula(rng: np.random.Generator, sizes: tuple[int, ...]) -> None:
    tables, Z = batches(rng, sizes), rng.normal(size=(6, 2))
    whole = absorbed(Whole.empty(KERNEL, 2, 2), tables)
    assert isinstance(whole, Whole)
    assert whole.root is not None
    f, K, P = single_formula(tables, Z)
    np.testing.assert_allclose(whole.root.T @ whole.root, P, atol=1e-10)
    mean, cov = values(whole, Z)
    np.testing.assert_allclose(mean, f, atol=1e-10)
    np.testing.assert_allclose(cov, K, atol=1e-12)
    np.testing.assert_array_equal(whole.rows, np.arange(sum(sizes)))
    # beyond its extent a row of the root is zero
    beyond = np.arange(sum(sizes)) >= whole.extent[:, None]
    assert not np.any(whole.root[beyond])


def test_step_knows_the_new_kernel(rng: np.random.Generator) -> None:
    tables = batches(rng, (20, 25))
    whole = absorbed(Whole.empty(KERNEL, 2, 2), tables[:1])
    X = tables[1]
    at = np.array([3, 3, 7])  # a row may have two labels
    step = whole.smooth(X, np.arange(25), 4.0 * neighbour_graph(X, 4).laplacian, at)
    after = step.learn(np.zeros((3, 2)))
    mean, cov = values(after, X[at])
    np.testing.assert_allclose(step.covariance, cov, atol=1e-12)
    np.testing.assert_allclose(step.latent, mean, atol=1e-12)


@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_at_once_is_a_stream_of_one_batch(rng: np.random.Generator, beta: float) -> None:
    (X,), at = batches(rng, (30,)), np.array([2, 5, 5, 20])
    M, rows = 2.0 * beta * neighbour_graph(X, 4).laplacian, np.arange(30)
    one = at_once(KERNEL, X, rows, M, at)
    other = Whole.empty(KERNEL, 2, 2).smooth(X, rows, M, at)
    np.testing.assert_allclose(one.covariance, other.covariance, atol=1e-12)
    assert one.latent is None
    c = rng.normal(size=(4, 2))
    for a, b in zip(values(one.learn(c), X), values(other.learn(c), X), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-11)


def test_root_after_a_fit_at_once(rng: np.random.Generator) -> None:
    (X,) = batches(rng, (30,))
    whole = absorbed(Whole.empty(KERNEL, 2, 2), [X])
    late = Whole(KERNEL, X, whole.rows, whole.coef, whole.weights, whole.graph, None, whole.extent)
    np.testing.assert_allclose(late.operator().Q, whole.operator().Q, atol=1e-13)


@pytest.mark.parametrize("sizes", [(30,), (1, 1, 20), (12,) * 5])
def test_all_rows_as_landmarks_are_exact(rng: np.random.Generator, sizes: tuple[int, ...]) -> None:
    tables, Z = [2.0 * X for X in batches(rng, sizes)], rng.normal(size=(6, 2))
    whole = absorbed(Whole.empty(KERNEL, 2, 2), tables)
    part = absorbed(empty_landmarks(), tables)
    assert isinstance(part, Landmarked)
    assert len(part.place) == sum(sizes)
    for one, other in zip(values(part, Z), values(whole, Z), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)
    plain = absorbed(empty_landmarks(residual=False), tables)
    np.testing.assert_allclose(
        KERNEL(Z, plain.points) @ plain.weights, values(whole, Z)[0], atol=1e-9
    )
    # turned into landmarks in the end it is the same as well
    assert isinstance(whole, Whole)
    late = landmarked(whole, residual=True, count=1000, **LIMITS)
    np.testing.assert_allclose(values(late, Z)[0], values(whole, Z)[0], atol=1e-9)


def test_few_landmarks_by_the_formulas(rng: np.random.Generator) -> None:
    tables, Z = batches(rng, (30, 20)), rng.normal(size=(5, 2))
    part = absorbed(empty_landmarks(per_batch=6, most=9), tables)
    assert isinstance(part, Landmarked)
    assert len(part.place) == 9
    landmarks = part.points[part.place]
    R = np.linalg.cholesky(KERNEL(landmarks))
    np.testing.assert_allclose(part.R, R, atol=1e-10)
    phi = np.linalg.solve(R, KERNEL(landmarks, part.points))
    np.testing.assert_allclose(part.phi, phi, atol=1e-9)
    # G: the first batch is seen through its own six landmarks only
    G = np.eye(9)
    for X, m in zip(tables, (6, 9), strict=True):
        seen = np.linalg.solve(R, KERNEL(landmarks, X))[:m]
        G[:m, :m] += seen @ (4.0 * neighbour_graph(X, 4).laplacian.toarray()) @ seen.T
    np.testing.assert_allclose(part.G, G, atol=1e-9)
    at_new = np.linalg.solve(R, KERNEL(landmarks, Z))
    f = at_new.T @ np.linalg.solve(G, phi @ part.coef)
    f += (KERNEL(Z, part.points) - at_new.T @ phi) @ part.coef
    mean, cov = values(part, Z)
    np.testing.assert_allclose(mean, f, atol=1e-9)
    K = at_new.T @ np.linalg.solve(G, at_new) + KERNEL(Z) - at_new.T @ at_new
    np.testing.assert_allclose(cov, K, atol=1e-10)


def test_more_landmarks_are_nearer(rng: np.random.Generator) -> None:
    tables, Z = batches(rng, (40,) * 5), rng.normal(size=(50, 2))
    exact = values(absorbed(Whole.empty(KERNEL, 2, 2), tables), Z)[1]
    errors = []
    for m in (2, 6, 12):
        part = absorbed(empty_landmarks(per_batch=m), tables)
        errors.append(np.linalg.norm(values(part, Z)[1] - exact) / np.linalg.norm(exact))
    assert errors[0] > 3.0 * errors[1] > 9.0 * errors[2]


def test_support_vectors_beyond_the_limit_go(rng: np.random.Generator) -> None:
    tables, Z = batches(rng, (20,) * 4), rng.normal(size=(20, 2))
    whole = absorbed(empty_landmarks(per_batch=8), tables)
    part = absorbed(empty_landmarks(per_batch=8, support=15), tables)
    assert isinstance(part, Landmarked)
    assert isinstance(whole, Landmarked)
    held = np.count_nonzero(np.any(part.coef != 0.0, axis=1))
    assert held == 15
    assert part.gone == 40 - 15
    assert len(part.points) <= 15 + len(part.place)
    np.testing.assert_allclose(part.h.shape, whole.h.shape)
    f, g = values(part, Z)[0], values(whole, Z)[0]
    none = values(absorbed(empty_landmarks(per_batch=8, support=0), tables), Z)[0]
    assert 0.0 < np.linalg.norm(f - g) < 0.7 * np.linalg.norm(none - g)
    assert np.linalg.norm(none - g) < 0.4 * np.linalg.norm(g)  # the landmarks still have them


def test_without_residual_nothing_but_landmarks_is_kept(rng: np.random.Generator) -> None:
    part = absorbed(empty_landmarks(residual=False, per_batch=3), batches(rng, (20,) * 4))
    assert len(part.points) == 12
    assert not part.coef.any()
    with pytest.raises(ValueError, match="residual=True"):
        part.root_of_operator()


def test_values_stay_as_they_were(rng: np.random.Generator) -> None:
    tables = batches(rng, (20, 20))
    for start in (Whole.empty(KERNEL, 2, 2), empty_landmarks(per_batch=5)):
        first = absorbed(start, tables[:1])
        before = {name: array.copy() for name, array in arrays(first).items()}
        absorbed(first, tables[1:])
        for name, array in arrays(first).items():
            np.testing.assert_array_equal(array, before[name])


@pytest.mark.parametrize("reading", list(AVERAGED))
def test_averaged_singular_vectors_of_the_paper(reading: str) -> None:
    """Section 3.2 of Hou & Hero: three readings, none of them near the sequence itself."""
    options = (RBF(1.0), reference_batches(), 10.0, 0.5, 4, 0.5, NEW)
    found, s, d = averaged(*options, reading)
    np.testing.assert_allclose(found, AVERAGED[reading], atol=1e-8)
    exact = stream(*options)[-1][0]
    np.testing.assert_allclose(exact, DECISION, atol=1e-8)
    assert np.abs(found - exact).max() > 0.03
    if reading == "moment":
        np.testing.assert_allclose(s, MOMENT_S, atol=1e-9)
        np.testing.assert_allclose(d, MOMENT_D, atol=1e-9)
