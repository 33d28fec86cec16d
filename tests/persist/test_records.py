"""Hostile states follow from the records: each is refused in a sentence, or does no harm."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

import mercer
from mercer.kernels import RBF, Matern, RandomFourier
from mercer.linalg.representation import Inducing, Iterative
from mercer.losses import Gaussian, Softmax
from mercer.persist import ModelFileError, part_class
from mercer.testing.record import hostile_states
from tests.persist.test_every_estimator import answers

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 2))
T = np.sin(2.0 * X[:, 0]) + 0.1 * RNG.normal(size=24)
Y = np.where(T > 0.0, "up", "down")
THREE = np.digitize(T, np.quantile(T, [1 / 3, 2 / 3]))
PARTLY = [label if i % 3 else None for i, label in enumerate(Y)]
COUNTS = RNG.poisson(np.exp(T)).astype(float)
LINE = X[:, :1]
KERNEL = 1.0 * RBF(0.8)


def streamed(model, classes, batches=2):
    for i in range(batches):
        rows = slice(12 * i, 12 * (i + 1))
        model.partial_fit(X[rows], np.asarray(classes, dtype=object)[rows], classes=["down", "up"])
    return model


CASES = {
    "GP basis": lambda: mercer.GPRegressor(KERNEL, search=None, basis="linear").fit(X, T),
    "GP outputs": lambda: mercer.GPRegressor(KERNEL, search=None).fit(X, np.column_stack([T, -T])),
    "GP line": lambda: mercer.GPRegressor(Matern(), search=None).fit(LINE, T),
    "GP certain": lambda: mercer.GPRegressor(KERNEL, loss=Gaussian(0.0), search=None).fit(X, T),
    "GPC": lambda: mercer.GPClassifier(KERNEL, search=None).fit(X, Y),
    "GPC softmax": lambda: mercer.GPClassifier(KERNEL, loss=Softmax(), search=None).fit(X, THREE),
    "GPC EP": lambda: mercer.GPClassifier(KERNEL, inference="ep", search=None).fit(X, THREE),
    "GP inducing": lambda: mercer.GPRegressor(
        KERNEL, search=None, basis="linear", gram=Inducing(m=X[:5])
    ).fit(X, np.column_stack([T, -T])),
    "GPC inducing": lambda: mercer.GPClassifier(
        KERNEL, search=None, inference="variational", gram=Inducing(m=5)
    ).fit(X, Y),
    "GPC inducing classes": lambda: mercer.GPClassifier(
        KERNEL, search=None, gram=Inducing(m=5)
    ).fit(X, THREE),
    "GP iterative": lambda: mercer.GPRegressor(
        KERNEL, search=None, gram=Iterative(rank=5, tol=1e-6)
    ).fit(X, T),
    "kernel": lambda: mercer.KernelClassifier(KERNEL, search=None).fit(X, Y),
    "least squares": lambda: mercer.LeastSquaresClassifier(KERNEL, search=None).fit(X, THREE),
    "additive": lambda: mercer.AdditiveRegressor(gram="iterative").fit(X, T),
    "additive, no basis": lambda: mercer.AdditiveRegressor(gram="iterative", basis=None).fit(X, T),
    "grid": lambda: mercer.GPRegressor(
        Matern().on(0) * RBF().on(1), gram="kronecker", search=None
    ).fit(np.array([[i, j] for i in range(5) for j in range(4)], dtype=float), np.arange(20.0)),
    "thin plate": lambda: mercer.ThinPlateSpline().fit(X, T),
    "thin plate knots": lambda: mercer.ThinPlateSpline(knots=12).fit(X, T),
    "SVC": lambda: mercer.SVC(class_weight={"up": 2.0}).fit(X, Y),
    "SVC loo": lambda: mercer.SVC(probability="loo", kernel=RBF([1.0, 2.0])).fit(X, THREE),
    "SVC Bayes": lambda: mercer.SVC(kernel=KERNEL, inference="ep", search=None).fit(X, Y),
    "SVC joint": lambda: mercer.SVC(multi_class="weston_watkins").fit(X, THREE),
    "SVR": lambda: mercer.SVR().fit(X, T),
    "SVC landmarks": lambda: mercer.SVC(gram=Inducing(m=6)).fit(X, THREE),
    "SVR landmarks": lambda: mercer.SVR(gram=Inducing(m=X[:5])).fit(X, T),
    "kernel landmarks": lambda: mercer.KernelRegressor(
        KERNEL, loss="huber", search=None, gram=Inducing(m=5)
    ).fit(X, T),
    "NuSVC": lambda: mercer.NuSVC(nu=0.3).fit(X, Y),
    "NuSVR": lambda: mercer.NuSVR().fit(X, T),
    "OneClassSVM": lambda: mercer.OneClassSVM().fit(X),
    "RVR": lambda: mercer.RVRegressor(RBF(0.8)).fit(X, T),
    "RVR heal": lambda: mercer.RVRegressor(RBF(0.8), heal=True).fit(X, T),
    "RVR columns": lambda: mercer.RVRegressor(functions="columns").fit(X, T),
    "RVC": lambda: mercer.RVClassifier(RBF(0.8)).fit(X, THREE),
    "spline": lambda: mercer.SmoothingSpline().fit(LINE, T),
    "spline counts": lambda: mercer.SmoothingSpline(loss="poisson").fit(LINE, COUNTS),
    "spline period": lambda: mercer.SmoothingSpline(period=4.0).fit(LINE, T),
    "online": lambda: streamed(mercer.OnlineLogisticClassifier(KERNEL), Y),
    "online budget": lambda: streamed(mercer.OnlineLogisticClassifier(KERNEL, budget=8), Y),
    "online values": lambda: (
        mercer.OnlineRegressor(KERNEL, budget=8, search=None, forget=0.9)
        .partial_fit(X[:12], T[:12])
        .partial_fit(X[12:], T[12:])
    ),
    "online counts": lambda: mercer.OnlineRegressor(KERNEL, loss="poisson", search=None).fit(
        X, COUNTS
    ),
    "MED": lambda: streamed(mercer.MEDClassifier(kernel=KERNEL), Y),
    "MED calibrated": lambda: mercer.MEDClassifier(calibration="sigmoid").fit(X, Y),
    "MED features": lambda: mercer.MEDClassifier(kernel="linear").fit(X, THREE),
    "LapMED": lambda: streamed(mercer.LapMEDClassifier(kernel=KERNEL), PARTLY),
    "LapMED landmarks": lambda: streamed(
        mercer.LapMEDClassifier(kernel=KERNEL, budget=0, landmarks=4), PARTLY
    ),
    "LapSVC": lambda: mercer.LapSVC(kernel=KERNEL).fit(X, PARTLY),
    "LapLS": lambda: mercer.LapLSClassifier(kernel=KERNEL).fit(X, PARTLY),
    "LapLS, calibrated": lambda: mercer.LapLSClassifier(calibration="sigmoid").fit(X, PARTLY),
    "LapMED, calibrated": lambda: streamed(
        mercer.LapMEDClassifier(kernel=KERNEL, calibration="sigmoid"), PARTLY
    ),
    "features": lambda: mercer.KernelFeatures(m=6).fit(X),
    "features given": lambda: mercer.KernelFeatures(KERNEL, m=X[:5]).fit(X),
    "components": lambda: mercer.KernelPCA(n_components=4).fit(X),
    "components by points": lambda: mercer.KernelPCA(KERNEL, m=6).fit(X),
    "components of features": lambda: mercer.KernelPCA("linear").fit(X),
    "features of the kernel": lambda: mercer.KernelFeatures(RandomFourier(size=5), m=None).fit(X),
    "table": lambda: mercer.fit(
        {"a": X[:, 0], "b": X[:, 1], "y": Y}, "y", candidates=["kernel logistic"]
    ),
}


def resolve(name):
    return part_class(name, {})


def asked(model):
    if isinstance(model, mercer.TableModel):
        return {"a": X[:, 0], "b": X[:, 1]}
    return X[:, : model.n_features_in_]


@pytest.mark.parametrize("name", CASES)
def test_hostile_states(name):
    model = CASES[name]()
    said = dict(answers(model, asked(model)))
    assert said
    again = type(model)._from_state(model._state(), resolve)
    assert dict(answers(again, asked(model))) == said
    assert vars(again).keys() >= vars(model).keys() - {"_trained"}
    wrong, harmless, refused = [], [], 0
    for what, state in hostile_states(model):
        try:
            found = type(model)._from_state(state, resolve)
        except (ValueError, TypeError, KeyError, ModelFileError):
            refused += 1
            continue
        same = dict(answers(found, asked(model))) == said
        (harmless if same else wrong).append(what)
    assert wrong == []
    assert len(harmless) < refused / 8


def test_every_estimator_has_a_table(monkeypatch):
    """docs/model-files.md shows the record of every estimator, each entry once."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "docs"))
    text = importlib.import_module("records").tables()
    fitted = {name for name in mercer.__all__ if hasattr(getattr(mercer, name), "_from_state")}
    heads = " ".join(line for line in text.splitlines() if line.startswith("###"))
    assert [name for name in sorted(fitted) if f"`{name}`" not in heads] == []
    for part in text.split("### ")[1:]:
        entries = [line.split("|")[1] for line in part.splitlines() if line.startswith("| `")]
        assert len(entries) == len(set(entries))
        assert len(entries) > 5
