"""The functions that onnxruntime lacks for doubles, against SciPy; averages against quadrature."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, special, stats

from mercer import losses
from mercer.export import functions
from mercer.export.expression import OnnxGraph, Value, stack
from mercer.export.functions import (
    _independent,
    _roots,
    averaged,
    probability,
    softmax_averaged,
)
from mercer.losses.numbers.averages import independent_as_possible, symmetric_root
from tests.export.common import run_graph


def evaluated(function, X):
    """Return function(Value) at X (q, d)."""
    graph = OnnxGraph()
    return run_graph(graph, function(Value(graph, "X")), X)


def column(*values):
    return np.concatenate([np.ravel(v) for v in values])[:, None].astype(float)


def test_ndtr():
    z = column(np.linspace(-37.0, 9.0, 400), 0.0, 1e-20)
    np.testing.assert_allclose(evaluated(functions.ndtr, z), special.ndtr(z), rtol=1e-12)
    rough = evaluated(lambda x: functions.ndtr(x, 12), z)
    np.testing.assert_allclose(rough, special.ndtr(z), atol=3e-9)


def test_atan_and_log1p():
    t = column(np.linspace(-30, 30, 301), 1e-12, 1e9, -1e15)
    np.testing.assert_allclose(evaluated(functions.atan, t), np.arctan(t), rtol=1e-14)
    x = column(np.logspace(-18, 10, 100), 0.0)
    np.testing.assert_allclose(evaluated(functions.log1p, x), np.log1p(x), rtol=1e-14)


ELEMENTWISE = sorted(
    set(functions.FUNCTIONS)
    - {"broadcast_arrays", "clip", "einsum", "full_like", "hstack", "matmul", "shape"}
    - {"vstack", "where"}
)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_functions_of_numpy_and_scipy(name):
    """Each function that a formula may use, of one argument or of two, is NumPy's."""
    function = getattr(np, name, None) or getattr(special, name)
    x = column(np.linspace(0.01, 3.0, 40), 1e-12, 1e-7, 1.0, 2.0)
    if getattr(function, "nin", 1) == 2:
        x = np.column_stack([x, x[::-1]])
        a, b = (
            lambda v, j=j: v.take([j]) if isinstance(v, Value) else v[:, j : j + 1] for j in (0, 1)
        )
        logical = name.startswith(("bitwise", "logical"))
        forms = [
            lambda v: (
                function(a(v) > 1.0, b(v) > 1.0) * 1.0 if logical else function(a(v), b(v)) * 1
            )
        ]
        if not logical:
            forms += [lambda v: function(2.5, b(v)) * 1.0, lambda v: function(b(v), 2) * 1.0]
    elif name in ("invert", "logical_not"):
        forms = [lambda v: function(v > 1.0) * 1.0]
    else:
        forms = [function, lambda v: function(-v)] if name not in POSITIVE else [function]
    for form in forms:
        np.testing.assert_allclose(evaluated(form, x), form(x), rtol=2e-14, atol=1e-15)


POSITIVE = {"log", "log10", "log1p", "log2", "sqrt"}


def test_powers_and_polynomials():
    x = column(np.linspace(-2, 2, 9))
    for p in (1, 2, 3, 7, 10):
        np.testing.assert_allclose(evaluated(lambda v, p=p: v**p, x), x**p, rtol=1e-14)
    c = np.array([1.0, -2.0, 0.5, 3.0])
    polyval = np.polynomial.polynomial.polyval
    np.testing.assert_allclose(evaluated(lambda v: polyval(v, c), x), polyval(x, c), rtol=1e-13)


def test_numbers_beside_products_keep_their_digits():
    """onnxruntime would fuse them into the product, in single precision."""
    X = np.random.default_rng(0).normal(size=(5, 3))
    A = np.random.default_rng(1).normal(size=(3, 3))
    third = 1.0 / 3.0
    pairs = [
        (lambda v: (third * v) @ A, third * X @ A),
        (lambda v: (v / 0.7) @ A, X / 0.7 @ A),
        (lambda v: third * (v @ A), third * X @ A),
        (lambda v: (v @ A) / 0.7 + 1.0, X @ A / 0.7 + 1.0),
        (lambda v: -((third * (v * 0.1)) @ A) * 0.3, -third * 0.1 * 0.3 * X @ A),
        (lambda v: (v @ A) * np.array([0.1]), X @ A * 0.1),
    ]
    for function, wanted in pairs:
        np.testing.assert_allclose(evaluated(function, X), wanted, rtol=1e-14, atol=1e-16)


LIKELIHOODS = [
    losses.Logistic(),
    losses.Probit(scale=0.4),
    losses.NormalizedHinge(C=1.7),
    losses.LaplaceProbit(C=2.3),
    losses.Flip(losses.Probit(), eps=0.1),
    losses.Flip(losses.Logistic(), eps=0.02),
    losses.Flip(None, eps=0.2),
]


@pytest.mark.parametrize("loss", LIKELIHOODS, ids=repr)
def test_probabilities_of_labels(loss):
    f = column(np.linspace(-12, 12, 49), 1.0, -1.0)
    wanted = np.exp(-loss.value(np.ones(f.shape), f))
    np.testing.assert_allclose(evaluated(lambda v: probability(loss, v), f), wanted, atol=1e-14)


@pytest.mark.parametrize("loss", LIKELIHOODS, ids=repr)
def test_averages(loss):
    """Against adaptive quadrature, split at the kinks, and against mercer's own."""
    m, v = (a.ravel() for a in np.meshgrid([-9.0, -1.0, 0.0, 0.3, 4.0], [1e-8, 0.1, 2.0, 2.1, 90]))
    found = evaluated(lambda x: averaged(loss, x.take([0]), x.take([1])), np.column_stack([m, v]))[
        :, 0
    ]
    np.testing.assert_allclose(found, loss.predict(m, v), atol=1e-10)
    for i in range(0, len(m), 3):
        s = np.sqrt(v[i])
        kinks = [k for k in (-1.0, 0.0, 1.0) if abs(k - m[i]) < 9.0 * s]
        cuts = sorted({m[i] - 9.0 * s, m[i] - s, m[i] + s, m[i] + 9.0 * s, *kinks})

        def density(f, i=i, s=s):
            return np.exp(-loss.value(np.array(1.0), np.array(f))) * stats.norm.pdf(f, m[i], s)

        pieces = pairwise(cuts)
        total = sum(integrate.quad(density, a, b, epsabs=1e-12)[0] for a, b in pieces)
        assert abs(found[i] - total) < 1e-9


def test_variance_of_zero():
    found = evaluated(
        lambda x: averaged(losses.NormalizedHinge(), x.take([0]), 0.0 * x.take([0])), column(0.3)
    )
    wanted = np.exp(-losses.NormalizedHinge().value(np.ones(1), np.array([0.3])))
    np.testing.assert_allclose(found[0], wanted, atol=1e-12)


def covariances(c, n, scale, seed):
    A = np.random.default_rng(seed).normal(size=(n, c, c + 1)) * scale
    return A @ A.transpose(0, 2, 1)


@pytest.mark.parametrize("c", [2, 3, 5])
def test_roots(c):
    V = covariances(c, 6, 1.0, c)
    V[0] = np.outer(np.ones(c), np.ones(c)) + 1e-9 * np.eye(c)
    both = evaluated(lambda x: stack(list(_roots(x.reshape(-1, c, c), c)), 1), V.reshape(6, -1))
    for i in range(6):
        np.testing.assert_allclose(both[i, :c], symmetric_root(V[i]), atol=1e-7)
        np.testing.assert_allclose(both[i, c:] @ both[i, :c], np.eye(c), atol=1e-5)


def test_independent_as_possible():
    for seed in range(4):
        V = covariances(4, 1, 2.0, seed)[0]
        found = evaluated(lambda x: _independent(x.reshape(4, 4), 4), V.reshape(1, -1))
        np.testing.assert_allclose(found, independent_as_possible(V), atol=1e-12)


@pytest.mark.parametrize("c", [2, 3, 4])
@pytest.mark.parametrize("scale", [0.1, 1.0, 8.0])
def test_softmax_average(c, scale):
    """The rule of the library, row by row: narrow rows and wide ones take other branches."""
    n = 4
    V = covariances(c, n, scale, c)
    V[1] *= 1e-3
    m = np.random.default_rng(c).normal(size=(n, c)) * 2.0

    def function(x):
        pairs = [[x.take([c + i * c + j]) for j in range(c)] for i in range(c)]
        return softmax_averaged(x.take(range(c)), pairs, x.graph.constant(np.zeros((1, 1))), c)

    found = evaluated(function, np.column_stack([m, V.reshape(n, -1)]))
    np.testing.assert_allclose(found, losses.Softmax().predict(m, V), atol=1e-7)
