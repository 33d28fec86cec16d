"""Every kernel against the slow formulas, and against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import kernels as sk
from tests.reference import kernels as slow

from mercer.kernels import (
    RBF,
    ArcSine,
    BiasedRBF,
    Categorical,
    Constant,
    Cosine,
    Function,
    Kernel,
    Linear,
    Matern,
    Noise,
    Periodic,
    Polynomial,
    Precomputed,
    RationalQuadratic,
    Separable,
    Wendland,
    White,
)

ARD, SHARES = np.array([0.7, 1.4, 2.3]), np.array([0.2, 0.7, 0.9])
CASES = [
    (RBF(0.6), lambda x, z: slow.rbf(x, z, 0.6)),
    (RBF(ARD), lambda x, z: slow.rbf(x, z, ARD)),
    *[(Matern(nu, ARD), lambda x, z, nu=nu: slow.matern(x, z, nu, ARD)) for nu in (0.5, 1.5, 2.5)],
    *[(Matern(nu, 0.9), lambda x, z, nu=nu: slow.matern(x, z, nu, 0.9)) for nu in (0.3, 1, 3.7)],
    (RationalQuadratic(0.4, ARD), lambda x, z: slow.rational_quadratic(x, z, 0.4, ARD)),
    *[
        (Wendland(3, q, 2 * ARD), lambda x, z, q=q: slow.wendland(x, z, 3, q, 2 * ARD))
        for q in range(4)
    ],
    *[(Wendland(6, q, 5.0), lambda x, z, q=q: slow.wendland(x, z, 6, q, 5.0)) for q in range(4)],
    *[
        (Separable(nu, ARD, w), lambda x, z, nu=nu, w=w: slow.separable(x, z, nu, ARD, w or 1.0))
        for nu in (0.5, 1.5, 2.5, np.inf)
        for w in (None, 0.3)
    ],
    (Separable(1.5, 0.8, SHARES), lambda x, z: slow.separable(x, z, 1.5, 0.8, SHARES)),
    (Periodic(ARD, 1.3), lambda x, z: slow.periodic(x, z, ARD, 1.3)),
    (Periodic(2.0, ARD), lambda x, z: slow.periodic(x, z, 2.0, ARD)),
    (Cosine(ARD), lambda x, z: slow.cosine(x, z, ARD)),
    (Linear(ARD, centre=0.5), lambda x, z: slow.linear(x, z, ARD, 0.5)),
    (Polynomial(3, 0.5, ARD), lambda x, z: slow.polynomial(x, z, 3, 0.5, ARD)),
    (Polynomial(2, None), lambda x, z: slow.polynomial(x, z, 2, 0.0, 1.0)),
    (ArcSine(ARD, 0.3), lambda x, z: slow.arcsine(x, z, ARD, 0.3)),
    (Constant(2.5), lambda x, z: 2.5),
    (Categorical(0.3), lambda x, z: slow.categorical(np.round(x), np.round(z), 0.3)),
    (BiasedRBF(ARD, 0.2, 3.0), lambda x, z: slow.thesis(x, z, ARD, 0.2, 3.0)),
]


@pytest.mark.parametrize(("kernel", "function"), CASES, ids=[repr(c[0])[:40] for c in CASES])
def test_against_the_formula(kernel, function, rng):
    X, Z = rng.standard_normal((12, 3)), rng.standard_normal((9, 3))
    if isinstance(kernel, Categorical):
        X, Z = np.round(X), np.round(Z)
    np.testing.assert_allclose(kernel(X), slow.gram(function, X, X), rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(kernel(X, Z), slow.gram(function, X, Z), rtol=1e-10, atol=1e-13)
    Q = rng.standard_normal((12, 12))
    slow.assert_pullback(kernel, X, None, Q + Q.T)
    slow.assert_pullback(kernel, X, Z, rng.standard_normal((12, 9)))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (RBF(ARD), sk.RBF(ARD)),
        (2.0 * Matern(1.5, ARD), 2.0 * sk.Matern(ARD, nu=1.5)),
        (Matern(0.8, 1.3), sk.Matern(1.3, nu=0.8)),
        (RationalQuadratic(0.7, 1.2), sk.RationalQuadratic(1.2, 0.7)),
        (Periodic(1.7, 0.9).on(0), sk.ExpSineSquared(0.9, 1.7)),
        (Linear() + 4.0, sk.DotProduct(2.0)),
        ((Linear() + 4.0) ** 3, sk.DotProduct(2.0) ** 3),
        (RBF() * Linear() + White(0.3), sk.RBF() * sk.DotProduct(0.0) + sk.WhiteKernel(0.3)),
    ],
    ids=lambda k: repr(k)[:40],
)
def test_against_sklearn(ours, theirs, rng):
    X, Z = rng.standard_normal((12, 3)), rng.standard_normal((9, 3))
    if "ExpSine" in repr(theirs):  # theirs takes the sine of the Euclidean distance: one column
        X, Z = X[:, :1], Z[:, :1]
    np.testing.assert_allclose(ours(X), theirs(X), rtol=1e-10)
    np.testing.assert_allclose(ours(X, Z), theirs(X, Z), rtol=1e-10)
    np.testing.assert_allclose(ours.diag(X), theirs.diag(X), rtol=1e-10)


def test_thesis_gradient_is_the_expanded_one(rng):
    X, G = rng.standard_normal((15, 4)), rng.standard_normal((15, 15))
    w, v, C = np.array([0.5, 1.0, 2.0, 0.1]), 0.3, 7.0
    stated = BiasedRBF(w, v, C).pullback(X, None, G + G.T)
    by_w, by_v, by_C = slow.thesis_gradient(X, G + G.T, w, v, C)
    np.testing.assert_allclose(w * stated["weight"], by_w, rtol=1e-10)
    np.testing.assert_allclose(v * stated["bias"], by_v, rtol=1e-10)
    np.testing.assert_allclose(C * stated["variance"], by_C, rtol=1e-10)


def test_thesis_kernel_is_a_composition(rng):
    X = rng.standard_normal((6, 3))
    parts = 7.0 * (RBF(np.sqrt(3 / ARD)) + 0.3)
    np.testing.assert_allclose(BiasedRBF(ARD, 0.3, 7.0)(X), parts(X), rtol=1e-13)


def test_arcsine_far_out(rng):
    """Large arguments: a correlation of sign functions, symmetric, never above one."""
    X = 1e8 * rng.standard_normal((30, 3))
    K = ArcSine()(X)
    assert np.isfinite(K).all()
    assert (np.abs(K) <= 1.0).all()
    Q = np.ones((30, 30))
    assert all(np.isfinite(g).all() for g in ArcSine().pullback(X, None, Q).values())


def test_white_and_noise_contribute_to_the_square_only(rng):
    X = rng.standard_normal((5, 2))
    assert np.array_equal(White(0.4)(X), 0.4 * np.eye(5))
    assert not White(0.4)(X, X).any()
    assert np.array_equal(Noise(RBF())(X), RBF()(X))
    assert not Noise(RBF())(X, X).any()
    assert White(0.4).noise_free() is None
    assert Noise(RBF()).noise_free() is None


def test_precomputed_by_row_number(rng):
    A = rng.standard_normal((8, 4))
    matrix = A @ A.T
    kernel = Precomputed(matrix)
    X, Z = np.array([[3.0], [0.0], [3.0]]), np.array([[7.0]])
    np.testing.assert_array_equal(kernel(X), matrix[np.ix_([3, 0, 3], [3, 0, 3])])
    np.testing.assert_array_equal(kernel(X, Z), matrix[np.ix_([3, 0, 3], [7])])
    assert not kernel.positional
    with pytest.raises(ValueError, match=r"row numbers must lie in 0 \.\. 7"):
        kernel(np.array([[8.0]]))
    with pytest.raises(ValueError, match="whole row numbers"):
        kernel(np.array([[0.5]]))
    with pytest.raises(ValueError, match="must be square"):
        Precomputed(matrix[:3])(X)


def test_precomputed_as_in_sklearn(rng):
    A, B = rng.standard_normal((6, 3)), rng.standard_normal((4, 3))
    train, new = A @ A.T, B @ A.T
    kernel = Precomputed()
    assert kernel.positional
    np.testing.assert_array_equal(kernel(train), train)
    assert kernel(train) is not train
    np.testing.assert_array_equal(kernel(new, train), new)
    np.testing.assert_array_equal(kernel.diag(train), train.diagonal())
    with pytest.raises(ValueError, match="one column for each of the 6 training rows, got 3"):
        kernel(new[:, :3], train)
    for ask in (kernel.diag, kernel):
        with pytest.raises(ValueError, match=r"square matrix.*got shape \(4, 6\)"):
            ask(new)


def test_pairwise_is_inherited():
    whole = Precomputed(np.eye(3))
    for kernel in (Precomputed(), 2.0 * Precomputed(), RBF() + Precomputed() ** 2):
        assert kernel.pairwise
    for kernel in (RBF(), whole, 2.0 * whole + White()):
        assert not kernel.pairwise


@pytest.mark.parametrize("n", [3, 300])
def test_asymmetric_matrices_are_refused(n, rng):
    A = rng.standard_normal((n, 2))
    K = A @ A.T
    rounding = K + 1e-10 * rng.standard_normal((n, n))
    np.testing.assert_array_equal(Precomputed()(rounding), rounding)
    K[n - 1, 1] += 0.1
    rows = np.arange(n, dtype=float)[:, None]
    for matrix in (lambda: Precomputed()(K), lambda: Precomputed(K)(rows)):
        with pytest.raises(ValueError, match=rf"not symmetric: k\(1, {n - 1}\) = "):
            matrix()
    crooked = Function(lambda X, Z: X[:, :1] + 0.0 * Z[:, :1].T)
    for ask in (crooked, crooked.diag):
        with pytest.raises(ValueError, match="function returns is not symmetric"):
            ask(A)
    assert crooked(A, A).shape == (n, n)  # one matrix between two sets of points may be anything


def test_cosine_by_blocks(rng):
    """More rows than a block and several columns, against the formula column by column."""
    X, Z, period = rng.standard_normal((200, 4)), rng.standard_normal((30, 4)), np.arange(2.0, 6.0)
    Q = rng.standard_normal((200, 200))
    for other, weights in ((None, Q + Q.T), (Z, Q[:, :30])):
        delta = X[:, None] - (X if other is None else other)[None]
        angle = 2.0 * np.pi * delta / period
        factors = np.cos(angle)
        value, gradient = Cosine(period)._value_and_pullback(X, other, weights)
        assert value == pytest.approx(float((weights * factors.prod(axis=2)).sum()), rel=1e-10)
        for d in range(4):
            rest = np.delete(factors, d, axis=2).prod(axis=2)
            slope = np.sin(angle[:, :, d]) * angle[:, :, d] / period[d]
            expected = float((weights * rest * slope).sum())
            assert gradient["period"][d] == pytest.approx(expected, rel=1e-9)


def test_function(rng):
    X, Z = rng.standard_normal((150, 2)), rng.standard_normal((3, 2))
    kernel = Function(lambda A, B: A @ B.T)
    np.testing.assert_allclose(kernel(X, Z), Linear()(X, Z))
    np.testing.assert_allclose(kernel.diag(X), Linear().diag(X))
    assert kernel.pullback(X, None, np.ones((150, 150))) == {}
    with pytest.raises(ValueError, match="returned shape"):
        Function(lambda A, B: A)(X, Z)


def test_vector_is_one_column():
    x = np.linspace(0.0, 1.0, 5)
    assert np.array_equal(RBF()(x), RBF()(x[:, None]))


def test_stating_nothing_is_an_error():
    class Unfinished(Kernel):
        domains = RBF.domains

        def __init__(self, length_scale=1.0):
            self.length_scale = length_scale

        def __call__(self, X, Z=None):
            return np.ones((len(X), len(X)))

    with pytest.raises(
        NotImplementedError, match=r"Unfinished does not state pullback.*search=None"
    ):
        Unfinished().pullback(np.zeros((2, 1)), None, np.ones((2, 2)))
