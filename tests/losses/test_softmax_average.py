"""The pieces of the softmax average: the logistic as a mixture, and what a softmax does not see."""

import numpy as np
import pytest
from scipy.special import expit

from mercer import losses
from mercer._native import averages
from mercer.losses.numbers.averages import CELLS, independent_as_possible, mixture, tables
from tests.reference.softmax_rule import softmax_rule


def test_logistic_as_a_mixture_of_gaussians():
    x = np.linspace(-40.0, 40.0, 4001)
    np.testing.assert_allclose(mixture(x, 0.0), expit(x), atol=1e-7)
    for v in (0.1, 1.0, 100.0):
        want = losses.Logistic().predict(x, v)
        np.testing.assert_allclose(mixture(x, v), want, atol=1e-7)


def test_the_covariance_of_differences_stays(rng):
    for c in (3, 4, 7):
        A = rng.normal(size=(c, c))
        V = A @ A.T + 3.0
        moved = independent_as_possible(V)
        difference = np.eye(c)[1:] - np.eye(c)[0]
        np.testing.assert_allclose(
            difference @ moved @ difference.T, difference @ V @ difference.T, rtol=1e-10
        )
        assert np.linalg.eigvalsh(moved)[0] > -1e-9
        off = ~np.eye(c, dtype=bool)
        assert np.abs(moved[off]).sum() < np.abs(V[off]).sum()


def test_correlated_latents_against_a_dense_sum(rng):
    A = rng.normal(size=(3, 3))
    V, m = 9.0 * (A @ A.T + 1.0), np.array([1.0, -2.0, 0.5])
    L = np.linalg.cholesky(V)
    # the differences to the first are two Gaussians: a grid of them
    D = np.array([[-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]])
    S = np.linalg.cholesky(D @ L @ L.T @ D.T)
    z = np.linspace(-8.0, 8.0, 1601)
    w = np.exp(-0.5 * z**2)
    w /= w.sum()
    u, t = np.meshgrid(z, z, indexing="ij")
    d = np.tensordot(S, np.stack([u, t]), axes=1) + (D @ m)[:, None, None]
    top = np.maximum(0.0, d.max(axis=0))
    e = np.stack([np.exp(-top), np.exp(d[0] - top), np.exp(d[1] - top)])
    want = np.einsum("kij,i,j->k", e / e.sum(axis=0), w, w)
    np.testing.assert_allclose(losses.Softmax().predict(m[None], V[None])[0], want, atol=1e-4)


@pytest.mark.parametrize("v", [0.0, 0.3, 1.0, 10.0, 900.0, 1e6])
def test_table_of_the_mixture(v):
    table, rate = tables(np.array([v]))
    x = np.linspace(0.0, 60.0 * np.sqrt(1.0 + 0.07 * v), 5001)
    cell = np.minimum((x * rate[0]).astype(int), CELLS)
    u = x * rate[0] - cell
    found = np.exp(np.polynomial.polynomial.polyval(u, table[0, cell].T, tensor=False))
    want = mixture(-x, v)
    np.testing.assert_allclose(found, want, rtol=0.0, atol=1e-12)
    seen = want > 1e-16
    np.testing.assert_allclose(found[seen], want[seen], rtol=1e-11)
    assert np.all(np.diff(found) <= 1e-18)
    assert np.all(found[~seen] < 1e-15)


@pytest.mark.parametrize("c", [3, 4, 6])
def test_rows_together_are_the_rule_row_by_row(rng, c):
    scales = np.array([0.05, 0.3, 1.0, 3.0, 30.0])
    A = rng.normal(size=(5, c, c)) * scales[:, None, None]
    V, m = A @ A.transpose(0, 2, 1), 3.0 * rng.normal(size=(5, c))
    V[3] = np.outer(A[3, 0], A[3, 0])  # of rank one
    V[4, 1] = V[4, :, 1] = 0.0  # one latent value is known
    found = losses.Softmax().predict(m, V)
    want = np.array([softmax_rule(*row) for row in zip(m, V, strict=True)])
    full = np.arange(5) != 3  # a root of rank one has entries of 1e-8 by rounding
    np.testing.assert_allclose(found[full], want[full], rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(found[3], want[3], rtol=0.0, atol=1e-7)
    alone = [losses.Softmax().predict(m[[i]], V[[i]])[0] for i in range(5)]
    np.testing.assert_array_equal(found, alone)


def test_many_rows_go_through_in_blocks(rng, monkeypatch):
    V, m = 4.0 * np.eye(3) + np.zeros((7, 1, 1)), rng.normal(size=(7, 3))
    want = losses.Softmax().predict(m, V)
    monkeypatch.setattr("mercer.losses.numbers.averages.TABLES", 6)
    np.testing.assert_array_equal(losses.Softmax().predict(np.asfortranarray(m), V), want)
    assert losses.Softmax().predict(m[:0], V[:0]).shape == (0, 3)


def test_far_classes_stay_apart_and_positive():
    p = losses.Softmax().predict(np.array([[0.0, 60.0, -30.0]]), np.array([[4.0, 4.0, 4.0]]))[0]
    assert 0.0 < p[2] < p[0] < 1e-12
    assert p[1] == 1.0


def test_compiled_sums_refuse_shapes_that_do_not_fit():
    table, rate = tables(np.ones(1))
    with pytest.raises(ValueError, match="do not fit"):
        averages.conditional(0.0, np.zeros(5), np.zeros(2), np.zeros((2, 4)), table[0], rate[0])
    with pytest.raises(ValueError, match="do not fit"):
        averages.plain(np.zeros(3), np.zeros((2, 4)), np.zeros(3))
    shifts = np.zeros((2, 4))
    for bad in (np.nan, np.inf):  # no place in the table
        assert not averages.conditional(bad, shifts[0], shifts[0, :2], shifts, table[0], 1.0) < 0.9


@pytest.mark.parametrize("size", [1e3, 1e80, 1e200, 1e300])
def test_latent_values_of_any_size(size):
    m = np.array([[0.0, size, -size]])
    for v in (0.0, 4.0):
        np.testing.assert_array_equal(losses.Softmax().predict(m, v)[0], [0.0, 1.0, 0.0])
    m[0, 2] = np.nan
    assert np.all(np.isnan(losses.Softmax().predict(m, 4.0)))
