"""Every kernel of mercer is exported, with the numbers it has, or refused by name."""

import numpy as np
import pytest

import mercer
from mercer import GPRegressor, kernels
from mercer.export import ExportError
from mercer.export.kernels.forms import CROSS, DIAGONAL, REASONS
from mercer.kernels import RBF, Kernel, Linear, Matern, Noise, Precomputed, White
from mercer.losses import Gaussian
from tests.export.common import assert_same, run

CLASSES = [
    cls
    for name in kernels.__all__
    if isinstance(cls := getattr(kernels, name), type)
    and issubclass(cls, Kernel)
    and not cls.abstract
]


def fitted(kernel, seed=0, n=20):
    rng = np.random.default_rng(seed)
    X = kernel.example_inputs(rng, n)
    model = GPRegressor(kernel, loss=Gaussian(0.3), search=None, gram="dense")
    return model.fit(X, rng.normal(size=n)), kernel.example_inputs(rng, 9)


def test_the_table_is_whole():
    assert CROSS.keys() == DIAGONAL.keys()
    assert {cls.__name__ for cls in CROSS} | set(REASONS) == {cls.__name__ for cls in CLASSES}


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_kernel(cls):
    kernel = cls.example()
    if kernel.noise_free() is None:
        kernel = 0.7 * RBF(1.3) + kernel  # noise alone is no model
    if cls.__name__ in REASONS:
        model, _ = fitted(kernel)
        with pytest.raises(ExportError, match=f"the kernel {cls.__name__} cannot be exported"):
            mercer.to_onnx(model)
        return
    model, Z = fitted(0.3 * kernel)
    # also at a training row: no distance is lost to rounding there
    assert_same(model, np.concatenate([Z, model.posteriors_[0].points[:2]]), 1e-9, ["mean", "std"])


@pytest.mark.parametrize(
    "kernel",
    [
        Matern(nu=0.5),
        Matern(nu=1.5, length_scale=np.array([0.3, 2.0, 1.1])),
        Matern(nu=2.5),
        Matern(nu=3.5),
        Matern(nu=9.5),
        kernels.Wendland(dims=3, smoothness=0, length_scale=3.0),
        kernels.Wendland(dims=3, smoothness=2, length_scale=3.0),
        kernels.Wendland(dims=3, smoothness=3, length_scale=3.0),
        kernels.RationalQuadratic(alpha=1e6),
        kernels.Polynomial(degree=5, offset=None, weight=np.array([0.1, 0.3, 0.2])),
        kernels.Polynomial(degree=1),
        kernels.Linear(weight=np.array([1.0, 0.1, 2.0]), centre=np.array([1.0, 2.0, -1.0])),
        kernels.Periodic(period=np.array([1.0, 2.0, 3.0]), length_scale=np.array([1.0, 2.0, 0.7])),
        kernels.Cosine(period=np.array([1.0, 7.0, 3.0])),
        kernels.ArcSine(weight=np.array([1.0, 0.1, 3.0]), bias=0.2),
        RBF().on(2) * Linear().on([0, -1]) + 1.7 * (RBF(0.5) ** 3),
        RBF() + White(0.2) + Noise(0.3 * Matern(nu=0.5)),
        RBF() + 0.7 * kernels.Nugget(0.5),
    ],
    ids=lambda kernel: repr(kernel)[:40],
)
def test_parameters(kernel):
    model, Z = fitted(kernel)
    assert_same(model, np.concatenate([Z, 100.0 * Z[:2]]), 1e-9)


@pytest.mark.parametrize(("d", "order"), [(1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 2), (4, 3)])
def test_thin_plates(d, order):
    rng = np.random.default_rng(d)
    X = rng.normal(size=(25, d))
    kernel = kernels.ThinPlate.anchored(X, order)
    model = GPRegressor(kernel, loss=Gaussian(0.3), search=None, basis=order - 1, gram="dense")
    assert_same(model.fit(X, rng.normal(size=25)), rng.normal(size=(7, d)), 1e-8)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_splines_and_rows_below_their_origin(order):
    rng = np.random.default_rng(order)
    X = rng.uniform(0.0, 3.0, (15, 1))
    kernel = kernels.Spline(order=order, origin=-0.5)
    model = GPRegressor(kernel, loss=Gaussian(0.3), search=None).fit(X, rng.normal(size=15))
    assert_same(model, X + 0.1, 1e-9)
    found = run(mercer.to_onnx(model), np.array([[-0.6], [1.0]]))
    assert np.isnan(found["mean"][0])
    assert np.isfinite(found["mean"][1])


def test_bessel_matern_is_refused():
    model, _ = fitted(Matern(nu=1.1))
    with pytest.raises(ExportError, match=r"Matern\(nu=1\.1\).*Bessel"):
        mercer.to_onnx(model)


def test_a_subclass_is_refused():
    class Mine(RBF):
        pass

    model, _ = fitted(2.0 * Mine() + RBF())
    with pytest.raises(ExportError, match="the kernel Mine cannot be exported: it is a class of"):
        mercer.to_onnx(model)


def test_kernel_values_as_inputs():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(12, 4))
    model = GPRegressor("precomputed", loss=Gaussian(0.3), search=None)
    model.fit(A[:9] @ A[:9].T, rng.normal(size=9))
    with pytest.raises(ExportError, match="std=False"):
        mercer.to_onnx(model)
    assert_same(model, A[9:] @ A[:9].T, 1e-12, ["mean"], std=False)
    known = GPRegressor(Precomputed(A @ A.T), loss=Gaussian(0.3), search=None)
    known.fit(np.arange(9.0)[:, None], rng.normal(size=9))
    assert_same(known, np.array([[10.0], [3.0]]), 1e-11, ["mean", "std"])


def test_a_nugget_knows_its_rows():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(12, 2))
    model = GPRegressor(RBF() + kernels.Nugget(0.5), loss=Gaussian(0.1), search=None)
    model.fit(X, rng.normal(size=12))
    assert_same(model, np.concatenate([X, X + 1e-3]), 1e-9)
    both = np.concatenate([X[:1], X[:1] + 1e-9])
    assert not np.isclose(*run(mercer.to_onnx(model), both)["mean"].ravel(), rtol=1e-3)
