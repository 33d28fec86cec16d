"""Every kernel of mercer is exported, with the numbers it has, or refused by name."""

import numpy as np
import pytest

import mercer
from mercer import GPRegressor, kernels
from mercer.export import ExportError
from mercer.export.expression import OnnxGraph, Value
from mercer.export.kernels import cross
from mercer.kernels import RBF, Kernel, Linear, Matern, Noise, Precomputed, Stationary, White
from mercer.losses import Gaussian
from tests.export.common import assert_same, run, run_graph

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


# Green's functions of Bessel functions, Python functions, and scores without a form
REFUSED = {"Fisher", "FromSklearn", "Function", "MixtureFisher", "Operator", "TensionSpline"}
REFUSED |= {"HMMFisher", "Kmers", "Subsequence"}  # of strings
REFUSED |= {"Invariant"}  # of pairs of moved points
REFUSED |= {"Coregionalised"}  # of outputs, which a graph has side by side


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_kernel(cls):
    kernel = cls.example()
    if kernel.noise_free() is None:
        kernel = 0.7 * RBF(1.3) + kernel  # noise alone is no model
    if cls.__name__ in REFUSED:
        model, _ = fitted(kernel)
        with pytest.raises(
            ExportError, match=rf"the kernel {cls.__name__}.* cannot be exported: it has no form"
        ):
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
        kernels.Separable(0.5, np.array([0.3, 2.0, 1.1])),
        kernels.Separable(2.5, 0.8, np.array([0.3, 0.9, 0.5])),
        kernels.Separable(np.inf, share=0.4),
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
    with pytest.raises(ExportError, match=r"the kernel Matern\(nu=1\.1\) .* uses the function kve"):
        mercer.to_onnx(model)


class Own(Stationary, abstract=True):
    """Kernels of a user: two formulas each, and no entry anywhere."""

    def slope(self, s):
        return 0.0 * s


class Cauchy(Own):
    def profile(self, s):
        return 1.0 / (1 + s) ** 1.5


class Powered(Own):
    def profile(self, s):
        return np.asarray(np.exp(-np.power(s, 0.7)))


class Cut(Own):
    """Whole numbers, truth values, where, and division where it is safe."""

    def profile(self, s):
        r = np.sqrt(s)
        inside = np.maximum(1 - r / 4, 0) ** 4 * (r < 4) * (1 + r)
        ratio = np.divide(np.sin(r), r, out=np.ones_like(r), where=r > 0)
        return np.where(r > 3, 0, 0.9 * inside) + 0.1 * ratio**2


class Waves(Own):
    def profile(self, s):
        u = np.clip(np.log1p(s) / (1.0 + np.hypot(1.0, 2.0)), 0.0, 2.0)
        return np.cosh(u) / np.cosh(2.0 * u) * (2.0 - np.exp2(-np.tanh(s))) + 0.0 * np.arctan(s)


class Bessel(Own):
    def profile(self, s):
        from scipy.special import j0

        return j0(np.sqrt(s))


class Deciding(Own):
    def profile(self, s):
        return np.exp(-s) if s[0, 0] > 1.0 else np.exp(-2.0 * s)


class Branching(Own):
    def profile(self, s):
        return np.exp(-s) if s > 1.0 else s


class InPlace(Own):
    def profile(self, s):
        r = k = np.sqrt(s)
        np.negative(r, out=r)
        k *= 0.5
        return np.exp(r)


class Buffered(Own):
    def profile(self, s):
        return np.exp(-s, out=np.empty(s.shape))


@pytest.mark.parametrize(
    "cls", [Cauchy, Powered, Cut, Waves, InPlace], ids=lambda cls: cls.__name__
)
@pytest.mark.parametrize("scale", [1.3, np.array([0.4, 2.0, 1.1])], ids=["shared", "ard"])
def test_a_kernel_of_the_user_is_its_profile(cls, scale):
    rng = np.random.default_rng(1)
    X, Z, kernel = rng.normal(size=(12, 3)), rng.normal(size=(9, 3)), cls(scale)
    X[0] = Z[0]
    graph = OnnxGraph()
    value = cross(kernel, Value(graph, "X"), X)
    np.testing.assert_allclose(run_graph(graph, value, Z), kernel(Z, X), rtol=1e-14, atol=1e-14)
    if cls in (Cauchy, Powered):  # the others are formulas, but not positive definite
        model = GPRegressor(2.0 * cls(scale) + RBF().on(0), loss=Gaussian(0.3), search=None)
        assert_same(model.fit(X, rng.normal(size=12)), Z, 1e-11, ["mean", "std"])


@pytest.mark.parametrize(
    ("cls", "reason"),
    [
        (Bessel, "it uses the function j0"),
        (Deciding, "is not a formula of NumPy functions alone"),
        (Branching, "decides by the value of its argument"),
        (Buffered, "exp with the option out"),
    ],
    ids=lambda each: getattr(each, "__name__", "reason"),
)
def test_what_onnx_cannot_say_is_refused(cls, reason):
    P = np.random.default_rng(0).normal(size=(8, 2))
    with pytest.raises(ExportError, match=rf"the kernel {cls.__name__}\(\) cannot .*{reason}"):
        cross(cls(), Value(OnnxGraph(), "X"), P)


def test_a_subclass_is_exported_by_what_it_computes():
    class Wide(RBF):
        def __init__(self, length_scale=7.0):
            super().__init__(length_scale)

    class Sharper(RBF):  # the compiled core still knows it as an RBF
        def profile(self, s):
            return np.exp(-s)

    class Doubled(Linear):
        def __call__(self, X, Z=None):
            return 2.0 * super().__call__(X, Z)

        def diag(self, X):
            return 2.0 * super().diag(X)

    model, Z = fitted(2.0 * Wide() + RBF())
    assert_same(model, Z, 1e-9, ["mean", "std"])
    for changed in (Sharper(), Doubled() + RBF()):
        model, _ = fitted(changed)
        with pytest.raises(ExportError, match="differs from its values"):
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
