"""Machines that cannot reach their tolerance end, warn with a remedy, and say so in the report."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from mercer import (
    SVC,
    SVR,
    KernelClassifier,
    KernelRegressor,
    LeastSquaresClassifier,
    NuSVC,
    NuSVR,
    OneClassSVM,
    ProbabilisticLeastSquaresClassifier,
)
from mercer.inference import Dual, Newton
from mercer.kernels import RBF

RNG = np.random.default_rng(1)
X = RNG.normal(size=(200, 3))
TWO, THREE = RNG.integers(0, 2, 200), RNG.integers(0, 3, 200)
T = X[:, 0] + 0.5 * RNG.normal(size=200)

LIMITED = [
    (SVC(C=1e4, max_iter=3), TWO),
    (SVC(C=1e4, max_iter=3), THREE),
    (SVC(max_iter=0), TWO),
    (SVR(C=1e4, max_iter=3), T),
    (NuSVC(nu=0.3, max_iter=3), TWO),
    (NuSVC(nu=0.3, max_iter=3), THREE),
    (NuSVR(max_iter=3), T),
    (OneClassSVM(max_iter=3), None),
]


@pytest.mark.parametrize(("machine", "y"), LIMITED)
def test_the_iteration_limit_warns_and_reports(machine, y):
    limit, name = machine.max_iter, type(machine).__name__
    with pytest.warns(
        ConvergenceWarning, match=rf"{name}.*max_iter={limit}.*raise max_iter"
    ) as seen:
        machine.fit(X, y)
    assert len(seen) == 1
    assert seen[0].filename == __file__  # points at the call of fit
    assert ("smaller C" in str(seen[0].message)) == hasattr(machine, "C")
    ended = machine.report_["inference"]
    assert not ended["converged"]
    assert ended["message"] == "iteration limit"
    assert ended["violation"] > machine.tol
    if isinstance(machine, (SVC, NuSVC)):
        assert len(ended["objective"]) == (1 if y is TWO else 3)
    free = machine.set_params(max_iter=-1).fit(X, y)  # warnings are errors: none comes
    assert free.report_["inference"]["converged"]


INFERENCES = [
    (KernelClassifier(C=1e3, inference=Newton(max_iter=1)), TWO, "Newton"),
    (KernelClassifier(C=1e3, inference=Newton(max_iter=1)), THREE, "Newton"),
    (KernelClassifier(C=1e3, loss="hinge", inference=Dual(max_iter=1)), TWO, "Dual"),
    (KernelClassifier(C=1e3, loss="hinge", inference=Dual(max_iter=1)), THREE, "Dual"),
    (
        KernelClassifier(loss="hinge", basis=None, inference=Dual(max_iter=2, block=1)),
        TWO,
        "Dual",
    ),
    (
        KernelRegressor(RBF(), loss="laplace_noise", search=None, inference=Dual(max_iter=1)),
        T,
        "Dual",
    ),
    (
        KernelRegressor(RBF(), loss="poisson", search=None, inference=Newton(max_iter=1)),
        np.round(np.exp(3.0 * X[:, 0])),
        "Newton",
    ),
]


@pytest.mark.parametrize(("machine", "y", "name"), INFERENCES)
def test_an_inference_that_stops_early_warns_and_reports(machine, y, name):
    remedy = rf"{name} inference stopped.*max_iter=[12]\): give inference={name}\(max_iter=\.\.\.\)"
    with pytest.warns(ConvergenceWarning, match=remedy) as seen:
        machine.fit(X, y)
    assert len(seen) == 1
    assert "mercer/estimators" not in seen[0].filename or isinstance(machine, KernelRegressor)
    assert not machine.report_["inference"]["converged"]
    more = type(machine.inference)()
    assert machine.set_params(inference=more).fit(X, y).report_["inference"]["converged"]


@pytest.mark.parametrize(
    "machine", [SVC(max_iter=3), KernelClassifier(C=1e3, inference=Newton(max_iter=1))]
)
def test_a_warning_made_an_error_changes_nothing(machine):
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        with pytest.raises(ConvergenceWarning):
            machine.fit(X, THREE)
    assert not hasattr(machine, "classes_")
    assert not hasattr(machine, "n_features_in_")


@pytest.mark.parametrize("limit", [-2, 1.5, None, "many"])
def test_impossible_limits(limit):
    with pytest.raises(ValueError, match="max_iter must be"):
        SVC(max_iter=limit).fit(X, TWO)


# ---------------------------------------------------------------------- tolerances
@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("machine", "y", "method", "digits"),
    [
        (SVC(C=10.0), TWO, "decision_function", 1e-6),
        (SVR(C=10.0), T, "predict", 1e-6),
        (NuSVC(nu=0.3), TWO, "decision_function", 1e-3),  # divided by a small margin
        (NuSVR(), T, "predict", 1e-6),
        (OneClassSVM(), None, "decision_function", 1e-6),
    ],
)
def test_a_tolerance_below_rounding_ends(machine, y, method, digits):
    exact = getattr(machine.set_params(tol=1e-8).fit(X, y), method)(X)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        machine.set_params(tol=1e-300).fit(X, y)
    assert len(seen) == 1 - machine.report_["inference"]["converged"]  # exact zeros exist
    assert all("choose a larger tol" in str(w.message) for w in seen)
    scale = np.abs(exact).max()
    np.testing.assert_allclose(getattr(machine, method)(X), exact, atol=digits * scale)
    for tol in (0.0, -1e-3, np.nan, "small"):
        with pytest.raises(ValueError, match="tol must be a positive number"):
            machine.set_params(tol=tol).fit(X, y)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(("loss", "inference"), [("logistic", Newton), ("hinge", Dual)])
def test_an_inference_ends_below_rounding(loss, inference):
    exact = KernelClassifier(loss=loss).fit(X, TWO)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        model = KernelClassifier(loss=loss, inference=inference(tol=1e-300)).fit(X, TWO)
    assert len(seen) == 1 - model.report_["inference"]["converged"]
    assert model.report_["inference"]["gap"] < 1e-8
    assert model.report_["inference"]["iterations"] < 100
    np.testing.assert_allclose(model.decision_function(X), exact.decision_function(X), atol=1e-4)
    for tol in (0.0, -1e-3, np.nan):
        with pytest.raises(ValueError, match="needs a positive finite tol"):
            KernelClassifier(loss=loss, inference=inference(tol=tol)).fit(X, TWO)


# ---------------------------------------------------------------------- not a kernel
def sigmoid(P, Q):
    return np.tanh(2.0 * P @ Q.T - 1.0)


def negative(P, Q):
    return -(P @ Q.T)


def wavy(P, Q):
    return np.sin(3.0 * P @ Q.T)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kernel", [sigmoid, negative, wavy])
@pytest.mark.parametrize(
    ("machine", "y"),
    [
        (SVC, TWO),
        (SVC, THREE),
        (SVR, T),
        (NuSVR, T),
        (OneClassSVM, None),
    ],
)
def test_support_vector_machines_say_that_a_kernel_is_none(kernel, machine, y):
    model = machine(kernel=kernel).fit(X, y)
    assert model.report_["kernel"].startswith("not positive semidefinite: on 200 points its eigen")
    assert np.all(np.isfinite(model.predict(X).astype(float)))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kernel", [sigmoid, negative, wavy])
def test_a_share_of_errors_needs_a_kernel(kernel):
    with pytest.raises(ValueError, match="choose a larger nu or another kernel"):
        NuSVC(kernel=kernel, nu=0.3).fit(X, TWO)


def test_kernels_are_not_said_to_be_none():
    for kernel in (
        "rbf",
        "linear",
        "poly",
        RBF(),
        lambda P, Q: P @ Q.T,
        lambda P, Q: np.exp(P @ Q.T),
    ):
        assert "kernel" not in SVC(kernel=kernel).fit(X, TWO).report_
    assert "kernel" not in SVC(kernel="precomputed").fit(X @ X.T, TWO).report_
    odd = SVC(kernel="precomputed").fit(negative(X, X), TWO)
    assert "not positive semidefinite" in odd.report_["kernel"]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kernel", [sigmoid, negative, wavy])
@pytest.mark.parametrize(
    "machine",
    [
        KernelClassifier(),
        KernelClassifier(loss="hinge"),
        KernelClassifier(loss="softmax"),
        LeastSquaresClassifier(lam=0.01),
        ProbabilisticLeastSquaresClassifier(search=None),
    ],
)
def test_factorisations_refuse_a_kernel_that_is_none(kernel, machine):
    with pytest.raises(ValueError, match="positive"):
        machine.set_params(kernel=kernel).fit(X, TWO)


def test_a_negative_kernel_has_no_grid_of_penalties():
    with pytest.raises(ValueError, match="not a positive semidefinite kernel"):
        LeastSquaresClassifier(negative).fit(X, TWO)
