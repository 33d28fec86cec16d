"""A kernel, a loss, an inference and an estimator of one's own: a file each, and no other edit."""

from __future__ import annotations

import importlib
import sys
import textwrap
from types import SimpleNamespace

import numpy as np
import pytest

import mercer
from mercer import GPRegressor, KernelRegressor, testing
from mercer.core.errors import ExportError
from mercer.inference import Inference
from mercer.kernels import RBF, Kernel
from mercer.losses import Loss
from mercer.search import Search

FILES = {
    "__init__": "",
    "kernel": '''
        import numpy as np
        from mercer.core.component import POSITIVE, Domain
        from mercer.kernels import Stationary


        class GuestCauchy(Stationary):
            """k = (1 + s^(alpha / 2))^(-1) with s the squared scaled distance, 0 < alpha <= 2."""

            domains = {"length_scale": POSITIVE, "alpha": Domain("alpha", 0.0, 2.0)}
            words = {"alpha": "exponent of the distance"}
            expects = "functions with long memory"

            def __init__(self, length_scale=1.0, alpha=1.5):
                self.length_scale = length_scale
                self.alpha = alpha

            def profile(self, s):
                return 1.0 / (1.0 + s ** (0.5 * self.alpha))

            def slope(self, s):
                t = np.where(s > 0.0, s, 1.0)
                steep = 0.5 * self.alpha * t ** (0.5 * self.alpha - 1.0)
                return np.where(s > 0.0, -steep * self.profile(t) ** 2, 0.0)

            def shape_gradient(self, s, Q):
                t = np.where(s > 0.0, s, 1.0)
                power = t ** (0.5 * self.alpha)
                slope = -0.5 * np.log(t) * power / (1.0 + power) ** 2
                return {"alpha": float((Q * np.where(s > 0.0, slope, 0.0)).sum())}
    ''',
    "loss": '''
        import numpy as np
        from mercer.losses import Loss


        class GuestSecant(Loss):
            """Noise with density sech(r) / (pi scale), r = (y - f) / scale; the scale is given."""

            normalised = True
            latent_is_mean = True

            def __init__(self, scale=1.0):
                self.scale = scale

            def value(self, y, f):
                r = (np.asarray(y) - f) / self.scale
                return np.logaddexp(r, -r) + np.log(np.pi * self.scale / 2)

            def derivatives(self, y, f):
                t, s = np.tanh((np.asarray(y) - f) / self.scale), self.scale
                return -t / s, (1.0 - t**2) / s**2, 2.0 * t * (1.0 - t**2) / s**3

            def width(self, y):
                return self.scale

            def moments(self, f):
                f = np.asarray(f, dtype=float)
                return f, np.full_like(f, (np.pi * self.scale) ** 2 / 4)

            def conditional_cdf(self, y, f):
                r = (np.asarray(y) - f) / self.scale
                return 2.0 / np.pi * np.arctan2(np.exp(np.minimum(r, 700.0)), 1.0)

            def in_units(self, scale):
                return GuestSecant(scale * self.scale)
    ''',
    "inference": '''
        import numpy as np
        from mercer.inference import Evidence, Inference, Report, Solution


        class GuestLaplace(Inference):
            """Laplace approximation for a smooth convex loss, one output, no basis."""

            needs = ("derivatives",)
            needs_likelihood = True
            takes_kinks = False

            def solve(self, gram, y, loss, *, mean=None, basis=None, weights=None, start=None):
                if (basis is not None and basis.shape[1]) or y.shape[1] != 1:
                    raise ValueError("GuestLaplace takes one output and no basis")
                w = np.ones(len(y)) if weights is None else weights
                y, shift = y[:, 0], 0.0 if mean is None else mean[:, 0]
                f = np.zeros(len(y)) if start is None else (gram @ start.alpha)[:, 0]
                for iteration in range(100):
                    slope, curvature, _ = loss.derivatives(y, f + shift)
                    W = w * curvature
                    b = W * f - w * slope
                    alpha = b - gram.factor(W).solve(gram @ b[:, None])[:, 0]
                    f, last = (gram @ alpha[:, None])[:, 0], f
                    if np.abs(f - last).max() <= 1e-10 * (1.0 + np.abs(f).max()):
                        break
                slope, curvature, _ = loss.derivatives(y, f + shift)
                W, alpha = w * curvature, -w * slope
                report = Report(converged=iteration < 99, iterations=iteration + 1)
                z = (f + shift)[:, None]
                return Solution(alpha[:, None], W, z, gram.factor(W), None, w, report)

            def evidence(self, gram, y, loss, solution, *, spread=None):
                alpha, w, factor = solution.alpha, solution.weights, solution.factor
                f, Ka = solution.z[:, 0], (gram @ alpha)[:, 0]
                value = -(w * loss.value(y[:, 0], f)).sum() - 0.5 * alpha[:, 0] @ Ka
                third = loss.derivatives(y[:, 0], f)[2]
                s = (0.5 * factor.cov_diag() * w * third)[:, None]
                U = factor.solve(gram @ s) - s
                return Evidence(float(value) - 0.5 * factor.logdet(), U=U, V=alpha)
    ''',
    "estimator": '''
        from mercer import GPRegressor


        class GuestRegressor(GPRegressor):
            """A Gaussian process with long memory and heavier tails than a Gaussian's."""

            def __init__(
                self, kernel="guest_cauchy", loss="guest_secant", inference="guest_laplace",
                search="evidence", gram="auto", basis=None, standardize="auto", random_state=None,
                device="cpu",
            ):
                super().__init__(
                    kernel, loss=loss, inference=inference, search=search, gram=gram, basis=basis,
                    standardize=standardize, random_state=random_state, device=device,
                )


        class GuestDoubled(GPRegressor):
            """A regressor with a prediction of its own."""

            def predict(self, X, return_std=False):
                return 2.0 * super().predict(X)
    ''',
}
RNG = np.random.default_rng(3)
X = RNG.uniform(0.0, 6.0, (30, 1))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_t(4, size=30)


@pytest.fixture(scope="module")
def guest(tmp_path_factory):
    """The modules of a package that was written just now."""
    folder = tmp_path_factory.mktemp("own") / "house_guest"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text), encoding="utf-8")
    sys.path.insert(0, str(folder.parent))
    try:
        found = {n: importlib.import_module(f"house_guest.{n}") for n in FILES if n[0] != "_"}
        yield SimpleNamespace(
            Cauchy=found["kernel"].GuestCauchy,
            Secant=found["loss"].GuestSecant,
            Laplace=found["inference"].GuestLaplace,
            Regressor=found["estimator"].GuestRegressor,
            Doubled=found["estimator"].GuestDoubled,
        )
    finally:
        sys.path.remove(str(folder.parent))


def own(guest):
    return [guest.Cauchy, guest.Secant, guest.Laplace, guest.Regressor]


def test_names_are_found(guest):
    assert type(Kernel.by_name("guest_cauchy")) is guest.Cauchy
    assert type(Loss.by_name("guest_secant")) is guest.Secant
    assert type(Inference.by_name("guest_laplace")) is guest.Laplace
    with pytest.raises(ValueError, match=r"no kernel 'guest_cauchi'; did you mean 'guest_cauchy'"):
        Kernel.by_name("guest_cauchi")


@pytest.mark.parametrize(
    ("sort", "wrong", "near"),
    [
        (Kernel, "rbff", "rbf"),
        (Loss, "gausian", "gaussian"),
        (Inference, "lapace", "laplace"),
        (Search, "evidense", "evidence"),
    ],
)
def test_one_style_of_refusal(sort, wrong, near):
    what = sort.__name__.lower()
    with pytest.raises(ValueError, match="there is no") as found:
        sort.by_name(wrong)
    text = str(found.value)
    assert text.startswith(f"there is no {what} '{wrong}'; did you mean '{near}'? Known are: ")
    assert text.endswith(".")
    with pytest.raises(ValueError, match=rf"there is no {what} 'xyzzy'\. Known are: .*\.$"):
        sort.by_name("xyzzy")


def test_names_of_the_house_stay(guest):
    class RBF(Kernel):  # a name that is taken
        pass

    assert Kernel.by_name("rbf") == mercer.kernels.RBF()


def test_kernel(guest):
    testing.check_kernel(guest.Cauchy(0.7))
    testing.check_kernel(2.0 * guest.Cauchy() + RBF())
    with pytest.raises(ValueError, match=r"alpha must lie between 0 and 2, got 2\.5"):
        GPRegressor(guest.Cauchy(alpha=2.5), search=None).fit(X, Y)


def test_loss(guest):
    testing.check_loss(guest.Secant())


def test_inference(guest):
    testing.check_inference(guest.Laplace(), guest.Secant(), X, Y[:, None], 1.5 * RBF(1.2))
    with pytest.raises(ValueError, match="one latent function per target"):
        guest.Laplace().check(mercer.losses.Softmax())
    with pytest.raises(ValueError, match="slope of LaplaceNoise jumps"):
        guest.Laplace().check(mercer.losses.LaplaceNoise())


def test_estimator(guest):
    quick = guest.Regressor(search=None)  # the promises do not depend on the search
    testing.check_estimator(quick, X, Y, parts=own(guest), variants=40)


def test_through_the_estimators_of_the_house(guest, tmp_path):
    for model in (
        GPRegressor("guest_cauchy", loss="guest_secant", inference="guest_laplace"),
        KernelRegressor(guest.Cauchy(), loss=guest.Secant(), search=None),
        guest.Regressor(),
    ):
        model.fit(X, Y)
        assert np.abs(model.predict(X) - np.sin(X[:, 0])).mean() < 0.35
        path = tmp_path / "model.mercer"
        mercer.save(model, path)
        again = mercer.load(path, parts=own(guest))
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        with pytest.raises(mercer.persist.ModelFileError, match="if it is a class of yours"):
            mercer.load(path)


def test_words_are_those_of_the_class(guest):
    text = str(GPRegressor("guest_cauchy").fit(X, Y).summary())
    assert "exponent of the distance" in text
    assert "mixture of length scales" not in text
    assert "distance over which the function changes" in text
    rational = GPRegressor(mercer.kernels.RationalQuadratic(), search=None).fit(X, Y)
    assert "mixture of length scales" in str(rational.summary())


def test_export_has_a_form_or_refuses_with_a_sentence(guest):
    pytest.importorskip("onnx")
    assert mercer.to_onnx(GPRegressor("guest_cauchy").fit(X, Y))  # by its profile
    assert mercer.to_onnx(GPRegressor("rbf", loss="guest_secant").fit(X, Y), std=False)
    with pytest.raises(ExportError, match="Doubled cannot be exported: it overrides predict of"):
        mercer.to_onnx(guest.Doubled().fit(X, Y))
