"""SVC, SVR and kernel machines on landmarks: against the exact ones, files, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.svm import SVC as LibSVC

import mercer
from mercer import (
    SVC,
    SVR,
    KernelClassifier,
    KernelRegressor,
    NuSVC,
    NuSVR,
    OneClassSVM,
    QuantileRegressor,
    losses,
)
from mercer.core.arrays import Array
from mercer.inference import Primal
from mercer.kernels import RBF
from mercer.linalg import Inducing

RNG = np.random.default_rng(1)
X = RNG.normal(size=(240, 2))
Y = np.sin(2.0 * X[:, 0]) + 0.2 * RNG.standard_t(3, size=240)
TWO = np.where(Y > 0.4, "yes", "no")
THREE = np.where(X[:, 0] > 0.5, "c", np.where(X[:, 1] > 0.0, "a", "b"))
WEIGHTS = RNG.integers(1, 4, 240).astype(float)
KERNEL = RBF(0.7)
NEW = RNG.normal(size=(30, 2))
Z = X + 1e-7  # as many landmarks as rows, given: the exact machine


def test_a_classifier_with_landmarks_everywhere_is_the_exact_one() -> None:
    given: dict[str, Any] = {"C": 2.0, "kernel": KERNEL, "class_weight": {"yes": 2.0}}
    ours = SVC(**given, gram=Inducing(Z), tol=1e-6).fit(X, TWO, WEIGHTS)
    exact = SVC(**given, tol=1e-6).fit(X, TWO, WEIGHTS)
    assert np.abs(ours.decision_function(NEW) - exact.decision_function(NEW)).max() < 5e-3
    lib = LibSVC(C=2.0, gamma=0.5 / 0.7**2, class_weight={"yes": 2.0}, tol=1e-6)
    lib.fit(X, TWO, WEIGHTS)
    assert np.abs(ours.decision_function(NEW) - lib.decision_function(NEW)).max() < 5e-3


@pytest.mark.parametrize("bias", [True, False])
def test_a_regressor_with_landmarks_everywhere_is_the_exact_one(bias: bool) -> None:
    given: dict[str, Any] = {"C": 3.0, "epsilon": 0.2, "kernel": KERNEL, "tol": 1e-6, "bias": bias}
    ours = SVR(**given, gram=Inducing(Z)).fit(X, Y, WEIGHTS)
    assert np.abs(ours.predict(NEW) - SVR(**given).fit(X, Y, WEIGHTS).predict(NEW)).max() < 5e-3


def test_weights_are_repeated_rows() -> None:
    rows = np.repeat(np.arange(240), WEIGHTS.astype(int))
    gram = Inducing(X[:40])
    once = SVC(kernel=KERNEL, gram=gram, tol=1e-8).fit(X, TWO, WEIGHTS)
    often = SVC(kernel=KERNEL, gram=gram, tol=1e-8).fit(X[rows], TWO[rows])
    assert np.abs(once.decision_function(NEW) - often.decision_function(NEW)).max() < 1e-6


def test_several_classes_and_what_the_report_says() -> None:
    model = SVC(gram=Inducing(m=30), C=3.0).fit(X, THREE)
    assert model.decision_function(NEW).shape == (30, 3)
    assert model.score(X, THREE) > 0.93
    said = model.report_["inducing"]
    assert said["points"] == 30
    assert said["chosen"] == "kmeans, in each class"
    ended = model.report_["inference"]
    assert ended["converged"]
    assert 0.0 <= ended["gap"] <= 1e-3 * ended["objective"]
    assert model.support_.shape == (0,)
    assert model.left_out_ is None
    assert "cross_val_predict" in model.report_["left_out"]
    text = str(model.summary())
    assert "30 inducing points (kmeans, in each class)" in text
    assert "duality gap" in text


def test_a_rare_class_has_its_share_of_landmarks() -> None:
    rare = np.zeros(240)
    rare[:12] = 1.0
    shifted = X + 20.0 * rare[:, None]
    model = SVC(kernel=KERNEL, gram=Inducing(m=40)).fit(shifted, rare)
    near = model.support_vectors_[:, 0] > 10.0
    assert near.sum() == 12
    assert (~near).sum() == 28


@pytest.mark.parametrize("name", ["inducing", "auto", None])
def test_by_name(name: str | None) -> None:
    model = SVR(gram=name).fit(X, Y)
    landmarks = name == "inducing"
    assert ("inducing" in model.report_) == landmarks
    if landmarks:
        assert len(model.support_vectors_) == 120  # half of the rows, 500 of many


def test_fits_repeat() -> None:
    one, two = (SVC(gram=Inducing(m=20)).fit(X, TWO) for _ in range(2))
    assert np.array_equal(one.dual_coef_, two.dual_coef_)
    assert clone(one).gram.m == 20


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (SVC(gram=Inducing(m=20)), THREE),
        (SVR(gram="inducing"), Y),
        (KernelClassifier(loss="hinge", gram=Inducing(m=20)), THREE),
        (KernelRegressor(loss=losses.Pinball(0.9, 0.2), search=None, gram=Inducing(m=20)), Y),
    ],
    ids=["SVC", "SVR", "KernelClassifier", "KernelRegressor"],
)
def test_model_files(model: Any, y: Array, tmp_path: Path) -> None:
    fitted, file = clone(model).fit(X, y), tmp_path / "model.mercer"
    mercer.save(fitted, file)
    again = mercer.load(file)
    assert np.array_equal(again.predict(NEW), fitted.predict(NEW))
    assert str(again.summary()) == str(fitted.summary())


@pytest.mark.parametrize(
    "loss", [losses.Pinball(0.8, 0.3), losses.Huber(0.1, 0.3), losses.EpsilonInsensitive(3.0, 0.1)]
)
def test_a_kernel_regressor_is_the_exact_one(loss: Any) -> None:
    given: dict[str, Any] = {"loss": loss, "search": None, "basis": "constant"}
    ours = KernelRegressor(KERNEL, **given, gram=Inducing(Z), inference=Primal(1e-7))
    ours.fit(X, Y, WEIGHTS)
    exact = KernelRegressor(KERNEL, **given).fit(X, Y, WEIGHTS)
    assert np.abs(ours.predict(NEW) - exact.predict(NEW)).max() < 5e-3
    few = KernelRegressor(KERNEL, **given, gram=Inducing(m=30)).fit(X, Y, WEIGHTS)
    assert few.report_["inference"]["name"] == "Primal"
    assert few.left_out_ is None
    assert few.log_evidence_ is None


def test_several_classes_jointly() -> None:
    given: dict[str, Any] = {"kernel": KERNEL, "loss": "softmax", "C": 3.0}
    exact = KernelClassifier(**given).fit(X, THREE, WEIGHTS)
    ours = KernelClassifier(**given, gram=Inducing(Z), inference=Primal(1e-13))
    ours.fit(X, THREE, WEIGHTS)
    assert np.abs(ours.predict_proba(NEW) - exact.predict_proba(NEW)).max() < 1e-6
    few = KernelClassifier(KERNEL, C=3.0, gram=Inducing(m=40)).fit(X, THREE)
    assert few.losses_[0] == losses.Softmax()
    assert few.report_["inducing"]["chosen"] == "kmeans, in each class"
    assert few.report_["probabilities"] == "those of the softmax at the mode"
    assert few.left_out_ is None
    assert few.score(X, THREE) > 0.9
    ended = few.report_["inference"]
    assert 0.0 <= ended["gap"] <= 1e-3 * ended["objective"]


@pytest.mark.slow
@pytest.mark.parametrize(("m", "error", "log_loss"), [(100, 0.045, 0.161), (300, 0.038, 0.126)])
def test_digits_by_a_softmax_on_landmarks(
    m: int, error: float, log_loss: float, data_folder: Path
) -> None:
    with np.load(data_folder / "usps" / "usps_resampled.npz") as held:
        data = {name: held[name].astype(float) for name in held}
    kernel, gram = np.exp(5.0) * RBF(np.exp(2.5)), Inducing(m=m, choose="random_pivots")
    model = KernelClassifier(kernel, gram=gram, basis=None).fit(data["X_train"], data["y_train"])
    p, digits = model.predict_proba(data["X_test"]), data["y_test"].astype(int)
    found = -np.log(p[np.arange(len(p)), digits]).mean()
    assert np.mean(np.argmax(p, axis=1) != digits) <= error + 0.006
    assert found <= log_loss + 0.02


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge"])
def test_a_kernel_classifier_is_the_exact_one(loss: str) -> None:
    ours = KernelClassifier(KERNEL, loss=loss, gram=Inducing(Z), inference=Primal(1e-7))
    ours.fit(X, TWO, WEIGHTS)
    exact = KernelClassifier(KERNEL, loss=loss).fit(X, TWO, WEIGHTS)
    assert np.abs(ours.decision_function(NEW) - exact.decision_function(NEW)).max() < 5e-3
    assert ours.left_out_ is None
    if loss == "logistic":
        three = KernelClassifier(gram=Inducing(m=40), C=5.0).fit(X, THREE)
        assert three.report_["inducing"]["chosen"] == "kmeans, in each class"
        assert np.allclose(three.predict_proba(NEW).sum(axis=1), 1.0)
        assert three.score(X, THREE) > 0.9


def test_what_is_refused() -> None:
    gram = Inducing(m=20)
    for nu in (NuSVC(gram=gram), NuSVR(gram=gram), OneClassSVM(gram=gram)):
        with pytest.raises(ValueError, match="has no landmarks"):
            nu.fit(X, TWO if isinstance(nu, NuSVC) else Y)
    refusals: list[tuple[Any, str]] = [
        (SVC(gram=gram, probability="loo"), "no probabilities"),
        (SVC(gram=gram, inference="ep"), "no probabilities"),
        (SVC(gram=gram, C=np.inf), "finite C"),
        (SVC(gram="dense"), "gram must be"),
        (SVC(gram=Inducing(m=500)), "save nothing"),
        (SVC(gram=Inducing(m=20, move=True)), "not moved"),
        (SVC(gram=Inducing(X[:5, :1])), "column"),
        (SVC(gram=gram, kernel="precomputed"), "precomputed"),
        (KernelClassifier(gram=gram, inference="dual"), "primal"),
        (KernelClassifier(gram=gram, loss="softmax", inference="newton"), "primal"),
        (KernelClassifier(gram=Inducing(m=20, move=True)), "not moved"),
    ]
    for model, words in refusals:
        square = X @ X.T if getattr(model, "kernel", None) == "precomputed" else X
        with pytest.raises(ValueError, match=words):
            model.fit(square, TWO)
        assert not hasattr(model, "report_")
    with pytest.raises(AttributeError):
        SVC(gram=gram).fit(X, TWO).predict_proba(NEW)


MACHINES: list[tuple[Any, Array]] = [
    (SVC(kernel=KERNEL), TWO),
    (SVR(kernel=KERNEL), Y),
    (KernelClassifier(KERNEL), THREE),
    (KernelRegressor(KERNEL, loss=losses.Huber(), search=None), Y),
    (QuantileRegressor(0.5, kernel=KERNEL, search=None), Y),
]
EACH = pytest.mark.parametrize(("model", "y"), MACHINES, ids=lambda m: type(m).__name__)
HOLE = np.array([[0.0, 1.0], [np.nan, 0.0]])


@EACH
@pytest.mark.parametrize(
    ("m", "words"),
    [
        (HOLE, "inducing point 1 is not finite"),
        (X[:5, :1], "1 columns, and X has 2"),
        (240, "240 inducing points for 240 distinct rows save nothing"),
        (0, "number of points"),
        (X[0], "number of points"),
    ],
    ids=["NaN", "width", "as many as rows", "none", "one row"],
)
def test_points_that_cannot_be(model: Any, y: Array, m: Any, words: str) -> None:
    wanted = clone(model).set_params(gram=Inducing(m))
    with pytest.raises(ValueError, match=words):
        wanted.fit(X, y)
    assert not hasattr(wanted, "report_")


@EACH
def test_points_that_repeat_are_dropped_and_told(model: Any, y: Array) -> None:
    once = clone(model).set_params(gram=Inducing(X[:9])).fit(X, y)
    twice = clone(model).set_params(gram=Inducing(np.vstack([X[:9], X[:3]]))).fit(X, y)
    assert twice.report_["inducing"]["dropped"] == 3
    assert twice.report_["inducing"]["points"] == 9
    assert np.array_equal(twice.predict(NEW), once.predict(NEW))


def test_steps_that_do_not_suffice_are_told() -> None:
    with pytest.warns(mercer.estimators.support_vector.base.ConvergenceWarning, match="max_iter"):
        SVC(gram=Inducing(m=20), max_iter=1).fit(X, TWO)


@pytest.mark.parametrize("scale", [0.2, 0.7, 3.0])  # the triangle of the last is close to singular
def test_features_in_single_precision_are_as_good_as_the_tolerance(scale: float) -> None:
    given: dict[str, Any] = {"C": 2.0, "kernel": RBF(scale), "gram": Inducing(m=60)}
    rough = SVC(**given, tol=1e-4).fit(X, TWO)
    fine = SVC(**given, tol=1e-7).fit(X, TWO)
    assert rough.report_["inference"]["features"] == "float32"
    assert "features" not in fine.report_["inference"]
    both = [model.report_["inference"]["objective"] for model in (rough, fine)]
    assert abs(both[0] - both[1]) <= 2e-4 * both[1]
    assert 0.0 <= rough.report_["inference"]["gap"] <= 1e-4 * both[0]
    assert np.abs(rough.decision_function(NEW) - fine.decision_function(NEW)).max() < 0.05


def test_a_curvature_that_single_precision_cannot_hold_is_formed_in_double() -> None:
    model = SVC(C=1e6, kernel=KERNEL, gram=Inducing(m=60)).fit(X, TWO)
    ended = model.report_["inference"]
    assert ended["converged"]
    assert ended["gap"] <= 1e-3 * ended["objective"]


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (KernelClassifier(KERNEL), THREE),
        (KernelRegressor(KERNEL, loss=losses.Huber(), search=None), Y),
        (QuantileRegressor(0.5, kernel=KERNEL, search=None), Y),
    ],
    ids=["KernelClassifier", "KernelRegressor", "QuantileRegressor"],
)
def test_a_mode_beyond_the_memory_names_landmarks(
    model: Any, y: Array, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mercer.core.memory.available_bytes", lambda: 100_000)
    with pytest.raises(MemoryError, match="inducing"):
        clone(model).fit(X, y)
