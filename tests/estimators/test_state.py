"""The state of a machine: what was not written by one is refused before it is built."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from mercer import GPRegressor
from mercer.core.component import Component
from mercer.estimators.shared import state as states
from mercer.kernels import RBF
from mercer.losses import Gaussian
from mercer.persist.registry import part_class

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3))
Y = X[:, 0] + 0.1 * RNG.normal(size=20)


def resolve(name: str) -> type[Component]:
    return part_class(name, {})


@pytest.fixture(scope="module")
def state() -> tuple[dict, dict]:
    model = GPRegressor(1.0 * RBF(), search=None, basis="linear").fit(X, Y)
    model.relevance_ = np.ones(3)
    return model._state()


def built(manifest: dict, arrays: dict) -> GPRegressor:
    return GPRegressor._from_state(manifest, arrays, resolve)


def test_the_state_itself_is_fine(state) -> None:
    again = built(*state)
    assert again.predict(X).shape == (20,)
    assert again.relevance_.shape == (3,)


@pytest.mark.parametrize(
    ("options", "y"),
    [
        ({}, np.column_stack([Y, Y, -Y])),
        ({}, Y[:, None]),
        ({"basis": 2}, np.column_stack([Y, -Y])),
        ({"kernel": RBF(), "loss": Gaussian(np.linspace(0.1, 1.0, 20))}, Y),
        ({"kernel": RBF(), "loss": Gaussian(0.0)}, Y),
        ({"kernel": 2.0 * RBF() + 1.0, "basis": "constant"}, Y),
    ],
)
def test_every_machine_reads_what_it_writes(options, y) -> None:
    model = GPRegressor(search=None, **options).fit(X, y)
    again = built(*model._state())
    assert again.predict(X).tobytes() == model.predict(X).tobytes()
    assert str(again.summary()) == str(model.summary())


ARRAYS = [
    ("units.x_shift", lambda a: a[:1], r"units\.x_shift has shape \(1,\), expected \(3,\)"),
    ("units.x_scale", lambda a: -a, "must be positive"),
    ("units.y_shift", lambda a: np.zeros(5), r"shape \(5,\)"),
    ("units.y_scale", lambda a: a * np.nan, "not finite"),
    ("units.y_scale", lambda a: 0.0 * a, "must be positive"),
    ("units.y_scale", lambda a: np.ones(2), "one output"),
    ("units.y_scale", lambda a: np.ones((1, 1)), "has shape"),
    ("0.points", lambda a: a[:, :2], r"expected \(20, 3\)"),
    ("0.points", lambda a: a[:0], "has shape"),
    ("0.alpha", lambda a: np.round(a).astype(np.int64), "doubles"),
    ("0.alpha", lambda a: a.astype(np.float32), "doubles"),
    ("0.alpha", lambda a: np.hstack([a, a]), "shape"),
    ("0.alpha", lambda a: None, "alpha.*missing"),
    ("0.beta", lambda a: a[:2], "shape|functions"),
    ("0.beta", lambda a: None, "beta is missing"),
    ("0.beta", lambda a: a * np.inf, "not finite"),
    ("0.operator.cholesky", lambda a: a * np.nan, "not finite"),
    ("0.operator.cholesky", lambda a: a - 2.0 * np.eye(20), "must be positive"),
    ("0.operator.cholesky", lambda a: None, "no operator of"),
    ("0.operator.scale", lambda a: -a, "not be negative"),
    ("0.operator.basis_q", lambda a: a[:, :3].copy(), "shape"),
    ("0.operator.basis_r", lambda a: a[:3], "shape"),
    ("0.operator.basis_r", lambda a: 0.0 * a, "must be positive"),
    ("0.operator.basis_r", lambda a: None, "no operator of"),
    ("0.operator.extra", lambda a: np.ones(3), "no operator of"),
    ("loo.mean", lambda a: a[:-1], "shape"),
    ("loo.variance", lambda a: a[:, None], "shape"),
    ("loo.weights", lambda a: -a, "not be negative"),
    ("relevance", lambda a: np.ones(2), "shape"),
    ("relevance", lambda a: -a, "not be negative"),
    ("1.points", lambda a: np.ones((2, 3)), "not part of such a model"),
    ("extra", lambda a: np.ones(2), "not part of such a model"),
]


@pytest.mark.parametrize(("name", "change", "message"), ARRAYS)
def test_wrong_arrays(state, name, change, message, monkeypatch) -> None:
    manifest, arrays = state
    arrays = dict(arrays)
    new = change(arrays.get(name))
    if new is None:
        del arrays[name]
    else:
        arrays[name] = new

    def never(*args, **options):
        raise AssertionError("a part was built before its arrays were checked")

    if "functions" not in message:
        monkeypatch.setattr(states.Component, "from_dict", never)
    with pytest.raises(ValueError, match=message):
        built(manifest, arrays)


FIELDS = [
    (lambda s: s.update(report=[]), "report is a list"),
    (lambda s: s["report"].update(x=np.ones(2)), "more than plain values"),
    (lambda s: s.update(log_evidence="<b>"), "log_evidence is a str"),
    (lambda s: s.update(log_evidence=1), "log_evidence is a int"),
    (lambda s: s.update(n_features=True), "n_features is a bool"),
    (lambda s: s.update(n_features=-3), "at least 1"),
    (lambda s: s.update(n_features=4), "shape"),
    (lambda s: s.update(feature_names=["a", "b"]), "must be 3 texts"),
    (lambda s: s.update(feature_names=["a", "b", 3]), "must be 3 texts"),
    (lambda s: s.update(flat=1), "flat is a int"),
    (lambda s: s.update(flat=False), "shape"),
    (lambda s: s.update(draws=[]), "at least one"),
    (lambda s: s.update(draws=[1]), "at least one"),
    (lambda s: s["draws"].append(s["draws"][0]), "1.points is missing"),
    (lambda s: s["draws"][0].pop("loss"), "at least one"),
    (lambda s: s.update(extra=1), "does not consist of"),
    (lambda s: s.pop("basis"), "does not consist of"),
    (lambda s: s.update(basis=None), "no basis"),
    (lambda s: s["params"].update(other=1), "not those of this estimator"),
    (lambda s: s["basis"]["part"]["params"].update(degree=60), "does not have 4 functions"),
    (lambda s: s["basis"]["part"]["params"].update(degree=10**12), "does not have 4 functions"),
    (lambda s: s.update(kernel=s["loss"]), "Gaussian stands where a Kernel is wanted"),
    (lambda s: s.update(loss=s["kernel"]), "Scale stands where a Loss is wanted"),
    (lambda s: s["draws"][0].update(kernel=s["draws"][0]["loss"]), "a Kernel is wanted"),
    (lambda s: s.update(basis=s["loss"]), "a Basis is wanted"),
    (lambda s: s.update(kernel={"array": "0.alpha"}), "ndarray stands where"),
]


@pytest.mark.parametrize(("change", "message"), FIELDS)
def test_wrong_fields(state, change, message) -> None:
    manifest, arrays = copy.deepcopy(state[0]), state[1]
    change(manifest)
    with pytest.raises(ValueError, match=message):
        built(manifest, arrays)


def test_a_report_must_be_one_that_can_be_shown(state) -> None:
    manifest = copy.deepcopy(state[0])
    manifest["report"]["rows"] = "many"
    with pytest.raises((TypeError, KeyError, ValueError)):
        built(manifest, state[1])


def test_parts_must_fit_the_points(state) -> None:
    manifest = copy.deepcopy(state[0])
    scales = RBF(np.ones(5)).to_dict()
    manifest["draws"][0]["kernel"]["part"]["params"]["kernel"] = scales
    with pytest.raises(ValueError, match="5 entries but the inputs have 3 columns"):
        built(manifest, state[1])


def test_leave_one_out_figures_may_be_undefined() -> None:
    """Figures that do not exist are written and read as what they are."""
    model = GPRegressor(search=None).fit(X, Y)
    model.loo_.mean[0] = np.nan
    assert np.isnan(built(*model._state()).loo_.mean[0])
