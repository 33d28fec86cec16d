"""The algebra: what is built, what is noise, what is computed how often; columns by name."""

from __future__ import annotations

import numpy as np
import pytest
from tests.reference.kernels import assert_pullback

from mercer.kernels import (
    RBF,
    Columns,
    Constant,
    Linear,
    Matern,
    Noise,
    Operator,
    Periodic,
    Polynomial,
    Power,
    Product,
    RationalQuadratic,
    Scale,
    Sum,
    White,
)

NAMES = ["age", "bmi", "height"]


def test_what_is_built():
    a, b, c = RBF(), Linear(), Matern()
    assert a + b + c == Sum([a, b, c])
    assert a + (b + c) == Sum([a, b, c])
    assert a * b * c == Product([a, b, c])
    assert 2.0 * a == a * 2.0 == Scale(a, 2.0)
    assert 1.0 * a == Scale(a, 1.0)
    assert np.float64(3.0) * a == Scale(a, 3.0)
    assert a + 3 == Sum([a, Constant(3.0)])
    assert 3 + a == Sum([Constant(3.0), a])
    assert a**2 == Power(a, 2)
    assert 2.0 * (3.0 * a) == Scale(a, 6.0)
    bounded = (3.0 * a).bound(variance=(1.0, 5.0))
    assert 2.0 * bounded == Scale(bounded, 2.0)
    assert a.on("age") == Columns(a, ["age"])
    assert a.on((0, 1)) == Columns(a, [0, 1])


def test_refusals():
    for bad in (-1.0, 0.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="must be positive and finite"):
            bad * RBF()
        with pytest.raises(ValueError, match="must be positive and finite"):
            RBF() + bad
    for operation in (lambda: RBF() + "x", lambda: RBF() * None, lambda: "x" * RBF()):
        with pytest.raises(TypeError, match="a kernel can be"):
            operation()
    for exponent in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="exponent must be an integer of at least 1"):
            (RBF() ** exponent)(np.zeros((2, 1)))
    with pytest.raises(TypeError, match="one or more kernels"):
        Sum([])(np.zeros((2, 1)))


NESTED = [
    2.0 * RBF(0.8) + Linear(np.array([0.5, 1.0, 2.0])) + White(0.3) + 1.5,
    (RBF(np.array([0.5, 1.0, 2.0])) + Linear()) * Matern(2.5) * RationalQuadratic(0.7),
    (0.5 * Matern(0.5) + Linear().on([0])) ** 3 * Periodic(1.5).on([2]) + Noise(0.2 * RBF(0.3)),
    1.5 * (RBF().on([2, 0]) * (Matern(1.5).on([1]).on([0, 1]) + 0.2)) ** 2,
    (RBF() + White(0.4)) * (Linear() + Noise(Matern(1.5))) + 0.1 * Polynomial(3).on([0, 1]),
    Product([RBF(0.7)]) + Sum([Linear()]),
    (0.7 * Operator(np.array([1.0, 2.0, 0.5])).on([1])) * RBF() * RBF(0.5).fix(),
    (RBF() + Polynomial(2).on([1])).in_units(np.arange(3.0), np.array([0.5, 2.0, 3.0])),
]


@pytest.mark.parametrize("kernel", NESTED, ids=lambda k: repr(k)[:50])
def test_nested(kernel, rng):
    X, Z, Q = (rng.standard_normal(shape) for shape in ((13, 3), (6, 3), (13, 13)))
    K = kernel(X)
    assert np.array_equal(K, K.T)
    np.testing.assert_allclose(kernel.diag(X), K.diagonal(), rtol=1e-12)
    assert_pullback(kernel, X, None, Q + Q.T)
    assert_pullback(kernel, X, Z, Q[:, :6])
    signal = kernel.noise_free()
    np.testing.assert_allclose(kernel(X, Z), signal(X, Z), rtol=1e-12)
    np.testing.assert_allclose(signal(X, X), signal(X), rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(kernel(X, X), signal(X), rtol=1e-10, atol=1e-13)


def test_noise_free():
    r, w = RBF(), White(0.1)
    assert (r + w).noise_free() == r
    assert (r + Linear() + w).noise_free() == r + Linear()
    assert (2.0 * (r + w)).noise_free() == 2.0 * r
    assert (r * w).noise_free() is None
    assert (r * (Linear() + w)).noise_free() == r * Linear()
    assert (2.0 * w).noise_free() is None
    assert (w + Noise(r)).noise_free() is None
    assert ((r + w) ** 2).noise_free() == r**2
    assert (r + w).on([0]).noise_free() == r.on([0])
    assert Noise(r).on([0]).noise_free() is None
    same = r + Linear()
    assert same.noise_free() is same
    assert (r + w).positional
    assert not same.positional


class Counting(RBF):
    """Counts Gram matrices and gradient passes."""

    calls: list[str] = []  # noqa: RUF012  # shared by the copies on purpose

    def __call__(self, X, Z=None):
        self.calls.append("gram")
        return super().__call__(X, Z)

    def _value_and_pullback(self, X, Z, Q):
        self.calls.append("pull")
        return super()._value_and_pullback(X, Z, Q)


@pytest.mark.parametrize(
    ("kernel", "grams", "pulls"),
    [
        (2.0 * Counting(), 0, 1),
        (2.0 * Counting() + 3.0 * Counting() + White(), 0, 2),
        (Counting() * Counting() * Counting(), 3, 3),
        (2.0 * Counting() * Linear(), 1, 1),
        (Counting() ** 3, 1, 1),
    ],
)
def test_nothing_is_computed_twice(kernel, grams, pulls):
    Counting.calls.clear()
    kernel.pullback(np.zeros((4, 1)), None, np.ones((4, 4)))
    assert Counting.calls.count("gram") == grams
    assert Counting.calls.count("pull") == pulls


def test_columns_by_name():
    kernel = 2.0 * RBF().on(["bmi", "age"]) + Linear().on("height") * RBF().on(0)
    resolved = kernel.resolve(NAMES, 3)
    assert resolved == 2.0 * RBF().on([1, 0]) + Linear().on(2) * RBF().on(0)
    assert kernel == 2.0 * RBF().on(["bmi", "age"]) + Linear().on("height") * RBF().on(0)
    inner = RBF().on("age").on(["height", "age"])
    assert inner.resolve(NAMES, 3) == RBF().on(1).on([2, 0])
    assert RBF().on(-1).resolve(NAMES, 3) == RBF().on(2)


def test_columns_that_do_not_exist(rng):
    X = rng.standard_normal((4, 3))
    with pytest.raises(
        ValueError, match=r"no column 'hight'; did you mean 'height'\? Known are: a"
    ):
        RBF().on("hight").resolve(NAMES, 3)
    with pytest.raises(ValueError, match=r"no column 'zzz'\. Known are: age, bmi, height"):
        RBF().on("zzz").resolve(NAMES, 3)
    with pytest.raises(ValueError, match="have no column names"):
        RBF().on("age").resolve(None, 3)
    with pytest.raises(ValueError, match=r"column 5, but the inputs have 3 columns \(0 to 2\)"):
        RBF().on(5).resolve(NAMES, 3)
    with pytest.raises(ValueError, match="column 5, but the inputs have 3"):
        RBF().on(5)(X)
    with pytest.raises(ValueError, match="not resolved yet"):
        RBF().on("age")(X)
    with pytest.raises(TypeError, match="by position or by name"):
        RBF().on([0.5])(X)


def test_columns_with_their_own_units(rng):
    X = rng.standard_normal((7, 3))
    shift, scale = np.array([1.0, 2.0, 3.0]), np.array([2.0, 3.0, 5.0])
    kernel = 2.0 * RBF(np.array([1.0, 0.5])).on([2, 0])
    stated = kernel.in_units(shift, scale)
    assert stated == 2.0 * RBF(np.array([5.0, 1.0])).on([2, 0])
    np.testing.assert_allclose(stated(X * scale + shift), kernel(X), rtol=1e-12)


def test_paths_of_parameters():
    kernel = 2.0 * RBF() + White(0.1)
    assert list(kernel.free) == ["0__variance", "0__kernel__length_scale", "1__noise"]
    kernel.set_params(**{"0__variance": 5.0})
    assert kernel.parts[0].variance == 5.0
    fixed = kernel.fix("1__noise").bound(**{"0__variance": (0.1, 9.0)})
    assert list(fixed.free) == ["0__variance", "0__kernel__length_scale"]
