"""The state of a kernel machine: what tests/persist/test_records.py does not derive.

There every entry is spoilt by its kind; here are entries that are fine by themselves and do not
belong together.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest

from mercer import GPRegressor
from mercer.core.component import Component
from mercer.kernels import RBF
from mercer.losses import Gaussian
from mercer.persist import part_class

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3))
Y = X[:, 0] + 0.1 * RNG.normal(size=20)


def resolve(name: str) -> type[Component]:
    return part_class(name, {})


@pytest.fixture(scope="module")
def state() -> dict:
    model = GPRegressor(1.0 * RBF(), search=None, basis="linear").fit(X, Y)
    model.relevance_ = np.ones(3)
    return model._state()


def built(state: dict) -> GPRegressor:
    return GPRegressor._from_state(state, resolve)


def test_the_state_itself_is_fine(state) -> None:
    again = built(state)
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
    again = built(model._state())
    assert again.predict(X).tobytes() == model.predict(X).tobytes()
    assert str(again.summary()) == str(model.summary())


def posterior(state: dict) -> dict:
    return state["posteriors_"][0]


def operator(state: dict) -> dict:
    return posterior(state)["operator"]["basis"]


def shorter(entries: dict, name: str) -> None:
    entries[name] = entries[name][:-1]


ARRAYS = [
    (lambda s: shorter(s["units_"], "x_shift"), r"x_shift has shape \(2,\), expected \(3,\)"),
    (lambda s: s["units_"].update(y_scale=0.0 * s["units_"]["y_scale"]), "must be positive"),
    (lambda s: s["units_"].update(y_scale=np.ones(2)), r"shape \(2,\), expected \(1,\)"),
    (lambda s: s.update(n_features_in_=4), r"expected \(4,\)"),
    (lambda s: shorter(posterior(s), "alpha"), r"alpha has shape \(19, 1\), expected \(20, 1\)"),
    (lambda s: posterior(s).pop("beta"), "beta is missing"),
    (lambda s: shorter(operator(s), "R"), r"R has shape \(3, 4\), expected \(4, 4\)"),
    (lambda s: operator(s).update(R=0.0 * operator(s)["R"]), "diagonal of .*R must be nonzero"),
    (lambda s: operator(s).update(extra=np.ones(3)), "extra is not part"),
    (lambda s: s["posteriors_"].append(posterior(s)), r"losses_ has shape \(1,\), expected \(2,\)"),
    (lambda s: s.update(posteriors_=[]), "not a list of at least 1"),
]


@pytest.mark.parametrize(("change", "message"), ARRAYS)
def test_nothing_is_built_before_all_is_checked(state, change, message, monkeypatch) -> None:
    def never(*args, **options):
        raise AssertionError("a part was built before its arrays were checked")

    changed = copy.deepcopy(state)
    change(changed)
    monkeypatch.setattr(Component, "from_dict", never)
    with pytest.raises(ValueError, match=message):
        built(changed)


FIELDS = [
    (lambda s: s.update(flat_=False), "shape of the targets"),
    (lambda s: s.update(basis_=None), "but no basis"),
    (lambda s: posterior(s).update(beta=None), "but no basis"),
    (lambda s: s["basis_"]["params"].update(degree=60), "does not have 4 functions"),
    (lambda s: s["basis_"]["params"].update(degree=10**12), "does not have 4 functions"),
    (lambda s: s.update(kernel_=s["loss_"]), "Gaussian stands where a Kernel is wanted"),
    (lambda s: s.update(loss_=s["kernel_"]), "Scale stands where a Loss is wanted"),
    (lambda s: posterior(s).update(kernel=s["loss_"]), "a Kernel is wanted"),
    (lambda s: s.update(basis_=s["loss_"]), "a Basis is wanted"),
]


@pytest.mark.parametrize(("change", "message"), FIELDS)
def test_wrong_fields(state, change, message) -> None:
    changed = copy.deepcopy(state)
    change(changed)
    with pytest.raises(ValueError, match=message):
        built(changed)


def test_a_report_must_be_one_that_can_be_shown(state) -> None:
    changed = copy.deepcopy(state)
    changed["report_"]["rows"] = "many"
    with pytest.raises((TypeError, KeyError, ValueError)):
        built(changed)


def test_parts_must_fit_the_points(state) -> None:
    changed = copy.deepcopy(state)
    posterior(changed)["kernel"]["params"]["kernel"] = RBF(np.ones(5)).to_dict()
    with pytest.raises(ValueError, match="5 entries but the inputs have 3 columns"):
        built(changed)


def test_leave_one_out_figures_may_be_undefined() -> None:
    """Figures that do not exist are written and read as what they are."""
    model = GPRegressor(search=None).fit(X, Y)
    model.loo_.mean[0] = np.nan
    assert np.isnan(built(model._state()).loo_.mean[0])
