"""Model files of support vector machines: what no machine has written is refused, and why."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

import mercer
from mercer import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from mercer.core.component import Component
from mercer.estimators.shared import schema as packing
from mercer.kernels import RBF
from mercer.persist import ModelFileError
from mercer.persist.registry import part_class
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
    manifest, arrays = model._state()
    again = type(model)._from_state(json.loads(json.dumps(manifest)), arrays, resolve)
    assert again.predict(X).tobytes() == model.predict(X).tobytes()
    assert vars(again).keys() == vars(model).keys() - {"_trained"}


def test_a_machine_without_support_vectors_survives() -> None:
    model = SVR(epsilon=10.0).fit(X, T)
    assert len(model.support_) == 0
    again = SVR._from_state(*model._state(), resolve)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_a_generator_is_not_part_of_a_model() -> None:
    model = SVC(random_state=np.random.RandomState(0)).fit(X, Y)
    assert SVC._from_state(*model._state(), resolve).random_state is None


def test_a_precomputed_machine_survives() -> None:
    model = SVC(kernel="precomputed").fit(X @ X.T, Y)
    manifest, arrays = model._state()
    again = SVC._from_state(manifest, arrays, resolve)
    np.testing.assert_array_equal(again.predict(X @ X.T), model.predict(X @ X.T))
    manifest["support"][-1] = 30
    with pytest.raises(ValueError, match="a column for each training row"):
        SVC._from_state(manifest, arrays, resolve)


# ---------------------------------------------------------------------- manifests
ANY = [
    (lambda s: s.pop("kernel"), "does not consist of"),
    (lambda s: s.pop("report"), "does not consist of"),
    (lambda s: s.pop("support"), "does not consist of"),
    (lambda s: s.update(other=1), "does not consist of"),
    (lambda s: s.update(kernel=None), "kernel is a NoneType"),
    (lambda s: s.update(kernel={"array": "dual_coef_"}), "ndarray stands where a Kernel"),
    (lambda s: s.update(n_features=3.0), "n_features is a float"),
    (lambda s: s.update(n_features=True), "n_features is a bool"),
    (lambda s: s.update(n_features=0), "at least 1"),
    (lambda s: s.update(n_features=4), r"support_vectors_ has shape \(\d+, 3\), expected \(\d+, 4"),
    (lambda s: s.update(feature_names=["a", "b"]), "must be 3 texts"),
    (lambda s: s.update(feature_names=["a", "b", 3]), "must be 3 texts"),
    (lambda s: s.update(feature_names="abc"), "feature_names is a str"),
    (lambda s: s.update(support={}), "support is a dict"),
    (lambda s: s["support"].pop(), "has shape"),
    (lambda s: s["support"].reverse(), "each larger than"),
    (lambda s: s["support"].insert(0, s["support"][0]), "each larger than"),
    (lambda s: s["support"].__setitem__(0, -1), "row numbers"),
    (lambda s: s["support"].__setitem__(0, False), "row numbers"),
    (lambda s: s["support"].__setitem__(-1, 99.0), "row numbers"),
    (lambda s: s["support"].__setitem__(-1, 10**40), "row numbers"),
    (lambda s: s.update(report=[]), "report is a list"),
    (lambda s: s["report"].pop("precision"), "precision"),
    (lambda s: s["report"].update(precision=32), "precision"),
    (lambda s: s["report"].update(precision=["float32"]), "precision"),
    (lambda s: s["report"].update(x=np.ones(2)), "more than plain values"),
    (lambda s: s.update(iterations="many"), "iterations is a str"),
    (lambda s: s.update(iterations=0), "at least 1"),
    (lambda s: s.update(extra=None), "extra is a NoneType"),
    (lambda s: s["extra"].update(support_=1.0), "extra does not consist of"),
    (lambda s: s["params"].update(other=1), "not those of this estimator"),
    (lambda s: s["params"].update(tol="small"), "parameter tol is a str"),
    (lambda s: s["params"].update(tol=True), "parameter tol is a bool"),
    (lambda s: s["params"].update(tol=-1.0), "tol must be a positive number"),
    (lambda s: s["params"].update(cache_size=[1.0]), "parameter cache_size is a list"),
    (lambda s: s["params"].update(max_iter=1.5), "parameter max_iter is a float"),
    (lambda s: s["params"].update(max_iter=-7), "max_iter must be"),
    (lambda s: s["params"].update(gamma=None), "parameter gamma is a NoneType"),
    (lambda s: s["params"].update(gamma={"array": "dual_coef_"}), "parameter gamma is a dict"),
    (lambda s: s["params"].update(kernel={"array": "dual_coef_"}), "none that a machine can have"),
    (lambda s: s["params"].update(kernel="precomputed"), "a column for each training row"),
]
MANIFESTS = [(name, *case) for name in MACHINES for case in ANY]
MANIFESTS += [
    ("SVC", lambda s: s["params"].update(C=[1.0]), "parameter C is a list"),
    ("SVC", lambda s: s["params"].update(C=-1.0), "C must be a positive number"),
    ("SVC", lambda s: s["params"].update(probability="yes"), "shape|probability must be"),
    ("SVC", lambda s: s["params"].update(probability=True), "parameter probability is a bool"),
    ("SVC", lambda s: s["params"].update(probability="loo"), r"slope_ has shape \(0,\)"),
    ("SVC loo", lambda s: s["params"].update(probability=None), r"has shape \(1,\)"),
    ("SVC", lambda s: s["params"].update(class_weight={"part": 1}), "none that a machine can have"),
    ("SVC", lambda s: s["params"].update(class_weight={"pairs": [1]}), "plain pairs"),
    ("SVC", lambda s: s["extra"].pop("slope_"), "extra does not consist of slope_"),
    ("SVC loo", lambda s: s["extra"].update(slope_=1.0), "slope_.*missing|not its array"),
    ("SVC loo", lambda s: s["extra"].update(slope_={"array": "extra.offsets_"}), "not its array"),
    (
        "SVC kernel",
        lambda s: s["kernel"]["part"]["params"].update(length_scale=[1.0, 2.0]),
        "shapes",
    ),
    ("SVR", lambda s: s["params"].update(epsilon=None), "parameter epsilon is a NoneType"),
    ("SVR", lambda s: s["params"].update(epsilon=-0.1), "epsilon must be"),
    ("SVR", lambda s: s["params"].update(C=np.inf), "C must be finite"),
    ("SVR", lambda s: s.update(classes={"dtype": "<i8", "values": [0, 1]}), "does not consist of"),
    ("NuSVC", lambda s: s["params"].update(nu=1.5), "nu must lie in"),
    ("NuSVC", lambda s: s["params"].update(nu="half"), "parameter nu is a str"),
    ("NuSVR", lambda s: s["extra"].update(epsilon_="0.1"), "epsilon_ is not a finite number"),
    ("NuSVR", lambda s: s["extra"].update(epsilon_=np.nan), "epsilon_ is not a finite number"),
    ("NuSVR", lambda s: s["extra"].pop("epsilon_"), "extra does not consist of epsilon_"),
    ("OneClassSVM", lambda s: s["params"].update(nu=0), "nu must lie in"),
    ("OneClassSVM", lambda s: s.update(classes=None), "does not consist of"),
]
for classifier in ("SVC", "SVC three", "NuSVC"):
    MANIFESTS += [
        (classifier, lambda s: s.pop("classes"), "does not consist of"),
        (classifier, lambda s: s.update(classes=None), "classes is a NoneType"),
        (classifier, lambda s: s["classes"].update(values=[0]), "at least two labels"),
        (classifier, lambda s: s["classes"].update(values="ab"), "at least two labels"),
        (classifier, lambda s: s["classes"].update(values=[0, 1, 2, 3]), "machines"),
        (classifier, lambda s: s["classes"].update(dtype="<f4x"), "data type|understood"),
        (classifier, lambda s: s["classes"]["values"].reverse(), "not sorted"),
        (classifier, lambda s: s["classes"]["values"].__setitem__(0, [1]), "neither a text"),
    ]


@pytest.mark.parametrize(("name", "change", "message"), MANIFESTS)
def test_wrong_manifests(name, change, message, fitted) -> None:
    manifest, arrays = fitted[name]._state()
    change(manifest)
    with pytest.raises((ValueError, TypeError), match=message):
        type(fitted[name])._from_state(manifest, arrays, resolve)


# ---------------------------------------------------------------------- arrays
ARRAYS = [
    ("support_vectors_", lambda a: None, "support_vectors_.*missing"),
    ("support_vectors_", lambda a: a[:, :2], r"expected \(\d+, 3\)"),
    ("support_vectors_", lambda a: a * np.nan, "not finite"),
    ("support_vectors_", lambda a: a.astype(np.float32), "doubles"),
    ("dual_coef_", lambda a: None, "dual_coef_.*missing"),
    ("dual_coef_", lambda a: a[:, 1:], "dual_coef_ has shape"),
    ("dual_coef_", lambda a: a[0], "dual_coef_ has shape"),
    ("dual_coef_", lambda a: np.vstack([a, a]), "dual_coef_ has shape"),
    ("dual_coef_", lambda a: a + np.inf, "not finite"),
    ("intercept_", lambda a: None, "intercept_.*missing"),
    ("intercept_", lambda a: np.zeros(7), "one value for each"),
    ("intercept_", lambda a: np.zeros((1, 1)), "one value for each"),
    ("intercept_", lambda a: a + np.nan, "not finite"),
    ("another", lambda a: np.ones(2), "not part of such a model"),
]


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize(("array", "change", "message"), ARRAYS)
def test_wrong_arrays(name, array, change, message, fitted, monkeypatch) -> None:
    manifest, arrays = fitted[name]._state()
    new = change(arrays.get(array))
    arrays = {k: v for k, v in arrays.items() if k != array}
    if new is not None:
        arrays[array] = new

    def never(*args, **options):
        raise AssertionError("a part was built before its arrays were checked")

    monkeypatch.setattr(packing.Component, "from_dict", never)
    with pytest.raises(ValueError, match=message):
        type(fitted[name])._from_state(manifest, arrays, resolve)


@pytest.mark.parametrize(
    ("array", "value", "message"),
    [
        ("extra.slope_", np.array([-1.0]), "slope_ must not be negative"),
        ("extra.slope_", np.array([np.nan]), "not finite"),
        ("extra.slope_", np.ones(2), "shape"),
        ("extra.offsets_", np.zeros(2), "shape"),
        ("extra.offsets_", np.array([np.inf]), "not finite"),
    ],
)
def test_wrong_sigmoids(array, value, message, fitted) -> None:
    manifest, arrays = fitted["SVC loo"]._state()
    with pytest.raises(ValueError, match=message):
        SVC._from_state(manifest, {**arrays, array: value}, resolve)


# ---------------------------------------------------------------------- whole files
@pytest.mark.parametrize("name", ["SVC loo", "SVR", "NuSVC", "NuSVR", "OneClassSVM"])
def test_a_digest_that_fits_does_not_help(name, fitted, tmp_path) -> None:
    path = tmp_path / "m.mercer"
    mercer.save(fitted[name], path)
    assert mercer.load(path).predict(X).tobytes() == fitted[name].predict(X).tobytes()
    with_manifest(path, lambda m: m["state"].update(iterations=-1))
    with pytest.raises(ModelFileError, match="iterations must be at least 1"):
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
