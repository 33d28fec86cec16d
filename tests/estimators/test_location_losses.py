"""Losses of y - f do not know the unit of y: y -> a + b y moves everything with it."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

from mercer import SVR, GPRegressor, KernelRegressor, SmoothingSpline
from mercer.core.component import POSITIVE, Domains
from mercer.losses import EpsilonInsensitive, Huber, LaplaceNoise, Pinball, StudentT
from mercer.losses.base import Loss
from mercer.losses.real.base import LocationLoss
from mercer.search import HalfNormal

LOSSES = ["student_t", "laplace_noise", "huber", "epsilon_insensitive", "pinball"]
MOVES = [(1e3, 1.0), (-7.0, 3e-5)]
EXACT = [(1024.0, 4.0), (0.0, 2.0**14), (-7.0, 2.0**-12)]  # no rounding for a search to amplify


def data(n: int = 25) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    X = rng.uniform(-3.0, 3.0, (n, 1))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_t(3, n)
    y = np.round(y * 2**20) / 2**20
    return X, y, np.array([[-2.0], [0.3], [2.5], [50.0]])


def figures(model: object, Z: np.ndarray, a: float, b: float, n: int) -> np.ndarray:
    """Everything that has the unit of y, brought back to that of a = 0, b = 1."""
    mean = (model.predict(Z) - a) / b
    low, high = ((end - a) / b for end in model.predict_interval(Z, 0.8))
    f, sd = model.predict_latent(Z)
    left = model.left_out_
    own = [(left.mean - a) / b, left.variance / b**2, left.log_density + np.log(b)]
    evidence = [model.log_evidence_ + n * np.log(b)]
    return np.concatenate([mean, low, high, (f - a) / b, sd / b, *own, evidence])


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("a", "b"), MOVES)
def test_gaussian_process(loss: str, a: float, b: float) -> None:
    X, y, Z = data()
    options = {"loss": loss, "inference": "variational", "search": None}
    plain = figures(GPRegressor(**options).fit(X, y), Z, 0.0, 1.0, len(y))
    moved = figures(GPRegressor(**options).fit(X, a + b * y), Z, a, b, len(y))
    np.testing.assert_allclose(moved, plain, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("a", "b"), [EXACT[0], *(pytest.param(*pair, marks=pytest.mark.slow) for pair in EXACT[1:])]
)
def test_hyperparameters_found(a: float, b: float) -> None:
    X, y, Z = data()
    first = KernelRegressor(loss="student_t", inference="laplace").fit(X, y)
    other = KernelRegressor(loss="student_t", inference="laplace").fit(X, a + b * y)
    found = figures(other, Z, a, b, len(y))
    np.testing.assert_allclose(found, figures(first, Z, 0.0, 1.0, len(y)), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(other.loss_.scale, b * first.loss_.scale, rtol=1e-6)
    np.testing.assert_allclose(other.loss_.df, first.loss_.df, rtol=1e-6)
    np.testing.assert_allclose(other.kernel_.variance, b**2 * first.kernel_.variance, rtol=1e-6)


OBJECTS = {
    "newton": (lambda b: StudentT(scale=0.1 * b, df=3.0), "newton"),
    "huber": (lambda b: Huber(noise=0.01 * b**2, delta=0.15 * b), "newton"),
    "laplace": (lambda b: LaplaceNoise(scale=0.1 * b), "dual"),
    "pinball": (lambda b: Pinball(level=0.3, scale=0.1 * b), "dual"),
    "tube": (lambda b: EpsilonInsensitive(C=8.0 / b, epsilon=0.1 * b), "dual"),
}


@pytest.mark.parametrize("name", sorted(OBJECTS))
@pytest.mark.parametrize(("a", "b"), MOVES)
def test_a_mode_with_a_loss_in_the_users_units(name: str, a: float, b: float) -> None:
    made, inference = OBJECTS[name]
    X, y, Z = data()
    options = {"inference": inference, "search": None}
    plain = KernelRegressor(loss=made(1.0), **options).fit(X, y)
    moved = KernelRegressor(loss=made(b), **options).fit(X, a + b * y)
    np.testing.assert_allclose((moved.predict(Z) - a) / b, plain.predict(Z), rtol=1e-6, atol=1e-6)
    for key, value in made(b).get_params().items():
        np.testing.assert_allclose(getattr(moved.loss_, key), value, rtol=1e-12)


@pytest.mark.parametrize(("a", "b"), MOVES)
def test_support_vector_regression(a: float, b: float) -> None:
    """C and epsilon are in the unit of y, as in scikit-learn; the offset is free."""
    X, y, Z = data()
    plain = SVR(C=2.0, epsilon=0.1, tol=1e-7).fit(X, y).predict(Z)
    moved = SVR(C=2.0 * b, epsilon=0.1 * b, tol=1e-7 * b).fit(X, a + b * y).predict(Z)
    np.testing.assert_allclose((moved - a) / b, plain, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("loss", ["student_t", "laplace_noise", "huber"])
@pytest.mark.parametrize(("a", "b"), EXACT[::2])
def test_smoothing_spline(loss: str, a: float, b: float) -> None:
    X, y, Z = data()
    first = SmoothingSpline(loss=loss).fit(X, y)
    other = SmoothingSpline(loss=loss).fit(X, a + b * y)
    # a flat prior on two coefficients, in the unit of y
    found = figures(other, Z[:3], a, b, len(y) - 2)
    expected = figures(first, Z[:3], 0.0, 1.0, len(y) - 2)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(other.lam_ * b**2, first.lam_, rtol=1e-5)
    slopes = (other.derivative(Z[:3]) / b, first.derivative(Z[:3]))
    np.testing.assert_allclose(*slopes, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(
        (other.integral(-1, 2) - 3 * a) / b, first.integral(-1, 2), atol=1e-6
    )


def test_far_from_the_data_the_mean_of_the_targets_is_predicted() -> None:
    X, y, _ = data()
    model = KernelRegressor(loss="student_t", inference="laplace").fit(X, 1000.0 + y)
    low, high = model.predict_interval([[1e6]], 0.68)
    assert abs(model.predict([[1e6]])[0] - 1000.0) < 2.0
    assert high[0] - low[0] < 10.0


def test_the_loss_says_how_its_parameters_move() -> None:
    """Values by change of variables, bounds with them; a prior is in the user's units."""
    y, f = np.linspace(-2.0, 2.0, 7), np.linspace(1.0, -1.0, 7)
    for made in (StudentT(0.4, 3.0), Huber(0.3, 0.7), Pinball(0.2, 0.3), EpsilonInsensitive(3.0)):
        moved = made.in_units(5.0)
        np.testing.assert_allclose(moved.value(5 * y, 5 * f), made.value(y, f) + np.log(5.0))
    bounded = EpsilonInsensitive(2.0).bound(C=(1.0, 4.0)).in_units(10.0)
    np.testing.assert_allclose(bounded.mark("C").bounds, (0.1, 0.4))
    assert StudentT().fix("df").in_units(3.0).mark("df").fixed
    assert StudentT().prior(df=HalfNormal()).in_units(3.0).mark("df").prior == HalfNormal()
    with pytest.raises(ValueError, match="standardize=False"):
        StudentT().prior(scale=HalfNormal()).in_units(3.0)


class LogCosh(LocationLoss):
    """A loss of one's own: log cosh of the residual, a logistic-like noise."""

    names: ClassVar[dict] = {}
    domains: ClassVar[Domains] = {"width_": POSITIVE}
    normalised: ClassVar[bool] = False

    def __init__(self, width_: float = 1.0) -> None:
        self.width_ = width_

    def value(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
        r = (y - f) / self.width_
        return np.logaddexp(r, -r)


class Declared(LogCosh):
    """The same, with the power of the unit of y in its parameter."""

    names: ClassVar[dict] = {}
    units: ClassVar[dict[str, float]] = {"width_": 1.0}


def test_a_loss_of_ones_own_declares_its_units() -> None:
    assert not LogCosh.offers("in_units")
    assert Declared.offers("in_units")
    assert Declared(2.0).in_units(3.0) == Declared(6.0)
    X, y, Z = data()
    options = {"inference": "newton", "search": None}
    plain = KernelRegressor(loss=Declared(0.1), **options).fit(X, y).predict_latent(Z)[0]
    moved = KernelRegressor(loss=Declared(0.3), **options).fit(X, 5.0 + 3.0 * y)
    np.testing.assert_allclose((moved.predict_latent(Z)[0] - 5.0) / 3.0, plain, atol=1e-6)
    # without a word on its units it is still a loss of y - f: the mean may be taken away
    plain = KernelRegressor(loss=LogCosh(0.1), **options).fit(X, y).predict_latent(Z)[0]
    moved = KernelRegressor(loss=LogCosh(0.1), **options).fit(X, 1e3 + y).predict_latent(Z)[0]
    np.testing.assert_allclose(moved - 1e3, plain, atol=1e-6)


def test_others_keep_their_targets() -> None:
    """Counts and losses that are not of y - f have no unit to change."""

    class Other(Loss):
        def value(self, y: np.ndarray, f: np.ndarray) -> np.ndarray:
            return np.square(np.square(y) - f)

    X, y, _ = data()
    model = KernelRegressor(loss=Other(), inference="newton", search=None).fit(X, 100.0 + y)
    assert model.units_.y_shift == 0.0
    assert model.units_.y_scale == 1.0
