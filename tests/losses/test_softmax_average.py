"""The pieces of the softmax average: the logistic as a mixture, and what a softmax does not see."""

import numpy as np
from scipy.special import expit

from mercer import losses
from mercer.losses.logistic_average import mixture
from mercer.losses.softmax_average import independent_as_possible


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
