"""Model files of support vector machines: values that do not belong together are refused.

Every entry is spoilt by its kind in tests/persist/test_records.py.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest

import mercer
from mercer import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from mercer.core.component import Component
from mercer.kernels import RBF
from mercer.persist import ModelFileError, part_class
from tests.persist.common import with_manifest

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
T = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=30)
Y = (T > 0.0).astype(int)
THREE = np.digitize(T, np.quantile(T, [1 / 3, 2 / 3]))

MACHINES = {
    "SVC": (SVC(class_weight={0: 2.0}), Y),
    "SVC loo": (SVC(probability="loo"), Y),
    "SVC three": (SVC(probability="loo"), THREE),
    "SVC kernel": (SVC(kernel=RBF([1.0, 2.0, 3.0])), Y),
    "SVR": (SVR(tol=1e-8), T),
    "NuSVC": (NuSVC(nu=0.3), Y),
    "NuSVC three": (NuSVC(nu=0.2), THREE),
    "NuSVR": (NuSVR(), T),
    "OneClassSVM": (OneClassSVM(), None),
}


def resolve(name: str) -> type[Component]:
    return part_class(name, {})


@pytest.fixture(scope="module")
def fitted() -> dict:
    return {name: copy.deepcopy(m).fit(X, y) for name, (m, y) in MACHINES.items()}


@pytest.mark.parametrize("name", MACHINES)
def test_every_machine_reads_what_it_writes(name, fitted) -> None:
    model = fitted[name]
    again = type(model)._from_state(model._state(), resolve)
    assert again.predict(X).tobytes() == model.predict(X).tobytes()
    assert vars(again).keys() == vars(model).keys() - {"_trained"}


def test_a_machine_without_support_vectors_survives() -> None:
    model = SVR(epsilon=10.0).fit(X, T)
    assert len(model.support_) == 0
    again = SVR._from_state(model._state(), resolve)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_a_generator_is_not_part_of_a_model() -> None:
    model = SVC(random_state=np.random.RandomState(0)).fit(X, Y)
    assert SVC._from_state(model._state(), resolve).random_state is None


def test_a_precomputed_machine_survives() -> None:
    model = SVC(kernel="precomputed").fit(X @ X.T, Y)
    state = model._state()
    again = SVC._from_state(state, resolve)
    np.testing.assert_array_equal(again.predict(X @ X.T), model.predict(X @ X.T))
    state["support_"][-1] = 30
    with pytest.raises(ValueError, match="a column for each training row"):
        SVC._from_state(state, resolve)


# ---------------------------------------------------------------------- values that do not fit
def entry(name, value):
    def change(state):
        state[name] = value(state[name])

    return change


def param(**given):
    return lambda state: state["params"].update(given)


ANY = [
    (
        entry("n_features_in_", lambda d: d + 1),
        r"support_vectors_ has shape \(\d+, 3\), expected \(\d+, 4",
    ),
    (lambda s: s["report_"].pop("precision"), "precision"),
    (lambda s: s["report_"].update(precision=32), "precision"),
    (lambda s: s["report_"].update(precision=["float32"]), "precision"),
    (param(tol="small"), "parameter tol is a str"),
    (param(tol=True), "parameter tol is a bool"),
    (param(tol=-1.0), "tol must be a positive number"),
    (param(cache_size=[1.0]), "parameter cache_size is a list"),
    (param(max_iter=1.5), "parameter max_iter is a float"),
    (param(max_iter=-7), "max_iter must be"),
    (param(gamma=None), "parameter gamma is a NoneType"),
    (param(gamma=np.ones(2)), "parameter gamma is a ndarray"),
    (param(kernel=np.ones(2)), "parameter kernel is a ndarray"),
    (param(kernel="precomputed"), "a column for each training row"),
]
STATES = [(name, *case) for name in MACHINES for case in ANY]
STATES += [
    ("SVC", param(C=[1.0]), "parameter C is a list"),
    ("SVC", param(C=-1.0), "C must be a positive number"),
    ("SVC", param(probability="yes"), "shape|probability must be"),
    ("SVC", param(probability=True), "parameter probability is a bool"),
    ("SVC", param(probability="loo"), r"slope_ and offsets_ have shapes \(0,\)"),
    ("SVC loo", param(probability=None), r"slope_ and offsets_ have shapes \(1,\)"),
    ("SVC", param(class_weight={"part": 1}), "neither plain"),
    ("SVC", param(class_weight={"pairs": [1]}), "plain pairs"),
    ("SVC kernel", lambda s: s["kernel_"]["params"].update(length_scale=[1.0, 2.0]), "shapes"),
    ("SVC loo", entry("slope_", lambda a: np.ones(2)), "shape"),
    ("SVC loo", entry("offsets_", lambda a: np.zeros(2)), "shape"),
    ("SVR", param(epsilon=None), "parameter epsilon is a NoneType"),
    ("SVR", param(epsilon=-0.1), "epsilon must be"),
    ("SVR", param(C=np.inf), "C must be finite"),
    ("SVR", lambda s: s.update(classes_={"dtype": "<i8", "values": [0, 1]}), "does not consist of"),
    ("NuSVC", param(nu=1.5), "nu must lie in"),
    ("NuSVC", param(nu="half"), "parameter nu is a str"),
    ("OneClassSVM", param(nu=0), "nu must lie in"),
    ("OneClassSVM", lambda s: s.update(classes_=None), "does not consist of"),
]


@pytest.mark.parametrize(("name", "change", "message"), STATES)
def test_wrong_states(name, change, message, fitted) -> None:
    state = copy.deepcopy(fitted[name]._state())
    change(state)
    with pytest.raises((ValueError, TypeError), match=message):
        type(fitted[name])._from_state(state, resolve)


# ---------------------------------------------------------------------- whole files
@pytest.mark.parametrize("name", ["SVC loo", "SVR", "NuSVC", "NuSVR", "OneClassSVM"])
def test_a_digest_that_fits_does_not_help(name, fitted, tmp_path) -> None:
    path = tmp_path / "m.mercer"
    mercer.save(fitted[name], path)
    assert mercer.load(path).predict(X).tobytes() == fitted[name].predict(X).tobytes()
    with_manifest(path, lambda m: m["state"].update(n_iter_=-1))
    with pytest.raises(ModelFileError, match="n_iter_ must be at least 1"):
        mercer.load(path)


@pytest.mark.parametrize("other", ["SVR", "NuSVR", "OneClassSVM", "GPRegressor"])
def test_a_file_cannot_become_another_machine(other, fitted, tmp_path) -> None:
    path = tmp_path / "m.mercer"
    mercer.save(fitted["SVC"], path)
    with_manifest(path, lambda m: m.update(estimator=other))
    with pytest.raises(ModelFileError, match="do not fit together"):
        mercer.load(path)


def test_what_could_not_be_read_is_not_written(tmp_path) -> None:
    model = SVC().fit(X, Y).set_params(C=-1.0)
    with pytest.raises(ValueError, match="C must be a positive number"):
        mercer.save(model, tmp_path / "m.mercer")
    assert not list(tmp_path.iterdir())
