"""Precomputed kernels, and probabilities that agree with the predicted class, noise included."""

import numpy as np
import pytest

from mercer import SVC, SVR, NuSVC, OneClassSVM
from mercer.kernels import RBF


@pytest.mark.parametrize("machine", [SVC, SVR, NuSVC, OneClassSVM])
def test_precomputed_kernels_are_the_same_machine(machine):
    rng = np.random.default_rng(6)
    X, Z = rng.normal(size=(40, 3)), rng.normal(size=(15, 3))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=40) > 0, 1.0, -1.0)
    kernel = RBF(length_scale=1.0)
    options = {"nu": 0.3} if machine in (NuSVC, OneClassSVM) else {}
    plain = machine(gamma=0.5, tol=1e-8, **options).fit(X, y)
    given = machine(kernel="precomputed", tol=1e-8, **options).fit(kernel(X), y)
    name = "predict" if machine is SVR else "decision_function"
    np.testing.assert_allclose(
        getattr(given, name)(kernel(Z, X)), getattr(plain, name)(Z), atol=1e-6
    )


def test_no_contradiction_at_the_boundary_itself():
    # decision values of 1e-16: rounding must not make predict and predict_proba disagree
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] + 0.5 * rng.normal(size=60) > 0).astype(int)
    model = SVC(probability="loo", kernel="linear").fit(X, y)
    w, b = model.dual_coef_[0] @ model.support_vectors_, model.decision_function([[0.0, 0.0]])[0]
    Z = rng.normal(size=(400, 2))
    Z = Z - np.outer((Z @ w + b) / (w @ w), w)
    p = model.predict_proba(Z)
    np.testing.assert_array_equal(model.predict(Z), model.classes_[p.argmax(axis=1)])


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_labels_that_are_noise(classes, seed):
    # held-out margins then point the wrong way: probabilities near the base rate, no contradiction
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(40, 3)), rng.normal(size=(300, 3))
    model = SVC(probability="loo").fit(X, rng.integers(0, classes, 40))
    p = model.predict_proba(Z)
    np.testing.assert_array_equal(model.predict(Z), model.classes_[p.argmax(axis=1)])


@pytest.mark.parametrize("seed", range(40))
def test_platt_converges_on_noise(seed):
    from mercer.losses.calibration import fit_platt

    rng = np.random.default_rng(seed)
    f, y = rng.normal(size=40), np.where(rng.random(40) < 0.5, 1.0, -1.0)
    A, B = fit_platt(f, y)  # warnings are errors
    assert np.isfinite([A, B]).all()
